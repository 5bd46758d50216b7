//! Attention over the cache, however its positions lie.

use std::sync::Arc;

use candor_ops::{Attention, Mask, Relative, Step};

use crate::buffer::Buf;
use crate::cache::{Cache, Layer};
use crate::constants::Constant;
use crate::device::Storage;
use crate::kernel::{Attend, Extras, Kernel, MAT_VEC_ROWS, Output, SPLITS, Sight};
use crate::record::Dispatch;
use crate::{Gpu, Weight};

/// Query heads of a row that one workgroup serves at most.
const HEADS: usize = 8;

/// Query heads of all its rows, at most.
const QUERIES: usize = 16;

/// Bytes of workgroup memory that they may take, of the 16 KB that every device has.
const QUERY_BYTES: usize = 10 << 10;

/// Positions that a workgroup takes at once.
const BLOCK: usize = 64;

/// Workgroups that keep a device busy: below that, positions are split.
const BUSY: usize = SPLITS as usize;

pub(crate) fn attend(
    gpu: &mut Gpu,
    out: &mut Buf,
    q: &Buf,
    (cache, layer): (&Cache, usize),
    attention: Attention<'_, Weight>,
    step: &Step<'_>,
) {
    let Layer { kept, places: all_places, paged, sides: [keys, values], storage: [keys_at, values_at], .. } =
        &cache.layers[layer];
    let Attention { heads, mask, soft_cap, alibi, sinks, relative } = attention;
    out.like(q);
    let group = heads.heads / heads.kv_heads;
    let room = (QUERY_BYTES / (4 * keys.words * keys.kind.per_word())).clamp(1, QUERIES);
    let together = group.min(HEADS).min(room);
    let rows = if q.rows > 1 && one_sequence(step) { room / together } else { 1 };
    let tiles = heads.kv_heads * group.div_ceil(together);
    let row_tiles = q.rows.div_ceil(rows);
    let last = step.positions.iter().copied().max().unwrap_or(0) as usize;
    let Spans { splits, span } = spans(in_sight(mask, last, rows), row_tiles * tiles);
    let (sight, reach) = Sight::of(mask);
    let extras = Extras {
        cap: soft_cap.is_some(),
        slopes: alibi.is_some(),
        sinks: sinks.is_some(),
        relative: relative.is_some(),
    };
    let attend = Attend {
        keys: keys.kind,
        values: values.kind,
        rows: rows as u32,
        heads: together as u32,
        chunks: (keys.words / 4) as u32,
        words: (values.words * values.kind.shares()).div_ceil(BLOCK) as u32,
        output: if splits > 1 { Output::Split } else { Output::Whole },
        sight,
        extras,
        paged: *paged,
    };
    let slopes = alibi.map(|max| gpu.constant(Constant::Slopes { heads: heads.heads, max: max.to_bits() }));
    let by_distance = relative.map(|relative| by_distance(gpu, relative, heads.heads, mask.is_both()));
    let partial = (heads.value_dim + 2) * heads.heads * splits * q.rows;
    let parts = (splits > 1).then(|| gpu.pooled((partial * 4) as u64));
    let Gpu { device, recorder, places, .. } = gpu;
    let places = places.stage(device, recorder, step);
    let result = parts.as_deref().unwrap_or(&out.storage);
    // In the order of the source: what every layer has, then what some have.
    let mut buffers = [&q.storage, keys_at, values_at, places, result, result, result, result];
    let some = [slopes.as_ref(), by_distance.as_deref(), sinks.map(Weight::vector)].into_iter().flatten();
    let count = buffers[5..].iter_mut().zip(some).map(|(buffer, storage)| *buffer = storage).count();
    let numbers = [
        heads.kv_heads,
        group,
        heads.key_dim,
        heads.value_dim,
        keys.stride / 4,
        values.stride,
        *kept,
        *all_places,
        q.stride,
        out.stride,
    ];
    let [a, b, c, d, e, f, g, h, i, j] = numbers.map(|number| number as u32);
    let (scale, cap) = (heads.scale.to_bits(), soft_cap.unwrap_or(0.0).to_bits());
    let most = relative.map_or(0, |relative| relative.most);
    let [span, reach, most] = [span, reach, most].map(|number| number as u32);
    let work = q.rows * heads.heads * (heads.key_dim + heads.value_dim) * in_sight(mask, last, q.rows);
    let piece = piece(row_tiles, work as u64, device.work);
    for first in (0..row_tiles).step_by(piece) {
        let (several, first_row) = (piece.min(row_tiles - first), (first * rows) as u32);
        let dispatch = Dispatch {
            kernel: Kernel::Attend(attend),
            buffers: &buffers[..5 + count],
            numbers: &[a, b, c, d, e, f, g, h, i, j, scale, span, splits as u32, reach, cap, most, first_row],
            grid: [splits as u32, tiles as u32, several as u32],
        };
        recorder.dispatch(device, &dispatch);
        if q.rows > MAT_VEC_ROWS {
            recorder.worked(device, work / row_tiles * several);
        }
    }
    if let Some(parts) = &parts {
        let dispatch = Dispatch {
            kernel: Kernel::Merge,
            buffers: &[parts, &out.storage],
            numbers: &[heads.heads as u32, heads.value_dim as u32, splits as u32, out.stride as u32],
            grid: [heads.heads as u32, q.rows as u32, 1],
        };
        recorder.dispatch(device, &dispatch);
    }
}

/// The scores of all distances up to the last, `[distance][head]`.
fn by_distance(gpu: &mut Gpu, relative: Relative<'_, Weight>, heads: usize, both: bool) -> Arc<Storage> {
    let Relative { table, buckets, most } = relative;
    let map = gpu.constant(Constant::Buckets { both, buckets, most });
    let table = gpu.floats(table);
    let count = (2 * most + 1) * heads;
    let out = gpu.pooled((count * 4) as u64);
    gpu.dispatch(&Dispatch {
        kernel: Kernel::Relative,
        buffers: &[&table.storage, &map, &out],
        numbers: &[count as u32, heads as u32, table.stride],
        grid: [count.div_ceil(64) as u32, 1, 1],
    });
    out
}

/// Positions that `rows` rows of a sequence see together at most, the last of which is at `last`.
fn in_sight(mask: Mask, last: usize, rows: usize) -> usize {
    let some = match mask {
        Mask::Causal | Mask::Whole => usize::MAX,
        Mask::Window(reach) | Mask::Chunk(reach) => reach.saturating_add(rows - 1),
        Mask::Around(away) => away.saturating_mul(2).saturating_add(rows),
    };
    some.min(last + 1)
}

fn one_sequence(step: &Step<'_>) -> bool {
    step.sequences.windows(2).all(|pair| pair[0] == pair[1])
}

/// Tiles of rows that go to the device at once, so that `work` multiply-adds of all of them are parted into no more than
/// `most` each, if that can be: a part of a power of two, so that bind groups last for many steps.
fn piece(row_tiles: usize, work: u64, most: u64) -> usize {
    let pieces = work.div_ceil(most.max(1)).min(row_tiles as u64).next_power_of_two();
    row_tiles.div_ceil(pieces as usize).max(1)
}

/// How positions are shared out.
#[derive(Debug, PartialEq, Eq)]
struct Spans {
    splits: usize,
    /// Positions of a split.
    span: usize,
}

/// Depends on a power of two above `positions`, so that bind groups last for many steps.
fn spans(positions: usize, groups: usize) -> Spans {
    let bucket = positions.next_power_of_two().max(BLOCK);
    let most = (bucket / (2 * BLOCK)).max(1);
    let splits = (BUSY / groups.max(1)).clamp(1, most).next_power_of_two().min(most);
    Spans { splits, span: bucket / splits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_all_positions() {
        for positions in 1..3000 {
            for groups in [1, 2, 8, 32, 100, 5000] {
                let Spans { splits, span } = spans(positions, groups);
                assert!(splits * span >= positions && span % BLOCK == 0, "{positions}, {groups}: {splits} of {span}");
            }
        }
        assert_eq!(spans(4000, 8), Spans { splits: 32, span: 128 });
        assert_eq!(spans(4000, 4096), Spans { splits: 1, span: 4096 });
    }

    #[test]
    fn pieces_have_no_more_work_than_they_may() {
        assert_eq!(piece(100, 1000, 1000), 100);
        assert_eq!(piece(100, 1001, 1000), 50);
        assert_eq!(piece(100, 5000, 1000), 13);
        // A tile is not parted, and there may be none.
        assert_eq!(piece(4, u64::MAX, 1), 1);
        assert_eq!(piece(0, 0, 1000), 1);
    }
}
