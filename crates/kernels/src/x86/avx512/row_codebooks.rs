//! Formats that are looked up: words of `crate::codebook` as registers.

use std::arch::x86_64::*;

use candor_quant::Format;

use super::row::{Row, both};
use crate::codebook::{Bits, Book};
use crate::x86::avx2::codebook::{Paneled, factors, scale, scaled};

impl<B: Paneled> Row for B {
    // Looking up is all that counts here: on Zen 4 a sixth quicker so.
    const WIDE: bool = !matches!(<B as Book>::FORMAT, Format::Iq3S);

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn quants(w: &<B as Book>::Group) -> [__m512i; 4] {
        // SAFETY: this function has the features that `places` asks for.
        let read = unsafe { B::places(w) };
        let read = &read;
        [two::<B>(read, 0), two::<B>(read, 2), two::<B>(read, 4), two::<B>(read, 6)]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn scales([a, b]: [&<B as Book>::Group; 2]) -> __m512 {
        if B::HALVES {
            return both([scale::<B>(a), scale::<B>(b)]);
        }
        both([scaled(scale::<B>(a), factors::<B>(a)), scaled(scale::<B>(b), factors::<B>(b))])
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn factors(w: &<B as Book>::Group) -> __m128i {
        factors::<B>(w)
    }
}

/// Blocks `j` and `j + 1` with their offset.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn two<B: Paneled>(read: &B::Read, j: usize) -> __m512i {
    // SAFETY: this function has the features that `load` asks for.
    let (first, second) = unsafe { (B::load(read, j), B::load(read, j + 1)) };
    let words = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second);
    let bits = u64::from(B::bits(read, j)) | u64::from(B::bits(read, j + 1)) << 32;
    let offset = _mm512_set1_epi8(B::OFFSET as i8);
    match B::BITS {
        Bits::None => words,
        Bits::Signs => _mm512_mask_sub_epi8(_mm512_add_epi8(offset, words), bits, offset, words),
        Bits::Down => {
            let one = _mm512_set1_epi8(1);
            _mm512_mask_sub_epi8(_mm512_add_epi8(words, one), bits, words, one)
        }
    }
}
