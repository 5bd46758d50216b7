//! Other engines' dumps: read by the library, completed by what the user knows of them, and checked to be of this model.

use std::{path::Path, sync::Arc};

use candor::{Encode, Gguf, Tokenizer};
use candor_inspect::{
    Graph, NameMap, ProjectionBias, Trace, Wiring,
    doctor::{files_of, sha256},
    import::{Imported, ReadOptions, Reading, import},
};

use super::error;
use crate::{
    args::{Line, WaitingArgs, When, inspect::DumpArgs},
    errors::Error,
    open::Source,
    output::say,
    text,
    waiting::Waiting,
};

/// Names and reasons that are shown of a long list.
const SHOWN: usize = 5;
/// Lines of a log that are shown of those that were read, and of those that were not.
const LINES: usize = 10;

/// A dump that was read.
pub struct Dump {
    /// What it holds, with what the user knows of it.
    pub imported: Imported,
    /// Who says which tokens it was made of.
    pub tokens_from: TokensFrom,
}

/// Who says which tokens a dump was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokensFrom {
    /// The dump itself.
    Dump,
    /// The user, or nobody.
    User,
}

/// A model and what the user knows of dumps of it.
pub struct Reader<'a> {
    source: &'a Source,
    options: ReadOptions,
    /// The tokens that the user names.
    given: Option<Vec<u32>>,
    args: &'a DumpArgs,
    waiting: When,
}

impl<'a> Reader<'a> {
    /// A reader of dumps of a model.
    pub fn new(
        (source, gguf): (&'a Source, &Gguf),
        (args, waiting): (&'a DumpArgs, WaitingArgs),
        line: &Line,
    ) -> Result<Reader<'a>, Error> {
        let names = match &args.map {
            Some(path) => NameMap::parse(&text::of_file(path)?)?,
            None => NameMap::default(),
        };
        // The dump does not say whether a projection's output has its bias; the model does.
        let bias = match gguf.tensor("blk.0.attn_q.bias") {
            Some(_) => ProjectionBias::Included,
            None => ProjectionBias::Absent,
        };
        let given = given(gguf, args, line)?;
        let wiring = Graph::new(gguf).ok().map(|graph| Arc::new(Wiring::of(&graph)));
        let options = ReadOptions { width: args.width, names, bias, wiring, tokens: given.clone() };
        Ok(Reader { source, options, given, args, waiting: waiting.progress })
    }

    /// The tokens that the user names.
    pub fn given(&self) -> Option<&[u32]> {
        self.given.as_deref()
    }

    /// Reads a dump and says what of it could not be used.
    ///
    /// # Errors
    /// If it cannot be read, or says that it is of other tokens or of another file.
    pub fn read(&self, path: &Path) -> Result<Dump, Error> {
        let mut imported = import(path, &self.options)?;
        let Imported { trace, unknown, skipped, read, .. } = &mut imported;
        // A log's lines are listed with the report.
        if !unknown.is_empty() && read.is_empty() {
            say!("note: {}: unknown names: {} (--map FILE says what they mean)", path.display(), shortened(unknown));
        }
        if !skipped.is_empty() {
            say!("note: {}: left out: {}", path.display(), shortened(skipped));
        }
        let tokens_from = if trace.origin.tokens.is_some() { TokensFrom::Dump } else { TokensFrom::User };
        self.complete(path, trace)?;
        if !self.args.ignore_hash {
            self.check_file(path, trace)?;
        }
        Ok(Dump { imported, tokens_from })
    }

    /// Adds what the user knows.
    fn complete(&self, path: &Path, trace: &mut Trace) -> Result<(), error::Error> {
        if let Some(given) = &self.given {
            // The user may know the prompt alone, and the trace what was decoded after it.
            let dump = trace.origin.tokens.get_or_insert_with(|| given.clone());
            let length = given.len().min(dump.len());
            let differs = given.iter().zip(dump.iter()).position(|(given, dump)| given != dump);
            if let Some(index) = differs.or_else(|| (given.len() > dump.len()).then_some(length)) {
                let shown = |ids: &[u32]| ids.get(index).map_or_else(|| "missing".to_owned(), u32::to_string);
                let (dump, given) = (shown(dump), shown(given));
                return Err(error::Error::OtherTokens { path: path.to_owned(), index, dump, given });
            }
        }
        if let Some(got) = self.args.prompt_tokens {
            let tokens = trace.origin.tokens.as_ref().map_or(usize::MAX, Vec::len);
            if got == 0 || got > tokens {
                return Err(error::Error::PromptTokens { tokens, got });
            }
            trace.origin.prompt_tokens = Some(got);
        }
        Ok(())
    }

    /// A trace that names its file is held against that file's hash.
    fn check_file(&self, path: &Path, trace: &Trace) -> Result<(), Error> {
        let (Some(dump), Some(model)) = (&trace.origin.model_sha256, self.source.path()) else { return Ok(()) };
        let mut own = Vec::new();
        for file in files_of(model) {
            let _waiting = Waiting::new(self.waiting, "hashing the model's file");
            let hash = sha256(&file).map_err(|error| Error::File { path: file.clone(), error })?;
            if hash.eq_ignore_ascii_case(dump) {
                return Ok(());
            }
            own.push(hash);
        }
        let (model, own) = (model.display().to_string(), own.join(", "));
        Err(error::Error::OtherFile { path: path.to_owned(), dump: dump.clone(), model, own }.into())
    }
}

fn given(gguf: &Gguf, args: &DumpArgs, line: &Line) -> Result<Option<Vec<u32>>, Error> {
    Ok(match (line.exclusive(&["prompt", "ids"])?, &args.prompt, &args.ids) {
        (Some("prompt"), Some(prompt), _) => {
            Some(Tokenizer::from_metadata(gguf.metadata())?.encode(prompt, Encode::prompt()))
        }
        (Some("ids"), _, Some(ids)) => Some(ids.0.clone()),
        _ => None,
    })
}

/// Says how the lines of a log were read.
pub fn say_readings(read: &[Reading], all: bool) {
    let (taken, left): (Vec<&Reading>, Vec<&Reading>) = read.iter().partition(|reading| reading.is_evidence());
    for (word, readings) in [("read", taken), ("did not use", left)] {
        let most = if all { usize::MAX } else { LINES };
        if !readings.is_empty() {
            say!("{word} {} {}:", readings.len(), if readings.len() == 1 { "line" } else { "lines" });
        }
        readings.iter().take(most).for_each(|reading| say!("  {reading}"));
        if readings.len() > most {
            say!("  and {} more (--all lists them)", readings.len() - most);
        }
    }
}

fn shortened(list: &[String]) -> String {
    let shown = list.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match list.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
