//! The inputs of a product.

use crate::weight::Tier;

/// The inputs of a product.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) rows: usize,
    /// By which kernels they are multiplied.
    pub(crate) tier: Tier,
    pub(crate) cols: usize,
    pub(crate) values: &'a [f32],
}
