//! Attention's products: every table against f64, and each query as it is alone.

use candor_kernels::{AttentionKernels, Kernels, OutTile, PANEL, Queries, Weights, padded};
use candor_quant::{Format, half};

#[allow(dead_code, reason = "shared with the tests of other kernels")]
mod cases;

use cases::Random;

const FORMATS: [Format; 4] = [Format::F32, Format::F16, Format::Q8_0, Format::Q4_0];
// Miri takes a thousand times as long: it has smaller shapes of every kind.
const DIMS: &[usize] = if cfg!(miri) { &[1, 20, 32] } else { &[1, 16, 20, 31, 32, 33, 64, 80, 96, 128, 160, 256] };
const QUERIES: &[usize] = if cfg!(miri) { &[1, 5] } else { &[1, 2, 3, 4, 7, 8, 9, 13, 17] };
const POSITIONS: &[usize] = if cfg!(miri) { &[1, 17] } else { &[1, 15, 16, 17, 100, 130, 256] };

fn floats(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.signed()).collect()
}

/// What a number becomes in the cache.
fn rounded(format: Format, x: &[f32]) -> Vec<f32> {
    let mut bytes = vec![0; format.row_bytes(x.len()).unwrap()];
    format.encode(x, &mut bytes).unwrap();
    let mut out = vec![0.0; x.len()];
    format.decode(&bytes, &mut out);
    out
}

/// Bytes one off any alignment.
struct Shifted(Vec<u8>);

impl Shifted {
    fn new(bytes: usize) -> Shifted {
        Shifted(vec![0xa5; bytes + 1])
    }
    fn bytes(&self) -> &[u8] {
        &self.0[1..]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0[1..]
    }
}

/// Panels of `positions` keys; the lanes after the last hold what was there before.
fn panels(kernels: &AttentionKernels, dim: usize, keys: &[f32]) -> Shifted {
    let size = kernels.panel_bytes(dim).unwrap();
    let mut out = Shifted::new((keys.len() / dim).div_ceil(PANEL) * size);
    for (p, key) in keys.chunks(dim).enumerate() {
        (kernels.put_key)(&mut out.bytes_mut()[p / PANEL * size..][..size], p % PANEL, key);
    }
    out
}

fn rows(kernels: &AttentionKernels, dim: usize, values: &[f32]) -> Shifted {
    let size = kernels.row_bytes(dim).unwrap();
    let mut out = Shifted::new(values.len() / dim * size);
    for (row, value) in out.bytes_mut().chunks_mut(size).zip(values.chunks(dim)) {
        (kernels.put_value)(row, value);
    }
    out
}

/// Every table's kernels of every format, with every dimension that it takes.
fn each(mut test: impl FnMut(&AttentionKernels, usize, &mut Random, &str)) {
    for table in Kernels::available() {
        for format in FORMATS {
            let kernels = (table.attention)(format).expect("every table has the formats of the cache");
            for dim in DIMS.iter().copied().filter(|&dim| kernels.panel_bytes(dim).is_some()) {
                test(&kernels, dim, &mut Random::new(dim as u64), &format!("{} {format}, dim {dim}", table.name));
            }
        }
    }
}

#[test]
fn scores_are_products_of_queries_and_keys() {
    each(|kernels, dim, random, case| {
        for (queries, positions) in QUERIES.iter().copied().zip(POSITIONS.iter().copied().cycle()) {
            let (q, keys) = (floats(random, queries * dim), floats(random, positions * dim));
            let exact = rounded_rows(kernels.format, dim, &keys);
            let panels = panels(kernels, dim, &keys);
            let width = positions.next_multiple_of(PANEL);
            let stride = width + 3;
            let mut out = vec![f32::NAN; queries * stride];
            let tile = OutTile { values: &mut out, stride };
            (kernels.scores)(tile, Queries { dim, values: &q }, panels.bytes());
            for (i, query) in q.chunks(dim).enumerate() {
                for (p, key) in exact.chunks(dim).enumerate() {
                    let terms = || query.iter().zip(key).map(|(&a, &b)| f64::from(a) * f64::from(b));
                    let (sum, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                    let got = f64::from(out[i * stride + p]);
                    let bound = size * (dim as f64 + 1.0) * f64::from(f32::EPSILON) / 2.0;
                    assert!((got - sum).abs() <= bound, "{case}, query {i}, position {p}: {got}, not {sum}");
                }
                let mut alone = vec![0.0; width];
                let tile = OutTile { values: &mut alone, stride: width };
                (kernels.scores)(tile, Queries { dim, values: query }, panels.bytes());
                assert_eq!(bits(&alone[..positions]), bits(&out[i * stride..][..positions]), "{case}: query {i} alone");
                assert!(out[i * stride + width..][..3].iter().all(|x| x.is_nan()), "{case}: wrote past the panels");
            }
        }
    });
}

fn rounded_rows(format: Format, dim: usize, x: &[f32]) -> Vec<f32> {
    x.chunks(dim).flat_map(|x| rounded(format, x)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_mix_is_the_weighted_sum_of_values() {
    each(|kernels, dim, random, case| {
        for (queries, positions) in QUERIES.iter().copied().zip(POSITIONS.iter().copied().rev().cycle()) {
            // Queries see different numbers of positions, in no order; some none.
            let counts: Vec<usize> = (0..queries).map(|_| random.bits() as usize % (positions + 1)).collect();
            let stride = positions + 5;
            let (mut weights, values) = (floats(random, queries * stride), floats(random, positions * dim));
            for (q, &count) in counts.iter().enumerate() {
                weights[q * stride + count..(q + 1) * stride].fill(f32::NAN);
            }
            let exact = rounded_rows(kernels.format, dim, &values);
            let rows = rows(kernels, dim, &values);
            let width = padded(dim);
            let start = floats(random, queries * width);
            let mut out = start.clone();
            let mixed = Weights { values: &weights, stride, counts: &counts };
            (kernels.mix)(&mut out, mixed, rows.bytes());
            for (q, &count) in counts.iter().enumerate() {
                for e in 0..dim {
                    let before = f64::from(start[q * width + e]);
                    let terms =
                        || (0..count).map(|p| f64::from(weights[q * stride + p]) * f64::from(exact[p * dim + e]));
                    let (sum, size) =
                        (before + terms().sum::<f64>(), before.abs() + terms().map(f64::abs).sum::<f64>());
                    let got = f64::from(out[q * width + e]);
                    let bound = size * (count as f64 + 1.0) * f64::from(f32::EPSILON) / 2.0;
                    assert!((got - sum).abs() <= bound, "{case}, query {q} of {count}, {e}: {got}, not {sum}");
                }
                let mut alone = start[q * width..][..width].to_vec();
                let weights = &weights[q * stride..][..count];
                (kernels.mix)(&mut alone, Weights { values: weights, stride, counts: &[count] }, rows.bytes());
                assert_eq!(bits(&alone), bits(&out[q * width..][..width]), "{case}: query {q} alone");
            }
        }
    });
}

#[test]
fn positions_that_a_query_does_not_see_are_not_touched() {
    each(|kernels, dim, random, case| {
        let (mut values, q) = (floats(random, 40 * dim), floats(random, 8 * dim));
        let weights = floats(random, 8 * 40);
        let counts = [20, 21, 20, 25, 20, 20, 39, 20];
        let run = |values: &[f32]| {
            let mut out = vec![0.0; 8 * padded(dim)];
            let weights = Weights { values: &weights, stride: 40, counts: &counts };
            (kernels.mix)(&mut out, weights, rows(kernels, dim, values).bytes());
            bits(&out)
        };
        let (before, width) = (run(&values), padded(dim));
        values[39 * dim..].fill(f32::NAN);
        assert_eq!(run(&values), before, "{case}: a position after the last");
        values[20 * dim..].fill(f32::INFINITY);
        let after = run(&values);
        for (i, (after, before)) in after.chunks(width).zip(before.chunks(width)).enumerate() {
            assert_eq!(after == before, counts[i] == 20, "{case}: query {i}");
        }
        // A wrong key spoils its own score alone.
        let mut keys = floats(random, 40 * dim);
        let run = |keys: &[f32]| {
            let mut out = vec![0.0; 8 * 48];
            let tile = OutTile { values: &mut out, stride: 48 };
            (kernels.scores)(tile, Queries { dim, values: &q }, panels(kernels, dim, keys).bytes());
            out
        };
        let before = run(&keys);
        keys[23 * dim] = f32::NAN;
        for (i, (after, before)) in run(&keys).iter().zip(&before).enumerate().filter(|(i, _)| i % 48 < 40) {
            let same = after.to_bits() == before.to_bits();
            assert_eq!((after.is_nan(), same), (i % 48 == 23, i % 48 != 23), "{case}: score {i}");
        }
    });
}

/// So neither a tile's size nor an instruction set is in the result. Dimensions beyond what is widened at once, positions
/// beyond a mix's part. Products are fused, but in WebAssembly, which has no instruction for it.
#[test]
fn every_table_but_the_scalar_one_adds_fused_products_in_order() {
    let each = |table: &Kernels, format: Format, dim: usize, queries: usize| {
        let (kernels, positions) = ((table.attention)(format).unwrap(), 200);
        let case = format!("{} {format}, dim {dim}, {queries} queries", table.name);
        let mut random = Random::new(queries as u64);
        let [x, q] = [positions, queries].map(|rows| floats(&mut random, rows * dim));
        let (exact, width) = (rounded_rows(format, dim, &x), padded(dim));
        let stride = positions.next_multiple_of(PANEL);
        let mut scores = vec![0.0; queries * stride];
        let tile = OutTile { values: &mut scores, stride };
        (kernels.scores)(tile, Queries { dim, values: &q }, panels(&kernels, dim, &x).bytes());
        let fused = |start: f32, terms: &mut dyn Iterator<Item = (f32, f32)>| {
            let wasm = cfg!(target_family = "wasm");
            terms.fold(start, |sum, (a, b)| if wasm { sum + a * b } else { a.mul_add(b, sum) }).to_bits()
        };
        for (scores, query) in scores.chunks(stride).zip(q.chunks(dim)) {
            for (p, (score, key)) in scores.iter().zip(exact.chunks(dim)).enumerate() {
                let terms = &mut query.iter().copied().zip(key.iter().copied());
                assert_eq!(score.to_bits(), fused(0.0, terms), "{case}: position {p}");
            }
        }
        let counts: Vec<usize> = (0..queries).map(|i| positions - i % 5).collect();
        let start = floats(&mut random, queries * width);
        let mut mixes = start.clone();
        let weights = Weights { values: &scores, stride, counts: &counts };
        (kernels.mix)(&mut mixes, weights, rows(&kernels, dim, &x).bytes());
        for (i, &count) in counts.iter().enumerate() {
            for e in 0..dim {
                let at = i * width + e;
                let terms = &mut (0..count).map(|p| (scores[i * stride + p], exact[p * dim + e]));
                assert_eq!(mixes[at].to_bits(), fused(start[at], terms), "{case}: mix of query {i}, {e}");
            }
        }
    };
    // There the scalar table is like the others.
    let all = cfg!(target_family = "wasm");
    for table in Kernels::available().filter(|table| all || table.name != "scalar") {
        for (format, dim) in [(Format::F32, 35), (Format::F16, 145), (Format::Q8_0, 160), (Format::Q4_0, 96)] {
            for queries in [1, 2, 3, 4, 7, 34] {
                each(table, format, dim, queries);
            }
        }
    }
}

#[test]
fn every_table_keeps_the_same_bytes() {
    for format in FORMATS {
        let scalar = (Kernels::scalar().attention)(format).unwrap();
        for table in Kernels::available() {
            let kernels = (table.attention)(format).unwrap();
            let mut random = Random::new(5);
            for &dim in if cfg!(miri) { &[64][..] } else { &[32, 64, 160] } {
                let x = floats(&mut random, 19 * dim);
                let keys = panels(&kernels, dim, &x);
                assert_eq!(keys.bytes(), panels(&scalar, dim, &x).bytes(), "{} {format} keys", table.name);
                assert_eq!(rows(&kernels, dim, &x).bytes(), rows(&scalar, dim, &x).bytes(), "{} {format}", table.name);
            }
        }
    }
}

#[test]
fn q8_0_takes_34_bytes_for_32_numbers_and_whole_blocks_only() {
    for table in Kernels::available() {
        let kernels = (table.attention)(Format::Q8_0).unwrap();
        assert_eq!((kernels.panel_bytes(64), kernels.row_bytes(64)), (Some(16 * 68), Some(68)), "{}", table.name);
        assert_eq!((kernels.panel_bytes(48), kernels.row_bytes(48)), (None, None), "{}", table.name);
        let kernels = (table.attention)(Format::F16).unwrap();
        assert_eq!((kernels.panel_bytes(33), kernels.row_bytes(33)), (Some(16 * 66), Some(96)), "{}", table.name);
        assert!((table.attention)(Format::Q4K).is_none(), "{}", table.name);
    }
}

#[test]
fn halves_are_rounded_to_even_on_their_way_in() {
    for table in Kernels::available() {
        let kernels = (table.attention)(Format::F16).unwrap();
        let x = [2049.0, 2051.0, 1e-8, 65520.0];
        let mut row = [0; 32];
        (kernels.put_value)(&mut row, &x);
        let got = row.as_chunks::<2>().0.iter().map(|&half| half::f16_to_f32(u16::from_le_bytes(half)));
        let got: Vec<f32> = got.take(5).collect();
        assert_eq!(got, [2048.0, 2052.0, 0.0, f32::INFINITY, 0.0], "{}", table.name);
    }
}

/// What is put as floats is taken as the format's own bytes; what is given is where it would have been put.
#[test]
fn keys_come_out_of_panels_as_they_went_in() {
    for kernels in Kernels::available() {
        for format in [Format::F32, Format::F16, Format::Q8_0, Format::Q4_0] {
            let kernels = (kernels.attention)(format).expect("a format of the cache");
            let bytes = format.row_bytes(96).expect("whole blocks");
            let (mut panel, mut copy) = (vec![0; bytes * PANEL], vec![0; bytes * PANEL]);
            for lane in (0..PANEL).rev() {
                let key: Vec<f32> = (0..96).map(|i| ((i * 37 + lane * 11) % 101) as f32 - 50.0).collect();
                let (mut expected, mut got) = (vec![0; bytes], vec![0; bytes]);
                format.encode(&key, &mut expected).expect("it has an encoder");
                (kernels.put_key)(&mut panel, lane, &key);
                kernels.take_key(&mut got, &panel, lane);
                assert!(got == expected, "{}, lane {lane}", format.name());
                kernels.give_key(&mut copy, lane, &got);
                assert!(copy == panel, "{}, lane {lane}", format.name());
            }
        }
    }
}
