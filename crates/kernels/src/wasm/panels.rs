//! Several input rows: weights are unpacked once per panel of eight rows and meet every input there.

use super::format::{Quant, Range};
use super::half_table::HalfTable;
use super::multiply::{Multiply, Words};
use super::panel::{EMPTY, Panel, ROWS, unpack};
use super::registers::store;
use super::tile::{Inputs, tile};
use crate::kind::{GROUP, Kind, scale_sums};
use crate::order::{SEGMENT, SEGMENT_BLOCKS};
use crate::{OutTile, Q8Rows};

/// Inputs of a tile: with eight rows 8 sums, which leaves half of 16 registers for what is multiplied.
const INPUTS: usize = 4;

/// What is prepared once and used many times.
struct Room {
    panel: Panel,
    scales: [[f32; SEGMENT_BLOCKS]; INPUTS],
    sums: [[[f32; SEGMENT_BLOCKS]; INPUTS]; 2],
    starts: [[[i32; 2]; SEGMENT_BLOCKS]; INPUTS],
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
    let inputs = x.quants.len() / x.cols;
    let row_bytes = w.len() / rows;
    let segment_bytes = SEGMENT / GROUP * N;
    let mut room = Room {
        panel: EMPTY,
        scales: [[0.0; SEGMENT_BLOCKS]; INPUTS],
        sums: [[[0.0; SEGMENT_BLOCKS]; INPUTS]; 2],
        starts: [[[0; 2]; SEGMENT_BLOCKS]; INPUTS],
    };
    let halves = HalfTable::new();
    for first in (0..rows).step_by(ROWS) {
        let count = (rows - first).min(ROWS);
        for start in (0..x.cols).step_by(SEGMENT) {
            let strip = Strip { first, count, start };
            // The last row stands in for rows that are not there.
            let segments = std::array::from_fn(|r| {
                let row = &w[(first + r.min(count - 1)) * row_bytes..][..row_bytes];
                let row = &row[start / SEGMENT * segment_bytes..];
                &row[..row.len().min(segment_bytes)]
            });
            unpack::<Q, N>(&mut room.panel, segments, halves);
            let mut t = 0;
            while t < inputs {
                let room = &mut room;
                t += match (inputs - t, Q::RANGE) {
                    (1 | 2, Range::UpTo(_)) => tile_at::<M, Q::Kind, false, 2>(out, room, strip, x, t, Q::OFFSET),
                    (1 | 2, _) => tile_at::<Words, Q::Kind, true, 2>(out, room, strip, x, t, Q::OFFSET),
                    (_, Range::UpTo(_)) => tile_at::<M, Q::Kind, false, INPUTS>(out, room, strip, x, t, Q::OFFSET),
                    _ => tile_at::<Words, Q::Kind, true, INPUTS>(out, room, strip, x, t, Q::OFFSET),
                };
            }
        }
    }
}

/// Multiplies a strip with `T` inputs from `first` on; returns `T`. The last input stands in for those that are not
/// there.
fn tile_at<M: Multiply, K: Kind, const SIGNED: bool, const T: usize>(
    out: &mut OutTile<'_>,
    room: &mut Room,
    strip: Strip,
    x: Q8Rows<'_>,
    first: usize,
    offset: i8,
) -> usize {
    let Room { panel, scales, sums: [sums, second], starts } = room;
    let (from, blocks) = (strip.start / 32, (x.cols - strip.start).min(SEGMENT) / 32);
    let last = x.quants.len() / x.cols - 1;
    let mut quants: [&[[i8; 32]]; T] = [&[]; T];
    for t in 0..T {
        let row = x.row((first + t).min(last));
        quants[t] = &row.quants.as_chunks().0[from..][..blocks];
        scales[t][..blocks].copy_from_slice(&row.scales[from..][..blocks]);
        scale_sums::<K>([&mut sums[t], &mut second[t]], row, from);
        for (start, &halves) in starts[t].iter_mut().zip(&row.sums.as_chunks::<2>().0[from..]) {
            let [a, b] = halves.map(|sum| -i32::from(offset) * i32::from(sum));
            *start = if K::FACTORS { [a, b] } else { [a + b, 0] };
        }
    }
    let first_inputs = "a tile has at most INPUTS inputs";
    let inputs = Inputs {
        quants,
        scales: scales.first_chunk().expect(first_inputs),
        sums: [sums.first_chunk().expect(first_inputs), second.first_chunk().expect(first_inputs)],
        starts: starts.first_chunk().expect(first_inputs),
    };
    let products = tile::<M, K, SIGNED, T>(&panel[..blocks], &inputs);
    for (t, [low, high]) in products.into_iter().enumerate().take(last + 1 - first) {
        let mut values = [0.0; ROWS];
        store(&mut values, 0, low);
        store(&mut values, 4, high);
        let out = &mut out.values[(first + t) * out.stride + strip.first..][..strip.count];
        for (out, value) in out.iter_mut().zip(values) {
            *out = if strip.start == 0 { value } else { *out + value };
        }
    }
    T
}
