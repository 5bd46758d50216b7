//! The fused multiply-add of machines without one.

use candor_kernels::inside::fma;

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
