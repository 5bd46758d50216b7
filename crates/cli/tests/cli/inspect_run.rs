//! `candor logits`, `candor verify` and `candor doctor`.

use std::{fs, path::Path};

use candor_testing::Tiny;
use serde_json::Value;

use crate::program::candor;

#[test]
fn logits_are_those_that_greedy_answers_take() {
    let after = |prompt: &str| {
        let text = candor(["logits", "-p", prompt, "--top", "3"]).text();
        text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let answer = candor(["run", "--raw", "-p", "Once upon a time", "-n", "1", "--temp", "0"]).text();
    let lines = after("Once upon a time");
    assert_eq!(lines.len(), 4);
    assert!(lines[0].starts_with("after position "), "{lines:?}");
    assert!(lines[1].ends_with(&format!("'{}'", answer.trim_end_matches('\n'))), "{lines:?} {answer:?}");
    let numbers =
        |line: &str| line.split_whitespace().skip(1).take(2).map(|n| n.parse().unwrap()).collect::<Vec<f64>>();
    let rows: Vec<Vec<f64>> = lines[1..].iter().map(|line| numbers(line)).collect();
    assert!(rows.windows(2).all(|pair| pair[0][0] >= pair[1][0] && pair[0][1] >= pair[1][1]), "{lines:?}");
    // Probabilities are powers of e apart.
    let expected = (rows[1][0] - rows[0][0]).exp() * rows[0][1];
    assert!((rows[1][1] - expected).abs() < 1e-6, "{lines:?}");
}

/// The logits of all tokens, by id.
fn all_logits(args: &[&str]) -> Vec<f64> {
    let fixed =
        ["logits", "--ids", "1, 300, 301, 262, 17, 290, 5", "--top", "0", "-t", "2", "-ctk", "f32", "-ctv", "f32"];
    let text = candor(fixed.iter().chain(args)).text();
    let number = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse::<u32>().ok()?, words.next()?.parse::<f64>().ok()?))
    };
    let mut rows: Vec<(u32, f64)> = text.lines().skip(1).filter_map(number).collect();
    rows.sort_by_key(|(id, _)| *id);
    assert!(rows.len() > 1000 && rows.iter().zip(0..).all(|((id, _), i)| *id == i), "{} rows", rows.len());
    rows.into_iter().map(|(_, logit)| logit).collect()
}

/// The share of squared errors in the squares.
fn nmse(got: &[f64], exact: &[f64]) -> f64 {
    let errors: f64 = got.iter().zip(exact).map(|(got, exact)| (got - exact).powi(2)).sum();
    errors / exact.iter().map(|exact| exact * exact).sum::<f64>()
}

#[test]
fn f32_activations_give_the_logits_of_the_reference() {
    let exact = all_logits(&["--device", "reference"]);
    let rounded = nmse(&all_logits(&["--device", "cpu"]), &exact);
    assert!(rounded > 1e-7, "{rounded:e}");
    for args in [&["--device", "cpu", "--activations", "f32"][..], &["--backend", "hybrid-f32"]] {
        let error = nmse(&all_logits(args), &exact);
        assert!(error < 1e-9, "{args:?}: {error:e}");
    }
    let help = candor(["run", "--help"]).text();
    assert!(help.contains("--activations <TYPE>"), "{help}");
    let wrong = candor(["logits", "--ids", "1", "--activations", "q8"]).outcome();
    assert!(wrong.code == 2 && wrong.stderr.contains("[possible values: auto, f32]"), "{wrong:?}");
}

#[test]
fn logits_of_every_position() {
    let args = ["logits", "--ids", "[1, 300, 301]"];
    let all = candor(args.into_iter().chain(["--all", "--top", "2"])).text();
    let heads: Vec<&str> = all.lines().filter(|line| line.starts_with("after ")).collect();
    assert_eq!(heads.len(), 3);
    assert!(heads[2].starts_with("after position 2, token 301 "), "{all}");
    let last = candor(args.into_iter().chain(["--top", "2"])).text();
    assert!(all.ends_with(&last), "{all}\n{last}");
    let whole = candor(["logits", "--ids", "1", "--top", "0"]).text();
    assert!(whole.lines().count() > 1000);
    assert_eq!(
        candor(["logits", "--ids", ""]).error().lines().next(),
        candor(["logits", "--ids", "[]"]).error().lines().next()
    );
}

#[test]
fn the_built_in_model_verifies() {
    let outcome = candor(["verify", "--quick"]).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let last = outcome.stdout.lines().last().unwrap();
    assert!(last.starts_with("verified: every sample is within its bound"), "{outcome:?}");
    for row in ["operation ", "rms_norm ", "check ", "weights "] {
        assert!(outcome.stdout.lines().any(|line| line.starts_with(row)), "{row}: {outcome:?}");
    }
    let report: Value = serde_json::from_str(&candor(["verify", "--quick", "--json"]).text()).unwrap();
    assert_eq!((&report["verdict"], &report["depth"]), (&"pass".into(), &"quick".into()));
}

#[test]
fn a_trace_takes_the_formulas_place_and_a_run_is_no_proof_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.gguf"), Tiny::default().bytes()).unwrap();
    let run = |args: &[&str]| candor(args).within(folder.path()).outcome();
    let trace = ["trace", "model.gguf", "--ids", "1,270,281,262", "-n", "2", "-o", "run.safetensors"];
    let verify = ["verify", "model.gguf", "--against", "run.safetensors"];
    assert_eq!(run(&trace).code, 0);
    let outcome = run(&verify);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stdout.lines().last().unwrap().contains("compared with itself: not a proof"), "{outcome:?}");
    run(&[&trace[..], &["--backend", "reference"]].concat());
    let outcome = run(&verify);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.contains("\nvalue ") && outcome.stdout.contains("\nresult_output "), "{outcome:?}");
    run(&[&trace[..], &["--plant", "rope-other-pairing"]].concat());
    let outcome = run(&verify);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stdout.lines().last().unwrap().starts_with("FAILED: attn_norm-1: error "), "{outcome:?}");
    assert!(outcome.stdout.lines().any(|line| line.starts_with("inp_embd ")), "{outcome:?}");
    assert!(outcome.stderr.contains("hint: candor diagnose --trace run.safetensors"), "{outcome:?}");
}

#[test]
fn files_are_examined() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = Tiny::default().bytes();
    fs::write(folder.path().join("whole.gguf"), &bytes).unwrap();
    fs::write(folder.path().join("cut.gguf"), &bytes[..bytes.len() / 2]).unwrap();
    let run = |args: &[&str]| candor(args).within(folder.path()).outcome();
    let whole = run(&["doctor", "whole.gguf"]);
    assert_eq!(whole.code, 0, "{whole:?}");
    assert!(whole.stdout.starts_with("whole.gguf: ") && whole.stdout.contains("SHA-256 "), "{whole:?}");
    let cut = run(&["doctor", "cut.gguf"]);
    assert_eq!(cut.code, 1, "{cut:?}");
    assert!(cut.stdout.contains("wrong    file: ") && cut.stdout.contains("bytes are missing"), "{cut:?}");
    let report: Value = serde_json::from_str(&run(&["doctor", "cut.gguf", "--json"]).stdout).unwrap();
    assert_eq!(report["findings"][0]["severity"], "error");
    // No verdict at all.
    for args in [["doctor", "hole.gguf"], ["verify", "cut.gguf"], ["verify", "hole.gguf"]] {
        let outcome = run(&args);
        assert!(outcome.code == 2 && outcome.stderr.starts_with("error: "), "{args:?}: {outcome:?}");
    }
    let outcome = run(&["doctor"]);
    assert!(outcome.code == 2 && outcome.stderr.contains("\nhint: name one: candor doctor MODEL.gguf"), "{outcome:?}");
}

#[test]
fn a_text_names_a_fault_of_conversion() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/goldens/likelihood");
    let folder = tempfile::tempdir().unwrap();
    for name in ["llama.gguf", "text.txt"] {
        fs::copy(goldens.join(name), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("short.txt"), "Once upon a time").unwrap();
    let run = |args: &[&str]| candor(args).within(folder.path()).outcome();
    let doctor = |model: &str, more: &[&str]| {
        run(&[&["doctor", model, "--text", "text.txt", "--device", "cpu", "--chunks", "4"], more].concat())
    };
    let right = doctor("llama.gguf", &[]);
    assert!(right.code == 0 && right.stdout.contains("repairs of known faults makes it clearly likelier"), "{right:?}");
    run(&["gguf", "set", "llama.gguf", "wrong.gguf", "llama.rope.freq_base=10000"]);
    let wrong = doctor("wrong.gguf", &[]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(
        wrong.stdout.contains("wrong    llama.rope.freq_base: ") && wrong.stdout.contains("(rope-base)"),
        "{wrong:?}"
    );
    assert!(wrong.stdout.contains("candor gguf set MODEL NEW llama.rope.freq_base=f32:500000"), "{wrong:?}");
    let report: Value = serde_json::from_str(&doctor("wrong.gguf", &["--json"]).stdout).unwrap();
    assert_eq!(report["likelihood"]["faults"][0][0]["name"], "rope-base", "{report}");
    let short = run(&["doctor", "llama.gguf", "--text", "short.txt", "--device", "cpu"]);
    assert!(short.code == 2 && short.stderr.contains("\nhint: -c N makes the windows shorter"), "{short:?}");
}
