//! Norms over runs of elements.

/// What a run is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + eps)` (Zhang and Sennrich 2019).
    Rms,
    /// `(x - mean(x)) / sqrt(var(x) + eps)` (Ba et al. 2016).
    Layer,
    /// `x / sqrt(sum(x^2) + eps)`.
    L2,
}

/// A norm without its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// What a run is divided by.
    pub kind: NormKind,
    /// Elements that are normed together: a row, or a part of one.
    pub run: usize,
    /// Added under the root.
    pub eps: f32,
}
