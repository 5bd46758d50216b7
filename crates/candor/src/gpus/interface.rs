//! GPUs by the interface to them: `vulkan` takes the best of those that are reached through it, `vulkan1` the second of them, as
//! llama.cpp counts them.

use super::{Found, Kind, best};
use crate::Error;

/// An interface to GPUs, and which of its GPUs is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    /// As [`Found::backend`] says it.
    backend: &'static str,
    /// Its own name.
    name: &'static str,
    /// Where it is, if that is not everywhere.
    only: Option<Only>,
    number: Option<usize>,
}

/// The systems that alone have an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Only {
    Apple,
    Windows,
    Browsers,
    /// It is not used.
    Nowhere,
}

/// Names that are typed, and what they stand for.
const NAMES: [(&[&str], &str, &str, Option<Only>); 5] = [
    (&["vulkan", "vk"], "vulkan", "Vulkan", None),
    (&["metal", "mtl"], "metal", "Metal", Some(Only::Apple)),
    (&["dx12", "d3d12", "directx", "directx12"], "dx12", "DirectX 12", Some(Only::Windows)),
    (&["webgpu"], "webgpu", "WebGPU", Some(Only::Browsers)),
    (&["gl", "gles", "opengl"], "gl", "OpenGL", Some(Only::Nowhere)),
];

impl Only {
    /// Why an interface is not here; `None` where it may be.
    fn missing(self, name: &str) -> Option<String> {
        let (here, systems) = match self {
            Only::Apple => (cfg!(target_vendor = "apple"), "on Apple's systems"),
            Only::Windows => (cfg!(windows), "on Windows"),
            Only::Browsers => (cfg!(target_arch = "wasm32"), "in browsers"),
            Only::Nowhere => return Some(format!("{name} is not used: GPUs compute by Vulkan, Metal or DirectX 12")),
        };
        (!here).then(|| format!("{name} is only {systems}"))
    }
}

impl Interface {
    /// The one of that name.
    pub(super) fn of(typed: &str) -> Option<Interface> {
        let typed = typed.to_lowercase();
        // A name may end in digits itself: dx120 is the first of dx12.
        let split =
            |names: &[&str]| names.iter().filter_map(|name| typed.strip_prefix(name)).min_by_key(|rest| rest.len());
        let rows = NAMES.iter().filter_map(|row| Some((row, split(row.0)?)));
        let (&(_, backend, name, only), number) = rows.min_by_key(|(_, number)| number.len())?;
        let number = if number.is_empty() { None } else { Some(number.parse().ok()?) };
        Some(Interface { backend, name, only, number })
    }

    /// Its GPUs: the best sort, or the one of the number. `name` is what was typed.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn gpus(self, name: &str, all: &[Found], emulations: bool) -> Result<Vec<Found>, Error> {
        if !cfg!(feature = "gpu") {
            return Err(Error::BuiltWithoutGpu);
        }
        let real = |gpu: &&Found| gpu.backend == self.backend && (emulations || gpu.kind != Kind::Emulation);
        let own: Vec<Found> = all.iter().filter(real).cloned().collect();
        let chosen = match self.number {
            None => best(own.clone()),
            Some(number) => own.get(number).cloned().into_iter().collect(),
        };
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let count = own.len();
        let missing = self.only.and_then(|only| only.missing(self.name));
        let reason = match (missing, count) {
            (Some(missing), _) => missing,
            (None, 0) => format!("no GPU here is reached through {}", self.name),
            (None, _) => format!("{count} of the GPUs here are reached through {}, counted from 0", self.name),
        };
        let others = all.iter().map(|gpu| {
            let emulated = if gpu.kind == Kind::Emulation { ", emulated by the processor" } else { "" };
            format!("{} ({}{emulated})", gpu.info.name, gpu.backend)
        });
        Err(Error::NoInterface { name: name.to_owned(), reason, others: others.collect() })
    }
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use super::{super::tests::found, *};

    #[test]
    fn gpus_are_chosen_by_interface() {
        let all = [
            found(0, "llvmpipe", Kind::Emulation, "vulkan"),
            found(1, "small", Kind::Integrated, "vulkan"),
            found(2, "large", Kind::Discrete, "vulkan"),
            found(3, "large", Kind::Discrete, "dx12"),
        ];
        let chosen = |name: &str, all: &[Found]| {
            let gpus = Interface::of(name).expect("an interface").gpus(name, all, false);
            gpus.map(|gpus| gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>()).map_err(|error| error.to_string())
        };
        for (name, expected) in [("vulkan", 2), ("Vulkan0", 1), ("vk1", 2), ("dx12", 3), ("DirectX", 3), ("dx120", 3)] {
            assert_eq!(chosen(name, &all), Ok(vec![expected]), "{name}");
        }
        let there = "gpu0 (vulkan, emulated by the processor)";
        for (name, problem) in [
            ("vulkan", "no GPU here is reached through Vulkan"),
            ("opengl", "OpenGL is not used: GPUs compute by Vulkan, Metal or DirectX 12"),
        ] {
            assert_eq!(chosen(name, &all[..1]), Err(format!("device {name}: {problem}; there is {there}")));
        }
        let error = chosen("vulkan2", &all).unwrap_err();
        let problem = "device vulkan2: 2 of the GPUs here are reached through Vulkan, counted from 0; there is gpu0";
        assert!(error.starts_with(problem), "{error}");
        let only = if cfg!(target_vendor = "apple") { "dx12" } else { "metal" };
        assert!(chosen(only, &[]).unwrap_err().ends_with("; there is no GPU"));
        for name in ["", "7", "gpu0", "vulkanx", "GeForce"] {
            assert_eq!(Interface::of(name), None, "{name}");
        }
    }
}
