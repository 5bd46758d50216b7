//! Q4_K, Q5_K and IQ4_XS: blocks of 256 with 6-bit scales per 32.

use std::arch::aarch64::*;

use candor_quant::Format;

use super::bits::{half_at, join, join_high, look_up, shift, signed, times_bytes, word_at};
use super::format::{Quant, Scales};
use super::registers::{load_u8, widen_halves};
use crate::array::{self, Each};
use crate::kind::{Plain, Shifted};
use crate::weights::IQ4_VALUES;

/// Scales and minima of a block of 256 that begins with d, dmin and 12 packed bytes.
///
/// The 12 bytes as three words: scales 0-3 with the upper bits of scales 4-7, minima likewise, the lower nibbles of
/// scales 4-7 and of minima 4-7.
#[inline]
#[target_feature(enable = "neon")]
fn scales_minima<const N: usize>(w: &[u8; N]) -> Scales {
    const LOW6: u32 = 0x3f3f_3f3f;
    const LOW4: u32 = 0x0f0f_0f0f;
    const UPPER: u32 = 0x3030_3030;
    let [scales, minima, lower] = [word_at(w, 4), word_at(w, 8), word_at(w, 12)];
    let eight = |first: u32, second: u32| vcreate_u8(u64::from(first) | u64::from(second) << 32);
    // d and dmin; the other two are bytes of scales, which mean nothing as floats.
    let both = widen_halves(array::of(|i| u16::from_le_bytes([w[2 * i], w[2 * i + 1]])));
    Scales::shifted(
        times_bytes::<0>(both, eight(scales & LOW6, lower & LOW4 | scales >> 2 & UPPER)),
        times_bytes::<1>(both, eight(minima & LOW6, lower >> 4 & LOW4 | minima >> 2 & UPPER)),
    )
}

/// 32 bytes whose low nibbles are those of block `block`, of 32 bytes for each two blocks from `at`.
#[inline]
#[target_feature(enable = "neon")]
fn four_bits<const N: usize>(w: &[u8; N], at: usize, block: usize) -> [uint8x16_t; 2] {
    let at = at + block / 2 * 32;
    [at, at + 16].each(|at| shift(load_u8(w, at), if block.is_multiple_of(2) { 0 } else { -4 }))
}

/// 4 bits: d, dmin, 12 bytes of scales and minima, 128 of quants.
pub struct Q4K;

impl Quant<144> for Q4K {
    const FORMAT: Format = Format::Q4K;
    const OFFSET: i8 = 0;
    type Kind = Shifted;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 144], block: usize) -> [int8x16_t; 2] {
        signed(four_bits(w, 16, block).each(|bytes| vandq_u8(bytes, vdupq_n_u8(15))))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 144]) -> Scales {
        scales_minima(w)
    }
}

/// 5 bits: d, dmin, 12 bytes of scales and minima, 32 of fifth bits, 128 of lower bits.
pub struct Q5K;

impl Quant<176> for Q5K {
    const FORMAT: Format = Format::Q5K;
    const OFFSET: i8 = 0;
    type Kind = Shifted;
    const PAIRED: bool = false;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 176], block: usize) -> [int8x16_t; 2] {
        // Fifth bits of block `block % 4` in the low and of the one four after it in the high nibble.
        let fifth = |at| vandq_u8(shift(load_u8(w, at), -((block % 4) as i8)), vdupq_n_u8(0x11));
        let at = 48 + block / 2 * 32;
        signed([(at, fifth(16)), (at + 16, fifth(32))].each(|(at, fifth)| {
            let bytes = load_u8(w, at);
            match (block % 2, block / 4) {
                (0, 0) => join::<4>(bytes, fifth),
                (0, _) => vbslq_u8(vdupq_n_u8(0xf0), fifth, bytes),
                (_, 0) => join::<4>(vshrq_n_u8::<4>(bytes), fifth),
                (_, _) => join_high(fifth, bytes),
            }
        }))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 176]) -> Scales {
        scales_minima(w)
    }
}

/// 4 bits into a table; 6-bit factors less 32. d, 2 bytes of upper and 4 of lower bits of factors, 128 of quants.
pub struct Iq4Xs;

impl Quant<136> for Iq4Xs {
    const FORMAT: Format = Format::Iq4Xs;
    const OFFSET: i8 = 0;
    type Kind = Plain;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn quants(w: &[u8; 136], block: usize) -> [int8x16_t; 2] {
        look_up(&IQ4_VALUES, load_u8(w, 8 + block * 16))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn scales(w: &[u8; 136]) -> Scales {
        let d = half_at(w, 0);
        // Lane = block: 4 bits of `low`, and above them 2 of `high`.
        let low = vcreate_u8(u64::from(word_at(w, 4)));
        let low = vzip1_u8(vand_u8(low, vdup_n_u8(15)), vshr_n_u8::<4>(low));
        let [first, second] = [w[2], w[3]].each(|bits| u64::from(bits) * 0x0101_0101);
        let by = vcreate_s8(0xfafc_fe00_fafc_fe00);
        let high = vand_u8(vshl_u8(vcreate_u8(first | second << 32), by), vdup_n_u8(3));
        let factors = vsub_s8(vreinterpret_s8_u8(vsli_n_u8::<4>(low, high)), vdup_n_s8(32));
        let wide = vmovl_s8(factors);
        let four = |factors| vmulq_f32(d, vcvtq_f32_s32(factors));
        Scales::plain([four(vmovl_s16(vget_low_s16(wide))), four(vmovl_high_s16(wide))])
    }
}
