//! A layer: what mixes tokens, then the feed-forward, and how both are connected to the residual stream.
//!
//! A layer of Llama is, in this order:
//!
//! | operation | where |
//! | --- | --- |
//! | `h = norm(x)` | [`Layer::norm`], `norm.rs` |
//! | `q, k, v = h @ wq, h @ wk, h @ wv` | `mixer/attention.rs`, `project` |
//! | `q, k = rope(q), rope(k)`; keys and values to the cache | `mixer/attention.rs`, `place` and `run` |
//! | `x += attend(q, k, v) @ wo` | `mixer/attention.rs`, `run`; `linear.rs` |
//! | `h = norm(x)` | [`Layer::norm`] |
//! | `x += (silu(h @ gate) * (h @ up)) @ down` | `ffn/dense.rs` |

use candor_ops::{Columns, Norm, Ops, Tap, Unary};

use crate::{
    Error,
    arch::{Architecture, NormWeights, Residual},
    at::{At, Stream},
    config::Config,
    extra,
    ffn::Ffn,
    linear::{Out, To},
    mixer::Mixer,
    norm::Normed,
    scratch::Scratch,
    weights::Weights,
};

/// The weights of a layer.
pub(crate) struct Layer<B: Ops> {
    mixers: Vec<(usize, Mixer<B>)>, // and the scratch of each
    ffn: Option<(usize, Ffn<B>)>,
    /// Before or after each half, as the architecture has it.
    norms: [Option<Normed<B>>; 2], // [D]
    extras: Vec<extra::Layer<B>>,
    /// Whether the stream is what the layer gives.
    whole: bool,
    /// On the stream, at last.
    scale: f32,
    /// After the first half, when its input has been added once more (Jina 2 for code).
    post_attn_norm_2: Option<Normed<B>>, // [D]
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
        let mixers = mixers.map(|&kind| Ok((kind, config.mixers[kind].load(w, arch, &config.common, i)?)));
        let mixers = mixers.collect::<Result<Vec<_>, Error>>()?;
        let ffn = block.ffn.map(|kind| Ok::<_, Error>((kind, config.ffns[kind].load(w, arch, &config.common, i)?)));
        let ffn = ffn.transpose()?;
        let norm = Norm { kind: arch.norm, run: config.dim, eps: config.eps };
        let name = |rest: &str| config.name(i, rest);
        let [mut first, mut second, _] = arch.norms;
        // Falcon 40B has a norm of its own for attention; the other is then the feed-forward's.
        if config.residual == Residual::Parallel && w.has(&name("attn_norm_2.weight")) {
            (first, second) = ("attn_norm_2", "attn_norm");
        }
        let shared = !w.has(&name(&format!("{second}.weight")));
        let mut load = |part: &str| match arch.norm_weights {
            NormWeights::Never => Ok(Some(Normed::bare(norm))),
            NormWeights::ButFirst if i == 0 && part == first => Ok(None),
            NormWeights::Always | NormWeights::ButFirst => Normed::load(w, &name(part), norm).map(Some),
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
        let post_attn_norm_2 = twice.then(|| Normed::load(w, &name("attn_norm_2"), norm)).transpose()?;
        let sandwich = match arch.sandwich {
            true => {
                let mut load = |part: &str| Normed::load(w, &name(part), norm).map(Some);
                [load("post_attention_norm")?, load("post_ffw_norm")?]
            }
            false => [None, None],
        };
        let extras = config.extras.iter().map(|dims| dims.layer(w, arch, &config.common, i));
        let extras = extras.collect::<Result<Vec<_>, Error>>()?;
        let whole = !config.extras.iter().any(extra::Dims::splits);
        let scale = w.numbers(&name("layer_output_scale.weight"), 1)?.map_or(1.0, |scale| scale[0]);
        Ok(Layer { mixers, ffn, extras, whole, scale, norms, post_attn_norm_2, sandwich })
    }

    /// Keeps of what an encoder gave for whole texts, which is in the scratch's `h`, what the layer needs of it.
    pub(crate) fn keep<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>) {
        for (extra, own) in self.extras.iter().zip(&mut s.extras) {
            extra.keep(at, own, &s.h);
        }
    }

    /// Runs the layer on the stream in the scratch.
    pub(crate) fn forward<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>) {
        for (extra, own) in self.extras.iter().zip(&mut s.extras) {
            extra.before(at, own, Stream { x: &mut s.x, h: &mut s.h, y: &mut s.y });
        }
        match at.common.residual {
            // The other is one of two by now.
            Residual::Sequential | Residual::ByNorm => {
                if !self.mixers.is_empty() {
                    self.norm(at, s, Half::Mixer);
                    self.half(at, s, Half::Mixer);
                }
                for (extra, own) in self.extras.iter().zip(&mut s.extras) {
                    extra.mixed(at, own, Stream { x: &mut s.x, h: &mut s.h, y: &mut s.y });
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
                    at.ops.copy(&mut s.h, &s.x, Columns::run(at.common.dim, 0, 0));
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
                    at.ops.copy(&mut s.h, &s.x, Columns::run(at.common.dim, 0, 0));
                    self.run(at, s, half, To::Stream);
                    if let Some(norm) = &self.norms[half as usize] {
                        norm.within(at.ops, &mut s.x);
                    }
                    if let Half::Mixer = half {
                        if let Some(norm) = &self.post_attn_norm_2 {
                            at.ops.add(&mut s.x, &s.h);
                            norm.within(at.ops, &mut s.x);
                        }
                        at.tap("ffn_inp", &s.x);
                    }
                }
            }
        }
        for (extra, own) in self.extras.iter().zip(&mut s.extras) {
            extra.after(at, own, Stream { x: &mut s.x, h: &mut s.h, y: &mut s.y });
        }
        if self.scale != 1.0 {
            at.ops.unary(&mut s.x, Unary::scale(self.scale));
        }
        if self.whole {
            at.tap("l_out", &s.x);
        }
    }

    /// Puts the stream, normed for a half, where its input is.
    fn norm<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, half: Half) {
        match &self.norms[half as usize] {
            Some(norm) => norm.to(at.ops, &mut s.h, &s.x, at.common.dim),
            None => at.ops.copy(&mut s.h, &s.x, Columns::run(at.common.dim, 0, 0)),
        }
        at.tap(if let Half::Mixer = half { "attn_norm" } else { "ffn_norm" }, &s.h);
    }

    /// Runs a half and adds what it gives, normed and scaled where the architecture has that.
    fn half<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, half: Half) {
        let (sandwich, scale) = (&self.sandwich[half as usize], at.common.residual_scale);
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
