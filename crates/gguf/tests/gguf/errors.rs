//! Every refusal of a file in memory, with its exact message.

use crate::raw::Raw;
use bytes::Bytes;
use candor_gguf::Gguf;

/// What is wrong with the file, the file, the message.
type Case = (&'static str, Bytes, &'static str);

fn check(cases: &[Case]) {
    for (what, file, expected) in cases {
        let error = Gguf::from_bytes(file.clone()).expect_err(what);
        assert_eq!(error.to_string(), *expected, "{what}");
    }
}

#[test]
fn files_that_are_not_gguf() {
    let not =
        |start: &str, looks: &str| format!("not a GGUF file: expected \"GGUF\" at the start, got \"{start}\"{looks}");
    let safetensors = [&0x40u64.to_le_bytes()[..], b"{\"__metadata__\":{}}"].concat();
    let cases: &[(&[u8], &str, &str)] = &[
        (b"GGU", "GGU", " (looks like a text file)"),
        (b"\x00\x01\x02\x03\x04", "\\x00\\x01\\x02\\x03", ""),
        (b"Once upon a time", "Once", " (looks like a text file)"),
        ("\u{e9}t\u{e9}".as_bytes(), "\\xc3\\xa9t\\xc3", " (looks like a text file)"),
        (b"{\"a\": 1}", "{\\\"a\\\"", " (looks like JSON)"),
        (b"PK\x03\x04....", "PK\\x03\\x04", " (looks like a zip archive such as a PyTorch checkpoint)"),
        (b"\x80\x02}q", "\\x80\\x02}q", " (looks like a Python pickle such as a PyTorch checkpoint)"),
        (&safetensors, "@\\x00\\x00\\x00", " (looks like safetensors, which must be converted to GGUF)"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "vers",
            " (looks like a git-lfs pointer, `git lfs pull` fetches the model)",
        ),
        (b"<!DOCTYPE html><html>", "<!DO", " (looks like an HTML page, the download went wrong)"),
        (b"\n <HTML>", "\\n <H", " (looks like an HTML page, the download went wrong)"),
        (b"tjgg\x03\0\0\0", "tjgg", " (looks like a GGJT file from before GGUF, which must be converted again)"),
        (b"\x1f\x8b\x08\0", "\\x1f\\x8b\\x08\\x00", " (looks like a gzip archive)"),
        (&[0; 600], "\\x00\\x00\\x00\\x00", " (looks like an unfinished download, it begins with zeros)"),
    ];
    for &(file, start, looks) in cases {
        let error = Gguf::from_bytes(Bytes::copy_from_slice(file)).expect_err(start);
        assert_eq!(error.to_string(), not(start, looks));
    }
    check(&[("empty", Bytes::new(), "not a GGUF file: it is empty")]);
}

#[test]
fn versions() {
    let version = |raw: [u8; 4]| -> Bytes { [b"GGUF", &raw[..], &[0; 16]].concat().into() };
    check(&[
        ("0", version([0, 0, 0, 0]), "GGUF version: expected 2 or 3, got 0"),
        ("1", version([1, 0, 0, 0]), "GGUF version: expected 2 or 3, got 1 (files of 2023 must be converted again)"),
        ("4", version([4, 0, 0, 0]), "GGUF version: expected 2 or 3, got 4"),
        ("big-endian 7", version([0, 0, 0, 7]), "GGUF version: expected 2 or 3, got 7"),
        (
            "big-endian 1",
            version([0, 0, 0, 1]),
            "GGUF version: expected 2 or 3, got 1 (files of 2023 must be converted again)",
        ),
    ]);
}

#[test]
fn files_that_end_early() {
    let cut = |raw: Raw, length: usize| raw.bytes().slice(..length);
    let keys = Raw::new(0, 1).str("general.name").u32(8).str("Ada").data(0);
    let tensor = Raw::new(1, 0).record("w", &[2, 2], 0, 0).data(16);
    check(&[
        (
            "magic alone",
            cut(keys.clone(), 4),
            "version: expected 4 bytes at offset 4, got 0 before the end of the file",
        ),
        (
            "15 bytes",
            cut(keys.clone(), 15),
            "number of tensors: expected 8 bytes at offset 8, got 7 before the end of the file",
        ),
        (
            "16 bytes",
            cut(keys.clone(), 16),
            "number of metadata keys: expected 8 bytes at offset 16, got 0 before the end of the file",
        ),
        (
            "in a key",
            cut(keys.clone(), 40),
            "metadata key 0 of 1: expected 12 bytes at offset 32, got 8 before the end of the file",
        ),
        (
            "in a type",
            cut(keys.clone(), 45),
            "metadata general.name: expected 4 bytes at offset 44, got 1 before the end of the file",
        ),
        (
            "in a string",
            cut(keys.clone(), 58),
            "metadata general.name: expected 3 bytes at offset 56, got 2 before the end of the file",
        ),
        (
            "in a name",
            cut(Raw::new(1, 0).str("blk.0.attn_q.weight"), 50),
            "name of tensor 0 of 1: expected 19 bytes at offset 32, got 18 before the end of the file",
        ),
        (
            "in dimensions",
            Raw::new(1, 0).str("token_embd").u32(0).u8(0).u8(0).bytes(),
            "type of tensor token_embd: expected 4 bytes at offset 46, got 2 before the end of the file",
        ),
        (
            "in a shape",
            cut(tensor.clone(), 50),
            "shape of tensor w: expected 8 bytes at offset 45, got 5 before the end of the file",
        ),
        (
            "in an offset",
            cut(tensor.clone(), 60),
            "offset of tensor w: expected 8 bytes at offset 57, got 3 before the end of the file",
        ),
        (
            "in data",
            cut(tensor.clone(), 111),
            "tensor w: expected 16 bytes at offset 96, got 15 before the end of the file",
        ),
        ("before data", cut(tensor, 65), "tensor w: expected 16 bytes at offset 96, got 0 before the end of the file"),
    ]);
}

#[test]
fn absurd_counts() {
    const HUGE: u64 = 1 << 60;
    let value = |kind: u32| Raw::new(0, 1).str("k").u32(kind);
    check(&[
        (
            "tensors",
            Raw::new(HUGE, 0).data(0).bytes(),
            "number of tensors: expected a count of at most 0 at offset 8, got 1152921504606846976",
        ),
        (
            "tensors, with room for two",
            Raw::new(HUGE, 0).data(40).bytes(),
            "number of tensors: expected a count of at most 2 at offset 8, got 1152921504606846976",
        ),
        (
            "keys",
            Raw::new(0, HUGE).data(0).bytes(),
            "number of metadata keys: expected a count of at most 0 at offset 16, got 1152921504606846976",
        ),
        (
            "key length",
            Raw::new(0, 1).u64(HUGE).data(8).bytes(),
            "metadata key 0 of 1: expected a count of at most 65535 at offset 24, got 1152921504606846976",
        ),
        (
            "name length",
            Raw::new(1, 0).u64(70000).data(32).bytes(),
            "name of tensor 0 of 1: expected a count of at most 65535 at offset 24, got 70000",
        ),
        (
            "string length",
            value(8).u64(HUGE).bytes(),
            "metadata k: expected a count of at most 1073741824 at offset 37, got 1152921504606846976",
        ),
        (
            "string length past the end",
            value(8).u64(1 << 30).bytes(),
            "metadata k: expected 1073741824 bytes at offset 45, got 0 before the end of the file",
        ),
        (
            "array of u32",
            value(9).u32(4).u64(HUGE).u32(1).bytes(),
            "metadata k: expected a count of at most 1 at offset 41, got 1152921504606846976",
        ),
        (
            "array of bool",
            value(9).u32(7).u64(u64::MAX).bytes(),
            "metadata k: expected a count of at most 0 at offset 41, got 18446744073709551615",
        ),
        (
            "array of string",
            value(9).u32(8).u64(HUGE).u64(0).u64(0).bytes(),
            "metadata k: expected a count of at most 2 at offset 41, got 1152921504606846976",
        ),
        (
            "array of arrays",
            value(9).u32(9).u64(HUGE).u64(0).u32(0).bytes(),
            "metadata k: expected a count of at most 1 at offset 41, got 1152921504606846976",
        ),
    ]);
}

#[test]
fn metadata() {
    let value = |kind: u32| Raw::new(0, 1).str("k").u32(kind);
    let nested = (0..8).fold(value(9), |raw, _| raw.u32(9).u64(1)).u32(0).u64(0);
    let twice = Raw::new(0, 2).str("k").u32(0).u8(1).str("k").u32(0).u8(2);
    let long = "x".repeat(300);
    let long_message: &'static str =
        format!("metadata {}...: expected a metadata type of 0 to 12 at offset 332, got 99", &long[..191]).leak();
    check(&[
        (
            "unknown type",
            value(13).u64(0).bytes(),
            "metadata k: expected a metadata type of 0 to 12 at offset 33, got 13",
        ),
        (
            "unknown element type",
            value(9).u32(13).u64(0).bytes(),
            "metadata k: expected a metadata type of 0 to 12 at offset 37, got 13",
        ),
        ("bool", value(7).u8(2).bytes(), "metadata k: expected a bool of 0 or 1 at offset 37, got 2"),
        (
            "bool in an array",
            value(9).u32(7).u64(2).u8(1).u8(255).bytes(),
            "metadata k: expected a bool of 0 or 1 at offset 50, got 255",
        ),
        (
            "key is not UTF-8",
            Raw::new(0, 1).str(b"a\xff").u32(0).u8(0).bytes(),
            "metadata key 0 of 1: expected UTF-8 at offset 33",
        ),
        ("string is not UTF-8", value(8).str(b"ab\xc3").bytes(), "metadata k: expected UTF-8 at offset 47"),
        (
            "element is not UTF-8",
            value(9).u32(8).u64(2).str("ok").str(b"\x80").bytes(),
            "metadata k: expected UTF-8 at offset 67",
        ),
        (
            "nested too deep",
            nested.bytes(),
            "metadata k: expected arrays nested at most 8 deep, got more at offset 121",
        ),
        (
            "no key",
            Raw::new(0, 1).str("").u32(4).u32(0).bytes(),
            "metadata key 0: expected a name, got an empty string",
        ),
        ("twice", twice.bytes(), "metadata k: is there twice"),
        (
            "control characters are escaped",
            Raw::new(0, 1).str("a\nb\u{1b}[31m").u32(99).u64(0).bytes(),
            "metadata a\\nb\\u{1b}[31m: expected a metadata type of 0 to 12 at offset 40, got 99",
        ),
        ("a long key is cut", Raw::new(0, 1).str(&long).u32(99).u64(0).bytes(), long_message),
    ]);
}

#[test]
fn alignment() {
    let alignment = |kind: u32| Raw::new(0, 1).str("general.alignment").u32(kind);
    check(&[
        ("0", alignment(4).u32(0).bytes(), "metadata general.alignment: expected a power of two, got 0"),
        ("48", alignment(4).u32(48).bytes(), "metadata general.alignment: expected a power of two, got 48"),
        ("-32", alignment(5).u32((-32i32) as u32).bytes(), "metadata general.alignment: expected u32, got i32 -32"),
        ("2^33", alignment(10).u64(1 << 33).bytes(), "metadata general.alignment: expected u32, got u64 8589934592"),
        ("text", alignment(8).str("32").bytes(), "metadata general.alignment: expected u32, got string"),
    ]);
}

#[test]
fn tensors() {
    const F32: u32 = 0;
    const Q4_K: u32 = 12;
    let one = |shape: &[u64], format: u32, offset: u64| {
        Raw::new(1, 0).record("blk.0.w", shape, format, offset).data(64).bytes()
    };
    let two = |second: &str, offset: u64| {
        Raw::new(2, 0).record("a", &[9], F32, 0).record(second, &[4], F32, offset).data(128).bytes()
    };
    check(&[
        ("Q4_0_4_4", one(&[256], 31, 0), "tensor blk.0.w: expected a known type, got 31 (Q4_0_4_4)"),
        ("removed type", one(&[256], 4, 0), "tensor blk.0.w: expected a known type, got 4 (Q4_2)"),
        ("unknown type", one(&[256], 999, 0), "tensor blk.0.w: expected a known type, got 999"),
        ("five dimensions", one(&[1; 5], F32, 0), "tensor blk.0.w: expected at most 4 dimensions, got 5"),
        (
            "2^32-1 dimensions",
            Raw::new(1, 0).str("w").u32(u32::MAX).data(64).bytes(),
            "tensor w: expected at most 4 dimensions, got 4294967295",
        ),
        (
            "too many elements",
            one(&[1 << 32, 1 << 32], F32, 0),
            "tensor blk.0.w: expected at most 9223372036854775807 bytes, got F32 of shape [4294967296, 4294967296]",
        ),
        (
            "too many bytes",
            one(&[1 << 31, 1 << 31], F32, 0),
            "tensor blk.0.w: expected at most 9223372036854775807 bytes, got F32 of shape [2147483648, 2147483648]",
        ),
        (
            "too many elements, none in fact",
            one(&[1 << 40, 0, 1 << 40], F32, 0),
            "tensor blk.0.w: expected at most 9223372036854775807 bytes, got F32 of shape [1099511627776, 0, 1099511627776]",
        ),
        (
            "rows of no whole block",
            one(&[100, 2], Q4_K, 0),
            "tensor blk.0.w: expected rows of a multiple of 256 for Q4_K, got 100",
        ),
        ("unaligned", one(&[4], F32, 4), "tensor blk.0.w: expected an offset that is a multiple of 32, got 4"),
        (
            "past the end",
            one(&[17], F32, 0),
            "tensor blk.0.w: expected 68 bytes at offset 64, got 64 before the end of the file",
        ),
        (
            "begins past the end",
            one(&[4], F32, 1 << 40),
            "tensor blk.0.w: expected 16 bytes at offset 1099511627840, got 0 before the end of the file",
        ),
        (
            "offset near 2^64",
            one(&[4], F32, u64::MAX - 31),
            "tensor blk.0.w: expected 16 bytes at offset 18446744073709551615, got 0 before the end of the file",
        ),
        ("twice", two("a", 64), "tensor a: is there twice"),
        ("overlap", two("b", 32), "tensors a and b: expected separate bytes, got 96..132 and 128..144"),
        ("same place", two("b", 0), "tensors a and b: expected separate bytes, got 96..132 and 96..112"),
    ]);
}

#[test]
fn what_is_odd_but_allowed() {
    let scalar = Raw::new(1, 0).record("scalar", &[], 0, 0).data(4).bytes();
    let file = Gguf::from_bytes(scalar).expect("a scalar");
    assert_eq!((file.tensors()[0].shape.as_slice(), file.tensors()[0].bytes), (&[1][..], 4));

    let none = Raw::new(2, 0).record("empty", &[4, 0], 0, 0).record("full", &[4], 0, 0).data(16).bytes();
    let file = Gguf::from_bytes(none).expect("no elements take no place");
    assert_eq!((file.tensors()[0].elements(), file.data(&file.tensors()[0]).len()), (0, 0));

    let gap = Raw::new(2, 0).record("b", &[4], 0, 4096).record("a", &[4], 0, 32).data(4112).bytes();
    let file = Gguf::from_bytes(gap).expect("gaps and any order");
    assert_eq!((file.tensors()[0].name.as_str(), file.tensors()[0].offset()), ("b", 4096 + 96));

    let nothing = Raw::new(0, 0).bytes();
    let file = Gguf::from_bytes(nothing).expect("a header alone");
    assert_eq!((file.metadata().len(), file.tensors().len(), file.file_bytes(), file.alignment()), (0, 0, 24, 32));
}
