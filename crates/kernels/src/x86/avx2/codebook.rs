//! Formats that are looked up: words of `crate::codebook` as registers.

use crate::unroll::unroll;
use std::arch::asm;
use std::arch::x86_64::*;

use candor_quant::Format;

use super::fold::{fold_middle_halves, transpose, transpose_ps};
use super::format::{GROUP, Group, Products, Quant};
use super::halves::Halves;
use super::k_halves::times_factors;
use super::multiply::Multiply;
use super::narrow::Narrow;
use super::panel::{Columns, Panel};
use super::registers::{load_128, load_256, load_quants, store_256, store_i16, store_ps};
use super::twos::four;
use crate::codebook::{Bits, Book, IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, Read};
use crate::codebook::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Tq1_0, Tq2_0};

/// A format and its panels.
pub trait Paneled: Book<Group: Group> {
    type Panel<M: Multiply>: Filled;

    /// As [`Book::read`].
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn places(w: &Self::Group) -> Self::Read {
        Self::read(w)
    }

    /// The words of a block.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    unsafe fn load(read: &Self::Read, j: usize) -> __m256i;
}

/// A panel that takes weights of any format of its kind.
pub trait Filled: Panel {
    /// Weights of eight blocks, lane = row, offset included.
    fn quants(&mut self) -> &mut [[Columns; 8]; 8];

    /// Sets what they are multiplied with: each row's scale and factors.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    unsafe fn set_scales(&mut self, scales: [__m256; 8], factors: [__m128i; 8]);
}

/// A format, its panel, what loads a block, and how it is read, if the compiler makes less of the plain code.
macro_rules! paneled {
    ($($book:ident: $panel:ident<$depth:literal>, $read:ident, $j:ident => $words:expr $(, $w:ident => $places:expr)?;)*) => {
        $(impl Paneled for $book {
            type Panel<M: Multiply> = $panel<M, $depth, { <$book as Book>::OFFSET }>;

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn load($read: &Self::Read, $j: usize) -> __m256i {
                $words
            }

            $(#[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn places($w: &Self::Group) -> Self::Read {
                $places
            })?
        })*
    };
}

paneled! {
    Iq1S: Narrow<4>, read, j => eights(&IQ1, read, j), w => places_1s(w);
    Iq1M: Halves<2>, read, j => eights(&IQ1, read, j);
    Iq2Xxs: Narrow<1>, read, j => eights(&IQ2_XXS, read, j);
    Iq2Xs: Halves<1>, read, j => eights(&IQ2_XS, read, j);
    Iq2S: Halves<1>, read, j => eights(&IQ2_S, read, j), w => places_2s(w);
    Iq3Xxs: Narrow<1>, read, j => fours(&IQ3_XXS, read, j);
    Iq3S: Narrow<4>, read, j => fours(&IQ3_S, read, j), w => places_3s(w);
    Tq1_0: Narrow<4>, read, j => load_256(&read.0, 32 * j);
    Tq2_0: Narrow<4>, read, j => digits(&read.0, j);
}

/// Digits of two bits: those of four blocks lie in 32 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn digits(bytes: &[u8; 64], j: usize) -> __m256i {
    let shift = _mm_cvtsi32_si128(2 * (j % 4) as i32);
    _mm256_and_si256(_mm256_srl_epi16(load_256(bytes, 32 * (j / 4)), shift), _mm256_set1_epi8(3))
}

/// Lanes `4 * k` to `4 * k + 3` are word `first + k`: what four points share.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn four_times(words: __m128i, first: i16) -> __m256i {
    let word = |k: i16| 0x0100 + 0x0202 * (first + k);
    let (a, b, c, d) = (word(0), word(1), word(2), word(3));
    let order = _mm256_setr_epi16(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(words), order)
}

/// Registers of 16 places.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn stored(registers: [__m256i; 4]) -> [u16; 64] {
    let mut places = [[0; 16]; 4];
    for (places, register) in places.iter_mut().zip(registers) {
        store_i16(places, register);
    }
    let mut all = [0; 64];
    for (all, place) in all.iter_mut().zip(places.as_flattened()) {
        *all = place.cast_unsigned();
    }
    all
}

/// Eight words of signs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn signs<const N: usize>(w: &[u8; N], at: usize) -> [u32; 8] {
    let mut signs = [0; 8];
    for j in 0..8 {
        let at = at + 4 * j;
        signs[j] = u32::from_le_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]]);
    }
    signs
}

/// IQ1_S: bytes and three bits above them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn places_1s(w: &[u8; 50]) -> Read<2048> {
    let words = load_128(w, 34);
    // Bits 0, 3 and 6 of words go up to bit 8, bit 9 down to it.
    let up = _mm256_set1_epi64x(0x0000_0004_0020_0100);
    let down = _mm256_set1_epi64x(0x8000_0000_0000_0000_u64.cast_signed());
    let mut places = [_mm256_setzero_si256(); 4];
    for half in 0..2 {
        let words = four_times(words, 4 * half as i16);
        let both = _mm256_or_si256(_mm256_mullo_epi16(words, up), _mm256_mulhi_epu16(words, down));
        let upper = _mm256_and_si256(both, _mm256_set1_epi16(0x700));
        places[half] = _mm256_or_si256(_mm256_cvtepu8_epi16(load_128(w, 2 + 16 * half)), upper);
    }
    let mut down = [0; 8];
    for j in 0..8 {
        down[j] = i32::from(w[35 + 2 * j].cast_signed() >> 7).cast_unsigned();
    }
    Read::new(stored(places), down)
}

/// IQ2_S: bytes and two bits above them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn places_2s(w: &[u8; 82]) -> Read<1024> {
    let bytes: &[u8; 8] = w[66..].first_chunk().expect("eight of 82");
    let words = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(i64::from_le_bytes(*bytes)));
    let mut places = [_mm256_setzero_si256(); 4];
    for half in 0..2 {
        let up = _mm256_mullo_epi16(four_times(words, 4 * half as i16), _mm256_set1_epi64x(0x0004_0010_0040_0100));
        let upper = _mm256_and_si256(up, _mm256_set1_epi16(0x300));
        places[half] = _mm256_or_si256(_mm256_cvtepu8_epi16(load_128(w, 2 + 16 * half)), upper);
    }
    Read::new(stored(places), signs(w, 34))
}

/// IQ3_S: bytes and a ninth bit.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn places_3s(w: &[u8; 110]) -> Read<512> {
    let ninth = signs(w, 66);
    let mut places = [_mm256_setzero_si256(); 4];
    for half in 0..2 {
        let low = load_256(w, 2 + 32 * half);
        let ninth = _mm256_and_si256(spread(ninth[half]), _mm256_set1_epi8(1));
        let [first, second] = [_mm256_unpacklo_epi8(low, ninth), _mm256_unpackhi_epi8(low, ninth)];
        places[2 * half] = _mm256_permute2x128_si256::<0x20>(first, second);
        places[2 * half + 1] = _mm256_permute2x128_si256::<0x31>(first, second);
    }
    Read::new(stored(places), signs(w, 74))
}

/// Four numbers of 16 bits. From one register: the compiler would fetch each from a vector.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn apart(mut four: u64) -> [u64; 4] {
    // SAFETY: no instruction is emitted.
    unsafe { asm!("/* {0} */", inout(reg) four, options(nomem, nostack, preserves_flags)) };
    [four & 0xffff, four >> 16 & 0xffff, four >> 32 & 0xffff, four >> 48]
}

/// Four points of eight coordinates. By their instructions: the compiler would gather, which takes three times as long.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn eights<const N: usize>(book: &[u64; N], read: &Read<N>, j: usize) -> __m256i {
    let (low, high): (__m128i, __m128i);
    let [a, b, c, d] = apart(read.four(j));
    // SAFETY: the processor has AVX2, and a place of `Read<N>` is below `N`.
    unsafe {
        asm!(
            "vmovq {low}, qword ptr [{book} + 8 * {a}]",
            "vmovq {high}, qword ptr [{book} + 8 * {c}]",
            "vmovhps {low}, {low}, qword ptr [{book} + 8 * {b}]",
            "vmovhps {high}, {high}, qword ptr [{book} + 8 * {d}]",
            low = out(xmm_reg) low,
            high = out(xmm_reg) high,
            book = in(reg) book.as_ptr(),
            a = in(reg) a, b = in(reg) b, c = in(reg) c, d = in(reg) d,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    _mm256_set_m128i(high, low)
}

/// Eight points of four.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fours<const N: usize>(book: &[u32; N], read: &Read<N>, j: usize) -> __m256i {
    _mm256_set_m128i(four_fours(book, read, 2 * j + 1), four_fours(book, read, 2 * j))
}

/// Four points of four.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn four_fours<const N: usize>(book: &[u32; N], read: &Read<N>, i: usize) -> __m128i {
    let all: __m128i;
    let [a, b, c, d] = apart(read.four(i));
    // SAFETY: as in `eights`.
    unsafe {
        asm!(
            "vmovd {all}, dword ptr [{book} + 4 * {a}]",
            "vpinsrd {all}, {all}, dword ptr [{book} + 4 * {b}], 1",
            "vpinsrd {all}, {all}, dword ptr [{book} + 4 * {c}], 2",
            "vpinsrd {all}, {all}, dword ptr [{book} + 4 * {d}], 3",
            all = out(xmm_reg) all,
            book = in(reg) book.as_ptr(),
            a = in(reg) a, b = in(reg) b, c = in(reg) c, d = in(reg) d,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    all
}

impl<M: Multiply, const DEPTH: usize, const OFFSET: i16> Filled for Narrow<M, DEPTH, OFFSET> {
    fn quants(&mut self) -> &mut [[Columns; 8]; 8] {
        &mut self.quants
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn set_scales(&mut self, scales: [__m256; 8], factors: [__m128i; 8]) {
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
    fn quants(&mut self) -> &mut [[Columns; 8]; 8] {
        &mut self.quants
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn set_scales(&mut self, scales: [__m256; 8], factors: [__m128i; 8]) {
        let mut rows = [_mm256_setzero_si256(); 8];
        for r in 0..8 {
            rows[r] = _mm256_cvtepi8_epi16(factors[r]);
        }
        for (block, factors) in transpose(rows).into_iter().enumerate() {
            self.set_factors(block, factors);
        }
        store_ps(&mut self.scale, transpose_ps(scales)[0]);
    }
}

/// The factors as a register.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn factors<B: Book>(w: &B::Group) -> __m128i {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = B::factors(w);
    _mm_setr_epi8(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
}

/// The scale in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn scale<B: Book>(w: &B::Group) -> __m256 {
    let half = _mm_cvtph_ps(_mm_cvtsi32_si128(B::scale(w).into()));
    _mm256_broadcastss_ps(_mm_mul_ss(half, _mm_set_ss(B::UNIT)))
}

/// A scale times eight factors.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn scaled(scale: __m256, factors: __m128i) -> __m256 {
    _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(factors)))
}

/// Block `j` of weights.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn weights<B: Paneled>(read: &B::Read, j: usize) -> __m256i {
    // SAFETY: this function has the features that `load` asks for.
    let words = unsafe { B::load(read, j) };
    let offset = _mm256_set1_epi8(B::OFFSET as i8);
    match B::BITS {
        Bits::None => _mm256_sub_epi8(words, offset),
        Bits::Signs => {
            let minus = spread(B::bits(read, j));
            _mm256_sub_epi8(_mm256_xor_si256(words, minus), minus)
        }
        Bits::Down => {
            let shift = _mm256_or_si256(spread(B::bits(read, j)), _mm256_set1_epi8(1));
            _mm256_add_epi8(_mm256_sub_epi8(words, offset), shift)
        }
    }
}

/// All ones in each byte that has a bit.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn spread(bits: u32) -> __m256i {
    let byte = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits.cast_signed()), byte);
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201u64.cast_signed());
    _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit)
}

impl<M: Multiply, B: Paneled> Quant<M> for B {
    const FORMAT: Format = <B as Book>::FORMAT;
    type Group = <B as Book>::Group;
    type Panel = B::Panel<M>;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn products(w: &Self::Group, x: &[i8; GROUP], x_sums: __m256i) -> Products {
        // SAFETY: this function has the features that `places` asks for.
        let read = unsafe { B::places(w) };
        let read = &read;
        let mut quants = [_mm256_setzero_si256(); 8];
        unroll!(J, {
            quants[J] = weights::<B>(read, J);
        });
        let (scale, factors, minima) = (scale::<B>(w), factors::<B>(w), [_mm256_setzero_ps(); 2]);
        if B::HALVES {
            let mut fours = [_mm256_setzero_si256(); 8];
            for j in 0..8 {
                let x = _mm256_sign_epi8(load_quants(x, j * 32), quants[j]);
                fours[j] = four(_mm256_abs_epi8(quants[j]), x);
            }
            // Four products of magnitudes up to 43 fit 16 bits.
            let sums = times_factors(fold_middle_halves(fours), factors);
            return Products { sums: _mm256_cvtepi32_ps(sums), scale, minima };
        }
        // SAFETY: the caller promises what `signed` asks for.
        let sums = unsafe { M::signed(quants, x, x_sums) };
        Products { sums: _mm256_cvtepi32_ps(sums), scale: scaled(scale, factors), minima }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Self::Panel, rows: [&Self::Group; 8]) {
        let (mut scales, mut all) = ([_mm256_setzero_ps(); 8], [_mm_setzero_si128(); 8]);
        for r in 0..8 {
            (scales[r], all[r]) = (scale::<B>(rows[r]), factors::<B>(rows[r]));
        }
        // SAFETY: this function has the features that both functions ask for.
        unsafe { panel.set_scales(scales, all) };
        // Row by row, as they are read; then block by block.
        let mut quants = [[_mm256_setzero_si256(); 8]; 8];
        for r in 0..8 {
            // SAFETY: as above.
            let read = unsafe { B::places(rows[r]) };
            let read = &read;
            unroll!(J, {
                quants[J][r] = _mm256_add_epi8(weights::<B>(read, J), _mm256_set1_epi8(B::OFFSET as i8));
            });
        }
        for (block, quants) in panel.quants().iter_mut().zip(quants) {
            for (columns, register) in block.iter_mut().zip(transpose(quants)) {
                store_256(columns, register);
            }
        }
    }
}
