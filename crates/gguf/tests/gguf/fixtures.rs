//! Real files: all that this crate reads of them equals what the `gguf` Python package reads (goldens/directories.tsv).

use candor_gguf::{Array, ByteOrder, Gguf, Metadata, Value, Writer};
use candor_testing::vocabularies;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// CRC-32 as zlib has it.
struct Crc(u32);

impl Crc {
    fn update(&mut self, bytes: impl AsRef<[u8]>) {
        const TABLE: [u32; 256] = {
            let mut table = [0; 256];
            let mut i = 0;
            while i < 256 {
                let mut x = i as u32;
                let mut bit = 0;
                while bit < 8 {
                    x = if x & 1 == 1 { 0xedb8_8320 ^ (x >> 1) } else { x >> 1 };
                    bit += 1;
                }
                table[i] = x;
                i += 1;
            }
            table
        };
        let step = |crc: u32, &byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
        self.0 = !bytes.as_ref().iter().fold(!self.0, step);
    }
}

/// The checksum that directories.py makes of the metadata.
fn metadata_crc(metadata: &Metadata) -> u32 {
    let mut crc = Crc(0);
    macro_rules! number {
        ($kind:literal, $x:expr) => {
            crc.update([&[$kind][..], &$x.to_le_bytes()].concat())
        };
    }
    for (key, value) in metadata.iter() {
        crc.update(key);
        match value {
            Value::U8(x) => number!(0, x),
            Value::I8(x) => number!(1, x),
            Value::U16(x) => number!(2, x),
            Value::I16(x) => number!(3, x),
            Value::U32(x) => number!(4, x),
            Value::I32(x) => number!(5, x),
            Value::F32(x) => number!(6, x),
            Value::Bool(x) => crc.update([7, u8::from(*x)]),
            Value::String(x) => crc.update([&[8][..], x.as_bytes()].concat()),
            Value::U64(x) => number!(10, x),
            Value::I64(x) => number!(11, x),
            Value::F64(x) => number!(12, x),
            Value::Array(array) => array_crc(array, &mut crc),
        }
    }
    crc.0
}

fn array_crc(array: &Array, crc: &mut Crc) {
    let mut elements = Vec::new();
    macro_rules! number {
        ($run:expr, $kind:literal) => {{
            $run.iter().for_each(|x| elements.extend(x.to_le_bytes()));
            $kind
        }};
    }
    let kind = match array {
        Array::U8(run) => number!(run, 0),
        Array::I8(run) => number!(run, 1),
        Array::U16(run) => number!(run, 2),
        Array::I16(run) => number!(run, 3),
        Array::U32(run) => number!(run, 4),
        Array::I32(run) => number!(run, 5),
        Array::F32(run) => number!(run, 6),
        Array::Bool(run) => {
            run.iter().for_each(|x| elements.push(u8::from(*x)));
            7
        }
        Array::String(run) => {
            run.iter().for_each(|x| elements.extend(x.as_bytes()));
            8
        }
        Array::U64(run) => number!(run, 10),
        Array::I64(run) => number!(run, 11),
        Array::F64(run) => number!(run, 12),
        Array::Array(_) => panic!("no fixture has nested arrays: the Python package cannot read them"),
    };
    crc.update([9, kind]);
    crc.update((array.len() as u64).to_le_bytes());
    crc.update(elements);
}

/// The checksum that directories.py makes of the tensors.
fn tensors_crc(file: &Gguf) -> u32 {
    let mut crc = Crc(0);
    for tensor in file.tensors() {
        crc.update(&tensor.name);
        crc.update(tensor.format.ggml_id().to_le_bytes());
        tensor.shape.iter().for_each(|n| crc.update(n.to_le_bytes()));
        crc.update(tensor.offset().to_le_bytes());
        crc.update(file.data(tensor));
    }
    crc.0
}

/// All .gguf files below a folder.
fn ggufs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a folder entry").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => ggufs(&path),
            false => Vec::from_iter(path.extension().is_some_and(|end| end == "gguf").then_some(path)),
        })
        .collect()
}

/// The rows of a list of directories.py, by path.
fn rows(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.lines().filter_map(|line| line.split_once('\t'))
}

/// Models that were made here have a list of their own: some bits depend on the machine that made them.
#[test]
fn every_fixture_reads_as_in_python() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let mut goldens: HashMap<&str, &str> = rows(include_str!("../goldens/directories.tsv")).collect();
    let own = std::fs::read_to_string(fixtures.join("expected/directories.tsv"));
    if let Ok(own) = &own {
        goldens.retain(|name, _| name.starts_with("vocab/"));
        goldens.extend(rows(own));
    }
    let mut files: Vec<PathBuf> = ["models", "arch"].iter().flat_map(|folder| ggufs(&fixtures.join(folder))).collect();
    files.extend(ggufs(&vocabularies(&fixtures, Path::new(env!("CARGO_TARGET_TMPDIR")))));
    for path in files {
        let inside = ["models", "arch"].iter().any(|folder| path.starts_with(fixtures.join(folder)));
        let name = match inside {
            true => path.strip_prefix(&fixtures).expect("it is inside").to_owned(),
            false => Path::new("vocab").join(path.file_name().expect("a file")),
        };
        let Some(golden) = goldens.remove(name.to_str().expect("fixtures have plain names")) else {
            panic!("{}: no golden, run goldens/directories.py", name.display())
        };
        let file = Gguf::open(&path).unwrap_or_else(|error| panic!("{error}"));
        let (keys, tensors) = (file.metadata().len(), file.tensors().len());
        let got = format!("{keys}\t{:08x}\t{tensors}\t{:08x}", metadata_crc(file.metadata()), tensors_crc(&file));
        assert_eq!(got, golden, "{}", name.display());
    }
    assert!(goldens.is_empty(), "goldens without a file: {goldens:?}");
}

#[test]
fn fixtures_survive_a_trip_through_the_writer() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    for path in ggufs(&fixtures.join("models")) {
        let file = Gguf::open(&path).unwrap_or_else(|error| panic!("{error}"));
        let copy = Writer::copy_of(&file).expect("copies").to_bytes().expect("writes");
        let original = std::fs::read(&path).expect("reads");
        // llama.cpp pads as this writer does, so that the copy is the very same file.
        assert!(copy == original, "{}: the copy differs", path.display());

        let big = Writer::copy_of(&file).expect("copies").byte_order(ByteOrder::Big).to_bytes().expect("writes");
        let big = Gguf::from_bytes(big).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(big.metadata(), file.metadata(), "{}", path.display());
        assert_eq!(tensors_crc(&big), tensors_crc(&file), "{}", path.display());
    }
}

/// CRC-32 of whole files that `python -m gguf.scripts.gguf_convert_endian FILE big` (gguf 0.19.0) made of fixtures.
const BIG_ENDIAN: [(&str, u32); 4] = [
    ("stories260K-Q8_0.gguf", 0xad8d_8933),
    ("stories260K-f16.gguf", 0xea8f_651a),
    ("stories260K-wide256-Q4_K_M.gguf", 0x39d0_520a),
    ("stories260K-wide256-Q6_K.gguf", 0xe91e_c6f3),
];

#[test]
fn big_endian_files_are_those_of_the_python_package() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    for (name, expected) in BIG_ENDIAN {
        let file = Gguf::open(fixtures.join("models").join(name)).unwrap_or_else(|error| panic!("{error}"));
        let big = Writer::copy_of(&file).expect("copies").byte_order(ByteOrder::Big).to_bytes().expect("writes");
        let mut crc = Crc(0);
        crc.update(big);
        assert_eq!(crc.0, expected, "{name}");
    }
}
