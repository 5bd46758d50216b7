//! The limits of AVX2.

use std::arch::asm;
use std::arch::x86_64::*;
use std::hint::black_box;

use super::registers::{load_256, store_256};
use crate::Probe;
use crate::array;
use crate::probe::{streams, sum};
use crate::x86::ahead::Ahead;

pub const PROBE: Probe = Probe { reads: [read::<2>, read::<4>], multiply, numbers: "bytes" };

/// Bytes of a stream per turn of the loop.
const BLOCK: usize = 256;
/// Bytes that prefetches run ahead: the best of 0 to 4096 on Sapphire Rapids, within 1 % of it on Zen 5.
const AHEAD: usize = 1024;
/// Products in flight: with a factor for each of them and one for all, what fits into sixteen registers.
const CHAINS: usize = 7;

fn read<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    // SAFETY: only the table leads here, and only an `Avx2` to the table: the processor has these features.
    unsafe { read_streams::<STREAMS>(bytes) }
}

#[target_feature(enable = "avx2")]
fn read_streams<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    let ahead = Ahead::new(AHEAD);
    let (blocks, rest) = streams::<BLOCK, STREAMS>(bytes);
    let mut sums = [_mm256_setzero_si256(); BLOCK / 32];
    for block in blocks {
        ahead.fetch(block);
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = _mm256_add_epi64(*sum, load_256(block, i * 32));
        }
    }
    let mut total = sum(rest);
    for register in sums {
        let mut words = [0; 32];
        store_256(&mut words, register);
        total = total.wrapping_add(sum(&words));
    }
    total
}

fn multiply(rounds: u32) -> u64 {
    // SAFETY: only the table leads here, and only an `Avx2` to the table: the processor has these features.
    unsafe { multiply_bytes(rounds) }
}

/// Multiplications of bytes in pairs, each added to sums of its own.
#[target_feature(enable = "avx2")]
fn multiply_bytes(rounds: u32) -> u64 {
    let mut x = black_box(_mm256_set1_epi8(3));
    let w: [__m256i; CHAINS] = array::of(|i| black_box(_mm256_set1_epi8(i as i8)));
    let mut sums = [_mm256_setzero_si256(); CHAINS];
    for _ in 0..rounds {
        // SAFETY: no instruction at all. The compiler takes `x` for changed, or it would multiply only once.
        unsafe { asm!("/* {0} */", inout(ymm_reg) x, options(nomem, nostack, preserves_flags)) };
        for (sum, w) in sums.iter_mut().zip(w) {
            *sum = _mm256_add_epi16(*sum, _mm256_maddubs_epi16(x, w));
        }
    }
    black_box(sums);
    u64::from(rounds) * 2 * 32 * CHAINS as u64
}
