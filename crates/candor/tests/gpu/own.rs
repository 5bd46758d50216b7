//! Samplers and processors of users see all logits of a GPU, whatever the built-in chain would have read. Skipped where there
//! is no adapter, a software one (lavapipe) included.

use std::error;

use candor::{
    Device, GenerateOptions, Gguf, LoadOptions, Model, Sampling, Session, Verify,
    sampler::Sample,
    speculate::{PromptLookup, Speculation},
};
use candor_gpu::{AdapterChoice, GpuOptions, adapters};
use candor_testing::{Tiny, has_gpu};

const PROMPT: [u32; 6] = [1, 270, 280, 290, 270, 280];
const COUNT: usize = 6;

/// Chooses the least logit, which is not among the best that a device finds.
#[derive(Clone)]
struct Worst;

impl Sample for Worst {
    fn choose(&mut self, _: &[u32], logits: &[f32]) -> Result<u32, Box<dyn error::Error + Send + Sync>> {
        let finite = (0..).zip(logits).filter(|(_, logit)| logit.is_finite());
        Ok(finite.min_by(|a, b| a.1.total_cmp(b.1)).ok_or("no logits")?.0)
    }
}

/// Leaves the worse half of the logits, as they are.
fn worse_half(_: &[u32], logits: &mut [f32]) {
    let mut sorted = logits.to_vec();
    sorted.sort_by(f32::total_cmp);
    let median = sorted[sorted.len() / 2];
    logits.iter_mut().filter(|logit| **logit > median).for_each(|logit| *logit = f32::NEG_INFINITY);
}

fn tokens(session: &mut Session, options: GenerateOptions) -> Vec<u32> {
    session.generate(&PROMPT, options).unwrap().filter_map(|piece| piece.unwrap().token).collect()
}

/// The same from all logits, each token of which is read.
fn by_hand(model: &Model, choose: impl Fn(&mut [f32]) -> u32) -> Vec<u32> {
    let mut session = model.session(&Default::default()).unwrap();
    session.evaluate(&PROMPT).unwrap();
    let mut chosen = Vec::new();
    while chosen.len() < COUNT {
        let mut logits = session.logits().to_vec();
        model.tokenizer().stop_ids().iter().for_each(|&id| logits[id as usize] = f32::NEG_INFINITY);
        chosen.push(choose(&mut logits));
        session.decode(chosen[chosen.len() - 1]).unwrap();
    }
    chosen
}

fn best(logits: &[f32]) -> u32 {
    (0..).zip(logits).max_by(|(i, a), (j, b)| a.total_cmp(b).then(j.cmp(i))).unwrap().0
}

#[test]
fn all_logits_are_read_for_them() {
    if !has_gpu(adapters().len()) {
        return;
    }
    let gpu = GpuOptions::default().adapter(AdapterChoice::Index(0));
    let load = LoadOptions::default().device(Device::Gpu).gpu(gpu).verify(Verify::Off);
    let model = Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &load).unwrap();
    let greedy = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(COUNT).ignore_eos(true);
    let worst = by_hand(&model, |logits| Worst.choose(&[], logits).unwrap());
    let half = by_hand(&model, |logits| {
        worse_half(&[], logits);
        best(logits)
    });
    for (name, options, expected) in
        [("sampler", greedy.clone().sampler(Worst), worst), ("processor", greedy.clone().processor(worse_half), half)]
    {
        let mut session = model.session(&Default::default()).unwrap();
        // The chain leaves the best of the prompt's logits, which are not enough.
        assert_ne!(tokens(&mut session, greedy.clone()), expected, "{name}");
        session.truncate(0);
        tokens(&mut session, greedy.clone().max_tokens(0));
        assert!(session.logits().is_empty(), "{name}: only the best are known");
        let before = session.traffic().bytes_read;
        assert_eq!(tokens(&mut session, options.clone()), expected, "{name}");
        let read = session.traffic().bytes_read - before;
        assert_eq!(read, (COUNT * 4 * model.config().vocab) as u64, "{name}");

        let mut session = model.session(&Default::default()).unwrap();
        session.speculate(Some(Speculation::new(PromptLookup::default()))).unwrap();
        assert_eq!(tokens(&mut session, options), expected, "{name}, guessed ahead");
    }
}
