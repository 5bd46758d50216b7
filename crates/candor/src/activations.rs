//! What becomes of activations before they are multiplied with weights.

/// What the inputs of products are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// What is fastest: rounded to 8 bits for quantized weights on the processor, to bfloat16 or halves where a device multiplies
    /// those. [`Model::rounding`](crate::Model::rounding) says how the processor rounds.
    #[default]
    Fastest,
    /// f32 as they are, whatever the weights: quantized weights are decoded to f32, and sums are f32. On GPUs too.
    F32,
}
