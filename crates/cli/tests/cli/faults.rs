//! Files that are no models, or broken ones: one clear line, exit code 1, in under a second, never a panic.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use candor_gguf::{Array, Format, Value};
use candor_testing::Tiny;
use tempfile::TempDir;

use crate::program::candor;

/// A file of the bytes of a tiny model after a change.
fn changed(folder: &TempDir, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = Tiny::default().bytes();
    change(&mut bytes);
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    path
}

/// A file of a tiny model with other metadata.
fn with(folder: &TempDir, key: &str, value: impl Into<Value>) -> PathBuf {
    let mut writer = Tiny::default().writer();
    writer.insert(key, value);
    let path = folder.path().join("model.gguf");
    writer.write_file(&path).unwrap();
    path
}

/// A file of a tiny model with other tensors.
fn tensors(folder: &TempDir, keep: impl Fn(&str) -> bool, add: &[(&str, &[u64])]) -> PathBuf {
    let tiny = Tiny::default();
    let mut writer = candor_gguf::Writer::new();
    for (key, value) in tiny.metadata() {
        writer.insert(key, value);
    }
    for (name, shape) in tiny.tensors().iter().filter(|(name, _)| keep(name)) {
        writer.tensor(name, Format::F32, shape, vec![0u8; 4 * shape.iter().product::<u64>() as usize]).unwrap();
    }
    for (name, shape) in add {
        writer.tensor(name, Format::F32, shape, vec![0u8; 4 * shape.iter().product::<u64>() as usize]).unwrap();
    }
    let path = folder.path().join("model.gguf");
    writer.write_file(&path).unwrap();
    path
}

/// What running the file says, within a second.
fn refused(path: &Path) -> String {
    let started = Instant::now();
    let error = candor(["run", path.to_str().unwrap(), "-p", "a", "-n", "1"]).error();
    assert!(started.elapsed() < Duration::from_secs(1), "{error}: {:?}", started.elapsed());
    error
}

/// Overwrites bytes after the first occurrence of a marker.
fn after(bytes: &mut [u8], marker: &str, skip: usize, new: &[u8]) {
    let at = bytes.windows(marker.len()).position(|window| window == marker.as_bytes()).expect("the marker");
    let at = at + marker.len() + skip;
    bytes[at..at + new.len()].copy_from_slice(new);
}

#[test]
fn files_that_are_no_models() {
    let folder = tempfile::tempdir().unwrap();
    for (bytes, expected) in [
        (b"".as_slice(), "not a GGUF file: it is empty"),
        (b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0", "expected 8 bytes at offset"),
        (b"GGUF", "expected 4 bytes at offset 4"),
        (b"Once upon a time there was a text file.\n", "not a GGUF file: expected \"GGUF\" at the start, got \"Once\""),
        (b"GGML\x03\0\0\0", "not a GGUF file: expected \"GGUF\" at the start"),
    ] {
        let path = folder.path().join("model.gguf");
        fs::write(&path, bytes).unwrap();
        let error = refused(&path);
        assert!(error.contains(expected) && error.contains("model.gguf: "), "{error}");
    }
}

#[test]
fn every_truncation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Tiny::default().bytes().len();
    // Densely through the metadata and the directory, sparsely through the data.
    let lengths = (0..6000).step_by(61).chain((6000..whole).step_by(9973)).chain([whole - 1]);
    for length in lengths {
        let error = refused(&changed(&folder, |bytes| bytes.truncate(length)));
        assert!(error.contains("model.gguf: "), "{length}: {error}");
    }
    let error = refused(&changed(&folder, |bytes| bytes.truncate(bytes.len() / 2)));
    assert!(error.contains("\nhint: the file was cut short or damaged"), "{error}");
}

#[test]
fn wrong_headers_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let header =
        |at: usize, new: &[u8]| refused(&changed(&folder, |bytes| bytes[at..at + new.len()].copy_from_slice(new)));
    let error = header(4, &1u32.to_le_bytes());
    assert!(error.ends_with("GGUF version: expected 2 or 3, got 1 (files of 2023 must be converted again)"), "{error}");
    let error = header(4, &9u32.to_le_bytes());
    assert!(error.ends_with("GGUF version: expected 2 or 3, got 9"), "{error}");
    for at in [8, 16] {
        let error = header(at, &(1u64 << 60).to_le_bytes());
        assert!(error.contains("1152921504606846976"), "{error}");
    }
}

#[test]
fn metadata_that_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    for (key, value, expected) in [
        (
            "general.architecture",
            Value::from("mamba9000"),
            "error: architecture mamba9000 is not supported: it needs a row, and perhaps a wiring, of its own",
        ),
        ("general.architecture", Value::from(7u32), "general.architecture: expected string, got u32"),
        ("tokenizer.ggml.model", Value::from("words"), "tokenizer.ggml.model: unknown tokenizer \"words\""),
        ("llama.block_count", Value::from("two"), "llama.block_count: expected u32, got string"),
        ("llama.block_count", Value::from(3u32), "blk.2."),
        ("llama.embedding_length", Value::from(0u32), "llama.embedding_length: expected a positive number, got 0"),
        ("llama.embedding_length", Value::from(64u32), "tensor "),
        (
            "llama.attention.head_count_kv",
            Value::from(3u32),
            "llama.attention.head_count_kv: expected a divisor of 4, got 3",
        ),
        (
            "llama.rope.scaling.type",
            Value::from("spiral"),
            "llama.rope.scaling.type: rope scaling spiral is not supported",
        ),
        ("tokenizer.ggml.scores", Value::Array(Array::F32(vec![0.0])), "tokenizer.ggml.scores: "),
    ] {
        let error = refused(&with(&folder, key, value));
        assert!(error.contains(expected), "{key}: {error}");
    }
    let mut writer = Tiny::default().writer();
    writer.insert("tokenizer.ggml.model", "gpt2");
    writer.insert("tokenizer.ggml.merges", Value::Array(Array::String(Vec::new())));
    writer.insert("tokenizer.ggml.pre", "klingon");
    let path = folder.path().join("model.gguf");
    writer.write_file(&path).unwrap();
    let error = refused(&path);
    assert!(error.contains("tokenizer.ggml.pre: unknown pre-tokenizer \"klingon\""), "{error}");
}

#[test]
fn tensors_that_do_not_belong() {
    let folder = tempfile::tempdir().unwrap();
    let norm = |name: &str| name != "output_norm.weight";
    for (keep, add, expected) in [
        (false, None, "error: tensor output_norm.weight is missing"),
        (false, Some(("output_norm.weight", [16u64].as_slice())), "tensor output_norm.weight: expected [32], got [16]"),
        (true, Some(("mystery.weight", [4].as_slice())), "tensor mystery.weight has no place in this architecture"),
    ] {
        let path = tensors(&folder, |name| keep || norm(name), add.as_slice());
        let error = refused(&path);
        assert!(error.contains(expected), "{error}");
    }
    // In the directory a name is followed by the number of dimensions, the dimensions, the type and the offset.
    let norm_record = |skip: usize, new: &[u8]| {
        let new = new.to_vec();
        changed(&folder, move |bytes| after(bytes, "output_norm.weight", skip, &new))
    };
    let kind = 4 + 8;
    for (skip, new, expected) in [
        (kind, 31u32.to_le_bytes().to_vec(), "tensor output_norm.weight: expected a known type, got 31 (Q4_0_4_4)"),
        (kind, 999u32.to_le_bytes().to_vec(), "tensor output_norm.weight: expected a known type, got 999"),
        (kind + 4, (1u64 << 40).to_le_bytes().to_vec(), "tensor output_norm.weight: expected 128 bytes at offset "),
        (kind + 4, 0u64.to_le_bytes().to_vec(), "expected separate bytes"),
        (4, (1u64 << 62).to_le_bytes().to_vec(), "output_norm.weight"),
    ] {
        let error = refused(&norm_record(skip, &new));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn wrong_paths_have_hints() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("stories.gguf"), Tiny::default().bytes()).unwrap();
    fs::write(folder.path().join("notes.txt"), "").unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let error = refused(folder.path());
    assert!(error.ends_with(": expected a model file, got a directory\nhint: it has stories.gguf"), "{error}");
    let error = refused(Path::new(&at("storise.gguf")));
    let expected = format!("error: {}: no such file\nhint: is {} meant?", at("storise.gguf"), at("stories.gguf"));
    assert_eq!(error, expected);
    let error = refused(Path::new(&at("other/model.gguf")));
    assert!(error.ends_with(&format!(": no such file\nhint: there is no folder {} either", at("other"))), "{error}");
    for name in ["llama3.2", "someone/model:Q4_K_M"] {
        let error = candor(["run", name, "-p", "Hi"]).error();
        assert_eq!(
            error,
            format!(
                "error: {name}: no such file\nhint: candor run hf:USER/REPO fetches a model by its name, candor pull does so \
                 alone"
            )
        );
    }
    let error = candor(["run", "Tell me a story", "-n", "1"]).stdin("x").error();
    assert_eq!(error, "error: Tell me a story: no such file\nhint: a prompt is given with -p");
    for command in ["chat", "show", "tokenize", "perplexity"] {
        let error = candor([command, &at("storise.gguf")]).stdin("x").error();
        assert_eq!(error, expected, "{command}");
    }
    // An extension that all models share makes no name near.
    let other = tempfile::tempdir().unwrap();
    for name in ["model.gguf", "b.gguf"] {
        fs::write(other.path().join(name), "").unwrap();
    }
    for name in ["nope.gguf", "moon.gguf", "a.gguf"] {
        let error = candor(["run", name, "-p", "x"]).within(other.path()).error();
        assert_eq!(error, format!("error: {name}: no such file"));
    }
    for (name, near) in [("Stories.GGUF", "stories.gguf"), ("stories.guf", "stories.gguf"), ("stor", "stories.gguf")] {
        let error = candor(["run", &at(name), "-p", "x"]).error();
        assert!(error.ends_with(&format!("hint: is {} meant?", at(near))), "{name}: {error}");
    }
    let error = candor(["run", "-", "-p", "x"]).error();
    assert_eq!(error, "error: -: a model cannot come through stdin\nhint: the path of a GGUF file names it");
    // Of a prompt's file, too, and in words of ours.
    let error = candor(["run", "-f", &at("ntoes.txt")]).error();
    let (typed, near) = (at("ntoes.txt"), at("notes.txt"));
    assert_eq!(error, format!("error: {typed}: no such file or directory\nhint: is {near} meant?"));
    // Other names of the same folder's files.
    let error = candor(["run", "storise.gguf", "-p", "x"]).within(folder.path()).error();
    assert!(error.ends_with("hint: is stories.gguf meant?"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = changed(&folder, |_| {});
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        eprintln!("skipped: this user may read every file");
        return;
    }
    let error = refused(&path);
    assert!(error.contains("model.gguf: permission denied\nhint: its owner may let others read it"), "{error}");
}

#[test]
fn a_template_that_is_wrong_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = with(&folder, "tokenizer.chat_template", "{% for m in messages %}\n{{ m.content }\n{% endfor %}");
    let error = refused(&path);
    assert!(error.starts_with("error: chat template line 2: "), "{error}");
    assert!(
        error.ends_with("hint: --chat-template NAME or --chat-template-file FILE gives the model another template, --raw goes without"),
        "{error}"
    );
    let raw = candor(["run", path.to_str().unwrap(), "--raw", "-p", "a", "-n", "1"]).outcome();
    assert_eq!(raw.code, 0, "{raw:?}");
    let path = with(&folder, "tokenizer.chat_template", "{{ raise_exception('no') }}");
    let error = refused(&path);
    assert!(error.starts_with("error: chat template") && error.contains("no"), "{error}");
}
