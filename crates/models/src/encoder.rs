//! The encoder of a model that also has a decoder: it reads a whole text at once, and what it gives is what the decoder's layers
//! look at. An encoder that is alone is a [`crate::Decoder`] whose tokens see each other.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use candor_ops::{Norm, Ops, Prims, Tap};

use crate::{
    Error, arch::Architecture, at::At, config::Config, layer::Layer, norm::Normed, pass::Pass, weights::Weights,
};

/// Its weights.
pub(crate) struct Encoder<B: Ops> {
    layers: Vec<Layer<B>>,
    norm: Normed<B>, // [D]
}

impl<B: Ops> Encoder<B> {
    pub(crate) fn load(w: &mut Weights<'_, B>, arch: &Architecture, config: &Config) -> Result<Encoder<B>, Error> {
        let layers = (0..config.layers).map(|i| Layer::load(w, arch, config, i));
        let layers = layers.collect::<Result<Vec<_>, Error>>()?;
        let norm = Norm { kind: arch.norm, run: config.dim, eps: config.eps };
        Ok(Encoder { layers, norm: Normed::load(w, &format!("{}{}", config.prefix, arch.norms[2]), norm)? })
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
            let common = &config.common;
            let mut at = At { ops: *ops, kv: *kv, step, tap: &mut tap, layer, cached, common, rope, temperature: None };
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

    fn wants(&mut self, name: &'static str, layer: Option<usize>) -> bool {
        P::LOOKS && self.0.wants(encoders(name), layer)
    }

    fn tap(&mut self, ops: &mut B, name: &'static str, layer: Option<usize>, x: &B::Buf) {
        if P::LOOKS {
            self.0.tap(ops, encoders(name), layer, x);
        }
    }
}

/// `enc_` and a name. Each is made once and kept: there are as many as values with names.
fn encoders(name: &'static str) -> &'static str {
    static NAMES: Mutex<BTreeMap<&str, &str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(name).or_insert_with(|| Box::leak(format!("enc_{name}").into_boxed_str()))
}
