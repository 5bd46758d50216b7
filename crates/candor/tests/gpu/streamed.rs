//! A model of which some layers are read for each step, on a GPU: the same tokens, and buffers that serve one layer after the
//! other. Skipped where there is no adapter, a software one (lavapipe) included.

use candor::{Error, Gguf, LoadOptions, Model, SessionOptions};
use candor_testing::{Tiny, argmax, nmse};

use super::sessions::{EXACT, exact_cache, gpu};

fn session_options() -> SessionOptions {
    exact_cache().context(32).batch(8).ubatch(8)
}

/// Logits after a prompt and after greedy tokens, and these tokens.
fn run(model: &Model) -> (Vec<f32>, Vec<u32>) {
    let mut session = model.session(&session_options()).unwrap();
    let (mut logits, mut tokens) = (Vec::new(), Vec::new());
    session.evaluate(&[1, 270, 280, 290, 300]).unwrap();
    for _ in 0..6 {
        logits.extend_from_slice(session.logits());
        tokens.push(argmax(session.logits()));
        session.decode(tokens[tokens.len() - 1]).unwrap();
    }
    (logits, tokens)
}

#[test]
fn layers_that_pass_take_each_others_buffers() {
    let Some(options) = gpu(EXACT) else { return };
    let tiny = Tiny { layers: 6, dim: 64, ffn: 256, ..Tiny::default() };
    let gguf = Gguf::from_bytes(tiny.bytes().into()).unwrap();
    let options = options.session(session_options());
    let load = |options: &LoadOptions| Model::from_gguf(gguf.clone(), options);
    let whole = run(&load(&options).unwrap());
    let Err(Error::Limit { needed, .. }) = load(&options.clone().memory(1)).map(drop) else {
        panic!("a limit that is too low is an error");
    };
    let model = load(&options.memory(needed)).unwrap();
    assert!(model.placement().unwrap().starts_with("0 of 6 layers stay in "));
    let streamed = run(&model);
    assert_eq!(streamed.1, whole.1);
    assert!(nmse(&streamed.0, &whole.0) < 1e-12);

    // After some steps nothing new is made: neither buffers nor bind groups.
    let mut session = model.session(&session_options()).unwrap();
    session.evaluate(&[1, 270]).unwrap();
    (0..8).for_each(|_| session.decode(280).unwrap());
    let before = session.traffic();
    (0..8).for_each(|_| session.decode(290).unwrap());
    assert_eq!(session.traffic().made, before.made);
}
