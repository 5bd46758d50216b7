//! Rows: byte order, lengths, and the table of formats.

use std::panic::catch_unwind;

use candor_quant::Format;

/// Fields of a block: offset, bytes of each, how many, bytes from one to the next.
type Fields = &'static [(usize, usize, usize, usize)];

/// The fields that change with the byte order.
const FIELDS: &[(Format, Fields)] = &[
    (Format::F32, &[(0, 4, 1, 0)]),
    (Format::F16, &[(0, 2, 1, 0)]),
    (Format::Q4_0, &[(0, 2, 1, 0)]),
    (Format::Q4_1, &[(0, 2, 1, 0), (2, 2, 1, 0)]),
    (Format::Q5_0, &[(0, 2, 1, 0), (2, 4, 1, 0)]),
    (Format::Q5_1, &[(0, 2, 1, 0), (2, 2, 1, 0), (4, 4, 1, 0)]),
    (Format::Q8_0, &[(0, 2, 1, 0)]),
    (Format::Q8_1, &[(0, 2, 1, 0), (2, 2, 1, 0)]),
    (Format::Q2K, &[(80, 2, 1, 0), (82, 2, 1, 0)]),
    (Format::Q3K, &[(108, 2, 1, 0)]),
    (Format::Q4K, &[(0, 2, 1, 0), (2, 2, 1, 0)]),
    (Format::Q5K, &[(0, 2, 1, 0), (2, 2, 1, 0)]),
    (Format::Q6K, &[(208, 2, 1, 0)]),
    (Format::Q8K, &[(0, 4, 1, 0), (260, 2, 16, 2)]),
    (Format::Iq2Xxs, &[(0, 2, 1, 0), (6, 4, 8, 8)]),
    (Format::Iq2Xs, &[(0, 2, 1, 0), (2, 2, 32, 2)]),
    (Format::Iq3Xxs, &[(0, 2, 1, 0), (66, 4, 8, 4)]),
    (Format::Iq1S, &[(0, 2, 1, 0), (34, 2, 8, 2)]),
    (Format::Iq4Nl, &[(0, 2, 1, 0)]),
    (Format::Iq3S, &[(0, 2, 1, 0)]),
    (Format::Iq2S, &[(0, 2, 1, 0)]),
    (Format::Iq4Xs, &[(0, 2, 1, 0), (2, 2, 1, 0)]),
    (Format::I8, &[]),
    (Format::I16, &[(0, 2, 1, 0)]),
    (Format::I32, &[(0, 4, 1, 0)]),
    (Format::I64, &[(0, 8, 1, 0)]),
    (Format::F64, &[(0, 8, 1, 0)]),
    (Format::Iq1M, &[(48, 2, 4, 2)]),
    (Format::Bf16, &[(0, 2, 1, 0)]),
    (Format::Tq1_0, &[(52, 2, 1, 0)]),
    (Format::Tq2_0, &[(64, 2, 1, 0)]),
    (Format::Mxfp4, &[]),
    (Format::Nvfp4, &[]),
    (Format::Q1_0, &[(0, 2, 1, 0)]),
    (Format::Q2_0, &[(0, 2, 1, 0)]),
];

#[test]
fn byte_order_touches_the_multi_byte_fields_alone() {
    assert_eq!(FIELDS.iter().map(|(format, _)| *format).collect::<Vec<_>>(), Format::ALL);
    for &(format, fields) in FIELDS {
        let size = format.block_bytes();
        let row: Vec<u8> = (0..3 * size).map(|i| (i * 7 + i / 256) as u8).collect();
        let mut expected = row.clone();
        for block in expected.chunks_mut(size) {
            for &(at, width, count, step) in fields {
                for i in 0..count {
                    block[at + i * step..][..width].reverse();
                }
            }
        }
        let mut got = row.clone();
        format.swap_endian(&mut got);
        assert_eq!(got, expected, "{format}");
        format.swap_endian(&mut got);
        assert_eq!(got, row, "{format}: twice is once too often");
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "a panic ends the program there")]
fn wrong_lengths_panic_with_the_numbers() {
    for &format in Format::ALL {
        let (size, length) = (format.block_bytes(), format.block_len());
        let message = |run: fn(Format, usize, usize), bytes, elements| {
            let payload = catch_unwind(|| run(format, bytes, elements)).expect_err("a panic");
            payload.downcast_ref::<String>().expect("a message").clone()
        };
        let decode = |format: Format, bytes, elements| format.decode(&vec![0; bytes], &mut vec![0.0; elements]);
        let text = message(decode, size + 1, length);
        assert_eq!(text, format!("{format}: expected {size} bytes for {length} elements, got {}", size + 1));
        message(decode, size, 2 * length);
        if length > 1 {
            let text = message(decode, size, length - 1);
            assert!(text.starts_with(&format!("{format}: expected rows of whole blocks of {length}")), "{text}");
        }
        if size > 1 {
            message(|format, bytes, _| format.swap_endian(&mut vec![0; bytes]), size - 1, 0);
        }
        decode(format, 0, 0);
    }
}

#[test]
fn rows_are_whole_blocks() {
    for &format in Format::ALL {
        let (size, length) = (format.block_bytes(), format.block_len());
        assert_eq!(format.row_bytes(6 * length), Some(6 * size), "{format}");
        assert_eq!(format.row_bytes(0), Some(0), "{format}");
        if length > 1 {
            assert_eq!(format.row_bytes(length + 1), None, "{format}");
        }
        let most = usize::MAX / length * length;
        assert_eq!(format.row_bytes(most).is_none(), size > length, "{format}: overflow");
    }
}

#[test]
fn ids_and_names() {
    for pair in Format::ALL.windows(2) {
        assert!(pair[0].ggml_id() < pair[1].ggml_id(), "{} {}", pair[0], pair[1]);
    }
    for &format in Format::ALL {
        assert_eq!(Format::from_ggml_id(format.ggml_id()), Some(format));
        assert_eq!(Format::ggml_name(format.ggml_id()), Some(format.name()));
    }
    for (id, name) in [(4, Some("Q4_2")), (38, Some("IQ4_NL_8_8")), (43, None), (u32::MAX, None)] {
        assert_eq!((Format::from_ggml_id(id), Format::ggml_name(id)), (None, name), "{id}");
    }
    assert_eq!(format!("{:>6}|{}", Format::Q4K, Format::Iq2Xxs), "  Q4_K|IQ2_XXS");
}

#[test]
fn what_a_cache_holds_is_encoded_directly() {
    let values: Vec<f32> = (0..64).map(|i| (i as f32 * 1.7).sin()).collect();
    let direct = [Format::F32, Format::F16, Format::Bf16, Format::Q4_0, Format::Q8_0];
    for &format in Format::ALL {
        let values = &values[..values.len() / format.block_len() * format.block_len()];
        let bytes = || vec![0; format.row_bytes(values.len()).expect("whole blocks")];
        let (mut wanted, mut got) = (bytes(), bytes());
        let done = format.encode_direct(values, &mut got);
        assert_eq!(done.is_ok(), direct.contains(&format), "{format}");
        if done.is_ok() {
            format.encode(values, &mut wanted).expect("as above");
            assert_eq!(got, wanted, "{format}");
        }
    }
}
