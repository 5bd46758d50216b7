//! What an adapter changes: `cargo run --release --example lora -- model.gguf adapter.gguf "Once upon a time"`.

use candor::{Adapter, Error, GenerateOptions, LoadOptions, Model, Sampling};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, adapter, text] = args.as_slice() else { return Err("usage: lora MODEL ADAPTER TEXT".into()) };

    let options = LoadOptions::default().adapters(vec![Adapter::open(adapter)?]);
    let model = Model::open(model, &options)?;
    for scale in [0.0, 0.5, 1.0] {
        println!("{scale}: {text}{}\n", at(&model, text, scale)?);
    }
    Ok(())
}

/// What follows a text, with a scale of the model's adapter. Sessions have scales of their own; 0 costs nothing.
pub fn at(model: &Model, text: &str, scale: f32) -> Result<String, Error> {
    let mut session = model.session(&Default::default())?;
    session.scale_adapters(&[scale])?;
    let options = GenerateOptions::default().max_tokens(30).sampling(Sampling::greedy());
    session.generate(&model.encode_prompt(text), options)?.map(|piece| Ok(piece?.text)).collect()
}
