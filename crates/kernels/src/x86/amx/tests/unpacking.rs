//! Unpackers against `candor_quant`'s decoding, rounded: bit by bit. Plain AVX-512, so never emulated.

use candor_quant::{Format, half};

use super::amx;
use super::random::{Random, columns, decode};
use crate::Line;
use crate::x86::amx::unpack::{BLOCK_ROWS, Decoded, Halves, Panel, STEP, Step, Unpack, k_quants, legacy, plain};

/// The nearest bfloat16; denormal numbers are zero.
fn rounded(x: f32) -> u16 {
    let tiny = x.abs() < f32::MIN_POSITIVE;
    half::f32_to_bf16(if tiny { 0f32.copysign(x) } else { x })
}

fn word(steps: &[Step], halves: usize, half: usize, r: usize, column: usize) -> u16 {
    let Line(dwords) = steps[column / STEP * halves + half][r];
    (dwords[column % STEP / 2] >> (16 * (column % 2))) as u16
}

fn check<W: Unpack>() {
    let halves = W::HALVES as usize;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let most = W::HALVES.panel_cols();
        let about = [32, most, 64, most / 2 + 32][seed as usize % 4];
        let cols = columns(W::FORMAT, about).min(most);
        let bytes = random.weights(W::FORMAT, 1, cols);
        let r = random.bits() as usize % BLOCK_ROWS;
        const MARK: Line = Line([0x7777_7777; 16]);
        let mut panel: Panel = [[MARK; BLOCK_ROWS]; 16];
        let steps = cols.div_ceil(STEP) * halves;
        // SAFETY: `amx` found the features.
        unsafe { W::unpack(&bytes, &mut panel[..steps], r) };
        let case = format!("{} cols {cols} row {r} seed {seed}", W::FORMAT);
        let values = decode(W::FORMAT, &bytes);
        for column in 0..cols.next_multiple_of(STEP) {
            let value = values.get(column).copied().unwrap_or(0.0);
            // Its own numbers are copied: it is the tiles that take denormal ones for zero.
            let large = if W::FORMAT == Format::Bf16 { half::f32_to_bf16(value) } else { rounded(value) };
            assert_eq!(word(&panel, halves, 0, r, column), large, "{case}: column {column}, {value}");
            if W::HALVES == Halves::Two {
                let rest = value - half::bf16_to_f32(large);
                assert_eq!(
                    word(&panel, halves, 1, r, column),
                    rounded(rest),
                    "{case}: rest of column {column}, {value}"
                );
                let sum = f64::from(half::bf16_to_f32(large)) + f64::from(half::bf16_to_f32(rounded(rest)));
                assert_eq!(sum, f64::from(value), "{case}: two halves hold a half-precision number");
            }
        }
        for (s, step) in panel.iter().enumerate() {
            for (i, line) in step.iter().enumerate() {
                assert!(line.0 == MARK.0 || (i == r && s < steps), "{case}: step {s} row {i} was written");
            }
        }
    }
}

#[test]
fn every_unpacker_rounds_what_is_decoded() {
    if amx().is_none() {
        return;
    }
    check::<plain::Bf16>();
    check::<plain::F16>();
    check::<legacy::Q4_0>();
    check::<legacy::Q4_1>();
    check::<legacy::Q5_0>();
    check::<legacy::Q5_1>();
    check::<legacy::Q8_0>();
    check::<legacy::Iq4Nl>();
    check::<k_quants::Q2K>();
    check::<k_quants::Q3K>();
    check::<k_quants::Q4K>();
    check::<k_quants::Q5K>();
    check::<k_quants::Q6K>();
    check::<k_quants::Iq4Xs>();
    check::<Decoded<{ Format::Mxfp4.ggml_id() }>>();
    check::<Decoded<{ Format::Iq3S.ggml_id() }>>();
    check::<Decoded<{ Format::Nvfp4.ggml_id() }>>();
}
