//! The fixture architectures on a GPU: as near to exact results as 32-bit floats are. Skipped where there is no adapter,
//! a software one (lavapipe) included.
#![cfg(feature = "gpu")]

use candor::gpu::{AdapterChoice, GpuOptions};
use candor::{Device, LoadOptions, Model, SessionOptions, ops::KvFormat};
use candor_testing::{argmax, fixtures, has_gpu, ids, json, nmse, npy};

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

const EXACT_CACHE: SessionOptions =
    SessionOptions { context: 0, batch: 2048, ubatch: 512, keys: KvFormat::F32, values: KvFormat::F32 };

/// Options for the first adapter there is; prints a reason and returns `None` where there is none.
fn gpu() -> Option<LoadOptions> {
    if !has_gpu(candor::gpu::adapters().len()) {
        return None;
    }
    let gpu = GpuOptions { adapter: Some(AdapterChoice::Index(0)), ..GpuOptions::default() };
    Some(LoadOptions { device: Device::Gpu, gpu, ..LoadOptions::default() })
}

fn all_logits(model: &Model, tokens: &[u32]) -> Vec<f32> {
    let mut logits = Vec::new();
    let mut session = model.session(&EXACT_CACHE).unwrap();
    session.evaluate_each(tokens, |_, row| logits.extend_from_slice(row)).unwrap();
    logits
}

#[test]
fn logits_equal_transformers() {
    let (Some(fixtures), Some(options)) = (fixtures(), gpu()) else { return };
    // Keeps the device open, and with it the compiled shaders.
    let mut open = None;
    for name in ARCHITECTURES {
        let folder = fixtures.join("arch").join(name);
        let model = Model::open(folder.join("model.gguf"), &options).unwrap();
        let record = json(&folder.join("tokens.json"));
        let (tokens, greedy) = (ids(&record["tokens"]), ids(&record["greedy_hf"]));
        let error = nmse(&all_logits(&model, &tokens), &npy(&folder.join("logits_hf.npy")));
        println!("{name:20} {}: NMSE {error:.1e}", model.device_label());
        assert!(error < 1e-9, "{name}: NMSE {error:e}");

        let mut session = model.session(&EXACT_CACHE).unwrap();
        session.evaluate(&tokens, |_| true).unwrap();
        for (step, &expected) in greedy.iter().enumerate() {
            let next = argmax(session.logits());
            assert_eq!(next, expected, "{name}: greedy step {step}");
            session.evaluate(&[next], |_| true).unwrap();
        }
        open = Some(model);
    }
    drop(open);
}

#[test]
fn quantized_logits_are_exact() {
    let (Some(fixtures), Some(options)) = (fixtures(), gpu()) else { return };
    let mut folders: Vec<_> = std::fs::read_dir(fixtures.join("arch")).unwrap().map(|e| e.unwrap().path()).collect();
    folders.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("quant-llama-"));
    folders.sort();
    let (mut open, mut ran) = (None, Vec::new());
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
        let model = match Model::open(folder.join("model.gguf"), &options) {
            Ok(model) => model,
            Err(error) => {
                println!("{name}: {error}");
                assert!(error.to_string().contains("cannot run on the gpu"), "{name}: {error}");
                continue;
            }
        };
        let error = nmse(&all_logits(&model, &tokens), &npy(&folder.join("logits_exact.npy")));
        println!("{name:32} NMSE {error:.1e}");
        assert!(error < 1e-9, "{name}: NMSE {error:e}");
        ran.push(name);
        open = Some(model);
    }
    drop(open);
    assert!(ran.len() >= 10, "{ran:?}");
}
