//! A conversation with the built-in model: `cargo run --release --features builtin --example chat`.

use std::io::{BufRead, Write, stdin, stdout};

use candor::{GenerateOptions, Message, Model, Session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut session = Model::builtin(&Default::default())?.session(&Default::default())?;
    let mut messages = Vec::new();
    for line in stdin().lock().lines() {
        say(&mut session, &mut messages, &line?, Default::default(), &mut stdout())?;
    }
    Ok(())
}

/// Answers a line: the answer is written as it comes, and joins the conversation.
pub fn say(
    session: &mut Session,
    messages: &mut Vec<Message>,
    line: &str,
    options: GenerateOptions,
    out: &mut impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    messages.push(Message::user(line));
    let prompt = session.model().encode_chat(messages)?;
    let mut answer = String::new();
    // The session keeps what it has read: each turn computes only what is new.
    for piece in session.generate(&prompt, options)? {
        let text = piece?.text;
        write!(out, "{text}")?;
        out.flush()?;
        answer.push_str(&text);
    }
    writeln!(out)?;
    messages.push(Message::assistant(answer));
    Ok(())
}
