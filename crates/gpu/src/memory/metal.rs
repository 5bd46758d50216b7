//! Metal: the working set that the system recommends, less what this process has taken.
#![allow(unsafe_code)]

use objc2_metal::MTLDevice;
use wgpu::Adapter;

use super::amount::Memory;

/// What the system says; `None` if the adapter is not Metal's.
pub(super) fn memory(adapter: &Adapter) -> Option<Memory> {
    // SAFETY: nothing of the adapter is destroyed here; the guard lives until the end of the function.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Metal>() }?;
    let device = adapter.raw_device();
    let total = device.recommendedMaxWorkingSetSize();
    let taken = device.currentAllocatedSize() as u64;
    (total > 0).then_some(Memory { total, free: Some(total.saturating_sub(taken)) })
}
