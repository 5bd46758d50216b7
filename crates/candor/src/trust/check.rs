//! The check itself, and where verdicts are remembered: in this process, and in files of a folder.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use candor_gguf::{Format, Gguf};
use candor_gpu::{AdapterChoice, Gpu};
use candor_models::Config;
use candor_verify::Operations;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Source, Verdict, Verify};
use crate::{Error, LoadOptions, gpus::Found};

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    subject: Subject,
    failure: Option<String>,
}

/// The verdicts of this process.
static KNOWN: Mutex<Vec<Remembered>> = Mutex::new(Vec::new());

/// Verifies GPUs, or recalls what came of it before. A file that cannot be read, or is about something else, counts as none; a
/// verdict that cannot be written is found out again by the next process.
///
/// # Errors
/// If a GPU cannot be opened or cannot hold a part of the model: that is no verdict, and is not remembered.
pub(super) async fn verdicts(gguf: &Gguf, options: &LoadOptions, gpus: &[Found]) -> Result<Vec<Verdict>, Error> {
    let model = fingerprint(gguf, options)?;
    let folder = match &options.verify {
        Verify::On { folder } => folder.as_deref(),
        Verify::Off => None,
    };
    let mut verdicts = Vec::new();
    for gpu in gpus {
        let device = gpu.info.clone();
        let subject = Subject {
            engine: concat!("candor ", env!("CARGO_PKG_VERSION")).to_owned(),
            device: device.description.clone(),
            driver: device.driver.clone(),
            model: model.clone(),
        };
        let file = folder.map(|folder| subject.file(folder));
        let (failure, source) = match subject.recall(file.as_deref()) {
            Some(remembered) => (remembered.failure, Source::Remembered),
            None => {
                let failure = check(gguf, options, gpu).await?.failure();
                Remembered { subject, failure: failure.clone() }.keep(file.as_deref());
                (failure, Source::Verified)
            }
        };
        verdicts.push(Verdict { device, failure, source });
    }
    Ok(verdicts)
}

/// Runs the first layers of a model, as many as have all that any of them has, and its head on a GPU.
pub(crate) async fn check(gguf: &Gguf, options: &LoadOptions, gpu: &Found) -> Result<Operations, Error> {
    let adapter = Some(AdapterChoice::Index(gpu.index));
    let gpu = Gpu::open(&options.gpu.clone().adapter(adapter)).await?;
    let found =
        candor_verify::quick(gguf, gpu.clone(), options.session.keys, options.session.values, options.gpu.exact).await;
    gpu.settled().await.map_err(candor_models::Error::from)?;
    Ok(found?)
}

/// A hash of the wiring, the heads, the cache, how GPUs compute, and each tensor's name, shape and format.
fn fingerprint(gguf: &Gguf, options: &LoadOptions) -> Result<String, Error> {
    let config = Config::from_gguf(gguf)?;
    let architecture = gguf.metadata().str("general.architecture")?;
    let (keys, values) = (options.session.keys, options.session.values);
    // What changes no shader is left out.
    let (work, timeout) = (0, Duration::ZERO);
    let gpu = options.gpu.clone().adapter(None).cache(None).work(work).timeout(timeout);
    let mut text = format!("{architecture:?} {:?} {keys:?} {values:?} {gpu:?}", config.heads);
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

    /// What a file or this process knows of this very subject. What the file does not know yet is written there.
    fn recall(&self, file: Option<&Path>) -> Option<Remembered> {
        if let Some(read) = file.and_then(|file| self.read(file)) {
            return Some(read);
        }
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.iter().find(|known| known.subject == *self)?.clone();
        known.write(file);
        Some(known)
    }

    /// What the file says of this very subject.
    fn read(&self, file: &Path) -> Option<Remembered> {
        let text = fs::read_to_string(file).ok()?;
        serde_json::from_str(&text).ok().filter(|remembered: &Remembered| remembered.subject == *self)
    }
}

impl Remembered {
    /// Remembers it in this process and in the file.
    fn keep(self, file: Option<&Path>) {
        self.write(file);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.subject != self.subject);
        known.push(self);
    }

    /// Writes the file, if there is to be one. Without it the next process is only slower.
    fn write(&self, file: Option<&Path>) {
        if let Some(file) = file {
            let _ = self.put(file);
        }
    }

    /// Puts the file there as a whole, so that nobody reads half of it.
    fn put(&self, file: &Path) -> std::io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let unfinished = file.with_extension(format!("{}.part", std::process::id()));
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&unfinished, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A verdict on a model of this name.
    fn verdict(model: &str, failure: Option<&str>) -> Remembered {
        let [engine, device, driver, model] = ["candor", "Card", "vulkan, 1.2", model].map(str::to_owned);
        Remembered { subject: Subject { engine, device, driver, model }, failure: failure.map(str::to_owned) }
    }

    #[test]
    fn a_file_that_is_broken_or_about_something_else_counts_as_none() {
        let folder = std::env::temp_dir().join(format!("candor-verdicts-{}", std::process::id()));
        let wrong = verdict("of files", Some("rope: error"));
        let file = wrong.subject.file(&folder.join("not/there/yet"));
        wrong.put(&file).unwrap();
        assert_eq!(wrong.subject.read(&file).as_ref(), Some(&wrong));
        let whole = fs::read_to_string(&file).unwrap();
        for text in ["", "{", "null", "[]", &whole.replace("\"driver\"", "\"drover\""), &whole.replace("1.2", "1.3")] {
            fs::write(&file, text).unwrap();
            assert_eq!(wrong.subject.read(&file), None, "{text:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_process_remembers_and_tells_its_files() {
        let folder = std::env::temp_dir().join(format!("candor-memory-{}", std::process::id()));
        let (right, other) = (verdict("of memory", None), verdict("of something else", None));
        assert_eq!(right.subject.recall(None), None);
        right.clone().keep(None);
        assert_eq!(right.subject.recall(None).as_ref(), Some(&right));
        assert_eq!(other.subject.recall(None), None);
        let file = right.subject.file(&folder);
        assert_eq!(right.subject.recall(Some(&file)).as_ref(), Some(&right));
        assert_eq!(right.subject.read(&file).as_ref(), Some(&right), "a later process finds it");
        // What a file says goes before what this process knows.
        let wrong = Remembered { failure: Some("rope: error".to_owned()), ..right.clone() };
        wrong.put(&file).unwrap();
        assert_eq!(right.subject.recall(Some(&file)), Some(wrong));
        fs::remove_dir_all(&folder).unwrap();
    }
}
