//! Noise in place of values is never called healthy, however little else is known.

use candor::Format;
use candor_inspect::{Known, Outcome, Trace, replay::Rounding};
use candor_testing::Random;

use crate::bed::Bed;
use crate::model;

/// Tries, unless `CANDOR_TRIES` says how many.
const TRIES: usize = 6;

/// A number of a normal distribution (Box and Muller 1958).
fn normal(random: &mut Random) -> f32 {
    let [a, b] = [0; 2].map(|_| f64::from(random.signed()).mul_add(0.5, 0.5).max(1e-9));
    ((-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()) as f32
}

/// As large as the values are, or as numbers are that nobody scaled.
fn noisy(values: &mut [f32], random: &mut Random) {
    let square: f32 = values.iter().map(|x| x * x).sum::<f32>() / values.len().max(1) as f32;
    let size = if random.below(2) == 0 { square.sqrt() } else { 1.0 };
    values.iter_mut().for_each(|x| *x = size * normal(random));
}

#[test]
fn noise_is_never_healthy() {
    let tries = std::env::var("CANDOR_TRIES").ok().and_then(|tries| tries.parse().ok()).unwrap_or(TRIES);
    let beds = [model::proportioned(Format::Q4K), model::qwen3()].map(|shape| Bed::new(&shape));
    let whole: Vec<Trace> = beds.iter().map(|bed| bed.plant(Rounding::Ggml, &[]).unwrap()).collect();
    let mut random = Random(11);
    for done in 0..tries {
        if done > 0 && done % 50 == 0 {
            println!("{done} of {tries} tries");
        }
        let at = random.below(beds.len());
        let keys: Vec<_> =
            whole[at].values.keys().filter(|key| !key.name.starts_with("ffn_moe_topk")).cloned().collect();
        let mut trace = Trace { origin: whole[at].origin.clone(), ..Trace::default() };
        // One value or a few, beside others that are right or alone.
        for place in 0..1 + random.below(4) {
            let key = &keys[random.below(keys.len())];
            let mut evidence = whole[at].values[key].clone();
            let Known::All(values) = &mut evidence.known else { panic!("complete") };
            if place == 0 || random.below(2) == 0 {
                noisy(values, &mut random);
                trace.values.insert(key.clone(), evidence);
            } else {
                trace.values.entry(key.clone()).or_insert(evidence);
            }
        }
        let said = beds[at].diagnose(&trace);
        let names: Vec<String> = trace.values.keys().map(ToString::to_string).collect();
        assert!(!matches!(said.outcome, Outcome::Healthy | Outcome::Harmless), "{}: {names:?}", beds[at].name);
        let high = said.findings.iter().find(|finding| finding.confidence == candor_inspect::Confidence::High);
        assert!(high.is_none(), "{}: {names:?}: {high:?}", beds[at].name);
    }
}
