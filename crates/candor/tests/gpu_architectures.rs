//! Every fixture architecture on a GPU, as near to the reference as 32-bit floats are: a prompt at once, its tokens in small
//! steps, and what is likeliest after it. Skipped where there is no adapter, a software one (lavapipe) included.
#![cfg(feature = "gpu")]

use candor::gguf::Gguf;
use candor::gpu::{AdapterChoice, Gpu, GpuOptions, Variant, adapters};
use candor::missing_on_gpus;
use candor::models::{Decoder, Gives, Pass};
use candor::ops::{KvFormat, Ops, Reference, Step};
use candor_testing::{architectures, argmax, fixtures, has_gpu, ids, json, nmse};

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

/// Tokens, and those that an encoder reads before, where there is one.
#[derive(Clone, Copy)]
struct Input<'a> {
    text: &'a [u32],
    tokens: &'a [u32],
}

/// What a run gave for each token, logits or embeddings; and then the likeliest tokens, with all logits of each.
fn run<B: Ops>(model: &Decoder<B>, ops: &mut B, input: Input<'_>, chunk: usize) -> (Vec<f32>, Vec<Vec<f32>>) {
    let Input { text, tokens } = input;
    let mut scratch = model.scratch(ops, chunk.max(text.len()), chunk);
    let config = model.config();
    let context = tokens.len().max(text.len()) + GREEDY;
    let mut kv = ops.kv(&config.kv_plan(context, 1, KvFormat::F32, KvFormat::F32));
    if !text.is_empty() {
        let positions: Vec<u32> = (0..text.len() as u32).collect();
        let step = Step { tokens: text, positions: &positions, sequences: &vec![0; text.len()], outputs: &[] };
        model.encode(&mut Pass { ops: &mut *ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        ops.finish().expect("no fault");
    }
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
    if !has_gpu(adapters().len()) {
        return;
    }
    let adapter = Some(AdapterChoice::Index(0));
    // Open throughout, and with it the compiled shaders.
    let gpu = Gpu::new(&GpuOptions { adapter, variant: Some(EXACT), ..GpuOptions::default() }).unwrap();
    let only = std::env::var("CANDOR_ONLY").ok();
    let (mut ran, mut faults) = (0, Vec::new());
    for folder in architectures() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        if only.as_ref().is_some_and(|only| !only.split(',').any(|one| one == name)) {
            continue;
        }
        let gguf = Gguf::open(folder.join("model.gguf")).unwrap();
        let missing = missing_on_gpus(&gguf, &[]).unwrap();
        if !missing.is_empty() {
            faults.push(format!("{name}: {missing:?} is missing"));
            continue;
        }
        let record = json(&folder.join("tokens.json"));
        let tokens = ids(&record["tokens"]);
        let text = if record["encoder_tokens"].is_null() { Vec::new() } else { ids(&record["encoder_tokens"]) };
        let input = Input { text: &text, tokens: &tokens };
        let (mut reference, mut gpu) = (Reference, gpu.clone());
        let exact = Decoder::load(&gguf, &mut reference).unwrap();
        let (want, likeliest) = run(&exact, &mut reference, input, tokens.len());
        let model = Decoder::load(&gguf, &mut gpu).unwrap();
        // Rows of an encoder see later ones, which must be there.
        let chunks = if exact.config().gives == Gives::Embeddings { vec![tokens.len()] } else { vec![tokens.len(), 5] };
        let mut errors = Vec::new();
        for chunk in chunks {
            let (got, after) = run(&model, &mut gpu, input, chunk);
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
    assert!(only.is_some() || ran > if fixtures().is_some() { 90 } else { 5 }, "{ran}");
}
