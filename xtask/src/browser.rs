//! `cargo xtask browser`: the npm package. A module for each set of vector instructions, what lies between each and JavaScript, and
//! the files of `crates/wasm/npm`.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use wasm_bindgen_cli_support::Bindgen;

use crate::command::{add_sources, add_target, cargo, root};

const TARGET: &str = "wasm32-unknown-unknown";

/// Instructions for vectors, by the folder of the module that has them.
const MODULES: &[(&str, &str)] = &[("simd128", "+simd128"), ("relaxed-simd", "+simd128,+relaxed-simd")];

/// What a module with threads needs besides: a memory that they share, and of which each has its own locals. The standard library
/// is compiled for it, from its sources.
const SHARED: &[&str] = &[
    "--shared-memory",
    "--import-memory",
    "--max-memory=4294967296",
    "--export=__wasm_init_tls",
    "--export=__tls_size",
    "--export=__tls_align",
    "--export=__tls_base",
];

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
    let mut large = Vec::new();
    // A test takes the one that its browser would.
    let modules = if faults { &MODULES[MODULES.len() - 1..] } else { MODULES };
    for (name, features) in modules {
        for threads in [false, true] {
            let name = if threads { format!("{name}-threads") } else { (*name).to_owned() };
            // Of its own, or each would have the other compile again what runs while it is compiled.
            let folder = target.join(if threads { "browser/build-threads" } else { "browser/build" });
            let built = folder.join(TARGET).join("browser/candor_wasm.wasm");
            let folder = folder.to_str().ok_or("a path that is no text")?;
            let faults: &[&str] = if faults { &["--features", "faults"] } else { &[] };
            let place = ["--profile", "browser", "--target-dir", folder];
            build(features, threads, &[&place, faults].concat())?;
            let module = bind(&built, &package.join(&name))?;
            let packed = packed(&module)?;
            println!("{name:<20} {:>9} bytes, {packed:>9} with gzip", module.len());
            if packed > MOST && faults.is_empty() {
                large.push(name);
            }
        }
    }
    if large.is_empty() { Ok(()) } else { Err(format!("{}: over {MOST} bytes with gzip", large.join(", ")).into()) }
}

/// Puts a package together in `target/browser/quick` that has the first module alone, compiled as in development, and whose shaders
/// can be spoilt: for tests. What is compiled for it, `tools/web-test` needs as well. With `threads`, the same module for several
/// threads is beside it.
///
/// # Errors
/// If something does not compile.
pub fn quick(threads: bool) -> Result<(), Box<dyn Error>> {
    add_target(TARGET)?;
    let target = root().join("target");
    let package = target.join("browser/quick");
    begin(&package)?;
    let (name, features) = MODULES[0];
    build(features, false, &["-p", "candor-web-test", "--features", "candor-wasm/faults"])?;
    bind(&target.join(TARGET).join("debug/candor_wasm.wasm"), &package.join(name))?;
    if threads {
        let folder = target.join("browser/quick-build");
        build(features, true, &["--target-dir", folder.to_str().ok_or("a path that is no text")?])?;
        let built = folder.join(TARGET).join("debug/candor_wasm.wasm");
        bind(&built, &package.join(format!("{name}-threads")))?;
    }
    Ok(())
}

/// Compiles a module.
fn build(features: &str, threads: bool, more: &[&str]) -> Result<(), Box<dyn Error>> {
    let command = ["build", "-p", "candor-wasm", "--lib", "--target", TARGET];
    let variable = "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS";
    if !threads {
        let flags = format!("-C target-feature={features}");
        return cargo(&[&command[..], more].concat(), &[(variable, &flags)]);
    }
    add_sources()?;
    let shared: String = SHARED.iter().map(|argument| format!(" -C link-arg={argument}")).collect();
    let flags = format!("-C target-feature={features},+atomics,+bulk-memory{shared}");
    let own = ["-Z", "build-std=std,panic_abort", "--no-default-features"];
    // The sources of this very compiler, so it may take what it does not yet promise.
    cargo(&[&command[..], &own, more].concat(), &[(variable, &flags), ("RUSTC_BOOTSTRAP", "1")])
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
