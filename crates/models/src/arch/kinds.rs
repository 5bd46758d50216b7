//! What architectures differ in: the choices of a row of the table.

use candor_ops::Unary;

/// How the two halves of a layer, attention and feed-forward, are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// `x += mix(norm(x)); x += ffn(norm(x))`. `use_parallel_residual` in the metadata makes it [`Residual::Parallel`].
    Sequential,
    /// `x += mix(norm(x)) + ffn(norm(x))`, where the second norm may be the first.
    Parallel,
    /// [`Residual::Parallel`] where the file lacks the second norm, otherwise [`Residual::Sequential`].
    ByNorm,
    /// `x += norm(mix(x)); x += norm(ffn(x))`.
    Inside,
    /// `x = norm(x + mix(x)); x = norm(x + ffn(x))`: the original Transformer.
    After,
}

/// Which weights a layer's norms have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormWeights {
    /// All have weights.
    Always,
    /// None has.
    Never,
    /// The first norm of the first layer is left out altogether.
    ButFirst,
}

/// When queries and keys are normed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Before they are rotated, where the file has weights for it.
    Before,
    /// After.
    After,
    /// After, without weights, in the layers that rotate, but not in the model with this number of experts: the file
    /// does not say.
    BareUnless(usize),
}

/// Which layers see a window of positions, where the file has one: `sliding_window_pattern` says it for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// None: the key means nothing here.
    Never,
    /// All.
    All,
    /// All layers except every n-th.
    ButEvery(usize),
    /// All layers except the first of every n.
    ButFirstOf(usize),
    /// All layers except every n-th, which is global; the others attend within chunks of a number of positions.
    Chunks(usize, usize),
}

/// What it means if a file does not say how long windows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// There are none.
    None,
    /// They are so long.
    Or(usize),
    /// It lacks something.
    Needed,
}

/// How rotary positions differ between layers with a window and those without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rotation {
    /// Not at all.
    Same,
    /// Layers without a window do not rotate, where there are layers with one.
    OnlyWindows,
    /// Layers with a window have the base `rope.freq_base_swa`, or this one, and no scaling.
    WindowsUnscaled(Option<f32>),
    /// All layers except every n-th rotate.
    ButEvery(usize),
    /// Nothing rotates.
    None,
    /// Nothing rotates unless `rope.scaling.finetuned` says so.
    IfFinetuned,
}

/// The stacks of layers that a file has, and what the names of their tensors begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacks {
    /// One: `blk.0`.
    One,
    /// An encoder alone: `enc.blk.0`.
    Encoder,
    /// An encoder, and a decoder that also attends to what that gives: `enc.blk.0` and `dec.blk.0`.
    Both,
}

/// A stack of layers: what the names of its tensors begin with, and the key that counts its layers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) prefix: &'static str,
    pub(crate) count: &'static str,
}

/// The only stack of a model.
pub(crate) const ONE: Stack = Stack { prefix: "", count: "block_count" };
pub(crate) const ENCODER: Stack = Stack { prefix: "enc.", count: "block_count" };
pub(crate) const DECODER: Stack = Stack { prefix: "dec.", count: "decoder_block_count" };

/// What the feed-forward does between its matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// A function; of the gate, where there is one.
    Plain(Unary),
    /// That which `hidden_activation` names, or this one.
    Named(Unary),
    /// GELU of the gate, and ReLU without a gate.
    GeluOrRelu,
    /// xIELU, whose numbers each layer has in the metadata.
    Xielu,
    /// `min(g, 7) * sigmoid(1.702 min(g, 7)) * (clamp(u, -7, 7) + 1)` (OpenAI 2025).
    ClampedGlu,
}

impl Activation {
    /// Whether it never goes without a gate, so that a feed-forward without the gate's matrix lacks it.
    pub(crate) fn opens(self) -> bool {
        matches!(self, Activation::Plain(Unary::Silu) | Activation::Named(_) | Activation::ClampedGlu)
    }

    /// Whether it goes with a gate, so that a file without the gate's matrix lacks something.
    pub(crate) fn gates(self) -> bool {
        !matches!(self, Activation::Plain(Unary::ReluSquared))
    }
}

/// What becomes of `logit_scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitScale {
    /// Logits are multiplied by it.
    Multiplied,
    /// They are divided by it.
    Divided,
}

/// What becomes of a reranker's label scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// They stay as they are.
    Scores,
    /// A softmax makes shares of them.
    Shares,
}

/// By how much queries grow with their position, so that attention over a long context stays as sharp as over a short one:
/// `1 + scale * ln(1 + floor((position + offset) / every))` (Nakanishi 2025; Llama 4 and Mistral 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionTemperature {
    /// Positions of a step.
    pub every: usize,
    /// Factor on the logarithm.
    pub scale: f32,
    /// Added to positions.
    pub offset: usize,
    /// Only in layers that do not rotate.
    pub unrotated: bool,
}
