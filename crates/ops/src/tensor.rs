//! A weight on its way from a file to a backend.

use std::ops::Range;

use bytes::Bytes;
use candor_quant::Format;

use crate::Full;

/// A matrix `[rows][cols]`, or a vector with `rows == 1`. A row of a matrix is one output.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The file's name of it, for messages.
    pub name: String,
    /// How the bytes encode numbers.
    pub format: Format,
    /// Outputs of a matrix; 1 for a vector.
    pub rows: usize,
    /// Inputs of a matrix; the length of a vector.
    pub cols: usize,
    /// `rows` rows of `format.row_bytes(cols)`, shared with the file's mapping where there is one.
    pub bytes: Bytes,
}

impl Tensor {
    /// The bytes of one row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[u8] {
        let stride = self.bytes.len() / self.rows;
        &self.bytes[row * stride..(row + 1) * stride]
    }

    /// Some of the rows. Their name says which: weights of one name are one weight.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn part(&self, rows: Range<usize>) -> Tensor {
        let stride = self.bytes.len() / self.rows.max(1);
        let bytes = self.bytes.slice(rows.start * stride..rows.end * stride);
        let name = Tensor::part_name(&self.name, &rows);
        Tensor { name, format: self.format, rows: rows.len(), cols: self.cols, bytes }
    }

    /// The name of some rows of a tensor, or elements of a vector.
    pub fn part_name(name: &str, range: &Range<usize>) -> String {
        format!("{name}[{}..{}]", range.start, range.end)
    }

    /// The file's name of the tensor that this is, or that it is some rows of, and which.
    pub fn whole(&self) -> (&str, Option<Range<usize>>) {
        let part = || {
            let (name, range) = self.name.strip_suffix(']')?.rsplit_once('[')?;
            let (start, end) = range.split_once("..")?;
            Some((name, start.parse().ok()?..end.parse().ok()?))
        };
        part().map_or((&self.name, None), |(name, range)| (name, Some(range)))
    }
}

/// Why a backend refused a weight, or a model does not fit together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The backend has no way to run this format.
    #[error("tensor {tensor}: format {} cannot run on {backend}", format.name())]
    Format {
        /// The tensor.
        tensor: String,
        /// Its format.
        format: Format,
        /// The backend.
        backend: &'static str,
    },
    /// A cache was asked for in a format whose blocks the heads do not fill.
    #[error("cache of {what} in {}: expected heads of a multiple of {}, got {dim}", format.name().to_lowercase(), format.block_len())]
    Cache {
        /// Keys or values.
        what: &'static str,
        /// The format.
        format: Format,
        /// Width of a head.
        dim: usize,
    },
    /// A device has failed, or cannot hold what it was given.
    #[error("{device}: {what}")]
    Device {
        /// The device.
        device: String,
        /// What went wrong.
        what: String,
    },
    /// A cache was to be read back from bytes that are not its own.
    #[error("cache of layer {layer}: expected {expected} bytes, got {got}")]
    Stored {
        /// The layer, counted within its backend's.
        layer: usize,
        /// Bytes that would fit.
        expected: usize,
        /// Bytes found.
        got: usize,
    },
    /// A cache has too few free pages for what was to be read back.
    #[error(transparent)]
    Full(#[from] Full),
    /// An operation was given shapes that do not belong together.
    #[error("{op}: expected {expected:?}, got {got:?}")]
    Shape {
        /// The operation, with the tensor's name where there is one.
        op: String,
        /// Rows and columns that would fit.
        expected: [usize; 2],
        /// Rows and columns found.
        got: [usize; 2],
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_knows_what_it_is_part_of() {
        let bytes: Vec<u8> = (0..24).collect();
        let tensor = Tensor { name: "a[b]".into(), format: Format::F32, rows: 3, cols: 2, bytes: bytes.into() };
        assert_eq!(tensor.whole(), ("a[b]", None));
        let part = tensor.part(1..3);
        assert_eq!((part.rows, part.cols, &part.bytes[..]), (2, 2, &(8..24).collect::<Vec<u8>>()[..]));
        assert_eq!(part.whole(), ("a[b]", Some(1..3)));
        assert_eq!(Tensor { name: "x[1]".into(), ..part }.whole(), ("x[1]", None));
    }
}
