//! Attention of a decoder to what an encoder gave for a text (Vaswani et al. 2017).
//!
//! Keys and values of the text are computed once, when it is read, and lie in the cache behind those of the layers. That a row
//! sees the whole text is causal attention from the text's last position: no backend needs to know what this is.

use candor_ops::{Attention, Heads, Norm, Ops, Step, Tap};

use super::hooks::Extra;
use crate::{
    Error,
    arch::{Architecture, DECODER},
    at::{At, Stream},
    common::Common,
    keys::Keys,
    linear::{Linear, Out, To},
    norm::Normed,
    weights::Weights,
};

/// The heads, which are those of the layer's own attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims(Heads);

/// The weights of a layer.
pub(crate) struct Layer<B: Ops> {
    heads: Heads,
    norm: Normed<B>,   // [D]
    q: Linear<B>,      // [H*E, D]
    k: Linear<B>,      // [G*E, D]
    v: Linear<B>,      // [G*Ev, D]
    output: Linear<B>, // [D, H*Ev]
}

/// The values in flight, and how long texts are.
pub(crate) struct Scratch<B: Ops> {
    q: B::Buf,   // [T, H*E]
    k: B::Buf,   // [T, G*E]
    v: B::Buf,   // [T, G*Ev]
    att: B::Buf, // [T, H*Ev]
    /// Tokens of each sequence's text.
    lengths: Vec<u32>,
    /// The last position of the text of each row in flight.
    ends: Vec<u32>,
}

/// Elements of a row of each buffer.
fn widths(heads: &Heads) -> [usize; 4] {
    let Heads { heads, kv_heads, key_dim, value_dim, .. } = *heads;
    [heads * key_dim, kv_heads * key_dim, kv_heads * value_dim, heads * value_dim]
}

impl Extra for Dims {
    type Ends<B: Ops> = ();
    type Layer<B: Ops> = Layer<B>;
    type Scratch<B: Ops> = Scratch<B>;

    const CROSSES: bool = true;

    fn of(_: &Keys<'_>, common: &Common, heads: &Heads) -> Result<Option<Dims>, Error> {
        Ok((common.prefix == DECODER.prefix).then_some(Dims(*heads)))
    }

    fn scratch<B: Ops>(&self, ops: &mut B, _: &Common, rows: usize) -> Scratch<B> {
        let [q, k, v, att] = widths(&self.0).map(|width| ops.buffer(rows, width));
        Scratch { q, k, v, att, lengths: Vec::new(), ends: Vec::with_capacity(rows) }
    }

    fn ends<B: Ops>(&self, _: &mut Weights<'_, B>, _: &Common) -> Result<(), Error> {
        Ok(())
    }

    fn layer<B: Ops>(
        &self,
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        common: &Common,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let dim = common.dim;
        let name = |rest: &str| common.name(i, &format!("cross_attn_{rest}"));
        let [q, k, v, att] = widths(&self.0);
        let norm = Norm { kind: arch.norm, run: dim, eps: common.eps };
        // The first T5s have scores by distance here that no program uses.
        w.leave(&name("rel_b.weight"));
        Ok(Layer {
            heads: self.0,
            norm: Normed::load(w, &name("norm"), norm)?,
            q: Linear::load(w, &name("q"), dim, q)?,
            k: Linear::load(w, &name("k"), dim, k)?,
            v: Linear::load(w, &name("v"), dim, v)?,
            output: Linear::load(w, &name("o"), att, dim)?,
        })
    }

    /// Finds the texts of the step's rows.
    fn embedded<B: Ops>((): &(), _: &mut B, s: &mut Scratch<B>, _: &mut B::Buf, (step, _): (&Step, &Common)) {
        let length = |sequence: &u32| s.lengths.get(*sequence as usize).copied().unwrap_or(0);
        s.ends.clear();
        s.ends.extend(step.sequences.iter().map(|sequence| length(sequence).saturating_sub(1)));
    }

    /// `x += attend(norm(x) @ wq, k, v) @ wo`, where keys and values are the text's.
    fn mixed<B: Ops, P: Tap<B>>(
        layer: &Layer<B>,
        at: &mut At<'_, '_, B, P>,
        s: &mut Scratch<B>,
        Stream { x, h, y }: Stream<'_, B>,
    ) {
        at.tap("cross_inp", x);
        layer.norm.to(at.ops, h, x, at.common.dim);
        at.tap("attn_norm_cross", h);
        layer.q.apply(at.ops, &mut s.q, h);
        at.tap("Qcur_cross", &s.q);
        let (kept, attention) = (at.common.layers + at.layer, Attention::causal(layer.heads));
        at.ops.attend(&mut s.att, &s.q, at.kv, kept, attention, &Step { positions: &s.ends, ..*at.step });
        at.tap("kqv_out_cross", &s.att);
        layer.output.leave_as(at, "cross_out", &s.att, Out { x, y, to: To::Stream });
    }

    /// Computes and keeps the text's keys and values.
    fn keep<B: Ops, P: Tap<B>>(layer: &Layer<B>, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf) {
        at.ops.matmul2((&mut s.k, &layer.k.weight), (&mut s.v, &layer.v.weight), h);
        layer.k.add_bias(at.ops, &mut s.k);
        layer.v.add_bias(at.ops, &mut s.v);
        at.tap("Kcur_cross", &s.k);
        at.tap("Vcur_cross", &s.v);
        at.ops.kv_write(at.kv, at.cached, &s.k, &s.v, at.step);
    }

    /// Notes how long the texts are.
    fn read<B: Ops>(s: &mut Scratch<B>, step: &Step) {
        for (&sequence, &position) in step.sequences.iter().zip(step.positions) {
            // Positions ascend: the last one stays.
            *s.length(sequence as usize) = position + 1;
        }
    }

    fn fork<B: Ops>(s: &mut Scratch<B>, from: usize, to: usize) {
        let length = *s.length(from);
        *s.length(to) = length;
    }
}

impl<B: Ops> Scratch<B> {
    /// The length of a sequence's text; nothing if it has none yet.
    fn length(&mut self, sequence: usize) -> &mut u32 {
        if self.lengths.len() <= sequence {
            self.lengths.resize(sequence + 1, 0);
        }
        &mut self.lengths[sequence]
    }
}
