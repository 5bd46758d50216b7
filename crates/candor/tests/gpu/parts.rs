//! A model divided between a GPU and the processor: the same tokens as on the processor alone. Skipped where there is no
//! adapter, a software one (lavapipe) included.

use candor::{Device, Error, Gguf, GpuLayers, KvFormat, LoadOptions, Model, Offload, Placement, SessionOptions};
use candor_testing::{Tiny, argmax, has_gpu, nmse};

const LAYERS: usize = 4;
const TOKENS: [u32; 7] = [1, 270, 280, 290, 300, 261, 262];

/// The first adapter by name; prints a reason and returns `None` without one.
fn gpu() -> Option<LoadOptions> {
    if !has_gpu(candor_gpu::adapters().len()) {
        return None;
    }
    let offload = Offload::default().names(vec!["gpu0".to_owned()]);
    let session = exact_cache().context(32).batch(4);
    Some(LoadOptions::default().device(Device::Gpu).offload(offload).session(session).threads(2))
}

fn exact_cache() -> SessionOptions {
    SessionOptions::default().context(32).batch(4).ubatch(512).keys(KvFormat::F32).values(KvFormat::F32)
}

fn load(tiny: &Tiny, options: &LoadOptions) -> Result<Model, Error> {
    Model::from_gguf(Gguf::from_bytes(tiny.bytes().into()).unwrap(), options)
}

/// Logits after a prompt in steps, then of greedy tokens, and these tokens.
fn run(model: &Model) -> (Vec<f32>, Vec<u32>) {
    let mut session = model.session(&exact_cache()).unwrap();
    let (mut logits, mut tokens) = (Vec::new(), TOKENS.to_vec());
    session.evaluate(&TOKENS).unwrap();
    for _ in 0..8 {
        logits.extend_from_slice(session.logits());
        let next = argmax(session.logits());
        tokens.push(next);
        session.evaluate(&[next]).unwrap();
    }
    session.truncate(3);
    session.evaluate(&[299, 298]).unwrap();
    logits.extend_from_slice(session.logits());
    (logits, tokens)
}

fn same(case: &str, model: &Model, expected: &(Vec<f32>, Vec<u32>)) {
    let (logits, tokens) = run(model);
    assert_eq!(tokens, expected.1, "{case}");
    let error = nmse(&logits, &expected.0);
    assert!(error < 1e-9, "{case}: {error:e}");
}

#[test]
fn divided_anywhere_gives_the_same_tokens() {
    let Some(options) = gpu() else { return };
    // The second one has an odd width: rows on the device are longer than what crosses.
    let odd = Tiny { dim: 36, heads: 2, kv_heads: 1, head_dim: 18, ffn: 50, ..Tiny::default() };
    for tiny in [Tiny { layers: LAYERS, ..Tiny::default() }, Tiny { layers: LAYERS, head: false, ..odd }] {
        let cpu = run(&load(&tiny, &options.clone().device(Device::Cpu)).unwrap());
        for at in 0..=LAYERS {
            for [first, second] in [[Device::Cpu, Device::Gpu], [Device::Gpu, Device::Cpu], [Device::Gpu, Device::Gpu]]
            {
                let parts = vec![(first, 0..at), (second, at..LAYERS)];
                let placement = Placement::Parts(parts.clone());
                let model = load(&tiny, &options.clone().placement(placement)).unwrap();
                same(&format!("{parts:?}"), &model, &cpu);
            }
        }
    }
}

#[test]
fn as_many_layers_as_are_asked_for_or_fit() {
    let Some(options) = gpu() else { return };
    let tiny = Tiny { layers: LAYERS, ..Tiny::default() };
    let cpu = run(&load(&tiny, &options.clone().device(Device::Cpu)).unwrap());
    let with = |layers, memory| {
        let offload = options.offload.clone().layers(layers).memory(memory);
        let model = load(&tiny, &options.clone().offload(offload)).unwrap();
        let placement = model.placement().unwrap().to_owned();
        same(&placement, &model, &cpu);
        (placement, model.device_label().to_owned())
    };
    for (layers, start) in [
        (GpuLayers::Count(0), "0 of 4 layers on "),
        (GpuLayers::Count(1), "1 of 4 layers on "),
        (GpuLayers::Count(4), "4 of 4 layers on "),
        (GpuLayers::Count(99), "4 of 4 layers and the output on "),
        (GpuLayers::All, "4 of 4 layers and the output on "),
    ] {
        let (placement, label) = with(layers, None);
        assert!(placement.starts_with(start), "{layers:?}: {placement}");
        assert_eq!(label.contains("gpu, "), layers != GpuLayers::Count(0), "{layers:?}: {label}");
    }
    // A budget of half of what the layers take makes the rest spill to the processor.
    let (placement, label) = with(GpuLayers::Auto, Some(100_000));
    let taken: usize = placement.split(' ').next().unwrap().parse().unwrap();
    assert!((1..LAYERS).contains(&taken) && placement.ends_with("the budget of 0.10 MB holds no more"), "{placement}");
    assert!(label.contains("cpu, ") && label.contains("gpu, "), "{label}");
    let (placement, label) = with(GpuLayers::Auto, Some(1));
    assert!(placement.ends_with("holds none") && label.starts_with("cpu, "), "{placement}, {label}");
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let offload = Offload::default().names(vec!["gpu77".to_owned()]);
    let options = LoadOptions::default().device(Device::Gpu).offload(offload);
    let Err(error) = load(&Tiny::default(), &options) else { panic!("there is no such GPU") };
    assert!(error.to_string().starts_with("device gpu77: expected one of auto, cpu, gpu, reference"), "{error}");
}
