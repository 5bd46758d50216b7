//! The operations of a forward pass. Outputs come first and are `&mut`, inputs are `&`, numbers come last.

use std::task::{Context, Poll};

use crate::{
    Attention, Columns, Error, KvPlan, Norm, Ranked, Recurrence, Rope, Router, Step, Stop, Stored, Tensor, Unary, top_k,
};

/// How attention heads are laid out in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; `heads` is a multiple of it.
    pub kv_heads: usize,
    /// Width of one query or key head.
    pub key_dim: usize,
    /// Width of one value head.
    pub value_dim: usize,
    /// Factor on the scores before the softmax, usually `1 / sqrt(key_dim)`.
    pub scale: f32,
}

/// What a run has exchanged with a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Times that work was handed over.
    pub submits: u64,
    /// Bytes read back.
    pub bytes_read: u64,
    /// Objects made: buffers, and their bindings to operations.
    pub made: u64,
}

impl std::ops::Add for Traffic {
    type Output = Traffic;

    fn add(self, other: Traffic) -> Traffic {
        Traffic {
            submits: self.submits + other.submits,
            bytes_read: self.bytes_read + other.bytes_read,
            made: self.made + other.made,
        }
    }
}

/// The primitives that a backend provides.
///
/// `T` is the number of rows in flight: [`Prims::embed`] and [`Prims::upload`] set it to the step's tokens, [`Prims::matmul_rows`] to its
/// outputs, and every other operation gives its output as many rows as its
/// input has. How many of them decode ([`Step::decoding`]) follows the same way. Operations return nothing:
/// shapes are checked once at load by running the model on [`crate::Shapes`].
pub trait Prims {
    /// A matrix or vector of the model.
    type Weight;
    /// Activations, `[T, width]`.
    type Buf;
    /// Keys and values of the positions seen so far.
    type Kv;
    /// Rotary frequencies made ready for this backend.
    type Rope;
    /// A copy of a buffer, taken in the order of the operations.
    type Snapshot;
    /// Which experts each row goes to, and with what weight.
    type Routes;

    /// Operations that this backend does not have, by the names of their methods; a model that needs one is not given to it.
    const WITHOUT: &'static [&'static str] = &[];

    /// Whether weights come with their bytes, which a file may have to be read for.
    const READS_WEIGHTS: bool = true;

    /// Takes over a weight.
    ///
    /// # Errors
    /// If the backend cannot run the tensor's format, or cannot hold it.
    fn weight(&mut self, tensor: Tensor) -> Result<Self::Weight, Error>;
    /// From now on the memory of weights that this handle took over serves others when they are dropped. A backend whose memory
    /// the system manages has nothing to do.
    fn recycle_weights(&mut self) {}
    /// A buffer for up to `rows` rows of `width` elements.
    fn buffer(&mut self, rows: usize, width: usize) -> Self::Buf;
    /// Whether the backend can have such a cache.
    ///
    /// # Errors
    /// If heads are no whole blocks of a format, or the backend does not know it.
    fn check_kv(&self, plan: &KvPlan) -> Result<(), Error> {
        plan.check()
    }
    /// An empty cache, of a plan that [`Prims::check_kv`] allows.
    fn kv(&mut self, plan: &KvPlan) -> Self::Kv;
    /// Makes rotary frequencies ready.
    fn rope_table(&mut self, rope: Rope) -> Self::Rope;
    /// Room for the choices of up to `rows` rows, `used` experts each.
    fn routes(&mut self, rows: usize, used: usize) -> Self::Routes;

    /// `out[t] = table[tokens[t]]`, `[T, D]`.
    fn embed(&mut self, out: &mut Self::Buf, table: &Self::Weight, step: &Step);
    /// `out[t] = x[t] / sqrt(mean(x[t]^2) + eps) * w` (Zhang and Sennrich 2019).
    fn rms_norm(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, eps: f32);
    /// Norms each run of `norm.run` elements in place, then multiplies by `weight` and adds `bias`, which are as wide as
    /// a run and serve all of them, or as wide as the row.
    fn norm(&mut self, x: &mut Self::Buf, norm: Norm, weight: Option<&Self::Weight>, bias: Option<&Self::Weight>);
    /// `out[t] = w @ x[t]`: `[T, in]` to `[T, out]`, the matrix stored as `[out][in]`.
    fn matmul(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight);
    /// [`Prims::matmul`] of only the rows in `step.outputs`.
    fn matmul_rows(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, step: &Step);
    /// `x[t] += bias`.
    fn add_bias(&mut self, x: &mut Self::Buf, bias: &Self::Weight);
    /// Rotates the pairs of each head of `head_dim` by the angle of the row's position, in place (Su et al. 2021).
    fn rope(&mut self, x: &mut Self::Buf, rope: &Self::Rope, head_dim: usize, step: &Step);
    /// Stores the rows of `k` and `v` at their sequences and positions.
    fn kv_write(&mut self, kv: &mut Self::Kv, layer: usize, k: &Self::Buf, v: &Self::Buf, step: &Step);
    /// Attention of each row over those positions of its sequence that [`crate::Mask`] lets it see; query head `h` reads
    /// key and value head `h / (heads / kv_heads)`.
    fn attend(
        &mut self,
        out: &mut Self::Buf,
        q: &Self::Buf,
        kv: &Self::Kv,
        layer: usize,
        attention: Attention<'_, Self::Weight>,
        step: &Step,
    );
    /// `x = f(x)`, element by element.
    fn unary(&mut self, x: &mut Self::Buf, f: Unary);
    /// `x *= y`, element by element.
    fn mul(&mut self, x: &mut Self::Buf, y: &Self::Buf);
    /// `x += y`, element by element.
    fn add(&mut self, x: &mut Self::Buf, y: &Self::Buf);

    /// Copies columns of `x` into columns of `out`; the others of `out` stay as they are.
    fn copy(&mut self, out: &mut Self::Buf, x: &Self::Buf, columns: Columns);
    /// `x[t] += table[positions[t]]`: learned positions.
    fn add_positions(&mut self, x: &mut Self::Buf, table: &Self::Weight, step: &Step);
    /// `x[t] *= w`, the same vector for every row.
    fn mul_columns(&mut self, x: &mut Self::Buf, w: &Self::Weight);
    /// `x[t][g] *= y[t][g]`, where the row of `x` is cut into as many equal groups as `y` has elements.
    fn mul_groups(&mut self, x: &mut Self::Buf, y: &Self::Buf);
    /// `out[t][g] = sum(x[t][g] * y[t][g])`, where the rows of `x` and `y` are cut into as many groups as `out` has elements.
    fn dot_groups(&mut self, out: &mut Self::Buf, x: &Self::Buf, y: &Self::Buf);
    /// A product per head: `out[t][h] = w[h] @ x[t][h]`, the `heads` matrices one below the other in `w`.
    fn matmul_heads(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, heads: usize);

    /// Causal convolution of each column along its sequence: `out[t][c] = sum_j w[c][j] * x[t - (K - 1) + j][c]`. The
    /// `K - 1` rows before the step come from state `slot` of the layer, which keeps the last of this step; before
    /// position 0 they are zeros. `w` is `[width, K]`.
    fn conv(
        &mut self,
        out: &mut Self::Buf,
        kv: &mut Self::Kv,
        place: (usize, usize),
        x: &Self::Buf,
        w: &Self::Weight,
        step: &Step,
    );
    /// A linear recurrence along each sequence, on a matrix per head that state `slot` of the layer keeps: see
    /// [`Recurrence`]. At position 0 the matrix is zero.
    fn recur(
        &mut self,
        out: &mut Self::Buf,
        kv: &mut Self::Kv,
        place: (usize, usize),
        inputs: Recurrence<'_, Self::Weight, Self::Buf>,
        step: &Step,
    );

    /// Chooses experts for each row from `logits`, `[T, experts]`. `bias` is added to what is chosen by, not to weights.
    fn route(&mut self, routes: &mut Self::Routes, logits: &Self::Buf, bias: Option<&Self::Weight>, router: Router);
    /// A copy of what was chosen, for [`Prims::chosen`]; taking it changes nothing else.
    fn choices(&mut self, routes: &Self::Routes) -> Self::Snapshot;
    /// Reads what [`Prims::choices`] took into `out`, replacing what was there: an expert and its weight, `used` for each row.
    fn chosen(&mut self, choices: &Self::Snapshot, out: &mut Vec<(u32, f32)>);
    /// `out[t * used + i] = w[expert(t, i)] @ x`: `[T, in]`, or `[T * used, in]` a row for each choice, to
    /// `[T * used, out]`. `w` has the matrices of all experts one below the other.
    fn matmul_experts(&mut self, out: &mut Self::Buf, x: &Self::Buf, w: &Self::Weight, routes: &Self::Routes);
    /// `x[t * used + i] += bias[expert(t, i)]`, `bias` being `[experts, width]`.
    fn add_bias_experts(&mut self, x: &mut Self::Buf, bias: &Self::Weight, routes: &Self::Routes);
    /// `x[t * used + i] *= weight(t, i)`.
    fn scale_experts(&mut self, x: &mut Self::Buf, routes: &Self::Routes);
    /// `out[t] = sum_i x[t * used + i]`.
    fn sum_experts(&mut self, out: &mut Self::Buf, x: &Self::Buf, routes: &Self::Routes);

    /// `x = values`, `[T, width]`, a row for each of the step's tokens: a pass goes on with what another backend began.
    fn upload(&mut self, x: &mut Self::Buf, values: &[f32], step: &Step);
    /// A copy of the rows in flight, `[T, width]`; taking it changes nothing else.
    fn snapshot(&mut self, x: &Self::Buf) -> Self::Snapshot;
    /// Numbers of a snapshot.
    fn elements(&self, snapshot: &Self::Snapshot) -> usize;
    /// Sends a snapshot on its way to the host, and is ready when it is there. Where the host can wait for a device this is always
    /// ready, and reading waits. A browser cannot wait: there a snapshot that was not polled until it was ready cannot be read.
    fn poll_read(&mut self, snapshot: &mut Self::Snapshot, cx: &mut Context<'_>) -> Poll<()> {
        let _ = (snapshot, cx);
        Poll::Ready(())
    }
    /// Reads a snapshot row by row into `out`, replacing what was there.
    fn download(&mut self, snapshot: &Self::Snapshot, out: &mut Vec<f32>);

    /// A cache's contents, to be saved or put back between steps; `None` where the backend has no way to do that.
    fn stored<'a>(&mut self, kv: &'a mut Self::Kv) -> Option<&'a mut dyn Stored> {
        let _ = kv;
        None
    }

    /// Has operations compute nothing more once a stop is due, until another is given: what they were to write is left as it
    /// is, or half written. Nothing of such a step is to be used but what it gave before. A backend that does not ask in the
    /// middle of a step ignores it.
    fn stop_at(&mut self, stop: Option<Stop>) {
        let _ = stop;
    }

    /// Ends a step: submits what was asked for, and returns the first error. Until then
    /// results may be anything.
    ///
    /// # Errors
    /// If the device has failed. It will again.
    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Fusions: the default body *is* the meaning. A backend may override it, and [`crate::Plain`] switches that off.
pub trait Ops: Prims {
    /// `gate = silu(gate) * up`.
    fn swiglu(&mut self, gate: &mut Self::Buf, up: &Self::Buf) {
        self.unary(gate, Unary::Silu);
        self.mul(gate, up);
    }

    /// `x += w @ h`. `product` is room for the product, undefined afterwards.
    fn matmul_add(&mut self, x: &mut Self::Buf, h: &Self::Buf, w: &Self::Weight, product: &mut Self::Buf) {
        self.matmul(product, h, w);
        self.add(x, product);
    }

    /// Two products of the same input.
    fn matmul2(&mut self, a: (&mut Self::Buf, &Self::Weight), b: (&mut Self::Buf, &Self::Weight), x: &Self::Buf) {
        self.matmul(a.0, x, a.1);
        self.matmul(b.0, x, b.1);
    }

    /// A gated feed-forward: `x += down @ (silu(gate @ h) * (up @ h))`. `room` is for both products of `h` and for the last, undefined
    /// afterwards.
    fn gated_add(
        &mut self,
        x: &mut Self::Buf,
        h: &Self::Buf,
        [gate, up, down]: [&Self::Weight; 3],
        room: [&mut Self::Buf; 3],
    ) {
        let [a, b, product] = room;
        self.matmul2((a, gate), (b, up), h);
        self.swiglu(a, b);
        self.matmul_add(x, a, down, product);
    }

    /// Three products of the same input.
    fn matmul3(
        &mut self,
        a: (&mut Self::Buf, &Self::Weight),
        b: (&mut Self::Buf, &Self::Weight),
        c: (&mut Self::Buf, &Self::Weight),
        x: &Self::Buf,
    ) {
        self.matmul2(a, b, x);
        self.matmul(c.0, x, c.1);
    }

    /// Turns queries and keys, then stores the keys with their values.
    fn rope_write(
        &mut self,
        kv: &mut Self::Kv,
        layer: usize,
        [q, k, v]: [&mut Self::Buf; 3],
        (rope, head_dim): (&Self::Rope, usize),
        step: &Step,
    ) {
        self.rope(q, rope, head_dim, step);
        self.rope(k, rope, head_dim, step);
        self.kv_write(kv, layer, k, v, step);
    }

    /// Two products with the chosen experts of the same input.
    fn matmul2_experts(
        &mut self,
        a: (&mut Self::Buf, &Self::Weight),
        b: (&mut Self::Buf, &Self::Weight),
        x: &Self::Buf,
        routes: &Self::Routes,
    ) {
        self.matmul_experts(a.0, x, a.1, routes);
        self.matmul_experts(b.0, x, b.1, routes);
    }

    /// Most elements of a row that [`Ops::top_k`] finds where the row lies, so that it costs less than reading the row; 0 where
    /// values lie at hand.
    const TOP_K: usize = 0;

    /// A copy of what the best `k` elements of each row in flight, of `width`, are read from by [`Ops::ranked`].
    fn top_k(&mut self, x: &Self::Buf, width: usize, k: usize) -> Self::Snapshot {
        let _ = (width, k);
        self.snapshot(x)
    }

    /// Reads what [`Ops::top_k`] took with the same numbers into `out`, replacing what was there: the best of each row in the order
    /// of [`top_k`], `[T, k]`, or all of each row if it has fewer.
    fn ranked(&mut self, best: &Self::Snapshot, width: usize, k: usize, out: &mut Vec<Ranked>) {
        let mut values = Vec::new();
        self.download(best, &mut values);
        out.clear();
        values.chunks_exact(width).for_each(|row| top_k(row, k, out));
    }

    /// What was exchanged with the device so far; nothing where there is no device.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}
