//! `cargo xtask check`: the commands that CI runs, each printed before it runs.

use std::error::Error;

use crate::command::{add_target, cargo};
use crate::{isa, semver};

/// The crates that a browser will need.
const WASM: &[&str] = &[
    "candor-quant",
    "candor-gguf",
    "candor-tokenizer",
    "candor-ops",
    "candor-kernels",
    "candor-cpu",
    "candor-gpu",
    "candor-models",
    "candor-verify",
    "candor",
    "candor-inspect",
    "candor-wasm",
];
const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Systems that CI has no machine of, each with GPU drivers of its own: what is for them alone must at least compile. On one of them
/// the command is checked without a GPU; what is the same everywhere is left out.
const OTHER_SYSTEMS: &[(&str, &[&[&str]])] = &[
    ("x86_64-pc-windows-msvc", &[&["-p", "candor-gpu"], &["-p", "candor-cli", "--no-default-features"]]),
    (
        "aarch64-apple-darwin",
        &[&["-p", "candor-gpu", "-p", "candor-cli", "--no-default-features", "--features", "candor-cli/gpu"]],
    ),
];

/// Runs all checks, the tests only if `test`; the first that fails is the error.
pub fn run(test: bool) -> Result<(), Box<dyn Error>> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    cargo(&["doc", "--workspace", "--lib", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    // Without building each crate from its package, which takes as long as all tests.
    cargo(&["package", "--quiet", "--workspace", "--no-verify", "--allow-dirty"], &[])?;
    semver::run(None)?;
    if test {
        cargo(&["test", "--workspace"], &[])?;
        isa::run()?;
    }
    add_target(WASM_TARGET)?;
    // First without a browser's GPU. The same packages twice, so that what is the same in both is checked once.
    let mut wasm = vec!["check", "--target", WASM_TARGET];
    wasm.extend(WASM.iter().flat_map(|name| ["-p", name]));
    cargo(&[&wasm[..], &["--no-default-features"]].concat(), &[])?;
    cargo(&[&wasm[..], &["--features", "candor/gpu"]].concat(), &[])?;
    // One after the other: together each would have what the other's drivers need.
    for (target, commands) in OTHER_SYSTEMS {
        add_target(target)?;
        for command in *commands {
            cargo(&[&["check", "--target", target], *command].concat(), &[])?;
        }
    }
    Ok(())
}
