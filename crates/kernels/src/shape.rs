//! What the arguments of a matrix kernel must look like, checked once per call so that kernels may rely on it.

use candor_quant::Format;

use crate::{Activations, OutTile, Q8Rows};

/// Checks a call with 8-bit activations; returns them, the input rows and the bytes of a weight row.
///
/// # Panics
/// Where slices and counts disagree: a broken promise of the caller, never an effect of a file's content.
pub fn q8_rows<'a>(
    out: &OutTile<'_>,
    format: Format,
    w: &[u8],
    rows: usize,
    x: Activations<'a>,
) -> (Q8Rows<'a>, usize, usize) {
    let Activations::Q8(x) = x else { panic!("{} mat: expected 8-bit activations, got f32", format.name()) };
    assert!(x.cols > 0 && x.cols.is_multiple_of(32), "{} mat: {} columns", format.name(), x.cols);
    let inputs = x.quants.len() / x.cols;
    assert_eq!(x.quants.len(), inputs * x.cols, "{} mat: quants", format.name());
    assert_eq!(x.scales.len(), inputs * x.cols / 32, "{} mat: scales", format.name());
    assert_eq!(x.sums.len(), inputs * x.cols / 16, "{} mat: sums", format.name());
    let row_bytes = check(out, format, w, rows, x.cols, inputs);
    (x, inputs, row_bytes)
}

/// Checks a call with f32 activations; returns them, the columns, the input rows and the bytes of a weight row.
///
/// # Panics
/// As [`q8_rows`].
pub fn float_rows<'a>(
    out: &OutTile<'_>,
    format: Format,
    w: &[u8],
    rows: usize,
    x: Activations<'a>,
) -> (&'a [f32], usize, usize, usize) {
    let Activations::F32 { cols, values } = x else {
        panic!("{} mat: expected f32 activations, got 8-bit ones", format.name())
    };
    assert!(cols > 0, "{} mat: no columns", format.name());
    let inputs = values.len() / cols;
    assert_eq!(values.len(), inputs * cols, "{} mat: values", format.name());
    let row_bytes = check(out, format, w, rows, cols, inputs);
    (values, cols, inputs, row_bytes)
}

fn check(out: &OutTile<'_>, format: Format, w: &[u8], rows: usize, cols: usize, inputs: usize) -> usize {
    let row_bytes = format.row_bytes(cols).expect("columns are whole blocks: checked when the tensor was loaded");
    assert_eq!(w.len(), rows * row_bytes, "{} mat: weight bytes for {rows} rows of {cols}", format.name());
    if inputs > 0 && rows > 0 {
        assert!(inputs == 1 || rows <= out.stride, "{} mat: {rows} rows in a stride of {}", format.name(), out.stride);
        let end = (inputs - 1) * out.stride + rows;
        assert!(end <= out.values.len(), "{} mat: output ends at {end}, got {}", format.name(), out.values.len());
    }
    row_bytes
}
