//! Sixteen rows of 256 columns, unpacked so that lane = row and each lane holds four columns. A register of them meets four
//! activations in every lane, so that activations need no rearrangement.

use std::arch::x86_64::*;

use super::registers::{store_512, store_ps};
use super::row::Row;
use super::transpose::{transpose, transpose_eights};
use crate::weights::Minima;
use crate::x86::avx2::panel::Panel;

/// Sixteen rows; what a kind of panel does not have is never read.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Sixteen {
    /// `[block][k]`: columns `4k..4k + 4` of every row, not yet reduced by the offset.
    pub quants: [[[u8; 64]; 8]; 8],
    pub scales: [[f32; 16]; 8],
    /// `[block][half]`.
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

    /// Unpacks a group of sixteen rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    pub fn unpack<R: Row>(&mut self, rows: [&R::Group; 16]) {
        if R::Panel::NIBBLES {
            self.unpack_nibbles::<R>(rows);
        } else {
            self.unpack_bytes::<R>(rows);
        }
        let mut scales = [_mm512_setzero_ps(); 8];
        let mut minima = [[_mm512_setzero_ps(); 8]; 2];
        for r in 0..8 {
            let pair = [rows[r], rows[r + 8]];
            // SAFETY: this function has the features that the row's functions ask for, here and below.
            scales[r] = unsafe { R::scales(pair) };
            // SAFETY: as above.
            [minima[0][r], minima[1][r]] = unsafe { R::minima(pair) };
        }
        let scales = transpose_eights(scales);
        for block in 0..8 {
            store_ps(&mut self.scales[block], scales[block]);
        }
        if R::Panel::HALVES {
            let mut factors = [_mm512_setzero_si512(); 16];
            for r in 0..16 {
                // SAFETY: as above.
                factors[r] = _mm512_castps_si512(unsafe { R::floats(R::factors(rows[r])) });
            }
            let factors = transpose(factors);
            for i in 0..16 {
                store_ps(&mut self.factors[i / 2][i % 2], _mm512_castsi512_ps(factors[i]));
            }
        }
        let kinds = match R::Panel::MINIMA {
            Minima::None => 0,
            Minima::Whole => 1,
            Minima::Halves => 2,
        };
        for half in 0..kinds {
            let minima = transpose_eights(minima[half]);
            for block in 0..8 {
                let negated = _mm512_xor_ps(minima[block], _mm512_set1_ps(-0.0));
                store_ps(&mut self.minima[block][half], negated);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    fn unpack_bytes<R: Row>(&mut self, rows: [&R::Group; 16]) {
        // Loops, since a closure's registers would pass through memory where `map` is not made part of this function.
        let mut quants = [[_mm512_setzero_si512(); 16]; 4];
        for r in 0..16 {
            // SAFETY: this function has the features that the row's functions ask for.
            let row = unsafe { R::quants(rows[r]) };
            for i in 0..4 {
                quants[i][r] = row[i];
            }
        }
        for i in 0..4 {
            let columns = transpose(quants[i]);
            for c in 0..16 {
                store_512(&mut self.quants[2 * i + c / 8][c % 8], columns[c]);
            }
        }
    }

    /// Half as many columns to turn around, taken apart afterwards.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    fn unpack_nibbles<R: Row>(&mut self, rows: [&R::Group; 16]) {
        let mut quants = [[_mm512_setzero_si512(); 16]; 2];
        for r in 0..16 {
            // SAFETY: this function has the features that the row's functions ask for.
            let row = unsafe { R::nibbles(rows[r]) };
            for i in 0..2 {
                quants[i][r] = row[i];
            }
        }
        for i in 0..2 {
            let columns = transpose(quants[i]);
            for c in 0..16 {
                let [low, high] = [columns[c], _mm512_srli_epi16::<4>(columns[c])];
                let block = 4 * i + c / 8 * 2;
                store_512(&mut self.quants[block][c % 8], _mm512_and_si512(low, _mm512_set1_epi8(15)));
                store_512(&mut self.quants[block + 1][c % 8], _mm512_and_si512(high, _mm512_set1_epi8(15)));
            }
        }
    }
}
