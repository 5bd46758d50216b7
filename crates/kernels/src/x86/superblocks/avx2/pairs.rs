//! How both blocks of a pair are multiplied: what a dword of the panel and of an input holds, and how sums come to be the words
//! of a register. Sums are exact, so that bits are the same either way.

use crate::array::Each;
use crate::unroll::unroll;
use std::arch::x86_64::*;

use super::input::Input;
use super::panel::{Panel, Superblock};
use crate::x86::avx2::panel::keep;
use crate::x86::avx2::registers::load_256;
use crate::x86::avx2::twos::Twos;
use crate::x86::avxvnni::fours::{Fours, add_fours};
use crate::x86::superblocks::Sums;

/// The products of an instruction set.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Pairs: 'static {
    /// The most inputs of a tile.
    const INPUTS: usize;
    /// The same where sums are of halves of blocks.
    const INPUTS_OF_HALVES: usize;

    /// Two steps of the panel from columns `4 four..4 four + 4` of both blocks.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C, and what the implementation is named after.
    unsafe fn weights(blocks: [__m256i; 2]) -> [__m256i; 2];

    /// Eight steps of an input from dwords of two columns of the first block, then of the second.
    ///
    /// # Safety
    /// As `weights`.
    unsafe fn inputs(twos: __m256i) -> __m256i;

    /// `words`, those of each input and side, and the sums of a pair's blocks or of halves of them; `at` has both numbers.
    ///
    /// Knows the format, so that it has one caller and becomes part of it.
    ///
    /// # Safety
    /// As `weights`.
    unsafe fn sums<S: Superblock, const T: usize>(
        words: [[__m256i; 2]; T],
        panel: &Panel,
        x: &[Input; T],
        at: (usize, usize),
    ) -> [[__m256i; 2]; T];
}

/// The upper words.
const SECOND: i32 = 0b1010_1010;

/// A dword has two columns of both blocks, so that a block's sum gathers in a word of its own.
impl Pairs for Twos {
    /// With two sides 8 sums, which leaves registers for what is multiplied.
    const INPUTS: usize = 4;
    const INPUTS_OF_HALVES: usize = 4;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn weights([first, second]: [__m256i; 2]) -> [__m256i; 2] {
        [
            _mm256_blend_epi16::<SECOND>(first, _mm256_slli_epi32::<16>(second)),
            _mm256_blend_epi16::<SECOND>(_mm256_srli_epi32::<16>(first), second),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn inputs(twos: __m256i) -> __m256i {
        twos
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn sums<S: Superblock, const T: usize>(
        mut words: [[__m256i; 2]; T],
        panel: &Panel,
        x: &[Input; T],
        (p, half): (usize, usize),
    ) -> [[__m256i; 2]; T] {
        unroll!(STEP, {
            if const { STEP < steps::<S>() } {
                let step = 8 * half + STEP;
                let weights = both(&panel.quants[p][step]);
                for t in 0..T {
                    let x = four(x[t].quants[p][step]);
                    for side in 0..2 {
                        let two = _mm256_maddubs_epi16(weights[side], x);
                        // May pass what fits 16 bits on the way, not in the end.
                        words[t][side] = keep(_mm256_add_epi16(words[t][side], two));
                    }
                }
            }
        }, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        words
    }
}

/// A dword has four columns of the first block, the next one of the second.
impl Pairs for Fours {
    /// With two sides 12 sums: nothing comes between the bytes and their sums.
    const INPUTS: usize = 6;
    const INPUTS_OF_HALVES: usize = 5;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn weights(blocks: [__m256i; 2]) -> [__m256i; 2] {
        blocks
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn inputs(twos: __m256i) -> __m256i {
        let order = _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
        _mm256_shuffle_epi8(twos, _mm256_broadcastsi128_si256(order))
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn sums<S: Superblock, const T: usize>(
        mut words: [[__m256i; 2]; T],
        panel: &Panel,
        x: &[Input; T],
        (p, half): (usize, usize),
    ) -> [[__m256i; 2]; T] {
        // What a low word is raised by while the first block is added, so that nothing is carried into the upper one.
        let raised = _mm256_set1_epi32(0x8000);
        let mut sums = [[_mm256_setzero_si256(); 2]; T];
        unroll!(STEP, {
            if const { STEP < steps::<S>() } {
                // The second block first.
                let count = steps::<S>() / 2;
                let step = 8 * half + STEP % count * 2 + if STEP < count { 1 } else { 0 };
                if const { STEP == steps::<S>() / 2 } {
                    for t in 0..T {
                        for side in 0..2 {
                            let above = _mm256_slli_epi32::<16>(sums[t][side]);
                            words[t][side] = _mm256_xor_si256(words[t][side], raised);
                            sums[t][side] = _mm256_add_epi32(above, words[t][side]);
                        }
                    }
                }
                let weights = both(&panel.quants[p][step]);
                for t in 0..T {
                    let x = four(x[t].quants[p][step]);
                    for side in 0..2 {
                        // SAFETY: this function's caller has promised the products.
                        sums[t][side] = unsafe { add_fours(sums[t][side], weights[side], x) };
                    }
                }
            }
        }, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for t in 0..T {
            for side in 0..2 {
                words[t][side] = _mm256_xor_si256(sums[t][side], raised);
            }
        }
        words
    }
}

/// Steps whose sums fit 16 bits.
const fn steps<S: Superblock>() -> usize {
    match S::SUMS {
        Sums::Blocks => 16,
        Sums::Halves | Sums::CentredHalves => 8,
    }
}

/// Both sides.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn both([first, last]: &[[u8; 32]; 2]) -> [__m256i; 2] {
    [load_256(first, 0), load_256(last, 0)]
}

/// Four quants in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn four(quants: [i8; 4]) -> __m256i {
    _mm256_set1_epi32(i32::from_le_bytes(quants.each(|quant| quant as u8)))
}
