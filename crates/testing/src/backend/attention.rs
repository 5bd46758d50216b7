//! Sequences whose keys, values and queries are drawn, fed to a backend in steps of any size.

use candor_ops::{Attention, Heads, KvFormat, KvPlan, LayerCache, Prims, Step};

use super::{Random, read, upload};

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
    let Case { heads, format: (keys, values), lengths, seed } = *case;
    let mut random = Random(seed);
    let (q_width, k_width) = (heads.heads * heads.key_dim, heads.kv_heads * heads.key_dim);
    let (v_width, out_width) = (heads.kv_heads * heads.value_dim, heads.heads * heads.value_dim);
    let rows = lengths[0] + lengths[1];
    let mut draw = |width: usize| random.floats(rows * width);
    let mut drawn = Rows { q: draw(q_width), k: draw(k_width), v: draw(v_width) };
    change(&mut drawn);
    let Rows { q, k, v } = drawn;
    let context = lengths[0].max(lengths[1]) + 1;
    let (kv_heads, key_dim, value_dim) = (heads.kv_heads, heads.key_dim, heads.value_dim);
    let plan = KvPlan {
        layers: vec![LayerCache::attention(kv_heads, key_dim, value_dim); 3],
        context,
        sequences: 3,
        keys,
        values,
    };
    let mut kv = ops.kv(&plan);
    let mut out = vec![0.0; rows * out_width];
    let mut next = 0;
    while next < context {
        let start = next;
        next += chunk(start);
        // (sequence, position, row)
        let mut places: Vec<(u32, usize, usize)> = Vec::new();
        for position in start..next {
            if position < lengths[0] {
                places.push((0, position, position));
            }
            if position < lengths[1] {
                places.push((2, position, lengths[0] + position));
            }
        }
        if places.is_empty() {
            continue;
        }
        let pick = |all: &[f32], width: usize| -> Vec<f32> {
            places.iter().flat_map(|&(_, _, row)| &all[row * width..][..width]).copied().collect()
        };
        let positions: Vec<u32> = places.iter().map(|place| place.1 as u32).collect();
        let sequences: Vec<u32> = places.iter().map(|place| place.0).collect();
        let step = Step { tokens: &[], positions: &positions, sequences: &sequences, outputs: &[] };
        let (q, k) = (upload(ops, q_width, &pick(&q, q_width)), upload(ops, k_width, &pick(&k, k_width)));
        let v = upload(ops, v_width, &pick(&v, v_width));
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
        ops.attend(&mut att, &q, &kv, 1, Attention::causal(heads), &step);
        let att = read(ops, &att);
        for (&(_, _, row), att) in places.iter().zip(att.chunks(out_width)) {
            out[row * out_width..][..out_width].copy_from_slice(att);
        }
    }
    out
}

/// Long enough for several blocks of positions, whose parts are merged.
pub fn long(heads: (usize, usize, usize, usize), format: (KvFormat, KvFormat)) -> Case {
    let (heads, kv_heads, key_dim, value_dim) = heads;
    let heads = Heads { heads, kv_heads, key_dim, value_dim, scale: 1.0 / (key_dim as f32).sqrt() };
    Case { heads, format, lengths: [700, 257], seed: heads.heads as u64 }
}
