//! A weight on its way from a file to a backend.

use bytes::Bytes;
use candor_quant::Format;

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
    /// A cache was asked for in a format that the backend does not have.
    #[error("cache in {}: cannot be kept on {backend} (f16 and q8_0 can)", format.name().to_lowercase())]
    CacheFormat {
        /// The format.
        format: Format,
        /// The backend.
        backend: &'static str,
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
