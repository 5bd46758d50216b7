//! Sequences through short convolutions and linear recurrences, fed in steps of any size.

use candor_ops::{Decay, KvFormat, KvPlan, LayerCache, Prims, Recurrence, Step};

use super::feed::{Places, numbers, picked, put, steps};
use super::{Random, floats, of_kind, read, upload};

/// How the state of a [`Scan`] fades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fading {
    /// [`Decay::Keys`].
    Keys,
    /// [`Decay::Heads`].
    Heads,
    /// [`Decay::Rates`].
    Rates,
}

/// A linear recurrence.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    /// `(heads, heads of keys, width of a key, width of a value)`.
    pub shape: (usize, usize, usize, usize),
    /// How the state fades.
    pub fading: Fading,
    /// Whether something is erased, as in the delta rule.
    pub erase: bool,
    /// Whether the present has a weight of its own.
    pub bonus: bool,
}

/// Shapes of Mamba, Mamba-2, RWKV-6 and 7 and the gated delta rule, small and odd ones too.
pub fn scans() -> Vec<Scan> {
    let scan = |shape, fading| Scan { shape, fading, erase: false, bonus: false };
    let mut all = vec![
        scan((300, 1, 16, 1), Fading::Rates),
        scan((7, 1, 5, 1), Fading::Rates),
        scan((48, 48, 16, 1), Fading::Rates),
        scan((20, 1, 17, 1), Fading::Keys),
        scan((40, 2, 16, 1), Fading::Heads),
        scan((6, 2, 128, 64), Fading::Heads),
        scan((4, 1, 16, 24), Fading::Rates),
        Scan { bonus: true, ..scan((3, 3, 64, 64), Fading::Keys) },
        Scan { bonus: true, ..scan((5, 5, 3, 1), Fading::Keys) },
        Scan { erase: true, ..scan((3, 3, 64, 64), Fading::Keys) },
        Scan { erase: true, ..scan((4, 2, 128, 128), Fading::Heads) },
        Scan { erase: true, ..scan((9, 3, 7, 1), Fading::Heads) },
    ];
    for fading in [Fading::Keys, Fading::Heads, Fading::Rates] {
        for (erase, bonus) in [(false, false), (false, true), (true, false), (true, true)] {
            all.push(Scan { shape: (6, 3, 9, 10), fading, erase, bonus });
        }
    }
    all
}

/// A cache with the states of three layers; slot 1 of layer 1 is the one in use.
fn cache<B: Prims>(ops: &mut B, state: usize, context: usize) -> B::Kv {
    let layer = LayerCache { states: [3, state, 2], ..LayerCache::default() };
    let (keys, values) = (KvFormat::F32, KvFormat::F32);
    ops.kv(&KvPlan { layers: vec![layer; 3], context, step: context, sequences: 3, pool: None, keys, values })
}

/// All steps of both sequences through `op`, twice: the second time from position 0 again.
fn twice(
    (lengths, width): ([usize; 2], usize),
    chunk: impl Fn(usize) -> usize,
    mut op: impl FnMut(&Places, &Step<'_>) -> Vec<f32>,
) -> [Vec<f32>; 2] {
    let steps = steps(lengths, chunk);
    [(); 2].map(|()| {
        let mut out = vec![0.0; (lengths[0] + lengths[1]) * width];
        for places in &steps {
            let (positions, sequences) = numbers(places);
            let step = Step {
                tokens: &[],
                positions: &positions,
                sequences: &sequences,
                outputs: &[],
                decoding: of_kind(positions.len()),
            };
            put(places, &mut out, &op(places, &step), width);
        }
        out
    })
}

/// A convolution of `width` columns with `taps` taps over random rows; twice, see [`scanned`].
///
/// # Panics
/// If the backend refuses floats.
pub fn convolved<B: Prims>(
    ops: &mut B,
    (width, taps): (usize, usize),
    lengths: [usize; 2],
    chunk: impl Fn(usize) -> usize,
) -> [Vec<f32>; 2] {
    let mut random = Random((width * 31 + taps) as u64);
    let w = ops.weight(floats(width, taps, &random.floats(width * taps))).expect("floats run");
    let x = random.floats((lengths[0] + lengths[1]) * width);
    let mut kv = cache(ops, (taps - 1) * width, lengths[0].max(lengths[1]));
    twice((lengths, width), chunk, |places, step| {
        let x = upload(ops, width, &picked(places, &x, width));
        let mut out = ops.buffer(places.len(), width);
        ops.conv(&mut out, &mut kv, (1, 1), &x, &w, step);
        read(ops, &out)
    })
}

/// A recurrence over random rows of the sequences 0 and 2: the results of both, twice from position 0 on with the same
/// cache, so that the second is the first unless something is left over.
///
/// # Panics
/// If the backend refuses floats.
pub fn scanned<B: Prims>(
    ops: &mut B,
    scan: &Scan,
    lengths: [usize; 2],
    chunk: impl Fn(usize) -> usize,
) -> [Vec<f32>; 2] {
    let Scan { shape: (heads, key_heads, key_dim, value_dim), fading, erase, bonus } = *scan;
    let mut random = Random((heads * 7 + key_dim * 3 + value_dim) as u64);
    let rows = lengths[0] + lengths[1];
    let (shared, own, width) = (key_heads * key_dim, heads * key_dim, heads * value_dim);
    let unit = 1.0 / (key_dim as f32).sqrt();
    let (q, mut k, v) = (random.floats(rows * shared), random.floats(rows * shared), random.floats(rows * width));
    k.iter_mut().for_each(|k| *k *= unit);
    let between = |x: f32| 1.0 / (1.0 + (-x).exp());
    let fade_width = if fading == Fading::Keys { own } else { heads };
    let fade: Vec<f32> = random.floats(rows * fade_width).into_iter().map(between).collect();
    // What is read is near a unit vector, and half of it is taken away: states stay small.
    let a: Vec<f32> = random.floats(rows * own).iter().map(|x| x.clamp(-1.5, 1.5) * unit).collect();
    let b: Vec<f32> = a.iter().map(|a| -0.5 * a).collect();
    let rates: Vec<f32> = random.floats(own).into_iter().map(|x| -x.abs() - 0.01).collect();
    let weights = [rates, random.floats(own)];
    let [rate, present] = weights.map(|values| ops.weight(floats(heads, key_dim, &values)).expect("floats run"));
    let mut kv = cache(ops, heads * key_dim * value_dim, lengths[0].max(lengths[1]));
    twice((lengths, width), chunk, |places, step| {
        let mut pick = |all: &[f32], width: usize| upload(ops, width, &picked(places, all, width));
        let (q, k, v, fade) = (pick(&q, shared), pick(&k, shared), pick(&v, width), pick(&fade, fade_width));
        let (a, b) = (pick(&a, own), pick(&b, own));
        let decay = match fading {
            Fading::Keys => Decay::Keys(&fade),
            Fading::Heads => Decay::Heads(&fade),
            Fading::Rates => Decay::Rates { time: &fade, rate: &rate },
        };
        let inputs = Recurrence {
            heads,
            key_heads,
            key_dim,
            value_dim,
            q: &q,
            k: &k,
            v: &v,
            decay,
            erase: erase.then_some((&a, &b)),
            bonus: bonus.then_some(&present),
        };
        let mut out = ops.buffer(places.len(), width);
        ops.recur(&mut out, &mut kv, (1, 1), inputs, step);
        read(ops, &out)
    })
}
