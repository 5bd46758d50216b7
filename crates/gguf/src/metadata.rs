//! The metadata of a file: keys and values in file order, with typed access. What a key means is its reader's affair.

use crate::{Array, Error, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keys and values, in the order of the file. Unknown keys are kept.
///
/// The typed readers return `Ok(None)` for an absent key and an error that names the key, the expected and the found
/// type for a value of another type. Integer readers take any integer type whose value fits.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    places: HashMap<String, usize>,
    /// Keys that were replaced, and whether something read them since; copies share it.
    replaced: HashMap<String, Arc<AtomicBool>>,
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

macro_rules! integers {
    ($value:expr, $key:expr, $ty:ident, [$($variant:ident)*]) => {
        match $value {
            $(Value::$variant(x) => {
                $ty::try_from(*x).map(Some).map_err(|_| wrong($key, stringify!($ty), $value))
            })*
            other => Err(wrong($key, stringify!($ty), other)),
        }
    };
}

impl Metadata {
    /// No keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of `key`, of whatever type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        if let Some(read) = self.replaced.get(key) {
            read.store(true, Ordering::Relaxed);
        }
        self.places.get(key).map(|&place| &self.entries[place].1)
    }

    /// Sets `key`: in its place if it is there, else at the end.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.places.get(&key) {
            Some(&place) => self.entries[place].1 = value,
            None => {
                self.places.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }

    /// The same without `key`.
    #[must_use]
    pub fn without(&self, key: &str) -> Metadata {
        let mut kept = Metadata::new();
        for (name, value) in self.iter().filter(|(name, _)| *name != key) {
            kept.insert(name, value.clone());
        }
        kept.replaced.clone_from(&self.replaced);
        kept
    }

    /// Sets `key` as [`Metadata::insert`] does, over what the file says, and watches from now on whether something reads it.
    pub fn replace(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let key = key.into();
        self.replaced.entry(key.clone()).or_default();
        self.insert(key, value);
    }

    /// Whether `key` was set by [`Metadata::replace`].
    pub fn is_replaced(&self, key: &str) -> bool {
        self.replaced.contains_key(key)
    }

    /// The replaced keys that nothing has read since, in file order.
    pub fn unread(&self) -> impl Iterator<Item = &str> {
        let unread = |key: &&str| self.replaced.get(*key).is_some_and(|read| !read.load(Ordering::Relaxed));
        self.entries.iter().map(|(key, _)| key.as_str()).filter(unread)
    }

    /// An integer in the range of `u32`.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        integers!(value, key, u32, [U8 I8 U16 I16 U32 I32 U64 I64])
    }

    /// An integer in the range of `i32`.
    pub fn i32(&self, key: &str) -> Result<Option<i32>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        integers!(value, key, i32, [U8 I8 U16 I16 U32 I32 U64 I64])
    }

    /// An integer in the range of `u64`.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        integers!(value, key, u64, [U8 I8 U16 I16 U32 I32 U64 I64])
    }

    /// A float; an `f64` is rounded to `f32`.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::F32(x)) => Ok(Some(*x)),
            Some(Value::F64(x)) => Ok(Some(*x as f32)),
            Some(other) => Err(wrong(key, "f32", other)),
        }
    }

    /// A bool.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(x)) => Ok(Some(*x)),
            Some(other) => Err(wrong(key, "bool", other)),
        }
    }

    /// A string.
    pub fn str(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(x)) => Ok(Some(x)),
            Some(other) => Err(wrong(key, "string", other)),
        }
    }

    /// An array of strings.
    pub fn strings(&self, key: &str) -> Result<Option<&[String]>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::String(run))) => Ok(Some(run)),
            Some(other) => Err(wrong(key, "array of string", other)),
        }
    }

    /// An array of `f32`.
    pub fn f32s(&self, key: &str) -> Result<Option<&[f32]>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::F32(run))) => Ok(Some(run)),
            Some(other) => Err(wrong(key, "array of f32", other)),
        }
    }

    /// An array of bools.
    pub fn bools(&self, key: &str) -> Result<Option<&[bool]>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Bool(run))) => Ok(Some(run)),
            Some(other) => Err(wrong(key, "array of bool", other)),
        }
    }

    /// An array of integers of any type, each in the range of `i32`; borrowed if it is of `i32`.
    pub fn i32s(&self, key: &str) -> Result<Option<Cow<'_, [i32]>>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        macro_rules! fit {
            ([$($variant:ident)*]) => {
                match value {
                    Value::Array(Array::I32(run)) => return Ok(Some(Cow::Borrowed(run))),
                    $(Value::Array(Array::$variant(run)) => run
                        .iter()
                        .map(|&x| i32::try_from(x).map_err(|_| wrong(key, "i32", &Value::$variant(x))))
                        .collect::<Result<Vec<i32>, Error>>(),)*
                    other => return Err(wrong(key, "array of i32", other)),
                }
            };
        }
        Ok(Some(Cow::Owned(fit!([U8 I8 U16 I16 U32 U64 I64])?)))
    }
}

/// The error of a value that is not `expected`. An integer gets there by being out of range, so it is shown.
fn wrong(key: &str, expected: &'static str, got: &Value) -> Error {
    use Value::{I8, I16, I32, I64, U8, U16, U32, U64};
    let got = match got {
        U8(_) | I8(_) | U16(_) | I16(_) | U32(_) | I32(_) | U64(_) | I64(_) => format!("{} {got}", got.type_name()),
        other => other.type_name().to_owned(),
    };
    Error::WrongType { key: key.to_owned(), expected, got }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_keys_keep_their_place_and_know_whether_they_were_read() {
        let mut metadata = Metadata::new();
        metadata.insert("a", 1u32);
        metadata.insert("b", 2u32);
        metadata.replace("c", 3u32);
        metadata.replace("a", 4u32);
        assert_eq!(metadata.unread().collect::<Vec<_>>(), ["a", "c"]);
        assert!(metadata.is_replaced("a") && !metadata.is_replaced("b"));
        // A copy's readers count, and what is read stays read.
        let mut copy = metadata.clone();
        assert_eq!(copy.u32("a").unwrap(), Some(4));
        copy.replace("a", 5u32);
        assert_eq!(metadata.unread().collect::<Vec<_>>(), ["c"]);
        assert_eq!(copy.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
