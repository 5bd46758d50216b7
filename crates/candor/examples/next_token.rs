//! What could come next, and how likely it is: `cargo run --release --example next_token -- model.gguf "The sky is"`.

use candor::{Error, Model};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(text)) = (args.next(), args.next()) else {
        return Err("usage: next_token MODEL TEXT".into());
    };

    for (token, probability) in likeliest(&Model::open(path, &Default::default())?, &text)? {
        println!("{:6.2} %  {token:?}", 100.0 * probability);
    }
    Ok(())
}

/// The ten likeliest tokens and their probabilities.
pub fn likeliest(model: &Model, text: &str) -> Result<Vec<(String, f32)>, Error> {
    let mut session = model.session(&Default::default())?;
    session.evaluate(&model.encode_prompt(text))?;

    let logits = session.logits();
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - max).exp()).sum();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let token = |id: usize| model.tokenizer().token(id as u32).unwrap_or_default().to_owned();
    Ok(order.into_iter().take(10).map(|id| (token(id), (logits[id] - max).exp() / sum)).collect())
}
