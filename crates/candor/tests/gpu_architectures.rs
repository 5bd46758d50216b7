//! Every fixture architecture on a GPU, as near to the reference as 32-bit floats are: a prompt at once, its tokens in small
//! steps, and what is likeliest after it. Skipped where there is no adapter, a software one (lavapipe) included.
#![cfg(feature = "gpu")]

use candor::gguf::Gguf;
use candor::gpu::{AdapterChoice, Gpu, GpuOptions, Variant, adapters};
use candor::missing_on_gpus;
use candor::models::{Decoder, Gives, Pass};
use candor::ops::{KvFormat, Ops, Reference, Step};
use candor_testing::{argmax, fixtures, has_gpu, ids, json, nmse};

/// Sums of floats alone, whatever else the adapter has.
const EXACT: Variant = Variant { subgroups: false, int8_dot: false, f16: false };

/// Largest NMSE.
const LIMIT: f64 = 1e-10;

/// Likeliest tokens that are asked for.
const GREEDY: usize = 6;

/// Steps whose two best logits are closer than this may go either way.
const NEAR_TIE: f32 = 1e-3;

fn values<B: Ops>(ops: &mut B, x: &B::Buf) -> Vec<f32> {
    let (snapshot, mut out) = (ops.snapshot(x), Vec::new());
    ops.download(&snapshot, &mut out);
    ops.finish().expect("no fault");
    out
}

/// What a run gave for each token, logits or embeddings; and then the likeliest tokens, with all logits of each.
fn run<B: Ops>(model: &Decoder<B>, ops: &mut B, tokens: &[u32], chunk: usize) -> (Vec<f32>, Vec<Vec<f32>>) {
    let mut scratch = model.scratch(ops, chunk, chunk);
    let config = model.config();
    let context = tokens.len() + GREEDY;
    let mut kv = ops.kv(&config.kv_plan(context, 1, KvFormat::F32, KvFormat::F32));
    let mut step = |tokens: &[u32], first: usize| {
        let positions: Vec<u32> = (first as u32..(first + tokens.len()) as u32).collect();
        let outputs: Vec<u32> = (0..tokens.len() as u32).collect();
        let sequences = vec![0; tokens.len()];
        let step = Step { tokens, positions: &positions, sequences: &sequences, outputs: &outputs };
        model.forward(&mut Pass { ops: &mut *ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        values(ops, &scratch.logits)
    };
    let all: Vec<f32> =
        tokens.chunks(chunk).enumerate().flat_map(|(number, tokens)| step(tokens, number * chunk)).collect();
    let mut next = all[all.len() / tokens.len() * (tokens.len() - 1)..].to_vec();
    let mut after = Vec::new();
    while config.gives == Gives::Logits && after.len() < GREEDY {
        let best = argmax(&next);
        after.push(std::mem::replace(&mut next, step(&[best], tokens.len() + after.len())));
    }
    (all, after)
}

/// Where the likeliest tokens part ways, unless two of them are nearly as likely.
fn parted(got: &[Vec<f32>], want: &[Vec<f32>]) -> Option<String> {
    let step = got.iter().zip(want).position(|(got, want)| argmax(got) != argmax(want))?;
    let (got, want) = (argmax(&got[step]), &want[step]);
    let near = want[argmax(want) as usize] - want[got as usize] < NEAR_TIE;
    (!near).then(|| format!("token {step}: {got} instead of {}", argmax(want)))
}

#[test]
fn every_architecture_is_the_reference() {
    let Some(fixtures) = fixtures() else { return };
    if !has_gpu(adapters().len()) {
        return;
    }
    let adapter = Some(AdapterChoice::Index(0));
    // Open throughout, and with it the compiled shaders.
    let gpu = Gpu::new(&GpuOptions { adapter, variant: Some(EXACT), ..GpuOptions::default() }).unwrap();
    let index = json(&fixtures.join("arch/INDEX.json"));
    let only = std::env::var("CANDOR_ONLY").ok();
    let mut names: Vec<&str> = index.as_array().unwrap().iter().map(|entry| entry["dir"].as_str().unwrap()).collect();
    names.retain(|name| !name.starts_with("quant-"));
    names.retain(|name| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == *name)));
    let (mut ran, mut faults) = (0, Vec::new());
    for name in names {
        let folder = fixtures.join("arch").join(name);
        let record = json(&folder.join("tokens.json"));
        // Decoders that answer what an encoder has read are fed otherwise.
        if !record["encoder_tokens"].is_null() {
            continue;
        }
        let gguf = Gguf::open(folder.join("model.gguf")).unwrap();
        let missing = missing_on_gpus(&gguf).unwrap();
        if !missing.is_empty() {
            faults.push(format!("{name}: {missing:?} is missing"));
            continue;
        }
        let tokens = ids(&record["tokens"]);
        let (mut reference, mut gpu) = (Reference, gpu.clone());
        let exact = Decoder::load(&gguf, &mut reference).unwrap();
        let (want, likeliest) = run(&exact, &mut reference, &tokens, tokens.len());
        let model = Decoder::load(&gguf, &mut gpu).unwrap();
        // Rows of an encoder see later ones, which must be there.
        let chunks = if exact.config().gives == Gives::Embeddings { vec![tokens.len()] } else { vec![tokens.len(), 5] };
        let mut errors = Vec::new();
        for chunk in chunks {
            let (got, after) = run(&model, &mut gpu, &tokens, chunk);
            errors.push(nmse(&got, &want));
            faults.extend(parted(&after, &likeliest).map(|what| format!("{name}, {chunk} at a time: {what}")));
        }
        let shown: Vec<String> = errors.iter().map(|error| format!("{error:.1e}")).collect();
        println!("{name:20} NMSE {}", shown.join(", "));
        if errors.iter().any(|error| error.is_nan() || *error >= LIMIT) {
            faults.push(format!("{name}: NMSE {}, at most {LIMIT:e}", shown.join(", ")));
        }
        ran += 1;
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(only.is_some() || ran > 80, "{ran}");
}
