//! The codebooks of the IQ formats: how `points.rs`, which lists them, is read.
//!
//! A codebook is a set of points of a small lattice (8 coordinates of 3 levels, or 4 of 8), numbered in ascending order
//! of the number that the coordinates spell, first coordinate least significant. So a bitmap of the lattice holds it
//! whole: bit i set means that the point that i spells is in the book.

use super::points;

pub(super) const LEVELS_1: [i8; 3] = [-1, 0, 1];
pub(super) const LEVELS_2: [i8; 3] = [8, 25, 43];
pub(super) const LEVELS_3_XXS: [i8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
pub(super) const LEVELS_3_S: [i8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// Of IQ2_XXS: coordinates 8, 25 and 43.
pub static IQ2_XXS: [[i8; 8]; 256] = expand(&points::IQ2_XXS, &LEVELS_2);
/// Of IQ2_XS, likewise.
pub static IQ2_XS: [[i8; 8]; 512] = expand(&points::IQ2_XS, &LEVELS_2);
/// Of IQ2_S, likewise.
pub static IQ2_S: [[i8; 8]; 1024] = expand(&points::IQ2_S, &LEVELS_2);
/// Of IQ3_XXS: multiples of 4, the last one stretched.
pub static IQ3_XXS: [[i8; 4]; 256] = expand(&points::IQ3_XXS, &LEVELS_3_XXS);
/// Of IQ3_S: odd numbers.
pub static IQ3_S: [[i8; 4]; 512] = expand(&points::IQ3_S, &LEVELS_3_S);
/// Of IQ1_S and IQ1_M: -1, 0 and 1.
pub static IQ1: [[i8; 8]; 2048] = expand(&points::IQ1, &LEVELS_1);

/// The `N` points of `D` coordinates in a bitmap. Fails to compile when the bitmap holds another number of them.
const fn expand<const D: usize, const N: usize>(bitmap: &[u64], levels: &[i8]) -> [[i8; D]; N] {
    let mut points = [[0; D]; N];
    let (mut n, mut word) = (0, 0);
    while word < bitmap.len() {
        let mut bits = bitmap[word];
        while bits != 0 {
            let mut spelled = word * 64 + bits.trailing_zeros() as usize;
            let mut coordinate = 0;
            while coordinate < D {
                points[n][coordinate] = levels[spelled % levels.len()];
                spelled /= levels.len();
                coordinate += 1;
            }
            n += 1;
            bits &= bits - 1;
        }
        word += 1;
    }
    assert!(n == N);
    points
}

/// The signs of 8 elements (a set bit is a minus) from 7 bits: the eighth makes their number even.
#[inline(always)]
pub(super) fn even_signs(bits: u32) -> u8 {
    let bits = (bits & 127) as u8;
    bits | (((bits.count_ones() & 1) as u8) << 7)
}

/// `out[j] = scale * +-point[j]`, negative where bit j of `signs` is set.
#[inline(always)]
pub(super) fn put_signed<const D: usize>(out: &mut [f32], scale: f32, point: &[i8; D], signs: u8) {
    for (j, (out, &coordinate)) in out.iter_mut().zip(point).enumerate() {
        let minus = ((signs >> j) & 1) as i8;
        *out = scale * f32::from((coordinate ^ -minus) + minus);
    }
}
