//! A row of the table of architectures.

use candor_gguf::Gguf;
use candor_ops::{Gate, NormKind, Pairing, Unary};

use super::{
    kinds::{
        Activation, AttentionTemperature, Labels, LogitScale, NormWeights, QkNorm, Residual, Rotation, Stacks, Width,
        Windows,
    },
    needs::Need,
};
use crate::{Error, common::Common};

/// An architecture.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// GGUF's `general.architecture`.
    pub name: &'static str,
    /// Its stacks of layers.
    pub stacks: Stacks,
    /// Whether it only gives vectors of texts, and looks to both sides, whatever the metadata says.
    pub encodes: bool,
    /// Which elements rotary embedding pairs.
    pub pairing: Pairing,
    /// Which others it pairs where positions have several parts (M-RoPE), those of a text being the same.
    pub sectioned: Option<Pairing>,
    /// How rotation differs between layers.
    pub rotation: Rotation,
    /// The kind of all norms.
    pub norm: NormKind,
    /// Their weights.
    pub norm_weights: NormWeights,
    /// How a layer is connected.
    pub residual: Residual,
    /// Whether each half of a layer is normed once more before it is added.
    pub sandwich: bool,
    /// Norms before attention, before the feed-forward and after the last layer, by their tensors.
    pub norms: [&'static str; 3],
    /// When queries and keys are normed.
    pub qk_norm: QkNorm,
    /// Which layers see a window.
    pub windows: Windows,
    /// Whether the file says how long windows are.
    pub window: Width,
    /// How queries grow with their position, where the metadata does not say.
    pub temperature: Option<AttentionTemperature>,
    /// ALiBi's greatest exponent where the metadata has none.
    pub alibi: Option<f32>,
    /// What caps scores, and logits, where the metadata does not say.
    pub caps: [Option<f32>; 2],
    /// What the feed-forward does.
    pub activation: Activation,
    /// How logits become weights of experts, and whether these are made to add up to 1, where the metadata does not say.
    pub router: (Gate, bool),
    /// What `logit_scale` does.
    pub logit_scale: LogitScale,
    /// The function between the matrices of a reranker's head, and what becomes of its scores.
    pub rank: (Unary, Labels),
    /// Tensors that its files always have though layers run without them.
    pub(crate) needs: &'static [&'static [Need]],
    /// Metadata that its files always have though layers run without it.
    pub(crate) needs_keys: &'static [&'static str],
    /// Metadata that means something to this architecture, and to others that say so, alone.
    pub(crate) own_keys: &'static [&'static str],
    /// What else there is, on the numbers that were read.
    pub(crate) quirk: fn(&mut Common),
    /// What a file of it leaves open that matters, for people to read.
    pub(crate) note: fn(&Gguf) -> Result<Option<String>, Error>,
}
