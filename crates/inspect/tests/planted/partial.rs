//! Partial evidence: what is still decided from ten values, from logits alone, from text that is cut off.

use std::{collections::BTreeMap, thread};

use crate::bed::{Bed, Verdict, every_fault, judge};
use crate::model;
use candor_inspect::{Evidence, Key, Known, Trace, diagnose, replay::Rounding};

/// The first ten values of the first row of one tensor.
fn first_ten(trace: &Trace, name: &str) -> Trace {
    let key = Key::new(name, Some(0));
    let evidence = &trace.values[&key];
    let Known::All(values) = &evidence.known else { panic!("{key} is complete") };
    // The last prompt row: row 0 stands at position 0, where RoPE does nothing.
    let row = 8;
    let points = (0..10).map(|col| (row, col as i64, round(values[row as usize * evidence.width + col], 6))).collect();
    let evidence = Evidence { known: Known::Some(points), precision: 5e-7, ..evidence.clone() };
    Trace { origin: trace.origin.clone(), values: BTreeMap::from([(key, evidence)]) }
}

fn round(x: f32, places: i32) -> f32 {
    let scale = 10f64.powi(places);
    ((f64::from(x) * scale).round() / scale) as f32
}

fn only(trace: &Trace, keep: impl Fn(&Key) -> bool) -> Trace {
    let values = trace.values.iter().filter(|(key, _)| keep(key)).map(|(key, value)| (key.clone(), value.clone()));
    Trace { origin: trace.origin.clone(), values: values.collect() }
}

/// What `llama-eval-callback` prints: three from either end of rows and columns, four decimals.
fn corners(trace: &Trace) -> Trace {
    let cut = |evidence: &Evidence| {
        let Known::All(values) = &evidence.known else { panic!("complete") };
        let (width, rows) = (evidence.width, values.len() / evidence.width);
        let ends = |count: usize| (0..count).filter(move |&at| at < 3 || at + 3 >= count);
        let points = ends(rows)
            .flat_map(|row| ends(width).map(move |col| (row, col)))
            .map(|(row, col)| (row as i64, col as i64, round(values[row * width + col], 4)));
        Evidence { known: Known::Some(points.collect()), precision: 5e-5, ..evidence.clone() }
    };
    let values = trace.values.iter().map(|(key, value)| (key.clone(), cut(value))).collect();
    Trace { origin: trace.origin.clone(), values }
}

type Cut = fn(&Trace) -> Trace;

/// Of how many faults one is planted for each kind of evidence; the table has all.
const SHARE: usize = 36;

/// Kinds of evidence, and the share of visible faults that has to be named from it.
const EVIDENCE: [(&str, f64, Cut); 5] = [
    ("first 10 values of Qcur-0", 0.80, |trace| first_ten(trace, "Qcur")),
    ("first 10 values of kqv_out-0", 0.80, |trace| first_ten(trace, "kqv_out")),
    ("layer outputs alone", 0.85, |trace| only(trace, |key| key.name == "l_out")),
    ("logits alone", 0.80, |trace| only(trace, |key| key.name == "result_output")),
    ("eval-callback text", 0.75, corners),
];

/// The line of a kind of evidence in the table, and what became of the faults where too few were named.
fn decided(turn: usize, all: bool) -> (String, Option<String>) {
    let bed = Bed::new(&model::llama());
    let (name, share, cut) = EVIDENCE[turn];
    let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
    let first = every_fault().into_iter().filter(|active| active.variant == active.fault.variants[0]);
    let due = |index: usize| all || (index + turn).is_multiple_of(SHARE);
    for (_, active) in first.enumerate().filter(|&(index, _)| due(index)) {
        let Some(trace) = bed.plant(Rounding::Exact, &[active]) else { continue };
        let report = diagnose(&bed.gguf, &cut(&trace)).unwrap();
        let verdict = judge(&report, &active);
        *counts.entry(verdict).or_default() += 1;
        if matches!(verdict, Verdict::Missed | Verdict::WrongName) {
            let found: Vec<String> = report
                .findings
                .iter()
                .map(|f| format!("{} {:?} {:.0e} of {:.0e}", f.fault, f.confidence, f.residual, f.healthy))
                .collect();
            println!(
                "{name}: {verdict:?} {}: {:?} {found:?}",
                active.fault.name,
                report.first_wrong.map(|k| k.to_string())
            );
        }
    }
    let of = |verdict| counts.get(&verdict).copied().unwrap_or(0);
    let named = of(Verdict::Named) + of(Verdict::Twin);
    let visible = named + of(Verdict::Missed) + of(Verdict::WrongName);
    let line = format!(
        "| {name} | {visible} | {} ({:.0} %) | {} | {} |\n",
        of(Verdict::Named),
        100.0 * of(Verdict::Named) as f64 / visible as f64,
        of(Verdict::Twin),
        of(Verdict::WrongName)
    );
    let is_short = of(Verdict::WrongName) > 0 || (named as f64) < share * visible as f64;
    (line, is_short.then(|| format!("{name}: {counts:?}")))
}

/// All kinds side by side: one after the other they are the longest test, and the other cores would wait for it.
#[test]
fn partial_evidence_decides_most() {
    let all = std::env::var_os("CANDOR_WRITE_TABLE").is_some();
    let results: Vec<(String, Option<String>)> = thread::scope(|scope| {
        let kinds: Vec<_> = (0..EVIDENCE.len()).map(|turn| scope.spawn(move || decided(turn, all))).collect();
        kinds.into_iter().map(|kind| kind.join().unwrap()).collect()
    });
    let mut table = "| evidence | faults that show in it | named | as a twin | wrong with high confidence |\n| --- | --- | --- | --- | --- |\n".to_owned();
    results.iter().for_each(|(line, _)| table += line);
    println!("{table}");
    if let Some(path) = std::env::var_os("CANDOR_WRITE_TABLE") {
        std::fs::write(path, &table).unwrap();
    }
    let short: Vec<&String> = results.iter().filter_map(|(_, short)| short.as_ref()).collect();
    assert!(short.is_empty(), "{short:?}");
}

#[test]
fn values_that_are_not_numbers_prove_nothing() {
    // A mutant that gives NaN where the suspect has NaN reproduces it, and says nothing.
    let bed = Bed::new(&model::llama());
    let mut trace = only(&bed.plant(Rounding::Exact, &[]).unwrap(), |key| key.name == "Qcur");
    for evidence in trace.values.values_mut() {
        if let Known::All(values) = &mut evidence.known {
            values.fill(f32::NAN);
        }
    }
    let report = diagnose(&bed.gguf, &trace).unwrap();
    assert!(report.first_wrong.is_some());
    let sure = report.findings.iter().find(|finding| finding.confidence != candor_inspect::Confidence::Low);
    assert!(sure.is_none(), "{sure:?}");
}
