//! What goes wrong between a dump and a verdict, with hints. Exit codes are the command's.

use std::{io, path::PathBuf};

use candor_inspect::{
    DiagnoseError, divergence, file::WriteError, import::ImportError, record::SelectionError, target, text::TextError,
    verify::VerifyError,
};

use crate::{near::nearest, siblings::sibling};

/// What goes wrong in inspection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A dump cannot be read.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A dump cannot be diagnosed.
    #[error(transparent)]
    Diagnose(#[from] DiagnoseError),
    /// Nothing could be verified.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// What is known of a run is no such file.
    #[error("{}: {source}", path.display())]
    Said {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A divergence cannot be measured.
    #[error(transparent)]
    Divergence(#[from] divergence::Error),
    /// No formats can be chosen for a size.
    #[error(transparent)]
    Target(#[from] target::Error),
    /// The side of tokens and text cannot be checked.
    #[error(transparent)]
    Text(TextError),
    /// A trace cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The model has nothing for what is to be recorded.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// A fault that the catalogue has not.
    #[error("{name} is no known fault")]
    UnknownFault {
        /// What was typed.
        name: String,
        /// What may be meant.
        near: Option<&'static str>,
    },
    /// A number that a fault does not come with.
    #[error("{fault}: expected {expected}, got {got}")]
    FaultNumber {
        /// The fault.
        fault: &'static str,
        /// The numbers that it has, in words.
        expected: String,
        /// What was typed.
        got: String,
    },
    /// Faults that change nothing in a model.
    #[error("{faults}: the model has nothing that it could change")]
    Idle {
        /// Their names.
        faults: String,
    },
    /// A dump was made of other tokens than the user says.
    #[error("{}: token {index} is {dump}, {given} was given: the trace is of another prompt", path.display())]
    OtherTokens {
        /// The dump.
        path: PathBuf,
        /// Index of the first token that differs.
        index: usize,
        /// What the dump has there.
        dump: String,
        /// What the user has there.
        given: String,
    },
    /// The embeddings in a dump are of other tokens than the user says.
    #[error("{}: its embeddings are those of other tokens than were given: the trace is of another prompt", path.display())]
    Embedded {
        /// The dump.
        path: PathBuf,
        /// The tokens that they are of, in words.
        tokens: String,
    },
    /// More tokens of prompt than tokens.
    #[error("--prompt-tokens: expected 1 to {tokens}, the tokens of the trace, got {got}")]
    PromptTokens {
        /// Tokens of the trace.
        tokens: usize,
        /// What the user says.
        got: usize,
    },
    /// A dump says that it is of another file.
    #[error("{}: made with a file of SHA-256 {dump}, {model} has {own}: the trace is of another model", path.display())]
    OtherFile {
        /// The dump.
        path: PathBuf,
        /// The hash that it names.
        dump: String,
        /// The model.
        model: String,
        /// Its hash.
        own: String,
    },
    /// Operations have no times where a device takes a whole pass at once.
    #[error("{device}: single operations are timed on the processor alone")]
    Untimed {
        /// What computes.
        device: String,
    },
    /// A tensor that the file has not.
    #[error("--tensor {pattern}: the file has no such tensor")]
    NoTensor {
        /// What was typed.
        pattern: String,
        /// What may be meant.
        near: Option<String>,
    },
    /// An id beyond the vocabulary.
    #[error("--token {id}: the vocabulary has {size} tokens, the last is {}", size.saturating_sub(1))]
    TokenId {
        /// The id.
        id: u32,
        /// Tokens of the vocabulary.
        size: usize,
    },
    /// A text that is no single token.
    #[error("--token {text:?}: no token of the vocabulary has this text")]
    TokenText {
        /// The text.
        text: String,
        /// The tokens that it is.
        ids: Vec<u32>,
    },
    /// The built-in model is no file.
    #[error("the built-in model is no file that could be examined")]
    BuiltIn,
}

impl Error {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Error::Import(ImportError::Io { path, source }) if source.kind() == io::ErrorKind::NotFound => {
                return sibling(path);
            }
            Error::Import(ImportError::Model { what, .. }) if what.contains("llama2.c") => {
                "llama.cpp's llama-convert-llama2c-to-ggml makes a GGUF model of it; a dump is what the engine printed or saved"
            }
            Error::Import(ImportError::Model { .. }) => {
                "candor diagnose MODEL.gguf --trace DUMP, where DUMP is what the engine printed or saved"
            }
            Error::Diagnose(DiagnoseError::NoTokens) | Error::Verify(VerifyError::NoTokens) => {
                "--ids 1,2,3 or -p PROMPT says so"
            }
            Error::Diagnose(DiagnoseError::Rows { .. }) => "--ids 1,2,3 gives the tokens that it was made of",
            Error::Embedded { tokens, .. } => return Some(format!("they are those of {tokens}")),
            Error::Write(WriteError::Io { path, source }) if source.kind() == io::ErrorKind::NotFound => {
                return path.parent().map(|folder| format!("there is no folder {}", folder.display()));
            }
            Error::Selection(SelectionError::Name { pattern, known }) => {
                return Some(match nearest(pattern, known.iter().map(String::as_str)) {
                    Some(near) => format!("is {near} meant?"),
                    None => format!("it has {}", known.join(", ")),
                });
            }
            Error::UnknownFault { near: Some(near), .. } => return Some(format!("is {near} meant?")),
            Error::UnknownFault { near: None, .. } => "candor diagnose --list prints the known faults",
            Error::OtherTokens { .. } => "leave out -p and --ids: the trace says which tokens it was made of",
            Error::OtherFile { .. } => "name the file that it was made with, or add --ignore-hash",
            Error::Untimed { .. } => {
                "--device cpu; a GPU is handed a whole pass at once (candor bench -dev gpu --ops times its kernels)"
            }
            Error::NoTensor { near: Some(near), .. } => return Some(format!("is {near} meant?")),
            Error::NoTensor { near: None, .. } => "candor show --tensors lists them",
            Error::TokenText { ids, .. } => {
                let ids = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                return Some(format!("it is the tokens {ids}; candor tokenize prints what each stands for"));
            }
            Error::BuiltIn => "name one: candor doctor MODEL.gguf; candor verify checks the built-in model",
            _ => return None,
        };
        Some(text.to_owned())
    }
}
