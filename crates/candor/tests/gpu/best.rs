//! Sampling from the best logits that a device finds: the texts are those of all logits, and few bytes come back. Skipped
//! where there is no adapter, a software one (lavapipe) included.

use candor::{
    Device, Error, GenerateOptions, Gguf, KvFormat, LoadOptions, Model, Sampling, Session, SessionOptions, Verify,
    sampler::{Sampler, Vocabulary},
};
use candor_gpu::{AdapterChoice, GpuOptions, Variant, adapters};
use candor_testing::{Tiny, fixtures, has_gpu, ids, json};

fn cache() -> SessionOptions {
    SessionOptions::default().keys(KvFormat::F32).values(KvFormat::F32)
}

/// Options for the first adapter, with subgroups or without; none where it has none.
fn gpu(subgroups: bool) -> Option<LoadOptions> {
    if !has_gpu(adapters().len()) || subgroups && !adapters()[0].subgroups {
        return None;
    }
    let variant = Some(Variant { subgroups, ..Variant::default() });
    let gpu = GpuOptions::default().adapter(AdapterChoice::Index(0)).variant(variant);
    Some(LoadOptions::default().device(Device::Gpu).gpu(gpu).verify(Verify::Off))
}

fn tiny(options: &LoadOptions) -> Model {
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), options).unwrap()
}

fn seeded(seed: u32) -> Sampling {
    Sampling::default().seed(seed)
}

/// Sampled tokens after a prompt, as far as the model goes on.
fn generate(session: &mut Session, prompt: &[u32], sampling: &Sampling, count: usize) -> Vec<u32> {
    let options = GenerateOptions::default().max_tokens(count).sampling(sampling.clone());
    session.generate(prompt, options).unwrap().filter_map(|piece| piece.unwrap().token).collect()
}

/// The same from all logits, each token of which is read; and how many were enough in each step.
fn from_all(model: &Model, prompt: &[u32], sampling: &Sampling, count: usize) -> (Vec<u32>, Vec<Option<usize>>) {
    let mut session = model.session(&cache()).unwrap();
    let tokenizer = model.tokenizer();
    let vocabulary = Vocabulary {
        tokens: tokenizer.vocab_size(),
        piece: &|id| tokenizer.piece(id, candor::Show::Specials).into_owned(),
        encode: &|text| tokenizer.encode(text, candor::Encode::text()),
    };
    let mut sampler = Sampler::new(sampling, session.context(), Some(&vocabulary)).unwrap();
    prompt.iter().for_each(|&token| sampler.accept(token));
    let (mut tokens, mut enough) = (Vec::new(), Vec::new());
    let mut next = prompt.to_vec();
    while tokens.len() < count {
        enough.push(sampler.enough());
        session.evaluate(&next).unwrap();
        let token = sampler.sample(session.logits()).unwrap();
        sampler.accept(token);
        if tokenizer.stop_ids().contains(&token) {
            break;
        }
        tokens.push(token);
        next = vec![token];
    }
    (tokens, enough)
}

/// The chains that people use, and what is read of each.
fn chains() -> Vec<(&'static str, Sampling)> {
    let penalties = seeded(4).repeat_penalty(1.1);
    let samplers = Sampling::parse_samplers("top_k;penalties;typ_p;xtc;temperature").unwrap();
    vec![
        ("default", seeded(1)),
        ("hot", seeded(2).temperature(3.0).min_p(0.0).top_p(1.0)),
        ("dynamic", seeded(3).dynatemp_range(0.7).typical_p(0.9).xtc_probability(0.5)),
        ("Ollama's penalty", penalties.clone()),
        ("all penalties", penalties.presence_penalty(0.3).frequency_penalty(0.2).temperature(2.0)),
        ("DRY", seeded(5).dry_multiplier(0.8).dry_allowed_length(1).top_k(5)),
        ("of five", seeded(6).top_k(5).temperature(2.0).min_p(0.0).top_p(1.0)),
        ("penalties behind", seeded(7).samplers(samplers).repeat_penalty(1.5).xtc_probability(0.3)),
        ("greedy and penalised", Sampling::greedy().repeat_penalty(1.3)),
        ("biased", seeded(8).logit_bias(vec![(5, -3.0), (9, f32::NEG_INFINITY)]).temperature(2.0)),
        // Those that take all logits.
        ("top-p alone", seeded(9).top_k(0)),
        ("spread", seeded(10).top_n_sigma(1.5)),
        ("mirostat", seeded(11).mirostat(2)),
        ("rewarded", seeded(12).repeat_penalty(0.9)),
    ]
}

/// Checks that each chain gives the same tokens from the best logits as from all, and reads no more than it needs. Returns how
/// many of them choose otherwise than the greatest logit does.
fn check(model: &Model, name: &str, chains: &[(&str, Sampling)], prompt: &[u32], count: usize) -> usize {
    let vocab = model.config().vocab;
    let (greedy, _) = from_all(model, prompt, &Sampling::greedy(), count);
    let mut changed = 0;
    for (chain, sampling) in chains {
        let (want, enough) = from_all(model, prompt, sampling, count);
        let mut session = model.session(&cache()).unwrap();
        let got = generate(&mut session, prompt, sampling, count);
        assert_eq!(got, want, "{name}, {chain}");
        // States cannot be taken back, so all is read of a prompt that leads to them.
        let first = if model.config().is_recurrent() { None } else { enough[0] };
        let enough: Vec<_> = [first].into_iter().chain(enough.into_iter().skip(1)).collect();
        // A logit with its token is two words.
        let words = |enough: &Option<usize>| enough.map_or(vocab, |count| vocab.min(2 * count));
        let bytes: usize = enough.iter().map(|enough| 4 * words(enough)).sum();
        let traffic = session.traffic();
        assert_eq!((traffic.bytes_read, traffic.submits), (bytes as u64, enough.len() as u64), "{name}, {chain}");
        println!("{name}, {chain}: {} bytes a token instead of {}", bytes / enough.len(), 4 * vocab);
        changed += usize::from(want != greedy);
    }
    changed
}

#[test]
fn a_seed_gives_the_text_of_all_logits() {
    for subgroups in [false, true] {
        let Some(options) = gpu(subgroups) else { continue };
        let (name, prompt) = (format!("tiny, subgroups {subgroups}"), [1, 270, 280, 290, 270, 280]);
        let changed = check(&tiny(&options), &name, &chains(), &prompt, 30);
        assert!(changed >= 8, "{name}: {changed} chains choose otherwise than the greatest logit does");
    }
}

/// Experts, states, caps and what else comes before logits. Each model has every third chain, beginning with another one.
#[test]
fn fixture_models_give_the_texts_of_all_logits() {
    let (Some(fixtures), Some(options)) = (fixtures(), gpu(false)) else { return };
    let mut open = None;
    let names = ["llama", "qwen3", "gemma2", "mixtral", "mamba2", "rwkv7", "quant-llama-wide256-Q4_K_M"];
    for (first, name) in names.into_iter().enumerate() {
        let folder = fixtures.join("arch").join(name);
        let model = Model::open(folder.join("model.gguf"), &options).unwrap();
        let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
        let chains: Vec<_> = chains().into_iter().skip(first % 3).step_by(3).collect();
        let changed = check(&model, name, &chains, &tokens[..tokens.len().min(12)], 12);
        assert!(changed >= 2, "{name}: {changed} chains choose otherwise than the greatest logit does");
        open = Some(model);
    }
    drop(open);
}

#[test]
fn a_sampled_token_is_one_submit_that_makes_nothing_anew() {
    let Some(options) = gpu(false) else { return };
    let model = tiny(&options);
    let mut session = model.session(&cache().context(128)).unwrap();
    let sampling = seeded(1).repeat_penalty(1.1).repeat_last_n(16);
    // So long that positions do not go past a power of two, and that the window is full.
    let mut text: Vec<u32> = (0..66).map(|i| 259 + i % 50).collect();
    // Twice: what is read after something written is one row of a prompt, of which there has been no step yet.
    (0..2).for_each(|_| text.extend(generate(&mut session, &text, &sampling, 3)));
    let before = session.traffic();
    let tokens = generate(&mut session, &text, &sampling, 20);
    let after = session.traffic();
    assert_eq!(tokens.len(), 20);
    assert_eq!(after.submits - before.submits, 20, "{before:?} {after:?}");
    assert!((20 * 8 * 41..=20 * 8 * 56).contains(&(after.bytes_read - before.bytes_read)), "{before:?} {after:?}");
    assert_eq!(after.made, before.made, "{before:?} {after:?}");
    assert!(session.logits().is_empty());
}

#[test]
fn what_is_known_is_used_again_where_it_is_enough() {
    let Some(options) = gpu(false) else { return };
    let model = tiny(&options);
    let mut session = model.session(&cache()).unwrap();
    let prompt = [1, 270, 280, 290];
    let (of_ten, of_all) = (seeded(2).top_k(10), seeded(2).top_k(0));
    for (sampling, computed) in
        [(&seeded(2), true), (&seeded(3), false), (&of_ten, false), (&of_all, true), (&seeded(2), false)]
    {
        let before = session.traffic().submits;
        let tokens = generate(&mut session, &prompt, sampling, 1);
        assert_eq!(tokens, from_all(&model, &prompt, sampling, 1).0, "{sampling:?}");
        assert_eq!(session.traffic().submits > before, computed, "{sampling:?}");
    }
    let mut session = model.session(&cache()).unwrap();
    for (sampling, computed) in [(&of_ten, true), (&seeded(2), true)] {
        let before = session.traffic().submits;
        let tokens = generate(&mut session, &prompt, sampling, 1);
        assert_eq!(tokens, from_all(&model, &prompt, sampling, 1).0, "{sampling:?}");
        assert_eq!(session.traffic().submits > before, computed, "{sampling:?}");
    }
}

#[test]
fn the_best_logits_are_saved() {
    let Some(options) = gpu(false) else { return };
    let model = tiny(&options);
    let mut session = model.session(&cache()).unwrap();
    let prompt = [1, 270, 280, 290];
    let expected = generate(&mut session, &prompt, &seeded(5), 6);
    session.truncate(0);
    generate(&mut session, &prompt, &seeded(5), 0);
    let mut file = Vec::new();
    session.save(&mut file).unwrap();
    for device in [Device::Gpu, Device::Cpu] {
        let model = tiny(&options.clone().device(device));
        let mut session = model.session(&cache()).unwrap();
        session.load(&file).unwrap();
        let options = GenerateOptions::default().max_tokens(6).sampling(seeded(5));
        let mut generation = session.generate(&prompt, options).unwrap();
        let tokens: Vec<u32> = generation.by_ref().filter_map(|piece| piece.unwrap().token).collect();
        assert_eq!((tokens, generation.timings().prompt_tokens), (expected.clone(), 0), "{device:?}");
    }
}

#[test]
fn a_logit_that_is_not_a_number_is_an_error_of_sampling() {
    let Some(options) = gpu(false) else { return };
    let mut bytes = Tiny::default().bytes();
    // The output's matrix is the last tensor: the last element of its last row.
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&(-f32::NAN).to_le_bytes());
    let model = Model::from_gguf(Gguf::from_bytes(bytes.into()).unwrap(), &options).unwrap();
    for sampling in [seeded(1), seeded(1).top_k(0)] {
        let mut session = model.session(&cache()).unwrap();
        let options = GenerateOptions::default().sampling(sampling);
        let mut generation = session.generate(&[1, 270, 280], options).unwrap();
        let error = generation.next().unwrap().unwrap_err();
        assert!(matches!(error, Error::NotFinite { position: 2 }), "{error}");
    }
}
