//! The values in flight during a pass, and the memory that they take.

use candor_ops::{Ops, Shapes};

use crate::{config::Config, extra, ffn, mixer};

/// The values in flight during a pass.
pub struct Scratch<B: Ops> {
    /// The residual stream, `[T, D]`: given to a part that begins with it, left by one that ends with it.
    pub x: B::Buf,
    /// Whether the cache is longer than what the model was first trained on.
    pub far: bool,
    /// The stream after a norm, `[T, D]`: after [`Decoder::embed`](crate::Decoder::embed) that of the last norm.
    pub h: B::Buf,
    pub(crate) y: B::Buf, // [T, D] on their way into x
    pub(crate) z: B::Buf, // [T, D] the same of another half
    pub(crate) mixers: Vec<mixer::Scratch<B>>,
    pub(crate) ffns: Vec<ffn::Scratch<B>>,
    pub(crate) extras: Vec<extra::Scratch<B>>,
    pub(crate) encoder: Option<Own<B>>,
    /// Logits of the rows that were asked for, `[outputs, V]`, or embeddings of all, `[T, D]`; without room where a part ends
    /// before them.
    pub logits: B::Buf,
}

/// Those of an encoder's layers that the decoder's do not share.
pub(crate) struct Own<B: Ops> {
    mixers: Vec<mixer::Scratch<B>>,
    ffns: Vec<ffn::Scratch<B>>,
    extras: Vec<extra::Scratch<B>>,
}

impl<B: Ops> Own<B> {
    fn new(ops: &mut B, config: &Config, rows: usize) -> Own<B> {
        Own {
            mixers: config.mixers.iter().map(|dims| dims.scratch(ops, rows)).collect(),
            ffns: config.ffns.iter().map(|dims| dims.scratch(ops, config.dim, rows)).collect(),
            extras: config.extras.iter().map(|dims| dims.scratch(ops, &config.common, rows)).collect(),
        }
    }

    /// Puts these in place of the decoder's, or back.
    pub(crate) fn swap(&mut self, s: &mut Scratch<B>) {
        std::mem::swap(&mut self.mixers, &mut s.mixers);
        std::mem::swap(&mut self.ffns, &mut s.ffns);
        std::mem::swap(&mut self.extras, &mut s.extras);
    }
}

impl<B: Ops> Scratch<B> {
    /// Room for passes of up to `rows` tokens and `outputs` rows of logits or embeddings.
    pub(crate) fn new(ops: &mut B, config: &Config, rows: usize, outputs: usize) -> Scratch<B> {
        let mut room = || ops.buffer(rows, config.dim);
        let [x, h, y, z] = [room(), room(), room(), room()];
        let Own { mixers, ffns, extras } = Own::new(ops, config, rows);
        let encoder = config.encoder.as_deref().map(|encoder| Own::new(ops, encoder, rows));
        let logits = ops.buffer(outputs, config.outputs());
        Scratch { x, far: false, h, y, z, mixers, ffns, extras, encoder, logits }
    }

    /// Has sequence `to` answer the text that `from` answers, where a model reads some, with the keys and values that the
    /// cache has of it.
    pub fn fork(&mut self, from: usize, to: usize) {
        self.extras.iter_mut().for_each(|extra| extra.fork(from, to));
    }
}

impl Config {
    /// Bytes of the values in flight of passes of up to `rows` tokens and `outputs` rows of logits, `f32` each.
    pub fn scratch_bytes(&self, rows: usize, outputs: usize) -> u64 {
        let mut shapes = Shapes::default();
        Scratch::new(&mut shapes, self, rows, outputs);
        shapes.elements().saturating_mul(4)
    }
}
