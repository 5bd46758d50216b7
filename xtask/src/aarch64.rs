//! `cargo xtask aarch64`: the kernels' lints for 64-bit ARM, and their tests on emulated processors that have each of the
//! tables. What it can't tell is speed.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{add_target, cargo};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Where Debian and its kin put the libraries of that target.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// The emulator's processors and the tables that they have.
const PROCESSORS: &[(&str, &str)] =
    &[("cortex-a72", "scalar neon"), ("neoverse-n1", "scalar neon dotprod"), ("max", "scalar neon dotprod i8mm")];

/// A test that takes times, which say nothing on an emulator and take a minute.
pub const TIMED: &str = "rounds_are_counted_and_take_time";

/// Lints, then tests on every processor; the first that fails is the error.
pub fn run() -> Result<(), Box<dyn Error>> {
    needs(LINKER, starts(LINKER), "gcc-aarch64-linux-gnu")?;
    needs(LIBRARIES, Path::new(LIBRARIES).join("lib/libc.so.6").exists(), "libc6-dev-arm64-cross")?;
    needs(EMULATOR, starts(EMULATOR), "qemu-user")?;
    add_target(TARGET)?;
    let kernels = ["-p", "candor-kernels", "--target", TARGET];
    cargo(&[&["clippy"], &kernels[..], &["--all-targets", "--", "-D", "warnings"]].concat(), &[])?;
    for (processor, tables) in PROCESSORS {
        let variables = [
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER),
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", &format!("{EMULATOR} -L {LIBRARIES} -cpu {processor}")),
            ("EXPECTED_TABLES", tables),
        ];
        cargo(&[&["test", "--quiet"], &kernels[..], &["--", "--skip", TIMED]].concat(), &variables)?;
        eprintln!("{processor}: every test of kernels but that of times passed for {tables}");
    }
    Ok(())
}

fn starts(program: &str) -> bool {
    let quiet = || Stdio::null();
    Command::new(program).arg("--version").stdout(quiet()).stderr(quiet()).status().is_ok_and(|status| status.success())
}

fn needs(what: &str, there: bool, package: &str) -> Result<(), Box<dyn Error>> {
    if there { Ok(()) } else { Err(format!("{what}: not found\nhint: apt-get install {package}").into()) }
}
