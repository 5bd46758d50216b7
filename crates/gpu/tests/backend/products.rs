//! Matrix products and embeddings of every format.

use candor_gpu::{Dequant, Gpu, adapters};
use candor_ops::{Prims, Reference, Step, Tensor};
use candor_quant::Format;
use candor_testing::backend::products::{SHAPES, embedded, product};
use candor_testing::backend::{Random, bits, read, upload};
use candor_testing::nmse;

use crate::{backends, differs, of_kind, options, sound};

/// The formats that shaders decode.
pub(crate) const FORMATS: &[Format] = &[
    Format::F32,
    Format::F16,
    Format::Bf16,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5_1,
    Format::Q8_0,
    Format::Q2K,
    Format::Q3K,
    Format::Q4K,
    Format::Q5K,
    Format::Q6K,
    Format::Iq4Nl,
    Format::Iq4Xs,
    Format::Mxfp4,
    Format::Nvfp4,
    Format::Iq1S,
    Format::Iq1M,
    Format::Iq2Xxs,
    Format::Iq2Xs,
    Format::Iq2S,
    Format::Iq3Xxs,
    Format::Iq3S,
    Format::Tq1_0,
    Format::Tq2_0,
];

/// Inputs rounded to 8 bits in blocks of 32.
pub(crate) fn in_bytes(x: &[f32]) -> Vec<f32> {
    let block = |block: &[f32]| {
        let most = block.iter().fold(0.0, |most: f32, value| most.max(value.abs()));
        let (scale, inverse) = (most / 127.0, 127.0 / most);
        block.iter().map(move |value| (value * inverse).round_ties_even() * scale).collect::<Vec<f32>>()
    };
    x.chunks_exact(32).flat_map(block).collect()
}

pub(crate) fn as_halves(x: &[f32]) -> Vec<f32> {
    let (mut halves, mut values) = (vec![0; x.len() * 2], vec![0.0; x.len()]);
    Format::F16.encode(x, &mut halves).expect("halves have an encoder");
    Format::F16.decode(&halves, &mut values);
    values
}

pub(crate) fn in_halves(tensor: &Tensor) -> Tensor {
    let (mut values, mut halves) = (vec![0.0; tensor.rows * tensor.cols], vec![0; tensor.rows * tensor.cols * 2]);
    tensor.format.decode(&tensor.bytes, &mut values);
    Format::F16.encode(&values, &mut halves).expect("halves have an encoder");
    Tensor { format: Format::F16, bytes: halves.into(), ..tensor.clone() }
}

/// Against the reference on inputs, few that decode or many of prompts, as the variant sees them; and what rounding
/// them may cost.
fn check(gpu: &mut Gpu, name: &str, tensor: &Tensor, (rows, few): (usize, bool), seed: u64) {
    let x = Random(seed).floats(rows * tensor.cols);
    let case = format!("{}, {rows} rows, {name}, seed {seed}", tensor.name);
    let got = of_kind(few, || product(gpu, tensor, &x));
    let cooperative = gpu.variant().cooperative.is_some();
    let bytes = gpu.variant().int8_dot && tensor.rows > 1 && tensor.format.block_len() > 1 && (few || !cooperative);
    let wide = matches!(tensor.format, Format::F32 | Format::Bf16) || tensor.rows == 1;
    let halves = (gpu.variant().f16 || cooperative) && !few && !bytes && !wide;
    let (seen, weights) = match () {
        () if bytes => (in_bytes(&x), tensor.clone()),
        () if halves => (as_halves(&x), in_halves(tensor)),
        () => (x.clone(), tensor.clone()),
    };
    let error = nmse(&got, &product(&mut Reference, &weights, &seen));
    // The quotients of hardware are two units off, and then a number that lies between two bytes goes to the other one.
    let most = if bytes && adapters()[0].kind != "software" { 1e-7 } else { 1e-11 };
    assert!(error < most, "{case}: {error}");
    let error = nmse(&got, &product(&mut Reference, tensor, &x));
    let rounding = if bytes { 1e-9..3e-3 } else { 1e-9..1e-6 };
    assert!(!(bytes || halves) || rounding.contains(&error), "{case}: {error} against exact inputs");
}

/// Whether a format is multiplied with that many inputs on a device: one of them or a tile on all devices, between them another
/// number on each. How many there are and how a device adds up do not meet, and each number is a shader of its own.
fn is_due(inputs: usize, format: usize, device: usize) -> bool {
    !(2..=8).contains(&inputs) || inputs == several(format, device)
}

/// The number of inputs between one and a tile that is a format's on a device.
fn several(format: usize, device: usize) -> usize {
    [2, 3, 7][(format + device) % 3]
}

#[test]
fn every_format_multiplies() {
    let mut turns = 0;
    for (name, mut gpu) in backends() {
        // Those whose products of few inputs differ take turns.
        let turn = turns;
        turns += usize::from(differs(&gpu, true));
        for (i, &format) in FORMATS.iter().enumerate() {
            for (j, &(inputs, blocks, outputs)) in SHAPES.iter().enumerate() {
                if !differs(&gpu, inputs <= 8) || !is_due(inputs, i, turn) {
                    continue;
                }
                let seed = (i * SHAPES.len() + j) as u64;
                check(
                    &mut gpu,
                    &name,
                    &Random(seed).matrix(format, outputs, blocks * 256),
                    (inputs, inputs <= 8),
                    seed,
                );
            }
        }
        sound(&mut gpu);
    }
}

#[test]
fn every_number_of_inputs_multiplies() {
    for (name, mut gpu) in backends() {
        for rows in (1..=10).chain([63, 64, 65, 128, 129]) {
            for few in [false, true] {
                if differs(&gpu, few) {
                    let tensor = Random(rows as u64).matrix(Format::Q8_0, 37, 96);
                    check(&mut gpu, &name, &tensor, (rows, few), rows as u64);
                }
            }
        }
        sound(&mut gpu);
    }
}

#[test]
fn short_and_odd_rows_multiply() {
    let mut turns = 0;
    for (name, mut gpu) in backends() {
        let turn = turns;
        turns += usize::from(differs(&gpu, true));
        for (i, &format) in FORMATS.iter().enumerate().filter(|(_, format)| format.block_len() < 256) {
            for (j, cols) in [1, 3, 31, 33, 77].into_iter().enumerate() {
                let (seed, cols) = ((i * 5 + j) as u64, cols * format.block_len());
                for inputs in [several(i, turn), 12] {
                    if differs(&gpu, inputs <= 8) {
                        check(&mut gpu, &name, &Random(seed).matrix(format, 37, cols), (inputs, inputs <= 8), seed);
                    }
                }
            }
        }
        sound(&mut gpu);
    }
}

/// One number, a whole block, infinity: whatever inputs are rounded to.
#[test]
fn what_is_no_number_spreads_to_its_row_alone() {
    let (mut random, cols) = (Random(6), 256);
    let tensor = random.matrix(Format::Q4K, 40, cols);
    for rows in [4, 20] {
        let mut x = random.floats(rows * cols);
        x[33] = f32::NAN;
        x[2 * cols..][64..96].fill(f32::NAN);
        x[4 * cols - 1] = f32::INFINITY;
        for (name, mut gpu) in backends() {
            for (i, value) in of_kind(rows == 4, || product(&mut gpu, &tensor, &x)).into_iter().enumerate() {
                let bad = [0, 2, 3].contains(&(i / 40));
                assert_eq!(!value.is_finite(), bad, "{name}: row {} of {rows} has {value}", i / 40);
            }
        }
    }
}

#[test]
fn what_is_too_large_for_a_half_becomes_the_largest() {
    let (mut random, cols) = (Random(8), 256);
    let tensor = random.matrix(Format::F16, 40, cols);
    let mut x = random.floats(20 * cols);
    (x[33], x[3 * cols + 7]) = (1e6, -7e4);
    let seen = as_halves(&x.iter().map(|value| value.clamp(-65504.0, 65504.0)).collect::<Vec<_>>());
    let want = product(&mut Reference, &tensor, &seen);
    for (name, mut gpu) in backends() {
        if gpu.variant().f16 || gpu.variant().cooperative.is_some() {
            let error = nmse(&product(&mut gpu, &tensor, &x), &want);
            assert!(error < 1e-11, "{name}: {error}");
            sound(&mut gpu);
        }
    }
}

#[test]
fn only_the_rows_asked_for_are_multiplied() {
    let (mut random, width) = (Random(5), 256);
    let (tensor, x) = (random.matrix(Format::Q4K, 40, width), random.floats(5 * width));
    for (name, mut gpu) in backends() {
        let w = gpu.weight(tensor.clone()).expect("Q4_K runs");
        let x = upload(&mut gpu, width, &x);
        let (mut all, mut some) = (gpu.buffer(5, 40), gpu.buffer(5, 40));
        gpu.matmul(&mut all, &x, &w);
        let all = read(&mut gpu, &all);
        for outputs in [&[1, 4][..], &[0], &[], &[0, 1, 2, 3, 4]] {
            gpu.matmul_rows(
                &mut some,
                &x,
                &w,
                &Step { tokens: &[], positions: &[], sequences: &[], outputs, decoding: 0 },
            );
            let want: Vec<f32> = outputs.iter().flat_map(|&t| &all[t as usize * 40..][..40]).copied().collect();
            let error = nmse(&read(&mut gpu, &some), &want);
            assert!(error < 1e-13, "{name}, rows {outputs:?}: {error}");
        }
        sound(&mut gpu);
    }
}

/// What decoding may cost: a device may contract `scale * q - minimum`.
const DECODING: f64 = 1e-14;

#[test]
fn embed_decodes_rows_of_every_format() {
    for (name, mut gpu) in backends() {
        for (i, &format) in FORMATS.iter().enumerate() {
            let table = Random(i as u64).matrix(format, 9, 512);
            let step =
                Step { tokens: &[8, 0, 3, 8], positions: &[0; 4], sequences: &[0; 4], outputs: &[], decoding: 0 };
            let got = embedded(&mut gpu, &table, &step);
            let error = nmse(&got, &embedded(&mut Reference, &table, &step));
            assert!(error < DECODING, "{}, {name}: {error}", format.name());
            let table = gpu.weight(table).expect("every format runs");
            let mut x = upload(&mut gpu, 512, &[0.0; 4 * 512]);
            gpu.add_positions(&mut x, &table, &Step { positions: &[8, 0, 3, 8], ..step });
            let differs = |(a, b): (&f32, &f32)| a != b;
            assert!(!read(&mut gpu, &x).iter().zip(&got).any(differs), "{}, {name}: at positions", format.name());
        }
        sound(&mut gpu);
    }
}

#[test]
fn weights_are_split_by_rows_where_a_buffer_is_too_small() {
    let Some(options) = options() else { return };
    // Six rows of Q6_K, four of F32 and two of F16.
    let whole = &mut backends()[0].1;
    let mut gpu = Gpu::new(&options.part_bytes(4096).variant(whole.variant())).expect("the adapter opens");
    for (format, rows, cols) in [(Format::Q6K, 20, 768), (Format::F32, 7, 250), (Format::F16, 5, 1024)] {
        let tensor = Random(rows as u64).matrix(format, rows, cols);
        for inputs in [1, 3, 12] {
            let x = Random(7).floats(inputs * cols);
            for few in [false, true] {
                let [split, got] = [&mut gpu, &mut *whole].map(|gpu| of_kind(few, || product(gpu, &tensor, &x)));
                assert!(nmse(&split, &got) < 1e-13, "{}, {inputs} inputs, few: {few}", tensor.name);
            }
        }
        let step = Step { tokens: &[4, 0, 2, 4], positions: &[0; 4], sequences: &[0; 4], outputs: &[], decoding: 0 };
        assert_eq!(
            bits(&embedded(&mut gpu, &tensor, &step)),
            bits(&embedded(whole, &tensor, &step)),
            "{}",
            tensor.name
        );
        let at_positions = |gpu: &mut Gpu| {
            let table = gpu.weight(tensor.clone()).expect("every format runs");
            let mut x = upload(gpu, cols, &vec![1.0; 4 * cols]);
            gpu.add_positions(&mut x, &table, &Step { positions: &[4, 0, 2, 4], ..step });
            read(gpu, &x)
        };
        assert_eq!(bits(&at_positions(&mut gpu)), bits(&at_positions(whole)), "{}", tensor.name);
    }
    let tensor = Random(0).matrix(Format::F32, 2, 1025);
    let message = gpu.weight(tensor).expect_err("4160 bytes").to_string();
    assert!(message.ends_with("tensor F32 [2, 1025]: a row of 4160 bytes exceeds the limit of a buffer"), "{message}");
    sound(&mut gpu);
}

#[test]
fn formats_without_a_shader_are_refused_or_become_halves() {
    let Some(options) = options() else { return };
    let mut refusing = Gpu::new(&options).expect("the adapter opens");
    let mut decoding = Gpu::new(&options.dequant(Dequant::ToF16)).expect("the adapter opens");
    for &format in Format::ALL.iter().filter(|format| !FORMATS.contains(format)) {
        let tensor = Random(1).matrix(format, 9, 512);
        let message = refusing.weight(tensor.clone()).expect_err("no shader").to_string();
        assert_eq!(message, format!("tensor {}: format {} cannot run on the gpu", tensor.name, format.name()));
        let x = Random(2).floats(2 * 512);
        let error = nmse(&product(&mut decoding, &tensor, &x), &product(&mut Reference, &tensor, &x));
        assert!(error < 1e-6, "{}: {error}", tensor.name);
        // A vector is decoded in any case.
        let vector = Random(1).matrix(format, 1, 512);
        let error = nmse(&product(&mut refusing, &vector, &x), &product(&mut Reference, &vector, &x));
        assert!(error < 1e-11, "{}: {error}", vector.name);
    }
    sound(&mut refusing);
    sound(&mut decoding);
}
