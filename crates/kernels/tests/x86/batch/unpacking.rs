//! Unpackers against `candor_quant`'s decoding, rounded: bit by bit. Plain AVX-512, so never emulated.

use candor_quant::{Format, half};

use super::has_bf16;
use super::random::{Random, columns, decode};
use candor_kernels::Line;
use candor_kernels::inside::x86::Avx512;
use candor_kernels::inside::x86::batch::{self, BLOCK_ROWS, Form, Panel, STEP, Step, Unpack};

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
    let halves = W::FORM.halves();
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let most = W::FORM.panel_cols();
        let about = [32, most, 64, most / 2 + 32][seed as usize % 4];
        let cols = columns(W::FORMAT, about).min(most);
        let bytes = random.weights(W::FORMAT, 1, cols);
        let r = random.bits() as usize % BLOCK_ROWS;
        const MARK: Line = Line([0x7777_7777; 16]);
        let mut panel: Panel = [[MARK; BLOCK_ROWS]; 16];
        let steps = cols.div_ceil(STEP) * halves;
        // SAFETY: `has_bf16` found the features.
        unsafe { W::unpack(&bytes, &mut panel[..steps], r) };
        let case = format!("{} cols {cols} row {r} seed {seed}", W::FORMAT);
        let values = decode(W::FORMAT, &bytes);
        for column in 0..cols.next_multiple_of(STEP) {
            let value = values.get(column).copied().unwrap_or(0.0);
            // Its own numbers are copied: it is the tiles that take denormal ones for zero.
            let large = if W::FORMAT == Format::Bf16 { half::f32_to_bf16(value) } else { rounded(value) };
            assert_eq!(word(&panel, halves, 0, r, column), large, "{case}: column {column}, {value}");
            if W::FORM == Form::TwoBf16 {
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
    if !has_bf16() {
        return;
    }
    check::<batch::Bf16>();
    check::<batch::F16>();
    check::<batch::Q4_0>();
    check::<batch::Q4_1>();
    check::<batch::Q5_0>();
    check::<batch::Q5_1>();
    check::<batch::Q8_0>();
    check::<batch::Iq4Nl>();
    check::<batch::Q2K>();
    check::<batch::Q3K>();
    check::<batch::Q4K>();
    check::<batch::Q5K>();
    check::<batch::Q6K>();
    check::<batch::Iq4Xs>();
    check::<batch::Mxfp4>();
    check::<batch::Nvfp4>();
    check::<batch::Iq1S>();
    check::<batch::Iq1M>();
    check::<batch::Iq2Xxs>();
    check::<batch::Iq2Xs>();
    check::<batch::Iq2S>();
    check::<batch::Iq3Xxs>();
    check::<batch::Iq3S>();
    check::<batch::Tq1_0>();
    check::<batch::Tq2_0>();
}

/// Floats of a panel are the decoded numbers themselves.
fn check_wide<W: Unpack>() {
    for cols in [1, 15, 16, 17, 100, 256] {
        let mut random = Random::new(cols as u64);
        let bytes = random.weights(W::FORMAT, 1, cols);
        let mut panel: Panel = [[Line([0x7777_7777; 16]); BLOCK_ROWS]; 16];
        let before = panel;
        let steps = cols.div_ceil(16);
        // SAFETY: the test found the features.
        unsafe { W::unpack(&bytes, &mut panel[..steps], 5) };
        let values = decode(W::FORMAT, &bytes);
        for column in 0..steps * 16 {
            let value = values.get(column).copied().unwrap_or(0.0);
            assert_eq!(panel[column / 16][5].0[column % 16], value.to_bits(), "{} cols {cols}: {column}", W::FORMAT);
        }
        for (s, step) in panel.iter().enumerate() {
            for (i, line) in step.iter().enumerate() {
                assert!(line.0 == before[s][i].0 || (i == 5 && s < steps), "{} step {s} row {i}", W::FORMAT);
            }
        }
    }
}

#[test]
fn floats_are_as_they_were() {
    if Avx512::detect().is_none() {
        return;
    }
    check_wide::<batch::Wide<batch::WideF32>>();
    check_wide::<batch::Wide<batch::WideF16>>();
    check_wide::<batch::Wide<batch::WideBf16>>();
}
