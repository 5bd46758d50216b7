//! Bit-exactness against the `gguf` Python package: the files in `goldens/`, and by hand what that package does not
//! decode.

use candor_quant::{Format, Unsupported};

macro_rules! golden {
    ($($name:literal)*) => { &[$(($name, include_bytes!(concat!("../goldens/", $name, ".bin")))),*] };
}

const DECODED: &[(&str, &[u8])] = golden![
    "F32" "F16" "BF16" "Q4_0" "Q4_1" "Q5_0" "Q5_1" "Q8_0" "Q2_K" "Q3_K" "Q4_K" "Q5_K" "Q6_K" "IQ1_S" "IQ1_M" "IQ2_XXS"
    "IQ2_XS" "IQ2_S" "IQ3_XXS" "IQ3_S" "IQ4_NL" "IQ4_XS" "TQ1_0" "TQ2_0" "MXFP4" "NVFP4"
];

const ENCODED: &[(&str, &[u8])] = golden![
    "encode-F32" "encode-F16" "encode-BF16" "encode-Q4_0" "encode-Q4_1" "encode-Q5_0" "encode-Q5_1" "encode-Q8_0"
];

/// Formats that the package does not decode.
const BY_HAND: &[Format] = &[
    Format::Q8_1,
    Format::Q8K,
    Format::I8,
    Format::I16,
    Format::I32,
    Format::I64,
    Format::F64,
    Format::Q1_0,
    Format::Q2_0,
];

/// Formats that can't be encoded.
const DECODED_ONLY: &[Format] =
    &[Format::Q8_1, Format::Q8K, Format::I8, Format::I16, Format::I32, Format::I64, Format::F64];

fn named(name: &str) -> Format {
    *Format::ALL.iter().find(|format| format.name() == name).expect("a golden of a known format")
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// The bits, with one pattern for all NaNs: their payload means nothing.
fn bits(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
}

fn decode(format: Format, bytes: &[u8]) -> Vec<f32> {
    let mut out = vec![f32::MIN; bytes.len() / format.block_bytes() * format.block_len()];
    format.decode(bytes, &mut out);
    out
}

#[test]
fn every_format_has_a_golden() {
    for format in Format::ALL {
        let file = DECODED.iter().any(|(name, _)| *name == format.name());
        assert_ne!(file, BY_HAND.contains(format), "{format}");
    }
}

#[test]
fn decoded_rows_are_those_of_the_gguf_package() {
    for &(name, golden) in DECODED {
        let format = named(name);
        let (size, length) = (format.block_bytes(), format.block_len());
        let blocks = golden.len() / (size + 4 * length);
        assert_eq!(golden.len(), blocks * (size + 4 * length), "{name}");
        let (bytes, expected) = golden.split_at(blocks * size);
        let expected = floats(expected);
        for (i, (got, expected)) in decode(format, bytes).into_iter().zip(&expected).enumerate() {
            assert_eq!(bits(got), bits(*expected), "{name}, element {i}: got {got:e}, expected {expected:e}");
        }
        let hard = |is: fn(&f32) -> bool| expected.iter().any(is);
        assert!(hard(|v| *v == 0.0) && hard(|v| *v < 0.0), "{name}: the golden lacks zeros or negatives");
        assert!(hard(|v| v.is_nan()) || ["MXFP4", "NVFP4"].contains(&name), "{name}: the golden lacks NaN");
    }
}

#[test]
fn a_nan_scale_gives_nan_throughout() {
    // Offset of the f16 scale; -1.0 everywhere else would be a block of numbers.
    let cases = [("Q4_0", 0), ("Q8_0", 0), ("Q2_K", 80), ("Q3_K", 108), ("Q4_K", 0), ("Q6_K", 208), ("IQ2_S", 0)];
    for (name, at) in cases {
        let format = named(name);
        let mut block = vec![0x11; format.block_bytes()];
        block[at..at + 2].copy_from_slice(&0xbc00u16.to_le_bytes());
        assert!(decode(format, &block).iter().all(|v| v.is_finite()), "{name}");
        block[at..at + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
        assert!(decode(format, &block).iter().all(|v| v.is_nan()), "{name}");
    }
}

#[test]
fn encoded_rows_are_those_of_the_gguf_package() {
    for &(name, golden) in ENCODED {
        let format = named(name.strip_prefix("encode-").expect("a golden of an encoder"));
        let row = format.row_bytes(32).expect("a row of blocks");
        let rows = golden.len() / (128 + row);
        assert_eq!(golden.len(), rows * (128 + row), "{name}");
        let (values, expected) = golden.split_at(rows * 128);
        let mut got = vec![0; rows * row];
        format.encode(&floats(values), &mut got).expect("an encoder");
        for (i, (got, expected)) in got.chunks(row).zip(expected.chunks(row)).enumerate() {
            assert_eq!(got, expected, "{name}, row {i}: {:?}", floats(&values[128 * i..128 * (i + 1)]));
        }
    }
}

#[test]
fn formats_without_an_encoder_say_so() {
    for &format in Format::ALL {
        let encoded = !DECODED_ONLY.contains(&format);
        assert_eq!(format.can_encode(), encoded, "{format}");
        let mut block = vec![0; format.block_bytes()];
        let result = format.encode(&vec![0.0; format.block_len()], &mut block);
        assert_eq!(result, if encoded { Ok(()) } else { Err(Unsupported(format)) });
    }
    assert_eq!(Unsupported(Format::Q8K).to_string(), "Q8_K: no encoder for this format");
}

#[test]
fn nan_and_infinity_are_not_lost_in_encoding() {
    for &(name, _) in ENCODED {
        let format = named(name.strip_prefix("encode-").expect("a golden of an encoder"));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in [0, 13, 31] {
                let mut values = [0.5; 32];
                values[place] = bad;
                let mut bytes = vec![0; format.row_bytes(32).expect("a row of blocks")];
                format.encode(&values, &mut bytes).expect("an encoder");
                assert!(!decode(format, &bytes)[place].is_finite(), "{format}: {bad} at {place}");
            }
        }
    }
}

#[test]
fn integers_and_doubles() {
    let cases: &[(Format, Vec<u8>, &[f32])] = &[
        (Format::I8, vec![0, 1, 0x7f, 0x80, 0xff], &[0.0, 1.0, 127.0, -128.0, -1.0]),
        (Format::I16, vec![0, 1, 0xff, 0x7f, 0, 0x80], &[256.0, 32767.0, -32768.0]),
        (
            Format::I32,
            [16_777_217i32, -5, i32::MIN].map(i32::to_le_bytes).concat(),
            &[16_777_216.0, -5.0, -2147483648.0],
        ),
        (Format::I64, [1i64 << 40, -3, i64::MAX].map(i64::to_le_bytes).concat(), &[1099511627776.0, -3.0, 9.223372e18]),
        (Format::F64, [0.1, -2.5, 1e300, 1e-300].map(f64::to_le_bytes).concat(), &[0.1, -2.5, f32::INFINITY, 0.0]),
        (Format::F64, f64::NAN.to_le_bytes().to_vec(), &[f32::NAN]),
    ];
    for (format, bytes, expected) in cases {
        let got: Vec<u32> = decode(*format, bytes).into_iter().map(bits).collect();
        assert_eq!(got, expected.iter().map(|&v| bits(v)).collect::<Vec<_>>(), "{format}");
    }
}

#[test]
fn activation_blocks() {
    // d = 0.5 as f16 and f32, quants -128, -127 ... ; the sums are set to nonsense, which must not show.
    let quants: Vec<u8> = (0..=255u8).map(|i| i.wrapping_add(128)).collect();
    let value = |q: &u8| 0.5 * f32::from(*q as i8);
    let q8_1 = [&[0x00, 0x38, 0xff, 0x7b], &quants[..32]].concat();
    assert_eq!(decode(Format::Q8_1, &q8_1), quants[..32].iter().map(value).collect::<Vec<_>>());
    let q8_k = [&0.5f32.to_le_bytes()[..], &quants, &[0x5a; 32]].concat();
    assert_eq!(decode(Format::Q8K, &q8_k), quants.iter().map(value).collect::<Vec<_>>());
    assert_eq!(decode(Format::Q8K, &q8_k)[..2], [-64.0, -63.5]);
}

#[test]
fn signs_and_two_bits() {
    // d = 0.5; bit j of byte i is element 8 i + j.
    let mut q1_0 = vec![0x00, 0x38];
    q1_0.extend((0..16).map(|i| 1 << (i % 8)));
    let expected: Vec<f32> = (0..128).map(|i| if i % 8 == (i / 8) % 8 { 0.5 } else { -0.5 }).collect();
    assert_eq!(decode(Format::Q1_0, &q1_0), expected);
    // Four elements per byte: -1, 0, 1, 2.
    let q2_0 = [&[0x00, 0xb8][..], &[0b11_10_01_00; 16]].concat();
    assert_eq!(decode(Format::Q2_0, &q2_0), [0.5, 0.0, -0.5, -1.0].repeat(16));
}
