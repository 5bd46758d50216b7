//! The loops over floats, written once as plain Rust: 16 lanes, a fixed reduction tree, no fused multiply-add.
//!
//! Each table compiles these bodies for its instruction set; that changes the code, never a bit of the result.

use crate::activations::{Q8_BLOCK, Q8RowMut};
use crate::array::{self, Each};

/// Sums kept apart.
pub const WIDTH: usize = 16;

/// 1.5 * 2^23: added to a float below 2^22 it leaves the nearest integer, ties to even, in the low bits.
pub const ROUNDER: f32 = 12_582_912.0;

/// Adds the lanes: halves onto each other, then the order in which registers of 8 fold.
///
/// The black box keeps the tree out of the loop before it: seeing both, the compiler (1.95) cuts the lanes into the
/// pairs of the tree, at half the speed.
#[inline(always)]
pub fn tree(lanes: [f32; WIDTH]) -> f32 {
    let lanes = std::hint::black_box(lanes);
    crate::order::tree(array::of(|i| lanes[i] + lanes[i + 8]))
}

/// Folds `x` in lanes: whole groups of 16, then the rest into the first lanes.
#[inline(always)]
fn fold(x: &[f32], start: f32, step: impl Fn(f32, f32) -> f32) -> [f32; WIDTH] {
    let mut lanes = [start; WIDTH];
    let (groups, rest) = x.as_chunks::<WIDTH>();
    for group in groups {
        for i in 0..WIDTH {
            lanes[i] = step(lanes[i], group[i]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, x);
    }
    lanes
}

#[inline(always)]
pub fn dot(x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len(), "dot");
    let mut lanes = [0.0; WIDTH];
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<WIDTH>(), y.as_chunks::<WIDTH>());
    for (x, y) in x.iter().zip(y) {
        for i in 0..WIDTH {
            lanes[i] += x[i] * y[i];
        }
    }
    for (i, (x, y)) in x_rest.iter().zip(y_rest).enumerate() {
        lanes[i] += x * y;
    }
    tree(lanes)
}

/// As [`dot`]; `widen` turns 16 halves into floats, exactly.
#[inline(always)]
pub fn dot_f16(x: &[f32], y: &[u16], widen: impl Fn(&[u16; WIDTH]) -> [f32; WIDTH]) -> f32 {
    assert_eq!(x.len(), y.len(), "dot_f16");
    let mut lanes = [0.0; WIDTH];
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<WIDTH>(), y.as_chunks::<WIDTH>());
    for (x, y) in x.iter().zip(y) {
        let y = widen(y);
        for i in 0..WIDTH {
            lanes[i] += x[i] * y[i];
        }
    }
    if !x_rest.is_empty() {
        let y = widen(&padded(y_rest));
        for (i, x) in x_rest.iter().enumerate() {
            lanes[i] += x * y[i];
        }
    }
    tree(lanes)
}

#[inline(always)]
pub fn axpy(out: &mut [f32], a: f32, x: &[f32]) {
    assert_eq!(out.len(), x.len(), "axpy");
    for (out, x) in out.iter_mut().zip(x) {
        *out += a * x;
    }
}

/// As [`axpy`]; `widen` turns 16 halves into floats, exactly.
#[inline(always)]
pub fn axpy_f16(out: &mut [f32], a: f32, x: &[u16], widen: impl Fn(&[u16; WIDTH]) -> [f32; WIDTH]) {
    assert_eq!(out.len(), x.len(), "axpy_f16");
    let ((out, out_rest), (x, x_rest)) = (out.as_chunks_mut::<WIDTH>(), x.as_chunks::<WIDTH>());
    for (out, x) in out.iter_mut().zip(x) {
        let x = widen(x);
        for i in 0..WIDTH {
            out[i] += a * x[i];
        }
    }
    if !x_rest.is_empty() {
        for (out, x) in out_rest.iter_mut().zip(widen(&padded(x_rest))) {
            *out += a * x;
        }
    }
}

#[inline(always)]
fn padded(rest: &[u16]) -> [u16; WIDTH] {
    let mut group = [0; WIDTH];
    group[..rest.len()].copy_from_slice(rest);
    group
}

#[inline(always)]
pub fn scale(out: &mut [f32], a: f32) {
    for out in out {
        *out *= a;
    }
}

/// NaN loses every comparison: it is left to [`exp_sum`], which spreads it.
#[inline(always)]
pub fn max(x: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    fold(x, f32::NEG_INFINITY, larger).into_iter().fold(f32::NEG_INFINITY, larger)
}

#[inline(always)]
pub fn exp_sum(x: &mut [f32], max: f32) -> f32 {
    let mut lanes = [0.0; WIDTH];
    let (groups, rest) = x.as_chunks_mut::<WIDTH>();
    for group in groups {
        for i in 0..WIDTH {
            group[i] = exp(group[i] - max);
            lanes[i] += group[i];
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *x = exp(*x - max);
        *lane += *x;
    }
    tree(lanes)
}

#[inline(always)]
pub fn rms_norm(out: &mut [f32], x: &[f32], w: &[f32], eps: f32) {
    assert!(out.len() == x.len() && x.len() == w.len(), "rms_norm: {} {} {}", out.len(), x.len(), w.len());
    let mean = dot(x, x) / x.len() as f32;
    let factor = 1.0 / (mean + eps).sqrt();
    for (out, (x, w)) in out.iter_mut().zip(x.iter().zip(w)) {
        *out = x * factor * w;
    }
}

#[inline(always)]
fn silu_of(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

#[inline(always)]
pub fn silu(x: &mut [f32]) {
    for x in x {
        *x = silu_of(*x);
    }
}

#[inline(always)]
pub fn swiglu(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "swiglu");
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = silu_of(*gate) * up;
    }
}

#[inline(always)]
pub fn add(x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "add");
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

#[inline(always)]
pub fn mul(x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "mul");
    for (x, y) in x.iter_mut().zip(y) {
        *x *= y;
    }
}

/// ln 2 in two parts, the first with so few bits that the whole numbers of an exponent times it are exact.
pub const LN2_HIGH: f32 = 0.693_359_4;
pub const LN2_LOW: f32 = -2.121_944_4e-4;
/// What `(e^r - 1 - r) / r^2` is, the highest power first.
pub const POLYNOMIAL: [f32; 6] = [1.987_569_2e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// `e^x` within 1.5 units in the last place, without branches: NaN stays, overflow is infinite, deep negatives are 0.
///
/// `x = n ln 2 + r`, `e^r` by the polynomial of Cephes' expf (Moshier), `2^n` in two factors so that both ends of the
/// range come out right.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Selects, not min and max: these would drop a NaN.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUNDER;
    let n = shifted - ROUNDER;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let [p, rest @ ..] = POLYNOMIAL;
    let p = rest.into_iter().fold(p, |p, factor| p * r + factor);
    let p = p * (r * r) + r + 1.0;
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    p * power(half) * power(n.wrapping_sub(half))
}

/// Whole numbers that the largest magnitude of a block may become. On normally distributed values the best of eight has
/// 18 % less squared error than always 127; four would have 14 %, sixteen 20 %.
pub const LEVELS: [f32; 8] = [127.0, 126.0, 125.0, 124.0, 123.0, 122.0, 121.0, 120.0];
/// Squared error of a block, in units of its scale, below which other scales are not tried: rounding noise of blocks
/// that are whole multiples of their scale.
pub const EXACT: f32 = 1e-3;

/// Rounds to 8-bit blocks, ties to even. The scale is the largest magnitude divided by whichever of [`LEVELS`] gives the
/// least squared error.
///
/// A block that holds NaN or an infinity gets a NaN scale. A block whose scale would be subnormal (all magnitudes below
/// 1.5e-36) becomes zero.
#[inline(always)]
pub fn quantize_q8(out: Q8RowMut<'_>, x: &[f32]) {
    quantize_q8_by(out, x, squared_errors);
}

/// The same with [`squared_errors`] by instructions.
#[inline(always)]
pub fn quantize_q8_by(out: Q8RowMut<'_>, x: &[f32], errors: impl Fn(&[f32; Q8_BLOCK], [f32; 8]) -> [f32; 8]) {
    let Q8RowMut { quants, scales, sums } = out;
    let (blocks, rest) = x.as_chunks::<Q8_BLOCK>();
    assert!(rest.is_empty(), "quantize_q8: {} columns", x.len());
    assert_eq!(quants.len(), x.len(), "quantize_q8: quants");
    assert_eq!(scales.len(), blocks.len(), "quantize_q8: scales");
    assert_eq!(sums.len(), blocks.len() * 2, "quantize_q8: sums");
    let (quants, _) = quants.as_chunks_mut::<Q8_BLOCK>();
    let (sums, _) = sums.as_chunks_mut::<2>();
    for (((x, quants), scale), sums) in blocks.iter().zip(quants).zip(scales).zip(sums) {
        // As integers, magnitudes keep their order and NaN is above infinity.
        let mut largest = [0u32; WIDTH];
        for i in 0..WIDTH {
            let (a, b) = (x[i].to_bits() & 0x7fff_ffff, x[i + WIDTH].to_bits() & 0x7fff_ffff);
            largest[i] = a.max(b);
        }
        let largest = f32::from_bits(largest.into_iter().fold(0, u32::max));
        let exact = largest / best_level(errors(x, LEVELS.each(|level| level / largest)));
        let (kept, inverse) = if exact >= f32::MIN_POSITIVE { (exact, 1.0 / exact) } else { (0.0, 0.0) };
        let finite = largest.is_finite();
        *scale = if finite { kept } else { f32::NAN };
        let inverse = if finite { inverse } else { 0.0 };
        for i in 0..Q8_BLOCK {
            let scaled = x[i] * inverse;
            let scaled = if scaled > 127.0 { 127.0 } else { scaled };
            let scaled = if scaled < -127.0 { -127.0 } else { scaled };
            quants[i] = (scaled + ROUNDER).to_bits() as i8;
        }
        if !finite {
            *quants = [0; Q8_BLOCK]; // the bits of a NaN may be anything
        }
        *sums = [sum(&quants[..16]), sum(&quants[16..])];
    }
}

/// What is lost of a block with each of the factors: lane = factor, so that no sum needs a reduction.
#[inline(always)]
fn squared_errors(x: &[f32; Q8_BLOCK], factors: [f32; 8]) -> [f32; 8] {
    let mut squares = [[0f32; 8]; 2];
    for pair in x.as_chunks::<2>().0 {
        for (squares, x) in squares.iter_mut().zip(pair) {
            for (square, factor) in squares.iter_mut().zip(factors) {
                let scaled = x * factor;
                let off = scaled - ((scaled + ROUNDER) - ROUNDER);
                *square += off * off;
            }
        }
    }
    array::of(|i| squares[0][i] + squares[1][i])
}

/// The level with the least error; the levels' scales differ.
#[inline(always)]
fn best_level(errors: [f32; 8]) -> f32 {
    let (mut best, mut least) = (LEVELS[0], errors[0]);
    // Also false where the error is NaN: blocks of zeros, infinities or NaN.
    if least > EXACT {
        for (error, level) in errors.into_iter().zip(LEVELS) {
            let scale = LEVELS[0] / level;
            let error = error * (scale * scale);
            (best, least) = if error < least { (level, error) } else { (best, least) };
        }
    }
    best
}

#[inline(always)]
fn sum(quants: &[i8]) -> i16 {
    quants.iter().map(|&q| i16::from(q)).sum()
}
