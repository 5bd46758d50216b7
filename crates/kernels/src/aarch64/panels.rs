//! Several input rows: weights are unpacked once per panel of eight rows and meet every input there.

use super::format::Quant;
use super::integer::Integer;
use super::panel::{EMPTY, Panel, ROWS, unpack};
use super::registers::store_f32;
use super::tile::{Inputs, tile};
use crate::array;
use crate::kind::{GROUP, Kind};
use crate::order::{SEGMENT, SEGMENT_BLOCKS};
use crate::weights::Minima;
use crate::{OutTile, Q8Row, Q8Rows};

/// Inputs of a tile: with eight rows 8 integer and 8 float sums, which leaves half of the registers for what is
/// multiplied.
const INPUTS: usize = 4;

/// What is prepared once and used many times.
struct Room {
    panel: Panel,
    scales: [[f32; SEGMENT_BLOCKS]; INPUTS],
    sums: [[[f32; SEGMENT_BLOCKS]; INPUTS]; 2],
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
/// # Safety
/// The processor has `I`.
#[target_feature(enable = "neon")]
pub unsafe fn panels<I: Integer, Q: Quant<N>, const N: usize>(
    out: &mut OutTile<'_>,
    w: &[u8],
    rows: usize,
    x: Q8Rows<'_>,
) {
    let inputs = x.quants.len() / x.cols;
    let row_bytes = w.len() / rows;
    let segment_bytes = SEGMENT / GROUP * N;
    let mut room =
        Room { panel: EMPTY, scales: [[0.0; SEGMENT_BLOCKS]; INPUTS], sums: [[[0.0; SEGMENT_BLOCKS]; INPUTS]; 2] };
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
            // SAFETY: as this function's.
            unsafe { unpack::<I, Q, N>(&mut room.panel, segments) };
            let mut t = 0;
            while t < inputs {
                t += match inputs - t {
                    // SAFETY: as this function's.
                    1 | 2 => unsafe { tile_at::<I, Q::Kind, 2>(out, &mut room, strip, x, t) },
                    // SAFETY: as this function's.
                    _ => unsafe { tile_at::<I, Q::Kind, INPUTS>(out, &mut room, strip, x, t) },
                };
            }
        }
    }
}

/// Multiplies a strip with `T` inputs from `first` on; returns `T`. The last input stands in for those that are not
/// there.
#[target_feature(enable = "neon")]
unsafe fn tile_at<I: Integer, K: Kind, const T: usize>(
    out: &mut OutTile<'_>,
    room: &mut Room,
    strip: Strip,
    x: Q8Rows<'_>,
    first: usize,
) -> usize {
    let Room { panel, scales, sums: [sums, second] } = room;
    let blocks = (x.cols - strip.start).min(SEGMENT) / 32;
    let last = x.quants.len() / x.cols - 1;
    let mut quants: [&[[i8; 32]]; T] = [&[]; T];
    for t in 0..T {
        let row = x.row((first + t).min(last));
        quants[t] = &row.quants.as_chunks().0[strip.start / 32..][..blocks];
        scales[t][..blocks].copy_from_slice(&row.scales[strip.start / 32..][..blocks]);
        scale_sums::<K>([&mut sums[t], &mut second[t]], row, strip.start / 32);
    }
    let first_inputs = "a tile has at most INPUTS inputs";
    let inputs = Inputs {
        quants,
        scales: scales.first_chunk().expect(first_inputs),
        sums: [sums.first_chunk().expect(first_inputs), second.first_chunk().expect(first_inputs)],
    };
    // SAFETY: as this function's.
    let products = unsafe { tile::<I, K, T>(&panel[..blocks], &inputs) };
    for (t, [low, high]) in products.into_iter().enumerate().take(last + 1 - first) {
        let mut values = [0.0; ROWS];
        store_f32(&mut values, 0, low);
        store_f32(&mut values, 4, high);
        let out = &mut out.values[(first + t) * out.stride + strip.first..][..strip.count];
        for (out, value) in out.iter_mut().zip(values) {
            *out = if strip.start == 0 { value } else { *out + value };
        }
    }
    T
}

/// Sums of a row's quants times their scales, from block `start` on: of whole blocks, or of their first and second halves.
fn scale_sums<K: Kind>([first, second]: [&mut [f32; SEGMENT_BLOCKS]; 2], row: Q8Row<'_>, start: usize) {
    let blocks = row.scales[start..].iter().zip(&row.sums.as_chunks::<2>().0[start..]);
    for ((first, second), (scale, &[a, b])) in first.iter_mut().zip(second).zip(blocks) {
        match K::MINIMA {
            Minima::None => {}
            Minima::Whole => *first = scale * (i32::from(a) + i32::from(b)) as f32,
            Minima::Halves => (*first, *second) = (scale * f32::from(a), scale * f32::from(b)),
        }
    }
}
