//! Attention over keys and values of all positions, or of a window (Vaswani et al. 2017; Ainslie et al. 2023).

use candor_ops::{Attention, Columns, Heads, LayerCache, Norm, Ops, Relative, Tap, Unary};

use crate::{
    Error,
    arch::{Architecture, QkNorm, Stacks},
    at::At,
    common::{Common, Scores},
    keys::Keys,
    linear::{Linear, Out},
    norm::Normed,
    temperature,
    weights::Weights,
};

/// What the result is multiplied by before the last product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gating {
    /// Nothing.
    None,
    /// The sigmoid of a product of its own.
    Own,
    /// The sigmoid of what the queries' product gives besides queries, head by head.
    Queries,
}

/// The dimensions of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    pub(crate) heads: Heads,
    gating: Gating,
    /// Whether some layers' queries grow with their position.
    grows: bool,
    /// Buckets of distances that scores are learned for.
    buckets: Option<usize>,
    /// Whether keys and values are another layer's.
    shares: bool,
}

/// The distance from which all fall into the last bucket: T5's, which files do not have.
const MOST: usize = 128;

/// Elements of a head that may turn.
#[derive(Clone, Copy)]
pub(crate) struct Rotated {
    pub(crate) head_dim: usize,
    /// How many do where the metadata does not say.
    pub(crate) dims: usize,
}

/// The weights of an attention. Matrices map the second width to the first, as they lie in memory.
pub(crate) struct Layer<B: Ops> {
    dims: Dims,
    q: Linear<B>,                         // [H*E, D]; twice as many where they have the gate
    q_norm: Option<Normed<B>>,            // [E] or [H*E]
    own: Option<Own<B>>,                  // where keys and values are not another layer's
    after: bool,                          // whether the norms come after rotation
    gate: Option<Linear<B>>,              // [H*Ev, D]
    sinks: Option<B::Weight>,             // [H]
    relative: Option<(B::Weight, usize)>, // [buckets, H]
    output: Linear<B>,                    // [D, H*Ev]
}

/// What makes keys and values.
struct Own<B: Ops> {
    k: Linear<B>,              // [G*E, D]
    v: Linear<B>,              // [G*Ev, D]
    k_norm: Option<Normed<B>>, // [E] or [G*E]
    v_norm: Option<Normed<B>>, // without weights
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    q: B::Buf,      // [T, H*E]
    k: B::Buf,      // [T, G*E]; no width where they are another layer's
    v: B::Buf,      // [T, G*Ev]; the same
    att: B::Buf,    // [T, H*Ev]
    gate: B::Buf,   // [T, H*Ev]; no width where nothing is gated
    fused: B::Buf,  // [T, 2*H*E]; the same
    growth: B::Buf, // [T, 1]; no width where no queries grow
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new([q, k, v, att, gate, fused, growth]: [B::Buf; 7]) -> Self {
        Scratch { q, k, v, att, gate, fused, growth }
    }
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, common: &Common, i: usize) -> Result<Option<Dims>, Error> {
        let tensor = |rest: &str| keys.gguf.tensor(&common.name(i, rest));
        // Latent attention and the delta rule have tensors of these names, too.
        let other = tensor("attn_kv_a_mqa.weight").is_some() || tensor("ssm_out.weight").is_some();
        let parts = ["attn_q", "attn_k", "attn_v", "attn_output"];
        let any = parts.iter().any(|part| tensor(&format!("{part}.weight")).is_some());
        if !any || (other && tensor("attn_k.weight").is_none()) {
            return Ok(None);
        }
        const HEADS: &str = "attention.head_count";
        const KV_HEADS: &str = "attention.head_count_kv";
        let dim = common.dim;
        let heads = keys.per_layer(HEADS, common.layers)?.ok_or_else(|| keys.missing(HEADS))?[i];
        if heads == 0 {
            return Err(keys.bad(HEADS, "a positive number", 0));
        }
        let kv_heads = keys.per_layer(KV_HEADS, common.layers)?.map_or(heads, |all| all[i]);
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(keys.bad(KV_HEADS, &format!("a divisor of {heads}"), kv_heads));
        }
        let width = |key: &str| match keys.number(key)? {
            Some(0) => Err(keys.bad(key, "a positive number", 0)),
            Some(value) => Ok(value),
            None if dim.is_multiple_of(heads) => Ok(dim / heads),
            None => Err(keys.missing(key)),
        };
        let limited = common.limits(i);
        let width = |key: &str| match keys.number(&format!("{key}_swa"))?.filter(|&width| limited && width != 0) {
            Some(narrow) => Ok(narrow),
            None => width(key),
        };
        let (key_dim, value_dim) = (width("attention.key_length")?, width("attention.value_length")?);
        let said = keys.float("attention.scale")?.filter(|&scale| scale != 0.0);
        let scale = match common.scores {
            Scores::ByHead => said.unwrap_or(1.0 / (key_dim as f32).sqrt()),
            Scores::ByStream => 1.0 / ((dim / heads) as f32).sqrt(),
            Scores::Unscaled => 1.0,
        };
        let twice =
            tensor("attn_q.weight").is_some_and(|info| info.shape == [dim as u64, 2 * heads as u64 * key_dim as u64]);
        let gating = match (tensor("attn_gate.weight").is_some(), twice) {
            (true, _) => Gating::Own,
            (false, true) => Gating::Queries,
            (false, false) => Gating::None,
        };
        let buckets = match keys.arch.stacks {
            Stacks::One => None,
            Stacks::Encoder | Stacks::Both => Some(keys.positive("attention.relative_buckets_count")?),
        };
        Ok(Some(Dims {
            heads: Heads { heads, kv_heads, key_dim, value_dim, scale },
            gating,
            grows: common.temperature.is_some(),
            buckets,
            shares: common.owners[i] != i,
        }))
    }

    pub(crate) fn rotated(&self) -> Rotated {
        Rotated { head_dim: self.heads.key_dim, dims: self.heads.key_dim }
    }

    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        let Heads { kv_heads, key_dim, value_dim, .. } = self.heads;
        *cache = LayerCache { kv_heads, key_dim, value_dim, ..*cache };
    }

    pub(crate) fn widths(&self) -> [usize; 7] {
        let Heads { heads, kv_heads, key_dim, value_dim, .. } = self.heads;
        let att = heads * value_dim;
        let (gate, fused) = match self.gating {
            Gating::None => (0, 0),
            Gating::Own => (att, 0),
            Gating::Queries => (att, 2 * heads * key_dim),
        };
        let (k, v) = if self.shares { (0, 0) } else { (kv_heads * key_dim, kv_heads * value_dim) };
        [heads * key_dim, k, v, att, gate, fused, usize::from(self.grows)]
    }
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        common: &Common,
        dims: Dims,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let name = |rest: &str| common.name(i, rest);
        let Heads { heads, key_dim, .. } = dims.heads;
        let [q, k, v, att, ..] = dims.widths();
        let dim = common.dim;
        let (q_rows, fused) = (if dims.gating == Gating::Queries { 2 * q } else { q }, name("attn_qkv"));
        let norm = Norm { kind: arch.norm, run: key_dim, eps: common.eps };
        let experts = Keys { gguf: w.gguf(), arch }.number("expert_count")?.unwrap_or(0);
        let normed = |w: &mut Weights<'_, B>, part: &str, width: usize| match arch.qk_norm {
            QkNorm::BareUnless(many) => Ok((experts != many).then(|| Normed::bare(norm))),
            QkNorm::Before | QkNorm::After => Normed::of_heads(w, &name(part), norm, (key_dim, width)),
        };
        let q_norm = normed(w, "attn_q_norm", q)?;
        let (q, own) = if dims.shares {
            // Files may have what would make keys and values all the same.
            for part in ["weight", "bias", "scale", "input_scale"] {
                w.leave(&name(&format!("attn_k.{part}")));
                w.leave(&name(&format!("attn_v.{part}")));
            }
            w.leave(&name("attn_k_norm.weight"));
            (Linear::load(w, &name("attn_q"), dim, q_rows)?.scaled(w, &name("attn_q"))?, None)
        } else {
            let [q_part, k_part, v_part] = if w.has(&format!("{fused}.weight")) {
                let shape = (dim, q + k + v);
                [0..q, q..q + k, q + k..q + k + v].map(|range| Linear::part(w, &fused, shape, range)?.scaled(w, &fused))
            } else {
                // Where keys are values too, the file has them once.
                let values = if common.value_norm && !w.has(&name("attn_v.weight")) { "attn_k" } else { "attn_v" };
                let parts = [("attn_q", q_rows), ("attn_k", k), (values, v)];
                parts.map(|(part, rows)| Linear::load(w, &name(part), dim, rows)?.scaled(w, &name(part)))
            };
            let k_norm = normed(w, "attn_k_norm", k)?;
            let v_norm = common.value_norm.then(|| Normed::bare(Norm { run: dims.heads.value_dim, ..norm }));
            (q_part?, Some(Own { k: k_part?, v: v_part?, k_norm, v_norm }))
        };
        let gate = match dims.gating {
            Gating::Own => Some(Linear::load(w, &name("attn_gate"), dim, att)?),
            Gating::None | Gating::Queries => None,
        };
        let sinks = w.optional(&name("attn_sinks.weight"), heads)?;
        let relative = dims.buckets.map(|buckets| {
            // All layers have the first one's where they have none of their own.
            let owner = if w.has(&name("attn_rel_b.weight")) { i } else { 0 };
            Ok::<_, Error>((w.matrix(&common.name(owner, "attn_rel_b.weight"), heads, buckets)?, buckets))
        });
        let relative = relative.transpose()?;
        let output = if w.has(&name("attn_o.weight")) { "attn_o" } else { "attn_output" };
        let output = Linear::load(w, &name(output), att, dim)?.scaled(w, &name(output))?;
        let after = arch.qk_norm != QkNorm::Before;
        Ok(Layer { dims, q, q_norm, own, after, gate, sinks, relative, output })
    }

    /// `attend(rope(q), rope(k), v) @ wo`
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        self.project(at, s, h);
        // Where nothing comes between them, queries and keys are turned and stored at once.
        let k_norm = self.own.as_ref().and_then(|own| own.k_norm.as_ref());
        let between = self.after && (self.q_norm.is_some() || k_norm.is_some());
        let at_once = at.rope.filter(|_| self.own.is_some() && !between);
        let alone = if at_once.is_some() { None } else { at.rope };
        self.place(at, &mut s.q, (self.q_norm.as_ref(), alone), "Qcur_normed");
        if let Some(own) = &self.own {
            self.place(at, &mut s.k, (k_norm, alone), "Kcur_normed");
            if let Some(norm) = &own.v_norm {
                norm.within(at.ops, &mut s.v);
            }
        }
        if let Some(rope) = at_once {
            let rows = [&mut s.q, &mut s.k, &mut s.v];
            at.ops.rope_write(at.kv, at.cached, rows, (rope, self.dims.heads.key_dim), at.step);
        }
        if let Some(table) = at.temperature {
            temperature::grow(at.ops, &mut s.q, table, &mut s.growth, at.step);
        }
        at.tap("Qcur", &s.q);
        if self.own.is_some() {
            at.tap("Kcur", &s.k);
            at.tap("Vcur", &s.v);
            if at_once.is_none() {
                at.ops.kv_write(at.kv, at.cached, &s.k, &s.v, at.step);
            }
        }
        let relative = self.relative.as_ref();
        let relative = relative.map(|(table, buckets)| Relative { table, buckets: *buckets, most: MOST });
        let attention = Attention { relative, ..at.attention(self.dims.heads, self.sinks.as_ref()) };
        at.ops.attend(&mut s.att, &s.q, at.kv, at.cached, attention, at.step);
        at.tap("kqv_out", &s.att);
        if self.dims.gating != Gating::None {
            at.ops.unary(&mut s.gate, Unary::Sigmoid);
            at.ops.mul(&mut s.att, &s.gate);
        }
        self.output.leave_as(at, "attn_out", &s.att, out);
    }

    /// Norms queries or keys, and turns them by their positions where `rope` is there.
    fn place<P: Tap<B>>(
        &self,
        at: &mut At<'_, '_, B, P>,
        x: &mut B::Buf,
        (norm, rope): (Option<&Normed<B>>, Option<&B::Rope>),
        normed: &'static str,
    ) {
        // Norms without weights go with rotation.
        let norm = norm.filter(|norm| at.rope.is_some() || !norm.is_bare());
        if let (Some(norm), false) = (norm, self.after) {
            norm.within(at.ops, x);
            at.tap(normed, x);
        }
        if let Some(rope) = rope {
            at.ops.rope(x, rope, self.dims.heads.key_dim, at.step);
        }
        if let (Some(norm), true) = (norm, self.after) {
            norm.within(at.ops, x);
        }
    }

    /// Queries, keys and values, and the gate where there is one.
    fn project<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf) {
        let fused = self.dims.gating == Gating::Queries;
        let q = if fused { &mut s.fused } else { &mut s.q };
        match &self.own {
            Some(own) => at.ops.matmul3((q, &self.q.weight), (&mut s.k, &own.k.weight), (&mut s.v, &own.v.weight), h),
            None => at.ops.matmul(q, h, &self.q.weight),
        }
        self.q.rescale(at.ops, q);
        if let Some(own) = &self.own {
            own.k.rescale(at.ops, &mut s.k);
            own.v.rescale(at.ops, &mut s.v);
        }
        if fused {
            self.q.add_bias(at.ops, &mut s.fused);
            let Heads { heads, key_dim, .. } = self.dims.heads;
            let half =
                |from: usize| Columns { groups: heads, len: key_dim, from: (from, 2 * key_dim), to: (0, key_dim) };
            at.ops.copy(&mut s.q, &s.fused, half(0));
            at.ops.copy(&mut s.gate, &s.fused, half(key_dim));
        }
        at.tap("Qcur.mul_mat", &s.q);
        if self.own.is_some() {
            at.tap("Kcur.mul_mat", &s.k);
        }
        let bias = self.q.bias.as_ref().filter(|_| !fused);
        let (k, v) = self.own.as_ref().map_or((None, None), |own| (own.k.bias.as_ref(), own.v.bias.as_ref()));
        for (x, bias, name) in [(&mut s.q, bias, "Qcur.add"), (&mut s.k, k, "Kcur.add")] {
            if let Some(bias) = bias {
                at.ops.add_bias(x, bias);
                at.tap(name, x);
            }
        }
        if let Some(bias) = v {
            at.tap("Vcur.mul_mat", &s.v);
            at.ops.add_bias(&mut s.v, bias);
        }
        if let Some(clamp) = at.common.clamp {
            let clamped = [&mut s.q, &mut s.k, &mut s.v];
            for x in clamped.into_iter().take(if self.own.is_some() { 3 } else { 1 }) {
                at.ops.unary(x, Unary::Clamp { low: -clamp, high: clamp });
            }
        }
        if let Some(gate) = &self.gate {
            gate.apply(at.ops, &mut s.gate, h);
        }
    }
}
