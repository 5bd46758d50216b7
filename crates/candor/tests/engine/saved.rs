//! Sessions in files: taken back to the bit, on whatever backend, refused where they do not belong, harmless where they are
//! damaged.

use candor::{
    Batching, Device, GenerateOptions, Gguf, KvFormat, LoadOptions, Model, Sampling, Session, SessionOptions,
};
use candor_testing::{Random, Tiny, fixtures, nmse};

const TEXT: [u32; 23] = [1, 9, 70, 80, 90, 9, 70, 81, 91, 101, 111, 121, 9, 70, 80, 33, 44, 55, 66, 77, 88, 99, 100];

fn load(device: Device) -> LoadOptions {
    LoadOptions::default().device(device).threads(2).batching(Batching::Invariant)
}

fn tiny(tiny: &Tiny, device: Device) -> Model {
    Model::from_gguf(Gguf::from_bytes(tiny.bytes().into()).unwrap(), &load(device)).unwrap()
}

/// A model without states, models with them, and one with both.
fn models(device: Device) -> Vec<Model> {
    let mut all = vec![tiny(&Tiny { head_dim: 32, ..Tiny::default() }, device)];
    let Some(fixtures) = fixtures() else { return all };
    for name in ["mamba2", "rwkv7", "lfm2", "falcon-h1"] {
        all.push(Model::open(fixtures.join(format!("arch/{name}/model.gguf")), &load(device)).unwrap());
    }
    all
}

fn session(model: &Model, format: KvFormat) -> Session {
    let options = SessionOptions::default().context(48).batch(8).keys(format).values(format);
    model.session(&options).unwrap()
}

fn saved(session: &mut Session) -> Vec<u8> {
    let mut file = Vec::new();
    session.save(&mut file).unwrap();
    file
}

fn bits(session: &Session) -> Vec<u32> {
    session.logits().iter().map(|logit| logit.to_bits()).collect()
}

/// Tokens, and how many of the prompt were computed.
fn generate(session: &mut Session, prompt: &[u32]) -> (Vec<u32>, usize) {
    let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(9).ignore_eos(true);
    let mut generation = session.generate(prompt, options).unwrap();
    let tokens = generation.by_ref().filter_map(|piece| piece.unwrap().token).collect();
    (tokens, generation.timings().prompt_tokens)
}

#[test]
fn what_was_saved_goes_on_as_if_it_had_never_stopped() {
    for device in [Device::Cpu, Device::Reference] {
        for model in models(device) {
            for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
                if format == KvFormat::Q8_0 && model.config().heads.key_dim % 32 != 0 {
                    continue;
                }
                for len in [1, 16, 17, TEXT.len()] {
                    let name = format!("{}, {format:?}, {len}", model.device_label());
                    let mut plain = session(&model, format);
                    plain.evaluate(&TEXT[..len]).unwrap();
                    let file = saved(&mut plain);
                    let mut back = session(&model, format);
                    back.evaluate(&[5, 6, 7]).unwrap();
                    assert_eq!(back.load(&file).unwrap(), len);
                    assert!(back.tokens() == plain.tokens() && bits(&back) == bits(&plain), "{name}");
                    assert!(saved(&mut back) == file, "{name}: saved again");
                    for session in [&mut plain, &mut back] {
                        session.evaluate(&[12, 13, 14]).unwrap();
                    }
                    assert!(bits(&back) == bits(&plain), "{name}: gone on");
                    // The same prompt, a longer and a shorter one: nothing is computed again that need not be.
                    let states = model.config().is_recurrent();
                    for (prompt, computed) in [
                        (&TEXT[..len], 0),
                        (&TEXT[..(len + 3).min(TEXT.len())], (len + 3).min(TEXT.len()) - len),
                        (
                            &TEXT[..len.min(9)],
                            if len <= 9 {
                                0
                            } else if states {
                                9
                            } else {
                                1
                            },
                        ),
                    ] {
                        back.load(&file).unwrap();
                        let expected = generate(&mut session(&model, format), prompt).0;
                        assert_eq!(generate(&mut back, prompt), (expected, computed), "{name}: {}", prompt.len());
                    }
                }
            }
        }
    }
}

/// The processor and the formulas keep the same numbers in other orders: what one wrote and the other took back is written
/// the same again, and goes on as it would have.
#[test]
fn a_file_is_the_same_whoever_writes_it() {
    let Some(fixtures) = fixtures() else { return };
    let tiny = Tiny { head_dim: 32, ..Tiny::default() }.bytes();
    let mut models = vec![("tiny", Gguf::from_bytes(tiny.into()).unwrap())];
    for name in
        ["falcon-mamba", "jamba", "mamba2", "rwkv6", "rwkv7", "lfm2", "qwen3next", "deepseek2-v2", "gemma3-long200"]
    {
        models.push((name, Gguf::open(fixtures.join(format!("arch/{name}/model.gguf"))).unwrap()));
    }
    for (name, gguf) in models {
        let [cpu, reference] =
            [Device::Cpu, Device::Reference].map(|device| Model::from_gguf(gguf.clone(), &load(device)).unwrap());
        // Enough that layers with a window begin again at their start.
        let (count, context) = if name == "gemma3-long200" { (330, 400) } else { (19, 48) };
        let tokens: Vec<u32> = (0..count).map(|i| 3 + i * 7 % 50).collect();
        for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0, KvFormat::Q4_0] {
            let options = SessionOptions::default().context(context).batch(8).ubatch(8).keys(format).values(format);
            let (Ok(mut on_cpu), Ok(mut on_reference)) = (cpu.session(&options), reference.session(&options)) else {
                assert!(matches!(format, KvFormat::Q8_0 | KvFormat::Q4_0), "{name}, {format:?}");
                continue;
            };
            on_cpu.evaluate(&tokens).unwrap();
            let file = saved(&mut on_cpu);
            assert_eq!(on_reference.load(&file).unwrap(), tokens.len());
            assert!(saved(&mut on_reference) == file, "{name}, {format:?}: from the processor");
            let mut back = cpu.session(&options).unwrap();
            back.evaluate(&[5, 6, 7]).unwrap();
            back.load(&file).unwrap();
            assert!(saved(&mut back) == file, "{name}, {format:?}: and back");
            for session in [&mut on_cpu, &mut on_reference] {
                session.evaluate(&[12, 13]).unwrap();
            }
            let error = nmse(on_cpu.logits(), on_reference.logits());
            let most = if format == KvFormat::Q4_0 { 1e-4 } else { 1e-6 };
            println!("{name}, {format:?}: {error:.1e}");
            assert!(error < most, "{name}, {format:?}: {error:e}");
        }
    }
}

#[test]
fn what_was_forgotten_or_guessed_is_not_saved() {
    use candor::speculate::{PromptLookup, Speculation};
    for model in models(Device::Cpu) {
        let mut fresh = session(&model, KvFormat::F32);
        fresh.evaluate(&TEXT[..7]).unwrap();
        let mut back = session(&model, KvFormat::F32);
        back.evaluate(&TEXT).unwrap();
        back.truncate(7);
        let file = saved(&mut back);
        back.load(&file).unwrap();
        for session in [&mut fresh, &mut back] {
            session.evaluate(&TEXT[7..]).unwrap();
        }
        assert!(bits(&back) == bits(&fresh));
        if model.config().is_recurrent() {
            continue;
        }
        back.speculate(Some(Speculation::new(PromptLookup { longest: 1, shortest: 1 }))).unwrap();
        let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(9);
        let mut generation = back.generate(&TEXT, options).unwrap();
        for _ in 0..3 {
            generation.next();
        }
        let mut file = Vec::new();
        generation.save(&mut file).unwrap();
        let tokens = generation.session().tokens().to_vec();
        let mut loaded = session(&model, KvFormat::F32);
        assert_eq!(loaded.load(&file).unwrap(), tokens.len());
        assert_eq!(loaded.tokens(), tokens);
    }
}

/// What kernels for many inputs computed depends on how tokens were cut into batches.
#[test]
fn who_wants_the_same_bits_in_all_batches_takes_no_others() {
    let invariant = tiny(&Tiny::default(), Device::Cpu);
    let options = load(Device::Cpu).batching(Batching::Fastest);
    let fastest = Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &options).unwrap();
    let [ours, theirs] = [&invariant, &fastest].map(|model| {
        let mut writer = session(model, KvFormat::F16);
        writer.evaluate(&TEXT).unwrap();
        saved(&mut writer)
    });
    let taken = |model: &Model, file: &[u8]| session(model, KvFormat::F16).load(file).is_ok();
    assert!(taken(&invariant, &ours) && taken(&fastest, &theirs) && taken(&fastest, &ours));
    assert!(!taken(&invariant, &theirs));
}

#[test]
fn what_does_not_belong_is_refused_by_name() {
    let model = tiny(&Tiny::default(), Device::Cpu);
    let mut writer = session(&model, KvFormat::F16);
    writer.evaluate(&TEXT).unwrap();
    let file = saved(&mut writer);
    let refused = |model: &Model, options: SessionOptions, file: &[u8]| {
        let mut session = model.session(&options).unwrap();
        session.evaluate(&[3, 4]).unwrap();
        let error = session.load(file).unwrap_err().to_string();
        assert!(session.tokens().is_empty() && session.logits().is_empty());
        error
    };
    let options = SessionOptions::default().context(48);
    // The same metadata and directory: only the weights differ.
    let other = tiny(&Tiny { seed: 2, ..Tiny::default() }, Device::Cpu);
    assert_eq!(refused(&other, options, &file), "it belongs to another model");
    assert_eq!(
        refused(&model, options.keys(KvFormat::F32), &file),
        "expected keys F32, values F16, the same in all batches, got keys F16, values F16, the same in all batches"
    );
    assert_eq!(refused(&model, options.context(22), &file), "it has 23 tokens, the context holds 22");
    let mut next = file.clone();
    next[8] = 1;
    assert_eq!(refused(&model, options, &next), "expected version 4 of saved sessions, got 1");
    let no = "expected a saved session, which begins with \"candorpc\"";
    for other in [&b""[..], b"candor", b"GGUF0000000000000000000000", &[0; 300]] {
        assert_eq!(refused(&model, options, other), no);
    }
}

#[test]
fn damage_is_noticed_and_harmless() {
    let model = tiny(&Tiny::default(), Device::Cpu);
    let mut written = session(&model, KvFormat::F16);
    written.evaluate(&TEXT[..5]).unwrap();
    let file = saved(&mut written);
    let expected = {
        let mut fresh = session(&model, KvFormat::F16);
        fresh.evaluate(&TEXT).unwrap();
        bits(&fresh)
    };
    let mut reader = session(&model, KvFormat::F16);
    for cut in 0..file.len() {
        assert!(reader.load(&file[..cut]).is_err(), "cut at {cut}");
    }
    assert!(reader.load(&[&file[..], &[0]].concat()).is_err(), "a byte too many");
    let mut random = Random(3);
    for _ in 0..3000 {
        let mut changed = file.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(changed.len());
            changed[at] ^= 1 << random.below(8);
        }
        assert!(changed == file || reader.load(&changed).is_err());
    }
    reader.evaluate(&TEXT).unwrap();
    assert!(bits(&reader) == expected, "usable afterwards");
}
