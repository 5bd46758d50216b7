//! What this machine can do at most, measured: for speeds to be compared with.

use std::{hint::black_box, time::Duration};

use bytes::Bytes;
use candor_cpu::{Cpu, CpuOptions};
use candor_gguf::{ByteOrder, Gguf};
use candor_kernels::Kernels;
use web_time::Instant;

use crate::{Activations, Error, Model};

/// What the processor can do at most with the kernels in use and a number of threads.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ceilings {
    /// The table of kernels: `avx2`.
    pub isa: &'static str,
    /// Threads.
    pub threads: usize,
    /// Bytes read from memory per second.
    pub read: f64,
    /// Multiplications and additions per second, on registers, with the table's best instruction.
    pub multiply: f64,
    /// What that instruction multiplies: `bytes` or `bfloat16`.
    pub numbers: &'static str,
}

/// What a GPU can do at most.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GpuCeilings {
    /// Bytes read from its memory per second; `None` if it gives less than 256 MiB in one buffer, which caches may hold.
    pub read: Option<f64>,
    /// Multiplications and additions per second, on registers, of the numbers that prompts are multiplied in; `None` of
    /// cooperative matrices, which nothing measures yet.
    pub multiply: Option<f64>,
    /// Those numbers: `floats`, `halves`, `bytes` or, as cooperative matrices, `matrices`.
    pub numbers: &'static str,
}

/// Memory that is read at least: much more than the last cache of most machines.
const LEAST_BYTES: usize = 256 << 20;

/// Weights that are read at most.
const MOST_BYTES: usize = 1 << 30;

/// Passes of a measurement, at least; the best counts, since other work on the machine only ever slows one down.
const PASSES: usize = 8;

/// The time that a measurement may take beyond them.
const PATIENCE: Duration = Duration::from_millis(300);

/// Rounds of multiplications per pass, some milliseconds.
const ROUNDS: u32 = 1 << 20;

/// Measures what this machine can do with this number of threads (0: one per physical core), in about a second. Reading
/// goes over the model's weights where they lie, so that it meets the same pages as a forward pass; those of a small
/// model would come from a cache, so other memory is read instead.
///
/// # Errors
/// If `CANDOR_ISA` names no instruction set of this machine.
pub fn ceilings(model: &Model, threads: usize) -> Result<Ceilings, Error> {
    let table = Kernels::from_env()?;
    let kernels = match model.activations() {
        Activations::Fastest => table,
        Activations::F32 => table.exact,
    };
    let cpu = Cpu::new(CpuOptions { threads, kernels, ..Default::default() });
    let weights = weights(model.gguf());
    let read = match weights.iter().map(Bytes::len).sum::<usize>() {
        ..LEAST_BYTES => read(&cpu, &[&vec![1; LEAST_BYTES]]),
        _ => read(&cpu, &weights.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
    };
    let multiply = best(|| cpu.multiply_all(ROUNDS));
    let (isa, numbers) = (cpu.kernels().name, cpu.kernels().probe.numbers);
    Ok(Ceilings { isa, threads: cpu.threads(), read, multiply, numbers })
}

/// Measures what the GPU can do on which a model lies as a whole, in about a second; an emulation takes longer. It is opened
/// once more for this, so that what fails does not fail the model. `None` where the model lies on none, or on several devices.
///
/// # Errors
/// If the GPU cannot be opened, has no memory for it, or fails.
pub fn gpu_ceilings(model: &Model) -> Result<Option<GpuCeilings>, Error> {
    #[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
    if let Some(options) = model.only_gpu() {
        let gpu = candor_gpu::Gpu::apart(options)?;
        let candor_gpu::Ceilings { read, multiply, numbers } = gpu.ceilings().map_err(candor_models::Error::from)?;
        return Ok(Some(GpuCeilings { read, multiply, numbers }));
    }
    let _ = model;
    Ok(None)
}

/// Tensors as they lie in memory, as many as it takes; none of a file that had to be copied, or is read piece by piece.
fn weights(gguf: &Gguf) -> Vec<Bytes> {
    if gguf.byte_order() != ByteOrder::Little || !gguf.is_in_memory() {
        return Vec::new();
    }
    let mut left = MOST_BYTES;
    let tensors = gguf.tensors().iter().map(|tensor| gguf.data(tensor));
    tensors
        .map_while(|bytes| {
            let wanted = bytes.slice(..bytes.len().min(left));
            left -= wanted.len();
            (!wanted.is_empty()).then_some(wanted)
        })
        .collect()
}

/// Bytes per second in the best pass over all of them, by the best of the ways to read.
fn read(cpu: &Cpu, memory: &[&[u8]]) -> f64 {
    let bytes = memory.iter().map(|bytes| bytes.len() as u64).sum();
    let speeds = cpu.kernels().probe.reads.map(|read| {
        best(|| {
            black_box(cpu.read_all(memory, read));
            bytes
        })
    });
    speeds.into_iter().fold(0.0, f64::max)
}

/// What the best pass does per second.
fn best(mut pass: impl FnMut() -> u64) -> f64 {
    let begun = Instant::now();
    let mut best = 0.0f64;
    let mut passes = 0;
    while passes < PASSES || begun.elapsed() < PATIENCE {
        let started = Instant::now();
        let done = pass();
        best = best.max(done as f64 / started.elapsed().as_secs_f64().max(1e-9));
        passes += 1;
    }
    best
}
