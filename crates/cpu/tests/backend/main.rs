//! The CPU backend against the reference, against itself with other threads and batches, and against its own fusions.

mod attention;
mod batch;
mod experts;
mod fusions;
mod gated;
mod masks;
mod products;
mod recurrent;
mod rows;
mod small;
mod tiled;

use candor_cpu::{Batching, Cpu, CpuOptions};
use candor_kernels::Kernels;

/// Every instruction set that this machine has, each with one, two and five threads. Without kernels for many inputs at
/// once, so that bits do not depend on how many there are; those have tests of their own.
fn backends() -> impl Iterator<Item = (String, Cpu)> {
    let threads = |kernels: &'static Kernels| [1, 2, 5].map(|threads| (kernels, threads));
    Kernels::all().flat_map(threads).map(|(kernels, threads)| {
        (
            format!("{}, {threads} threads", kernels.name),
            Cpu::new(CpuOptions { threads, kernels, batching: Batching::Invariant, ..CpuOptions::default() }),
        )
    })
}
