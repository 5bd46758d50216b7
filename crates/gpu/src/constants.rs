//! Small tables that follow from a layer's numbers, and weights as floats: what shaders look up.

use std::sync::Arc;

use candor_ops::{alibi_slope, relative_bucket};

use crate::device::Storage;

/// A table that is made once for all layers of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Constant {
    /// ALiBi's slopes of heads.
    Slopes { heads: usize, max: u32 },
    /// The bucket of each distance from `-most` to `most`.
    Buckets { both: bool, buckets: usize, most: usize },
}

impl Constant {
    pub(crate) fn words(self) -> Vec<u32> {
        match self {
            Constant::Slopes { heads, max } => {
                let slope = |head| alibi_slope(head, heads, f32::from_bits(max)) as f32;
                (0..heads).map(|head| slope(head).to_bits()).collect()
            }
            Constant::Buckets { both, buckets, most } => {
                let most = most as i64;
                (-most..=most).map(|distance| relative_bucket(distance, both, buckets, most as usize) as u32).collect()
            }
        }
    }
}

/// A matrix as floats.
#[derive(Debug)]
pub(crate) struct Floats {
    pub(crate) storage: Arc<Storage>,
    /// Elements from row to row.
    pub(crate) stride: u32,
}
