//! What all parts of a model need to know: finished before the first of them is made.

use candor_ops::Mask;

use crate::arch::{AttentionTemperature, Residual};

/// The dimensions and numbers that all layers of a stack share.
#[derive(Clone, Debug, PartialEq)]
pub struct Common {
    /// Layers.
    pub layers: usize,
    /// Layers after those, which guess tokens ahead (multi-token prediction) and are not run.
    pub(crate) mtp_layers: usize,
    /// Width `D` of the residual stream.
    pub dim: usize,
    /// Rows of the embedding and outputs of the head, `V`.
    pub vocab: usize,
    /// Positions that the model was trained on.
    pub context: usize,
    /// Added to the mean square in every norm.
    pub eps: f32,
    /// Positions that a token sees in those layers that limit them.
    pub window: Option<usize>,
    /// Positions beyond which the model computes something that is not supported.
    pub limit: Option<usize>,
    /// What the model gives for a token.
    pub gives: Gives,
    /// What each layer sees.
    pub masks: Vec<Mask>,
    /// What the names of the layers' tensors begin with.
    pub(crate) prefix: &'static str,
    /// The layer whose keys and values each layer reads: itself, or one before it.
    pub(crate) owners: Vec<usize>,
    pub(crate) residual: Residual,
    /// Factors on embeddings, on what is added to the stream, and on logits.
    pub(crate) embedding_scale: f32,
    pub(crate) residual_scale: f32,
    pub(crate) logit_scale: f32,
    /// On logits: `cap * tanh(logit / cap)`.
    pub(crate) final_cap: Option<f32>,
    /// On scores.
    pub(crate) score_cap: Option<f32>,
    pub(crate) scores: Scores,
    /// ALiBi's greatest exponent; it takes the place of rotation.
    pub(crate) alibi: Option<f32>,
    pub(crate) temperature: Option<AttentionTemperature>,
    /// Queries, keys and values are held within plus and minus this.
    pub(crate) clamp: Option<f32>,
    /// Whether values are normed, without weights.
    pub(crate) value_norm: bool,
    /// Whether experts' inputs are weighted instead of their outputs.
    pub(crate) weigh_before: bool,
    /// Layers after which the stream is halved, where the file's weights are made for that.
    pub(crate) halved_every: Option<usize>,
    /// Whether YaRN's ramp begins and ends at whole pairs: yes, where nothing else is said.
    pub(crate) rounds_yarn: Option<bool>,
    /// Positions after which long-context factors of rotation are meant.
    pub(crate) original_context: usize,
}

/// What a model gives for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// A score for each token of the vocabulary.
    Logits,
    /// A vector of the stream's width, from all tokens of its sequence.
    Embeddings,
}

/// What attention's scores are multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scores {
    /// `attention.scale`, or one over the root of a head's width.
    ByHead,
    /// One over the root of a head's share of the stream.
    ByStream,
    /// Nothing.
    Unscaled,
}

impl Common {
    /// The name of a layer's tensor.
    pub(crate) fn name(&self, layer: usize, rest: &str) -> String {
        format!("{}blk.{layer}.{rest}", self.prefix)
    }

    /// Whether a layer sees fewer positions than there are before a token, or around it.
    pub(crate) fn limits(&self, layer: usize) -> bool {
        !matches!(self.masks[layer], Mask::Causal | Mask::Whole)
    }
}
