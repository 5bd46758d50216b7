//! The best elements of rows, found on the device: a few bytes come back instead of the rows.
//!
//! A workgroup finds those of a slice of a row, and another one those of all slices' best and their order.

use candor_ops::Ranked;

use crate::Gpu;
use crate::buffer::{Buf, Snapshot};
use crate::kernel::{Kernel, TOP_SLICE};
use crate::record::Dispatch;

/// Elements found on the device at most: the best of all slices must be few enough for one workgroup.
pub(crate) const MOST: usize = 256;

/// Bytes of an element that is found: its value and its place.
const PAIR: usize = 8;

/// Whether that many of a row are found on the device.
pub(crate) fn finds(width: usize, k: usize) -> bool {
    k.min(width) <= MOST
}

/// Elements that a row of the result has room for: so that shaders and bindings are a handful, however many are asked for.
fn room(k: usize) -> usize {
    k.next_power_of_two()
}

/// The best `k` of each row in flight: [`PAIR`]s, a row for each.
pub(crate) fn find(gpu: &mut Gpu, x: &Buf, width: usize, k: usize) -> Snapshot {
    let (rows, k) = (x.rows, k.min(width));
    if rows == 0 || k == 0 {
        return Snapshot::new(gpu.pooled(0), 0);
    }
    let room = room(k);
    let slices = width.div_ceil(TOP_SLICE as usize);
    let best = gpu.pooled((rows * slices * room * PAIR) as u64);
    let sorted = gpu.pooled((rows * room * PAIR) as u64);
    let row = [width as u32, x.stride as u32, slices as u32];
    let kernel = Kernel::TopSlice { k: room as u32 };
    let grid = [slices as u32, rows as u32, 1];
    gpu.dispatch(&Dispatch { kernel, buffers: &[&x.storage, &best], numbers: &row, grid });
    let kernel = Kernel::TopMerge { k: room as u32 };
    let grid = [1, rows as u32, 1];
    gpu.dispatch(&Dispatch { kernel, buffers: &[&best, &sorted], numbers: &row, grid });
    let bytes = ((rows - 1) * room + k) * PAIR;
    Snapshot::new(sorted, bytes / 4)
}

/// Reads what [`find`] found.
pub(crate) fn read(gpu: &mut Gpu, best: &Snapshot, width: usize, k: usize, out: &mut Vec<Ranked>) {
    let k = k.min(width);
    let room = room(k);
    out.clear();
    gpu.recorder.read(&gpu.device, best, &mut |bytes| {
        for row in bytes.chunks(room * PAIR) {
            out.extend(row.chunks_exact(PAIR).take(k).map(|pair| {
                let [value, place] = bytemuck::pod_read_unaligned::<[u32; 2]>(pair);
                (place, f32::from_bits(value))
            }));
        }
    });
    // After a failure nothing was read; `finish` tells it.
    let rows = best.bytes().div_ceil((room * PAIR) as u64) as usize;
    out.resize(rows * k, (0, f32::NAN));
}
