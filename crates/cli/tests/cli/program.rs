//! Running the program in surroundings of its own: no variables, no configuration file, a folder that is deleted.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

/// A prompt that any model continues.
pub const STORY: &str = "Once upon a time there was";

/// The program, ready to be started.
pub struct Program {
    pub command: Command,
    stdin: Option<Vec<u8>>,
    // Deleted when the program is dropped.
    _home: TempDir,
}

/// What a program printed and how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

/// `candor` with arguments, nothing on stdin.
pub fn candor<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Program {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CANDOR_") {
            command.env_remove(name);
        }
    }
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
        command.env(variable, home.path());
    }
    // Mesa's compiled shaders are the machine's: a program of its own would compile them once more.
    if let Some(folder) = shaders() {
        command.env("MESA_SHADER_CACHE_DIR", folder);
    }
    command.args(args);
    Program { command, stdin: None, _home: home }
}

/// Where Mesa keeps them.
fn shaders() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("MESA_SHADER_CACHE_DIR").or_else(|| set("XDG_CACHE_HOME")).or_else(|| Some(set("HOME")?.join(".cache")))
}

/// `candor run --raw` of a story on one thread, where the same numbers come every time.
pub fn story(args: &[&str]) -> Program {
    let fixed = ["run", "--raw", "-p", STORY, "-t", "1"];
    candor(fixed.iter().chain(args))
}

impl Program {
    /// With a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// With a configuration file.
    pub fn config(self, text: &str) -> Self {
        let path = self.home().join("config.toml");
        std::fs::write(&path, text).expect("a file in the temporary folder");
        self.env("CANDOR_CONFIG", path.to_str().expect("an ASCII path"))
    }

    /// Started by a shell that gets arguments of its own, in the same surroundings.
    #[cfg(target_os = "linux")]
    pub fn by(mut self, arguments: impl FnOnce(&mut Command)) -> Self {
        let mut shell = Command::new("sh");
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        arguments(&mut shell);
        self.command = shell;
        self
    }

    /// With something on stdin.
    pub fn stdin(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.stdin = Some(bytes.as_ref().to_vec());
        self
    }

    /// In a folder.
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// The folder that it takes for the user's.
    pub fn home(&self) -> PathBuf {
        self._home.path().to_owned()
    }

    /// Starts it with pipes.
    pub fn spawn(&mut self) -> Child {
        let stdin = if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the program starts");
        if let (Some(bytes), Some(mut stdin)) = (self.stdin.take(), child.stdin.take()) {
            // The program may end before it reads everything.
            let _ = stdin.write_all(&bytes);
        }
        child
    }

    /// Runs it with a stdout that takes nothing, as on a full disk; gives stderr and the exit code.
    #[cfg(target_os = "linux")]
    pub fn on_full_disk(mut self) -> (String, i32) {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
        self.command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
        let output = self.command.spawn().and_then(Child::wait_with_output).expect("the program ends");
        (String::from_utf8(output.stderr).expect("UTF-8"), output.status.code().expect("an exit code"))
    }

    /// Has no file of it grow beyond this many blocks of 512 bytes, as where a disk is full.
    #[cfg(target_os = "linux")]
    pub fn where_files_end_at(mut self, blocks: u32) -> Program {
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""), "sh"]);
        limited.arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        if let Some(folder) = self.command.get_current_dir() {
            limited.current_dir(folder);
        }
        self.command = limited;
        self
    }

    /// Runs it to its end.
    pub fn outcome(mut self) -> Outcome {
        let output = self.spawn().wait_with_output().expect("the program ends");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Outcome {
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            code: output.status.code().expect("an exit code"),
        }
    }

    /// Runs it, expects success, gives stdout.
    pub fn text(self) -> String {
        let outcome = self.outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        outcome.stdout
    }

    /// Runs it, expects exit code 1, one line that says why and perhaps a hint, and gives both.
    pub fn error(self) -> String {
        let outcome = self.outcome();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        let lines: Vec<&str> = outcome.stderr.lines().filter(|line| !line.starts_with("using the built-in")).collect();
        assert!(lines.len() <= 2 && lines[0].starts_with("error: "), "{outcome:?}");
        assert!(lines.iter().skip(1).all(|line| line.starts_with("hint: ")), "{outcome:?}");
        assert!(!outcome.stderr.contains("panicked"), "{outcome:?}");
        lines.join("\n")
    }
}
