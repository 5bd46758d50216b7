//! Exact conversions between `f32` and the 16-bit float types, subnormals included.

/// Widens an IEEE half-precision bit pattern. Exact for every input, subnormals included; NaN stays NaN.
///
/// Selects instead of branches, so that loops over it become vector code.
#[inline(always)]
pub const fn f16_to_f32(bits: u16) -> f32 {
    const REBIAS: u32 = (127 - 15) << 23;
    const LEAST_NORMAL: f32 = f32::from_bits((127 - 14) << 23);
    let sign = (bits as u32 & 0x8000) << 16;
    let widened = (bits as u32 & 0x7fff) << 13;
    let normal = widened + REBIAS;
    // A subnormal has no implicit one: add it with the exponent's last step, then take both away.
    let subnormal = (f32::from_bits(normal + (1 << 23)) - LEAST_NORMAL).to_bits();
    let magnitude = if widened >= 0x0f80_0000 {
        normal + REBIAS // infinity and NaN: the greatest exponent stays the greatest
    } else if widened < 0x0080_0000 {
        subnormal
    } else {
        normal
    };
    f32::from_bits(sign | magnitude)
}

/// Rounds to IEEE half precision, ties to even. Overflow gives infinity, NaN stays NaN.
#[inline]
pub const fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00 | ((magnitude >> 13) & 0x3ff) as u16;
    }
    if magnitude >= 0x4780_0000 {
        return sign | 0x7c00; // 65536 and above
    }
    if magnitude < 0x3300_0000 {
        return sign; // below half of the smallest subnormal
    }
    let (half, rest, tie) = if magnitude >= 0x3880_0000 {
        let rebased = magnitude - 0x3800_0000;
        (rebased >> 13, rebased & 0x1fff, 0x1000)
    } else {
        let shift = 126 - (magnitude >> 23);
        let mantissa = (magnitude & 0x7f_ffff) | 0x80_0000;
        (mantissa >> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1))
    };
    let up = rest > tie || (rest == tie && half & 1 == 1);
    sign | (half + up as u32) as u16
}

/// Widens a bfloat16 bit pattern: the upper half of an `f32`.
#[inline]
pub const fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// Rounds to bfloat16, ties to even. NaN stays NaN.
#[inline]
pub const fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that IEEE 754 gives to a number of 5 exponent and 10 mantissa bits, in float64 arithmetic.
    fn half_value(bits: u16) -> f64 {
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        let (exponent, mantissa) = (i32::from((bits >> 10) & 31), f64::from(bits & 1023));
        match exponent {
            31 if mantissa == 0.0 => sign * f64::INFINITY,
            31 => f64::NAN,
            0 => sign * mantissa * 2f64.powi(-24),
            _ => sign * (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
        }
    }

    #[test]
    fn every_half_widens_to_its_value() {
        for bits in 0..=u16::MAX {
            let (got, expected) = (f16_to_f32(bits), half_value(bits));
            assert_eq!(got.is_nan(), expected.is_nan(), "{bits:#06x}");
            if !expected.is_nan() {
                assert_eq!(f64::from(got).to_bits(), expected.to_bits(), "{bits:#06x}: got {got}");
            }
        }
    }

    #[test]
    fn every_half_survives_the_round_trip() {
        for bits in 0..=u16::MAX {
            let back = f32_to_f16(f16_to_f32(bits));
            if half_value(bits).is_nan() {
                assert!(half_value(back).is_nan(), "{bits:#06x}: got {back:#06x}");
            } else {
                assert_eq!(back, bits);
            }
        }
    }

    /// Between each two neighbours: the middle goes to the even one, its neighbours to the nearer.
    #[test]
    fn narrowing_rounds_to_nearest_even() {
        for low in 0..0x7c00u16 {
            let high = low + 1;
            // Infinity begins where 2^16 would, had it an exponent.
            let upper = if high == 0x7c00 { 65536.0 } else { half_value(high) };
            let middle = ((half_value(low) + upper) / 2.0) as f32; // exact: 12 significant bits
            let even = if low % 2 == 0 { low } else { high };
            for (value, expected) in [(middle.next_down(), low), (middle, even), (middle.next_up(), high)] {
                assert_eq!(f32_to_f16(value), expected, "{value:e}");
                assert_eq!(f32_to_f16(-value), expected | 0x8000, "-{value:e}");
            }
        }
        for value in [65536.0, 1e30, f32::MAX, f32::INFINITY] {
            assert_eq!((f32_to_f16(value), f32_to_f16(-value)), (0x7c00, 0xfc00), "{value:e}");
        }
        assert_eq!(f32_to_f16(f32::from_bits(1)), 0);
    }

    /// Every 17-bit prefix of an f32, with the tails around the tie.
    #[test]
    fn bfloat16_rounds_to_nearest_even() {
        for upper in 0..=u16::MAX {
            let exact = f32::from_bits(u32::from(upper) << 16);
            assert_eq!(bf16_to_f32(upper).to_bits(), exact.to_bits());
            for tail in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits((u32::from(upper) << 16) | tail);
                let got = f32_to_bf16(value);
                if value.is_nan() {
                    assert!(bf16_to_f32(got).is_nan(), "{:#010x}", value.to_bits());
                } else {
                    let up = tail > 0x8000 || (tail == 0x8000 && upper % 2 == 1);
                    assert_eq!(got, upper + u16::from(up), "{:#010x}", value.to_bits());
                }
            }
        }
    }
}
