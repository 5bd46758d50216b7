//! Runs of the fixtures with something wrong in them that no fault of the catalogue does: it is seen, wherever it is, and
//! every fault can be tried on every architecture.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use candor_cpu::Batching;
use candor_inspect::{Key, Known, Outcome, diagnose};
use candor_testing::Random;

use crate::run::{Case, chosen, traced};

#[test]
fn what_is_wrong_is_seen_in_every_architecture() {
    let (mut faults, mut seen) = (Vec::new(), BTreeSet::new());
    for folder in chosen() {
        let case = Case::open(&folder);
        let Case { name, gguf, .. } = &case;
        // One of each wiring will do.
        if !seen.insert(gguf.metadata().str("general.architecture").unwrap().unwrap().to_owned()) {
            continue;
        }
        // A few tokens, since every fault of the catalogue is tried.
        let mut trace = traced(gguf, case.input().first(8), Batching::ByRole);
        let mut random = Random(1);
        let last = trace.values.keys().filter_map(|key| key.layer).max();
        for (_, evidence) in trace.values.iter_mut().filter(|(key, _)| key.layer == last) {
            let Known::All(values) = &mut evidence.known else { panic!("complete") };
            values.iter_mut().for_each(|x| *x *= 1.0 + 0.5 * random.signed());
        }
        let expected: Vec<Key> = trace.values.keys().filter(|key| key.layer == last).cloned().collect();
        match catch_unwind(AssertUnwindSafe(|| diagnose(gguf, &trace).unwrap())) {
            Ok(said) if said.outcome == Outcome::Unknown => {
                let seen = |key: &&Key| said.unexplained.contains_key(key) || said.unplaced.contains(key);
                let missed: Vec<&Key> = expected.iter().filter(|key| !seen(key)).collect();
                if !missed.is_empty() {
                    faults.push(format!("{name}: not seen: {missed:?}"));
                }
            }
            Ok(said) => faults.push(format!("{name}: {:?}, {:?}", said.outcome, said.findings)),
            Err(_) => faults.push(format!("{name}: panic")),
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
