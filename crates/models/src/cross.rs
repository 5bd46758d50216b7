//! Attention of a decoder to what an encoder gave for a text (Vaswani et al. 2017).
//!
//! Keys and values of the text are computed once, when it is read, and lie in the cache behind those of the layers. That a row
//! sees the whole text is causal attention from the text's last position: no backend needs to know what this is.

use candor_ops::{Attention, Heads, Norm, Ops, Step, Tap};

use crate::{
    Architecture, Error,
    config::Config,
    decoder,
    linear::{Linear, Out, To},
    mixer::At,
    norm::Normed,
    weights::Weights,
};

/// The weights of a layer.
pub(crate) struct Cross<B: Ops> {
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
pub(crate) fn widths(heads: &Heads) -> [usize; 4] {
    let Heads { heads, kv_heads, key_dim, value_dim, .. } = *heads;
    [heads * key_dim, kv_heads * key_dim, kv_heads * value_dim, heads * value_dim]
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new(ops: &mut B, rows: usize, heads: &Heads) -> Scratch<B> {
        let [q, k, v, att] = widths(heads).map(|width| ops.buffer(rows, width));
        Scratch { q, k, v, att, lengths: Vec::new(), ends: Vec::with_capacity(rows) }
    }

    /// Notes how long the texts are that a step has read.
    pub(crate) fn read(&mut self, step: &Step) {
        for (&sequence, &position) in step.sequences.iter().zip(step.positions) {
            let sequence = sequence as usize;
            if self.lengths.len() <= sequence {
                self.lengths.resize(sequence + 1, 0);
            }
            // Positions ascend: the last one stays.
            self.lengths[sequence] = position + 1;
        }
    }

    /// Has a sequence answer the text of another.
    pub(crate) fn fork(&mut self, from: usize, to: usize) {
        let length = self.lengths.get(from).copied().unwrap_or(0);
        if self.lengths.len() <= to {
            self.lengths.resize(to + 1, 0);
        }
        self.lengths[to] = length;
    }

    /// Finds the texts of a step's rows.
    pub(crate) fn find(&mut self, step: &Step) {
        let length = |sequence: &u32| self.lengths.get(*sequence as usize).copied().unwrap_or(0);
        self.ends.clear();
        self.ends.extend(step.sequences.iter().map(|sequence| length(sequence).saturating_sub(1)));
    }
}

impl<B: Ops> Cross<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        config: &Config,
        i: usize,
    ) -> Result<Cross<B>, Error> {
        let (dim, heads) = (config.dim, config.heads);
        let name = |rest: &str| config.name(i, &format!("cross_attn_{rest}"));
        let [q, k, v, att] = widths(&heads);
        let norm = Norm { kind: arch.norm, run: dim, eps: config.eps };
        // The first T5s have scores by distance here that no program uses.
        w.leave(&name("rel_b.weight"));
        Ok(Cross {
            heads,
            norm: Normed::load(w, &name("norm"), norm)?,
            q: Linear::load(w, &name("q"), dim, q)?,
            k: Linear::load(w, &name("k"), dim, k)?,
            v: Linear::load(w, &name("v"), dim, v)?,
            output: Linear::load(w, &name("o"), att, dim)?,
        })
    }

    /// Computes and keeps the text's keys and values from `h`, what the encoder gave.
    pub(crate) fn keep<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf) {
        at.ops.matmul2((&mut s.k, &self.k.weight), (&mut s.v, &self.v.weight), h);
        self.k.add_bias(at.ops, &mut s.k);
        self.v.add_bias(at.ops, &mut s.v);
        at.tap("Kcur_cross", &s.k);
        at.tap("Vcur_cross", &s.v);
        at.ops.kv_write(at.kv, at.cached, &s.k, &s.v, at.step);
    }

    /// `x += attend(norm(x) @ wq, k, v) @ wo`, where keys and values are the text's.
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut decoder::Scratch<B>) {
        let decoder::Scratch { x, h, y, cross: Some(s), .. } = s else { return };
        at.tap("cross_inp", x);
        self.norm.to(at.ops, h, x, at.config.dim);
        at.tap("attn_norm_cross", h);
        self.q.apply(at.ops, &mut s.q, h);
        at.tap("Qcur_cross", &s.q);
        let (kept, attention) = (at.config.layers + at.layer, Attention::causal(self.heads));
        at.ops.attend(&mut s.att, &s.q, at.kv, kept, attention, &Step { positions: &s.ends, ..*at.step });
        at.tap("kqv_out_cross", &s.att);
        self.output.leave(at.ops, &s.att, Out { x, y, to: To::Stream });
    }
}
