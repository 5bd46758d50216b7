//! Every matrix kernel of every table against an f64 product of decoded weights, and against its own one-row path.

mod cases;
mod exact;

use candor_kernels::{Activations, Kernels, MatKernels, OutTile, Q8Rows};
use candor_quant::Format;
use cases::{Inputs, Random, Weights, weights};

/// `(blocks of columns, weight rows, inputs)`. Miri takes a thousand times as long: it has few rows and inputs, and the
/// shortest of the rows that are longer than a segment.
type Shapes = &'static [(usize, usize, usize)];
const PRODUCTS: Shapes = if cfg!(miri) {
    &[(1, 2, 2), (5, 1, 1), (33, 1, 1)]
} else {
    &[(1, 1, 1), (1, 3, 2), (2, 7, 3), (3, 8, 4), (4, 9, 5), (5, 16, 1), (5, 17, 6), (7, 5, 9), (41, 2, 2)]
};
const TOGETHER: Shapes = if cfg!(miri) {
    &[(1, 2, 2)]
} else {
    &[(1, 2, 2), (3, 9, 3), (5, 25, 9), (9, 33, 7), (37, 16, 4), (2, 9, 13), (2, 6, 16), (1, 3, 519)]
};

/// Whether Miri has the time for rows of `cols` columns.
fn short(cols: usize) -> bool {
    !cfg!(miri) || cols < 1300
}

/// Weight rows and inputs of the tests that have one shape, and the input among them that is spoilt.
const ROWS: usize = if cfg!(miri) { 2 } else { 9 };
const INPUTS: usize = if cfg!(miri) { 2 } else { 5 };
const BAD: usize = if cfg!(miri) { 1 } else { 3 };

/// Products of every weight row with every input, `[input][row]`, computed in one call.
fn product(kernels: &MatKernels, w: &Weights, x: &Inputs, inputs: std::ops::Range<usize>) -> Vec<f32> {
    let count = inputs.len();
    let stride = w.rows + 3;
    let mut values = vec![f32::NAN; count * stride];
    let activations = if kernels.q8 { Activations::Q8(x.q8(inputs)) } else { x.f32(inputs) };
    (kernels.mat)(OutTile { values: &mut values, stride }, w.bytes(), w.rows, activations);
    values.chunks(stride).flat_map(|row| row[..w.rows].to_vec()).collect()
}

/// The exact product of one weight row and one input, and the sum of the terms' magnitudes.
fn exact(w: &[f32], x: &[f64]) -> (f64, f64) {
    w.iter().zip(x).fold((0.0, 0.0), |(sum, size), (&w, &x)| {
        let term = f64::from(w) * x;
        (sum + term, size + term.abs())
    })
}

fn formats(table: &Kernels) -> impl Iterator<Item = (Format, MatKernels)> {
    Format::ALL.iter().filter_map(|&format| (table.mat)(format).map(|kernels| (format, kernels)))
}

/// Blocks of 32, or of the format where these are longer; for plain numbers not a multiple of anything.
fn columns(format: Format, blocks: usize) -> usize {
    match format.block_len() {
        1 => blocks * 32 - 5,
        length => blocks * length,
    }
}

#[test]
fn every_row_of_every_table_is_the_product() {
    for table in Kernels::all() {
        for (format, kernels) in formats(table) {
            for &(blocks, rows, inputs) in PRODUCTS.iter().filter(|shape| short(columns(format, shape.0))) {
                let cols = columns(format, blocks);
                let seed = (blocks * 1000 + rows * 10 + inputs) as u64;
                let random = &mut Random::new(seed);
                let w = weights(format, rows, cols, random);
                let x = Inputs::new(inputs, cols, random);
                let got = product(&kernels, &w, &x, 0..inputs);
                let decoded = w.decode();
                for t in 0..inputs {
                    let values = x.exact(t, kernels.q8);
                    for o in 0..rows {
                        let (sum, size) = exact(&decoded[o * cols..][..cols], &values);
                        // Each term meets at most: its scale product, the product with the input's scale, and the
                        // additions of its lane, of the tree and of the segments; a minimum cancels against its sum,
                        // which is why `minima_size` counts.
                        let roundings = 8.0 + cols as f64 / 8.0;
                        let bound = roundings * f64::from(f32::EPSILON) * (size + w.minima_size(o, &values));
                        let got = f64::from(got[t * rows + o]);
                        assert!(
                            (got - sum).abs() <= bound + f64::from(f32::MIN_POSITIVE),
                            "{} {format} cols {cols} rows {rows} inputs {inputs} seed {seed}: out[{t}][{o}] is {got}, \
                             expected {sum} +- {bound}",
                            table.name
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn an_element_does_not_depend_on_what_else_is_computed() {
    for table in Kernels::all() {
        for (format, kernels) in formats(table) {
            for &(blocks, rows, inputs) in TOGETHER.iter().filter(|shape| short(columns(format, shape.0))) {
                let cols = columns(format, blocks);
                let seed = (blocks * 1000 + rows * 10 + inputs) as u64;
                let random = &mut Random::new(seed);
                let w = weights(format, rows, cols, random);
                let x = Inputs::new(inputs, cols, random);
                let together = product(&kernels, &w, &x, 0..inputs);
                for t in 0..inputs {
                    let row = product(&kernels, &w, &x, t..t + 1);
                    for o in 0..rows {
                        let alone = product(&kernels, &w.row(o), &x, t..t + 1)[0];
                        let case = format!("{} {format} cols {cols} seed {seed} out[{t}][{o}]", table.name);
                        assert_eq!(together[t * rows + o].to_bits(), row[o].to_bits(), "{case}: batch and row");
                        assert_eq!(row[o].to_bits(), alone.to_bits(), "{case}: row and element");
                    }
                }
            }
        }
    }
}

#[test]
fn tables_agree_bit_for_bit_on_quantized_weights() {
    for table in Kernels::available().skip(1) {
        for (format, kernels) in formats(table).filter(|(_, kernels)| kernels.q8) {
            let scalar = (Kernels::scalar().mat)(format).expect("scalar has every row");
            for (blocks, rows, inputs) in [(1, 3, 1), (2, 9, 2), (5, 11, 5), (8, 8, 1), (40, 5, 3)] {
                let cols = columns(format, blocks);
                let seed = (blocks * 1000 + rows * 10 + inputs) as u64;
                let random = &mut Random::new(seed);
                let w = weights(format, rows, cols, random);
                let x = Inputs::new(inputs, cols, random);
                let bits =
                    |kernels| product(kernels, &w, &x, 0..inputs).into_iter().map(f32::to_bits).collect::<Vec<_>>();
                assert_eq!(
                    bits(&kernels),
                    bits(&scalar),
                    "{} {format} cols {cols} rows {rows} seed {seed}",
                    table.name
                );
            }
        }
    }
}

/// With weight scales of a power of two, minima of 0, input scales of 1 and inputs in one block of 32, every float
/// operation is exact: what comes out is the integer sum, which is below 2^24.
///
/// Inputs one by one, two and all: kernels of their own.
fn assert_exact(table: &Kernels, kernels: &MatKernels, w: &Weights, x: &Inputs, case: &str) {
    let decoded = w.decode();
    for inputs in (0..INPUTS).map(|t| t..t + 1).chain((2..=INPUTS).map(|few| 0..few)) {
        let got = product(kernels, w, x, inputs.clone());
        for (got, t) in got.chunks(ROWS).zip(inputs.clone()) {
            for o in 0..ROWS {
                let (sum, _) = exact(&decoded[o * w.cols..][..w.cols], &x.exact(t, true));
                let case = format!("{} {} {case} out[{t}][{o}] of inputs {inputs:?}", table.name, w.format);
                assert_eq!(f64::from(got[o]), sum, "{case}");
            }
        }
    }
}

#[test]
fn integer_sums_are_exact_over_the_full_range() {
    for table in Kernels::all() {
        for (format, kernels) in formats(table).filter(|(_, kernels)| kernels.q8) {
            for seed in 0..if cfg!(miri) { 4 } else { 20 } {
                let random = &mut Random::new(seed);
                let cols = columns(format, 1);
                let w = cases::unit_weights(format, ROWS, cols, random);
                let x = Inputs::extreme(INPUTS, cols, seed, random);
                assert_exact(table, &kernels, &w, &x, &format!("seed {seed}"));
            }
        }
    }
}

/// Random weights hardly ever have two of -128 where an instruction adds their products.
#[test]
fn integer_sums_are_exact_where_all_weights_are_at_an_end() {
    for table in Kernels::all() {
        for (format, kernels) in formats(table).filter(|(_, kernels)| kernels.q8) {
            for byte in [0x00, 0x7f, 0x80, 0xff] {
                for seed in 0..if cfg!(miri) { 1 } else { 8 } {
                    let random = &mut Random::new(seed);
                    let cols = columns(format, 1);
                    let w = cases::unit_weights(format, ROWS, cols, random).filled(byte);
                    let x = Inputs::extreme(INPUTS, cols, seed, random);
                    assert_exact(table, &kernels, &w, &x, &format!("bytes {byte:02x} seed {seed}"));
                }
            }
        }
    }
}

/// Every byte of MXFP4's and NVFP4's scales, subnormal ones and NaN too: a weight of one nibble times an input of 1 is what
/// decoding says. NVFP4 has four scales in a block.
#[test]
fn every_scale_of_4_bit_floats_is_the_decoders() {
    const COLS: usize = 256;
    for (format, columns) in [(Format::Mxfp4, &[64][..]), (Format::Nvfp4, &[64, 89, 103, 112])] {
        let size = format.block_bytes();
        for (group, &column) in columns.iter().enumerate() {
            let quants: [i8; 4 * COLS] = std::array::from_fn(|i| i8::from(i % COLS == column));
            let sums: [i16; COLS / 4] = std::array::from_fn(|i| i16::from(i % (COLS / 16) == column / 16));
            for (table, inputs) in Kernels::available().flat_map(|table| [(table, 1), (table, 4)]) {
                let kernels = (table.mat)(format).expect("every table has it");
                let scales = &[1.0; COLS / 8][..inputs * COLS / 32];
                let (quants, sums) = (&quants[..inputs * COLS], &sums[..inputs * COLS / 16]);
                let x = Activations::Q8(Q8Rows { cols: COLS, quants, scales, sums });
                for byte in 0..=255u8 {
                    let mut row = vec![0; COLS / format.block_len() * size];
                    let block = &mut row[64 / format.block_len() * size..][..size];
                    block.fill(0x21);
                    block[group] = byte;
                    let mut decoded = [0.0; COLS];
                    format.decode(&row, &mut decoded);
                    let mut out = [f32::NAN; 4];
                    (kernels.mat)(OutTile { values: &mut out, stride: 1 }, &row, 1, x);
                    let expected = decoded[column].to_bits();
                    let case = format!("{} {format} column {column}, scale {byte}", table.name);
                    assert!(out[..inputs].iter().all(|out| out.to_bits() == expected), "{case}: {out:?}");
                }
            }
        }
    }
}

#[test]
fn bad_scales_spread_to_their_outputs_alone() {
    for table in Kernels::all() {
        for (format, kernels) in formats(table).filter(|(_, kernels)| kernels.q8) {
            let random = &mut Random::new(3);
            let cols = columns(format, 2);
            let mut w = weights(format, ROWS, cols, random);
            let poisoned = w.poison_row(ROWS / 2);
            let mut x = Inputs::new(INPUTS, cols, random);
            x.set_scale(BAD * cols / 32 + 1, f32::NAN);
            for inputs in [0..INPUTS, BAD - 1..BAD, BAD..BAD + 1] {
                let first = inputs.start;
                for (i, value) in product(&kernels, &w, &x, inputs).into_iter().enumerate() {
                    let (t, o) = (first + i / ROWS, i % ROWS);
                    let bad = t == BAD || poisoned && o == ROWS / 2;
                    assert_eq!(!value.is_finite(), bad, "{} {format} out[{t}][{o}] = {value}", table.name);
                }
            }
        }
    }
}

#[test]
fn empty_products_write_nothing() {
    for table in Kernels::all() {
        for (format, kernels) in formats(table) {
            let x = Activations::Q8(Q8Rows { cols: 256, quants: &[], scales: &[], sums: &[] });
            let x = if kernels.q8 { x } else { Activations::F32 { cols: 256, values: &[] } };
            let w = vec![0; format.row_bytes(256).expect("whole blocks") * 3];
            let mut values = [7.0; 3];
            (kernels.mat)(OutTile { values: &mut values, stride: 3 }, &w, 3, x);
            assert_eq!(values, [7.0; 3], "{} {format}", table.name);
            let x = Inputs::new(3, 256, &mut Random::new(1));
            let x = if kernels.q8 { Activations::Q8(x.q8(0..3)) } else { x.f32(0..3) };
            (kernels.mat)(OutTile { values: &mut values, stride: 3 }, &[], 0, x);
            assert_eq!(values, [7.0; 3], "{} {format} without weights", table.name);
        }
    }
}
