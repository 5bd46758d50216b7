//! A model larger than a GPU's budget: its layers spill to the processor, and the tokens are the processor's.

use candor::{Device, Gguf, GpuLayers, LoadOptions, Model, Offload, SessionOptions, Verify};
use candor_testing::{Tiny, argmax, nmse};

const BUDGET: u64 = 64_000_000;
const PROMPT: [u32; 12] = [1, 270, 280, 290, 300, 261, 262, 299, 5, 77, 283, 271];
const STEPS: usize = 12;

#[test]
fn a_budget_of_64_megabytes_spills_and_gives_the_same_tokens() {
    let Some(_alone) = crate::alone() else { return };
    let shape = Tiny { layers: 10, dim: 512, heads: 8, kv_heads: 4, head_dim: 64, ffn: 1024, ..Tiny::default() };
    let gguf = Gguf::from_bytes(shape.bytes().into()).unwrap();
    let weights: usize = gguf.tensors().iter().map(|tensor| tensor.shape.iter().product::<u64>() as usize * 4).sum();
    assert!(weights as u64 > BUDGET * 5 / 4, "{weights} bytes");
    let session = SessionOptions::default().context(64).batch(32);
    let names = vec!["gpu0".to_owned()];
    let offload = Offload::default().names(names).layers(GpuLayers::Auto).memory(BUDGET);
    let options =
        LoadOptions::default().device(Device::Gpu).offload(offload).session(session).verify(Verify::Off).threads(2);
    let before = candor_gpu::held();
    let gpu = Model::from_gguf(gguf.clone(), &options).unwrap();
    let placement = gpu.placement().unwrap();
    println!("{placement}");
    let taken: usize = placement.split(' ').next().unwrap().parse().unwrap();
    assert!((1..shape.layers).contains(&taken) && !gpu.is_over_budget(), "{placement}");
    assert!(placement.ends_with("the budget of 64 MB holds no more"), "{placement}");

    let cpu = Model::from_gguf(gguf, &options.clone().device(Device::Cpu)).unwrap();
    let (mut on_gpu, mut on_cpu) = (gpu.session(&session).unwrap(), cpu.session(&session).unwrap());
    let mut prompt = &PROMPT[..];
    let mut token = [0];
    let mut near_ties = 0;
    for step in 0..STEPS {
        on_gpu.evaluate(prompt).unwrap();
        on_cpu.evaluate(prompt).unwrap();
        let (a, b) = (on_gpu.logits(), on_cpu.logits());
        let error = nmse(a, b);
        assert!(error < 1e-6, "step {step}: {error:e}");
        let (ours, theirs) = (argmax(a), argmax(b));
        if ours != theirs {
            let margin = b[theirs as usize] - b[ours as usize];
            println!("step {step}: a near-tie, {ours} for {theirs}, {margin} apart");
            assert!(margin < 1e-3, "step {step}: {ours} for {theirs}, {margin} apart");
            near_ties += 1;
        }
        // Both go on with the processor's token.
        token[0] = theirs;
        prompt = &token;
    }
    println!("{STEPS} tokens, {near_ties} near-ties");
    let held = candor_gpu::held().bytes - before.bytes;
    println!("{held} bytes on the device");
    assert!(held <= BUDGET, "{held} bytes on the device, the budget is {BUDGET}");
}
