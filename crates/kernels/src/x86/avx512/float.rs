//! Products of rows with f32 activations, which are taken as they are: of F32, F16 and BF16, and of blocks that are decoded.
//! Lane = column.
//!
//! Order of summation: sixteen lanes of fused products over [`SEGMENT`] columns, their halves added and the tree of AVX2's
//! `fold::tree`, segments from left to right. Not that of the other tables.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use candor_quant::Format;

use super::decoded::{Blocks, Sink, decode};
use super::registers::{load_512, load_ps, store_ps};
use crate::array::Each;
use crate::shape::float_rows;
use crate::weights::row;
use crate::x86::ahead::{Ahead, ROWS, zen_3_or_4, zen_5};
use crate::x86::avx2::fold;
use crate::x86::avx2::registers::load_256;
use crate::{Activations, OutTile};

/// Columns that are summed before their lanes are.
const SEGMENT: usize = 1024;
/// Registers of a segment.
const STEPS: usize = SEGMENT / 16;
/// Weight rows that are widened together.
const STRIP: usize = 6;
/// Inputs of a tile.
const INPUTS: usize = 4;
/// The most inputs that meet rows as they lie in the file. From the next on it is quicker to widen rows once. Measured with a whole
/// model on Zen 5, where two threads read memory at half the speed while they widen; and on Emerald Rapids
/// (`cargo bench -p candor-kernels --bench mat -- avx512 F16 24,28,32,36`).
fn most<N: Number>() -> usize {
    match N::FORMAT {
        _ if zen_3_or_4() || zen_5() => 24,
        Format::F32 => 9,
        _ => 32,
    }
}

/// A format of plain numbers; `Sixteen` is the bytes of sixteen.
pub trait Number {
    const FORMAT: Format;
    type Sixteen: Copy;
    const ZEROS: Self::Sixteen;

    /// A row as whole groups of sixteen and the bytes that are left.
    fn split(row: &[u8]) -> (&[Self::Sixteen], &[u8]);

    /// The bytes.
    fn bytes(sixteen: &mut Self::Sixteen) -> &mut [u8];

    /// The numbers.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, VL and DQ.
    unsafe fn widen(sixteen: &Self::Sixteen) -> __m512;
}

macro_rules! number {
    ($name:ident, $bytes:literal, $sixteen:ident => $widen:expr) => {
        pub struct $name;

        impl Number for $name {
            const FORMAT: Format = Format::$name;
            type Sixteen = [u8; $bytes];
            const ZEROS: Self::Sixteen = [0; $bytes];

            fn split(row: &[u8]) -> (&[Self::Sixteen], &[u8]) {
                row.as_chunks()
            }

            fn bytes(sixteen: &mut Self::Sixteen) -> &mut [u8] {
                sixteen
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
            unsafe fn widen($sixteen: &Self::Sixteen) -> __m512 {
                $widen
            }
        }
    };
}

number!(F32, 64, sixteen => _mm512_castsi512_ps(load_512(sixteen, 0)));
number!(F16, 32, sixteen => _mm512_cvtph_ps(load_256(sixteen, 0)));
number!(Bf16, 32, sixteen => {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load_256(sixteen, 0))))
});

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<N: Number>(mut out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, cols, inputs, row_bytes) = float_rows(&out, N::FORMAT, w, rows, x);
    if inputs <= most::<N>() {
        // SAFETY: only the table leads here, and only an `Avx512` to the table: the processor has these features.
        unsafe { few_inputs::<N>(&mut out, w, (rows, row_bytes), x, cols) }
    } else {
        // SAFETY: as above.
        unsafe { several_inputs::<N>(&mut out, w, (rows, row_bytes), x, cols) }
    }
}

/// The same of blocks: decoded in registers for a single input, strip by strip for more.
pub fn decoded<D: Blocks>(mut out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, cols, inputs, row_bytes) = float_rows(&out, D::FORMAT, w, rows, x);
    if inputs == 1 {
        // SAFETY: as above.
        unsafe { one_input::<D>(&mut out.values[..rows], w, row_bytes, x) }
    } else {
        // SAFETY: as above.
        unsafe { several_inputs::<Decoded<D>>(&mut out, w, (rows, row_bytes), x, cols) }
    }
}

/// Rows of the four quarters of `w` go together, as in `few_inputs`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn one_input<D: Blocks>(out: &mut [f32], w: &[u8], row_bytes: usize, x: &[f32]) {
    let quarter = out.len() / 4;
    for o in 0..quarter {
        let at = [0, 1, 2, 3].each(|i| i * quarter + o);
        let sums = dot_blocks::<D, 4>(at.each(|o| row(w, row_bytes, o)), x);
        for i in 0..4 {
            out[at[i]] = sums[i];
        }
    }
    for o in quarter * 4..out.len() {
        [out[o]] = dot_blocks::<D, 1>([row(w, row_bytes, o)], x);
    }
}

/// Adds products with the inputs to lanes.
struct Products<'a> {
    x: &'a [[f32; 16]],
    next: usize,
    lanes: __m512,
}

impl Sink for Products<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    unsafe fn put(self, sixteen: __m512) -> Self {
        let lanes = _mm512_fmadd_ps(sixteen, load_ps(&self.x[self.next]), self.lanes);
        Products { x: self.x, next: self.next + 1, lanes }
    }
}

/// Rows of blocks times an input, in the order in which `tile` adds.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn dot_blocks<D: Blocks, const R: usize>(rows: [&[u8]; R], x: &[f32]) -> [f32; R] {
    let ahead = Ahead::new(ROWS);
    let (bytes, sixteens) = (D::FORMAT.block_bytes(), D::FORMAT.block_len() / 16);
    let mut totals = [0.0; R];
    for (segment, x) in x.chunks(SEGMENT).enumerate() {
        let first = segment * (STEPS / sixteens);
        let mut lanes = [_mm512_setzero_ps(); R];
        for (i, x) in x.as_chunks::<16>().0.chunks_exact(sixteens).enumerate() {
            for r in 0..R {
                let block = &rows[r][(first + i) * bytes..][..bytes];
                ahead.fetch_all(block);
                let products = Products { x, next: 0, lanes: lanes[r] };
                // SAFETY: this function has the features that `each` asks for.
                lanes[r] = unsafe { D::each(block, products) }.lanes;
            }
        }
        for r in 0..R {
            let sum = tree(lanes[r]);
            totals[r] = if segment == 0 { sum } else { totals[r] + sum };
        }
    }
    totals
}

/// Rows meet inputs as they lie in the file, four rows and up to four inputs at a time. The next four inputs find the rows in
/// the first-level cache.
///
/// Rows of the four quarters of `w` go together: four streams from memory are faster than two (by a fifth on Zen 5).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn few_inputs<N: Number>(out: &mut OutTile<'_>, w: &[u8], (rows, row_bytes): (usize, usize), x: &[f32], cols: usize) {
    let quarter = rows / 4;
    for o in 0..quarter {
        let at = [0, 1, 2, 3].each(|i| i * quarter + o);
        rows_times_inputs::<N, 4>(out, at, at.each(|o| row(w, row_bytes, o)), x, cols);
    }
    for o in quarter * 4..rows {
        rows_times_inputs::<N, 1>(out, [o], [row(w, row_bytes, o)], x, cols);
    }
}

/// `R` rows, whose numbers are `at`, times all inputs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn rows_times_inputs<N: Number, const R: usize>(
    out: &mut OutTile<'_>,
    at: [usize; R],
    rows: [&[u8]; R],
    x: &[f32],
    cols: usize,
) {
    let stride = out.stride;
    for (tile, x) in x.chunks(cols * INPUTS).enumerate() {
        let out = &mut out.values[tile * INPUTS * stride..];
        let input = |t: usize| &x[t * cols..][..cols];
        match x.len() / cols {
            1 => dot::<N, R, 1>(out, (at, stride), rows, [x]),
            2 => dot::<N, R, 2>(out, (at, stride), rows, [0, 1].each(input)),
            3 => dot::<N, R, 3>(out, (at, stride), rows, [0, 1, 2].each(input)),
            _ => dot::<N, R, 4>(out, (at, stride), rows, [0, 1, 2, 3].each(input)),
        }
    }
}

/// `R` rows times `T` inputs of the same length; `out` begins with the first input's.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn dot<N: Number, const R: usize, const T: usize>(
    out: &mut [f32],
    (at, stride): ([usize; R], usize),
    rows: [&[u8]; R],
    x: [&[f32]; T],
) {
    let ahead = Ahead::new(ROWS);
    let x = x.each(|x| x.as_chunks::<16>());
    let (whole, rest) = (x[0].0.len(), x[0].1.len());
    let rows = rows.each(|row| {
        let (numbers, rest) = N::split(row);
        (&numbers[..whole], rest)
    });
    let inputs = x.each(|(numbers, _)| &numbers[..whole]);
    let mut totals = [[0.0; T]; R];
    for start in (0..whole + usize::from(rest > 0)).step_by(STEPS) {
        let end = whole.min(start + STEPS);
        let mut lanes = [[_mm512_setzero_ps(); T]; R];
        for i in start..end {
            for r in 0..R {
                let sixteen = &rows[r].0[i];
                if i * size_of::<N::Sixteen>() % 64 < size_of::<N::Sixteen>() {
                    ahead.fetch(sixteen);
                }
                // SAFETY: this function has the features that `widen` asks for.
                let weights = unsafe { N::widen(sixteen) };
                for t in 0..T {
                    lanes[r][t] = _mm512_fmadd_ps(weights, load_ps(&inputs[t][i]), lanes[r][t]);
                }
            }
        }
        if end == whole && rest > 0 && end < start + STEPS {
            for r in 0..R {
                let weights = last::<N>(rows[r].1);
                for t in 0..T {
                    lanes[r][t] = _mm512_fmadd_ps(weights, load_ps(&padded(x[t].1)), lanes[r][t]);
                }
            }
        }
        for r in 0..R {
            for t in 0..T {
                let sum = tree(lanes[r][t]);
                totals[r][t] = if start == 0 { sum } else { totals[r][t] + sum };
            }
        }
    }
    for r in 0..R {
        for t in 0..T {
            out[t * stride + at[r]] = totals[r][t];
        }
    }
}

/// The last numbers of a row, then zeros.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn last<N: Number>(rest: &[u8]) -> __m512 {
    let mut sixteen = N::ZEROS;
    N::bytes(&mut sixteen)[..rest.len()].copy_from_slice(rest);
    // SAFETY: this function has the features that `widen` asks for.
    unsafe { N::widen(&sixteen) }
}

fn padded(rest: &[f32]) -> [f32; 16] {
    let mut sixteen = [0.0; 16];
    sixteen[..rest.len()].copy_from_slice(rest);
    sixteen
}

/// A segment of a row.
type Segment = [[f32; 16]; STEPS];

/// Strips of weights are widened once and meet every input in tiles of 6 rows by 4 inputs: as many sums as registers
/// hold.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn several_inputs<N: Widen>(
    out: &mut OutTile<'_>,
    w: &[u8],
    (rows, row_bytes): (usize, usize),
    x: &[f32],
    cols: usize,
) {
    let bytes = |columns: usize| columns / N::FORMAT.block_len() * N::FORMAT.block_bytes();
    let mut wide = [[[0.0; 16]; STEPS]; STRIP];
    let mut ends = [[[0.0; 16]; STEPS]; INPUTS];
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
                let mut whole = [&[[0.0; 16]; STEPS]; INPUTS];
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

    /// The numbers of some columns of a row, whole blocks; after them zeros up to the next sixteen.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, VL and DQ.
    unsafe fn widen_row(wide: &mut Segment, columns: &[u8]);
}

impl<N: Number> Widen for N {
    const FORMAT: Format = <N as Number>::FORMAT;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    unsafe fn widen_row(wide: &mut Segment, columns: &[u8]) {
        let (whole, rest) = N::split(columns);
        for (wide, sixteen) in wide.iter_mut().zip(whole) {
            // SAFETY: this function has the features that `widen` asks for.
            store_ps(wide, unsafe { N::widen(sixteen) });
        }
        if !rest.is_empty() {
            store_ps(&mut wide[whole.len()], last::<N>(rest));
        }
    }
}

/// A format of blocks.
struct Decoded<D>(PhantomData<D>);

impl<D: Blocks> Widen for Decoded<D> {
    const FORMAT: Format = D::FORMAT;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    unsafe fn widen_row(wide: &mut Segment, columns: &[u8]) {
        decode::<D>(columns, wide.as_flattened_mut());
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn strip_times(out: &mut OutTile<'_>, w: &[Segment], x: &[&Segment], place: Place) {
    for (i, w) in w.chunks(6).enumerate() {
        let place = Place { row: place.row + i * 6, ..place };
        match w {
            [a, b, c, d, e, f] => rows_times(out, [a, b, c, d, e, f], x, place),
            [a, b, c, d, e] => rows_times(out, [a, b, c, d, e], x, place),
            [a, b, c, d] => rows_times(out, [a, b, c, d], x, place),
            [a, b, c] => rows_times(out, [a, b, c], x, place),
            [a, b] => rows_times(out, [a, b], x, place),
            [a] => rows_times(out, [a], x, place),
            _ => {}
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn rows_times<const R: usize>(out: &mut OutTile<'_>, w: [&Segment; R], x: &[&Segment], place: Place) {
    match *x {
        [a, b, c, d] => tile(out, w, [a, b, c, d], place),
        [a, b, c] => tile(out, w, [a, b, c], place),
        [a, b] => tile(out, w, [a, b], place),
        [a] => tile(out, w, [a], place),
        _ => {}
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn tile<const R: usize, const T: usize>(out: &mut OutTile<'_>, w: [&Segment; R], x: [&Segment; T], place: Place) {
    let mut lanes = [[_mm512_setzero_ps(); T]; R];
    for i in 0..place.columns.div_ceil(16).min(STEPS) {
        let mut weights = [_mm512_setzero_ps(); R];
        for r in 0..R {
            weights[r] = load_ps(&w[r][i]);
        }
        for t in 0..T {
            let x = load_ps(&x[t][i]);
            for r in 0..R {
                lanes[r][t] = _mm512_fmadd_ps(weights[r], x, lanes[r][t]);
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

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn tree(lanes: __m512) -> f32 {
    fold::tree(_mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps::<1>(lanes)))
}
