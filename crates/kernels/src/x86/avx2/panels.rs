//! Several input rows: weights are unpacked once per panel of 8 or 16 rows and meet every input there. Lane = row.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use super::format::{Group, Quant};
use super::multiply::Multiply;
use super::panel::Panel;
use super::registers::{load_i16, load_ps, store_ps};
use super::rows::{half_sums, whole_sums};
use super::wide::Wide;
use crate::array::{self, Each};
use crate::order::{LANES, SEGMENT_BLOCKS};
use crate::weights::Minima;
use crate::{OutTile, Q8Rows};

const SEGMENT_GROUPS: usize = SEGMENT_BLOCKS / 8;
/// Panels side by side: each broadcast of activations meets both.
const PANELS: usize = 2;

/// Inputs that meet a strip of weights, before it is unpacked again for the next ones.
pub const TOGETHER: usize = 512;

/// What is unpacked once and used many times.
#[repr(C)]
struct Room<P> {
    panels: [[P; SEGMENT_GROUPS]; PANELS],
    /// Sums of activations times their scale: of blocks for `Minima::Whole`, of both halves for `Minima::Halves`.
    scaled_sums: [[[f32; SEGMENT_BLOCKS]; 2]; TOGETHER],
}

/// Bytes of the largest room.
const ROOM: usize = size_of::<Room<Wide>>();

/// A room for any kind of panel.
#[repr(C, align(64))]
struct Bytes([u8; ROOM]);

thread_local! {
    /// Zeroed once, not for every product.
    static BYTES: RefCell<Bytes> = const { RefCell::new(Bytes([0; ROOM])) };
}

impl<P: Panel> Room<P> {
    fn new(bytes: &mut Bytes) -> &mut Room<P> {
        const { assert!(size_of::<Room<P>>() <= ROOM && align_of::<Room<P>>() <= align_of::<Bytes>()) };
        // SAFETY: there are enough bytes, they are aligned and set, and a room consists of numbers, as a panel does.
        unsafe { &mut *std::ptr::from_mut(bytes).cast() }
    }
}

/// `out[t][o] = w[o] . x[t]` for `rows` weight rows of `row_bytes` and every input.
///
/// # Safety
/// The processor has AVX2, FMA and F16C, and the products of `M`.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn panels<M: Multiply, Q: Quant<M>>(
    out: &mut OutTile<'_>,
    w: &[u8],
    row_bytes: usize,
    rows: usize,
    x: Q8Rows<'_>,
) {
    BYTES.with_borrow_mut(|bytes| strips::<M, Q>(out, w, row_bytes, rows, x, Room::new(bytes)));
}

#[target_feature(enable = "avx2,fma,f16c")]
fn strips<M: Multiply, Q: Quant<M>>(
    out: &mut OutTile<'_>,
    w: &[u8],
    row_bytes: usize,
    rows: usize,
    x: Q8Rows<'_>,
    room: &mut Room<Q::Panel>,
) {
    let x = Inputs::new(x);
    for t in (0..x.count).step_by(TOGETHER) {
        let count = (x.count - t).min(TOGETHER);
        let blocks = TOGETHER / count * SEGMENT_BLOCKS;
        for start in (0..x.blocks).step_by(blocks) {
            let parts = segments(start..x.blocks.min(start + blocks), t, count);
            for part in parts.clone() {
                for (t, scaled) in part.inputs().zip(&mut room.scaled_sums[part.sums..]) {
                    let blocks = t * x.blocks + part.start..t * x.blocks + part.start + part.blocks;
                    scale_sums(scaled, Q::Panel::MINIMA, &x.scales[blocks.clone()], &x.sums[blocks]);
                }
            }
            for first in (0..rows).step_by(PANELS * 8) {
                let count = (rows - first).min(PANELS * 8);
                for part in parts.clone() {
                    let next =
                        w.as_ptr().wrapping_add((first + count) * row_bytes + part.start / 8 * size_of::<Q::Group>());
                    let strip =
                        Strip { w: &w[first * row_bytes..][..count * row_bytes], row_bytes, first, count, next };
                    if count > 8 {
                        strip_times::<M, Q, 2>(out, &strip, room, &x, part);
                    } else {
                        strip_times::<M, Q, 1>(out, &strip, room, &x, part);
                    }
                }
            }
        }
    }
}

/// Segment by segment of up to [`TOGETHER`] inputs: what a segment of them takes stays in the second-level cache for
/// all weight rows of a call.
pub fn parts(x: &Inputs<'_>) -> impl Iterator<Item = Part> {
    let (count, blocks) = (x.count, x.blocks);
    (0..count).step_by(TOGETHER).flat_map(move |t| {
        let segments = segments(0..blocks, t, (count - t).min(TOGETHER));
        segments.map(|part| Part { sums: 0, ..part })
    })
}

/// The segments of some blocks of `count` inputs from input `t`.
fn segments(blocks: Range<usize>, t: usize, count: usize) -> impl Iterator<Item = Part> + Clone {
    let Range { start: first, end } = blocks;
    (first..end).step_by(SEGMENT_BLOCKS).map(move |start| {
        let sums = (start - first) / SEGMENT_BLOCKS * count;
        Part { start, blocks: (end - start).min(SEGMENT_BLOCKS), t, count, at: 0, sums }
    })
}

/// The inputs, block by block.
pub struct Inputs<'a> {
    /// Input rows.
    pub count: usize,
    /// Blocks of a row.
    pub blocks: usize,
    pub quants: &'a [[i8; 32]],
    pub scales: &'a [f32],
    pub sums: &'a [[i16; 2]],
}

impl<'a> Inputs<'a> {
    pub fn new(x: Q8Rows<'a>) -> Inputs<'a> {
        Inputs {
            count: x.quants.len() / x.cols,
            blocks: x.cols / 32,
            quants: x.quants.as_chunks().0,
            scales: x.scales,
            sums: x.sums.as_chunks().0,
        }
    }
}

/// Some weight rows.
pub struct Strip<'a> {
    pub w: &'a [u8],
    pub row_bytes: usize,
    /// Where they go in the output.
    pub first: usize,
    pub count: usize,
    /// Where the weights begin that come next.
    pub next: *const u8,
}

impl Strip<'_> {
    /// Row `row`; the last one stands in for rows that are not there.
    pub fn row(&self, row: usize) -> &[u8] {
        &self.w[row.min(self.count - 1) * self.row_bytes..][..self.row_bytes]
    }

    /// Asks for `bytes` of row `row` of the weights that come next.
    pub fn prefetch(&self, row: usize, bytes: usize) {
        let start = self.next.wrapping_add(row * self.row_bytes).cast::<i8>();
        for line in (0..bytes).step_by(64) {
            // SAFETY: every x86-64 processor has the instruction; an address that is not there does nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(line)) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn strip_times<M: Multiply, Q: Quant<M>, const P: usize>(
    out: &mut OutTile<'_>,
    strip: &Strip<'_>,
    room: &mut Room<Q::Panel>,
    x: &Inputs<'_>,
    part: Part,
) {
    for (p, panels) in room.panels.iter_mut().enumerate().take(P) {
        unpack::<M, Q>(panels, strip, p * 8, part);
    }
    let mut t = 0;
    while t < part.count {
        // As even as can be: a tile of few inputs waits for its sums. Constants leave out what is never called.
        let left = part.count - t;
        t += match left.div_ceil(left.div_ceil(M::INPUTS)) {
            1 => tile::<Q::Panel, P, 1>(out, strip, room, x, part.from(t)),
            2 => tile::<Q::Panel, P, 2>(out, strip, room, x, part.from(t)),
            3 => tile::<Q::Panel, P, 3>(out, strip, room, x, part.from(t)),
            5 if const { M::INPUTS >= 5 } => tile::<Q::Panel, P, 5>(out, strip, room, x, part.from(t)),
            6 if const { M::INPUTS >= 6 } => tile::<Q::Panel, P, 6>(out, strip, room, x, part.from(t)),
            _ => tile::<Q::Panel, P, 4>(out, strip, room, x, part.from(t)),
        };
    }
}

/// Unpacks a segment of eight rows of a strip, whose last group may be the incomplete end of the rows. Asks for the weights that
/// come next, some rows at a time: processors don't foresee short pieces of many rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack<M: Multiply, Q: Quant<M>>(panels: &mut [Q::Panel], strip: &Strip<'_>, first: usize, part: Part) {
    let rows: [_; 8] = array::of(|r| Q::Group::split(strip.row(first + r)));
    let (start, count) = (part.start / 8, part.blocks.div_ceil(8));
    for (g, panel) in panels[..count].iter_mut().enumerate() {
        for row in (g..8).step_by(count) {
            strip.prefetch(first + row, count * size_of::<Q::Group>());
        }
        let mut ends = [Q::Group::PADDING; 8];
        let groups: [&Q::Group; 8] = if start + g < rows[0].0.len() {
            rows.each(|(groups, _)| &groups[start + g])
        } else {
            for (end, (_, rest)) in ends.iter_mut().zip(rows) {
                end.bytes()[..rest.len()].copy_from_slice(rest);
            }
            ends.each_ref()
        };
        // SAFETY: the caller of `panels` promises the products of `M`, and this function has the other features.
        unsafe { Q::unpack(panel, groups) };
    }
}

/// Some blocks of some inputs.
#[derive(Clone, Copy)]
pub struct Part {
    /// The first block.
    pub start: usize,
    pub blocks: usize,
    /// The first input.
    pub t: usize,
    pub count: usize,
    /// Inputs that are done.
    pub at: usize,
    /// Where the room has their scaled sums.
    pub sums: usize,
}

impl Part {
    pub fn from(self, at: usize) -> Part {
        Part { at, ..self }
    }

    pub fn inputs(self) -> Range<usize> {
        self.t..self.t + self.count
    }
}

/// Multiplies a segment of up to 16 weight rows with the next `T` inputs of a part; returns `T`.
///
/// Knows the kind of panel and not the format, so that each `Panel::sums` has one caller and becomes part of it: as a
/// call for every block it cost a tenth.
#[target_feature(enable = "avx2,fma,f16c")]
fn tile<B: Panel, const P: usize, const T: usize>(
    out: &mut OutTile<'_>,
    strip: &Strip<'_>,
    room: &mut Room<B>,
    x: &Inputs<'_>,
    part: Part,
) -> usize {
    let Room { panels, scaled_sums } = room;
    let scaled_sums: &[_; T] =
        scaled_sums[part.sums + part.at..].first_chunk().expect("a part has at most TOGETHER inputs");
    let panels: &[_; P] = panels.first_chunk().expect("a tile has at most PANELS panels");
    let mut quants = [&x.quants[..0]; T];
    let mut scales = [&x.scales[..0]; T];
    let mut sums = [&x.sums[..0]; T];
    for t in 0..T {
        let first = (part.t + part.at + t) * x.blocks + part.start;
        quants[t] = &x.quants[first..][..part.blocks];
        scales[t] = &x.scales[first..][..part.blocks];
        sums[t] = &x.sums[first..][..part.blocks];
    }
    let mut lanes = [[[_mm256_setzero_ps(); P]; T]; LANES];
    for b in 0..part.blocks {
        let (g, j) = (b / 8, b % 8);
        // SAFETY: the caller of `panels` promises the products of `M`, and this function has the other features.
        let products = unsafe { B::sums(panels, g, j, &quants, &sums) };
        for t in 0..T {
            let scale = _mm256_set1_ps(scales[t][b]);
            for p in 0..P {
                let panel = &panels[p][g];
                let lane = &mut lanes[j][t][p];
                let scaled = _mm256_mul_ps(products[t][p], load_ps(panel.scale(j)));
                *lane = _mm256_fmadd_ps(scaled, scale, *lane);
                if const { !matches!(B::MINIMA, Minima::None) } {
                    let sum = _mm256_set1_ps(scaled_sums[t][0][b]);
                    *lane = _mm256_fmadd_ps(load_ps(panel.minimum(j, 0)), sum, *lane);
                }
                if const { matches!(B::MINIMA, Minima::Halves) } {
                    let sum = _mm256_set1_ps(scaled_sums[t][1][b]);
                    *lane = _mm256_fmadd_ps(load_ps(panel.minimum(j, 1)), sum, *lane);
                }
            }
        }
    }
    put(out, strip, part, &lanes);
    T
}

/// Stores a tile's sums. Does not know the kind of panel, so that it is compiled once for all.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
fn put<const P: usize, const T: usize>(
    out: &mut OutTile<'_>,
    strip: &Strip<'_>,
    part: Part,
    lanes: &[[[__m256; P]; T]; LANES],
) {
    for t in 0..T {
        for p in 0..P {
            let lane = |l: usize| lanes[l][t][p];
            let even = _mm256_add_ps(_mm256_add_ps(lane(0), lane(4)), _mm256_add_ps(lane(2), lane(6)));
            let odd = _mm256_add_ps(_mm256_add_ps(lane(1), lane(5)), _mm256_add_ps(lane(3), lane(7)));
            let sum = _mm256_add_ps(even, odd);
            let out = &mut out.values[(part.t + part.at + t) * out.stride + strip.first + p * 8..];
            if let (Some(out), true) = (out.first_chunk_mut::<8>(), strip.count >= p * 8 + 8) {
                let sum = if part.start == 0 { sum } else { _mm256_add_ps(load_ps(out), sum) };
                store_ps(out, sum);
            } else {
                let mut values = [0.0; 8];
                store_ps(&mut values, sum);
                for (out, value) in out.iter_mut().zip(values).take(strip.count - p * 8) {
                    *out = if part.start == 0 { value } else { *out + value };
                }
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn scale_sums(scaled: &mut [[f32; SEGMENT_BLOCKS]; 2], minima: Minima, scales: &[f32], sums: &[[i16; 2]]) {
    let [first, second] = scaled;
    let ((scales, scales_rest), (sums, sums_rest)) = (scales.as_chunks::<8>(), sums.as_chunks::<8>());
    let groups = first.as_chunks_mut::<8>().0.iter_mut().zip(second.as_chunks_mut::<8>().0);
    for (((first, second), scales), sums) in groups.zip(scales).zip(sums) {
        let sums = sums.as_flattened().first_chunk().expect("eight pairs are sixteen");
        let (scales, sums) = (load_ps(scales), load_i16(sums));
        match minima {
            Minima::None => {}
            Minima::Whole => store_ps(first, whole_sums(scales, sums)),
            Minima::Halves => {
                let [a, b] = half_sums(scales, sums);
                store_ps(first, a);
                store_ps(second, b);
            }
        }
    }
    let at = scales.len() * 8;
    for (i, (&scale, &[a, b])) in scales_rest.iter().zip(sums_rest).enumerate() {
        match minima {
            Minima::None => {}
            Minima::Whole => first[at + i] = scale * f32::from(a + b),
            Minima::Halves => (first[at + i], second[at + i]) = (scale * f32::from(a), scale * f32::from(b)),
        }
    }
}
