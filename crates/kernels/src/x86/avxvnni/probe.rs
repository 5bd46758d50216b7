//! The limits of AVX-VNNI: memory is read as AVX2 reads it.

use std::arch::x86_64::*;
use std::hint::black_box;

use super::fours::add_fours;
use crate::Probe;
use crate::array;
use crate::x86::avx2;

pub const PROBE: Probe = Probe { multiply, ..avx2::PROBE };

/// Products in flight: with a factor for all of them and two others, what fits into sixteen registers.
const CHAINS: usize = 12;

fn multiply(rounds: u32) -> u64 {
    // SAFETY: only the table leads here, and only an `AvxVnni` to the table: the processor has these features.
    unsafe { multiply_groups(rounds) }
}

/// Multiplications of bytes in fours that add to sums of 32 bits.
///
/// # Safety
/// The processor has AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply_groups(rounds: u32) -> u64 {
    let x = black_box(_mm256_set1_epi8(3));
    let w: [__m256i; 2] = array::of(|i| black_box(_mm256_set1_epi8(i as i8)));
    let mut sums = [_mm256_setzero_si256(); CHAINS];
    for _ in 0..rounds {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: as this function's.
            *sum = unsafe { add_fours(*sum, w[i % 2], x) };
        }
    }
    black_box(sums);
    u64::from(rounds) * 2 * 32 * CHAINS as u64
}
