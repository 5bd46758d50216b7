//! `cargo xtask wasm`: the kernels' lints for WebAssembly, and their tests in modules that have each of the tables; the tests of
//! what else a browser needs first, formats, files and text. An engine runs them, wasmtime, which Python's package brings along.
//! What it can't tell is a browser's speed.

use std::error::Error;

use crate::aarch64::TIMED;
use crate::command::{add_target, cargo, root, tool};

const TARGET: &str = "wasm32-wasip1";
/// The engine, as pip names it.
const ENGINE: &str = "wasmtime==50.0.1";

/// How a module is compiled, and the tables that it has.
const MODULES: &[(&str, &str)] = &[("+simd128", "scalar simd128"), ("+relaxed-simd", "scalar simd128 relaxed-simd")];

/// What relaxed instructions give: what this processor is fastest at, and what the standard calls deterministic.
const RELAXED: &[&str] = &["fastest", "deterministic"];

/// Crates without kernels, whose tests run once.
const OTHERS: &[&str] = &["-p", "candor-quant", "-p", "candor-gguf", "-p", "candor-tokenizer"];

/// Lints, then tests in every module; the first that fails is the error.
pub fn run() -> Result<(), Box<dyn Error>> {
    add_target(TARGET)?;
    let folder = root().join("target/wasm-engine");
    let python = folder.join("bin/python");
    let (folder, python) = (folder.to_str().ok_or("a path that is no text")?, python.to_str().expect("as above"));
    tool("python3", &["-m", "venv", folder], &[])?;
    tool(python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ENGINE], &[])?;
    let program = root().join("tools/wasm-run.py");
    let runner = format!("target.{TARGET}.runner=[{python:?}, {program:?}]");
    let on_engine = ["--config", &runner, "--target", TARGET];

    let flags = |features: &str| format!("-C target-feature={features}");
    let kernels = ["-p", "candor-kernels"];
    let lints = [&["clippy"], &kernels[..], &["--target", TARGET, "--all-targets", "--", "-D", "warnings"]].concat();
    cargo(&lints, &[("RUSTFLAGS", &flags("+relaxed-simd"))])?;
    // A panic ends the program before the harness would print what it kept.
    let shown = ["--", "--nocapture"];
    for (features, tables) in MODULES {
        for relaxed in if features.contains("relaxed") { RELAXED } else { &RELAXED[..1] } {
            let variables = [("RUSTFLAGS", &*flags(features)), ("EXPECTED_TABLES", tables), ("WASM_RELAXED", relaxed)];
            let command =
                [&["test", "--quiet"], &on_engine[..], &kernels, &["--tests"], &shown, &["--skip", TIMED]].concat();
            cargo(&command, &variables)?;
            eprintln!("{features}, {relaxed}: the tests of kernels passed for {tables}");
        }
    }
    let command = [&["test", "--quiet"], &on_engine[..], OTHERS, &["--lib", "--tests"], &shown].concat();
    cargo(&command, &[("RUSTFLAGS", &flags("+simd128"))])
}
