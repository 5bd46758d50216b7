//! The GPU backend: the operations of a forward pass as hand-written WGSL on wgpu (Vulkan, Metal, DX12, WebGPU).
//!
//! [`Gpu`] implements [`candor_ops::Prims`] and [`candor_ops::Ops`]. Operations are recorded into one compute pass that
//! is submitted when something is read back; `record.rs` says how, `kernel.rs` lists the shaders, `format.rs` the
//! tensor formats. Nothing here knows a model, and nothing falls back to the processor. What is `unsafe` is to ask the
//! drivers for their memory (`memory/`) and their products (`packed.rs`), to give them back shaders that they compiled
//! before (`compiled.rs`), and to have shaders with cooperative matrices (`cooperative.rs`).
#![deny(unsafe_code)]

mod adapter;
mod asked;
mod attention;
mod book;
mod buffer;
mod cache;
#[cfg(not(target_arch = "wasm32"))]
mod ceilings;
mod compiled;
mod constants;
mod cooperative;
mod counters;
mod device;
mod error;
mod experts;
mod fault;
mod format;
mod gpu;
mod heads;
mod kernel;
mod memory;
mod operations;
mod options;
mod packed;
mod places;
mod product;
mod record;
mod recurrent;
mod rows;
mod stored;
mod times;
mod top;
mod turns;
mod variant;
mod weight;

#[cfg(not(target_arch = "wasm32"))]
pub use adapter::adapters;
pub use adapter::{AdapterInfo, adapters_async};
pub use buffer::{Buf, Snapshot};
pub use cache::Cache;
#[cfg(not(target_arch = "wasm32"))]
pub use ceilings::Ceilings;
pub use cooperative::Cooperative;
pub use counters::{Counters, Held, held};
pub use error::Error;
pub use experts::Routes;
pub use gpu::Gpu;
pub use memory::Memory;
#[cfg(feature = "faults")]
pub use options::ShaderEdit;
pub use options::{AdapterChoice, Dequant, GpuOptions};
pub use times::{Timed, timed};
pub use turns::Turns;
pub use variant::Variant;
pub use weight::Weight;
