//! How much of a dump is believed: every cap on what comes from outside.

use std::path::Path;

use super::ImportError;

/// Most elements held of one dump: 8 GiB of floats.
pub(super) const MAX_VALUES: u64 = 1 << 31;
/// Most dimensions of a tensor.
pub(super) const MAX_DIMS: usize = 8;
/// Most bytes of a text dump.
pub(super) const MAX_TEXT: u64 = 1 << 30;
/// Most bytes of a file that is JSON as a whole.
pub(super) const MAX_JSON: u64 = 1 << 27;
/// Most bytes of a safetensors header, as the format itself caps it.
pub(super) const MAX_SAFETENSORS_HEADER: u64 = 100_000_000;
/// Most bytes of a NumPy header; real ones have about 120.
pub(super) const MAX_NUMPY_HEADER: u64 = 1 << 20;
/// Most members of an .npz archive, and most files read from a folder.
pub(super) const MAX_MEMBERS: usize = 1 << 17;
/// An archive may unpack to this many bytes whatever its own size...
pub(super) const FREE_UNPACKED: u64 = 1 << 26;
/// ... and beyond that to this multiple of its size. Activations pack to about 0.9 of theirs; half zeros to 0.45.
pub(super) const MAX_UNPACK_RATIO: u64 = 100;

/// Elements of a shape, refused above [`MAX_VALUES`] and [`MAX_DIMS`].
pub(super) fn elements(path: &Path, shape: &[usize]) -> Result<usize, ImportError> {
    let too_large = |what, found, most| ImportError::TooLarge { path: path.to_owned(), what, found, most };
    if shape.len() > MAX_DIMS {
        return Err(too_large("the number of dimensions", shape.len() as u64, MAX_DIMS as u64));
    }
    let count = shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim as u64)).unwrap_or(u64::MAX);
    match usize::try_from(count) {
        Ok(elements) if count <= MAX_VALUES => Ok(elements),
        _ => Err(too_large("the number of elements", count, MAX_VALUES)),
    }
}
