//! Several input rows: weights are unpacked once per strip of 16 or 32 rows and meet every input there. Lane = row.
//!
//! Blocks are summed in the order of `crate::order`, so the bits are those of every other table.

use crate::array::{self, Each};
use crate::unroll::unroll;
use std::arch::asm;
use std::arch::x86_64::*;
use std::cell::RefCell;

use super::panel::Sixteen;
use super::registers::{load_512, load_i16, load_ps, store_i32, store_ps};
use super::row::Row;
use crate::order::{LANES, SEGMENT_BLOCKS};
use crate::weights::Minima;
use crate::x86::ahead::{zen_3_or_4, zen_5};
use crate::x86::avx2::format::Group;
use crate::x86::avx2::panel::Panel;
use crate::x86::avx2::panels::{Inputs, Part, Strip, TOGETHER, parts, scale_sums};
use crate::{OutTile, Q8Rows};

const SEGMENT_GROUPS: usize = SEGMENT_BLOCKS / 8;
/// Panels side by side: each broadcast of activations meets both.
const PANELS: usize = 2;
/// The most inputs of a tile: with two panels 16 sums, which leaves registers for what is multiplied.
const INPUTS: usize = 8;
/// Inputs from which on a tile of eight comes first: two tiles are enough for 12 to 14 of them, not three.
const EIGHT_AND_FOUR: usize = 12;

/// Whether inputs go by eights, so that weights are loaded less often: 6 % faster than fives on Emerald Rapids. On Zen 5
/// fives are 8 % faster, and Zen 4 takes them too; their sums' ends overlap with the next ones' beginnings.
fn by_eights() -> bool {
    !zen_3_or_4() && !zen_5()
}

/// The lanes of a tile's sums.
type Lanes = [[[[f32; 16]; PANELS]; INPUTS]; LANES];

/// What is unpacked once and used many times.
struct Room {
    panels: [[Sixteen; SEGMENT_GROUPS]; PANELS],
    inputs: [Segment; TOGETHER],
    lanes: Lanes,
    /// The quants of inputs whose last segment is shorter.
    ends: [[[i8; 32]; SEGMENT_BLOCKS]; INPUTS],
}

/// What goes with the quants of an input in a segment.
#[derive(Clone, Copy)]
struct Segment {
    scales: [f32; SEGMENT_BLOCKS],
    /// Sums of activations times their scale: of blocks for `Minima::Whole`, of both halves for `Minima::Halves`.
    scaled_sums: [[f32; SEGMENT_BLOCKS]; 2],
    /// What the sums of products of both halves begin with: the offset times the sums of activations.
    offsets: [[i32; SEGMENT_BLOCKS]; 2],
}

impl Segment {
    const ZERO: Segment = Segment {
        scales: [0.0; SEGMENT_BLOCKS],
        scaled_sums: [[0.0; SEGMENT_BLOCKS]; 2],
        offsets: [[0; SEGMENT_BLOCKS]; 2],
    };

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    fn fill<B: Panel>(&mut self, scales: &[f32], sums: &[[i16; 2]]) {
        self.scales[..scales.len()].copy_from_slice(scales);
        scale_sums(&mut self.scaled_sums, B::MINIMA, scales, sums);
        if B::OFFSET == 0 {
            return;
        }
        let [first, second] = &mut self.offsets;
        let offset = i32::from(-B::OFFSET) & 0xffff;
        let (low, high) = (_mm512_set1_epi32(offset), _mm512_set1_epi32(offset << 16));
        let (groups, rest) = sums.as_chunks::<16>();
        let places = first.as_chunks_mut::<16>().0.iter_mut().zip(second.as_chunks_mut::<16>().0);
        for ((first, second), sums) in places.zip(groups) {
            let sums = load_i16(sums.as_flattened().first_chunk().expect("sixteen pairs are 32"));
            if B::HALVES {
                store_i32(first, _mm512_madd_epi16(sums, low));
                store_i32(second, _mm512_madd_epi16(sums, high));
            } else {
                store_i32(first, _mm512_madd_epi16(sums, _mm512_or_si512(low, high)));
            }
        }
        for (i, &[a, b]) in rest.iter().enumerate() {
            let at = groups.len() * 16 + i;
            let (a, b) = (-i32::from(B::OFFSET) * i32::from(a), -i32::from(B::OFFSET) * i32::from(b));
            (first[at], second[at]) = if B::HALVES { (a, b) } else { (a + b, 0) };
        }
    }
}

thread_local! {
    /// Zeroed once: zeroing it again took a sixth of the time of products with few inputs.
    static ROOM: RefCell<Room> = const {
        RefCell::new(Room {
            panels: [[Sixteen::ZERO; SEGMENT_GROUPS]; PANELS],
            inputs: [Segment::ZERO; TOGETHER],
            lanes: [[[[0.0; 16]; PANELS]; INPUTS]; LANES],
            ends: [[[0; 32]; SEGMENT_BLOCKS]; INPUTS],
        })
    };
}

/// `out[t][o] = w[o] . x[t]` for `rows` weight rows of `row_bytes` and every input.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub fn panels<R: Row>(out: &mut OutTile<'_>, w: &[u8], row_bytes: usize, rows: usize, x: Q8Rows<'_>) {
    ROOM.with_borrow_mut(|room| strips::<R>(out, w, row_bytes, rows, x, room));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn strips<R: Row>(out: &mut OutTile<'_>, w: &[u8], row_bytes: usize, rows: usize, x: Q8Rows<'_>, room: &mut Room) {
    let x = Inputs::new(x);
    let block_bytes = row_bytes / x.blocks;
    for part in parts(&x) {
        let Part { start, blocks, .. } = part;
        for (t, input) in part.inputs().zip(&mut room.inputs) {
            let first = t * x.blocks + start;
            input.fill::<R::Panel>(&x.scales[first..][..blocks], &x.sums[first..][..blocks]);
        }
        for first in (0..rows).step_by(PANELS * 16) {
            let count = (rows - first).min(PANELS * 16);
            let next = match first + count {
                last if last < rows => last * row_bytes + start * block_bytes,
                _ if start + blocks < x.blocks => (start + blocks) * block_bytes,
                _ => rows * row_bytes,
            };
            let next = w.as_ptr().wrapping_add(next);
            let strip = Strip { w: &w[first * row_bytes..][..count * row_bytes], row_bytes, first, count, next };
            strip_times::<R>(out, &strip, room, &x, part);
        }
    }
}

/// Multiplies a segment of a strip with its inputs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn strip_times<R: Row>(out: &mut OutTile<'_>, strip: &Strip<'_>, room: &mut Room, x: &Inputs<'_>, part: Part) {
    for p in 0..PANELS {
        let rows = array::of(|r| R::Group::split(strip.row(p * 16 + r)));
        unpack::<R>(&mut room.panels[p][..part.blocks.div_ceil(8)], rows, part.start / 8);
    }
    let (eights, mut t) = (by_eights(), 0);
    while t < part.count {
        t += match part.count - t {
            1 => tile::<R::Panel, 1>(out, strip, room, x, part.from(t)),
            2 => tile::<R::Panel, 2>(out, strip, room, x, part.from(t)),
            3 => tile::<R::Panel, 3>(out, strip, room, x, part.from(t)),
            4 | 7 => tile::<R::Panel, 4>(out, strip, room, x, part.from(t)),
            6 => tile::<R::Panel, 6>(out, strip, room, x, part.from(t)),
            8 => tile::<R::Panel, INPUTS>(out, strip, room, x, part.from(t)),
            left if left >= EIGHT_AND_FOUR && eights => tile::<R::Panel, INPUTS>(out, strip, room, x, part.from(t)),
            left if matches!(left % 5, 1..4) => tile::<R::Panel, 6>(out, strip, room, x, part.from(t)),
            _ => tile::<R::Panel, 5>(out, strip, room, x, part.from(t)),
        };
    }
}

/// Unpacks groups of sixteen rows from group `start`; the last one may be the incomplete end of the rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn unpack<R: Row>(panels: &mut [Sixteen], rows: [(&[R::Group], &[u8]); 16], start: usize) {
    for (g, panel) in panels.iter_mut().enumerate() {
        if start + g < rows[0].0.len() {
            let mut groups = [&rows[0].0[start + g]; 16];
            for (group, (row, _)) in groups.iter_mut().zip(rows) {
                *group = &row[start + g];
            }
            panel.unpack::<R>(groups);
            continue;
        }
        let mut ends = [R::Group::PADDING; 16];
        for (end, (_, rest)) in ends.iter_mut().zip(rows) {
            end.bytes()[..rest.len()].copy_from_slice(rest);
        }
        panel.unpack::<R>(ends.each_ref());
    }
}

/// Multiplies a segment of up to 32 weight rows with the next `T` inputs of a part; returns `T`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn tile<B: Panel, const T: usize>(
    out: &mut OutTile<'_>,
    strip: &Strip<'_>,
    room: &mut Room,
    x: &Inputs<'_>,
    part: Part,
) -> usize {
    let Room { panels, inputs, lanes, ends, .. } = room;
    let inputs: &[Segment; T] = inputs[part.at..].first_chunk().expect("a part has at most TOGETHER inputs");
    let blocks = part.blocks.min(SEGMENT_BLOCKS);
    if blocks < SEGMENT_BLOCKS {
        for t in 0..T {
            let first = (part.t + part.at + t) * x.blocks + part.start;
            ends[t][..blocks].copy_from_slice(&x.quants[first..][..blocks]);
        }
    }
    let mut quants: [&[[i8; 32]; SEGMENT_BLOCKS]; T] = array::of(|t| &ends[t]);
    if blocks == SEGMENT_BLOCKS {
        for t in 0..T {
            let first = (part.t + part.at + t) * x.blocks + part.start;
            quants[t] = x.quants[first..].first_chunk().expect("a segment is left of the row");
        }
    }
    // Not by masks where they are read first: a masked load takes a place among the products.
    for lane in &mut *lanes {
        for place in lane[..T].as_flattened_mut() {
            store_ps(place, _mm512_setzero_ps());
        }
    }
    for b in 0..blocks {
        if part.at == 0 {
            // The next weights, a row at a time: all at once would keep the inputs waiting.
            strip.prefetch(b, blocks * (strip.row_bytes / x.blocks));
        }
        let (g, j) = (b / 8, b % 8);
        let panel: [&Sixteen; PANELS] = array::of(|p| &panels[p][g]);
        let (columns, x) = (panel.each(|panel| &panel.quants[j]), quants.each(|x| &x[b]));
        let mut sums = [[_mm512_setzero_si512(); PANELS]; T];
        let mut products = [[_mm512_setzero_ps(); PANELS]; T];
        unroll!(K, {
            if B::OFFSET != 0 && (K == 0 || B::HALVES && K == 4) {
                for t in 0..T {
                    sums[t] = [_mm512_set1_epi32(inputs[t].offsets[K / 4][b]); PANELS];
                }
            } else if B::HALVES && K == 4 {
                sums = [[_mm512_setzero_si512(); PANELS]; T];
            }
            step::<K, T>(&mut sums, columns, x);
            if B::HALVES && K % 4 == 3 {
                for p in 0..PANELS {
                    let factor = load_ps(&panel[p].factors[j][K / 4]);
                    for t in 0..T {
                        // Both products are exact, so that only their sum is rounded, as that of integers is.
                        products[t][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t][p]), factor, products[t][p]);
                    }
                }
            }
        });
        if const { !B::HALVES } {
            for t in 0..T {
                products[t] = sums[t].each(|sum| _mm512_cvtepi32_ps(sum));
            }
        }
        for t in 0..T {
            let scale = _mm512_set1_ps(inputs[t].scales[b]);
            for p in 0..PANELS {
                let place = &mut lanes[j][t][p];
                let scaled = match B::FLOATS {
                    true => products[t][p],
                    false => _mm512_mul_ps(products[t][p], load_ps(&panel[p].scales[j])),
                };
                let mut lane = _mm512_fmadd_ps(scaled, scale, load_ps(place));
                if const { !matches!(B::MINIMA, Minima::None) } {
                    let sum = _mm512_set1_ps(inputs[t].scaled_sums[0][b]);
                    lane = _mm512_fmadd_ps(load_ps(&panel[p].minima[j][0]), sum, lane);
                }
                if const { matches!(B::MINIMA, Minima::Halves) } {
                    let sum = _mm512_set1_ps(inputs[t].scaled_sums[1][b]);
                    lane = _mm512_fmadd_ps(load_ps(&panel[p].minima[j][1]), sum, lane);
                }
                store_ps(place, lane);
            }
        }
    }
    put(out, strip, part, lanes, T);
    T
}

/// Stores the sums of a tile of `count` inputs. Does not know the kind of panel, so that it is compiled once for all.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn put(out: &mut OutTile<'_>, strip: &Strip<'_>, part: Part, lanes: &Lanes, count: usize) {
    for t in 0..count {
        for p in 0..strip.count.div_ceil(16) {
            let lane = |l: usize| load_ps(&lanes[l][t][p]);
            let even = _mm512_add_ps(_mm512_add_ps(lane(0), lane(4)), _mm512_add_ps(lane(2), lane(6)));
            let odd = _mm512_add_ps(_mm512_add_ps(lane(1), lane(5)), _mm512_add_ps(lane(3), lane(7)));
            let sum = _mm512_add_ps(even, odd);
            let out = &mut out.values[(part.t + part.at + t) * out.stride + strip.first + p * 16..];
            if let (Some(out), true) = (out.first_chunk_mut::<16>(), strip.count >= p * 16 + 16) {
                let sum = if part.start == 0 { sum } else { _mm512_add_ps(load_ps(out), sum) };
                store_ps(out, sum);
            } else {
                let mut values = [0.0; 16];
                store_ps(&mut values, sum);
                for (out, value) in out.iter_mut().zip(values).take(strip.count - p * 16) {
                    *out = if part.start == 0 { value } else { *out + value };
                }
            }
        }
    }
}

/// Adds the products of columns `4K` of each panel with each input, lane = row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn step<const K: usize, const T: usize>(
    sums: &mut [[__m512i; PANELS]; T],
    columns: [&[[u8; 64]; 8]; PANELS],
    x: [&[i8; 32]; T],
) {
    for t in 0..T {
        let four = [x[t][4 * K], x[t][4 * K + 1], x[t][4 * K + 2], x[t][4 * K + 3]].each(|x| x as u8);
        let four = _mm512_set1_epi32(i32::from_le_bytes(four));
        for p in 0..PANELS {
            sums[t][p] = keep(_mm512_dpbusd_epi32(sums[t][p], load_512(&columns[p][K], 0), four));
        }
    }
}

/// The value itself. Hides from the compiler that it is a sum: it would regroup the sums of a tile, input by input, wait for
/// each, and spill the weights.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn keep(mut register: __m512i) -> __m512i {
    // SAFETY: no instruction is emitted.
    unsafe { asm!("/* {0} */", inout(zmm_reg) register, options(nomem, nostack, preserves_flags)) };
    register
}
