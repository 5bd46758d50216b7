//! Several input rows: weights are unpacked once per panel of eight rows and meet every input there.

use std::cell::RefCell;
use std::hint::black_box;

use super::format::{Quant, Range};
use super::half_table::HalfTable;
use super::multiply::{INPUTS, Multiply, Words};
use super::panel::{Block, Panel, ROWS, unpack};
use super::registers::{load, store};
use super::tile::{Given, tile};
use crate::array::{self, Each};
use crate::kind::{GROUP, Kind};
use crate::order::{SEGMENT, SEGMENT_BLOCKS};
use crate::weights::Minima;
use crate::{OutTile, Q8Rows};

thread_local! {
    /// What inputs have besides quants, tile by tile, block by block.
    static PREPARED: RefCell<Vec<Given>> = const { RefCell::new(Vec::new()) };
}

/// Weight rows `first..first + count` of the output, and a segment's place in them.
#[derive(Clone, Copy)]
struct Strip {
    first: usize,
    count: usize,
    start: usize,
}

/// `out[t][o] = w[o] . x[t]` for `rows` weight rows and every input.
///
/// Weights that may be negative are multiplied as words: signs of activations would have to be given to them for every input.
pub fn panels<M: Multiply, Q: Quant<N>, const N: usize>(out: &mut OutTile<'_>, w: &[u8], rows: usize, x: Q8Rows<'_>) {
    if Q::RANGE == Range::Signed {
        panels_by::<Words, Q, N>(out, w, rows, x);
    } else {
        panels_by::<M, Q, N>(out, w, rows, x);
    }
}

#[inline(always)]
fn panels_by<M: Multiply, Q: Quant<N>, const N: usize>(out: &mut OutTile<'_>, w: &[u8], rows: usize, x: Q8Rows<'_>) {
    const {
        // What a tile adds up in 16 bits at least.
        assert!(matches!(Q::RANGE, Range::Signed) || Q::RANGE.fits_words(4));
    }
    let inputs = x.quants.len() / x.cols;
    let row_bytes = w.len() / rows;
    let segment_bytes = SEGMENT / GROUP * N;
    PREPARED.with_borrow_mut(|prepared| {
        let blocks = x.cols / 32;
        prepared.resize(inputs.div_ceil(INPUTS) * blocks, Given::NONE);
        prepare::<M, Q::Kind>(prepared, x, Q::OFFSET);
        let (halves, mut panel) = (HalfTable::new(), [Block::EMPTY; SEGMENT_BLOCKS]);
        for first in (0..rows).step_by(ROWS) {
            let count = (rows - first).min(ROWS);
            for start in (0..x.cols).step_by(SEGMENT) {
                let strip = Strip { first, count, start };
                // The last row stands in for rows that are not there.
                let segments = array::of(|r| {
                    let row = &w[(first + r.min(count - 1)) * row_bytes..][..row_bytes];
                    let row = &row[start / SEGMENT * segment_bytes..];
                    &row[..row.len().min(segment_bytes)]
                });
                touch(segments);
                unpack::<M, Q, N>(&mut panel, segments, halves);
                let tiles = match M::together(Q::RANGE) {
                    16 => tiles::<M, Q::Kind, 16>,
                    8 => tiles::<M, Q::Kind, 8>,
                    4 => tiles::<M, Q::Kind, 4>,
                    _ => tiles::<M, Q::Kind, 2>,
                };
                tiles(out, &panel, prepared, strip, x);
            }
        }
    });
}

/// Reads a byte of each cache line: lines come from memory all at once then, and one by one to what unpacks them.
fn touch(rows: [&[u8]; ROWS]) {
    for row in rows {
        black_box(row.chunks(64).fold(0, |all, line| all ^ line[0]));
    }
}

/// The last input stands in for those that are not there.
fn prepare<M: Multiply, K: Kind>(prepared: &mut [Given], x: Q8Rows<'_>, offset: i8) {
    let (inputs, blocks) = (x.quants.len() / x.cols, x.cols / 32);
    for (tile, given) in prepared.chunks_exact_mut(blocks).enumerate() {
        for t in 0..INPUTS {
            let row = x.row((tile * INPUTS + t).min(inputs - 1));
            let blocks = row.quants.as_chunks::<32>().0.iter().zip(row.scales).zip(row.sums.as_chunks::<2>().0);
            for (given, ((quants, &scale), &[a, b])) in given.iter_mut().zip(blocks) {
                for register in 0..2 {
                    let parts = M::split(load(quants, register * 16), true).each(|part| {
                        let mut lanes = [0; 4];
                        store(&mut lanes, 0, part);
                        lanes
                    });
                    let steps = given.columns[register * 4 * M::PARTS..].chunks_exact_mut(M::PARTS).take(4);
                    for (i, steps) in steps.enumerate() {
                        for (step, lanes) in steps.iter_mut().zip(parts) {
                            step[t] = lanes[i];
                        }
                    }
                }
                let [a, b] = [i32::from(a), i32::from(b)];
                given.scales[t] = scale;
                match K::MINIMA {
                    Minima::None => {}
                    Minima::Whole => given.sums[0][t] = scale * (a + b) as f32,
                    Minima::Halves => [given.sums[0][t], given.sums[1][t]] = [scale * a as f32, scale * b as f32],
                }
                let [a, b] = [a, b].each(|sum| -i32::from(offset) * sum);
                [given.starts[0][t], given.starts[1][t]] = if K::FACTORS { [a, b] } else { [a + b, 0] };
            }
        }
    }
}

/// Multiplies a strip with all inputs.
fn tiles<M: Multiply, K: Kind, const TOGETHER: usize>(
    out: &mut OutTile<'_>,
    panel: &Panel,
    prepared: &[Given],
    strip: Strip,
    x: Q8Rows<'_>,
) {
    let inputs = x.quants.len() / x.cols;
    for (t, given) in (0..inputs).step_by(INPUTS).zip(prepared.chunks_exact(x.cols / 32)) {
        let given = &given[strip.start / 32..];
        if inputs - t <= 2 {
            tile_at::<M, K, TOGETHER, 2>(out, panel, given, strip, x, t);
        } else {
            tile_at::<M, K, TOGETHER, INPUTS>(out, panel, given, strip, x, t);
        }
    }
}

/// Multiplies a strip with `T` inputs from `first` on. The last input stands in for those that are not there.
fn tile_at<M: Multiply, K: Kind, const TOGETHER: usize, const T: usize>(
    out: &mut OutTile<'_>,
    panel: &Panel,
    given: &[Given],
    strip: Strip,
    x: Q8Rows<'_>,
    first: usize,
) {
    let blocks = (x.cols - strip.start).min(SEGMENT) / 32;
    let last = x.quants.len() / x.cols - 1;
    let products = tile::<M, K, TOGETHER, T>(&panel[..blocks], given);
    for (t, [low, high]) in products.into_iter().enumerate().take(last + 1 - first) {
        let mut values = [0.0; ROWS];
        store(&mut values, 0, low);
        store(&mut values, 4, high);
        let out = &mut out.values[(first + t) * out.stride + strip.first..][..strip.count];
        for (out, value) in out.iter_mut().zip(values) {
            *out = if strip.start == 0 { value } else { *out + value };
        }
    }
}
