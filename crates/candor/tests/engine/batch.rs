//! Steps of any mixture of sequences that come, go, fork, go back, are kept and removed: each sequence has the bits that it has
//! alone, and all pages return.

use std::collections::HashMap;

use candor::{
    Batch, BatchOptions, Batching, Device, Error, LoadOptions, Model, Outputs, Role, SequenceId, SessionOptions, Value,
    Want, gguf::Gguf, ops::KvFormat,
};
use candor_testing::{Random, Tiny, fixtures};

const SEQUENCES: usize = 5;
const CONTEXT: usize = 600;
const ROWS: usize = 64;

/// Pages, rings, states beside attention, latents, shared layers, experts; and formats that have kernels for prompts.
const MODELS: [&str; 8] = [
    "arch/gemma3/model.gguf",
    "arch/cohere2-swa8/model.gguf",
    "arch/mamba2/model.gguf",
    "arch/rwkv7/model.gguf",
    "arch/qwen3next/model.gguf",
    "arch/deepseek2-v3/model.gguf",
    "arch/gemma4/model.gguf",
    "arch/quant-llama-wide256-Q4_K_M/model.gguf",
];

/// What a sequence was given.
type History = Vec<(u32, Role)>;

/// Alone, each run of tokens of one role in calls of its own.
struct Alone<'m> {
    model: &'m Model,
    known: HashMap<History, Vec<u32>>,
}

impl Alone<'_> {
    /// The bits of the logits of the last token.
    fn logits(&mut self, history: &History) -> &[u32] {
        let model = self.model;
        self.known.entry(history.clone()).or_insert_with(|| {
            let (keys, values) = (KvFormat::F32, KvFormat::F32);
            let options = SessionOptions { context: CONTEXT, batch: 50, keys, values, ..Default::default() };
            let mut session = model.session(&options).unwrap();
            for run in history.chunk_by(|a, b| a.1 == b.1) {
                let tokens: Vec<u32> = run.iter().map(|(token, _)| *token).collect();
                match run[0].1 {
                    Role::Prefill => _ = session.evaluate(&tokens).unwrap(),
                    Role::Decode => tokens.iter().for_each(|&token| session.decode(token).unwrap()),
                }
            }
            session.logits().iter().map(|logit| logit.to_bits()).collect()
        })
    }
}

struct Run<'m> {
    name: &'m str,
    batch: Batch,
    alone: Alone<'m>,
    random: Random,
    sequences: Vec<(SequenceId, History)>,
    /// Where memory of some was kept.
    kept: HashMap<SequenceId, usize>,
    /// Rows compared, and steps that found no page.
    seen: [usize; 2],
}

impl Run<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    /// Pushes of some sequences in a step, and its answers against those alone.
    fn step(&mut self) {
        let vocab = self.batch.model().config().vocab;
        let mut pushed: Vec<(usize, History, Outputs)> = Vec::new();
        for at in 0..self.sequences.len() {
            let role = if self.below(2) == 0 { Role::Prefill } else { Role::Decode };
            let most = if role == Role::Prefill { 70 } else { 4 };
            let tokens: Vec<u32> = (0..=self.below(most)).map(|_| self.below(vocab) as u32).collect();
            let outputs = match self.below(5) {
                0 => Outputs::None,
                1 => Outputs::Each(Want::Logits),
                2 => Outputs::Last(Want::Best(3)),
                3 => Outputs::Last(Want::Embedding),
                _ => Outputs::Last(Want::Logits),
            };
            match self.batch.push(self.sequences[at].0, &tokens, role, outputs) {
                Ok(()) => pushed.push((at, tokens.into_iter().map(|token| (token, role)).collect(), outputs)),
                Err(Error::StepTooLong { .. } | Error::PromptTooLong { .. }) => {}
                Err(error) => panic!("{}: {error}", self.name),
            }
        }
        match self.batch.step() {
            Ok(()) => {}
            Err(Error::PagesFull { .. }) => {
                self.seen[1] += 1;
                return;
            }
            Err(error) => panic!("{}: {error}", self.name),
        }
        let mut answers = self.batch.answers();
        for (at, tokens, outputs) in pushed {
            let (id, history) = &mut self.sequences[at];
            let before = history.len();
            history.extend(&tokens);
            assert_eq!(self.batch.tokens(*id).unwrap().len(), history.len(), "{}", self.name);
            let rows = match outputs {
                Outputs::None => history.len()..history.len(),
                Outputs::Last(_) => history.len() - 1..history.len(),
                Outputs::Each(_) => before..history.len(),
            };
            for row in rows {
                let answer = answers.next().unwrap();
                assert_eq!((answer.sequence, answer.position), (*id, row), "{}", self.name);
                match answer.value {
                    Value::Embedding(values) => assert!(values.iter().all(|x| x.is_finite())),
                    // Every row would take long.
                    _ if row + 1 < history.len() && self.random.below(8) > 0 => {}
                    Value::Logits(values) => {
                        let bits: Vec<u32> = values.iter().map(|x| x.to_bits()).collect();
                        let expected = self.alone.logits(&history[..=row].to_vec());
                        assert!(bits == expected, "{}: row {row} of {:?}", self.name, history.len());
                        self.seen[0] += 1;
                    }
                    Value::Best(best) => {
                        let expected = self.alone.logits(&history[..=row].to_vec());
                        assert_eq!(best.len(), 3);
                        for (token, logit) in best {
                            assert_eq!(logit.to_bits(), expected[*token as usize], "{}: row {row}", self.name);
                        }
                    }
                }
            }
        }
        assert!(answers.next().is_none());
    }

    fn change(&mut self) {
        let count = self.sequences.len();
        if count == 0 || self.below(6) == 0 {
            match self.batch.add() {
                Ok(id) => self.sequences.push((id, Vec::new())),
                Err(Error::SequencesFull { .. }) => {}
                Err(error) => panic!("{}: {error}", self.name),
            }
            return;
        }
        let at = self.below(count);
        let (id, history) = self.sequences[at].clone();
        // Often behind a checkpoint.
        let least = self.kept.get(&id).copied().filter(|&kept| kept <= history.len() && self.random.below(3) > 0);
        let least = least.unwrap_or(0);
        let len = least + self.below(history.len() - least + 1);
        match self.below(6) {
            0 => {
                if count == SEQUENCES {
                    let other = (at + 1 + self.below(count - 1)) % count;
                    self.batch.remove(self.sequences.remove(other).0).unwrap();
                }
                let fork = self.batch.fork(id, len).unwrap();
                self.sequences.push((fork, history[..len].to_vec()));
            }
            1 => {
                self.batch.truncate(id, len).unwrap();
                self.sequences[at].1.truncate(len);
            }
            2 => match self.batch.checkpoint(id) {
                Ok(()) => _ = self.kept.insert(id, history.len()),
                Err(Error::CheckpointsFull { .. } | Error::PagesFull { .. }) => {}
                Err(error) => panic!("{}: {error}", self.name),
            },
            3 => {
                let mut file = Vec::new();
                match self.batch.save(id, &mut file) {
                    Ok(()) => {}
                    Err(Error::PagesFull { .. }) => return,
                    Err(error) => panic!("{}: {error}", self.name),
                }
                let to = self.below(count);
                // The cache may be too full for it; then the sequence is empty.
                let history = if self.batch.load(self.sequences[to].0, &file).is_ok() { history } else { Vec::new() };
                self.sequences[to].1 = history;
            }
            4 if count > 2 => {
                self.batch.remove(id).unwrap();
                self.sequences.remove(at);
                assert!(matches!(self.batch.tokens(id), Err(Error::NoSuchSequence)));
            }
            _ => {}
        }
    }
}

/// `pooled` says that the model has layers which keep all positions, so that pages run out.
fn check(name: &str, model: &Model, turns: usize, pooled: bool) {
    let (keys, values) = (KvFormat::F32, KvFormat::F32);
    let mut options = BatchOptions::default();
    (options.sequences, options.checkpoints, options.context, options.rows) = (SEQUENCES, 3, CONTEXT, ROWS);
    (options.pool, options.keys, options.values) = (Some(5 * 256), keys, values);
    let batch = model.batch(&options).unwrap();
    let alone = Alone { model, known: HashMap::new() };
    let mut run =
        Run { name, batch, alone, random: Random(5), sequences: Vec::new(), kept: HashMap::new(), seen: [0; 2] };
    for _ in 0..turns {
        run.change();
        run.step();
    }
    assert!(run.seen[0] > turns && (run.seen[1] > 0 || !pooled), "{name}: {:?}", run.seen);
    let ids: Vec<SequenceId> = run.sequences.iter().map(|(id, _)| *id).collect();
    ids.into_iter().for_each(|id| run.batch.remove(id).unwrap());
    assert_eq!(run.batch.pages().0, 0, "{name}: pages return");
}

fn tiny(load: &LoadOptions) -> Model {
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), load).unwrap()
}

#[test]
fn sequences_in_any_company_have_the_bits_that_they_have_alone() {
    for device in [Device::Cpu, Device::Reference] {
        check(&format!("tiny, {device:?}"), &tiny(&LoadOptions { device, threads: 2, ..Default::default() }), 60, true);
    }
    let Some(fixtures) = fixtures() else { return };
    for name in MODELS {
        let load = LoadOptions { threads: 2, ..Default::default() };
        let pooled = !["mamba2", "rwkv7"].iter().any(|recurrent| name.contains(recurrent));
        check(name, &Model::open(fixtures.join(name), &load).unwrap(), 60, pooled);
    }
}

/// The same text alone, beside others, and in chunks of any size.
#[test]
fn bits_follow_from_roles() {
    let Some(fixtures) = fixtures() else { return };
    for name in ["quant-llama-wide256-Q4_K_M", "quant-llama-wide256-Q6_K", "quant-llama-F16", "qwen3moe"] {
        for threads in [1, 2] {
            let load = LoadOptions { threads, ..Default::default() };
            let model = Model::open(fixtures.join("arch").join(name).join("model.gguf"), &load).unwrap();
            let vocab = model.config().vocab as u32;
            let prompt: Vec<u32> = (0..150).map(|i| (3 + i * 7) % vocab).collect();
            let mut alone = model.session(&SessionOptions { context: 256, ..Default::default() }).unwrap();
            alone.evaluate(&prompt).unwrap();
            let read: Vec<u32> = alone.logits().iter().map(|x| x.to_bits()).collect();
            alone.decode(9).unwrap();
            let written: Vec<u32> = alone.logits().iter().map(|x| x.to_bits()).collect();
            for others in [0, 1, 7, 40] {
                for chunk in [1, 7, 64, 150] {
                    let mut options = BatchOptions::default();
                    (options.sequences, options.context, options.rows) = (1 + others, 256, 512);
                    let mut batch = model.batch(&options).unwrap();
                    let id = batch.add().unwrap();
                    let company: Vec<SequenceId> = (0..others).map(|_| batch.add().unwrap()).collect();
                    let mut steps: Vec<(&[u32], Role)> = prompt.chunks(chunk).map(|c| (c, Role::Prefill)).collect();
                    steps.push((&[9], Role::Decode));
                    let last = steps.len() - 2;
                    for (number, (tokens, role)) in steps.into_iter().enumerate() {
                        // Half of the company reads, half of it writes, not in every step.
                        for (other, &company) in
                            company.iter().enumerate().filter(|_| number % 16 == 0 || number >= last)
                        {
                            let role = if other % 2 == 0 { Role::Prefill } else { Role::Decode };
                            let tokens = &prompt[other..][..1 + other % 5];
                            batch.push(company, tokens, role, Outputs::Last(Want::Logits)).unwrap();
                        }
                        batch.push(id, tokens, role, Outputs::Last(Want::Logits)).unwrap();
                        batch.step().unwrap();
                        if number >= last {
                            let expected = if number == last { &read } else { &written };
                            let answer = batch.answers().find(|answer| answer.sequence == id).unwrap();
                            let Value::Logits(values) = answer.value else { panic!("logits") };
                            let same = values.iter().map(|x| x.to_bits()).eq(expected.iter().copied());
                            assert!(same, "{name}: {threads} threads, {others} others, chunks of {chunk}, {role:?}");
                        }
                    }
                }
            }
        }
    }
}

/// What is known of roles is known from the outside: kernels of prompts have other bits than those of decoding.
#[test]
fn a_format_with_two_arithmetics_has_both() {
    let Some(fixtures) = fixtures() else { return };
    let path = fixtures.join("arch/quant-llama-wide256-Q4_K_M/model.gguf");
    let bits = |batching, role| {
        let model = Model::open(&path, &LoadOptions { threads: 1, batching, ..Default::default() }).unwrap();
        let mut batch = model.batch(&BatchOptions::default()).unwrap();
        let id = batch.add().unwrap();
        batch.push(id, &[1, 5, 6, 7], role, Outputs::Last(Want::Logits)).unwrap();
        batch.step().unwrap();
        let Value::Logits(values) = batch.answers().next().unwrap().value else { panic!("logits") };
        let bits: Vec<u32> = values.iter().map(|x| x.to_bits()).collect();
        (bits, model.is_batch_invariant())
    };
    let (written, _) = bits(Batching::ByRole, Role::Decode);
    assert!(bits(Batching::Invariant, Role::Prefill).0 == written, "one arithmetic");
    assert!(bits(Batching::Invariant, Role::Decode).0 == written);
    // Few rows are multiplied by the kernels of rows there, whatever they are for.
    assert!(bits(Batching::Fastest, Role::Prefill).0 == written);
    let (read, invariant) = bits(Batching::ByRole, Role::Prefill);
    assert!(invariant);
    let scalar = candor::kernels::Kernels::best().name == "scalar";
    assert!(scalar || read != written, "kernels for prompts");
}

#[test]
fn what_does_not_fit_is_an_error_and_changes_nothing() {
    let model = tiny(&Default::default());
    let mut options = BatchOptions::default();
    (options.sequences, options.context, options.rows, options.outputs) = (2, 24, 8, 2);
    let mut batch = model.batch(&options).unwrap();
    let (a, b) = (batch.add().unwrap(), batch.add().unwrap());
    assert!(matches!(batch.add(), Err(Error::SequencesFull { most: 2 })));
    batch.push(a, &[1, 2, 3], Role::Prefill, Outputs::None).unwrap();
    let last = Outputs::Last(Want::Logits);
    assert!(matches!(batch.push(a, &[4], Role::Prefill, last), Err(Error::SequenceInStep)));
    let many = batch.push(b, &[1; 6], Role::Prefill, last);
    assert!(matches!(many, Err(Error::StepTooLong { rows: 9, most: 8 })), "{many:?}");
    let wanted = batch.push(b, &[1; 3], Role::Prefill, Outputs::Each(Want::Best(1)));
    assert!(matches!(wanted, Err(Error::StepTooLong { rows: 3, most: 2 })), "{wanted:?}");
    let vocab = model.config().vocab;
    let token = batch.push(b, &[vocab as u32], Role::Prefill, last);
    assert!(matches!(token, Err(Error::Token { .. })));
    batch.push(b, &[5], Role::Decode, last).unwrap();
    batch.step().unwrap();
    assert_eq!((batch.tokens(a).unwrap(), batch.tokens(b).unwrap()), (&[1, 2, 3][..], &[5][..]));
    assert_eq!(batch.answers().len(), 1);
    batch.remove(a).unwrap();
    let again = batch.add().unwrap();
    assert!(matches!(batch.push(a, &[1], Role::Decode, last), Err(Error::NoSuchSequence)), "not the one in its place");
    assert!(batch.tokens(again).unwrap().is_empty());
    // A step of nothing is one.
    batch.step().unwrap();
    assert_eq!(batch.answers().len(), 0);
}
