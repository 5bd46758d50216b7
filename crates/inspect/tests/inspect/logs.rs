//! Logs as people paste them, in `dumps/logs`: each line is read as the file beside it says, and the log judged as it says
//! in its first line. `dumps/logs/README.md` has the threads that they are shaped after.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use candor::Gguf;
use candor_inspect::{
    Graph, Outcome, Wiring,
    import::{Imported, ReadOptions, import},
    settle,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps/logs")
}

fn model() -> Gguf {
    Gguf::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/llama-q8_0.gguf")).unwrap()
}

/// The prompt of the golden traces.
const IDS: [u32; 5] = [1, 279, 264, 100, 305];

fn read(gguf: &Gguf, path: &Path) -> Imported {
    let wiring = Some(Arc::new(Wiring::of(&Graph::new(gguf).unwrap())));
    let options = ReadOptions { wiring, tokens: Some(IDS.to_vec()), ..ReadOptions::default() };
    let mut imported = import(path, &options).unwrap_or_else(|error| panic!("{error}"));
    imported.trace.origin.tokens.get_or_insert(IDS.to_vec());
    imported.trace.origin.prompt_tokens = Some(IDS.len());
    imported
}

/// What is made of a log: the verdict, then its lines.
fn summary(gguf: &Gguf, path: &Path) -> String {
    let imported = read(gguf, path);
    let settled =
        settle(gguf, &imported, candor_inspect::diagnose).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let report = &settled.diagnosis;
    let mut text = match (report.outcome, &report.first_wrong) {
        (Outcome::Healthy | Outcome::Harmless, _) => "healthy".to_owned(),
        (_, Some(first)) => format!("wrong: {first}"),
        (_, None) => "wrong".to_owned(),
    };
    for finding in &report.findings {
        text += &format!(", {}", finding.fault);
    }
    if let Some(rows) = settled.rows {
        text += &format!("; rows that are not said are those of token {rows}");
    }
    text.push('\n');
    imported.read.iter().for_each(|reading| text += &format!("{reading}\n"));
    text
}

#[test]
fn every_line_is_read_and_every_log_judged() {
    let gguf = model();
    let mut logs: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    logs.sort();
    assert!(logs.len() >= 12, "{logs:?}");
    let mut differ = Vec::new();
    for path in logs {
        let (found, expected) = (summary(&gguf, &path), path.with_extension("read"));
        if std::env::var_os("CANDOR_WRITE_EXPECTED").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != found {
            differ.push(format!("{}:\n{found}", path.display()));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
