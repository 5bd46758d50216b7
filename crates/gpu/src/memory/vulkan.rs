//! Vulkan: the heaps that lie on the device, and VK_EXT_memory_budget where the driver has it.
#![allow(unsafe_code)]

use ash::vk;
use wgpu::Adapter;

use super::amount::Memory;

/// What the driver says of the heaps on the device; `None` if the adapter is not Vulkan's.
pub(super) fn memory(adapter: &Adapter) -> Option<Memory> {
    // SAFETY: nothing of the adapter is destroyed here; the guard lives until the end of the function.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let shared = adapter.shared_instance();
    if shared.instance_api_version() < vk::API_VERSION_1_1 {
        return None;
    }
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let tells = adapter.physical_device_capabilities().supports_extension(ash::ext::memory_budget::NAME);
    let properties = vk::PhysicalDeviceMemoryProperties2::default();
    let mut properties = if tells { properties.push_next(&mut budget) } else { properties };
    let device = adapter.raw_physical_device();
    // SAFETY: the instance is of version 1.1, which has the call, and outlives it; the physical device is the instance's;
    // the structures are made by ash, and the second one is chained only where the driver knows it.
    unsafe { shared.raw_instance().get_physical_device_memory_properties2(device, &mut properties) };
    let memory = properties.memory_properties;
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize).enumerate();
    let mut sum = Memory { total: 0, free: tells.then_some(0) };
    for (i, heap) in heaps.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL)) {
        sum.total = sum.total.saturating_add(heap.size);
        let free = budget.heap_budget[i].saturating_sub(budget.heap_usage[i]);
        sum.free = sum.free.map(|sum| sum.saturating_add(free));
    }
    (sum.total > 0).then_some(sum)
}
