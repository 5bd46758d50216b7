//! The place of a row's greatest element, found on the device: a few bytes come back instead of the row.

use crate::Gpu;
use crate::buffer::Buf;
use crate::kernel::Kernel;
use crate::record::Dispatch;

/// Of the only row in flight; `None` where an element is not a number.
pub(crate) fn best(gpu: &mut Gpu, x: &Buf, width: usize) -> Option<u32> {
    // Two words at least are read, and the rest of the row's norm has to lie somewhere.
    let storage = gpu.pooled((x.stride.max(2) * 4) as u64);
    let row = [width as u32, x.stride as u32];
    // The norm of a row is NaN throughout where one element is, so that one of its elements, the second, tells; it
    // stays when the place goes where the first was.
    let buffers = [&x.storage, &x.storage, &storage];
    let numbers = [row[0], row[1], 1f32.to_bits()];
    gpu.dispatch(&Dispatch { kernel: Kernel::RmsNorm, buffers: &buffers, numbers: &numbers, grid: [1, 1, 1] });
    let buffers = [&x.storage, &*storage];
    gpu.dispatch(&Dispatch { kernel: Kernel::Argmax, buffers: &buffers, numbers: &row, grid: [1, 1, 1] });
    let mut read = [0u32; 2];
    gpu.recorder.read(&gpu.device, &storage, 8, &mut |bytes| {
        bytemuck::cast_slice_mut(&mut read).copy_from_slice(bytes);
    });
    (width < 2 || !f32::from_bits(read[1]).is_nan()).then_some(read[0])
}

/// Of each row in flight.
pub(crate) fn argmax(gpu: &mut Gpu, x: &Buf, width: usize, out: &mut Vec<u32>) {
    out.clear();
    out.resize(x.rows, 0);
    let storage = gpu.pooled((x.rows * 4) as u64);
    gpu.dispatch(&Dispatch {
        kernel: Kernel::Argmax,
        buffers: &[&x.storage, &storage],
        numbers: &[width as u32, x.stride as u32],
        grid: [x.rows as u32, 1, 1],
    });
    if x.rows > 0 {
        let values: &mut [u8] = bytemuck::cast_slice_mut(out);
        let bytes = values.len() as u64;
        gpu.recorder.read(&gpu.device, &storage, bytes, &mut |read| values.copy_from_slice(read));
    }
}
