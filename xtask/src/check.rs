//! `cargo xtask check`: the commands that CI runs, each printed before it runs.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

/// The crates that a browser will need.
const WASM: &[&str] = &[
    "candor-quant",
    "candor-gguf",
    "candor-tokenizer",
    "candor-ops",
    "candor-kernels",
    "candor-cpu",
    "candor-models",
    "candor",
    "candor-inspect",
];
const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Runs all checks, the tests only if `test`; the first that fails is the error.
pub fn run(test: bool) -> Result<(), Box<dyn Error>> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    cargo(&["doc", "--workspace", "--lib", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    if test {
        cargo(&["test", "--workspace"], &[])?;
    }
    add_wasm_target()?;
    let mut wasm = vec!["check", "--target", WASM_TARGET];
    wasm.extend(WASM.iter().flat_map(|name| ["-p", name]));
    cargo(&wasm, &[])
}

/// Installs the standard library for wasm32 when rustup says that it is missing. Without rustup the check itself tells.
fn add_wasm_target() -> Result<(), Box<dyn Error>> {
    let Ok(listed) = Command::new("rustup").args(["target", "list", "--installed"]).output() else {
        return Ok(());
    };
    if String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.trim() == WASM_TARGET) {
        return Ok(());
    }
    execute(Command::new("rustup").args(["target", "add", WASM_TARGET]), &format!("rustup target add {WASM_TARGET}"))
}

fn cargo(args: &[&str], variables: &[(&str, &str)]) -> Result<(), Box<dyn Error>> {
    let shown: String = variables.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).envs(variables.iter().copied()).current_dir(root());
    execute(&mut command, &format!("{shown}cargo {}", args.join(" ")))
}

fn execute(command: &mut Command, shown: &str) -> Result<(), Box<dyn Error>> {
    eprintln!("+ {shown}");
    let status = command.status().map_err(|error| format!("`{shown}` did not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})").into()) }
}

/// The folder of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
