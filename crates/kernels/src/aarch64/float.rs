//! Products of rows with f32 activations, which are taken as they are: of F32, F16 and BF16, and of blocks that are decoded.
//! Lane = column.
//!
//! Order of summation: that of the AVX2 table, eight lanes of fused products over [`SEGMENT`] columns, the tree of
//! `order::tree`, segments from left to right. Not that of the scalar table, which has no fused products.

use std::arch::aarch64::*;
use std::marker::PhantomData;

use candor_quant::{Format, blocks::Decode};

use super::fold::tree;
use super::format::Eight;
use super::instructions::prefetch;
use super::registers::{load_f32, load_u8, store_f32, widen_halves};
use crate::array::{self, Each};
use crate::shape::float_rows;
use crate::{Activations, OutTile};

/// Columns that are summed before their lanes are.
const SEGMENT: usize = 512;
/// Eights of a segment.
const STEPS: usize = SEGMENT / 8;
/// Weight rows of a tile: with four inputs, 24 of 32 registers are sums.
const ROWS: usize = 3;
/// Inputs of a tile.
const INPUTS: usize = 4;
/// Bytes that prefetches run ahead: what was best on x86-64, not measured here.
const AHEAD: usize = 2048;

/// A format of plain numbers; `N` is the bytes of eight.
pub trait Number<const N: usize> {
    const FORMAT: Format;

    /// The numbers.
    ///
    /// # Safety
    /// The processor has NEON.
    unsafe fn widen(eight: &[u8; N]) -> Eight;
}

pub struct F32;
pub struct F16;
pub struct Bf16;

impl Number<32> for F32 {
    const FORMAT: Format = Format::F32;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn widen(eight: &[u8; 32]) -> Eight {
        [0, 16].each(|at| vreinterpretq_f32_u8(load_u8(eight, at)))
    }
}

impl Number<16> for F16 {
    const FORMAT: Format = Format::F16;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn widen(eight: &[u8; 16]) -> Eight {
        let halves = eight.as_chunks::<2>().0;
        [0, 4].each(|first| widen_halves(array::of(|i| u16::from_le_bytes(halves[first + i]))))
    }
}

impl Number<16> for Bf16 {
    const FORMAT: Format = Format::Bf16;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn widen(eight: &[u8; 16]) -> Eight {
        let halves = vreinterpretq_u16_u8(load_u8(eight, 0));
        [vshll_n_u16::<16>(vget_low_u16(halves)), vshll_high_n_u16::<16>(halves)]
            .each(|bits| vreinterpretq_f32_u32(bits))
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn load(eight: &[f32; 8]) -> Eight {
    [load_f32(eight, 0), load_f32(eight, 4)]
}

/// `lanes + w * x`, fused.
#[inline]
#[target_feature(enable = "neon")]
fn add_products(lanes: Eight, w: Eight, x: Eight) -> Eight {
    [vfmaq_f32(lanes[0], w[0], x[0]), vfmaq_f32(lanes[1], w[1], x[1])]
}

/// The last numbers of a row, then zeros.
#[inline]
#[target_feature(enable = "neon")]
fn last<F: Number<N>, const N: usize>(rest: &[u8]) -> Eight {
    let mut eight = [0; N];
    eight[..rest.len()].copy_from_slice(rest);
    // SAFETY: this function has the feature that `widen` asks for.
    unsafe { F::widen(&eight) }
}

/// `out[t][o] = w[o] . x[t]`.
pub fn mat<F: Number<N>, const N: usize>(mut out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, cols, inputs, row_bytes) = float_rows(&out, F::FORMAT, w, rows, x);
    match inputs {
        // SAFETY: only the tables lead here, and all of them ask for NEON: the processor has it.
        1 => unsafe { one_input::<F, N>(&mut out.values[..rows], w, row_bytes, x) },
        // SAFETY: as above.
        _ => unsafe { several_inputs::<Plain<F, N>>(&mut out, w, row_bytes, x, cols) },
    }
}

/// The same of blocks: rows are decoded strip by strip, for a single input too.
pub fn decoded<D: Decode>(mut out: OutTile<'_>, w: &[u8], rows: usize, x: Activations<'_>) {
    let (x, cols, _, row_bytes) = float_rows(&out, D::FORMAT, w, rows, x);
    // SAFETY: as above.
    unsafe { several_inputs::<Decoded<D>>(&mut out, w, row_bytes, x, cols) }
}

/// Rows of the four quarters of `w` go together: each row's sums wait for one another, four times as long as a product takes.
#[target_feature(enable = "neon")]
fn one_input<F: Number<N>, const N: usize>(out: &mut [f32], w: &[u8], row_bytes: usize, x: &[f32]) {
    let quarter = out.len() / 4;
    let row = |o: usize| &w[o * row_bytes..][..row_bytes];
    for o in 0..quarter {
        let places = [o, o + quarter, o + 2 * quarter, o + 3 * quarter];
        let sums = dot::<F, N, 4>(places.each(row), x);
        for (place, sum) in places.into_iter().zip(sums) {
            out[place] = sum;
        }
    }
    for o in quarter * 4..out.len() {
        [out[o]] = dot::<F, N, 1>([row(o)], x);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn dot<F: Number<N>, const N: usize, const R: usize>(rows: [&[u8]; R], x: &[f32]) -> [f32; R] {
    let (whole, rest) = x.as_chunks::<8>();
    let rows = rows.each(<[u8]>::as_chunks::<N>);
    let eights: [&[[u8; N]]; R] = rows.each(|(eights, _)| &eights[..whole.len()]);
    let mut totals = [0.0; R];
    for start in (0..x.len().div_ceil(8)).step_by(STEPS) {
        let end = whole.len().min(start + STEPS);
        let mut lanes = [[vdupq_n_f32(0.0); 2]; R];
        // Two eights and a line of the cache at a time, so that loops and prefetches take little.
        let (pairs, last_eight) = whole[start..end].as_chunks::<2>();
        for (i, pair) in pairs.iter().enumerate() {
            let at = start + 2 * i;
            for r in 0..R {
                if at * N % 64 < 2 * N {
                    prefetch(eights[r][at].as_ptr().wrapping_add(AHEAD));
                }
            }
            for (i, eight) in pair.iter().enumerate() {
                let x = load(eight);
                for r in 0..R {
                    // SAFETY: this function has the feature that `widen` asks for.
                    lanes[r] = add_products(lanes[r], unsafe { F::widen(&eights[r][at + i]) }, x);
                }
            }
        }
        for eight in last_eight {
            let x = load(eight);
            for r in 0..R {
                // SAFETY: as above.
                lanes[r] = add_products(lanes[r], unsafe { F::widen(&eights[r][end - 1]) }, x);
            }
        }
        if end == whole.len() && !rest.is_empty() && end < start + STEPS {
            let x = load(&padded(rest));
            for r in 0..R {
                lanes[r] = add_products(lanes[r], last::<F, N>(rows[r].1), x);
            }
        }
        for r in 0..R {
            let sum = tree(lanes[r]);
            totals[r] = if start == 0 { sum } else { totals[r] + sum };
        }
    }
    totals
}

fn padded(rest: &[f32]) -> [f32; 8] {
    let mut eight = [0.0; 8];
    eight[..rest.len()].copy_from_slice(rest);
    eight
}

/// A segment of a row.
type Segment = [[f32; 8]; STEPS];

/// Weights are widened once for all inputs and meet them in tiles of 3 rows by 4 inputs. Earlier rows and the last input
/// stand in for those that are not there; their sums are not kept.
#[target_feature(enable = "neon")]
fn several_inputs<W: Widen>(out: &mut OutTile<'_>, w: &[u8], row_bytes: usize, x: &[f32], cols: usize) {
    let bytes = |columns: usize| columns / W::FORMAT.block_len() * W::FORMAT.block_bytes();
    let mut wide = [[[0.0; 8]; STEPS]; ROWS];
    let mut ends = [[[0.0; 8]; STEPS]; INPUTS];
    for (strip, w) in w.chunks(ROWS * row_bytes).enumerate() {
        let rows = w.len() / row_bytes;
        for start in (0..cols).step_by(SEGMENT) {
            let columns = (cols - start).min(SEGMENT);
            for (wide, row) in wide.iter_mut().zip(w.chunks_exact(row_bytes)) {
                // SAFETY: this function has the feature that `widen_row` asks for.
                unsafe { W::widen_row(wide, &row[bytes(start)..][..bytes(columns)]) };
            }
            for (t, x) in x.chunks(cols * INPUTS).enumerate() {
                let inputs = x.len() / cols;
                let rest = |t: usize| &x[t.min(inputs - 1) * cols + start..][..columns];
                let mut segments = [&[[0.0; 8]; STEPS]; INPUTS];
                if columns == SEGMENT {
                    for (i, segment) in segments.iter_mut().enumerate() {
                        *segment = rest(i).as_chunks().0.first_chunk().expect("the rest is a segment");
                    }
                } else {
                    for (i, end) in ends.iter_mut().enumerate() {
                        end.as_flattened_mut()[..columns].copy_from_slice(rest(i));
                        end.as_flattened_mut()[columns..].fill(0.0);
                    }
                    segments = ends.each_ref();
                }
                let steps = columns.div_ceil(8);
                let sums = match inputs {
                    1 => [tile(wide.each_ref(), [segments[0]], steps)[0]; INPUTS],
                    _ => tile(wide.each_ref(), segments, steps),
                };
                for (i, sums) in sums.into_iter().enumerate().take(inputs) {
                    let out = &mut out.values[(t * INPUTS + i) * out.stride + strip * ROWS..][..rows];
                    for (out, sum) in out.iter_mut().zip(sums) {
                        *out = if start == 0 { sum } else { *out + sum };
                    }
                }
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
    /// The processor has NEON.
    unsafe fn widen_row(wide: &mut Segment, columns: &[u8]);
}

/// A format of plain numbers, `N` bytes of eight.
struct Plain<F, const N: usize>(PhantomData<F>);

impl<F: Number<N>, const N: usize> Widen for Plain<F, N> {
    const FORMAT: Format = F::FORMAT;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn widen_row(wide: &mut Segment, columns: &[u8]) {
        let (whole, rest) = columns.as_chunks::<N>();
        let eights = whole.iter().map(|eight| {
            // SAFETY: this function has the feature that `widen` asks for.
            unsafe { F::widen(eight) }
        });
        let end = (!rest.is_empty()).then(|| last::<F, N>(rest));
        for (wide, [low, high]) in wide.iter_mut().zip(eights.chain(end)) {
            store_f32(wide, 0, low);
            store_f32(wide, 4, high);
        }
    }
}

/// A format of blocks.
struct Decoded<D>(PhantomData<D>);

impl<D: Decode> Widen for Decoded<D> {
    const FORMAT: Format = D::FORMAT;

    #[target_feature(enable = "neon")]
    unsafe fn widen_row(wide: &mut Segment, columns: &[u8]) {
        D::decode(columns, wide.as_flattened_mut());
    }
}

/// Sums of the first `steps` eights, `[input][row]`.
#[target_feature(enable = "neon")]
fn tile<const T: usize>(w: [&Segment; ROWS], x: [&Segment; T], steps: usize) -> [[f32; ROWS]; T] {
    let mut lanes = [[[vdupq_n_f32(0.0); 2]; ROWS]; T];
    for i in 0..steps.min(STEPS) {
        // Four columns at a time: the weights of eight would leave no register for the inputs.
        for half in 0..2 {
            let weights = w.each(|w| load_f32(&w[i], half * 4));
            for t in 0..T {
                let x = load_f32(&x[t][i], half * 4);
                for r in 0..ROWS {
                    lanes[t][r][half] = vfmaq_f32(lanes[t][r][half], weights[r], x);
                }
            }
        }
    }
    lanes.each(|lanes| lanes.each(|lanes| tree(lanes)))
}
