//! Sequences that are decoded together: each computes what it computes alone, bit for bit.

use std::sync::atomic::{AtomicUsize, Ordering};

use candor::{Cancel, Device, Error, Gguf, KvFormat, LoadOptions, Model, SessionOptions};
use candor_testing::{Tiny, fixtures};

/// Prompts of different lengths, and what follows them.
const PROMPTS: [&[u32]; 4] = [&[1, 70, 80, 90, 100, 110, 120], &[1], &[1, 200, 201, 202], &[1, 33, 33, 33, 33]];
const PASSES: usize = 6;

fn next(pass: usize, sequence: usize) -> u32 {
    (20 + pass * 31 + sequence * 17) as u32
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

fn options() -> SessionOptions {
    SessionOptions::default().context(24).batch(4).values(KvFormat::F32)
}

fn tiny(load: &LoadOptions) -> Model {
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), load).unwrap()
}

/// The logits after every pass of one sequence in a session of its own.
fn alone(model: &Model, sequence: usize) -> Vec<Vec<u32>> {
    let mut session = model.session(&options()).unwrap();
    session.evaluate(PROMPTS[sequence]).unwrap();
    let passes = (0..PASSES).map(|pass| {
        session.decode(next(pass, sequence)).unwrap();
        bits(session.logits())
    });
    passes.collect()
}

fn check(name: &str, model: &Model) {
    let count = PROMPTS.len();
    let mut sequences = model.sequences(count, &options()).unwrap();
    for (sequence, prompt) in PROMPTS.iter().enumerate() {
        sequences.evaluate(sequence, prompt).unwrap();
    }
    let mut together = vec![Vec::new(); count];
    for pass in 0..PASSES {
        let tokens: Vec<u32> = (0..count).map(|sequence| next(pass, sequence)).collect();
        sequences.advance(&tokens).unwrap();
        let rows = sequences.logits().chunks_exact(model.config().vocab);
        assert_eq!(rows.len(), count);
        rows.zip(&mut together).for_each(|(row, all)| all.push(bits(row)));
    }
    for (sequence, got) in together.iter().enumerate() {
        assert_eq!(sequences.lengths()[sequence], PROMPTS[sequence].len() + PASSES);
        assert!(*got == alone(model, sequence), "{name}: sequence {sequence} differs");
    }
}

#[test]
fn together_as_alone() {
    for device in [Device::Cpu, Device::Reference] {
        for threads in [1, 3] {
            let load = LoadOptions::default().device(device).threads(threads);
            check(&format!("tiny, {device:?}, {threads} threads"), &tiny(&load));
        }
    }
    let Some(fixtures) = fixtures() else { return };
    for format in ["Q4_K_M", "Q8_0", "Q6_K", "IQ4_XS", "F16"] {
        let path = fixtures.join(format!("models/stories260K-wide256-{format}.gguf"));
        for threads in [1, 2] {
            let load = LoadOptions::default().threads(threads);
            check(&format!("{format}, {threads} threads"), &Model::open(&path, &load).unwrap());
        }
    }
}

#[test]
fn what_is_forgotten_has_no_effect() {
    let model = tiny(&Default::default());
    let mut sequences = model.sequences(2, &options()).unwrap();
    sequences.evaluate(0, &[1, 5, 6]).unwrap();
    sequences.evaluate(1, &[1]).unwrap();
    sequences.advance(&[7, 8]).unwrap();
    let before = bits(sequences.logits());
    sequences.advance(&[9, 10]).unwrap();
    sequences.truncate(3).unwrap();
    assert_eq!(sequences.lengths(), [3, 3]);
    sequences.truncate(1).unwrap();
    sequences.evaluate(0, &[5, 6]).unwrap();
    sequences.advance(&[7, 8]).unwrap();
    assert_eq!(bits(sequences.logits()), before);
}

#[test]
fn what_does_not_fit_is_an_error_and_changes_nothing() {
    let model = tiny(&Default::default());
    let vocab = model.config().vocab;
    let mut sequences = model.sequences(2, &options()).unwrap();
    assert!(matches!(sequences.evaluate(1, &[1; 25]), Err(Error::PromptTooLong { prompt: 25, context: 24 })));
    assert!(
        matches!(sequences.advance(&[1, vocab as u32]), Err(Error::Token { token, .. }) if token as usize == vocab)
    );
    sequences.evaluate(1, &[1; 24]).unwrap();
    assert!(matches!(sequences.advance(&[1, 1]), Err(Error::PromptTooLong { prompt: 25, context: 24 })));
    assert_eq!(sequences.lengths(), [0, 24]);
    let steps = AtomicUsize::new(0);
    let second = Cancel::when(move || steps.fetch_add(1, Ordering::Relaxed) == 1);
    assert!(!sequences.evaluate_until(0, &[1; 6], &second).unwrap(), "stopped");
    assert_eq!(sequences.lengths(), [4, 24]);
    let endless = options().context(usize::MAX / 4);
    assert!(matches!(model.sequences(2, &endless), Err(Error::Memory { .. })));
}
