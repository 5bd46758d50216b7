//! Attention over the cache, however its positions lie.

use std::sync::Arc;

use candor_ops::{Attention, Mask, Relative, Step};

use crate::buffer::Buf;
use crate::cache::{Cache, Layer, Side};
use crate::constants::Constant;
use crate::cooperative::ATTENTION_QUERIES;
use crate::device::Storage;
use crate::kernel::{Attend, Extras, Kernel, KvKind, MAT_VEC_ROWS, Output, Sight};
use crate::record::Dispatch;
use crate::{Gpu, Weight, product};

/// Query heads of a row that one workgroup serves at most.
const HEADS: usize = 8;

/// Query heads of all its rows, at most.
const QUERIES: usize = 16;

/// Bytes of workgroup memory that they may take, of the 16 KB that every device has.
const QUERY_BYTES: usize = 10 << 10;

/// Positions that a workgroup takes at once.
const BLOCK: usize = 64;

/// How the positions of a row that decodes are parted: one row alone keeps a device busy, and up to 32,768 positions
/// have as many workgroups as there are spans of them.
const DECODING: Parting = Parting { span: 128, parts: 128 };

/// How those of a prompt's row are parted: prompts have many rows, and a few rows behind a long text are not left to a
/// few workgroups.
const PREFILL: Parting = Parting { span: 2048, parts: 16 };

/// Most bytes of the parts that wait to be merged. One tile of rows may have more.
const PART_BYTES: u64 = 64 << 20;

/// Runs of rows of a sequence that have dispatches of their own at most.
const RUNS: usize = 4;

/// How positions are parted into spans. It follows from what a row sees and from whether it decodes, so that a row has
/// the same bits beside any other rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parting {
    /// Positions of a span, at least: whole blocks.
    span: usize,
    /// Spans of a row at most, or one more.
    parts: usize,
}

impl Parting {
    /// The parting of layers whose rows see from anywhere on: as many positions as a span has are one span, wherever
    /// its first block begins.
    fn of(self, sight: Sight) -> Parting {
        match sight {
            Sight::Causal | Sight::Whole => self,
            Sight::Window | Sight::Chunk | Sight::Around => Parting { span: self.span + BLOCK, ..self },
        }
    }

    /// Positions of a span of a row that sees `seen`, as the shader computes it.
    fn span(self, seen: usize) -> usize {
        self.span.max(seen.max(2).next_power_of_two() / self.parts)
    }

    /// The most spans of a row that sees up to `seen` positions. It follows from a power of two above them, so that
    /// bind groups last for many steps.
    fn splits(self, sight: Sight, seen: usize) -> usize {
        let begin = if matches!(sight, Sight::Causal | Sight::Whole) { 0 } else { BLOCK - 1 };
        let seen = seen.next_power_of_two();
        (begin + seen).div_ceil(self.span(seen))
    }
}

/// Rows of a kind that are attended by one dispatch, and by more where that is much work.
struct Run {
    /// The first of them, among those of the kind.
    first: usize,
    count: usize,
    /// Of those, how many a workgroup takes.
    together: usize,
}

pub(crate) fn attend(
    gpu: &mut Gpu,
    out: &mut Buf,
    q: &Buf,
    cache: (&Cache, usize),
    attention: Attention<'_, Weight>,
    step: &Step<'_>,
) {
    out.like(q);
    let Attention { heads, mask, alibi, relative, .. } = attention;
    let slopes = alibi.map(|max| gpu.constant(Constant::Slopes { heads: heads.heads, max: max.to_bits() }));
    let by_distance = relative.map(|relative| by_distance(gpu, relative, heads.heads, mask.is_both()));
    let sinks = attention.sinks.map(Weight::vector);
    let some = [slopes.as_ref(), by_distance.as_deref(), sinks];
    // Heads are whole blocks of what is rounded, and there is a place among the buffers.
    let rounds = heads.value_dim.is_multiple_of(32) && some.iter().flatten().count() < some.len();
    let rounded = if rounds { product::room_beside(gpu, out) } else { None };
    for is_decoding in [false, true] {
        kind(gpu, (out, q, rounded.as_deref()), cache, (attention, some), step, is_decoding);
    }
    out.round(rounded.is_some());
}

/// Attention of the rows that decode, or of the others. `some` buffers are read by some layers alone.
fn kind(
    gpu: &mut Gpu,
    (out, q, rounded): (&Buf, &Buf, Option<&Storage>),
    (cache, layer): (&Cache, usize),
    (attention, some): (Attention<'_, Weight>, [Option<&Storage>; 3]),
    step: &Step<'_>,
    is_decoding: bool,
) {
    let Layer { kept, places: all_places, paged, sides: [keys, values], storage: [keys_at, values_at], .. } =
        &cache.layers[layer];
    let Attention { heads, mask, soft_cap, alibi, sinks, relative } = attention;
    let its = if is_decoding { q.prefill()..q.rows } else { 0..q.prefill() };
    let group = heads.heads / heads.kv_heads;
    let cooperative = !is_decoding && by_matrices(gpu, [keys, values]);
    let room = match cooperative {
        true => ATTENTION_QUERIES as usize,
        false => (QUERY_BYTES / (4 * keys.words * keys.kind.per_word())).clamp(1, QUERIES),
    };
    let together = group.min(HEADS).min(room);
    let tiles = heads.kv_heads * group.div_ceil(together);
    let last = step.positions[its.clone()].iter().copied().max().unwrap_or(0) as usize;
    let (sight, reach) = Sight::of(mask);
    let parting = if is_decoding { DECODING } else { PREFILL }.of(sight);
    let splits = parting.splits(sight, in_sight(mask, last, 1));
    let extras = Extras {
        cap: soft_cap.is_some(),
        slopes: alibi.is_some(),
        sinks: sinks.is_some(),
        relative: relative.is_some(),
    };
    let (scale, cap) = (heads.scale.to_bits(), soft_cap.unwrap_or(0.0).to_bits());
    let most = relative.map_or(0, |relative| relative.most);
    // Of a row: multiply-adds, and the bytes of its parts.
    let work = heads.heads * (heads.key_dim + heads.value_dim) * in_sight(mask, last, q.rows);
    let bytes = (heads.value_dim + 2) * heads.heads * splits * 4;
    for Run { first, count, together: rows } in runs(&step.sequences[its], room / together) {
        let attend = Attend {
            keys: keys.kind,
            values: values.kind,
            rows: rows as u32,
            heads: together as u32,
            chunks: (keys.words / 4) as u32,
            words: match cooperative {
                true => values.words as u32,
                false => (values.words * values.kind.shares()).div_ceil(BLOCK) as u32,
            },
            cooperative,
            output: if splits > 1 { Output::Split } else { Output::Whole },
            sight,
            extras,
            paged: *paged,
            rounds: splits == 1 && rounded.is_some(),
        };
        let row_tiles = count.div_ceil(rows);
        let mut piece = piece(row_tiles, (count * work) as u64, gpu.device.work);
        if splits > 1 {
            piece = piece.min(self::piece(row_tiles, (count * bytes) as u64, PART_BYTES));
        }
        let parts = (splits > 1).then(|| gpu.pooled((piece * rows * bytes) as u64));
        let Gpu { device, recorder, places, .. } = &mut *gpu;
        let places = places.stage(device, recorder, step);
        let result = parts.as_deref().unwrap_or(&out.storage);
        // In the order of the source: what every layer has, then what some have.
        let mut buffers = [&q.storage, keys_at, values_at, places, result, result, result, result];
        let some = some.into_iter().flatten().chain(rounded.filter(|_| attend.rounds));
        let bound = 5 + buffers[5..].iter_mut().zip(some).map(|(buffer, storage)| *buffer = storage).count();
        for tile in (0..row_tiles).step_by(piece) {
            let several = piece.min(row_tiles - tile);
            let begin = first + tile * rows;
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
                scale as usize,
                parting.span,
                parting.parts,
                splits,
                reach,
                cap as usize,
                most,
                begin,
                usize::from(is_decoding),
            ];
            let dispatch = Dispatch {
                kernel: Kernel::Attend(attend),
                buffers: &buffers[..bound],
                numbers: &numbers.map(|number| number as u32),
                grid: [splits as u32, tiles as u32, several as u32],
            };
            recorder.dispatch(device, &dispatch);
            if let Some(parts) = &parts {
                let numbers = [heads.heads, heads.value_dim, splits, out.stride, begin, usize::from(is_decoding)];
                let rows = (several * rows).min(count - tile * rows);
                let dispatch = Dispatch {
                    kernel: if rounded.is_some() { Kernel::MergeRounded } else { Kernel::Merge },
                    buffers: &[parts, places, &out.storage, rounded.unwrap_or(result)]
                        [..3 + usize::from(rounded.is_some())],
                    numbers: &numbers.map(|number| number as u32),
                    grid: [heads.heads as u32, rows as u32, 1],
                };
                recorder.dispatch(device, &dispatch);
            }
            if q.rows > MAT_VEC_ROWS {
                recorder.worked(device, count * work / row_tiles * several);
            }
        }
    }
}

/// Whether keys and values are multiplied as cooperative matrices.
fn by_matrices(gpu: &Gpu, sides: [&Side; 2]) -> bool {
    let halves = sides.iter().all(|side| side.kind == KvKind::F16);
    halves && gpu.device.variant.cooperative.is_some_and(|has| has.attends(sides.map(|side| side.dim)))
}

/// Rows of a kind by the dispatches that attend them: rows of a sequence that follow each other share what they read,
/// up to `most` of them. Where there are many such runs, each row has a workgroup of its own.
fn runs(sequences: &[u32], most: usize) -> Vec<Run> {
    let mut first = 0;
    let same = sequences.chunk_by(|a, b| a == b).map(|run| {
        first += run.len();
        Run { first: first - run.len(), count: run.len(), together: if run.len() > 1 { most } else { 1 } }
    });
    let runs: Vec<Run> = same.take(RUNS + 1).collect();
    match runs.len() {
        0 => runs,
        count if count <= RUNS && count < sequences.len() => runs,
        _ => vec![Run { first: 0, count: sequences.len(), together: 1 }],
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

/// Tiles of rows that go to the device at once, so that `work` multiply-adds of all of them are parted into no more than
/// `most` each, if that can be: a part of a power of two, so that bind groups last for many steps.
fn piece(row_tiles: usize, work: u64, most: u64) -> usize {
    let pieces = work.div_ceil(most.max(1)).min(row_tiles as u64).next_power_of_two();
    row_tiles.div_ceil(pieces as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::SPLITS;

    /// As the shader parts them.
    fn spans_of(parting: Parting, first: usize, seen: usize) -> usize {
        let begin = first / BLOCK * BLOCK;
        (first + seen - begin).div_ceil(parting.span(seen))
    }

    #[test]
    fn there_is_room_for_the_spans_of_every_row() {
        for parting in [DECODING, PREFILL] {
            for sight in [Sight::Causal, Sight::Window] {
                let parting = parting.of(sight);
                let (mut most, mut room) = (0, 0);
                for seen in (1..3000).chain((3000..300_000).step_by(61)) {
                    let firsts = if sight == Sight::Causal { 0..1 } else { 0..BLOCK };
                    most = firsts.map(|first| spans_of(parting, first, seen)).max().unwrap_or(0).max(most);
                    let splits = parting.splits(sight, seen);
                    assert!(splits >= most, "{parting:?}, {sight:?}: {splits} of {most} for {seen} positions");
                    assert!(splits >= room && splits <= parting.parts + 1 && splits <= SPLITS as usize);
                    assert_eq!(parting.span(seen) % BLOCK, 0);
                    room = splits;
                }
            }
        }
    }

    #[test]
    fn few_positions_are_not_parted_and_many_are() {
        assert_eq!(DECODING.splits(Sight::Causal, 128), 1);
        assert_eq!(DECODING.splits(Sight::Causal, 4000), 32);
        assert_eq!(DECODING.splits(Sight::Causal, 100_000), 128);
        assert_eq!(DECODING.of(Sight::Window).splits(Sight::Window, 128), 1);
        assert_eq!(PREFILL.splits(Sight::Causal, 2048), 1);
        assert_eq!(PREFILL.splits(Sight::Causal, 4000), 2);
    }

    #[test]
    fn rows_of_a_sequence_go_together_unless_there_are_many_sequences() {
        let found = |sequences: &[u32]| -> Vec<_> {
            runs(sequences, 4).iter().map(|run| (run.first, run.count, run.together)).collect()
        };
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[7]), [(0, 1, 1)]);
        assert_eq!(found(&[7, 7, 7]), [(0, 3, 4)]);
        assert_eq!(found(&[7, 7, 1, 2, 2]), [(0, 2, 4), (2, 1, 1), (3, 2, 4)]);
        assert_eq!(found(&[0, 1, 2]), [(0, 3, 1)]);
        assert_eq!(found(&[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]), [(0, 10, 1)]);
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
