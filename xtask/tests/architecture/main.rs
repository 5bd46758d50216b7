//! The picture of the crates, as a test: which may depend on which, what may be used from outside, where `unsafe` is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

mod circles;
mod wiring;

/// Who depends on whom, exactly. ARCHITECTURE.md draws the same picture.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "candor",
        &[
            "candor-cpu",
            "candor-gguf",
            "candor-gpu",
            "candor-kernels",
            "candor-models",
            "candor-ops",
            "candor-tokenizer",
            "candor-verify",
        ],
    ),
    (
        "candor-cli",
        &[
            "candor",
            "candor-convert",
            "candor-gguf",
            "candor-grammar",
            "candor-hub",
            "candor-inspect",
            "candor-models",
            "candor-ops",
            "candor-server",
        ],
    ),
    ("candor-convert", &["candor-gguf", "candor-kernels", "candor-quant"]),
    ("candor-cpu", &["candor-kernels", "candor-ops", "candor-quant"]),
    ("candor-gguf", &["candor-quant"]),
    ("candor-gpu", &["candor-ops", "candor-quant"]),
    ("candor-grammar", &["candor"]),
    ("candor-hub", &[]),
    ("candor-inspect", &["candor", "candor-convert", "candor-gguf", "candor-models", "candor-ops", "candor-verify"]),
    ("candor-kernels", &["candor-quant"]),
    ("candor-models", &["candor-gguf", "candor-ops"]),
    ("candor-ops", &["candor-quant"]),
    ("candor-quant", &[]),
    ("candor-server", &["candor", "candor-grammar"]),
    ("candor-testing", &["candor-gguf", "candor-ops", "candor-quant"]),
    ("candor-tokenizer", &["candor-gguf"]),
    ("candor-verify", &["candor-gguf", "candor-models", "candor-ops", "candor-quant"]),
    ("candor-wasm", &["candor", "candor-gpu"]),
    ("candor-web-test", &["candor", "candor-gpu"]),
    ("xtask", &["candor-convert", "candor-gguf", "candor-kernels", "candor-quant"]),
];

/// The files of `candor` that name its runner: those that load a model into one, its kinds of parts, the batch, which alone makes steps of a
/// text, what times a layer, and what counts a file's memory before it is loaded.
const RUNNER: &[&str] = &[
    "backends.rs",
    "batch.rs",
    "batch/sequence.rs",
    "fit/file.rs",
    "lib.rs",
    "model.rs",
    "part.rs",
    "speed.rs",
    "streamed.rs",
];

/// The crate that tests may use and nothing else.
const TESTING: &str = "candor-testing";

/// The crates that may hold `unsafe`; all others forbid it.
const UNSAFE: &[&str] = &["candor-cpu", "candor-gguf", "candor-gpu", "candor-kernels"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

/// The dependencies of a package: (name, kind), where the kind is `normal`, `dev` or `build`.
fn dependencies(package: &Value) -> Vec<(&str, &str)> {
    let all = package["dependencies"].as_array().expect("a list of dependencies");
    all.iter().map(|d| (name(d), d["kind"].as_str().unwrap_or("normal"))).collect()
}

fn name(item: &Value) -> &str {
    item["name"].as_str().expect("a name")
}

#[test]
fn crates_depend_on_each_other_as_drawn() {
    let packages = packages();
    let house: Vec<&str> = packages.iter().map(name).collect();
    let mut found = BTreeMap::new();
    for package in &packages {
        let inside = dependencies(package).into_iter().filter(|(on, _)| house.contains(on));
        let (mut arrows, mut tests) = (Vec::new(), Vec::new());
        for (on, kind) in inside {
            if kind == "dev" { tests.push(on) } else { arrows.push(on) }
        }
        arrows.sort_unstable();
        arrows.dedup();
        // A test may use what is below its crate anyway, and the testing crate.
        let below = below(name(package));
        let strange: Vec<_> = tests.iter().filter(|on| **on != TESTING && !below.contains(on)).collect();
        assert!(strange.is_empty(), "{}: tests use {strange:?}", name(package));
        found.insert(name(package), arrows);
    }
    let drawn: BTreeMap<&str, Vec<&str>> = ARROWS.iter().map(|(from, to)| (*from, to.to_vec())).collect();
    assert_eq!(found, drawn, "left: the Cargo.toml files, right: the picture");
    assert!(!found.values().flatten().any(|on| *on == TESTING), "{TESTING} is for tests only");
}

/// All crates that `from` depends on, directly or not, as drawn.
fn below(from: &str) -> Vec<&'static str> {
    let direct = ARROWS.iter().find(|(name, _)| *name == from).map_or(&[][..], |(_, to)| *to);
    direct.iter().flat_map(|on| below(on).into_iter().chain([*on])).collect()
}

/// Most bytes of a package, by the registry's rule for its compressed form.
const PACKAGE_BYTES: u64 = 10_000_000;

/// The bytes of a folder's files.
fn bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let entries = entries.map(|entry| entry.expect("an entry").path());
    entries
        .map(|path| if path.is_dir() { bytes(&path) } else { fs::metadata(&path).map_or(0, |file| file.len()) })
        .sum()
}

#[test]
fn packages_have_what_a_registry_asks_for() {
    let packages = packages();
    let house: Vec<&str> = packages.iter().map(name).collect();
    let published = |package: &&Value| package["publish"].is_null();
    assert_eq!(
        packages.iter().filter(published).count(),
        packages.len() - 4,
        "all but {TESTING}, the module for browsers, the web test and xtask"
    );
    for package in packages.iter().filter(published) {
        for key in ["description", "license", "readme", "rust_version"] {
            assert!(package[key].is_string(), "{}: {key}", name(package));
        }
        assert!(package["keywords"].as_array().is_some_and(|keywords| !keywords.is_empty()), "{}", name(package));
        for on in package["dependencies"].as_array().expect("a list of dependencies") {
            let (inside, version) = (house.contains(&name(on)), on["req"].as_str().expect("a version"));
            // What has a path alone is left out of packages, which only tests may be.
            assert_eq!(inside && version == "*", name(on) == TESTING, "{}: {}", name(package), name(on));
        }
        let folder = Path::new(package["manifest_path"].as_str().expect("a path")).parent().expect("a folder");
        let bytes: u64 = ["src", "assets", "examples"].iter().map(|part| bytes(&folder.join(part))).sum();
        assert!(bytes < PACKAGE_BYTES, "{}: {bytes} bytes", name(package));
    }
}

#[test]
fn every_dependency_from_outside_has_its_line() {
    let path = root().join("docs").join("dependencies.md");
    let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let listed: Vec<&str> = rows.flat_map(|cell| cell.split(',')).map(|name| name.trim().trim_matches('`')).collect();
    let packages = packages();
    let house: Vec<&str> = packages.iter().map(name).collect();
    let all = packages.iter().flat_map(dependencies).map(|(on, _)| on);
    let missing: BTreeSet<&str> = all.filter(|on| !house.contains(on) && !listed.contains(on)).collect();
    assert!(missing.is_empty(), "no line in {}: {missing:?}", path.display());
}

#[test]
fn unsafe_is_forbidden_but_in_four_crates() {
    for package in packages() {
        for target in package["targets"].as_array().expect("a list of targets") {
            let kinds = target["kind"].as_array().expect("kinds");
            if !kinds.iter().any(|kind| kind == "lib") || UNSAFE.contains(&name(&package)) {
                continue;
            }
            let path = target["src_path"].as_str().expect("a path");
            let source = fs::read_to_string(path).expect("the root of a crate");
            assert!(source.contains("#![forbid(unsafe_code)]"), "{path} does not forbid unsafe code");
        }
    }
}

#[test]
fn only_batches_make_steps() {
    let src = root().join("crates/candor/src");
    let mut named = BTreeSet::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::read_to_string(&path).expect("text").contains("runner") {
                let path = path.strip_prefix(&src).expect("a file in it").to_string_lossy().replace('\\', "/");
                named.insert(path);
            }
        }
    }
    assert_eq!(named, RUNNER.iter().map(|&path| path.to_owned()).collect(), "who names the runner");
}
