//! Prompts that come, are cancelled and wait at any time: each answer is what it is alone, and ends once.

use std::collections::BTreeMap;

use candor::{
    BatchOptions, Engine, Error, Event, Finish, GenerateOptions, Gguf, KvFormat, LoadOptions, Model, Piece, Sampling,
    SessionOptions, StopReason, Ticket,
};
use candor_testing::{Random, Tiny, fixtures};

const CONTEXT: usize = 700;

fn tiny() -> Model {
    let load = LoadOptions::default().threads(2);
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &load).unwrap()
}

fn engine(model: &Model, sequences: usize, pool: Option<usize>) -> Engine {
    let options = BatchOptions::default().sequences(sequences).context(CONTEXT).rows(96).pool(pool);
    Engine::new(model.batch(&options.keys(KvFormat::F32).values(KvFormat::F32)).unwrap(), 24)
}

/// An answer by a session of its own.
fn alone(model: &Model, prompt: &[u32], options: &GenerateOptions) -> (Vec<Piece>, StopReason) {
    let size = SessionOptions::default().context(CONTEXT).keys(KvFormat::F32).values(KvFormat::F32);
    let mut session = model.session(&size).unwrap();
    let mut generation = session.generate(prompt, options.clone()).unwrap();
    let pieces = generation.by_ref().collect::<Result<_, _>>().unwrap();
    (pieces, generation.stop_reason().unwrap())
}

struct Asked {
    prompt: Vec<u32>,
    options: GenerateOptions,
    pieces: Vec<Piece>,
    end: Option<Finish>,
    cancelled: bool,
}

fn ask(random: &mut Random, vocab: usize) -> (Vec<u32>, GenerateOptions) {
    let most = [8, 60, 400][random.below(3)];
    let length = 1 + random.below(most);
    let prompt = (0..length).map(|_| random.below(vocab) as u32).collect();
    let seed = random.bits() as u32;
    let sampling = if random.below(2) == 0 { Sampling::greedy() } else { Sampling::default().seed(seed) };
    let most = [1, 8, 40, 300][random.below(4)];
    let mut options = GenerateOptions::default().sampling(sampling).max_tokens(most);
    if random.below(3) == 0 {
        options = options.stop(vec!["a".to_owned(), "qz".to_owned()]);
    }
    (prompt, options)
}

/// Random interleavings on a model; how often an answer had to give its memory back.
fn check(name: &str, model: &Model, seed: u64, pool: Option<usize>) -> usize {
    let mut random = Random(seed);
    let mut engine = engine(model, 4, pool);
    let vocab = model.config().vocab;
    let mut asked: BTreeMap<Ticket, Asked> = BTreeMap::new();
    let (mut left, mut set_back) = (14, 0);
    loop {
        let open: Vec<Ticket> = asked.iter().filter(|(_, asked)| asked.end.is_none()).map(|(t, _)| *t).collect();
        if left == 0 && open.is_empty() {
            break;
        }
        match random.below(12) {
            0..=1 if left > 0 => {
                let (prompt, options) = ask(&mut random, vocab);
                let ticket = engine.submit(prompt.clone(), &options).unwrap();
                asked.insert(ticket, Asked { prompt, options, pieces: Vec::new(), end: None, cancelled: false });
                left -= 1;
            }
            2 if !open.is_empty() && random.below(8) == 0 => {
                let ticket = open[random.below(open.len())];
                engine.cancel(ticket);
                asked.get_mut(&ticket).unwrap().cancelled = true;
            }
            3 if !open.is_empty() => engine.hold(open[random.below(open.len())], true),
            4..=6 => open.iter().for_each(|&ticket| engine.hold(ticket, false)),
            _ => {
                let before = engine.load().waiting;
                engine
                    .step(&mut |ticket, event| {
                        let asked = asked.get_mut(&ticket).unwrap();
                        assert!(asked.end.is_none(), "{name}: something follows the end");
                        match event {
                            Event::Piece(piece) => asked.pieces.push(piece),
                            Event::Done(finish) => asked.end = Some(finish),
                            Event::Failed(error) => panic!("{name}: {error}"),
                            Event::Read { done, of } => assert!(done <= of),
                            _ => {}
                        }
                    })
                    .unwrap();
                set_back += usize::from(engine.load().waiting > before);
            }
        }
    }
    assert_eq!(engine.load().running + engine.load().waiting, 0);
    assert_eq!(engine.load().pages.0, 0, "{name}: pages are left");
    for Asked { prompt, options, pieces, end, cancelled } in asked.into_values() {
        let finish = end.unwrap();
        let (expected, reason) = alone(model, &prompt, &options);
        if finish.reason == StopReason::Cancelled {
            assert!(cancelled);
            let tokens = |pieces: &[Piece]| -> Vec<u32> { pieces.iter().filter_map(|piece| piece.token).collect() };
            assert!(tokens(&expected).starts_with(&tokens(&pieces)), "{name}: a cancelled answer");
        } else {
            assert_eq!((&pieces, finish.reason), (&expected, reason), "{name}: {} tokens", prompt.len());
            assert_eq!(finish.prompt, prompt.len());
        }
    }
    set_back
}

#[test]
fn answers_in_any_company_are_those_alone() {
    let model = tiny();
    // With 4 pages for 4 sequences some have to wait, or to be read again.
    let seeds = [1, 2, 7, 8, 15, 20];
    let set_back: usize = seeds.into_iter().map(|seed| check("tiny", &model, seed, Some(4 * 256))).sum();
    assert!(set_back > 0, "no answer was set back");
    check("tiny with all pages", &model, 7, None);
    let Some(fixtures) = fixtures() else { return };
    for name in ["gemma3", "mamba2", "qwen3next", "quant-llama-wide256-Q4_K_M"] {
        let model = Model::open(fixtures.join("arch").join(name).join("model.gguf"), &LoadOptions::default()).unwrap();
        let pool = (name != "mamba2").then_some(4 * 256);
        check(name, &model, 11, pool);
    }
}

/// A short prompt's first piece comes before a long one's, which came first, and a stream has a token in each step.
#[test]
fn nobody_waits_for_a_long_prompt() {
    let model = tiny();
    let mut engine = engine(&model, 3, None);
    let greedy = GenerateOptions::default().sampling(Sampling::greedy()).ignore_eos(true);
    let prompt = |length: usize| (0..length).map(|i| 3 + (i % 250) as u32).collect::<Vec<u32>>();
    let stream = engine.submit(prompt(5), &greedy).unwrap();
    engine.step(&mut |_, _| {}).unwrap();
    let long = engine.submit(prompt(600), &greedy).unwrap();
    engine.step(&mut |_, _| {}).unwrap();
    let short = engine.submit(prompt(20), &greedy).unwrap();
    let mut first = BTreeMap::new();
    for step in 0..40 {
        let mut streamed = 0;
        engine
            .step(&mut |ticket, event| {
                if let Event::Piece(_) = event {
                    streamed += usize::from(ticket == stream);
                    first.entry(ticket).or_insert(step);
                }
            })
            .unwrap();
        assert_eq!(streamed, 1, "step {step}");
    }
    assert!(first[&short] <= 2, "{}", first[&short]);
    // 24 rows of prompts a step.
    assert!(first[&long] >= 23 && first[&long] <= 27, "{}", first[&long]);
}

#[test]
fn what_cannot_be_answered_is_refused() {
    let model = tiny();
    let mut engine = engine(&model, 2, Some(256));
    let plain = GenerateOptions::default().sampling(Sampling::greedy()).ignore_eos(true);
    assert!(matches!(engine.submit(Vec::new(), &plain), Err(Error::EmptyPrompt)));
    assert!(matches!(engine.submit(vec![100_000], &plain), Err(Error::Token { .. })));
    let long = engine.submit(vec![3; 257], &plain);
    assert!(matches!(long, Err(Error::PromptTooLong { prompt: 257, context: 256 })));
    let shifted = plain.clone().context_shift(candor::ContextShift::default());
    assert!(matches!(engine.submit(vec![3], &shifted), Err(Error::Slides)));
    // What outgrows memory ends, with a piece for each token.
    engine.submit(vec![3; 250], &plain).unwrap();
    let (mut pieces, mut end) = (0, None);
    while engine
        .step(&mut |_, event| match event {
            Event::Piece(piece) => pieces += usize::from(piece.token.is_some()),
            Event::Done(finish) => end = Some(finish),
            _ => {}
        })
        .unwrap()
    {}
    let end = end.unwrap();
    assert_eq!((pieces, end.tokens, end.reason), (7, 7, StopReason::ContextFull));
}
