//! Formats that are looked up: words of `crate::codebook` as registers.

use std::arch::x86_64::*;

use super::row::{Row, both};
use crate::codebook::{Block, Book};
use crate::x86::avx2::codebook::{Paneled, factors, scaled};

impl<B: Paneled> Row for B {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn quants(w: &<B as Book>::Group) -> [__m512i; 4] {
        let mut quants = [_mm512_setzero_si512(); 4];
        for i in 0..4 {
            quants[i] = two::<B>(w, 2 * i);
        }
        quants
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn scales([a, b]: [&<B as Book>::Group; 2]) -> __m512 {
        if B::HALVES {
            return both([_mm256_set1_ps(B::scale(a)), _mm256_set1_ps(B::scale(b))]);
        }
        both([scaled(B::scale(a), factors::<B>(a)), scaled(B::scale(b), factors::<B>(b))])
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
fn two<B: Book>(w: &B::Group, j: usize) -> __m512i {
    let words = |[a, b, c, d]: [u64; 4], [e, f, g, h]: [u64; 4]| {
        let [a, b, c, d, e, f, g, h] = [a, b, c, d, e, f, g, h].map(|word| word as i64);
        _mm512_set_epi64(h, g, f, e, d, c, b, a)
    };
    match (B::block(w, j), B::block(w, j + 1)) {
        (Block::Signed(first, low), Block::Signed(second, high)) => {
            let magnitudes = words(first, second);
            let offset = _mm512_set1_epi8(B::OFFSET as i8);
            let minus = u64::from(low) | u64::from(high) << 32;
            _mm512_mask_sub_epi8(_mm512_add_epi8(offset, magnitudes), minus, offset, magnitudes)
        }
        (Block::Raised(first) | Block::Signed(first, _), Block::Raised(second) | Block::Signed(second, _)) => {
            words(first, second)
        }
    }
}
