//! Products with matrices: few rows of inputs one way, many another.

use std::sync::Arc;

use candor_ops::Step;
use candor_quant::Format;

use crate::buffer::Buf;
use crate::device::Storage;
use crate::format::{QUAD, RUN};
use crate::kernel::{Inputs, Kernel, MAT_VEC_ROWS, Store, TILE, Tile, rows_per_group};
use crate::record::Dispatch;
use crate::{Gpu, Variant, Weight};

/// Workgroups side by side at most; the rest goes to the second dimension.
const GRID: u32 = 32768;

/// `out = w @ x`, or `out += w @ x`.
pub(crate) fn matmul(gpu: &mut Gpu, out: &mut Buf, x: &Buf, w: &Weight, store: Store) {
    all(gpu, &mut [(out, w)], x, store);
}

/// Products of the same input, which is rounded once for those that want it rounded.
pub(crate) fn all(gpu: &mut Gpu, products: &mut [(&mut Buf, &Weight)], x: &Buf, store: Store) {
    let few = x.rows <= MAT_VEC_ROWS;
    let variant = gpu.device.variant;
    let wants = |w: &Weight| takes_bytes(w, variant, few);
    let rounded = products.iter().any(|(_, w)| wants(w)).then(|| Rounded::new(gpu, x));
    for (out, w) in products {
        out.like(x);
        let x = match &rounded {
            Some(rounded) if wants(w) => rounded.given(x.rows),
            _ => Given { storage: &x.storage, stride: x.quads(), rows: x.rows, inputs: Inputs::Floats },
        };
        if few { few_inputs(gpu, out, w, store, &x) } else { many_inputs(gpu, out, w, store, &x) }
    }
}

/// Whether a matrix's inputs, few or many, are rounded to bytes.
pub(crate) fn takes_bytes(w: &Weight, variant: Variant, few: bool) -> bool {
    variant.int8_dot && w.format.block_len() > 1 && (few || variant.cooperative.is_none())
}

/// How many inputs of a matrix are held.
pub(crate) fn tile_of(w: &Weight, variant: Variant) -> Tile {
    // The range of BF16 is what it is there for, and F32 is for those who want it exact.
    let narrow = !matches!(w.format, Format::F32 | Format::Bf16);
    match variant {
        _ if takes_bytes(w, variant, false) => Tile::Bytes,
        Variant { cooperative: Some(_), .. } if narrow => Tile::Cooperative,
        Variant { f16: true, .. } if narrow => Tile::Halves,
        _ => Tile::Floats,
    }
}

/// Inputs in blocks of 32 signed bytes with a scale.
pub(crate) struct Rounded {
    pub(crate) storage: Arc<Storage>,
    /// `vec4`s from row to row.
    pub(crate) stride: u32,
}

impl Rounded {
    pub(crate) fn new(gpu: &mut Gpu, x: &Buf) -> Rounded {
        let runs = x.stride.div_ceil(RUN);
        // A run is a `vec4` of bytes, and half a one of factors.
        let stride = runs + runs.div_ceil(2);
        let storage = gpu.pooled((x.rows * stride * QUAD) as u64);
        gpu.dispatch(&Dispatch {
            kernel: Kernel::Round,
            buffers: &[&x.storage, &storage],
            numbers: &[runs as u32, x.quads(), stride as u32],
            grid: [(runs as u32 * 4).div_ceil(64), x.rows as u32, 1],
        });
        Rounded { storage, stride: stride as u32 }
    }

    fn given(&self, rows: usize) -> Given<'_> {
        Given { storage: &self.storage, stride: self.stride, rows, inputs: Inputs::Bytes }
    }
}

/// Rows of inputs.
struct Given<'a> {
    storage: &'a Storage,
    stride: u32,
    rows: usize,
    inputs: Inputs,
}

fn few_inputs(gpu: &mut Gpu, out: &Buf, w: &Weight, store: Store, x: &Given<'_>) {
    let rows = x.rows as u32;
    for part in &w.parts {
        let groups = part.rows.div_ceil(rows_per_group(rows));
        gpu.dispatch(&Dispatch {
            kernel: Kernel::MatVec { format: w.format, rows, inputs: x.inputs, store },
            buffers: &[&part.storage, x.storage, &out.storage],
            numbers: &[w.runs, w.stride, w.tails, part.rows, part.first, x.stride, out.stride as u32],
            grid: if rows == 0 { [0; 3] } else { [groups.min(GRID), groups.div_ceil(GRID), 1] },
        });
    }
}

fn many_inputs(gpu: &mut Gpu, out: &Buf, w: &Weight, store: Store, x: &Given<'_>) {
    let Gpu { device, recorder, places, .. } = gpu;
    let (places, which) = places.count(device, recorder, x.rows);
    let tile = tile_of(w, device.variant);
    for part in &w.parts {
        let dispatch = Dispatch {
            kernel: Kernel::MatMul { format: w.format, tile, store },
            buffers: &[&part.storage, x.storage, places, &out.storage],
            numbers: &[w.runs, w.stride, w.tails, part.rows, part.first, x.stride, out.stride as u32, which],
            grid: [part.rows.div_ceil(TILE), (x.rows as u32).div_ceil(TILE), 1],
        };
        recorder.dispatch(device, &dispatch);
        recorder.worked(device, x.rows * part.rows as usize * w.cols);
    }
}

/// [`matmul`] of the step's output rows, which are brought together first where they are not all rows.
pub(crate) fn matmul_rows(gpu: &mut Gpu, out: &mut Buf, x: &Buf, w: &Weight, step: &Step<'_>) {
    if step.outputs.len() == x.rows {
        return matmul(gpu, out, x, w, Store::Set);
    }
    let rows = step.outputs.len();
    let storage = gpu.pooled((rows * x.stride * 4) as u64);
    let Gpu { device, recorder, places, .. } = gpu;
    let places = places.stage(device, recorder, step);
    let dispatch = Dispatch {
        kernel: Kernel::Gather,
        buffers: &[&x.storage, places, &storage],
        numbers: &[x.quads()],
        grid: [x.quads().div_ceil(64), rows as u32, 1],
    };
    recorder.dispatch(device, &dispatch);
    let prefill = step.outputs.partition_point(|&row| (row as usize) < x.rows - x.decoding);
    let picked = Buf { storage: (*storage).clone(), rows, decoding: rows - prefill, width: x.width, stride: x.stride };
    matmul(gpu, out, &picked, w, Store::Set);
}
