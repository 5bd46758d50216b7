//! How likely a token was, as the model had it before any sampling: in the shape of OpenAI's `logprobs.content`.

use candor::{Show, Tokenizer, top_k};
use serde_json::{Value, json};

/// A chosen token and the `top` likeliest, as JSON.
pub(crate) fn likely(tokenizer: &Tokenizer, logits: &[f32], token: u32, top: usize) -> String {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - greatest).exp()).sum();
    let all = f64::from(greatest) + sum.ln();
    let one = |id: u32, logit: f32| {
        let bytes = tokenizer.piece(id, Show::Specials);
        let text = String::from_utf8_lossy(&bytes);
        json!({ "id": id, "token": text, "logprob": f64::from(logit) - all, "bytes": &bytes[..] })
    };
    let mut best = Vec::new();
    top_k(logits, top, &mut best);
    let mut chosen = one(token, logits.get(token as usize).copied().unwrap_or(f32::NAN));
    chosen["top_logprobs"] = best.into_iter().map(|(id, logit)| one(id, logit)).collect::<Value>();
    chosen.to_string()
}
