//! Long contexts: layers that see a window keep no more than that, and give what they gave with all positions kept; logits
//! after 32,000 positions are llama.cpp's; what is too long is refused.

use std::path::Path;

use candor::{Device, KvFormat, LoadOptions, Model, SessionOptions};
use candor_testing::{fixtures, nmse};

fn open(name: &str) -> Option<Model> {
    // One whose layers read others' caches is not among the shared ones.
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/goldens/architectures");
    let folder = if name == "gemma4-shared" { own } else { fixtures()?.join("arch") };
    let path = folder.join(name).join("model.gguf");
    Some(Model::open(path, &LoadOptions::default().device(Device::Cpu)).unwrap())
}

fn options(context: usize, ubatch: usize) -> SessionOptions {
    SessionOptions::default().context(context).batch(ubatch).ubatch(ubatch).keys(KvFormat::F32).values(KvFormat::F32)
}

/// Tokens of a vocabulary of which none follows from the one before; `tools/goldens/needle.py` makes the same.
fn tokens(count: usize, vocab: usize) -> Vec<u32> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        3 + (state >> 33) as u32 % (vocab - 3).min(500) as u32
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn memory_is_that_of_the_window() {
    let Some(model) = open("gemma3-long200") else { return };
    let (keys, values) = (KvFormat::F16, KvFormat::F16);
    let bytes = |context: usize| {
        let mut plan = model.config().kv_plan(context, 1, keys, values);
        plan.step = 64;
        let layers = (0..plan.layers.len()).map(|i| plan.part(i..i + 1).checked_bytes().unwrap());
        layers.collect::<Vec<_>>()
    };
    let (short, long) = (bytes(4096), bytes(65_536));
    // Five layers of six have a window of 32.
    let growing = short.iter().zip(&long).filter(|(short, long)| **long == 16 * **short).count();
    let steady = short.iter().zip(&long).filter(|(short, long)| long == short).count();
    assert_eq!((growing, steady), (1, short.len() - 1), "{short:?} {long:?}");
}

#[test]
fn a_window_gives_the_same_however_much_is_kept() {
    for name in ["gemma3-long200", "cohere2-swa8", "gpt-oss", "gemma4", "gemma4-shared"] {
        let Some(model) = open(name) else { return };
        let tokens = tokens(2_000, model.config().vocab);
        let all = |ubatch: usize| {
            let mut session = model.session(&options(2_048, ubatch)).unwrap();
            session.evaluate(&tokens).unwrap();
            // Back further than a window is kept, and on.
            session.truncate(700);
            session.evaluate(&tokens[700..1_500]).unwrap();
            session.logits().to_vec()
        };
        // With all tokens in one step all positions are kept.
        let error = nmse(&all(32), &all(2_048));
        assert!(error < 1e-10, "{name}: {error:e}");
    }
}

#[test]
fn a_context_beyond_what_is_supported_is_refused() {
    // Learned positions end where their table does; Llama 4's queries have factors as far as one was made.
    for (name, limit) in [("gpt2", 256), ("starcoder", 256), ("llama4", 1 << 17)] {
        let Some(model) = open(name) else { return };
        assert_eq!(model.session(&options(0, 64)).unwrap().context(), 256, "{name}");
        let error = model.session(&options(limit + 1, 64)).err().unwrap().to_string();
        let expected = format!("context of {}: this architecture is supported up to {limit} positions", limit + 1);
        assert_eq!(error, expected, "{name}");
    }
}

/// The logits of one model after all of these positions; a test for each, so that they run side by side.
fn a_needle_after_32000_positions(name: &str) {
    const NEEDLE: [u32; 5] = [77, 301, 12, 499, 250];
    let golden = include_str!("../goldens/needle.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    let length = golden["length"].as_u64().unwrap() as usize;
    let mut tokens = tokens(length, 503);
    tokens[1_000..1_005].copy_from_slice(&NEEDLE);
    tokens[length - 3..].copy_from_slice(&NEEDLE[..3]);
    let Some(model) = open(name) else { return };
    let expected: Vec<f32> =
        golden["logits"][name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
    let mut session = model.session(&options(length, 512)).unwrap();
    session.evaluate(&tokens).unwrap();
    let error = nmse(session.logits(), &expected);
    println!("{name}: NMSE {error:.1e} after {length} positions");
    // llama.cpp multiplies angles in f32, which at 32,000 radians is off by a thousandth.
    assert!(error < 1e-4, "{name}: {error:e}");
}

#[test]
fn a_needle_with_yarn() {
    a_needle_after_32000_positions("llama-rope-yarn");
}

#[test]
fn a_needle_with_long_factors() {
    a_needle_after_32000_positions("phi3-longrope");
}

#[test]
fn a_needle_in_chunks() {
    a_needle_after_32000_positions("llama4");
}
