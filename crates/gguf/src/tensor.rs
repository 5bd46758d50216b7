//! A record of the tensor directory: name, format, shape, place. It holds no data; `Gguf::data` does.

use crate::Error;
use candor_quant::Format;

/// The most dimensions that ggml has.
pub(crate) const MAX_DIMENSIONS: usize = 4;

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// The name: `blk.0.attn_q.weight`.
    pub name: String,
    /// How the elements are stored.
    pub format: Format,
    /// Elements per dimension, fastest first (ggml's `ne`): `shape[0]` is the length of a row. One to four dimensions; a
    /// scalar, which a file stores with none, is `[1]`.
    pub shape: Vec<u64>,
    /// Length of the data in bytes.
    pub bytes: u64,
    /// Where the data begins in its shard.
    pub(crate) start: u64,
    /// Which shard holds the data, from 0.
    pub(crate) shard: usize,
}

impl TensorInfo {
    /// Number of elements: the product of the shape.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Where the data begins, in bytes from the start of its shard.
    pub fn offset(&self) -> u64 {
        self.start
    }

    /// Which shard holds the data, from 0.
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// Where the data ends.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// Bytes of a tensor, after checking that its shape is one that `format` can have.
pub(crate) fn checked_bytes(tensor: &str, format: Format, shape: &[u64]) -> Result<u64, Error> {
    if shape.len() > MAX_DIMENSIONS {
        return Err(Error::Dimensions { tensor: tensor.to_owned(), got: shape.len() as u64 });
    }
    let row = shape.first().copied().unwrap_or(1);
    let block = format.block_len() as u64;
    if row % block != 0 {
        let (tensor, format) = (tensor.to_owned(), format.name());
        return Err(Error::Row { tensor, format, expected: block, got: row });
    }
    // Both are checked: a block of Q4_0 has more elements than bytes, and an empty dimension hides no overflow.
    let product = |first: u64| {
        let nonzero = shape.iter().skip(1).map(|&n| n.max(1)).try_fold(first.max(1), u64::checked_mul);
        nonzero.filter(|&n| n <= i64::MAX as u64)
    };
    let row_bytes = (row / block).checked_mul(format.block_bytes() as u64);
    match (product(row), row_bytes.and_then(product)) {
        (Some(_), Some(_)) if shape.contains(&0) => Ok(0),
        (Some(_), Some(bytes)) => Ok(bytes),
        _ => Err(Error::Size { tensor: tensor.to_owned(), format: format.name(), shape: shape.to_vec() }),
    }
}
