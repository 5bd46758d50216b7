//! The decoder wiring: pre-norm attention and gated feed-forward, one after the other (Touvron et al. 2023).
//!
//! What varies between its architectures is data: a number of the metadata or the presence of a tensor (biases, query
//! and key norms, a separate head). What changes the order of operations belongs in another file.

use candor_gguf::Gguf;
use candor_ops::{Heads, KvFormat, KvPlan, Ops, Prims, Shapes, Step, Tap, Work};

use crate::{Architecture, Error, rope, weights::Weights};

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

/// A loaded model.
pub struct Decoder<B: Ops> {
    config: Config,
    token_embd: B::Weight, // [V, D]
    layers: Vec<Layer<B>>,
    output_norm: B::Weight,    // [D]
    output: Option<B::Weight>, // [V, D]; the embedding serves where it is absent
    rope: B::Rope,
}

/// The values in flight during a pass.
pub struct Scratch<B: Ops> {
    x: B::Buf,    // [T, D] residual stream
    h: B::Buf,    // [T, D] normed, and products on their way into x
    q: B::Buf,    // [T, H*E]
    k: B::Buf,    // [T, G*E]
    v: B::Buf,    // [T, G*Ev]
    att: B::Buf,  // [T, H*Ev]
    gate: B::Buf, // [T, F]
    up: B::Buf,   // [T, F]
    /// Logits of the rows that were asked for, `[outputs, V]`.
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
        KvPlan { layers: self.layers, kv_heads, key_dim, value_dim, context, sequences, keys, values }
    }
}

impl<B: Ops> Decoder<B> {
    /// Loads the file's weights into the backend, after a run on [`Shapes`] has shown that they belong together.
    ///
    /// # Errors
    /// If the file is not a model of this wiring, or the backend cannot hold it.
    pub fn load(gguf: &Gguf, ops: &mut B) -> Result<Decoder<B>, Error> {
        Decoder::<Shapes>::check(gguf, 1)?;
        Decoder::load_unchecked(gguf, ops)
    }

    fn load_unchecked(gguf: &Gguf, ops: &mut B) -> Result<Decoder<B>, Error> {
        let arch = Architecture::of(gguf)?;
        let config = Config::from_gguf(gguf)?;
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
        let layers = (0..config.layers).map(|i| {
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
        let token_embd = w.matrix("token_embd.weight", dim, vocab)?;
        let output_norm = w.vector("output_norm.weight", dim)?;
        let output = if w.has("output.weight") { Some(w.matrix("output.weight", dim, vocab)?) } else { None };
        w.finish()?;
        let rope = ops.rope_table(rope);
        Ok(Decoder { config, token_embd, layers, output_norm, output, rope })
    }

    /// The model's dimensions.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Room for passes of up to `rows` tokens and `outputs` rows of logits.
    pub fn scratch(&self, ops: &mut B, rows: usize, outputs: usize) -> Scratch<B> {
        let Heads { heads, kv_heads, key_dim, value_dim, .. } = self.config.heads;
        let Config { dim, ffn, vocab, .. } = self.config;
        Scratch {
            x: ops.buffer(rows, dim),
            h: ops.buffer(rows, dim),
            q: ops.buffer(rows, heads * key_dim),
            k: ops.buffer(rows, kv_heads * key_dim),
            v: ops.buffer(rows, kv_heads * value_dim),
            att: ops.buffer(rows, heads * value_dim),
            gate: ops.buffer(rows, ffn),
            up: ops.buffer(rows, ffn),
            logits: ops.buffer(outputs, vocab),
        }
    }

    /// Runs the step's tokens through the model; the logits of the rows asked for are left in the scratch.
    pub fn forward<P: Tap<B>>(&self, pass: &mut Pass<'_, B, P>) {
        pass.ops.embed(&mut pass.s.x, &self.token_embd, &pass.step);
        pass.tap.tap(pass.ops, "inp_embd", None, &pass.s.x);
        for (i, layer) in self.layers.iter().enumerate() {
            self.attention(i, layer, pass);
            self.feed_forward(i, layer, pass);
            pass.tap.tap(pass.ops, "l_out", Some(i), &pass.s.x);
        }
        if pass.step.outputs.is_empty() {
            return;
        }
        let Pass { ops, s, step, tap, .. } = pass;
        ops.rms_norm(&mut s.h, &s.x, &self.output_norm, self.config.eps);
        tap.tap(ops, "result_norm", None, &s.h);
        ops.matmul_rows(&mut s.logits, &s.h, self.output.as_ref().unwrap_or(&self.token_embd), step);
        tap.tap(ops, "result_output", None, &s.logits);
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
                ops.head_norm(x, norm, heads.key_dim, eps);
                tap.tap(ops, name, Some(i), x);
            }
            ops.rope(x, &self.rope, heads.key_dim, step);
        }
        tap.tap(ops, "Qcur", Some(i), &s.q);
        tap.tap(ops, "Kcur", Some(i), &s.k);
        tap.tap(ops, "Vcur", Some(i), &s.v);
        ops.kv_write(kv, i, &s.k, &s.v, step);
        ops.attend(&mut s.att, &s.q, kv, i, heads, step);
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

impl Decoder<Shapes> {
    /// The file's wiring on [`Shapes`], without its weights.
    ///
    /// # Errors
    /// If the file is not a model of this wiring.
    pub fn dry(gguf: &Gguf) -> Result<Decoder<Shapes>, Error> {
        let mut ops = Shapes::default();
        let model = Decoder::load_unchecked(gguf, &mut ops)?;
        ops.finish()?;
        Ok(model)
    }

    /// The work of a pass on a cache of that plan, without doing it.
    ///
    /// # Errors
    /// If the weights do not belong together, or the step does not fit into the cache.
    pub fn work(&self, step: Step<'_>, plan: &KvPlan) -> Result<Work, Error> {
        let mut ops = Shapes::default();
        let mut scratch = self.scratch(&mut ops, step.tokens.len(), step.outputs.len());
        let mut kv = ops.kv(plan);
        self.forward(&mut Pass { ops: &mut ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        Ok(ops.finish()?)
    }

    /// The work of a pass over `rows` tokens of an empty cache, each with its logits.
    ///
    /// # Errors
    /// If the file is not a model of this wiring, or its weights do not belong together.
    pub fn check(gguf: &Gguf, rows: usize) -> Result<Work, Error> {
        let model = Decoder::dry(gguf)?;
        let plan = model.config.kv_plan(rows, 1, KvFormat::F32, KvFormat::F32);
        let places: Vec<u32> = (0..rows as u32).collect();
        let (zeros, places) = (vec![0; rows], places.as_slice());
        model.work(Step { tokens: &zeros, positions: places, sequences: &zeros, outputs: places }, &plan)
    }
}

fn bad_value(arch: &str, key: &str, expected: &str, got: usize) -> Error {
    Error::BadValue { key: format!("{arch}.{key}"), expected: expected.into(), got: got.to_string() }
}
