//! `cargo xtask miri`: tests run by Miri, which follows every access to memory and every hand-over between threads: pointers
//! that leave what they point into, pieces of an output that overlap, values that one thread reads while another writes.
//!
//! What runs is the scalar table and all that several threads of the CPU backend share. What does not: kernels of
//! instruction sets (intrinsics and tiles, which Miri does not have; the scalar table is what they are compared with), the
//! mapping of files in `gguf` and the drivers beneath `gpu`, which are calls to the system.

use std::error::Error;
use std::process::{Command, Stdio};

use crate::command::tool;

/// What each crate runs: its arguments. Tests that need more than Miri has are ignored where they stand, with the reason.
const TESTS: &[&[&str]] =
    &[&["-p", "candor-kernels"], &["-p", "candor-cpu", "--lib"], &["-p", "candor-cpu", "--test", "backend", "small::"]];

/// Files are read (how many cores there are); overflows are for the usual tests to find, and take half of the time.
const VARIABLES: &[(&str, &str)] = &[
    // The tests' own exponentials are the same each time, where Miri would vary their last bits.
    ("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-deterministic-floats"),
    // Tests that expect a panic would look for the names of its frames.
    ("RUST_BACKTRACE", "0"),
    ("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false"),
    ("CARGO_PROFILE_DEV_OVERFLOW_CHECKS", "false"),
];

/// Runs the tests; the first that fails is the error.
pub fn run() -> Result<(), Box<dyn Error>> {
    let quiet = || Stdio::null();
    let asked = Command::new("rustup")
        .args(["run", "nightly", "cargo", "miri", "--version"])
        .stdout(quiet())
        .stderr(quiet())
        .status();
    if !asked.is_ok_and(|status| status.success()) {
        let hint = "rustup toolchain install nightly --profile minimal -c miri,rust-src";
        return Err(format!("miri: not found\nhint: {hint}").into());
    }
    for tests in TESTS {
        tool("rustup", &[&["run", "nightly", "cargo", "miri", "test"], *tests].concat(), VARIABLES)?;
    }
    Ok(())
}
