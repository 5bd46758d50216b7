//! Products of rows with f32 activations, which are taken as they are: of F32, F16 and BF16, and of blocks that are decoded.
//! Lane = column.
//!
//! Order of summation: eight lanes of fused products over [`SEGMENT`] columns, the tree of `fold::tree`, segments from
//! left to right. Not that of the scalar table, which has no fused products.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use candor_quant::Format;

use super::decoded::{Blocks, decode, plus_products};
use super::fold::tree;
use super::registers::{load_128, load_256, load_ps, store_ps};
use crate::array::Each;
use crate::shape::float_rows;
use crate::weights::row;
use crate::x86::ahead::{Ahead, ROWS};
use crate::{Activations, OutTile};

/// Columns that are summed before their lanes are.
const SEGMENT: usize = 512;
/// Registers of a segment.
const STEPS: usize = SEGMENT / 8;
/// Weight rows that are widened together.
const STRIP: usize = 6;
/// Inputs of a tile.
const INPUTS: usize = 4;

/// A format of plain numbers; `Eight` is the bytes of eight.
pub trait Number {
    const FORMAT: Format;
    type Eight: Copy;
    const ZEROS: Self::Eight;

    /// A row as whole groups of eight and the bytes that are left.
    fn split(row: &[u8]) -> (&[Self::Eight], &[u8]);

    /// The bytes.
    fn bytes(eight: &mut Self::Eight) -> &mut [u8];

    /// The numbers.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    unsafe fn widen(eight: &Self::Eight) -> __m256;
}

macro_rules! number {
    ($name:ident, $bytes:literal, $eight:ident => $widen:expr) => {
        pub struct $name;

        impl Number for $name {
            const FORMAT: Format = Format::$name;
            type Eight = [u8; $bytes];
            const ZEROS: Self::Eight = [0; $bytes];

            fn split(row: &[u8]) -> (&[Self::Eight], &[u8]) {
                row.as_chunks()
            }

            fn bytes(eight: &mut Self::Eight) -> &mut [u8] {
                eight
            }

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn widen($eight: &Self::Eight) -> __m256 {
                $widen
            }
        }
    };
}

number!(F32, 32, eight => _mm256_castsi256_ps(load_256(eight, 0)));
number!(F16, 16, eight => _mm256_cvtph_ps(load_128(eight, 0)));
number!(Bf16, 16, eight => {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load_128(eight, 0))))
});

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<N: Number>(mut out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, cols, inputs, row_bytes) = float_rows(&out, N::FORMAT, w, rows, x);
    match inputs {
        // SAFETY: only the table leads here, and only an `Avx2` to the table: the processor has these features.
        1 => unsafe { one_input::<N>(&mut out.values[..rows], w, row_bytes, x) },
        // SAFETY: as above.
        _ => unsafe { several_inputs::<N>(&mut out, w, (rows, row_bytes), x, cols) },
    }
}

/// The same of blocks: decoded in registers for a single input, strip by strip for more.
pub fn decoded<B: Blocks>(mut out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, cols, inputs, row_bytes) = float_rows(&out, B::FORMAT, w, rows, x);
    match inputs {
        // SAFETY: as above.
        1 => unsafe { one_input_of_blocks::<B>(&mut out.values[..rows], w, row_bytes, x) },
        // SAFETY: as above.
        _ => unsafe { several_inputs::<Decoded<B>>(&mut out, w, (rows, row_bytes), x, cols) },
    }
}

/// Rows of the four quarters of `w` go together: four streams from memory are faster than two (by a fifth on Zen 5).
#[target_feature(enable = "avx2,fma,f16c")]
fn one_input<N: Number>(out: &mut [f32], w: &[u8], row_bytes: usize, x: &[f32]) {
    let ahead = Ahead::new(ROWS);
    let quarter = out.len() / 4;
    for o in 0..quarter {
        let mut rows = [w; 4];
        for i in 0..4 {
            rows[i] = row(w, row_bytes, i * quarter + o);
        }
        let sums = dot::<N, 4>(rows, x, ahead);
        for i in 0..4 {
            out[i * quarter + o] = sums[i];
        }
    }
    for o in quarter * 4..out.len() {
        [out[o]] = dot::<N, 1>([row(w, row_bytes, o)], x, ahead);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn dot<N: Number, const R: usize>(rows: [&[u8]; R], x: &[f32], ahead: Ahead) -> [f32; R] {
    let (whole, rest) = x.as_chunks::<8>();
    let rows = rows.each(N::split);
    let mut totals = [0.0; R];
    for start in (0..x.len().div_ceil(8)).step_by(STEPS) {
        let end = whole.len().min(start + STEPS);
        let mut lanes = [_mm256_setzero_ps(); R];
        for i in start..end {
            let x = load_ps(&whole[i]);
            for r in 0..R {
                let eight = &rows[r].0[i];
                if i * size_of::<N::Eight>() % 64 < size_of::<N::Eight>() {
                    ahead.fetch(eight);
                }
                // SAFETY: this function has the features that `widen` asks for.
                lanes[r] = _mm256_fmadd_ps(unsafe { N::widen(eight) }, x, lanes[r]);
            }
        }
        if end == whole.len() && !rest.is_empty() && end < start + STEPS {
            let x = load_ps(&padded(rest));
            for r in 0..R {
                lanes[r] = _mm256_fmadd_ps(last::<N>(rows[r].1), x, lanes[r]);
            }
        }
        for r in 0..R {
            let sum = tree(lanes[r]);
            totals[r] = if start == 0 { sum } else { totals[r] + sum };
        }
    }
    totals
}

/// The last numbers of a row, then zeros.
#[target_feature(enable = "avx2,fma,f16c")]
fn last<N: Number>(rest: &[u8]) -> __m256 {
    let mut eight = N::ZEROS;
    N::bytes(&mut eight)[..rest.len()].copy_from_slice(rest);
    // SAFETY: this function has the features that `widen` asks for.
    unsafe { N::widen(&eight) }
}

fn padded(rest: &[f32]) -> [f32; 8] {
    let mut eight = [0.0; 8];
    eight[..rest.len()].copy_from_slice(rest);
    eight
}

/// As [`one_input`].
#[target_feature(enable = "avx2,fma,f16c")]
fn one_input_of_blocks<B: Blocks>(out: &mut [f32], w: &[u8], row_bytes: usize, x: &[f32]) {
    let ahead = Ahead::new(ROWS);
    let quarter = out.len() / 4;
    for o in 0..quarter {
        let mut rows = [w; 4];
        for i in 0..4 {
            rows[i] = row(w, row_bytes, i * quarter + o);
        }
        let sums = dot_blocks::<B, 4>(rows, x, ahead);
        for i in 0..4 {
            out[i * quarter + o] = sums[i];
        }
    }
    for o in quarter * 4..out.len() {
        [out[o]] = dot_blocks::<B, 1>([row(w, row_bytes, o)], x, ahead);
    }
}

/// Rows of blocks times an input, in the order in which `tile` adds.
#[target_feature(enable = "avx2,fma,f16c")]
fn dot_blocks<B: Blocks, const R: usize>(rows: [&[u8]; R], x: &[f32], ahead: Ahead) -> [f32; R] {
    let eights = B::FORMAT.block_len() / 8;
    let x = x.as_chunks::<8>().0;
    let mut blocks: [&[B::Block]; R] = [&[]; R];
    for r in 0..R {
        blocks[r] = B::split(rows[r]);
    }
    let mut totals = [0.0; R];
    for start in (0..x.len()).step_by(STEPS) {
        let mut lanes = [_mm256_setzero_ps(); R];
        for (i, x) in x[start..].chunks_exact(eights).take(STEPS / eights).enumerate() {
            let mut at = [&blocks[0][start / eights + i]; R];
            for r in 0..R {
                at[r] = &blocks[r][start / eights + i];
                if i * size_of::<B::Block>() % 64 < size_of::<B::Block>() {
                    ahead.fetch(at[r]);
                }
            }
            lanes = plus_products::<B, R>(lanes, at, x);
        }
        for r in 0..R {
            let sum = tree(lanes[r]);
            totals[r] = if start == 0 { sum } else { totals[r] + sum };
        }
    }
    totals
}

/// A segment of a row.
type Segment = [[f32; 8]; STEPS];

/// Strips of weights are widened once and meet every input in tiles of 3 rows by 4 inputs: twelve sums, since eight wait
/// for each other.
#[target_feature(enable = "avx2,fma,f16c")]
fn several_inputs<N: Widen>(
    out: &mut OutTile<'_>,
    w: &[u8],
    (rows, row_bytes): (usize, usize),
    x: &[f32],
    cols: usize,
) {
    let bytes = |columns: usize| columns / N::FORMAT.block_len() * N::FORMAT.block_bytes();
    let mut wide = [[[0.0; 8]; STEPS]; STRIP];
    let mut ends = [[[0.0; 8]; STEPS]; INPUTS];
    // The next strip, which few inputs would have to wait for.
    let next = Ahead::new(STRIP * row_bytes);
    for first in (0..rows).step_by(STRIP) {
        let count = (rows - first).min(STRIP);
        for start in (0..cols).step_by(SEGMENT) {
            let columns = (cols - start).min(SEGMENT);
            for (r, wide) in wide.iter_mut().enumerate().take(count) {
                let row = &w[(first + r) * row_bytes + bytes(start)..][..bytes(columns)];
                if x.len() <= INPUTS * cols {
                    next.fetch_all(row);
                }
                // SAFETY: this function has the features that `widen_row` asks for.
                unsafe { N::widen_row(wide, row) };
            }
            for (t, x) in x.chunks(cols * INPUTS).enumerate() {
                let place = Place { row: first, input: t * INPUTS, start, columns };
                let inputs = x.len() / cols;
                let mut whole = [&[[0.0; 8]; STEPS]; INPUTS];
                if columns == SEGMENT {
                    for (whole, x) in whole.iter_mut().zip(x.chunks_exact(cols)) {
                        *whole = x[start..].as_chunks().0.first_chunk().expect("a segment is left of the row");
                    }
                } else {
                    for (end, x) in ends.iter_mut().zip(x.chunks_exact(cols)) {
                        end.as_flattened_mut()[..columns].copy_from_slice(&x[start..]);
                        end.as_flattened_mut()[columns..].fill(0.0);
                    }
                    whole = ends.each_ref();
                }
                strip_times(out, &wide[..count], &whole[..inputs], place);
            }
        }
    }
}

/// A format whose rows become floats.
trait Widen {
    const FORMAT: Format;

    /// The numbers of some columns of a row, whole blocks; after them zeros up to the next eight.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    unsafe fn widen_row(wide: &mut Segment, columns: &[u8]);
}

impl<N: Number> Widen for N {
    const FORMAT: Format = <N as Number>::FORMAT;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen_row(wide: &mut Segment, columns: &[u8]) {
        let (whole, rest) = N::split(columns);
        for (wide, eight) in wide.iter_mut().zip(whole) {
            // SAFETY: this function has the features that `widen` asks for.
            store_ps(wide, unsafe { N::widen(eight) });
        }
        if !rest.is_empty() {
            store_ps(&mut wide[whole.len()], last::<N>(rest));
        }
    }
}

/// A format of blocks.
struct Decoded<B>(PhantomData<B>);

impl<B: Blocks> Widen for Decoded<B> {
    const FORMAT: Format = B::FORMAT;

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen_row(wide: &mut Segment, columns: &[u8]) {
        decode::<B>(columns, wide);
    }
}

/// Where a strip's products go, and the columns that they are of.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    input: usize,
    start: usize,
    columns: usize,
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn strip_times(out: &mut OutTile<'_>, w: &[Segment], x: &[&Segment], place: Place) {
    // A single input leaves registers for more rows.
    if let ([a, b, c, d, e, f], [x]) = (w, x) {
        return tile(out, [a, b, c, d, e, f], [x], place);
    }
    for (i, w) in w.chunks(3).enumerate() {
        let place = Place { row: place.row + i * 3, ..place };
        match w {
            [a, b, c] => rows_times(out, [a, b, c], x, place),
            [a, b] => rows_times(out, [a, b], x, place),
            [a] => rows_times(out, [a], x, place),
            _ => {}
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn rows_times<const R: usize>(out: &mut OutTile<'_>, w: [&Segment; R], x: &[&Segment], place: Place) {
    match *x {
        [a, b, c, d] => tile(out, w, [a, b, c, d], place),
        [a, b, c] => tile(out, w, [a, b, c], place),
        [a, b] => tile(out, w, [a, b], place),
        [a] => tile(out, w, [a], place),
        _ => {}
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn tile<const R: usize, const T: usize>(out: &mut OutTile<'_>, w: [&Segment; R], x: [&Segment; T], place: Place) {
    let mut lanes = [[_mm256_setzero_ps(); T]; R];
    for i in 0..place.columns.div_ceil(8).min(STEPS) {
        let mut weights = [_mm256_setzero_ps(); R];
        for r in 0..R {
            weights[r] = load_ps(&w[r][i]);
        }
        for t in 0..T {
            let x = load_ps(&x[t][i]);
            for r in 0..R {
                lanes[r][t] = _mm256_fmadd_ps(weights[r], x, lanes[r][t]);
            }
        }
    }
    for t in 0..T {
        let out = &mut out.values[(place.input + t) * out.stride + place.row..][..R];
        for r in 0..R {
            let sum = tree(lanes[r][t]);
            out[r] = if place.start == 0 { sum } else { out[r] + sum };
        }
    }
}
