//! Sessions on a GPU: logits as near to exact results as 32-bit floats are, greedy tokens, what is saved. Skipped where there
//! is no adapter, a software one (lavapipe) included.

use candor::{
    Adapter, Device, Error, GenerateOptions, Gguf, KvFormat, LoadOptions, Model, Placement, Sampling, Session,
    SessionOptions, Traffic, Verify,
};
use candor_gpu::{AdapterChoice, GpuOptions, Variant, adapters};
use candor_testing::{Lora, Tiny, argmax, fixtures, has_gpu, ids, json, nmse, npy};

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

pub(crate) fn exact_cache() -> SessionOptions {
    SessionOptions::default().keys(KvFormat::F32).values(KvFormat::F32)
}

/// Sums of floats alone, whatever else the adapter has.
pub(crate) const EXACT: Variant = Variant { subgroups: false, int8_dot: false, f16: false, cooperative: None };

/// Options for the first adapter there is; prints a reason and returns `None` without one.
pub(crate) fn gpu(variant: Variant) -> Option<LoadOptions> {
    if !has_gpu(adapters().len()) {
        return None;
    }
    let gpu = GpuOptions::default().adapter(AdapterChoice::Index(0)).variant(variant);
    Some(LoadOptions::default().device(Device::Gpu).gpu(gpu).verify(Verify::Off))
}

fn all_logits(model: &Model, tokens: &[u32]) -> Vec<f32> {
    let mut logits = Vec::new();
    let mut session = model.session(&exact_cache()).unwrap();
    session.evaluate_each(tokens, |_, row| logits.extend_from_slice(row)).unwrap();
    logits
}

fn logits_decoded(model: &Model, tokens: &[u32]) -> Vec<f32> {
    let mut session = model.session(&exact_cache()).unwrap();
    let decoded = tokens.iter().map(|&token| {
        session.decode(token).unwrap();
        session.logits().to_vec()
    });
    decoded.flatten().collect()
}

/// Greedy tokens after a prompt, as far as the model goes on.
fn generated(model: &Model, prompt: &[u32], count: usize) -> Vec<u32> {
    let mut session = model.session(&exact_cache()).unwrap();
    generate(&mut session, prompt, count)
}

fn generate(session: &mut Session, prompt: &[u32], count: usize) -> Vec<u32> {
    let options = GenerateOptions::default().max_tokens(count).sampling(Sampling::greedy());
    session.generate(prompt, options).unwrap().filter_map(|piece| piece.unwrap().token).collect()
}

fn tiny(bytes: Vec<u8>, options: &LoadOptions) -> Model {
    Model::from_gguf(Gguf::from_bytes(bytes.into()).unwrap(), options).unwrap()
}

#[test]
fn adapters_change_a_model_as_they_do_on_the_reference() {
    let Some(options) = gpu(EXACT) else { return };
    let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    let file = Lora { rank: 4, alpha: 8.0, seed: 11 }.gguf(&gguf, |name| name.starts_with("blk."));
    let adapters = vec![Adapter::from_gguf("one", file).unwrap().scaled(0.25)];
    let reference = LoadOptions::default().device(Device::Reference).adapters(adapters.clone());
    let [gpu, exact] =
        [options.adapters(adapters), reference].map(|options| Model::from_gguf(gguf.clone(), &options).unwrap());
    let tokens = [1, 9, 70, 80, 90, 9, 70, 81];
    let logits = |model: &Model, scale: f32| {
        let (mut session, mut logits) = (model.session(&exact_cache()).unwrap(), Vec::new());
        session.evaluate_each(&tokens, |_, _| ()).unwrap();
        session.scale_adapters(&[scale]).unwrap();
        session.truncate(0);
        session.evaluate_each(&tokens, |_, row| logits.extend_from_slice(row)).unwrap();
        logits
    };
    for scale in [0.25, 0.0, -1.0] {
        let (got, want) = (logits(&gpu, scale), logits(&exact, scale));
        assert!(nmse(&got, &want) < 1e-10, "scale {scale}: {:e}", nmse(&got, &want));
    }
    assert!(nmse(&logits(&exact, -1.0), &logits(&exact, 0.0)) > 1e-4);
}

#[test]
fn a_greedy_token_is_one_submit_and_a_few_bytes() {
    let Some(options) = gpu(EXACT) else { return };
    let shape = Tiny { layers: 3, dim: 64, ffn: 96, ..Tiny::default() };
    let model = tiny(shape.bytes(), &options);
    let mut session = model.session(&exact_cache().context(128)).unwrap();
    // So long that positions do not go past a power of two, with which the work of attention is shared out again.
    let mut text: Vec<u32> = (0..66).map(|i| 259 + i % 50).collect();
    // Twice: what is read after something written is one row of a prompt, of which there has been no step yet.
    (0..2).for_each(|_| text.extend(generate(&mut session, &text, 3)));
    let before = session.traffic();
    let tokens = generate(&mut session, &text, 20);
    let after = session.traffic();
    assert_eq!(tokens.len(), 20);
    assert_eq!(after.submits - before.submits, 20, "{before:?} {after:?}");
    assert_eq!(after.bytes_read - before.bytes_read, 20 * 8, "{before:?} {after:?}");
    assert_eq!(after.made, before.made, "{before:?} {after:?}");
    assert!(session.logits().is_empty());

    let cpu = tiny(shape.bytes(), &options.device(Device::Cpu));
    let mut session = cpu.session(&exact_cache().context(128)).unwrap();
    assert_eq!(generate(&mut session, &text, 20), tokens);
    assert_eq!(session.traffic(), Traffic::default());
    assert!(!session.logits().is_empty());
}

#[test]
fn what_comes_after_greedy_tokens_is_as_if_logits_had_been_read() {
    let Some(options) = gpu(EXACT) else { return };
    let model = tiny(Tiny::default().bytes(), &options);
    let prompt = [1, 270, 280, 290];
    let mut session = model.session(&exact_cache()).unwrap();
    let first = generate(&mut session, &prompt, 1);
    // Nothing is to be computed: the best token is known, and then it is not where logits are needed.
    let before = session.traffic();
    assert_eq!(generate(&mut session, &prompt, 1), first);
    assert_eq!(session.traffic(), before);
    let sampling = Sampling::greedy().logit_bias(vec![(first[0], f32::NEG_INFINITY)]);
    let options = GenerateOptions::default().max_tokens(1).sampling(sampling);
    let second: Vec<u32> =
        session.generate(&prompt, options).unwrap().filter_map(|piece| piece.unwrap().token).collect();
    assert!(session.logits().is_empty());
    session.truncate(prompt.len() - 1);
    session.evaluate(&prompt[prompt.len() - 1..]).unwrap();
    let mut logits = session.logits().to_vec();
    assert_eq!(argmax(&logits), first[0]);
    logits[first[0] as usize] = f32::NEG_INFINITY;
    assert_eq!(second, [argmax(&logits)]);
    // What was known is not known of a shorter text.
    session.truncate(1);
    generate(&mut session, &prompt, 1);
    session.truncate(2);
    let shorter = generated(&model, &prompt[..2], 1);
    assert_ne!(shorter, first);
    assert_eq!(generate(&mut session, &prompt[..2], 1), shorter);
}

#[test]
fn a_logit_that_is_not_a_number_is_an_error_of_greedy_generation() {
    let Some(options) = gpu(EXACT) else { return };
    let whole = Tiny::default().bytes();
    // The output's matrix is the last tensor: of one row's last element, or of all.
    for count in [1, Tiny::VOCAB * Tiny::default().dim] {
        let mut bytes = whole.clone();
        let at = bytes.len() - 4 * count;
        bytes[at..].chunks_exact_mut(4).for_each(|value| value.copy_from_slice(&f32::NAN.to_le_bytes()));
        let model = tiny(bytes, &options);
        let mut session = model.session(&exact_cache()).unwrap();
        let options = GenerateOptions::default().sampling(Sampling::greedy());
        let mut generation = session.generate(&[1, 270, 280], options).unwrap();
        let error = generation.next().unwrap().unwrap_err();
        assert!(matches!(error, Error::NotFinite { position: 2 }), "{count}: {error}");
    }
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

        let mut session = model.session(&exact_cache()).unwrap();
        session.evaluate(&tokens).unwrap();
        for (step, &expected) in greedy.iter().enumerate() {
            let next = argmax(session.logits());
            assert_eq!(next, expected, "{name}: greedy step {step}");
            session.evaluate(&[next]).unwrap();
        }
        assert_eq!(generated(&model, &tokens, greedy.len()), greedy, "{name}: picked on the device");
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
        let model = Model::open(folder.join("model.gguf"), &options).unwrap();
        let error = nmse(&all_logits(&model, &tokens), &npy(&folder.join("logits_exact.npy")));
        println!("{name:32} NMSE {error:.1e}");
        assert!(error < 1e-9, "{name}: NMSE {error:e}");
        ran.push(name);
        open = Some(model);
    }
    drop(open);
    assert!(ran.len() >= 20, "{ran:?}");
}

/// Reading and decoding are different kernels. What rounds inputs may err as llama.cpp does, which
/// rounds them likewise; the rest is exact.
#[test]
fn every_variant_runs_a_model() {
    let Some(fixtures) = fixtures() else { return };
    let Some(options) = gpu(EXACT) else { return };
    let has = adapters()[0].clone();
    for bits in 0..16 {
        let [subgroups, int8_dot, f16, cooperative] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
        if (subgroups && !has.subgroups) || (f16 && !has.f16) || (cooperative && has.cooperative.is_none()) {
            continue;
        }
        let variant = Variant { subgroups, int8_dot, f16, cooperative: has.cooperative.filter(|_| cooperative) };
        let gpu = options.gpu.clone().variant(variant);
        let options = options.clone().gpu(gpu);
        for (name, logits, block) in [
            ("qwen3", "logits_hf", false),
            ("quant-llama-F16", "logits_exact", false),
            ("quant-llama-wide256-Q4_K_M", "logits_exact", true),
            ("quant-llama-wide256-IQ3_S", "logits_exact", true),
        ] {
            let folder = fixtures.join("arch").join(name);
            let model = Model::open(folder.join("model.gguf"), &options).unwrap();
            let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
            let expected = npy(&folder.join(format!("{logits}.npy")));
            for decoding in [true, false] {
                let bytes = int8_dot && block && (decoding || !cooperative);
                let rounds = bytes || (f16 || cooperative) && !decoding && name != "qwen3";
                let bound = match rounds {
                    true => 1.15 * json(&folder.join("meta.json"))["nmse_llamacpp_vs_exact_dequant"].as_f64().unwrap(),
                    false => 1e-9,
                };
                let logits = if decoding { logits_decoded(&model, &tokens) } else { all_logits(&model, &tokens) };
                let (error, role) = (nmse(&logits, &expected), if decoding { "decoded" } else { "read" });
                println!("{name:28} {variant:?}, {role}: NMSE {error:.2e}, at most {bound:.2e}");
                assert!(error < bound, "{name}, {variant:?}, {role}: NMSE {error:e}, at most {bound:e}");
                assert!(!rounds || error > 1e-9, "{name}, {variant:?}, {role}: {error:e} is not rounded");
            }
        }
    }
}

#[test]
fn the_best_token_is_saved_where_there_are_no_logits() {
    let Some(options) = gpu(EXACT) else { return };
    let bytes = Tiny::default().bytes();
    let model = tiny(bytes.clone(), &options);
    let mut session = model.session(&exact_cache()).unwrap();
    let prompt = [1, 270, 280, 290];
    let expected = generate(&mut session, &prompt, 3);
    session.truncate(0);
    let mut file = Vec::new();
    // A prompt that is read, of which nothing has been answered.
    let nothing = GenerateOptions::default().max_tokens(0).sampling(Sampling::greedy());
    session.generate(&prompt, nothing).unwrap().for_each(drop);
    assert!(session.logits().is_empty() && session.tokens() == prompt, "{:?}", session.tokens());
    session.save(&mut file).unwrap();
    for device in [Device::Gpu, Device::Cpu] {
        let model = tiny(bytes.clone(), &options.clone().device(device));
        let mut session = model.session(&exact_cache()).unwrap();
        session.load(&file).unwrap();
        let options = GenerateOptions::default().max_tokens(3).sampling(Sampling::greedy());
        let mut generation = session.generate(&prompt, options).unwrap();
        let tokens: Vec<u32> = generation.by_ref().filter_map(|piece| piece.unwrap().token).collect();
        assert_eq!((tokens, generation.timings().prompt_tokens), (expected.clone(), 0), "{device:?}");
    }
}

/// Between a GPU, the processor, and both together.
#[test]
fn sessions_are_saved_on_one_device_and_go_on_on_another() {
    let (Some(on_gpu), Some(fixtures)) = (gpu(EXACT), fixtures()) else { return };
    let tiny = Tiny { head_dim: 32, layers: 3, ..Tiny::default() }.bytes();
    let mut models = vec![("tiny", Gguf::from_bytes(tiny.into()).unwrap())];
    for name in ["falcon-mamba", "jamba", "rwkv7", "lfm2", "qwen3next", "deepseek2-v2", "gemma3-long200"] {
        models.push((name, Gguf::open(fixtures.join("arch").join(name).join("model.gguf")).unwrap()));
    }
    for (name, gguf) in models {
        let cpu = on_gpu.clone().device(Device::Cpu);
        let halves = vec![(Device::Cpu, 0..1), (Device::Gpu, 1..3)];
        let both = on_gpu.clone().placement(Placement::Parts(halves));
        let mut devices = vec![cpu, on_gpu.clone()];
        devices.extend((name == "tiny").then_some(both));
        let models: Vec<_> = devices.iter().map(|options| Model::from_gguf(gguf.clone(), options).unwrap()).collect();
        // Enough that layers with a window begin again at their start.
        let (count, context) = if name == "gemma3-long200" { (330, 400) } else { (19, 48) };
        let tokens: Vec<u32> = (0..count).map(|i| 3 + i * 7 % 50).collect();
        for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0, KvFormat::Q4_0] {
            let options = SessionOptions::default().context(context).batch(8).ubatch(8).keys(format).values(format);
            for (i, writer) in models.iter().enumerate() {
                let Ok(mut written) = writer.session(&options) else { continue };
                written.evaluate(&tokens).unwrap();
                let mut file = Vec::new();
                written.save(&mut file).unwrap();
                written.evaluate(&[12, 13]).unwrap();
                for (j, reader) in models.iter().enumerate() {
                    let mut read = reader.session(&options).unwrap();
                    read.evaluate(&[5, 6, 7]).unwrap();
                    assert_eq!(read.load(&file).unwrap(), tokens.len());
                    let mut again = Vec::new();
                    read.save(&mut again).unwrap();
                    assert!(again == file, "{name}, {format:?}: from {i} to {j}");
                    read.evaluate(&[12, 13]).unwrap();
                    let error = nmse(read.logits(), written.logits());
                    println!("{name}, {format:?}: from {i} to {j}: {error:.1e}");
                    // Numbers of 4 bits are far apart, and what is nearly between two may become either.
                    let most = if format == KvFormat::Q4_0 { 1e-4 } else { 1e-6 };
                    let most = if i == j { 1e-30 } else { most };
                    assert!(error < most, "{name}, {format:?}: from {i} to {j}: {error:e}");
                }
            }
        }
    }
}

/// Experts, states, windows and a latent cache, through a session: fed in pieces, and after going back.
#[test]
fn sessions_of_other_architectures_go_back() {
    let (Some(on_gpu), Some(fixtures)) = (gpu(EXACT), fixtures()) else { return };
    let mut open = None;
    for name in ["mixtral", "mamba2", "rwkv7", "lfm2", "gemma3-long200", "deepseek2-v2"] {
        let folder = fixtures.join("arch").join(name);
        let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
        // Chosen by itself, since nothing that the model needs is missing.
        let options = on_gpu.clone().device(Device::Auto);
        let model = Model::open(folder.join("model.gguf"), &options).unwrap();
        assert!(model.device_label().starts_with("gpu"), "{name}: {}", model.device_label());
        let exact = Model::open(folder.join("model.gguf"), &on_gpu.clone().device(Device::Reference));
        let mut reference = exact.unwrap().session(&exact_cache()).unwrap();
        reference.evaluate(&tokens).unwrap();
        let options = exact_cache().context(tokens.len() + 8).batch(7).ubatch(7);
        let mut session = model.session(&options).unwrap();
        for kept in [0, tokens.len() - 1, 3] {
            session.evaluate(&[3, 4, 5]).unwrap();
            session.truncate(kept);
            session.evaluate(&tokens[kept..]).unwrap();
            let error = nmse(session.logits(), reference.logits());
            println!("{name:20} {kept} kept: NMSE {error:.1e}");
            assert!(error < 1e-9, "{name}, {kept} kept: NMSE {error:e}");
        }
        // A token is one submit, and once one of each role was computed nothing is made for the next.
        let options = exact_cache().context(tokens.len() + 16);
        let mut session = model.session(&options).unwrap();
        let mut text = tokens.clone();
        (0..2).for_each(|_| text.extend(generate(&mut session, &text, 3)));
        let before = session.traffic();
        let count = generate(&mut session, &text, 3).len() as u64;
        let after = session.traffic();
        assert!(count > 0 && after.submits - before.submits == count, "{name}, {count}: {before:?} {after:?}");
        assert_eq!(after.made, before.made, "{name}: {before:?} {after:?}");
        open = Some(model);
    }
    drop(open);
}
