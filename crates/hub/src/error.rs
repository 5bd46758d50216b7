//! What keeps a model from coming.

use std::{io, path::PathBuf, time::Duration};

/// What keeps a model from coming. [`Error::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no name of a model.
    #[error("{text}: {problem}")]
    Name {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// It is not on this machine, and nothing may be asked.
    #[error("{name}: it is not on this machine, and nothing is fetched offline")]
    Offline {
        /// The name.
        name: String,
    },
    /// Nothing on this machine has this name.
    #[error("{name}: no model on this machine has this name")]
    NotHere {
        /// The name.
        name: String,
    },
    /// 401: who asks is not known there.
    #[error("{name}: {host} asks for a login (401)")]
    Unauthorized {
        /// What was asked for.
        name: String,
        /// Who answered.
        host: String,
        /// Whether a token was sent.
        token: bool,
        /// Whether its owner lets only those in who agreed to terms.
        gated: bool,
        /// A page about it.
        page: Option<String>,
    },
    /// 403: who asks may not have it.
    #[error("{name}: {host} refuses it (403)")]
    Forbidden {
        /// What was asked for.
        name: String,
        /// Who answered.
        host: String,
        /// A page about it.
        page: Option<String>,
    },
    /// 404: it is not there.
    #[error("{name}: {host} does not have it (404)")]
    NotFound {
        /// What was asked for.
        name: String,
        /// Who answered.
        host: String,
    },
    /// No file of a repository is meant.
    #[error("{name}: {problem}")]
    NoFile {
        /// The name.
        name: String,
        /// What is missing.
        problem: String,
        /// The model files that are there.
        there: Vec<String>,
    },
    /// A server cannot be reached, or the connection broke and could not be made again.
    #[error("{host}: {problem}")]
    Connection {
        /// The server.
        host: String,
        /// What happened.
        problem: String,
    },
    /// Nothing came for a while, again and again.
    #[error("{host}: nothing came for {} s", after.as_secs_f64())]
    Stalled {
        /// The server.
        host: String,
        /// How long nothing came.
        after: Duration,
    },
    /// 429 or 5xx: not now.
    #[error("{host} answers with status {status}")]
    Busy {
        /// The server.
        host: String,
        /// The status.
        status: u16,
        /// When to ask again, if it said so.
        after: Option<Duration>,
    },
    /// An answer that has no meaning here.
    #[error("{host}: {problem}")]
    Answer {
        /// The server.
        host: String,
        /// What is wrong with it.
        problem: String,
    },
    /// What came is not what the server says of it.
    #[error("{name}: its SHA-256 is {got}, and should be {expected}")]
    Hash {
        /// The file.
        name: String,
        /// What it should be.
        expected: String,
        /// What it is.
        got: String,
    },
    /// The file became another one while it came.
    #[error("{name}: it changed at its source while it came")]
    Changed {
        /// The file.
        name: String,
    },
    /// There is no room for it.
    #[error("{}: {needed} more bytes are needed, {free} are free", folder.display())]
    Space {
        /// Where it would lie.
        folder: PathBuf,
        /// Bytes that are still to come.
        needed: u64,
        /// Bytes that are free there.
        free: u64,
    },
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The caller wanted no more.
    #[error("the download was stopped")]
    Cancelled,
    /// There is no home folder, and no variable says where files lie.
    #[error("there is no home folder to keep models in")]
    NoHome,
}

impl Error {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Error::Name { .. } => "a name is hf:USER/REPO[:QUANT], ollama:NAME[:TAG] or an address",
            Error::Offline { .. } => {
                "without --offline and HF_HUB_OFFLINE it is fetched; candor list says what is there"
            }
            Error::NotHere { .. } => "candor list says what is there",
            Error::Unauthorized { gated: true, page: Some(page), .. } => {
                return Some(format!("agree to its terms at {page}, and give a token of that account in HF_TOKEN"));
            }
            Error::Unauthorized { token: true, .. } => "the token is not valid there: a new one goes into HF_TOKEN",
            Error::Unauthorized { .. } => {
                "the name may be wrong; if it is private, HF_TOKEN=hf_... gives a token that may read it"
            }
            Error::Forbidden { page: Some(page), .. } => {
                return Some(format!("the account of HF_TOKEN has no access: ask for it at {page}"));
            }
            Error::Forbidden { .. } => "the server lets others have it, or nobody",
            Error::NotFound { .. } => "check the spelling of the name",
            Error::NoFile { there, .. } if there.is_empty() => {
                "it has no GGUF files: look for one with GGUF in its name"
            }
            Error::NoFile { there, .. } => return Some(format!("it has {}", listed(there))),
            Error::Connection { .. } | Error::Stalled { .. } | Error::Busy { .. } => {
                "the same command goes on where it stopped; HTTPS_PROXY names a proxy"
            }
            Error::Hash { .. } => "something between here and the server changes files; nothing of it was kept",
            Error::Changed { .. } => "the same command fetches the new file",
            Error::Space { .. } => "candor list says what takes room, candor rm NAME gives it back",
            Error::File { error, .. } if error.kind() == io::ErrorKind::StorageFull => {
                "make room: the same command goes on where it stopped"
            }
            Error::File { error, .. } if error.kind() == io::ErrorKind::FileTooLarge => {
                "a limit of the file system or of the shell (ulimit -f) keeps files shorter"
            }
            Error::NoHome => "HF_HOME and OLLAMA_MODELS name folders",
            Error::Answer { .. } | Error::File { .. } | Error::Cancelled => return None,
        };
        Some(text.to_owned())
    }

    /// Whether to ask again may help.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Error::Connection { .. } | Error::Stalled { .. } | Error::Busy { .. })
    }
}

/// A few names in a sentence.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
