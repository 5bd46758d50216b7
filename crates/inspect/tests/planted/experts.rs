//! Values of single experts: what is wrong is named where it is, and in whatever order a trace has them.

use candor_inspect::{Confidence, Diagnosis, Evidence, Key, Known, Outcome, Status, Trace, diagnose, replay::Rounding};
use candor_testing::Random;

use crate::bed::{Bed, every_fault};
use crate::model;
use crate::prompts::run;

/// Values with a part for each of a token's two experts.
const PARTS: [&str; 5] = ["ffn_moe_gate", "ffn_moe_up", "ffn_moe_swiglu", "ffn_moe_down", "ffn_moe_weighted"];
const CHOICE: [&str; 2] = ["ffn_moe_topk", "ffn_moe_weights"];
const USED: usize = 2;

fn numbers<'t>(trace: &'t mut Trace, name: &str, layer: usize) -> &'t mut Vec<f32> {
    match &mut trace.values.get_mut(&Key::new(name, Some(layer))).unwrap().known {
        Known::All(values) => values,
        Known::Some(_) => panic!("complete"),
    }
}

/// A run of this engine in which some of the names have every other token's experts in the other order.
fn turned(names: &[&str], leave: impl Fn(&str) -> bool) -> Trace {
    let mut trace = run(&model::experts().gguf(), 12, 512);
    trace.values.retain(|key, _| leave(&key.name));
    for (key, evidence) in &mut trace.values {
        let Evidence { width, known: Known::All(values), .. } = evidence else { panic!("complete") };
        if names.contains(&key.name.as_str()) {
            values.chunks_mut(*width).step_by(2).for_each(|row| row.rotate_left(*width / USED));
        }
    }
    trace
}

fn healthy(trace: &Trace) -> Diagnosis {
    let said = diagnose(&model::experts().gguf(), trace).unwrap();
    assert_eq!(said.outcome, Outcome::Healthy, "{:?} {:?}", said.first_wrong, said.findings);
    assert!(said.checks.iter().all(|check| check.status == Status::Right), "{:?}", said.checks);
    said
}

#[test]
fn a_run_has_values_of_experts_in_any_order() {
    let (all, parts): (Vec<&str>, _) = ([PARTS.as_slice(), &CHOICE].concat(), PARTS.as_slice());
    for (what, trace, values) in [
        ("as recorded", turned(&[], |_| true), 14),
        ("all in another order", turned(&all, |_| true), 14),
        ("not told the order", turned(parts, |name| !CHOICE.contains(&name)), 10),
        ("told another order", turned(parts, |_| true), 14),
        ("told experts alone", turned(&all, |name| name != CHOICE[1]), 12),
        ("told weights alone", turned(&all, |name| name != CHOICE[0]), 12),
    ] {
        let said = healthy(&trace);
        let of_experts = |key: &&Key| all.contains(&key.name.as_str());
        let checked = said.checks.iter().map(|check| &check.key).filter(of_experts).count();
        assert_eq!((checked, said.unplaced.len()), (values, 0), "{what}");
    }
}

#[test]
fn a_wrong_product_of_an_expert_is_named() {
    for name in PARTS {
        for names in [[PARTS.as_slice(), &CHOICE].concat(), PARTS.to_vec()] {
            let mut trace = turned(&PARTS, |other| names.contains(&other) || !other.starts_with("ffn_moe_"));
            // One expert of one token: an element in fifty.
            let values = numbers(&mut trace, name, 1);
            let width = values.len() / 16 / USED;
            values[5 * USED * width..][..width].iter_mut().for_each(|x| *x *= 1.5);
            let said = diagnose(&model::experts().gguf(), &trace).unwrap();
            let wrong = said.checks.iter().filter(|check| check.status == Status::Wrong).map(|check| &check.key);
            let key = Key::new(name, Some(1));
            assert_eq!(said.first_wrong.as_ref(), Some(&key), "{name}: {:?}", said.unplaced);
            // Except what was recorded as made of it, all is right.
            assert_eq!(wrong.count(), 2, "{name}");
        }
    }
}

#[test]
fn faults_of_experts_are_found_at_their_own_values() {
    let bed = Bed::new(&model::experts());
    for (name, place) in [
        ("expert-ids-shifted", "ffn_moe_gate"),
        ("first-expert-for-all", "ffn_moe_gate"),
        ("expert-weights-not-normalized", "ffn_moe_weights"),
    ] {
        let active = every_fault().into_iter().find(|active| active.fault.name == name).unwrap();
        let said = bed.diagnose(&bed.plant(Rounding::Exact, &[active]).unwrap());
        assert_eq!(said.first_wrong, Some(Key::new(place, Some(0))), "{name}");
        assert!(said.findings.iter().any(|finding| finding.fault == name), "{name}: {:?}", said.findings);
    }
}

#[test]
fn values_in_an_unknown_order_raise_no_alarm() {
    let mut trace = turned(&PARTS, |name| !CHOICE.contains(&name));
    let mut random = Random(9);
    for name in PARTS {
        numbers(&mut trace, name, 0).iter_mut().for_each(|x| *x = random.signed());
    }
    let said = healthy(&trace);
    let unplaced: Vec<Key> = PARTS.map(|name| Key::new(name, Some(0))).to_vec();
    assert!(unplaced.iter().all(|key| said.unplaced.contains(key)), "{:?}", said.unplaced);
    assert!(said.advice.iter().any(|line| line.contains("dump ffn_moe_topk-0 too")), "{:?}", said.advice);
    // Nor do values in another layout.
    let mut trace = turned(&[], |_| true);
    let evidence = trace.values.get_mut(&Key::new(PARTS[0], Some(0))).unwrap();
    let Known::All(values) = &evidence.known else { panic!("complete") };
    *evidence = Evidence::all(evidence.width / USED, values.clone());
    assert_eq!(healthy(&trace).unplaced, [Key::new(PARTS[0], Some(0))]);
}

/// Where every choice is the same, whatever spoils the logits may lead to it.
#[test]
fn experts_alone_do_not_make_sure_of_a_fault() {
    let mut trace = turned(&[], |name| !name.starts_with("ffn_moe_") || name == CHOICE[0]);
    numbers(&mut trace, CHOICE[0], 0).chunks_exact_mut(USED).for_each(|row| row.copy_from_slice(&[0.0, 1.0]));
    let said = diagnose(&model::experts().gguf(), &trace).unwrap();
    assert_eq!(said.first_wrong, Some(Key::new(CHOICE[0], Some(0))));
    assert!(said.findings.iter().all(|finding| finding.confidence < Confidence::High), "{:?}", said.findings);
}

#[test]
fn other_experts_than_the_logits_lead_to_are_seen() {
    let mut trace = turned(&[], |_| true);
    let experts = numbers(&mut trace, CHOICE[0], 0);
    experts[0] = (0..4).map(|expert| expert as f32).find(|expert| !experts[..USED].contains(expert)).unwrap();
    let said = diagnose(&model::experts().gguf(), &trace).unwrap();
    assert_eq!(said.first_wrong, Some(Key::new(CHOICE[0], Some(0))));
    // A number that is no expert's, too.
    numbers(&mut trace, CHOICE[0], 0)[0] = 77.0;
    let said = diagnose(&model::experts().gguf(), &trace).unwrap();
    assert_eq!(said.first_wrong, Some(Key::new(CHOICE[0], Some(0))));
}
