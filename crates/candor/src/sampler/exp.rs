//! `e^x` of a softmax. Not a mathematical library: logarithms and powers, of which a token needs a few, are libm's.
//!
//! The platform's own `exp` differs from machine to machine in the last bit, and a random draw can hang on that bit.
//! This one is multiplications and additions alone (Rust never contracts them), so it gives the same bits everywhere,
//! and it has no branches, so a compiler can vectorise it over a vocabulary.

/// `e^x` for `x <= 0`, within 2 units in the last place; 0 below -87 and for NaN, 1 for positive `x`.
#[inline]
pub(super) fn exp(x: f32) -> f32 {
    // Adding and taking away 1.5 * 2^23 rounds to an integer, which is then in the low bits of the sum.
    const ROUNDER: f32 = 12_582_912.0;
    // ln 2 in two parts, the first with so few bits that n times it is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let inside = x.clamp(-87.0, 0.0);
    let shifted = inside * std::f32::consts::LOG2_E + ROUNDER;
    let n = shifted - ROUNDER;
    let r = inside - n * LN2_HIGH - n * LN2_LOW;
    // Cephes' polynomial (Moshier) for e^r, |r| <= ln 2 / 2.
    let p = 1.987_569_2e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let p = p * (r * r) + r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(127);
    let value = p * f32::from_bits(exponent << 23);
    if x >= -87.0 { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_close_to_the_truth() {
        let mut worst = 0f64;
        for i in 0..=870_000 {
            let x = i as f32 * -1e-4;
            let truth = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - truth).abs() / truth);
        }
        // Two units in the last place are at most 2.4e-7.
        assert!(worst < 2.4e-7, "relative error {worst:e}");
    }

    #[test]
    fn edges() {
        for (x, y) in [
            (0.0, 1.0),
            (-0.0, 1.0),
            (5.0, 1.0),
            (f32::INFINITY, 1.0),
            (f32::NAN, 0.0),
            (-88.0, 0.0),
            (f32::MIN, 0.0),
            (f32::NEG_INFINITY, 0.0),
        ] {
            assert_eq!(exp(x), y, "exp({x})");
        }
    }
}
