//! What a key-value cache must hold.

use candor_quant::Format;

use crate::Error;

/// Element type of cached keys or values. Scores and sums accumulate in f32 whichever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvFormat {
    /// 32-bit floats.
    F32,
    /// IEEE half-precision floats, llama.cpp's default.
    #[default]
    F16,
    /// Blocks of 32 signed bytes with a half-precision scale, 34 bytes together: llama.cpp's `q8_0`.
    Q8_0,
}

impl KvFormat {
    /// The same as a format of tensors.
    pub const fn format(self) -> Format {
        match self {
            KvFormat::F32 => Format::F32,
            KvFormat::F16 => Format::F16,
            KvFormat::Q8_0 => Format::Q8_0,
        }
    }
}

/// What a layer keeps of each sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCache {
    /// Key and value heads; none where the layer does not attend.
    pub kv_heads: usize,
    /// Width of a key head.
    pub key_dim: usize,
    /// Width of a value head.
    pub value_dim: usize,
    /// Positions that a row may look back, its own included; `None` where all.
    pub window: Option<usize>,
    /// Numbers of each state that does not grow with positions, `f32`.
    pub states: [usize; 3],
}

impl LayerCache {
    /// A layer that attends to all positions and has no other state.
    pub const fn attention(kv_heads: usize, key_dim: usize, value_dim: usize) -> LayerCache {
        LayerCache { kv_heads, key_dim, value_dim, window: None, states: [0; 3] }
    }
}

/// The dimensions of a cache: every sequence has room for `context` positions in every layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvPlan {
    /// What each layer keeps.
    pub layers: Vec<LayerCache>,
    /// Positions per sequence.
    pub context: usize,
    /// Independent sequences.
    pub sequences: usize,
    /// Element type of keys.
    pub keys: KvFormat,
    /// Element type of values.
    pub values: KvFormat,
}

impl KvPlan {
    /// The least position, other than 0, from which a sequence can go on that has had `len` positions at most since its
    /// position 0 was last fed: what states have taken in cannot be undone.
    pub fn rollback(&self, len: usize) -> usize {
        let has_states = self.layers.iter().any(|layer| layer.states.iter().any(|&state| state > 0));
        if has_states { len } else { 0 }
    }

    /// The same for some of the layers.
    ///
    /// # Panics
    /// If there are no such layers.
    pub fn part(&self, layers: std::ops::Range<usize>) -> KvPlan {
        KvPlan { layers: self.layers[layers].to_vec(), ..*self }
    }

    /// Whether the heads' widths are whole blocks of their formats.
    ///
    /// # Errors
    /// [`Error::Cache`] where they are not.
    pub fn check(&self) -> Result<(), Error> {
        for layer in self.layers.iter().filter(|layer| layer.kv_heads > 0) {
            for (what, format, dim) in [("keys", self.keys, layer.key_dim), ("values", self.values, layer.value_dim)] {
                let format = format.format();
                if !dim.is_multiple_of(format.block_len()) {
                    return Err(Error::Cache { what, format, dim });
                }
            }
        }
        Ok(())
    }

    /// Bytes of one position's keys and values in one head of a layer; `None` where a width is no whole number of the
    /// format's blocks.
    pub fn head_bytes(&self, layer: usize) -> Option<usize> {
        let layer = self.layers.get(layer)?;
        let keys = self.keys.format().row_bytes(layer.key_dim)?;
        keys.checked_add(self.values.format().row_bytes(layer.value_dim)?)
    }

    /// Bytes of keys, values and states together; `None` where no machine could hold them. A backend may round widths and
    /// positions up to multiples of its own.
    pub fn checked_bytes(&self) -> Option<usize> {
        let layer = |(index, layer): (usize, &LayerCache)| {
            let states = layer.states.iter().try_fold(0usize, |sum, &len| sum.checked_add(len.checked_mul(4)?))?;
            if layer.kv_heads == 0 {
                return Some(states);
            }
            let heads = layer.kv_heads.checked_mul(self.context)?.checked_mul(self.head_bytes(index)?)?;
            heads.checked_add(states)
        };
        let sum = self.layers.iter().enumerate().try_fold(0usize, |sum, next| sum.checked_add(layer(next)?))?;
        sum.checked_mul(self.sequences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(dims: [usize; 2], keys: KvFormat, values: KvFormat) -> KvPlan {
        let [key_dim, value_dim] = dims;
        let layers = vec![LayerCache::attention(2, key_dim, value_dim); 3];
        KvPlan { layers, context: 5, sequences: 7, keys, values }
    }

    #[test]
    fn bytes_are_those_of_the_formats() {
        let rows = 3 * 2 * 5 * 7;
        for (keys, values, bytes) in [
            (KvFormat::F32, KvFormat::F16, 64 * 4 + 96 * 2),
            (KvFormat::Q8_0, KvFormat::Q8_0, 2 * 34 + 3 * 34),
            (KvFormat::F16, KvFormat::Q8_0, 64 * 2 + 3 * 34),
        ] {
            let plan = plan([64, 96], keys, values);
            assert_eq!((plan.head_bytes(0), plan.checked_bytes()), (Some(bytes), Some(rows * bytes)), "{plan:?}");
            assert!(plan.check().is_ok(), "{plan:?}");
        }
        let huge = KvPlan { context: usize::MAX / 8, ..plan([64, 64], KvFormat::F16, KvFormat::F16) };
        assert_eq!(huge.checked_bytes(), None);
    }

    #[test]
    fn heads_that_are_no_whole_blocks_are_refused() {
        let q8 = KvFormat::Q8_0;
        let message = plan([64, 80], q8, q8).check().expect_err("80 is no multiple of 32").to_string();
        assert_eq!(message, "cache of values in q8_0: expected heads of a multiple of 32, got 80");
        let message = plan([48, 64], q8, KvFormat::F16).check().expect_err("nor is 48").to_string();
        assert_eq!(message, "cache of keys in q8_0: expected heads of a multiple of 32, got 48");
        assert!(plan([48, 80], KvFormat::F16, KvFormat::F32).check().is_ok());
    }
}
