//! Multi-head latent attention (DeepSeek-AI 2024): keys and values are made from one short vector per position.
//!
//! Where the file has the keys' and values' matrices by themselves, queries are brought to the short vector instead, so
//! that it alone is cached. Otherwise keys and values are spelt out.

use candor_ops::{Columns, Heads, LayerCache, Norm, NormKind, Ops, Tap};

use super::attention::Rotated;
use crate::{
    Error,
    arch::Architecture,
    at::At,
    common::Common,
    keys::Keys,
    linear::{Linear, Out},
    norm::Normed,
    temperature,
    weights::Weights,
};

/// The dimensions of a latent attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    heads: usize,
    /// Elements of a key that do not turn, and that do.
    still: usize,
    turning: usize,
    value: usize,
    /// Width of the short vectors of queries and of keys and values.
    q_rank: Option<usize>,
    rank: usize,
    absorbed: bool,
    /// Whether queries grow with their position.
    grows: bool,
    pub(crate) scale: f32,
}

/// The weights of a latent attention.
pub(crate) struct Layer<B: Ops> {
    dims: Dims,
    q_a: Option<(Linear<B>, Normed<B>)>, // [q_rank, D]
    q: Linear<B>,                        // [H*(still+turning), q_rank or D]
    kv_a: Linear<B>,                     // [rank+turning, D]
    kv_norm: Normed<B>,                  // [rank]
    keys_values: KeysValues<B>,
    output: Linear<B>, // [D, H*value]
}

/// How the short vector becomes keys and values.
enum KeysValues<B: Ops> {
    /// A matrix per head each: `[H][rank, still]` and `[H][value, rank]`.
    Absorbed { k: B::Weight, v: B::Weight },
    /// `[H*(still+value), rank]`
    Spelt(Linear<B>),
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    q_a: B::Buf,     // [T, q_rank]
    q: B::Buf,       // [T, H*(still+turning)]
    kv_a: B::Buf,    // [T, rank+turning]
    c: B::Buf,       // [T, rank]
    q_pe: B::Buf,    // [T, H*turning]
    k_pe: B::Buf,    // [T, turning]
    q_still: B::Buf, // [T, H*still]
    spelt: B::Buf,   // [T, H*rank], or [T, H*(still+value)]
    query: B::Buf,   // [T, H*key] as they meet keys
    key: B::Buf,     // [T, G*key]
    val: B::Buf,     // [T, G*val]
    att: B::Buf,     // [T, H*val]
    out: B::Buf,     // [T, H*value]
    growth: B::Buf,  // [T, 1]; no width where no queries grow
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new(bufs: [B::Buf; 14]) -> Self {
        let [q_a, q, kv_a, c, q_pe, k_pe, q_still, spelt, query, key, val, att, out, growth] = bufs;
        Scratch { q_a, q, kv_a, c, q_pe, k_pe, q_still, spelt, query, key, val, att, out, growth }
    }
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, common: &Common, i: usize) -> Result<Option<Dims>, Error> {
        let tensor = |rest: &str| keys.gguf.tensor(&format!("blk.{i}.{rest}.weight"));
        if tensor("attn_kv_a_mqa").is_none() {
            return Ok(None);
        }
        const HEADS: &str = "attention.head_count";
        let heads = keys.per_layer(HEADS, common.layers)?.ok_or_else(|| keys.missing(HEADS))?[i];
        let turning = keys.positive("rope.dimension_count")?;
        let rank = keys.positive("attention.kv_lora_rank")?;
        let q_rank = if tensor("attn_q_a").is_some() { Some(keys.positive("attention.q_lora_rank")?) } else { None };
        let key = match keys.number("attention.key_length_mla")?.filter(|&width| width != 0) {
            Some(width) => width,
            None => keys.positive("attention.key_length")?,
        };
        let rows = tensor("attn_output").and_then(|info| info.shape.first()).copied().unwrap_or(0) as usize;
        if heads == 0 || key <= turning || !rows.is_multiple_of(heads) {
            return Err(keys.bad("attention.key_length", &format!("more than the {turning} that turn"), key));
        }
        let larger = larger(keys)?;
        let scale = larger * larger / (key as f32).sqrt();
        let (still, value, absorbed) = (key - turning, rows / heads, tensor("attn_k_b").is_some());
        let grows = common.temperature.is_some();
        Ok(Some(Dims { heads, still, turning, value, q_rank, rank, absorbed, grows, scale }))
    }

    /// As keys and values are cached.
    pub(crate) fn cached(&self) -> Heads {
        let Dims { heads, still, turning, value, rank, scale, .. } = *self;
        match self.absorbed {
            true => Heads { heads, kv_heads: 1, key_dim: rank + turning, value_dim: rank, scale },
            false => Heads { heads, kv_heads: heads, key_dim: still + turning, value_dim: value, scale },
        }
    }

    pub(crate) fn rotated(&self) -> Rotated {
        Rotated { head_dim: self.turning, dims: self.turning }
    }

    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        let Heads { kv_heads, key_dim, value_dim, .. } = self.cached();
        *cache = LayerCache { kv_heads, key_dim, value_dim, ..*cache };
    }

    pub(crate) fn widths(&self) -> [usize; 14] {
        let Dims { heads, still, turning, value, q_rank, rank, absorbed, grows, .. } = *self;
        let Heads { kv_heads, key_dim, value_dim, .. } = self.cached();
        let (q_still, spelt) = if absorbed { (heads * still, heads * rank) } else { (0, heads * (still + value)) };
        [
            q_rank.unwrap_or(0),
            heads * (still + turning),
            rank + turning,
            rank,
            heads * turning,
            turning,
            q_still,
            spelt,
            heads * key_dim,
            kv_heads * key_dim,
            kv_heads * value_dim,
            heads * value_dim,
            heads * value,
            usize::from(grows),
        ]
    }
}

/// Where YaRN makes scores larger by the square of a number, instead of queries and keys: its multiplier
/// (`mscale_all_dim` of the authors' program).
pub(crate) const MULTIPLIER: &str = "rope.scaling.yarn_log_multiplier";

/// That number. Other scalings have it, too, as llama.cpp runs them.
fn larger(keys: &Keys<'_>) -> Result<f32, Error> {
    if !keys.reads(MULTIPLIER) {
        return Ok(1.0);
    }
    let factor = keys.float("rope.scaling.factor")?.filter(|&factor| factor > 0.0).unwrap_or(1.0);
    let multiplier = keys.float(MULTIPLIER)?.unwrap_or(0.0);
    let attention = keys.float("rope.scaling.attn_factor")?.unwrap_or(1.0);
    match keys.gguf.metadata().str(&keys.name("rope.scaling.type"))? {
        // What both are without the key, the programs do not agree on.
        Some("yarn") if factor != 1.0 && multiplier == 0.0 => Err(keys.missing(MULTIPLIER)),
        Some("yarn") => Ok(attention * (1.0 + multiplier * factor.ln())),
        Some("none") => Ok(attention),
        _ => Ok(attention * (1.0 + 0.1 * factor.ln()) * (1.0 + multiplier * factor.ln())),
    }
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        _: &Architecture,
        common: &Common,
        dims: Dims,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let name = |rest: &str| format!("blk.{i}.{rest}");
        let Dims { heads, still, turning, value, q_rank, rank, absorbed, .. } = dims;
        let (dim, norm) = (common.dim, |run| Norm { kind: NormKind::Rms, run, eps: common.eps });
        let (q_a, q) = match q_rank {
            Some(width) => {
                let a = Linear::load(w, &name("attn_q_a"), dim, width)?;
                let normed = Normed::load(w, &name("attn_q_a_norm"), norm(width))?;
                (Some((a, normed)), Linear::load(w, &name("attn_q_b"), width, heads * (still + turning))?)
            }
            None => {
                let q = Linear::load(w, &name("attn_q"), dim, heads * (still + turning))?;
                (None, q.scaled(w, &name("attn_q"))?)
            }
        };
        let keys_values = match absorbed {
            true => KeysValues::Absorbed {
                k: w.stacked(&name("attn_k_b.weight"), still, rank * heads)?,
                v: w.stacked(&name("attn_v_b.weight"), rank, value * heads)?,
            },
            false => KeysValues::Spelt(Linear::load(w, &name("attn_kv_b"), rank, heads * (still + value))?),
        };
        Ok(Layer {
            dims,
            q_a,
            q,
            kv_a: Linear::load(w, &name("attn_kv_a_mqa"), dim, rank + turning)?,
            kv_norm: Normed::load(w, &name("attn_kv_a_norm"), norm(rank))?,
            keys_values,
            output: Linear::load(w, &name("attn_output"), heads * value, dim)?.scaled(w, &name("attn_output"))?,
        })
    }

    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let Dims { heads, still, turning, value, rank, .. } = self.dims;
        let ops = &mut *at.ops;
        match &self.q_a {
            Some((a, norm)) => {
                a.apply(ops, &mut s.q_a, h);
                norm.within(ops, &mut s.q_a);
                self.q.apply(ops, &mut s.q, &s.q_a);
            }
            None => self.q.apply(ops, &mut s.q, h),
        }
        self.kv_a.apply(ops, &mut s.kv_a, h);
        ops.copy(&mut s.c, &s.kv_a, Columns::run(rank, 0, 0));
        self.kv_norm.within(ops, &mut s.c);
        ops.copy(&mut s.k_pe, &s.kv_a, Columns::run(turning, rank, 0));
        // Of each head's `[from, len]`, out of `step`, to `[to, len]` out of another.
        let part = |len, from, to| Columns { groups: heads, len, from, to };
        ops.copy(&mut s.q_pe, &s.q, part(turning, (still, still + turning), (0, turning)));
        if let Some(rope) = at.rope {
            ops.rope(&mut s.q_pe, rope, turning, at.step);
            ops.rope(&mut s.k_pe, rope, turning, at.step);
        }
        match &self.keys_values {
            KeysValues::Absorbed { k, .. } => {
                ops.copy(&mut s.q_still, &s.q, part(still, (0, still + turning), (0, still)));
                ops.matmul_heads(&mut s.spelt, &s.q_still, k, heads);
                ops.copy(&mut s.query, &s.spelt, part(rank, (0, rank), (0, rank + turning)));
                ops.copy(&mut s.query, &s.q_pe, part(turning, (0, turning), (rank, rank + turning)));
                ops.copy(&mut s.key, &s.c, Columns::run(rank, 0, 0));
                ops.copy(&mut s.key, &s.k_pe, Columns::run(turning, 0, rank));
                ops.copy(&mut s.val, &s.c, Columns::run(rank, 0, 0));
            }
            KeysValues::Spelt(kv) => {
                kv.apply(ops, &mut s.spelt, &s.c);
                ops.copy(&mut s.query, &s.q, Columns::run(heads * (still + turning), 0, 0));
                ops.copy(&mut s.query, &s.q_pe, part(turning, (0, turning), (still, still + turning)));
                ops.copy(&mut s.key, &s.spelt, part(still, (0, still + value), (0, still + turning)));
                ops.copy(&mut s.key, &s.k_pe, part(turning, (0, 0), (still, still + turning)));
                ops.copy(&mut s.val, &s.spelt, part(value, (still, still + value), (0, value)));
            }
        }
        if let Some(table) = at.temperature {
            temperature::grow(at.ops, &mut s.query, table, &mut s.growth, at.step);
        }
        at.tap("Qcur", &s.query);
        at.tap("Kcur", &s.key);
        at.tap("Vcur", &s.val);
        at.ops.kv_write(at.kv, at.cached, &s.key, &s.val, at.step);
        let attention = at.attention(self.dims.cached(), None);
        at.ops.attend(&mut s.att, &s.query, at.kv, at.cached, attention, at.step);
        at.tap("kqv_out", &s.att);
        match &self.keys_values {
            KeysValues::Absorbed { v, .. } => {
                at.ops.matmul_heads(&mut s.out, &s.att, v, heads);
                self.output.leave_as(at, "attn_out", &s.out, out);
            }
            KeysValues::Spelt(_) => self.output.leave_as(at, "attn_out", &s.att, out),
        }
    }
}
