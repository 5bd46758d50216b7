//! Every fault of the catalogue, planted in models and found again; healthy traces raise no alarm.

use std::{collections::BTreeMap, fmt::Write};

use crate::bed::{Bed, Verdict, every_fault, judge};
use crate::families;
use crate::model::{self, Rope, Shape};
use crate::{recurrent, wirings};
use candor::Format;
use candor_inspect::{Outcome, catalogue, fault::Active, fault::Harm, replay::Rounding};
use candor_testing::Tiny;

/// Of how many faults one is planted in each model and rounding.
const SHARE: usize = 80;

/// Both wirings, tiny and in TinyLlama's proportions, in floats and quantized.
fn beds() -> Vec<Bed> {
    let shapes = [
        model::llama(),
        model::qwen3(),
        model::proportioned(Format::Q8_0),
        model::proportioned(Format::Q4K),
        model::qwen3_proportioned(Format::Q8_0),
        model::experts(),
    ];
    shapes.iter().map(Bed::new).collect()
}

/// Models for faults that need a format or an option of their own.
fn special_beds() -> Vec<Bed> {
    let shapes = [
        Shape { biases: true, name: "llama-bias", ..model::llama() },
        Shape { rope: Rope::Factors, name: "llama-factors", ..model::llama() },
        Shape { rope: Rope::Linear, name: "llama-linear", ..model::llama() },
        Shape { rope: Rope::Yarn, name: "llama-yarn", ..model::llama() },
        Shape { rope: Rope::Long, name: "llama-long", ..model::llama() },
        Shape { biases: true, name: "mixtral-bias", matrices: Format::F32, ..model::experts() },
        Shape { size: 1e-3, name: "llama-small", ..model::proportioned(Format::Q8_0) },
        Shape { size: 3e3, name: "llama-large", ..model::llama() },
        // Ten layers and more have names that are sorted otherwise than their numbers.
        Shape { tiny: Tiny { layers: 11, dim: 32, ..model::llama().tiny }, name: "llama-deep", ..model::llama() },
        model::proportioned(Format::F16),
        model::proportioned(Format::Bf16),
        model::proportioned(Format::Q4_0),
        model::proportioned(Format::Q4_1),
        model::proportioned(Format::Q5_0),
        model::proportioned(Format::Q2K),
        model::proportioned(Format::Q3K),
        model::proportioned(Format::Q6K),
    ];
    let goldens = ["glm4-moe-lite", "gemma4-moe", "smollm3", "gemma3n"].map(Bed::golden);
    let beds = shapes.iter().map(Bed::new).chain(wirings::beds()).chain(families::beds());
    beds.chain([Bed::answering()]).chain(goldens).chain(recurrent::beds()).collect()
}

/// What became of each fault, by name.
#[derive(Default)]
struct Table {
    rows: BTreeMap<&'static str, BTreeMap<Verdict, usize>>,
    failures: String,
}

impl Table {
    fn plant(&mut self, bed: &Bed, rounding: Rounding, active: Active) {
        let Some(trace) = bed.plant(rounding, &[active]) else { return };
        let report = bed.diagnose(&trace);
        let verdict = judge(&report, &active);
        *self.rows.entry(active.fault.name).or_default().entry(verdict).or_default() += 1;
        if matches!(verdict, Verdict::Missed | Verdict::WrongName) {
            let found: Vec<String> = report
                .findings
                .iter()
                .map(|finding| format!("{} {:?} {:.1e}", finding.fault, finding.confidence, finding.residual))
                .collect();
            let (name, first) = (active.fault.name, report.first_wrong.as_ref().map(ToString::to_string));
            writeln!(
                self.failures,
                "{verdict:?}: {name} {} in {} ({rounding:?}): first {first:?}, found {found:?}",
                active.variant, bed.name
            )
            .unwrap();
        }
    }

    fn count(&self, name: &str, verdict: Verdict) -> usize {
        self.rows.get(name).and_then(|row| row.get(&verdict)).copied().unwrap_or(0)
    }

    fn total(&self, verdict: Verdict) -> usize {
        self.rows.keys().map(|name| self.count(name, verdict)).sum()
    }

    fn was_named(&self, name: &str) -> bool {
        self.count(name, Verdict::Named) + self.count(name, Verdict::Twin) > 0
    }

    /// The table of docs/catalogue.md.
    fn markdown(&self) -> String {
        let mut text =
            "| fault | entry | named | as a twin | missed | invisible |\n| --- | --- | --- | --- | --- | --- |\n"
                .to_owned();
        for fault in catalogue() {
            let count = |verdict| self.count(fault.name, verdict);
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                fault.name,
                fault.entry,
                count(Verdict::Named),
                count(Verdict::Twin),
                count(Verdict::Missed) + count(Verdict::WrongName),
                count(Verdict::Invisible)
            )
            .unwrap();
        }
        text
    }
}

#[test]
fn healthy_traces_raise_no_alarm() {
    for bed in beds().iter().chain(&special_beds()) {
        for rounding in
            [Rounding::Exact, Rounding::Ggml, Rounding::Blocks(32), Rounding::Blocks(64), Rounding::Searched]
        {
            let trace = bed.plant(rounding, &[]).unwrap();
            let report = bed.diagnose(&trace);
            assert_eq!(report.outcome, Outcome::Healthy, "{} {rounding:?}: {:?}", bed.name, report.first_wrong);
            assert!(report.findings.is_empty(), "{} {rounding:?}: {:?}", bed.name, report.findings);
            if bed.gguf.tensors().iter().any(|tensor| tensor.format.block_len() > 1) {
                // Blocks of 64 are nobody's.
                let said = if rounding == Rounding::Blocks(64) { Rounding::Unknown } else { rounding };
                assert_eq!(report.rounding, said, "{} {rounding:?}", bed.name);
            }
        }
    }
}

#[test]
fn every_fault_is_named() {
    let mut table = Table::default();
    let all = std::env::var_os("CANDOR_WRITE_TABLE").is_some();
    for (at, bed) in beds().iter().enumerate() {
        for (turn, rounding) in [Rounding::Exact, Rounding::Blocks(64)].into_iter().enumerate() {
            // Of each model and rounding some, so that each fault has its turn in some of them; the table has all.
            let due = |index: usize| all || (index + 5 * at + 2 * turn).is_multiple_of(SHARE);
            let faults = every_fault().into_iter().enumerate().filter(|&(index, _)| due(index));
            faults.for_each(|(_, active)| table.plant(bed, rounding, active));
        }
    }
    // What needs a format or an option of its own.
    for bed in special_beds().into_iter().chain(beds()) {
        let rest: Vec<Active> =
            every_fault().into_iter().filter(|active| !table.was_named(active.fault.name)).collect();
        rest.into_iter().for_each(|active| table.plant(&bed, Rounding::Exact, active));
    }
    println!("{}\n{}", table.failures, table.markdown());
    if let Some(path) = std::env::var_os("CANDOR_WRITE_TABLE") {
        std::fs::write(path, table.markdown()).unwrap();
    }
    let never: Vec<&str> = catalogue().map(|fault| fault.name).filter(|name| !table.was_named(name)).collect();
    assert!(never.is_empty(), "never named: {never:?}");
    assert_eq!(table.total(Verdict::WrongName), 0, "a wrong name with high confidence");
    let named = table.total(Verdict::Named) + table.total(Verdict::Twin);
    let visible = named + table.total(Verdict::Missed);
    println!("{named} of {visible} named");
    assert!(named as f64 >= 0.95 * visible as f64, "{named} of {visible}");
}

#[test]
fn a_row_of_the_catalogue_is_complete() {
    let mut names = std::collections::BTreeSet::new();
    for fault in catalogue() {
        assert!(names.insert(fault.name), "{} twice", fault.name);
        assert!(!fault.edits.is_empty() && !fault.variants.is_empty(), "{}", fault.name);
        for text in [fault.cause, fault.remedy, fault.source, fault.entry] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text:?}", fault.name);
        }
    }
    assert!(names.len() >= 80, "{}", names.len());
    assert!(catalogue().any(|fault| fault.harm == Harm::Harmless));
}
