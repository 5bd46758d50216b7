//! Products with matrices: few rows of inputs one way, many another.

use candor_ops::Step;

use crate::buffer::Buf;
use crate::kernel::{Kernel, MAT_VEC_ROWS, Store, rows_per_group};
use crate::record::Dispatch;
use crate::{Gpu, Weight};

/// Workgroups side by side at most; the rest goes to the second dimension.
const GRID: u32 = 32768;

/// `out = w @ x`, or `out += w @ x`.
pub(crate) fn matmul(gpu: &mut Gpu, out: &mut Buf, x: &Buf, w: &Weight, store: Store) {
    out.rows = x.rows;
    for part in &w.parts {
        let shape = [w.runs, w.stride, w.tails, part.rows, part.first, x.quads(), out.stride as u32];
        let Gpu { device, recorder, places, .. } = gpu;
        if x.rows <= MAT_VEC_ROWS {
            let rows = x.rows as u32;
            let groups = part.rows.div_ceil(rows_per_group(rows));
            let dispatch = Dispatch {
                kernel: Kernel::MatVec { format: w.format, rows, store },
                buffers: &[&part.storage, &x.storage, &out.storage],
                numbers: &shape,
                grid: if rows == 0 { [0; 3] } else { [groups.min(GRID), groups.div_ceil(GRID), 1] },
            };
            recorder.dispatch(device, &dispatch);
        } else {
            let (places, which) = places.count(device, recorder, x.rows);
            let [a, b, c, d, e, f, g] = shape;
            let dispatch = Dispatch {
                kernel: Kernel::MatMul { format: w.format, store },
                buffers: &[&part.storage, &x.storage, places, &out.storage],
                numbers: &[a, b, c, d, e, f, g, which],
                grid: [part.rows.div_ceil(64), x.rows.div_ceil(64) as u32, 1],
            };
            recorder.dispatch(device, &dispatch);
        }
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
    let picked = Buf { storage: (*storage).clone(), rows, width: x.width, stride: x.stride };
    matmul(gpu, out, &picked, w, Store::Set);
}
