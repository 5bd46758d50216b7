//! Takes weights out of a file by name, checks their shapes, and notices what is left over.

use std::collections::HashSet;

use candor_gguf::Gguf;
use candor_ops::{Prims, Tensor};

use crate::Error;

/// A file's weights on their way to a backend.
pub(crate) struct Weights<'a, B> {
    gguf: &'a Gguf,
    ops: &'a mut B,
    used: HashSet<String>,
    bytes: u64,
}

impl<'a, B: Prims> Weights<'a, B> {
    pub(crate) fn new(gguf: &'a Gguf, ops: &'a mut B) -> Self {
        Weights { gguf, ops, used: HashSet::new(), bytes: 0 }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.gguf.tensor(name).is_some()
    }

    /// The matrix `name` with `cols` inputs and `rows` outputs.
    pub(crate) fn matrix(&mut self, name: &str, cols: usize, rows: usize) -> Result<B::Weight, Error> {
        let tensor = self.take(name, cols, rows)?.ok_or_else(|| Error::MissingTensor(name.into()))?;
        Ok(self.ops.weight(tensor)?)
    }

    /// The vector `name` of `len` elements.
    pub(crate) fn vector(&mut self, name: &str, len: usize) -> Result<B::Weight, Error> {
        self.optional(name, len)?.ok_or_else(|| Error::MissingTensor(name.into()))
    }

    /// The vector `name` of `len` elements where the file has it.
    pub(crate) fn optional(&mut self, name: &str, len: usize) -> Result<Option<B::Weight>, Error> {
        let Some(tensor) = self.take(name, len, 1)? else { return Ok(None) };
        Ok(Some(self.ops.weight(tensor)?))
    }

    /// The numbers of a vector that configures the model rather than being multiplied.
    pub(crate) fn numbers(&mut self, name: &str, len: usize) -> Result<Option<Vec<f32>>, Error> {
        let Some(tensor) = self.take(name, len, 1)? else { return Ok(None) };
        let mut values = vec![0.0; len];
        tensor.format.decode(&tensor.bytes, &mut values);
        Ok(Some(values))
    }

    /// Bytes of the tensors that were taken, in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fails if the file has tensors that nobody asked for.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let mut unused = self.gguf.tensors().iter().filter(|info| !self.used.contains(&info.name));
        match unused.next() {
            None => Ok(()),
            Some(first) => Err(Error::UnusedTensors { first: first.name.clone(), count: 1 + unused.count() }),
        }
    }

    fn take(&mut self, name: &str, cols: usize, rows: usize) -> Result<Option<Tensor>, Error> {
        let Some(info) = self.gguf.tensor(name) else { return Ok(None) };
        let mut got = info.shape.clone();
        while got.len() > 1 && got.last() == Some(&1) {
            got.pop();
        }
        let expected = if rows == 1 { vec![cols as u64] } else { vec![cols as u64, rows as u64] };
        if got != expected {
            return Err(Error::TensorShape { name: name.into(), expected, got: info.shape.clone() });
        }
        self.used.insert(name.into());
        self.bytes = self.bytes.saturating_add(info.bytes);
        let bytes = self.gguf.data(info);
        Ok(Some(Tensor { name: name.into(), format: info.format, rows, cols, bytes }))
    }
}
