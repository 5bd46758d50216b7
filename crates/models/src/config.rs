//! The dimensions of a model: from metadata, and from which tensors its layers have.

use std::ops::{Deref, Range};

use candor_gguf::Gguf;
use candor_ops::{Heads, KvFormat, KvPlan, LayerCache, Mask};

use crate::{
    Error, Part,
    arch::{Architecture, Rotation, Windows},
    block::{Block, Rotary},
    common::{Common, Gives},
    extra, ffn,
    keys::Keys,
    masks, mixer,
};

/// The dimensions of a model. What all layers share is read from it as from its [`Common`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(crate) common: Common,
    /// Width `F` of the feed-forward's middle; of one expert, where all layers have experts.
    pub ffn: usize,
    /// Query heads `H`, key and value heads `G`, their widths `E` and `Ev`, and the scale of scores, of the first layer that
    /// attends; no heads where none does.
    pub heads: Heads,
    /// The token that an answer begins with, where an encoder reads the text first.
    pub start: Option<u32>,
    /// The stack of layers that reads the text.
    pub(crate) encoder: Option<Box<Config>>,
    pub(crate) blocks: Vec<Block>,
    /// The kinds of mixers and of feed-forwards that there are.
    pub(crate) mixers: Vec<mixer::Dims>,
    pub(crate) ffns: Vec<ffn::Dims>,
    /// What only some models have.
    pub(crate) extras: Vec<extra::Dims>,
}

impl Deref for Config {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl Config {
    /// Of one stack of layers, which are made of what their tensors are for.
    pub(crate) fn of_stack(keys: &Keys<'_>, common: Common) -> Result<Config, Error> {
        let layers = common.layers;
        let mut config = Config {
            common,
            ffn: 0,
            heads: Heads { heads: 0, kv_heads: 0, key_dim: 0, value_dim: 0, scale: 1.0 },
            start: None,
            encoder: None,
            blocks: Vec::new(),
            mixers: Vec::new(),
            ffns: Vec::new(),
            extras: Vec::new(),
        };
        for i in 0..layers {
            let block = config.block(keys, i)?;
            config.blocks.push(block);
        }
        let experts = keys.number("expert_count")?.is_some_and(|experts| experts != 0);
        if experts && !config.ffns.iter().any(ffn::Dims::has_experts) {
            return Err(Error::MissingTensor("blk.0.ffn_gate_inp.weight".into()));
        }
        config.heads = config.mixers.iter().find_map(mixer::Dims::heads).unwrap_or(config.heads);
        config.ffn = config.ffns.iter().map(ffn::Dims::width).max().unwrap_or(0);
        config.extras = extra::Dims::of(keys, &config.common, &config.heads)?;
        Ok(config)
    }

    /// A layer, by its tensors.
    fn block(&mut self, keys: &Keys<'_>, i: usize) -> Result<Block, Error> {
        let common = &self.common;
        let mixers = mixer::Dims::of(keys, common, i)?;
        let mut cache = LayerCache::default();
        mixers.iter().for_each(|dims| dims.keep(&mut cache));
        cache.window = common.masks[i].reach().map(|reach| reach + 1);
        if common.owners[i] != i {
            // What it would keep is what the other layer keeps, so that it can read that and keep nothing.
            let attends = mixers.iter().all(|dims| matches!(dims, mixer::Dims::Attention(_)));
            if self.blocks[common.owners[i]].cache != cache || !attends {
                return Err(masks::unlike(keys, i, common.owners[i]));
            }
            cache = LayerCache::default();
        }
        let ffn = ffn::Dims::of(keys, common, i)?;
        ffn.iter().for_each(|dims| dims.keep(&mut cache));
        let rotation = rotation(keys, common, i)?;
        Ok(Block {
            grows: common.temperature.is_some_and(|temperature| rotation.is_none() || !temperature.unrotated),
            rotation,
            mixers: mixers.into_iter().map(|dims| place(&mut self.mixers, dims)).collect(),
            ffn: ffn.map(|dims| place(&mut self.ffns, dims)),
            cache,
        })
    }

    /// The cache for `sequences` sequences of up to `context` positions: a layer's after the other's. Where there is an
    /// encoder, what each layer sees of a text follows, and at last what the encoder's layers need, one after the other.
    pub fn kv_plan(&self, context: usize, sequences: usize, keys: KvFormat, values: KvFormat) -> KvPlan {
        let mut layers: Vec<LayerCache> = self.blocks.iter().map(|block| block.cache).collect();
        if let Some(encoder) = &self.encoder {
            layers.extend_from_within(..);
            layers.extend(encoder.blocks.first().map(|block| block.cache));
        }
        KvPlan { layers, context, step: context, sequences, pool: None, keys, values }
    }

    /// The layers of a plan that a part's cache has.
    pub fn cached(&self, part: &Part) -> Range<usize> {
        match self.encoder {
            Some(_) => 0..2 * self.layers + 1,
            None => part.layers.clone(),
        }
    }

    /// Whether layers read more of those before them than the residual stream, so that they cannot be divided over devices.
    pub fn crosses(&self) -> bool {
        self.encoder.is_some()
            || self.owners.iter().enumerate().any(|(layer, &owner)| layer != owner)
            || self.extras.iter().any(extra::Dims::crosses)
            || self.mixers.iter().any(|dims| matches!(dims, mixer::Dims::Rwkv7(_)))
    }

    /// What a file leaves open that matters, for people to read.
    ///
    /// # Errors
    /// If a key has the wrong type.
    pub fn notes(gguf: &Gguf) -> Result<Vec<String>, Error> {
        match Architecture::of(gguf) {
            Ok(arch) => Ok((arch.note)(gguf)?.into_iter().collect()),
            Err(Error::UnknownArchitecture { .. } | Error::MissingKey(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// How layers with a window rotate beside those without. `gguf` is the file that this was read from.
    ///
    /// # Errors
    /// If the architecture is unknown.
    pub fn window_rotation(&self, gguf: &Gguf) -> Result<WindowRotation, Error> {
        let arch = Architecture::of(gguf)?;
        let of_windows = |(layer, block): (usize, &Block)| block.rotation.filter(|_| self.limits(layer));
        let rotation = self.blocks.iter().enumerate().find_map(of_windows);
        Ok(match (rotation, arch.rotation) {
            (Some(Rotary::Window), Rotation::WindowsUnscaled(None)) => WindowRotation::Unscaled,
            (Some(Rotary::Window), _) => WindowRotation::Apart,
            (Some(Rotary::Global), _) if arch.windows != Windows::All => WindowRotation::Alike,
            _ => WindowRotation::Without,
        })
    }

    /// Whether the past of a sequence is kept in states, which cannot be taken back to an earlier position.
    pub fn is_recurrent(&self) -> bool {
        self.blocks.iter().any(|block| block.cache.states.iter().any(|&len| len > 0))
    }

    /// Positions that the model was first trained on: rotation of longer caches may differ.
    pub fn original_context(&self) -> usize {
        self.common.original_context
    }

    /// Numbers that come out for a row: the vocabulary's, or the stream's width.
    pub fn outputs(&self) -> usize {
        match self.gives {
            Gives::Logits => self.vocab,
            Gives::Embeddings => self.dim,
        }
    }

    /// Layers of the encoder that reads texts, where there is one besides the decoder.
    pub fn encoder_layers(&self) -> Option<usize> {
        self.encoder.as_ref().map(|encoder| encoder.layers)
    }
}

/// How layers that see a window of positions rotate, beside layers that see all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowRotation {
    /// There are not both sorts of layers.
    Without,
    /// By the same numbers.
    Alike,
    /// By the same base, unless the file says another one, and without scaling.
    Unscaled,
    /// By a base of their own, and without scaling.
    Apart,
}

/// Which of the model's rotations a layer has.
fn rotation(keys: &Keys<'_>, common: &Common, i: usize) -> Result<Option<Rotary>, Error> {
    if common.alibi.is_some() {
        return Ok(None);
    }
    let rotates = match keys.arch.rotation {
        Rotation::None => false,
        Rotation::ButEvery(every) => !(i + 1).is_multiple_of(every),
        Rotation::IfFinetuned => keys.flag("rope.scaling.finetuned")?.unwrap_or(true),
        Rotation::OnlyWindows => common.limits(i) || common.window.is_none(),
        Rotation::Same | Rotation::WindowsUnscaled(_) => true,
    };
    let unscaled = matches!(keys.arch.rotation, Rotation::WindowsUnscaled(_));
    let windowed = matches!(common.masks[i], Mask::Window(_) | Mask::Around(_));
    Ok(rotates.then_some(if unscaled && windowed { Rotary::Window } else { Rotary::Global }))
}

/// The index of `dims` among those known, to which it is added.
fn place<T: PartialEq>(known: &mut Vec<T>, dims: T) -> usize {
    known.iter().position(|other| *other == dims).unwrap_or_else(|| {
        known.push(dims);
        known.len() - 1
    })
}
