//! Attention in plain Rust: products and sums rounded one by one, without the fused steps of the other tables.

use candor_quant::{Format, half};

use crate::OutTile;
use crate::array::{self, Each};
use crate::attention::{AttentionKernels, PANEL, Queries, Weights, check_mix, check_scores};

/// Sixteen numbers side by side.
type Group = [f32; PANEL];

/// Queries that share a widened group.
const TOGETHER: usize = 4;

pub fn attention(format: Format) -> Option<AttentionKernels> {
    match format {
        Format::F32 => Some(AttentionKernels {
            format,
            scores: scores::<F32>,
            mix: mix::<F32>,
            put_key: put_key_f32,
            put_value: put_value_f32,
            block: None,
        }),
        Format::F16 => Some(AttentionKernels {
            format,
            scores: scores::<F16>,
            mix: mix::<F16>,
            put_key: |panel, lane, key| put_key_f16(panel, lane, key, super::to_f16),
            put_value: |row, value| put_value_f16(row, value, super::to_f16),
            block: None,
        }),
        Format::Q8_0 => Some(AttentionKernels {
            format,
            scores: scores::<Q8_0>,
            mix: mix::<Q8_0>,
            put_key: put_key_q8_0,
            put_value: put_value_q8_0,
            block: None,
        }),
        Format::Q4_0 => Some(AttentionKernels {
            format,
            scores: scores::<Q4_0>,
            mix: mix::<Q4_0>,
            put_key: put_key_q4_0,
            put_value: put_value_q4_0,
            block: None,
        }),
        _ => None,
    }
}

/// A cache format.
trait Cached {
    const FORMAT: Format;

    /// What a panel's positions have in dimension `e`.
    fn keys(panel: &[u8], e: usize) -> Group;

    /// Group `g` of a row.
    fn values(row: &[u8], g: usize) -> Group;
}

struct F32;
struct F16;
struct Q8_0;
struct Q4_0;

impl Cached for F32 {
    const FORMAT: Format = Format::F32;

    fn keys(panel: &[u8], e: usize) -> Group {
        let (numbers, _) = panel[e * 4 * PANEL..][..4 * PANEL].as_chunks::<4>();
        array::of(|i| f32::from_le_bytes(numbers[i]))
    }

    fn values(row: &[u8], g: usize) -> Group {
        Self::keys(row, g)
    }
}

impl Cached for F16 {
    const FORMAT: Format = Format::F16;

    fn keys(panel: &[u8], e: usize) -> Group {
        let (halves, _) = panel[e * 2 * PANEL..][..2 * PANEL].as_chunks::<2>();
        array::of(|i| half::f16_to_f32(u16::from_le_bytes(halves[i])))
    }

    fn values(row: &[u8], g: usize) -> Group {
        Self::keys(row, g)
    }
}

/// Bytes of a panel's 32 dimensions.
const Q8_0_PANEL: usize = 34 * PANEL;

impl Cached for Q8_0 {
    const FORMAT: Format = Format::Q8_0;

    fn keys(panel: &[u8], e: usize) -> Group {
        let block = &panel[e / 32 * Q8_0_PANEL..][..Q8_0_PANEL];
        let quants = &block[2 * PANEL + e % 32 * PANEL..][..PANEL];
        array::of(|i| f32::from(quants[i] as i8) * half_at(block, i))
    }

    fn values(row: &[u8], g: usize) -> Group {
        let block = &row[g / 2 * 34..][..34];
        let scale = half_at(block, 0);
        array::of(|i| f32::from(block[2 + g % 2 * PANEL + i] as i8) * scale)
    }
}

/// Bytes of a panel's 32 dimensions.
const Q4_0_PANEL: usize = 18 * PANEL;

/// The first or the second 16 numbers of 16 bytes: their low or high halves.
fn nibbles(bytes: &[u8], second: usize) -> [i8; PANEL] {
    array::of(|i| (bytes[i] >> (4 * second) & 15) as i8 - 8)
}

impl Cached for Q4_0 {
    const FORMAT: Format = Format::Q4_0;

    fn keys(panel: &[u8], e: usize) -> Group {
        let block = &panel[e / 32 * Q4_0_PANEL..][..Q4_0_PANEL];
        let quants = nibbles(&block[2 * PANEL + e % 16 * PANEL..][..PANEL], e % 32 / 16);
        array::of(|i| f32::from(quants[i]) * half_at(block, i))
    }

    fn values(row: &[u8], g: usize) -> Group {
        let block = &row[g / 2 * 18..][..18];
        let scale = half_at(block, 0);
        nibbles(&block[2..], g % 2).each(|quant| f32::from(quant) * scale)
    }
}

fn half_at(bytes: &[u8], index: usize) -> f32 {
    half::f16_to_f32(u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]))
}

fn scores<C: Cached>(out: OutTile<'_>, queries: Queries<'_>, keys: &[u8]) {
    let shape = check_scores(&out, C::FORMAT, queries, keys);
    for (p, panel) in keys.chunks_exact(shape.panel_bytes).enumerate() {
        for (t, strip) in queries.values.chunks(TOGETHER * queries.dim).enumerate() {
            let mut sums = [[0.0; PANEL]; TOGETHER];
            for e in 0..queries.dim {
                let keys = C::keys(panel, e);
                for (sum, query) in sums.iter_mut().zip(strip.chunks_exact(queries.dim)) {
                    add(sum, query[e], &keys);
                }
            }
            for (i, sum) in sums.iter().enumerate().take(strip.len() / queries.dim) {
                out.values[(t * TOGETHER + i) * out.stride + p * PANEL..][..PANEL].copy_from_slice(sum);
            }
        }
    }
}

fn mix<C: Cached>(out: &mut [f32], weights: Weights<'_>, values: &[u8]) {
    let shape = check_mix(out, C::FORMAT, weights, values);
    let most = weights.counts.iter().copied().max().unwrap_or(0);
    for (p, row) in values.chunks_exact(shape.row_bytes.max(1)).enumerate().take(most) {
        for g in 0..shape.width / PANEL {
            let values = C::values(row, g);
            for (q, out) in out.chunks_exact_mut(shape.width).enumerate() {
                if p < weights.counts[q] {
                    add(&mut out.as_chunks_mut().0[g], weights.values[q * weights.stride + p], &values);
                }
            }
        }
    }
}

fn add(sum: &mut Group, a: f32, x: &Group) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += a * x;
    }
}

pub fn put_key_f32(panel: &mut [u8], lane: usize, key: &[f32]) {
    for (group, key) in panel.as_chunks_mut::<{ 4 * PANEL }>().0.iter_mut().zip(key) {
        group[lane * 4..][..4].copy_from_slice(&key.to_le_bytes());
    }
}

pub fn put_value_f32(row: &mut [u8], value: &[f32]) {
    let (numbers, _) = row.as_chunks_mut::<4>();
    let (whole, rest) = numbers.split_at_mut(value.len());
    whole.iter_mut().zip(value).for_each(|(number, value)| *number = value.to_le_bytes());
    rest.fill([0; 4]);
}

/// Calls `each` with runs of at most 64 numbers as halves, and the index of their first.
fn in_halves(x: &[f32], to_f16: fn(&mut [u16], &[f32]), mut each: impl FnMut(usize, &[u16])) {
    let mut halves = [0; 64];
    for (i, x) in x.chunks(halves.len()).enumerate() {
        let some = &mut halves[..x.len()];
        to_f16(some, x);
        each(i * halves.len(), &halves[..x.len()]);
    }
}

pub fn put_key_f16(panel: &mut [u8], lane: usize, key: &[f32], to_f16: fn(&mut [u16], &[f32])) {
    let (groups, _) = panel.as_chunks_mut::<{ 2 * PANEL }>();
    in_halves(key, to_f16, |first, halves| {
        for (group, half) in groups[first..].iter_mut().zip(halves) {
            group[lane * 2..][..2].copy_from_slice(&half.to_le_bytes());
        }
    });
}

pub fn put_value_f16(row: &mut [u8], value: &[f32], to_f16: fn(&mut [u16], &[f32])) {
    let (numbers, _) = row.as_chunks_mut::<2>();
    in_halves(value, to_f16, |first, halves| {
        numbers[first..].iter_mut().zip(halves).for_each(|(number, half)| *number = half.to_le_bytes());
    });
    numbers[value.len()..].fill([0; 2]);
}

pub fn put_key_q8_0(panel: &mut [u8], lane: usize, key: &[f32]) {
    for (group, key) in panel.as_chunks_mut::<Q8_0_PANEL>().0.iter_mut().zip(key.chunks_exact(32)) {
        let mut block = [0; 34];
        put_value_q8_0(&mut block, key);
        group[lane * 2..][..2].copy_from_slice(&block[..2]);
        for (e, quant) in block[2..].iter().enumerate() {
            group[2 * PANEL + e * PANEL + lane] = *quant;
        }
    }
}

pub fn put_key_q4_0(panel: &mut [u8], lane: usize, key: &[f32]) {
    for (group, key) in panel.as_chunks_mut::<Q4_0_PANEL>().0.iter_mut().zip(key.chunks_exact(32)) {
        let mut block = [0; 18];
        put_value_q4_0(&mut block, key);
        group[lane * 2..][..2].copy_from_slice(&block[..2]);
        for (e, quants) in block[2..].iter().enumerate() {
            group[2 * PANEL + e * PANEL + lane] = *quants;
        }
    }
}

pub fn put_value_q4_0(row: &mut [u8], value: &[f32]) {
    Format::Q4_0.encode_direct(value, row).expect("Q4_0 has an encoder");
}

pub fn put_value_q8_0(row: &mut [u8], value: &[f32]) {
    Format::Q8_0.encode_direct(value, row).expect("Q8_0 has an encoder");
}
