//! What mixes the tokens of a sequence in a layer: attention and its kin. A layer has one, or several side by side.

use candor_ops::{Attention, Heads, LayerCache, Ops, Step, Tap};

use crate::{
    Architecture, Error,
    attention::{self, Rotated},
    config::{Config, Rotary},
    delta,
    keys::Keys,
    latent,
    linear::Out,
    mamba, mamba2, rwkv6, rwkv7, short_conv,
    weights::Weights,
};

/// The rotations of a model.
pub(crate) struct Rotations<B: Ops> {
    pub(crate) global: Option<B::Rope>,
    /// The same for caches longer than what the model was first trained on, where that differs.
    pub(crate) far: Option<B::Rope>,
    pub(crate) window: Option<B::Rope>,
}

impl<B: Ops> Rotations<B> {
    pub(crate) fn of(&self, rotary: Option<Rotary>, far: bool) -> Option<&B::Rope> {
        match rotary? {
            Rotary::Global if far => self.far.as_ref().or(self.global.as_ref()),
            Rotary::Global => self.global.as_ref(),
            Rotary::Window => self.window.as_ref(),
        }
    }
}

/// Where and on what a layer runs.
pub(crate) struct At<'a, 'p, B: Ops, P> {
    pub(crate) ops: &'a mut B,
    pub(crate) kv: &'a mut B::Kv,
    pub(crate) step: &'a Step<'p>,
    pub(crate) tap: &'a mut P,
    /// The layer, counted over the whole model.
    pub(crate) layer: usize,
    /// Whose keys, values and states it has, within the cache, which holds a part's layers.
    pub(crate) cached: usize,
    pub(crate) config: &'a Config,
    pub(crate) rope: Option<&'a B::Rope>,
    /// What queries are multiplied by at each position, where they grow.
    pub(crate) temperature: Option<&'a B::Weight>,
}

impl<B: Ops, P: Tap<B>> At<'_, '_, B, P> {
    pub(crate) fn tap(&mut self, name: &'static str, x: &B::Buf) {
        self.tap.tap(self.ops, name, Some(self.layer), x);
    }

    /// Shows the choice of experts.
    pub(crate) fn chosen(&mut self, routes: &B::Routes) {
        self.tap.chosen(self.ops, Some(self.layer), routes);
    }

    /// Attention of these heads as the layer has it.
    pub(crate) fn attention<'w>(&self, heads: Heads, sinks: Option<&'w B::Weight>) -> Attention<'w, B::Weight> {
        let Config { score_cap, alibi, .. } = *self.config;
        Attention { heads, mask: self.config.masks[self.layer], soft_cap: score_cap, alibi, sinks, relative: None }
    }
}

/// Declares the kinds of mixers: each a module with `Dims`, `Layer` and `Scratch`.
macro_rules! mixers {
    ($($kind:ident $module:ident)*) => {
        /// The dimensions of a mixer.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) enum Dims {
            $($kind($module::Dims),)*
        }

        /// The weights of one.
        pub(crate) enum Mixer<B: Ops> {
            $($kind($module::Layer<B>),)*
        }

        /// The values in flight of one.
        pub(crate) enum Scratch<B: Ops> {
            $($kind($module::Scratch<B>),)*
        }

        impl Dims {
            /// Those of a layer, by its tensors: none where the layer only has a feed-forward.
            pub(crate) fn of(
                keys: &Keys<'_>,
                arch: &Architecture,
                config: &Config,
                i: usize,
            ) -> Result<Vec<Dims>, Error> {
                let mut all = Vec::new();
                $(all.extend($module::Dims::of(keys, arch, config, i)?.map(Dims::$kind));)*
                Ok(all)
            }

            /// Adds what it keeps of a sequence to a layer's cache.
            pub(crate) fn keep(&self, cache: &mut LayerCache) {
                match self {
                    $(Dims::$kind(dims) => dims.keep(cache),)*
                }
            }

            /// Elements of a row of each of its buffers.
            pub(crate) fn widths(&self) -> Vec<usize> {
                match self {
                    $(Dims::$kind(dims) => dims.widths().to_vec(),)*
                }
            }

            pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, rows: usize) -> Scratch<B> {
                match self {
                    $(Dims::$kind(dims) => {
                        Scratch::$kind($module::Scratch::new(dims.widths().map(|width| ops.buffer(rows, width))))
                    })*
                }
            }

            pub(crate) fn load<B: Ops>(
                &self,
                w: &mut Weights<'_, B>,
                arch: &Architecture,
                config: &Config,
                i: usize,
            ) -> Result<Mixer<B>, Error> {
                Ok(match self {
                    $(Dims::$kind(dims) => Mixer::$kind($module::Layer::load(w, arch, config, *dims, i)?),)*
                })
            }
        }

        impl<B: Ops> Mixer<B> {
            /// Mixes `h`, the normed stream, and leaves the result in `out`.
            pub(crate) fn run<P: Tap<B>>(
                &self,
                at: &mut At<'_, '_, B, P>,
                s: &mut Scratch<B>,
                h: &B::Buf,
                out: Out<'_, B>,
            ) {
                match (self, s) {
                    $((Mixer::$kind(layer), Scratch::$kind(s)) => layer.run(at, s, h, out),)*
                    _ => unreachable!("scratch was made for the layer's own dimensions"),
                }
            }
        }
    };
}

mixers! {
    Attention attention
    Latent latent
    Mamba mamba
    Mamba2 mamba2
    Delta delta
    ShortConv short_conv
    Rwkv6 rwkv6
    Rwkv7 rwkv7
}

impl Dims {
    /// Its heads, where it attends.
    pub(crate) fn heads(&self) -> Option<Heads> {
        match self {
            Dims::Attention(dims) => Some(dims.heads),
            Dims::Latent(dims) => Some(dims.cached()),
            _ => None,
        }
    }

    /// Scales scores by what `f` makes of the number of heads.
    pub(crate) fn scale_scores(&mut self, f: impl Fn(usize) -> f32) {
        if let Dims::Attention(dims) = self {
            dims.heads.scale = f(dims.heads.heads);
        }
    }

    /// Elements of a head that turn where the metadata does not say.
    pub(crate) fn rotated(&self) -> Option<Rotated> {
        match self {
            Dims::Attention(dims) => Some(dims.rotated()),
            Dims::Latent(dims) => Some(dims.rotated()),
            _ => None,
        }
    }
}
