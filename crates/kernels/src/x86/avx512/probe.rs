//! The limits of AVX-512, without and with VNNI.

use std::arch::asm;
use std::arch::x86_64::*;
use std::hint::black_box;

use crate::Probe;
use crate::array;
use crate::probe::{streams, sum};
use crate::x86::ahead::Ahead;

pub const BYTES: Probe = Probe { reads: READS, multiply, numbers: "bytes" };
pub const VNNI: Probe = Probe { multiply: multiply_vnni, ..BYTES };

const READS: [fn(&[u8]) -> u64; 2] = [read::<2>, read::<4>];

/// Bytes of a stream per turn of the loop.
const BLOCK: usize = 512;
/// Bytes that prefetches run ahead: the best of 0 to 4096 on Sapphire Rapids, within 1 % of it on Zen 5.
const AHEAD: usize = 1024;
/// Products in flight: with a factor for each of them and one for all, what fits into 32 registers.
const CHAINS: usize = 14;

fn read<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    // SAFETY: only the tables lead here, and only an `Avx512` to the tables: the processor has these features.
    unsafe { read_streams::<STREAMS>(bytes) }
}

#[target_feature(enable = "avx512f")]
fn read_streams<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    let ahead = Ahead::new(AHEAD);
    let (blocks, rest) = streams::<BLOCK, STREAMS>(bytes);
    let mut sums = [_mm512_setzero_si512(); BLOCK / 64];
    for block in blocks {
        for (sum, line) in sums.iter_mut().zip(block.as_chunks::<64>().0) {
            ahead.fetch(line);
            // SAFETY: `line` is 64 readable bytes, and the instruction takes any alignment.
            let words = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
            *sum = _mm512_add_epi64(*sum, words);
        }
    }
    sums.into_iter().fold(sum(rest), |total, sum| total.wrapping_add(_mm512_reduce_add_epi64(sum) as u64))
}

fn multiply(rounds: u32) -> u64 {
    // SAFETY: only the tables lead here, and only an `Avx512` to the tables: the processor has these features.
    unsafe { multiply_bytes(rounds) }
}

/// Multiplications of bytes in pairs, each added to sums of its own.
#[target_feature(enable = "avx512f,avx512bw")]
fn multiply_bytes(rounds: u32) -> u64 {
    let mut x = black_box(_mm512_set1_epi8(3));
    let w: [__m512i; CHAINS] = array::of(|i| black_box(_mm512_set1_epi8(i as i8)));
    let mut sums = [_mm512_setzero_si512(); CHAINS];
    for _ in 0..rounds {
        // SAFETY: no instruction at all. The compiler takes `x` for changed, or it would multiply only once.
        unsafe { asm!("/* {0} */", inout(zmm_reg) x, options(nomem, nostack, preserves_flags)) };
        for (sum, w) in sums.iter_mut().zip(w) {
            *sum = _mm512_add_epi16(*sum, _mm512_maddubs_epi16(x, w));
        }
    }
    black_box(sums);
    u64::from(rounds) * 2 * 64 * CHAINS as u64
}

fn multiply_vnni(rounds: u32) -> u64 {
    // SAFETY: only the table leads here, and only an `Avx512Vnni` to the table: the processor has these features.
    unsafe { multiply_groups(rounds) }
}

/// Multiplications of bytes in fours that add to sums of 32 bits.
#[target_feature(enable = "avx512f,avx512vnni")]
fn multiply_groups(rounds: u32) -> u64 {
    let x = black_box(_mm512_set1_epi8(3));
    let w: [__m512i; CHAINS] = array::of(|i| black_box(_mm512_set1_epi8(i as i8)));
    let mut sums = [_mm512_setzero_si512(); CHAINS];
    for _ in 0..rounds {
        for (sum, w) in sums.iter_mut().zip(w) {
            *sum = _mm512_dpbusd_epi32(*sum, x, w);
        }
    }
    black_box(sums);
    u64::from(rounds) * 2 * 64 * CHAINS as u64
}
