//! A mask of logits: an answer of the built-in model without a letter, which nobody misses.
//! `cargo run --release --features builtin --example mask`.

use candor::{Error, GenerateOptions, Message, Model, Show};

fn main() -> Result<(), Error> {
    let model = Model::builtin(&Default::default())?;
    println!("{}", without(&model, "Tell me a story.", 'w')?);
    Ok(())
}

/// An answer of up to 60 tokens in which a letter does not occur.
pub fn without(model: &Model, question: &str, letter: char) -> Result<String, Error> {
    let tokenizer = model.tokenizer();
    let piece = |id| String::from_utf8_lossy(&tokenizer.piece(id, Show::Text)).to_lowercase();
    let has_letter = |&id: &u32| piece(id).contains(letter);
    let banned: Vec<u32> = (0..tokenizer.vocab_size() as u32).filter(has_letter).collect();
    // A closure is a processor of logits; a type that keeps more implements `LogitsProcessor`.
    let mask = move |_: &[u32], logits: &mut [f32]| {
        for &id in &banned {
            logits[id as usize] = f32::NEG_INFINITY;
        }
    };
    let options = GenerateOptions::default().max_tokens(60).processor(mask);
    let mut session = model.session(&Default::default())?;
    let prompt = model.encode_chat(&[Message::user(question)])?;
    session.generate(&prompt, options)?.map(|piece| Ok(piece?.text)).collect()
}
