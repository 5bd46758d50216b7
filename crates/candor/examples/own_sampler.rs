//! A sampler of one's own, eta sampling, tells a story with the built-in model:
//! `cargo run --release --features builtin --example own_sampler`.

use candor::{Error, GenerateOptions, Message, Model, sampler::Sample};

fn main() -> Result<(), Error> {
    let model = Model::builtin(&Default::default())?;
    println!("{}", story(&model, Eta { epsilon: 0.002, random: 1 })?);
    Ok(())
}

/// Draws among tokens that are likely enough, less so where the model is less sure (Hewitt et al. 2022). A generation begins
/// with a clone of it.
#[derive(Clone)]
pub struct Eta {
    /// The least probability of a token that is kept where the model is sure.
    pub epsilon: f32,
    /// The state of a generator (xorshift), not 0.
    pub random: u32,
}

impl Sample for Eta {
    fn choose(&mut self, _: &[u32], logits: &[f32]) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = logits.iter().map(|logit| (logit - max).exp()).sum();
        let p: Vec<f32> = logits.iter().map(|logit| (logit - max).exp() / sum).collect();
        let entropy: f32 = p.iter().filter(|&&p| p > 0.0).map(|p| -p * p.ln()).sum();
        let eta = self.epsilon.min(self.epsilon.sqrt() * (-entropy).exp());
        let kept = |&(_, p): &(u32, f32)| p >= eta;
        let mass: f32 = (0..).zip(p.iter().copied()).filter(kept).map(|(_, p)| p).sum();

        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let mut left = mass * (self.random as f32 / u32::MAX as f32);
        let mut last = None;
        for (token, p) in (0..).zip(p.iter().copied()).filter(kept) {
            (last, left) = (Some(token), left - p);
            if left < 0.0 {
                break;
            }
        }
        last.ok_or_else(|| "no token is likely enough".into())
    }
}

/// Up to 60 tokens of a story.
pub fn story(model: &Model, sampler: impl Sample + Clone + 'static) -> Result<String, Error> {
    let mut session = model.session(&Default::default())?;
    let options = GenerateOptions::default().max_tokens(60).sampler(sampler);
    let prompt = model.encode_chat(&[Message::user("Tell me a story.")])?;
    session.generate(&prompt, options)?.map(|piece| Ok(piece?.text)).collect()
}
