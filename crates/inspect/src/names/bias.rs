//! Biases in the outputs of projections, which names do not tell.

/// Whether a projection's traced output already has its bias added. PyTorch's `Linear` adds it (Qwen2, where `q_proj` is
/// our `Qcur.add`); models without a bias have `Qcur.mul_mat`. The dump does not say; the model does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectionBias {
    /// The model's query and key projections have no bias.
    #[default]
    Absent,
    /// They have one, and it is in the traced output.
    Included,
}
