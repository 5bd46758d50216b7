//! The codebooks as words: of bytes, the compiler would load some one by one.

use candor_quant::codebook;

/// Points of eight coordinates.
const fn eights<const N: usize>(points: &[[i8; 8]; N]) -> [u64; N] {
    let mut words = [0; N];
    let mut n = 0;
    while n < N {
        let [a, b, c, d, e, f, g, h] = points[n];
        words[n] = u64::from_le_bytes([a as u8, b as u8, c as u8, d as u8, e as u8, f as u8, g as u8, h as u8]);
        n += 1;
    }
    words
}

/// Points of four.
const fn fours<const N: usize>(points: &[[i8; 4]; N]) -> [u32; N] {
    let mut words = [0; N];
    let mut n = 0;
    while n < N {
        let [a, b, c, d] = points[n];
        words[n] = u32::from_le_bytes([a as u8, b as u8, c as u8, d as u8]);
        n += 1;
    }
    words
}

pub static IQ2_XXS: [u64; 256] = eights(&codebook::IQ2_XXS);
pub static IQ2_XS: [u64; 512] = eights(&codebook::IQ2_XS);
pub static IQ2_S: [u64; 1024] = eights(&codebook::IQ2_S);
pub static IQ3_XXS: [u32; 256] = fours(&codebook::IQ3_XXS);
pub static IQ3_S: [u32; 512] = fours(&codebook::IQ3_S);

/// Eight times each point, plus the offset of 16: what shifts it by an eighth up or down is 1.
pub static IQ1: [u64; 2048] = {
    let mut words = [0; 2048];
    let mut n = 0;
    while n < 2048 {
        let mut i = 0;
        while i < 8 {
            let raised = (codebook::IQ1[n][i] * 8 + 16) as u64;
            words[n] |= raised << (8 * i);
            i += 1;
        }
        n += 1;
    }
    words
};
