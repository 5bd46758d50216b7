//! Mechanisms that only some models have, beside mixers and feed-forwards: several streams, second ways, embeddings per layer,
//! attention to a text that an encoder has read. Each says in [`hooks::Extra`] where in a pass it takes part.

mod altup;
mod cross;
mod hooks;
mod laurel;
mod per_layer;

use candor_ops::{Heads, Ops, Step, Tap};

use self::hooks::Extra;
use crate::{
    Error,
    arch::Architecture,
    at::{At, Stream},
    common::Common,
    keys::Keys,
    weights::Weights,
};

/// Declares the mechanisms: each a module whose `Dims` are an [`Extra`]. They take part in this order.
macro_rules! extras {
    ($($kind:ident $module:ident)*) => {
        /// The dimensions of one.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) enum Dims {
            $($kind($module::Dims),)*
        }

        /// The weights of one before the first layer and after the last.
        pub(crate) enum Ends<B: Ops> {
            $($kind(<$module::Dims as Extra>::Ends<B>),)*
        }

        /// The weights of one in a layer.
        pub(crate) enum Layer<B: Ops> {
            $($kind(<$module::Dims as Extra>::Layer<B>),)*
        }

        /// The values in flight of one.
        pub(crate) enum Scratch<B: Ops> {
            $($kind(<$module::Dims as Extra>::Scratch<B>),)*
        }

        impl Dims {
            /// Those that a file's model has.
            pub(crate) fn of(keys: &Keys<'_>, common: &Common, heads: &Heads) -> Result<Vec<Dims>, Error> {
                let mut all = Vec::new();
                $(all.extend($module::Dims::of(keys, common, heads)?.map(Dims::$kind));)*
                Ok(all)
            }

            /// Whether layers read more of those before them than the residual stream.
            pub(crate) fn crosses(&self) -> bool {
                match self {
                    $(Dims::$kind(_) => $module::Dims::CROSSES,)*
                }
            }

            /// Whether the stream is one of several, so that it is not what a layer gives.
            pub(crate) fn splits(&self) -> bool {
                match self {
                    $(Dims::$kind(_) => $module::Dims::SPLITS,)*
                }
            }

            pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, common: &Common, rows: usize) -> Scratch<B> {
                match self {
                    $(Dims::$kind(dims) => Scratch::$kind(dims.scratch(ops, common, rows)),)*
                }
            }

            pub(crate) fn ends<B: Ops>(&self, w: &mut Weights<'_, B>, common: &Common) -> Result<Ends<B>, Error> {
                Ok(match self {
                    $(Dims::$kind(dims) => Ends::$kind(dims.ends(w, common)?),)*
                })
            }

            pub(crate) fn layer<B: Ops>(
                &self,
                w: &mut Weights<'_, B>,
                arch: &Architecture,
                common: &Common,
                i: usize,
            ) -> Result<Layer<B>, Error> {
                Ok(match self {
                    $(Dims::$kind(dims) => Layer::$kind(dims.layer(w, arch, common, i)?),)*
                })
            }
        }

        impl<B: Ops> Ends<B> {
            pub(crate) fn embedded(
                &self,
                ops: &mut B,
                s: &mut Scratch<B>,
                x: &mut B::Buf,
                (step, common): (&Step, &Common),
            ) {
                match (self, s) {
                    $((Ends::$kind(ends), Scratch::$kind(s)) => {
                        $module::Dims::embedded(ends, ops, s, x, (step, common));
                    })*
                    _ => unreachable!("{OWN}"),
                }
            }

            pub(crate) fn ended(&self, ops: &mut B, s: &mut Scratch<B>, x: &mut B::Buf, common: &Common) {
                match (self, s) {
                    $((Ends::$kind(ends), Scratch::$kind(s)) => $module::Dims::ended(ends, ops, s, x, common),)*
                    _ => unreachable!("{OWN}"),
                }
            }
        }

        impl<B: Ops> Layer<B> {
            pub(crate) fn before<P: Tap<B>>(
                &self,
                at: &mut At<'_, '_, B, P>,
                s: &mut Scratch<B>,
                stream: Stream<'_, B>,
            ) {
                match (self, s) {
                    $((Layer::$kind(layer), Scratch::$kind(s)) => $module::Dims::before(layer, at, s, stream),)*
                    _ => unreachable!("{OWN}"),
                }
            }

            pub(crate) fn mixed<P: Tap<B>>(
                &self,
                at: &mut At<'_, '_, B, P>,
                s: &mut Scratch<B>,
                stream: Stream<'_, B>,
            ) {
                match (self, s) {
                    $((Layer::$kind(layer), Scratch::$kind(s)) => $module::Dims::mixed(layer, at, s, stream),)*
                    _ => unreachable!("{OWN}"),
                }
            }

            pub(crate) fn after<P: Tap<B>>(
                &self,
                at: &mut At<'_, '_, B, P>,
                s: &mut Scratch<B>,
                stream: Stream<'_, B>,
            ) {
                match (self, s) {
                    $((Layer::$kind(layer), Scratch::$kind(s)) => $module::Dims::after(layer, at, s, stream),)*
                    _ => unreachable!("{OWN}"),
                }
            }

            pub(crate) fn keep<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf) {
                match (self, s) {
                    $((Layer::$kind(layer), Scratch::$kind(s)) => $module::Dims::keep(layer, at, s, h),)*
                    _ => unreachable!("{OWN}"),
                }
            }
        }

        impl<B: Ops> Scratch<B> {
            pub(crate) fn read(&mut self, step: &Step) {
                match self {
                    $(Scratch::$kind(s) => $module::Dims::read::<B>(s, step),)*
                }
            }

            pub(crate) fn fork(&mut self, from: usize, to: usize) {
                match self {
                    $(Scratch::$kind(s) => $module::Dims::fork::<B>(s, from, to),)*
                }
            }
        }
    };
}

/// Scratch and weights are made of one list.
const OWN: &str = "scratch was made for the model's own dimensions";

extras! {
    AltUp altup
    PerLayerEmbedding per_layer
    Laurel laurel
    Cross cross
}
