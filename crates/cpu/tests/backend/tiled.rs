//! Attention of prompts by kernels for many queries: those that this machine has, and some that are made up for these
//! tests, which round nothing and have sums of their own, so that their bits tell them from the row kernels.

use std::ops::Range;
use std::sync::LazyLock;

use candor_cpu::{Batching, Cpu, CpuOptions};
use candor_kernels::{
    AttentionKernels, BLOCK, BlockKernels, BlockProducts, GROUP, Kernels, Line, PAIR, PANEL, Queries, Softmax,
    WEIGHT_LINES,
};
use candor_ops::{Attention, Heads, KvFormat, KvPlan, LayerCache, Mask, Prims, Reference, Step};
use candor_quant::Format;
use candor_testing::backend::attention::{Case, Rows, Rules, attended, cases, long, ruled, rules};
use candor_testing::backend::{Random, bits, decoding, read, upload};
use candor_testing::nmse;

/// The scalar table with blocks for F16, Q8_0 and Q4_0.
static TABLE: LazyLock<Kernels> = LazyLock::new(|| {
    let Kernels { f32, mat, probe, batch, exact, .. } = *Kernels::scalar();
    Kernels { name: "made up", f32, mat, attention, batch, probe, exact }
});

/// A step's numbers: 32 by 32 floats in the lines of two halves.
const STEP: usize = 1024;

fn attention(format: Format) -> Option<AttentionKernels> {
    let kernels = (Kernels::scalar().attention)(format)?;
    let block = match format {
        Format::F16 => Some(BlockKernels {
            pack_keys: |packed, dim, pairs, panels| pack_keys(packed, dim, (pairs, panels), Format::F16),
            pack_values: |packed, width, positions, rows| pack_values(packed, width, (positions, rows), Format::F16),
            products: &PRODUCTS,
        }),
        Format::Q8_0 => Some(BlockKernels {
            pack_keys: |packed, dim, pairs, panels| pack_keys(packed, dim, (pairs, panels), Format::Q8_0),
            pack_values: |packed, width, positions, rows| pack_values(packed, width, (positions, rows), Format::Q8_0),
            products: &PRODUCTS,
        }),
        Format::Q4_0 => Some(BlockKernels {
            pack_keys: |packed, dim, pairs, panels| pack_keys(packed, dim, (pairs, panels), Format::Q4_0),
            pack_values: |packed, width, positions, rows| pack_values(packed, width, (positions, rows), Format::Q4_0),
            products: &PRODUCTS,
        }),
        _ => None,
    };
    Some(AttentionKernels { block, ..kernels })
}

static PRODUCTS: BlockProducts = BlockProducts { pack_queries, scores, softmax, mix };

/// `[group][step][query][dimension]`
fn pack_queries(packed: &mut [Line], Queries { dim, values }: Queries<'_>) {
    let packed = Line::floats_mut(packed);
    packed.fill(0.0);
    for (q, query) in values.chunks(dim).enumerate() {
        for (e, &x) in query.iter().enumerate() {
            packed[(q / GROUP * dim.div_ceil(32) + e / 32) * STEP + q % GROUP * 32 + e % 32] = x;
        }
    }
}

/// `[pair][step][position][dimension]`
fn pack_keys(packed: &mut [Line], dim: usize, (pairs, panels): (Range<usize>, &[u8]), format: Format) {
    let kernels = (Kernels::scalar().attention)(format).expect("a format of the cache");
    let (size, steps) = (kernels.panel_bytes(dim).expect("whole blocks"), dim.div_ceil(32));
    let (mut bytes, mut key) = (vec![0; size / PANEL], vec![0.0; dim]);
    assert_eq!(panels.len(), pairs.len() * 2 * size);
    let packed = &mut Line::floats_mut(packed)[pairs.start * steps * STEP..];
    for p in 0..pairs.len() * PAIR {
        kernels.take_key(&mut bytes, &panels[p / PANEL * size..][..size], p % PANEL);
        format.decode(&bytes, &mut key);
        for (e, &x) in key.iter().enumerate() {
            packed[(p / PAIR * steps + e / 32) * STEP + p % PAIR * 32 + e % 32] = x;
        }
    }
}

/// `[step][pair][position][dimension]`
fn pack_values(packed: &mut [Line], width: usize, (positions, rows): (Range<usize>, &[u8]), format: Format) -> bool {
    let size = format.row_bytes(width).expect("whole blocks");
    let (packed, mut finite) = (Line::floats_mut(packed), true);
    assert_eq!(rows.len(), positions.len() * size);
    for p in positions.start / PAIR * PAIR..positions.end.next_multiple_of(PAIR) {
        let mut value = vec![0.0; width.next_multiple_of(32)];
        if positions.contains(&p) {
            format.decode(&rows[(p - positions.start) * size..][..size], &mut value[..width]);
        }
        for (e, &x) in value.iter().enumerate() {
            finite &= x.is_finite();
            packed[(e / 32 * BLOCK + p) * 32 + e % 32] = if x.is_finite() { x } else { 0.0 };
        }
    }
    finite
}

fn scores(out: &mut [f32], queries: &[Line], keys: &[Line], pairs: Range<usize>) {
    let (queries, keys) = (Line::floats(queries), Line::floats(keys));
    for (q, p) in (0..GROUP).flat_map(|q| (pairs.start * PAIR..pairs.end * PAIR).map(move |p| (q, p))) {
        let keys = &keys[p / PAIR * queries.len()..];
        let term = |i: usize| queries[i / 32 * STEP + q * 32 + i % 32] * keys[i / 32 * STEP + p % PAIR * 32 + i % 32];
        out[q * BLOCK + p] = (0..queries.len() / 32).rev().map(term).sum();
    }
}

/// `[pair][query][position]`
fn softmax(weights: &mut [Line], scores: &[f32], seen: &[Range<usize>], pairs: Range<usize>) -> Softmax {
    let (weights, mut all) = (Line::floats_mut(weights), [(f32::NEG_INFINITY, 0.0); GROUP]);
    for (q, result) in all.iter_mut().enumerate() {
        let (row, seen) = (&scores[q * BLOCK..][..BLOCK], seen.get(q).cloned().unwrap_or_default());
        let max = row[seen.clone()].iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let base = if max == f32::NEG_INFINITY { 0.0 } else { max };
        let weight = |p: usize| if seen.contains(&p) { (row[p] - base).exp() } else { 0.0 };
        for p in pairs.start * PAIR..pairs.end * PAIR {
            weights[p / PAIR * STEP + q * 32 + p % PAIR] = weight(p);
        }
        *result = (max, seen.clone().map(weight).sum());
    }
    all
}

fn mix(out: &mut [f32], weights: &[Line], values: &[Line], pairs: Range<usize>) {
    assert_eq!(weights.len(), WEIGHT_LINES);
    let (weights, values, width) = (Line::floats(weights), Line::floats(values), out.len() / GROUP);
    for (i, out) in out.iter_mut().enumerate() {
        let (q, e) = (i / width, i % width);
        let term = |p: usize| weights[p / PAIR * STEP + q * 32 + p % PAIR] * values[(e / 32 * BLOCK + p) * 32 + e % 32];
        *out = (pairs.start * PAIR..pairs.end * PAIR).map(term).fold(0.0, |sum, term| sum + term);
    }
}

fn cpu(kernels: &'static Kernels, threads: usize, batching: Batching) -> Cpu {
    Cpu::new(CpuOptions { threads, kernels, batching, ..CpuOptions::default() })
}

/// The tables that have such kernels.
fn tables() -> impl Iterator<Item = &'static Kernels> {
    let has = |table: &&Kernels| (table.attention)(Format::F16).is_some_and(|kernels| kernels.block.is_some());
    std::iter::once(&*TABLE).chain(Kernels::available().filter(has))
}

const CACHES: [KvFormat; 3] = [KvFormat::F16, KvFormat::Q8_0, KvFormat::Q4_0];

/// A prompt is near the reference and has the same bits with any number of threads and in steps of any size.
fn check(case: &Case, rules: &Rules, chunks: &[usize]) {
    let want = ruled(&mut Reference, (case, rules), |_| 1000, |_| ());
    for table in tables() {
        let name = format!("{}, {case:?}, {rules:?}", table.name);
        let run =
            |threads, batching, chunk| ruled(&mut cpu(table, threads, batching), (case, rules), |_| chunk, |_| ());
        let got = run(1, Batching::ByRole, 1000);
        let error = nmse(&got, &want);
        assert!(error < 1e-9, "{name}: {error:e}");
        assert_ne!(bits(&got), bits(&run(1, Batching::Invariant, 1000)), "{name}: by the row kernels");
        for threads in [2, 5] {
            assert_eq!(bits(&run(threads, Batching::ByRole, 1000)), bits(&got), "{name}: {threads} threads");
        }
        for &chunk in chunks.iter().filter(|_| !rules.mask.is_both()) {
            assert_eq!(bits(&run(2, Batching::ByRole, chunk)), bits(&got), "{name}: {chunk} at a time");
        }
    }
}

#[test]
fn a_prompt_is_the_reference_however_it_is_fed() {
    let heads = [(4, 4, 32, 64), (8, 2, 64, 64), (7, 1, 96, 32), (3, 3, 128, 128), (2, 1, 256, 96)];
    for (i, heads) in heads.into_iter().enumerate() {
        let case =
            Case { lengths: [[300, 40], [130, 0]][i % 2], ..long(heads, (CACHES[i % 3], CACHES[(i + i / 3) % 3])) };
        check(&case, &Rules::default(), &[1, 7, 64]);
    }
    for heads in [(6, 3, 33, 20), (40, 1, 16, 16), (1, 1, 2, 2)] {
        check(&Case { lengths: [40, 9], ..long(heads, (CACHES[0], CACHES[0])) }, &Rules::default(), &[1, 7]);
    }
}

#[test]
fn every_rule_is_the_reference_however_it_is_fed() {
    for (i, rules) in rules().iter().enumerate().filter(|(_, rules)| rules.mask != Mask::Window(1)) {
        let heads = [(4, 2, 32, 64), (7, 1, 64, 32), (3, 3, 32, 32)][i % 3];
        let case = Case { lengths: [280, 40], ..long(heads, (CACHES[i % 3], CACHES[(i + 1) % 3])) };
        check(&case, rules, &[51]);
    }
}

#[test]
fn a_long_prompt_is_the_same_in_a_ring() {
    let whole = Rules { mask: Mask::Window(290), ..Rules::default() };
    let case = Case { lengths: [1100, 0], ..long((4, 2, 32, 32), (KvFormat::F16, KvFormat::Q8_0)) };
    for table in tables() {
        let run = |rules: &Rules| ruled(&mut cpu(table, 2, Batching::ByRole), (&case, rules), |_| 100, |_| ());
        assert_eq!(bits(&run(&whole)), bits(&run(&Rules { ring: true, ..whole })), "{}", table.name);
    }
}

#[test]
fn what_else_there_is_takes_the_row_kernels() {
    let run = |table, batching, case: &Case| attended(&mut cpu(table, 2, batching), case, 51);
    for table in tables() {
        for (keys, values) in [(KvFormat::F32, KvFormat::F16), (KvFormat::Q8_0, KvFormat::F32)] {
            let case = Case { lengths: [130, 9], ..long((4, 2, 32, 32), (keys, values)) };
            let rows = bits(&run(table, Batching::Invariant, &case));
            assert_eq!(bits(&run(table, Batching::ByRole, &case)), rows, "{}, {case:?}", table.name);
        }
        let case = Case { lengths: [128, 0], ..long((4, 2, 32, 32), (KvFormat::F16, KvFormat::F16)) };
        let [rows, tiled] = [Batching::Invariant, Batching::ByRole].map(|batching| bits(&run(table, batching, &case)));
        assert_eq!(bits(&decoding(|| run(table, Batching::ByRole, &case))), rows, "{}: rows that decode", table.name);
        // 32 query heads at least, of two for each row that share keys.
        let fastest = |chunk| bits(&attended(&mut cpu(table, 1, Batching::Fastest), &case, chunk));
        assert_eq!(fastest(15), rows, "{}: few rows", table.name);
        assert_eq!(fastest(16), tiled, "{}: many rows", table.name);
    }
}

/// Rows of two prompts and rows that decode share a step: each has the bits that it has alone.
#[test]
fn a_row_has_the_kernels_of_its_role() {
    let heads = Heads { heads: 6, kv_heads: 2, key_dim: 32, value_dim: 64, scale: 0.2 };
    let (len, half) = (300, KvFormat::F16);
    let plan = KvPlan {
        layers: vec![LayerCache::attention(2, 32, 64)],
        context: len,
        step: len,
        sequences: 3,
        pool: None,
        keys: half,
        values: half,
    };
    let mut random = Random(3);
    let [k, v] = [2 * 32, 2 * 64].map(|width| random.floats(3 * len * width));
    let queries = random.floats(3 * len * 6 * 32);
    // Sequence and position of each row.
    let prompts: Vec<(usize, usize)> = (0..70).map(|p| (0, p)).chain((199..299).map(|p| (2, p))).collect();
    let decode = [(2, 299), (1, 299), (0, 70), (0, 71), (0, 72)];
    for table in tables() {
        let run = |threads, rows: &[(usize, usize)], decoding| {
            let mut ops = cpu(table, threads, Batching::ByRole);
            let mut kv = ops.kv(&plan);
            let (k, v) = (upload(&mut ops, 64, &k), upload(&mut ops, 128, &v));
            let positions: Vec<u32> = (0..3 * len).map(|row| (row % len) as u32).collect();
            let sequences: Vec<u32> = (0..3 * len).map(|row| (row / len) as u32).collect();
            ops.kv_write(&mut kv, 0, &k, &v, &Step { positions: &positions, sequences: &sequences, ..Step::default() });
            let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
            let sequences: Vec<u32> = rows.iter().map(|row| row.0 as u32).collect();
            let tokens = vec![0; rows.len()];
            let step = Step { tokens: &tokens, positions: &positions, sequences: &sequences, outputs: &[], decoding };
            let drawn = rows.iter().flat_map(|(s, p)| &queries[(s * len + p) * 192..][..192]).copied();
            let (mut q, mut out) = (ops.buffer(rows.len(), 192), ops.buffer(rows.len(), 384));
            ops.upload(&mut q, &drawn.collect::<Vec<f32>>(), &step);
            ops.attend(&mut out, &q, &kv, 0, Attention::causal(heads), &step);
            read(&mut ops, &out)
        };
        let all: Vec<(usize, usize)> = prompts.iter().chain(&decode).copied().collect();
        for threads in [1, 2, 7] {
            let together = run(threads, &all, decode.len());
            for (i, row) in all.iter().enumerate() {
                let alone = run(1, &[*row], usize::from(i >= prompts.len()));
                let case = format!("{}, {threads} threads, row {row:?}", table.name);
                assert_eq!(bits(&together[i * 384..][..384]), bits(&alone), "{case}");
            }
        }
        let row = [(1, 299)];
        assert_ne!(bits(&run(1, &row, 0)), bits(&run(1, &row, 1)), "{}: roles differ", table.name);
    }
}

#[test]
fn what_is_no_number_spoils_the_rows_that_see_it_alone() {
    let case = Case { lengths: [400, 0], ..long((4, 2, 16, 16), (KvFormat::F16, KvFormat::F16)) };
    for mask in [Mask::Causal, Mask::Window(30), Mask::Window(290), Mask::Chunk(50), Mask::Around(9)] {
        let rules = Rules { mask, ..Rules::default() };
        for table in tables() {
            let run = |batching, change: &dyn Fn(&mut Rows)| {
                ruled(&mut cpu(table, 2, batching), (&case, &rules), |_| 1000, |rows| change(rows))
            };
            let good = run(Batching::ByRole, &|_| ());
            for (at, bad) in
                [(0, f32::NAN), (3, f32::INFINITY), (255, f32::NAN), (256, f32::NEG_INFINITY), (300, f32::NAN)]
            {
                let key = run(Batching::ByRole, &|rows| rows.k[at * 32 + 5] = bad);
                let [value, by_rows] = [Batching::ByRole, Batching::Invariant]
                    .map(|batching| run(batching, &|rows| rows.v[at * 32 + 5] = bad));
                for row in 0..400 {
                    let part = |all: &[f32]| bits(&all[row * 64..][..64]);
                    let [good, key, value, by_rows] = [&good, &key, &value, &by_rows].map(|all| part(all));
                    let case = format!("{}, {mask:?}, {bad} at {at}, row {row}", table.name);
                    let sees = mask.seen(row, 400).contains(&at);
                    assert!(sees || key[..32] == good[..32], "{case}: key");
                    // The first two heads share it; elements beside it stay.
                    for (e, (value, good)) in value.iter().zip(&good).enumerate() {
                        let spoilt = sees && [5, 21].contains(&e);
                        assert_eq!(value == good, !spoilt, "{case}: value, element {e}");
                        let [value, want] = [*value, by_rows[e]].map(f32::from_bits);
                        assert_eq!(value.is_finite(), !spoilt, "{case}: value, element {e}");
                        let same = value == want || value.is_nan() && want.is_nan();
                        assert!(!spoilt || same, "{case}: value, element {e} is {value}, not {want}");
                    }
                    assert!(key[32..] == good[32..], "{case}: other heads");
                    assert!(!bad.is_nan() || !sees || key[..32].iter().all(|x| f32::from_bits(*x).is_nan()), "{case}");
                }
            }
        }
    }
}

#[test]
fn scores_that_overflow_downwards_weigh_nothing() {
    let case = long((4, 2, 16, 16), (KvFormat::F16, KvFormat::F16));
    // The first block, and some positions after it, have scores of minus infinity.
    let change = |rows: &mut Rows| {
        rows.q.fill(1e35);
        rows.k[..300 * 32].fill(-6e4);
        rows.k[300 * 32..].fill(0.0);
    };
    let want = ruled(&mut Reference, (&case, &Rules::default()), |_| 1000, change);
    for table in tables() {
        let got = ruled(&mut cpu(table, 2, Batching::ByRole), (&case, &Rules::default()), |_| 1000, change);
        assert!(got[..300 * 64].iter().all(|x| x.is_nan()), "{}", table.name);
        let error = nmse(&got[300 * 64..700 * 64], &want[300 * 64..700 * 64]);
        assert!(error < 1e-10, "{}: {error}", table.name);
    }
}

/// All the shapes of other tests.
#[test]
fn every_case_is_near_the_reference() {
    for case in cases() {
        let want = attended(&mut Reference, &case, 1000);
        for table in tables() {
            let error = nmse(&attended(&mut cpu(table, 2, Batching::ByRole), &case, 1000), &want);
            assert!(error < 1e-10, "{}, {case:?}: {error:e}", table.name);
        }
    }
}
