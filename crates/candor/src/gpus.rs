//! The GPUs of this machine, and the choice among them.

mod interface;

use crate::{Device, DeviceInfo, Error, LoadOptions};
use interface::Interface;

/// A GPU of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its place among all.
    pub(crate) index: usize,
    pub(crate) info: DeviceInfo,
    pub(crate) kind: Kind,
    /// The interface to it. A GPU may be there once for each.
    pub(crate) backend: String,
    /// Whether it has cooperative matrices.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "nothing finds one"))]
    pub(crate) cooperative: bool,
}

/// The sorts of GPUs, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "nothing finds one"))]
pub(crate) enum Kind {
    Discrete,
    Integrated,
    Virtual,
    Other,
    /// The processor: to be taken only where it is asked for.
    Emulation,
}

/// All GPUs, emulations included.
#[cfg(feature = "gpu")]
pub(crate) async fn all() -> Vec<Found> {
    let found = candor_gpu::adapters_async().await.into_iter().enumerate().map(|(index, adapter)| Found {
        index,
        backend: adapter.backend.clone(),
        cooperative: adapter.cooperative.is_some(),
        kind: match adapter.kind {
            "discrete" => Kind::Discrete,
            "integrated" => Kind::Integrated,
            "virtual" => Kind::Virtual,
            "software" => Kind::Emulation,
            _ => Kind::Other,
        },
        info: DeviceInfo {
            name: format!("gpu{index}"),
            driver: format!("{}, {}, {}{}", adapter.kind, adapter.backend, adapter.driver, matrices(&adapter)),
            description: adapter.name,
            total_bytes: adapter.memory.map(|memory| memory.total),
            free_bytes: adapter.memory.and_then(|memory| memory.free),
            budget_bytes: adapter.memory.map(|memory| memory.budget()),
        },
    });
    found.collect()
}

#[cfg(feature = "gpu")]
fn matrices(adapter: &candor_gpu::AdapterInfo) -> &'static str {
    if adapter.cooperative.is_some() { ", cooperative matrices" } else { "" }
}

/// None: the program was built without them.
#[cfg(not(feature = "gpu"))]
pub(crate) async fn all() -> Vec<Found> {
    Vec::new()
}

/// Those that options ask for: by name, or all of the best sort.
///
/// # Errors
/// If a name fits none.
pub(crate) async fn chosen(options: &LoadOptions) -> Result<Vec<Found>, Error> {
    let names = names(options);
    if options.device == Device::Auto && names.is_empty() && !emulations() && !may_exist() {
        return Ok(Vec::new());
    }
    choose(all().await, &names)
}

/// Whether emulations may be taken without being named.
fn emulations() -> bool {
    std::env::var_os("CANDOR_GPU_SOFTWARE").is_some_and(|value| value == "1")
}

/// Whether this machine may have a GPU. To list GPUs loads every driver, which takes a while, and some of them print; Linux
/// shows without them that there can be no GPU.
fn may_exist() -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    const FILES: [&str; 5] = ["/dev/dri", "/dev/nvidiactl", "/dev/dxg", "/dev/kgsl-3d0", "/dev/mali0"];
    FILES.iter().any(|file| std::path::Path::new(file).exists())
}

/// The names that options give, and the adapter, which counts like a name.
fn names(options: &LoadOptions) -> Vec<String> {
    #[cfg(feature = "gpu")]
    match &options.gpu.adapter {
        Some(candor_gpu::AdapterChoice::Index(index)) => return vec![format!("gpu{index}")],
        Some(candor_gpu::AdapterChoice::Name(name)) => return vec![name.clone()],
        None => {}
    }
    options.offload.names.clone()
}

fn choose(all: Vec<Found>, names: &[String]) -> Result<Vec<Found>, Error> {
    if names.is_empty() {
        return Ok(best(all.into_iter().filter(|gpu| emulations() || gpu.kind != Kind::Emulation).collect()));
    }
    let mut chosen: Vec<Found> = Vec::new();
    for name in names {
        let exact = all.iter().find(|gpu| gpu.info.name == *name);
        let found = match (exact, Interface::of(name)) {
            (Some(gpu), _) => vec![gpu.clone()],
            (None, Some(interface)) => interface.gpus(name, &all, emulations())?,
            (None, None) => all.iter().find(|gpu| describes(gpu, name)).into_iter().cloned().collect(),
        };
        if found.is_empty() {
            return Err(Error::NoSuchDevice { name: name.clone(), known: known(&all) });
        }
        for gpu in found {
            if !chosen.contains(&gpu) {
                chosen.push(gpu);
            }
        }
    }
    Ok(chosen)
}

/// All of the best sort, each once: an integrated GPU beside a discrete one would only slow it down.
fn best(mut gpus: Vec<Found>) -> Vec<Found> {
    if let Some(best) = gpus.iter().min_by_key(|gpu| gpu.kind).cloned() {
        gpus.retain(|gpu| gpu.kind == best.kind && gpu.backend == best.backend);
    }
    gpus
}

fn describes(gpu: &Found, name: &str) -> bool {
    !name.is_empty() && gpu.info.description.to_lowercase().contains(&name.to_lowercase())
}

fn known(gpus: &[Found]) -> Vec<String> {
    let words = ["auto", "cpu", "gpu", "reference"].map(str::to_owned);
    words.into_iter().chain(gpus.iter().map(|gpu| gpu.info.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn found(index: usize, description: &str, kind: Kind, backend: &str) -> Found {
        let (name, description) = (format!("gpu{index}"), description.to_owned());
        let (total_bytes, free_bytes, budget_bytes) = (None, None, None);
        let info = DeviceInfo { name, description, driver: backend.to_owned(), total_bytes, free_bytes, budget_bytes };
        Found { index, info, kind, backend: backend.to_owned(), cooperative: false }
    }

    #[test]
    fn gpus_are_chosen_by_name_or_description() {
        let all = [
            found(0, "llvmpipe (software)", Kind::Emulation, "vulkan"),
            found(1, "Radeon 7900 (gpu2 is another)", Kind::Discrete, "vulkan"),
            found(2, "GeForce 4090", Kind::Discrete, "vulkan"),
        ];
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            choose(all.to_vec(), &names).map(|chosen| chosen.iter().map(|gpu| gpu.index).collect::<Vec<_>>())
        };
        for (names, expected) in
            [(&["gpu0"][..], &[0][..]), (&["gpu2", "radeon"], &[2, 1]), (&["GEFORCE", "gpu2"], &[2]), (&["llvm"], &[0])]
        {
            assert_eq!(chosen(names).unwrap(), expected, "{names:?}");
        }
        for name in ["gpu3", "", "voodoo"] {
            let error = chosen(&[name]).unwrap_err().to_string();
            let expected = format!("device {name}: expected one of auto, cpu, gpu, reference, gpu0, gpu1, gpu2");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn the_best_sort_is_taken_once() {
        let gpu = |index, kind, backend| found(index, "X", kind, backend);
        let all = vec![
            gpu(0, Kind::Emulation, "vulkan"),
            gpu(1, Kind::Integrated, "vulkan"),
            gpu(2, Kind::Discrete, "vulkan"),
            gpu(3, Kind::Discrete, "vulkan"),
            gpu(4, Kind::Discrete, "dx12"),
        ];
        let indices = |gpus: Vec<Found>| gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>();
        assert_eq!(indices(best(all.clone())), [2, 3]);
        assert_eq!(indices(best(all[..2].to_vec())), [1]);
        assert_eq!(indices(best(all[..1].to_vec())), [0]);
        assert!(best(Vec::new()).is_empty());
    }
}
