//! Ctrl-C and closed pipes.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::program::{candor, story};

const ENDLESS: &[&str] = &["--ignore-eos", "--context-shift", "--temp", "0"];

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn ctrl_c_ends_an_answer_with_130_and_whole_lines() {
    let mut program = story(ENDLESS);
    let mut child = program.spawn();
    let mut stdout = child.stdout.take().unwrap();
    let mut text = vec![0; 16];
    stdout.read_exact(&mut text).unwrap();
    let sent = Instant::now();
    interrupt(&child);
    stdout.read_to_end(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(sent.elapsed() < Duration::from_secs(2), "{:?}", sent.elapsed());
    let text = String::from_utf8(text).expect("no half characters");
    assert!(text.ends_with('\n'), "{text:?}");
}

#[test]
fn ctrl_c_before_an_answer_ends_the_program() {
    // It waits for a prompt that never comes.
    let mut program = candor(["run"]);
    program.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.command.spawn().unwrap();
    // Waiting for the end would close it, and with it the prompt would be empty.
    let stdin = child.stdin.take();
    // Long enough for the program to begin to catch signals on a busy machine.
    std::thread::sleep(Duration::from_secs(1));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
}

#[test]
fn ctrl_c_in_a_conversation_stops_the_answer_and_not_the_program() {
    let mut program = candor(["chat"].iter().chain(ENDLESS));
    program.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdin.write_all(b"Hello\n").unwrap();
    let mut first = [0; 16];
    stdout.read_exact(&mut first).unwrap();
    let rest = std::thread::spawn(move || {
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        rest
    });
    interrupt(&child);
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(stderr.by_ref().any(|line| line == "(stopped)"));
    stdin.write_all(b"/set predict 2\n/stats\nHello again\n").unwrap();
    drop(stdin);
    assert!(stderr.by_ref().any(|line| line.starts_with("context: ")));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    rest.join().unwrap();
}

#[test]
fn ctrl_c_ends_a_benchmark_with_130_and_whole_output() {
    // The first test is short, the second takes its time.
    let tests = ["-n", "1", "-pg", "1,50000", "--no-warmup", "-r", "1", "-t", "1"];
    for format in ["json", "md", "csv"] {
        let mut program = candor(["bench", "-o", format, "-p", "0"].iter().chain(&tests));
        let mut child = program.spawn();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.contains("tg1") {
            assert!(stdout.read_line(&mut text).unwrap() > 0, "{text}");
        }
        std::thread::sleep(Duration::from_millis(100));
        let sent = Instant::now();
        interrupt(&child);
        stdout.read_to_string(&mut text).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{format}");
        assert!(sent.elapsed() < Duration::from_secs(2), "{:?}", sent.elapsed());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.ends_with("stopped: 1 of 2 tests were measured\n"), "{stderr}");
        match format {
            "json" => {
                let array: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a whole array");
                assert_eq!(array.len(), 1);
            }
            "md" => assert!(text.contains("\nbuild: "), "{text}"),
            _ => assert_eq!(text.lines().count(), 2, "{text}"),
        }
    }
}

#[test]
fn a_closed_stdout_ends_silently() {
    for args in [ENDLESS, &["-n", "60", "--ignore-eos"]] {
        let mut program = story(args);
        let mut child = program.spawn();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(0 | 141)), "{:?} {stderr}", output.status);
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    for args in [
        ["show"].as_slice(),
        &["show", "--json"],
        &["tokenize", "-p", "x"],
        &["man"],
        &["completions", "zsh"],
        &["config"],
        &["--help"],
    ] {
        let mut program = candor(args);
        let mut child = program.spawn();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 141)), "{args:?}: {output:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
    }
}

#[test]
fn a_closed_stderr_is_no_fault() {
    let mut program = story(&["-n", "3", "--ignore-eos", "-v"]);
    let mut child = program.spawn();
    drop(child.stderr.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stdout.is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let bench = ["bench", "-p", "2", "-n", "0", "-r", "1", "--no-warmup", "-t", "1"];
    for (args, code) in [
        (["--help"].as_slice(), 1),
        (&["-h"], 1),
        (&["--version"], 1),
        (&["run", "--help"], 1),
        (&["verify", "-h"], 1),
        (&["show"], 1),
        (&["show", "--json"], 1),
        (&["tokenize", "-p", "x"], 1),
        (&["config"], 1),
        (&["completions", "bash"], 1),
        (&["man", "run"], 1),
        (&["devices", "--json"], 1),
        (&["logits", "-p", "x"], 1),
        (&["trace", "-p", "x", "--stats"], 1),
        (&["run", "-p", "x", "-n", "3", "--ignore-eos"], 1),
        (&bench, 1),
        (&[&bench[..], &["-o", "json"]].concat(), 1),
        (&[&bench[..], &["-o", "csv"]].concat(), 1),
        // A verdict that nobody reads does not count.
        (&["diagnose", "--list", "--json"], 2),
        (&["diagnose", "--list"], 2),
    ] {
        let (stderr, got) = candor(args).on_full_disk();
        let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        // What a GPU's driver says of its own is not ours.
        let ours: Vec<&str> = errors.into_iter().filter(|line| !line.contains("XDG_RUNTIME_DIR")).collect();
        assert_eq!(ours, ["error: cannot write the output: no space left on device"], "{args:?}: {stderr}");
        assert_eq!(got, code, "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_written_whole_is_one_error_and_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [model, text] = ["model.gguf", "text"].map(place);
    std::fs::write(&model, candor_testing::Tiny::default().bytes()).unwrap();
    std::fs::write(&text, "The little cat sat in the sun and was happy. ".repeat(30)).unwrap();
    let windows = ["-f", &text, "-c", "64", "--chunks", "2", "-t", "1"];
    let out = place("out");
    for (args, name) in [
        (&["quantize", &model, &out, "Q8_0"][..], "out"),
        (&["gguf", "set", &model, &out, "general.name=str:a"], "out"),
        (&["gguf", "merge", &model, &out], "out"),
        (&["gguf", "split", &model, &out, "--split-max-tensors", "9"], "out-00001-of-"),
        (&[&["imatrix", "-o", &out][..], &windows].concat(), "out"),
        (&[&["perplexity", "--kl-divergence-base", &out][..], &windows].concat(), "out"),
        (&["trace", "-p", "Once upon a time", "-o", &out], "out"),
    ] {
        let outcome = candor(args).where_files_end_at(4).outcome();
        let errors: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        let [error] = errors[..] else { panic!("{args:?}: {outcome:?}") };
        assert!(outcome.code == 1 && error.contains(name), "{args:?}: {outcome:?}");
        assert!(error.to_lowercase().contains("file too large"), "{args:?}: {error}");
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "{args:?}: the model and the text alone");
    }
}
