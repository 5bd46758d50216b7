//! Encoders against ggml's: the bytes of `goldens/encoded.txt`, and for formats of codebooks the errors of `goldens/errors.txt`.
//! `tools/goldens/quantize.py` writes both.

use std::fmt::Write;

use candor_quant::Format;

const GOLDEN: &str = include_str!("../goldens/encoded.txt");
const ERRORS: &str = include_str!("../goldens/errors.txt");
const COLUMNS: usize = 1024;
const COUNT: usize = 12 * COLUMNS;
const KINDS: &[&str] =
    &["normal", "heavy", "mixed", "constant", "zero", "sparse", "small", "subnormal", "large", "grid", "hundreds"];

/// SplitMix64, the upper 24 bits of each number as a fraction from 0 to 1.
fn numbers(mut seed: u64, count: usize) -> Vec<f32> {
    let mut next = || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 * (-24f32).exp2()
    };
    (0..count).map(|_| next()).collect()
}

/// The rows of the script.
fn values(kind: &str) -> Vec<f32> {
    let place = KINDS.iter().position(|known| *known == kind).expect("a known kind");
    let u = numbers(place as u64 + 1, 4 * COUNT);
    let u = |run: usize, i: usize| u[run * COUNT + i];
    let value = |i: usize| {
        let normal = (((u(0, i) + u(1, i)) + u(2, i)) + u(3, i)) - 2.0;
        let cube = (normal * normal) * normal;
        let group = i / 16;
        match kind {
            "normal" => normal * 0.02,
            "heavy" => (cube * cube) * cube,
            "mixed" => normal * u(1, group) + (u(2, group) - 0.5),
            "constant" if i % COLUMNS < COLUMNS / 2 => 0.3125,
            "constant" => -0.7,
            "sparse" if u(0, i) < 0.03 => normal,
            "small" => (normal * 1e-6) * u(3, i),
            "subnormal" => normal * 1e-39,
            "large" => normal * 1e30,
            "hundreds" => normal * 1500.0,
            "grid" => ((u(0, i) * 16.0).floor() - 8.0) * 0.25,
            _ => 0.0,
        }
    };
    (0..COUNT).map(value).collect()
}

fn importance() -> Vec<f32> {
    numbers(99, COLUMNS).into_iter().map(|u| (u * u) * u + 1e-6).collect()
}

/// FNV-1a of 64 bits.
fn hash(bytes: &[u8]) -> String {
    let state = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |state: u64, &byte| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{state:016x}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

#[test]
fn encoded_rows_are_ggmls() {
    let importance = importance();
    let mut wrong = Vec::new();
    for line in GOLDEN.lines() {
        let [name, kind, how, digest, first] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let format = named(name);
        let importance = (how == "importance").then_some(&importance[..]);
        let mut bytes = Vec::new();
        for row in values(kind).chunks(COLUMNS) {
            let mut encoded = vec![0; format.row_bytes(COLUMNS).expect("whole blocks")];
            format.encode_by(row, importance, &mut encoded).expect("an encoder");
            bytes.extend(encoded);
        }
        let block = hex(&bytes[..format.block_bytes()]);
        if block != first {
            wrong.push(format!("{name}, {kind}, {how}: first block\n  {block}, ggml\n  {first}"));
        } else if hash(&bytes) != digest {
            wrong.push(format!("{name}, {kind}, {how}: later blocks"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn named(name: &str) -> Format {
    *Format::ALL.iter().find(|format| format.name() == name).expect("a known format")
}

/// How much the mean square of a block counts in ggml's weights of its elements: with importance, and alone.
fn spread(format: Format, weighted: bool) -> f64 {
    match (format, weighted) {
        (Format::Iq2Xxs | Format::Iq2Xs, true) => 1.0,
        (_, true) => 2.0,
        (Format::Iq2S, false) => 0.5,
        (_, false) => 0.0,
    }
}

/// The weighted squared error of a row that was encoded and decoded. Decoded numbers are finite.
fn error(format: Format, row: &[f32], importance: Option<&[f32]>) -> f64 {
    let mut bytes = vec![0; format.row_bytes(row.len()).expect("whole blocks")];
    format.encode_by(row, importance, &mut bytes).expect("an encoder");
    let mut decoded = vec![0.0; row.len()];
    format.decode(&bytes, &mut decoded);
    let mut sum = 0.0;
    for (block, values) in row.chunks(256).enumerate() {
        let mean = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 256.0;
        for (i, &x) in (block * 256..).zip(values) {
            let square = spread(format, importance.is_some()) * mean + f64::from(x).powi(2);
            let weight = importance.map_or(square, |importance| f64::from(importance[i]) * square.sqrt());
            assert!(decoded[i].is_finite(), "{format}: {x} became {}", decoded[i]);
            sum += weight * (f64::from(decoded[i]) - f64::from(x)).powi(2);
        }
    }
    sum
}

#[test]
fn rows_of_codebook_points_are_at_most_as_wrong_as_ggmls() {
    let importance = importance();
    let mut worse = Vec::new();
    for line in ERRORS.lines() {
        let [name, kind, how, theirs] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let importance = (how == "importance").then_some(&importance[..]);
        let (values, mut theirs) = (values(kind), theirs.split(' '));
        for (number, row) in values.chunks(COLUMNS).enumerate() {
            let ours = error(named(name), row, importance);
            // Where ggml fails there is nothing to compare with. Sums of floats in another order differ in their last digits.
            let limit = theirs.next().map_or(f64::INFINITY, |text| text.parse().unwrap_or(f64::INFINITY));
            if ours > limit * (1.0 + 1e-8) {
                worse.push(format!("{name}, {kind}, {how}, row {number}: {ours:e}, ggml {limit:e}"));
            }
        }
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}

/// Importance of zero says nothing of how elements compare, and huge or tiny one must not overflow.
#[test]
fn any_importance_makes_finite_codebook_rows() {
    let row = &values("normal")[..COLUMNS];
    let plain = importance();
    for &format in Format::ALL.iter().filter(|format| ERRORS.contains(&format!("{format} "))) {
        for factor in [0.0, 1e-30, 1e30] {
            let scaled: Vec<f32> = plain.iter().map(|importance| importance * factor).collect();
            let found = error(format, row, Some(&scaled));
            let expected = error(format, row, Some(&plain)) * f64::from(factor);
            assert!((found - expected).abs() <= 1e-2 * expected, "{format}, times {factor}: {found}, not {expected}");
        }
    }
}

#[test]
fn every_encoder_has_its_lines() {
    for &format in Format::ALL.iter().filter(|format| **format != Format::F32) {
        let lines = |of: &str| of.lines().filter(|line| line.split(' ').next() == Some(format.name())).count();
        let expected = match format {
            // ggml makes these with importance alone.
            Format::Iq1S | Format::Iq2Xxs | Format::Iq2Xs => (0, KINDS.len()),
            Format::Iq1M | Format::Iq2S | Format::Iq3Xxs | Format::Iq3S => (0, 2 * KINDS.len()),
            _ if format.can_encode() => (2 * KINDS.len(), 0),
            _ => (0, 0),
        };
        assert_eq!((lines(GOLDEN), lines(ERRORS)), expected, "{format}");
    }
}
