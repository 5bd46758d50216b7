//! The encoder of a model that also has a decoder: it reads a whole text at once, and what it gives is what the decoder's layers
//! look at. An encoder that is alone is a [`crate::Decoder`] whose tokens see each other.

use candor_ops::{Norm, Ops, Prims, Tap};

use crate::{
    Architecture, Error, Pass,
    config::Config,
    decoder::Scratch,
    ffn,
    layer::Layer,
    mixer::{self, At},
    norm::Normed,
    weights::Weights,
};

/// Its weights.
pub(crate) struct Encoder<B: Ops> {
    layers: Vec<Layer<B>>,
    norm: Normed<B>, // [D]
}

/// Values in flight that the decoder's layers do not share.
pub(crate) struct Own<B: Ops> {
    mixers: Vec<mixer::Scratch<B>>,
    ffns: Vec<ffn::Scratch<B>>,
}

impl<B: Ops> Own<B> {
    pub(crate) fn new(ops: &mut B, config: &Config, rows: usize) -> Own<B> {
        Own {
            mixers: config.mixers.iter().map(|dims| dims.scratch(ops, rows)).collect(),
            ffns: config.ffns.iter().map(|dims| dims.scratch(ops, config.dim, rows)).collect(),
        }
    }

    /// Puts these in place of the decoder's, or back.
    fn swap(&mut self, s: &mut Scratch<B>) {
        std::mem::swap(&mut self.mixers, &mut s.mixers);
        std::mem::swap(&mut self.ffns, &mut s.ffns);
    }
}

impl<B: Ops> Encoder<B> {
    pub(crate) fn load(w: &mut Weights<'_, B>, arch: &Architecture, config: &Config) -> Result<Encoder<B>, Error> {
        let layers = (0..config.layers).map(|i| Layer::load(w, arch, config, i));
        let layers = layers.collect::<Result<Vec<_>, Error>>()?;
        let norm = Norm { kind: arch.norm, run: config.dim, eps: config.eps };
        Ok(Encoder { layers, norm: Normed::load(w, &format!("{}{}", config.stack, arch.norms[2]), norm)? })
    }

    /// Reads the step's tokens, whole texts, and leaves what it gives in the scratch's `h`. Its keys and values lie in the last
    /// layer of the cache, each layer's in place of those before it.
    pub(crate) fn run<P: Tap<B>>(&self, pass: &mut Pass<'_, B, P>, table: &B::Weight, decoder: &Config) {
        let (Some(config), Some(mut own)) = (decoder.encoder.as_deref(), pass.s.encoder.take()) else { return };
        let Pass { ops, s, kv, step, tap } = pass;
        own.swap(s);
        let mut tap = Named(&mut **tap);
        ops.embed(&mut s.x, table, step);
        tap.tap(*ops, "inp_embd", None, &s.x);
        for (layer, weights) in self.layers.iter().enumerate() {
            let (cached, rope) = (2 * decoder.layers, None);
            let mut at = At { ops: *ops, kv: *kv, step, tap: &mut tap, layer, cached, config, rope, temperature: None };
            weights.forward(&mut at, s);
        }
        self.norm.to(*ops, &mut s.h, &s.x, config.dim);
        tap.tap(*ops, "result_norm", None, &s.h);
        own.swap(s);
        s.encoder = Some(own);
    }
}

/// Gives the encoder's values names of their own. llama.cpp runs it as a graph by itself, with the decoder's names; a trace of
/// both has room for each name once.
struct Named<'a, P>(&'a mut P);

impl<B: Prims, P: Tap<B>> Tap<B> for Named<'_, P> {
    const LOOKS: bool = P::LOOKS;

    fn tap(&mut self, ops: &mut B, name: &'static str, layer: Option<usize>, x: &B::Buf) {
        self.0.tap(ops, encoders(name), layer, x);
    }
}

/// Makes [`encoders`] of the names that there are.
macro_rules! encoders {
    ($($name:literal)*) => {
        fn encoders(name: &'static str) -> &'static str {
            match name {
                $($name => concat!("enc_", $name),)*
                other => other,
            }
        }
    };
}

encoders! {
    "inp_embd" "attn_norm" "Qcur.mul_mat" "Kcur.mul_mat" "Qcur" "Kcur" "Vcur" "kqv_out" "ffn_inp" "ffn_norm" "ffn_gate"
    "ffn_up" "ffn_gate_par" "ffn_act" "l_out" "result_norm"
}
