//! Packed inputs against what they were, products against f64 products of decoded weights and packed inputs.

use candor_quant::Format;

use super::input::{Input, LINES};
use super::pack::PACKING;
use super::{COLS, kernels};
use crate::x86::Avx512Vnni;
use crate::x86::batch::tests::products::product;
use crate::x86::batch::tests::random::{Random, decode};
use crate::{Line, Q8RowMut};

fn packed(x: &[f32], cols: usize) -> Vec<Line> {
    let mut lines = vec![Line([0x7777_7777; 16]); PACKING.room(x.len() / cols, cols)];
    for (index, piece) in lines.chunks_mut(PACKING.lines).enumerate() {
        (PACKING.pack)(piece, x, cols, index);
    }
    lines
}

/// The superblock `p` of input `t` of `rows`.
fn superblock(lines: &[Line], rows: usize, t: usize, p: usize) -> &Input {
    let padded = rows.next_multiple_of(PACKING.inputs);
    &Input::all(&lines[(p * padded + t) * LINES..])[0]
}

/// The quants of a block, and its factor.
fn block(input: &Input, b: usize) -> ([i32; 32], i32) {
    let quant = |i: usize| i32::from(input.quants[i / 4][b / 2][b % 2 * 4 + i % 4]);
    (std::array::from_fn(quant), input.factors[b / 2][b % 2].into())
}

/// The numbers that packed inputs stand for, row by row.
fn unpacked(lines: &[Line], rows: usize, cols: usize) -> Vec<f64> {
    let number = |i: usize| {
        let (t, column) = (i / cols, i % cols);
        let input = superblock(lines, rows, t, column / COLS);
        let (quants, factor) = block(input, column % COLS / 32);
        f64::from(quants[column % 32]) * f64::from(factor) * f64::from(input.scale)
    };
    (0..rows * cols).map(number).collect()
}

fn squared_error(got: impl IntoIterator<Item = f64>, x: &[f32]) -> f64 {
    got.into_iter().zip(x).map(|(got, &x)| (got - f64::from(x)).powi(2)).sum()
}

/// Rows of all kinds: what products of 16 bits are afraid of is flat ones.
fn rows(random: &mut Random, cols: usize) -> Vec<Vec<f32>> {
    let flat = |random: &mut Random| if random.bits().is_multiple_of(2) { 3.0 } else { -3.0 };
    let mut row = |number: &dyn Fn(&mut Random, usize) -> f32| (0..cols).map(|i| number(random, i)).collect::<Vec<_>>();
    vec![
        row(&|_, _| 1.0),
        row(&|_, _| -1e-3),
        row(&|random, _| flat(random)),
        row(&|random, i| if i / 16 % 2 == 0 { flat(random) } else { 0.01 * random.signed() }),
        row(&|random, _| random.signed()),
        row(&|random, _| random.signed() * random.signed() * random.signed()),
        row(&|random, i| if i % 100 == 7 { 500.0 } else { random.signed() }),
        row(&|random, i| random.signed() * 10f32.powi(-((i / 32 % 8) as i32))),
        row(&|_, _| 0.0),
        row(&|random, _| 1e-37 * random.signed()),
        row(&|random, i| if i == 5 { 1e34 } else { 1e33 * random.signed() }),
    ]
}

#[test]
fn packed_inputs_are_near_and_keep_their_bounds() {
    if Avx512Vnni::detect().is_none() {
        return;
    }
    let (cols, mut random) = (2 * COLS, Random::new(3));
    for count in [1, 2, 11, 33] {
        let kinds = rows(&mut random, cols);
        let x: Vec<f32> = kinds.iter().cycle().take(count).flatten().copied().collect();
        let lines = packed(&x, cols);
        for (i, x) in x.chunks_exact(COLS).enumerate() {
            let (t, p) = (i / 2, i % 2);
            let input = superblock(&lines, count, t, p);
            for (b, x) in x.chunks_exact(32).enumerate() {
                let case = format!("input {t} of {count}, superblock {p}, block {b}");
                let (quants, factor) = block(input, b);
                assert!((1..=255).contains(&factor), "{case}: factor {factor}");
                assert_eq!(input.factors[b / 2][3 - b % 2], factor as i16, "{case}");
                let step = f64::from(factor) * f64::from(input.scale);
                for (half, quants) in quants.chunks_exact(16).enumerate() {
                    let magnitudes: i32 = quants.iter().map(|quant| quant.abs()).sum();
                    assert!(magnitudes <= 1023, "{case}: magnitudes of half {half} add up to {magnitudes}");
                    assert_eq!(input.sums[half][b / 2][b % 2], -quants.iter().sum::<i32>(), "{case}");
                }
                let off = f64::from(input.scaled_sums[b / 2][b % 2]) - f64::from(quants.iter().sum::<i32>() * factor) / 16.0;
                assert!(off.abs() <= 0.5, "{case}");
                for (&quant, &x) in quants.iter().zip(x) {
                    // A superblock below the normal range is zero.
                    let off = (f64::from(quant) * step - f64::from(x)).abs();
                    assert!(off <= 0.5001 * step + 2e-34, "{case}: {x} became {quant} times {step}");
                }
            }
        }
    }
}

/// Nearly as near as the row kernels' inputs, which have a float for each block and may be flat.
#[test]
fn packed_inputs_are_as_near_as_those_of_row_kernels() {
    let Some(table) = Avx512Vnni::detect().map(Avx512Vnni::kernels) else { return };
    let (cols, mut random) = (64 * COLS, Random::new(4));
    // Sums of four are bell-shaped, their products have heavy tails.
    let bell = |random: &mut Random| (0..4).map(|_| random.signed()).sum::<f32>();
    let shapes: [(&dyn Fn(&mut Random) -> f32, f64); 4] = [
        (&|random| random.signed(), 1.4), // flat as no layer's outputs are
        (&|random| bell(random), 1.07),
        (&|random| bell(random) * bell(random), 1.07),
        (&|random| bell(random) * bell(random) * bell(random), 1.07),
    ];
    for (i, (shape, most)) in shapes.into_iter().enumerate() {
        let x: Vec<f32> = (0..cols).map(|_| shape(&mut random)).collect();
        let error = squared_error(unpacked(&packed(&x, cols), 1, cols), &x);
        let (mut quants, mut scales, mut sums) = (vec![0; cols], vec![0.0; cols / 32], vec![0; cols / 16]);
        (table.f32.quantize_q8)(Q8RowMut { quants: &mut quants, scales: &mut scales, sums: &mut sums }, &x);
        let rounded = (0..cols).map(|i| f64::from(quants[i]) * f64::from(scales[i / 32]));
        let rows = squared_error(rounded, &x);
        eprintln!("shape {i}: {:.3} of the squared error of row kernels", error / rows);
        assert!(error <= most * rows, "shape {i}: {error} against {rows}");
    }
}

#[test]
fn what_is_no_number_stays_none() {
    if Avx512Vnni::detect().is_none() {
        return;
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = vec![1.0; 3 * COLS];
        x[COLS + 77] = bad;
        let lines = packed(&x, COLS);
        let scales = [0, 1, 2].map(|t| superblock(&lines, 3, t, 0).scale);
        assert!(scales[0].is_finite() && scales[1].is_nan() && scales[2].is_finite(), "{bad}: {scales:?}");
    }
}

/// Weights with everything in them at its largest, and random ones, with inputs of all kinds: what a superblock adds up to is
/// exact but for minima, whose inputs are rounded to sixteenths, and for the sums of superblocks.
#[test]
fn products_are_those_of_packed_inputs() {
    if Avx512Vnni::detect().is_none() {
        return;
    }
    for (format, minima) in [(Format::Q4K, Some(16)), (Format::Q5K, Some(16)), (Format::Q6K, None)] {
        let kernels = kernels(format).expect("a format of superblocks");
        let (count, cols) = (21, 2 * COLS);
        let mut random = Random::new(format.ggml_id().into());
        let mut w = random.weights(format, count, cols);
        for (row, fill) in [(3, 0xff), (17, 0x7f), (20, 0x80)] {
            for block in w[row * 2 * format.block_bytes()..][..2 * format.block_bytes()].chunks_exact_mut(format.block_bytes()) {
                // Everything but the floats, which are last in Q6_K.
                let numbers = if minima.is_some() { 4..block.len() } else { 0..block.len() - 2 };
                block[numbers].fill(fill);
            }
        }
        let kinds = rows(&mut random, cols);
        let x: Vec<f32> = kinds.concat();
        let lines = packed(&x, cols);
        let rounded = unpacked(&lines, kinds.len(), cols);
        let decoded = decode(format, &w);
        // With quants of zero, what is left are the minima.
        let mut zeros = w.clone();
        for block in zeros.chunks_exact_mut(format.block_bytes()) {
            minima.map(|quants| block[quants..].fill(0));
        }
        let minima = minima.map(|_| decode(format, &zeros));
        for (i, got) in product(&kernels, &w, count, cols, &x).into_iter().enumerate() {
            let (t, o) = (i / count, i % count);
            let terms = (0..cols).map(|c| f64::from(decoded[o * cols + c]) * rounded[t * cols + c]);
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term: f64| (sum + term, size + term.abs()));
            let mut bound = 1e-6 * size;
            if let Some(minima) = &minima {
                for b in 0..cols / 32 {
                    let minimum = f64::from(minima[o * cols + 32 * b]).abs();
                    // Both parts of a weight may be larger than itself.
                    let magnitudes: f64 = rounded[t * cols + 32 * b..][..32].iter().map(|x| x.abs()).sum();
                    let scale = f64::from(superblock(&lines, kinds.len(), t, b / 8).scale);
                    bound += minimum * (8.0 * scale + 2e-6 * magnitudes);
                }
            }
            assert!((f64::from(got) - sum).abs() <= bound, "{format} out[{t}][{o}] is {got}, expected {sum} +- {bound}");
        }
    }
}
