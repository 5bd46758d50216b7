//! Model files by name: from Hugging Face, from Ollama's registry and from addresses, fetched in pieces and checked.
//!
//! A [`Hub`] finds what is on this machine ([`Hub::find`]) and fetches what is not ([`Hub::pull`]). Files lie where the other
//! programs of each source look for them, so that nothing is fetched once for each program. No other method of it contacts a
//! server. It blocks, and computes in threads of its own while it lasts. A [`Post`] sends bytes over the same connections.
#![forbid(unsafe_code)]

mod address;
mod disk;
mod error;
mod fetch;
mod hf;
mod http;
mod name;
mod ollama;
mod partial;
mod post;
mod select;
mod settings;
mod store;
mod url;

use std::path::PathBuf;

pub use error::Error;
pub use fetch::Watch;
pub use name::{Name, Part};
pub use post::{Post, Posted};
pub use settings::Settings;
pub use store::{Entry, State};

/// Where models are looked for and fetched from.
#[derive(Clone, Debug)]
pub struct Hub {
    settings: Settings,
}

/// What was fetched, or was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The model's file, or the first one of a split model.
    pub model: PathBuf,
    /// All files of the name, the model's first.
    pub files: Vec<PathBuf>,
    /// Bytes that came over the network.
    pub fetched: u64,
}

impl Hub {
    /// With these settings.
    pub fn new(settings: Settings) -> Hub {
        Hub { settings }
    }

    /// Fetches a model, or what is missing of it. Whether it has changed is asked where it comes from.
    ///
    /// # Errors
    /// If it is not there, cannot be reached, is not what it should be, or does not fit on the disk. What had come stays, and the
    /// next call goes on with it.
    pub fn pull(&self, name: &Name, watch: Watch<'_>) -> Result<Pulled, Error> {
        if self.settings.offline {
            return self.find(name).map(Pulled::found).ok_or_else(|| Error::Offline { name: name.to_string() });
        }
        match name {
            Name::Hf { repo, revision, part } => hf::pull(&self.settings, repo, revision, part, watch),
            Name::Ollama { host, path, tag } => ollama::pull(&self.settings, host, path, tag, watch),
            Name::Address(url) => address::pull(&self.settings, url, watch),
        }
    }

    /// The model's file, if it is on this machine, without asking anybody else.
    pub fn find(&self, name: &Name) -> Option<PathBuf> {
        match name {
            Name::Hf { repo, revision, part } => hf::find(&self.settings, repo, revision, part),
            Name::Ollama { host, path, tag } => ollama::find(&self.settings, host, path, tag),
            Name::Address(url) => address::find(&self.settings, url),
        }
    }

    /// What is on this machine, by name.
    ///
    /// # Errors
    /// If a folder is there and cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>, Error> {
        store::list(&self.settings)
    }

    /// The file of a model that is on this machine under this name, written with or without the `hf:` or `ollama:` before it.
    ///
    /// # Errors
    /// If a folder is there and cannot be read.
    pub fn named(&self, text: &str) -> Result<Option<PathBuf>, Error> {
        store::named(&self.settings, text)
    }

    /// Removes the files of a name, and what of it is unfinished. Gives the bytes that are free again. What another name needs too
    /// stays.
    ///
    /// # Errors
    /// If nothing has this name, or files cannot be removed.
    pub fn remove(&self, text: &str) -> Result<u64, Error> {
        store::remove(&self.settings, text)
    }
}

impl Pulled {
    fn found(model: PathBuf) -> Pulled {
        Pulled { files: vec![model.clone()], model, fetched: 0 }
    }
}
