//! A backend whose weights may have low-rank changes beside them (Hu et al. 2021): `(w + scale * b @ a) x` is computed as
//! `w x + b (scale * (a x))`. The weight itself is neither changed nor copied, and a change whose scale is 0 costs nothing.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
    task::{Context, Waker},
};

use crate::{Error, Ops, Prims, Product, Ranked, SharedListener, Stack, Step, Tensor, Traffic, Unary};

/// A change of a weight, in the file's words.
#[derive(Clone, Debug)]
pub struct LowRank {
    /// The file's name of the weight.
    pub target: String,
    /// Which of the scales it obeys.
    pub scale: usize,
    /// What that scale is multiplied by.
    pub factor: f32,
    /// `[rank, in]`; of a weight that is a stack of matrices one below the other, as many. Of an embedding `[tokens, rank]`.
    pub a: Tensor,
    /// `[out, rank]`, or as many. Of an embedding `[width, rank]`.
    pub b: Tensor,
}

/// A weight and its changes.
#[derive(Debug)]
pub struct AdaptedWeight<W> {
    base: W,
    changes: Vec<Change<W>>,
    /// The file's name of the matrix that it is, or the first rows of; and its columns.
    matrix: Option<(String, usize)>,
}

impl<W> AdaptedWeight<W> {
    fn base(&self) -> &W {
        &self.base
    }
}

/// A change on a backend.
#[derive(Debug)]
struct Change<W> {
    scale: usize,
    factor: f32,
    a: W,
    b: W,
    /// Rows of `a`.
    stacked: usize,
    /// Rows of `b`.
    rows: usize,
    /// Columns of `b`.
    rank: usize,
}

/// Runs `B` on weights with changes, and tells a listener of its products.
pub struct Adapted<B: Prims> {
    base: B,
    changes: Arc<[LowRank]>,
    scales: Vec<f32>,
    rooms: Rooms<B::Buf>,
    listener: Option<SharedListener>,
    /// Experts of a token.
    used: usize,
}

/// Room for values that nobody else sees, made when first needed.
#[derive(Debug)]
struct Rooms<Buf> {
    /// Most rows that a buffer of a width was asked for.
    rows: HashMap<usize, usize>,
    /// `a x`, by width.
    low: HashMap<usize, Buf>,
    /// `b (a x)`, by width.
    high: HashMap<usize, Buf>,
}

/// What a change is multiplied with.
enum By<'a, B: Prims> {
    All(&'a B::Buf),
    Outputs(&'a B::Buf, &'a Step<'a>),
    Experts(&'a B::Buf, &'a B::Routes),
    Heads(&'a B::Buf, usize),
    /// Rows of `a` are looked up.
    Tokens(&'a Step<'a>),
}

impl<B: Prims> Adapted<B> {
    /// The backend with changes for the weights that it will be given. `scales` are those that they name.
    pub fn new(base: B, changes: Arc<[LowRank]>, scales: Vec<f32>) -> Adapted<B> {
        let rooms = Rooms { rows: HashMap::new(), low: HashMap::new(), high: HashMap::new() };
        Adapted { base, changes, scales, rooms, listener: None, used: 0 }
    }

    /// Tells a listener of all products from now on, or nobody. A fusion with more than products in it is made in its parts then.
    pub fn listen(&mut self, listener: Option<SharedListener>) {
        self.listener = listener;
    }

    /// The backend alone.
    pub fn into_base(self) -> B {
        self.base
    }

    /// Other scales from now on.
    ///
    /// # Panics
    /// If there are not as many as before.
    pub fn rescale(&mut self, scales: &[f32]) {
        self.scales.copy_from_slice(scales);
    }

    /// Takes, or makes, the room for a change's two products, which are so wide.
    fn rooms(&mut self, [narrow, wide]: [usize; 2]) -> [B::Buf; 2] {
        let Adapted { base, rooms: Rooms { rows, low, high }, .. } = self;
        // A sum is as high as the buffer that it is added to; the other is narrow, so that it may as well serve all.
        let most = rows.values().copied().max().unwrap_or(0);
        let fitting = rows.get(&wide).copied().unwrap_or(most);
        [
            low.remove(&narrow).unwrap_or_else(|| base.buffer(most, narrow)),
            high.remove(&wide).unwrap_or_else(|| base.buffer(fitting, wide)),
        ]
    }

    /// The scale of a change; `None` where it does nothing.
    fn scale(&self, change: &Change<B::Weight>) -> Option<f32> {
        let scale = self.scales.get(change.scale)? * change.factor;
        (scale != 0.0).then_some(scale)
    }
}

impl<B: Ops> Adapted<B> {
    /// Tells the listener what a weight was multiplied with. Where the host can't wait for the device, it hears nothing.
    fn tell(&mut self, w: &AdaptedWeight<B::Weight>, by: &By<'_, B>) {
        let (Some(listener), Some((name, columns))) = (self.listener.clone(), &w.matrix) else { return };
        let mut listener = listener.lock().unwrap_or_else(PoisonError::into_inner);
        let (By::All(x) | By::Outputs(x, _) | By::Experts(x, _) | By::Heads(x, _)) = by else { return };
        if !listener.wants(name) {
            return;
        }
        let cx = &mut Context::from_waker(Waker::noop());
        let mut snapshot = self.base.snapshot(x);
        if self.base.poll_read(&mut snapshot, cx).is_pending() {
            return;
        }
        let (mut inputs, mut chosen) = (Vec::new(), Vec::new());
        self.base.download(&snapshot, &mut inputs);
        let stack = match by {
            By::Heads(_, heads) => Stack::Heads(*heads),
            By::Experts(_, routes) => {
                let mut choices = self.base.choices(routes);
                if self.base.poll_read(&mut choices, cx).is_pending() {
                    return;
                }
                self.base.chosen(&choices, &mut chosen);
                Stack::Experts { chosen: &chosen, used: self.used }
            }
            By::Outputs(_, step) => {
                let rows = step.outputs.iter().map(|&row| row as usize);
                inputs = rows.flat_map(|row| &inputs[row * columns..][..*columns]).copied().collect();
                Stack::One
            }
            By::All(_) | By::Tokens(_) => Stack::One,
        };
        listener.product(Product { weight: name, columns: *columns, inputs: &inputs, stack });
    }

    /// `out += scale * b (a x)` for each change of a weight that was multiplied with `x`.
    fn adapt(&mut self, out: &mut B::Buf, w: &AdaptedWeight<B::Weight>, by: &By<'_, B>) {
        self.tell(w, by);
        for change in &w.changes {
            if let Some(scale) = self.scale(change) {
                self.adapt_once(out, (change, scale), by);
            }
        }
    }

    fn adapt_once(&mut self, out: &mut B::Buf, (change, scale): (&Change<B::Weight>, f32), by: &By<'_, B>) {
        let Change { a, b, stacked, rows, rank, .. } = change;
        let widths = match by {
            By::All(_) | By::Outputs(..) | By::Heads(..) => [*stacked, *rows],
            // A matrix for each expert, of which a row has one.
            By::Experts(..) => [*rank, rows / (stacked / (*rank).max(1)).max(1)],
            By::Tokens(_) => [*rank, *rows],
        };
        let [mut low, mut high] = self.rooms(widths);
        let base = &mut self.base;
        match by {
            By::All(x) => base.matmul(&mut low, x, a),
            By::Outputs(x, step) => base.matmul_rows(&mut low, x, a, step),
            By::Experts(x, routes) => base.matmul_experts(&mut low, x, a, routes),
            By::Heads(x, heads) => base.matmul_heads(&mut low, x, a, *heads),
            By::Tokens(step) => base.embed(&mut low, a, step),
        }
        if scale != 1.0 {
            base.unary(&mut low, Unary::scale(scale));
        }
        match by {
            By::Experts(_, routes) => {
                base.matmul_experts(&mut high, &low, b, routes);
                base.add(out, &high);
            }
            By::Heads(_, heads) => {
                base.matmul_heads(&mut high, &low, b, *heads);
                base.add(out, &high);
            }
            By::All(_) | By::Outputs(..) | By::Tokens(_) => base.matmul_add(out, &low, b, &mut high),
        }
        let [narrow, wide] = widths;
        self.rooms.low.insert(narrow, low);
        self.rooms.high.insert(wide, high);
    }
}

impl<B: Ops> Prims for Adapted<B> {
    type Weight = AdaptedWeight<B::Weight>;
    type Buf = B::Buf;
    type Kv = B::Kv;
    type Rope = B::Rope;
    type Snapshot = B::Snapshot;
    type Routes = B::Routes;

    const WITHOUT: &'static [&'static str] = B::WITHOUT;
    const READS_WEIGHTS: bool = B::READS_WEIGHTS;

    fn weight(&mut self, tensor: Tensor) -> Result<Self::Weight, Error> {
        let (whole, rows) = tensor.whole();
        let mut changes = Vec::new();
        for change in self.changes.iter().filter(|change| change.target == whole) {
            let LowRank { scale, factor, ref a, ref b, .. } = *change;
            let b = match &rows {
                Some(rows) => b.part(rows.clone()),
                None => b.clone(),
            };
            let (stacked, rows, rank) = (a.rows, b.rows, b.cols);
            let (a, b) = (self.base.weight(a.clone())?, self.base.weight(b)?);
            changes.push(Change { scale, factor, a, b, stacked, rows, rank });
        }
        let is_first = rows.is_none_or(|rows| rows.start == 0);
        let matrix = is_first.then(|| (whole.to_owned(), tensor.cols));
        Ok(AdaptedWeight { base: self.base.weight(tensor)?, changes, matrix })
    }
    fn buffer(&mut self, rows: usize, width: usize) -> B::Buf {
        let most = self.rooms.rows.entry(width).or_default();
        *most = rows.max(*most);
        self.base.buffer(rows, width)
    }

    fn routes(&mut self, rows: usize, used: usize) -> B::Routes {
        self.used = used;
        self.base.routes(rows, used)
    }

    fn embed(&mut self, out: &mut B::Buf, table: &Self::Weight, step: &Step) {
        self.base.embed(out, &table.base, step);
        self.adapt(out, table, &By::Tokens(step));
    }
    fn matmul(&mut self, out: &mut B::Buf, x: &B::Buf, w: &Self::Weight) {
        self.base.matmul(out, x, &w.base);
        self.adapt(out, w, &By::All(x));
    }
    fn matmul_rows(&mut self, out: &mut B::Buf, x: &B::Buf, w: &Self::Weight, step: &Step) {
        self.base.matmul_rows(out, x, &w.base, step);
        self.adapt(out, w, &By::Outputs(x, step));
    }
    fn matmul_heads(&mut self, out: &mut B::Buf, x: &B::Buf, w: &Self::Weight, heads: usize) {
        self.base.matmul_heads(out, x, &w.base, heads);
        self.adapt(out, w, &By::Heads(x, heads));
    }
    fn matmul_experts(&mut self, out: &mut B::Buf, x: &B::Buf, w: &Self::Weight, routes: &B::Routes) {
        self.base.matmul_experts(out, x, &w.base, routes);
        self.adapt(out, w, &By::Experts(x, routes));
    }

    crate::forward! { base, AdaptedWeight::base:
        check_kv kv rope_table rms_norm norm add_bias rope kv_write attend unary mul add copy
        add_positions mul_columns mul_groups dot_groups conv recur route choices chosen
        add_bias_experts scale_experts sum_experts upload snapshot elements poll_read download stored recycle_weights stop_at finish
    }
}

/// Fusions stay the backend's: changes come after them, and what has changes in its middle is no fusion.
impl<B: Ops> Ops for Adapted<B> {
    fn gated_add(&mut self, x: &mut B::Buf, h: &B::Buf, weights: [&Self::Weight; 3], room: [&mut B::Buf; 3]) {
        if self.listener.is_none() && weights.iter().all(|w| w.changes.is_empty()) {
            return self.base.gated_add(x, h, weights.map(|w| &w.base), room);
        }
        let ([gate, up, down], [a, b, product]) = (weights, room);
        self.matmul2((a, gate), (b, up), h);
        self.swiglu(a, b);
        self.matmul_add(x, a, down, product);
    }
    fn swiglu(&mut self, gate: &mut B::Buf, up: &B::Buf) {
        self.base.swiglu(gate, up);
    }
    fn matmul_add(&mut self, x: &mut B::Buf, h: &B::Buf, w: &Self::Weight, product: &mut B::Buf) {
        self.base.matmul_add(x, h, &w.base, product);
        self.adapt(x, w, &By::All(h));
    }
    fn matmul2(&mut self, a: (&mut B::Buf, &Self::Weight), b: (&mut B::Buf, &Self::Weight), x: &B::Buf) {
        self.base.matmul2((&mut *a.0, &a.1.base), (&mut *b.0, &b.1.base), x);
        for (out, w) in [a, b] {
            self.adapt(out, w, &By::All(x));
        }
    }
    fn matmul3(
        &mut self,
        a: (&mut B::Buf, &Self::Weight),
        b: (&mut B::Buf, &Self::Weight),
        c: (&mut B::Buf, &Self::Weight),
        x: &B::Buf,
    ) {
        self.base.matmul3((&mut *a.0, &a.1.base), (&mut *b.0, &b.1.base), (&mut *c.0, &c.1.base), x);
        for (out, w) in [a, b, c] {
            self.adapt(out, w, &By::All(x));
        }
    }
    fn rope_write(
        &mut self,
        kv: &mut B::Kv,
        layer: usize,
        rows: [&mut B::Buf; 3],
        rope: (&B::Rope, usize),
        step: &Step,
    ) {
        self.base.rope_write(kv, layer, rows, rope, step);
    }
    fn matmul2_experts(
        &mut self,
        a: (&mut B::Buf, &Self::Weight),
        b: (&mut B::Buf, &Self::Weight),
        x: &B::Buf,
        routes: &B::Routes,
    ) {
        self.base.matmul2_experts((&mut *a.0, &a.1.base), (&mut *b.0, &b.1.base), x, routes);
        for (out, w) in [a, b] {
            self.adapt(out, w, &By::Experts(x, routes));
        }
    }

    const TOP_K: usize = B::TOP_K;

    fn top_k(&mut self, x: &B::Buf, width: usize, k: usize) -> B::Snapshot {
        self.base.top_k(x, width, k)
    }
    fn ranked(&mut self, best: &B::Snapshot, width: usize, k: usize, out: &mut Vec<Ranked>) {
        self.base.ranked(best, width, k, out);
    }
    fn traffic(&self) -> Traffic {
        self.base.traffic()
    }
}
