//! A conversation with the built-in model: `cargo run --release --features builtin --example chat`.

use std::io::{BufRead, Write};

use candor::{Message, Model};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::builtin(&Default::default())?;
    let mut session = model.session(&Default::default())?;
    let mut messages = Vec::new();
    for line in std::io::stdin().lock().lines() {
        messages.push(Message::user(line?));
        let mut answer = String::new();
        // The session keeps what it has read: each turn computes only what is new.
        for piece in session.generate(&model.chat(&messages)?, Default::default())? {
            let text = piece?.text;
            print!("{text}");
            std::io::stdout().flush()?;
            answer.push_str(&text);
        }
        println!();
        messages.push(Message::assistant(answer));
    }
    Ok(())
}
