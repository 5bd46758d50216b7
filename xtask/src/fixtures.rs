//! `cargo xtask fixtures`: what the tests compare with, fetched or made into `target/fixtures` by `tools/fixtures`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{root, tool};

const SCRIPTS: &str = "tools/fixtures";

/// Each step goes on from where a break has left it.
pub fn run(options: &[&str]) -> Result<(), Box<dyn Error>> {
    let (mut of_fetch, mut python) = (Vec::new(), None);
    for pair in options.chunks(2) {
        match *pair {
            ["--python", program] => python = Some(PathBuf::from(program)),
            [option @ ("--cache" | "--mirror"), value] => of_fetch.extend([option, value]),
            _ => return Err(format!("fixtures: unexpected {}", pair.join(" ")).into()),
        }
    }
    let out = root().join("target/fixtures");
    let complete = out.join("complete");
    fs::create_dir_all(&out)?;
    if complete.exists() {
        fs::remove_file(&complete)?;
    }
    let mut clock = Clock::default();
    let python = match python {
        Some(program) => program,
        None => clock.time("environment", environment)?,
    };
    let (python, folder) = (text(&python)?, text(&out)?);
    let script = |name: &str, options: &[&str]| {
        let path = format!("{SCRIPTS}/{name}");
        tool(python, &[&[path.as_str(), folder], options].concat(), &[])
    };
    clock.time("fetch", || script("fetch.py", &of_fetch))?;
    clock.time("models", || script("models.py", &[]))?;
    clock.time("expectations", || script("expectations.py", &[]))?;
    clock.time("chat", || script("chat.py", &[]))?;
    clock.time("architectures", || script("architectures.py", &[]))?;
    let list = out.join("expected/directories.tsv");
    let checksums = ["crates/gguf/tests/goldens/directories.py", text(&list)?, folder];
    clock.time("directories", || tool(python, &checksums, &[]))?;
    fs::write(&complete, "")?;
    println!("{}\nfixtures are in {}", clock.table(), out.display());
    Ok(())
}

/// A virtual environment with the packages of requirements.txt.
fn environment() -> Result<PathBuf, Box<dyn Error>> {
    let folder = root().join("target/fixtures-python");
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let asked = "import sys; sys.exit(sys.version_info < (3, 11))";
    match Command::new("python3").args(["-c", asked]).status() {
        Err(error) => return Err(format!("python3 does not start: {error}").into()),
        Ok(status) if !status.success() => return Err("python3 is older than 3.11".into()),
        Ok(_) => {}
    }
    // Also where a break has left half of one, which has no pip yet.
    if !starts(text(&python)?, &["-m", "pip", "--version"]) {
        tool("python3", &["-m", "venv", "--clear", text(&folder)?], &[])
            .map_err(|error| format!("{error}\nhint: on Debian and Ubuntu it is a package of its own, python3-venv"))?;
    }
    let built = "import llama_cpp";
    if !starts(text(&python)?, &["-c", built]) && !has_compiler() {
        return Err(
            "no C++ compiler: llama.cpp is built from its source\nhint: install g++ or clang, or set CXX".into()
        );
    }
    let requirements = format!("{SCRIPTS}/requirements.txt");
    tool(text(&python)?, &["-m", "pip", "install", "-q", "-r", &requirements], &[]).map_err(|error| {
        format!("{error}\nhint: pip says why above; it needs the network, and a compiler to build llama.cpp")
    })?;
    Ok(python)
}

fn has_compiler() -> bool {
    // Visual Studio's is not on the path, and CMake finds it.
    cfg!(windows)
        || std::env::var_os("CXX").is_some()
        || ["c++", "g++", "clang++"].iter().any(|name| starts(name, &["--version"]))
}

/// Whether a program starts and ends well.
fn starts(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn text(path: &Path) -> Result<&str, Box<dyn Error>> {
    path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()).into())
}

/// How long the steps took.
#[derive(Default)]
struct Clock(Vec<(&'static str, Duration)>);

impl Clock {
    fn time<T>(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> Result<T, Box<dyn Error>>,
    ) -> Result<T, Box<dyn Error>> {
        let start = Instant::now();
        let done = step().map_err(|error| format!("{name}: {error}"))?;
        self.0.push((name, start.elapsed()));
        println!("{name}: {:.1} s", start.elapsed().as_secs_f64());
        Ok(done)
    }

    fn table(&self) -> String {
        let total: Duration = self.0.iter().map(|(_, time)| *time).sum();
        let rows = self.0.iter().copied().chain([("all", total)]);
        rows.map(|(name, time)| format!("\n{name:<14} {:>7.1} s", time.as_secs_f64())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{SCRIPTS, run, starts};
    use crate::command::root;

    #[test]
    fn unknown_options_are_refused() {
        for options in [&["--cash", "x"][..], &["--cache"], &["x"]] {
            assert!(run(options).unwrap_err().to_string().contains("unexpected"), "{options:?}");
        }
    }

    /// A wrong digest is refused, and what else test_fetch.py says.
    #[test]
    fn what_is_fetched_is_checked() {
        let tests = root().join(SCRIPTS).join("test_fetch.py");
        if !starts("python3", &["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]) {
            eprintln!("skipped: no python3 from 3.11 on");
            return;
        }
        assert!(starts("python3", &[tests.to_str().unwrap()]), "python3 {} fails", tests.display());
    }
}
