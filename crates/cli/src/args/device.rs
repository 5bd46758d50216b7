//! The flags that say where to compute: the device, how much of a model a GPU takes, and the processor's threads.

use std::{convert::Infallible, fmt, str::FromStr, sync::Once};

use candor::{Activations, Batching, Cpus, Device, GpuLayers, LoadOptions, Offload, Placing, chosen_gpus};
use clap::{Args, ValueEnum};

#[cfg(feature = "gpu")]
use candor::Dequant;

use super::number;
#[cfg(feature = "gpu")]
use crate::config::folders;
use crate::{errors::Error, output::say};

/// That there is no GPU is said once, however many models are loaded.
static NO_GPU: Once = Once::new();

/// Where to compute.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Performance")]
pub struct DeviceArgs {
    /// Where to compute (also -dev): auto (gpu where there is one that computes rightly, else cpu), cpu, gpu, reference
    /// (slow), vulkan, metal or dx12 (GPUs by the interface to them), hybrid-f32 (cpu with --activations f32), or names of
    /// GPUs with commas between them (see `candor devices`)
    #[arg(long, value_name = "DEVICE", default_value = "auto", visible_alias = "backend")]
    pub device: DeviceName,
    /// Layers that the GPU takes, the last ones of the model (also -ngl): a number, all, or auto for as many as fit
    #[arg(
        long,
        value_name = "N",
        default_value = "auto",
        visible_alias = "n-gpu-layers",
        allow_negative_numbers = true
    )]
    pub gpu_layers: Layers,
    /// Most memory that auto takes of each GPU, such as 512M or 7.5G; 0 takes what the GPU says
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub gpu_memory: Size,
    /// Shares of several GPUs in the layers, such as 3,1 (also -ts); by their memory if left out
    #[arg(long, value_name = "SHARES", value_delimiter = ',', value_parser = share)]
    pub tensor_split: Vec<f32>,
    /// Hold weights in formats that no shader decodes (F64, integers, Q1_0, Q2_0, Q8_1, Q8_K) as F16 on a GPU, instead of refusing the model
    #[arg(long)]
    pub gpu_dequant: bool,
    /// Threads; 0 takes one per physical core
    #[arg(short, long, value_name = "N", default_value = "0")]
    #[arg(value_parser = number::whole::<u32>(0..=1024))]
    pub threads: u32,
    #[command(flatten)]
    pub batching: BatchingArgs,
    /// Threads for prompts (also -tb); 0 takes as many as -t
    #[arg(long, value_name = "N", default_value = "0")]
    #[arg(value_parser = number::whole::<u32>(0..=1024))]
    pub threads_batch: u32,
    /// Processors that the threads keep to, such as 0-3 (Linux; also -Cr)
    #[arg(long, value_name = "LO-HI")]
    pub cpu_range: Option<String>,
    /// With --cpu-range: 1 gives each thread one of the processors, 0 lets it run on any of them
    #[arg(long, value_name = "0|1", default_value = "0")]
    #[arg(value_parser = number::whole::<u8>(0..=1))]
    pub cpu_strict: u8,
    /// Ask for huge pages for the cache and buffers, and for weights that are read (Linux)
    #[arg(long)]
    pub huge_pages: bool,
}

/// Which kernels multiply rows.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Performance")]
pub struct BatchingArgs {
    /// Multiply rows by whatever kernel is fastest for as many, even if bits then depend on what is computed beside a text; --batch-invariant goes before it
    #[arg(long)]
    pub fast: bool,
    /// Compute prompts with the kernels of decoding, so that a text has the same bits whether it was read or generated; slower (Q4_K, Q5_K and Q6_K weights with AVX2 or AVX-VNNI, F32, F16 and BF16 too with AVX-512, all with AMX)
    #[arg(long)]
    pub batch_invariant: bool,
    /// Inputs of products: auto rounds them where that is fastest (quantized weights to 8 bits on the processor), f32 leaves them as they are on every device, nearer to exact and slower
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub activations: ActivationType,
}

/// What the inputs of products are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ActivationType {
    // What is fastest.
    Auto,
    // As they are.
    F32,
}

impl BatchingArgs {
    /// The library's word for it.
    pub fn batching(self) -> Batching {
        match (self.batch_invariant, self.fast) {
            (true, _) => Batching::Invariant,
            (false, true) => Batching::Fastest,
            (false, false) => Batching::ByRole,
        }
    }

    /// The library's word for it, on a device.
    pub fn activations(self, device: &DeviceName) -> Activations {
        match (self.activations, device) {
            (ActivationType::F32, _) | (_, DeviceName::HybridF32) => Activations::F32,
            (ActivationType::Auto, _) => Activations::Fastest,
        }
    }
}

impl DeviceArgs {
    /// The library's words for it.
    ///
    /// # Errors
    /// If the processors are none that can be used, or a GPU has none of the names.
    pub fn load(&self) -> Result<LoadOptions, Error> {
        let (device, names) = self.device.parts();
        let offload = Offload::default()
            .names(names)
            .layers(self.gpu_layers.0)
            .memory(Some(self.gpu_memory.0).filter(|&bytes| bytes > 0))
            .split(self.tensor_split.clone());
        let placing = if self.cpu_strict == 1 { Placing::Strict } else { Placing::Shared };
        let cpus = self.cpu_range.as_deref().filter(|list| !list.is_empty());
        let mut options = LoadOptions::default()
            .device(device)
            .offload(offload)
            .threads(self.threads as usize)
            .threads_batch(self.threads_batch as usize)
            .cpus(cpus.map(|list| Cpus::new(list, placing)).transpose().map_err(candor::Error::from)?)
            .huge_pages(self.huge_pages)
            .batching(self.batching.batching())
            .activations(self.batching.activations(&self.device));
        #[cfg(feature = "gpu")]
        {
            options.gpu.cache = folders().map(|folders| folders.cache_dir().join("shaders"));
            options.gpu.dequant = if self.gpu_dequant { Dequant::ToF16 } else { Dequant::Refuse };
        }
        // A question for the device is answered with what it is.
        if device == Device::Auto && chosen_gpus(&options)?.is_empty() {
            options.device = Device::Cpu;
            if !matches!(self.gpu_layers.0, GpuLayers::Auto | GpuLayers::Count(0)) {
                let layers = self.gpu_layers;
                NO_GPU
                    .call_once(|| say!("note: -ngl {layers} changes nothing: there is no GPU, the processor computes"));
            }
        }
        Ok(options)
    }
}

/// A device by its name. Which GPUs there are is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    One(Device),
    Gpus(Vec<String>),
    /// The processor with f32 activations, by its old name.
    HybridF32,
}

impl DeviceName {
    /// The library's words for it: the device, and names of GPUs.
    pub fn parts(&self) -> (Device, Vec<String>) {
        match self {
            DeviceName::One(device) => (*device, Vec::new()),
            DeviceName::Gpus(names) => (Device::Gpu, names.clone()),
            DeviceName::HybridF32 => (Device::Cpu, Vec::new()),
        }
    }
}

impl fmt::Display for DeviceName {
    /// As it is given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceName::One(Device::Auto) => "auto",
            DeviceName::One(Device::Gpu) => "gpu",
            DeviceName::One(Device::Reference) => "reference",
            DeviceName::One(_) => "cpu",
            DeviceName::HybridF32 => "hybrid-f32",
            DeviceName::Gpus(names) => return f.write_str(&names.join(",")),
        })
    }
}

impl FromStr for DeviceName {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<DeviceName, Infallible> {
        Ok(match text.to_lowercase().as_str() {
            "auto" => DeviceName::One(Device::Auto),
            "cpu" | "none" => DeviceName::One(Device::Cpu),
            "gpu" => DeviceName::One(Device::Gpu),
            "reference" => DeviceName::One(Device::Reference),
            "hybrid-f32" => DeviceName::HybridF32,
            _ => DeviceName::Gpus(text.split(',').map(|name| name.trim().to_owned()).collect()),
        })
    }
}

/// How many layers a GPU takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers(pub GpuLayers);

/// Bytes: `512M`, `7.5G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(u64);

/// Why a text cannot be read as one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexpected {
    expected: &'static str,
    got: String,
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, got {:?}", self.expected, self.got)
    }
}

impl std::error::Error for Unexpected {}

impl fmt::Display for Layers {
    /// As it is given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            GpuLayers::Auto => f.write_str("auto"),
            GpuLayers::All => f.write_str("all"),
            GpuLayers::Count(count) => count.fmt(f),
        }
    }
}

impl FromStr for Layers {
    type Err = Unexpected;

    fn from_str(text: &str) -> Result<Layers, Unexpected> {
        let unexpected = || Unexpected { expected: "a number of layers, auto or all", got: text.to_owned() };
        Ok(Layers(match text {
            "auto" | "-1" => GpuLayers::Auto,
            "all" | "-2" => GpuLayers::All,
            _ => GpuLayers::Count(text.parse().map_err(|_| unexpected())?),
        }))
    }
}

impl Size {
    /// The number.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = Unexpected;

    fn from_str(text: &str) -> Result<Size, Unexpected> {
        const UNITS: [(&str, f64); 7] = [
            ("ki", 1024.0),
            ("mi", 1_048_576.0),
            ("gi", 1_073_741_824.0),
            ("k", 1e3),
            ("m", 1e6),
            ("g", 1e9),
            ("", 1.0),
        ];
        let unexpected = || Unexpected { expected: "bytes such as 512M, 7.5G or 8Gi", got: text.to_owned() };
        let lower = text.trim().to_lowercase();
        let number = lower.strip_suffix('b').unwrap_or(&lower);
        let unit = UNITS.into_iter().find_map(|(unit, bytes)| Some((number.strip_suffix(unit)?, bytes)));
        let (number, bytes) = unit.ok_or_else(unexpected)?;
        let number: f64 = number.trim().parse().map_err(|_| unexpected())?;
        let bytes = number * bytes;
        match bytes >= 0.0 && bytes < u64::MAX as f64 {
            true => Ok(Size(bytes as u64)),
            false => Err(unexpected()),
        }
    }
}

/// A share of the layers: a number from 0 on.
fn share(text: &str) -> Result<f32, Unexpected> {
    let share = text.trim().parse().ok().filter(|share: &f32| share.is_finite() && *share >= 0.0);
    share.ok_or_else(|| Unexpected { expected: "shares such as 3,1", got: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("64000000", Some(64_000_000)),
            ("64M", Some(64_000_000)),
            ("64MB", Some(64_000_000)),
            ("64 mib", Some(64 << 20)),
            ("7.5G", Some(7_500_000_000)),
            ("8Gi", Some(8 << 30)),
            ("2k", Some(2000)),
            ("", None),
            ("M", None),
            ("-1", None),
            ("1T", None),
            ("nan", None),
            ("1e30", None),
        ] {
            assert_eq!(text.parse().ok(), bytes.map(Size), "{text:?}");
        }
        let error = "x".parse::<Size>().unwrap_err().to_string();
        assert_eq!(error, "expected bytes such as 512M, 7.5G or 8Gi, got \"x\"");
    }

    #[test]
    fn layers_are_a_number_or_a_word() {
        for (text, layers) in [
            ("auto", Some(GpuLayers::Auto)),
            ("all", Some(GpuLayers::All)),
            ("0", Some(GpuLayers::Count(0))),
            ("99", Some(GpuLayers::Count(99))),
            ("-1", Some(GpuLayers::Auto)),
            ("-2", Some(GpuLayers::All)),
            ("-3", None),
            ("some", None),
        ] {
            assert_eq!(text.parse().ok(), layers.map(Layers), "{text}");
        }
    }

    #[test]
    fn devices_have_names() {
        let gpus = |names: &[&str]| DeviceName::Gpus(names.iter().map(|&name| name.to_owned()).collect());
        for (text, device) in [
            ("cpu", DeviceName::One(Device::Cpu)),
            ("none", DeviceName::One(Device::Cpu)),
            ("GPU", DeviceName::One(Device::Gpu)),
            ("auto", DeviceName::One(Device::Auto)),
            ("reference", DeviceName::One(Device::Reference)),
            ("hybrid-f32", DeviceName::HybridF32),
            ("gpu0", gpus(&["gpu0"])),
            ("gpu1, Radeon", gpus(&["gpu1", "Radeon"])),
        ] {
            assert_eq!(text.parse(), Ok(device), "{text}");
        }
    }
}
