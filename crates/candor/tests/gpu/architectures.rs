//! Every fixture architecture on a GPU, as near to the reference as 32-bit floats are: a prompt at once, its tokens decoded in
//! small steps, and what is likeliest after it. Skipped where there is no adapter, a software one (lavapipe) included.

use std::io::Write;

use candor::missing_on_gpus;
use candor_gguf::{Format, Gguf, Writer};
use candor_gpu::{AdapterChoice, Gpu, GpuOptions, Variant, adapters};
use candor_models::{Decoder, Gives, Pass};
use candor_ops::{KvFormat, Ops, Reference, Step};
use candor_testing::{Random, Tiny, architectures, argmax, fixtures, has_gpu, ids, json, nmse};

/// Sums of floats alone, whatever else the adapter has.
const EXACT: Variant = Variant { subgroups: false, int8_dot: false, f16: false, cooperative: None };

/// Largest NMSE.
const LIMIT: f64 = 1e-10;

/// How much worse than another way that rounds likewise: roundings differ once sums do.
const FACTOR: f64 = 2.0;

/// Likeliest tokens that are asked for.
const GREEDY: usize = 6;

/// Steps whose two best logits are closer than this may go either way.
const NEAR_TIE: f32 = 1e-3;

/// The same where weights and inputs are halves.
const NEAR_HALVES: f32 = 3e-2;

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

/// What a run gave for each token, logits or embeddings; and then the likeliest tokens, with all logits of each. Tokens that do
/// not come at once decode.
fn run<B: Ops>(model: &Decoder<B>, ops: &mut B, input: Input<'_>, chunk: usize) -> (Vec<f32>, Vec<Vec<f32>>) {
    let Input { text, tokens } = input;
    let mut scratch = model.scratch(ops, chunk.max(text.len()), chunk);
    let config = model.config();
    let context = tokens.len().max(text.len()) + GREEDY;
    let mut kv = ops.kv(&config.kv_plan(context, 1, KvFormat::F32, KvFormat::F32));
    if !text.is_empty() {
        let positions: Vec<u32> = (0..text.len() as u32).collect();
        let step =
            Step { tokens: text, positions: &positions, sequences: &vec![0; text.len()], outputs: &[], decoding: 0 };
        model.encode(&mut Pass { ops: &mut *ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        ops.finish().expect("no fault");
    }
    let mut step = |tokens: &[u32], first: usize, decodes: bool| {
        let positions: Vec<u32> = (first as u32..(first + tokens.len()) as u32).collect();
        let outputs: Vec<u32> = (0..tokens.len() as u32).collect();
        let sequences = vec![0; tokens.len()];
        let decoding = if decodes { tokens.len() } else { 0 };
        let step = Step { tokens, positions: &positions, sequences: &sequences, outputs: &outputs, decoding };
        model.forward(&mut Pass { ops: &mut *ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        values(ops, &scratch.logits)
    };
    let chunks = tokens.chunks(chunk).enumerate();
    let all: Vec<f32> = chunks.flat_map(|(number, some)| step(some, number * chunk, chunk < tokens.len())).collect();
    let mut next = all[all.len() / tokens.len() * (tokens.len() - 1)..].to_vec();
    let mut after = Vec::new();
    while config.gives == Gives::Logits && after.len() < GREEDY {
        let best = argmax(&next);
        after.push(std::mem::replace(&mut next, step(&[best], tokens.len() + after.len(), true)));
    }
    (all, after)
}

/// Where the likeliest tokens part ways, unless two of them are nearly as likely.
fn parted(got: &[Vec<f32>], want: &[Vec<f32>], near: f32) -> Option<String> {
    let step = got.iter().zip(want).position(|(got, want)| argmax(got) != argmax(want))?;
    let (got, want) = (argmax(&got[step]), &want[step]);
    let near = want[argmax(want) as usize] - want[got as usize] < near;
    (!near).then(|| format!("token {step}: {got} instead of {}", argmax(want)))
}

/// How a device is to compute, and what that may cost.
struct Way {
    variant: Variant,
    /// Steps whose two best logits are closer than this may go either way.
    near: f32,
    /// Another way that rounds likewise, which it may be worse than by a factor.
    like: Option<Variant>,
}

#[test]
fn every_architecture_is_the_reference() {
    if has_gpu(adapters().len()) {
        check(&Way { variant: EXACT, near: NEAR_TIE, like: None }, |file| file);
    }
}

/// With matrices of halves, since those of floats are multiplied as floats.
#[test]
fn every_architecture_runs_in_cooperative_matrices() {
    if !has_gpu(adapters().len()) {
        return;
    }
    let cooperative = adapters()[0].cooperative;
    if cooperative.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: the adapter has no cooperative matrices");
        return;
    }
    let (variant, like) = (Variant { cooperative, ..EXACT }, Some(Variant { f16: true, ..EXACT }));
    check(&Way { variant, near: NEAR_HALVES, like }, in_halves);
}

/// The same model, its matrices of floats as halves.
fn in_halves(file: Gguf) -> Gguf {
    let mut writer = Writer::new();
    file.metadata().iter().for_each(|(key, value)| writer.insert(key, value.clone()));
    for tensor in file.tensors() {
        let (format, mut bytes) = (tensor.format, file.data(tensor).to_vec());
        let halves = format == Format::F32 && tensor.shape.len() > 1;
        if halves {
            let mut values = vec![0.0; bytes.len() / 4];
            format.decode(&bytes, &mut values);
            bytes.truncate(values.len() * 2);
            Format::F16.encode(&values, &mut bytes).unwrap();
        }
        writer.tensor(&tensor.name, if halves { Format::F16 } else { format }, &tensor.shape, bytes).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

/// Formats of few bits, of which there are few fixtures: random blocks of them in the place of a tiny model's matrices.
const FEW_BITS: [Format; 10] = [
    Format::Iq2Xxs,
    Format::Nvfp4,
    Format::Iq3Xxs,
    Format::Tq2_0,
    Format::Iq1S,
    Format::Iq3S,
    Format::Iq2Xs,
    Format::Tq1_0,
    Format::Iq1M,
    Format::Iq2S,
];

/// A block of numbers of which the largest is neither small nor large.
fn block(random: &mut Random, format: Format) -> Vec<u8> {
    let mut values = vec![0.0f32; format.block_len()];
    loop {
        let block: Vec<u8> = (0..format.block_bytes()).map(|_| random.bits() as u8).collect();
        format.decode(&block, &mut values);
        let largest = values.iter().fold(0.0, |most: f32, v| if v.is_nan() { f32::NAN } else { most.max(v.abs()) });
        if (0.05..0.2).contains(&largest) {
            return block;
        }
    }
}

#[test]
fn a_model_of_few_bits_is_the_reference() {
    if !has_gpu(adapters().len()) {
        return;
    }
    let shape = Tiny { layers: 3, dim: 256, head_dim: 64, ffn: 512, ..Tiny::default() };
    let mut writer = Writer::new();
    shape.metadata().into_iter().for_each(|(key, value)| writer.insert(&key, value));
    let (mut random, mut formats) = (Random(5), FEW_BITS.into_iter().cycle());
    for (name, shape) in shape.tensors() {
        let (matrix, count) = (shape.len() > 1, shape.iter().product::<u64>() as usize);
        let format = if matrix { formats.next().unwrap() } else { Format::F32 };
        let bytes = match matrix {
            true => (0..count / format.block_len()).flat_map(|_| block(&mut random, format)).collect(),
            false => (0..count).flat_map(|_| (1.0 + 0.2 * random.signed()).to_le_bytes()).collect::<Vec<u8>>(),
        };
        writer.tensor(&name, format, &shape, bytes).unwrap();
    }
    let gguf = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
    let tokens: Vec<u32> = (0..12).map(|i| 259 + i * 7 % 50).collect();
    let (text, adapter) = (&[][..], Some(AdapterChoice::Index(0)));
    let mut gpu = Gpu::new(&GpuOptions::default().adapter(adapter).variant(EXACT)).unwrap();
    let exact = Decoder::load(&gguf, &mut Reference).unwrap();
    let (want, likeliest) = run(&exact, &mut Reference, Input { text, tokens: &tokens }, 12);
    let model = Decoder::load(&gguf, &mut gpu).unwrap();
    let (got, after) = run(&model, &mut gpu, Input { text, tokens: &tokens }, 12);
    let error = nmse(&got, &want);
    println!("NMSE {error:.1e}");
    assert!(error < LIMIT, "NMSE {error:.1e}");
    assert_eq!(parted(&after, &likeliest, NEAR_TIE), None);
}

fn check(way: &Way, prepare: fn(Gguf) -> Gguf) {
    let Way { variant, near, like } = *way;
    let adapter = Some(AdapterChoice::Index(0));
    // Open throughout, and with it the compiled shaders.
    let open = |variant| Gpu::new(&GpuOptions::default().adapter(adapter.clone()).variant(variant)).unwrap();
    let (gpu, like) = (open(Some(variant)), like.map(|variant| open(Some(variant))));
    let only = std::env::var("CANDOR_ONLY").ok();
    let (mut ran, mut faults) = (0, Vec::new());
    for folder in architectures() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        if only.as_ref().is_some_and(|only| !only.split(',').any(|one| one == name)) {
            continue;
        }
        let gguf = prepare(Gguf::open(folder.join("model.gguf")).unwrap());
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
        let whole = exact.config().gives == Gives::Embeddings;
        let chunks = if whole { vec![tokens.len()] } else { vec![tokens.len(), 5] };
        let mut shown = Vec::new();
        for chunk in chunks {
            let (got, after) = run(&model, &mut gpu, input, chunk);
            let error = nmse(&got, &want);
            let like = like.clone().map_or(0.0, |mut like| {
                let model = Decoder::load(&gguf, &mut like).unwrap();
                nmse(&run(&model, &mut like, input, chunk).0, &want)
            });
            let limit = LIMIT + FACTOR * like;
            if error.is_nan() || error >= limit {
                faults.push(format!("{name}, {chunk} at a time: NMSE {error:.1e}, at most {limit:.1e}"));
            }
            shown.push(if like > 0.0 { format!("{error:.1e} (like {like:.1e})") } else { format!("{error:.1e}") });
            faults.extend(parted(&after, &likeliest, near).map(|what| format!("{name}, {chunk} at a time: {what}")));
        }
        println!("{name:20} NMSE {}", shown.join(", "));
        ran += 1;
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(only.is_some() || ran > if fixtures().is_some() { 90 } else { 5 }, "{ran}");
}
