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
    /// Bytes read from its memory per second; `None` if it gives less than 256 MiB in one buffer, which caches may hold.
    pub read: Option<f64>,
    /// Multiplications and additions per second, on registers; `None` where prompts are multiplied in cooperative matrices,
    /// whose units nothing measures yet.
    pub multiply: Option<f64>,
    /// Of which numbers, the ones that prompts of quantized weights are multiplied in: `floats`, `halves`, `bytes` or
    /// `matrices`.
    pub numbers: &'static str,
}

/// Memory that is read, where a buffer may have so much.
const READ_BYTES: u64 = 1 << 30;

/// What is read at least: as much as the largest of GPUs' caches.
const LEAST_BYTES: u64 = 256 << 20;

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
    /// Measures the device, in about a second; an emulation takes longer. Memory of a gigabyte is taken for it, or as much
    /// as there is. A probe that fails fails all sessions of the device: see [`Gpu::apart`].
    ///
    /// # Errors
    /// If the device has failed or has no memory for results.
    pub fn ceilings(&self) -> Result<Ceilings, Error> {
        let mut gpu = self.clone();
        let variant = gpu.device.variant;
        let numbers = match (variant.cooperative, variant.int8_dot, variant.f16) {
            (Some(_), _, _) => None,
            (None, true, _) => Some(Numbers::Bytes),
            (None, false, true) => Some(Numbers::Halves),
            (None, false, false) => Some(Numbers::Floats),
        };
        let out = gpu.storage(4 * u64::from(THREADS));
        let mut multiplied = |numbers| {
            best(|steps| {
                let probe = Kernel::Probe(Probe::Multiply(numbers));
                gpu.probe(probe, &[&out], &[steps, 3], 1)?;
                Ok(u64::from(THREADS) * u64::from(steps) * OPERATIONS)
            })
        };
        let multiply = numbers.map(&mut multiplied).transpose()?;
        let mut read_from = |(bytes, memory): (u64, Storage)| {
            let shape = [(bytes / 16) as u32, THREADS];
            gpu.probe(Kernel::Probe(Probe::Fill), &[&memory], &shape, 1)?;
            best(|times| {
                gpu.probe(Kernel::Probe(Probe::Read), &[&memory, &out], &shape, times)?;
                Ok(bytes * u64::from(times))
            })
        };
        let read = self.memory_to_read().map(&mut read_from).transpose()?;
        Ok(Ceilings { read, multiply, numbers: numbers.map_or("matrices", Numbers::name) })
    }

    /// Memory and its bytes; `None` if there is too little.
    fn memory_to_read(&self) -> Option<(u64, Storage)> {
        // Each invocation reads as much as the others.
        let round = 4 * 16 * u64::from(THREADS);
        let mut bytes = READ_BYTES.min(self.device.binding_bytes) / round * round;
        while bytes >= LEAST_BYTES {
            if let Ok(memory) = self.device.storage(bytes) {
                return Some((bytes, memory));
            }
            // Models leave little of a device's memory.
            bytes = bytes / 2 / round * round;
        }
        None
    }

    /// Runs a probe `times` times, and waits for it.
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
            .then(|| Gpu::new(&GpuOptions::default().adapter(adapter)).expect("the adapter opens"))
    }

    fn words(gpu: &mut Gpu, storage: &Storage) -> Vec<u32> {
        let mut words = Vec::new();
        let Gpu { device, recorder, .. } = gpu;
        let asked = recorder.ask(device, storage, storage.buffer.size()).expect("memory to read into");
        asked.wait(device);
        asked.show(device, &mut |bytes| words = bytemuck::pod_collect_to_vec(bytes));
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
        assert!(read.is_none_or(|read| (1e8..1e14).contains(&read)), "{read:?}");
        assert_eq!(read.is_some(), gpu.device.binding_bytes >= LEAST_BYTES);
        assert!(multiply.is_none_or(|multiply| (1e8..1e17).contains(&multiply)), "{multiply:?}");
        assert_eq!(multiply.is_some(), gpu.device.variant.cooperative.is_none());
        assert!(["floats", "halves", "bytes", "matrices"].contains(&numbers));
    }

    /// A device of its own, that a test may change.
    fn apart(change: impl FnOnce(&mut crate::device::Device)) -> Option<Gpu> {
        let adapter = Some(AdapterChoice::Index(0));
        candor_testing::has_gpu(adapters().len()).then(|| {
            let options = GpuOptions::default().adapter(adapter);
            let mut gpu = Gpu::apart(&options).expect("the adapter opens");
            change(std::sync::Arc::get_mut(&mut gpu.device).expect("nobody shares it"));
            gpu
        })
    }

    #[test]
    fn buffers_that_caches_hold_show_no_read_speed() {
        for bytes in [16 << 20, 224 << 20] {
            let Some(gpu) = apart(|device| device.binding_bytes = bytes) else { return };
            assert!(gpu.memory_to_read().is_none(), "{bytes}");
        }
        let Some(gpu) = apart(|device| device.binding_bytes = 16 << 20) else { return };
        assert_eq!(gpu.ceilings().expect("it runs").read, None);
    }

    #[test]
    fn matrix_units_have_no_peak_yet() {
        let cooperative = Some(crate::Cooperative { side: 16, subgroup: 32, memory: 48 << 10 });
        let change = |device: &mut crate::device::Device| {
            (device.variant.cooperative, device.binding_bytes) = (cooperative, 16 << 20);
        };
        let Some(gpu) = apart(change) else { return };
        let Ceilings { multiply, numbers, .. } = gpu.ceilings().expect("it runs");
        assert_eq!((multiply, numbers), (None, "matrices"));
    }

    #[test]
    fn a_device_apart_fails_alone() {
        let Some(gpu) = apart(|_| ()) else { return };
        let options = GpuOptions::default().adapter(AdapterChoice::Index(0));
        let mut shared = Gpu::new(&options).expect("the adapter opens");
        gpu.device.fault.set("a probe fails".to_owned());
        assert!(gpu.ceilings().is_err());
        shared.finish().expect("others go on");
    }
}
