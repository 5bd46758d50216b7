//! One model, several ways to run it: the results must be the same.

use std::{path::Path, sync::Arc};

use candor_cpu::{Batching, Cpu, CpuOptions};
use candor_gguf::Gguf;
use candor_models::{Decoder, Pass};
use candor_ops::{KvFormat, Ops, Plain, Reference, Step};
use candor_testing::{fixtures, ids, json, nmse};

/// Logits of every position, the tokens handed over in chunks of the given size.
fn logits<B: Ops + Clone>(model: &Decoder<B>, ops: &B, tokens: &[u32], chunk: usize) -> Vec<f32> {
    let mut ops = ops.clone();
    let mut scratch = model.scratch(&mut ops, chunk, chunk);
    let mut kv = ops.kv(&model.config().kv_plan(tokens.len(), 1, KvFormat::F32, KvFormat::F32));
    let mut all = Vec::new();
    for (number, tokens) in tokens.chunks(chunk).enumerate() {
        let first = (number * chunk) as u32;
        let positions: Vec<u32> = (first..first + tokens.len() as u32).collect();
        let outputs: Vec<u32> = (0..tokens.len() as u32).collect();
        let sequences = vec![0; tokens.len()];
        let step = Step { tokens, positions: &positions, sequences: &sequences, outputs: &outputs, decoding: 0 };
        model.forward(&mut Pass { ops: &mut ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        let snapshot = ops.snapshot(&scratch.logits);
        let mut rows = Vec::new();
        ops.download(&snapshot, &mut rows);
        all.extend(rows);
    }
    all
}

fn load<B: Ops>(path: &Path, mut ops: B) -> (Arc<Decoder<B>>, B) {
    let gguf = Gguf::open(path).unwrap();
    (Arc::new(Decoder::load(&gguf, &mut ops).unwrap()), ops)
}

fn cpu(threads: usize) -> Cpu {
    // Chunks are compared with the whole: kernels for many rows at once are left out.
    Cpu::new(CpuOptions { threads, batching: Batching::Invariant, ..CpuOptions::default() })
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

const MODELS: &[&str] = &["arch/llama", "arch/llama-bias", "arch/qwen2", "arch/qwen3", "arch/llama-long200"];

fn cases() -> Vec<(String, std::path::PathBuf, Vec<u32>)> {
    let Some(fixtures) = fixtures() else { return Vec::new() };
    let case = |name: &&str| {
        let folder = fixtures.join(name);
        (name.to_string(), folder.join("model.gguf"), ids(&json(&folder.join("tokens.json"))["tokens"]))
    };
    MODELS.iter().map(case).collect()
}

#[test]
fn chunks_of_any_size_give_the_same_bits_on_reference() {
    for (name, path, tokens) in cases() {
        let (model, ops) = load(&path, Reference);
        let whole = logits(&model, &ops, &tokens, tokens.len());
        for chunk in [1, 3, 7] {
            assert!(same_bits(&whole, &logits(&model, &ops, &tokens, chunk)), "{name}: chunks of {chunk}");
        }
    }
}

#[test]
fn chunks_of_any_size_agree_on_cpu() {
    for (name, path, tokens) in cases() {
        let (model, ops) = load(&path, cpu(2));
        let whole = logits(&model, &ops, &tokens, tokens.len());
        for chunk in [1, 3, 7] {
            let error = nmse(&logits(&model, &ops, &tokens, chunk), &whole);
            assert!(error < 1e-10, "{name}: chunks of {chunk}: NMSE {error:e}");
        }
    }
}

#[test]
fn fusions_and_threads_change_no_bit() {
    let mut all = cases();
    if let Some(fixtures) = fixtures() {
        for format in ["Q4_K_M", "Q8_0", "Q6_K", "IQ4_XS", "F16"] {
            let path = fixtures.join(format!("models/stories260K-wide256-{format}.gguf"));
            all.push((format.into(), path, (0..40).map(|i| 3 + i * 7).collect()));
        }
    }
    for (name, path, tokens) in all {
        for chunk in [1, tokens.len()] {
            let (model, ops) = load(&path, cpu(1));
            let one = logits(&model, &ops, &tokens, chunk);
            for threads in [2, 3] {
                let (model, ops) = load(&path, cpu(threads));
                assert!(same_bits(&one, &logits(&model, &ops, &tokens, chunk)), "{name}: {threads} threads");
            }
            let (model, ops) = load(&path, Plain(cpu(2)));
            assert!(same_bits(&one, &logits(&model, &ops, &tokens, chunk)), "{name}: fusions");
        }
    }
}
