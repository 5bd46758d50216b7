//! Traces of llama.cpp and HF Transformers raise no alarm. `tools/trace/fixtures.sh` makes them for the fixtures of
//! shared/; a few of a model of this project are in `goldens`.

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use candor::Gguf;
use candor_inspect::{Diagnosis, Outcome, Status, diagnose, import};
use candor_ops::CHOSEN;

/// One line about a trace: the worst residual among the values, against its gate.
fn line(name: &str, report: &Diagnosis) -> String {
    let worst = report
        .checks
        .iter()
        .max_by(|a, b| (a.residual.relative / a.gate.pass).total_cmp(&(b.residual.relative / b.gate.pass)));
    let worst = worst.map_or(String::new(), |check| {
        format!("{} {:.1e} of {:.1e}", check.key, check.residual.relative, check.gate.pass)
    });
    let suspicious = report.checks.iter().filter(|check| check.status == Status::Suspicious).count();
    format!(
        "| {name} | {:?} | {:?} | {} | {worst} | {suspicious} |",
        report.outcome,
        report.rounding,
        report.checks.len()
    )
}

fn check(model: &Path, trace: &Path) -> Diagnosis {
    let gguf = Gguf::open(model).unwrap();
    let trace = import::read(trace, &Default::default()).unwrap();
    diagnose(&gguf, &trace).unwrap()
}

#[test]
fn other_programs_are_healthy() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let Some(traces) = std::env::var_os("CANDOR_TRACES") else {
        let _ = writeln!(std::io::stderr(), "skipped: CANDOR_TRACES is not set (tools/trace/fixtures.sh makes them)");
        return;
    };
    let mut table =
        "| trace | outcome | rounding | values | worst | suspicious |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    let (mut alarms, mut count) = (Vec::new(), 0);
    let mut files: Vec<_> = fs::read_dir(traces).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Some((arch, _program)) = stem.rsplit_once('.') else { continue };
        let report = check(&fixtures.join("arch").join(arch).join("model.gguf"), &path);
        writeln!(table, "{}", line(&stem, &report)).unwrap();
        count += 1;
        if report.outcome != Outcome::Healthy {
            alarms.push((stem, report.first_wrong, report.findings));
        }
    }
    println!("{table}");
    if let Some(path) = std::env::var_os("CANDOR_WRITE_TABLE") {
        fs::write(path, &table).unwrap();
    }
    assert!(count > 0, "no traces");
    assert!(alarms.is_empty(), "{alarms:?}");
}

/// llama.cpp's values of single experts, with and without what tells their order.
#[test]
fn another_program_s_experts_are_healthy() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens"));
    let gguf = Gguf::open(folder.join("architectures/qwen3vlmoe/model.gguf")).unwrap();
    let mut trace = import::read(&folder.join("qwen3vlmoe.llamacpp.safetensors"), &Default::default()).unwrap();
    for told in [true, false] {
        trace.values.retain(|key, _| told || !CHOSEN.contains(&key.name.as_str()));
        let report = diagnose(&gguf, &trace).unwrap();
        assert_eq!(report.outcome, Outcome::Healthy, "{:?} {:?}", report.first_wrong, report.findings);
        assert!(report.checks.iter().all(|check| check.status == Status::Right), "{:?}", report.checks);
        assert!(report.unplaced.is_empty(), "{:?}", report.unplaced);
        let of_experts = report.checks.iter().filter(|check| check.key.name.starts_with("ffn_moe_")).count();
        assert_eq!(of_experts, 2 * if told { 8 } else { 6 });
    }
}

#[test]
fn golden_traces_are_healthy() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens"));
    for model in ["llama-f32", "qwen3-f32", "llama-q8_0"] {
        for program in ["llamacpp", "transformers"] {
            let name = format!("{model}.{program}");
            let trace = folder.join(format!("{name}.safetensors"));
            let report = check(&folder.join(format!("{model}.gguf")), &trace);
            println!("{}", line(&name, &report));
            assert_eq!(report.outcome, Outcome::Healthy, "{name}: {:?} {:?}", report.first_wrong, report.findings);
            assert!(report.findings.is_empty() && report.unexplained.is_empty(), "{name}: {:?}", report.findings);
            assert!(report.unplaced.is_empty(), "{name}: {:?}", report.unplaced);
            assert!(report.checks.len() > 30, "{name}: only {} values checked", report.checks.len());
            // Another program rounds otherwise, so not even the best is without a residual.
            assert!(report.checks.iter().any(|check| check.residual.relative > 0.0), "{name}: compared with itself");
        }
    }
}
