//! Differences that cannot change the text are reported as such.

use crate::bed::{Bed, every_fault};
use crate::model;
use candor_inspect::{Outcome, diagnose, fault::Active, fault::Harm, replay::Rounding};

fn fault(name: &str, variant: f64) -> Active {
    every_fault().into_iter().find(|active| active.fault.name == name && active.variant == variant).unwrap()
}

#[test]
fn a_constant_offset_of_positions_is_harmless() {
    let bed = Bed::new(&model::llama());
    let trace = bed.plant(Rounding::Exact, &[fault("rope-position-offset", 1.0)]).unwrap();
    let report = diagnose(&bed.gguf, &trace).unwrap();
    assert_eq!(report.outcome, Outcome::Harmless, "{:?}", report.findings);
    assert_eq!(report.first_wrong, None);
    // The logits are the same indeed.
    let healthy = bed.plant(Rounding::Exact, &[]).unwrap();
    let logits = |trace: &candor_inspect::Trace| match &trace.values[&"result_output".parse().unwrap()].known {
        candor_inspect::Known::All(values) => values.clone(),
        candor_inspect::Known::Some(_) => panic!("complete"),
    };
    assert!(candor_testing::nmse(&logits(&trace), &logits(&healthy)) < 1e-10);
}

#[test]
fn halves_rotated_as_halves_are_harmless() {
    // HF's order of rows, and the pairing that goes with it: the scores are those of the file.
    let bed = Bed::new(&model::llama());
    let faults = [fault("qk-rows-not-permuted", -1.0), fault("rope-other-pairing", 0.0)];
    let trace = bed.plant(Rounding::Exact, &faults).unwrap();
    let report = diagnose(&bed.gguf, &trace).unwrap();
    assert_eq!(report.outcome, Outcome::Harmless, "{:?}", report.findings);
    assert_eq!(report.findings.len(), 2);
    // One of the two alone is not.
    for alone in faults {
        let report = diagnose(&bed.gguf, &bed.plant(Rounding::Exact, &[alone]).unwrap()).unwrap();
        assert_eq!(report.outcome, Outcome::Faulty, "{alone:?}");
        assert!(report.findings.iter().all(|finding| finding.harm == Harm::Harmful), "{alone:?}");
    }
}

#[test]
fn an_offset_of_queries_alone_is_not_harmless() {
    let bed = Bed::new(&model::llama());
    let mut trace = bed.plant(Rounding::Exact, &[]).unwrap();
    let moved = bed.plant(Rounding::Exact, &[fault("rope-position-offset", 1.0)]).unwrap();
    // Healthy except for the queries; what depends on them is left out.
    trace.values.retain(|key, _| key.layer == Some(0) && !["kqv_out", "ffn_inp"].contains(&key.name.as_str()));
    let key = "Qcur-0".parse().unwrap();
    trace.values.insert("Qcur-0".parse().unwrap(), moved.values[&key].clone());
    let report = diagnose(&bed.gguf, &trace).unwrap();
    let found: Vec<&str> = report.findings.iter().map(|finding| finding.fault.as_str()).collect();
    assert_eq!(found, ["rope-position-offset"]);
    assert_eq!(report.findings[0].harm, Harm::Harmful);
    assert_eq!((report.outcome, report.first_wrong), (Outcome::Faulty, Some(key)));
}
