//! The file of `--prompt-cache`: read before a prompt, written after it. What is in it, the library knows.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use candor::{Generation, Session, saved};

use crate::{args::PromptCacheArgs, errors::Error, interrupt::Cleanup, output::say};

/// A prompt cache, if the flags name one.
pub struct PromptCache<'a> {
    args: &'a PromptCacheArgs,
    path: Option<&'a Path>,
}

impl<'a> PromptCache<'a> {
    /// The file that the flags name.
    pub fn of(args: &'a PromptCacheArgs) -> PromptCache<'a> {
        PromptCache { args, path: args.prompt_cache.as_deref() }
    }

    /// Gives the session what the file holds. A file that does not belong is said to, and does nothing.
    ///
    /// # Errors
    /// If it cannot be read or is something else altogether, nothing can be saved of this model, or its device fails.
    pub fn read(&self, session: &mut Session) -> Result<(), Error> {
        let Some(path) = self.path else { return Ok(()) };
        session.model().refuse_answers("--prompt-cache")?;
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::File { path: path.to_owned(), error }),
        };
        match session.load(&bytes) {
            _ if bytes.is_empty() => Ok(()),
            Ok(_) => Ok(()),
            // Whatever that is, it must not be overwritten.
            Err(candor::Error::Saved(saved::Error::Magic)) => Err(Error::NoPromptCache { path: path.to_owned() }),
            Err(candor::Error::Saved(error)) if !matches!(error, saved::Error::Device { .. }) => {
                say!("prompt cache {}: {error}; starting afresh", path.display());
                Ok(())
            }
            // It is the model's, or its device's: starting afresh would not help.
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the prompt that was read, where it is another than the file's and the answer is not to be kept too.
    pub fn write_prompt(&self, generation: &mut Generation<'_>) -> Result<(), Error> {
        let new = generation.timings().prompt_tokens > 0 && generation.stop_reason().is_none();
        if self.args.prompt_cache_all || !new {
            return Ok(());
        }
        self.write(|out| generation.save(out))
    }

    /// Writes the prompt and its answer, where that is wanted.
    pub fn write_all(&self, session: &mut Session) -> Result<(), Error> {
        if self.args.prompt_cache_all { self.write(|out| session.save(out)) } else { Ok(()) }
    }

    /// Writes a file beside the old one and puts it in its place.
    fn write(&self, save: impl FnOnce(&mut dyn Write) -> Result<(), candor::Error>) -> Result<(), Error> {
        let Some(path) = self.path.filter(|_| !self.args.prompt_cache_ro) else { return Ok(()) };
        let part = beside(path);
        let fault = |error| Error::File { path: path.to_owned(), error };
        let _cleanup = Cleanup::of_files(vec![part.clone()]);
        let mut out = BufWriter::new(File::create(&part).map_err(fault)?);
        let written = save(&mut out).map_err(|error| match error {
            candor::Error::Saved(saved::Error::Io(error)) => fault(error),
            error => error.into(),
        });
        let written = written.and_then(|()| out.flush().map_err(fault));
        drop(out);
        written.and_then(|()| fs::rename(&part, path).map_err(fault))
    }
}

/// The path with `.part` after it.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".part");
    name.into()
}
