//! Weight rows on their way into panels: a format's part is to write the columns of a row as bfloat16 or as floats, in
//! their own order.

pub mod k_quants;
pub mod legacy;
pub mod plain;

use candor_quant::Format;

use super::lines::{round, store};
use super::pack::step_of;
use super::{Engine, Form, mat};
use crate::{BatchKernels, Line};

/// Columns of a line of bfloat16.
pub const STEP: usize = 32;
/// Weight rows that are unpacked together, and inputs that meet them at a time.
pub const BLOCK_ROWS: usize = 32;
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

/// A format by its decoder in `candor_quant`, named by its ggml id: the slow way for any.
pub struct Decoded<const ID: u32>;

impl<const ID: u32> Unpack for Decoded<ID> {
    const FORMAT: Format = Format::from_ggml_id(ID).expect("a format's id");

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        let mut wide = [0.0; Form::Bf16.panel_cols()];
        let wide = &mut wide[..columns.len() / Self::FORMAT.block_bytes() * Self::FORMAT.block_len()];
        Self::FORMAT.decode(columns, wide);
        for (wide, step) in wide.chunks(STEP).zip(panel) {
            let [low, high] = step_of(wide);
            store(&mut step[r], round(low, high));
        }
    }
}

/// Kernels by decoding, for every format of blocks.
pub fn decoded<E: Engine>(format: Format) -> Option<BatchKernels> {
    macro_rules! by_id {
        ($($format:ident)*) => {
            match format {
                $(Format::$format => Some(mat::kernels::<Decoded<{ Format::$format.ggml_id() }>, E>()),)*
                _ => None,
            }
        };
    }
    by_id! {
        Q8_1 Q8K Iq2Xxs Iq2Xs Iq3Xxs Iq1S Iq3S Iq2S Iq1M Tq1_0 Tq2_0 Mxfp4 Nvfp4
    }
}
