//! Files with other metadata, other names or fewer tensors. Weights are copied as they are.

use std::io;

use candor_gguf::{Gguf, Value, Writer};

use crate::Error;

/// A change to a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Gives a key of the metadata a value.
    Set(String, Value),
    /// Takes a key out.
    Unset(String),
    /// Gives a tensor another name.
    Rename {
        /// Its name.
        from: String,
        /// The new one.
        to: String,
    },
    /// Keeps the tensors alone whose name has one of these parts.
    Extract(Vec<String>),
}

/// What is in a file, with changes: tensors in their order, keys too.
///
/// # Errors
/// Two tensors of one name.
pub fn edited(file: &Gguf, changes: &[Change]) -> Result<Writer, Error> {
    let mut writer = Writer::new().version(file.version()).byte_order(file.byte_order());
    let unset = |key: &str| changes.iter().any(|change| matches!(change, Change::Unset(unset) if unset == key));
    for (key, value) in file.metadata().iter().filter(|(key, _)| !unset(key)) {
        writer.insert(key, value.clone());
    }
    for change in changes {
        if let Change::Set(key, value) = change {
            writer.insert(key, value.clone());
        }
    }
    let kept = |name: &str| {
        changes.iter().all(|change| match change {
            Change::Extract(parts) => parts.iter().any(|part| name.contains(part.as_str())),
            _ => true,
        })
    };
    for tensor in file.tensors().iter().filter(|tensor| kept(&tensor.name)) {
        let renamed = changes.iter().find_map(|change| match change {
            Change::Rename { from, to } if *from == tensor.name => Some(to.as_str()),
            _ => None,
        });
        let (name, file, source) = (renamed.unwrap_or(&tensor.name), file.clone(), tensor.clone());
        let make = move || file.read_data(&source).map_err(io::Error::other);
        writer.tensor_from(name, tensor.format, &tensor.shape, make)?;
    }
    Ok(writer)
}

/// Types of values as they are typed, with whole numbers and fractions under llama.cpp's names.
const TYPES: [&str; 14] =
    ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bool", "string", "int", "float"];

/// A value of `TYPE:VALUE`, or of `VALUE` alone of the type that the key has now.
///
/// # Errors
/// What is wrong with it, in words.
pub fn value(text: &str, now: Option<&Value>) -> Result<Value, String> {
    let known = |kind: &str| TYPES.into_iter().find(|name| *name == if kind == "str" { "string" } else { kind });
    let typed = text.split_once(':').and_then(|(kind, value)| Some((known(kind)?, value)));
    let now = now.map(Value::type_name);
    let (kind, text) = match (typed, now) {
        (Some(("int", text)), Some(now)) if now.starts_with(['u', 'i']) => (now, text),
        (Some(("float", text)), Some(now)) if now.starts_with('f') => (now, text),
        (Some(("int", text)), _) => (if text.starts_with('-') { "i32" } else { "u32" }, text),
        (Some(("float", text)), _) => ("f32", text),
        (Some(typed), _) => typed,
        (None, Some(now)) => (now, text),
        (None, None) => {
            return Err(format!("the file has no such key, so that it needs a type: one of {}", TYPES.join(", ")));
        }
    };
    let wrong = || format!("expected a value of the type {kind}, got {text}");
    macro_rules! parsed {
        ($variant:ident) => {
            text.parse().map(Value::$variant).map_err(|_| wrong())
        };
    }
    match kind {
        "u8" => parsed!(U8),
        "i8" => parsed!(I8),
        "u16" => parsed!(U16),
        "i16" => parsed!(I16),
        "u32" => parsed!(U32),
        "i32" => parsed!(I32),
        "u64" => parsed!(U64),
        "i64" => parsed!(I64),
        "f32" => parsed!(F32),
        "f64" => parsed!(F64),
        "bool" => parsed!(Bool),
        "string" => Ok(Value::String(text.to_owned())),
        other => Err(format!("it is an {other}, which has no way to be typed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_type_of_the_key_or_their_own() {
        let old = Value::U16(3);
        for (text, now, expected) in [
            ("7", Some(&old), Value::U16(7)),
            ("int:7", Some(&old), Value::U16(7)),
            ("i64:-7", Some(&old), Value::I64(-7)),
            ("int:7", None, Value::U32(7)),
            ("float:0.5", None, Value::F32(0.5)),
            ("str:a:b", None, Value::String("a:b".to_owned())),
            ("a:b", Some(&Value::String(String::new())), Value::String("a:b".to_owned())),
            ("bool:true", None, Value::Bool(true)),
        ] {
            assert_eq!(value(text, now), Ok(expected), "{text}");
        }
        for (text, now, expected) in [
            ("7", None, "needs a type"),
            ("70000", Some(&old), "expected a value of the type u16, got 70000"),
            ("1", Some(&Value::from(vec![1u32])), "it is an array of u32"),
        ] {
            assert!(value(text, now).unwrap_err().contains(expected), "{text}");
        }
    }
}
