//! Sessions and generation on a tiny random model made in memory.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use candor::{
    Cancel, ContextShift, Error, GenerateOptions, Gguf, KvFormat, Model, Sampling, Session, SessionOptions, Show,
    StopReason,
};
use candor_testing::{Tiny, nmse};

fn model() -> Model {
    let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    Model::from_gguf(gguf, &Default::default()).unwrap()
}

fn options(context: usize) -> SessionOptions {
    SessionOptions::default().context(context).keys(KvFormat::F32).values(KvFormat::F32)
}

fn session(context: usize) -> Session {
    model().session(&options(context)).unwrap()
}

fn greedy(max_tokens: usize) -> GenerateOptions {
    let sampling = Sampling::default().temperature(0.0);
    // A random model may end its text at any time; these tests are about everything else.
    GenerateOptions::default().sampling(sampling).max_tokens(max_tokens).ignore_eos(true)
}

/// Tokens, text and the reason for the end.
fn run(session: &mut Session, prompt: &[u32], options: GenerateOptions) -> (Vec<u32>, String, StopReason) {
    let (mut tokens, mut text) = (Vec::new(), String::new());
    let mut generation = session.generate(prompt, options).unwrap();
    for piece in &mut generation {
        let piece = piece.unwrap();
        tokens.extend(piece.token);
        text.push_str(&piece.text);
    }
    (tokens, text, generation.stop_reason().unwrap())
}

#[test]
fn control_tokens_are_shown_where_they_are_asked_for() {
    let model = model();
    let tokenizer = model.tokenizer();
    let control = (0..Tiny::VOCAB as u32).find(|id| tokenizer.is_control(*id)).unwrap();
    for (show, times) in [(Show::Text, 0), (Show::Specials, 3)] {
        let mut options = greedy(3).show(show);
        options.ignore_eos = false;
        options.sampling.logit_bias = vec![(control, 1e6)];
        let (tokens, text, _) = run(&mut session(0), &PROMPT, options);
        let name = tokenizer.token(control).unwrap();
        assert_eq!((tokens, text), (vec![control; 3], name.repeat(times)));
    }
}

const PROMPT: [u32; 5] = [1, 270, 280, 290, 300];

#[test]
fn a_kept_prefix_changes_nothing() {
    let (tokens, text, reason) = run(&mut session(0), &PROMPT, greedy(12));
    assert_eq!((tokens.len(), reason), (12, StopReason::MaxTokens));

    let mut kept = session(0);
    run(&mut kept, &[1, 270, 280, 299, 298, 297], greedy(5));
    assert_eq!(run(&mut kept, &PROMPT, greedy(12)), (tokens.clone(), text.clone(), reason));
    // The same prompt again, and a longer one that goes on with what was generated.
    assert_eq!(run(&mut kept, &PROMPT, greedy(12)).0, tokens);
    let longer = [&PROMPT[..], &tokens[..4]].concat();
    assert_eq!(run(&mut kept, &longer, greedy(8)).0, tokens[4..]);

    let mut generation = kept.generate(&longer, greedy(3)).unwrap();
    assert!(generation.by_ref().count() >= 3);
    assert!(generation.timings().prompt_tokens <= 1, "{:?}", generation.timings());
}

#[test]
fn the_same_seed_gives_the_same_text() {
    let with_seed = |seed| greedy(30).sampling(Sampling::default().seed(seed).temperature(1.5));
    let first = run(&mut session(0), &PROMPT, with_seed(7));
    assert_eq!(run(&mut session(0), &PROMPT, with_seed(7)), first);
    assert_ne!(run(&mut session(0), &PROMPT, with_seed(8)), first);
}

#[test]
fn a_full_context_ends_or_slides() {
    let (tokens, _, reason) = run(&mut session(16), &PROMPT, greedy(100));
    // The last token is chosen from a full context and needs no place in it.
    assert_eq!((tokens.len(), reason), (16 - PROMPT.len() + 1, StopReason::ContextFull));

    let options = greedy(100).context_shift(ContextShift { keep: 2 });
    let mut sliding = session(16);
    let (tokens, _, reason) = run(&mut sliding, &PROMPT, options.clone());
    assert_eq!((tokens.len(), reason), (100, StopReason::MaxTokens));
    assert_eq!(sliding.tokens()[..2], PROMPT[..2]);
    assert!(sliding.tokens().len() <= 16);

    // What slid is what a fresh session computes for the same tokens.
    let window = sliding.tokens().to_vec();
    // Beyond what is kept, the window is the end of the text except the last token, which was not read yet.
    let all = [&PROMPT[..], &tokens].concat();
    assert!(all[..all.len() - 1].ends_with(&window[2..]), "{window:?}");
    let mut fresh = session(16);
    fresh.evaluate(&window).unwrap();
    assert!(nmse(sliding.logits(), fresh.logits()) < 1e-10);

    let long: Vec<u32> = std::iter::once(1).chain((0..50).map(|i| 260 + i)).collect();
    match session(16).generate(&long, greedy(1)).map(|_| ()) {
        Err(Error::PromptTooLong { prompt: 51, context: 16 }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(run(&mut session(16), &long, options).0.len(), 100);
}

#[test]
fn stop_texts_end_the_text_and_are_not_part_of_it() {
    let (_, text, _) = run(&mut session(0), &PROMPT, greedy(40));
    let characters: Vec<char> = text.chars().collect();
    let stop: String = characters[characters.len() / 2..characters.len() / 2 + 3].iter().collect();
    let options = greedy(40).stop(vec!["never there".into(), stop.clone()]);
    let (_, stopped, reason) = run(&mut session(0), &PROMPT, options);
    assert_eq!(reason, StopReason::StopText);
    assert_eq!(stopped, text[..text.find(&stop).unwrap()]);
}

#[test]
fn cancelling_ends_before_the_next_token() {
    let cancel = Cancel::new();
    let mut session = session(0);
    let options = greedy(40).cancel(cancel.clone());
    let mut generation = session.generate(&PROMPT, options.clone()).unwrap();
    generation.next().unwrap().unwrap();
    cancel.cancel();
    assert!(generation.by_ref().all(|piece| piece.unwrap().token.is_none()));
    assert_eq!(generation.stop_reason(), Some(StopReason::Cancelled));

    let other = [1, 261, 262];
    let mut generation = session.generate(&other, options).unwrap();
    assert!(generation.next().is_none());
    assert_eq!(generation.stop_reason(), Some(StopReason::Cancelled));
}

/// Cancelled at its `n`-th question, from 1, and ever after.
fn at(n: usize) -> Cancel {
    let asked = AtomicUsize::new(0);
    Cancel::when(move || asked.fetch_add(1, Ordering::Relaxed) + 1 >= n)
}

#[test]
fn a_cancelled_session_goes_on_where_it_was() {
    let small = options(0).ubatch(4);
    let model = model();
    let whole: Vec<u32> = (0..12).map(|i| 261 + i).collect();
    let mut expected = model.session(&small).unwrap();
    expected.evaluate(&whole).unwrap();
    let mut session = model.session(&small).unwrap();
    assert!(!session.evaluate_until(&whole, &at(3)).unwrap());
    assert_eq!(session.tokens(), &whole[..8]);
    // A flag of others', which is not set.
    assert!(session.evaluate_until(&whole[8..], &Arc::new(AtomicBool::new(false)).into()).unwrap());
    assert_eq!(session.logits(), expected.logits());
    // While a prompt is read; asked of the two steps that are left of it.
    session.truncate(4);
    let mut generation = session.generate(&whole, greedy(3).cancel(at(2))).unwrap();
    assert!(generation.next().is_none());
    assert_eq!(generation.stop_reason(), Some(StopReason::Cancelled));
    assert_eq!(session.tokens(), &whole[..8]);
}

#[test]
fn sliding_can_be_cancelled() {
    let shift = Some(ContextShift { keep: 1 });
    let sliding = options(0).context(16).ubatch(4);
    let prompt: Vec<u32> = (0..15).map(|i| 261 + i).collect();
    let asks = Arc::new(AtomicUsize::new(0));
    // Counts the questions until the token before sliding.
    let counted = asks.clone();
    let count = Cancel::when(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        false
    });
    let how = greedy(4).context_shift(shift).ignore_eos(true);
    let mut session = model().session(&sliding).unwrap();
    let mut generation = session.generate(&prompt, how.clone().cancel(count)).unwrap();
    let mut before = 0;
    while generation.session().tokens().len() != 10 {
        before = asks.load(Ordering::Relaxed);
        generation.next().unwrap().unwrap();
    }
    assert!(asks.load(Ordering::Relaxed) > before + 2, "sliding asks before each of its steps");
    let mut session = model().session(&sliding).unwrap();
    let mut generation = session.generate(&prompt, how.cancel(at(before + 3))).unwrap();
    assert!(generation.by_ref().all(|piece| piece.is_ok()));
    assert_eq!(generation.stop_reason(), Some(StopReason::Cancelled));
    assert_eq!(session.tokens().len(), 1 + 4, "what is kept, and a step");
}

#[test]
fn nothing_is_asked_for_or_nothing_can_be_done() {
    assert_eq!(run(&mut session(0), &PROMPT, greedy(0)), (vec![], String::new(), StopReason::MaxTokens));
    assert!(matches!(session(0).generate(&[], greedy(1)).map(|_| ()), Err(Error::EmptyPrompt)));
    let outside = session(0).generate(&[1, 99_999], greedy(1)).map(|_| ()).unwrap_err();
    assert_eq!(outside.to_string(), "token 99999 is outside of the vocabulary of 312");
    let options = SessionOptions::default().context(usize::MAX / 2);
    assert!(matches!(model().session(&options).map(|_| ()), Err(Error::Memory { .. })));
}
