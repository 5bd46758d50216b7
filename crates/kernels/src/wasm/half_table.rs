//! Half-precision scales by table. Registers have no instruction for them, and the dozen that stand in for it are a fifth of what a
//! row of Q4_K takes.

use std::arch::wasm32::*;
use std::hint::black_box;
use std::sync::OnceLock;

use candor_quant::half::f16_to_f32;

use super::registers::{WIDEN, widen_by};
use crate::array::Each;

static TABLE: OnceLock<Box<[f32]>> = OnceLock::new();

/// What each half-precision number is, and what eight at a time are made floats with: a constant costs V8 three instructions wherever
/// it is met.
#[derive(Clone, Copy)]
pub struct HalfTable(&'static [f32; 1 << 16], [v128; 4]);

impl HalfTable {
    pub fn new() -> HalfTable {
        let table = TABLE.get_or_init(|| (0..=u16::MAX).map(f16_to_f32).collect());
        HalfTable(table.as_array().expect("a number for each"), black_box(WIDEN))
    }

    /// The number at `at`.
    #[inline(always)]
    pub fn at<const N: usize>(self, w: &[u8; N], at: usize) -> f32 {
        self.0[usize::from(u16::from_le_bytes([w[at], w[at + 1]]))]
    }

    /// Eight words.
    #[inline(always)]
    pub fn widen(self, words: v128) -> [v128; 2] {
        [i32x4_extend_low_i16x8(words), i32x4_extend_high_i16x8(words)].each(|four| widen_by(four, self.1))
    }
}
