//! Blocks as floats, with the bits of `candor_quant`'s decoders. Written by hand where a register's lanes are looked up, or where
//! the compiler makes less of those decoders; all others are compiled for AVX-512.

use crate::unroll::unroll;
use std::arch::x86_64::*;
use std::hint::black_box;
use std::marker::PhantomData;

use candor_quant::{Format, blocks::Decode};

use super::registers::{load_ps, store_ps};
use crate::codebook::Book;
use crate::weights::{E4M3_UNIT, FP4_VALUES, IQ4_VALUES, half_e4m3, half_power};
use crate::x86::avx2::codebook::{Paneled, factors as book_factors, scale as book_scale, weights};
use crate::x86::avx2::registers::{load_128, load_256};
use crate::x86::batch::lines::half_at;
use crate::x86::batch::unpack::k_quants::factors;
use crate::x86::batch::unpack::legacy::{counting, counting_on, scaled, uneven};

/// What takes the numbers of a block, sixteen by sixteen. It goes from hand to hand, so that sums stay in registers whatever is inlined:
/// behind a reference they are stored and loaded for each sixteen where [`Blocks::each`] is called.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Sink: Sized {
    /// # Safety
    /// The processor has AVX-512 F.
    unsafe fn put(self, sixteen: __m512) -> Self;
}

/// A format whose blocks become floats.
pub trait Blocks {
    const FORMAT: Format;

    /// Hands out the numbers of a block, in order and with the bits of [`Format::decode`].
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, VL and DQ, and what AVX2's table needs.
    unsafe fn each<S: Sink>(block: &[u8], sink: S) -> S;
}

/// Stores numbers one after the other.
struct Store<'a> {
    out: &'a mut [[f32; 16]],
    next: usize,
}

impl Sink for Store<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    unsafe fn put(self, sixteen: __m512) -> Self {
        store_ps(&mut self.out[self.next], sixteen);
        Store { next: self.next + 1, ..self }
    }
}

/// What [`Format::decode`] does, to the bit; whole blocks that either slice has no room for are left out.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
pub fn decode<B: Blocks>(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.chunks_exact(B::FORMAT.block_bytes());
    for (block, out) in blocks.zip(out.chunks_exact_mut(B::FORMAT.block_len())) {
        let store = Store { out: out.as_chunks_mut().0, next: 0 };
        // SAFETY: this function has the features that `each` asks for.
        unsafe { B::each(block, store) };
    }
}

/// A format by `candor_quant`'s decoder.
pub struct Compiled<D>(PhantomData<D>);

impl<D: Decode> Blocks for Compiled<D> {
    const FORMAT: Format = D::FORMAT;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    unsafe fn each<S: Sink>(block: &[u8], mut sink: S) -> S {
        let mut values = [[0.0; 16]; 16];
        let values = &mut values[..D::FORMAT.block_len() / 16];
        D::decode(block, values.as_flattened_mut());
        for values in values {
            // SAFETY: this function has the features that `put` asks for.
            sink = unsafe { sink.put(load_ps(values)) };
        }
        sink
    }
}

/// A format that is looked up in a codebook.
pub struct Books<B>(PhantomData<B>);

impl<B: Paneled> Blocks for Books<B> {
    const FORMAT: Format = <B as Book>::FORMAT;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    unsafe fn each<S: Sink>(block: &[u8], mut sink: S) -> S {
        for w in B::groups(block) {
            let scale = _mm512_broadcastss_ps(_mm256_castps256_ps128(book_scale::<B>(w)));
            let scales = in_memory(scaled(book_factors::<B>(w), scale));
            // SAFETY: AVX-512 has what AVX2 has, and this function has F16C.
            let read = unsafe { B::places(w) };
            unroll!(J, {
                let (first, last) = if B::HALVES { (2 * J, 2 * J + 1) } else { (J, J) };
                let quants = weights::<B>(&read, J);
                let first = scaled(_mm256_castsi256_si128(quants), _mm512_set1_ps(scales[first]));
                let last = scaled(_mm256_extracti128_si256::<1>(quants), _mm512_set1_ps(scales[last]));
                // SAFETY: this function has the features that `put` asks for.
                sink = unsafe { sink.put(first).put(last) };
            });
        }
        sink
    }
}

/// Numbers that are to be broadcast one by one. From memory: from a register it would take the port of the look-ups.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_memory(register: __m512) -> [f32; 16] {
    let mut numbers = [0.0; 16];
    store_ps(&mut numbers, register);
    black_box(numbers)
}

/// 16 bytes as dwords. Look-ups of nibbles do not see the upper ones.
#[inline]
#[target_feature(enable = "avx512f")]
fn dwords<const N: usize>(block: &[u8; N], at: usize) -> __m512i {
    _mm512_cvtepu8_epi32(load_128(block, at))
}

/// What low nibbles stand for.
#[inline]
#[target_feature(enable = "avx512f")]
fn low(dwords: __m512i, table: __m512) -> __m512 {
    _mm512_permutexvar_ps(dwords, table)
}

/// What high nibbles stand for.
#[inline]
#[target_feature(enable = "avx512f")]
fn high(dwords: __m512i, table: __m512) -> __m512 {
    _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(dwords), table)
}

/// What low nibbles and fifth bits stand for, which are the bits 4 of `fifth`. Bits above do not count.
#[inline]
#[target_feature(enable = "avx512f")]
fn five(quants: __m512i, fifth: __m512i, [low, high]: [__m512; 2]) -> __m512 {
    // nibble ? quants : fifth
    let places = _mm512_ternarylogic_epi32::<0xca>(_mm512_set1_epi32(15), quants, fifth);
    _mm512_permutex2var_ps(low, places, high)
}

/// What 32 nibbles stand for, the low ones first.
#[inline]
#[target_feature(enable = "avx512f")]
fn nibbles<const N: usize>(block: &[u8; N], at: usize, table: __m512) -> [__m512; 2] {
    let dwords = dwords(block, at);
    [low(dwords, table), high(dwords, table)]
}

/// What 32 numbers of five bits stand for: nibbles at `at`, the fifth bits at `word`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn fives<const N: usize>(block: &[u8; N], (word, at): (usize, usize), table: [__m512; 2]) -> [__m512; 2] {
    let bits = u32::from_le_bytes([block[word], block[word + 1], block[word + 2], block[word + 3]]);
    let (quants, sixteen) = (dwords(block, at), _mm512_set1_epi32(16));
    let fifth = [_mm512_maskz_mov_epi32(bits as u16, sixteen), _mm512_maskz_mov_epi32((bits >> 16) as u16, sixteen)];
    [five(quants, fifth[0], table), five(_mm512_srli_epi32::<4>(quants), fifth[1], table)]
}

/// Formats of blocks of `$bytes` bytes; `$put` hands out some registers.
macro_rules! blocks {
    ($($name:ident [$bytes:literal] $block:ident, $put:ident => $body:block)*) => {
        $(
            pub enum $name {}

            impl Blocks for $name {
                const FORMAT: Format = Format::$name;

                #[inline]
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
                unsafe fn each<S: Sink>(block: &[u8], mut sink: S) -> S {
                    let $block: &[u8; $bytes] = block.first_chunk().expect("a whole block");
                    macro_rules! $put {
                        ($registers:expr) => {
                            for register in $registers {
                                // SAFETY: this function has the features that `put` asks for.
                                sink = unsafe { sink.put(register) };
                            }
                        };
                    }
                    $body
                    sink
                }
            }
        )*
    };
}

blocks! {
    Q4_0[18] block, put => {
        let values = _mm512_sub_ps(counting(), _mm512_set1_ps(8.0));
        put!(nibbles(block, 2, _mm512_mul_ps(values, half_at(block, 0))));
    }
    Q4_1[20] block, put => {
        let values = _mm512_mul_ps(counting(), half_at(block, 0));
        put!(nibbles(block, 4, _mm512_add_ps(values, half_at(block, 2))));
    }
    Q5_0[22] block, put => {
        let (d, offset) = (half_at(block, 0), _mm512_set1_ps(16.0));
        let low = _mm512_mul_ps(_mm512_sub_ps(counting(), offset), d);
        put!(fives(block, (2, 6), [low, _mm512_mul_ps(counting(), d)]));
    }
    Q5_1[24] block, put => {
        let (d, m) = (half_at(block, 0), half_at(block, 2));
        let low = _mm512_add_ps(_mm512_mul_ps(counting(), d), m);
        put!(fives(block, (4, 8), [low, _mm512_add_ps(_mm512_mul_ps(counting_on(), d), m)]));
    }
    Iq4Nl[18] block, put => {
        put!(nibbles(block, 2, _mm512_mul_ps(uneven(IQ4_VALUES), half_at(block, 0))));
    }
    Mxfp4[17] block, put => {
        put!(nibbles(block, 1, _mm512_mul_ps(uneven(FP4_VALUES), _mm512_set1_ps(half_power(block[0])))));
    }
    Nvfp4[36] block, put => {
        for group in 0..4 {
            let scale = half_e4m3(block[group]) as f32 * E4M3_UNIT;
            let table = _mm512_mul_ps(uneven(FP4_VALUES), _mm512_set1_ps(scale));
            // The low nibbles of 8 bytes, then the high ones.
            let bytes: &[u8; 8] = block[4 + 8 * group..].first_chunk().expect("four times 8 of 36 bytes");
            let bytes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(*bytes)));
            let both = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(bytes), _mm256_srli_epi32::<4>(bytes));
            put!([low(both, table)]);
        }
    }
    Q4K[144] block, put => {
        let factors = black_box(factors(block));
        let table = |group: usize| {
            let values = _mm512_mul_ps(counting(), _mm512_set1_ps(factors[group]));
            _mm512_sub_ps(values, _mm512_set1_ps(factors[8 + group]))
        };
        for pair in 0..4 {
            let (even, odd) = (table(2 * pair), table(2 * pair + 1));
            let [a, b] = [dwords(block, 16 + 32 * pair), dwords(block, 32 + 32 * pair)];
            put!([low(a, even), low(b, even), high(a, odd), high(b, odd)]);
        }
    }
    Q5K[176] block, put => {
        let factors = black_box(factors(block));
        let table = |group: usize| {
            let (scale, minimum) = (_mm512_set1_ps(factors[group]), _mm512_set1_ps(factors[8 + group]));
            let low = _mm512_sub_ps(_mm512_mul_ps(counting(), scale), minimum);
            [low, _mm512_sub_ps(_mm512_mul_ps(counting_on(), scale), minimum)]
        };
        // The fifth bit of group g is bit g: it is moved to bit 4.
        let mut fifth = [_mm512_slli_epi32::<4>(dwords(block, 16)), _mm512_slli_epi32::<4>(dwords(block, 32))];
        for pair in 0..4 {
            let mut quants = [dwords(block, 48 + 32 * pair), dwords(block, 64 + 32 * pair)];
            for side in 0..2 {
                let table = table(2 * pair + side);
                put!([five(quants[0], fifth[0], table), five(quants[1], fifth[1], table)]);
                for half in 0..2 {
                    quants[half] = _mm512_srli_epi32::<4>(quants[half]);
                    fifth[half] = _mm512_srli_epi32::<1>(fifth[half]);
                }
            }
        }
    }
    Q6K[210] block, put => {
        let scales = in_memory(scaled(load_128(block, 192), half_at(block, 208)));
        for half in 0..2 {
            // Runs 0 and 1 are low nibbles, runs 2 and 3 high ones; run k has its upper bits at bit 2 k.
            let (a, b) = (load_256(block, 64 * half), load_256(block, 64 * half + 32));
            let upper = load_256(block, 128 + 32 * half);
            let quants = |low, upper| {
                let low = _mm256_and_si256(low, _mm256_set1_epi8(0x0f));
                let both = _mm256_or_si256(low, _mm256_and_si256(upper, _mm256_set1_epi8(0x30)));
                _mm256_sub_epi8(both, _mm256_set1_epi8(32))
            };
            let runs = [
                quants(a, _mm256_slli_epi16::<4>(upper)),
                quants(b, _mm256_slli_epi16::<2>(upper)),
                quants(_mm256_srli_epi16::<4>(a), upper),
                quants(_mm256_srli_epi16::<4>(b), _mm256_srli_epi16::<2>(upper)),
            ];
            for run in 0..4 {
                let at = 8 * half + 2 * run;
                let first = scaled(_mm256_castsi256_si128(runs[run]), _mm512_set1_ps(scales[at]));
                let last = _mm256_extracti128_si256::<1>(runs[run]);
                put!([first, scaled(last, _mm512_set1_ps(scales[at + 1]))]);
            }
        }
    }
    Iq4Xs[136] block, put => {
        let d = half_at(block, 0);
        let upper = u16::from_le_bytes([block[2], block[3]]);
        for group in 0..8 {
            let lower = block[4 + group / 2] >> (4 * (group % 2)) & 15;
            let scale = i32::from(lower) | i32::from(upper >> (2 * group) & 3) << 4;
            let values = _mm512_mul_ps(uneven(IQ4_VALUES), _mm512_mul_ps(d, _mm512_set1_ps((scale - 32) as f32)));
            put!(nibbles(block, 8 + 16 * group, values));
        }
    }
}
