//! What varies from layer to layer.

use candor_ops::LayerCache;

/// The parts of a layer, by their numbers among the model's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) mixers: Vec<usize>,
    pub(crate) ffn: Option<usize>,
    /// Which of the model's rotations.
    pub(crate) rotation: Option<Rotary>,
    /// Whether its queries grow with their position.
    pub(crate) grows: bool,
    pub(crate) cache: LayerCache,
}

/// One of a model's rotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rotary {
    /// The usual one.
    Global,
    /// That of layers with a window.
    Window,
}
