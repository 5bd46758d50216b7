//! What attention's products ask of an instruction set: sixteen floats in registers, and tiles that fit them.

use super::source::Source;
use super::tile::Product;

/// Bytes that prefetches run ahead: on x86-64 reading eight queries' keys from memory then goes at 18 GB/s instead of
/// 9, with 2048 at 15. Elsewhere not measured.
pub(crate) const AHEAD: usize = 4096;

/// Sixteen floats in registers.
///
/// # Safety
/// Every method needs the instruction set of the type. Pointers are good for the numbers that the name says, at any
/// alignment.
pub(crate) unsafe trait Wide: Copy {
    /// What a query multiplies groups with, for [`Wide::STEPS`] steps.
    type Steps: Copy;
    /// 1, or 4 where an instruction takes its factor from any lane of a register.
    const STEPS: usize;
    /// Queries of a mix that go together as far as all of them see, and one by one from there.
    const TOGETHER: usize;
    /// Positions of a mix that are worth loading and storing the sums for.
    const LEAST_STEPS: usize;

    unsafe fn zero() -> Self;
    /// One step's number, as that of step 0.
    unsafe fn step(at: *const f32) -> Self::Steps;
    /// [`Wide::STEPS`] numbers.
    unsafe fn steps(at: *const f32) -> Self::Steps;
    /// `a * b + self`, rounded once; `a` is the number of step `STEP`.
    unsafe fn plus<const STEP: i32>(self, a: Self::Steps, b: Self) -> Self;
    unsafe fn times(self, b: Self) -> Self;
    unsafe fn load(at: *const u8) -> Self;
    unsafe fn store(self, at: *mut u8);
    unsafe fn load_f16(at: *const u8) -> Self;
    unsafe fn load_i8(at: *const u8) -> Self;
    /// The 4 bits from `bit` on of each of 16 bytes, less 8.
    unsafe fn load_u4(at: *const u8, bit: usize) -> Self;
    /// One half, in all lanes.
    unsafe fn splat_f16(at: *const u8) -> Self;
    /// Asks for the cache line [`AHEAD`] bytes after `at`, be there anything or not.
    unsafe fn prefetch(at: *const u8);
    /// Runs a product of `queries` queries in tiles that fit this type's registers, by [`strip`](super::tile::strip).
    unsafe fn run<S: Source<Self>>(product: Product<S>, queries: usize);
}
