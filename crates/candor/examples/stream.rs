//! Continues a text, piece by piece, until it is long enough or Enter is pressed:
//! `cargo run --release --example stream -- model.gguf "Once upon a time"`.

use std::io::{Write, stdin, stdout};

use candor::{Cancel, GenerateOptions, Model, Session, StopReason};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(text)) = (args.next(), args.next()) else { return Err("usage: stream MODEL TEXT".into()) };

    let mut session = Model::open(path, &Default::default())?.session(&Default::default())?;
    let cancel = Cancel::new();
    let pressed = cancel.clone();
    std::thread::spawn(move || stdin().read_line(&mut String::new()).map(|_| pressed.cancel()));
    print!("{text}");
    let why = stream(&mut session, &text, &cancel, &mut stdout())?;
    println!("\n({why:?})");
    Ok(())
}

/// Writes up to 100 tokens that follow a text, as they come, and says why it ended.
pub fn stream(
    session: &mut Session,
    text: &str,
    cancel: &Cancel,
    out: &mut impl Write,
) -> Result<Option<StopReason>, Box<dyn std::error::Error>> {
    let prompt = session.model().encode_prompt(text);
    let options = GenerateOptions::default().max_tokens(100).cancel(cancel.clone());
    let mut generation = session.generate(&prompt, options)?;
    for piece in &mut generation {
        write!(out, "{}", piece?.text)?;
        out.flush()?;
    }
    Ok(generation.stop_reason())
}
