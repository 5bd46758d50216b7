//! `candor` in a pseudo-terminal: the line editor, its history, Ctrl-C and Ctrl-D, the bar.

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use candor_testing::Tiny;
use nix::sys::wait::WaitStatus;
use rexpect::process::PtyProcess;
use tempfile::TempDir;

/// What a terminal answers when it is asked where its cursor is: top left.
const CURSOR: (&[u8], &[u8]) = (b"\x1b[6n", b"\x1b[1;1R");
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A program in a pseudo-terminal, and what it printed.
pub struct Terminal {
    process: PtyProcess,
    keys: File,
    pub printed: Arc<Mutex<Vec<u8>>>,
    /// Characters of the plain text that were already expected.
    seen: usize,
}

impl Terminal {
    pub fn start(home: &Path, args: &str, variables: &[(&str, &str)]) -> Terminal {
        Terminal::of_columns(100, home, args, variables)
    }

    pub fn of_columns(columns: usize, home: &Path, args: &str, variables: &[(&str, &str)]) -> Terminal {
        let program = env!("CARGO_BIN_EXE_candor");
        Terminal::shell(home, &format!("stty cols {columns} rows 40 echo; exec '{program}' {args}"), variables)
    }

    /// Runs it with more commands of a shell after its arguments.
    pub fn script(home: &Path, args: &str, variables: &[(&str, &str)]) -> Terminal {
        Terminal::shell(
            home,
            &format!("stty cols 100 rows 40 echo; '{}' {args}", env!("CARGO_BIN_EXE_candor")),
            variables,
        )
    }

    fn shell(home: &Path, script: &str, variables: &[(&str, &str)]) -> Terminal {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.env("TERM", "xterm-256color").env("HOME", home).env("XDG_DATA_HOME", home);
        command.env("XDG_CONFIG_HOME", home).env_remove("NO_COLOR");
        command.envs(variables.iter().copied());
        let mut process = PtyProcess::new(command).expect("a pseudo-terminal");
        process.set_kill_timeout(Some(1000));
        let keys = process.get_file_handle().unwrap();
        let (mut screen, mut answers) = (keys.try_clone().unwrap(), keys.try_clone().unwrap());
        let printed = Arc::new(Mutex::new(Vec::new()));
        let sink = printed.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails when the program has closed its end.
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                if buffer[..count].windows(CURSOR.0.len()).any(|window| window == CURSOR.0) {
                    let _ = answers.write_all(CURSOR.1);
                }
                sink.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Terminal { process, keys, printed, seen: 0 }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Everything printed so far, without control sequences.
    pub fn plain(&self) -> String {
        plain(&self.printed.lock().unwrap())
    }

    /// Waits until a text is printed after the last one.
    pub fn expect(&mut self, text: &str) {
        let started = Instant::now();
        loop {
            let plain = self.plain();
            if let Some(at) = plain.get(self.seen..).and_then(|rest| rest.find(text)) {
                self.seen += at + text.len();
                return;
            }
            assert!(started.elapsed() < PATIENCE, "expected {text:?} after {:?}", plain.split_at(self.seen));
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The exit code.
    pub fn end(self) -> i32 {
        let started = Instant::now();
        loop {
            match self.process.status() {
                Some(WaitStatus::Exited(_, code)) => return code,
                Some(WaitStatus::StillAlive) => {}
                other => panic!("{other:?}: {}", self.plain()),
            }
            assert!(started.elapsed() < PATIENCE, "{}", self.plain());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Text without the sequences that move and colour.
pub fn plain(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let mut bytes = bytes.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != 0x1b {
            text.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'[') => while bytes.next().is_some_and(|byte| !(0x40..=0x7e).contains(&byte)) {},
            Some(b']') => while bytes.next().is_some_and(|byte| byte != 0x07 && byte != 0x1b) {},
            _ => {}
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

pub fn chat(home: &TempDir, args: &str) -> Terminal {
    let mut terminal = Terminal::start(home.path(), &format!("chat {args}"), &[("CANDOR_CONFIG", "")]);
    terminal.expect("/help lists the commands.");
    terminal.expect("> ");
    terminal
}

pub const SHORT: &str = "-n 5 --ignore-eos --temp 0";
pub const ENDLESS: &str = "--ignore-eos --context-shift --temp 0";

#[test]
fn a_message_is_answered_and_ctrl_d_leaves() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, &format!("{SHORT} -v"));
    terminal.press("Hello\r");
    terminal.expect("decode: 5 tokens");
    terminal.expect("> ");
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn commands_work_and_exit_leaves() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, SHORT);
    terminal.press("/hlep\r");
    terminal.expect("error: /hlep is no command");
    terminal.expect("hint: is /help meant?");
    terminal.press("/help\r");
    terminal.expect("forget the conversation, keep the system prompt");
    terminal.press("/stats\r");
    terminal.expect("context: 0 of ");
    terminal.press("/exit\r");
    // A person has seen the error: no failure.
    assert_eq!(terminal.end(), 0);
}

#[test]
fn ctrl_c_at_the_prompt_gives_a_hint_and_drops_the_line() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, &format!("{SHORT} -v"));
    terminal.press("\x03");
    terminal.expect("(Ctrl-D or /exit leaves)");
    // Between two prompts the terminal makes a signal of the key, and drops what was typed.
    terminal.expect("> ");
    terminal.press("never mind\x03");
    terminal.expect("(Ctrl-D or /exit leaves)");
    terminal.expect("> ");
    terminal.press("/stats\r");
    terminal.expect("answers: 0;");
    terminal.press("/q\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn ctrl_c_stops_an_answer_and_not_the_program() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, ENDLESS);
    terminal.press("Hello\r");
    // Some of the answer has come when the line is followed by more than the echo.
    let started = Instant::now();
    let typed = terminal.plain().len();
    while terminal.plain().len() < typed + 40 {
        assert!(started.elapsed() < PATIENCE, "{}", terminal.plain());
        thread::sleep(Duration::from_millis(10));
    }
    terminal.press("\x03");
    terminal.expect("(stopped)");
    terminal.expect("> ");
    terminal.press("/stats\r");
    terminal.expect("answers: 1;");
    terminal.press("/bye\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn messages_of_several_lines_are_one() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("saved.json");
    let mut terminal = chat(&home, &format!("{SHORT} -v"));
    for lines in ["\"\"\"one\rtwo\r\"\"\"\r", "three\\\rfour\r"] {
        terminal.press(lines);
        terminal.expect("decode: 5 tokens");
        terminal.expect("> ");
    }
    terminal.press(&format!("/save {}\r", file.display()));
    terminal.expect("saved 4 messages to ");
    terminal.press("/exit\r");
    assert_eq!(terminal.end(), 0);
    let saved = candor_testing::json(&file);
    assert_eq!(saved["messages"][0]["content"], "one\ntwo");
    assert_eq!(saved["messages"][2]["content"], "three\nfour");
}

#[test]
fn the_history_is_kept_between_conversations() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, SHORT);
    terminal.press("/set predict 3\r");
    terminal.expect("(/set)");
    terminal.press("/exit\r");
    assert_eq!(terminal.end(), 0);
    let mut terminal = chat(&home, SHORT);
    // Twice up: before the command that left.
    terminal.press("\x1b[A\x1b[A\r");
    terminal.expect("(/set)");
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
    let files = walk(home.path());
    assert!(files.iter().any(|path| path.ends_with("history.txt")), "{files:?}");
}

pub fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn tab_completes_commands() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, SHORT);
    terminal.press("/conf\t");
    terminal.expect("/config");
    // It is the only one: the line is whole.
    terminal.press("\r");
    terminal.expect("ubatch-size");
    // A key that comes before the editor listens again is lost.
    terminal.expect("> ");
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let home = tempfile::tempdir().unwrap();
    let coloured = |variables: &[(&str, &str)]| {
        let mut terminal = Terminal::start(home.path(), "chat", variables);
        terminal.expect("> ");
        terminal.press("\x04");
        let printed = terminal.printed.clone();
        assert_eq!(terminal.end(), 0);
        let bytes = printed.lock().unwrap().clone();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // A colour is a sequence of numbers, not 0, that ends in m.
        let starts = text.split("\x1b[").skip(1).filter_map(|rest| rest.split_once('m'));
        let mut colours =
            starts.filter(|(numbers, _)| numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'));
        colours.any(|(numbers, _)| !matches!(numbers, "" | "0"))
    };
    assert!(coloured(&[]));
    assert!(!coloured(&[("NO_COLOR", "1")]));
    assert!(!coloured(&[("TERM", "dumb")]));
}

#[test]
fn reports_have_colours_on_a_terminal_where_they_are_wanted() {
    for (variables, coloured) in [
        ([].as_slice(), true),
        (&[("NO_COLOR", "1")], false),
        (&[("NO_COLOR", "")], true),
        (&[("TERM", "dumb")], false),
    ] {
        let home = tempfile::tempdir().unwrap();
        let mut terminal = Terminal::start(home.path(), "diagnose --list", variables);
        terminal.expect("known faults");
        let printed = terminal.printed.clone();
        assert_eq!(terminal.end(), 0);
        assert_eq!(printed.lock().unwrap().contains(&0x1b), coloured, "{variables:?}");
    }
}

#[test]
fn run_without_a_prompt_on_a_terminal_hints() {
    let home = tempfile::tempdir().unwrap();
    for args in ["run --raw", "tokenize", "perplexity"] {
        let mut terminal = Terminal::start(home.path(), args, &[]);
        terminal.expect("error: there is no ");
        terminal.expect("hint: give one with ");
        assert_eq!(terminal.end(), 1);
    }
}

#[test]
fn a_full_context_is_said_once_and_the_conversation_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat(&home, "-c 64 -n 8 --temp 0 --ignore-eos -v");
    for _ in 0..6 {
        terminal.press("And then?\r");
        terminal.expect("decode: 8 tokens");
    }
    terminal.press("/set num_ctx 128\r");
    terminal.expect("context: 128 tokens");
    terminal.press("/exit\r");
    let printed = terminal.printed.clone();
    assert_eq!(terminal.end(), 0);
    let printed = plain(&printed.lock().unwrap());
    assert_eq!(printed.matches("the oldest turns are left out").count(), 1, "{printed}");
    assert!(!printed.contains("error: "), "{printed}");
}

#[test]
fn run_without_a_prompt_on_a_terminal_is_a_conversation() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(home.path(), "run -n 4", &[("CANDOR_CONFIG", "")]);
    terminal.expect("/help lists the commands.");
    terminal.press("/exit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn ctrl_c_on_the_keyboard_ends_a_run() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(home.path(), &format!("run --raw -p Once {ENDLESS}"), &[]);
    terminal.expect("using the built-in model");
    let started = Instant::now();
    while terminal.plain().len() < 150 {
        assert!(started.elapsed() < PATIENCE, "{}", terminal.plain());
        thread::sleep(Duration::from_millis(10));
    }
    terminal.press("\x03");
    assert_eq!(terminal.end(), 130);
}

#[test]
fn a_bar_shows_while_a_file_loads() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("tiny.gguf");
    std::fs::write(&path, Tiny::default().bytes()).unwrap();
    let shown = |flags: &str| {
        let args = format!("run {} -p a -n 0 -v {flags}", path.display());
        let mut terminal = Terminal::start(home.path(), &args, &[]);
        terminal.expect("stopped: ");
        let text = terminal.plain();
        assert_eq!(terminal.end(), 0);
        text.contains("loading ")
    };
    assert!(shown("--progress always"));
    assert!(!shown("--progress never"));
    assert!(!shown(""));
}

#[test]
fn thoughts_are_dim_where_colours_are_wanted() {
    use crate::thinking::{QWEN, model, thinker};

    let (home, path) = model(&thinker(), Some(QWEN));
    for (variables, dim) in [(&[("CANDOR_CONFIG", "")][..], true), (&[("CANDOR_CONFIG", ""), ("NO_COLOR", "1")], false)]
    {
        let args = format!("chat {} -t 1", path.display());
        let mut terminal = Terminal::start(home.path(), &args, variables);
        terminal.expect("> ");
        terminal.press("Hi\r");
        terminal.expect("Thinking...");
        terminal.expect("...done thinking.");
        terminal.expect("Hello there!");
        terminal.expect("> ");
        terminal.press("/bye\r");
        let printed = terminal.printed.clone();
        assert_eq!(terminal.end(), 0);
        let text = String::from_utf8_lossy(&printed.lock().unwrap()).into_owned();
        assert_eq!(text.contains("\x1b[2mder."), dim, "{text:?}");
        assert!(!text.contains("\x1b[2mHello"), "{text:?}");
    }
}
