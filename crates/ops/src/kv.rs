//! What a key-value cache must hold.

use candor_quant::Format;

use crate::{Error, PAGE};

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
    /// Blocks of 32 numbers of 4 bits with a half-precision scale, 18 bytes together: llama.cpp's `q4_0`.
    Q4_0,
}

impl KvFormat {
    /// The same as a format of tensors.
    pub const fn format(self) -> Format {
        match self {
            KvFormat::F32 => Format::F32,
            KvFormat::F16 => Format::F16,
            KvFormat::Q8_0 => Format::Q8_0,
            KvFormat::Q4_0 => Format::Q4_0,
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

/// The dimensions of a cache: every sequence may have `context` positions in every layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvPlan {
    /// What each layer keeps.
    pub layers: Vec<LayerCache>,
    /// Positions per sequence.
    pub context: usize,
    /// Most positions of a step, of all its sequences together; `context` where that is not known. A layer with a window
    /// keeps no more positions than rows of one step can see, so a longer step would overwrite what it needs.
    pub step: usize,
    /// Independent sequences.
    pub sequences: usize,
    /// Positions of all sequences together that layers which keep everything have room for, rounded up to whole pages; `None`
    /// where each sequence has room for `context`. With less than that, [`crate::Stored::reserve`] may say no.
    pub pool: Option<usize>,
    /// Element type of keys.
    pub keys: KvFormat,
    /// Element type of values.
    pub values: KvFormat,
}

/// Positions that a cache which begins again at its start is a multiple of: a backend may work through this many at a
/// time.
pub const RING: usize = 256;

impl KvPlan {
    /// Positions that a layer keeps of each sequence: the last ones, position `p` at place `p % kept`.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn kept(&self, layer: usize) -> usize {
        let ring = |window: usize| window.checked_add(self.step)?.saturating_sub(1).checked_next_multiple_of(RING);
        match self.layers[layer].window.and_then(ring) {
            Some(ring) => ring.min(self.context),
            None => self.context,
        }
    }

    /// Whether a layer keeps all positions of its sequences: in pages of a pool, the same ones in all such layers.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn is_pooled(&self, layer: usize) -> bool {
        self.layers[layer].kv_heads > 0 && self.kept(layer) == self.context
    }

    /// Pages of the pool. Where no layer has any, they are enough for all sequences.
    pub fn pages(&self) -> usize {
        let all = self.sequences.saturating_mul(self.context.div_ceil(PAGE));
        let pool = self.pool.filter(|_| (0..self.layers.len()).any(|layer| self.is_pooled(layer)));
        pool.map_or(all, |pool| all.min(pool.div_ceil(PAGE)))
    }

    /// The least position, other than 0, from which a sequence can go on that has had `len` positions at most since its
    /// position 0 was last fed: what layers with a window no longer hold, and what states have taken in, cannot be undone.
    pub fn rollback(&self, len: usize) -> usize {
        let layer = |(index, layer): (usize, &LayerCache)| {
            if layer.states.iter().any(|&state| state > 0) {
                return len;
            }
            match (self.kept(index), layer.window) {
                // Places of the oldest positions were written again. The first new row looks back a window.
                (kept, Some(window)) if layer.kv_heads > 0 && kept < len => len - kept + window.saturating_sub(1),
                _ => 0,
            }
        };
        self.layers.iter().enumerate().map(layer).max().unwrap_or(0).min(len)
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
        let pages = self.pages();
        let layer = |(index, layer): (usize, &LayerCache)| {
            let states = layer.states.iter().try_fold(0usize, |sum, &len| sum.checked_add(len.checked_mul(4)?))?;
            let states = states.checked_mul(self.sequences)?;
            if layer.kv_heads == 0 {
                return Some(states);
            }
            let kept = self.sequences.checked_mul(self.kept(index))?;
            let places = if self.is_pooled(index) { kept.min(pages.saturating_mul(PAGE)) } else { kept };
            let heads = layer.kv_heads.checked_mul(places)?.checked_mul(self.head_bytes(index)?)?;
            heads.checked_add(states)
        };
        self.layers.iter().enumerate().try_fold(0usize, |sum, next| sum.checked_add(layer(next)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(dims: [usize; 2], keys: KvFormat, values: KvFormat) -> KvPlan {
        let [key_dim, value_dim] = dims;
        let layers = vec![LayerCache::attention(2, key_dim, value_dim); 3];
        KvPlan { layers, context: 5, step: 5, sequences: 7, pool: None, keys, values }
    }

    #[test]
    fn bytes_are_those_of_the_formats() {
        let rows = 3 * 2 * 5 * 7;
        for (keys, values, bytes) in [
            (KvFormat::F32, KvFormat::F16, 64 * 4 + 96 * 2),
            (KvFormat::Q8_0, KvFormat::Q8_0, 2 * 34 + 3 * 34),
            (KvFormat::F16, KvFormat::Q8_0, 64 * 2 + 3 * 34),
            (KvFormat::Q4_0, KvFormat::Q4_0, 2 * 18 + 3 * 18),
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

    #[test]
    fn a_window_keeps_whole_blocks_of_what_a_step_sees() {
        let layer = LayerCache::attention(2, 64, 64);
        let windowed = |window| LayerCache { window: Some(window), ..layer };
        let plan = |context, step| KvPlan {
            layers: vec![layer, windowed(100), windowed(1024), windowed(157), windowed(158)],
            context,
            step,
            ..plan([64, 64], KvFormat::F16, KvFormat::F16)
        };
        let kept = |plan: KvPlan| (0..5).map(|i| plan.kept(i)).collect::<Vec<_>>();
        assert_eq!(kept(plan(4096, 100)), [4096, 256, 1280, 256, 512]);
        assert_eq!(kept(plan(300, 100)), [300, 256, 300, 256, 300], "no more than there are positions");
        assert_eq!(kept(plan(4096, 4096)), [4096; 5], "steps as long as the context");
        let bytes = plan(4096, 100).checked_bytes().expect("no huge numbers");
        assert_eq!(bytes, (4096 + 256 + 1280 + 256 + 512) * 2 * 256 * 7);
    }

    #[test]
    fn a_pool_is_no_more_than_what_is_promised() {
        let layer = LayerCache { states: [3, 0, 0], ..LayerCache::attention(2, 64, 64) };
        let windowed = LayerCache { window: Some(100), ..layer };
        let all = KvPlan {
            layers: vec![layer, windowed],
            context: 1000,
            step: 1,
            ..plan([64, 64], KvFormat::F16, KvFormat::F16)
        };
        let rest = 7 * 256 * 2 * 256 + 7 * 2 * 12;
        for (pool, pages, places) in [
            (None, 28, 7000),
            (Some(0), 0, 0),
            (Some(257), 2, 512),
            (Some(6912), 27, 6912),
            (Some(6913), 28, 7000),
            (Some(usize::MAX), 28, 7000),
        ] {
            let plan = KvPlan { pool, ..all.clone() };
            let bytes = places * 2 * 256 + rest;
            assert_eq!((plan.pages(), plan.checked_bytes()), (pages, Some(bytes)), "{pool:?}");
            assert_eq!([0, 1].map(|layer| plan.is_pooled(layer)), [true, false]);
            assert_eq!(plan.part(1..2).pages(), 28, "a ring takes no pages");
        }
    }

    /// Against the rule itself: each row after the way back sees positions that are still at their places.
    #[test]
    fn a_rollback_ends_where_rows_see_what_was_overwritten() {
        let (window, step) = (100, 60);
        let layer = LayerCache { window: Some(window), ..LayerCache::attention(1, 32, 32) };
        let whole = LayerCache::attention(1, 32, 32);
        let plan =
            KvPlan { layers: vec![whole, layer], context: 2000, step, ..plan([32; 2], KvFormat::F16, KvFormat::F16) };
        let kept = plan.kept(1);
        assert_eq!(kept, 256);
        for len in [1, 100, 255, 256, 257, 300, 355, 356, 357, 1000, 2000] {
            let mut places = vec![None; kept];
            (0..len).for_each(|position| places[position % kept] = Some(position));
            let sound = |at: usize| (at.saturating_sub(window - 1)..at).all(|p| places[p % kept] == Some(p));
            let least = (1..=len).find(|&at| (at..=len).all(sound)).expect("going on needs nothing");
            assert_eq!(plan.rollback(len).max(1), least, "{len} positions");
        }
        let state = KvPlan { layers: vec![whole, LayerCache { states: [0, 4, 0], ..LayerCache::default() }], ..plan };
        assert_eq!(state.rollback(17), 17, "a state takes nothing back");
        assert_eq!(KvPlan { layers: vec![whole; 2], ..state }.rollback(17), 0);
    }
}
