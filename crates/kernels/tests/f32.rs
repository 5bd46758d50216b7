//! The loops over floats: every table against f64 definitions, and bit for bit against the scalar table.

use candor_kernels::{F32Kernels, Function, Kernels, KeyScan, Q8RowMut, Scan};
use candor_quant::half;

/// A generator of numbers from a seed that failures print.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }

    fn signed(&mut self) -> f32 {
        (self.bits() & 0xff_ffff) as f32 / (1 << 23) as f32 - 1.0
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.signed()).collect()
    }
}

// Miri takes a thousand times as long.
const LENGTHS: &[usize] = if cfg!(miri) {
    &[0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100]
} else {
    &[0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 257, 2048]
};

/// Runs `test` for every table with inputs of every length, at an odd place in their buffers.
fn each(mut test: impl FnMut(&F32Kernels, &[f32], &[f32], &str)) {
    for table in Kernels::available() {
        for &length in LENGTHS {
            let mut random = Random(length as u64 + 1);
            let (x, y) = (random.floats(length + 1), random.floats(length + 1));
            test(&table.f32, &x[1..], &y[1..], &format!("{} length {length}", table.name));
        }
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn halves(values: &[f32]) -> Vec<u16> {
    values.iter().map(|&value| half::f32_to_f16(value)).collect()
}

/// Asserts that each value is within a relative error of its definition.
fn close(got: &[f32], expected: impl Iterator<Item = f64>, relative: f64, case: &str) {
    for (i, (&got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(got) - expected).abs();
        assert!(
            error <= relative * expected.abs() + f64::from(f32::MIN_POSITIVE),
            "{case} [{i}]: {got}, not {expected}"
        );
    }
}

const EPS: f64 = f32::EPSILON as f64;

#[test]
fn dot_is_the_sum_of_products() {
    each(|f32, x, y, case| {
        let wide = |x: &[f32], y: &[f32]| -> (f64, f64) {
            let terms = x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y));
            terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
        };
        let got = (f32.dot)(x, y);
        let (sum, size) = wide(x, y);
        let bound = (x.len() as f64 / 16.0 + 6.0) * EPS * size;
        assert!((f64::from(got) - sum).abs() <= bound, "{case}: {got}, not {sum} +- {bound}");
        assert_eq!(got.to_bits(), (Kernels::scalar().f32.dot)(x, y).to_bits(), "{case}");

        let h = halves(y);
        let exact: Vec<f32> = h.iter().map(|&h| half::f16_to_f32(h)).collect();
        assert_eq!((f32.dot_f16)(x, &h).to_bits(), (f32.dot)(x, &exact).to_bits(), "{case} f16");
    });
}

#[test]
fn axpy_adds_a_multiple() {
    each(|f32, x, y, case| {
        let (mut got, mut scalar, mut wide) = (x.to_vec(), x.to_vec(), x.to_vec());
        (f32.axpy)(&mut got, 0.3, y);
        close(&got, x.iter().zip(y).map(|(&x, &y)| f64::from(x + 0.3 * y)), 0.0, case);
        (Kernels::scalar().f32.axpy)(&mut scalar, 0.3, y);
        assert_eq!(bits(&got), bits(&scalar), "{case}");

        let h = halves(y);
        let exact: Vec<f32> = h.iter().map(|&h| half::f16_to_f32(h)).collect();
        let mut got = x.to_vec();
        (f32.axpy_f16)(&mut got, -1.7, &h);
        (f32.axpy)(&mut wide, -1.7, &exact);
        assert_eq!(bits(&got), bits(&wide), "{case} f16");
    });
}

#[test]
fn elementwise_loops_do_one_operation() {
    each(|f32, x, y, case| {
        let mut got = x.to_vec();
        (f32.add)(&mut got, y);
        assert_eq!(bits(&got), bits(&x.iter().zip(y).map(|(x, y)| x + y).collect::<Vec<_>>()), "add {case}");
        let mut got = x.to_vec();
        (f32.mul)(&mut got, y);
        assert_eq!(bits(&got), bits(&x.iter().zip(y).map(|(x, y)| x * y).collect::<Vec<_>>()), "mul {case}");
        let mut got = x.to_vec();
        (f32.scale)(&mut got, 0.7);
        assert_eq!(bits(&got), bits(&x.iter().map(|x| x * 0.7).collect::<Vec<_>>()), "scale {case}");
    });
}

#[test]
fn max_is_the_largest_or_negative_infinity() {
    each(|f32, x, _, case| {
        assert_eq!((f32.max)(x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max), "{case}");
        for at in 0..x.len().min(40) {
            let mut x = x.to_vec();
            x[at] = 5.0;
            assert_eq!((f32.max)(&x), 5.0, "{case} at {at}");
        }
    });
}

#[test]
fn softmax_pieces() {
    each(|f32, x, _, case| {
        let x: Vec<f32> = x.iter().map(|x| x * 20.0).collect();
        let max = (f32.max)(&x);
        let mut got = x.clone();
        let sum = (f32.exp_sum)(&mut got, max);
        let expected = || x.iter().map(|&x| f64::from(x - max).exp());
        close(&got, expected(), 2.0 * EPS, case);
        close(&[sum], [expected().sum::<f64>()].into_iter(), (x.len() as f64 / 16.0 + 8.0) * EPS, case);
        let mut scalar = x.clone();
        assert_eq!((Kernels::scalar().f32.exp_sum)(&mut scalar, max).to_bits(), sum.to_bits(), "{case}");
        assert_eq!(bits(&got), bits(&scalar), "{case}");
    });
}

#[test]
fn exponentials_of_any_number_have_the_same_bits() {
    // Eight registers, four, three and a part of one.
    let patterns = (0..u32::MAX).step_by(if cfg!(miri) { 40_000_007 } else { 9973 });
    let numbers: Vec<f32> = patterns.map(f32::from_bits).filter(|x| !x.is_nan()).collect();
    for table in Kernels::available() {
        for row in numbers.chunks(16 * 15 + 7) {
            let (mut got, mut expected) = (row.to_vec(), row.to_vec());
            let sums = [(table.f32.exp_sum)(&mut got, 0.0), (Kernels::scalar().f32.exp_sum)(&mut expected, 0.0)];
            assert_eq!(bits(&got), bits(&expected), "{}: {row:?}", table.name);
            assert_eq!(sums[0].to_bits(), sums[1].to_bits(), "{}: {row:?}", table.name);
        }
    }
}

/// `e^x` of one value.
fn exp(f32: &F32Kernels, x: f32) -> f32 {
    let mut values = [x];
    (f32.exp_sum)(&mut values, 0.0);
    values[0]
}

#[test]
fn exp_is_within_one_and_a_half_units_in_the_last_place() {
    let count = if cfg!(miri) { 100 } else { 400_000 };
    for table in Kernels::available() {
        let mut worst: (f64, f32) = (0.0, 0.0);
        for i in 0..count {
            let x = -87.3 + 176.0 * (i as f32 / count as f32);
            let expected = f64::from(x).exp();
            let got = exp(&table.f32, x);
            if expected > f64::from(f32::MAX) * (1.0 + EPS) {
                assert_eq!(got, f32::INFINITY, "{} exp({x})", table.name);
                continue;
            }
            let unit = EPS * 2f64.powi(expected.log2().floor() as i32);
            let error = (f64::from(got) - expected).abs() / unit;
            worst = if error > worst.0 { (error, x) } else { worst };
        }
        println!("{}: worst error {:.3} at {}", table.name, worst.0, worst.1);
        assert!(worst.0 < 1.5, "{}: {} units at {}", table.name, worst.0, worst.1);
    }
}

#[test]
fn exp_at_the_ends() {
    for table in Kernels::available() {
        let exp = |x| exp(&table.f32, x);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::MIN), 0.0);
        assert_eq!(exp(-1000.0), 0.0);
        assert_eq!(exp(-104.0), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(89.0), f32::INFINITY);
        assert_eq!(exp(f32::MAX), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::from_bits(0xffc1_2345)).is_nan());
        let mut x = -87.4f32;
        while x > -104.0 {
            // Subnormal results: within a unit of the last place there is.
            let error = (f64::from(exp(x)) - f64::from(x).exp()).abs();
            assert!(error <= f64::from(f32::from_bits(1)), "{} exp({x}) off by {error}", table.name);
            x -= 0.01;
        }
    }
}

#[test]
fn nan_scores_spread_through_softmax() {
    for table in Kernels::available() {
        let mut x = [1.0, f32::NAN, 2.0];
        let max = (table.f32.max)(&x);
        assert!((table.f32.exp_sum)(&mut x, max).is_nan(), "{}", table.name);
    }
}

#[test]
fn rms_norm_divides_by_the_root_of_the_mean_square() {
    each(|f32, x, w, case| {
        if x.is_empty() {
            return;
        }
        let mut got = vec![0.0; x.len()];
        (f32.rms_norm)(&mut got, x, w, 1e-5);
        let mean = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / x.len() as f64;
        let expected = x.iter().zip(w).map(|(&x, &w)| f64::from(x) / (mean + 1e-5).sqrt() * f64::from(w));
        close(&got, expected, (x.len() as f64 / 32.0 + 8.0) * EPS, case);
        let mut scalar = vec![0.0; x.len()];
        (Kernels::scalar().f32.rms_norm)(&mut scalar, x, w, 1e-5);
        assert_eq!(bits(&got), bits(&scalar), "{case}");
    });
}

#[test]
fn silu_and_swiglu() {
    each(|f32, x, y, case| {
        let x: Vec<f32> = x.iter().map(|x| x * 30.0).collect();
        let mut gate = x.clone();
        (f32.silu)(&mut gate);
        close(&gate, x.iter().map(|&x| f64::from(x) / (1.0 + f64::from(-x).exp())), 4.0 * EPS, case);
        let mut scalar = x.clone();
        (Kernels::scalar().f32.silu)(&mut scalar);
        assert_eq!(bits(&gate), bits(&scalar), "{case}");

        let mut fused = x.clone();
        (f32.swiglu)(&mut fused, y);
        (f32.mul)(&mut gate, y);
        assert_eq!(bits(&fused), bits(&gate), "{case}: fused and one after the other");
    });
}

#[test]
fn to_f16_rounds_as_the_reference_does() {
    let step = if cfg!(miri) { 0x40_0001 } else { 997 };
    let values: Vec<f32> = (0..=u32::MAX).step_by(step).map(f32::from_bits).collect();
    let expected: Vec<u16> = values.iter().map(|&value| half::f32_to_f16(value)).collect();
    for table in Kernels::available() {
        let mut got = vec![0; values.len()];
        (table.f32.to_f16)(&mut got, &values);
        for ((&got, &expected), value) in got.iter().zip(&expected).zip(&values) {
            assert_eq!(got, expected, "{} {value} ({:08x})", table.name, value.to_bits());
        }
    }
}

#[test]
fn every_half_is_widened_exactly() {
    let all: Vec<u16> = (0..=u16::MAX).filter(|&h| !half::f16_to_f32(h).is_nan()).collect();
    for table in Kernels::available() {
        let mut got = vec![-0.0; all.len()];
        (table.f32.axpy_f16)(&mut got, 1.0, &all);
        for (&got, &h) in got.iter().zip(&all) {
            assert_eq!(got.to_bits(), half::f16_to_f32(h).to_bits(), "{} {h:04x}", table.name);
        }
    }
}

/// What `quantize_q8` made of a row.
fn quantize(f32: &F32Kernels, x: &[f32]) -> (Vec<i8>, Vec<f32>, Vec<i16>) {
    let mut row = (vec![77; x.len()], vec![7.0; x.len() / 32], vec![77; x.len() / 16]);
    (f32.quantize_q8)(Q8RowMut { quants: &mut row.0, scales: &mut row.1, sums: &mut row.2 }, x);
    row
}

#[test]
fn q8_rounds_to_the_nearest() {
    for table in Kernels::available() {
        for seed in 0..if cfg!(miri) { 5 } else { 50 } {
            let mut random = Random(seed);
            let size = 10f32.powi(random.bits() as i32 % 30 - 15);
            let x: Vec<f32> = random.floats(32 * 9 + 1).iter().map(|x| x * size).collect();
            let x = &x[1..];
            let row = quantize(&table.f32, x);
            let scalar = quantize(&Kernels::scalar().f32, x);
            let case = format!("{} seed {seed}", table.name);
            assert_eq!((&row.0, bits(&row.1), &row.2), (&scalar.0, bits(&scalar.1), &scalar.2), "{case}");
            for (b, x) in x.chunks(32).enumerate() {
                let largest = x.iter().fold(0f32, |largest, x| largest.max(x.abs()));
                let quants = &row.0[b * 32..][..32];
                let level = quants.iter().map(|q| q.unsigned_abs()).max().unwrap();
                assert!((120..=127).contains(&level), "{case}: {level}");
                assert_eq!(row.1[b], largest / f32::from(level), "{case}");
                for (&q, &x) in quants.iter().zip(x) {
                    let error = (f64::from(q) * f64::from(row.1[b]) - f64::from(x)).abs();
                    assert!(error <= f64::from(row.1[b]) * 0.50002, "{case}: {x} became {q} * {}", row.1[b]);
                }
                for h in 0..2 {
                    let sum: i32 = quants[h * 16..][..16].iter().map(|&q| i32::from(q)).sum();
                    assert_eq!(i32::from(row.2[b * 2 + h]), sum, "{case}");
                }
            }
        }
    }
}

#[test]
fn q8_ties_go_to_even() {
    for table in Kernels::available() {
        let mut x = [0.0; 32];
        // Enough whole numbers that 127 remains the best scale.
        x.iter_mut().zip(1u8..).for_each(|(x, whole)| *x = f32::from(whole) * 3.0);
        (x[0], x[1], x[2], x[3], x[4]) = (127.0, 0.5, 1.5, -2.5, -0.5);
        assert_eq!(quantize(&table.f32, &x).0[..5], [127, 0, 2, -2, 0], "{}", table.name);
    }
}

#[test]
fn q8_blocks_at_the_ends() {
    for table in Kernels::available() {
        for bad in
            [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff)]
        {
            for at in [0, 13, 31] {
                let mut x = [1.0; 64];
                x[at] = bad;
                let (quants, scales, sums) = quantize(&table.f32, &x);
                assert!(scales[0].is_nan(), "{} {bad} at {at}", table.name);
                assert_eq!((&quants[..32], &sums[..2]), (&[0; 32][..], &[0; 2][..]), "{} {bad} at {at}", table.name);
                assert_eq!((scales[1], quants[32], sums[2]), (1.0 / 127.0, 127, 127 * 16), "{}", table.name);
            }
        }
        for tiny in [0.0, -0.0, f32::from_bits(1), -f32::MIN_POSITIVE, 1e-36] {
            let (quants, scales, sums) = quantize(&table.f32, &[tiny; 32]);
            assert_eq!((quants, scales, sums), (vec![0; 32], vec![0.0], vec![0; 2]), "{} {tiny:e}", table.name);
        }
        for large in [f32::MAX, -f32::MAX, 1.6e-36] {
            let (quants, scales, _) = quantize(&table.f32, &[large; 32]);
            assert_eq!(quants, vec![if large > 0.0 { 127 } else { -127 }; 32], "{} {large:e}", table.name);
            assert_eq!(scales, [large.abs() / 127.0], "{} {large:e}", table.name);
        }
        assert_eq!(quantize(&table.f32, &[]), (vec![], vec![], vec![]));
    }
}

#[test]
fn q8_takes_the_best_of_eight_scales() {
    let (mut ours, mut plain) = (0.0, 0.0);
    for seed in 0..if cfg!(miri) { 50 } else { 2000 } {
        let x = Random(seed).floats(32);
        let (quants, scales, _) = quantize(&Kernels::scalar().f32, &x);
        let square = |scale: f32, quant: &dyn Fn(usize) -> f64| -> f64 {
            (0..32).map(|i| (quant(i) * f64::from(scale) - f64::from(x[i])).powi(2)).sum()
        };
        let largest = x.iter().fold(0f32, |largest, x| largest.max(x.abs()));
        let always = largest / 127.0;
        let chosen = square(scales[0], &|i| f64::from(quants[i]));
        let nearest = square(always, &|i| (f64::from(x[i]) / f64::from(always)).round_ties_even());
        assert!(chosen <= nearest * 1.0001, "seed {seed}: {chosen:e} above {nearest:e}");
        ours += chosen;
        plain += nearest;
    }
    println!("squared error: {:.3} of always 127", ours / plain);
    assert!(ours < plain * 0.9, "{ours:e} against {plain:e}");
}

/// A step of a recurrence in f64.
fn scanned(state: &[f32], row: Scan<'_>) -> (Vec<f64>, Vec<f64>) {
    let (keys, values) = (row.k.len(), row.v.len());
    let (mut new, mut out) = (vec![0.0; keys * values], vec![0.0; values]);
    let wide = |x: f32| f64::from(x);
    for j in 0..values {
        let old = |i: usize| wide(state[i * values + j]);
        let erased: f64 = row.erase.map_or(0.0, |(a, _)| (0..keys).map(|i| wide(a[i]) * old(i)).sum());
        for i in 0..keys {
            let added = wide(row.k[i]) * wide(row.v[j]);
            let back = row.erase.map_or(0.0, |(_, b)| wide(b[i]) * erased);
            new[i * values + j] = old(i) * wide(row.fade[i]) + back + added;
            let seen = row.bonus.map_or(new[i * values + j], |bonus| old(i) + wide(bonus[i]) * added);
            out[j] += wide(row.q[i]) * seen;
        }
    }
    (new, out)
}

#[test]
fn steps_of_recurrences() {
    const SHAPES: [(usize, usize); 6] = [(1, 1), (5, 1), (16, 16), (7, 33), (64, 64), (128, 50)];
    for &(keys, values) in if cfg!(miri) { &SHAPES[..4] } else { &SHAPES } {
        for which in 0..4 {
            let mut random = Random((keys * values + which) as u64);
            let [q, k, fade, a, b, bonus] = [(); 6].map(|()| random.floats(keys));
            let (v, state) = (random.floats(values), random.floats(keys * values));
            let (erase, bonus) = ((which & 1 > 0).then_some((&a[..], &b[..])), (which & 2 > 0).then_some(&bonus[..]));
            let row = Scan { q: &q, k: &k, v: &v, fade: &fade, erase, bonus };
            let (new, exact) = scanned(&state, row);
            let mut first = None;
            for table in Kernels::available() {
                let case = format!("{}, {keys} by {values}, {which}", table.name);
                let (mut out, mut state) = (vec![f32::NAN; values], state.clone());
                (table.f32.scan)(&mut out, &mut state, row);
                let all = (bits(&out), bits(&state));
                assert_eq!(*first.get_or_insert_with(|| all.clone()), all, "{case}");
                // Terms are below 1, and there are some more than keys of them.
                let bound = 3.0 * (keys as f64 + 3.0) * EPS * (1.0 + keys as f64).sqrt();
                let near =
                    |got: &[f32], want: &[f64]| got.iter().zip(want).all(|(&a, b)| (f64::from(a) - b).abs() <= bound);
                assert!(near(&out, &exact) && near(&state, &new), "{case}");
            }
        }
    }
}

#[test]
fn steps_of_many_heads() {
    for (heads, keys) in LENGTHS.iter().flat_map(|&heads| [1, 5, 16].map(|keys| (heads, keys))) {
        let mut random = Random((heads * 20 + keys) as u64);
        let [v, time, mut q, mut k] = [heads, heads, keys, keys].map(|count| random.floats(count));
        let [rate, old] = [(); 2].map(|()| random.floats(heads * keys));
        let rate: Vec<f32> = rate.iter().map(|x| -3.0 * x.abs()).collect();
        let time: Vec<f32> = time.iter().map(|x| x.abs()).collect();
        (q[0], k[0]) = (0.7, -0.3);
        let mut first = None;
        for table in Kernels::available() {
            let case = format!("{}, {heads} heads, {keys} keys", table.name);
            let (mut out, mut state) = (vec![f32::NAN; heads], old.clone());
            (table.f32.scan_keys)(&mut out, &mut state, KeyScan { q: &q, k: &k, v: &v, time: &time, rate: &rate });
            let all = (bits(&out), bits(&state));
            assert_eq!(*first.get_or_insert_with(|| all.clone()), all, "{case}");
            for h in 0..heads {
                let mut sum = 0.0;
                for i in 0..keys {
                    let at = i * heads + h;
                    let fade = (f64::from(time[h]) * f64::from(rate[at])).exp();
                    let new = f64::from(old[at]) * fade + f64::from(k[i]) * f64::from(v[h]);
                    assert!((f64::from(state[at]) - new).abs() < 6.0 * EPS, "{case}: head {h}, key {i}");
                    sum += f64::from(q[i]) * new;
                }
                let bound = (6.0 + keys as f64) * EPS * 2.0 * (keys as f64).sqrt();
                assert!((f64::from(out[h]) - sum).abs() < bound, "{case}: head {h}");
            }
        }
    }
}

/// Every function against f64, value by value, from tiny to huge, in vectors and in what is left of them.
#[test]
fn functions_are_near_their_definitions() {
    type Definition = fn(f64) -> f64;
    let sigmoid: Definition = |x| 1.0 / (1.0 + (-x).exp());
    let functions: [(Function, Definition); 10] = [
        (Function::Sigmoid, sigmoid),
        (Function::Tanh, f64::tanh),
        (Function::Gelu, |x| x / (1.0 + (-(8.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).exp())),
        (Function::GeluErf, |x| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)),
        (Function::GeluQuick, |x| x / (1.0 + (-1.702 * x).exp())),
        (Function::Softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
        (Function::Exp, f64::exp),
        (Function::SoftCap(2.5), |x| 2.5 * (x / 2.5).tanh()),
        (Function::Relu, |x| x.max(0.0)),
        (Function::ReluSquared, |x| x.max(0.0).powi(2)),
    ];
    let (count, step) = if cfg!(miri) { (100, 0.4) } else { (20_000, 0.002) };
    let mut x: Vec<f32> = (-count..count).map(|i| i as f32 * step + 0.000_7).collect();
    x.extend((-60..=20).flat_map(|i| [1.0, 1.37, -1.0, -1.37].map(|x| x * 2f32.powi(i))));
    x.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    for (f, definition) in functions {
        let mut first = None;
        for table in Kernels::available() {
            let mut got = x.clone();
            (table.f32.function)(&mut got, f);
            assert_eq!(*first.get_or_insert_with(|| bits(&got)), bits(&got), "{}, {f:?}", table.name);
            for (&x, &got) in x.iter().zip(&got) {
                let want = definition(f64::from(x));
                // An error of the exponential's argument is one of the result, relative to it.
                let size = f64::from(x).abs();
                let argument = match f {
                    Function::Gelu => 1.6 * (size + 0.045 * size.powi(3)),
                    Function::GeluErf => size * size,
                    _ => size,
                };
                let bound = (8.0 + 3.0 * argument.min(100.0)) * EPS * want.abs() + 1e-37;
                let same = f64::from(got) == want || got.is_nan() && want.is_nan() || want.abs() > f64::from(f32::MAX);
                assert!(
                    same || (f64::from(got) - want).abs() <= bound,
                    "{}, {f:?} of {x}: {got}, not {want}",
                    table.name
                );
            }
        }
    }
}
