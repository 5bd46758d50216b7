//! What a text says about conversions: files that llama.cpp's converter made wrongly, rightly, and of weights that never were trained.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use candor::{Device, Format, Gguf, LoadOptions, SessionOptions};
use candor_gguf::{Value, Writer};
use candor_inspect::doctor::{Likelihood, Severity, TextOptions, likelihood};
use candor_testing::{Tiny, fixtures};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Where a row of a faulty tensor comes from: a tensor of the right file, its first row, how many.
type Run = (String, usize, usize);

/// A tensor that a faulty file has otherwise.
#[derive(Deserialize)]
struct Changed {
    format: String,
    shape: Vec<u64>,
    rows: Option<Vec<Run>>,
    bytes: Option<(usize, usize)>,
}

/// What a fault costs that is never named, and what it has to cost to be named for certain, in nats per token: what the docs promise.
const LEAST: f64 = 0.02;
const SURE: f64 = 0.05;

/// What `tools/goldens/mutants/convert.py` says of a faulty file.
#[derive(Deserialize)]
struct Golden {
    fault: String,
    repair: String,
    set: BTreeMap<String, (String, serde_json::Value)>,
    unset: Vec<String>,
    tensors: BTreeMap<String, Changed>,
    left: Vec<String>,
    sha256: String,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/likelihood")
}

fn text() -> String {
    fs::read_to_string(folder().join("text.txt")).unwrap()
}

fn options(window: usize, windows: usize) -> TextOptions {
    let load = LoadOptions::default().device(Device::Cpu).threads(1);
    TextOptions { load, session: SessionOptions::default(), window, windows }
}

fn measured(gguf: &Gguf, text: &str) -> Likelihood {
    likelihood(gguf, text, &options(256, 10), |_, _| ()).unwrap()
}

/// The faulty file, put together of the right one's rows; its data is the converter's to the byte.
fn faulty(right: &Gguf, golden: &Golden, blob: &[u8]) -> Gguf {
    let mut writer = Writer::new();
    for (key, value) in right.metadata().iter().filter(|(key, _)| !golden.unset.iter().any(|unset| unset == key)) {
        writer.insert(key, value.clone());
    }
    for (key, (kind, value)) in &golden.set {
        let value = match kind.as_str() {
            "string" => Value::from(value.as_str().unwrap()),
            "uint32" => Value::from(value.as_u64().unwrap() as u32),
            "float32" => Value::from(value.as_f64().unwrap() as f32),
            "bool" => Value::from(value.as_bool().unwrap()),
            kind => panic!("{}: {key} is {kind}", golden.fault),
        };
        writer.insert(key, value);
    }
    let data = |name: &str| right.data(right.tensor(name).unwrap());
    let mut all = BTreeMap::new();
    for info in right.tensors().iter().filter(|info| !golden.left.contains(&info.name)) {
        all.insert(info.name.clone(), (info.format, info.shape.clone(), data(&info.name).to_vec()));
    }
    for (name, changed) in &golden.tensors {
        let format = *Format::ALL.iter().find(|format| format.name() == changed.format).unwrap();
        let bytes = match (&changed.rows, changed.bytes) {
            (Some(runs), _) => {
                let row = format.row_bytes(changed.shape[0] as usize).unwrap();
                let run = |(from, first, count): &Run| data(from)[first * row..(first + count) * row].to_vec();
                runs.iter().flat_map(run).collect()
            }
            (None, Some((start, length))) => blob[start..start + length].to_vec(),
            (None, None) => panic!("{}: {name} has no data", golden.fault),
        };
        all.insert(name.clone(), (format, changed.shape.clone(), bytes));
    }
    let mut digest = Sha256::new();
    for (name, (format, shape, bytes)) in all {
        digest.update(name.as_bytes());
        digest.update([0]);
        digest.update(&bytes);
        writer.tensor(&name, format, &shape, bytes).unwrap();
    }
    let sha256: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(sha256, golden.sha256, "{}: not what the converter wrote", golden.fault);
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

/// Whether `CANDOR_TEST_FAULTS=all` asks for every faulty file and every healthy one: ten seconds each.
fn all() -> bool {
    std::env::var("CANDOR_TEST_FAULTS").is_ok_and(|value| value == "all")
}

/// Faults of a model's conversion are named first, and the right file raises no alarm. Prints the rows of the table in the docs.
fn judge(model: &str) {
    let right = Gguf::open(folder().join(format!("{model}.gguf"))).unwrap();
    let goldens: Vec<Golden> =
        serde_json::from_str(&fs::read_to_string(folder().join(format!("{model}.json"))).unwrap()).unwrap();
    let blob = fs::read(folder().join(format!("{model}.bin"))).unwrap();
    let text = text();
    let healthy = measured(&right, &text);
    let mut table = String::new();
    let mut wrong = Vec::new();
    for golden in goldens.iter().step_by(if all() { 1 } else { 8 }) {
        let found = measured(&faulty(&right, golden, &blob), &text);
        let first = found.faults.first().and_then(|fault| fault.first());
        let before = found.nats.unwrap_or(f64::NAN);
        // What costs nothing is no fault that a text can show.
        let cost = before - healthy.nats.unwrap_or(f64::NAN);
        let expected: &[&str] = match cost {
            ..LEAST => &[""],
            LEAST..SURE => &["", &golden.repair],
            _ => &[&golden.repair],
        };
        let (named, after, error) = first.map_or(("", before, 0.0), |best| (best.name.as_str(), best.nats, best.error));
        let others = found.faults.iter().flatten().skip(1).map(|other| format!("{} {}", other.name, other.detail));
        let (fault, others) = (&golden.fault, others.collect::<Vec<_>>().join("; "));
        writeln!(
            table,
            "| {model} | {fault} | {cost:.3} | {named} | {:.3} +/- {error:.3} | {others} |",
            before - after
        )
        .unwrap();
        if !expected.contains(&named) {
            wrong.push(format!("{fault} ({cost:.3}): expected {expected:?}, got {named:?}"));
        }
    }
    println!("{model}: {:?} {:.3}, {} repairs\n{table}", healthy.nats, healthy.entropy, healthy.tried);
    assert!(healthy.faults.is_empty(), "{model}: {:#?}", healthy.faults);
    assert!(wrong.is_empty(), "{model}: {wrong:#?}");
}

#[test]
fn faults_of_llama_files_are_named() {
    judge("llama");
}

#[test]
fn faults_of_gemma_files_are_named() {
    judge("gemma3");
}

#[test]
fn faults_of_qwen_files_are_named() {
    judge("qwen2");
}

#[test]
fn faults_of_neox_files_are_named() {
    judge("gptneox");
}

#[test]
fn right_files_of_trained_models_raise_no_alarm() {
    let Some(fixtures) = fixtures() else { return };
    let stories = fs::read_to_string(fixtures.join("text/cs336-tinystories_sample.txt")).unwrap();
    let mut found = Vec::new();
    let mut paths: Vec<PathBuf> =
        fs::read_dir(fixtures.join("models")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| all() || path.ends_with("stories260K-Q4_0.gguf"));
    for path in paths {
        let gguf = Gguf::open(&path).unwrap();
        for text in [&stories, &text()] {
            let likelihood = measured(&gguf, text);
            println!("{}: {:?} {:.3} {}", path.display(), likelihood.nats, likelihood.entropy, likelihood.tried);
            found.extend(likelihood.faults.into_iter().map(|fault| (path.clone(), fault)));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn untrained_weights_say_nothing() {
    let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    let found = likelihood(&gguf, &text(), &options(64, 4), |_, _| ()).unwrap();
    assert!(found.faults.is_empty(), "{:#?}", found.faults);
    let [finding] = &found.findings()[..] else { panic!("{:#?}", found.findings()) };
    assert_eq!(finding.severity, Severity::Fine);
    assert!(finding.hint.contains("says nothing about the file"), "{finding:?}");
}

#[test]
fn encoders_have_no_likelihood() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../candor/tests/goldens/cross-encoder.gguf");
    let error = likelihood(&Gguf::open(path).unwrap(), &text(), &options(64, 4), |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("is an encoder"), "{error}");
}

#[test]
fn a_short_text_is_refused() {
    let gguf = Gguf::open(folder().join("llama.gguf")).unwrap();
    let error = likelihood(&gguf, "Once upon a time", &options(256, 4), |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("512"), "{error}");
}
