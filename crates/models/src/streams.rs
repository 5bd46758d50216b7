//! Several residual streams, of which a layer computes on one: before it each is predicted from all of them, after it each is
//! corrected by what the layer has changed (Baykal et al. 2023, AltUp; Gemma 3n).

use candor_ops::{Columns, Norm, NormKind, Ops, Tap, Unary};

use crate::{Error, config::Config, keys::Keys, linear::Linear, mixer::At, norm::Normed, weights::Weights};

/// Keeps a stream of zeros from dividing by nothing.
const EPS: f32 = 1e-12;

/// How many streams there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    count: usize,
    /// The one that layers compute on.
    active: usize,
}

/// What makes the other streams of the first one, or goes back.
pub(crate) struct Projections<B: Ops> {
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
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>) -> Result<Option<Dims>, Error> {
        const ACTIVE: &str = "altup.active_idx";
        const SHARED: &str = "attention.shared_kv_layers";
        let Some(count) = keys.number("altup.num_inputs")?.filter(|&count| count > 1) else { return Ok(None) };
        // Files have keys for layers that do not use them, so that nothing else would tell.
        keys.number(SHARED)?.ok_or_else(|| keys.missing(SHARED))?;
        let active = keys.number(ACTIVE)?.unwrap_or(0);
        if active >= count {
            return Err(keys.bad(ACTIVE, &format!("less than {count}"), active));
        }
        Ok(Some(Dims { count, active }))
    }

    /// Elements of a row of all buffers together.
    pub(crate) fn width(&self, dim: usize) -> usize {
        3 * self.count * dim + dim + self.count * (self.count + 2) + 1
    }

    pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, dim: usize, rows: usize) -> Scratch<B> {
        let count = self.count;
        Scratch {
            streams: (0..count).map(|_| ops.buffer(rows, dim)).collect(),
            woven: ops.buffer(rows, dim * count),
            repeated: ops.buffer(rows, dim * count),
            room: ops.buffer(rows, dim),
            modes: ops.buffer(rows, count),
            pairs: ops.buffer(rows, count * count),
            shares: ops.buffer(rows, count),
            one: ops.buffer(rows, 1),
        }
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
    pub(crate) fn load(w: &mut Weights<'_, B>, name: &str, dim: usize, dims: Dims) -> Result<Projections<B>, Error> {
        let others = dims.count - 1;
        let matrices = (0..others).map(|i| w.rows(name, (dim, others * dim), i * dim..(i + 1) * dim));
        let norm = Normed::bare(Norm { kind: NormKind::Rms, run: dim, eps: EPS });
        Ok(Projections { matrices: matrices.collect::<Result<_, _>>()?, norm })
    }

    /// Makes all streams of the first, `x`: as large as it is, each by a matrix of its own.
    pub(crate) fn split(&self, ops: &mut B, s: &mut Scratch<B>, x: &B::Buf, dim: usize) {
        ops.copy(&mut s.streams[0], x, Columns::run(dim, 0, 0));
        s.measure(ops, &self.norm, dim);
        for (stream, matrix) in s.streams[1..].iter_mut().zip(&self.matrices) {
            ops.matmul(stream, x, matrix);
            self.norm.within(ops, stream);
            ops.mul_groups(stream, &s.one);
        }
    }

    /// `x` is the mean of the first stream and what matrices make of the others, each as large as the first.
    pub(crate) fn merge(&self, ops: &mut B, s: &mut Scratch<B>, x: &mut B::Buf, dim: usize) {
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
    pub(crate) fn load(w: &mut Weights<'_, B>, config: &Config, dims: Dims, i: usize) -> Result<Layer<B>, Error> {
        let name = |rest: &str| config.name(i, rest);
        let (dim, count) = (config.dim, dims.count);
        let norm = Norm { kind: NormKind::Rms, run: dim, eps: config.eps };
        Ok(Layer {
            dims,
            norm: Normed::load(w, &name("altup_router_norm"), norm)?,
            router: Linear::load(w, &name("altup_router"), dim, count)?,
            predict: Linear::load(w, &name("altup_predict_coef"), count, count * count)?,
            correct: Linear::load(w, &name("altup_correct_coef"), count, count)?,
            scale: w.vector(&name("altup_correct_scale.weight"), dim)?,
        })
    }

    /// Adds to each stream a sum of all, weighed by what the active one says, which is left in `x`.
    pub(crate) fn predict<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, x: &mut B::Buf) {
        let (Dims { count, active }, dim) = (self.dims, at.config.dim);
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
    pub(crate) fn correct<P: Tap<B>>(
        &self,
        at: &mut At<'_, '_, B, P>,
        s: &mut Scratch<B>,
        (x, y): (&mut B::Buf, &mut B::Buf),
    ) {
        let whole = Columns::run(at.config.dim, 0, 0);
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

    /// Adds `y` to all streams but the first.
    pub(crate) fn spread<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, y: &B::Buf) {
        s.streams[1..].iter_mut().for_each(|stream| at.ops.add(stream, y));
    }

    /// Leaves what `x` says of how streams are mixed in `modes`: `tanh(norm(x) @ w / D)`.
    fn route<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, x: &B::Buf) {
        let dim = at.config.dim;
        self.norm.to(at.ops, &mut s.room, x, dim);
        at.ops.unary(&mut s.room, Unary::scale(1.0 / dim as f32));
        self.router.apply(at.ops, &mut s.modes, &s.room);
        at.ops.unary(&mut s.modes, Unary::Tanh);
    }
}
