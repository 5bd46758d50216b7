//! What the writer writes, the reader reads: every type of value, both versions and byte orders, every format.

use bytes::Bytes;
use candor_gguf::{Array, ByteOrder, Error, Format, Gguf, Metadata, Split, Value, Writer};
use std::path::PathBuf;

const KINDS: [(u32, ByteOrder); 4] =
    [(2, ByteOrder::Little), (3, ByteOrder::Little), (2, ByteOrder::Big), (3, ByteOrder::Big)];

/// One value of each type and an array of each; some empty, some nested.
fn values() -> Vec<(&'static str, Value)> {
    let nested = Array::Array(vec![
        Array::U8(vec![1, 2, 3]),
        Array::Array(vec![Array::String(vec!["deep".into()]), Array::Array(vec![])]),
        Array::F64(vec![]),
    ]);
    vec![
        ("u8", Value::U8(0xfe)),
        ("i8", Value::I8(-2)),
        ("u16", Value::U16(0xfedc)),
        ("i16", Value::I16(-0x1234)),
        ("u32", Value::U32(0xfedc_ba98)),
        ("i32", Value::I32(-0x1234_5678)),
        ("u64", Value::U64(0xfedc_ba98_7654_3210)),
        ("i64", Value::I64(-0x1234_5678_9abc_def0)),
        ("f32", Value::F32(-1.5e-40)),
        ("f64", Value::F64(std::f64::consts::PI)),
        ("bool", Value::Bool(true)),
        ("string", "h\u{e9}llo \u{2581}\u{1f600}".into()),
        ("empty string", "".into()),
        ("u8s", vec![0u8, 255].into()),
        ("i8s", vec![-128i8, 127].into()),
        ("u16s", vec![1u16, 0xff00].into()),
        ("i16s", vec![-2i16, 0x7f00].into()),
        ("u32s", vec![1u32, 0xff00_0000].into()),
        ("i32s", vec![-3i32, 0x7f00_0000].into()),
        ("u64s", vec![1u64, 1 << 63].into()),
        ("i64s", vec![-4i64, 1 << 62].into()),
        ("f32s", vec![0.5f32, f32::INFINITY, -0.0].into()),
        ("f64s", vec![0.5f64, f64::MIN_POSITIVE].into()),
        ("bools", vec![true, false, true].into()),
        ("strings", vec!["a", "", "\u{2581}the"].into()),
        ("no strings", Vec::<String>::new().into()),
        ("nested", nested.into()),
    ]
}

/// Bytes that differ from place to place.
fn pattern(length: u64, seed: u64) -> Bytes {
    (0..length).map(|i| (i.wrapping_mul(31) ^ seed.wrapping_mul(97) ^ (i >> 8)) as u8).collect()
}

/// A tensor of two rows of two blocks for each format, and shapes of one to four dimensions.
fn tensors() -> Vec<(String, Format, Vec<u64>, Bytes)> {
    let by_format =
        Format::ALL.iter().map(|&format| (format.name().to_owned(), format, vec![2 * format.block_len() as u64, 2]));
    let shapes: [&[u64]; 5] = [&[1], &[3], &[3, 5], &[3, 5, 7], &[3, 5, 7, 2]];
    let by_shape = shapes.iter().map(|shape| (format!("shape {shape:?}"), Format::F16, shape.to_vec()));
    let all = by_format.chain(by_shape).zip(0u64..);
    all.map(|((name, format, shape), seed)| {
        let bytes = shape.iter().product::<u64>() / format.block_len() as u64 * format.block_bytes() as u64;
        (name, format, shape, pattern(bytes, seed))
    })
    .collect()
}

fn full_writer(version: u32, order: ByteOrder) -> Writer {
    let mut writer = Writer::new().version(version).byte_order(order);
    values().into_iter().for_each(|(key, value)| writer.insert(key, value));
    for (name, format, shape, data) in tensors() {
        writer.tensor(&name, format, &shape, data).expect("a good tensor");
    }
    writer
}

fn check_tensors(file: &Gguf) {
    let expected = tensors();
    assert_eq!(file.tensors().len(), expected.len());
    for (name, format, shape, data) in expected {
        let tensor = file.tensor(&name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!((tensor.format, &tensor.shape, tensor.bytes), (format, &shape, data.len() as u64), "{name}");
        assert_eq!(file.data(tensor), data, "{name}");
    }
}

#[test]
fn everything_in_every_version_and_order() {
    for (version, order) in KINDS {
        let written = full_writer(version, order).to_bytes().expect("writes");
        let file = Gguf::from_bytes(written.clone()).unwrap_or_else(|error| panic!("v{version} {order:?}: {error}"));
        assert_eq!((file.version(), file.byte_order(), file.alignment()), (version, order, 32));
        assert_eq!((file.shards(), file.file_bytes()), (1, written.len() as u64));
        let read: Vec<(&str, &Value)> = file.metadata().iter().collect();
        let expected = values();
        assert_eq!(read, expected.iter().map(|(key, value)| (*key, value)).collect::<Vec<_>>());
        check_tensors(&file);
        let again = Writer::copy_of(&file).expect("copies").to_bytes().expect("writes");
        assert_eq!(again, written, "v{version} {order:?}: a copy is the same file");
    }
}

#[test]
fn numbers_lie_in_the_order_that_is_asked_for() {
    let mut writer = Writer::new();
    writer.insert("k", 0x0102_0304u32);
    let little = writer.to_bytes().expect("writes");
    let big = writer.byte_order(ByteOrder::Big).to_bytes().expect("writes");
    let mut expected = b"GGUF".to_vec();
    expected.extend([3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'k']);
    expected.extend([4, 0, 0, 0, 4, 3, 2, 1]);
    assert_eq!(little[..expected.len()], expected);
    let mut expected = b"GGUF".to_vec();
    expected.extend([0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, b'k']);
    expected.extend([0, 0, 0, 4, 1, 2, 3, 4]);
    assert_eq!(big[..expected.len()], expected);
}

#[test]
fn data_of_a_little_endian_file_is_not_copied() {
    let written = full_writer(3, ByteOrder::Little).to_bytes().expect("writes");
    let file = Gguf::from_bytes(written.clone()).expect("reads");
    for tensor in file.tensors() {
        let start = usize::try_from(tensor.offset()).unwrap();
        assert_eq!(file.data(tensor).as_ptr(), written[start..].as_ptr(), "{}", tensor.name);
    }
}

#[test]
fn alignments() {
    for alignment in [1u32, 2, 32, 64, 4096] {
        let mut writer = full_writer(3, ByteOrder::Little);
        writer.insert("general.alignment", alignment);
        let file = Gguf::from_bytes(writer.to_bytes().expect("writes")).expect("reads");
        assert_eq!(file.alignment(), u64::from(alignment));
        let aligned = |offset: u64| offset.is_multiple_of(u64::from(alignment));
        assert!(file.tensors().iter().all(|tensor| aligned(tensor.offset())), "{alignment}");
        check_tensors(&file);
    }
}

/// A fresh folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the build folder is writable");
    folder
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "maps files into memory")]
fn shards_open_from_any_of_them() {
    let folder = folder("shards");
    let count = tensors().len();
    let largest = tensors().iter().map(|tensor| tensor.3.len()).max().unwrap() as u64;
    let splits = [
        (Split::Tensors(1), count),
        (Split::Tensors(10), count.div_ceil(10)),
        (Split::Tensors(1000), 1),
        (Split::Bytes(0), count),
        (Split::Bytes(largest), 0),
        (Split::Bytes(u64::MAX), 1),
        (Split::Counts(vec![2, 1]), 3),
    ];
    for ((split, files), (version, order)) in splits.into_iter().zip(KINDS.into_iter().cycle()) {
        let mut writer = full_writer(version, order);
        writer.insert("general.alignment", 64u32);
        let paths = writer.write_shards(folder.join("model"), split.clone()).expect("writes");
        assert!(files == 0 || paths.len() == files, "{split:?}: {}", paths.len());
        for path in &paths {
            let file = Gguf::open(path).unwrap_or_else(|error| panic!("{split:?}: {error}"));
            assert_eq!((file.shards(), file.alignment()), (paths.len(), 64));
            assert_eq!(file.metadata().get("string"), Some(&Value::from("h\u{e9}llo \u{2581}\u{1f600}")));
            assert_eq!(file.metadata().u32("split.tensors.count").unwrap(), Some(count as u32));
            assert_eq!(file.file_bytes(), paths.iter().map(|path| path.metadata().unwrap().len()).sum::<u64>());
            check_tensors(&file);
        }
        let in_memory = paths.iter().map(|path| Bytes::from(std::fs::read(path).unwrap())).collect();
        let file = Gguf::from_shards(in_memory).expect("reads");
        check_tensors(&file);
        let whole = Gguf::from_bytes(Writer::copy_of(&file).unwrap().to_bytes().unwrap()).expect("merges");
        assert_eq!((whole.shards(), whole.metadata().get("split.count")), (1, None));
        check_tensors(&whole);
        paths.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "maps files into memory")]
fn a_file_can_replace_the_one_that_it_is_made_of() {
    let path = folder("replace").join("model.gguf");
    full_writer(3, ByteOrder::Little).write_file(&path).expect("writes");
    let old = Gguf::open(&path).expect("opens");
    Writer::copy_of(&old).unwrap().byte_order(ByteOrder::Big).write_file(&path).expect("writes");
    let new = Gguf::open(&path).expect("opens");
    assert_eq!((old.byte_order(), new.byte_order()), (ByteOrder::Little, ByteOrder::Big));
    check_tensors(&old);
    check_tensors(&new);
}

#[test]
fn a_failed_write_leaves_nothing() {
    let folder = folder("failed");
    let mut writer = full_writer(3, ByteOrder::Little);
    writer.tensor_from("bad", Format::F32, &[4], || Err(std::io::Error::other("no more"))).unwrap();
    let path = folder.join("model.gguf");
    let error = writer.write_file(&path).expect_err("the last tensor fails");
    assert_eq!(error.to_string(), format!("{}: cannot write: no more", path.display()));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn pieces_are_written_as_a_whole_would_be() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let data: Vec<u8> = (0..34 * 6).map(|i| i as u8).collect();
        let whole = |pieces: &[usize]| {
            let mut writer = Writer::new().byte_order(order);
            let (data, pieces) = (data.clone(), pieces.to_vec());
            let make = move |put: &mut dyn FnMut(&[u8]) -> std::io::Result<()>| {
                let mut rest = &data[..];
                pieces.iter().try_for_each(|blocks| put(rest.split_off(..34 * blocks).expect("as many blocks as that")))
            };
            writer.tensor_in_pieces("w", Format::Q8_0, &[64, 3], make).unwrap();
            writer.to_bytes()
        };
        let mut one = Writer::new().byte_order(order);
        one.tensor("w", Format::Q8_0, &[64, 3], data.clone()).unwrap();
        assert_eq!(whole(&[1, 3, 2]).unwrap(), one.to_bytes().unwrap());
        let error = whole(&[1, 3]).expect_err("a piece is missing").to_string();
        assert_eq!(error, "tensor w: expected 204 bytes of data, got 136");
    }
}

/// The second begins while the first is at work, fails while that goes on, and a third is done before it.
#[test]
#[cfg_attr(target_family = "wasm", ignore = "maps files into memory")]
fn writers_of_one_file_do_not_meet() {
    let folder = folder("meet");
    let path = folder.join("model.gguf");
    let mut outer = Writer::new();
    let (inside, target) = (folder.clone(), path.clone());
    outer
        .tensor_from("outer", Format::F32, &[1], move || {
            let mut failing = Writer::new();
            failing.tensor_from("w", Format::F32, &[1], || Err(std::io::Error::other("no more"))).unwrap();
            failing.write_file(&target).expect_err("its tensor fails");
            assert_eq!(std::fs::read_dir(&inside).unwrap().count(), 1, "the outer one's file alone");
            full_writer(3, ByteOrder::Little).write_file(&target).expect("writes");
            check_tensors(&Gguf::open(&target).expect("opens"));
            Ok(Bytes::from_static(&[0; 4]))
        })
        .unwrap();
    outer.write_file(&path).expect("writes");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    assert!(Gguf::open(&path).expect("opens").tensor("outer").is_some());
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "opens files")]
fn an_unmapped_file_gives_the_same_blocks() {
    let folder = folder("unmapped");
    for (version, order) in KINDS {
        let paths = full_writer(version, order).write_shards(folder.join("model"), Split::Tensors(2)).expect("writes");
        let (mapped, read) = (Gguf::open(&paths[0]).unwrap(), Gguf::open_unmapped(&paths[0]).unwrap());
        assert!(mapped.tensors().len() > 2 && mapped.tensors() == read.tensors());
        for tensor in read.tensors() {
            let whole = mapped.data(tensor);
            let block = tensor.format.block_bytes() as u64;
            let middle = tensor.bytes / block / 2 * block;
            for range in [0..middle, middle..tensor.bytes] {
                let expected = &whole[range.start as usize..range.end as usize];
                assert_eq!(read.read_blocks(tensor, range.clone()).unwrap(), expected, "{}", tensor.name);
                assert_eq!(mapped.read_blocks(tensor, range).unwrap(), expected, "{}", tensor.name);
            }
        }
    }
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let mut writer = Writer::new();
    let mut add = |name: &str, format, shape: &[u64], bytes: usize| {
        writer.tensor(name, format, shape, vec![0; bytes]).map_err(|error| error.to_string())
    };
    assert_eq!(add("w", Format::F32, &[2], 8), Ok(()));
    let refused = |message: &str| Err(message.to_owned());
    assert_eq!(add("w", Format::F32, &[2], 8), refused("tensor w: is there twice"));
    assert_eq!(add("v", Format::F32, &[2], 7), refused("tensor v: expected 8 bytes of data, got 7"));
    assert_eq!(add("v", Format::F32, &[1; 5], 4), refused("tensor v: expected at most 4 dimensions, got 5"));
    let rows = "tensor v: expected rows of a multiple of 32 for Q8_0, got 33";
    assert_eq!(add("v", Format::Q8_0, &[33], 34), refused(rows));
    let long = "x".repeat(65536);
    let message = "name of a tensor: expected a count of at most 65535 at offset 0, got 65536";
    assert_eq!(add(&long, Format::F32, &[2], 8), refused(message));

    let fails = |writer: Writer| writer.to_bytes().expect_err("refused").to_string();
    assert_eq!(
        fails(Writer::new().version(1)),
        "GGUF version: expected 2 or 3, got 1 (files of 2023 must be converted again)"
    );
    let mut writer = Writer::new();
    writer.insert("general.alignment", 48u32);
    assert_eq!(fails(writer), "metadata general.alignment: expected a power of two, got 48");
    let mut writer = Writer::new();
    writer.insert("", 1u8);
    assert_eq!(fails(writer), "metadata key 0: expected a name, got an empty string");
    let mut writer = Writer::new();
    writer.tensor_from("w", Format::F32, &[2], || Ok(Bytes::from_static(b"short"))).unwrap();
    assert_eq!(fails(writer), "tensor w: expected 8 bytes of data, got 5");
}

#[test]
fn typed_access() {
    let mut data = Metadata::new();
    assert!(data.is_empty());
    values().into_iter().for_each(|(key, value)| data.insert(key, value));
    data.insert("small u64", 7u64);
    let message = |result: Result<(), Error>| result.expect_err("refused").to_string();

    assert_eq!(data.u32("absent").unwrap(), None);
    assert_eq!(data.u32("u8").unwrap(), Some(0xfe));
    assert_eq!(data.u32("small u64").unwrap(), Some(7));
    assert_eq!(data.i32("i8").unwrap(), Some(-2));
    assert_eq!(data.u64("u64").unwrap(), Some(0xfedc_ba98_7654_3210));
    assert_eq!(message(data.u32("i8").map(drop)), "metadata i8: expected u32, got i8 -2");
    assert_eq!(message(data.i32("u32").map(drop)), "metadata u32: expected i32, got u32 4275878552");
    assert_eq!(message(data.u64("f32").map(drop)), "metadata f32: expected u64, got f32");
    assert_eq!(message(data.u32("u32s").map(drop)), "metadata u32s: expected u32, got array of u32");

    assert_eq!(data.f32("f32").unwrap(), Some(-1.5e-40));
    assert_eq!(data.f32("f64").unwrap(), Some(std::f32::consts::PI));
    assert_eq!(message(data.f32("u8").map(drop)), "metadata u8: expected f32, got u8 254");
    assert_eq!(data.bool("bool").unwrap(), Some(true));
    assert_eq!(message(data.bool("u8").map(drop)), "metadata u8: expected bool, got u8 254");
    assert_eq!(data.str("empty string").unwrap(), Some(""));
    assert_eq!(message(data.str("bool").map(drop)), "metadata bool: expected string, got bool");

    assert_eq!(data.strings("strings").unwrap().unwrap()[2], "\u{2581}the");
    assert_eq!(message(data.strings("string").map(drop)), "metadata string: expected array of string, got string");
    assert_eq!(data.f32s("f32s").unwrap().unwrap().len(), 3);
    assert_eq!(message(data.f32s("f64s").map(drop)), "metadata f64s: expected array of f32, got array of f64");
    assert_eq!(data.bools("bools").unwrap().unwrap(), [true, false, true]);
    assert_eq!(data.i32s("i32s").unwrap().unwrap()[..], [-3, 0x7f00_0000]);
    assert_eq!(data.i32s("u16s").unwrap().unwrap()[..], [1, 0xff00]);
    assert_eq!(message(data.i32s("u32s").map(drop)), "metadata u32s: expected i32, got u32 4278190080");
    assert_eq!(message(data.i32s("nested").map(drop)), "metadata nested: expected array of i32, got array of arrays");

    let before = data.len();
    data.insert("u8", "now text");
    assert_eq!((data.len(), data.iter().next()), (before, Some(("u8", &Value::from("now text")))));
}

#[test]
fn values_are_printed_on_a_line() {
    let nested = Array::Array(vec![Array::U8((0..10).collect()), Array::String(vec!["a\nb".into()])]);
    let cases: [(Value, &str); 7] = [
        (Value::F32(1e-5), "0.00001"),
        ("two\nlines \"quoted\"".into(), r#""two\nlines \"quoted\"""#),
        (vec![1u32, 2, 3].into(), "[1, 2, 3]"),
        ((0..32000).collect::<Vec<i32>>().into(), "[0, 1, 2, 3, 4, 5, 6, 7, ... (32000 in all)]"),
        (vec!["<s>", "</s>"].into(), r#"["<s>", "</s>"]"#),
        (nested.into(), r#"[[0, 1, 2, 3, 4, 5, 6, 7, ... (10 in all)], ["a\nb"]]"#),
        (Vec::<u8>::new().into(), "[]"),
    ];
    for (value, expected) in cases {
        assert_eq!(value.to_string(), expected);
    }
    let long = Value::from("\u{e9}".repeat(130).as_str());
    assert_eq!(long.to_string(), format!("\"{}...\" (260 bytes)", "\u{e9}".repeat(120)));
    assert_eq!(format!("{long:#}"), format!("\"{}\"", "\u{e9}".repeat(130)));
    assert!(format!("{:#}", Value::from(vec![1u8; 20])).ends_with(", 1, 1]"));
}
