//! `cargo xtask browser`: the npm package. A module for each set of vector instructions, what lies between each and JavaScript, and
//! the files of `crates/wasm/npm`.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use wasm_bindgen_cli_support::Bindgen;

use crate::command::{add_target, cargo, root};

const TARGET: &str = "wasm32-unknown-unknown";

/// The modules, by the folder of each, and how it is compiled.
const MODULES: &[(&str, &str)] = &[("simd128", "+simd128"), ("relaxed-simd", "+simd128,+relaxed-simd")];

/// Most bytes of a module, as a server sends it.
const MOST: usize = 1_300_000;

/// Files of the repository that the package has beside its own.
const OTHERS: &[&str] = &["crates/candor/assets/candor-tiny.gguf", "LICENSE-APACHE", "LICENSE-MIT"];

/// Puts the package together; with shaders that may be spoilt for a test's.
///
/// # Errors
/// If something does not compile, or a module of the package is larger than it may be.
pub fn run(faults: bool) -> Result<(), Box<dyn Error>> {
    add_target(TARGET)?;
    let target = root().join("target");
    let package = target.join("browser").join(if faults { "faults" } else { "package" });
    begin(&package)?;
    let folder = target.join("browser/build");
    let built = folder.join(TARGET).join("browser/candor_wasm.wasm");
    let folder = folder.to_str().ok_or("a path that is no text")?;
    let mut large = Vec::new();
    // A test takes the one that its browser would.
    let modules = if faults { &MODULES[MODULES.len() - 1..] } else { MODULES };
    for (name, features) in modules {
        let build = ["build", "-p", "candor-wasm", "--target", TARGET, "--profile", "browser", "--target-dir", folder];
        let faults: &[&str] = if faults { &["--features", "faults"] } else { &[] };
        let flags = format!("-C target-feature={features}");
        cargo(&[&build, faults].concat(), &[("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", &flags)])?;
        let module = bind(&built, &package.join(name))?;
        let packed = packed(&module)?;
        println!("{name:<12} {:>9} bytes, {packed:>9} with gzip", module.len());
        if packed > MOST && faults.is_empty() {
            large.push(*name);
        }
    }
    if large.is_empty() { Ok(()) } else { Err(format!("{}: over {MOST} bytes with gzip", large.join(", ")).into()) }
}

/// Puts a package together in `target/browser/quick` that has the first module alone, compiled as in development: for a test in Node.
/// What is compiled for it, `tools/web-test` needs as well.
///
/// # Errors
/// If something does not compile.
pub fn quick() -> Result<(), Box<dyn Error>> {
    add_target(TARGET)?;
    let target = root().join("target");
    let package = target.join("browser/quick");
    begin(&package)?;
    let (name, features) = MODULES[0];
    let flags = format!("-C target-feature={features}");
    let build = ["build", "-p", "candor-wasm", "-p", "candor-web-test", "--lib", "--target", TARGET];
    cargo(&build, &[("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", &flags)])?;
    bind(&target.join(TARGET).join("debug/candor_wasm.wasm"), &package.join(name)).map(drop)
}

/// The package without its modules.
fn begin(package: &Path) -> Result<(), Box<dyn Error>> {
    if package.exists() {
        fs::remove_dir_all(package)?;
    }
    copy(&root().join("crates/wasm/npm"), package)?;
    for file in OTHERS {
        let file = root().join(file);
        fs::copy(&file, package.join(file.file_name().ok_or("a file without a name")?))?;
    }
    Ok(())
}

/// Writes a compiled module, and what lies between it and JavaScript; gives the module's bytes.
fn bind(built: &Path, out: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(built).web(true)?.typescript(false).keep_debug(false).remove_name_section(true);
    bindgen.out_name("candor").generate(out)?;
    Ok(fs::read(out.join("candor_bg.wasm"))?)
}

/// Bytes of what a server sends.
fn packed(bytes: &[u8]) -> Result<usize, Box<dyn Error>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes)?;
    Ok(packer.finish()?.len())
}

fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
