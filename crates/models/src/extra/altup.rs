//! Several residual streams, of which a layer computes on one: before it each is predicted from all of them, after it each is
//! corrected by what the layer has changed (Baykal et al. 2023, AltUp; Gemma 3n).

use candor_ops::{Columns, Heads, Norm, NormKind, Ops, Step, Tap, Unary};

use super::{hooks::Extra, per_layer};
use crate::{
    Error,
    arch::Architecture,
    at::{At, Stream},
    common::Common,
    keys::Keys,
    linear::Linear,
    norm::Normed,
    weights::Weights,
};

/// Keeps a stream of zeros from dividing by nothing.
const EPS: f32 = 1e-12;

/// How many streams there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    count: usize,
    /// The one that layers compute on.
    active: usize,
    /// Embeddings per layer, which are added to the others.
    per_layer: Option<per_layer::Dims>,
}

/// The weights before the first layer and after the last.
pub(crate) struct Ends<B: Ops> {
    split: Projections<B>,
    merge: Projections<B>,
    per_layer: Option<per_layer::Inputs<B>>,
}

/// What makes the other streams of the first one, or goes back.
struct Projections<B: Ops> {
    matrices: Vec<B::Weight>, // [D, D] each, of all streams but the first
    norm: Normed<B>,          // without weights
}

/// The weights of a layer.
pub(crate) struct Layer<B: Ops> {
    dims: Dims,
    norm: Normed<B>,    // [D]
    router: Linear<B>,  // [A, D]
    predict: Linear<B>, // [A*A, A]
    correct: Linear<B>, // [A, A]
    scale: B::Weight,   // [D]
    per_layer: Option<per_layer::Layer<B>>,
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    streams: Vec<B::Buf>, // [T, D] each
    woven: B::Buf,        // [T, D*A]: element by element of all streams
    repeated: B::Buf,     // [T, D*A]
    room: B::Buf,         // [T, D]
    modes: B::Buf,        // [T, A]
    pairs: B::Buf,        // [T, A*A]
    shares: B::Buf,       // [T, A]
    one: B::Buf,          // [T, 1]
    per_layer: Option<per_layer::Scratch<B>>,
}

impl Extra for Dims {
    type Ends<B: Ops> = Ends<B>;
    type Layer<B: Ops> = Layer<B>;
    type Scratch<B: Ops> = Scratch<B>;

    const CROSSES: bool = true;
    const SPLITS: bool = true;

    fn of(keys: &Keys<'_>, _: &Common, _: &Heads) -> Result<Option<Dims>, Error> {
        const ACTIVE: &str = "altup.active_idx";
        let Some(count) = per_layer::streams(keys)? else { return Ok(None) };
        let active = keys.number(ACTIVE)?.unwrap_or(0);
        if active >= count {
            return Err(keys.bad(ACTIVE, &format!("less than {count}"), active));
        }
        Ok(Some(Dims { count, active, per_layer: per_layer::Dims::said(keys)? }))
    }

    fn scratch<B: Ops>(&self, ops: &mut B, common: &Common, rows: usize) -> Scratch<B> {
        let (Dims { count, per_layer, .. }, dim) = (*self, common.dim);
        Scratch {
            streams: (0..count).map(|_| ops.buffer(rows, dim)).collect(),
            woven: ops.buffer(rows, dim * count),
            repeated: ops.buffer(rows, dim * count),
            room: ops.buffer(rows, dim),
            modes: ops.buffer(rows, count),
            pairs: ops.buffer(rows, count * count),
            shares: ops.buffer(rows, count),
            one: ops.buffer(rows, 1),
            per_layer: per_layer.map(|dims| dims.scratch(ops, common, rows)),
        }
    }

    fn ends<B: Ops>(&self, w: &mut Weights<'_, B>, common: &Common) -> Result<Ends<B>, Error> {
        Ok(Ends {
            per_layer: self.per_layer.map(|dims| dims.ends(w, common)).transpose()?,
            split: Projections::load(w, "altup_proj.weight", common, self.count)?,
            merge: Projections::load(w, "altup_unembd_proj.weight", common, self.count)?,
        })
    }

    fn layer<B: Ops>(
        &self,
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        common: &Common,
        i: usize,
    ) -> Result<Layer<B>, Error> {
        let name = |rest: &str| common.name(i, rest);
        let (Dims { count, per_layer, .. }, dim) = (*self, common.dim);
        let norm = Norm { kind: NormKind::Rms, run: dim, eps: common.eps };
        Ok(Layer {
            dims: *self,
            norm: Normed::load(w, &name("altup_router_norm"), norm)?,
            router: Linear::load(w, &name("altup_router"), dim, count)?,
            predict: Linear::load(w, &name("altup_predict_coef"), count, count * count)?,
            correct: Linear::load(w, &name("altup_correct_coef"), count, count)?,
            scale: w.vector(&name("altup_correct_scale.weight"), dim)?,
            per_layer: per_layer.map(|dims| dims.layer(w, arch, common, i)).transpose()?,
        })
    }

    fn embedded<B: Ops>(
        ends: &Ends<B>,
        ops: &mut B,
        s: &mut Scratch<B>,
        x: &mut B::Buf,
        (step, common): (&Step, &Common),
    ) {
        if let (Some(inputs), Some(own)) = (&ends.per_layer, &mut s.per_layer) {
            inputs.make(ops, own, x, (step, common));
        }
        ends.split.split(ops, s, x, common.dim);
    }

    fn before<B: Ops, P: Tap<B>>(
        layer: &Layer<B>,
        at: &mut At<'_, '_, B, P>,
        s: &mut Scratch<B>,
        Stream { x, .. }: Stream<'_, B>,
    ) {
        layer.predict(at, s, x);
    }

    fn after<B: Ops, P: Tap<B>>(
        layer: &Layer<B>,
        at: &mut At<'_, '_, B, P>,
        s: &mut Scratch<B>,
        Stream { x, y, .. }: Stream<'_, B>,
    ) {
        layer.correct(at, s, (x, y));
        if let (Some(embeddings), Some(inputs)) = (&layer.per_layer, &mut s.per_layer) {
            embeddings.make(at, inputs, x, y);
            at.tap("first_prediction_out", y);
            // All streams but the first.
            s.streams[1..].iter_mut().for_each(|stream| at.ops.add(stream, y));
        }
    }

    fn ended<B: Ops>(ends: &Ends<B>, ops: &mut B, s: &mut Scratch<B>, x: &mut B::Buf, common: &Common) {
        ends.merge.merge(ops, s, x, common.dim);
    }
}

impl<B: Ops> Scratch<B> {
    /// Leaves the root of the mean square of each row of the first stream in `one`.
    fn measure(&mut self, ops: &mut B, norm: &Normed<B>, dim: usize) {
        ops.copy(&mut self.room, &self.streams[0], Columns::run(dim, 0, 0));
        norm.within(ops, &mut self.room);
        // A row times itself divided by its root mean square is that, as often as it has elements.
        ops.dot_groups(&mut self.one, &self.streams[0], &self.room);
        ops.unary(&mut self.one, Unary::scale(1.0 / dim as f32));
    }
}

impl<B: Ops> Projections<B> {
    /// Those of the tensor `name`, one below the other.
    fn load(w: &mut Weights<'_, B>, name: &str, common: &Common, count: usize) -> Result<Projections<B>, Error> {
        let (dim, others) = (common.dim, count - 1);
        let matrices = (0..others).map(|i| w.rows(name, (dim, others * dim), i * dim..(i + 1) * dim));
        let norm = Normed::bare(Norm { kind: NormKind::Rms, run: dim, eps: EPS });
        Ok(Projections { matrices: matrices.collect::<Result<_, _>>()?, norm })
    }

    /// Makes all streams of the first, `x`: as large as it is, each by a matrix of its own.
    fn split(&self, ops: &mut B, s: &mut Scratch<B>, x: &B::Buf, dim: usize) {
        ops.copy(&mut s.streams[0], x, Columns::run(dim, 0, 0));
        s.measure(ops, &self.norm, dim);
        for (stream, matrix) in s.streams[1..].iter_mut().zip(&self.matrices) {
            ops.matmul(stream, x, matrix);
            self.norm.within(ops, stream);
            ops.mul_groups(stream, &s.one);
        }
    }

    /// `x` is the mean of the first stream and what matrices make of the others, each as large as the first.
    fn merge(&self, ops: &mut B, s: &mut Scratch<B>, x: &mut B::Buf, dim: usize) {
        s.measure(ops, &self.norm, dim);
        ops.copy(x, &s.streams[0], Columns::run(dim, 0, 0));
        for (stream, matrix) in s.streams[1..].iter().zip(&self.matrices) {
            ops.matmul(&mut s.room, stream, matrix);
            self.norm.within(ops, &mut s.room);
            ops.mul_groups(&mut s.room, &s.one);
            ops.add(x, &s.room);
        }
        ops.unary(x, Unary::scale(1.0 / s.streams.len() as f32));
    }
}

impl<B: Ops> Layer<B> {
    /// Adds to each stream a sum of all, weighed by what the active one says, which is left in `x`.
    fn predict<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, x: &mut B::Buf) {
        let (Dims { count, active, .. }, dim) = (self.dims, at.common.dim);
        let whole = Columns::run(dim, 0, 0);
        at.ops.copy(x, &s.streams[active], whole);
        self.route(at, s, x);
        self.predict.apply(at.ops, &mut s.pairs, &s.modes);
        for (i, stream) in s.streams.iter().enumerate() {
            at.ops.copy(&mut s.woven, stream, Columns { groups: dim, len: 1, from: (0, 1), to: (i, count) });
        }
        for (i, stream) in s.streams.iter_mut().enumerate() {
            let weights = Columns { groups: dim, len: count, from: (i * count, 0), to: (0, count) };
            at.ops.copy(&mut s.repeated, &s.pairs, weights);
            at.ops.dot_groups(&mut s.room, &s.woven, &s.repeated);
            at.ops.add(stream, &s.room);
        }
        at.ops.copy(x, &s.streams[active], whole);
        at.tap("active_prediction", x);
    }

    /// Adds to each stream a share of the difference between `x`, what the layer has made of the active one, and that. The active one
    /// is left in `x`, scaled; `y` is room.
    fn correct<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, (x, y): (&mut B::Buf, &mut B::Buf)) {
        let whole = Columns::run(at.common.dim, 0, 0);
        self.route(at, s, x);
        self.correct.apply(at.ops, &mut s.shares, &s.modes);
        at.ops.unary(&mut s.shares, Unary::Affine { scale: 1.0, offset: 1.0 });
        at.ops.copy(&mut s.room, &s.streams[self.dims.active], whole);
        at.ops.unary(&mut s.room, Unary::scale(-1.0));
        at.ops.add(&mut s.room, x);
        for (i, stream) in s.streams.iter_mut().enumerate() {
            at.ops.copy(&mut s.one, &s.shares, Columns::run(1, i, 0));
            at.ops.copy(y, &s.room, whole);
            at.ops.mul_groups(y, &s.one);
            at.ops.add(stream, y);
        }
        at.ops.copy(x, &s.streams[self.dims.active], whole);
        at.ops.mul_columns(x, &self.scale);
    }

    /// Leaves what `x` says of how streams are mixed in `modes`: `tanh(norm(x) @ w / D)`.
    fn route<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, x: &B::Buf) {
        let dim = at.common.dim;
        self.norm.to(at.ops, &mut s.room, x, dim);
        at.ops.unary(&mut s.room, Unary::scale(1.0 / dim as f32));
        self.router.apply(at.ops, &mut s.modes, &s.room);
        at.ops.unary(&mut s.modes, Unary::Tanh);
    }
}
