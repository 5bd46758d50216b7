//! What mixes the tokens of a sequence in a layer: attention and its kin. A layer has one, or several side by side.

pub(crate) mod attention;
mod gated_delta;
mod mamba;
mod mamba2;
pub(crate) mod mla;
mod rwkv6;
mod rwkv7;
mod short_conv;

use candor_ops::{Heads, LayerCache, Ops, Tap};

use self::attention::Rotated;
use crate::{Error, arch::Architecture, at::At, common::Common, keys::Keys, linear::Out, weights::Weights};

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
            pub(crate) fn of(keys: &Keys<'_>, common: &Common, i: usize) -> Result<Vec<Dims>, Error> {
                let mut all = Vec::new();
                $(all.extend($module::Dims::of(keys, common, i)?.map(Dims::$kind));)*
                Ok(all)
            }

            /// Adds what it keeps of a sequence to a layer's cache.
            pub(crate) fn keep(&self, cache: &mut LayerCache) {
                match self {
                    $(Dims::$kind(dims) => dims.keep(cache),)*
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
                common: &Common,
                i: usize,
            ) -> Result<Mixer<B>, Error> {
                Ok(match self {
                    $(Dims::$kind(dims) => Mixer::$kind($module::Layer::load(w, arch, common, *dims, i)?),)*
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
    Mla mla
    Mamba mamba
    Mamba2 mamba2
    GatedDelta gated_delta
    ShortConv short_conv
    Rwkv6 rwkv6
    Rwkv7 rwkv7
}

impl Dims {
    /// Its heads, where it attends.
    pub(crate) fn heads(&self) -> Option<Heads> {
        match self {
            Dims::Attention(dims) => Some(dims.heads),
            Dims::Mla(dims) => Some(dims.cached()),
            _ => None,
        }
    }

    /// Elements of a head that turn where the metadata does not say.
    pub(crate) fn rotated(&self) -> Option<Rotated> {
        match self {
            Dims::Attention(dims) => Some(dims.rotated()),
            Dims::Mla(dims) => Some(dims.rotated()),
            _ => None,
        }
    }
}
