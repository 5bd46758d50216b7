//! Sequences that begin as another one did, and part from it in every way.

use candor_ops::{Attention, Error, KvFormat, KvPlan, LayerCache, Mask, Prefix, Prims, Step, Stored};

use super::attention::{Case, long};
use super::{Random, of_kind, read, upload};

/// Of whom, to whom, how many positions.
pub type Fork = (usize, usize, usize);

/// A backend's cache of some sequences in two layers, and what came out of it.
pub(super) struct Run<'a, B: Prims> {
    pub(super) ops: &'a mut B,
    pub(super) kv: B::Kv,
    pub(super) case: Case,
    pub(super) mask: Mask,
    pub(super) random: Random,
    pub(super) out: Vec<f32>,
}

impl<B: Prims> Run<'_, B> {
    /// Writes random keys and values at these sequences and positions.
    pub(super) fn write(&mut self, places: &[(u32, u32)]) {
        let heads = self.case.heads;
        let (sequences, positions): (Vec<_>, Vec<_>) = places.iter().copied().unzip();
        let step = Step {
            tokens: &[],
            positions: &positions,
            sequences: &sequences,
            outputs: &[],
            decoding: of_kind(positions.len()),
        };
        for layer in 0..2 {
            let [k, v] = [heads.key_dim, heads.value_dim].map(|dim| {
                let width = heads.kv_heads * dim;
                upload(self.ops, width, &self.random.floats(places.len() * width))
            });
            self.ops.kv_write(&mut self.kv, layer, &k, &v, &step);
        }
    }

    /// Looks from these sequences and positions with random queries.
    pub(super) fn look(&mut self, places: &[(u32, u32)]) {
        let heads = self.case.heads;
        let (sequences, positions): (Vec<_>, Vec<_>) = places.iter().copied().unzip();
        let step = Step {
            tokens: &[],
            positions: &positions,
            sequences: &sequences,
            outputs: &[],
            decoding: of_kind(positions.len()),
        };
        for layer in 0..2 {
            let width = heads.heads * heads.key_dim;
            let q = upload(self.ops, width, &self.random.floats(places.len() * width));
            let mut out = self.ops.buffer(places.len(), heads.heads * heads.value_dim);
            let attention = Attention { mask: self.mask, ..Attention::causal(heads) };
            self.ops.attend(&mut out, &q, &self.kv, layer, attention, &step);
            self.out.extend(read(self.ops, &out));
        }
    }

    pub(super) fn stored(&mut self) -> &mut dyn Stored {
        self.ops.stored(&mut self.kv).expect("the backend lets its cache out")
    }

    pub(super) fn fork(&mut self, (from, to, positions): Fork) {
        self.stored().fork(from, to, positions).expect("the device works");
    }

    /// Takes the first positions of a sequence out and puts them into another; `false` where the pool has no room for them.
    pub(super) fn restore(&mut self, (from, to, positions): Fork) -> bool {
        let stored = self.stored();
        for layer in 0..2 {
            let mut bytes = Vec::new();
            stored.save(&mut bytes, Prefix { layer, sequence: from, positions }).expect("the device works");
            match stored.load(&bytes, Prefix { layer, sequence: to, positions }) {
                Err(Error::Full(_)) => return false,
                loaded => loaded.expect("it is as long"),
            }
        }
        true
    }
}

/// Beginnings of one page and more, to their end and not, in every format; who sees what, and whether the cache is a ring.
pub fn cases() -> [(Case, (Mask, bool)); 5] {
    let (single, half) = ((KvFormat::F32, KvFormat::F32), (KvFormat::F16, KvFormat::F16));
    let (all, window, ring) = ((Mask::Causal, false), (Mask::Window(40), false), (Mask::Window(40), true));
    let case = |len, format, rules| (Case { lengths: [len, 0], ..long((4, 2, 32, 64), format) }, rules);
    [
        case(20, single, all),
        case(255, half, window),
        case(256, (KvFormat::Q8_0, KvFormat::Q4_0), all),
        case(600, single, all),
        case(600, half, ring),
    ]
}

/// The first sequence of a case is fed and forked; all go on together, back to what they share, and over what others still
/// have. What they see comes out.
pub fn forked<B: Prims>(ops: &mut B, case: &Case, (mask, ring): (Mask, bool)) -> Vec<f32> {
    let Case { heads, format: (keys, values), lengths: [len, _], seed } = *case;
    let window = mask.reach().filter(|_| ring).map(|reach| reach + 1);
    let layer = LayerCache { window, ..LayerCache::attention(heads.kv_heads, heads.key_dim, heads.value_dim) };
    let context = len + 9;
    let step = if ring { 50 } else { context };
    let kv = ops.kv(&KvPlan { layers: vec![layer; 2], context, step, sequences: 3, pool: None, keys, values });
    let (random, len) = (Random(seed), len as u32);
    let mut run = Run { ops, kv, case: *case, mask, random, out: Vec::new() };
    let all = |position| [(0, position), (1, position), (2, position)];
    // The others have something else before.
    run.write(&(0..len.min(40)).flat_map(|position| [(1, position), (2, position)]).collect::<Vec<_>>());
    for first in (0..len).step_by(40) {
        run.write(&(first..len.min(first + 40)).map(|position| (0, position)).collect::<Vec<_>>());
    }
    run.fork((0, 1, len as usize));
    run.look(&[(0, len - 1), (1, len - 1)]);
    // One after the other, who had it first at last; and one that comes when the page is shared no more.
    run.write(&[(1, len)]);
    run.look(&[(0, len - 1), (1, len)]);
    run.fork((1, 2, len as usize + 1));
    run.write(&all(len + 1));
    run.write(&[(0, len)]);
    run.look(&all(len + 1));
    if !ring {
        // Back into what is shared, of which the first page is written over by the one whose it was.
        run.write(&[(0, 3), (0, 4), (2, 2)]);
        run.look(&[(0, 4), (1, 4), (2, 4), (0, len + 1), (1, len + 1), (2, len + 1)]);
        run.fork((2, 0, 5));
        run.fork((1, 1, len as usize));
        run.write(&[(0, 5)]);
        run.look(&[(0, 5), (1, len + 1), (2, len + 1)]);
        // What is put back is not put into what others see.
        run.fork((2, 1, len as usize + 1));
        assert!(run.restore((0, 1, 6)), "there is room for all");
        run.look(&[(0, 5), (1, 5), (2, 5), (1, len), (2, len)]);
    }
    run.out
}
