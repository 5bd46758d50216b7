//! Loads and stores between arrays and registers, with their bounds checked: the only place that touches pointers.
//!
//! Offsets are constants or small loop counters, so that the checks vanish once the loops are unrolled.

use std::arch::wasm32::*;

/// A number that registers hold.
///
/// # Safety
/// Consists of numbers: any bytes are a value.
pub unsafe trait Number {}

// SAFETY: numbers.
unsafe impl Number for u8 {}
// SAFETY: numbers.
unsafe impl Number for i8 {}
// SAFETY: numbers.
unsafe impl Number for i16 {}
// SAFETY: numbers.
unsafe impl Number for i32 {}
// SAFETY: numbers.
unsafe impl Number for f32 {}

/// 16 bytes of numbers from number `at`.
#[inline(always)]
pub fn load<T: Number, const N: usize>(values: &[T; N], at: usize) -> v128 {
    let source: &[T] = &values[at..at + 16 / size_of::<T>()];
    // SAFETY: `source` is 16 readable bytes, and the instruction takes any alignment.
    unsafe { v128_load(source.as_ptr().cast()) }
}

/// 16 bytes of numbers from number `at`.
#[inline(always)]
pub fn store<T: Number, const N: usize>(values: &mut [T; N], at: usize, register: v128) {
    let target: &mut [T] = &mut values[at..at + 16 / size_of::<T>()];
    // SAFETY: `target` is 16 writable bytes, and the instruction takes any alignment.
    unsafe { v128_store(target.as_mut_ptr().cast(), register) }
}

/// What [`widen_by`] takes: the bits that a half leaves, a power of two, what large means, and the greatest exponent.
pub const WIDEN: [v128; 4] = [
    u32x4(0x8fff_e000, 0x8fff_e000, 0x8fff_e000, 0x8fff_e000),
    u32x4((127 + 112) << 23, (127 + 112) << 23, (127 + 112) << 23, (127 + 112) << 23),
    f32x4(65536.0, 65536.0, 65536.0, 65536.0),
    u32x4(0x7f80_0000, 0x7f80_0000, 0x7f80_0000, 0x7f80_0000),
];

/// The halves in the low 16 bits of four lanes as floats, exactly; upper bits are copies of the sign.
#[inline(always)]
pub fn widen_halves(halves: v128) -> v128 {
    widen_by(halves, WIDEN)
}

/// The same with constants from elsewhere.
#[inline(always)]
pub fn widen_by(halves: v128, [mask, power, large, exponent]: [v128; 4]) -> v128 {
    // As floats, a half's bits have the wrong exponent, which a power of two puts right, subnormal halves too.
    let value = f32x4_mul(v128_and(i32x4_shl(halves, 13), mask), power);
    // What had the greatest exponent, infinity and NaN, keeps it.
    v128_or(value, v128_and(f32x4_ge(f32x4_abs(value), large), exponent))
}
