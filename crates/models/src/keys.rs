//! Numbers of a file's metadata, under the keys of its architecture.

use candor_gguf::{Array, Gguf, Value};

use crate::{
    Error,
    arch::{ARCHITECTURES, Architecture},
};

/// The metadata of an architecture.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) gguf: &'a Gguf,
    pub(crate) arch: &'a Architecture,
}

impl<'a> Keys<'a> {
    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.arch.name)
    }

    pub(crate) fn missing(&self, key: &str) -> Error {
        Error::MissingKey(self.name(key))
    }

    pub(crate) fn bad(&self, key: &str, expected: &str, got: impl ToString) -> Error {
        Error::BadValue { key: self.name(key), expected: expected.into(), got: got.to_string() }
    }

    /// Whether the architecture gives a key a meaning: in files of others than those that say so it is not there.
    pub(crate) fn reads(&self, key: &str) -> bool {
        self.arch.own_keys.contains(&key) || ARCHITECTURES.iter().all(|row| !row.own_keys.contains(&key))
    }

    /// A number that need not be there.
    pub(crate) fn number(&self, key: &str) -> Result<Option<usize>, Error> {
        if !self.reads(key) {
            return Ok(None);
        }
        Ok(self.gguf.metadata().u32(&self.name(key))?.map(|value| value as usize))
    }

    /// A number above zero that must be there.
    pub(crate) fn positive(&self, key: &str) -> Result<usize, Error> {
        match self.number(key)? {
            None => Err(self.missing(key)),
            Some(0) => Err(self.bad(key, "a positive number", 0)),
            Some(value) => Ok(value),
        }
    }

    /// A float that need not be there.
    pub(crate) fn float(&self, key: &str) -> Result<Option<f32>, Error> {
        if !self.reads(key) {
            return Ok(None);
        }
        Ok(self.gguf.metadata().f32(&self.name(key))?)
    }

    /// A float that files of the architecture do not have, where it was asked for all the same.
    pub(crate) fn replaced(&self, key: &str) -> Result<Option<f32>, Error> {
        let name = self.name(key);
        if !self.gguf.metadata().is_replaced(&name) {
            return Ok(None);
        }
        Ok(self.gguf.metadata().f32(&name)?)
    }

    /// A yes or no that need not be there.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        if !self.reads(key) {
            return Ok(None);
        }
        Ok(self.gguf.metadata().bool(&self.name(key))?)
    }

    /// A number for each layer: an array, or one number for all. Yes counts as 1.
    pub(crate) fn per_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<usize>>, Error> {
        if !self.reads(key) {
            return Ok(None);
        }
        let (metadata, name) = (self.gguf.metadata(), self.name(key));
        let numbers: Vec<usize> = match metadata.get(&name) {
            None => return Ok(None),
            Some(Value::Array(Array::Bool(flags))) => flags.iter().map(|&flag| usize::from(flag)).collect(),
            Some(Value::Array(_)) => {
                let numbers = metadata.i32s(&name)?.unwrap_or_default();
                let positive = numbers.iter().map(|&number| usize::try_from(number));
                positive.collect::<Result<_, _>>().map_err(|_| self.bad(key, "no negative numbers", "one"))?
            }
            Some(_) => return Ok(self.number(key)?.map(|value| vec![value; layers])),
        };
        if numbers.len() < layers {
            return Err(self.bad(key, &format!("a number for each of {layers} layers"), numbers.len()));
        }
        Ok(Some(numbers[..layers].to_vec()))
    }
}
