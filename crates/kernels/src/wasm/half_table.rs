//! Half-precision scales by table. Registers have no instruction for them, and the dozen that stand in for it are a fifth of what a
//! row of Q4_K takes.

use std::sync::OnceLock;

use candor_quant::half::f16_to_f32;

static TABLE: OnceLock<Box<[f32]>> = OnceLock::new();

/// What each half-precision number is.
#[derive(Clone, Copy)]
pub struct HalfTable(&'static [f32; 1 << 16]);

impl HalfTable {
    pub fn new() -> HalfTable {
        let table = TABLE.get_or_init(|| (0..=u16::MAX).map(f16_to_f32).collect());
        HalfTable(table.as_array().expect("a number for each"))
    }

    /// The number at `at`.
    #[inline(always)]
    pub fn at<const N: usize>(self, w: &[u8; N], at: usize) -> f32 {
        self.0[usize::from(u16::from_le_bytes([w[at], w[at + 1]]))]
    }
}
