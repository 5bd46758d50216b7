//! Packed inputs: every number in its place, rounded; zeros elsewhere. Plain AVX-512, so never emulated.

use candor_quant::half;

use super::has_bf16;
use super::random::Random;
use candor_kernels::inside::x86::Avx512;
use candor_kernels::inside::x86::batch::{BLOCK_ROWS, Form, packing};
use candor_kernels::{Line, Packing};

/// The dword or word of a number.
fn stored(form: Form, half: usize, x: f32) -> u32 {
    match form {
        Form::F32 => x.to_bits(),
        Form::Bf16 | Form::TwoBf16 => halves(x)[half].into(),
    }
}

/// A number in its halves.
fn halves(x: f32) -> [u16; 2] {
    let flushed = |x: f32| half::f32_to_bf16(if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x });
    let large = flushed(x);
    [large, flushed(x - half::bf16_to_f32(large))]
}

fn check(form: Form, inputs: usize, cols: usize) {
    let packing: &Packing = packing(form);
    let (count, step_cols) = (form.halves(), form.step_cols());
    let line_cols = step_cols / 16;
    let mut random = Random::new((inputs * 1000 + cols) as u64);
    let mut x = random.inputs(inputs * cols);
    x[0] = 1e-40;
    let room = packing.room(inputs, cols);
    let mut lines = vec![Line([0x7777_7777; 16]); room];
    for (index, piece) in lines.chunks_mut(packing.lines).enumerate() {
        (packing.pack)(piece, &x, cols, index);
    }
    let blocks = inputs.div_ceil(BLOCK_ROWS);
    let mut written = vec![false; room];
    for t in 0..blocks * BLOCK_ROWS {
        let tiles = (inputs - t / BLOCK_ROWS * BLOCK_ROWS).div_ceil(16).min(2);
        if t % BLOCK_ROWS / 16 == tiles {
            continue; // no tile for it
        }
        for column in 0..cols.next_multiple_of(step_cols) {
            let value = if t < inputs && column < cols { x[t * cols + column] } else { 0.0 };
            let piece = column / packing.cols * blocks + t / BLOCK_ROWS;
            let step = column % packing.cols / step_cols;
            for half in 0..count {
                let tile = (step * count + half) * tiles + t % BLOCK_ROWS / 16;
                let line = piece * packing.lines + tile * 16 + column % step_cols / line_cols;
                written[line] = true;
                let shifted = lines[line].0[t % 16] >> (16 * (column % line_cols));
                let word = if line_cols == 2 { shifted & 0xffff } else { shifted };
                let case = format!("{form:?} {inputs} x {cols}: [{t}][{column}] half {half}");
                assert_eq!(word, stored(form, half, value), "{case}: {value}");
            }
        }
    }
    for (i, line) in lines.iter().enumerate() {
        assert!(written[i] || line.0 == [0x7777_7777; 16], "{inputs} x {cols}: line {i} was written");
    }
}

#[test]
fn every_input_is_in_its_place() {
    if Avx512::detect().is_none() {
        return;
    }
    for form in [Form::F32, Form::Bf16, Form::TwoBf16] {
        if form != Form::F32 && !has_bf16() {
            continue;
        }
        for inputs in [1, 15, 16, 17, 31, 32, 33, 48, 49, 70] {
            for cols in [1, 27, 32, 256, 300, 512, 513, 1056] {
                check(form, inputs, cols);
            }
        }
    }
}

#[test]
fn two_halves_have_sixteen_bits() {
    let mut random = Random::new(5);
    for _ in 0..100_000 {
        let x = random.signed() * 2f32.powi(random.bits() as i32 % 40 - 20);
        let sum: f64 = halves(x).map(|half| f64::from(half::bf16_to_f32(half))).iter().sum();
        assert!((sum - f64::from(x)).abs() <= f64::from(x.abs()) * 2f64.powi(-17), "{x}");
    }
}
