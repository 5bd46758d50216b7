//! The fixture architectures on a GPU: as near to exact results as 32-bit floats are. Skipped where there is no adapter,
//! a software one (lavapipe) included.
#![cfg(feature = "gpu")]

use std::io::Write;

use candor::gpu::{AdapterChoice, GpuOptions, Variant, adapters};
use candor::{Device, LoadOptions, Model, SessionOptions, ops::KvFormat};
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

const EXACT_CACHE: SessionOptions =
    SessionOptions { context: 0, batch: 2048, ubatch: 512, keys: KvFormat::F32, values: KvFormat::F32 };

/// Sums of floats alone, whatever else the adapter has.
const EXACT: Variant = Variant { subgroups: false, int8_dot: false, f16: false };

/// Options for the first adapter there is; prints a reason and returns `None` where there is none.
fn gpu(variant: Variant) -> Option<LoadOptions> {
    if adapters().is_empty() {
        let _ = writeln!(std::io::stderr(), "skipped: no GPU, and no software adapter (lavapipe) either");
        return None;
    }
    let gpu = GpuOptions { adapter: Some(AdapterChoice::Index(0)), variant: Some(variant), ..GpuOptions::default() };
    Some(LoadOptions { device: Device::Gpu, gpu, ..LoadOptions::default() })
}

fn all_logits(model: &Model, tokens: &[u32]) -> Vec<f32> {
    logits_in_batches(model, tokens, EXACT_CACHE.ubatch)
}

fn logits_in_batches(model: &Model, tokens: &[u32], ubatch: usize) -> Vec<f32> {
    let mut logits = Vec::new();
    let mut session = model.session(&SessionOptions { ubatch, ..EXACT_CACHE }).unwrap();
    session.evaluate_each(tokens, |_, row| logits.extend_from_slice(row)).unwrap();
    logits
}

#[test]
fn logits_equal_transformers() {
    let (Some(fixtures), Some(options)) = (fixtures(), gpu(EXACT)) else { return };
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
    let (Some(fixtures), Some(options)) = (fixtures(), gpu(EXACT)) else { return };
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

/// A few tokens at a time and all at once are different kernels. What rounds inputs may err as llama.cpp does, which
/// rounds them likewise; the rest is exact.
#[test]
fn every_variant_runs_a_model() {
    let Some(fixtures) = fixtures() else { return };
    for bits in 0..8 {
        let [subgroups, int8_dot, f16] = [1, 2, 4].map(|bit| bits & bit != 0);
        let variant = Variant { subgroups, int8_dot, f16 };
        let Some(options) = gpu(EXACT) else { return };
        if adapters()[0].subgroups < subgroups || adapters()[0].f16 < f16 {
            continue;
        }
        let gpu = GpuOptions { variant: Some(variant), ..options.gpu };
        let options = LoadOptions { gpu, ..options };
        for (name, logits, block) in [
            ("qwen3", "logits_hf", false),
            ("quant-llama-F16", "logits_exact", false),
            ("quant-llama-wide256-Q4_K_M", "logits_exact", true),
        ] {
            let folder = fixtures.join("arch").join(name);
            let model = Model::open(folder.join("model.gguf"), &options).unwrap();
            let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
            let expected = npy(&folder.join(format!("{logits}.npy")));
            for ubatch in [8, 512] {
                let rounds = if ubatch == 8 { int8_dot && block } else { f16 && name != "qwen3" };
                let bound = match rounds {
                    true => 1.15 * json(&folder.join("meta.json"))["nmse_llamacpp_vs_exact_dequant"].as_f64().unwrap(),
                    false => 1e-9,
                };
                let error = nmse(&logits_in_batches(&model, &tokens, ubatch), &expected);
                println!("{name:28} {variant:?}, {ubatch} at once: NMSE {error:.2e}, at most {bound:.2e}");
                assert!(error < bound, "{name}, {variant:?}, {ubatch} at once: NMSE {error:e}, at most {bound:e}");
                assert!(!rounds || error > 1e-9, "{name}, {variant:?}, {ubatch} at once: {error:e} is not rounded");
            }
        }
    }
}
