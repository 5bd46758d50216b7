//! The adapters of this machine, and which one is taken.

use std::sync::OnceLock;

use wgpu::{Adapter, Backends, DeviceType, Features, Instance, InstanceDescriptor};

use crate::{AdapterChoice, Cooperative, Error, Memory};

/// An adapter, for people to read.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterInfo {
    /// The device's name.
    pub name: String,
    /// `vulkan`, `metal`, `dx12`, `webgpu`.
    pub backend: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `other`.
    pub kind: &'static str,
    /// The driver's name and version.
    pub driver: String,
    /// Bytes of its memory; `None` where the driver does not say.
    pub memory: Option<Memory>,
    /// Most bytes of one binding.
    pub max_binding: u64,
    /// Most bytes of one buffer.
    pub max_buffer: u64,
    /// Whether it can sum within subgroups.
    pub subgroups: bool,
    /// Whether it computes in half precision.
    pub f16: bool,
    /// Its cooperative matrices, if it has some of halves that are summed as floats.
    pub cooperative: Option<Cooperative>,
}

impl AdapterInfo {
    fn of(adapter: &Adapter) -> AdapterInfo {
        let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
        AdapterInfo {
            name: info.name,
            backend: info.backend.to_string(),
            kind: match info.device_type {
                DeviceType::DiscreteGpu => "discrete",
                DeviceType::IntegratedGpu => "integrated",
                DeviceType::VirtualGpu => "virtual",
                DeviceType::Cpu => "software",
                DeviceType::Other => "other",
            },
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            memory: Memory::of(adapter),
            max_binding: limits.max_storage_buffer_binding_size,
            max_buffer: limits.max_buffer_size,
            subgroups: features.contains(Features::SUBGROUP),
            f16: features.contains(Features::SHADER_F16),
            cooperative: Cooperative::of(adapter),
        }
    }
}

/// The one instance of the process: making one loads every driver.
pub(crate) fn instance() -> &'static Instance {
    static INSTANCE: OnceLock<Instance> = OnceLock::new();
    let backends = Backends::VULKAN | Backends::METAL | Backends::DX12 | Backends::BROWSER_WEBGPU;
    INSTANCE.get_or_init(|| {
        Instance::new(InstanceDescriptor { backends, ..InstanceDescriptor::new_without_display_handle() })
    })
}

/// The adapters, in the order that [`AdapterChoice::Index`] counts.
pub async fn adapters_async() -> Vec<AdapterInfo> {
    instance().enumerate_adapters(Backends::all()).await.iter().map(AdapterInfo::of).collect()
}

/// The adapters, in the order that [`AdapterChoice::Index`] counts.
#[cfg(not(target_arch = "wasm32"))]
pub fn adapters() -> Vec<AdapterInfo> {
    pollster::block_on(adapters_async())
}

/// Whether a software adapter may be taken without being named.
fn software_allowed() -> bool {
    std::env::var_os("CANDOR_GPU_SOFTWARE").is_some_and(|value| value == "1")
}

/// Takes the adapter that was chosen, or else the first of the best kind.
pub(crate) async fn choose(instance: &Instance, choice: Option<&AdapterChoice>) -> Result<Adapter, Error> {
    let mut all = instance.enumerate_adapters(Backends::all()).await;
    let names: Vec<String> = all.iter().map(|adapter| adapter.get_info().name).collect();
    let found = match choice {
        Some(AdapterChoice::Index(index)) => (*index < all.len()).then_some(*index),
        Some(AdapterChoice::Name(name)) => {
            names.iter().position(|found| found.to_lowercase().contains(&name.to_lowercase()))
        }
        None => {
            let software = software_allowed();
            let rank = |index: &usize| match all[*index].get_info().device_type {
                DeviceType::DiscreteGpu => 0,
                DeviceType::IntegratedGpu => 1,
                DeviceType::VirtualGpu => 2,
                DeviceType::Other => 3,
                DeviceType::Cpu => 4,
            };
            (0..all.len()).filter(|index| software || rank(index) < 4).min_by_key(rank)
        }
    };
    match (found, choice) {
        (Some(index), _) => Ok(all.swap_remove(index)),
        (None, Some(choice)) => {
            let wanted = match choice {
                AdapterChoice::Index(index) => index.to_string(),
                AdapterChoice::Name(name) => name.clone(),
            };
            Err(Error::NoSuchAdapter { wanted, found: names })
        }
        (None, None) => Err(Error::NoAdapter { found: names }),
    }
}
