//! Formats that are looked up: words of `crate::codebook` as registers.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::fold::{fold_middle_halves, transpose, transpose_ps};
use super::format::{GROUP, Group, Products, Quant};
use super::halves::Halves;
use super::k_halves::times_factors;
use super::multiply::Multiply;
use super::narrow::Narrow;
use super::panel::Panel;
use super::registers::{load_quants, store_256, store_ps};
use super::twos::four;
use crate::codebook::{Block, Book, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Tq1_0, Tq2_0};

/// A format and its panels.
pub trait Paneled: Book<Group: Group> {
    type Panel<M: Multiply>: Filled;
}

/// A panel that takes weights of any format of its kind.
pub trait Filled: Panel {
    /// Sets a block of eight rows, lane = row, offset included.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    unsafe fn fill(&mut self, block: usize, columns: [__m256i; 8]);

    /// Sets what they are multiplied with: each row's scale and factors.
    ///
    /// # Safety
    /// As above.
    unsafe fn set_scales(&mut self, scales: [f32; 8], factors: [__m128i; 8]);
}

impl Paneled for Iq1S {
    type Panel<M: Multiply> = Narrow<M, 4, 16>;
}

impl Paneled for Iq1M {
    type Panel<M: Multiply> = Halves<M, 2, 16>;
}

impl Paneled for Iq2Xxs {
    type Panel<M: Multiply> = Narrow<M, 1, 64>;
}

impl Paneled for Iq2Xs {
    type Panel<M: Multiply> = Halves<M, 1, 64>;
}

impl Paneled for Iq2S {
    type Panel<M: Multiply> = Halves<M, 1, 64>;
}

impl Paneled for Iq3Xxs {
    type Panel<M: Multiply> = Narrow<M, 1, 64>;
}

impl Paneled for Iq3S {
    type Panel<M: Multiply> = Narrow<M, 4, 16>;
}

impl Paneled for Tq1_0 {
    type Panel<M: Multiply> = Narrow<M, 4, 1>;
}

impl Paneled for Tq2_0 {
    type Panel<M: Multiply> = Narrow<M, 4, 1>;
}

impl<M: Multiply, const DEPTH: usize, const OFFSET: i16> Filled for Narrow<M, DEPTH, OFFSET> {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn fill(&mut self, block: usize, columns: [__m256i; 8]) {
        for k in 0..8 {
            store_256(&mut self.quants[block][k], columns[k]);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn set_scales(&mut self, scales: [f32; 8], factors: [__m128i; 8]) {
        let mut rows = [_mm256_setzero_ps(); 8];
        for r in 0..8 {
            rows[r] = scaled(scales[r], factors[r]);
        }
        for (scales, column) in self.scales.iter_mut().zip(transpose_ps(rows)) {
            store_ps(scales, column);
        }
    }
}

impl<M: Multiply, const DEPTH: usize, const OFFSET: i16> Filled for Halves<M, DEPTH, OFFSET> {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn fill(&mut self, block: usize, columns: [__m256i; 8]) {
        for k in 0..8 {
            store_256(&mut self.quants[block][k], columns[k]);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn set_scales(&mut self, scales: [f32; 8], factors: [__m128i; 8]) {
        let mut rows = [_mm256_setzero_si256(); 8];
        for r in 0..8 {
            rows[r] = _mm256_cvtepi8_epi16(factors[r]);
        }
        for (block, factors) in transpose(rows).into_iter().enumerate() {
            self.set_factors(block, factors);
        }
        self.scale = scales;
    }
}

/// The factors as a register.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn factors<B: Book>(w: &B::Group) -> __m128i {
    let [low, high] = std::array::from_fn(|half| {
        let bytes: [i8; 8] = *B::factors(w)[8 * half..].first_chunk().expect("eight of sixteen");
        i64::from_le_bytes(bytes.map(|factor| factor as u8))
    });
    _mm_set_epi64x(high, low)
}

/// A scale times eight factors.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn scaled(scale: f32, factors: __m128i) -> __m256 {
    _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(factors)))
}

/// Four words.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn words([a, b, c, d]: [u64; 4]) -> __m256i {
    _mm256_set_epi64x(d as i64, c as i64, b as i64, a as i64)
}

/// Block `j` of weights.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn weights<B: Book>(w: &B::Group, j: usize) -> __m256i {
    match B::block(w, j) {
        Block::Raised(raised) => _mm256_sub_epi8(words(raised), _mm256_set1_epi8(B::OFFSET as i8)),
        Block::Signed(magnitudes, signs) => {
            let byte = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
            let bits = _mm256_shuffle_epi8(_mm256_set1_epi32(signs as i32), byte);
            let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
            let minus = _mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit);
            _mm256_sub_epi8(_mm256_xor_si256(words(magnitudes), minus), minus)
        }
    }
}

impl<M: Multiply, B: Paneled> Quant<M> for B {
    const FORMAT: Format = <B as Book>::FORMAT;
    type Group = <B as Book>::Group;
    type Panel = B::Panel<M>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        let mut quants = [_mm256_setzero_si256(); 8];
        for j in 0..8 {
            quants[j] = weights::<B>(w, j);
        }
        let (scale, factors, minima) = (B::scale(w), factors::<B>(w), [_mm256_setzero_ps(); 2]);
        if B::HALVES {
            let mut fours = [_mm256_setzero_si256(); 8];
            for j in 0..8 {
                let x = _mm256_sign_epi8(load_quants(x, j * 32), quants[j]);
                fours[j] = four(_mm256_abs_epi8(quants[j]), x);
            }
            // Four products of magnitudes up to 43 fit 16 bits.
            let sums = times_factors(fold_middle_halves(fours), factors);
            return Products { sums, scale: _mm256_set1_ps(scale), minima };
        }
        // SAFETY: the caller promises what `signed` asks for.
        let sums = unsafe { M::signed(quants, x, x_sums) };
        Products { sums, scale: scaled(scale, factors), minima }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        let (mut scales, mut all) = ([0.0; 8], [_mm_setzero_si128(); 8]);
        for r in 0..8 {
            (scales[r], all[r]) = (B::scale(rows[r]), factors::<B>(rows[r]));
        }
        // SAFETY: this function has the features that both functions ask for.
        unsafe { panel.set_scales(scales, all) };
        for block in 0..8 {
            let mut quants = [_mm256_setzero_si256(); 8];
            for r in 0..8 {
                let offset = _mm256_set1_epi8(B::OFFSET as i8);
                quants[r] = _mm256_add_epi8(weights::<B>(rows[r], block), offset);
            }
            // SAFETY: as above.
            unsafe { panel.fill(block, transpose(quants)) };
        }
    }
}
