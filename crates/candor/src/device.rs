//! Where a model may run: devices, and what is asked of a GPU.

use std::ops::Range;

/// Where a model runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The GPUs of this machine as far as their memory goes and the processor for the rest; without a GPU the processor.
    /// A GPU that computes wrongly is left out: see [`Verify`](crate::Verify).
    Auto,
    /// The processor, with the best kernels that it has.
    #[default]
    Cpu,
    /// The same as [`Device::Auto`], but an error where there is no GPU, or one computes wrongly.
    Gpu,
    /// The readable definition of every operation, in f64 where it sums. Slow, and holds all weights in f32.
    Reference,
}

/// How many of a model's layers a GPU takes: the last ones, as llama.cpp's `-ngl`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuLayers {
    /// As many as fit into the device's budget.
    #[default]
    Auto,
    /// All of the model, whatever the budget.
    All,
    /// This many, whatever the budget. More than there are takes the output and the embedding, too.
    Count(usize),
}

/// What is asked of GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Offload {
    /// Which to take, by their names, parts of their descriptions, or the interface to them (`vulkan`, `metal`, `dx12`; with a
    /// number one of its GPUs: `vulkan0`); empty takes every one that is no emulation.
    pub names: Vec<String>,
    /// How many layers they take.
    pub layers: GpuLayers,
    /// Most bytes of each GPU's memory; `None` leaves that to the GPU's budget.
    pub memory: Option<u64>,
    /// Shares of the GPUs in the layers that they take together; empty goes by their budgets.
    pub split: Vec<f32>,
}

setters!(Offload {
    names: Vec<String>,
    layers: GpuLayers,
    memory: impl Into<Option<u64>>,
    split: Vec<f32>,
});

/// How a model is laid out over devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// As [`crate::LoadOptions::device`] and what is asked of GPUs say.
    #[default]
    Planned,
    /// As listed: layers from the first to the last. The embedding goes with the first entry, the output with the last one;
    /// a range may be empty.
    Parts(Vec<(Device, Range<usize>)>),
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name for options: `cpu`, `gpu0`.
    pub name: String,
    /// What it is, as it says itself.
    pub description: String,
    /// How it is reached: its sort, the interface, the driver; of the processor the kernels.
    pub driver: String,
    /// Bytes of its memory; `None` where the system does not say, and of the processor.
    pub total_bytes: Option<u64>,
    /// Bytes of it that nobody has taken; `None` likewise.
    pub free_bytes: Option<u64>,
    /// Bytes of it that a model may take: of what is free, all but a reserve; `None` likewise.
    pub budget_bytes: Option<u64>,
}
