//! For tests only: where fixtures are, how their files are read, and how far two results lie apart.
//!
//! Everything here panics with a message: it runs inside of tests.
#![forbid(unsafe_code)]

mod answering;
pub mod backend;
mod large;
mod lora;
mod parrot;
mod tiny;

pub use answering::{TinyT5, encoder_of};
pub use large::{Large, large};
pub use lora::{Lora, is_matrix, merged};
pub use parrot::Parrot;
pub use tiny::{Random, Tiny};

use std::{fs, io::Write, path::Path, path::PathBuf, process::Command};

/// The folder of fixtures: `CANDOR_FIXTURES`, or `../shared/fixtures` beside the workspace, or what `cargo xtask fixtures`
/// has made in `target/fixtures`. Prints a reason and returns `None` where it is missing, so that a test can return. So it
/// does in WebAssembly, which can't map files into memory.
pub fn fixtures() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = std::env::var_os("CANDOR_FIXTURES").map(PathBuf::from);
    let found = find(named.as_deref(), &workspace);
    if found.is_some() && !cfg!(target_family = "wasm") {
        return found;
    }
    let reason = match named {
        _ if cfg!(target_family = "wasm") => "WebAssembly can't map fixtures into memory".to_owned(),
        Some(folder) => format!("no fixtures at {}, where CANDOR_FIXTURES says", folder.display()),
        None => "no fixtures; `cargo xtask fixtures` makes them".to_owned(),
    };
    // Not `eprintln!`: the test harness would keep it to itself.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
    None
}

/// A named folder goes first, also where it is missing. What was made counts once it is complete.
fn find(named: Option<&Path>, workspace: &Path) -> Option<PathBuf> {
    let made = workspace.join("target/fixtures");
    match named {
        Some(folder) => Some(folder.to_owned()).filter(|folder| folder.is_dir()),
        None => Some(workspace.join("../shared/fixtures"))
            .filter(|folder| folder.is_dir())
            .or_else(|| Some(made).filter(|folder| folder.join("complete").is_file())),
    }
}

/// The folder of the fixtures' vocabularies, `ggml-vocab-NAME.gguf`. Where they are packed, they are unpacked into a folder
/// once, beside the place and renamed, so that test programs that run at once do not see each other's halves.
///
/// # Panics
/// If they cannot be unpacked.
pub fn vocabularies(fixtures: &Path, folder: &Path) -> PathBuf {
    let plain = fixtures.join("vocab");
    if plain.join("ggml-vocab-gpt-2.gguf").is_file() {
        return plain;
    }
    let unpacked = folder.join("vocab");
    if !unpacked.is_dir() {
        let own = unpacked.with_extension(std::process::id().to_string());
        let status = Command::new(fixtures.join("unpack-vocab")).arg(&own).status();
        assert!(status.as_ref().is_ok_and(|status| status.success()), "unpack-vocab: {status:?}");
        if fs::rename(&own, &unpacked).is_err() {
            fs::remove_dir_all(&own).expect("the folder was made above");
        }
    }
    unpacked
}

/// Whether there is a GPU to test on, a software one (lavapipe) included. Without one a reason is printed, so that a
/// test can return.
///
/// # Panics
/// If there is no GPU though `CANDOR_TEST_GPU=1` says that there must be one.
pub fn has_gpu(adapters: usize) -> bool {
    if adapters == 0 {
        let demanded = std::env::var_os("CANDOR_TEST_GPU").is_some_and(|value| value == "1");
        assert!(!demanded, "CANDOR_TEST_GPU=1, but there is no GPU, and no software adapter (lavapipe) either");
        let _ = writeln!(std::io::stderr(), "skipped: no GPU, and no software adapter (lavapipe) either");
    }
    adapters > 0
}

/// A JSON file.
///
/// # Panics
/// If it cannot be read.
pub fn json(path: &Path) -> serde_json::Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Token ids of a JSON array.
///
/// # Panics
/// If it is not one.
pub fn ids(value: &serde_json::Value) -> Vec<u32> {
    let items = value.as_array().unwrap_or_else(|| panic!("expected an array of ids, got {value}"));
    items.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()).expect("an id")).collect()
}

/// The values of a little-endian float32 NumPy file in C order (NumPy's format specification, version 1 and 2).
///
/// # Panics
/// If it is no such file.
pub fn npy(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(&bytes[..6], b"\x93NUMPY", "{}", path.display());
    let (start, length) = match bytes[6] {
        1 => (10, usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))),
        _ => (12, u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize),
    };
    let header = String::from_utf8_lossy(&bytes[start..start + length]);
    assert!(header.contains("'<f4'") && header.contains("'fortran_order': False"), "{header}");
    let (values, rest) = bytes[start + length..].as_chunks::<4>();
    assert!(rest.is_empty());
    values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// Normalised mean squared error: the mean square of the difference over that of the reference.
///
/// # Panics
/// If the lengths differ.
pub fn nmse(got: &[f32], reference: &[f32]) -> f64 {
    assert_eq!(got.len(), reference.len(), "lengths differ");
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let difference = square(&mut got.iter().zip(reference).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    if difference == 0.0 {
        return 0.0; // also where all is zero
    }
    difference / square(&mut reference.iter().map(|&value| f64::from(value)))
}

/// Root mean square of the difference.
///
/// # Panics
/// If the lengths differ.
pub fn rms_difference(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "lengths differ");
    let sum: f64 = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    (sum / a.len() as f64).sqrt()
}

/// The index of the largest value, the first of equals.
pub fn argmax(values: &[f32]) -> u32 {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best as u32
}

/// Folders of fixtures: those of the shared ones that are models of floats, if they are there, and those that
/// `tools/architectures/make.py` made.
pub fn architectures() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(fixtures) = fixtures() {
        let index = json(&fixtures.join("arch/INDEX.json"));
        let names = index.as_array().unwrap().iter().map(|entry| entry["dir"].as_str().unwrap());
        folders.extend(names.filter(|name| !name.starts_with("quant-")).map(|name| fixtures.join("arch").join(name)));
        folders.retain(|folder| folder.is_dir());
        assert!(folders.len() > 80, "{folders:?}");
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/goldens/architectures");
    folders.extend(fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path()));
    folders.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    folders
}

#[cfg(test)]
mod tests {
    use super::{find, fs};

    #[test]
    fn fixtures_are_where_they_were_named_then_beside_then_made() {
        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().join("project");
        let [beside, made] = ["../shared/fixtures", "target/fixtures"].map(|path| workspace.join(path));
        fs::create_dir_all(&made).unwrap();
        assert_eq!(find(None, &workspace), None, "not complete");
        fs::write(made.join("complete"), "").unwrap();
        assert_eq!(find(None, &workspace), Some(made.clone()));
        fs::create_dir_all(&beside).unwrap();
        assert_eq!(find(None, &workspace), Some(beside));
        assert_eq!(find(Some(&made), &workspace), Some(made.clone()));
        assert_eq!(find(Some(&made.join("missing")), &workspace), None);
    }
}
