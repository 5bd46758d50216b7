//! Which kernels multiply which rows.

/// What decides which kernels multiply a row of inputs: the batch kernels of many formats round and add up differently than the row
/// kernels do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batching {
    /// What the row is for: rows of prompts take the batch kernels, rows that decode the row kernels. A row's bits depend on
    /// its own sequence alone, whatever shares the step.
    #[default]
    ByRole,
    /// How many rows there are: what is faster for that number. A row's bits depend on what shares the step.
    Fastest,
    /// Nothing: all rows take the row kernels. A prompt has the bits that it would have had as generated text.
    Invariant,
}
