//! The operations of the backend.

use std::task::{Context, Poll};

use candor_ops::{
    Attention, Columns, Error, KvPlan, Norm, Ops, Prims, Ranked, Recurrence, Rope, Router, Step, Stored, Tensor,
    Traffic, Unary, top_k,
};

use crate::attention;
use crate::buffer::{Buf, Snapshot};
use crate::cache::{self, Cache};
use crate::kernel::{Kernel, Store};
use crate::record::Dispatch;
use crate::turns::Turns;
use crate::{Counters, Gpu, Routes, Weight, experts, heads, product, recurrent, rows, top, turns};

impl Prims for Gpu {
    type Weight = Weight;
    type Buf = Buf;
    type Kv = Cache;
    type Rope = Turns;
    type Snapshot = Snapshot;
    type Routes = Routes;

    fn weight(&mut self, tensor: Tensor) -> Result<Weight, Error> {
        let (weight, made) = Weight::upload(&self.device, &tensor, self.spares.as_ref())?;
        self.recorder.counters.buffers += made;
        Ok(weight)
    }

    fn recycle_weights(&mut self) {
        self.spares = Some(self.device.spares());
    }

    fn buffer(&mut self, rows: usize, width: usize) -> Buf {
        let storage = self.storage((rows * Buf::stride_of(width) * 4) as u64);
        Buf::of(storage, [0, 0], width)
    }

    fn check_kv(&self, plan: &KvPlan) -> Result<(), Error> {
        plan.check()
    }

    fn kv(&mut self, plan: &KvPlan) -> Cache {
        cache::cache(self, plan)
    }

    fn stored<'a>(&mut self, kv: &'a mut Cache) -> Option<&'a mut dyn Stored> {
        // What was recorded before comes before what is read or written now.
        self.recorder.submit(&self.device);
        Some(kv)
    }

    fn rope_table(&mut self, rope: Rope) -> Turns {
        turns::turns(self, &rope)
    }

    fn embed(&mut self, out: &mut Buf, table: &Weight, step: &Step) {
        (out.rows, out.decoding) = (step.tokens.len(), step.decoding);
        let Gpu { device, recorder, places, .. } = self;
        let places = places.stage(device, recorder, step);
        for part in &table.parts {
            let numbers = [table.stride, table.tails, part.first, part.rows, out.quads()];
            recorder.dispatch(
                device,
                &Dispatch {
                    kernel: Kernel::Embed(table.format),
                    buffers: &[&part.storage, places, &out.storage],
                    numbers: &numbers,
                    grid: [out.quads().div_ceil(4 * 64), out.rows as u32, 1],
                },
            );
        }
    }

    fn rms_norm(&mut self, out: &mut Buf, x: &Buf, w: &Weight, eps: f32) {
        out.like(x);
        let rounded = product::room_beside(self, out);
        let buffers = [w.vector(), &x.storage, &out.storage, rounded.as_deref().unwrap_or(&out.storage)];
        self.dispatch(&Dispatch {
            kernel: if rounded.is_some() { Kernel::RmsNormRounded } else { Kernel::RmsNorm },
            buffers: &buffers[..3 + usize::from(rounded.is_some())],
            numbers: &[x.width as u32, x.quads(), eps.to_bits()],
            grid: [x.rows as u32, 1, 1],
        });
        out.round(rounded.is_some());
    }

    fn routes(&mut self, rows: usize, used: usize) -> Routes {
        experts::routes(self, rows, used)
    }

    fn norm(&mut self, x: &mut Buf, norm: Norm, weight: Option<&Weight>, bias: Option<&Weight>) {
        rows::norm(self, x, norm, weight, bias);
    }

    fn matmul(&mut self, out: &mut Buf, x: &Buf, w: &Weight) {
        product::matmul(self, out, x, w, Store::Set);
    }

    fn matmul_rows(&mut self, out: &mut Buf, x: &Buf, w: &Weight, step: &Step) {
        product::matmul_rows(self, out, x, w, step);
    }

    fn add_bias(&mut self, x: &mut Buf, bias: &Weight) {
        rows::binary(self, Kernel::AddBias, x, (bias.vector(), 0));
    }

    fn rope(&mut self, x: &mut Buf, rope: &Turns, head_dim: usize, step: &Step) {
        turns::rope(self, x, rope, head_dim, step);
    }

    fn kv_write(&mut self, kv: &mut Cache, layer: usize, k: &Buf, v: &Buf, step: &Step) {
        cache::write(self, kv, layer, [k, v], step);
    }

    fn attend(
        &mut self,
        out: &mut Buf,
        q: &Buf,
        kv: &Cache,
        layer: usize,
        attention: Attention<'_, Weight>,
        step: &Step,
    ) {
        attention::attend(self, out, q, (kv, layer), attention, step);
    }

    fn unary(&mut self, x: &mut Buf, f: Unary) {
        rows::unary(self, x, f);
    }

    fn mul(&mut self, x: &mut Buf, y: &Buf) {
        rows::binary(self, Kernel::Mul, x, (&y.storage, y.quads()));
    }

    fn add(&mut self, x: &mut Buf, y: &Buf) {
        rows::binary(self, Kernel::Add, x, (&y.storage, y.quads()));
    }

    fn copy(&mut self, out: &mut Buf, x: &Buf, columns: Columns) {
        out.like(x);
        rows::columns(self, (&out.storage, out.stride), x, columns);
    }

    fn add_positions(&mut self, x: &mut Buf, table: &Weight, step: &Step) {
        rows::add_positions(self, x, table, step);
    }

    fn mul_columns(&mut self, x: &mut Buf, w: &Weight) {
        rows::binary(self, Kernel::MulColumns, x, (w.vector(), 0));
    }

    fn mul_groups(&mut self, x: &mut Buf, y: &Buf) {
        rows::mul_groups(self, x, y);
    }

    fn dot_groups(&mut self, out: &mut Buf, x: &Buf, y: &Buf) {
        rows::dot_groups(self, out, x, y);
    }

    fn matmul_heads(&mut self, out: &mut Buf, x: &Buf, w: &Weight, heads: usize) {
        heads::matmul(self, out, x, w, heads);
    }

    fn conv(&mut self, out: &mut Buf, kv: &mut Cache, place: (usize, usize), x: &Buf, w: &Weight, step: &Step) {
        recurrent::conv(self, out, kv, place, x, w, step);
    }

    fn recur(
        &mut self,
        out: &mut Buf,
        kv: &mut Cache,
        place: (usize, usize),
        inputs: Recurrence<'_, Weight, Buf>,
        step: &Step,
    ) {
        recurrent::recur(self, out, kv, place, inputs, step);
    }

    fn route(&mut self, routes: &mut Routes, logits: &Buf, bias: Option<&Weight>, router: Router) {
        experts::route(self, routes, logits, bias, router);
    }

    fn choices(&mut self, routes: &Routes) -> Snapshot {
        experts::choices(self, routes)
    }

    fn chosen(&mut self, choices: &Snapshot, out: &mut Vec<(u32, f32)>) {
        experts::chosen(self, choices, out);
    }

    fn matmul_experts(&mut self, out: &mut Buf, x: &Buf, w: &Weight, routes: &Routes) {
        experts::products(self, &mut [(out, w)], x, routes);
    }

    fn add_bias_experts(&mut self, x: &mut Buf, bias: &Weight, routes: &Routes) {
        experts::add_bias(self, x, bias, routes);
    }

    fn scale_experts(&mut self, x: &mut Buf, routes: &Routes) {
        experts::scale(self, x, routes);
    }

    fn sum_experts(&mut self, out: &mut Buf, x: &Buf, routes: &Routes) {
        experts::sum(self, out, x, routes);
    }

    fn upload(&mut self, x: &mut Buf, values: &[f32], step: &Step) {
        (x.rows, x.decoding) = (step.tokens.len(), step.decoding);
        let Gpu { device, recorder, places, .. } = self;
        // What was recorded before may still read the buffer.
        recorder.submit(device);
        x.storage.written();
        places.stage(device, recorder, step);
        let write = |row: usize, values: &[f32]| {
            let at = (row * x.stride * 4) as u64;
            device.queue.write_buffer(&x.storage.buffer, at, bytemuck::cast_slice(values));
        };
        match x.stride == x.width {
            true => write(0, values),
            false => values.chunks_exact(x.width).enumerate().for_each(|(row, values)| write(row, values)),
        }
    }

    fn snapshot(&mut self, x: &Buf) -> Snapshot {
        let storage = self.pooled((x.rows * x.width * 4) as u64);
        rows::columns(self, (&storage, x.width), x, Columns::run(x.width, 0, 0));
        Snapshot::new(storage, x.rows * x.width)
    }

    fn elements(&self, snapshot: &Snapshot) -> usize {
        snapshot.len
    }

    fn poll_read(&mut self, snapshot: &mut Snapshot, cx: &mut Context<'_>) -> Poll<()> {
        // Elsewhere reading waits.
        if cfg!(target_arch = "wasm32") { self.recorder.poll(&self.device, snapshot, cx) } else { Poll::Ready(()) }
    }

    fn download(&mut self, snapshot: &Snapshot, out: &mut Vec<f32>) {
        out.clear();
        out.resize(snapshot.len, 0.0);
        let values: &mut [u8] = bytemuck::cast_slice_mut(out);
        self.recorder.read(&self.device, snapshot, &mut |read| values.copy_from_slice(read));
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.recorder.submit(&self.device);
        match self.device.fault.get().or_else(|| self.refused.clone()) {
            Some(what) => Err(self.failed(what)),
            None => Ok(()),
        }
    }
}

impl Ops for Gpu {
    fn swiglu(&mut self, gate: &mut Buf, up: &Buf) {
        rows::swiglu(self, gate, up);
    }

    fn matmul2(&mut self, a: (&mut Buf, &Weight), b: (&mut Buf, &Weight), x: &Buf) {
        product::all(self, &mut [a, b], x, Store::Set);
    }

    fn matmul3(&mut self, a: (&mut Buf, &Weight), b: (&mut Buf, &Weight), c: (&mut Buf, &Weight), x: &Buf) {
        product::all(self, &mut [a, b, c], x, Store::Set);
    }

    fn matmul2_experts(&mut self, a: (&mut Buf, &Weight), b: (&mut Buf, &Weight), x: &Buf, routes: &Routes) {
        experts::products(self, &mut [a, b], x, routes);
    }

    fn matmul_add(&mut self, x: &mut Buf, h: &Buf, w: &Weight, _product: &mut Buf) {
        product::matmul(self, x, h, w, Store::Add);
    }

    fn rope_write(
        &mut self,
        kv: &mut Cache,
        layer: usize,
        rows: [&mut Buf; 3],
        (rope, head_dim): (&Turns, usize),
        step: &Step,
    ) {
        turns::write(self, kv, layer, rows.map(|rows| &*rows), (rope, head_dim), step);
    }

    const TOP_K: usize = top::MOST;

    fn top_k(&mut self, x: &Buf, width: usize, k: usize) -> Snapshot {
        if top::finds(width, k) { top::find(self, x, width, k) } else { self.snapshot(x) }
    }

    fn ranked(&mut self, best: &Snapshot, width: usize, k: usize, out: &mut Vec<Ranked>) {
        if top::finds(width, k) {
            return top::read(self, best, width, k, out);
        }
        let mut values = Vec::new();
        self.download(best, &mut values);
        out.clear();
        values.chunks_exact(width).for_each(|row| top_k(row, k, out));
    }

    fn traffic(&self) -> Traffic {
        let Counters { submits, bytes_read, buffers, bind_groups, .. } = self.counters();
        Traffic { submits, bytes_read, made: buffers + bind_groups }
    }
}
