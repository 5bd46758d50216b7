//! Logits of tiny models of every architecture against HF Transformers in float64, and of quantized ones against
//! float64 over the dequantized weights.

use std::path::{Path, PathBuf};

use candor::{Device, KvFormat, LoadOptions, Model, SessionOptions};
use candor_testing::{argmax, fixtures, ids, json, nmse, npy};

const ARCHITECTURES: &[&str] = &[
    "llama",
    "llama-bias",
    "llama-eps",
    "llama-long200",
    "llama-rope-linear",
    "llama-rope-llama3",
    "llama-rope-yarn",
    "llama-wide256",
    "mistral",
    "qwen2",
    "qwen3",
    "qwen3-yarn",
];

const DEVICES: [Device; 2] = [Device::Reference, Device::Cpu];

fn all_logits(model: &Model, tokens: &[u32]) -> Vec<f32> {
    let mut logits = Vec::new();
    let mut session = model.session(&exact_cache()).unwrap();
    session.evaluate_each(tokens, |_, row| logits.extend_from_slice(row)).unwrap();
    logits
}

fn exact_cache() -> SessionOptions {
    SessionOptions::default().keys(KvFormat::F32).values(KvFormat::F32)
}

#[test]
fn logits_equal_transformers() {
    let Some(fixtures) = fixtures() else { return };
    for name in ARCHITECTURES {
        let folder = fixtures.join("arch").join(name);
        let record = json(&folder.join("tokens.json"));
        let (tokens, greedy) = (ids(&record["tokens"]), ids(&record["greedy_hf"]));
        let expected = npy(&folder.join("logits_hf.npy"));
        for device in DEVICES {
            let options = LoadOptions::default().device(device);
            let model = Model::open(folder.join("model.gguf"), &options).unwrap();
            let error = nmse(&all_logits(&model, &tokens), &expected);
            println!("{name:20} {device:?}: NMSE {error:.1e}");
            assert!(error < 1e-9, "{name} on {device:?}: NMSE {error:e}");

            let mut session = model.session(&exact_cache()).unwrap();
            session.evaluate(&tokens).unwrap();
            for (step, &expected) in greedy.iter().enumerate() {
                let next = argmax(session.logits());
                assert_eq!(next, expected, "{name} on {device:?}: greedy step {step}");
                session.evaluate(&[next]).unwrap();
            }
        }
    }
}

/// How far logits of a quantized file are from those of float64 over its dequantized weights: the NMSE of each engine.
pub struct Distance {
    /// The fixture's name, `quant-llama-` and the format.
    pub name: String,
    pub reference: f64,
    pub cpu: f64,
    pub llama_cpp: f64,
}

/// The distances of every quantized fixture.
pub fn distances(fixtures: &Path) -> Vec<Distance> {
    let mut folders: Vec<_> = std::fs::read_dir(fixtures.join("arch")).unwrap().map(|e| e.unwrap().path()).collect();
    folders.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("quant-llama-"));
    folders.sort();
    assert!(folders.len() >= 21, "{folders:?}");
    let distance = |folder: PathBuf| {
        let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
        let expected = npy(&folder.join("logits_exact.npy"));
        let llama_cpp = json(&folder.join("meta.json"))["nmse_llamacpp_vs_exact_dequant"].as_f64().unwrap();
        let [reference, cpu] = DEVICES.map(|device| {
            let options = LoadOptions::default().device(device);
            let model = Model::open(folder.join("model.gguf"), &options).unwrap();
            nmse(&all_logits(&model, &tokens), &expected)
        });
        Distance { name: folder.file_name().unwrap().to_string_lossy().into_owned(), reference, cpu, llama_cpp }
    };
    folders.into_iter().map(distance).collect()
}

#[test]
fn quantized_logits_are_as_exact_as_llama_cpp() {
    let Some(fixtures) = fixtures() else { return };
    let (mut logs, mut count, mut failures) = (0.0, 0.0, Vec::new());
    for Distance { name, reference, cpu, llama_cpp } in distances(&fixtures) {
        let ratio = cpu / llama_cpp;
        println!("{name:32} reference {reference:.1e}  cpu {cpu:.2e}  llama.cpp {llama_cpp:.2e}  ratio {ratio:.3}");
        if reference >= 1e-9 || ratio > 1.15 {
            failures.push(format!("{name}: reference {reference:e}, cpu {ratio:.3} of llama.cpp"));
        }
        logs += ratio.max(1e-12).ln();
        count += 1.0;
    }
    let mean = f64::exp(logs / count);
    println!("geometric mean of the ratios: {mean:.4}");
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(mean <= 1.0, "geometric mean {mean}");
}
