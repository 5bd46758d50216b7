//! Caches as bytes, to be written to a file and read back by the same backend. What the file is, is not known here.

use crate::Error;

/// What a layer keeps of the beginning of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The layer, counted within the cache.
    pub layer: usize,
    /// The sequence.
    pub sequence: usize,
    /// Its first positions. States are those after the last step, whatever this says.
    pub positions: usize,
}

/// A cache whose contents can be taken out and put back, to the bit.
pub trait Stored {
    /// A name for the order and meaning of the bytes: caches of the same plan and layout understand each other.
    fn layout(&self) -> String;
    /// Layers of the cache.
    fn layers(&self) -> usize;
    /// Appends what the layer keeps to `out`.
    fn save(&self, out: &mut Vec<u8>, prefix: Prefix);
    /// Takes back what [`Stored::save`] gave for the same prefix.
    ///
    /// # Errors
    /// If there are too few bytes or too many, or fewer positions in the cache; nothing is changed then.
    fn load(&mut self, bytes: &[u8], prefix: Prefix) -> Result<(), Error>;
}

/// Takes as many numbers off the front as `out` has room for.
///
/// # Panics
/// If there are not as many.
pub fn take_floats(bytes: &mut &[u8], out: &mut [f32]) {
    let (front, rest) = bytes.split_at(out.len() * 4);
    for (out, four) in out.iter_mut().zip(front.chunks_exact(4)) {
        *out = f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    }
    *bytes = rest;
}

/// Appends numbers.
pub fn put_floats(out: &mut Vec<u8>, values: &[f32]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Whether as many bytes came as should.
///
/// # Errors
/// [`Error::Stored`] if not.
pub fn check_len(layer: usize, expected: Option<usize>, got: usize) -> Result<(), Error> {
    if expected == Some(got) {
        return Ok(());
    }
    Err(Error::Stored { layer, expected: expected.unwrap_or(usize::MAX), got })
}
