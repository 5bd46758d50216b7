//! What a repair is: the inverse of something that converters are known to do wrongly, and what of a file it changes.

use candor::{Gguf, Model};
use candor_gguf::Value;
use candor_ops::Heads;

use super::change::Change;

/// A row of the table: one known fault of a conversion.
pub(super) struct Repair {
    /// Its name: short, lower-case, with hyphens.
    pub(super) name: &'static str,
    /// What is wrong with the file if the repair helps: a sentence.
    pub(super) cause: &'static str,
    /// What to do about it in the converter: a sentence.
    pub(super) remedy: &'static str,
    /// The ways to repair this file; none where the fault cannot be in it.
    pub(super) attempts: fn(&Conversion<'_>) -> Vec<Attempt>,
}

/// One way to repair a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attempt {
    /// What is changed, in words that follow the cause.
    pub(super) detail: String,
    /// The tensors or the key that are concerned.
    pub(super) subject: String,
    /// The changes.
    pub(super) changes: Vec<Change>,
}

impl Attempt {
    /// An attempt on some tensors.
    pub(super) fn new(subject: impl Into<String>, detail: impl Into<String>, changes: Vec<Change>) -> Attempt {
        Attempt { detail: detail.into(), subject: subject.into(), changes }
    }

    /// The words for `candor gguf` that make the change in a file, where they can.
    pub(super) fn commands(&self) -> Option<Vec<String>> {
        let word = |change: &Change| match change {
            Change::Set(key, Value::Array(_)) | Change::Unset(key) if key.contains(char::is_whitespace) => None,
            Change::Set(_, Value::Array(_)) => None,
            Change::Set(key, value) => Some(format!("candor gguf set MODEL NEW {key}={}:{value}", value.type_name())),
            Change::Unset(key) => Some(format!("candor gguf unset MODEL NEW {key}")),
            _ => None,
        };
        self.changes.iter().map(word).collect()
    }
}

/// A file as its converter has left it, and the numbers of its model.
pub(super) struct Conversion<'a> {
    /// The file.
    pub(super) gguf: &'a Gguf,
    /// `general.architecture`.
    pub(super) arch: &'a str,
    /// Heads of the first layer that attends; none where no layer does.
    pub(super) heads: Heads,
    /// Width of the stream.
    pub(super) dim: usize,
    /// Layers.
    pub(super) layers: usize,
    /// Tokens of a window of the text.
    pub(super) window: usize,
}

impl<'a> Conversion<'a> {
    /// That of a model, which is measured by windows of this many tokens.
    pub(super) fn of(model: &'a Model, window: usize) -> Conversion<'a> {
        let (gguf, config) = (model.gguf(), model.config());
        let arch = gguf.metadata().str("general.architecture").ok().flatten().unwrap_or_default();
        Conversion { gguf, arch, heads: config.heads, dim: config.dim, layers: config.layers, window }
    }

    /// A key of the architecture by its end.
    pub(super) fn key(&self, end: &str) -> String {
        format!("{}.{end}", self.arch)
    }

    /// A number of the metadata by the end of its key.
    pub(super) fn float(&self, end: &str) -> Option<f32> {
        let (metadata, key) = (self.gguf.metadata(), self.key(end));
        metadata.f32(&key).ok().flatten().or_else(|| metadata.u32(&key).ok().flatten().map(|whole| whole as f32))
    }

    /// Whether the file has a key of this end.
    pub(super) fn says(&self, end: &str) -> bool {
        self.gguf.metadata().get(&self.key(end)).is_some()
    }

    /// The tensors `blk.N.part` of all layers that have them.
    pub(super) fn of_layers(&self, part: &str) -> Vec<String> {
        let name = |layer: usize| Some(format!("blk.{layer}.{part}")).filter(|name| self.gguf.tensor(name).is_some());
        (0..self.layers).filter_map(name).collect()
    }

    /// Rows of a tensor, all matrices of it together; elements of a vector.
    pub(super) fn rows(&self, name: &str) -> Option<usize> {
        let shape = &self.gguf.tensor(name)?.shape;
        let rows = if shape.len() == 1 { shape.first() } else { None };
        usize::try_from(rows.copied().unwrap_or_else(|| shape.iter().skip(1).product())).ok()
    }

    /// Whether both are there, of one shape.
    pub(super) fn alike(&self, a: &str, b: &str) -> bool {
        let shape = |name: &str| self.gguf.tensor(name).map(|info| &info.shape);
        shape(a).is_some() && shape(a) == shape(b)
    }

    /// Sets a key, with the words for it.
    pub(super) fn set(&self, end: &str, value: impl Into<Value>) -> Attempt {
        let (key, value) = (self.key(end), value.into());
        Attempt::new(&key, format!("{end} {value}"), vec![Change::Set(key.clone(), value)])
    }

    /// Takes a key out, where it is there.
    pub(super) fn unset(&self, end: &str) -> Option<Attempt> {
        let key = self.key(end);
        self.says(end).then(|| Attempt::new(&key, format!("without {end}"), vec![Change::Unset(key.clone())]))
    }

    /// Sets a key to each of some numbers that it does not have yet.
    pub(super) fn set_each(&self, end: &str, numbers: &[f32]) -> Vec<Attempt> {
        let now = self.float(end);
        numbers.iter().filter(|&&number| now != Some(number)).map(|&number| self.set(end, number)).collect()
    }
}

/// A change of each of some tensors.
pub(super) fn each(names: &[String], change: impl Fn(&str) -> Change) -> Vec<Change> {
    names.iter().map(|name| change(name)).collect()
}
