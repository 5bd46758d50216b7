//! Instructions that Rust 1.95 has no stable intrinsic for, as `asm!`.
//!
//! The assembler is given the extension next to the instruction instead of by `target_feature`: functions that ask for
//! more than their callers are never inlined, and the engine around these is compiled once for all tables.

use std::arch::aarch64::*;
use std::arch::asm;

/// Lane `i` gains the products of bytes `4i..4i + 4`.
///
/// # Safety
/// The processor has the dot products of ARMv8.2.
#[inline]
#[target_feature(enable = "neon")]
pub unsafe fn sdot(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: reads and writes the named registers alone; the caller has the instruction.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums, a = in(vreg) a, b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// Lane `i` gains the products of bytes `4i..4i + 4` of `a` with bytes `4 * LANE..4 * LANE + 4` of `b`.
///
/// # Safety
/// The processor has the dot products of ARMv8.2.
#[inline]
#[target_feature(enable = "neon")]
pub unsafe fn sdot_lane<const LANE: usize>(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: as in `sdot`.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.4b[{lane}]",
            sums = inout(vreg) sums, a = in(vreg) a, b = in(vreg) b, lane = const LANE,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// Both halves of `a` times both halves of `b`: lane `2i + j` gains the products of half `i` of `a` with half `j` of `b`.
///
/// # Safety
/// The processor has the 8-bit matrix products of ARMv8.6.
#[inline]
#[target_feature(enable = "neon")]
pub unsafe fn smmla(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: as in `sdot`.
    unsafe {
        asm!(
            ".arch_extension i8mm",
            "smmla {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums, a = in(vreg) a, b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// `word`, of which the compiler knows nothing but that it is in a general register: so it makes no vectors of two words' parts.
#[inline(always)]
pub fn scalar(mut word: u64) -> u64 {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags)) };
    word
}

/// Asks for the cache line at `address`; one that is not there does nothing.
#[inline]
pub fn prefetch(address: *const u8) {
    // SAFETY: a prefetch never faults and changes nothing that a program can see.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags)) };
}
