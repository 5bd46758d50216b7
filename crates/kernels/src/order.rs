//! The order of summation that every product with 8-bit activations follows, so that tables and tile sizes agree bit
//! for bit.
//!
//! A row is cut into segments of [`SEGMENT`] columns, a segment into blocks of 32. Block `b` of a segment adds to lane
//! `b % 8`: first `isum * scale` times the activations' scale, then its minima times the activations' sums, each as
//! [`plus_product`] does. [`tree`] adds the lanes of a segment, and segments are added from left to right. Integer sums
//! are exact, so how they are formed is each kernel's own affair.

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

/// `lane + a * b`, fused: what processors have an instruction for. WebAssembly has none, so there product and sum are rounded one
/// by one, in all of its tables.
#[inline(always)]
pub fn plus_product(lane: f32, a: f32, b: f32) -> f32 {
    if cfg!(target_family = "wasm") { lane + a * b } else { fma(a, b, lane) }
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
