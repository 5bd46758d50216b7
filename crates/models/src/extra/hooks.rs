//! What a mechanism that only some models have looks like, and where in a pass it takes part.

use std::fmt::Debug;

use candor_ops::{Heads, Ops, Step, Tap};

use crate::{
    Error,
    arch::Architecture,
    at::{At, Stream},
    common::Common,
    keys::Keys,
    weights::Weights,
};

/// The dimensions of a mechanism. What it does not say of a pass it has no part in.
pub(crate) trait Extra: Copy + Debug + PartialEq {
    /// The weights before the first layer and after the last.
    type Ends<B: Ops>;
    /// The weights of a layer.
    type Layer<B: Ops>;
    /// The values in flight.
    type Scratch<B: Ops>;

    /// Whether layers read more of those before them than the residual stream.
    const CROSSES: bool = false;
    /// Whether the stream is one of several, so that it is not what a layer gives.
    const SPLITS: bool = false;

    /// The dimensions, where a file's model has it. `heads` are those of the first layer that attends.
    fn of(keys: &Keys<'_>, common: &Common, heads: &Heads) -> Result<Option<Self>, Error>;

    /// Room for `rows` tokens.
    fn scratch<B: Ops>(&self, ops: &mut B, common: &Common, rows: usize) -> Self::Scratch<B>;

    fn ends<B: Ops>(&self, w: &mut Weights<'_, B>, common: &Common) -> Result<Self::Ends<B>, Error>;

    fn layer<B: Ops>(
        &self,
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        common: &Common,
        i: usize,
    ) -> Result<Self::Layer<B>, Error>;

    /// After tokens have become the stream `x`, before the first layer.
    fn embedded<B: Ops>(_: &Self::Ends<B>, _: &mut B, _: &mut Self::Scratch<B>, _x: &mut B::Buf, _: (&Step, &Common)) {}

    /// Before a layer.
    fn before<B: Ops, P: Tap<B>>(
        _: &Self::Layer<B>,
        _: &mut At<'_, '_, B, P>,
        _: &mut Self::Scratch<B>,
        _: Stream<'_, B>,
    ) {
    }

    /// Between what mixes tokens, whose result is in the stream, and the feed-forward.
    fn mixed<B: Ops, P: Tap<B>>(
        _: &Self::Layer<B>,
        _: &mut At<'_, '_, B, P>,
        _: &mut Self::Scratch<B>,
        _: Stream<'_, B>,
    ) {
    }

    /// After the feed-forward.
    fn after<B: Ops, P: Tap<B>>(
        _: &Self::Layer<B>,
        _: &mut At<'_, '_, B, P>,
        _: &mut Self::Scratch<B>,
        _: Stream<'_, B>,
    ) {
    }

    /// After the last layer, before the last norm.
    fn ended<B: Ops>(_: &Self::Ends<B>, _: &mut B, _: &mut Self::Scratch<B>, _x: &mut B::Buf, _: &Common) {}

    /// Keeps of `h`, what an encoder gave for whole texts, what a layer needs of it.
    fn keep<B: Ops, P: Tap<B>>(_: &Self::Layer<B>, _: &mut At<'_, '_, B, P>, _: &mut Self::Scratch<B>, _h: &B::Buf) {}

    /// After an encoder has read a step's texts.
    fn read<B: Ops>(_: &mut Self::Scratch<B>, _: &Step) {}

    /// Has a sequence answer the text of another.
    fn fork<B: Ops>(_: &mut Self::Scratch<B>, _from: usize, _to: usize) {}
}
