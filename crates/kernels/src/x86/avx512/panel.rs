//! Sixteen unpacked rows of 256 columns: two of AVX2's panels side by side. Lane = row, four columns in each lane.

use std::arch::x86_64::*;

use super::registers::{store_512, store_ps};
use crate::weights::Minima;
use crate::x86::avx2::panel::Panel;
use crate::x86::avx2::registers::{load_i16, load_ps as load_eight};

/// Sixteen rows of 256 columns; what a kind of panel does not have is never read.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Sixteen {
    /// `[block][k]`: columns `4k..4k + 4` of every row, not yet reduced by the offset.
    pub quants: [[[u8; 64]; 8]; 8],
    pub scales: [[f32; 16]; 8],
    /// `[block][half]`: integers.
    pub factors: [[[f32; 16]; 2]; 8],
    /// `[block][half]`, negated.
    pub minima: [[[f32; 16]; 2]; 8],
}

impl Sixteen {
    pub const ZERO: Sixteen = Sixteen {
        quants: [[[0; 64]; 8]; 8],
        scales: [[0.0; 16]; 8],
        factors: [[[0.0; 16]; 2]; 8],
        minima: [[[0.0; 16]; 2]; 8],
    };

    /// Puts two panels side by side.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    pub fn join<B: Panel>(&mut self, [a, b]: [&B; 2]) {
        for block in 0..8 {
            for k in 0..8 {
                // SAFETY: this function has the features that `columns` asks for.
                let (a, b) = unsafe { (a.columns(block, k), b.columns(block, k)) };
                store_512(&mut self.quants[block][k], _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b));
            }
            store_ps(&mut self.scales[block], both(a.scale(block), b.scale(block)));
            if B::HALVES {
                for half in 0..2 {
                    let (a, b) = (load_i16(a.factor(block, half)), load_i16(b.factor(block, half)));
                    let twice = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b);
                    let factors = _mm512_srai_epi32::<16>(twice);
                    store_ps(&mut self.factors[block][half], _mm512_cvtepi32_ps(factors));
                }
            }
            let minima = match B::MINIMA {
                Minima::None => 0,
                Minima::Whole => 1,
                Minima::Halves => 2,
            };
            for half in 0..minima {
                store_ps(&mut self.minima[block][half], both(a.minimum(block, half), b.minimum(block, half)));
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn both(a: &[f32; 8], b: &[f32; 8]) -> __m512 {
    _mm512_insertf32x8::<1>(_mm512_castps256_ps512(load_eight(a)), load_eight(b))
}
