//! What every table has to know of the formats' weights, beyond the layout of their bytes.

/// Which minima the blocks of 32 of a format have: `w = scale * quant - minimum`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Minima {
    None,
    /// One for the block.
    Whole,
    /// One for each half.
    Halves,
}

/// The 16 weights of IQ4_NL and IQ4_XS.
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The 16 weights of MXFP4 and NVFP4, whose scales are halved in turn.
pub const FP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// MXFP4's scale, half of 2^(e - 127); the two smallest are subnormal.
#[inline]
pub fn half_power(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

/// Half of NVFP4's scale, an E4M3 number without its sign, in multiples of [`E4M3_UNIT`]. The NaN is 0, as in ggml.
#[inline]
pub fn half_e4m3(byte: u8) -> i32 {
    let (exponent, mantissa) = (byte >> 3 & 15, i32::from(byte & 7));
    match exponent {
        _ if byte == 0x7f => 0,
        0 => mantissa,
        _ => (8 + mantissa) << (exponent - 1),
    }
}

/// Half of the smallest scale.
pub const E4M3_UNIT: f32 = 1.0 / 1024.0;

/// Row `o` of weights in rows of `row_bytes`. No closure: what a kernel with target features hands to `map` as one is called,
/// not inlined.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn row(w: &[u8], row_bytes: usize, o: usize) -> &[u8] {
    &w[o * row_bytes..][..row_bytes]
}
