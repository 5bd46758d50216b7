//! LoRA adapters (Hu et al. 2021) in GGUF files as llama.cpp has them: what such a file says of itself, and whether it belongs
//! to a model. How one is computed, `ops::Adapted` says.

mod error;
mod fit;

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use candor_gguf::{Gguf, TensorInfo};

pub use error::Error;
pub(crate) use fit::Fitted;

/// What tables of tokens are called, whose halves lie the other way round: rows of `a` are looked up.
const EMBEDDING: &str = "token_embd.weight";

/// Changes of a model's weights, in a file of their own. Cheap to clone; every clone shares the file.
#[derive(Clone)]
pub struct Adapter {
    inner: Arc<Inner>,
    scale: f32,
}

struct Inner {
    name: String,
    gguf: Gguf,
    architecture: String,
    alpha: f32,
    targets: Vec<Target>,
}

/// A weight that an adapter changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The model's name of it: `blk.0.attn_q.weight`.
    pub name: String,
    /// Rank of the change.
    pub rank: usize,
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("name", &self.name()).field("scale", &self.scale).finish_non_exhaustive()
    }
}

impl Adapter {
    /// Opens an adapter's file, memory-mapped. It is called by its path in messages.
    ///
    /// # Errors
    /// If the file cannot be read, or holds no adapter of a kind that can be used.
    pub fn open(path: impl AsRef<Path>) -> Result<Adapter, crate::Error> {
        let path = path.as_ref();
        Adapter::from_gguf(path.display().to_string(), Gguf::open(path)?)
    }

    /// Takes an opened file, and what to call it in messages.
    ///
    /// # Errors
    /// If it holds no adapter of a kind that can be used.
    pub fn from_gguf(name: impl Into<String>, gguf: Gguf) -> Result<Adapter, crate::Error> {
        let name = name.into();
        match Inner::read(name.clone(), gguf) {
            Ok(inner) => Ok(Adapter { inner: Arc::new(inner), scale: 1.0 }),
            Err(error) => Err(crate::Error::Adapter { name, error }),
        }
    }

    /// The same, with another scale in sessions that choose none themselves; 1 is as the adapter was trained, 0 switches it off.
    pub fn scaled(self, scale: f32) -> Adapter {
        Adapter { scale, ..self }
    }

    /// The scale in sessions that choose none themselves.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The file.
    pub fn gguf(&self) -> &Gguf {
        &self.inner.gguf
    }

    /// Architecture of the models that it is for.
    pub fn architecture(&self) -> &str {
        &self.inner.architecture
    }

    /// What a change is multiplied by, divided by its rank; 0 where it is multiplied by nothing but the scale.
    pub fn alpha(&self) -> f32 {
        self.inner.alpha
    }

    /// What it changes, by name.
    pub fn targets(&self) -> &[Target] {
        &self.inner.targets
    }

    /// The task that the file says it is for.
    pub fn task_name(&self) -> Option<&str> {
        self.text("adapter.lora.task_name")
    }

    /// What the file says a prompt should begin with. Nobody puts it there.
    pub fn prompt_prefix(&self) -> Option<&str> {
        self.text("adapter.lora.prompt_prefix")
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.gguf().metadata().str(key).ok().flatten()
    }

    /// A half of a change.
    fn half(&self, target: &str, half: &str) -> Option<&TensorInfo> {
        self.gguf().tensor(&format!("{target}.{half}"))
    }

    fn fault(&self, error: Error) -> crate::Error {
        crate::Error::Adapter { name: self.name().to_owned(), error }
    }
}

impl Inner {
    fn read(name: String, gguf: Gguf) -> Result<Inner, Error> {
        let metadata = gguf.metadata();
        let text = |key| Ok::<_, Error>(metadata.str(key)?.map(str::to_owned));
        let architecture = text("general.architecture")?.unwrap_or_default();
        if is_control_vector(&gguf) {
            return Err(Error::ControlVector);
        }
        match text("general.type")? {
            Some(kind) if kind == "adapter" => {}
            kind => return Err(Error::NoAdapter { got: kind.unwrap_or_else(|| "no such key".to_owned()) }),
        }
        match text("adapter.type")? {
            Some(kind) if kind == "lora" => {}
            kind => return Err(Error::Kind { got: kind.unwrap_or_else(|| "no such key".to_owned()) }),
        }
        if metadata.get("adapter.alora.invocation_tokens").is_some() {
            return Err(Error::Activated);
        }
        let alpha = metadata.f32("adapter.lora.alpha")?.unwrap_or(0.0);
        if !alpha.is_finite() {
            return Err(Error::Alpha { got: alpha });
        }
        let targets = targets(&gguf)?;
        Ok(Inner { name, gguf, architecture, alpha, targets })
    }
}

/// The pairs among a file's tensors, which must be all that there is.
fn targets(gguf: &Gguf) -> Result<Vec<Target>, Error> {
    let mut halves: BTreeMap<&str, [Option<&TensorInfo>; 2]> = BTreeMap::new();
    for tensor in gguf.tensors() {
        let named = |suffix| tensor.name.strip_suffix(suffix);
        match (named(".lora_a"), named(".lora_b")) {
            (Some(target), _) => halves.entry(target).or_default()[0] = Some(tensor),
            (_, Some(target)) => halves.entry(target).or_default()[1] = Some(tensor),
            _ => return Err(Error::Suffix { tensor: tensor.name.clone() }),
        }
    }
    if halves.is_empty() {
        return Err(Error::Empty);
    }
    let target = |(name, [a, b]): (&str, [Option<&TensorInfo>; 2])| match (a, b) {
        (Some(_), Some(b)) => Ok(Target { name: name.to_owned(), rank: dimension(b, 0) as usize }),
        (None, _) => Err(Error::Half { target: name.to_owned(), missing: "lora_a" }),
        (_, None) => Err(Error::Half { target: name.to_owned(), missing: "lora_b" }),
    };
    halves.into_iter().map(target).collect()
}

/// A dimension of a tensor, 1 where it has no such.
fn dimension(tensor: &TensorInfo, index: usize) -> u64 {
    tensor.shape.get(index).copied().unwrap_or(1)
}

/// Whether a file holds directions that are added to the stream, which is something else than LoRA.
fn is_control_vector(gguf: &Gguf) -> bool {
    gguf.metadata().str("general.architecture").ok().flatten() == Some("controlvector")
}

/// Says so where a file that is to be a model is an adapter.
pub(crate) fn refuse(gguf: &Gguf) -> Result<(), crate::Error> {
    let text = |key| gguf.metadata().str(key).ok().flatten();
    if is_control_vector(gguf) {
        return Err(crate::Error::ControlVector);
    }
    match text("general.type") {
        Some("adapter") => {
            Err(crate::Error::AdapterAsModel { arch: text("general.architecture").unwrap_or("unknown").to_owned() })
        }
        _ => Ok(()),
    }
}
