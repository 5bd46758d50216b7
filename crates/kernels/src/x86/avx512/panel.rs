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

    /// Unpacks a group of sixteen rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    pub fn unpack<R: Row>(&mut self, rows: [&R::Group; 16]) {
        // SAFETY: this function has the features that the row's functions ask for, here and below.
        let quants = rows.map(|row| unsafe { R::quants(row) });
        for i in 0..4 {
            let columns = transpose(quants.map(|quants| quants[i]));
            for (c, mut column) in columns.into_iter().enumerate() {
                if R::SIXTEENFOLD >> (c / 4 * 4) & 1 == 1 {
                    // The lower four bits of every byte are 0, so nothing crosses into the next one.
                    column = _mm512_srli_epi16::<4>(column);
                }
                store_512(&mut self.quants[2 * i + c / 8][c % 8], column);
            }
        }
        let pairs: [[&R::Group; 2]; 8] = std::array::from_fn(|r| [rows[r], rows[r + 8]]);
        // SAFETY: as above.
        let scales = pairs.map(|pair| unsafe { R::scales(pair) });
        for (scales, column) in self.scales.iter_mut().zip(transpose_eights(scales)) {
            store_ps(scales, column);
        }
        if R::Panel::HALVES {
            // SAFETY: as above.
            let factors = rows.map(|row| _mm512_cvtepi8_epi32(unsafe { R::factors(row) }));
            let places = self.factors.iter_mut().flatten();
            for (factors, column) in places.zip(transpose(factors)) {
                store_ps(factors, _mm512_cvtepi32_ps(column));
            }
        }
        let minima = match R::Panel::MINIMA {
            Minima::None => 0,
            Minima::Whole => 1,
            Minima::Halves => 2,
        };
        for half in 0..minima {
            // SAFETY: as above.
            let minima = pairs.map(|pair| unsafe { R::minima(pair)[half] });
            for (minima, column) in self.minima.iter_mut().zip(transpose_eights(minima)) {
                store_ps(&mut minima[half], _mm512_xor_ps(column, _mm512_set1_ps(-0.0)));
            }
        }
    }
}
