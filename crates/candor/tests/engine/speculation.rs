//! Guesses change no text: neither greedy ones nor drawn ones, from any drafter.

use candor::{
    Batching, ContextShift, Error, GenerateOptions, Gguf, KvFormat, LoadOptions, Model, Sampling, Session,
    SessionOptions, StopReason, Timings,
    speculate::{DraftModel, Drafter, PromptLookup, Speculation},
};
use candor_testing::{Random, Tiny, fixtures};

const PROMPT: [u32; 9] = [1, 270, 280, 290, 300, 270, 280, 290, 300];

fn model(tiny: &Tiny) -> Model {
    // Where there are batch kernels, logits would depend within rounding on how many are computed at once.
    let load = LoadOptions::default().batching(Batching::Invariant).threads(1);
    Model::from_gguf(Gguf::from_bytes(tiny.bytes().into()).unwrap(), &load).unwrap()
}

fn session(model: &Model, context: usize) -> Session {
    let options = SessionOptions::default().context(context).keys(KvFormat::F32).values(KvFormat::F32);
    model.session(&options).unwrap()
}

fn other() -> Tiny {
    Tiny { seed: 2, ..Tiny::default() }
}

/// Guesses anything, tokens outside of the vocabulary and too many of them too.
struct Wild(Random);

impl Drafter for Wild {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Result<Vec<u32>, Error> {
        let any = |random: &mut Random| tokens.get(random.below(tokens.len() + 9)).map_or(99_999, |&token| token);
        Ok((0..self.0.below(most + 3)).map(|_| any(&mut self.0)).collect())
    }
}

/// Guesses rightly, up to a wrong token after every `wrong`.
struct Knows {
    text: Vec<u32>,
    wrong: usize,
}

impl Drafter for Knows {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Result<Vec<u32>, Error> {
        let rest = self.text.iter().skip(tokens.len()).take(most).enumerate();
        Ok(rest.map(|(i, &token)| if (i + 1) % self.wrong == 0 { token ^ 1 } else { token }).collect())
    }
}

fn drafters(target: &Model, text: &[u32]) -> Vec<(&'static str, Speculation)> {
    let draft = |tiny: &Tiny, least| DraftModel::new(session(&model(tiny), 64), target, least).unwrap();
    vec![
        ("lookup", Speculation::new(PromptLookup::default())),
        ("eager lookup", Speculation::new(PromptLookup { longest: 2, shortest: 1 })),
        ("itself", Speculation::new(draft(&Tiny::default(), 0.0))),
        ("itself, where sure", Speculation::new(draft(&Tiny::default(), 0.05))),
        ("another model", Speculation { most: 5, ..Speculation::new(draft(&other(), 0.0)) }),
        ("a guess of three at least", Speculation { least: 3, ..Speculation::new(draft(&other(), 0.01)) }),
        ("anything", Speculation::new(Wild(Random(5)))),
        ("one right, one wrong", Speculation::new(Knows { text: text.to_vec(), wrong: 2 })),
        ("four right, one wrong", Speculation { most: 7, ..Speculation::new(Knows { text: text.to_vec(), wrong: 5 }) }),
    ]
}

type Text = (Vec<u32>, String, StopReason, Vec<u32>, Vec<f32>);

fn run(session: &mut Session, options: &GenerateOptions) -> (Text, Timings) {
    let (mut tokens, mut text) = (Vec::new(), String::new());
    let mut generation = session.generate(&PROMPT, options.clone()).unwrap();
    for piece in &mut generation {
        let piece = piece.unwrap();
        tokens.extend(piece.token);
        text.push_str(&piece.text);
    }
    let (reason, timings) = (generation.stop_reason().unwrap(), generation.timings());
    drop(generation);
    ((tokens, text, reason, session.tokens().to_vec(), session.logits().to_vec()), timings)
}

#[test]
fn guesses_change_no_text() {
    let target = model(&Tiny::default());
    let sampled = |sampling: Sampling| sampling.seed(3).temperature(1.2);
    let shift = Some(ContextShift { keep: 2 });
    let (mut accepted, mut rejected) = (0, 0);
    for sampling in [
        Sampling::greedy(),
        sampled(Sampling::default()),
        sampled(Sampling::default().repeat_penalty(1.5).frequency_penalty(0.5)),
        sampled(Sampling::default().mirostat(2)),
        sampled(Sampling::default().xtc_probability(0.5).xtc_threshold(0.01).dry_multiplier(1.0)),
    ] {
        for (context, max_tokens, context_shift) in [(64, 40, None), (64, 1, None), (20, 40, None), (20, 60, shift)] {
            let sampling = sampling.clone();
            let options =
                GenerateOptions::default().sampling(sampling).max_tokens(max_tokens).context_shift(context_shift);
            let options = options.ignore_eos(true);
            let (plain, timings) = run(&mut session(&target, context), &options);
            assert_eq!((timings.drafted, timings.acceptance()), (0, None));
            let text = [&PROMPT[..], &plain.0].concat();
            for (name, speculation) in drafters(&target, &text) {
                let mut session = session(&target, context);
                session.speculate(Some(speculation)).unwrap();
                let (guessed, timings) = run(&mut session, &options);
                assert!(guessed == plain, "{name}, context {context}: {:?}, expected {:?}", guessed.0, plain.0);
                assert!(timings.accepted <= timings.drafted, "{timings:?}");
                accepted += timings.accepted;
                rejected += timings.drafted - timings.accepted;
                // In the same session again, after what was guessed last.
                assert!(run(&mut session, &options).0 == plain, "{name}, again");
            }
        }
    }
    assert!(accepted > 500 && rejected > 500, "{accepted} accepted, {rejected} rejected");
}

#[test]
fn acceptance_is_counted() {
    let target = model(&Tiny::default());
    let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(41).ignore_eos(true);
    let text = [&PROMPT[..], &run(&mut session(&target, 0), &options).0.0].concat();
    for (wrong, most, drafted, accepted) in [(99, 7, 35, 35), (2, 2, 39, 20), (1, 4, 0, 0), (99, 100, 39, 39)] {
        let mut session = session(&target, 0);
        let drafter = Knows { text: text.clone(), wrong };
        session.speculate(Some(Speculation { most, ..Speculation::new(drafter) })).unwrap();
        let (_, timings) = run(&mut session, &options);
        if wrong == 1 {
            assert_eq!(timings.accepted, 0);
            continue;
        }
        assert_eq!((timings.drafted, timings.accepted), (drafted, accepted), "wrong after {wrong}, {most} at most");
    }
}

/// Pairs of tokens that follow each other are drawn as often as their probabilities say.
#[test]
fn the_distribution_is_that_of_the_model() {
    const ALLOWED: [u32; 4] = [262, 270, 281, 290];
    const DRAWS: usize = 4000;
    let target = model(&Tiny::default());
    let bias = (0..Tiny::VOCAB as u32).filter(|token| !ALLOWED.contains(token)).map(|token| (token, f32::NEG_INFINITY));
    let plain = Sampling::default().temperature(1.0).top_k(0).top_p(1.0).min_p(0.0);
    let sampling = plain.logit_bias(bias.collect());
    let softmax = |session: &mut Session, tokens: &[u32]| {
        session.truncate(0);
        session.evaluate(tokens).unwrap();
        let powers = ALLOWED.map(|token| f64::from(session.logits()[token as usize]).exp());
        powers.map(|power| power / powers.iter().sum::<f64>())
    };
    // The first token comes from the prompt's logits, the second and third from guesses.
    let mut exact = session(&target, 0);
    let mut expected = [0.0; 16];
    for (i, p) in softmax(&mut exact, &PROMPT).into_iter().enumerate() {
        for (j, q) in softmax(&mut exact, &[&PROMPT[..], &[ALLOWED[i]]].concat()).into_iter().enumerate() {
            let third = softmax(&mut exact, &[&PROMPT[..], &[ALLOWED[i], ALLOWED[j]]].concat());
            third.into_iter().enumerate().for_each(|(k, r)| expected[j * 4 + k] += p * q * r);
        }
    }
    struct Fixed;
    impl Drafter for Fixed {
        fn draft(&mut self, tokens: &[u32], most: usize) -> Result<Vec<u32>, Error> {
            Ok((0..most).map(|i| ALLOWED[(tokens.len() + i) % 4]).collect())
        }
    }
    let mut session = session(&target, 0);
    session.speculate(Some(Speculation::new(Fixed))).unwrap();
    let mut counts = [0usize; 16];
    let mut accepted = 0;
    for seed in 0..DRAWS as u32 {
        let sampling = sampling.clone().seed(seed);
        let options = GenerateOptions::default().sampling(sampling).max_tokens(4);
        let ((tokens, ..), timings) = run(&mut session, &options);
        let place = |token: u32| ALLOWED.iter().position(|&allowed| allowed == token).expect("no other is allowed");
        counts[place(tokens[1]) * 4 + place(tokens[2])] += 1;
        accepted += timings.accepted;
    }
    assert!(accepted > DRAWS / 4, "{accepted} accepted");
    let chi: f64 =
        expected.iter().zip(counts).map(|(p, n)| (n as f64 - p * DRAWS as f64).powi(2) / (p * DRAWS as f64)).sum();
    // The seeds are fixed, so this is no matter of luck; 37.7 is passed by one in a thousand, with 15 degrees of freedom.
    assert!(chi < 37.7, "{chi}: {counts:?}, expected {expected:?}");
}

#[test]
fn another_vocabulary_is_refused_by_its_first_token() {
    let target = model(&Tiny::default());
    let tiny = Tiny::default();
    let mut writer = tiny.writer();
    let metadata = tiny.metadata();
    let (_, tokens) = metadata.iter().find(|(key, _)| key == "tokenizer.ggml.tokens").unwrap();
    let candor_gguf::Value::Array(candor_gguf::Array::String(mut tokens)) = tokens.clone() else { unreachable!() };
    tokens[270] = "elsewhere".into();
    writer.insert("tokenizer.ggml.tokens", candor_gguf::Value::Array(candor_gguf::Array::String(tokens)));
    let changed = Gguf::from_bytes(writer.to_bytes().unwrap().to_vec().into()).unwrap();
    let changed = Model::from_gguf(changed, &Default::default()).unwrap();
    let error = DraftModel::new(session(&changed, 0), &target, 0.0).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "draft model: expected token 270 to be \"k\" as in the model, got \"elsewhere\"");
}

#[test]
fn models_with_states_are_refused_by_name() {
    let Some(fixtures) = fixtures() else { return };
    let mamba = Model::open(fixtures.join("arch/mamba2/model.gguf"), &Default::default()).unwrap();
    let expected = "speculative decoding: mamba2 keeps states, which cannot be taken back where a guess was wrong";
    let mut session = mamba.session(&SessionOptions::default().context(32)).unwrap();
    let error = session.speculate(Some(Speculation::new(PromptLookup::default()))).unwrap_err();
    assert_eq!(error.to_string(), expected);
    session.speculate(None).unwrap();
    let error = DraftModel::new(session, &mamba, 0.0).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), expected);
}
