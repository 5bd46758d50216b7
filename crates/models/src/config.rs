//! The dimensions of a model: from metadata, and from which tensors its layers have.

use std::collections::HashSet;

use candor_gguf::Gguf;
use candor_ops::{Heads, KvFormat, KvPlan, LayerCache, Mask};

use crate::{
    Architecture, Error, Part, cross, ffn,
    keys::Keys,
    masks, mixer,
    registry::{LogitScale, Residual, Rotation, Stacks},
    stacks::{ENCODER, ONE, Stack},
    streams,
    temperature::Temperature,
};

/// The dimensions of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Layers.
    pub layers: usize,
    /// Layers after those, which guess tokens ahead and are not run.
    pub(crate) ahead: usize,
    /// Width `D` of the residual stream.
    pub dim: usize,
    /// Width `F` of the feed-forward's middle; of one expert, where all layers have experts.
    pub ffn: usize,
    /// Rows of the embedding and outputs of the head, `V`.
    pub vocab: usize,
    /// Positions that the model was trained on.
    pub context: usize,
    /// Query heads `H`, key and value heads `G`, their widths `E` and `Ev`, and the scale of scores, of the first layer that
    /// attends; no heads where none does.
    pub heads: Heads,
    /// Added to the mean square in every norm.
    pub eps: f32,
    /// Positions that a token sees in those layers that limit them.
    pub window: Option<usize>,
    /// Positions beyond which the model computes something that is not supported.
    pub limit: Option<usize>,
    /// What the model gives for a token.
    pub gives: Gives,
    /// The token that an answer begins with, where an encoder reads the text first.
    pub start: Option<u32>,
    /// What reads the text.
    pub(crate) encoder: Option<Box<Config>>,
    /// What the names of the layers' tensors begin with.
    pub(crate) stack: &'static str,
    /// What varies from layer to layer.
    pub(crate) blocks: Vec<Block>,
    /// What each layer sees.
    pub masks: Vec<Mask>,
    /// The layer whose keys and values each layer reads: itself, or one before it.
    pub(crate) owners: Vec<usize>,
    /// The kinds of mixers and of feed-forwards that there are.
    pub(crate) mixers: Vec<mixer::Dims>,
    pub(crate) ffns: Vec<ffn::Dims>,
    pub(crate) residual: Residual,
    /// Factors on embeddings, on what is added to the stream, and on logits.
    pub(crate) embedding_scale: f32,
    pub(crate) residual_scale: f32,
    pub(crate) logit_scale: f32,
    /// On logits: `cap * tanh(logit / cap)`.
    pub(crate) final_cap: Option<f32>,
    /// On scores.
    pub(crate) score_cap: Option<f32>,
    pub(crate) alibi: Option<f32>,
    pub(crate) temperature: Option<Temperature>,
    /// Queries, keys and values are held within plus and minus this.
    pub(crate) clamp: Option<f32>,
    /// Whether values are normed, without weights.
    pub(crate) value_norm: bool,
    /// Width of each layer's own embeddings.
    pub(crate) per_layer: Option<usize>,
    /// Residual streams, where they are several.
    pub(crate) streams: Option<streams::Dims>,
    /// Width of a second way around attention.
    pub(crate) laurel: Option<usize>,
    /// Whether experts' inputs are weighted instead of their outputs.
    pub(crate) weigh_before: bool,
    /// Layers after which the stream is halved, where the file's weights are made for that.
    pub(crate) halved_every: Option<usize>,
    /// Whether YaRN's ramp begins and ends at whole pairs: yes, where nothing else is said.
    pub(crate) rounds_yarn: Option<bool>,
    /// Positions after which long-context factors of rotation are meant.
    pub(crate) original_context: usize,
}

/// Whether tokens see what comes before them alone.
const CAUSAL: &str = "attention.causal";

/// What a model gives for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// A score for each token of the vocabulary.
    Logits,
    /// A vector of the stream's width, from all tokens of its sequence.
    Embeddings,
}

/// What varies from layer to layer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    /// Of the model's kinds.
    pub(crate) mixers: Vec<usize>,
    pub(crate) ffn: Option<usize>,
    /// Which of the model's rotations.
    pub(crate) rotation: Option<Rotary>,
    /// Whether its queries grow with their position.
    pub(crate) grows: bool,
    pub(crate) cache: LayerCache,
}

/// One of a model's rotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rotary {
    /// The usual one.
    Global,
    /// That of layers with a window.
    Window,
}

impl Config {
    /// Reads the dimensions from a file's metadata and its tensors' names.
    ///
    /// # Errors
    /// If a key is missing, has the wrong type or makes no sense.
    pub fn from_gguf(gguf: &Gguf) -> Result<Config, Error> {
        let arch = Architecture::of(gguf)?;
        let keys = Keys { gguf, arch: arch.name };
        match arch.stacks {
            Stacks::One => Config::of_stack(&keys, &arch, &ONE),
            Stacks::Encoder => Config::of_stack(&keys, &arch, &ENCODER),
            Stacks::Both => Config::of_both(&keys, &arch),
        }
    }

    /// The name of a layer's tensor.
    pub(crate) fn name(&self, layer: usize, rest: &str) -> String {
        format!("{}blk.{layer}.{rest}", self.stack)
    }

    /// Of one stack of layers.
    pub(crate) fn of_stack(keys: &Keys<'_>, arch: &Architecture, stack: &Stack) -> Result<Config, Error> {
        let gguf = keys.gguf;
        // Layers that guess tokens ahead follow the others.
        let ahead = keys.number("nextn_predict_layers")?.unwrap_or(0);
        let count = if keys.number(stack.count)?.is_some() { stack.count } else { ONE.count };
        let layers = keys.positive(count)?.saturating_sub(ahead);
        if layers == 0 {
            return Err(keys.bad("nextn_predict_layers", "less than block_count", ahead));
        }
        let number =
            |name: &str| name.strip_prefix(stack.prefix)?.strip_prefix("blk.")?.split('.').next()?.parse().ok();
        let numbers = gguf.tensors().iter().filter_map(|info| number(&info.name));
        let there: HashSet<usize> = numbers.collect();
        if let Some(missing) = (0..layers).find(|layer| !there.contains(layer)) {
            return Err(Error::MissingTensor(format!("{}blk.{missing}.attn_norm.weight", stack.prefix)));
        }
        let dim = keys.positive("embedding_length")?;
        let eps_key = match arch.norm {
            candor_ops::NormKind::Layer => "attention.layer_norm_epsilon",
            _ => "attention.layer_norm_rms_epsilon",
        };
        let eps = match (keys.float(eps_key)?, keys.float("attention.layer_norm_rms_epsilon")?) {
            (Some(eps), _) | (None, Some(eps)) => eps,
            // nemotron_h names its RMS norms' number as if they were layer norms.
            (None, None) => keys.float("attention.layer_norm_epsilon")?.ok_or_else(|| keys.missing(eps_key))?,
        };
        let embedding = gguf.tensor("token_embd.weight");
        let embedding = embedding.ok_or_else(|| Error::MissingTensor("token_embd.weight".into()))?;
        let vocab = embedding.shape.get(1).map_or(1, |&rows| rows as usize);
        let context = keys.positive("context_length")?;
        let scale = |key| Ok::<_, Error>(keys.float(key)?.filter(|&scale| scale != 0.0).unwrap_or(1.0));
        let cap = |key, or| Ok::<_, Error>(keys.float(key)?.or(or).filter(|&cap| cap != 0.0));
        let logit_scale = scale("logit_scale")?;
        let residual = match (arch.residual, keys.flag("use_parallel_residual")?) {
            (Residual::Sequential, Some(true)) => Residual::Parallel,
            (Residual::ByNorm, _) if gguf.tensor(&format!("blk.0.{}.weight", arch.norms[1])).is_none() => {
                Residual::Parallel
            }
            (Residual::ByNorm, _) => Residual::Sequential,
            (residual, _) => residual,
        };
        let causal = keys.flag(CAUSAL)?.unwrap_or(stack.prefix != ENCODER.prefix) && !arch.encodes;
        let original_context = keys.number("rope.scaling.original_context_length")?.unwrap_or(context);
        let temperature = Temperature::of(keys, original_context)?.or(arch.temperature);
        let mut config = Config {
            layers,
            ahead,
            dim,
            ffn: 0,
            vocab,
            context,
            heads: Heads { heads: 0, kv_heads: 0, key_dim: 0, value_dim: 0, scale: 1.0 },
            eps,
            window: None,
            // Learned positions end where their table does.
            limit: gguf
                .tensor("position_embd.weight")
                .map(|info| info.shape.get(1).map_or(1, |&rows| rows as usize))
                .or(temperature.map(|_| Temperature::positions(context))),
            gives: if causal { Gives::Logits } else { Gives::Embeddings },
            start: None,
            encoder: None,
            stack: stack.prefix,
            blocks: Vec::new(),
            masks: Vec::new(),
            owners: Vec::new(),
            mixers: Vec::new(),
            ffns: Vec::new(),
            residual,
            embedding_scale: scale("embedding_scale")?,
            residual_scale: scale("residual_scale")?,
            logit_scale: match arch.logit_scale {
                LogitScale::Multiplied => logit_scale,
                LogitScale::Divided => 1.0 / logit_scale,
            },
            final_cap: cap("final_logit_softcapping", arch.caps[1])?,
            score_cap: cap("attn_logit_softcapping", arch.caps[0])?,
            alibi: keys.float("attention.max_alibi_bias")?.filter(|&max| max != 0.0).or(arch.alibi),
            temperature,
            clamp: keys.float("attention.clamp_kqv")?.filter(|&clamp| clamp != 0.0),
            value_norm: false,
            per_layer: keys.number("embedding_length_per_layer_input")?.filter(|&width| width != 0),
            streams: streams::Dims::of(keys)?,
            laurel: gguf.tensor("blk.0.laurel_l.weight").and_then(|info| Some(*info.shape.get(1)? as usize)),
            weigh_before: false,
            halved_every: keys.number("rescale_every_n_layers")?.filter(|&every| every != 0),
            rounds_yarn: keys.flag("rope.scaling.yarn_truncate")?,
            original_context,
        };
        (config.masks, config.window) = masks::masks(keys, arch, layers)?;
        if !causal && !arch.encodes && config.window.is_some() {
            // Whether they lie before a token or around it differs between models.
            return Err(Error::Unsupported(format!(
                "{}: false is not supported where layers have windows",
                keys.name(CAUSAL)
            )));
        }
        config.owners = masks::owners(keys, &config.masks)?;
        for i in 0..layers {
            let block = config.block(keys, arch, i)?;
            config.blocks.push(block);
        }
        let experts = keys.number("expert_count")?.is_some_and(|experts| experts != 0);
        if experts && !config.ffns.iter().any(ffn::Dims::has_experts) {
            return Err(Error::MissingTensor("blk.0.ffn_gate_inp.weight".into()));
        }
        config.heads = config.mixers.iter().find_map(mixer::Dims::heads).unwrap_or(config.heads);
        config.ffn = config.ffns.iter().map(ffn::Dims::width).max().unwrap_or(0);
        (arch.quirk)(&mut config);
        if config.gives == Gives::Embeddings {
            config.masks.iter_mut().for_each(|mask| *mask = masks::both(*mask));
            // What comes later looks back as far as it likes.
            config.blocks.iter_mut().for_each(|block| block.cache.window = None);
        }
        Ok(config)
    }

    /// A layer, by its tensors.
    fn block(&mut self, keys: &Keys<'_>, arch: &Architecture, i: usize) -> Result<Block, Error> {
        let (mask, windows) = (self.masks[i], self.window.is_some());
        let mixers = mixer::Dims::of(keys, arch, self, i)?;
        let mut cache = LayerCache::default();
        mixers.iter().for_each(|dims| dims.keep(&mut cache));
        cache.window = mask.reach().map(|reach| reach + 1);
        if self.owners[i] != i {
            // What it would keep is what the other layer keeps, so that it can read that and keep nothing.
            let attends = mixers.iter().all(|dims| matches!(dims, mixer::Dims::Attention(_)));
            if self.blocks[self.owners[i]].cache != cache || !attends {
                return Err(masks::unlike(keys, i, self.owners[i]));
            }
            cache = LayerCache::default();
        }
        let ffn = ffn::Dims::of(keys, arch, self, i)?;
        ffn.iter().for_each(|dims| dims.keep(&mut cache));
        let rotation = match (arch.rotation, mask) {
            (Rotation::None, _) => None,
            (Rotation::ButEvery(every), _) if (i + 1).is_multiple_of(every) => None,
            (Rotation::IfFinetuned, _) => {
                keys.flag("rope.scaling.finetuned")?.unwrap_or(true).then_some(Rotary::Global)
            }
            (Rotation::OnlyWindows, Mask::Causal) if windows => None,
            (Rotation::WindowsUnscaled(_), Mask::Window(_)) => Some(Rotary::Window),
            _ => Some(Rotary::Global),
        };
        let rotation = rotation.filter(|_| self.alibi.is_none());
        Ok(Block {
            mixers: mixers.into_iter().map(|dims| place(&mut self.mixers, dims)).collect(),
            ffn: ffn.map(|dims| place(&mut self.ffns, dims)),
            grows: self.temperature.is_some_and(|temperature| rotation.is_none() || !temperature.unrotated),
            rotation,
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
    pub fn cached(&self, part: &Part) -> std::ops::Range<usize> {
        match self.encoder {
            Some(_) => 0..2 * self.layers + 1,
            None => part.layers.clone(),
        }
    }

    /// Whether layers read more of those before them than the residual stream, so that they cannot be divided over devices.
    pub fn crosses(&self) -> bool {
        self.encoder.is_some()
            || self.per_layer.is_some()
            || self.streams.is_some()
            || self.owners.iter().enumerate().any(|(layer, &owner)| layer != owner)
            || self.mixers.iter().any(|dims| matches!(dims, mixer::Dims::Rwkv7(_)))
    }

    /// What a file leaves open that matters, for people to read.
    ///
    /// # Errors
    /// If a key has the wrong type.
    pub fn notes(gguf: &Gguf) -> Result<Vec<String>, Error> {
        let metadata = gguf.metadata();
        let named = ["general.name", "general.basename", "general.base_model.0.name"];
        let mut names = named.iter().filter_map(|key| metadata.str(key).ok().flatten());
        let mistral = names.any(|name| name.to_ascii_lowercase().contains("mistral"));
        let windowless = metadata.get("llama.attention.sliding_window").is_none();
        let mut notes = Vec::new();
        if metadata.str("general.architecture")? == Some("llama") && mistral && windowless {
            notes.push(
                "the file has no sliding window (llama.attention.sliding_window); Mistral 7B v0.1 and what is made of it \
                 were trained with one of 4096"
                    .into(),
            );
        }
        Ok(notes)
    }

    /// Whether the past of a sequence is kept in states, which cannot be taken back to an earlier position.
    pub fn is_recurrent(&self) -> bool {
        self.blocks.iter().any(|block| block.cache.states.iter().any(|&len| len > 0))
    }

    /// Positions that the model was first trained on: rotation of longer caches may differ.
    pub fn original_context(&self) -> usize {
        self.original_context
    }

    /// Numbers that come out for a row: the vocabulary's, or the stream's width.
    pub fn outputs(&self) -> usize {
        match self.gives {
            Gives::Logits => self.vocab,
            Gives::Embeddings => self.dim,
        }
    }

    /// Bytes of the values in flight of passes of up to `rows` tokens and `outputs` rows of logits, `f32` each.
    pub fn scratch_bytes(&self, rows: usize, outputs: usize) -> u64 {
        let stacks = || [Some(self), self.encoder.as_deref()].into_iter().flatten();
        let mixers = stacks().flat_map(|stack| stack.mixers.iter().flat_map(|dims| dims.widths()));
        let ffns = stacks().flat_map(|stack| stack.ffns.iter().flat_map(|dims| dims.widths(self.dim)));
        // Each layer's own embeddings are made twice over all layers, and taken twice for one.
        let own = self.per_layer.map_or(0, |width| 2 * (self.layers + 1) * width);
        let cross = self.encoder.iter().flat_map(|_| cross::widths(&self.heads));
        let own = own + self.streams.map_or(0, |streams| streams.width(self.dim)) + self.laurel.unwrap_or(0);
        let widths = [self.dim, self.dim, self.dim, self.dim, own].into_iter().chain(mixers).chain(ffns).chain(cross);
        let row = widths.fold(0u64, |sum, width| sum.saturating_add(width as u64));
        let logits = (self.outputs() as u64).saturating_mul(outputs as u64);
        row.saturating_mul(rows as u64).saturating_add(logits).saturating_mul(4)
    }

    /// Scores are not scaled.
    pub(crate) fn leave_scores(&mut self) {
        self.mixers.iter_mut().for_each(|dims| dims.scale_scores(|_| 1.0));
        self.heads.scale = 1.0;
    }

    /// Scores are scaled by the stream's share of a head.
    pub(crate) fn scale_scores_by_stream(&mut self) {
        let dim = self.dim;
        for dims in &mut self.mixers {
            dims.scale_scores(|heads| 1.0 / ((dim / heads) as f32).sqrt());
        }
        self.heads = self.mixers.iter().find_map(mixer::Dims::heads).unwrap_or(self.heads);
    }

    /// ALiBi takes the place of rotation.
    pub(crate) fn use_alibi(&mut self, max: f32) {
        self.alibi = Some(max);
        self.blocks.iter_mut().for_each(|block| block.rotation = None);
    }
}

/// The index of `dims` among those known, to which it is added.
fn place<T: PartialEq>(known: &mut Vec<T>, dims: T) -> usize {
    known.iter().position(|other| *other == dims).unwrap_or_else(|| {
        known.push(dims);
        known.len() - 1
    })
}
