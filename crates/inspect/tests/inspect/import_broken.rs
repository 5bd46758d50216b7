//! Dumps that are broken, hostile or no dumps: an error that says so, never a panic.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use candor_inspect::import::{ImportError, ReadOptions, import};

fn dump(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps").join(name)
}

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn npy(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let f4 = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let tensor = |name: &str, dtype: &str, shape: &str, end: usize| {
        format!(r#"{{"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{end}]}}}}"#)
    };
    let trace = |version: &str, more: &str| {
        format!(
            r#"{{"__metadata__":{{"candor.trace":"{version}"{more}}},"l_out-0":{{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}}}"#
        )
    };
    let mut huge = u64::MAX.to_le_bytes().to_vec();
    huge.extend(b"{}");
    for (file, bytes, message) in [
        ("short.safetensors", vec![1, 2, 3], "shorter than 8 bytes"),
        ("huge.safetensors", huge, "its header would be 18446744073709551615 bytes in a file of 10"),
        ("json.safetensors", safetensors("{\"a\":", 0), "header: EOF"),
        ("cut.safetensors", safetensors(&tensor("l_out-0", "F32", "[1,2]", 8), 4), "4 bytes of tensors, expected 8"),
        ("absurd.safetensors", safetensors(&tensor("l_out-0", "F32", "[9999999999,9999999999]", 8), 8), "header:"),
        ("dtype.safetensors", safetensors(&tensor("l_out-0", "I8", "[1,8]", 8), 8), "elements of type I8"),
        (
            "deep.safetensors",
            safetensors(&tensor("l_out-0", "F32", "[1,1,1,1,1,1,1,1,1,2]", 8), 8),
            "at most 8 is read",
        ),
        (
            "names.safetensors",
            safetensors(&tensor("mystery", "F32", "[1,2]", 8), 8),
            "none of its 1 names is known (mystery)",
        ),
        ("version.safetensors", safetensors(&trace("2", ""), 8), "candor.trace version 2, expected 1"),
        ("rows.safetensors", safetensors(&trace("1", r#","rows":"[1,2]""#), 8), "lists 2 rows, l_out-0 has 1"),
        ("tokens.safetensors", safetensors(&trace("1", r#","tokens":"[-1]""#), 8), "metadata tokens"),
        ("Qcur-0.npy", b"\x93NUMPY".to_vec(), "shorter than its first 8 bytes"),
        ("Qcur-0.npy", npy("{}", 0), "no descr in its header"),
        ("Qcur-0.npy", npy(&f4("(2, 2)"), 15), "15 bytes of elements, expected 16"),
        ("Qcur-0.npy", npy(&f4("(99999999999, 99999999999)"), 16), "the number of elements is"),
        ("Qcur-0.npy", npy(&f4("(2, x)"), 16), "its shape is no list of sizes"),
        ("Qcur-0.npy", npy(&f4("(2,2)").replace("<f4", "|O"), 16), "elements of type |O"),
        ("Qcur-0.npy", npy(&f4("(0, 2)"), 0), "no value can be used"),
        ("values.npz", b"PK\x03\x04 and no more".to_vec(), "not a sound .npz file"),
        ("Qcur-0_2x3.bin", vec![0; 20], "5 values, expected 6"),
        ("Qcur-0_2x3.bin", vec![0; 21], "21 bytes are no whole number"),
        ("Qcur-0_2x3.bin", vec![], "0 bytes are no whole number"),
        ("log.txt", b"ggml_debug: Qcur-0 = (f32) ROPE(a{1}) = {1, 1, 1, 1}\n".to_vec(), "no value"),
        ("prose.txt", b"The model is 3 years old.".to_vec(), "not a dump this program knows"),
        ("statistics.txt", b"layer 0 q: mean=0.02, rms=0.98\n".to_vec(), "holds only statistics"),
        ("model.bin", b"GGUF\x03\0\0\0".to_vec(), "a GGUF model, not a dump"),
        ("model.bin", b"24ka\x01\0\0\0".to_vec(), "a llama2.c checkpoint, not a dump"),
        ("cut.txt", b"layer 0 q: [0.5, 0.25, \n\n[[[[[[[[[[[0.5".to_vec(), "not a dump this program knows"),
        ("zeros.dat", vec![0; 100], "not a dump this program knows"),
        ("tree.json", b"{\"module_path\": 1".to_vec(), "EOF"),
        ("tree.json", b"{\"module_path\": \"x\"}".to_vec(), "no values among 0 entries"),
    ] {
        let path = folder.path().join(file);
        fs::write(&path, bytes).unwrap();
        let error = import(&path, &ReadOptions::default()).expect_err(message);
        let text = error.to_string();
        assert!(text.starts_with(&path.display().to_string()) && text.contains(message), "{file}: {text}");
    }
    let missing = import(&folder.path().join("none"), &ReadOptions::default());
    assert!(matches!(missing, Err(ImportError::Io { .. })), "{missing:?}");
}

/// 256 MiB of zeros deflate to 260 KiB.
#[test]
fn an_archive_that_unpacks_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.npz");
    let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    archive.start_file("Qcur-0.npy", options).unwrap();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 1048576), }";
    archive.write_all(&npy(header, 0)).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..256 {
        archive.write_all(&zeros).unwrap();
    }
    archive.finish().unwrap();
    let error = import(&path, &ReadOptions::default()).unwrap_err();
    assert!(matches!(error, ImportError::TooLarge { what: "the unpacked size", .. }), "{error}");
}

/// Every sample with bytes flipped, cut out, put in and cut off reads or is refused.
#[test]
fn mutations_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let samples = [
        "Qcur-0.npy",
        "l_out-1.npy",
        "Kcur-0_3x8.bin",
        "llamacpp-tiny-tokens.bin",
        "values.npz",
        "truth.safetensors",
        "transformer_lens.safetensors",
        "hidden_states.safetensors",
        "eval_callback_new.txt",
        "eval_callback_old.txt",
        "lines.txt",
        "logs/contradictions.txt",
        "logs/candle-rope-half-split.txt",
        "logs/json-lines-cache-slots.txt",
        "logs/mlx-debug.txt",
        "logs/rust-layers.txt",
        "debugger/LlamaForCausalLM_debug_tree_FULL_TENSORS.json",
    ];
    let (mut read, mut refused) = (0, 0);
    for sample in samples {
        let whole = fs::read(dump(sample)).unwrap();
        let path = folder.path().join(Path::new(sample).file_name().unwrap());
        // Most of a file is elements, which may be anything: the header and the text are what can break.
        let head = whole.len().min(8192);
        for round in 0..120 {
            let mut bytes = whole.clone();
            match round % 6 {
                0 => bytes.truncate(random(whole.len())),
                1 => {
                    let at = random(head);
                    bytes.drain(at..(at + 1 + random(16)).min(whole.len()));
                }
                2 => {
                    let at = random(head);
                    let junk =
                        [&b"["[..], b"]", b"...", b"{", b"9999999999999999999", b"-", b"\xff\x00", b"e999"][random(8)];
                    bytes.splice(at..at, junk.iter().copied());
                }
                3 => {
                    let at = random(head.min(64));
                    bytes[at] = random(256) as u8;
                }
                _ => {
                    for _ in 0..=random(8) {
                        let at = random(head);
                        bytes[at] ^= 1 << random(8);
                    }
                }
            }
            fs::write(&path, &bytes).unwrap();
            match import(&path, &ReadOptions { width: Some(8), ..ReadOptions::default() }) {
                Ok(_) => read += 1,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 200 && refused > 200, "{read} read, {refused} refused");
}
