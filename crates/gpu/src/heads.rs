//! Products per head: each has a matrix of its own.

use crate::buffer::Buf;
use crate::format::RUN;
use crate::kernel::{Kernel, MAT_VEC_ROWS, TILE, rows_per_group};
use crate::product::{Made, batches, kinds, tile_of};
use crate::record::Dispatch;
use crate::{Gpu, Weight};

pub(crate) fn matmul(gpu: &mut Gpu, out: &mut Buf, x: &Buf, w: &Weight, heads: usize) {
    out.like(x);
    if w.cols.is_multiple_of(RUN) {
        return products(gpu, out, x, w, heads);
    }
    // Parts of rows begin where a vector does.
    let padded = w.cols.next_multiple_of(RUN);
    let width = heads * padded;
    let storage = gpu.pooled((x.rows * width * 4) as u64);
    gpu.dispatch(&Dispatch {
        kernel: Kernel::Pad,
        buffers: &[&x.storage, &storage],
        numbers: &[heads, w.cols, padded, x.stride].map(|number| number as u32),
        grid: [width.div_ceil(64) as u32, x.rows as u32, 1],
    });
    let x = Buf::of((*storage).clone(), [x.rows, x.decoding], width);
    products(gpu, out, &x, w, heads);
}

fn products(gpu: &mut Gpu, out: &Buf, x: &Buf, w: &Weight, heads: usize) {
    let variant = gpu.device.variant;
    let kinds = kinds(x.prefill(), x.decoding);
    let made = Made::new(gpu, x, kinds, std::iter::once(w));
    let [heads, outputs] = [heads, out.width / heads].map(|number| number as u32);
    for (part, &few) in w.parts.iter().flat_map(|part| kinds.iter().map(move |few| (part, few))) {
        let (storage, stride, inputs) = made.of(x, w, variant, few);
        let [a, b, c, d, e] = [w.runs, w.stride, w.tails, part.rows, part.first];
        let (f, g, x_runs) = (stride, out.stride as u32, (x.stride / RUN) as u32);
        let Gpu { device, recorder, places, .. } = &mut *gpu;
        let (places, which) = places.count(device, recorder, x.prefill());
        let buffers = [&part.storage, storage, places, &out.storage];
        if few {
            for [rows, count, skipped] in batches(x.decoding) {
                let dispatch = Dispatch {
                    kernel: Kernel::HeadVec { format: w.format, rows, inputs },
                    buffers: &buffers,
                    numbers: &[a, b, c, d, e, f, g, outputs, x_runs, which, skipped, count],
                    grid: [outputs.div_ceil(rows_per_group(rows)) * count, heads, 1],
                };
                recorder.dispatch(device, &dispatch);
            }
        } else {
            let dispatch = Dispatch {
                kernel: Kernel::HeadMul { format: w.format, tile: tile_of(w, variant) },
                buffers: &buffers,
                numbers: &[a, b, c, d, e, f, g, outputs, x_runs, which],
                grid: [outputs.div_ceil(TILE), heads, (x.prefill() as u32).div_ceil(TILE)],
            };
            recorder.dispatch(device, &dispatch);
        }
        if x.rows > MAT_VEC_ROWS {
            let rows = if few { x.decoding } else { x.prefill() };
            recorder.worked(device, rows * part.rows as usize * w.cols);
        }
    }
}
