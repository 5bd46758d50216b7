//! Blocks as floats, with the bits of `candor_quant`'s decoders: bytes of quants become floats in registers, eight by eight.
//!
//! Where a minimum follows, a quant times its scale is exact: 11 bits of a half, up to 6 of a factor and 5 of the quant. Fusing
//! both rounds once, as the decoders do.

use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;

use candor_quant::Format;

use super::codebook::{Paneled, factors, scale as book_scale, scaled, weights};
use super::fold::negated;
use super::k_halves::{factors_2, factors_3, half_at, six_bits, third_bits, two_bits};
use super::k_quants::{fifth_bits, nibbles, scales_minima};
use super::legacy::{bits_at, four_bits, spread};
use super::nvfp4;
use super::panel::keep;
use super::registers::{load_64, load_128, load_256, load_ps, store_ps, stored};
use super::signed::{look_up, scales_xs};
use crate::array::Each;
use crate::codebook::Book;
use crate::unroll::unroll;
use crate::weights::{E4M3_UNIT, FP4_VALUES, half_e4m3, half_power};

/// A format whose blocks become floats, 32 by 32. What a run is of is a constant, and it comes back in registers: closures and
/// references to sums would be calls, and sums in memory.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Blocks {
    const FORMAT: Format;
    /// The bytes of a block.
    type Block;
    /// What its runs have in common.
    type Scales: Copy;

    /// A row's blocks.
    fn split(row: &[u8]) -> &[Self::Block];

    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    unsafe fn scales(block: &Self::Block) -> Self::Scales;

    /// Numbers `32 * RUN` to `32 * RUN + 31`, with the bits of [`Format::decode`].
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    unsafe fn run<const RUN: usize>(block: &Self::Block, scales: &Self::Scales) -> [__m256; 4];
}

/// What the runs of `R` blocks have in common. A loop: what is handed to `map` need not become part of the caller.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales_of<B: Blocks, const R: usize>(blocks: [&B::Block; R]) -> [B::Scales; R] {
    // SAFETY: this function has the features that `scales` asks for.
    let mut scales = [unsafe { B::scales(blocks[0]) }; R];
    for r in 1..R {
        // SAFETY: as above.
        scales[r] = unsafe { B::scales(blocks[r]) };
    }
    scales
}

/// What [`Format::decode`] does, to the bit, of rows that have room for their last block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn decode<B: Blocks>(row: &[u8], out: &mut [[f32; 8]]) {
    for (block, out) in B::split(row).iter().zip(out.chunks_exact_mut(B::FORMAT.block_len() / 8)) {
        let mut scales = scales_of::<B, 1>([block]);
        let [scales] = stored(&mut scales);
        unroll!(RUN, {
            if const { 32 * RUN < B::FORMAT.block_len() } {
                // SAFETY: this function has the features that `run` asks for.
                let weights = unsafe { B::run::<RUN>(block, scales) };
                for k in 0..4 {
                    store_ps(&mut out[4 * RUN + k], weights[k]);
                }
            }
        });
    }
}

/// Adds products of blocks of several rows with the same inputs to each row's lanes, in order. Run after run, since sums of one
/// row wait for each other.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn plus_products<B: Blocks, const R: usize>(
    mut lanes: [__m256; R],
    blocks: [&B::Block; R],
    x: &[[f32; 8]],
) -> [__m256; R] {
    let mut scales = scales_of::<B, R>(blocks);
    // From memory a broadcast takes no more than a load, from a register it would take a shuffle.
    let scales = stored(&mut scales);
    unroll!(RUN, {
        if const { 32 * RUN < B::FORMAT.block_len() } {
            for r in 0..R {
                // SAFETY: this function has the features that `run` asks for.
                let weights = unsafe { B::run::<RUN>(blocks[r], &scales[r]) };
                for k in 0..4 {
                    lanes[r] = _mm256_fmadd_ps(weights[k], load_ps(&x[4 * RUN + k]), lanes[r]);
                }
                lanes[r] = settled(lanes[r]);
            }
        }
    });
    lanes
}

/// The sums themselves. What follows does not begin before: the compiler would decode all rows first, and spill them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn settled(mut sums: __m256) -> __m256 {
    // SAFETY: no instruction is emitted.
    unsafe { asm!("/* {0} */", inout(ymm_reg) sums, options(nostack, preserves_flags)) };
    sums
}

/// 8 signed bytes from `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn eight<const N: usize>(bytes: &[u8; N], at: usize) -> __m256 {
    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64(bytes, at)))
}

/// 32 signed bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn floats(quants: __m256i) -> [__m256; 4] {
    let (first, second) = (_mm256_castsi256_si128(quants), _mm256_extracti128_si256::<1>(quants));
    let mut eights = [_mm256_setzero_ps(); 4];
    let bytes = [first, _mm_unpackhi_epi64(first, first), second, _mm_unpackhi_epi64(second, second)];
    for k in 0..4 {
        eights[k] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes[k]));
    }
    eights
}

/// 32 signed bytes times their scale.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn times(quants: __m256i, scale: __m256) -> [__m256; 4] {
    times_both(quants, [scale; 2])
}

/// The same with a scale for each half.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn times_both(quants: __m256i, [first, second]: [__m256; 2]) -> [__m256; 4] {
    let [a, b, c, d] = floats(quants);
    [_mm256_mul_ps(a, first), _mm256_mul_ps(b, first), _mm256_mul_ps(c, second), _mm256_mul_ps(d, second)]
}

/// 32 signed bytes times their scale, and a number more.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn times_plus(quants: __m256i, scale: __m256, more: __m256) -> [__m256; 4] {
    let [a, b, c, d] = floats(quants);
    [
        _mm256_fmadd_ps(a, scale, more),
        _mm256_fmadd_ps(b, scale, more),
        _mm256_fmadd_ps(c, scale, more),
        _mm256_fmadd_ps(d, scale, more),
    ]
}

/// 16 signed bytes times a scale.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sixteen(scale: __m256, factors: __m128i) -> [[f32; 8]; 2] {
    [lanes(scaled(scale, factors)), lanes(scaled(scale, _mm_unpackhi_epi64(factors, factors)))]
}

/// A register's numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn lanes(register: __m256) -> [f32; 8] {
    let mut lanes = [0.0; 8];
    store_ps(&mut lanes, register);
    lanes
}

/// Scales of the halves of a run.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn halves(sixteen: &[[f32; 8]; 2], run: usize) -> [__m256; 2] {
    let [first, second] = [2 * run % 8, 2 * run % 8 + 1];
    [_mm256_broadcast_ss(&sixteen[run / 4][first]), _mm256_broadcast_ss(&sixteen[run / 4][second])]
}

/// A format that is looked up in a codebook.
pub struct Books<B>(PhantomData<B>);

impl<B: Paneled> Blocks for Books<B> {
    const FORMAT: Format = <B as Book>::FORMAT;
    type Block = <B as Book>::Group;
    type Scales = ([[f32; 8]; 2], <B as Book>::Read);

    fn split(row: &[u8]) -> &[Self::Block] {
        B::groups(row)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn scales(block: &Self::Block) -> Self::Scales {
        // SAFETY: this function has the features that `places` asks for.
        (sixteen(book_scale::<B>(block), factors::<B>(block)), unsafe { B::places(block) })
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn run<const RUN: usize>(_: &Self::Block, (scales, read): &Self::Scales) -> [__m256; 4] {
        let both = if B::HALVES { halves(scales, RUN) } else { [_mm256_broadcast_ss(&scales[0][RUN]); 2] };
        times_both(weights::<B>(read, RUN), both)
    }
}

/// Formats of blocks of `$bytes` bytes: what runs have in common, and a run.
macro_rules! blocks {
    ($($name:ident [$bytes:literal] $block:ident -> $type:ty = $scales:expr, $common:pat, $run:ident => $registers:expr;)*) => {
        $(
            pub enum $name {}

            impl Blocks for $name {
                const FORMAT: Format = Format::$name;
                type Block = [u8; $bytes];
                type Scales = $type;

                fn split(row: &[u8]) -> &[Self::Block] {
                    row.as_chunks().0
                }

                #[inline]
                #[target_feature(enable = "avx2,fma,f16c")]
                unsafe fn scales($block: &Self::Block) -> Self::Scales {
                    $scales
                }

                #[inline]
                #[target_feature(enable = "avx2,fma,f16c")]
                unsafe fn run<const $run: usize>($block: &Self::Block, $common: &Self::Scales) -> [__m256; 4] {
                    $registers
                }
            }
        )*
    };
}

blocks! {
    Q4_0[18] block -> __m256 = half_at(block, 0), &d, RUN => {
        times(_mm256_sub_epi8(four_bits(block, 2), _mm256_set1_epi8(8)), d)
    };
    Q4_1[20] block -> [__m256; 2] = [half_at(block, 0), half_at(block, 2)], &[d, m], RUN => {
        times_plus(four_bits(block, 4), d, m)
    };
    Q5_0[22] block -> __m256 = half_at(block, 0), &d, RUN => {
        let quants = _mm256_or_si256(four_bits(block, 6), spread(bits_at(block, 2)));
        times(_mm256_sub_epi8(quants, _mm256_set1_epi8(16)), d)
    };
    Q5_1[24] block -> [__m256; 2] = [half_at(block, 0), half_at(block, 2)], &[d, m], RUN => {
        times_plus(_mm256_or_si256(four_bits(block, 8), spread(bits_at(block, 4))), d, m)
    };
    Q8_0[34] block -> __m256 = half_at(block, 0), &d, RUN => {
        let mut eights = [d; 4];
        for k in 0..4 {
            eights[k] = _mm256_mul_ps(eight(block, 2 + 8 * k), d);
        }
        eights
    };
    Iq4Nl[18] block -> __m256 = half_at(block, 0), &d, RUN => times(look_up(load_128(block, 2)), d);
    Mxfp4[17] block -> __m256 = _mm256_set1_ps(half_power(block[0])), &d, RUN => times(fp4(four_bits(block, 1)), d);
    Nvfp4[36] block -> [f32; 4] = {
        let mut scales = [0.0; 4];
        for i in 0..4 {
            scales[i] = half_e4m3(block[i]) as f32 * E4M3_UNIT;
        }
        scales
    }, scales, RUN => {
        let both = [_mm256_broadcast_ss(&scales[2 * RUN]), _mm256_broadcast_ss(&scales[2 * RUN + 1])];
        times_both(fp4(nvfp4::four_bits(block, 4 + 16 * RUN)), both)
    };
    Tq2_0[66] block -> __m256 = half_at(block, 64), &d, RUN => {
        times(_mm256_sub_epi8(two_bits(load_256(block, RUN / 4 * 32), RUN % 4), _mm256_set1_epi8(1)), d)
    };
    Q2K[84] block -> [[[f32; 8]; 2]; 2] = {
        let minima = _mm_and_si128(_mm_srli_epi16::<4>(load_128(block, 0)), _mm_set1_epi8(15));
        [sixteen(half_at(block, 80), factors_2(block)), sixteen(negated(half_at(block, 82)), minima)]
    }, [scales, minima], RUN => {
        let [a, b, c, d] = floats(two_bits(load_256(block, 16 + RUN / 4 * 32), RUN % 4));
        let ([first, second], [less, least]) = (halves(scales, RUN), halves(minima, RUN));
        [
            _mm256_fmadd_ps(a, first, less),
            _mm256_fmadd_ps(b, first, less),
            _mm256_fmadd_ps(c, second, least),
            _mm256_fmadd_ps(d, second, least),
        ]
    };
    Q3K[110] block -> [[f32; 8]; 2] = sixteen(half_at(block, 108), factors_3(block)), scales, RUN => {
        let low = two_bits(load_256(block, 32 + RUN / 4 * 32), RUN % 4);
        let quants = _mm256_or_si256(low, third_bits(load_256(block, 0), RUN));
        times_both(_mm256_sub_epi8(quants, _mm256_set1_epi8(4)), halves(scales, RUN))
    };
    Q4K[144] block -> [[f32; 8]; 2] = scales_less(block), [scales, minima], RUN => {
        let (scale, minimum) = (_mm256_broadcast_ss(&scales[RUN]), _mm256_broadcast_ss(&minima[RUN]));
        let mut eights = [scale; 4];
        for k in 0..4 {
            let both = keep(_mm256_cvtepu8_epi32(load_64(block, 16 + RUN / 2 * 32 + 8 * k)));
            let quants =
                if RUN.is_multiple_of(2) { _mm256_and_si256(both, _mm256_set1_epi32(15)) } else { _mm256_srli_epi32::<4>(both) };
            eights[k] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(quants), scale, minimum);
        }
        eights
    };
    Q5K[176] block -> [[f32; 8]; 2] = scales_less(block), [scales, minima], RUN => {
        let low = nibbles(load_256(block, 48 + RUN / 2 * 32))[RUN % 2];
        let quants = _mm256_or_si256(low, fifth_bits(load_256(block, 16), RUN));
        times_plus(quants, _mm256_broadcast_ss(&scales[RUN]), _mm256_broadcast_ss(&minima[RUN]))
    };
    Q6K[210] block -> [[f32; 8]; 2] = sixteen(half_at(block, 208), load_128(block, 192)), scales, RUN => {
        let at = RUN / 4 * 64;
        let runs = six_bits(load_256(block, at), load_256(block, at + 32), load_256(block, 128 + RUN / 4 * 32));
        times_both(_mm256_sub_epi8(runs[RUN % 4], _mm256_set1_epi8(32)), halves(scales, RUN))
    };
    Iq4Xs[136] block -> [f32; 8] = lanes(scales_xs(block)), scales, RUN => {
        times(look_up(load_128(block, 8 + 16 * RUN)), _mm256_broadcast_ss(&scales[RUN]))
    };
}

/// Scales of the runs of Q4_K and Q5_K, and their minima to be added.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales_less<const N: usize>(block: &[u8; N]) -> [[f32; 8]; 2] {
    let (scales, minima) = scales_minima(block);
    [lanes(scales), lanes(negated(minima))]
}

/// What nibbles of 4-bit floats stand for.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fp4(nibbles: __m256i) -> __m256i {
    let table = load_128(&FP4_VALUES.each(|value| value as u8), 0);
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles)
}
