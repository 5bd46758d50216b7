//! Samplers and processors of logits that users write.

use std::error;
use std::sync::{Arc, Mutex};

use candor::{
    BatchOptions, Continuation, Error, GenerateOptions, Gguf, Model, Outputs, Role, Sampling, Session, Want,
    sampler::{Sample, Sampler},
    speculate::{PromptLookup, Speculation},
};
use candor_testing::Tiny;

const PROMPT: [u32; 6] = [1, 270, 280, 290, 270, 280];

fn model() -> Model {
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &Default::default()).unwrap()
}

fn limited(max_tokens: usize) -> GenerateOptions {
    GenerateOptions::default().max_tokens(max_tokens).ignore_eos(true)
}

fn tokens(session: &mut Session, options: GenerateOptions) -> Vec<u32> {
    session.generate(&PROMPT, options).unwrap().filter_map(|piece| piece.unwrap().token).collect()
}

fn fresh(options: GenerateOptions) -> Vec<u32> {
    tokens(&mut model().session(&Default::default()).unwrap(), options)
}

fn place(logits: &[f32], worst: bool) -> u32 {
    let order = |a: &(u32, &f32), b: &(u32, &f32)| a.1.total_cmp(b.1).then(b.0.cmp(&a.0));
    let finite = (0..).zip(logits).filter(|(_, logit)| logit.is_finite());
    if worst { finite.min_by(order) } else { finite.max_by(order) }.unwrap().0
}

/// Chooses the greatest logit, or the least, which no cut to the best keeps.
#[derive(Clone)]
struct Extreme {
    worst: bool,
}

impl Sample for Extreme {
    fn choose(&mut self, _: &[u32], logits: &[f32]) -> Result<u32, Box<dyn error::Error + Send + Sync>> {
        Ok(place(logits, self.worst))
    }
}

/// What the session computes, and a choice from it.
fn by_hand(count: usize, worst: bool) -> Vec<u32> {
    let model = model();
    let mut session = model.session(&Default::default()).unwrap();
    session.evaluate(&PROMPT).unwrap();
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let mut logits = session.logits().to_vec();
        model.tokenizer().stop_ids().iter().for_each(|&id| logits[id as usize] = f32::NEG_INFINITY);
        chosen.push(place(&logits, worst));
        session.decode(chosen[chosen.len() - 1]).unwrap();
    }
    chosen
}

#[test]
fn an_own_sampler_chooses() {
    assert_eq!(fresh(limited(8).sampler(Extreme { worst: true })), by_hand(8, true));
    let greedy = limited(8).sampling(Sampling::greedy());
    assert_eq!(fresh(limited(8).sampler(Extreme { worst: false })), fresh(greedy));
    assert_eq!(fresh(limited(8).sampler(Extreme { worst: false })), by_hand(8, false));
}

/// Guesses change nothing.
#[test]
fn an_own_sampler_chooses_among_guesses() {
    let mut session = model().session(&Default::default()).unwrap();
    session.speculate(Some(Speculation::new(PromptLookup::default()))).unwrap();
    assert_eq!(tokens(&mut session, limited(8).sampler(Extreme { worst: true })), by_hand(8, true));
}

#[test]
fn the_chain_is_a_sampler() {
    for sampling in [
        Sampling::default().seed(3),
        Sampling::default().seed(4).repeat_penalty(1.5).temperature(2.0),
        Sampling::default().seed(5).mirostat(2),
        // Of which few logits decide.
        Sampling::default().seed(6).top_k(5).temperature(2.0),
    ] {
        let own = Sampler::new(&sampling, 512, None).unwrap();
        let built_in = limited(20).sampling(sampling);
        assert_eq!(fresh(limited(20).sampler(own)), fresh(built_in));
    }
}

#[test]
fn processors_see_all_tokens_and_act_in_order() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let only = |token: u32| {
        move |_: &[u32], logits: &mut [f32]| {
            let kept = logits[token as usize].max(-100.0);
            logits.fill(f32::NEG_INFINITY);
            logits[token as usize] = kept;
        }
    };
    let options = limited(3)
        .processor(move |tokens: &[u32], logits: &mut [f32]| {
            notes.lock().unwrap().push(tokens.to_vec());
            logits[260] = 1e9;
        })
        .processor(only(261));
    assert_eq!(fresh(options.clone()), [261; 3], "the chain chooses what is left");
    let expected: Vec<Vec<u32>> = (0..3).map(|chosen| [&PROMPT[..], &[261; 3][..chosen]].concat()).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(fresh(options.sampler(Extreme { worst: false })), [261; 3], "an own sampler, too");
    assert_eq!(fresh(limited(3).processor(only(261)).processor(only(262))), [262; 3]);
    let boost = |_: &[u32], logits: &mut [f32]| logits[260] = 1e9;
    assert_eq!(fresh(limited(3).processor(boost)), [260; 3]);
    assert_eq!(fresh(limited(3).processor(boost).sampler(Extreme { worst: false })), [260; 3]);
}

#[test]
fn a_generation_begins_with_a_clone() {
    #[derive(Clone)]
    struct Count(u32);
    impl Sample for Count {
        fn choose(&mut self, _: &[u32], _: &[f32]) -> Result<u32, Box<dyn error::Error + Send + Sync>> {
            self.0 += 1;
            Ok(self.0)
        }
    }
    let options = limited(3).sampler(Count(260));
    for _ in 0..2 {
        assert_eq!(fresh(options.clone()), [261, 262, 263]);
    }
}

#[test]
fn a_text_that_must_go_on_goes_on() {
    let model = model();
    let end = model.tokenizer().stop_ids()[0];
    let boosted = move |_: &[u32], logits: &mut [f32]| logits[end as usize] = 1e9;
    let (on, ends) = (limited(3), limited(3).ignore_eos(false));
    for sampler in [false, true] {
        let with = |options: GenerateOptions| {
            let options = options.processor(boosted);
            fresh(if sampler { options.sampler(Extreme { worst: false }) } else { options })
        };
        assert_eq!(with(ends.clone()), [0; 0]);
        let tokens = with(on.clone());
        assert!(tokens.len() == 3 && !tokens.contains(&end), "{tokens:?}");
    }
}

#[test]
fn what_goes_wrong_in_a_sampler_is_said() {
    #[derive(Clone)]
    struct Wrong(Option<u32>);
    impl Sample for Wrong {
        fn choose(&mut self, _: &[u32], _: &[f32]) -> Result<u32, Box<dyn error::Error + Send + Sync>> {
            Ok(self.0.ok_or("nothing fits the grammar")?)
        }
    }
    let model = model();
    let mut session = model.session(&Default::default()).unwrap();
    let mut first = |options| session.generate(&PROMPT, options).unwrap().next().unwrap().unwrap_err().to_string();
    assert_eq!(first(limited(3).sampler(Wrong(None))), "own sampler: nothing fits the grammar");
    let outside = format!("token {0} is outside of the vocabulary of {0}", Tiny::VOCAB);
    assert_eq!(first(limited(3).sampler(Wrong(Some(Tiny::VOCAB as u32)))), outside);
    let nothing = limited(3).processor(|_: &[u32], logits: &mut [f32]| logits.fill(f32::NEG_INFINITY));
    assert!(first(nothing).starts_with("logits: expected a token that may follow"));
}

#[test]
fn a_batch_gives_it_all_logits() {
    let model = model();
    let mut batch = model.batch(&BatchOptions::default()).unwrap();
    let id = batch.add().unwrap();
    let options = limited(4).sampler(Extreme { worst: true });
    let mut text = Continuation::new(&model, &options, &PROMPT, batch.context()).unwrap();
    for top_k in [0, 1, 256] {
        assert_eq!(text.want(top_k), Want::Logits);
    }
    // What was not asked for is no row to choose from.
    batch.push(id, &PROMPT, Role::Prefill, Outputs::Last(Want::Best(5))).unwrap();
    batch.step().unwrap();
    let value = batch.answers().next().unwrap().value;
    assert!(matches!(text.choose(value), Err(Error::NoLogits)));
}
