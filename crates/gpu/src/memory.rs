//! How much memory an adapter has, as its driver says. Asked of the interface beneath wgpu, which does not tell.

mod amount;
#[cfg(windows)]
mod dx12;
#[cfg(target_vendor = "apple")]
mod metal;
mod system;
#[cfg(not(any(target_arch = "wasm32", target_vendor = "apple")))]
mod vulkan;

use wgpu::{Adapter, DeviceType};

pub use amount::Memory;

impl Memory {
    /// What the driver says, bounded by the system's memory where the adapter has none of its own.
    pub(crate) fn of(adapter: &Adapter) -> Option<Memory> {
        let memory = driver(adapter)?;
        match adapter.get_info().device_type {
            DeviceType::IntegratedGpu | DeviceType::Cpu => Some(memory.shared(system::memory())),
            DeviceType::DiscreteGpu | DeviceType::VirtualGpu | DeviceType::Other => Some(memory),
        }
    }
}

/// What the driver says.
#[cfg_attr(target_arch = "wasm32", allow(unused_variables, reason = "a browser does not tell"))]
fn driver(adapter: &Adapter) -> Option<Memory> {
    #[cfg(target_vendor = "apple")]
    return metal::memory(adapter);
    #[cfg(windows)]
    return vulkan::memory(adapter).or_else(|| dx12::memory(adapter));
    #[cfg(not(any(target_arch = "wasm32", target_vendor = "apple", windows)))]
    return vulkan::memory(adapter);
    #[cfg(target_arch = "wasm32")]
    None
}
