//! The products with 8-bit activations by the byte dot products of VNNI: checks, then few inputs by `rows`, more by
//! `panels`.

use candor_quant::Format;

use super::panels::panels;
use super::row::{Row, rows};
use crate::array;
use crate::codebook as books;
use crate::shape::q8_rows;
use crate::x86::ahead::{zen_3_or_4, zen_5};
use crate::x86::avx2::{self, twos::Twos};
use crate::{Activations, MatKernels, OutTile};

/// The row of a format.
pub fn kernels(format: Format) -> Option<MatKernels> {
    let q8 = |mat| Some(MatKernels { q8: true, mat });
    match format {
        Format::Q4_0 => q8(mat::<avx2::legacy::Q4_0>),
        Format::Q4_1 => q8(mat::<avx2::legacy::Q4_1>),
        Format::Q5_0 => q8(mat::<avx2::legacy::Q5_0>),
        Format::Q5_1 => q8(mat::<avx2::legacy::Q5_1>),
        Format::Q8_0 => q8(mat::<avx2::signed::Q8_0>),
        Format::Iq4Nl => q8(mat::<avx2::signed::Iq4Nl>),
        Format::Mxfp4 => q8(mat::<avx2::legacy::Mxfp4>),
        Format::Nvfp4 => q8(mat::<avx2::nvfp4::Nvfp4>),
        Format::Q2K => q8(mat::<avx2::k_halves::Q2K>),
        Format::Q3K => q8(mat::<avx2::k_halves::Q3K>),
        Format::Q4K => q8(mat::<avx2::k_quants::Q4K>),
        Format::Q5K => q8(mat::<avx2::k_quants::Q5K>),
        Format::Q6K => q8(mat::<avx2::k_halves::Q6K>),
        Format::Iq4Xs => q8(mat::<avx2::signed::Iq4Xs>),
        Format::Iq1S => q8(mat::<books::Iq1S>),
        Format::Iq1M => q8(mat::<books::Iq1M>),
        Format::Iq2Xxs => q8(mat::<books::Iq2Xxs>),
        Format::Iq2Xs => q8(mat::<books::Iq2Xs>),
        Format::Iq2S => q8(mat::<books::Iq2S>),
        Format::Iq3Xxs => q8(mat::<books::Iq3Xxs>),
        Format::Iq3S => q8(mat::<books::Iq3S>),
        Format::Tq1_0 => q8(mat::<books::Tq1_0>),
        Format::Tq2_0 => q8(mat::<books::Tq2_0>),
        _ => super::mat(format),
    }
}

/// The most inputs that meet weights in the file's layout, of any format and processor.
const FEW: usize = 16;

/// The most inputs that meet weights of a format in the file's layout. From the next on panels, which have to be made, are
/// as quick. Measured on Emerald Rapids, on Zen 4, where an input costs the rows more, and on Zen 5, where making panels
/// costs more (`cargo bench -p candor-kernels --bench mat -- avx512vnni Q4_0 4,5,6,7,8,9,16`).
fn few_inputs<Q: Row>() -> usize {
    match Q::FORMAT {
        Format::Nvfp4 => 3,
        format if zen_5() => on_zen_5(format),
        format if zen_3_or_4() => on_zen_4(format),
        format => on_intel(format),
    }
}

fn on_intel(format: Format) -> usize {
    match format {
        Format::Q5_1 | Format::Q5K => FEW,
        Format::Q4_0 | Format::Q4_1 => 13,
        Format::Q4K | Format::Iq4Xs => 12,
        Format::Q5_0 | Format::Iq4Nl => 11,
        Format::Q2K | Format::Q3K | Format::Q6K => 10,
        Format::Tq1_0 => 6,
        Format::Iq3S => 5,
        Format::Tq2_0 => 4,
        Format::Iq1S | Format::Iq2Xs | Format::Iq2S => 3,
        Format::Iq1M | Format::Iq2Xxs | Format::Iq3Xxs => 2,
        _ => 8,
    }
}

fn on_zen_4(format: Format) -> usize {
    match format {
        Format::Q8_0 | Format::Iq1S | Format::Iq1M | Format::Tq1_0 | Format::Tq2_0 => 4,
        Format::Q4_0 | Format::Q5_0 | Format::Mxfp4 => 5,
        Format::Iq2Xxs | Format::Iq2Xs | Format::Iq2S | Format::Iq3Xxs | Format::Iq3S => 5,
        Format::Q4_1 | Format::Q5_1 | Format::Q2K | Format::Q3K | Format::Q5K => 7,
        _ => 6,
    }
}

fn on_zen_5(format: Format) -> usize {
    match format {
        Format::Q8_0 => FEW,
        Format::Q4K | Format::Q5_0 | Format::Q5_1 | Format::Q5K => 14,
        Format::Q2K | Format::Iq4Nl => 13,
        Format::Q4_0 | Format::Q4_1 | Format::Q3K | Format::Q6K | Format::Iq4Xs => 10,
        Format::Mxfp4 => 8,
        Format::Tq2_0 => 5,
        _ => 4,
    }
}

/// `out[t][o] = w[o] . x[t]`.
fn mat<Q: Row>(mut out: OutTile<'_>, w: &[u8], count: usize, x: Activations<'_>) {
    let (x, inputs, row_bytes) = q8_rows(&out, Q::FORMAT, w, count, x);
    if count == 0 {
        return;
    }
    if inputs > few_inputs::<Q>() {
        // SAFETY: only the table leads here, and only an `Avx512Vnni` to the table: the processor has these features.
        return unsafe { panels::<Q>(&mut out, w, row_bytes, count, x) };
    }
    // SAFETY: as above.
    unsafe {
        match inputs {
            0 => {}
            1 if !Q::WIDE => avx2::rows::rows::<Twos, Q>(&mut out.values[..count], w, row_bytes, x.row(0)),
            1 => rows::<Q, 1>(&mut out, count, (w, row_bytes), &[x.row(0)]),
            2 => rows::<Q, 2>(&mut out, count, (w, row_bytes), &array::of::<_, 2>(|t| x.row(t))),
            3 => rows::<Q, 3>(&mut out, count, (w, row_bytes), &array::of::<_, 3>(|t| x.row(t))),
            4 => rows::<Q, 4>(&mut out, count, (w, row_bytes), &array::of::<_, 4>(|t| x.row(t))),
            _ => {
                let all: [_; FEW] = array::of(|t| x.row(t.min(inputs - 1)));
                rows::<Q, FEW>(&mut out, count, (w, row_bytes), &all[..inputs]);
            }
        }
    }
}
