//! Which model is meant, and loading it and its adapters: the note that it is the built-in one, hints for wrong paths,
//! the bar.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use candor::{Adapter, Fit, Gguf, LoadOptions, Model, Overrides, Session, SessionOptions};
use candor_hub::Name;
use clap::error::ErrorKind;

use crate::{
    args::{
        FromArgs, Line, LoraArgs, ModelArgs, OutputArgs, PerformanceArgs, Rank, When, elsewhere,
        lora::Scaled,
        overrides::{self, OverrideArgs},
    },
    bar::Bar,
    errors::Error,
    hub,
    output::say,
    siblings::{folder, names, sibling},
    trust,
    waiting::Waiting,
};

/// Smaller files are loaded before a bar could be seen.
const LARGE_BYTES: u64 = 64 << 20;

/// A file whose tensors are read one after the other, in little memory.
pub fn unmapped(path: &Path) -> Result<Gguf, Error> {
    check(path)?;
    Ok(Gguf::open_unmapped(path)?)
}

/// Where a model comes from, and what of it is read otherwise than it is there.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The file; the program itself has the built-in model.
    path: Option<PathBuf>,
    /// What it was called, where that was no path.
    called: Option<String>,
    overrides: Overrides,
}

/// A loaded model.
pub struct Opened {
    pub model: Model,
    pub source: Source,
    /// Time that loading took.
    pub load: Duration,
}

impl Source {
    /// The model that the arguments name, fetched if it has a name and is not there.
    ///
    /// # Errors
    /// If they name two, or it cannot be fetched.
    pub fn of(line: &Line, args: &ModelArgs) -> Result<Source, Error> {
        let path = match line.exclusive(&["path", "model", "hf_repo", "model_url"])? {
            Some("path") => &args.path,
            Some("model") => &args.model,
            from => return Source::named(line, from, &args.from),
        };
        path.as_ref().map_or_else(|| Ok(Source::default()), |path| Source::meant(line, path))
    }

    /// The model that a flag for names gives; the built-in one if none does.
    pub fn named(line: &Line, flag: Option<&str>, args: &FromArgs) -> Result<Source, Error> {
        let name = match (flag, &args.hf_repo, &args.model_url) {
            (Some("hf_repo"), Some(repo), _) => Name::hf(repo)?,
            (Some("model_url"), _, Some(url)) => url.parse()?,
            _ if line.rank("hf_file") == Rank::Flag => {
                let message = "--hf-file needs --hf-repo: it is a file of a repository";
                return Err(line.usage_error(ErrorKind::MissingRequiredArgument, message));
            }
            _ => return Ok(Source::default()),
        };
        let name = match (flag, &args.hf_file) {
            (Some("hf_repo"), Some(file)) => name.with_file(file)?,
            _ => name,
        };
        Source::fetched(line, &name)
    }

    /// What is meant by a path: the file there, or the model of that name.
    pub fn meant(line: &Line, path: &Path) -> Result<Source, Error> {
        let text = path.to_str().unwrap_or_default();
        if Name::is_meant(text) {
            return Source::fetched(line, &text.parse()?);
        }
        let is_path = path.extension().is_some_and(|ending| ending == "gguf") || path.exists();
        match if is_path { None } else { hub::there(text) } {
            Some(found) => Ok(Source { path: Some(found), called: Some(text.to_owned()), ..Source::default() }),
            None => Ok(Source::file(path)),
        }
    }

    fn fetched(line: &Line, name: &Name) -> Result<Source, Error> {
        // Not every command has a bar of its own.
        let when = line.matches.try_get_one::<When>("progress").ok().flatten().copied();
        let offline = line.matches.try_get_one::<bool>("offline").ok().flatten().is_some_and(|offline| *offline);
        let path = hub::file_of(name, offline, when.unwrap_or(When::Auto))?;
        Ok(Source { path: Some(path), called: Some(name.to_string()), ..Source::default() })
    }

    /// A file as it is.
    pub fn file(path: impl Into<PathBuf>) -> Source {
        Source { path: Some(path.into()), ..Source::default() }
    }

    /// The same with other metadata.
    #[must_use]
    pub fn with(self, overrides: Overrides) -> Source {
        Source { overrides, ..self }
    }

    /// The same with what the arguments say of metadata and positions.
    ///
    /// # Errors
    /// If positions are scaled twice.
    pub fn overridden(self, args: &OverrideArgs, line: &Line) -> Result<Source, Error> {
        let scale = line.exclusive(&OverrideArgs::SCALES)?;
        Ok(self.with(args.overrides(scale)))
    }

    /// The file; `None` of the built-in model.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The name to show.
    pub fn name(&self) -> String {
        let path = || self.path.as_ref().map(|path| path.display().to_string());
        self.called.clone().or_else(path).unwrap_or_else(|| "built-in model".to_owned())
    }

    /// A short name: what it was called without where it came from, or its file's; `None` of the built-in model.
    pub fn short_name(&self) -> Option<String> {
        let called = self.called.as_deref().filter(|name| !name.contains("://"));
        let bare =
            called.map(|name| ["hf:", "ollama:"].iter().find_map(|from| name.strip_prefix(from)).unwrap_or(name));
        let stem = || Some(self.path()?.file_stem()?.to_string_lossy().into_owned());
        bare.map(str::to_owned).or_else(stem)
    }

    /// The file, without making a model of it.
    pub fn gguf(&self) -> Result<Gguf, Error> {
        let gguf = match &self.path {
            None => {
                note_built_in();
                Model::builtin(&LoadOptions::default())?.gguf().clone()
            }
            Some(path) => {
                check(path)?;
                Gguf::open(path)?
            }
        };
        Ok(self.overrides.apply(gguf)?)
    }

    /// Says which flags changed nothing in a loaded model of this file.
    pub fn note_unused(&self, gguf: &Gguf) {
        for name in self.overrides.without_effect(gguf) {
            say!("note: {} changes nothing: nothing in this model reads it", overrides::typed(&name));
        }
    }

    /// Loads the model with adapters, and with room for a session on a GPU.
    pub fn open(
        self,
        performance: &PerformanceArgs,
        adapters: Vec<Adapter>,
        session: SessionOptions,
        output: &OutputArgs,
    ) -> Result<Opened, Error> {
        let options = performance.load()?.session(session).adapters(adapters);
        self.open_with(&options, output.progress)
    }

    /// Loads the model; `bar` says when to show how far that is.
    pub fn open_with(self, options: &LoadOptions, bar: When) -> Result<Opened, Error> {
        let started = Instant::now();
        let options = &options.clone().overrides(self.overrides.clone());
        let model = match &self.path {
            None => {
                note_built_in();
                let model = Model::builtin(options)?;
                trust::warn(model.trust());
                model
            }
            Some(path) => {
                check(path)?;
                let waiting = Waiting::new(bar, "loading");
                let model = Model::open(path, options)?;
                drop(waiting);
                trust::warn(model.trust());
                // What does not fit is refused before its weights are read.
                if options.session.fit {
                    model.fit(&options.session)?;
                }
                read_ahead(&model, bar, started);
                model
            }
        };
        match model.placement() {
            Some(placement) if model.is_over_budget() => {
                say!("warning: {placement}");
                say!("hint: -ngl auto takes as many layers as fit; a shorter context (-c) makes room for more");
            }
            Some(placement) => say!("{placement}"),
            None => {}
        }
        self.note_unused(model.gguf());
        for note in candor::Config::notes(model.gguf()).map_err(candor::Error::from)? {
            say!("note: {note}");
        }
        for warning in model.tokenizer().warnings() {
            say!("warning: {warning}");
        }
        Ok(Opened { model, source: self, load: started.elapsed() })
    }
}

impl Opened {
    /// A session to answer in; says if it is shorter than the model's own, or longer than the model is good for.
    pub fn session(&self, options: &SessionOptions) -> Result<Session, Error> {
        self.model.continues_text()?;
        let Fit { context, own, bound, .. } = self.model.fit(options)?;
        let session = self.model.session(&options.context(context))?;
        if let Some(holder) = bound {
            say!(
                "note: a context of {context} tokens, of the model's {own}: there are {holder}; -c N asks for another"
            );
        }
        let trained = self.model.config().context;
        if options.context > trained {
            say!("note: the model was made for {trained} tokens of context; beyond them its text may be poor");
        }
        Ok(session)
    }
}

impl LoraArgs {
    /// The adapters, opened: those without a scale first.
    ///
    /// # Errors
    /// If a file cannot be read or is no adapter.
    pub fn open(&self) -> Result<Vec<Adapter>, Error> {
        let plain = self.lora.iter().map(|path| (path, 1.0));
        let scaled = self.lora_scaled.iter().map(|Scaled { path, scale }| (path, *scale));
        let open = |(path, scale): (&PathBuf, f32)| {
            check(path)?;
            Ok(Adapter::open(path)?.scaled(scale))
        };
        plain.chain(scaled).map(open).collect()
    }
}

fn note_built_in() {
    say!("using the built-in model (name another: candor run MODEL.gguf)");
}

/// Finds wrong paths, to say more of them than that the system cannot open them.
pub fn check(path: &Path) -> Result<(), Error> {
    let (problem, hint) = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => ("expected a model file, got a directory", models_in(path)),
        Err(_) if path == Path::new("-") => {
            ("a model cannot come through stdin", Some("the path of a GGUF file names it".to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => ("no such file", meant(path)),
        // Only of files: to open a pipe is to wait for who writes to it.
        Ok(metadata) if metadata.is_file() && unreadable(path) => {
            ("permission denied", Some("its owner may let others read it: chmod a+r FILE".to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            ("permission denied", Some("the folders on its way may not be entered".to_owned()))
        }
        _ => return Ok(()),
    };
    Err(Error::NoModel { path: path.to_owned(), problem, hint })
}

/// Whether this user may not read a file.
fn unreadable(path: &Path) -> bool {
    fs::File::open(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// What may be meant by a path that leads to no model; without `.gguf` it may be another program's name of one.
fn meant(path: &Path) -> Option<String> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
        return sibling(path);
    }
    let beside = if folder(path).is_dir() { sibling(path) } else { None };
    beside.or_else(|| Some(elsewhere::DOWNLOADS.to_owned()))
}

/// The model files of a folder, for a hint.
fn models_in(folder: &Path) -> Option<String> {
    const SHOWN: usize = 5;
    let mut names: Vec<String> = names(folder).into_iter().filter(|name| name.ends_with(".gguf")).collect();
    names.sort();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let list = names.join(", ");
    match (list.is_empty(), more) {
        (true, _) => Some("it has no .gguf files".to_owned()),
        (false, 0) => Some(format!("it has {list}")),
        (false, more) => Some(format!("it has {list} and {more} more")),
    }
}

/// Reads a large file from disk now, under a bar, instead of during the first answer.
fn read_ahead(model: &Model, when: When, started: Instant) {
    if when != When::Always && model.gguf().file_bytes() < LARGE_BYTES {
        return;
    }
    let mut bar = Bar::new(when, "loading {wide_bar} {bytes} of {total_bytes}, {eta} left", started);
    model.gguf().prefault(|done, total| bar.set(done, total));
}
