//! A node of llama.cpp's graph.

use crate::import::printed::Printed;

/// One node of the graph as printed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    /// The type of its numbers: `f32`.
    pub(super) kind: String,
    pub(super) op: String,
    /// Names of its sources, without device decorations, and their dimensions.
    pub(super) sources: Vec<String>,
    pub(super) shapes: Vec<Option<[usize; 4]>>,
    /// llama.cpp's order of dimensions: the innermost first.
    pub(super) ne: [usize; 4],
    /// Elements, indices in the order `[ne2, ne1, ne0]`.
    pub(super) printed: Option<Printed>,
    pub(super) sum: Option<f64>,
}
