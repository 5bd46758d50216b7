//! A layer: what mixes tokens, then the feed-forward, and how both are connected to the residual stream.

use candor_ops::{Columns, Norm, Ops, Tap, Unary};

use crate::{
    Architecture, Error,
    config::Config,
    cross::Cross,
    decoder::Scratch,
    ffn::Ffn,
    laurel::Laurel,
    linear::{Out, To},
    mixer::{At, Mixer},
    norm::Normed,
    per_layer,
    registry::{Residual, Weighing},
    streams,
    weights::Weights,
};

/// The weights of a layer.
pub(crate) struct Layer<B: Ops> {
    mixers: Vec<(usize, Mixer<B>)>, // and the scratch of each
    /// What looks at a text that an encoder has read.
    pub(crate) cross: Option<Cross<B>>,
    ffn: Option<(usize, Ffn<B>)>,
    /// Before or after each half, as the architecture has it.
    norms: [Option<Normed<B>>; 2], // [D]
    per_layer: Option<per_layer::Layer<B>>,
    laurel: Option<Laurel<B>>,
    /// Where there are several streams.
    streams: Option<streams::Layer<B>>,
    /// On the stream, at last.
    scale: f32,
    /// After the first half, when its input has been added once more (Jina 2 for code).
    again: Option<Normed<B>>, // [D]
    /// Once more, on what is added.
    sandwich: [Option<Normed<B>>; 2], // [D]
}

/// A half of a layer.
#[derive(Clone, Copy)]
enum Half {
    Mixer,
    Ffn,
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        config: &Config,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let block = &config.blocks[i];
        let mixers = block.mixers.iter();
        let mixers = mixers.map(|&kind| Ok((kind, config.mixers[kind].load(w, arch, config, i)?)));
        let mixers = mixers.collect::<Result<Vec<_>, Error>>()?;
        let ffn = block.ffn.map(|kind| Ok::<_, Error>((kind, config.ffns[kind].load(w, arch, config, i)?)));
        let ffn = ffn.transpose()?;
        let norm = Norm { kind: arch.norm, run: config.dim, eps: config.eps };
        let name = |rest: &str| config.name(i, rest);
        let [mut first, mut second, _] = arch.norms;
        // Falcon 40B has a norm of its own for attention; the other is then the feed-forward's.
        if config.residual == Residual::Parallel && w.has(&name("attn_norm_2.weight")) {
            (first, second) = ("attn_norm_2", "attn_norm");
        }
        let shared = !w.has(&name(&format!("{second}.weight")));
        let mut load = |part: &str| match arch.weighing {
            Weighing::Never => Ok(Some(Normed::bare(norm))),
            Weighing::ButFirst if i == 0 && part == first => Ok(None),
            Weighing::Always | Weighing::ButFirst => Normed::load(w, &name(part), norm).map(Some),
        };
        let alone = mixers.is_empty() || ffn.is_none();
        let norms = match config.residual {
            // One half alone has one norm.
            Residual::Sequential if alone => {
                let norm = load(first)?;
                if mixers.is_empty() { [None, norm] } else { [norm, None] }
            }
            Residual::Parallel if shared => [load(first)?, None],
            _ => [load(first)?, load(second)?],
        };
        let twice = config.residual == Residual::After && w.has(&name("attn_norm_2.weight"));
        let again = twice.then(|| Normed::load(w, &name("attn_norm_2"), norm)).transpose()?;
        let sandwich = match arch.sandwich {
            true => {
                let mut load = |part: &str| Normed::load(w, &name(part), norm).map(Some);
                [load("post_attention_norm")?, load("post_ffw_norm")?]
            }
            false => [None, None],
        };
        let per_layer = config.per_layer.map(|width| per_layer::Layer::load(w, config, width, i)).transpose()?;
        let laurel = config.laurel.map(|rank| Laurel::load(w, config, rank, i)).transpose()?;
        let streams = config.streams.map(|dims| streams::Layer::load(w, config, dims, i)).transpose()?;
        let scale = w.numbers(&name("layer_output_scale.weight"), 1)?.map_or(1.0, |scale| scale[0]);
        let cross = config.encoder.is_some().then(|| Cross::load(w, arch, config, i)).transpose()?;
        Ok(Layer { mixers, cross, ffn, per_layer, laurel, streams, scale, norms, again, sandwich })
    }

    /// Runs the layer on the stream in the scratch.
    pub(crate) fn forward<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>) {
        if let (Some(layer), Some(own)) = (&self.streams, &mut s.streams) {
            layer.predict(at, own, &mut s.x);
        }
        match at.config.residual {
            // The other is one of two by now.
            Residual::Sequential | Residual::ByNorm => {
                if !self.mixers.is_empty() {
                    self.norm(at, s, Half::Mixer);
                    self.half(at, s, Half::Mixer);
                }
                if let (Some(laurel), Some(narrow)) = (&self.laurel, &mut s.narrow) {
                    laurel.run(at, narrow, &s.h, (&mut s.x, &mut s.y));
                }
                if let Some(cross) = &self.cross {
                    cross.run(at, s);
                }
                at.tap("ffn_inp", &s.x);
                if self.ffn.is_some() {
                    self.norm(at, s, Half::Ffn);
                    self.half(at, s, Half::Ffn);
                }
            }
            Residual::Parallel => {
                self.norm(at, s, Half::Mixer);
                self.mix(at, s, To::Room);
                // What both give is added at last, since the second norm is of the stream as it was.
                std::mem::swap(&mut s.y, &mut s.z);
                at.tap("attn_out", &s.z);
                if self.norms[1].is_some() {
                    self.norm(at, s, Half::Ffn);
                }
                self.feed(at, s, To::Stream);
                at.ops.add(&mut s.x, &s.z);
            }
            Residual::Inside => {
                for half in [Half::Mixer, Half::Ffn] {
                    at.ops.copy(&mut s.h, &s.x, Columns::run(at.config.dim, 0, 0));
                    self.run(at, s, half, To::Room);
                    if let Some(norm) = &self.norms[half as usize] {
                        norm.within(at.ops, &mut s.y);
                    }
                    at.ops.add(&mut s.x, &s.y);
                    if let Half::Mixer = half {
                        at.tap("ffn_inp", &s.x);
                    }
                }
            }
            Residual::After => {
                for half in [Half::Mixer, Half::Ffn] {
                    at.ops.copy(&mut s.h, &s.x, Columns::run(at.config.dim, 0, 0));
                    self.run(at, s, half, To::Stream);
                    if let Some(norm) = &self.norms[half as usize] {
                        norm.within(at.ops, &mut s.x);
                    }
                    if let Half::Mixer = half {
                        if let Some(again) = &self.again {
                            at.ops.add(&mut s.x, &s.h);
                            again.within(at.ops, &mut s.x);
                        }
                        at.tap("ffn_inp", &s.x);
                    }
                }
            }
        }
        match (&self.streams, &mut s.streams) {
            (Some(layer), Some(own)) => {
                layer.correct(at, own, (&mut s.x, &mut s.y));
                if let (Some(embeddings), Some(inputs)) = (&self.per_layer, &mut s.per_layer) {
                    embeddings.make(at, inputs, &s.x, &mut s.y);
                    at.tap("first_prediction_out", &s.y);
                    layer.spread(at, own, &s.y);
                }
                // The streams are what a layer gives.
                return;
            }
            _ => {
                if let (Some(layer), Some(own)) = (&self.per_layer, &mut s.per_layer) {
                    layer.run(at, own, &mut s.x, &mut s.y);
                }
            }
        }
        if self.scale != 1.0 {
            at.ops.unary(&mut s.x, Unary::scale(self.scale));
        }
        at.tap("l_out", &s.x);
    }

    /// Puts the stream, normed for a half, where its input is.
    fn norm<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, half: Half) {
        match &self.norms[half as usize] {
            Some(norm) => norm.to(at.ops, &mut s.h, &s.x, at.config.dim),
            None => at.ops.copy(&mut s.h, &s.x, Columns::run(at.config.dim, 0, 0)),
        }
        at.tap(if let Half::Mixer = half { "attn_norm" } else { "ffn_norm" }, &s.h);
    }

    /// Runs a half and adds what it gives, normed and scaled where the architecture has that.
    fn half<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, half: Half) {
        let (sandwich, scale) = (&self.sandwich[half as usize], at.config.residual_scale);
        if sandwich.is_none() && scale == 1.0 {
            return self.run(at, s, half, To::Stream);
        }
        self.run(at, s, half, To::Room);
        if let Some(norm) = sandwich {
            norm.within(at.ops, &mut s.y);
            at.tap(if let Half::Mixer = half { "attn_post_norm" } else { "ffn_post_norm" }, &s.y);
        }
        if scale != 1.0 {
            at.ops.unary(&mut s.y, Unary::scale(scale));
        }
        at.ops.add(&mut s.x, &s.y);
    }

    fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, half: Half, to: To) {
        match half {
            Half::Mixer => self.mix(at, s, to),
            Half::Ffn => self.feed(at, s, to),
        }
    }

    /// What mixes tokens; of several, the sum.
    fn mix<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, to: To) {
        for (n, (kind, mixer)) in self.mixers.iter().enumerate() {
            if n > 0 && to == To::Room {
                std::mem::swap(&mut s.y, &mut s.z);
            }
            // A product into the stream needs other room than what it multiplies.
            let out = Out { x: &mut s.x, y: &mut s.y, to };
            mixer.run(at, &mut s.mixers[*kind], &s.h, out);
            if n > 0 && to == To::Room {
                at.ops.add(&mut s.y, &s.z);
            }
        }
    }

    fn feed<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, to: To) {
        if let Some((kind, ffn)) = &self.ffn {
            let out = Out { x: &mut s.x, y: &mut s.y, to };
            ffn.run(at, &mut s.ffns[*kind], &s.h, out);
        }
    }
}
