//! The limits of plain Rust: what the compiler makes of loops like those of the kernels here.

use std::hint::black_box;

use crate::Probe;
use crate::probe::{streams, sum};

pub const PROBE: Probe = Probe { reads: [read::<2>, read::<4>], multiply, numbers: "bytes" };

/// Bytes of a stream per turn of the loop.
const BLOCK: usize = 64;

fn read<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    let (blocks, rest) = streams::<BLOCK, STREAMS>(bytes);
    let mut sums = [0u64; BLOCK / 8];
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.into_iter().fold(sum(rest), u64::wrapping_add)
}

/// Products of blocks of 32 bytes that stay in the first cache, as `super::q8` makes them.
fn multiply(rounds: u32) -> u64 {
    const BLOCKS: usize = 16;
    let (w, x) = (black_box([[3i8; 32]; BLOCKS]), black_box([[-5i8; 32]; BLOCKS]));
    let mut total = 0i32;
    for _ in 0..rounds {
        for (w, x) in black_box(&w).iter().zip(&x) {
            let products = w.iter().zip(x).map(|(&w, &x)| i32::from(w) * i32::from(x));
            total = total.wrapping_add(products.sum());
        }
    }
    black_box(total);
    u64::from(rounds) * 2 * 32 * BLOCKS as u64
}
