//! Attention of a block of positions on tiles: each step against f64, and a query as it is alone.

use std::ops::Range;

use candor_kernels::{
    AttentionKernels, BLOCK, BlockKernels, GROUP, Line, PAIR, PANEL, Queries, Softmax, WEIGHT_LINES, key_lines, mixed,
    padded, query_lines, value_lines,
};
use candor_quant::Format;

use crate::amx::amx;
use crate::random::Random;

const FORMATS: [Format; 3] = [Format::F16, Format::Q8_0, Format::Q4_0];
const DIMS: [usize; 11] = [1, 16, 20, 32, 33, 64, 80, 96, 128, 160, 256];
/// What rooms hold before: no number, as halves too.
const MARK: Line = Line([0x7fc1_7fc1; 16]);

fn floats(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.signed()).collect()
}

/// What numbers become in the cache.
fn rounded(format: Format, dim: usize, x: &[f32]) -> Vec<f32> {
    let mut bytes = vec![0; format.row_bytes(dim).unwrap()];
    let mut out = vec![0.0; x.len()];
    for (x, out) in x.chunks(dim).zip(out.chunks_mut(dim)) {
        format.encode(x, &mut bytes).unwrap();
        format.decode(&bytes, out);
    }
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Calls `test` with every format and dimension that it takes.
fn each(mut test: impl FnMut(&AttentionKernels, &BlockKernels, usize, &mut Random, &str)) {
    let Some(amx) = amx() else { return };
    let table = amx.kernels();
    assert!((table.attention)(Format::F32).unwrap().block.is_none(), "F32 keeps all bits");
    for format in FORMATS {
        let kernels = (table.attention)(format).unwrap();
        let block = kernels.block.expect("a format with halves");
        for dim in DIMS.into_iter().filter(|&dim| kernels.panel_bytes(dim).is_some()) {
            test(&kernels, &block, dim, &mut Random::new(dim as u64), &format!("{format}, dim {dim}"));
        }
    }
}

/// Packs a block's keys from pair `first` on, whole pairs.
fn pack_keys(kernels: &AttentionKernels, dim: usize, keys: &[f32], first: usize) -> Vec<Line> {
    let size = kernels.panel_bytes(dim).unwrap();
    let mut panels = vec![0; keys.len() / dim / PANEL * size];
    for (p, key) in keys.chunks(dim).enumerate() {
        (kernels.put_key)(&mut panels[p / PANEL * size..][..size], p % PANEL, key);
    }
    let mut packed = vec![MARK; key_lines(dim)];
    (kernels.block.unwrap().pack_keys)(&mut packed, dim, first..first + keys.len() / dim / PAIR, &panels);
    packed
}

/// Packs a block's values of some positions, and whether all are finite.
fn pack_values(kernels: &AttentionKernels, dim: usize, values: &[f32], positions: Range<usize>) -> (Vec<Line>, bool) {
    let size = kernels.row_bytes(dim).unwrap();
    let mut rows = vec![0; positions.len() * size];
    for (row, value) in rows.chunks_mut(size).zip(values[positions.start * dim..].chunks(dim)) {
        (kernels.put_value)(row, value);
    }
    let mut packed = vec![MARK; value_lines(padded(dim))];
    let finite = (kernels.block.unwrap().pack_values)(&mut packed, padded(dim), positions, &rows);
    (packed, finite)
}

fn scores(block: &BlockKernels, dim: usize, queries: &[f32], keys: &[Line], pairs: Range<usize>) -> Vec<f32> {
    let mut packed = vec![MARK; (queries.len() / dim).div_ceil(GROUP) * query_lines(dim)];
    (block.products.pack_queries)(&mut packed, Queries { dim, values: queries });
    let mut out = vec![f32::NAN; GROUP * BLOCK];
    (block.products.scores)(&mut out, &packed[..query_lines(dim)], keys, pairs);
    out
}

fn softmax(block: &BlockKernels, scores: &[f32], seen: &[Range<usize>], pairs: Range<usize>) -> (Vec<Line>, Softmax) {
    let mut weights = vec![MARK; WEIGHT_LINES];
    let result = (block.products.softmax)(&mut weights, scores, seen, pairs);
    (weights, result)
}

fn mix(block: &BlockKernels, width: usize, weights: &[Line], values: &[Line], pairs: Range<usize>) -> Vec<f32> {
    let mut out = vec![f32::NAN; GROUP * mixed(width)];
    (block.products.mix)(&mut out, weights, values, pairs);
    out
}

/// A weight as its two halves have it.
fn weight(weights: &[Line], q: usize, p: usize) -> f32 {
    let half = |line: usize| {
        let dword = weights[p / PAIR * 64 + line].0[p % PANEL];
        f32::from_bits(dword >> (p % PAIR / PANEL * 16) << 16)
    };
    half(q) + half(GROUP + q)
}

/// Largest error of a product of numbers in two halves, whose terms' magnitudes add up to `size`. A number is off by
/// 2^-17, the product of the small halves, 2^-8 of their numbers, is left out: 2^-16. F16 has no more than 16 bits. A term
/// passes at most 16 fused sums of its lane, the lanes' sum and three sums for each 32 terms.
fn bound(format: Format, terms: usize, size: f64) -> f64 {
    let numbers = if format == Format::F16 { 1.0 } else { 2.0 };
    let roundings = (17 + 3 * terms.div_ceil(32)) as f64;
    size * (numbers * 2f64.powi(-17) + 2f64.powi(-16) + roundings * 2f64.powi(-24) * 1.01) + 2f64.powi(-110)
}

#[test]
fn scores_are_products_of_queries_and_keys() {
    each(|kernels, block, dim, random, case| {
        for (queries, pairs) in [(1, 0..1), (17, 7..8), (32, 0..8), (31, 2..5)] {
            let (q, keys) = (floats(random, queries * dim), floats(random, pairs.len() * PAIR * dim));
            let exact = rounded(kernels.format, dim, &keys);
            let packed = pack_keys(kernels, dim, &keys, pairs.start);
            let out = scores(block, dim, &q, &packed, pairs.clone());
            for (i, row) in out.chunks(BLOCK).enumerate() {
                for (p, &got) in row.iter().enumerate() {
                    if !pairs.contains(&(p / PAIR)) {
                        assert!(got.is_nan(), "{case}: wrote past the pairs, at {p}");
                        continue;
                    }
                    let key = &exact[(p - pairs.start * PAIR) * dim..][..dim];
                    let query = q.get(i * dim..).and_then(|q| q.get(..dim)).unwrap_or_default();
                    let terms = || query.iter().zip(key).map(|(&a, &b)| f64::from(a) * f64::from(b));
                    let (sum, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum());
                    let bound = bound(kernels.format, dim, size);
                    assert!(
                        (f64::from(got) - sum).abs() <= bound,
                        "{case}, query {i}, {p}: {got}, not {sum} +- {bound}"
                    );
                }
            }
        }
    });
}

#[test]
fn weights_are_exponentials_of_what_is_seen() {
    let Some(amx) = amx() else { return };
    let block = (amx.kernels().attention)(Format::F16).unwrap().block.unwrap();
    let mut random = Random::new(1);
    let mut all: Vec<f32> = floats(&mut random, GROUP * BLOCK).iter().map(|x| x * 20.0).collect();
    all[5 * BLOCK + 40] = f32::NEG_INFINITY;
    all[6 * BLOCK..7 * BLOCK].fill(f32::NEG_INFINITY);
    all[7 * BLOCK + 50] = 500.0;
    let range = |random: &mut Random| {
        let (a, b) = (random.bits() as usize % 161, random.bits() as usize % 161);
        32 + a.min(b)..32 + a.max(b)
    };
    let mut seen: Vec<Range<usize>> = (0..30).map(|_| range(&mut random)).collect();
    seen[3] = 0..0;
    seen[5..8].fill(32..192);
    // What is not seen is not looked at.
    let mut hidden = all.clone();
    for (q, row) in hidden.chunks_mut(BLOCK).enumerate() {
        let seen = seen.get(q).cloned().unwrap_or_default();
        row.iter_mut().enumerate().filter(|(p, _)| !seen.contains(p)).for_each(|(_, score)| *score = f32::NAN);
    }
    for scores in [&all, &hidden] {
        let (weights, softmax) = self::softmax(&block, scores, &seen, 1..6);
        for q in 0..GROUP {
            let seen = seen.get(q).cloned().unwrap_or_default();
            let row = &all[q * BLOCK..][..BLOCK];
            let max = row[seen.clone()].iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let base = if max == f32::NEG_INFINITY { 0.0 } else { max };
            assert_eq!(softmax[q].0, max, "query {q}");
            let mut sum = 0.0;
            for (p, &score) in row.iter().enumerate().take(192).skip(32) {
                let less = f64::from(score) - f64::from(base);
                let want = if seen.contains(&p) && max > f32::NEG_INFINITY { less.max(-87.0).exp() } else { 0.0 };
                let got = f64::from(weight(&weights, q, p));
                // Scores less the largest round once; a small half below the normal range has fewer bits.
                let bound = want * (2f64.powi(-17) + 3e-7 + less.abs().min(100.0) * 6e-8) + 2f64.powi(-133);
                assert!((got - want).abs() <= bound, "query {q}, position {p}: {got}, not {want}");
                sum += want;
            }
            assert!((f64::from(softmax[q].1) - sum).abs() <= sum * 1e-5, "query {q}: {}, not {sum}", softmax[q].1);
        }
    }
    let (_, softmax) = self::softmax(&block, &hidden, &[0..0, 7..8], 0..1);
    assert_eq!(softmax[0], (f32::NEG_INFINITY, 0.0));
    assert!(softmax[1].1.is_nan(), "what is no number spreads");
    let mut some = hidden;
    some[BLOCK + 6] = 1.0;
    let (_, softmax) = self::softmax(&block, &some, &[0..0, 6..8], 0..1);
    assert!(softmax[1].0 == 1.0 && softmax[1].1.is_nan(), "what is no number spreads");
}

#[test]
fn a_mix_is_the_weighted_sum_of_values() {
    each(|kernels, block, dim, random, case| {
        for (positions, pairs) in [(0..256, 0..8), (37..41, 1..2), (95..161, 2..6), (0..32, 0..1)] {
            let (values, all) = (floats(random, BLOCK * dim), floats(random, GROUP * BLOCK));
            let exact = rounded(kernels.format, dim, &values);
            let (packed, finite) = pack_values(kernels, dim, &values, positions.clone());
            assert!(finite, "{case}");
            let seen = vec![positions.clone(); GROUP];
            let (weights, _) = softmax(block, &all, &seen, pairs.clone());
            let out = mix(block, padded(dim), &weights, &packed, pairs.clone());
            for (q, row) in out.chunks(mixed(padded(dim))).enumerate() {
                assert!(row[dim..].iter().all(|&x| x == 0.0), "{case}: past the dimensions");
                for (e, &got) in row[..dim].iter().enumerate() {
                    let terms = || {
                        let term = |p| f64::from(weight(&weights, q, p)) * f64::from(exact[p * dim + e]);
                        positions.clone().map(term)
                    };
                    let (sum, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum());
                    let bound = bound(kernels.format, pairs.len() * PAIR, size);
                    assert!(
                        (f64::from(got) - sum).abs() <= bound,
                        "{case}, query {q}, {e}: {got}, not {sum} +- {bound}"
                    );
                }
            }
        }
    });
}

/// Neither the other queries, nor its place, nor more pairs of panels are in a query's result.
#[test]
fn a_query_is_as_it_is_alone() {
    each(|kernels, block, dim, random, case| {
        let (q, keys) = (floats(random, GROUP * dim), floats(random, BLOCK * dim));
        let keys_packed = pack_keys(kernels, dim, &keys, 0);
        let seen: Vec<Range<usize>> = (0..GROUP).map(|i| i * 3..i * 3 + 1 + i * 5).collect();
        let run = |queries: &[f32], seen: &[Range<usize>], positions: Range<usize>| {
            let pairs = positions.start / PAIR..positions.end.div_ceil(PAIR);
            let scores = scores(block, dim, queries, &keys_packed, pairs.clone());
            let (weights, softmax) = softmax(block, &scores, seen, pairs.clone());
            let (values, _) = pack_values(kernels, dim, &keys, positions);
            (softmax, mix(block, padded(dim), &weights, &values, pairs))
        };
        let (softmax, out) = run(&q, &seen, 0..256);
        let width = mixed(padded(dim));
        for i in 0..GROUP {
            let (alone, row) = run(&q[i * dim..][..dim], &seen[i..i + 1], seen[i].clone());
            assert_eq!(alone[0].0.to_bits(), softmax[i].0.to_bits(), "{case}, query {i}: largest");
            assert_eq!(alone[0].1.to_bits(), softmax[i].1.to_bits(), "{case}, query {i}: sum");
            assert_eq!(bits(&row[..width]), bits(&out[i * width..][..width]), "{case}, query {i}");
        }
    });
}

#[test]
fn values_that_are_no_numbers_are_zero_and_said_to_be_there() {
    each(|kernels, block, dim, random, case| {
        if kernels.format != Format::F16 {
            return;
        }
        let mut values = floats(random, BLOCK * dim);
        let seen = vec![0..200; GROUP];
        let (weights, _) = softmax(block, &floats(random, GROUP * BLOCK), &seen, 0..7);
        let run = |values: &[f32], positions: Range<usize>| {
            let (packed, finite) = pack_values(kernels, dim, values, positions);
            (bits(&mix(block, padded(dim), &weights, &packed, 0..7)), finite)
        };
        for (at, bad) in [(0, f32::NAN), (199, f32::INFINITY), (31, f32::NEG_INFINITY)] {
            let place = at * dim + dim / 2;
            let before = std::mem::replace(&mut values[place], 0.0);
            let (want, _) = run(&values, 0..200);
            values[place] = bad;
            assert_eq!(run(&values, 0..200), (want, false), "{case}: {bad} at {at}");
            values[place] = before;
        }
        values[200 * dim] = f32::NAN;
        assert!(run(&values, 0..200).1, "{case}: what nobody sees is not there");
    });
}
