//! What a device can do at most, measured: for speeds to be compared with.

use std::time::{Duration, Instant};

use candor_ops::{Error, Prims};

use crate::Gpu;
use crate::device::Storage;
use crate::kernel::{Kernel, Numbers, Probe};
use crate::record::Dispatch;

/// What a device can do at most.
#[derive(Clone, Copy, Debug)]
pub struct Ceilings {
    /// Bytes read from its memory per second.
    pub read: f64,
    /// Multiplications and additions per second, on registers.
    pub multiply: f64,
    /// Of which numbers, the ones that prompts of quantized weights are multiplied in: `floats`, `halves` or `bytes`.
    pub numbers: &'static str,
}

/// Memory that is read, where a binding may have so much: more than any device's caches hold.
const READ_BYTES: u64 = 1 << 30;

/// Workgroups and invocations of each probe.
const GROUPS: u32 = 2048;
const THREADS: u32 = GROUPS * 256;

/// Multiplications and additions of an invocation in a step.
const OPERATIONS: u64 = 16 * 4 * 2;

/// What a pass takes at least, so that handing it over does not count.
const PASS: Duration = Duration::from_millis(30);

/// Passes that count; the best does, since other work only ever slows one down.
const PASSES: usize = 5;

impl Gpu {
    /// Measures the device, in about a second. Memory of a gigabyte is taken for it, or as much as there is.
    ///
    /// # Errors
    /// If the device has failed or has no memory for it.
    pub fn ceilings(&self) -> Result<Ceilings, Error> {
        let mut gpu = self.clone();
        let variant = gpu.device.variant;
        let numbers = match (variant.int8_dot, variant.f16) {
            (true, _) => Numbers::Bytes,
            (false, true) => Numbers::Halves,
            (false, false) => Numbers::Floats,
        };
        let out = gpu.storage(4 * u64::from(THREADS));
        let multiply = best(|steps| {
            let probe = Kernel::Probe(Probe::Multiply(numbers));
            gpu.probe(probe, &[&out], &[steps, 3], 1)?;
            Ok(u64::from(THREADS) * u64::from(steps) * OPERATIONS)
        })?;
        // Each invocation reads as much as the others.
        let round = 4 * 16 * u64::from(THREADS);
        let mut bytes = READ_BYTES.min(gpu.device.binding_bytes) / round * round;
        let memory = loop {
            match gpu.device.storage(bytes) {
                Ok(memory) => break memory,
                // Models leave little of a device's memory.
                Err(_) if bytes > round => bytes = (bytes / 2).next_multiple_of(round),
                Err(what) => return Err(Error::Device { device: format!("gpu {}", gpu.device.name), what }),
            }
        };
        let shape = [(bytes / 16) as u32, THREADS];
        gpu.probe(Kernel::Probe(Probe::Fill), &[&memory], &shape, 1)?;
        let read = best(|times| {
            gpu.probe(Kernel::Probe(Probe::Read), &[&memory, &out], &shape, times)?;
            Ok(bytes * u64::from(times))
        })?;
        Ok(Ceilings { read, multiply, numbers: numbers.name() })
    }

    /// Runs a probe so many times, and waits for it.
    fn probe(&mut self, kernel: Kernel, buffers: &[&Storage], numbers: &[u32], times: u32) -> Result<(), Error> {
        for _ in 0..times {
            self.dispatch(&Dispatch { kernel, buffers, numbers, grid: [GROUPS, 1, 1] });
        }
        self.recorder.submit(&self.device);
        self.device.wait();
        self.finish()
    }
}

/// What the best pass does per second, of passes that are long enough.
fn best(mut pass: impl FnMut(u32) -> Result<u64, Error>) -> Result<f64, Error> {
    let mut timed = |amount| {
        let started = Instant::now();
        let done = pass(amount)?;
        let elapsed = started.elapsed();
        Ok::<_, Error>((elapsed, done as f64 / elapsed.as_secs_f64().max(1e-9)))
    };
    let mut amount = 1;
    // The first is not counted: it compiles.
    while timed(amount)?.0 < PASS && amount < 1 << 24 {
        amount *= 2;
    }
    let mut best = 0.0f64;
    for _ in 0..PASSES {
        best = best.max(timed(amount)?.1);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdapterChoice, GpuOptions, adapters};

    fn gpu() -> Option<Gpu> {
        let adapter = Some(AdapterChoice::Index(0));
        candor_testing::has_gpu(adapters().len())
            .then(|| Gpu::new(&GpuOptions { adapter, ..GpuOptions::default() }).expect("the adapter opens"))
    }

    fn words(gpu: &mut Gpu, storage: &Storage) -> Vec<u32> {
        let mut words = Vec::new();
        let Gpu { device, recorder, .. } = gpu;
        let bytes = storage.buffer.size();
        recorder.read(device, storage, bytes, &mut |bytes| words = bytemuck::pod_collect_to_vec(bytes));
        words
    }

    #[test]
    fn all_of_the_memory_is_read() {
        let Some(mut gpu) = gpu() else { return };
        let (quads, out) = (8 * THREADS, gpu.storage(4 * u64::from(THREADS)));
        let memory = gpu.storage(16 * u64::from(quads));
        gpu.probe(Kernel::Probe(Probe::Fill), &[&memory], &[quads, THREADS], 1).expect("it runs");
        gpu.probe(Kernel::Probe(Probe::Read), &[&memory, &out], &[quads, THREADS], 1).expect("it runs");
        let all = |words: Vec<u32>| words.into_iter().fold(0, |sum, word| sum ^ word);
        let expected = (0..4 * quads).fold(0, |sum, index| {
            let word = index.wrapping_mul(2_654_435_769);
            let word = (word ^ (word >> 15)).wrapping_mul(2_246_822_519);
            sum ^ word ^ (word >> 13)
        });
        assert_eq!(all(words(&mut gpu, &memory)), expected, "what is to be read");
        assert_eq!(all(words(&mut gpu, &out)), expected, "what is read");
    }

    #[test]
    fn numbers_are_multiplied_as_often_as_is_counted() {
        let Some(mut gpu) = gpu() else { return };
        let out = gpu.storage(4 * u64::from(THREADS));
        let mut sums = |steps| {
            let probe = Kernel::Probe(Probe::Multiply(Numbers::Floats));
            gpu.probe(probe, &[&out], &[steps, 3], 1).expect("it runs");
            words(&mut gpu, &out).into_iter().map(f32::from_bits).collect::<Vec<_>>()
        };
        let (few, more) = (sums(1), sums(3));
        for (id, (few, more)) in few.into_iter().zip(more).enumerate() {
            let start = |i: usize, number: usize| [0.25, 0.375, 0.5, 0.625][number] + i as f64 / 16384.0;
            let chains = (0..16).flat_map(|chain| (0..4).map(move |number| (id % 128 * 16 + chain, number)));
            let sum = |steps: usize| -> f64 {
                let last = |(i, number)| (0..steps).fold(start(i, number), |x, _| (x + 1.0) * start(3, number));
                chains.clone().map(last).sum()
            };
            let [few, more] = [f64::from(few) - sum(1), f64::from(more) - sum(3)].map(f64::abs);
            assert!(few < 1e-3 && more < 1e-3, "invocation {id}: {few} {more}");
        }
    }

    #[test]
    fn a_device_has_ceilings() {
        let Some(gpu) = gpu() else { return };
        let Ceilings { read, multiply, numbers } = gpu.ceilings().expect("it runs");
        // Slower than any processor, faster than any GPU.
        assert!((1e8..1e14).contains(&read) && (1e8..1e17).contains(&multiply), "{read} {multiply}");
        assert!(["floats", "halves", "bytes"].contains(&numbers));
    }
}
