//! Sequences that are promised more pages than there are: they grow, are forgotten, forked, written over and put back in an
//! order that is drawn.

use candor_ops::{KvFormat, KvPlan, LayerCache, Mask, PAGE, Prefix, Prims};

use super::Random;
use super::attention::{Case, long};
use super::forks::Run;

/// A cache that is promised to `sequences` sequences of `case.lengths[0]` positions and has `pages` pages.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Heads, formats and positions.
    pub case: Case,
    /// Sequences.
    pub sequences: usize,
    /// Pages for all of them.
    pub pages: usize,
    /// What happens.
    pub steps: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Pooled {
    /// Whether there was room, and how many pages are taken and there are, after each step.
    pub answers: Vec<(bool, (usize, usize))>,
    /// What rows saw.
    pub seen: Vec<f32>,
}

/// Pools of a few pages and of one that is too small for one sequence, in every format; and of all that is promised.
pub fn cases() -> [Pool; 5] {
    let case = |format, len, steps| {
        let case = Case { lengths: [len, 0], ..long((2, 1, 32, 32), format) };
        move |sequences, pages| Pool { case: Case { seed: pages as u64, ..case }, sequences, pages, steps }
    };
    let (single, half) = ((KvFormat::F32, KvFormat::F32), (KvFormat::F16, KvFormat::F16));
    [
        case(single, 700, 60)(3, 4),
        case(half, 1000, 60)(4, 9),
        case((KvFormat::Q8_0, KvFormat::Q4_0), 520, 40)(2, 3),
        case(half, 700, 30)(1, 2),
        case(single, 300, 30)(2, 4),
    ]
}

impl Pool {
    fn run<'a, B: Prims>(&self, ops: &'a mut B) -> Run<'a, B> {
        let Case { heads, format: (keys, values), lengths: [context, _], seed } = self.case;
        let layers = vec![LayerCache::attention(heads.kv_heads, heads.key_dim, heads.value_dim); 2];
        // No multiple of a page: it counts as one more.
        let pool = Some(self.pages * PAGE - 7);
        let kv = ops.kv(&KvPlan { layers, context, step: context, sequences: self.sequences, pool, keys, values });
        Run { ops, kv, case: self.case, mask: Mask::Causal, random: Random(seed), out: Vec::new() }
    }
}

/// Has sequences come and go.
///
/// # Panics
/// If pages are lost, or the pool is always large enough though it has less than is promised.
pub fn pooled<B: Prims>(ops: &mut B, pool: &Pool) -> Pooled {
    let Pool { case, sequences, pages, steps } = *pool;
    let context = case.lengths[0];
    let (mut run, mut random) = (pool.run(ops), Random(case.seed));
    let (mut lengths, mut answers) = (vec![0; sequences], Vec::new());
    for _ in 0..steps {
        let (sequence, other) = (random.below(sequences), random.below(sequences));
        let len = lengths[sequence];
        let (at, count) = (random.below(len + 1), 1 + random.below(400));
        let places = |positions: std::ops::Range<usize>| -> Vec<(u32, u32)> {
            positions.map(|position| (sequence as u32, position as u32)).collect()
        };
        let has_room = match random.below(8) {
            0 => {
                run.fork((sequence, other, len));
                lengths[other] = len;
                true
            }
            1 => {
                run.stored().release(sequence, at);
                lengths[sequence] = at;
                true
            }
            2 => {
                let has_room = run.restore((sequence, other, at));
                if has_room {
                    lengths[other] = lengths[other].max(at);
                }
                has_room
            }
            // Over what others may still have.
            3 => {
                let positions = at..len.min(at + 20);
                let has_room = run.stored().reserve(sequence, positions.clone()).expect("the device works");
                if has_room {
                    run.write(&places(positions));
                }
                has_room
            }
            _ => {
                let positions = len..context.min(len + count);
                let has_room = run.stored().reserve(sequence, positions.clone()).expect("the device works");
                if has_room {
                    lengths[sequence] = positions.end;
                    run.write(&places(positions));
                }
                has_room
            }
        };
        answers.push((has_room, run.stored().pages()));
        let ends = lengths.iter().enumerate().filter(|(_, len)| **len > 0);
        run.look(&ends.map(|(sequence, len)| (sequence as u32, *len as u32 - 1)).collect::<Vec<_>>());
    }
    (0..sequences).for_each(|sequence| run.stored().release(sequence, 0));
    assert_eq!(run.stored().pages(), (0, pages), "pages were lost");
    let is_scarce = pages < sequences * context.div_ceil(PAGE);
    assert_eq!(answers.iter().any(|(has_room, _)| !has_room), is_scarce, "{answers:?}");
    Pooled { answers, seen: run.out }
}

/// Writes to a position for which there is no page, though nobody said that there is; what the others see then, and before.
pub fn full<B: Prims>(ops: &mut B) -> [Vec<f32>; 2] {
    let pool = Pool { sequences: 2, pages: 1, ..cases()[0] };
    let mut run = pool.run(ops);
    run.write(&[(0, 0), (0, 1)]);
    let random = run.random.0;
    [false, true].map(|is_after| {
        if is_after {
            run.write(&[(1, 0), (1, 1)]);
        }
        // The same queries.
        run.random = Random(random);
        run.look(&[(0, 1)]);
        std::mem::take(&mut run.out)
    })
}

/// A pool of which no layer takes pages does not run out: states are taken out and put into another sequence.
///
/// # Panics
/// If they take pages, or something fails.
pub fn states<B: Prims>(ops: &mut B) {
    let layer = LayerCache { states: [3, 0, 5], ..LayerCache::default() };
    let (keys, values) = (KvFormat::F16, KvFormat::F16);
    let plan = KvPlan { layers: vec![layer; 2], context: 300, step: 1, sequences: 3, pool: Some(0), keys, values };
    let mut kv = ops.kv(&plan);
    let stored = ops.stored(&mut kv).expect("the backend lets its cache out");
    let numbers: Vec<u8> = (0..8).flat_map(|number| (number as f32).to_le_bytes()).collect();
    stored.load(&numbers, Prefix { layer: 1, sequence: 0, positions: 299 }).expect("it is as long");
    stored.fork(0, 2, 299).expect("the device works");
    let mut bytes = Vec::new();
    stored.save(&mut bytes, Prefix { layer: 1, sequence: 2, positions: 299 }).expect("the device works");
    assert_eq!((bytes, stored.pages()), (numbers, (0, 6)));
    assert!(stored.reserve(1, 0..300).expect("the device works"), "there is room for all");
}
