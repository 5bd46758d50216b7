//! What of a file's metadata is replaced before anything reads it: single keys, as llama.cpp's `--override-kv`. How positions are
//! rotated is in [`RopeOverrides`].

mod rope;

use std::str::FromStr;

use candor_gguf::{Gguf, Metadata, Value};

pub use rope::{RopeOverrides, RopeScaling};

use crate::Error;

/// What of a file's metadata is replaced before anything reads it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Overrides {
    /// Keys with their values; of a key that is there twice the last one counts.
    pub metadata: Vec<MetadataOverride>,
    /// How positions are rotated.
    pub rope: RopeOverrides,
}

setters!(Overrides {
    metadata: Vec<MetadataOverride>,
    rope: RopeOverrides,
});

/// A key and the value that it is given: `KEY=TYPE:VALUE`, where the type is `int`, `float`, `bool` or `str`.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataOverride {
    /// The key.
    pub key: String,
    /// The value, as an `i64`, an `f64`, a `bool` or a string. It is kept in the type that the file has for the key.
    pub value: Value,
}

/// Why the metadata cannot be replaced so.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// The words make no key with a value.
    #[error("expected KEY=TYPE:VALUE with a type of int, float, bool or str, got {0:?}")]
    Syntax(String),
    /// The file has another type.
    #[error("metadata key {key}: expected {expected} as in the file, got {got}")]
    Type {
        /// The key.
        key: String,
        /// The file's type.
        expected: &'static str,
        /// The type that was given.
        got: &'static str,
    },
    /// The file has a list.
    #[error("metadata key {key}: the file has an {expected}, which cannot be replaced")]
    Array {
        /// The key.
        key: String,
        /// The file's type.
        expected: &'static str,
    },
    /// The number is too large or too small for the file's type.
    #[error("metadata key {key}: expected {expected} as in the file, got {got}")]
    Range {
        /// The key.
        key: String,
        /// The file's type.
        expected: &'static str,
        /// The number.
        got: i64,
    },
    /// A number of the rotation makes no sense.
    #[error("{flag}: expected {expected}, got {got}")]
    Rope {
        /// llama.cpp's flag for it.
        flag: &'static str,
        /// What would do.
        expected: &'static str,
        /// The number.
        got: f32,
    },
    /// Layers with a window would have to keep the rotation that the file says.
    #[error(
        "{flag}: layers with a window of {arch} models keep their rotation, which is not supported beside another one"
    )]
    Windows {
        /// llama.cpp's flag for it.
        flag: &'static str,
        /// The architecture.
        arch: String,
    },
    /// The file has factors for long contexts.
    #[error("{flag}: it is not supported beside the factors for long contexts that the file has")]
    LongFactors {
        /// llama.cpp's flag for it.
        flag: &'static str,
    },
}

impl FromStr for MetadataOverride {
    type Err = OverrideError;

    fn from_str(text: &str) -> Result<MetadataOverride, OverrideError> {
        let wrong = || OverrideError::Syntax(text.to_owned());
        let (key, typed) = text.split_once('=').ok_or_else(wrong)?;
        let (kind, value) = typed.split_once(':').ok_or_else(wrong)?;
        let value = match kind {
            "int" => Value::I64(value.trim().parse().map_err(|_| wrong())?),
            "float" => Value::F64(value.trim().parse().map_err(|_| wrong())?),
            "bool" => Value::Bool(value.trim().parse().map_err(|_| wrong())?),
            "str" => Value::String(value.to_owned()),
            _ => return Err(wrong()),
        };
        match key.trim() {
            "" => Err(wrong()),
            key => Ok(MetadataOverride { key: key.to_owned(), value }),
        }
    }
}

impl MetadataOverride {
    /// The value in the type that the file has for the key; as it is if the file has none.
    fn fitted(&self, metadata: &Metadata) -> Result<Value, OverrideError> {
        let key = || self.key.clone();
        let Some(old) = metadata.get(&self.key) else { return Ok(self.value.clone()) };
        let range = |got| OverrideError::Range { key: key(), expected: old.type_name(), got };
        macro_rules! fit {
            ($($variant:ident)*) => {
                match (old, &self.value) {
                    $((Value::$variant(_), &Value::I64(x)) => Value::$variant(x.try_into().map_err(|_| range(x))?),)*
                    (Value::F32(_), &Value::F64(x)) => Value::F32(x as f32),
                    (Value::F64(_), Value::F64(_))
                    | (Value::Bool(_), Value::Bool(_))
                    | (Value::String(_), Value::String(_)) => self.value.clone(),
                    (Value::Array(_), _) => {
                        return Err(OverrideError::Array { key: key(), expected: old.type_name() });
                    }
                    _ => {
                        let (expected, got) = (old.type_name(), word(&self.value));
                        return Err(OverrideError::Type { key: key(), expected, got });
                    }
                }
            };
        }
        Ok(fit!(U8 I8 U16 I16 U32 I32 U64 I64))
    }
}

/// The word for a value's type.
fn word(value: &Value) -> &'static str {
    match value {
        Value::I64(_) => "int",
        Value::F64(_) => "float",
        Value::Bool(_) => "bool",
        Value::String(_) => "str",
        other => other.type_name(),
    }
}

/// What is read only when a model makes vectors, or scores documents.
fn is_read_later(key: &str) -> bool {
    key.ends_with("pooling_type") || key.contains(".classifier.") || key.starts_with("tokenizer.chat_template")
}

impl Overrides {
    /// Whether everything is as the file says.
    pub fn is_empty(&self) -> bool {
        *self == Overrides::default()
    }

    /// The file with its metadata replaced.
    ///
    /// # Errors
    /// If a value has another type than the file's, or a rotation is asked for that is not supported.
    pub fn apply(&self, gguf: Gguf) -> Result<Gguf, Error> {
        if self.is_empty() {
            return Ok(gguf);
        }
        let mut metadata = gguf.metadata().clone();
        for one in &self.metadata {
            let value = one.fitted(&metadata)?;
            metadata.replace(one.key.clone(), value);
        }
        self.rope.apply(&gguf.with_metadata(metadata))
    }

    /// What of it changes nothing in a loaded model of [`Overrides::apply`]'s file: keys that nothing reads, and of
    /// [`RopeOverrides`] llama.cpp's flags (`--rope-scale`).
    pub fn without_effect(&self, gguf: &Gguf) -> Vec<String> {
        let unread = |key: &str| gguf.metadata().unread().any(|unread| unread == key);
        let keys = self.metadata.iter().map(|one| one.key.clone());
        let keys = keys.filter(|key| unread(key) && !is_read_later(key));
        keys.chain(self.rope.without_effect(gguf, unread).into_iter().map(str::to_owned)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_type_and_a_value() {
        for (text, value) in [
            ("a.b=int:-7", Some(Value::I64(-7))),
            ("a.b=float:1e-5", Some(Value::F64(1e-5))),
            ("a.b=bool:true", Some(Value::Bool(true))),
            ("a.b=str:x=y:z", Some(Value::String("x=y:z".into()))),
            ("a.b=str:", Some(Value::String(String::new()))),
            ("a.b=int:1.5", None),
            ("a.b=bool:1", None),
            ("a.b=u32:1", None),
            ("a.b=1", None),
            ("a.b", None),
            ("=int:1", None),
        ] {
            let expected = value.map(|value| MetadataOverride { key: "a.b".into(), value });
            assert_eq!(text.parse::<MetadataOverride>().ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_value_is_kept_in_the_type_of_the_file() {
        let mut metadata = Metadata::new();
        metadata.insert("byte", 1u8);
        metadata.insert("single", 1f32);
        metadata.insert("list", vec![1u32]);
        let fitted =
            |text: &str| text.parse::<MetadataOverride>().unwrap().fitted(&metadata).map_err(|e| e.to_string());
        assert_eq!(fitted("byte=int:255"), Ok(Value::U8(255)));
        assert_eq!(fitted("single=float:0.1"), Ok(Value::F32(0.1)));
        assert_eq!(fitted("new=int:3"), Ok(Value::I64(3)));
        for (text, expected) in [
            ("byte=int:256", "metadata key byte: expected u8 as in the file, got 256"),
            ("byte=float:1", "metadata key byte: expected u8 as in the file, got float"),
            ("single=int:1", "metadata key single: expected f32 as in the file, got int"),
            ("list=int:1", "metadata key list: the file has an array of u32, which cannot be replaced"),
        ] {
            assert_eq!(fitted(text), Err(expected.to_owned()));
        }
    }
}
