//! Prompts that come, are cancelled and wait at any time: each answer is what it is alone, and ends once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use candor::{
    BatchOptions, Batching, Engine, Error, Event, Finish, GenerateOptions, Gguf, KvFormat, LoadOptions, Model, Piece,
    Reuse, Sampling, SessionOptions, StopReason, Ticket, sampler::LogitsProcessor,
};
use candor_testing::{Random, Tiny, fixtures};

const CONTEXT: usize = 700;

/// Windows whose caches are rings at this length, states, states beside attention, latents, kernels for prompts.
const MODELS: [&str; 8] = [
    "gemma3",
    "cohere2-swa8",
    "mamba2",
    "rwkv7",
    "qwen3next",
    "falcon-h1",
    "deepseek2-v3",
    "quant-llama-wide256-Q4_K_M",
];

fn tiny() -> Model {
    let load = LoadOptions::default().threads(2);
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &load).unwrap()
}

fn engine(model: &Model, sequences: usize, kept: usize, pool: Option<usize>) -> Engine {
    let options = BatchOptions::default().sequences(sequences).kept(kept).context(CONTEXT).rows(96).pool(pool);
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
    reuse: Reuse,
    /// The bits of all logits that were chosen from.
    bits: Bits,
    /// Those of the logits of the prompt, where they were looked at.
    read: Option<Read>,
    pieces: Vec<Piece>,
    end: Option<Finish>,
    cancelled: bool,
}

/// Sums over the bits of logits, a row each.
#[derive(Clone, Default)]
struct Bits(Arc<Mutex<Vec<u64>>>);

impl LogitsProcessor for Bits {
    fn process(&mut self, _: &[u32], logits: &mut [f32]) {
        self.0.lock().unwrap().push(sum(logits));
    }
}

/// A sum over the bits of a row of logits.
fn sum(logits: &[f32]) -> u64 {
    logits.iter().fold(0, |sum: u64, x| sum.wrapping_mul(31).wrapping_add(u64::from(x.to_bits())))
}

/// Tokens of a prompt, and sums over the bits of the logits that they had.
#[derive(Clone, Default)]
struct Read(Arc<Mutex<Vec<(u32, u64)>>>);

impl LogitsProcessor for Read {
    fn process(&mut self, _: &[u32], _: &mut [f32]) {}

    fn reads(&self) -> bool {
        true
    }

    fn read(&mut self, next: u32, logits: &[f32]) {
        self.0.lock().unwrap().push((next, sum(logits)));
    }
}

/// The same by a session of its own.
fn read_alone(model: &Model, prompt: &[u32]) -> Vec<(u32, u64)> {
    let size = SessionOptions::default().context(CONTEXT).keys(KvFormat::F32).values(KvFormat::F32);
    let (mut session, mut sums) = (model.session(&size).unwrap(), Vec::new());
    let next = |index: usize| prompt[index + 1];
    let rows = &prompt[..prompt.len() - 1];
    session.evaluate_each(rows, |index, logits| sums.push((next(index), sum(logits)))).unwrap();
    sums
}

impl Bits {
    fn all(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

fn tokens(pieces: &[Piece]) -> Vec<u32> {
    pieces.iter().filter_map(|piece| piece.token).collect()
}

/// How many of the first tokens are the same.
fn alike(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A prompt of its own, or one that begins as another did, with what was written then or without.
fn ask(random: &mut Random, vocab: usize, asked: &BTreeMap<Ticket, Asked>) -> (Vec<u32>, GenerateOptions, Reuse) {
    let mut prompt = Vec::new();
    if let Some(earlier) = asked.values().nth(random.below(asked.len() + 2)) {
        prompt = [earlier.prompt.clone(), tokens(&earlier.pieces)].concat();
        match random.below(4) {
            0 => prompt.truncate(random.below(prompt.len() + 1)),
            1 => prompt.truncate(earlier.prompt.len()),
            _ => prompt.truncate(500),
        }
    }
    let most = [8, 60, 400][random.below(3)].min(550 - prompt.len());
    let more = random.below(most);
    prompt.extend((0..more).map(|_| random.below(vocab) as u32));
    if prompt.is_empty() {
        prompt.push(5);
    }
    let seed = random.bits() as u32;
    let sampling = if random.below(2) == 0 { Sampling::greedy() } else { Sampling::default().seed(seed) };
    let most = [0, 1, 8, 40, 300][random.below(5)];
    let mut options = GenerateOptions::default().sampling(sampling).max_tokens(most);
    if random.below(3) == 0 {
        options = options.stop(vec!["a".to_owned(), "qz".to_owned()]);
    }
    let reuse = [Reuse::Off, Reuse::Within(7), Reuse::Within(0), Reuse::Within(0)][random.below(4)];
    (prompt, options, reuse)
}

/// Random interleavings on a model; how often an answer had to give its memory back, and how many tokens were not read again.
fn check(name: &str, model: &Model, seed: u64, kept: usize, pool: Option<usize>) -> (usize, u64) {
    let mut random = Random(seed);
    let mut engine = engine(model, 4, kept, pool);
    let vocab = model.config().vocab;
    let mut asked: BTreeMap<Ticket, Asked> = BTreeMap::new();
    let (mut left, mut set_back) = (20, 0);
    loop {
        let open: Vec<Ticket> = asked.iter().filter(|(_, asked)| asked.end.is_none()).map(|(t, _)| *t).collect();
        if left == 0 && open.is_empty() {
            break;
        }
        match random.below(12) {
            0 if left > 0 && (open.is_empty() || random.below(2) == 0) => {
                let (prompt, options, reuse) = ask(&mut random, vocab, &asked);
                let (bits, read) = (Bits::default(), (random.below(4) == 0).then(Read::default));
                let mut watched = options.clone().processor(bits.clone());
                if let Some(read) = &read {
                    watched = watched.processor(read.clone());
                }
                let ticket = engine.submit(prompt.clone(), &watched, reuse).unwrap();
                let (pieces, end, cancelled) = (Vec::new(), None, false);
                asked.insert(ticket, Asked { prompt, options, reuse, bits, read, pieces, end, cancelled });
                left -= 1;
            }
            2 if !open.is_empty() && random.below(8) == 0 => {
                let ticket = open[random.below(open.len())];
                engine.cancel(ticket);
                asked.get_mut(&ticket).unwrap().cancelled = true;
            }
            3 if !open.is_empty() => engine.hold(open[random.below(open.len())], true),
            4..=6 => open.iter().for_each(|&ticket| engine.hold(ticket, false)),
            7 if random.below(30) == 0 => engine.forget_kept().unwrap(),
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
    engine.forget_kept().unwrap();
    assert_eq!((engine.load().pages.0, engine.load().kept), (0, 0), "{name}: pages are left");
    for Asked { prompt, options, reuse, bits, read, pieces, end, cancelled } in asked.values() {
        let (finish, own) = (end.unwrap(), Bits::default());
        let (expected, reason) = alone(model, prompt, &options.clone().processor(own.clone()));
        let (bits, own) = (bits.all(), own.all());
        if finish.reason == StopReason::Cancelled {
            assert!(cancelled);
            assert!(tokens(&expected).starts_with(&tokens(pieces)), "{name}: a cancelled answer");
            assert!(own.starts_with(&bits[..bits.len().min(own.len())]), "{name}: logits of a cancelled answer");
        } else {
            assert_eq!((pieces, finish.reason), (&expected, reason), "{name}: {} tokens", prompt.len());
            assert!(bits == own, "{name}: logits behind {} tokens, {} reused", prompt.len(), finish.reused);
            assert_eq!(finish.prompt, prompt.len());
        }
        if let Some(read) = read {
            let (read, expected) = (read.0.lock().unwrap(), read_alone(model, prompt));
            let whole = finish.reason != StopReason::Cancelled || !pieces.is_empty();
            assert!(
                expected.starts_with(&read) && (!whole || read.len() == expected.len()),
                "{name}: a prompt's logits"
            );
        }
        // What others of its scope have in common with it bounds what it has from them.
        let others = asked.values().filter(|other| other.reuse == *reuse && *reuse != Reuse::Off);
        let common = others.filter(|other| !std::ptr::eq(&other.prompt, prompt));
        let text = |other: &Asked| [other.prompt.clone(), tokens(&other.pieces)].concat();
        let most = common.map(|other| alike(&text(other), prompt)).max().unwrap_or(0);
        assert!(finish.reused <= most.min(prompt.len() - 1), "{name}: {} of {most} reused", finish.reused);
    }
    (set_back, engine.load().hits)
}

#[test]
fn answers_in_any_company_are_those_alone() {
    let model = tiny();
    // With 4 pages for 4 sequences some have to wait, or to be read again; with 9 there are some for what is kept.
    let seeds = [1, 2, 7, 12, 14, 15, 20];
    let pool = |seed| Some(if seed % 2 == 0 { 4 * 256 } else { 9 * 256 });
    let ran: Vec<_> = seeds.into_iter().map(|seed| check("tiny", &model, seed, 3, pool(seed))).collect();
    assert!(ran.iter().any(|(set_back, _)| *set_back > 0), "no answer was set back");
    let hits: Vec<u64> = ran.into_iter().map(|(_, hits)| hits).collect();
    assert!(hits.iter().sum::<u64>() > 1000, "{hits:?} tokens reused");
    check("tiny with all pages", &model, 7, 5, None);
    check("tiny with no room for what is kept", &model, 7, 0, None);
    let Some(fixtures) = fixtures() else { return };
    for name in MODELS {
        let model = Model::open(fixtures.join("arch").join(name).join("model.gguf"), &LoadOptions::default()).unwrap();
        let pool = (!["mamba2", "rwkv7"].contains(&name)).then_some(6 * 256);
        let hits: u64 = [11, 12].into_iter().map(|seed| check(name, &model, seed, 3, pool).1).sum();
        assert!(hits > 0, "{name}: nothing was reused");
    }
    // One arithmetic for what is read and written.
    let load = LoadOptions::default().batching(Batching::Invariant);
    for name in ["quant-llama-wide256-Q4_K_M", "qwen3next"] {
        let model = Model::open(fixtures.join("arch").join(name).join("model.gguf"), &load).unwrap();
        check(&format!("{name}, invariant"), &model, 12, 3, Some(6 * 256));
    }
}

/// The answer to a prompt: its tokens, how many steps went by before the first of them, and its end.
fn answer(engine: &mut Engine, prompt: &[u32], reuse: Reuse) -> (Vec<u32>, usize, Finish) {
    let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(20).ignore_eos(true);
    engine.submit(prompt.to_vec(), &options, reuse).unwrap();
    let (mut tokens, mut first, mut end) = (Vec::new(), 0, None);
    for step in 1.. {
        let on = engine
            .step(&mut |_, event| match event {
                Event::Piece(piece) => {
                    first = if first == 0 { step } else { first };
                    tokens.extend(piece.token);
                }
                Event::Done(finish) => end = Some(finish),
                _ => {}
            })
            .unwrap();
        if !on {
            break;
        }
    }
    (tokens, first, end.unwrap())
}

/// Whether a conversation goes on from its first turn's prompt, a prompt from itself, and others from none of it.
fn check_turns(name: &str, model: &Model, roles: bool) {
    // 96 rows a step.
    let mut engine = engine(model, 2, 2, None);
    let vocab = model.config().vocab as u32;
    let prompt: Vec<u32> = (0..480).map(|i| (3 + i * 7) % vocab).collect();
    let (written, cold, first) = answer(&mut engine, &prompt, Reuse::Within(1));
    assert!(first.reused == 0 && cold >= 5, "{name}: {cold} steps, {first:?}");
    let (again, warm, finish) = answer(&mut engine, &prompt, Reuse::Within(1));
    assert_eq!(again, written, "{name}");
    assert!(finish.reused == prompt.len() - 1 && warm == 1, "{name}: {warm} steps, {finish:?}");
    let next = [&prompt[..], &written, &[4, 5, 6]].concat();
    let (_, warm, finish) = answer(&mut engine, &next, Reuse::Within(1));
    let least = if roles { prompt.len() - 1 } else { prompt.len() + written.len() - 1 };
    // A state is kept before the last token of a prompt.
    let most = if roles { prompt.len() } else { least };
    assert!((least..=most).contains(&finish.reused) && warm <= 2, "{name}: {warm} steps, {finish:?}");
    let load = engine.load();
    assert!(load.hits == (prompt.len() - 1 + finish.reused) as u64 && load.kept > 0, "{name}: {load:?}");
    for reuse in [Reuse::Within(0), Reuse::Off] {
        let (other, cold, finish) = answer(&mut engine, &prompt, reuse);
        assert_eq!((other, finish.reused), (written.clone(), 0), "{name}: {reuse:?}");
        assert!(cold >= 5, "{name}: {reuse:?}, {cold} steps");
    }
    engine.forget_kept().unwrap();
    // What is off was not kept.
    assert_eq!(answer(&mut engine, &prompt, Reuse::Off).2.reused, 0);
    assert_eq!(engine.load().kept, 0, "{name}");
    assert_eq!(answer(&mut engine, &prompt, Reuse::default()).2.reused, 0);
}

#[test]
fn conversations_go_on_from_what_was_read() {
    check_turns("tiny", &tiny(), true);
    let Some(fixtures) = fixtures() else { return };
    for name in MODELS {
        for (batching, roles) in [(Batching::ByRole, true), (Batching::Invariant, false)] {
            let load = LoadOptions::default().batching(batching);
            let model = Model::open(fixtures.join("arch").join(name).join("model.gguf"), &load).unwrap();
            check_turns(&format!("{name}, {batching:?}"), &model, roles);
        }
    }
}

/// Prompts that come together read once what they share: the rows of all steps are counted.
#[test]
fn prompts_that_run_at_once_share_what_they_read() {
    let model = tiny();
    let vocab = model.config().vocab as u32;
    let common: Vec<u32> = (0..400).map(|i| (3 + i * 7) % vocab).collect();
    let prompt = |n: u32| [&common[..], &[n + 5, n + 9]].concat();
    let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(12).ignore_eos(true);
    for (reuse, expected) in [(Reuse::default(), [0, 400, 400, 401]), (Reuse::Off, [0; 4])] {
        let mut engine = engine(&model, 4, 0, None);
        let prompts = [prompt(0), prompt(1), prompt(2), prompt(0)];
        let tickets = prompts.clone().map(|prompt| engine.submit(prompt, &options, reuse).unwrap());
        let mut said: BTreeMap<Ticket, (Vec<Piece>, Option<Finish>)> = BTreeMap::new();
        let on = |engine: &mut Engine, said: &mut BTreeMap<Ticket, (Vec<Piece>, Option<Finish>)>| {
            engine.step(&mut |ticket, event| match event {
                Event::Piece(piece) => said.entry(ticket).or_default().0.push(piece),
                Event::Done(finish) => said.entry(ticket).or_default().1 = Some(finish),
                _ => {}
            })
        };
        while on(&mut engine, &mut said).unwrap() {}
        for ((ticket, prompt), expected) in tickets.iter().zip(&prompts).zip(expected) {
            let (pieces, finish) = &said[ticket];
            assert_eq!((pieces, finish.unwrap().reused), (&alone(&model, prompt, &options).0, expected), "{reuse:?}");
        }
    }
    // One that reads and is held, or gone, is not waited for.
    for cancels in [true, false] {
        let mut engine = engine(&model, 2, 0, None);
        let first = engine.submit(prompt(0), &options, Reuse::default()).unwrap();
        engine.step(&mut |_, _| {}).unwrap();
        if cancels {
            engine.cancel(first)
        } else {
            engine.hold(first, true)
        }
        engine.submit(prompt(1), &options, Reuse::default()).unwrap();
        let mut end = None;
        for _ in 0..40 {
            let hear = &mut |ticket: Ticket, event: Event| match event {
                Event::Done(finish) if ticket != first => end = Some(finish),
                _ => {}
            };
            engine.step(hear).unwrap();
        }
        let reused = end.unwrap().reused;
        assert!(0 < reused && reused < 400, "{cancels}: {reused}");
    }
}

/// Beginnings that are kept make way for answers, the oldest of them first.
#[test]
fn what_is_kept_makes_way() {
    let model = tiny();
    let mut engine = engine(&model, 1, 3, Some(4 * 256));
    let prompt = |first: u32| -> Vec<u32> { (0..300).map(|i| (first + i * 7) % 300).collect() };
    for first in 0..2 {
        answer(&mut engine, &prompt(first), Reuse::default());
    }
    assert_eq!((engine.load().kept, engine.load().pages), (2, (4, 4)));
    // The first is used, so that the second is the one to go.
    assert_eq!(answer(&mut engine, &prompt(0), Reuse::default()).2.reused, 299);
    assert_eq!(answer(&mut engine, &prompt(2), Reuse::default()).2.reused, 0);
    assert_eq!(engine.load().kept, 2);
    assert_eq!(answer(&mut engine, &prompt(0), Reuse::default()).2.reused, 299);
    assert_eq!(answer(&mut engine, &prompt(1), Reuse::default()).2.reused, 0);
    // All of it where one needs all pages.
    let long: Vec<u32> = (0..690).map(|i| 3 + i % 200).collect();
    assert_eq!(answer(&mut engine, &long, Reuse::default()).0.len(), 11);
}

/// A short prompt's first piece comes before a long one's, which came first, and a stream has a token in each step.
#[test]
fn nobody_waits_for_a_long_prompt() {
    let model = tiny();
    let mut engine = engine(&model, 3, 0, None);
    let greedy = GenerateOptions::default().sampling(Sampling::greedy()).ignore_eos(true);
    let prompt = |length: usize| (0..length).map(|i| 3 + (i % 250) as u32).collect::<Vec<u32>>();
    let stream = engine.submit(prompt(5), &greedy, Reuse::Off).unwrap();
    engine.step(&mut |_, _| {}).unwrap();
    let long = engine.submit(prompt(600), &greedy, Reuse::Off).unwrap();
    engine.step(&mut |_, _| {}).unwrap();
    let short = engine.submit(prompt(20), &greedy, Reuse::Off).unwrap();
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
    let mut engine = engine(&model, 2, 0, Some(256));
    let plain = GenerateOptions::default().sampling(Sampling::greedy()).ignore_eos(true);
    assert!(matches!(engine.submit(Vec::new(), &plain, Reuse::Off), Err(Error::EmptyPrompt)));
    assert!(matches!(engine.submit(vec![100_000], &plain, Reuse::Off), Err(Error::Token { .. })));
    let long = engine.submit(vec![3; 257], &plain, Reuse::Off);
    assert!(matches!(long, Err(Error::PromptTooLong { prompt: 257, context: 256 })));
    let shifted = plain.clone().context_shift(candor::ContextShift::default());
    assert!(matches!(engine.submit(vec![3], &shifted, Reuse::Off), Err(Error::Slides)));
    // What outgrows memory ends, with a piece for each token.
    engine.submit(vec![3; 250], &plain, Reuse::Off).unwrap();
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
