//! Sequences that go on from where another one is: each computes what it computes alone, whichever writes first to what
//! they share.

use candor::{Batching, Device, Gguf, KvFormat, LoadOptions, Model, Sequences, Session, SessionOptions};
use candor_testing::{Tiny, fixtures, nmse};

/// Windows whose caches are rings at this length, states, states beside attention, latents; a text that is answered.
const MODELS: [&str; 7] = ["gemma3", "cohere2-swa8", "rwkv7", "mamba2", "qwen3next", "deepseek2-v3", "t5-gated"];

/// More than a page of the cache, and not a whole number of them.
const PROMPT: usize = 290;

fn options() -> SessionOptions {
    let (keys, values) = (KvFormat::F32, KvFormat::F32);
    SessionOptions::default().context(PROMPT + 40).batch(64).keys(keys).values(values)
}

fn tiny(load: &LoadOptions) -> Model {
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), load).unwrap()
}

/// A session that has seen the same.
fn alone(model: &Model, text: &[u32], prompt: &[u32]) -> Session {
    let mut session = model.session(&options()).unwrap();
    if !text.is_empty() {
        session.read_text(text).unwrap();
    }
    session.evaluate(prompt).unwrap();
    session
}

/// A token of their own for each of three.
fn advance(name: &str, sequences: &mut Sequences, alone: [&mut Session; 3], tokens: [u32; 3]) {
    sequences.advance(&tokens).unwrap();
    let rows = sequences.logits().chunks_exact(sequences.logits().len() / 3);
    for (number, ((row, session), token)) in rows.zip(alone).zip(tokens).enumerate() {
        session.decode(token).unwrap();
        let error = nmse(row, session.logits());
        assert!(error < 1e-9, "{name}: sequence {number}: {error:e}");
    }
}

fn check(name: &str, model: &Model) {
    let vocab = model.config().vocab as u32;
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| (3 + i * 7) % vocab).collect();
    let (text, other) = match model.is_encoder_decoder() {
        true => (prompt[..280].to_vec(), prompt[5..9].to_vec()),
        false => (Vec::new(), Vec::new()),
    };
    let mut sequences = model.sequences(3, &options()).unwrap();
    let [mut a, mut b, mut c] = [(); 3].map(|()| alone(model, &text, &prompt));
    for (sequence, text) in [&text, &other, &other].into_iter().enumerate().filter(|(_, text)| !text.is_empty()) {
        sequences.read_text(sequence, text).unwrap();
    }
    // What a fork has seen before is forgotten.
    sequences.evaluate(1, &[5, 6, 7]).unwrap();
    sequences.evaluate(0, &prompt).unwrap();
    sequences.fork(0, 1).unwrap();
    sequences.fork(1, 2).unwrap();
    assert_eq!(sequences.lengths(), [PROMPT; 3]);
    for pass in 0..3 {
        advance(name, &mut sequences, [&mut a, &mut b, &mut c], [10, 20, 30].map(|token| token + pass));
    }
    // Back into what is shared.
    sequences.truncate(7).unwrap();
    [&mut a, &mut b, &mut c].into_iter().for_each(|session| session.truncate(7));
    advance(name, &mut sequences, [&mut a, &mut b, &mut c], [40, 50, 60]);
    // The one that had it first becomes another, which goes on too.
    sequences.fork(2, 0).unwrap();
    a.truncate(7);
    a.decode(60).unwrap();
    advance(name, &mut sequences, [&mut a, &mut b, &mut c], [41, 51, 61]);
    assert!(nmse(a.logits(), c.logits()) > 1e-6, "{name}: different tokens");
}

#[test]
fn forks_go_on_as_if_they_were_alone() {
    for device in [Device::Cpu, Device::Reference] {
        let load = LoadOptions::default().device(device).threads(2).batching(Batching::Invariant);
        check(&format!("tiny, {device:?}"), &tiny(&load));
    }
    let Some(fixtures) = fixtures() else { return };
    for name in MODELS {
        let load = LoadOptions::default().threads(2).batching(Batching::Invariant);
        check(name, &Model::open(fixtures.join("arch").join(name).join("model.gguf"), &load).unwrap());
    }
}

#[cfg(feature = "gpu")]
#[test]
fn forks_on_a_gpu_go_on_as_if_they_were_alone() {
    use candor::{GpuLayers, Offload, Verify};
    if !candor_testing::has_gpu(candor_gpu::adapters().len()) {
        return;
    }
    let on = |layers| {
        let offload = Offload::default().names(vec!["gpu0".to_owned()]).layers(layers);
        let (session, verify) = (options(), Verify::Off);
        LoadOptions::default().device(Device::Gpu).offload(offload).session(session).verify(verify).threads(2)
    };
    check("tiny, gpu", &tiny(&on(GpuLayers::All)));
    check("tiny, half on a gpu", &tiny(&on(GpuLayers::Count(1))));
    let Some(fixtures) = fixtures() else { return };
    for name in ["gemma3", "qwen3next", "t5-gated"] {
        check(name, &Model::open(fixtures.join("arch").join(name).join("model.gguf"), &on(GpuLayers::All)).unwrap());
    }
}
