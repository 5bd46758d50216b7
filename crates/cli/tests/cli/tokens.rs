//! `candor tokenize` and `candor perplexity`.

use std::{fs, path::Path};

use candor_gguf::Format;
use candor_testing::Tiny;

use crate::program::{Outcome, candor};

#[test]
fn ids_and_pieces_come_one_per_line() {
    let text = candor(["tokenize", "-p", "Hello, you"]).text();
    let mut pieces = String::new();
    for (number, line) in text.lines().enumerate() {
        let (id, piece) = line.trim_start().split_once("  ").expect("two columns");
        let _: u32 = id.parse().expect("an id");
        let piece = piece.strip_prefix('\'').and_then(|piece| piece.strip_suffix('\'')).expect("quotes");
        if number == 0 {
            assert_eq!(piece, "<s>");
        } else {
            pieces.push_str(piece);
        }
    }
    assert_eq!(pieces.trim_start(), "Hello, you");
}

#[test]
fn the_flags_of_tokenize() {
    let ids = |args: &[&str]| {
        let text = candor(["tokenize", "--ids"].iter().chain(args)).text();
        let list = text.strip_prefix('[').and_then(|text| text.strip_suffix("]\n")).expect("a list").to_owned();
        list.split(", ").filter(|id| !id.is_empty()).map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
    };
    let with = ids(&["-p", "a</s>b"]);
    let without = ids(&["-p", "a</s>b", "--no-bos"]);
    assert_eq!(with[1..], without);
    assert!(with.contains(&2), "{with:?}");
    let plain = ids(&["-p", "a</s>b", "--no-parse-special"]);
    assert!(!plain.contains(&2) && plain.len() > with.len(), "{plain:?}");
    assert_eq!(ids(&["-p", "", "--no-bos"]), [0; 0]);

    // From stdin and from a file, every byte of it.
    let piped = candor(["tokenize", "--ids"]).stdin("a b\n").text();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(&path, "a b\n").unwrap();
    assert_eq!(candor(["tokenize", "--ids", "-f", path.to_str().unwrap()]).text(), piped);
    assert_eq!(candor(["tokenize", "--ids", "--file", "-"]).stdin("a b\n").text(), piped);
    assert_ne!(candor(["tokenize", "--ids", "-p", "a b"]).text(), piped);
    let error = candor(["tokenize"]).stdin(b"\xff").error();
    assert_eq!(error, "error: stdin: expected UTF-8, got byte 0xff at offset 0");
}

#[test]
fn the_ids_are_llama_cpps() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let model = fixtures.join("models/stories260K-f32.gguf");
    let expected = candor_testing::json(&fixtures.join("expected/llamacpp-greedy.stories260K-f32.json"));
    let ids = candor(["tokenize", model.to_str().unwrap(), "--ids", "-p", "Once upon a time"]).text();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ids).unwrap(), expected["prompt_ids"]);
}

#[test]
fn perplexity_is_llama_cpps() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let model = fixtures.join("models/stories260K-f32.gguf");
    let text = fixtures.join("text/cs336-tinystories_sample.txt");
    let args = ["perplexity", model.to_str().unwrap(), "-f", text.to_str().unwrap(), "-c", "256"];
    let outcome = candor(args).outcome();
    let last = outcome.stdout.strip_prefix("Final estimate: PPL = ").unwrap_or_else(|| panic!("{outcome:?}"));
    let value: f64 = last.split(" +/- ").next().unwrap().parse().unwrap();
    assert!((value / 6.8984 - 1.0).abs() < 0.005, "{outcome:?}");
    assert!(outcome.stderr.lines().last().unwrap().starts_with('['), "{outcome:?}");
}

#[test]
fn perplexity_reads_files_and_stdin_and_its_window_can_be_chosen() {
    let text = "The little cat sat in the sun and was happy. ".repeat(40);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(&path, &text).unwrap();
    let file = ["-f", path.to_str().unwrap()];
    let run = |args: &[&str]| candor(["perplexity", "-c", "64"].iter().chain(args)).stdin(&text).outcome();
    let from_file = run(&file);
    assert!(from_file.stdout.starts_with("Final estimate: PPL = "), "{from_file:?}");
    assert_eq!(from_file.stdout.lines().count(), 1);
    assert_eq!(run(&["-f", "-"]).stdout, from_file.stdout);
    assert_eq!(run(&[]).stdout, from_file.stdout);
    assert_ne!(candor(["perplexity", "-c", "32"].iter().chain(&file)).text(), from_file.stdout);
    let windows =
        |outcome: &crate::program::Outcome| outcome.stderr.lines().filter(|line| line.starts_with('[')).count();
    assert!(windows(&from_file) > 2, "{from_file:?}");
    let verbose = run(&["-v"]);
    for start in ["device: cpu", "text: ", "load: ", "prompt: "] {
        assert!(verbose.stderr.lines().any(|line| line.starts_with(start)), "{start}: {verbose:?}");
    }
    assert!(
        candor(["perplexity", "--device", "reference", "-c", "32", "-v"].iter().chain(&file))
            .outcome()
            .stderr
            .contains("device: reference")
    );
    let error = candor(["perplexity", "-c", "512"]).stdin("too short").error();
    assert!(
        error.starts_with("error: tokens in the text: ") && error.ends_with("-c N makes the windows shorter"),
        "{error}"
    );
}

/// A quantized model beside its base, and beside what was kept of the base.
#[test]
fn divergence_is_measured_against_a_model_or_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let [base, quantized, text, kept] = ["base.gguf", "q8.gguf", "text", "kept"].map(|name| folder.path().join(name));
    let tiny = Tiny { ffn: 64, ..Tiny::default() };
    tiny.writer_with(&[], Format::F32).write_file(&base).unwrap();
    tiny.writer_with(&[], Format::Q8_0).write_file(&quantized).unwrap();
    fs::write(&text, "the cat sat on a mat and saw a dog. ".repeat(30)).unwrap();
    let run = |model: &Path, more: &[&str]| {
        let model = ["perplexity", model.to_str().unwrap(), "-ctk", "f32", "-ctv", "f32"];
        candor(model.iter().chain(more)).outcome()
    };
    let [base_name, kept_name, text] = [&base, &kept, &text].map(|path| path.to_str().unwrap());
    let read = ["-f", text, "-c", "32"];
    let against = |name| ["--kl-divergence", "--kl-divergence-base", name];
    let beside = run(&quantized, &[&read[..], &against(base_name)].concat());
    assert_eq!(beside.code, 0, "{beside:?}");
    assert!(beside.stderr.lines().filter(|line| line.starts_with('[')).count() > 5, "{beside:?}");
    let mean = |outcome: &Outcome| -> f64 {
        let line = outcome.stdout.lines().find_map(|line| line.strip_prefix("Mean    KLD:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let written = run(&base, &[&read[..], &["--save-all-logits", kept_name]].concat());
    assert!(written.stdout.starts_with("Final estimate: PPL = "), "{written:?}");
    let by_file = run(&quantized, &against(kept_name));
    assert!(mean(&beside) > 1e-5 && (mean(&beside) - mean(&by_file)).abs() < 2e-6, "{beside:?} {by_file:?}");
    let few = run(&quantized, &[&read[..], &against(base_name), &["--chunks", "3", "--json"]].concat());
    let figures: serde_json::Value = serde_json::from_str(&few.stdout).unwrap();
    assert_eq!((&figures["tokens"], figures["places"].as_array().unwrap().len()), (&45.into(), 15), "{figures}");
    for (flags, expected) in [
        (&[&against(kept_name)[..], &["-f", text]].concat()[..], "cannot be used together"),
        (&["--kl-divergence"], "--kl-divergence-base"),
        // Without the flag the base would be what is written.
        (&[&read[..], &["--kl-divergence-base", base_name]].concat(), "hint: --kl-divergence measures how far"),
        (&against("/nowhere"), "/nowhere: "),
        (&[&read[..], &against(text)].concat(), "expected"),
    ] {
        let refused = run(&quantized, flags);
        assert!(refused.code != 0 && refused.stderr.contains(expected), "{refused:?}");
    }
    assert!(fs::read(&base).unwrap().starts_with(b"GGUF"), "the base is as it was");
}
