//! Sequences whose keys, values and queries are drawn, fed to a backend in steps of any size.

use candor_ops::{Attention, Heads, KvFormat, KvPlan, LayerCache, Mask, Prims, Relative, Step};

use super::feed::{numbers, picked, put, steps};
use super::{Random, floats, of_kind, read, upload};

/// `(query heads, key and value heads, key width, value width)`.
const HEADS: &[(usize, usize, usize, usize)] =
    &[(1, 1, 2, 2), (4, 4, 16, 16), (8, 2, 64, 64), (6, 3, 33, 20), (7, 1, 48, 80), (32, 4, 64, 64)];

/// Two sequences of random queries, keys and values.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The layout of heads.
    pub heads: Heads,
    /// Of keys and of values.
    pub format: (KvFormat, KvFormat),
    /// Positions of the sequences 0 and 2; sequence 1 stays empty.
    pub lengths: [usize; 2],
    /// Of what is fed.
    pub seed: u64,
}

/// What a layer does besides; by default nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Who sees what.
    pub mask: Mask,
    /// See [`Attention::soft_cap`].
    pub soft_cap: Option<f32>,
    /// See [`Attention::alibi`].
    pub alibi: Option<f32>,
    /// Whether each head has a random sink.
    pub sinks: bool,
    /// Random scores by distance: buckets, and the distance of the last.
    pub relative: Option<(usize, usize)>,
    /// Whether the cache knows how far back rows look, and how long steps are.
    pub ring: bool,
}

/// Every layout of heads with short and longer sequences, in floats and halves.
pub fn cases() -> impl Iterator<Item = Case> {
    let (half, single) = (KvFormat::F16, KvFormat::F32);
    let formats = [(single, single), (half, half), (single, half), (half, single)];
    let lengths = [[1, 0], [2, 3], [7, 1], [33, 9], [130, 40]];
    let heads = HEADS.iter().map(|&(heads, kv_heads, key_dim, value_dim)| Heads {
        heads,
        kv_heads,
        key_dim,
        value_dim,
        scale: 1.0 / (key_dim as f32).sqrt(),
    });
    heads.enumerate().flat_map(move |(i, heads)| {
        lengths.into_iter().enumerate().map(move |(j, lengths)| Case {
            heads,
            format: formats[(i + j) % 4],
            lengths,
            seed: (i * 8 + j) as u64,
        })
    })
}

/// Feeds both sequences `chunk` tokens of each at a time; see [`fed`].
pub fn attended<B: Prims>(ops: &mut B, case: &Case, chunk: usize) -> Vec<f32> {
    fed(ops, case, |_| chunk, |_| ())
}

/// The queries, keys and values of all rows.
#[derive(Debug)]
pub struct Rows {
    /// Queries.
    pub q: Vec<f32>,
    /// Keys.
    pub k: Vec<f32>,
    /// Values.
    pub v: Vec<f32>,
}

/// Feeds both sequences `chunk(start)` tokens of each at a time, alternating within a step; rows come back by sequence
/// and position. `change` may change what is fed.
pub fn fed<B: Prims>(
    ops: &mut B,
    case: &Case,
    chunk: impl Fn(usize) -> usize,
    change: impl FnOnce(&mut Rows),
) -> Vec<f32> {
    ruled(ops, (case, &Rules::default()), chunk, change)
}

/// [`fed`], with rules.
///
/// # Panics
/// If the backend refuses floats.
pub fn ruled<B: Prims>(
    ops: &mut B,
    (case, rules): (&Case, &Rules),
    chunk: impl Fn(usize) -> usize,
    change: impl FnOnce(&mut Rows),
) -> Vec<f32> {
    let Case { heads, format: (keys, values), lengths, seed } = *case;
    let mut random = Random(seed);
    let (q_width, k_width) = (heads.heads * heads.key_dim, heads.kv_heads * heads.key_dim);
    let (v_width, out_width) = (heads.kv_heads * heads.value_dim, heads.heads * heads.value_dim);
    let rows = lengths[0] + lengths[1];
    let mut draw = |width: usize| random.floats(rows * width);
    let mut drawn = Rows { q: draw(q_width), k: draw(k_width), v: draw(v_width) };
    change(&mut drawn);
    let Rows { q, k, v } = drawn;
    let steps = steps(lengths, chunk);
    let window = rules.mask.reach().filter(|_| rules.ring).map(|reach| reach + 1);
    let layer = LayerCache { window, ..LayerCache::attention(heads.kv_heads, heads.key_dim, heads.value_dim) };
    let context = lengths[0].max(lengths[1]) + 1;
    let step = if rules.ring { steps.iter().map(Vec::len).max().unwrap_or(1) } else { context };
    let mut kv = ops.kv(&KvPlan { layers: vec![layer; 3], context, step, sequences: 3, pool: None, keys, values });
    let mut vector = |ops: &mut B, rows: usize, cols: usize| {
        ops.weight(floats(rows, cols, &random.floats(rows * cols))).expect("floats run everywhere")
    };
    let sinks = rules.sinks.then(|| vector(ops, 1, heads.heads));
    let table = rules.relative.map(|(buckets, _)| vector(ops, buckets, heads.heads));
    let relative = table.as_ref().zip(rules.relative);
    let attention = Attention {
        heads,
        mask: rules.mask,
        soft_cap: rules.soft_cap,
        alibi: rules.alibi,
        sinks: sinks.as_ref(),
        relative: relative.map(|(table, (buckets, most))| Relative { table, buckets, most }),
    };
    let mut out = vec![0.0; rows * out_width];
    for places in steps {
        let (positions, sequences) = numbers(&places);
        let step = Step {
            tokens: &[],
            positions: &positions,
            sequences: &sequences,
            outputs: &[],
            decoding: of_kind(positions.len()),
        };
        let pick = |ops: &mut B, all: &[f32], width: usize| upload(ops, width, &picked(&places, all, width));
        let (q, k, v) = (pick(ops, &q, q_width), pick(ops, &k, k_width), pick(ops, &v, v_width));
        let mut att = ops.buffer(places.len(), out_width);
        ops.kv_write(&mut kv, 1, &k, &v, &step);
        // Other layers and sequences hold something else.
        let (k, v) = (
            upload(ops, k_width, &vec![1e3; places.len() * k_width]),
            upload(ops, v_width, &vec![1e3; places.len() * v_width]),
        );
        for (layer, sequence) in (0..9).map(|i| (i / 3, i as u32 % 3)).filter(|place| ![(1, 0), (1, 2)].contains(place))
        {
            let sequences = vec![sequence; places.len()];
            ops.kv_write(&mut kv, layer, &k, &v, &Step { sequences: &sequences, ..step });
        }
        ops.attend(&mut att, &q, &kv, 1, attention, &step);
        put(&places, &mut out, &read(ops, &att), out_width);
    }
    out
}

/// Rows that look at texts which were written before, as a decoder's do: `rows` of each of the two sequences, alternating
/// within a step, all of which stand at the last position of their text.
pub fn looked<B: Prims>(ops: &mut B, case: &Case, rows: usize) -> Vec<f32> {
    let Case { heads, format: (keys, values), lengths, seed } = *case;
    let mut random = Random(seed);
    let layer = LayerCache::attention(heads.kv_heads, heads.key_dim, heads.value_dim);
    let context = lengths[0].max(lengths[1]).max(1);
    let mut kv =
        ops.kv(&KvPlan { layers: vec![layer; 2], context, step: context, sequences: 3, pool: None, keys, values });
    for (sequence, len) in [0, 2].into_iter().zip(lengths) {
        let widths = [heads.kv_heads * heads.key_dim, heads.kv_heads * heads.value_dim];
        let [k, v] = widths.map(|width| upload(ops, width, &random.floats(len * width)));
        let (positions, sequences) = ((0..len as u32).collect::<Vec<_>>(), vec![sequence; len]);
        let step = Step {
            tokens: &[],
            positions: &positions,
            sequences: &sequences,
            outputs: &[],
            decoding: of_kind(positions.len()),
        };
        ops.kv_write(&mut kv, 1, &k, &v, &step);
    }
    let places: Vec<usize> = (0..2 * rows).map(|row| row % 2).filter(|&which| lengths[which] > 0).collect();
    let positions: Vec<u32> = places.iter().map(|&which| lengths[which] as u32 - 1).collect();
    let sequences: Vec<u32> = places.iter().map(|&which| 2 * which as u32).collect();
    let (q_width, out_width) = (heads.heads * heads.key_dim, heads.heads * heads.value_dim);
    let q = upload(ops, q_width, &random.floats(places.len() * q_width));
    let mut out = ops.buffer(places.len(), out_width);
    let step = Step {
        tokens: &[],
        positions: &positions,
        sequences: &sequences,
        outputs: &[],
        decoding: of_kind(positions.len()),
    };
    ops.attend(&mut out, &q, &kv, 1, Attention::causal(heads), &step);
    read(ops, &out)
}

/// Long enough for several blocks of positions, whose parts are merged.
pub fn long(heads: (usize, usize, usize, usize), format: (KvFormat, KvFormat)) -> Case {
    let (heads, kv_heads, key_dim, value_dim) = heads;
    let heads = Heads { heads, kv_heads, key_dim, value_dim, scale: 1.0 / (key_dim as f32).sqrt() };
    Case { heads, format, lengths: [700, 257], seed: heads.heads as u64 }
}

/// Every kind of mask, and every other rule with some of them.
pub fn rules() -> Vec<Rules> {
    let none = Rules::default();
    let masks = [
        Mask::Window(1),
        Mask::Window(5),
        Mask::Window(100),
        Mask::Window(300),
        Mask::Chunk(4),
        Mask::Chunk(100),
        Mask::Chunk(256),
        Mask::Whole,
        Mask::Around(3),
        Mask::Around(270),
    ];
    let mut all: Vec<Rules> = masks.map(|mask| Rules { mask, ..none }).into();
    for mask in [Mask::Causal, Mask::Window(7), Mask::Chunk(50), Mask::Around(4)] {
        all.push(Rules { mask, soft_cap: Some(1.5), ..none });
        all.push(Rules { mask, alibi: Some(8.0), ..none });
        all.push(Rules { mask, sinks: true, ..none });
        all.push(Rules { mask, relative: Some((32, 128)), ..none });
        all.push(Rules {
            mask,
            soft_cap: Some(3.0),
            alibi: Some(4.0),
            sinks: true,
            relative: Some((8, 20)),
            ring: false,
        });
    }
    all
}
