//! Whole products, against the f64 product of decoded weights and the inputs as they were before packing.

use candor_quant::Format;

use super::random::{Random, columns, decode};
use super::{formats, tables};
use candor_kernels::{BatchKernels, BatchTask, Form, Line};

/// Products of every weight row with every input, `[input][row]`. Room is exactly what is asked for, between marks.
pub fn product(kernels: &BatchKernels, w: &[u8], rows: usize, cols: usize, x: &[f32]) -> Vec<f32> {
    const MARK: [u32; 16] = [0x7fc1_2345; 16];
    let packing = kernels.packing;
    let inputs = x.len() / cols;
    let mut packed = vec![Line(MARK); packing.room(inputs, cols)];
    for (index, piece) in packed.chunks_mut(packing.lines).enumerate() {
        (packing.pack)(piece, x, cols, index);
    }
    let before: Vec<_> = packed.iter().map(|line| line.0).collect();
    let room = (kernels.scratch)(rows, inputs);
    let mut scratch = vec![Line(MARK); room + 8];
    let (mut out, mut next) = (Vec::new(), 0);
    let task = BatchTask { w, rows, cols, inputs, x: &packed, scratch: &mut scratch[4..room + 4] };
    (kernels.mat)(task, &mut |t, outputs| {
        assert_eq!((t, outputs.len()), (next, rows), "inputs in order, whole rows");
        next += 1;
        out.extend_from_slice(outputs);
    });
    assert_eq!(next, inputs);
    let outside = scratch[..4].iter().chain(&scratch[room + 4..]);
    assert!(outside.map(|line| line.0).all(|line| line == MARK), "written outside of scratch memory");
    assert!(packed.iter().map(|line| line.0).eq(before), "inputs were written");
    out
}

/// Largest error of an element whose terms' magnitudes add up to `size`.
///
/// One bfloat16 has 8 significant bits: rounding to the nearest is off by at most 2^-8 of the number. With both factors
/// rounded a term is off by (1 + 2^-8)^2 - 1. With two halves, a half-precision weight is exact, an input off by 2^-17,
/// and the small halves, at most 2^-8 of their numbers, are not multiplied with each other: 2^-16. A term then passes at
/// most 16 fused sums of its lane, the lanes' sum, and one sum for each tile, of which there are one or three per 32
/// columns; each rounds by 2^-24 of sums that are at most `size`, and a little more. Engines in registers add pair by pair,
/// or number by number.
/// Numbers below the normal range are zero: 2^-126 of each term and sum.
///
/// Inputs of 8 bits are off by half a step, whatever their size: see [`half_steps`].
fn bound(form: Form, w: &[f32], x: &[f32]) -> f64 {
    let cols = x.len();
    let terms = |(&w, x): (&f32, f64)| f64::from(w).abs() * x;
    let size: f64 = w.iter().zip(x.iter().map(|&x| f64::from(x).abs())).map(terms).sum();
    let (factors, tiles) = match form {
        Form::Bf16 => ((1.0 + 2f64.powi(-8)).powi(2) - 1.0, 32),
        Form::TwoBf16 => (2f64.powi(-17) + 2f64.powi(-16), 3),
        Form::F32 => (0.0, 32),
        Form::Int8 => return 1e-5 * size + w.iter().zip(half_steps(x)).map(terms).sum::<f64>(),
    };
    let roundings = 17 + cols.div_ceil(32) * tiles;
    (factors + roundings as f64 * 2f64.powi(-24) * 1.01) * size + cols as f64 * 2f64.powi(-120)
}

/// What inputs are off by at most when they are packed to 8 bits, and a tenth more for what minima are.
///
/// A block's step takes its largest magnitude to 127, or the sum of the magnitudes of a half to 1015, and is a multiple of a 242nd of
/// the superblock's largest step: the next one or one of seven others, the last of which is less than 15 such parts above it.
fn half_steps(x: &[f32]) -> impl Iterator<Item = f64> {
    let least = |block: &[f32]| {
        let largest = block.iter().map(|x| f64::from(x.abs())).fold(0.0, f64::max) / 127.0;
        let sums = block.chunks(16).map(|half| half.iter().map(|x| f64::from(x.abs())).sum::<f64>() / 1015.0);
        sums.fold(largest, f64::max)
    };
    x.chunks(256).flat_map(move |x| {
        let unit = x.chunks(32).map(least).fold(0.0, f64::max) / 119.9;
        x.chunks(32).flat_map(move |block| vec![0.55 * (least(block) + 8.0 * unit); block.len()])
    })
}

fn check(format: Format, kernels: &BatchKernels, (rows, cols, inputs): (usize, usize, usize)) {
    let seed = (rows * 10_000 + cols * 100 + inputs) as u64;
    let mut random = Random::new(seed);
    let w = random.weights(format, rows, cols);
    let x = random.inputs(inputs * cols);
    let got = product(kernels, &w, rows, cols, &x);
    let decoded = decode(format, &w);
    for (i, &got) in got.iter().enumerate() {
        let (t, o) = (i / rows, i % rows);
        let (w, x) = (&decoded[o * cols..][..cols], &x[t * cols..][..cols]);
        let sum: f64 = w.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
        let bound = bound(kernels.packing.form, w, x);
        assert!(
            (f64::from(got) - sum).abs() <= bound,
            "{format} cols {cols} rows {rows} inputs {inputs} seed {seed}: out[{t}][{o}] is {got}, expected {sum} +- {bound}"
        );
    }
}

/// The kernels of a format in every table that has some.
fn kernels(format: Format) -> impl Iterator<Item = (&'static str, BatchKernels)> {
    tables().into_iter().filter_map(move |table| Some((table.name, (table.batch)(format)?)))
}

#[test]
fn every_format_multiplies() {
    for table in tables() {
        for (format, kernels) in formats(table) {
            for (rows, cols, inputs) in [(1, 256, 1), (33, 768, 17), (70, 1280, 33), (16, 300, 16)] {
                check(format, &kernels, (rows, columns(format, cols), inputs));
            }
        }
    }
}

/// F32's bound would be passed by no rounding of inputs at all: halves are really two.
#[test]
fn half_precision_weights_keep_their_precision() {
    let (rows, cols, inputs) = (40, 1000, 20);
    for (format, most) in [(Format::F16, 1e-10), (Format::Bf16, 1e-5)] {
        let mut random = Random::new(1);
        let w = random.weights(format, rows, cols);
        let x: Vec<f32> = (0..inputs * cols).map(|_| random.signed()).collect();
        let decoded = decode(format, &w);
        for (table, kernels) in kernels(format) {
            let (mut error, mut size) = (0.0, 0.0);
            for (i, &got) in product(&kernels, &w, rows, cols, &x).iter().enumerate() {
                let (w, x) = (&decoded[i % rows * cols..][..cols], &x[i / rows * cols..][..cols]);
                let exact: f64 = w.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
                error += (f64::from(got) - exact).powi(2);
                size += exact * exact;
            }
            eprintln!("{table} {format}: squared error {:e} of squared values", error / size);
            assert!(error / size < most, "{table} {format}: {:e}", error / size);
        }
    }
}

#[test]
fn any_number_of_inputs() {
    for (format, rows, cols) in [(Format::Q4K, 37, 768), (Format::F16, 5, 289), (Format::Bf16, 37, 289)] {
        for (_, kernels) in kernels(format) {
            for inputs in 1..=70 {
                check(format, &kernels, (rows, cols, inputs));
            }
        }
    }
}

#[test]
fn any_number_of_rows_and_columns() {
    for (format, cols) in [(Format::Q8_0, 32), (Format::Bf16, 17), (Format::F32, 17)] {
        for (_, kernels) in kernels(format) {
            for rows in (1..=67).step_by(3) {
                check(format, &kernels, (rows, cols * rows, 18));
            }
        }
    }
}

/// Neither on other inputs, nor on other rows, nor on where they are.
#[test]
fn an_element_does_not_depend_on_what_else_is_computed() {
    let formats = [Format::Q4K, Format::Q6K, Format::F32, Format::F16, Format::Bf16];
    for (format, (_, kernels)) in formats.into_iter().flat_map(|format| kernels(format).map(move |k| (format, k))) {
        let (rows, cols, inputs) = (45, columns(format, 1280), 53);
        let mut random = Random::new(9);
        let (w, x) = (random.weights(format, rows, cols), random.inputs(inputs * cols));
        let row_bytes = w.len() / rows;
        let together = product(&kernels, &w, rows, cols, &x);
        for (first_row, some_rows, first, some) in [(0, 45, 0, 16), (3, 20, 5, 1), (44, 1, 20, 33), (31, 2, 52, 1)] {
            let w = &w[first_row * row_bytes..][..some_rows * row_bytes];
            let alone = product(&kernels, w, some_rows, cols, &x[first * cols..][..some * cols]);
            for (i, value) in alone.iter().enumerate() {
                let (t, o) = (first + i / some_rows, first_row + i % some_rows);
                assert_eq!(value.to_bits(), together[t * rows + o].to_bits(), "{format}: out[{t}][{o}]");
            }
        }
    }
}

#[test]
fn what_is_no_number_spreads_to_its_outputs_alone() {
    let mut formats_seen = 0;
    for (format, kernels) in tables().into_iter().flat_map(formats) {
        let (rows, cols, inputs) = (37, columns(format, 512), 20);
        let mut random = Random::new(2);
        let mut w = random.weights(format, rows, cols);
        let Some(block) = random.poison(format) else { continue };
        formats_seen += 1;
        let row_bytes = w.len() / rows;
        w[4 * row_bytes..][..block.len()].copy_from_slice(&block);
        let at = row_bytes / block.len() / 2 * block.len();
        w[35 * row_bytes + at..][..block.len()].copy_from_slice(&block);
        let mut x = random.inputs(inputs * cols);
        x[3 * cols + 7] = f32::NAN;
        x[17 * cols + cols - 1] = f32::NEG_INFINITY;
        for (i, value) in product(&kernels, &w, rows, cols, &x).into_iter().enumerate() {
            let (t, o) = (i / rows, i % rows);
            let bad = [3, 17].contains(&t) || [4, 35].contains(&o);
            assert_eq!(!value.is_finite(), bad, "{format} out[{t}][{o}] = {value}");
        }
    }
    assert!(tables().is_empty() || formats_seen >= 3, "{formats_seen}");
}

#[test]
fn threads_have_tiles_of_their_own() {
    let cases: Vec<_> = [Format::Q4K, Format::F16, Format::Q5K, Format::Bf16]
        .into_iter()
        .flat_map(|format| kernels(format).map(move |(_, kernels)| (format, kernels)))
        .map(|(format, kernels)| {
            let mut random = Random::new(format.ggml_id().into());
            let (w, x) = (random.weights(format, 40, 512), random.inputs(40 * 512));
            let alone = product(&kernels, &w, 40, 512, &x);
            (format, kernels, w, x, alone)
        })
        .collect();
    std::thread::scope(|scope| {
        for (format, kernels, w, x, alone) in &cases {
            scope.spawn(move || {
                for _ in 0..8 {
                    let got = product(kernels, w, 40, 512, x);
                    assert!(got.iter().map(|v| v.to_bits()).eq(alone.iter().map(|v| v.to_bits())), "{format}");
                }
            });
        }
    });
}

#[test]
fn empty_products() {
    for (_, kernels) in tables().into_iter().flat_map(formats) {
        assert!(product(&kernels, &[], 0, 256, &[1.0; 256 * 3]).is_empty());
        let mut emit = |_: usize, _: &[f32]| panic!("no inputs");
        let w = [];
        (kernels.mat)(BatchTask { w: &w, rows: 0, cols: 256, inputs: 0, x: &[], scratch: &mut [] }, &mut emit);
    }
}
