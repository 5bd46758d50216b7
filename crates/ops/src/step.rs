//! Everything that changes from one forward pass to the next.

/// One call of the model: `T` tokens, each with its place.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Token ids, `[T]`.
    pub tokens: &'a [u32],
    /// Position of each token in its sequence, `[T]`. Within a sequence positions follow each other without gaps.
    pub positions: &'a [u32],
    /// Which sequence of the KV cache each token belongs to, `[T]`.
    pub sequences: &'a [u32],
    /// Ascending indices into `tokens` whose logits are wanted.
    pub outputs: &'a [u32],
}
