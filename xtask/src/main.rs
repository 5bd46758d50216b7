//! The chores of this repository, run as `cargo xtask`: what CI checks, and random models of real shapes.

mod aarch64;
mod browser;
mod check;
mod command;
mod fixtures;
mod isa;
mod miri;
mod radeon;
mod semver;
mod synth;
mod wasm;

use std::error::Error;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask check [--no-test]
       cargo xtask isa
       cargo xtask miri
       cargo xtask aarch64
       cargo xtask wasm
       cargo xtask browser [--faults | --quick [--threads]]
       cargo xtask radeon FAMILY [KERNEL]
       cargo xtask semver [REV]
       cargo xtask synth SHAPE FORMAT [-o FILE]
       cargo xtask fixtures [--cache FOLDER] [--mirror ADDRESS] [--python PROGRAM]

check    does what CI does: rustfmt, clippy, rustdoc, tests, other systems and wasm32; stops at
         the first failure
isa      runs what depends on the instruction set once for each that this machine has
miri     follows every access to memory of the scalar kernels and of the CPU backend's threads;
         needs the nightly toolchain with miri
aarch64  tests the kernels on emulated ARM processors; needs qemu-aarch64 and a cross linker
wasm     tests the kernels, and what reads files and text, in WebAssembly; needs python3, whose package
         wasmtime it installs in target
browser  builds the npm package in target/browser/package and prints how large its modules are; with
         --faults one for tests, in target/browser/faults; with --quick one for Node, compiled as in
         development, in target/browser/quick; --threads adds its module for several threads
radeon   compiles the shaders whose name holds KERNEL (all, or `hot`: what time goes to) with Mesa's
         driver for a family (vega10, navi21, gfx1100), and prints registers, spills and instructions
semver   compares the crates' public faces with the last release's, or a commit's; needs
         cargo-semver-checks
synth    writes a GGUF file with random weights, by default target/synth/SHAPE-FORMAT.gguf
fixtures fetches or makes what the tests compare with, into target/fixtures, and says how long each step
         takes; needs python3 and a C++ compiler. FOLDER may have files already, ADDRESS stands for
         https://raw.githubusercontent.com, PROGRAM is a Python that has the packages already";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done: Result<(), Box<dyn Error>> = match args[..] {
        ["check"] => check::run(true),
        ["check", "--no-test"] => check::run(false),
        ["isa"] => isa::run(),
        ["miri"] => miri::run(),
        ["aarch64"] => aarch64::run(),
        ["wasm"] => wasm::run(),
        ["browser"] => browser::run(false),
        ["browser", "--faults"] => browser::run(true),
        ["browser", "--quick"] => browser::quick(false),
        ["browser", "--quick", "--threads"] => browser::quick(true),
        ["radeon", family] => radeon::run(family, ""),
        ["radeon", family, kernel] => radeon::run(family, kernel),
        ["semver"] => semver::run(None),
        ["semver", baseline] => semver::run(Some(baseline)),
        ["synth", shape, format] => synth::run(shape, format, None),
        ["synth", shape, format, "-o", file] => synth::run(shape, format, Some(file.as_ref())),
        ["fixtures", ref options @ ..] => fixtures::run(options),
        _ => {
            eprintln!("{USAGE}\n\n{}", synth::choices());
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
