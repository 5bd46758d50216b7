//! What the machine can do at most with a backend's kernels and threads. Nothing here looks at a clock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Cpu;

/// Bytes that a thread reads at a time: about what it gets of a large product.
const PIECE: usize = 4 << 20;

impl Cpu {
    /// Reads all bytes once, on all threads, as `read` does: one of [`candor_kernels::Probe::reads`]. Returns the sum of what it
    /// returns for pieces.
    pub fn read_all(&self, memory: &[&[u8]], read: fn(&[u8]) -> u64) -> u64 {
        let pieces: Vec<&[u8]> = memory.iter().flat_map(|bytes| bytes.chunks(PIECE)).collect();
        let sum = AtomicU64::new(0);
        self.pool().run(pieces.len(), &|index| {
            sum.fetch_add(read(pieces[index]), Ordering::Relaxed);
        });
        sum.into_inner()
    }

    /// Multiplies and adds on registers for `rounds` rounds per thread, on all threads. Returns the number of
    /// operations.
    pub fn multiply_all(&self, rounds: u32) -> u64 {
        let multiply = self.kernels().probe.multiply;
        // Several parts, so that a thread that comes late leaves its part to the others.
        let parts = 8 * self.threads();
        let operations = AtomicU64::new(0);
        self.pool().run(parts, &|_| {
            operations.fetch_add(multiply(rounds / 8), Ordering::Relaxed);
        });
        operations.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use candor_kernels::Kernels;

    use crate::CpuOptions;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "megabytes, which take Miri many minutes")]
    fn all_memory_is_read_and_all_rounds_are_done() {
        let memory: Vec<u8> = (0..PIECE + 1000).map(|i| ((i * i) >> 3) as u8).collect();
        let expected = |bytes: &[u8]| (Kernels::scalar().probe.reads[0])(bytes);
        let (first, second) = memory.split_at(333);
        let sum = expected(first).wrapping_add(expected(&second[..PIECE])).wrapping_add(expected(&second[PIECE..]));
        for threads in [1, 3] {
            for kernels in Kernels::available() {
                let cpu = Cpu::new(CpuOptions { threads, kernels, ..Default::default() });
                for read in kernels.probe.reads {
                    assert_eq!(cpu.read_all(&[first, second], read), sum, "{}, {threads} threads", kernels.name);
                }
                let once = (kernels.probe.multiply)(1);
                assert_eq!(cpu.multiply_all(80), 80 * threads as u64 * once, "{}, {threads} threads", kernels.name);
            }
        }
    }
}
