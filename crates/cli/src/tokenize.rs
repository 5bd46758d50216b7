//! `candor tokenize`: the ids of a text and what each stands for.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use candor::tokenizer::{Encode, Show, Tokenizer};

use crate::{
    args::{Line, TokenizeArgs},
    errors::Error,
    open::Source,
    output::say,
    text,
};

/// Runs the command.
pub fn tokenize(args: &TokenizeArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?;
    let text = match (line.exclusive(&["prompt", "file"])?, &args.prompt, &args.file) {
        (Some("prompt"), Some(prompt), _) => prompt.clone(),
        (Some("file"), _, Some(path)) => text::of_file(path)?,
        _ if io::stdin().is_terminal() => return Err(Error::NoPrompt),
        _ => text::of_stdin()?,
    };
    let tokenizer = Tokenizer::from_metadata(source.gguf()?.metadata())?;
    for warning in tokenizer.warnings() {
        say!("warning: {warning}");
    }
    let ids = tokenizer.encode(&text, Encode { bos: !args.no_bos, specials: !args.no_parse_special });
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.ids {
        let list: Vec<String> = ids.iter().map(u32::to_string).collect();
        writeln!(out, "[{}]", list.join(", "))?;
    } else {
        for id in ids {
            writeln!(out, "{id:>6}  {}", quoted(&tokenizer.piece(id, Show::Specials)))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A piece between quotes, on one line; a byte that is no character by itself as `\xE2`.
fn quoted(piece: &[u8]) -> String {
    let mut text = String::from("'");
    for chunk in piece.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => text.push(c),
                c => text.extend(c.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02X}"));
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_quoted() {
        for (piece, expected) in [
            (b" the".as_slice(), "' the'"),
            (b"it's", r"'it\'s'"),
            (b"\"\n", "'\"\\n'"),
            (b"\xe2\x82", r"'\xE2\x82'"),
            ("\u{e9}".as_bytes(), "'\u{e9}'"),
            (b"", "''"),
        ] {
            assert_eq!(quoted(piece), expected);
        }
    }
}
