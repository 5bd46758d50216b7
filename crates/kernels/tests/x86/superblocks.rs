//! Packed inputs against what they were, products against f64 products of decoded weights and packed inputs.

use candor_quant::Format;

use candor_kernels::inside::x86::superblocks::{Avx2Input, COLS, INPUTS, Packed as _, VnniInput, avx2, avxvnni, vnni};
use candor_kernels::inside::x86::{Avx2, Avx512Vnni, AvxVnni};
use candor_kernels::{BatchKernels, Kernels, Line, Packing, Q8RowMut};

use crate::batch::products::product;
use crate::batch::random::{Random, decode};

/// What a superblock of an input holds.
struct Superblock {
    quants: [[i32; 32]; 8],
    factors: [i32; 8],
    /// Of blocks, by halves.
    offsets: [[i32; 2]; 8],
    /// Of blocks.
    sixteenths: [i32; 8],
    scale: f32,
}

/// An instruction set: its table, its kernels, and how to read what it packs.
struct Set {
    table: &'static Kernels,
    kernels: fn(Format) -> Option<BatchKernels>,
    read: fn(&[Line]) -> Superblock,
}

/// Those that this processor has.
fn sets() -> Vec<Set> {
    let avx2 = Avx2::detect().map(|found| Set { table: found.kernels(), kernels: avx2, read: read_avx2 });
    let avxvnni = AvxVnni::detect().map(|found| Set { table: found.kernels(), kernels: avxvnni, read: read_avxvnni });
    let vnni = Avx512Vnni::detect().map(|found| Set { table: found.kernels(), kernels: vnni, read: read_vnni });
    avx2.into_iter().chain(avxvnni).chain(vnni).collect()
}

fn read_avx2(lines: &[Line]) -> Superblock {
    read_narrow(lines, |pair, b, i| pair[i / 2][b * 2 + i % 2])
}

fn read_avxvnni(lines: &[Line]) -> Superblock {
    read_narrow(lines, |pair, b, i| pair[i / 4 * 2 + b][i % 4])
}

/// `quant` finds column `i` of the first or second block of a pair.
fn read_narrow(lines: &[Line], quant: impl Fn(&[[i8; 4]; 16], usize, usize) -> i8) -> Superblock {
    let input = &Avx2Input::all(lines)[0];
    let quant = |b: usize, i: usize| i32::from(quant(&input.quants[b / 2], b % 2, i));
    let offset = |b: usize, half: usize| i32::from(input.offsets[half][b / 2][b % 2]);
    Superblock {
        quants: std::array::from_fn(|b| std::array::from_fn(|i| quant(b, i))),
        factors: std::array::from_fn(|b| input.factors[b / 2][b % 2].into()),
        offsets: std::array::from_fn(|b| [offset(b, 0), offset(b, 1)]),
        sixteenths: std::array::from_fn(|b| input.scaled_sums[b / 2][b % 2].into()),
        scale: input.scale,
    }
}

fn read_vnni(lines: &[Line]) -> Superblock {
    let input = &VnniInput::all(lines)[0];
    let quant = |b: usize, i: usize| i32::from(input.quants[i / 4][b / 2][b % 2 * 4 + i % 4]);
    let offset = |b: usize, half: usize| input.offsets[half][b / 2][b % 2];
    Superblock {
        quants: std::array::from_fn(|b| std::array::from_fn(|i| quant(b, i))),
        factors: std::array::from_fn(|b| input.factors[b / 2][b % 2].into()),
        offsets: std::array::from_fn(|b| [offset(b, 0), offset(b, 1)]),
        sixteenths: std::array::from_fn(|b| input.scaled_sums[b / 2][b % 2].into()),
        scale: input.scale,
    }
}

/// Packed inputs.
struct Packed<'a> {
    set: &'a Set,
    lines: Vec<Line>,
    rows: usize,
    cols: usize,
}

impl Packed<'_> {
    fn new<'a>(set: &'a Set, x: &[f32], cols: usize) -> Packed<'a> {
        let packing: &Packing = (set.kernels)(Format::Q4K).expect("a format of superblocks").packing;
        let rows = x.len() / cols;
        let mut lines = vec![Line([0x7777_7777; 16]); packing.room(rows, cols)];
        for (index, piece) in lines.chunks_mut(packing.lines).enumerate() {
            (packing.pack)(piece, x, cols, index);
        }
        Packed { set, lines, rows, cols }
    }

    /// The superblock `p` of input `t`.
    fn superblock(&self, t: usize, p: usize) -> Superblock {
        let padded = self.rows.next_multiple_of(INPUTS);
        let lines = self.lines.len() / (padded * self.cols / COLS);
        (self.set.read)(&self.lines[(p * padded + t) * lines..][..lines])
    }

    /// The numbers that packed inputs stand for, row by row.
    fn numbers(&self) -> Vec<f64> {
        let mut numbers = Vec::new();
        for (t, p) in (0..self.rows).flat_map(|t| (0..self.cols / COLS).map(move |p| (t, p))) {
            let Superblock { quants, factors, scale, .. } = self.superblock(t, p);
            for (quants, factor) in quants.into_iter().zip(factors) {
                numbers.extend(quants.map(|quant| f64::from(quant) * f64::from(factor) * f64::from(scale)));
            }
        }
        numbers
    }
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
    for set in sets() {
        let (cols, mut random) = (2 * COLS, Random::new(3));
        for count in [1, 2, 11, 33] {
            let kinds = rows(&mut random, cols);
            let x: Vec<f32> = kinds.iter().cycle().take(count).flatten().copied().collect();
            let packed = Packed::new(&set, &x, cols);
            for (i, x) in x.chunks_exact(COLS).enumerate() {
                check_superblock(&packed.superblock(i / 2, i % 2), x, &format!("{} {i} of {count}", set.table.name));
            }
        }
    }
}

fn check_superblock(superblock: &Superblock, x: &[f32], case: &str) {
    for (b, x) in x.chunks_exact(32).enumerate() {
        let (quants, factor) = (&superblock.quants[b], superblock.factors[b]);
        assert!((1..=255).contains(&factor), "{case}, block {b}: factor {factor}");
        for (half, quants) in quants.chunks_exact(16).enumerate() {
            let magnitudes: i32 = quants.iter().map(|quant| quant.abs()).sum();
            assert!(magnitudes <= 1023, "{case}, block {b}: magnitudes of half {half} add up to {magnitudes}");
            assert_eq!(superblock.offsets[b][half], -32 * quants.iter().sum::<i32>(), "{case}, block {b}");
        }
        let off = 16 * superblock.sixteenths[b] - quants.iter().sum::<i32>() * factor;
        assert!(off.abs() <= 8, "{case}, block {b}");
        let step = f64::from(factor) * f64::from(superblock.scale);
        for (&quant, &x) in quants.iter().zip(x) {
            // A superblock below the normal range is zero.
            let off = (f64::from(quant) * step - f64::from(x)).abs();
            assert!(off <= 0.5001 * step + 4e-34, "{case}, block {b}: {x} became {quant} times {step}");
        }
    }
}

/// Nearly as near as the row kernels' inputs, which have a float for each block and may be flat.
#[test]
fn packed_inputs_are_as_near_as_those_of_row_kernels() {
    for set in sets() {
        let (cols, mut random) = (64 * COLS, Random::new(4));
        // Products of some numbers, each a sum of some: one of one is flat as no layer's outputs are, sums are bell-shaped,
        // products of them have heavy tails.
        for (factors, terms, most) in [(1, 1, 1.4), (1, 4, 1.07), (2, 4, 1.07), (3, 4, 1.07)] {
            let mut sum = || (0..terms).map(|_| random.signed()).sum::<f32>();
            let x: Vec<f32> = (0..cols).map(|_| (0..factors).map(|_| sum()).product()).collect();
            let error = squared_error(Packed::new(&set, &x, cols).numbers(), &x);
            let (mut quants, mut scales, mut sums) = (vec![0; cols], vec![0.0; cols / 32], vec![0; cols / 16]);
            (set.table.f32.quantize_q8)(Q8RowMut { quants: &mut quants, scales: &mut scales, sums: &mut sums }, &x);
            let rounded = (0..cols).map(|i| f64::from(quants[i]) * f64::from(scales[i / 32]));
            let rows = squared_error(rounded, &x);
            let ratio = error / rows;
            let case = format!("{}, {factors} of {terms}: {ratio:.3} of row kernels' squared error", set.table.name);
            eprintln!("{case}");
            assert!(error <= most * rows, "{case}");
        }
    }
}

#[test]
fn what_is_no_number_stays_none() {
    for set in sets() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = vec![1.0; 3 * COLS];
            x[COLS + 77] = bad;
            let packed = Packed::new(&set, &x, COLS);
            let scales = [0, 1, 2].map(|t| packed.superblock(t, 0).scale);
            assert!(scales[0].is_finite() && scales[1].is_nan() && scales[2].is_finite(), "{bad}: {scales:?}");
        }
    }
}

/// Weights with everything in them at its largest, and random ones, with inputs of all kinds: what a superblock adds up to is
/// exact except for minima, whose inputs are rounded to sixteenths, and for the sums of superblocks.
#[test]
fn products_are_those_of_packed_inputs() {
    for set in sets() {
        for (format, quants) in [(Format::Q4K, Some(16)), (Format::Q5K, Some(16)), (Format::Q6K, None)] {
            check_products(&set, format, quants);
        }
    }
}

/// Where there are minima, `quants` is where the rest of a superblock begins.
fn check_products(set: &Set, format: Format, quants: Option<usize>) {
    let kernels = (set.kernels)(format).expect("a format of superblocks");
    let (count, cols) = (21, 2 * COLS);
    let mut random = Random::new(format.ggml_id().into());
    let mut w = random.weights(format, count, cols);
    let bytes = format.block_bytes();
    for (row, fill) in [(3, 0xff), (17, 0x7f), (20, 0x80)] {
        for superblock in w[row * 2 * bytes..][..2 * bytes].chunks_exact_mut(bytes) {
            // Everything but the floats, which are last in Q6_K.
            superblock[if quants.is_some() { 4..bytes } else { 0..bytes - 2 }].fill(fill);
        }
    }
    let kinds = rows(&mut random, cols);
    let x: Vec<f32> = kinds.concat();
    let packed = Packed::new(set, &x, cols);
    let (rounded, decoded) = (packed.numbers(), decode(format, &w));
    // With quants of zero, what is left are the minima.
    let mut zeros = w.clone();
    for superblock in zeros.chunks_exact_mut(bytes) {
        superblock[quants.unwrap_or(bytes)..].fill(0);
    }
    let minima = decode(format, &zeros);
    for (i, got) in product(&kernels, &w, count, cols, &x).into_iter().enumerate() {
        let (t, o) = (i / count, i % count);
        let terms = (0..cols).map(|c| f64::from(decoded[o * cols + c]) * rounded[t * cols + c]);
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term: f64| (sum + term, size + term.abs()));
        let mut bound = 1e-6 * size;
        for b in 0..cols / 32 {
            let minimum = quants.map_or(0.0, |_| f64::from(minima[o * cols + 32 * b]).abs());
            // Both parts of a weight may be larger than itself.
            let magnitudes: f64 = rounded[t * cols + 32 * b..][..32].iter().map(|x| x.abs()).sum();
            bound += minimum * (8.0 * f64::from(packed.superblock(t, b / 8).scale) + 2e-6 * magnitudes);
        }
        let case = format!("{} {format} out[{t}][{o}]", set.table.name);
        assert!((f64::from(got) - sum).abs() <= bound, "{case} is {got}, expected {sum} +- {bound}");
    }
}

/// Sums are exact, and floats are applied in the same order.
#[test]
fn byte_dot_products_give_the_bits_of_products_of_two() {
    if AvxVnni::detect().is_none() {
        return;
    }
    let (count, cols, mut random) = (37, 3 * COLS, Random::new(5));
    let x: Vec<f32> = rows(&mut random, cols).concat();
    for format in [Format::Q4K, Format::Q5K, Format::Q6K] {
        let w = random.weights(format, count, cols);
        // Tiles of every size.
        for inputs in [1, 2, 3, 4, 5, 11] {
            let bits = |kernels: fn(Format) -> Option<BatchKernels>| {
                let kernels = kernels(format).expect("a format of superblocks");
                let product = product(&kernels, &w, count, cols, &x[..inputs * cols]);
                product.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            assert!(bits(avxvnni) == bits(avx2), "{format}, {inputs} inputs");
        }
    }
}
