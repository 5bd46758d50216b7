//! Two faults at once, as the engines that began this had four.

use crate::bed::{Bed, every_fault};
use crate::model;
use candor::Format;
use candor_inspect::{Known, Trace, diagnose, fault::Active, replay::Rounding};
use candor_testing::Random;

/// Whether two traces have the same numbers, those that are none included.
fn same(a: &Trace, b: &Trace) -> bool {
    let bits = |trace: &Trace| -> Vec<Option<u32>> {
        let all = trace.values.values().map(|evidence| match &evidence.known {
            Known::All(values) => values.as_slice(),
            Known::Some(_) => panic!("complete"),
        });
        all.flatten().map(|x| (!x.is_nan()).then(|| x.to_bits())).collect()
    };
    bits(a) == bits(b)
}

/// Pairs that are planted.
const PAIRS: usize = 30;

#[test]
fn both_of_two_faults_are_named() {
    let beds: Vec<Bed> =
        [model::llama(), model::qwen3(), model::proportioned(Format::Q8_0)].iter().map(Bed::new).collect();
    let (faults, mut random) = (every_fault(), Random(5));
    let (mut planted, mut both, mut one) = (0, 0, 0);
    while planted < PAIRS {
        let bed = &beds[random.below(beds.len())];
        let pair: [Active; 2] = [0; 2].map(|_| faults[random.below(faults.len())]);
        if pair[0].fault.name == pair[1].fault.name {
            continue;
        }
        // Only pairs that can both be seen: each alone has to be named, and the second must not hide the first.
        let alone = |active: Active| {
            let trace = bed.plant(Rounding::Exact, &[active])?;
            let report = diagnose(&bed.gguf, &trace).unwrap();
            (!report.findings.is_empty()).then_some(trace)
        };
        let (Some(first), Some(second)) = (alone(pair[0]), alone(pair[1])) else { continue };
        let Some(trace) = bed.plant(Rounding::Blocks(64), &pair) else { continue };
        let exact = bed.plant(Rounding::Exact, &pair).unwrap();
        if same(&exact, &first) || same(&exact, &second) {
            continue;
        }
        planted += 1;
        let report = diagnose(&bed.gguf, &trace).unwrap();
        let named = |active: &Active| {
            let name = active.fault.name;
            report.findings.iter().any(|finding| {
                finding.fault == name || finding.twins.iter().any(|twin| twin.split(" + ").any(|twin| twin == name))
            })
        };
        match pair.iter().filter(|active| named(active)).count() {
            2 => both += 1,
            count => {
                one += count;
                let found: Vec<&str> = report.findings.iter().map(|finding| finding.fault.as_str()).collect();
                let names = pair.map(|active| format!("{} {}", active.fault.name, active.variant));
                println!("{names:?} in {}: found {found:?}, unexplained {:?}", bed.name, report.unexplained);
            }
        }
    }
    println!("{both} of {planted} pairs: both named; {one} more: one of them");
    assert!(both as f64 >= 0.85 * planted as f64, "{both} of {planted}");
}
