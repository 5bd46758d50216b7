//! `candor trace` and `candor diagnose`: what is planted is found, what is healthy is not accused, dumps that do not fit
//! are refused with a reason.

use std::{fs, path::Path};

use candor_testing::Tiny;
use serde_json::Value;

use crate::program::{Outcome, candor};

const PROMPT: &str = "a b cd ef";

/// A folder with a tiny model.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.gguf"), Tiny::default().bytes()).unwrap();
    folder
}

/// Runs a command on the folder's model, words between spaces.
fn run(folder: &Path, words: &str) -> Outcome {
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.insert(1, "model.gguf");
    candor(words).within(folder).outcome()
}

/// Writes `run.safetensors`.
fn traced(folder: &Path, flags: &str) {
    let args = ["trace", "model.gguf", "-p", PROMPT, "-n", "3", "-o", "run.safetensors"];
    let outcome = candor(args.into_iter().chain(flags.split_whitespace())).within(folder).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

/// The one line and the hint of a refused dump.
fn refused(outcome: &Outcome) -> String {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{outcome:?}");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(lines.len() <= 2 && lines[0].starts_with("error: "), "{outcome:?}");
    outcome.stderr.clone()
}

/// The header of a safetensors file, and where its data begins.
fn header(bytes: &[u8]) -> (Value, usize) {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (serde_json::from_slice(&bytes[8..8 + length]).unwrap(), 8 + length)
}

/// Changes header and data of `run.safetensors`.
fn changed(folder: &Path, change: impl FnOnce(&mut Value, &mut Vec<u8>)) {
    let path = folder.join("run.safetensors");
    let bytes = fs::read(&path).unwrap();
    let (mut header, start) = header(&bytes);
    let mut data = bytes[start..].to_vec();
    change(&mut header, &mut data);
    let header = header.to_string();
    fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()).unwrap();
}

#[test]
fn healthy_traces_are_healthy() {
    let folder = folder();
    for flags in ["", "--backend reference", "--names l_out,result_* --layers 0-1", "--last-only", "-ctk f32 -ub 2"] {
        traced(folder.path(), flags);
        let outcome = run(folder.path(), "diagnose --trace run.safetensors");
        assert_eq!(outcome.code, 0, "{flags}: {outcome:?}");
        assert!(outcome.stdout.starts_with("healthy: every value follows from its inputs\n"), "{flags}: {outcome:?}");
    }
}

#[test]
fn planted_faults_are_named() {
    let folder = folder();
    for (fault, headline, place) in [
        ("rope-other-pairing", "first wrong operation: Qcur-0 (rope)", "Qcur, Kcur in layers 0-1"),
        ("attention-scale-missing", "first wrong operation: kqv_out-0 (kqv)", "kqv_out in layers 0-1"),
        ("norm-weight-plus-one", "first wrong operation: attn_norm-0 (rms_norm)", "attn_norm, ffn_norm in layers 0-1"),
        ("kv-written-one-late", "first wrong operation: kqv_out-0 (kqv)", "kqv_out in layers 0-1"),
        ("rope-base=1000", "first wrong operation: Qcur-0 (rope)", "Qcur, Kcur in layers 0-1"),
    ] {
        traced(folder.path(), &format!("--plant {fault}"));
        let outcome = run(folder.path(), "diagnose --trace run.safetensors");
        assert_eq!(outcome.code, 1, "{fault}: {outcome:?}");
        let name = fault.split('=').next().unwrap();
        for expected in [headline, &format!("\n{name} ("), place, "right before it: inp_embd"] {
            assert!(outcome.stdout.contains(expected), "{fault}: {expected}: {outcome:?}");
        }
        assert!(!outcome.stdout.contains('\u{1b}'), "colours are for terminals: {outcome:?}");
    }
}

#[test]
fn values_are_judged_without_a_search_for_faults() {
    let folder = folder();
    traced(folder.path(), "--plant rope-other-pairing");
    let outcome = run(folder.path(), "diagnose --trace run.safetensors --no-faults");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stdout.starts_with("first wrong operation: Qcur-0 (rope)"), "{outcome:?}");
    assert!(outcome.stdout.contains("\nwrong: Qcur, Kcur in layers 0-1"), "{outcome:?}");
    assert!(!outcome.stdout.contains("confidence"), "{outcome:?}");
    assert!(!outcome.stdout.contains("a dump of Qcur.mul_mat-0 would"), "it is there: {outcome:?}");
    traced(folder.path(), "");
    assert_eq!(run(folder.path(), "diagnose --trace run.safetensors --no-faults").code, 0);
}

#[test]
fn two_faults_are_both_named_and_harmless_ones_do_no_harm() {
    let folder = folder();
    traced(folder.path(), "--plant norm-weight-plus-one --plant attention-scale-missing");
    let outcome = run(folder.path(), "diagnose --trace run.safetensors");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(
        outcome.stdout.contains("\nnorm-weight-plus-one (") && outcome.stdout.contains("\nattention-scale-missing (")
    );
    traced(folder.path(), "--plant rope-position-offset");
    let outcome = run(folder.path(), "diagnose --trace run.safetensors");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.starts_with("harmless: "), "{outcome:?}");
    assert!(outcome.stdout.contains("confidence, harmless)"), "{outcome:?}");
}

#[test]
fn reports_are_json() {
    let folder = folder();
    traced(folder.path(), "");
    fs::copy(folder.path().join("run.safetensors"), folder.path().join("right.safetensors")).unwrap();
    traced(folder.path(), "--plant rope-other-pairing");
    let outcome = run(folder.path(), "diagnose --trace run.safetensors --ref right.safetensors --json");
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((outcome.code, &report["outcome"], &report["first_wrong"]), (1, &"faulty".into(), &"Qcur-0".into()));
    assert_eq!(report["findings"][0]["fault"], "rope-other-pairing");
    assert_eq!(report["reference"]["inp_embd"], 0.0);
    assert!(report["reference"]["Qcur-0"].as_f64().unwrap() > 0.1, "{report}");
    let plain = run(folder.path(), "diagnose --trace run.safetensors --json").stdout;
    assert!(serde_json::from_str::<Value>(&plain).unwrap().get("reference").is_none());
    // The same as a table.
    let table = run(folder.path(), "diagnose --trace run.safetensors --ref right.safetensors --all").stdout;
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{table}"));
    let cells: Vec<&str> = row("Qcur-0 ").split_whitespace().collect();
    assert_eq!((cells[1], cells[2], cells.len()), ("rope", "wrong", 8));
    assert!(row("value ").ends_with("cosine  reference"));
    assert!(row("inp_embd ").contains(" right "));
}

#[test]
fn the_catalogue_is_listed() {
    let text = candor(["diagnose", "--list"]).text();
    assert!(text.contains("\nrope-other-pairing\n  RoPE pairs the wrong elements"), "{text}");
    let faults: Vec<Value> = serde_json::from_str(&candor(["diagnose", "--list", "--json"]).text()).unwrap();
    assert!(faults.len() >= 80 && text.ends_with(&format!("\n{} known faults\n", faults.len())), "{}", faults.len());
    assert!(!text.contains("{}"), "{text}");
    let folder = folder();
    let text = run(folder.path(), "diagnose --list").stdout;
    assert!(text.contains("\nrope-other-pairing\n  changes Kcur, Qcur\n"), "{text}");
    assert!(text.contains("rope-position-zero"), "{text}");
    let rows: Vec<Value> = serde_json::from_str(&run(folder.path(), "diagnose --list --json").stdout).unwrap();
    assert_eq!(rows.len(), faults.len());
    let row = rows.iter().find(|row| row["fault"] == "expert-ids-shifted").unwrap();
    assert!(row["because"].is_string() && row["values"].as_array().unwrap().is_empty(), "{row}");
}

#[test]
fn what_a_dump_does_not_say_can_be_given() {
    let folder = folder();
    traced(folder.path(), "");
    let ids = candor(["tokenize", "model.gguf", "--ids", "-p", PROMPT]).within(folder.path()).text();
    let report = run(folder.path(), "diagnose --trace run.safetensors --json").stdout;
    let decoded: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        decoded["tokens"][0].as_u64().unwrap(),
        serde_json::from_str::<Vec<u32>>(&ids).unwrap().len() as u64 + 3
    );
    let bytes = fs::read(folder.path().join("run.safetensors")).unwrap();
    let tokens: Vec<u32> = serde_json::from_str(header(&bytes).0["__metadata__"]["tokens"].as_str().unwrap()).unwrap();

    // The same values as another program would have written them.
    changed(folder.path(), |header, _| header["__metadata__"] = serde_json::json!({}));
    let error = refused(&run(folder.path(), "diagnose --trace run.safetensors"));
    assert!(error.contains("does not say which tokens") && error.contains("hint: --ids 1,2,3 or -p PROMPT"), "{error}");
    let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let given = format!("--ids {} --prompt-tokens {}", list(&tokens), tokens.len() - 3);
    let outcome = run(folder.path(), &format!("diagnose --trace run.safetensors {given}"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let error = refused(&run(folder.path(), &format!("diagnose --trace run.safetensors --ids {}", list(&tokens[..5]))));
    assert!(error.contains("the trace is of another prompt"), "{error}");

    // Other tokens, as many.
    let mut others = tokens.clone();
    others[2] += 1;
    let error = refused(&run(folder.path(), &format!("diagnose --trace run.safetensors --ids {}", list(&others))));
    assert!(error.contains("its embeddings are those of other tokens"), "{error}");
    assert!(error.ends_with(&format!("hint: they are those of --ids {}\n", list(&tokens))), "{error}");

    // Names of nobody's.
    changed(folder.path(), |header, _| {
        let renamed = header.as_object().unwrap().clone().into_iter();
        *header = renamed.map(|(name, value)| (name.replace("l_out-", "zyx_"), value)).collect();
    });
    let outcome = run(folder.path(), &format!("diagnose --trace run.safetensors {given}"));
    assert!(outcome.stderr.starts_with("note: run.safetensors: unknown names: zyx_0, zyx_1 (--map"), "{outcome:?}");
    fs::write(folder.path().join("map"), "zyx_{l} = l_out-{l}\n").unwrap();
    let outcome = run(folder.path(), &format!("diagnose --trace run.safetensors --map map {given}"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
}

#[test]
fn dumps_that_do_not_fit_are_refused() {
    let folder = folder();
    traced(folder.path(), "");
    let error = refused(&run(folder.path(), "diagnose --trace run.safetensors -p x"));
    assert!(error.contains("the trace is of another prompt"), "{error}");
    let error = refused(&run(folder.path(), "diagnose --trace run.safetensors --prompt-tokens 99"));
    assert!(error.contains("--prompt-tokens: expected 1 to "), "{error}");
    let error = refused(&run(folder.path(), "diagnose --trace rum.safetensors"));
    assert!(error.ends_with("hint: is run.safetensors meant?\n"), "{error}");

    // Another model: by the hash, and by the width of its values.
    fs::write(folder.path().join("model.gguf"), Tiny { dim: 64, ..Tiny::default() }.bytes()).unwrap();
    let error = refused(&run(folder.path(), "diagnose --trace run.safetensors"));
    assert!(error.contains("SHA-256") && error.contains("the trace is of another model\nhint: "), "{error}");
    let error = refused(&run(folder.path(), "diagnose --trace run.safetensors --ignore-hash"));
    assert!(error.contains("expected rows of 64, got 32: the trace is of another model"), "{error}");

    let bytes = fs::read(folder.path().join("run.safetensors")).unwrap();
    for broken in [&bytes[..0], &bytes[..100], &bytes[..bytes.len() - 7], b"hello", b"\x93NUMPY", b"PK\x03\x04"] {
        fs::write(folder.path().join("broken"), broken).unwrap();
        let error = refused(&run(folder.path(), "diagnose --trace broken"));
        assert!(error.starts_with("error: broken: "), "{error}");
    }
    fs::create_dir(folder.path().join("empty")).unwrap();
    let error = refused(&run(folder.path(), "diagnose --trace empty"));
    assert!(error.starts_with("error: empty: no .safetensors"), "{error}");
}

#[test]
fn values_that_are_no_numbers_are_found() {
    let folder = folder();
    traced(folder.path(), "");
    changed(folder.path(), |_, data| {
        let (elements, _) = data.as_chunks_mut::<4>();
        elements.fill(f32::NAN.to_le_bytes());
    });
    let outcome = run(folder.path(), "diagnose --trace run.safetensors");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stdout.starts_with("first wrong operation: inp_embd (get_rows)\n"), "{outcome:?}");
    assert!(outcome.stdout.contains("elements are NaN or infinite"), "{outcome:?}");
    assert!(outcome.stdout.contains("right before it: nothing in this trace"), "{outcome:?}");
}

#[test]
fn llama_cpps_text_is_diagnosed() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let model = fixtures.join("arch/llama/model.gguf");
    let dumps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/dumps");
    for name in ["eval_callback_new.txt", "eval_callback_old.txt", "truth.safetensors"] {
        let mut program = candor(["diagnose", "--ids", "1,17,42,5,9,265,492", "--prompt-tokens", "5", "--trace"]);
        program.command.arg(dumps.join(name)).arg(&model);
        let outcome = program.outcome();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{name}: {outcome:?}");
        assert!(outcome.stdout.contains("\ntrace of llama.cpp"), "{name}: {outcome:?}");
    }
    // Another prompt, as long: the text has only the corners of the embeddings.
    for ids in ["1,17,43,5,9,265,492", "1,17,42,5,9,265,2"] {
        let mut program = candor(["diagnose", "--ids", ids, "--prompt-tokens", "5", "--trace"]);
        program.command.arg(dumps.join("eval_callback_new.txt")).arg(&model);
        let error = refused(&program.outcome());
        assert!(error.ends_with("hint: they are those of --ids 1,17,42,5,9,265,492\n"), "{error}");
    }
}

#[test]
fn wrong_flags_of_trace() {
    let folder = folder();
    for (flags, expected) in [
        ("--plant rope-other-pairng", "rope-other-pairng is no known fault\nhint: is rope-other-pairing meant?"),
        ("--plant zzzzzz", "zzzzzz is no known fault\nhint: candor diagnose --list prints the known faults"),
        ("--plant rope-missing=3", "rope-missing: expected no number, got 3"),
        ("--plant rope-base=3", "rope-base: expected 10000, "),
        ("--plant rope-factors-ignored", "rope-factors-ignored: the model has nothing that it could change"),
        ("--names Qcurr", "Qcurr: no value of this model has such a name\nhint: is Qcur meant?"),
        ("--layers 0-2", "layer 2: expected at most 1, the model's last"),
        ("--ids 9999", "token 9999 is outside of the vocabulary of "),
        ("-o no/run", "no/run: "),
    ] {
        let args = ["trace", "model.gguf", "--ids", "1,5", "-o", "run"];
        let error = candor(args.into_iter().chain(flags.split(' '))).within(folder.path()).error();
        assert!(error.starts_with(&format!("error: {expected}")), "{flags}: {error}");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["model.gguf"], "{flags}");
    }
    for (words, expected) in [
        ("trace --ids 1", "-o FILE says where to write"),
        ("trace --ids 1 --layers 3-1 -o run", "expected layers such as 0-3,7"),
        ("trace --ids a -o run", "expected token ids"),
        ("diagnose", "--trace DUMP or --said FILE says what to diagnose"),
    ] {
        let outcome = run(folder.path(), words);
        assert!(outcome.code == 2 && outcome.stderr.contains(expected), "{words}: {outcome:?}");
    }
}

#[test]
fn traces_say_where_they_come_from() {
    let folder = folder();
    traced(folder.path(), "--last-only --names result_output,l_out-1");
    let bytes = fs::read(folder.path().join("run.safetensors")).unwrap();
    let (header, _) = header(&bytes);
    let metadata = &header["__metadata__"];
    let tokens: Vec<u32> = serde_json::from_str(metadata["tokens"].as_str().unwrap()).unwrap();
    assert_eq!(metadata["engine"], concat!("candor ", env!("CARGO_PKG_VERSION")));
    assert!(metadata["backend"].as_str().unwrap().starts_with("cpu, "), "{metadata}");
    assert_eq!(metadata["prompt"], PROMPT);
    assert_eq!(metadata["prompt_tokens"], (tokens.len() - 3).to_string());
    let model = candor(["doctor", "model.gguf", "--json"]).within(folder.path()).text();
    let model: Value = serde_json::from_str(&model).unwrap();
    assert_eq!(metadata["model_sha256"], model["files"][0]["sha256"]);
    let names: Vec<&str> = header.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["__metadata__", "l_out-1", "result_output"]);
    assert_eq!(header["l_out-1"]["shape"], serde_json::json!([4, 32]));
    let table = candor(["trace", "model.gguf", "--ids", "1,5", "--stats"]).within(folder.path()).text();
    assert!(table.starts_with("value ") && table.contains("\nKcur.mul_mat-1 "), "{table}");
}

#[test]
fn pages_are_written_beside_the_report() {
    let folder = folder();
    traced(folder.path(), "--html run.html");
    let page = fs::read_to_string(folder.path().join("run.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{}", &page[..60]);
    assert!(page.contains("l_out"));
    traced(folder.path(), "--plant rope-other-pairing");
    let outcome = run(folder.path(), "diagnose --trace run.safetensors --html found.html");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(fs::read_to_string(folder.path().join("found.html")).unwrap().contains("rope-other-pairing"));
    // A page needs the trace beside it.
    let outcome = run(folder.path(), "trace -p a --html run.html --stats");
    assert_eq!(outcome.code, 2, "{outcome:?}");
}

#[test]
fn what_is_not_arithmetic_is_checked_too() {
    let folder = folder();
    let diagnose = |said: &str| {
        fs::write(folder.path().join("said.json"), said).unwrap();
        run(folder.path(), "diagnose --said said.json")
    };
    // The tiny vocabulary: BOS is 1; with a space before it "a" is 286, "b" 287.
    let ids = candor(["tokenize", "model.gguf", "-p", "a b", "--ids"]).within(folder.path()).outcome().stdout;
    let ids: Vec<u32> = serde_json::from_str(ids.trim()).unwrap();
    let said = |ids: &[u32]| format!("{{\"prompt\": \"a b\", \"prompt_ids\": {ids:?}}}");
    let healthy = diagnose(&said(&ids));
    assert_eq!(healthy.code, 0, "{healthy:?}");
    let doubled: Vec<u32> = [ids[0]].iter().chain(&ids).copied().collect();
    let outcome = diagnose(&said(&doubled));
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stdout.contains("double-bos"), "{outcome:?}");
    // The same of a trace that names its tokens: the prompt is given beside it.
    let list = doubled.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let args = ["trace", "model.gguf", "--ids", &list, "-o", "run.safetensors"];
    assert_eq!(candor(args).within(folder.path()).outcome().code, 0);
    let args = ["diagnose", "model.gguf", "--trace", "run.safetensors", "--said", "said.json"];
    let outcome = candor(args).within(folder.path()).outcome();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stdout.starts_with("healthy") && outcome.stdout.contains("double-bos"), "{outcome:?}");
    let misspelled = diagnose("{\"promt\": \"a\"}");
    assert_eq!(misspelled.code, 2, "{misspelled:?}");
    assert!(misspelled.stderr.contains("promt"), "{misspelled:?}");
}
