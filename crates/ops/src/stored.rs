//! Caches as bytes, to be written to a file and read back by any backend. What the file is, is not known here.
//!
//! A layer is the keys of all heads, then their values, then its states. A head is a row for each place that is taken, in the
//! blocks of the cache's format as files of weights have them. States are f32, as their operations define them.

use std::{
    ops::Range,
    task::{Context, Poll},
};

use crate::{Error, KvFormat, KvPlan};

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

/// A cache whose contents can be taken out and put back, or given to another of its sequences, to the bit.
pub trait Stored {
    /// Layers of the cache.
    fn layers(&self) -> usize;
    /// Appends what the layer keeps to `out`.
    ///
    /// # Errors
    /// If the device has failed.
    ///
    /// # Panics
    /// If there is no such layer or sequence, or some of its positions have no page.
    fn save(&mut self, out: &mut Vec<u8>, prefix: Prefix) -> Result<(), Error>;
    /// Begins [`Stored::poll_save`].
    ///
    /// # Errors
    /// If the device has no memory for it.
    ///
    /// # Panics
    /// As [`Stored::save`].
    fn begin_save(&mut self, prefix: Prefix) -> Result<(), Error> {
        let _ = prefix;
        Ok(())
    }
    /// [`Stored::save`] where nobody can wait: ready when what the layer keeps has come and was appended. Elsewhere it is ready
    /// at once.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    fn poll_save(&mut self, out: &mut Vec<u8>, prefix: Prefix, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let _ = cx;
        Poll::Ready(self.save(out, prefix))
    }
    /// Takes back what [`Stored::save`] gave for the same prefix, on whatever backend.
    ///
    /// # Errors
    /// If there are too few bytes or too many, fewer positions in the cache, or too few free pages, and nothing is changed
    /// then; or if the device has failed.
    fn load(&mut self, bytes: &[u8], prefix: Prefix) -> Result<(), Error>;
    /// Has sequence `to` keep what `from` keeps of its first `positions` positions, in all layers, and its states, which are
    /// those after the last step. Memory may be shared until one of them writes; pages that `to` had are given back.
    ///
    /// # Errors
    /// If the device has failed.
    ///
    /// # Panics
    /// If there are no such sequences or positions.
    fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<(), Error>;
    /// Has a sequence own the pages of positions that it is about to write to, in all layers that keep everything; `false`, and
    /// nothing is changed, if the pool has too few free ones. Writing does the same by itself, and what it cannot get is the
    /// caller's fault: a panic or a device's error.
    ///
    /// # Errors
    /// If the device has failed.
    ///
    /// # Panics
    /// If there is no such sequence or position.
    fn reserve(&mut self, sequence: usize, positions: Range<usize>) -> Result<bool, Error>;
    /// Gives back the pages of a sequence that hold none of its first `len` positions. Rings and states stay as they are.
    ///
    /// # Panics
    /// If there is no such sequence.
    fn release(&mut self, sequence: usize, len: usize);
    /// Pages that sequences have, shared ones counted once, and all there are.
    fn pages(&self) -> (usize, usize);
}

/// How much a layer keeps of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Key and value heads.
    pub heads: usize,
    /// Positions of a head: all, or the last ones, position `p` at place `p % kept`.
    pub places: usize,
    /// Bytes of a head's key at a position, and of its value.
    pub rows: [usize; 2],
    /// Numbers of each state.
    pub states: [usize; 3],
}

impl Extent {
    /// Bytes of all of it; `None` where no machine could hold them.
    pub fn bytes(&self) -> Option<usize> {
        let row = self.rows.iter().sum::<usize>();
        let heads = self.heads.checked_mul(self.places)?.checked_mul(row)?;
        heads.checked_add(self.states.iter().sum::<usize>().checked_mul(4)?)
    }
}

impl KvPlan {
    /// How much a layer keeps of a prefix.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn extent(&self, prefix: Prefix) -> Extent {
        let layer = &self.layers[prefix.layer];
        let places = prefix.positions.min(self.kept(prefix.layer));
        let row = |format: KvFormat, dim| format.format().row_bytes(dim).unwrap_or(0);
        let rows = match layer.kv_heads {
            0 => [0; 2],
            _ => [row(self.keys, layer.key_dim), row(self.values, layer.value_dim)],
        };
        Extent { heads: layer.kv_heads, places, rows, states: layer.states }
    }

    /// The same where as many bytes came as it should be.
    ///
    /// # Errors
    /// [`Error::Stored`] if not, or if there are more positions in the prefix than in the cache.
    pub fn extent_of(&self, prefix: Prefix, bytes: usize) -> Result<Extent, Error> {
        let extent = self.extent(prefix);
        let expected = extent.bytes().filter(|_| prefix.positions <= self.context);
        if expected == Some(bytes) {
            return Ok(extent);
        }
        Err(Error::Stored { layer: prefix.layer, expected: expected.unwrap_or(usize::MAX), got: bytes })
    }
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
