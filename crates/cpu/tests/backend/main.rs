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

use std::ptr::fn_addr_eq;

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

/// Those of [`backends`] whose loops and attention are not those of a table before: many tables differ in products alone.
fn beside_products() -> impl Iterator<Item = (String, Cpu)> {
    let mut own: Vec<&'static Kernels> = Vec::new();
    for table in Kernels::all() {
        // A table has the loops of an instruction set as a whole, so one of them tells whose they are.
        let same =
            |other: &&Kernels| fn_addr_eq(other.attention, table.attention) && fn_addr_eq(other.f32.dot, table.f32.dot);
        if !own.iter().any(same) {
            own.push(table);
        }
    }
    backends().filter(move |(_, cpu)| own.iter().any(|table| table.name == cpu.kernels().name))
}
