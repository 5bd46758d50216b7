//! `candor tokenize`: the ids of a text and what each stands for.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use candor::{Encode, Show, Tokenizer};

use crate::{
    args::{Line, TokenizeArgs},
    errors::Error,
    open::Source,
    output::say,
    text,
};

/// Runs the command.
pub fn tokenize(args: &TokenizeArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.with(args.metadata.overrides());
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
            writeln!(out, "{id:>6}  {}", text::quoted(&tokenizer.piece(id, Show::Specials)))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
