//! Saves a session of the built-in model to a file, and goes on from there another time:
//! `cargo run --release --features builtin --example save -- session.bin "Tell me a story."`.

use std::{fs, path::Path};

use candor::{GenerateOptions, Message, Model, Sampling};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(text)) = (args.next(), args.next()) else { return Err("usage: save FILE TEXT".into()) };

    let (answer, computed) = answer(&Model::builtin(&Default::default())?, file.as_ref(), &text)?;
    println!("{answer}\n({computed} tokens of the prompt were computed)");
    Ok(())
}

/// An answer, and how many tokens of the prompt were not in the file, which is written again.
pub fn answer(model: &Model, file: &Path, text: &str) -> Result<(String, usize), Box<dyn std::error::Error>> {
    let mut session = model.session(&Default::default())?;
    if file.exists() {
        // An error here says what differs: the model, the cache's formats.
        session.load(&fs::read(file)?)?;
    }
    let options = GenerateOptions::default().max_tokens(30).sampling(Sampling::greedy());
    let mut answer = String::new();
    let mut generation = session.generate(&model.encode_chat(&[Message::user(text)])?, options)?;
    for piece in &mut generation {
        answer.push_str(&piece?.text);
    }
    let computed = generation.timings().prompt_tokens;
    session.save(&mut fs::File::create(file)?)?;
    Ok((answer, computed))
}
