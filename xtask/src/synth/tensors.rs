//! The tensors of a layer: their names, shapes and roles, and how their values are spread.

use super::{
    shape::{Attention, Experts, Ffn, Latent, Mixer, Shape},
    weights::Spread,
};

/// A tensor without its values.
pub struct Tensor {
    pub name: String,
    /// In ggml's order.
    pub shape: Vec<u64>,
    pub spread: Spread,
}

impl Tensor {
    pub fn new(name: impl Into<String>, shape: &[u64], spread: Spread) -> Tensor {
        Tensor { name: name.into(), shape: shape.to_vec(), spread }
    }
}

/// A layer, and what takes its tensors.
pub struct Layer<'a> {
    pub number: u32,
    pub add: &'a mut dyn FnMut(Tensor),
}

/// Unit variance in, unit variance out, so that activations neither fade nor grow.
pub fn keep(inputs: u64) -> Spread {
    Spread { mean: 0.0, deviation: 1.0 / (inputs as f32).sqrt() }
}

/// Weights of a norm.
pub const NORM: Spread = Spread { mean: 1.0, deviation: 0.1 };
/// Biases.
const BIAS: Spread = Spread { mean: 0.0, deviation: 0.02 };
/// How fast states fade, below zero throughout.
const FADING: Spread = Spread { mean: -8.0, deviation: 2.0 };
/// What is added to a step's length before its softplus.
const TIME: Spread = Spread { mean: -3.0, deviation: 0.5 };
const CONVOLUTION: Spread = Spread { mean: 0.0, deviation: 0.5 };

impl Layer<'_> {
    /// A layer of the shape.
    pub fn write(&mut self, shape: &Shape) {
        let Shape { dim, .. } = *shape;
        let after = matches!(shape.ffn, Ffn::Encoder(_));
        if !after {
            self.vector("attn_norm.weight", dim, NORM);
        }
        let mixer = shape.mixer(self.number);
        match mixer {
            Mixer::Attention(attention) => self.attention(dim, attention, after),
            Mixer::Latent(latent) => self.latent(dim, latent),
            Mixer::Mamba { inner, state, rank } => self.mamba(dim, (*inner, *state, *rank)),
            Mixer::Mamba2 { inner, state, heads, groups } => self.mamba2(dim, (*inner, *state, *heads, *groups)),
            Mixer::Delta { heads, key_heads, head_dim } => self.delta(dim, (*heads, *key_heads, *head_dim)),
        }
        match &shape.ffn {
            Ffn::None => {}
            Ffn::Gated(width) => {
                self.vector("ffn_norm.weight", dim, NORM);
                self.gated("", dim, *width)
            }
            Ffn::Encoder(width) => self.encoder(dim, *width),
            Ffn::Experts(experts) => {
                // Qwen3-Next names the norm after what is before it.
                let hybrid = shape.mixers.len() > 1;
                self.vector(if hybrid { "post_attention_norm.weight" } else { "ffn_norm.weight" }, dim, NORM);
                self.experts(dim, experts)
            }
        }
    }

    fn put(&mut self, rest: &str, shape: &[u64], spread: Spread) {
        (self.add)(Tensor::new(format!("blk.{}.{rest}", self.number), shape, spread))
    }

    fn vector(&mut self, rest: &str, width: u64, spread: Spread) {
        self.put(rest, &[width], spread)
    }

    fn matrix(&mut self, rest: &str, cols: u64, rows: u64) {
        self.put(&format!("{rest}.weight"), &[cols, rows], keep(cols))
    }

    fn attention(&mut self, dim: u64, attention: &Attention, biased: bool) {
        let Attention { heads, kv_heads, head_dim, qk_norm, gated, .. } = *attention;
        let (q, kv) = (heads * head_dim, kv_heads * head_dim);
        self.matrix("attn_q", dim, if gated { 2 * q } else { q });
        self.matrix("attn_k", dim, kv);
        self.put("attn_v.weight", &[dim, kv], keep(dim));
        self.put("attn_output.weight", &[q, dim], keep(q));
        if biased {
            for (name, width) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv), ("attn_output", dim)] {
                self.vector(&format!("{name}.bias"), width, BIAS);
            }
        }
        if qk_norm {
            self.vector("attn_q_norm.weight", head_dim, NORM);
            self.vector("attn_k_norm.weight", head_dim, NORM);
        }
    }

    fn latent(&mut self, dim: u64, latent: &Latent) {
        let Latent { heads, rank, still, turning, value } = *latent;
        self.matrix("attn_q", dim, heads * (still + turning));
        self.matrix("attn_kv_a_mqa", dim, rank + turning);
        self.vector("attn_kv_a_norm.weight", rank, NORM);
        self.put("attn_k_b.weight", &[still, rank, heads], keep(still));
        self.put("attn_v_b.weight", &[rank, value, heads], keep(rank));
        self.put("attn_output.weight", &[heads * value, dim], keep(heads * value))
    }

    fn mamba(&mut self, dim: u64, (inner, state, rank): (u64, u64, u64)) {
        self.matrix("ssm_in", dim, 2 * inner);
        self.convolution(inner);
        self.matrix("ssm_x", inner, rank + 2 * state);
        self.matrix("ssm_dt", rank, inner);
        self.vector("ssm_dt.bias", inner, TIME);
        self.put("ssm_a", &[state, inner], FADING);
        self.vector("ssm_d", inner, NORM);
        self.matrix("ssm_out", inner, dim)
    }

    fn mamba2(&mut self, dim: u64, (inner, state, heads, groups): (u64, u64, u64, u64)) {
        let mixed = inner + 2 * groups * state;
        self.matrix("ssm_in", dim, inner + mixed + heads);
        self.convolution(mixed);
        self.vector("ssm_dt.bias", heads, TIME);
        self.put("ssm_a", &[1, heads], FADING);
        self.put("ssm_d", &[1, heads], NORM);
        self.put("ssm_norm.weight", &[inner / groups, groups], NORM);
        self.matrix("ssm_out", inner, dim)
    }

    fn convolution(&mut self, width: u64) {
        self.put("ssm_conv1d.weight", &[4, width], CONVOLUTION);
        self.vector("ssm_conv1d.bias", width, BIAS)
    }

    fn delta(&mut self, dim: u64, (heads, key_heads, head_dim): (u64, u64, u64)) {
        let inner = heads * head_dim;
        let mixed = inner + 2 * key_heads * head_dim;
        self.matrix("attn_qkv", dim, mixed);
        self.matrix("attn_gate", dim, inner);
        self.matrix("ssm_ba", dim, 2 * heads);
        self.put("ssm_conv1d.weight", &[4, mixed], CONVOLUTION);
        self.vector("ssm_dt.bias", heads, TIME);
        self.vector("ssm_a", heads, FADING);
        self.vector("ssm_norm.weight", head_dim, NORM);
        self.matrix("ssm_out", inner, dim)
    }

    fn gated(&mut self, suffix: &str, dim: u64, width: u64) {
        self.matrix(&format!("ffn_gate{suffix}"), dim, width);
        self.matrix(&format!("ffn_up{suffix}"), dim, width);
        self.put(&format!("ffn_down{suffix}.weight"), &[width, dim], keep(width))
    }

    fn encoder(&mut self, dim: u64, width: u64) {
        self.vector("attn_output_norm.weight", dim, NORM);
        self.vector("attn_output_norm.bias", dim, BIAS);
        self.matrix("ffn_up", dim, width);
        self.vector("ffn_up.bias", width, BIAS);
        self.put("ffn_down.weight", &[width, dim], keep(width));
        self.vector("ffn_down.bias", dim, BIAS);
        self.vector("layer_output_norm.weight", dim, NORM);
        self.vector("layer_output_norm.bias", dim, BIAS)
    }

    fn experts(&mut self, dim: u64, experts: &Experts) {
        let Experts { count, width, shared, shared_gate, dense, .. } = *experts;
        if self.number < dense.0 {
            return self.gated("", dim, dense.1);
        }
        let count = u64::from(count);
        self.put("ffn_gate_inp.weight", &[dim, count], keep(dim));
        self.put("ffn_gate_exps.weight", &[dim, width, count], keep(dim));
        self.put("ffn_up_exps.weight", &[dim, width, count], keep(dim));
        self.put("ffn_down_exps.weight", &[width, dim, count], keep(width));
        if shared > 0 {
            self.gated("_shexp", dim, shared);
        }
        if shared_gate {
            self.vector("ffn_gate_inp_shexp.weight", dim, keep(dim));
        }
    }
}
