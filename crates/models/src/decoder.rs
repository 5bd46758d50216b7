//! The decoder wiring: pre-norm attention and gated feed-forward, one after the other (Touvron et al. 2023).
//!
//! What varies between its architectures is data: a number of the metadata or the presence of a tensor (biases, query
//! and key norms, a separate head). What changes the order of operations belongs in another file.

use candor_gguf::Gguf;
use candor_ops::{Attention, Heads, KvFormat, KvPlan, LayerCache, Norm, NormKind, Ops, Shapes, Step, Tap};

use crate::{Architecture, Begin, End, Error, Part, rope, weights::Weights};

/// The dimensions of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Blocks of attention and feed-forward.
    pub layers: usize,
    /// Width `D` of the residual stream.
    pub dim: usize,
    /// Width `F` of the feed-forward's middle.
    pub ffn: usize,
    /// Rows of the embedding and outputs of the head, `V`.
    pub vocab: usize,
    /// Positions that the model was trained on.
    pub context: usize,
    /// Query heads `H`, key and value heads `G`, their widths `E` and `Ev`, and the scale of scores.
    pub heads: Heads,
    /// Added to the mean square in every norm.
    pub eps: f32,
    /// Positions that a token sees, where the file limits them.
    pub window: Option<usize>,
}

/// The weights of a layer. Matrices map the second width to the first, as they lie in memory.
struct Layer<B: Ops> {
    attn_norm: B::Weight,                // [D]
    attn_q: B::Weight,                   // [H*E, D]
    attn_k: B::Weight,                   // [G*E, D]
    attn_v: B::Weight,                   // [G*Ev, D]
    attn_q_bias: Option<B::Weight>,      // [H*E]
    attn_k_bias: Option<B::Weight>,      // [G*E]
    attn_v_bias: Option<B::Weight>,      // [G*Ev]
    attn_q_norm: Option<B::Weight>,      // [E]
    attn_k_norm: Option<B::Weight>,      // [E]
    attn_output: B::Weight,              // [D, H*Ev]
    attn_output_bias: Option<B::Weight>, // [D]
    ffn_norm: B::Weight,                 // [D]
    ffn_gate: B::Weight,                 // [F, D]
    ffn_up: B::Weight,                   // [F, D]
    ffn_down: B::Weight,                 // [D, F]
    ffn_gate_bias: Option<B::Weight>,    // [F]
    ffn_up_bias: Option<B::Weight>,      // [F]
    ffn_down_bias: Option<B::Weight>,    // [D]
}

/// The weights after the last layer.
struct Head<B: Ops> {
    norm: B::Weight,           // [D]
    output: Option<B::Weight>, // [V, D]; the embedding serves where it is absent
}

/// A loaded model, or a part of one.
pub struct Decoder<B: Ops> {
    config: Config,
    part: Part,
    token_embd: Option<B::Weight>, // [V, D]; where the part looks tokens up or has no other head
    layers: Vec<Layer<B>>,         // of the part
    head: Option<Head<B>>,         // where the part ends with logits
    rope: B::Rope,
    weight_bytes: u64,
}

/// The values in flight during a pass.
pub struct Scratch<B: Ops> {
    /// The residual stream, `[T, D]`: given to a part that begins with it, left by one that ends with it.
    pub x: B::Buf,
    h: B::Buf,    // [T, D] normed, and products on their way into x
    q: B::Buf,    // [T, H*E]
    k: B::Buf,    // [T, G*E]
    v: B::Buf,    // [T, G*Ev]
    att: B::Buf,  // [T, H*Ev]
    gate: B::Buf, // [T, F]
    up: B::Buf,   // [T, F]
    /// Logits of the rows that were asked for, `[outputs, V]`; without room where a part ends before them.
    pub logits: B::Buf,
}

/// Everything that one forward pass works on.
pub struct Pass<'a, B: Ops, P> {
    /// The backend.
    pub ops: &'a mut B,
    /// Room for values in flight.
    pub s: &'a mut Scratch<B>,
    /// Keys and values so far.
    pub kv: &'a mut B::Kv,
    /// Tokens and their places.
    pub step: Step<'a>,
    /// Who looks on.
    pub tap: &'a mut P,
}

impl Config {
    /// Reads the dimensions from a file's metadata and the shape of its embedding.
    ///
    /// # Errors
    /// If a key is missing, has the wrong type or makes no sense.
    pub fn from_gguf(gguf: &Gguf) -> Result<Config, Error> {
        let arch = Architecture::of(gguf)?.name;
        let optional = |key: &str| gguf.metadata().u32(&format!("{arch}.{key}"));
        let required = |key: &str| optional(key)?.ok_or_else(|| Error::MissingKey(format!("{arch}.{key}")));
        let positive = |key: &str| match required(key)? {
            0 => Err(bad_value(arch, key, "a positive number", 0)),
            value => Ok(value as usize),
        };
        let dim = positive("embedding_length")?;
        let heads = positive("attention.head_count")?;
        let kv_heads = optional("attention.head_count_kv")?.map_or(heads, |value| value as usize);
        if kv_heads == 0 || heads % kv_heads != 0 {
            return Err(bad_value(arch, "attention.head_count_kv", &format!("a divisor of {heads}"), kv_heads));
        }
        let width = |key: &str| match optional(key)? {
            Some(0) => Err(bad_value(arch, key, "a positive number", 0)),
            Some(value) => Ok(value as usize),
            None if dim % heads == 0 => Ok(dim / heads),
            None => Err(Error::MissingKey(format!("{arch}.{key}"))),
        };
        let (key_dim, value_dim) = (width("attention.key_length")?, width("attention.value_length")?);
        let eps_key = format!("{arch}.attention.layer_norm_rms_epsilon");
        let eps = gguf.metadata().f32(&eps_key)?.ok_or(Error::MissingKey(eps_key))?;
        if optional("expert_count")?.unwrap_or(0) != 0 {
            return Err(Error::Unsupported(format!("{arch}.expert_count: mixture of experts is not supported")));
        }
        let embedding = gguf.tensor("token_embd.weight");
        let embedding = embedding.ok_or_else(|| Error::MissingTensor("token_embd.weight".into()))?;
        Ok(Config {
            layers: positive("block_count")?,
            dim,
            ffn: positive("feed_forward_length")?,
            vocab: embedding.shape.get(1).map_or(1, |&rows| rows as usize),
            context: positive("context_length")?,
            heads: Heads { heads, kv_heads, key_dim, value_dim, scale: 1.0 / (key_dim as f32).sqrt() },
            eps,
            window: optional("attention.sliding_window")?.filter(|&window| window != 0).map(|window| window as usize),
        })
    }

    /// The cache for `sequences` sequences of up to `context` positions.
    pub fn kv_plan(&self, context: usize, sequences: usize, keys: KvFormat, values: KvFormat) -> KvPlan {
        let Heads { kv_heads, key_dim, value_dim, .. } = self.heads;
        let layers = vec![LayerCache::attention(kv_heads, key_dim, value_dim); self.layers];
        KvPlan { layers, context, step: context, sequences, keys, values }
    }

    /// Elements of a row of each buffer of a pass: residual stream and its norm, queries, keys, values, attention's
    /// result, both halves of the feed-forward.
    fn widths(&self) -> [usize; 8] {
        let Heads { heads, kv_heads, key_dim, value_dim, .. } = self.heads;
        let Config { dim, ffn, .. } = *self;
        [dim, dim, heads * key_dim, kv_heads * key_dim, kv_heads * value_dim, heads * value_dim, ffn, ffn]
    }

    /// Bytes of the values in flight of passes of up to `rows` tokens and `outputs` rows of logits, `f32` each.
    pub fn scratch_bytes(&self, rows: usize, outputs: usize) -> u64 {
        let row = self.widths().into_iter().fold(0u64, |sum, width| sum.saturating_add(width as u64));
        let logits = (self.vocab as u64).saturating_mul(outputs as u64);
        row.saturating_mul(rows as u64).saturating_add(logits).saturating_mul(4)
    }
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
        Decoder::load_unchecked(gguf, ops, part)
    }

    pub(crate) fn load_unchecked(gguf: &Gguf, ops: &mut B, part: &Part) -> Result<Decoder<B>, Error> {
        let arch = Architecture::of(gguf)?;
        let config = Config::from_gguf(gguf)?;
        if part.layers.start > part.layers.end || part.layers.end > config.layers {
            return Err(Error::NoSuchLayers { layers: part.layers.clone(), of: config.layers });
        }
        let Heads { heads, kv_heads, key_dim, value_dim, .. } = config.heads;
        let Config { dim, ffn, vocab, .. } = config;
        let (q, k, v) = (heads * key_dim, kv_heads * key_dim, kv_heads * value_dim);

        let dims = gguf.metadata().u32(&format!("{}.rope.dimension_count", arch.name))?;
        let dims = dims.map_or(key_dim, |dims| dims as usize);
        if dims > key_dim || dims % 2 != 0 {
            return Err(bad_value(arch.name, "rope.dimension_count", &format!("even, at most {key_dim}"), dims));
        }
        let mut w = Weights::new(gguf, ops);
        let factors = w.numbers("rope_freqs.weight", dims / 2)?;
        let rope = rope::from_metadata(
            gguf.metadata(),
            arch.name,
            arch.pairing,
            dims,
            config.context as u32,
            factors.as_deref(),
        )?;
        let layers = part.layers.clone().map(|i| {
            let name = |rest: &str| format!("blk.{i}.{rest}");
            Ok(Layer {
                attn_norm: w.vector(&name("attn_norm.weight"), dim)?,
                attn_q: w.matrix(&name("attn_q.weight"), dim, q)?,
                attn_k: w.matrix(&name("attn_k.weight"), dim, k)?,
                attn_v: w.matrix(&name("attn_v.weight"), dim, v)?,
                attn_q_bias: w.optional(&name("attn_q.bias"), q)?,
                attn_k_bias: w.optional(&name("attn_k.bias"), k)?,
                attn_v_bias: w.optional(&name("attn_v.bias"), v)?,
                attn_q_norm: w.optional(&name("attn_q_norm.weight"), key_dim)?,
                attn_k_norm: w.optional(&name("attn_k_norm.weight"), key_dim)?,
                attn_output: w.matrix(&name("attn_output.weight"), heads * value_dim, dim)?,
                attn_output_bias: w.optional(&name("attn_output.bias"), dim)?,
                ffn_norm: w.vector(&name("ffn_norm.weight"), dim)?,
                ffn_gate: w.matrix(&name("ffn_gate.weight"), dim, ffn)?,
                ffn_up: w.matrix(&name("ffn_up.weight"), dim, ffn)?,
                ffn_down: w.matrix(&name("ffn_down.weight"), ffn, dim)?,
                ffn_gate_bias: w.optional(&name("ffn_gate.bias"), ffn)?,
                ffn_up_bias: w.optional(&name("ffn_up.bias"), ffn)?,
                ffn_down_bias: w.optional(&name("ffn_down.bias"), dim)?,
            })
        });
        let layers = layers.collect::<Result<Vec<_>, Error>>()?;
        let head = match part.end {
            End::Logits => Some(Head {
                norm: w.vector("output_norm.weight", dim)?,
                output: if w.has("output.weight") { Some(w.matrix("output.weight", dim, vocab)?) } else { None },
            }),
            End::Stream => None,
        };
        let tied = head.as_ref().is_some_and(|head| head.output.is_none());
        let embeds = part.begin == Begin::Tokens || tied;
        let token_embd = if embeds { Some(w.matrix("token_embd.weight", dim, vocab)?) } else { None };
        let weight_bytes = w.bytes();
        // What a part leaves, others take; that nothing is left of the whole was seen on `Shapes`.
        if part.is_whole(config.layers) {
            w.finish()?;
        }
        let rope = ops.rope_table(rope);
        Ok(Decoder { config, part: part.clone(), token_embd, layers, head, rope, weight_bytes })
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
        let [x, h, q, k, v, att, gate, up] = self.config.widths().map(|width| ops.buffer(rows, width));
        let outputs = if self.head.is_some() { outputs } else { 0 };
        Scratch { x, h, q, k, v, att, gate, up, logits: ops.buffer(outputs, self.config.vocab) }
    }

    /// Runs the step's tokens, or the stream in the scratch, through the part; the logits of the rows asked for, or the
    /// stream, are left in the scratch.
    pub fn forward<P: Tap<B>>(&self, pass: &mut Pass<'_, B, P>) {
        if let (Begin::Tokens, Some(token_embd)) = (self.part.begin, &self.token_embd) {
            pass.ops.embed(&mut pass.s.x, token_embd, &pass.step);
            pass.tap.tap(pass.ops, "inp_embd", None, &pass.s.x);
        }
        for (i, layer) in self.part.layers.clone().zip(&self.layers) {
            self.attention(i, layer, pass);
            self.feed_forward(i, layer, pass);
            pass.tap.tap(pass.ops, "l_out", Some(i), &pass.s.x);
        }
        let Some((norm, output)) = self.head().filter(|_| !pass.step.outputs.is_empty()) else { return };
        let Pass { ops, s, step, tap, .. } = pass;
        ops.rms_norm(&mut s.h, &s.x, norm, self.config.eps);
        tap.tap(ops, "result_norm", None, &s.h);
        ops.matmul_rows(&mut s.logits, &s.h, output, step);
        tap.tap(ops, "result_output", None, &s.logits);
    }

    /// Norm and matrix after the last layer, where the part has them.
    fn head(&self) -> Option<(&B::Weight, &B::Weight)> {
        let head = self.head.as_ref()?;
        Some((&head.norm, head.output.as_ref().or(self.token_embd.as_ref())?))
    }

    /// `x += attend(rope(q), rope(k), v) @ wo`
    fn attention<P: Tap<B>>(&self, i: usize, layer: &Layer<B>, pass: &mut Pass<'_, B, P>) {
        let Config { heads, eps, .. } = self.config;
        let Pass { ops, s, kv, step, tap } = pass;
        ops.rms_norm(&mut s.h, &s.x, &layer.attn_norm, eps);
        tap.tap(ops, "attn_norm", Some(i), &s.h);
        ops.matmul3((&mut s.q, &layer.attn_q), (&mut s.k, &layer.attn_k), (&mut s.v, &layer.attn_v), &s.h);
        tap.tap(ops, "Qcur.mul_mat", Some(i), &s.q);
        tap.tap(ops, "Kcur.mul_mat", Some(i), &s.k);
        for (x, bias, name) in [(&mut s.q, &layer.attn_q_bias, "Qcur.add"), (&mut s.k, &layer.attn_k_bias, "Kcur.add")]
        {
            if let Some(bias) = bias {
                ops.add_bias(x, bias);
                tap.tap(ops, name, Some(i), x);
            }
        }
        if let Some(bias) = &layer.attn_v_bias {
            tap.tap(ops, "Vcur.mul_mat", Some(i), &s.v);
            ops.add_bias(&mut s.v, bias);
        }
        for (x, norm, name) in
            [(&mut s.q, &layer.attn_q_norm, "Qcur_normed"), (&mut s.k, &layer.attn_k_norm, "Kcur_normed")]
        {
            if let Some(norm) = norm {
                ops.norm(x, Norm { kind: NormKind::Rms, run: heads.key_dim, eps }, Some(norm), None);
                tap.tap(ops, name, Some(i), x);
            }
            ops.rope(x, &self.rope, heads.key_dim, step);
        }
        tap.tap(ops, "Qcur", Some(i), &s.q);
        tap.tap(ops, "Kcur", Some(i), &s.k);
        tap.tap(ops, "Vcur", Some(i), &s.v);
        let cached = i - self.part.layers.start;
        ops.kv_write(kv, cached, &s.k, &s.v, step);
        ops.attend(&mut s.att, &s.q, kv, cached, Attention::causal(heads), step);
        tap.tap(ops, "kqv_out", Some(i), &s.att);
        ops.matmul_add(&mut s.x, &s.att, &layer.attn_output, &mut s.h);
        if let Some(bias) = &layer.attn_output_bias {
            ops.add_bias(&mut s.x, bias);
        }
        tap.tap(ops, "ffn_inp", Some(i), &s.x);
    }

    /// `x += (silu(h @ gate) * (h @ up)) @ down`
    fn feed_forward<P: Tap<B>>(&self, i: usize, layer: &Layer<B>, pass: &mut Pass<'_, B, P>) {
        let Pass { ops, s, tap, .. } = pass;
        ops.rms_norm(&mut s.h, &s.x, &layer.ffn_norm, self.config.eps);
        tap.tap(ops, "ffn_norm", Some(i), &s.h);
        ops.matmul2((&mut s.gate, &layer.ffn_gate), (&mut s.up, &layer.ffn_up), &s.h);
        for (x, bias) in [(&mut s.gate, &layer.ffn_gate_bias), (&mut s.up, &layer.ffn_up_bias)] {
            if let Some(bias) = bias {
                ops.add_bias(x, bias);
            }
        }
        tap.tap(ops, "ffn_gate", Some(i), &s.gate);
        tap.tap(ops, "ffn_up", Some(i), &s.up);
        ops.swiglu(&mut s.gate, &s.up);
        tap.tap(ops, "ffn_swiglu", Some(i), &s.gate);
        ops.matmul_add(&mut s.x, &s.gate, &layer.ffn_down, &mut s.h);
        if let Some(bias) = &layer.ffn_down_bias {
            ops.add_bias(&mut s.x, bias);
        }
    }
}

fn bad_value(arch: &str, key: &str, expected: &str, got: usize) -> Error {
    Error::BadValue { key: format!("{arch}.{key}"), expected: expected.into(), got: got.to_string() }
}
