//! The products with 8-bit activations by the byte dot products of VNNI: checks, then few inputs by `rows`, more by
//! `panels`.

use candor_quant::Format;

use super::panels::panels;
use super::row::{Row, rows};
use crate::shape::q8_rows;
use crate::x86::avx2;
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
        Format::Q2K => q8(mat::<avx2::k_halves::Q2K>),
        Format::Q3K => q8(mat::<avx2::k_halves::Q3K>),
        Format::Q4K => q8(mat::<avx2::k_quants::Q4K>),
        Format::Q5K => q8(mat::<avx2::k_quants::Q5K>),
        Format::Q6K => q8(mat::<avx2::k_halves::Q6K>),
        Format::Iq4Xs => q8(mat::<avx2::signed::Iq4Xs>),
        _ => super::mat(format),
    }
}

/// Up to this many inputs are quicker one after the other than by panels, which have to be unpacked.
const FEW_INPUTS: usize = 2;

/// `out[t][o] = w[o] . x[t]`.
fn mat<Q: Row>(mut out: OutTile<'_>, w: &[u8], count: usize, x: Activations<'_>) {
    let (x, inputs, row_bytes) = q8_rows(&out, Q::FORMAT, w, count, x);
    if count == 0 {
        return;
    }
    if inputs > FEW_INPUTS {
        // SAFETY: only the table leads here, and only an `Avx512Vnni` to the table: the processor has these features.
        return unsafe { panels::<Q>(&mut out, w, row_bytes, count, x) };
    }
    for t in 0..inputs {
        let out = &mut out.values[t * out.stride..][..count];
        // SAFETY: as above.
        unsafe { rows::<Q>(out, w, row_bytes, x.row(t)) };
    }
}
