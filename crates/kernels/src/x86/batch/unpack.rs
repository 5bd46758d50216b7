//! Weight rows on their way into panels: a format's part is to write the columns of a row as bfloat16 or as floats, in
//! their own order.

mod books;
pub mod k_quants;
pub mod legacy;
pub mod nvfp4;
pub mod plain;

use candor_quant::Format;

use super::Form;
use crate::Line;

/// Columns of a line of bfloat16.
pub const STEP: usize = 32;
/// Weight rows that are unpacked together, and inputs that meet them at a time.
pub const BLOCK_ROWS: usize = crate::SIDE;
/// Lines of a panel: 32 KiB, which the first-level cache holds beside what passes through. More was slower.
pub const PANEL_LINES: usize = 512;

/// One line of each of 32 rows: two tiles, where there are such.
pub type Step = [Line; BLOCK_ROWS];
/// Some columns of 32 rows. With two halves, the steps of large and small ones alternate.
pub type Panel = [Step; PANEL_LINES / BLOCK_ROWS];

/// A format that can be unpacked.
///
/// Stable Rust has no safe trait methods with target features, hence the `unsafe`.
pub trait Unpack {
    const FORMAT: Format;
    /// What its numbers become. Those of `F32` are as they were.
    const FORM: Form = Form::Bf16;

    /// Writes some columns of a row, whole blocks, as row `r` of `panel`'s steps; the last step is filled up with zeros.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, VL and DQ, F16C, and unless the numbers stay floats AVX-512 BF16.
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize);
}
