//! Blocks of 256 that are looked up in a codebook or spelled in digits, by way of the whole numbers that they are.

use crate::unroll::unroll;
use std::arch::x86_64::*;

use candor_quant::Format;

use super::legacy::scaled;
use super::{Step, Unpack};
use crate::codebook::Book;
use crate::x86::avx2::codebook::{Paneled, factors, scale, weights};
use crate::x86::batch::lines::{round, store, store_ps};

impl<B: Paneled> Unpack for B {
    const FORMAT: Format = <B as Book>::FORMAT;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        for (w, steps) in B::groups(columns).iter().zip(panel.as_chunks_mut::<8>().0) {
            let mut scales = [0.0; 16];
            store_ps(
                &mut scales,
                scaled(factors::<B>(w), _mm512_broadcastss_ps(_mm256_castps256_ps128(scale::<B>(w)))),
            );
            // SAFETY: AVX-512 has what AVX2 has, and this function has F16C.
            let read = unsafe { B::places(w) };
            unroll!(J, {
                let (first, last) = if B::HALVES { (2 * J, 2 * J + 1) } else { (J, J) };
                let quants = weights::<B>(&read, J);
                let low = scaled(_mm256_castsi256_si128(quants), _mm512_set1_ps(scales[first]));
                let high = scaled(_mm256_extracti128_si256::<1>(quants), _mm512_set1_ps(scales[last]));
                store(&mut steps[J][r], round(low, high));
            });
        }
    }
}
