//! `candor gguf`: files with other metadata, other names, fewer tensors, or in another number of parts.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use candor_convert::{Change, edited, value};
use candor_gguf::{Gguf, Split, Writer};
use clap::error::ErrorKind;

use crate::{
    args::{GgufAction, GgufArgs, Line},
    errors::Error,
    near::nearest,
    open,
    output::Bytes,
    waiting::Waiting,
    written::{refuse_input, stem},
};

/// Tensors of a file where neither flag says: as llama-gguf-split has it.
const TENSORS: usize = 128;

/// Runs the command.
pub fn gguf(args: &GgufArgs, line: &Line) -> Result<ExitCode, Error> {
    let splits = args.action == GgufAction::Split;
    let split = match (splits, line.exclusive(&["split_max_tensors", "split_max_size"])?) {
        (false, Some(flag)) => {
            let message = format!("--{} is for split", flag.replace('_', "-"));
            return Err(line.usage_error(ErrorKind::ArgumentConflict, message));
        }
        (_, Some("split_max_size")) => Split::Bytes(args.split_max_size.unwrap_or(u64::MAX)),
        _ => Split::Tensors(args.split_max_tensors.map_or(TENSORS, |most| most as usize)),
    };
    let needs_words = !matches!(args.action, GgufAction::Split | GgufAction::Merge);
    if needs_words == args.words.is_empty() {
        let message = if needs_words { "expected words after OUTPUT" } else { "expected no words after OUTPUT" };
        return Err(line.usage_error(ErrorKind::WrongNumberOfValues, message));
    }
    // Parts have numbers: none is called as OUTPUT is.
    let output = if splits { stem(&args.output) } else { args.output.clone() };
    refuse_input(&args.input, &output, splits)?;
    let file = open::unmapped(&args.input)?;
    let writer = edited(&file, &changes(args, &file)?)?;
    let waiting = Waiting::new(args.waiting.progress, "writing");
    let paths = write(args, &writer, split)?;
    drop(waiting);
    let mut out = io::stdout().lock();
    for path in paths {
        let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        writeln!(out, "wrote {}: {}", path.display(), Bytes(size))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn write(args: &GgufArgs, writer: &Writer, split: Split) -> Result<Vec<PathBuf>, Error> {
    if args.action == GgufAction::Split {
        return Ok(writer.write_shards(stem(&args.output), split)?);
    }
    writer.write_file(&args.output)?;
    Ok(vec![args.output.clone()])
}

/// What the words ask for.
fn changes(args: &GgufArgs, file: &Gguf) -> Result<Vec<Change>, Error> {
    let pair = |word: &str| -> Result<(String, String), Error> {
        let (name, rest) = word.split_once('=').ok_or_else(|| Error::Setting(format!("{word}: expected NAME=...")))?;
        Ok((name.to_owned(), rest.to_owned()))
    };
    let keys = || file.metadata().iter().map(|(key, _)| key);
    let tensors = || file.tensors().iter().map(|tensor| tensor.name.as_str());
    args.words
        .iter()
        .map(|word| match args.action {
            GgufAction::Set => {
                let (key, text) = pair(word)?;
                let now = file.metadata().get(&key);
                let value = value(&text, now).map_err(|problem| {
                    let near = if now.is_none() { nearest(&key, keys()) } else { None };
                    missing(&key, &problem, near)
                })?;
                Ok(Change::Set(key, value))
            }
            GgufAction::Unset => match file.metadata().get(word) {
                Some(_) => Ok(Change::Unset(word.clone())),
                None => Err(missing(word, "the file has no such key", nearest(word, keys()))),
            },
            GgufAction::Rename => {
                let (from, to) = pair(word)?;
                match file.tensor(&from) {
                    Some(_) => Ok(Change::Rename { from, to }),
                    None => Err(missing(&from, "the file has no such tensor", nearest(&from, tensors()))),
                }
            }
            _ => match tensors().any(|name| name.contains(word.as_str())) {
                true => Ok(Change::Extract(args.words.clone())),
                false => Err(missing(word, "no tensor has this in its name", nearest(word, tensors()))),
            },
        })
        .collect()
}

fn missing(name: &str, problem: &str, near: Option<&str>) -> Error {
    let near = near.map(|near| format!("; is {near} meant?")).unwrap_or_default();
    Error::Setting(format!("{name}: {problem}{near}"))
}
