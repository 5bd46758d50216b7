//! Takes weights out of a file by name, checks their shapes, and notices what is left over.

use std::{collections::HashSet, ops::Range};

use candor_gguf::{Format, Gguf, Metadata, TensorInfo};
use candor_ops::{Prims, Rope, Tensor};

use crate::Error;

/// A file's weights on their way to a backend.
pub(crate) struct Weights<'a, B> {
    gguf: &'a Gguf,
    ops: &'a mut B,
    used: HashSet<String>,
    bytes: u64,
    /// The tensor that was taken last: where the file is read piece by piece, its parts are taken without reading it again.
    last: Option<Tensor>,
}

impl<'a, B: Prims> Weights<'a, B> {
    pub(crate) fn new(gguf: &'a Gguf, ops: &'a mut B) -> Self {
        Weights { gguf, ops, used: HashSet::new(), bytes: 0, last: None }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.gguf.tensor(name).is_some()
    }

    pub(crate) fn gguf(&self) -> &'a Gguf {
        self.gguf
    }

    /// Lets a tensor be that the model does not use, where the file has it.
    pub(crate) fn leave(&mut self, name: &str) {
        if self.has(name) {
            self.used.insert(name.into());
        }
    }

    /// The file's metadata.
    pub(crate) fn metadata(&self) -> &'a Metadata {
        self.gguf.metadata()
    }

    /// The first row of a matrix, as a vector.
    pub(crate) fn first_row(&mut self, name: &str, cols: usize, rows: usize) -> Result<B::Weight, Error> {
        let fits = |shape: &[u64]| shape.iter().product::<u64>() == (cols * rows) as u64;
        let tensor = self.shaped(name, (cols, rows), fits)?;
        let bytes = tensor.bytes.slice(0..tensor.bytes.len() / rows.max(1));
        Ok(self.ops.weight(Tensor { rows: 1, bytes, ..tensor })?)
    }

    /// Makes a rotation ready.
    pub(crate) fn rope(&mut self, rope: Rope) -> B::Rope {
        self.ops.rope_table(rope)
    }

    /// The dimensions of a tensor as the file has them.
    pub(crate) fn shape(&self, name: &str) -> Option<&'a [u64]> {
        Some(&self.gguf.tensor(name)?.shape)
    }

    /// The matrix `name` with `cols` inputs and `rows` outputs.
    pub(crate) fn matrix(&mut self, name: &str, cols: usize, rows: usize) -> Result<B::Weight, Error> {
        let tensor = self.take(name, (cols, rows), B::READS_WEIGHTS)?;
        Ok(self.ops.weight(tensor.ok_or_else(|| Error::MissingTensor(name.into()))?)?)
    }

    /// The vector `name` of `len` elements.
    pub(crate) fn vector(&mut self, name: &str, len: usize) -> Result<B::Weight, Error> {
        self.optional(name, len)?.ok_or_else(|| Error::MissingTensor(name.into()))
    }

    /// The vector `name` of `len` elements where the file has it.
    pub(crate) fn optional(&mut self, name: &str, len: usize) -> Result<Option<B::Weight>, Error> {
        let Some(tensor) = self.take(name, (len, 1), B::READS_WEIGHTS)? else { return Ok(None) };
        Ok(Some(self.ops.weight(tensor)?))
    }

    /// The vector `name` of `len` elements, as a matrix of one column.
    pub(crate) fn column(&mut self, name: &str, len: usize) -> Result<B::Weight, Error> {
        let tensor = self.shaped(name, (1, len), |shape| shape.iter().product::<u64>() == len as u64)?;
        Ok(self.ops.weight(tensor)?)
    }

    /// A vector of `len` elements whatever its shape.
    pub(crate) fn spread(&mut self, name: &str, len: usize) -> Result<B::Weight, Error> {
        let tensor = self.shaped(name, (len, 1), |shape| shape.iter().product::<u64>() == len as u64)?;
        Ok(self.ops.weight(tensor)?)
    }

    /// The numbers of a tensor of `len` elements whatever its shape.
    pub(crate) fn spread_numbers(&mut self, name: &str, len: usize) -> Result<Vec<f32>, Error> {
        let info = self.fitting(name, (len, 1), |shape| shape.iter().product::<u64>() == len as u64)?;
        let tensor = self.read(info, (len, 1), true)?;
        let mut values = vec![0.0; len];
        tensor.format.decode(&tensor.bytes, &mut values);
        Ok(values)
    }

    /// A matrix of which the leading dimension is `cols` and the others together make `rows`: of all experts, of all heads.
    pub(crate) fn stacked(&mut self, name: &str, cols: usize, rows: usize) -> Result<B::Weight, Error> {
        let tensor = self.shaped(name, (cols, rows), |shape| stacks(shape, cols, rows))?;
        Ok(self.ops.weight(tensor)?)
    }

    /// Some rows of the matrix `name`, or of several one below the other, which have `rows`.
    pub(crate) fn rows(
        &mut self,
        name: &str,
        (cols, rows): (usize, usize),
        range: Range<usize>,
    ) -> Result<B::Weight, Error> {
        let tensor = self.shaped(name, (cols, rows), |shape| stacks(shape, cols, rows))?;
        Ok(self.ops.weight(tensor.part(range))?)
    }

    /// Some elements of the vector `name`, which has `len` and a format of single numbers.
    pub(crate) fn elements(&mut self, name: &str, len: usize, range: Range<usize>) -> Result<B::Weight, Error> {
        let tensor = self.shaped(name, (len, 1), |shape| shape == [len as u64])?;
        if tensor.format.block_len() != 1 {
            return Err(Error::Unsupported(format!("tensor {name}: expected floats, got {}", tensor.format.name())));
        }
        let size = tensor.format.block_bytes();
        let bytes = match B::READS_WEIGHTS {
            true => tensor.bytes.slice(range.start * size..range.end * size),
            false => tensor.bytes,
        };
        let name = Tensor::part_name(name, &range);
        let (format, rows, cols) = (tensor.format, tensor.rows, range.len());
        Ok(self.ops.weight(Tensor { name, format, rows, cols, bytes })?)
    }

    /// A weight that is not in the file.
    pub(crate) fn made(
        &mut self,
        name: &str,
        (cols, rows): (usize, usize),
        values: &[f32],
    ) -> Result<B::Weight, Error> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into();
        Ok(self.ops.weight(Tensor { name: name.into(), format: Format::F32, rows, cols, bytes })?)
    }

    /// A tensor as `rows` rows of `cols`, if its shape `fits`.
    fn shaped(
        &mut self,
        name: &str,
        (cols, rows): (usize, usize),
        fits: impl Fn(&[u64]) -> bool,
    ) -> Result<Tensor, Error> {
        let info = self.fitting(name, (cols, rows), fits)?;
        self.read(info, (cols, rows), B::READS_WEIGHTS)
    }

    /// The record of a tensor, if its shape `fits`.
    fn fitting(
        &self,
        name: &str,
        (cols, rows): (usize, usize),
        fits: impl Fn(&[u64]) -> bool,
    ) -> Result<&'a TensorInfo, Error> {
        let info = self.gguf.tensor(name).ok_or_else(|| Error::MissingTensor(name.into()))?;
        if !fits(&info.shape) {
            let expected = vec![cols as u64, rows as u64];
            return Err(Error::TensorShape { name: name.into(), expected, got: info.shape.clone() });
        }
        Ok(info)
    }

    /// The numbers of a vector that configures the model rather than being multiplied.
    pub(crate) fn numbers(&mut self, name: &str, len: usize) -> Result<Option<Vec<f32>>, Error> {
        let Some(tensor) = self.take(name, (len, 1), true)? else { return Ok(None) };
        let mut values = vec![0.0; len];
        tensor.format.decode(&tensor.bytes, &mut values);
        Ok(Some(values))
    }

    /// The numbers of a matrix that is multiplied without a backend, `[rows, cols]`.
    pub(crate) fn matrix_numbers(&mut self, name: &str, cols: usize, rows: usize) -> Result<Vec<f32>, Error> {
        let tensor = self.take(name, (cols, rows), true)?.ok_or_else(|| Error::MissingTensor(name.into()))?;
        let mut values = vec![0.0; cols * rows];
        tensor.format.decode(&tensor.bytes, &mut values);
        Ok(values)
    }

    /// Bytes of the tensors that were taken, in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fails if the file has tensors that nobody asked for, except those of the layers `ahead`.
    pub(crate) fn finish(self, ahead: Range<usize>) -> Result<(), Error> {
        let guesses = |name: &str| {
            let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
            layer.is_some_and(|layer| ahead.contains(&layer))
        };
        let unused = self.gguf.tensors().iter().filter(|info| !self.used.contains(&info.name));
        let mut unused = unused.filter(|info| !guesses(&info.name));
        match unused.next() {
            None => Ok(()),
            Some(first) => Err(Error::UnusedTensors { first: first.name.clone(), count: 1 + unused.count() }),
        }
    }

    /// A tensor as `rows` rows of `cols`, without its bytes where they are not to be read.
    fn read(&mut self, info: &TensorInfo, (cols, rows): (usize, usize), reads: bool) -> Result<Tensor, Error> {
        // Parts of one are taken one after the other, and several layers may have the same.
        if self.used.insert(info.name.clone()) {
            self.bytes = self.bytes.saturating_add(info.bytes);
        }
        let bytes = if reads { self.gguf.read_data(info)? } else { Default::default() };
        let tensor = Tensor { name: info.name.clone(), format: info.format, rows, cols, bytes };
        self.last = Some(tensor.clone());
        Ok(tensor)
    }

    /// A tensor of exactly these dimensions where the file has it, with its bytes if it `reads` them.
    fn take(&mut self, name: &str, (cols, rows): (usize, usize), reads: bool) -> Result<Option<Tensor>, Error> {
        let Some(info) = self.gguf.tensor(name) else { return Ok(None) };
        let mut got = info.shape.clone();
        while got.len() > 1 && got.last() == Some(&1) {
            got.pop();
        }
        let expected = if rows == 1 { vec![cols as u64] } else { vec![cols as u64, rows as u64] };
        if got != expected {
            return Err(Error::TensorShape { name: name.into(), expected, got: info.shape.clone() });
        }
        self.read(info, (cols, rows), reads).map(Some)
    }
}

/// Whether a shape's leading dimension is `cols`, and the others together make `rows`.
fn stacks(shape: &[u64], cols: usize, rows: usize) -> bool {
    let first = shape.split_first().filter(|(first, _)| **first == cols as u64);
    first.is_some_and(|(_, rest)| rest.iter().product::<u64>() == rows as u64)
}
