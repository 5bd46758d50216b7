//! Verdicts on rows of logits: what real models give is healthy, whatever they read and however they are quantized; faults
//! that ruin a row are seen.

use std::fs;

use candor::{Device, Gguf, LoadOptions, Model, SessionOptions};
use candor_inspect::{
    Graph, Known, catalogue,
    distribution::{Verdict, distribution},
    fault::Active,
    replay::{Arithmetic, Decoded, Stage, Tokens},
    simulate,
};
use candor_testing::{Random, fixtures};

/// Tokens of each text.
const TOKENS: usize = 96;

#[test]
fn real_models_are_healthy_on_whatever_they_read() {
    let Some(fixtures) = fixtures() else { return };
    let mut models: Vec<Model> = vec![Model::builtin(&LoadOptions::default().device(Device::Cpu)).unwrap()];
    for entry in fs::read_dir(fixtures.join("models")).unwrap() {
        let gguf = Gguf::open(entry.unwrap().path()).unwrap();
        models.push(Model::from_gguf(gguf, &LoadOptions::default().device(Device::Cpu)).unwrap());
    }
    assert!(models.len() > 10);
    for model in models {
        let mut texts: Vec<Vec<u32>> = ["cs336-tinystories_sample", "cs336-german", "wikitext-2.test"]
            .map(|name| fs::read_to_string(fixtures.join(format!("text/{name}.txt"))).unwrap())
            .map(|text| model.encode_prompt(&text.chars().take(2000).collect::<String>()))
            .to_vec();
        let mut random = Random(3);
        texts.push((0..TOKENS).map(|_| random.below(model.config().vocab) as u32).collect());
        for text in texts {
            let text = &text[..text.len().min(TOKENS)];
            let mut session = model.session(&SessionOptions::default().context(text.len())).unwrap();
            let each = |index: usize, logits: &[f32]| {
                let found = distribution(logits);
                assert!(
                    found.verdict.is_healthy(),
                    "{:?}, token {index}: {found:?}",
                    model.gguf().metadata().str("general.name")
                );
                // A verdict needs room on both sides.
                assert!(found.most - found.entropy > 1.5, "token {index}: {found:?}");
            };
            session.evaluate_each(text, each).unwrap();
        }
    }
}

#[test]
fn faults_that_ruin_a_row_are_seen() {
    let Some(fixtures) = fixtures() else { return };
    let gguf = Gguf::open(fixtures.join("models/stories260K-Q8_0.gguf")).unwrap();
    let (graph, decoded) = (Graph::new(&gguf).unwrap(), Decoded::default());
    let tokens = Tokens::new(vec![1, 403, 407, 261, 378, 286, 261, 376], 8);
    let stage = Stage { graph: &graph, gguf: &gguf, tokens: &tokens, decoded: &decoded };
    let verdict = |name: &str| {
        let fault = catalogue().find(|fault| fault.name == name).unwrap_or_else(|| panic!("{name}"));
        let faults = [Active::new(fault, fault.variants[0])];
        let trace = simulate(&stage, Arithmetic::default(), &faults).unwrap_or_else(|| panic!("{name}"));
        let output = &trace.values[&"result_output".parse().unwrap()];
        let Known::All(logits) = &output.known else { panic!("{output:?}") };
        distribution(&logits[logits.len() - output.width..]).verdict
    };
    for (fault, expected) in FAULTS {
        let found = verdict(fault);
        assert!(expected(&found), "{fault}: {found:?}");
    }
}

/// Faults, and whether a verdict is theirs.
type Expected = (&'static str, fn(&Verdict) -> bool);

const FAULTS: [Expected; 9] = [
    ("probabilities-for-logits", |found| *found == Verdict::Flat),
    ("norm-inverse", |found| *found == Verdict::Flat),
    ("logit-scale", |found| *found == Verdict::Flat),
    ("weights-never-loaded", |found| *found == Verdict::Tail { value: 0.0, from: 0 }),
    ("size-half-byte-per-element", |found| matches!(found, Verdict::Tail { value: 0.0, from: 200..300 })),
    ("head-missing", |found| matches!(found, Verdict::Tail { .. })),
    ("row-not-a-number", |found| matches!(found, Verdict::Nan { .. })),
    ("byte-order", |found| matches!(found, Verdict::Nan { .. } | Verdict::Infinite { .. })),
    // What only moves numbers about looks healthy: a verdict is no proof.
    ("rope-other-pairing", Verdict::is_healthy),
];
