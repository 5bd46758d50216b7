//! Whether an adapter multiplies packed bytes by an instruction of its own. Every shader language has that product, but where it
//! is only spelled out, four products of floats are cheaper.
#![cfg_attr(not(any(target_arch = "wasm32", target_vendor = "apple")), allow(unsafe_code))]

use wgpu::{Adapter, Backend};

/// As its driver says. DX12's do not tell, and are taken to have it; Metal has no such product, and of a browser nobody knows.
pub(crate) fn multiplies_bytes(adapter: &Adapter) -> bool {
    match adapter.get_info().backend {
        #[cfg(not(any(target_arch = "wasm32", target_vendor = "apple")))]
        Backend::Vulkan => vulkan(adapter).unwrap_or(false),
        Backend::Dx12 => true,
        _ => false,
    }
}

/// `None` where the driver does not tell, and shaders are given the product spelled out.
#[cfg(not(any(target_arch = "wasm32", target_vendor = "apple")))]
fn vulkan(adapter: &Adapter) -> Option<bool> {
    use ash::vk;
    // SAFETY: nothing of the adapter is destroyed here; the guard lives until the end of the function.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let shared = adapter.shared_instance();
    let known = adapter.physical_device_capabilities();
    let has_it = known.properties().api_version >= vk::API_VERSION_1_3
        || known.supports_extension(ash::khr::shader_integer_dot_product::NAME);
    if shared.instance_api_version() < vk::API_VERSION_1_1 || !has_it {
        return None;
    }
    let mut products = vk::PhysicalDeviceShaderIntegerDotProductProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut products);
    let device = adapter.raw_physical_device();
    // SAFETY: the instance is of version 1.1, which has the call, and outlives it; the physical device is the instance's;
    // the structures are made by ash, and the driver knows the second one.
    unsafe { shared.raw_instance().get_physical_device_properties2(device, &mut properties) };
    Some(products.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE)
}
