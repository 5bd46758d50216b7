//! Running cargo and its kin in the workspace, each command printed before it runs.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

/// Runs cargo with these arguments and environment variables.
pub fn cargo(args: &[&str], variables: &[(&str, &str)]) -> Result<(), Box<dyn Error>> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    with(Command::new(program), "cargo", args, variables)
}

/// Runs another program likewise.
pub fn tool(name: &str, args: &[&str], variables: &[(&str, &str)]) -> Result<(), Box<dyn Error>> {
    with(Command::new(name), name, args, variables)
}

fn with(mut command: Command, name: &str, args: &[&str], variables: &[(&str, &str)]) -> Result<(), Box<dyn Error>> {
    let shown: String = variables.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    command.args(args).envs(variables.iter().copied()).current_dir(root());
    execute(&mut command, &format!("{shown}{name} {}", args.join(" ")))
}

/// Installs the standard library of a target when rustup says that it is missing. Without rustup cargo itself tells.
pub fn add_target(target: &str) -> Result<(), Box<dyn Error>> {
    add("target", target)
}

/// Installs the sources of the standard library likewise.
pub fn add_sources() -> Result<(), Box<dyn Error>> {
    add("component", "rust-src")
}

fn add(kind: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let Ok(listed) = Command::new("rustup").args([kind, "list", "--installed"]).output() else {
        return Ok(());
    };
    if String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.trim() == name) {
        return Ok(());
    }
    execute(Command::new("rustup").args([kind, "add", name]), &format!("rustup {kind} add {name}"))
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
