//! DX12: the budget that DXGI gives this process of the memory on the adapter.
#![allow(unsafe_code)]

use wgpu::Adapter;

use super::amount::Memory;

/// What DXGI says; `None` if the adapter is not DX12's.
pub(super) fn memory(adapter: &Adapter) -> Option<Memory> {
    // SAFETY: nothing of the adapter is destroyed here; the guard lives until the end of the function.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Dx12>() }?;
    // The default segment is the adapter's own memory (DXGI_MEMORY_SEGMENT_GROUP_LOCAL, 0).
    let info = adapter.raw_adapter().query_video_memory_info(Default::default()).ok()?;
    let free = info.Budget.saturating_sub(info.CurrentUsage);
    (info.Budget > 0).then_some(Memory { total: info.Budget, free: Some(free) })
}
