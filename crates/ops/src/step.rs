//! Everything that changes from one forward pass to the next.

/// One call of the model: `T` tokens, each with its place.
///
/// Rows of prompts (*prefill*) come first, rows that continue a text (*decoding*) behind them. A backend may compute the two
/// kinds by different arithmetic, each right within rounding. A row's result depends on its kind and on its own sequence, never
/// on how many rows of either kind share the step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step<'a> {
    /// Token ids, `[T]`.
    pub tokens: &'a [u32],
    /// Position of each token in its sequence, `[T]`. Within a sequence positions follow each other without gaps.
    pub positions: &'a [u32],
    /// Which sequence of the KV cache each token belongs to, `[T]`.
    pub sequences: &'a [u32],
    /// Ascending indices into `tokens` whose logits are wanted.
    pub outputs: &'a [u32],
    /// How many of the last rows decode.
    pub decoding: usize,
}
