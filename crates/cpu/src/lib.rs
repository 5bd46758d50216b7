//! The CPU backend: buffers, a thread pool and a key-value cache around the kernels of [`candor_kernels`].
//!
//! Weights stay in the file's mapping and are multiplied as they lie there. Each element of an output is computed by
//! one thread in a fixed order, so neither the number of threads nor the rows beside it change a bit of it, except on
//! instruction sets with other kernels for many rows, which [`Batching::Invariant`] leaves out. This crate knows no model and no file, and selects no instructions: which kernels run is decided by its caller.

mod affinity;
mod attend;
mod attention;
mod batching;
mod buffer;
mod cores;
mod cpu;
mod elementwise;
mod experts;
mod free;
mod grouped;
mod inputs;
mod kv;
mod memory;
mod packed;
mod pool;
mod probe;
mod product;
mod recurrent;
mod rules;
mod spawn;
mod split;
mod system;
mod turns;
mod weight;

pub use affinity::{Cpus, Placing};
pub use batching::Batching;
pub use buffer::Buf;
pub use cores::physical_cores;
pub use cpu::{Cpu, CpuOptions};
pub use free::{Bound, Free, Memory};
pub use kv::Kv;
pub use spawn::{Join, Spawn, Work};
pub use system::{Unavailable, huge_pages};
pub use turns::Rotation;
pub use weight::Weight;
