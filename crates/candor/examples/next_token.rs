//! What could come next, and how likely it is: `cargo run --release --example next_token -- model.gguf "The sky is"`.

use candor::Model;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(text)) = (args.next(), args.next()) else {
        return Err("usage: next_token MODEL TEXT".into());
    };

    let model = Model::open(path, &Default::default())?;
    let mut session = model.session(&Default::default())?;
    session.evaluate(&model.encode_prompt(&text), |_| true)?;

    let logits = session.logits();
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - max).exp()).sum();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    for &id in order.iter().take(10) {
        let probability = (logits[id] - max).exp() / sum;
        println!("{:6.2} %  {:?}", 100.0 * probability, model.tokenizer().token(id as u32).unwrap_or_default());
    }
    Ok(())
}
