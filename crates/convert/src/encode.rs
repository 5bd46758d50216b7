//! Tensors in other formats, and how far they are then from what they were.

use std::sync::{Mutex, PoisonError};
use std::thread;

use candor_gguf::{Format, Gguf, TensorInfo};
use candor_kernels::Kernels;

use crate::{Error, Importance};

/// Elements of a piece: some milliseconds of work, some megabytes.
pub(crate) const PIECE: u64 = 1 << 19;

/// Makes rows of a file's tensors in other formats.
pub struct Encoder<'f> {
    file: &'f Gguf,
    importance: Option<&'f Importance>,
    kernels: &'static Kernels,
}

impl<'f> Encoder<'f> {
    /// An encoder of a file's tensors, whose columns count by `importance` where it knows them.
    ///
    /// # Errors
    /// Where `CANDOR_ISA` names instructions that there aren't.
    pub fn new(file: &'f Gguf, importance: Option<&'f Importance>) -> Result<Encoder<'f>, Error> {
        Ok(Encoder { file, importance, kernels: Kernels::from_env()? })
    }

    /// Encodes a tensor as a whole; `threads` compute, and the bytes do not depend on how many.
    ///
    /// # Errors
    /// What reading says; weights that are no finite numbers; a format that can't be made or has no whole blocks in a row.
    pub fn tensor(&self, source: &TensorInfo, format: Format, threads: usize) -> Result<Vec<u8>, Error> {
        let (rows, cols) = rows(source);
        let wrong = || Error::Rows { tensor: source.name.clone(), format, cols };
        let row = usize::try_from(cols).ok().and_then(|cols| format.row_bytes(cols)).ok_or_else(wrong)?;
        let step = (PIECE / cols).max(1);
        let mut bytes = vec![0; row * rows as usize];
        let pieces = Mutex::new((0..rows).step_by(step as usize).zip(bytes.chunks_mut(row * step as usize)));
        let failed = Mutex::new(None);
        let work = || {
            let mut values = Vec::new();
            loop {
                let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((first, piece)) = next else { return };
                match self.rows(source, format, (first, step.min(rows - first)), &mut values) {
                    Ok(made) => piece.copy_from_slice(&made),
                    Err(error) => {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        return;
                    }
                }
            }
        };
        thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(bytes),
        }
    }

    /// Some rows of a tensor in a format. `values` is room for one as floats.
    pub(crate) fn rows(
        &self,
        source: &TensorInfo,
        format: Format,
        (first, count): (u64, u64),
        values: &mut Vec<f32>,
    ) -> Result<Vec<u8>, Error> {
        let (all, cols) = rows(source);
        let row = source.bytes / all;
        let bytes = self.file.read_blocks(source, first * row..(first + count) * row)?;
        if source.format == format {
            return Ok(bytes.into());
        }
        let cols = cols as usize;
        let unmade = || Error::Unmade { tensor: source.name.clone(), format };
        let encoded_row = format.row_bytes(cols).ok_or_else(unmade)?;
        let mut encoded = vec![0; encoded_row * count as usize];
        let encoder = (self.kernels.f32.encode)(format);
        let importance = of_tensor(self.importance, source);
        values.resize(cols, 0.0);
        // A row at a time, so that its numbers are still in the nearest cache when they are encoded.
        let rows = bytes.chunks(row as usize).zip(encoded.chunks_mut(encoded_row));
        for (number, (bytes, encoded)) in (first..).zip(rows) {
            source.format.decode(bytes, values);
            if let Some(value) = not_finite(values) {
                return Err(Error::NotFinite { tensor: source.name.clone(), row: number, value });
            }
            let importance = importance.map(|importance| of_row(importance, source, number));
            match encoder {
                Some(encode) => encode(values, importance, encoded),
                None => format.encode_by(values, importance, encoded).map_err(|_| unmade())?,
            }
        }
        Ok(encoded)
    }

    /// Measures how far a tensor is from itself in another format: the mean square of the differences, by that of its numbers. Columns
    /// count by `weights` where it knows the tensor.
    ///
    /// # Errors
    /// What reading says.
    pub fn error(
        &self,
        source: &TensorInfo,
        (format, encoded): (Format, &[u8]),
        weights: Option<&Importance>,
    ) -> Result<f64, Error> {
        let (all, cols) = rows(source);
        let (row, encoded_row) = ((source.bytes / all) as usize, encoded.len() / all as usize);
        let weights = of_tensor(weights, source);
        let cols = cols as usize;
        let [mut values, mut others] = [vec![0f32; cols], vec![0f32; cols]];
        let (mut squares, mut differences) = (0f64, 0f64);
        let step = (PIECE as usize / cols).max(1);
        for (piece, encoded) in encoded.chunks(encoded_row * step).enumerate() {
            let first = (piece * step) as u64;
            let count = (encoded.len() / encoded_row) as u64;
            let bytes = self.file.read_blocks(source, first * row as u64..(first + count) * row as u64)?;
            for (number, (bytes, encoded)) in (first..).zip(bytes.chunks(row).zip(encoded.chunks(encoded_row))) {
                source.format.decode(bytes, &mut values);
                format.decode(encoded, &mut others);
                let weights = weights.map(|weights| of_row(weights, source, number));
                for (at, (&x, &y)) in values.iter().zip(&others).enumerate() {
                    let weight = weights.map_or(1.0, |weights| f64::from(weights[at]));
                    squares += weight * f64::from(x).powi(2);
                    differences += weight * (f64::from(x) - f64::from(y)).powi(2);
                }
            }
        }
        Ok(if squares > 0.0 { differences / squares } else { 0.0 })
    }
}

/// The first that is NaN or an infinity. Whether one is there is asked of all, in vector code.
fn not_finite(values: &[f32]) -> Option<f32> {
    const EXPONENT: u32 = 0x7f80_0000;
    let found = values.iter().fold(false, |found, value| found | (value.to_bits() & EXPONENT == EXPONENT));
    found.then(|| values.iter().copied().find(|value| !value.is_finite())).flatten()
}

/// Rows of a tensor, and elements of each.
fn rows(source: &TensorInfo) -> (u64, u64) {
    let cols = source.shape[0].max(1);
    ((source.elements() / cols).max(1), cols)
}

/// How much the columns of a tensor count, one expert after the other.
pub(crate) fn of_tensor<'i>(importance: Option<&'i Importance>, tensor: &TensorInfo) -> Option<&'i [f32]> {
    let values = importance?.entries.get(&tensor.name)?;
    (values.len() as u64 == columns(tensor)).then_some(values)
}

/// How much the columns of a row count.
fn of_row<'i>(importance: &'i [f32], tensor: &TensorInfo, row: u64) -> &'i [f32] {
    let cols = tensor.shape[0] as usize;
    let each = tensor.shape.get(1).copied().unwrap_or(1).max(1);
    let expert = (row / each) as usize % (importance.len() / cols);
    &importance[expert * cols..][..cols]
}

pub(crate) fn columns(tensor: &TensorInfo) -> u64 {
    tensor.shape[0] * tensor.shape.get(2).copied().unwrap_or(1)
}
