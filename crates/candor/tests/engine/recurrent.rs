//! Models that keep states, which cannot be taken back: going back, going on and sharing a pass change nothing.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use candor::{
    Batching, Cancel, Device, GenerateOptions, Gguf, KvFormat, LoadOptions, Model, Sampling, Session, SessionOptions,
};
use candor_testing::{Tiny, fixtures, ids, json};

/// States of Mamba 2, RWKV, short convolutions, gated deltas; states beside attention in a layer and in the model.
const MODELS: [&str; 7] = ["mamba", "mamba2", "rwkv6", "rwkv7", "lfm2", "qwen3next", "falcon-h1"];

fn options() -> SessionOptions {
    SessionOptions::default().context(64).batch(5).keys(KvFormat::F32).values(KvFormat::F32)
}

/// Every model on both processors, with a text of its own; a model without states first.
fn each(mut check: impl FnMut(&str, &Model, &[u32])) {
    for device in [Device::Cpu, Device::Reference] {
        let load = LoadOptions::default().device(device).threads(2).batching(Batching::Invariant);
        let tiny = Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &load).unwrap();
        assert!(!tiny.config().is_recurrent());
        check(&format!("tiny, {device:?}"), &tiny, &(0..20).map(|i| 1 + 13 * i).collect::<Vec<u32>>());
        let Some(fixtures) = fixtures() else { continue };
        for name in MODELS {
            let folder = fixtures.join("arch").join(name);
            let model = Model::open(folder.join("model.gguf"), &load).unwrap();
            assert!(model.config().is_recurrent(), "{name}");
            let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
            check(&format!("{name}, {device:?}"), &model, &tokens[..tokens.len().min(20)]);
        }
    }
}

/// Cancelled while the first step after it is asked runs.
fn within() -> Cancel {
    let own: Arc<OnceLock<Cancel>> = Arc::default();
    let slot = own.clone();
    let cancel = Cancel::when(move || {
        own.get().into_iter().for_each(Cancel::cancel);
        false
    });
    slot.get_or_init(|| cancel).clone()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

fn fresh(model: &Model, tokens: &[u32]) -> Vec<u32> {
    after(&mut model.session(&options()).unwrap(), tokens)
}

fn after(session: &mut Session, tokens: &[u32]) -> Vec<u32> {
    session.evaluate(tokens).unwrap();
    bits(session.logits())
}

#[test]
fn going_back_is_as_if_what_followed_had_never_been() {
    each(|name, model, tokens| {
        let expected = fresh(model, tokens);
        let mut session = model.session(&options()).unwrap();
        after(&mut session, tokens);
        for kept in [0, 1, 7, tokens.len() - 1] {
            after(&mut session, &[3, 4]);
            session.truncate(tokens.len() + 1);
            session.truncate(kept);
            assert_eq!(session.tokens(), &tokens[..kept]);
            assert!(after(&mut session, &tokens[kept..]) == expected, "{name}: back to {kept}");
        }
        // Stopped on its way, and in a way of its own.
        session.truncate(9);
        let steps = AtomicUsize::new(0);
        let second = Cancel::when(move || steps.fetch_add(1, Ordering::Relaxed) == 1);
        let stopped = session.evaluate_until(&tokens[9..], &second);
        let done = if model.config().is_recurrent() { 9 } else { 14 };
        assert!(!stopped.unwrap() && session.tokens() == &tokens[..done], "{name}: {:?}", session.tokens());
        session.truncate(8);
        // Within a step, of which nothing is left on the processor; the formulas finish theirs.
        let stopped = session.evaluate_until(&tokens[8..], &within());
        assert!(!stopped.unwrap(), "{name}");
        assert!(name.ends_with("Reference") || session.tokens() == &tokens[..8], "{name}: {:?}", session.tokens());
        session.truncate(8);
        let mut rows = Vec::new();
        session.evaluate_each(&tokens[8..], |_, row| rows = bits(row)).unwrap();
        assert!(rows == expected, "{name}: every row");
    });
}

#[test]
fn a_prompt_is_its_tokens_one_by_one() {
    each(|name, model, tokens| {
        let mut session = model.session(&options()).unwrap();
        let mut last = Vec::new();
        for &token in tokens {
            last = after(&mut session, &[token]);
        }
        assert!(last == fresh(model, tokens), "{name}");
    });
}

#[test]
fn sequences_go_on_and_back_as_alone() {
    each(|name, model, tokens| {
        let mut sequences = model.sequences(3, &options()).unwrap();
        let starts: [&[u32]; 3] = [&tokens[..1], &tokens[..11], &tokens[4..9]];
        for (sequence, start) in starts.iter().enumerate() {
            sequences.evaluate(sequence, start).unwrap();
        }
        let next = &tokens[11..14];
        let alone: Vec<Vec<u32>> =
            starts.iter().zip(next).map(|(start, &token)| fresh(model, &[start, &[token][..]].concat())).collect();
        let vocab = model.config().outputs();
        sequences.advance(next).unwrap();
        assert!(sequences.logits().chunks(vocab).map(bits).eq(alone), "{name}: together");
        sequences.advance(&[5, 6, 7]).unwrap();
        sequences.truncate(3).unwrap();
        assert_eq!(sequences.lengths(), [3, 3, 3]);
        let kept = [[tokens[0], next[0], 5].to_vec(), tokens[..3].to_vec(), tokens[4..7].to_vec()];
        let alone: Vec<Vec<u32>> =
            kept.iter().zip(next).map(|(kept, &token)| fresh(model, &[&kept[..], &[token]].concat())).collect();
        sequences.advance(next).unwrap();
        assert!(sequences.logits().chunks(vocab).map(bits).eq(alone), "{name}: taken back");
        sequences.truncate(2).unwrap();
        sequences.evaluate(1, &tokens[2..]).unwrap();
        assert!(bits(sequences.logits()) == fresh(model, tokens), "{name}: one of them");
    });
}

#[test]
fn another_prompt_in_the_same_session_is_the_same_text() {
    each(|name, model, tokens| {
        let generate = |session: &mut Session, prompt: &[u32]| -> (Vec<u32>, usize) {
            let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(6).ignore_eos(true);
            let mut generation = session.generate(prompt, options).unwrap();
            let tokens = generation.by_ref().filter_map(|piece| piece.unwrap().token).collect();
            (tokens, generation.timings().prompt_tokens)
        };
        let (expected, _) = generate(&mut model.session(&options()).unwrap(), tokens);
        let mut session = model.session(&options()).unwrap();
        generate(&mut session, &[&tokens[..9], &[3, 4, 5]].concat());
        let (again, computed) = generate(&mut session, tokens);
        assert_eq!(again, expected, "{name}");
        let kept = if model.config().is_recurrent() { 0 } else { 9 };
        assert_eq!(computed, tokens.len() - kept, "{name}: what was computed again is counted");
    });
}
