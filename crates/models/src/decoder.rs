//! A model: embedding, layers, head. What a layer is made of, its tensors and its architecture's row say.

use std::ops::Range;

use candor_gguf::Gguf;
use candor_ops::{Columns, Norm, Ops, Shapes, Step, Tap, Unary};

use crate::{
    Error, Gives,
    arch::{Architecture, NormWeights},
    at::At,
    common::Common,
    config::Config,
    encoder::Encoder,
    extra,
    layer::Layer,
    norm::Normed,
    part::{Begin, End, Part},
    pass::Pass,
    rank::Rank,
    rope::{self, Positions},
    scratch::Scratch,
    weights::Weights,
};

/// What a token becomes before the first layer.
struct Embedding<B: Ops> {
    positions: Option<B::Weight>, // [positions, D]
    kind: Option<B::Weight>,      // [D], of the first kind of tokens
    norm: Option<Normed<B>>,      // [D]
}

/// The weights after the last layer.
struct Head<B: Ops> {
    norm: Option<Normed<B>>,   // [D]
    output: Option<B::Weight>, // [V, D]; the embedding serves where it is absent
    bias: Option<B::Weight>,   // [V]
}

/// A loaded model, or a part of one.
pub struct Decoder<B: Ops> {
    config: Config,
    part: Part,
    token_embd: Option<B::Weight>, // [V, D]; where the part looks tokens up or has no other head
    embedding: Option<Embedding<B>>, // where the part begins with tokens
    encoder: Option<Encoder<B>>,   // where the model has one, which reads texts
    layers: Vec<Layer<B>>,         // of the part
    head: Option<Head<B>>,         // where the part ends with logits
    extras: Vec<extra::Ends<B>>,
    positions: Positions<B>,
    weight_bytes: u64,
}

impl<B: Ops> Decoder<B> {
    /// Loads the file's weights into the backend, after a run on [`Shapes`] has shown that they belong together.
    ///
    /// # Errors
    /// If the file is not a model of this wiring, or the backend cannot hold it.
    pub fn load(gguf: &Gguf, ops: &mut B) -> Result<Decoder<B>, Error> {
        Decoder::load_part(gguf, ops, &Part::whole(Config::from_gguf(gguf)?.layers))
    }

    /// Loads the weights of a part, after the same run of the whole model.
    ///
    /// # Errors
    /// If the file is not a model of this wiring, has no such layers, or the backend cannot hold the part.
    pub fn load_part(gguf: &Gguf, ops: &mut B, part: &Part) -> Result<Decoder<B>, Error> {
        Decoder::<Shapes>::check(gguf, 1)?;
        let divided = part.begin == Begin::Stream || part.layers.start > 0;
        if divided && Config::from_gguf(gguf)?.crosses() {
            return Err(Error::Undivided);
        }
        Decoder::load_unchecked(gguf, ops, part)
    }

    pub(crate) fn load_unchecked(gguf: &Gguf, ops: &mut B, part: &Part) -> Result<Decoder<B>, Error> {
        let arch = Architecture::of(gguf)?;
        let config = Config::from_gguf(gguf)?;
        if part.layers.start > part.layers.end || part.layers.end > config.layers {
            return Err(Error::NoSuchLayers { layers: part.layers.clone(), of: config.layers });
        }
        let mut w = Weights::new(gguf, ops);
        let positions = rope::of(&mut w, arch, &config)?;
        let encoder = config.encoder.as_deref().filter(|_| part.begin == Begin::Tokens);
        let encoder = encoder.map(|encoder| Encoder::load(&mut w, arch, encoder)).transpose()?;
        let layers = layers_of(&mut w, arch, &config, &part.layers)?;
        let head = match part.end {
            End::Logits => Some(Head::load(&mut w, arch, &config)?),
            End::Stream => None,
        };
        let embedding = match part.begin {
            Begin::Tokens => Some(Embedding::load(&mut w, arch, &config)?),
            Begin::Stream => None,
        };
        // With the embedding, be the part the first layers alone: what needs them is not divided further.
        let extras = config.extras.iter().filter(|_| part.begin == Begin::Tokens);
        let extras = extras.map(|dims| dims.ends(&mut w, &config.common)).collect::<Result<Vec<_>, Error>>()?;
        let tied = config.gives == Gives::Logits && head.as_ref().is_some_and(|head| head.output.is_none());
        let embeds = part.begin == Begin::Tokens || tied;
        let vocab = (config.dim, config.vocab);
        let token_embd = if embeds { Some(w.matrix("token_embd.weight", vocab.0, vocab.1)?) } else { None };
        let weight_bytes = w.bytes();
        // What a part leaves, others take; that nothing is left of the whole was seen on `Shapes`.
        if part.is_whole(config.layers) {
            w.finish(config.layers..config.layers + config.mtp_layers)?;
        }
        let part = part.clone();
        Ok(Decoder { config, part, token_embd, embedding, encoder, layers, head, extras, positions, weight_bytes })
    }

    /// Has other layers in the place of those that it has; the file is the one that it was loaded from.
    ///
    /// # Errors
    /// If the file can't be read, or the backend cannot hold the layers. It has none then.
    ///
    /// # Panics
    /// If the part has more than layers: their numbers would not follow from it.
    pub fn replace_layers(&mut self, gguf: &Gguf, ops: &mut B, layers: Range<usize>) -> Result<(), Error> {
        assert!(self.part.begin == Begin::Stream && self.part.end == End::Stream, "a part of layers alone");
        self.layers.clear();
        self.part.layers = layers;
        let mut w = Weights::new(gguf, ops);
        self.layers = layers_of(&mut w, Architecture::of(gguf)?, &self.config, &self.part.layers)?;
        self.weight_bytes = w.bytes();
        Ok(())
    }

    /// The model's dimensions.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What of the model this is.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// Bytes of its weights in the file.
    pub fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }

    /// Room for passes of up to `rows` tokens and `outputs` rows of logits.
    pub fn scratch(&self, ops: &mut B, rows: usize, outputs: usize) -> Scratch<B> {
        let outputs = match (&self.head, self.config.gives) {
            (None, _) => 0,
            (Some(_), Gives::Logits) => outputs,
            (Some(_), Gives::Embeddings) => rows,
        };
        Scratch::new(ops, &self.config, rows, outputs)
    }

    /// Runs the step's tokens, or the stream in the scratch, through the part; the logits of the rows asked for, the
    /// embeddings of all, or the stream, are left in the scratch.
    pub fn forward<P: Tap<B>>(&self, pass: &mut Pass<'_, B, P>) {
        self.forward_some(pass, self.part.layers.clone());
    }

    /// A stretch of [`Decoder::forward`]: some of the part's layers, after those before them. What comes before the first layer or
    /// after the last is done with it.
    pub fn forward_some<P: Tap<B>>(&self, pass: &mut Pass<'_, B, P>, layers: Range<usize>) {
        let is_last = layers.end == self.part.layers.end;
        self.run_layers(pass, layers);
        let Pass { ops, s, step, tap, .. } = pass;
        let Some(head) = self.head.as_ref().filter(|_| is_last) else { return };
        if self.config.gives == Gives::Embeddings {
            head.normed(*ops, &mut s.logits, &s.x, self.config.dim);
            return tap.tap(*ops, "result_norm", None, &s.logits);
        }
        let output = head.output.as_ref().or(self.token_embd.as_ref());
        let Some(output) = output.filter(|_| !step.outputs.is_empty()) else { return };
        head.normed(*ops, &mut s.h, &s.x, self.config.dim);
        tap.tap(*ops, "result_norm", None, &s.h);
        ops.matmul_rows(&mut s.logits, &s.h, output, step);
        if let Some(bias) = &head.bias {
            ops.add_bias(&mut s.logits, bias);
        }
        let Common { logit_scale, final_cap, .. } = *self.config;
        if logit_scale != 1.0 {
            ops.unary(&mut s.logits, Unary::scale(logit_scale));
        }
        if let Some(cap) = final_cap {
            ops.unary(&mut s.logits, Unary::SoftCap(cap));
        }
        tap.tap(*ops, "result_output", None, &s.logits);
    }

    /// Reads the step's tokens, which are whole texts: what they give an encoder is kept for the passes after this, which
    /// answer the text of their sequence. Nothing where the model has no encoder.
    pub fn encode<P: Tap<B>>(&self, pass: &mut Pass<'_, B, P>) {
        self.read(pass);
        if self.encoder.is_none() {
            return;
        }
        let Pass { ops, s, kv, step, tap } = pass;
        for (layer, weights) in self.part.layers.clone().zip(&self.layers) {
            let (common, cached) = (&self.config.common, self.config.layers + layer);
            let mut at =
                At { ops: *ops, kv: *kv, step, tap: *tap, layer, cached, common, rope: None, temperature: None };
            weights.keep(&mut at, s);
        }
        s.extras.iter_mut().for_each(|extra| extra.read(step));
    }

    /// Leaves what an encoder gives for the step's tokens in the scratch's `h`.
    fn read<P: Tap<B>>(&self, pass: &mut Pass<'_, B, P>) {
        if let (Some(encoder), Some(table)) = (&self.encoder, &self.token_embd) {
            encoder.run(pass, table, &self.config);
        }
    }

    /// [`Decoder::forward`] without logits: where the part has the head, the last norm's result for every row, `[T, D]`, is left in the
    /// scratch, whatever the model gives. Where the model has an encoder, it is that one's result.
    pub fn embed<P: Tap<B>>(&self, pass: &mut Pass<'_, B, P>) {
        if self.encoder.is_some() {
            return self.read(pass);
        }
        self.run_layers(pass, self.part.layers.clone());
        let Pass { ops, s, tap, .. } = pass;
        if let Some(head) = &self.head {
            head.normed(*ops, &mut s.h, &s.x, self.config.dim);
            tap.tap(*ops, "result_norm", None, &s.h);
        }
    }

    /// A stretch of a pass without the head.
    fn run_layers<P: Tap<B>>(&self, pass: &mut Pass<'_, B, P>, layers: Range<usize>) {
        let Pass { ops, s, kv, step, tap } = pass;
        let all = &self.part.layers;
        let embedding = self.embedding.as_ref().filter(|_| layers.start == all.start);
        if let (Some(embedding), Some(token_embd)) = (embedding, &self.token_embd) {
            embedding.look_up(*ops, s, token_embd, (step, &self.config));
            for (extra, own) in self.extras.iter().zip(&mut s.extras) {
                extra.embedded(*ops, own, &mut s.x, (step, &self.config));
            }
            tap.tap(*ops, "inp_embd", None, &s.x);
        }
        for layer in layers.clone() {
            let weights = &self.layers[layer - all.start];
            let cached = self.config.owners[layer] - all.start;
            let block = &self.config.blocks[layer];
            let (rope, temperature) = self.positions.of(block, s.far);
            let common = &self.config.common;
            let mut at = At { ops: *ops, kv: *kv, step, tap: *tap, layer, cached, common, rope, temperature };
            weights.forward(&mut at, s);
            if common.halved_every.is_some_and(|every| (layer + 1).is_multiple_of(every)) {
                ops.unary(&mut s.x, Unary::scale(0.5));
            }
        }
        let ends = self.head.is_some() && layers.end == all.end;
        for (extra, own) in self.extras.iter().zip(&mut s.extras).filter(|_| ends) {
            extra.ended(*ops, own, &mut s.x, &self.config);
        }
    }
}

impl<B: Ops> Embedding<B> {
    fn load(w: &mut Weights<'_, B>, arch: &Architecture, config: &Config) -> Result<Embedding<B>, Error> {
        let rows =
            |name: &str, w: &Weights<'_, B>| w.shape(name).and_then(|shape| shape.get(1)).map(|&rows| rows as usize);
        let positions = match rows("position_embd.weight", w) {
            Some(rows) => Some(w.matrix("position_embd.weight", config.dim, rows)?),
            None => None,
        };
        let kind = match w.shape("token_types.weight") {
            Some(shape) => {
                let rows = shape.get(1).map_or(1, |&rows| rows as usize);
                Some(w.first_row("token_types.weight", config.dim, rows)?)
            }
            None => None,
        };
        let norm = Norm { kind: arch.norm, run: config.dim, eps: config.eps };
        let norm = match arch.norms[2] != "token_embd_norm" && w.has("token_embd_norm.weight") {
            true => Some(Normed::load(w, "token_embd_norm", norm)?),
            false => None,
        };
        Ok(Embedding { positions, kind, norm })
    }

    fn look_up(&self, ops: &mut B, s: &mut Scratch<B>, table: &B::Weight, (step, config): (&Step, &Config)) {
        ops.embed(&mut s.x, table, step);
        if config.embedding_scale != 1.0 {
            ops.unary(&mut s.x, Unary::scale(config.embedding_scale));
        }
        if let Some(kind) = &self.kind {
            ops.add_bias(&mut s.x, kind);
        }
        if let Some(positions) = &self.positions {
            ops.add_positions(&mut s.x, positions, step);
        }
        if let Some(norm) = &self.norm {
            norm.within(ops, &mut s.x);
        }
    }
}

impl<B: Ops> Head<B> {
    fn load(w: &mut Weights<'_, B>, arch: &Architecture, config: &Config) -> Result<Head<B>, Error> {
        let norm = Norm { kind: arch.norm, run: config.dim, eps: config.eps };
        let norm = match arch.norm_weights {
            NormWeights::Never => Some(Normed::bare(norm)),
            _ if arch.norms[2].is_empty() => None,
            _ => Some(Normed::load(w, &format!("{}{}", config.prefix, arch.norms[2]), norm)?),
        };
        let output = match config.gives == Gives::Logits && w.has("output.weight") {
            true => Some(w.matrix("output.weight", config.dim, config.vocab)?),
            false => None,
        };
        let bias = w.optional("output.bias", config.vocab)?;
        // A reranker's head is loaded where texts are ranked; here it is only shape-checked.
        Rank::load(w, arch, config)?;
        Ok(Head { norm, output, bias })
    }

    /// The stream after the last norm, where there is one.
    fn normed(&self, ops: &mut B, out: &mut B::Buf, x: &B::Buf, dim: usize) {
        match &self.norm {
            Some(norm) => norm.to(ops, out, x, dim),
            None => ops.copy(out, x, Columns::run(dim, 0, 0)),
        }
    }
}

fn layers_of<B: Ops>(
    w: &mut Weights<'_, B>,
    arch: &Architecture,
    config: &Config,
    layers: &Range<usize>,
) -> Result<Vec<Layer<B>>, Error> {
    layers.clone().map(|i| Layer::load(w, arch, config, i)).collect()
}
