//! Operations that take each row, run or element by itself.

use candor_ops::{Columns, Norm, NormKind, Step, Unary};

use crate::buffer::Buf;
use crate::device::Storage;
use crate::kernel::{self, Function, Kernel, ROW_GROUP};
use crate::record::Dispatch;
use crate::{Gpu, Weight, product};

/// Elements of a run from which on it has a larger workgroup.
const LONG: usize = 512;

/// `x = f(x, y)`, `y` beginning again every `stride` elements of four, or with every row where that is 0.
pub(crate) fn binary(gpu: &mut Gpu, kernel: Kernel, x: &Buf, (y, stride): (&Storage, u32)) {
    let quads = x.quads();
    let grid = [quads.div_ceil(64), x.rows as u32, 1];
    gpu.dispatch(&Dispatch { kernel, buffers: &[y, &x.storage], numbers: &[quads, stride], grid });
}

/// `gate = silu(gate) * up`, rounded where products will take it so.
pub(crate) fn swiglu(gpu: &mut Gpu, gate: &mut Buf, up: &Buf) {
    let rounded = product::room_beside(gpu, gate);
    let buffers = [&up.storage, &gate.storage, rounded.as_deref().unwrap_or(&gate.storage)];
    let quads = gate.quads();
    gpu.dispatch(&Dispatch {
        kernel: if rounded.is_some() { Kernel::SwigluRounded } else { Kernel::Swiglu },
        buffers: &buffers[..2 + usize::from(rounded.is_some())],
        numbers: &[quads, up.quads()],
        grid: [quads.div_ceil(64), gate.rows as u32, 1],
    });
    gate.round(rounded.is_some());
}

pub(crate) fn unary(gpu: &mut Gpu, x: &Buf, f: Unary) {
    let (function, [a, b, c, d]) = Function::of(f);
    let [a, b, c, d] = [a, b, c, d].map(f32::to_bits);
    let quads = x.quads();
    gpu.dispatch(&Dispatch {
        kernel: Kernel::Unary(function),
        buffers: &[&x.storage],
        numbers: &[quads, x.width as u32, a, b, c, d],
        grid: [quads.div_ceil(64), x.rows as u32, 1],
    });
}

pub(crate) fn norm(gpu: &mut Gpu, x: &Buf, norm: Norm, weight: Option<&Weight>, bias: Option<&Weight>) {
    let grid = [(x.width / norm.run) as u32, x.rows as u32, 1];
    let (run, stride, eps) = (norm.run as u32, x.stride as u32, norm.eps.to_bits());
    // What most models do to heads has a shader of its own.
    if let (NormKind::Rms, Some(weight), None) = (norm.kind, weight, bias)
        && weight.cols == norm.run
    {
        let buffers = [weight.vector(), &x.storage];
        return gpu.dispatch(&Dispatch {
            kernel: Kernel::HeadNorm,
            buffers: &buffers,
            numbers: &[run, stride, eps],
            grid,
        });
    }
    let group = if norm.run < LONG { 64 } else { ROW_GROUP };
    let kernel = kernel::Norm { kind: norm.kind, weight: weight.is_some(), bias: bias.is_some(), group };
    let len = |w: Option<&Weight>| w.map_or(1, |w| w.cols as u32);
    let vectors = [weight.or(bias), bias].map(|w| w.map_or(&x.storage, Weight::vector));
    let buffers = [&x.storage, vectors[0], vectors[1]];
    let count = 1 + usize::from(weight.is_some()) + usize::from(bias.is_some());
    gpu.dispatch(&Dispatch {
        kernel: Kernel::Norm(kernel),
        buffers: &buffers[..count],
        numbers: &[run, stride, eps, len(weight), len(bias)],
        grid,
    });
}

/// Some columns of `x` into rows of `stride` elements.
pub(crate) fn columns(gpu: &mut Gpu, (out, stride): (&Storage, usize), x: &Buf, columns: Columns) {
    let Columns { groups, len, from, to } = columns;
    let numbers = [groups * len, len, from.0, from.1, to.0, to.1, x.stride, stride].map(|number| number as u32);
    gpu.dispatch(&Dispatch {
        kernel: Kernel::Columns,
        buffers: &[&x.storage, out],
        numbers: &numbers,
        grid: [numbers[0].div_ceil(64), x.rows as u32, 1],
    });
}

pub(crate) fn add_positions(gpu: &mut Gpu, x: &Buf, table: &Weight, step: &Step<'_>) {
    let Gpu { device, recorder, places, .. } = gpu;
    let places = places.stage(device, recorder, step);
    for part in &table.parts {
        let dispatch = Dispatch {
            kernel: Kernel::AddPositions(table.format),
            buffers: &[&part.storage, places, &x.storage],
            numbers: &[table.stride, table.tails, part.first, part.rows, x.quads()],
            grid: [x.quads().div_ceil(4 * 64), x.rows as u32, 1],
        };
        recorder.dispatch(device, &dispatch);
    }
}

pub(crate) fn mul_groups(gpu: &mut Gpu, x: &Buf, y: &Buf) {
    gpu.dispatch(&Dispatch {
        kernel: Kernel::ScaleGroups,
        buffers: &[&y.storage, &x.storage],
        numbers: &[x.width, x.width / y.width, x.stride, y.stride].map(|number| number as u32),
        grid: [x.width.div_ceil(64) as u32, x.rows as u32, 1],
    });
}

pub(crate) fn dot_groups(gpu: &mut Gpu, out: &mut Buf, x: &Buf, y: &Buf) {
    out.like(x);
    gpu.dispatch(&Dispatch {
        kernel: Kernel::DotGroups,
        buffers: &[&x.storage, &y.storage, &out.storage],
        numbers: &[x.width / out.width, x.stride, out.stride].map(|number| number as u32),
        grid: [out.width as u32, x.rows as u32, 1],
    });
}
