//! The backend: primitives and fusions in terms of kernels and the pool.

use std::sync::Arc;

use candor_kernels::{F32Kernels, Kernels};
use candor_ops::{
    Attention, Columns, Error, KvPlan, Norm, Ops, Prims, Recurrence, Rope, Router, Step, Stop, Stored, Tensor, Unary,
};

use crate::attend::{Attend, Cache};
use crate::elementwise;
use crate::experts::Routes;
use crate::grouped::{Choices, Grouped, Target, multiply_groups};
use crate::inputs::Inputs;
use crate::memory::Pages;
use crate::pool::Pool;
use crate::product::gated::gated_add;
use crate::product::{Product, Then, Workspace, multiply};
use crate::recurrent;
use crate::turns::{Turns, rotate};
use crate::weight::Tier;
use crate::{Batching, Buf, Cpus, Kv, Rotation, Spawn, Weight, physical_cores};

/// Elements that one thread works through before it is worth asking others.
const PIECE: usize = 16 << 10;

/// How a [`Cpu`] runs.
#[derive(Clone)]
pub struct CpuOptions {
    /// Threads that work on a pass of one token; 0 takes the physical cores of `cpus`, or [`physical_cores`].
    pub threads: usize,
    /// Threads that work on a pass of several tokens; 0 takes as many as for one.
    pub threads_batch: usize,
    /// The processors to keep to; `None` leaves that to the system.
    pub cpus: Option<Cpus>,
    /// Asks the system for huge pages for the cache and for activations.
    pub huge_pages: bool,
    /// The instruction set.
    pub kernels: &'static Kernels,
    /// Which kernels multiply which rows.
    pub batching: Batching,
    /// Where the threads come from.
    pub spawn: Spawn,
}

impl Default for CpuOptions {
    fn default() -> Self {
        CpuOptions {
            threads: 0,
            threads_batch: 0,
            cpus: None,
            huge_pages: false,
            kernels: Kernels::best(),
            batching: Batching::default(),
            spawn: Spawn::default(),
        }
    }
}

/// The CPU backend.
///
/// A clone shares the threads and understands the same weights; each session takes its own. Sessions on different
/// threads of the caller take turns, operation by operation.
pub struct Cpu {
    pool: Pool,
    /// Threads for one token, and for several.
    threads: [usize; 2],
    pages: Pages,
    kernels: &'static Kernels,
    batching: Batching,
    work: Workspace,
    turns: Turns,
    picked: Vec<f32>,
    grouped: Grouped,
    attend: Attend,
}

impl Clone for Cpu {
    fn clone(&self) -> Self {
        Cpu::with(self.pool.clone(), self.threads, self.pages, self.kernels, self.batching)
    }
}

impl Cpu {
    /// A backend with threads of its own.
    pub fn new(options: CpuOptions) -> Cpu {
        let CpuOptions { threads, threads_batch, cpus, huge_pages, kernels, batching, spawn } = options;
        let or = |threads: usize, default: usize| if threads == 0 { default } else { threads };
        let one = if threads == 0 { cpus.as_ref().map_or_else(physical_cores, Cpus::cores) } else { threads };
        let several = or(threads_batch, one);
        let pool = Pool::new(one.max(several), cpus, spawn);
        let pages = if huge_pages { Pages::Huge } else { Pages::Usual };
        Cpu::with(pool, [one, several], pages, kernels, batching)
    }

    fn with(pool: Pool, threads: [usize; 2], pages: Pages, kernels: &'static Kernels, batching: Batching) -> Cpu {
        let mut pool = pool;
        pool.limit(threads[0]);
        Cpu {
            pool,
            threads,
            pages,
            kernels,
            batching,
            work: Workspace::default(),
            turns: Turns::default(),
            picked: Vec::new(),
            grouped: Grouped::default(),
            attend: Attend::default(),
        }
    }

    /// Threads that work on a pass of one token: as many as were asked for, or as the system gave.
    pub fn threads(&self) -> usize {
        self.pool.among(self.threads[0])
    }

    /// The same of several tokens.
    pub fn threads_batch(&self) -> usize {
        self.pool.among(self.threads[1])
    }

    /// The instruction set.
    pub fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What decides on the kernels of a prompt's rows. Where nothing does, weights have no batch kernels.
    fn tier(&self) -> Tier {
        match self.batching {
            Batching::ByRole | Batching::Invariant => Tier::Prefill,
            Batching::Fastest => Tier::Fastest,
        }
    }

    /// A pass over `tokens` tokens begins.
    fn begin(&mut self, tokens: usize) {
        self.pool.limit(self.threads[usize::from(tokens > 1)]);
    }

    fn f32(&self) -> &'static F32Kernels {
        &self.kernels.f32
    }

    fn multiply<const N: usize>(&mut self, products: [Product<'_>; N], x: &Buf) {
        let inputs = Inputs { rows: x.rows, tier: self.tier(), cols: x.width, values: x.live() };
        multiply(products, &inputs, x.decoding, &mut self.work, (&self.pool, &self.kernels.f32));
    }

    fn multiply_groups<const N: usize>(
        &mut self,
        targets: [Target<'_>; N],
        x: &Inputs<'_>,
        choices: &Choices<'_, impl Fn(usize) -> usize + Sync>,
    ) {
        multiply_groups(targets, x, choices, &mut self.grouped, (&mut self.work, &self.pool, &self.kernels.f32));
    }

    fn multiply_experts<const N: usize>(&mut self, products: [(&mut Buf, &Weight); N], x: &Buf, routes: &Routes) {
        let count = routes.chosen.len();
        let shared = if x.rows == count { 1 } else { routes.used };
        let decoding = x.decoding * if x.rows == count { 1 } else { routes.used };
        let group = |choice: usize| routes.chosen[choice].0;
        let choices = Choices { order: &routes.order, shared, prefill: count - decoding, group };
        let targets = products.map(|(out, w)| {
            (out.rows, out.decoding) = (count, decoding);
            Target { outputs: out.width, out: out.live_mut(), w }
        });
        self.multiply_groups(
            targets,
            &Inputs { rows: x.rows, tier: self.tier(), cols: x.width, values: x.live() },
            &choices,
        );
    }

    /// Calls `f` with pieces of `x` that are whole groups of `group` elements, and the index of their first element.
    fn pieces(&self, x: &mut Buf, group: usize, f: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        let size = group * (PIECE / group.max(1)).max(1);
        self.pool.chunks(x.live_mut(), size, &|index, piece| f(index * size, piece));
    }
}

impl Prims for Cpu {
    type Weight = Weight;
    type Buf = Buf;
    type Kv = Kv;
    type Rope = Rotation;
    type Snapshot = Vec<f32>;
    type Routes = Routes;

    fn weight(&mut self, tensor: Tensor) -> Result<Weight, Error> {
        Weight::new(tensor, self.kernels, self.batching)
    }

    fn buffer(&mut self, rows: usize, width: usize) -> Buf {
        Buf::new(rows, width, self.pages)
    }

    fn kv(&mut self, plan: &KvPlan) -> Kv {
        Kv::new(plan, self.kernels, self.pages)
    }

    fn stored<'a>(&mut self, kv: &'a mut Kv) -> Option<&'a mut dyn Stored> {
        Some(kv)
    }

    fn rope_table(&mut self, rope: Rope) -> Rotation {
        Rotation(Arc::new(rope))
    }

    fn stop_at(&mut self, stop: Option<Stop>) {
        self.pool.stop_at(stop);
    }

    fn routes(&mut self, rows: usize, used: usize) -> Routes {
        Routes::new(rows, used)
    }

    fn embed(&mut self, out: &mut Buf, table: &Weight, step: &Step) {
        self.begin(step.tokens.len());
        (out.rows, out.decoding) = (step.tokens.len(), step.decoding);
        for (t, &token) in step.tokens.iter().enumerate() {
            table.decode(token as usize, out.row_mut(t));
        }
    }

    fn rms_norm(&mut self, out: &mut Buf, x: &Buf, w: &Weight, eps: f32) {
        out.like(x);
        let (width, w, norm) = (x.width, w.vector(), self.f32().rms_norm);
        self.pieces(out, width, &|first, out| {
            let x = &x.live()[first..first + out.len()];
            for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                norm(out, x, w, eps);
            }
        });
    }

    fn norm(&mut self, x: &mut Buf, norm: Norm, weight: Option<&Weight>, bias: Option<&Weight>) {
        let (width, f32) = (x.width, self.f32());
        let (weight, bias) = (weight.map(Weight::vector), bias.map(Weight::vector));
        self.pieces(x, width, &|_, piece| {
            for row in piece.chunks_exact_mut(width) {
                row.chunks_exact_mut(norm.run).for_each(|run| elementwise::norm(run, norm, f32));
                for (vector, apply) in [(weight, f32.mul), (bias, f32.add)] {
                    if let Some(vector) = vector {
                        row.chunks_exact_mut(vector.len()).for_each(|x| apply(x, vector));
                    }
                }
            }
        });
    }

    fn matmul(&mut self, out: &mut Buf, x: &Buf, w: &Weight) {
        self.multiply([Product { out, w, then: Then::Store }], x);
    }

    fn matmul_rows(&mut self, out: &mut Buf, x: &Buf, w: &Weight, step: &Step) {
        let mut picked = std::mem::take(&mut self.picked);
        picked.clear();
        for &row in step.outputs {
            picked.extend_from_slice(x.row(row as usize));
        }
        let prefill = step.outputs.partition_point(|&row| (row as usize) < x.rows - x.decoding);
        let rows = step.outputs.len();
        let x = Inputs { rows, tier: self.tier(), cols: x.width, values: &picked };
        let product = Product { out, w, then: Then::Store };
        multiply([product], &x, rows - prefill, &mut self.work, (&self.pool, &self.kernels.f32));
        self.picked = picked;
    }

    fn add_bias(&mut self, x: &mut Buf, bias: &Weight) {
        let (width, bias, add) = (x.width, bias.vector(), self.f32().add);
        self.pieces(x, width, &|_, piece| piece.chunks_exact_mut(width).for_each(|x| add(x, bias)));
    }

    fn rope(&mut self, x: &mut Buf, rope: &Rotation, head_dim: usize, step: &Step) {
        let turns = self.turns.at(rope, step.positions);
        let (width, pairs, pairing) = (x.width, rope.0.frequencies.len(), rope.0.pairing);
        let size = width * (PIECE / width.max(1)).max(1);
        self.pool.chunks(x.live_mut(), size, &|index, piece| {
            let first = index * size / width;
            for (t, row) in piece.chunks_exact_mut(width).enumerate() {
                let turns = &turns[(first + t) * pairs..][..pairs];
                row.chunks_exact_mut(head_dim).for_each(|head| rotate(head, pairing, turns));
            }
        });
    }

    fn kv_write(&mut self, kv: &mut Kv, layer: usize, k: &Buf, v: &Buf, step: &Step) {
        for t in 0..k.rows {
            kv.write(layer, (step.sequences[t], step.positions[t]), k.row(t), v.row(t));
        }
    }

    fn attend(&mut self, out: &mut Buf, q: &Buf, kv: &Kv, layer: usize, attention: Attention<'_, Weight>, step: &Step) {
        out.like(q);
        self.attend.run(out, q, Cache { kv, layer }, attention, step, (&self.pool, &self.kernels.f32, self.batching));
    }

    fn unary(&mut self, x: &mut Buf, f: Unary) {
        let f32 = self.f32();
        self.pieces(x, 1, &|_, x| elementwise::unary(x, f, f32));
    }

    fn mul(&mut self, x: &mut Buf, y: &Buf) {
        let mul = self.f32().mul;
        self.pieces(x, 1, &|first, x| mul(x, &y.live()[first..first + x.len()]));
    }

    fn add(&mut self, x: &mut Buf, y: &Buf) {
        let add = self.f32().add;
        self.pieces(x, 1, &|first, x| add(x, &y.live()[first..first + x.len()]));
    }

    fn copy(&mut self, out: &mut Buf, x: &Buf, columns: Columns) {
        out.like(x);
        let Columns { groups, len, from, to } = columns;
        for t in 0..x.rows {
            let (out, x) = (out.row_mut(t), x.row(t));
            for g in 0..groups {
                out[to.0 + g * to.1..][..len].copy_from_slice(&x[from.0 + g * from.1..][..len]);
            }
        }
    }

    fn add_positions(&mut self, x: &mut Buf, table: &Weight, step: &Step) {
        let mut row = std::mem::take(&mut self.picked);
        row.resize(x.width, 0.0);
        for (t, &position) in step.positions.iter().enumerate() {
            table.decode(position as usize, &mut row);
            (self.f32().add)(x.row_mut(t), &row);
        }
        self.picked = row;
    }

    fn mul_columns(&mut self, x: &mut Buf, w: &Weight) {
        let (width, w, mul) = (x.width, w.vector(), self.f32().mul);
        self.pieces(x, width, &|_, piece| piece.chunks_exact_mut(width).for_each(|x| mul(x, w)));
    }

    fn mul_groups(&mut self, x: &mut Buf, y: &Buf) {
        let (len, scale) = (x.width / y.width, self.f32().scale);
        self.pieces(x, len, &|first, piece| {
            piece.chunks_exact_mut(len).zip(&y.live()[first / len..]).for_each(|(x, &y)| scale(x, y));
        });
    }

    fn dot_groups(&mut self, out: &mut Buf, x: &Buf, y: &Buf) {
        out.like(x);
        let (len, dot) = (x.width / out.width, self.f32().dot);
        let groups = x.live().chunks_exact(len).zip(y.live().chunks_exact(len));
        out.live_mut().iter_mut().zip(groups).for_each(|(out, (x, y))| *out = dot(x, y));
    }

    fn matmul_heads(&mut self, out: &mut Buf, x: &Buf, w: &Weight, heads: usize) {
        out.like(x);
        let (rows, outputs, mut order) = (x.rows, out.width / heads, std::mem::take(&mut self.grouped.heads));
        order.clear();
        order.extend((0..heads).flat_map(|head| (0..rows).map(move |t| t * heads + head)));
        let prefill = (rows - x.decoding) * heads;
        let choices = Choices { order: &order, shared: 1, prefill, group: |number| number % heads };
        let inputs = Inputs { rows: rows * heads, tier: self.tier(), cols: x.width / heads, values: x.live() };
        self.multiply_groups([Target { out: out.live_mut(), outputs, w }], &inputs, &choices);
        self.grouped.heads = order;
    }

    fn conv(&mut self, out: &mut Buf, kv: &mut Kv, place: (usize, usize), x: &Buf, w: &Weight, step: &Step) {
        out.like(x);
        recurrent::conv(out, (kv, place), x, w, step, &self.pool);
    }

    fn recur(
        &mut self,
        out: &mut Buf,
        kv: &mut Kv,
        place: (usize, usize),
        inputs: Recurrence<'_, Weight, Buf>,
        step: &Step,
    ) {
        out.like(inputs.v);
        recurrent::recur(out, (kv, place), inputs, step, (&self.pool, &self.kernels.f32));
    }

    fn route(&mut self, routes: &mut Routes, logits: &Buf, bias: Option<&Weight>, router: Router) {
        routes.choose(logits, bias.map(Weight::vector), router, &self.pool);
    }

    fn choices(&mut self, routes: &Routes) -> Vec<f32> {
        routes.chosen.iter().flat_map(|&(expert, weight)| [expert as f32, weight]).collect()
    }

    fn chosen(&mut self, choices: &Vec<f32>, out: &mut Vec<(u32, f32)>) {
        out.clear();
        out.extend(choices.as_chunks().0.iter().map(|&[expert, weight]| (expert as u32, weight)));
    }

    fn matmul_experts(&mut self, out: &mut Buf, x: &Buf, w: &Weight, routes: &Routes) {
        self.multiply_experts([(out, w)], x, routes);
    }

    fn add_bias_experts(&mut self, x: &mut Buf, bias: &Weight, routes: &Routes) {
        let mut row = std::mem::take(&mut self.picked);
        row.resize(x.width, 0.0);
        for (choice, &(expert, _)) in routes.chosen.iter().enumerate() {
            bias.decode(expert, &mut row);
            (self.f32().add)(x.row_mut(choice), &row);
        }
        self.picked = row;
    }

    fn scale_experts(&mut self, x: &mut Buf, routes: &Routes) {
        let (width, scale) = (x.width, self.f32().scale);
        self.pieces(x, width, &|first, piece| {
            piece.chunks_exact_mut(width).zip(&routes.chosen[first / width..]).for_each(|(x, &(_, w))| scale(x, w));
        });
    }

    fn sum_experts(&mut self, out: &mut Buf, x: &Buf, routes: &Routes) {
        (out.rows, out.decoding) = (x.rows / routes.used, x.decoding / routes.used);
        let (width, add) = (x.width, self.f32().add);
        self.pieces(out, width, &|first, piece| {
            for (i, out) in piece.chunks_exact_mut(width).enumerate() {
                out.fill(0.0);
                let t = first / width + i;
                (0..routes.used).for_each(|choice| add(out, x.row(t * routes.used + choice)));
            }
        });
    }

    fn upload(&mut self, x: &mut Buf, values: &[f32], step: &Step) {
        self.begin(step.tokens.len());
        (x.rows, x.decoding) = (step.tokens.len(), step.decoding);
        x.live_mut().copy_from_slice(values);
    }

    fn snapshot(&mut self, x: &Buf) -> Vec<f32> {
        x.live().to_vec()
    }

    fn elements(&self, snapshot: &Vec<f32>) -> usize {
        snapshot.len()
    }

    fn download(&mut self, snapshot: &Vec<f32>, out: &mut Vec<f32>) {
        out.clone_from(snapshot);
    }
}

impl Ops for Cpu {
    fn swiglu(&mut self, gate: &mut Buf, up: &Buf) {
        let swiglu = self.f32().swiglu;
        self.pieces(gate, 1, &|first, gate| swiglu(gate, &up.live()[first..first + gate.len()]));
    }

    fn matmul_add(&mut self, x: &mut Buf, h: &Buf, w: &Weight, _: &mut Buf) {
        self.multiply([Product { out: x, w, then: Then::Add }], h);
    }

    fn gated_add(&mut self, x: &mut Buf, h: &Buf, weights: [&Weight; 3], [a, b, product]: [&mut Buf; 3]) {
        let inputs = Inputs { rows: h.rows, tier: self.tier(), cols: h.width, values: h.live() };
        let threads = (&self.pool, &self.kernels.f32);
        if gated_add(x, &inputs, h.decoding, (weights, [a, b]), &mut self.work, threads) {
            return;
        }
        let [gate, up, down] = weights;
        self.matmul2((a, gate), (b, up), h);
        self.swiglu(a, b);
        self.matmul_add(x, a, down, product);
    }

    fn matmul2(&mut self, a: (&mut Buf, &Weight), b: (&mut Buf, &Weight), x: &Buf) {
        self.multiply([a, b].map(|(out, w)| Product { out, w, then: Then::Store }), x);
    }

    fn matmul3(&mut self, a: (&mut Buf, &Weight), b: (&mut Buf, &Weight), c: (&mut Buf, &Weight), x: &Buf) {
        self.multiply([a, b, c].map(|(out, w)| Product { out, w, then: Then::Store }), x);
    }

    fn matmul2_experts(&mut self, a: (&mut Buf, &Weight), b: (&mut Buf, &Weight), x: &Buf, routes: &Routes) {
        self.multiply_experts([a, b], x, routes);
    }
}
