//! A model that reads a text and answers it: `cargo run --release --example t5 -- flan-t5.gguf "Translate to German: Good day."`.

use candor::{Error, GenerateOptions, Model, Sampling};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(text)) = (args.next(), args.next()) else { return Err("usage: t5 MODEL TEXT".into()) };

    let model = Model::open(path, &Default::default())?;
    if !model.is_encoder_decoder() {
        return Err("the model has no encoder that reads a text".into());
    }
    println!("{}", answer(&model, &model.encode_prompt(&text))?);
    Ok(())
}

/// The answer to a text, given by its tokens. The encoder reads them; the answer begins with the decoder's start token.
pub fn answer(model: &Model, text: &[u32]) -> Result<String, Error> {
    let mut session = model.session(&Default::default())?;
    let options = GenerateOptions::default().max_tokens(100).sampling(Sampling::greedy());
    session.generate(text, options)?.map(|piece| Ok(piece?.text)).collect()
}
