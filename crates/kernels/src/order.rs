//! The order of summation that every product with 8-bit activations follows, so that tables and tile sizes agree bit
//! for bit.
//!
//! A row is cut into segments of [`SEGMENT`] columns, a segment into blocks of 32. Block `b` of a segment adds to lane
//! `b % 8`: first `isum * scale` times the activations' scale, fused, then its minima times the activations' sums,
//! fused. [`tree`] adds the lanes of a segment, and segments are added from left to right. Integer sums are exact, so
//! how they are formed is each kernel's own affair.

/// Columns whose lanes are added before the next ones start: a panel of 8 rows of them fits the smallest L1 caches.
pub const SEGMENT: usize = 1024;
/// Blocks of 32 in a segment.
pub const SEGMENT_BLOCKS: usize = SEGMENT / 32;
/// Sums kept apart within a segment.
pub const LANES: usize = 8;

/// Adds the lanes of a segment: halves onto each other, the order in which vector registers fold.
#[inline(always)]
pub fn tree(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// `a * b + c` rounded once, without the instruction: the product is exact in f64, and a sum that lies halfway between
/// two f32 in f64 is nudged towards the exact value (as FreeBSD's fmaf does). Results below the normal range may differ
/// from the instruction's in the last bit.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let bits = sum.to_bits();
    if bits & 0x1fff_ffff != 0x1000_0000 || !sum.is_finite() {
        return sum as f32;
    }
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    if error == 0.0 {
        return sum as f32;
    }
    let away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away { bits + 1 } else { bits - 1 }) as f32
}

#[cfg(test)]
mod tests {
    use super::fma;

    #[test]
    fn fused_multiply_add_rounds_once() {
        let mut state = 7u64;
        for _ in 0..if cfg!(miri) { 2000 } else { 200_000 } {
            let mut next = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                // Few mantissa bits make ties frequent.
                let mantissa = ((state >> 40) as i32 >> 11) as f32;
                mantissa * f32::from_bits((((state >> 32) as u32 & 31) + 112) << 23)
            };
            let (a, b, c) = (next(), next(), next());
            assert_eq!(fma(a, b, c).to_bits(), a.mul_add(b, c).to_bits(), "{a} * {b} + {c}");
        }
        let (a, b) = (1.0 + f32::EPSILON, 1.0 - f32::EPSILON);
        assert_eq!(fma(a, b, -1.0), a.mul_add(b, -1.0));
    }
}
