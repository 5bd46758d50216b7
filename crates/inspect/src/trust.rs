//! Which GPUs compute rightly: the quick form of `verify`, run once for each driver and remembered in a file.
//!
//! The commonest reason for gibberish is a driver that compiles a shader wrongly. So a model's first layers and its head run
//! on the GPU, a prompt at once and a token after it, and every operation is held against the formulas on the GPU's own
//! inputs. A verdict holds for an adapter with its driver, this version of the program, and what a model asks of shaders:
//! its shapes and formats. Nothing is decided here but whether a GPU is right; who uses it is the caller's choice.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use candor::{
    BackendVisitor, Device, DeviceInfo, Error, LoadOptions, Offload, Placement, chosen_gpus,
    gguf::{Format, Gguf},
    models::{Begin, Config, End, Part},
    ops::Ops,
    visit_backend,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::verify::{Depth, Operations, Plan, engine, operations};

/// Tokens of the prompt: more than a tile of rows, so that there is a whole tile and a part of one.
const PROMPT: usize = 70;

/// What is known of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The GPU.
    pub device: DeviceInfo,
    /// What it computed wrongly first, with the error and its bound; `None` where everything was right.
    pub failure: Option<String>,
    /// Where that comes from.
    pub source: Source,
}

/// Where a verdict comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was verified now.
    Verified,
    /// A file of the folder says so.
    Remembered,
}

/// What a verdict is about: another driver, version or kind of model needs another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Subject {
    engine: String,
    device: String,
    driver: String,
    /// A hash of all that decides which shaders run with which constants.
    model: String,
}

/// A verdict as it lies in a file.
#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    subject: Subject,
    failure: Option<String>,
}

/// Verifies each GPU that the options choose, or looks up in `folder` what came of it before. A file that cannot be read, or
/// is about something else, counts as none; a verdict that cannot be written is found out again.
///
/// # Errors
/// If a GPU cannot be opened or cannot hold a part of the model: that is no verdict, and is not remembered.
pub fn gpus(gguf: &Gguf, options: &LoadOptions, folder: Option<&Path>) -> Result<Vec<Trust>, Error> {
    let chosen = chosen_gpus(options)?;
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let model = fingerprint(gguf, options)?;
    let trust = |device: DeviceInfo| {
        let subject = Subject {
            engine: engine(),
            device: device.description.clone(),
            driver: device.driver.clone(),
            model: model.clone(),
        };
        let file = folder.map(|folder| subject.file(folder));
        if let Some(Remembered { failure, .. }) = file.as_deref().and_then(|file| subject.read(file)) {
            return Ok(Trust { device, failure, source: Source::Remembered });
        }
        let failure = failure(&check(gguf, options, &device)?);
        if let Some(file) = file {
            // Without a folder to write to it is only slower.
            let _ = (Remembered { subject, failure: failure.clone() }).write(&file);
        }
        Ok(Trust { device, failure, source: Source::Verified })
    };
    chosen.into_iter().map(trust).collect()
}

/// [`gpus`], and where that finds fault with one, or fails, once more without cooperative matrices, which drivers are likelier to
/// have wrong than all else. If that goes well, the options are without them from then on, and the second value is true.
///
/// # Errors
/// As [`gpus`].
pub fn settled(gguf: &Gguf, options: &mut LoadOptions, folder: Option<&Path>) -> Result<(Vec<Trust>, bool), Error> {
    let found = gpus(gguf, options, folder);
    let is_right = |found: &Result<Vec<Trust>, Error>| {
        found.as_ref().is_ok_and(|found| found.iter().all(|trust| trust.failure.is_none()))
    };
    if is_right(&found) {
        return Ok((found?, false));
    }
    let Some(without) = options.without_cooperative() else { return Ok((found?, false)) };
    let again = gpus(gguf, &without, folder);
    if !is_right(&again) {
        return Ok((found?, false));
    }
    *options = without;
    Ok((again?, true))
}

/// Runs the first layers of a model, as many as have all that any of them has, and its head on a GPU.
fn check(gguf: &Gguf, options: &LoadOptions, device: &DeviceInfo) -> Result<Operations, Error> {
    let config = Config::from_gguf(gguf)?;
    let offload = Offload { names: vec![device.name.clone()], ..options.offload.clone() };
    let placement = Placement::Planned;
    let options = LoadOptions { device: Device::Gpu, offload, placement, ..options.clone() };
    Ok(visit_backend(&options, Check { gguf, config: &config, options: &options })??)
}

struct Check<'a> {
    gguf: &'a Gguf,
    config: &'a Config,
    options: &'a LoadOptions,
}

impl BackendVisitor for Check<'_> {
    type Output = Result<Operations, candor::models::Error>;

    fn visit<B>(self, ops: B, _: String) -> Self::Output
    where
        B: Ops<Weight: Send + Sync, Buf: Send, Kv: Send, Snapshot: Send, Rope: Send + Sync, Routes: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        quick(self.gguf, self.config, self.options, ops)
    }
}

/// The check, on any backend.
fn quick<B: Ops + Clone>(
    gguf: &Gguf,
    config: &Config,
    options: &LoadOptions,
    ops: B,
) -> Result<Operations, candor::models::Error> {
    let room = config.context.saturating_sub(1);
    // Ids that have no order, each within the vocabulary.
    let prompt: Vec<u32> = (0..PROMPT.min(room).max(1)).map(|i| ((i * 7919 + 11) % config.vocab) as u32).collect();
    let part = Part { begin: Begin::Tokens, layers: 0..first_layers(gguf, config), end: End::Logits };
    let (keys, values) = (options.session.keys, options.session.values);
    // An encoder reads the same.
    let text: &[u32] = if config.start.is_some() { &prompt } else { &[] };
    let plan = Plan { text, prompt: &prompt, decode: 1, depth: Depth::Quick, keys, values, part: Some(part) };
    operations(gguf, ops, &plan)
}

/// How many of the first layers have every kind of tensor in every format, and every mask, that is in any of them.
fn first_layers(gguf: &Gguf, config: &Config) -> usize {
    // A tensor's name within its layer, its format, and the layer.
    let tensors = gguf.tensors().iter().filter_map(|tensor| {
        let (layer, name) =
            tensor.name.strip_prefix("dec.").unwrap_or(&tensor.name).strip_prefix("blk.")?.split_once('.')?;
        Some(((name, tensor.format.name()), layer.parse::<usize>().ok()?))
    });
    let tensors: Vec<_> = tensors.collect();
    let kinds = |count: usize| {
        let tensors: BTreeSet<_> = tensors.iter().filter(|(_, layer)| *layer < count).map(|(kind, _)| kind).collect();
        let masks: BTreeSet<_> = config.masks.iter().take(count).map(|mask| format!("{mask:?}")).collect();
        (tensors, masks)
    };
    let all = kinds(usize::MAX);
    (1..config.layers).find(|&count| kinds(count) == all).unwrap_or(config.layers)
}

/// The first operation that was wrong.
fn failure(found: &Operations) -> Option<String> {
    let (index, worst) = found.first_failure.as_ref()?;
    let error = worst.error.map_or("not a number".to_owned(), |error| format!("error {error:.1e}"));
    Some(format!("{}: {error}, at most {:.1e}, at {}", found.classes[*index].class, worst.bound, worst.place))
}

/// A hash of the wiring, the heads, the cache, and each tensor's name, shape and format.
fn fingerprint(gguf: &Gguf, options: &LoadOptions) -> Result<String, Error> {
    let config = Config::from_gguf(gguf)?;
    let architecture = gguf.metadata().str("general.architecture")?;
    let (keys, values) = (options.session.keys, options.session.values);
    let mut text = format!("{architecture:?} {:?} {keys:?} {values:?}", config.heads);
    if options.without_cooperative().is_some() {
        text.push_str(" cooperative");
    }
    let line = |name: &str, shape: &[u64], format: Format| format!("\n{name} {shape:?} {}", format.name());
    text.extend(gguf.tensors().iter().map(|tensor| line(&tensor.name, &tensor.shape, tensor.format)));
    Ok(hex(&text))
}

fn hex(text: &str) -> String {
    Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

impl Subject {
    /// Where its verdict lies.
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", hex(&format!("{self:?}"))))
    }

    /// What the file says of this very subject.
    fn read(&self, file: &Path) -> Option<Remembered> {
        let text = fs::read_to_string(file).ok()?;
        serde_json::from_str(&text).ok().filter(|remembered: &Remembered| remembered.subject == *self)
    }
}

impl Remembered {
    /// Puts the file there as a whole, so that nobody reads half of it.
    fn write(&self, file: &Path) -> std::io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let unfinished = file.with_extension(format!("{}.part", std::process::id()));
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&unfinished, file)
    }
}
