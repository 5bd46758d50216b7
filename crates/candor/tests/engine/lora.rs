//! Adapters against llama.cpp's and against weights that they are merged into, on every kind of layer; their scales; files that are none.

use std::path::Path;

use candor::{
    Adapter, BatchOptions, Batching, Device, Error, GenerateOptions, Gguf, KvFormat, LoadOptions, Model, Outputs, Role,
    Sampling, SequenceId, Session, SessionOptions, Value, Want, adapter,
};
use candor_testing::{Lora, Tiny, TinyT5, fixtures, ids, is_matrix, json, merged, nmse};

const TOKENS: [u32; 11] = [1, 9, 70, 80, 90, 9, 70, 81, 91, 101, 111];

const FIRST: Lora = Lora { rank: 4, alpha: 8.0, seed: 11 };
const SECOND: Lora = Lora { rank: 3, alpha: 0.0, seed: 12 };

fn load(gguf: &Gguf, device: Device, adapters: &[Adapter]) -> Result<Model, Error> {
    let adapters = adapters.to_vec();
    let options = LoadOptions::default().device(device).adapters(adapters).threads(2).batching(Batching::Invariant);
    Model::from_gguf(gguf.clone(), &options)
}

fn adapter(name: &str, gguf: &Gguf) -> Adapter {
    Adapter::from_gguf(name, gguf.clone()).unwrap()
}

fn session(model: &Model) -> Session {
    let (keys, values) = (KvFormat::F32, KvFormat::F32);
    model.session(&SessionOptions::default().context(48).batch(8).keys(keys).values(values)).unwrap()
}

fn logits(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    session.truncate(0);
    let mut all = Vec::new();
    session.evaluate_each(tokens, |_, row| all.extend_from_slice(row)).unwrap();
    all
}

fn tiny() -> Gguf {
    Gguf::from_bytes(Tiny::default().bytes().into()).unwrap()
}

/// The model with every weight changed in its last bit: how much that does is how exact merged weights can be.
fn nudged(model: &Gguf) -> Gguf {
    let mut writer = candor_gguf::Writer::new();
    model.metadata().iter().for_each(|(key, value)| writer.insert(key, value.clone()));
    for tensor in model.tensors() {
        let mut bytes = model.data(tensor).to_vec();
        // The lowest byte of a little-endian float.
        bytes.iter_mut().step_by(4).for_each(|byte| *byte ^= 1);
        assert_eq!(tensor.format, candor::Format::F32);
        writer.tensor(&tensor.name, tensor.format, &tensor.shape, bytes).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

/// What of a model's matrices an adapter may change: all but those that nothing is multiplied with.
fn targets(model: &Gguf) -> (Vec<String>, Vec<String>) {
    let matrices = model.tensors().iter().filter(|tensor| is_matrix(tensor));
    matrices.map(|tensor| tensor.name.clone()).partition(|name| {
        let one = FIRST.gguf(model, |other| other == name);
        match load(model, Device::Reference, &[adapter("one", &one)]) {
            Ok(_) => true,
            Err(Error::Adapter { error: adapter::Error::NoProduct { .. } | adapter::Error::Tied { .. }, .. }) => false,
            Err(error) => panic!("{name}: {error}"),
        }
    })
}

/// Parts of the names of matrices that are no factors of a product: convolutions, biases, tables of positions, vectors in the
/// shape of a matrix, and what RWKV 7 has in its first layer and does not use there.
const UNMULTIPLIED: [&str; 10] = [
    "conv",
    ".bias",
    "position_embd",
    "ssm_a",
    "ssm_d",
    "ssm_norm",
    "_lerp_",
    "time_mix_first",
    "blk.0.time_mix_v1",
    "blk.0.time_mix_v2",
];

#[test]
fn adapters_are_what_merged_weights_are_in_every_kind_of_layer() {
    let mut models = vec![("tiny".to_owned(), tiny())];
    if let Some(fixtures) = fixtures() {
        for name in [
            "llama",
            "qwen2",
            "gemma2",
            "gemma3",
            "mixtral",
            "qwen2moe",
            "deepseek2-lite",
            "deepseek2-v3",
            "phi3",
            "gpt2",
            "bloom",
            "mamba",
            "mamba2",
            "jamba",
            "rwkv6",
            "rwkv7",
            "lfm2",
            "falcon-h1",
            "qwen3next",
            "gpt-oss",
            "gemma4",
            "minicpm3",
            "llama4",
            "dbrx",
        ] {
            let file = fixtures.join(format!("arch/{name}/model.gguf"));
            models.push((name.to_owned(), Gguf::open(file).unwrap()));
        }
    }
    let mut failures = Vec::new();
    for (name, gguf) in models {
        let (changed, left) = targets(&gguf);
        let files = [FIRST, SECOND].map(|lora| lora.gguf(&gguf, |tensor| changed.iter().any(|name| name == tensor)));
        let adapters = [adapter("first", &files[0]).scaled(0.25), adapter("second", &files[1]).scaled(-0.125)];
        let expected = merged(&gguf, &[(&files[0], 0.25), (&files[1], -0.125)]);
        let nudged = logits(&mut session(&load(&nudged(&expected), Device::Reference, &[]).unwrap()), &TOKENS);
        let plain = logits(&mut session(&load(&gguf, Device::Reference, &[]).unwrap()), &TOKENS);
        let expected = logits(&mut session(&load(&expected, Device::Reference, &[]).unwrap()), &TOKENS);
        let adapted = load(&gguf, Device::Reference, &adapters).unwrap();
        let got = logits(&mut session(&adapted), &TOKENS);
        let (error, change) = (nmse(&got, &expected), nmse(&plain, &expected));
        // Some models take rounding worse than others: a few times what one rounding of every weight does.
        let most = f64::max(1e-12, 4.0 * nmse(&nudged, &expected));
        println!(
            "{name:16} {:3} changed, NMSE {error:.1e} of {most:.1e} (without: {change:.1e}); left {left:?}",
            changed.len()
        );
        if error > most || change < 1e-4 || changed.len() < 8 {
            failures.push(format!("{name}: NMSE {error:e}, without {change:e}, {} changed", changed.len()));
        }
        let tied = gguf.tensor("output.weight").is_none();
        let unmultiplied = |name: &String| UNMULTIPLIED.iter().any(|part| name.contains(part));
        if let Some(left) = left.iter().find(|left| !(unmultiplied(left) || tied && *left == "token_embd.weight")) {
            failures.push(format!("{name}: {left} should be changed"));
        }
        let cpu = logits(&mut session(&load(&gguf, Device::Cpu, &adapters).unwrap()), &TOKENS);
        let error = nmse(&cpu, &expected);
        if error > 1e-9 {
            failures.push(format!("{name} on the cpu: NMSE {error:e}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn logits_are_llama_cpps() {
    let Some(fixtures) = fixtures() else { return };
    let record = json(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens/lora.json")));
    let row = |value: &serde_json::Value| -> Vec<f32> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
    };
    let loras = [FIRST, SECOND];
    for (lora, made) in loras.iter().zip(record["adapters"].as_array().unwrap()) {
        assert_eq!(made["rank"], lora.rank);
        assert_eq!(made["alpha"], f64::from(lora.alpha));
        assert_eq!(made["seed"], lora.seed);
    }
    let cases = record["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let name = case["model"].as_str().unwrap();
        let folder = fixtures.join("arch").join(name);
        let gguf = Gguf::open(folder.join("model.gguf")).unwrap();
        let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
        let tied = gguf.tensor("output.weight").is_none();
        let adapters =
            loras.map(|lora| adapter("made", &lora.gguf(&gguf, |tensor| !(tied && tensor == "token_embd.weight"))));
        let scales = row(&case["scales"]);
        for device in [Device::Reference, Device::Cpu] {
            let mut session = session(&load(&gguf, device, &adapters).unwrap());
            session.scale_adapters(&scales).unwrap();
            session.evaluate(&tokens).unwrap();
            let error = nmse(session.logits(), &row(&case["logits"]));
            println!("{name:8} {scales:?} {device:?}: NMSE {error:.1e}");
            // llama.cpp's GELU is a table of halves.
            let most = if name == "gemma2" { 1e-6 } else { 1e-9 };
            assert!(error < most, "{name} {scales:?} on {device:?}: NMSE {error:e}");
        }
    }
}

/// A file's logits with one token at a time.
fn stepwise(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    session.truncate(0);
    let mut all = Vec::new();
    for &token in tokens {
        session.evaluate(&[token]).unwrap();
        all.extend_from_slice(session.logits());
    }
    all
}

/// The tiny model with two adapters of all that it has.
fn adapted(device: Device) -> (Gguf, [Gguf; 2], Model) {
    let gguf = tiny();
    let files = [FIRST, SECOND].map(|lora| lora.gguf(&gguf, |_| true));
    let adapters = [adapter("first", &files[0]), adapter("second", &files[1])];
    let model = load(&gguf, device, &adapters).unwrap();
    (gguf, files, model)
}

#[test]
fn a_prompt_gives_what_its_tokens_give_one_by_one() {
    for device in [Device::Reference, Device::Cpu] {
        let (_, _, model) = adapted(device);
        let mut session = session(&model);
        assert_eq!(logits(&mut session, &TOKENS), stepwise(&mut session, &TOKENS), "{device:?}");
        let mut last = Vec::new();
        session.truncate(0);
        session.evaluate(&TOKENS).unwrap();
        last.extend_from_slice(session.logits());
        session.truncate(TOKENS.len() - 1);
        session.evaluate(&TOKENS[TOKENS.len() - 1..]).unwrap();
        assert_eq!(last, session.logits(), "{device:?}");
    }
}

#[test]
fn scales_are_a_sessions_own_and_change_all_that_it_has_seen() {
    let (gguf, files, model) = adapted(Device::Reference);
    let merged = |scales: [f32; 2]| {
        let pairs = [(&files[0], scales[0]), (&files[1], scales[1])];
        let used: Vec<_> = pairs.into_iter().filter(|(_, scale)| *scale != 0.0).collect();
        load(&merged(&gguf, &used), Device::Reference, &[]).unwrap()
    };
    let (mut one, mut other) = (session(&model), session(&model));
    let untouched = logits(&mut other, &TOKENS);
    assert_eq!(one.adapter_scales(), [1.0, 1.0]);
    one.evaluate(&TOKENS[..7]).unwrap();
    for scales in [[0.5, 2.0], [0.0, 1.0], [0.0, 0.0], [-1.0, 0.25], [1.0, 1.0]] {
        one.scale_adapters(&scales).unwrap();
        assert!(one.logits().is_empty() && one.tokens().len() >= 7, "tokens stay, what came of them does not");
        one.truncate(7);
        one.evaluate(&TOKENS[7..]).unwrap();
        let mut expected = session(&merged(scales));
        expected.evaluate(&TOKENS).unwrap();
        let error = nmse(one.logits(), expected.logits());
        assert!(error < 1e-12, "{scales:?}: NMSE {error:e}");
        if scales == [0.0; 2] {
            assert_eq!(one.logits(), expected.logits(), "switched off is as if there were none");
        }
    }
    assert_eq!(logits(&mut other, &TOKENS), untouched, "the other session has its own");
    one.scale_adapters(&[1.0, 1.0]).unwrap();
    assert!(!one.logits().is_empty(), "the same scales change nothing");
    let message = one.scale_adapters(&[1.0]).unwrap_err().to_string();
    assert_eq!(message, "scales of adapters: expected 2, got 1");
}

#[test]
fn a_text_is_read_anew_with_other_scales() {
    let gguf = Gguf::from_bytes(TinyT5::default().bytes().into()).unwrap();
    let file = FIRST.gguf(&gguf, |name| name.ends_with("attn_v.weight"));
    let model = load(&gguf, Device::Cpu, &[adapter("one", &file).scaled(0.0)]).unwrap();
    let (text, answer) = ([9, 70, 80, 90, 2], [TinyT5::START, 11, 12]);
    let fresh = |scale: f32| {
        let mut session = session(&model);
        session.scale_adapters(&[scale]).unwrap();
        session.read_text(&text).unwrap();
        logits(&mut session, &answer)
    };
    let mut session = session(&model);
    session.read_text(&text).unwrap();
    assert_eq!(logits(&mut session, &answer), fresh(0.0));
    session.scale_adapters(&[1.0]).unwrap();
    assert_eq!(logits(&mut session, &answer), fresh(1.0));
    assert_ne!(fresh(0.0), fresh(1.0));
    let (keys, values) = (KvFormat::F32, KvFormat::F32);
    let mut both = model.sequences(2, &SessionOptions::default().context(48).keys(keys).values(values)).unwrap();
    both.read_text(1, &text).unwrap();
    both.scale_adapters(&[1.0]).unwrap();
    both.evaluate(1, &answer).unwrap();
    let last = fresh(1.0);
    assert!(nmse(both.logits(), &last[last.len() - both.logits().len()..]) < 1e-10);
}

/// Sequences of a step have scales of their own, and the bits that they have alone with these.
#[test]
fn sequences_of_a_step_differ_in_their_scales() {
    for device in [Device::Reference, Device::Cpu] {
        let (_, _, model) = adapted(device);
        let alone = |scales: &[f32], tokens: &[u32]| {
            let mut session = session(&model);
            session.scale_adapters(scales).unwrap();
            session.evaluate(tokens).unwrap();
            session.decode(33).unwrap();
            session.logits().to_vec()
        };
        // That scales do what they say is held against merged weights above.
        assert!(alone(&[0.0, 0.0], &TOKENS) != alone(&[0.5, 2.0], &TOKENS));
        let mut options = BatchOptions::default();
        (options.sequences, options.context, options.rows) = (5, 48, 64);
        (options.keys, options.values) = (KvFormat::F32, KvFormat::F32);
        let mut batch = model.batch(&options).unwrap();
        let scales = [[1.0, 1.0], [0.0, 0.0], [0.5, 2.0], [1.0, 1.0]];
        let mut ids: Vec<SequenceId> = scales.iter().map(|_| batch.add().unwrap()).collect();
        for (number, (&id, scales)) in ids.iter().zip(&scales).enumerate() {
            batch.scale_adapters(id, scales).unwrap();
            batch.push(id, &TOKENS[..5 + number], Role::Prefill, Outputs::Last(Want::Embedding)).unwrap();
        }
        batch.step().unwrap();
        let found: Vec<(SequenceId, usize)> =
            batch.answers().map(|answer| (answer.sequence, answer.position)).collect();
        assert_eq!(found, [(ids[0], 4), (ids[1], 5), (ids[2], 6), (ids[3], 7)]);
        // A fork goes on with the scales of what it has seen.
        ids.push(batch.fork(ids[2], usize::MAX).unwrap());
        for (number, &id) in ids.iter().enumerate() {
            let want = if number == 2 { Want::Best(3) } else { Want::Logits };
            batch.push(id, &[33], Role::Decode, Outputs::Last(want)).unwrap();
        }
        batch.step().unwrap();
        for ((number, answer), of) in batch.answers().enumerate().zip([0, 1, 2, 3, 2]) {
            let expected = alone(&scales[of], &TOKENS[..5 + of]);
            assert_eq!(answer.sequence, ids[number]);
            match answer.value {
                Value::Logits(logits) => assert!(logits == expected, "{device:?}: sequence {number}"),
                Value::Best(best) => {
                    assert!(best.iter().all(|&(token, logit)| expected[token as usize] == logit), "{best:?}");
                }
                Value::Embedding(_) => panic!("nobody asked for rows"),
            }
        }
        // What a sequence has seen is computed again with other scales, and the others go on as before.
        batch.scale_adapters(ids[0], &[0.0, 0.0]).unwrap();
        assert_eq!((batch.missing(ids[0]).unwrap(), batch.missing(ids[3]).unwrap()), (6, 0));
        batch.truncate(ids[0], 5).unwrap();
        batch.push(ids[0], &[33], Role::Decode, Outputs::Last(Want::Logits)).unwrap();
        batch.step().unwrap();
        let Value::Logits(logits) = batch.answers().next().unwrap().value else { panic!("logits") };
        assert!(logits == alone(&[0.0, 0.0], &TOKENS[..5]));
        assert!(matches!(batch.scale_adapters(ids[0], &[1.0]), Err(Error::Scales { .. })));
    }
}

#[test]
fn sequences_have_scales_too() {
    let (_, _, model) = adapted(Device::Cpu);
    let options = SessionOptions::default().context(48).keys(KvFormat::F32).values(KvFormat::F32);
    let mut sequences = model.sequences(2, &options).unwrap();
    for number in 0..2 {
        sequences.evaluate(number, &TOKENS[..5 + number]).unwrap();
    }
    sequences.scale_adapters(&[0.5, 0.0]).unwrap();
    sequences.advance(&[33, 44]).unwrap();
    let mut single = session(&model);
    single.scale_adapters(&[0.5, 0.0]).unwrap();
    for (number, row) in sequences.logits().chunks_exact(Tiny::VOCAB).enumerate() {
        single.truncate(0);
        single.evaluate(&[&TOKENS[..5 + number], &[[33, 44][number]]].concat()).unwrap();
        assert_eq!(single.logits(), row, "sequence {number}");
    }
}

#[test]
fn a_saved_session_belongs_to_its_adapters_and_scales() {
    let (gguf, files, model) = adapted(Device::Cpu);
    let mut saving = session(&model);
    saving.evaluate(&TOKENS).unwrap();
    let mut file = Vec::new();
    saving.save(&mut file).unwrap();
    let back = |model: &Model, scales: &[f32]| {
        let mut session = session(model);
        session.scale_adapters(scales).unwrap();
        session.load(&file).map_err(|error| error.to_string())
    };
    assert_eq!(back(&model, &[1.0, 1.0]), Ok(TOKENS.len()));
    let third = Lora { seed: 13, ..SECOND }.gguf(&gguf, |_| true);
    let others = load(&gguf, Device::Cpu, &[adapter("first", &files[0]), adapter("second", &third)]).unwrap();
    let without = load(&gguf, Device::Cpu, &[]).unwrap();
    for refused in [
        back(&model, &[1.0, 0.999_999_9]),
        back(&model, &[0.0, 1.0]),
        back(&model, &[0.0, 0.0]),
        back(&others, &[1.0, 1.0]),
        back(&without, &[]),
    ] {
        assert!(refused.unwrap_err().contains("expected keys F32, values F32"));
    }
    // Without effect an adapter is as good as none.
    let mut off = session(&model);
    off.scale_adapters(&[0.0, 0.0]).unwrap();
    off.evaluate(&TOKENS).unwrap();
    let mut file = Vec::new();
    off.save(&mut file).unwrap();
    assert_eq!(session(&without).load(&file).unwrap(), TOKENS.len());
}

#[test]
fn generation_and_formats_of_adapters() {
    let gguf = tiny();
    let adapter_of = |format| {
        let exact = FIRST.gguf(&gguf, |name| name.contains("attn_q") || name.contains("ffn_down"));
        let mut writer = candor_gguf::Writer::new();
        exact.metadata().iter().for_each(|(key, value)| writer.insert(key, value.clone()));
        for tensor in exact.tensors() {
            let mut values = vec![0.0; tensor.elements() as usize];
            tensor.format.decode(&exact.data(tensor), &mut values);
            let format: candor::Format = if tensor.shape[0] % 32 == 0 { format } else { candor::Format::F16 };
            let mut bytes = vec![0; tensor.elements() as usize / format.block_len() * format.block_bytes()];
            format.encode(&values, &mut bytes).unwrap();
            writer.tensor(&tensor.name, format, &tensor.shape, bytes).unwrap();
        }
        Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
    };
    for format in [candor::Format::F16, candor::Format::Q8_0] {
        let file = adapter_of(format);
        let expected = load(&merged(&gguf, &[(&file, 1.0)]), Device::Reference, &[]).unwrap();
        let expected = logits(&mut session(&expected), &TOKENS);
        for (device, most) in [(Device::Reference, 1e-12), (Device::Cpu, 1e-3)] {
            let model = load(&gguf, device, &[adapter("quantized", &file)]).unwrap();
            let error = nmse(&logits(&mut session(&model), &TOKENS), &expected);
            assert!(error < most, "{} on {device:?}: NMSE {error:e}", format.name());
        }
    }
}

#[test]
fn a_device_that_holds_some_layers_has_their_changes() {
    let (gguf, files, whole) = adapted(Device::Reference);
    let parts = vec![(Device::Cpu, 0..1), (Device::Reference, 1..2)];
    let adapters = [adapter("first", &files[0]), adapter("second", &files[1])].to_vec();
    let placement = candor::Placement::Parts(parts);
    let model = Model::from_gguf(gguf, &LoadOptions::default().placement(placement).adapters(adapters)).unwrap();
    let expected = logits(&mut session(&whole), &TOKENS);
    let error = nmse(&logits(&mut session(&model), &TOKENS), &expected);
    assert!(error < 1e-9, "NMSE {error:e}");
    // And a text is generated with them, the same one.
    let [ours, theirs] = [&model, &whole].map(|model| {
        let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(9).ignore_eos(true);
        let mut session = session(model);
        session.generate(&TOKENS, options).unwrap().filter_map(|piece| piece.unwrap().token).collect::<Vec<_>>()
    });
    assert_eq!(ours, theirs);
}

/// A change of a right adapter's file.
fn changed(metadata: &[(&str, &str)], tensors: &[(&str, &[u64])], wanted: &str) -> Gguf {
    let mut writer = FIRST.writer(&tiny(), |name| name == wanted);
    for &(key, value) in metadata {
        writer.insert(key, value);
    }
    for (name, shape) in tensors {
        let bytes = vec![0u8; shape.iter().product::<u64>() as usize * 4];
        writer.tensor(name, candor::Format::F32, shape, bytes).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

#[test]
fn what_is_no_adapter_of_the_model_is_refused_in_a_line() {
    let q = "blk.0.attn_q.weight";
    let message = |model: &Gguf, file: Gguf| {
        let adapter = Adapter::from_gguf("x.gguf", file);
        let loaded = adapter.and_then(|adapter| load(model, Device::Reference, &[adapter]));
        loaded.map(drop).expect_err("must be refused").to_string()
    };
    let tied = Gguf::from_bytes(Tiny { head: false, ..Tiny::default() }.bytes().into()).unwrap();
    let mut alora = FIRST.writer(&tiny(), |name| name == q);
    alora.insert("adapter.alora.invocation_tokens", candor_gguf::Value::Array(candor_gguf::Array::U32(vec![5])));
    let alora = Gguf::from_bytes(alora.to_bytes().unwrap()).unwrap();
    let endless = Lora { alpha: f32::INFINITY, ..FIRST }.gguf(&tiny(), |name| name == q);
    let k = "blk.0.attn_k.weight";
    let with = |tensors: &[(&str, &[u64])]| changed(&[], tensors, q);
    for (model, file, expected) in [
        (&tiny(), tiny(), "metadata key general.type: expected \"adapter\", got \"no such key\""),
        (
            &tiny(),
            changed(&[("general.type", "model")], &[], q),
            "metadata key general.type: expected \"adapter\", got \"model\"",
        ),
        (
            &tiny(),
            changed(&[("adapter.type", "ia3")], &[], q),
            "metadata key adapter.type: expected \"lora\", got \"ia3\"",
        ),
        (
            &tiny(),
            changed(&[("general.architecture", "controlvector")], &[], q),
            "the file is a control vector, which is not supported: expected a LoRA adapter",
        ),
        (&tiny(), alora, "the file is an aLoRA (metadata key adapter.alora.invocation_tokens), which is not supported"),
        (&tiny(), endless, "metadata key adapter.lora.alpha: expected a finite number, got inf"),
        (
            &tiny(),
            changed(&[("general.architecture", "qwen2")], &[], q),
            "architecture: expected llama as the model's, got qwen2",
        ),
        (&tiny(), changed(&[], &[], "nothing"), "the file has no tensors"),
        (
            &tiny(),
            with(&[("blk.0.attn_norm.weight", &[32])]),
            "tensor blk.0.attn_norm.weight: expected a name that ends with .lora_a or .lora_b",
        ),
        (
            &tiny(),
            with(&[("blk.0.attn_k.weight.lora_a", &[32, 4])]),
            "tensor blk.0.attn_k.weight.lora_b is missing, the other half is there",
        ),
        (
            &tiny(),
            with(&[("blk.0.attn_k.weight.lora_b", &[4, 16])]),
            "tensor blk.0.attn_k.weight.lora_a is missing, the other half is there",
        ),
        (
            &tiny(),
            with(&[("blk.9.attn_k.weight.lora_a", &[32, 4]), ("blk.9.attn_k.weight.lora_b", &[4, 16])]),
            "tensor blk.9.attn_k.weight is not in the model",
        ),
        (
            &tiny(),
            with(&[("blk.0.attn_k.weight.lora_a", &[32, 4]), ("blk.0.attn_k.weight.lora_b", &[4, 17])]),
            "tensor blk.0.attn_k.weight.lora_b: expected [4, 16], got [4, 17]",
        ),
        (
            &tiny(),
            with(&[("blk.0.attn_k.weight.lora_a", &[4, 32]), ("blk.0.attn_k.weight.lora_b", &[4, 16])]),
            "tensor blk.0.attn_k.weight.lora_a: expected [32, 4], got [4, 32]",
        ),
        (
            &tiny(),
            with(&[("blk.0.attn_k.weight.lora_a", &[32, 5]), ("blk.0.attn_k.weight.lora_b", &[4, 16])]),
            "tensor blk.0.attn_k.weight.lora_a: expected [32, 4], got [32, 5]",
        ),
        (
            &tiny(),
            with(&[("blk.0.attn_k.weight.lora_a", &[32, 4, 2]), ("blk.0.attn_k.weight.lora_b", &[4, 16, 2])]),
            "tensor blk.0.attn_k.weight.lora_a: expected [32, 4], got [32, 4, 2]",
        ),
        (
            &tiny(),
            with(&[("blk.0.attn_norm.weight.lora_a", &[32, 4]), ("blk.0.attn_norm.weight.lora_b", &[4, 1])]),
            "tensor blk.0.attn_norm.weight: the model multiplies nothing with it, so that its change would be lost",
        ),
        (
            &tied,
            FIRST.gguf(&tied, |name| name == "token_embd.weight"),
            "tensor token_embd.weight: in this model it is the output, too, and an adapter of it does not say which it changes",
        ),
    ] {
        assert_eq!(message(model, file), format!("adapter x.gguf: {expected}"));
    }
    assert!(load(&tiny(), Device::Reference, &[adapter("right", &changed(&[], &[], k))]).is_ok());
    let refused = |gguf: &Gguf| load(gguf, Device::Reference, &[]).map(drop).expect_err("no model").to_string();
    let as_model = "the file is an adapter for llama models: it is no model itself";
    assert_eq!(refused(&changed(&[], &[], q)), as_model);
    let control = changed(&[("general.architecture", "controlvector")], &[], q);
    assert_eq!(refused(&control), "the file is a control vector: it is no model itself, and not supported");
}

#[test]
fn what_a_file_says_of_itself_is_told() {
    let file = changed(
        &[("adapter.lora.task_name", "rhymes"), ("adapter.lora.prompt_prefix", "Rhyme: ")],
        &[],
        "blk.1.ffn_up.weight",
    );
    let adapter = adapter("x.gguf", &file);
    assert_eq!((adapter.name(), adapter.architecture(), adapter.alpha()), ("x.gguf", "llama", 8.0));
    assert_eq!((adapter.task_name(), adapter.prompt_prefix()), (Some("rhymes"), Some("Rhyme: ")));
    assert_eq!(adapter.targets(), [adapter::Target { name: "blk.1.ffn_up.weight".into(), rank: 4 }]);
    assert_eq!((adapter.scale(), adapter.clone().scaled(0.5).scale()), (1.0, 0.5));
}
