//! The bug hunts that began this project, as traces of another program with the same faults (`tools/trace/stories.py`):
//! each is named from its trace alone, and so are the things that were taken for faults and are none. After them public
//! threads, as dumps of the programs that they are about (`tools/trace/threads.py`). `docs/case-studies.md` tells them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use candor::Gguf;
use candor_inspect::{
    Confidence, Diagnosis, Graph, Key, Known, Outcome, ProjectionBias, Trace, Wiring, diagnose,
    doctor::{Severity, doctor},
    import::{self, ReadOptions},
};

const MODEL: &str = "llama-q8_0.gguf";

fn golden(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens")).join(name)
}

fn read(name: &str) -> Trace {
    import::read(&golden(name), &Default::default()).unwrap()
}

fn told(story: &str) -> Diagnosis {
    diagnose(&Gguf::open(golden(MODEL)).unwrap(), &read(&format!("stories/{story}.safetensors"))).unwrap()
}

/// Name, confidence and first place of each finding, and what was left over.
fn summary(report: &Diagnosis) -> String {
    let found: Vec<String> = report
        .findings
        .iter()
        .map(|f| {
            format!(
                "{} {:?} at {} ({} places), {:.1e} of {:.1e}, twins {:?}, rival {:?}",
                f.fault,
                f.confidence,
                f.places[0],
                f.places.len(),
                f.residual,
                f.healthy,
                f.twins,
                f.rival
            )
        })
        .collect();
    format!("{:?}, first {:?}\n{}\n{:?}", report.outcome, report.first_wrong, found.join("\n"), report.unexplained)
}

/// A story, the faults it is about, and the first value that does not follow from its inputs.
const STORIES: [(&str, &[&str], &str); 6] = [
    ("row-major", &["row-major-matrices"], "Qcur.mul_mat-0"),
    ("half-loaded", &["size-half-byte-per-element"], "inp_embd"),
    ("norm-twice", &["norm-weight-twice"], "attn_norm-0"),
    ("half-split-rope", &["rope-other-pairing"], "Qcur-0"),
    ("cache-slots", &["kv-decode-restarts"], "kqv_out-0"),
    (
        "four-faults",
        &["norm-weight-twice", "row-major-matrices", "rope-other-pairing", "kv-decode-restarts"],
        "attn_norm-0",
    ),
];

#[test]
fn every_story_is_named() {
    for (story, faults, first) in STORIES {
        let report = told(story);
        println!("{story}: {}\n", summary(&report));
        assert_eq!(report.outcome, Outcome::Faulty, "{story}: {}", summary(&report));
        assert_eq!(report.first_wrong, Some(first.parse().unwrap()), "{story}: {}", summary(&report));
        assert!(report.unexplained.is_empty(), "{story}: {}", summary(&report));
        let found: Vec<&str> = report.findings.iter().map(|finding| finding.fault.as_str()).collect();
        assert_eq!(found, faults, "{story}: {}", summary(&report));
        for finding in &report.findings {
            assert_eq!(finding.confidence, Confidence::High, "{story}: {}", summary(&report));
            assert!(finding.twins.is_empty(), "{story}: {}", summary(&report));
        }
    }
}

#[test]
fn ten_pasted_numbers_are_enough() {
    let trace = read("stories/pasted.txt");
    let report = diagnose(&Gguf::open(golden(MODEL)).unwrap(), &trace).unwrap();
    println!("{}", summary(&report));
    assert_eq!(report.outcome, Outcome::Faulty, "{}", summary(&report));
    let found: Vec<&str> = report.findings.iter().map(|finding| finding.fault.as_str()).collect();
    assert_eq!(found, ["rope-other-pairing"], "{}", summary(&report));
    assert_eq!(report.findings[0].confidence, Confidence::High, "{}", summary(&report));
}

#[test]
fn the_healthy_engine_is_healthy() {
    let report = told("healthy");
    assert_eq!(report.outcome, Outcome::Healthy, "{}", summary(&report));
    assert!(report.findings.is_empty() && report.unexplained.is_empty(), "{}", summary(&report));
}

/// What `candor diagnose` says of a dump without metadata, of which the user knows the tokens.
fn of_thread(model: &str, story: &str, prompt: usize) -> Diagnosis {
    let gguf = Gguf::open(golden(&format!("architectures/{model}/model.gguf"))).unwrap();
    let bias =
        if gguf.tensor("blk.0.attn_q.bias").is_some() { ProjectionBias::Included } else { ProjectionBias::Absent };
    let wiring = Some(Arc::new(Wiring::of(&Graph::new(&gguf).unwrap())));
    let tokens = vec![1, 40, 64, 50, 30, 7, 99, 12];
    let options = ReadOptions { bias, wiring, tokens: Some(tokens.clone()), ..Default::default() };
    let mut trace = import::read(&golden(&format!("stories/{story}.safetensors")), &options).unwrap();
    trace.origin.tokens.get_or_insert(tokens);
    trace.origin.prompt_tokens = Some(prompt);
    diagnose(&gguf, &trace).unwrap()
}

/// Model, dump, tokens that were computed at once, the faults with their confidence, and the first wrong value.
type Thread = (&'static str, &'static str, usize, &'static [(&'static str, Confidence)], &'static str);

const THREADS: [Thread; 3] = [
    // Candle adds no bias at all, which more than one row of the catalogue says, so the name alone is not certain.
    (
        "qwen2vl",
        "biased-neox",
        5,
        &[("biases", Confidence::Medium), ("rope-other-pairing", Confidence::High)],
        "Qcur.add-0",
    ),
    ("qwen3vlmoe", "router-sums", 8, &[("expert-weights-not-normalized", Confidence::High)], "l_out-0"),
    ("smollm3", "nope-rotated", 8, &[("rope-where-there-is-none", Confidence::High)], "attn_out-3"),
];

#[test]
fn every_thread_is_named() {
    for (model, story, prompt, faults, first) in THREADS {
        let report = of_thread(model, story, prompt);
        println!("{story}: {}\n", summary(&report));
        assert_eq!(report.outcome, Outcome::Faulty, "{story}: {}", summary(&report));
        assert_eq!(report.first_wrong, Some(first.parse().unwrap()), "{story}: {}", summary(&report));
        assert!(report.unexplained.is_empty(), "{story}: {}", summary(&report));
        let found: Vec<_> =
            report.findings.iter().map(|finding| (finding.fault.as_str(), finding.confidence)).collect();
        assert_eq!(found, faults, "{story}: {}", summary(&report));
    }
}

#[test]
fn half_precision_alone_is_no_fault() {
    let report = of_thread("smollm3", "nope-kept", 8);
    println!("{}", summary(&report));
    assert!(matches!(report.outcome, Outcome::Healthy | Outcome::Harmless), "{}", summary(&report));
    assert!(report.first_wrong.is_none() && report.unexplained.is_empty(), "{}", summary(&report));
}

/// Root mean square of a row.
fn size(trace: &Trace, key: &str, row: usize) -> f32 {
    let evidence = &trace.values[&key.parse::<Key>().unwrap()];
    let Known::All(values) = &evidence.known else { panic!("{key} is complete") };
    let row = &values[row * evidence.width..][..evidence.width];
    (row.iter().map(|x| x * x).sum::<f32>() / row.len() as f32).sqrt()
}

#[test]
fn growth_of_the_residual_stream_is_no_fault() {
    let name = "llama-q8_0.llamacpp.safetensors";
    let trace = read(name);
    let last = trace.origin.tokens.as_ref().unwrap().len() - 1;
    let stream = ["inp_embd", "l_out-0", "l_out-1"].map(|key| size(&trace, key, last));
    assert!(stream[0] < 0.02 && stream[2] > 20.0 * stream[0] && stream.is_sorted(), "{stream:?}");
    // After the last norm the size is that of the norm's weight, whatever came in.
    assert!((size(&trace, "result_norm", last) / 1.92 - 1.0).abs() < 0.2);
    let report = diagnose(&Gguf::open(golden(MODEL)).unwrap(), &trace).unwrap();
    assert_eq!(report.outcome, Outcome::Healthy, "{}", summary(&report));
}

#[test]
fn small_norms_and_rows_near_zero_are_no_faults() {
    let report = doctor(golden(MODEL)).unwrap();
    assert!(report.is_healthy(), "{:?}", report.findings);
    // The model is a base model, as TinyLlama was.
    let warned: Vec<&str> = report.of(Severity::Warning).map(|finding| finding.subject.as_str()).collect();
    assert_eq!(warned, ["tokenizer.chat_template"], "{:?}", report.findings);
    for (subject, message, reason) in [
        ("blk.0.attn_norm.weight", "weights of rms 0.04", "trained so"),
        ("blk.0.ffn_norm.weight", "weights of rms 0.08", "trained so"),
        ("token_embd.weight", "rows are nearly 0: <unk>", "trained so"),
        ("scales", "block scales in 1 tensors are subnormal", "normal"),
    ] {
        let finding = report.findings.iter().find(|finding| finding.subject == subject);
        let finding = finding.unwrap_or_else(|| panic!("{subject}: {:?}", report.findings));
        assert_eq!(finding.severity, Severity::Fine, "{finding:?}");
        assert!(finding.message.contains(message) && finding.hint.contains(reason), "{finding:?}");
    }
}
