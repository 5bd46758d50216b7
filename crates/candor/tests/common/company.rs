//! Random interleavings of all that a batch can do, each row against what it is alone.

use std::collections::HashMap;

use candor::{Batch, BatchOptions, Error, KvFormat, Model, Outputs, Role, SequenceId, SessionOptions, Value, Want};
use candor_testing::Random;

const SEQUENCES: usize = 5;
const CONTEXT: usize = 600;
const ROWS: usize = 64;

/// Pages, rings, states beside attention, latents, shared layers, experts; and formats that have kernels for prompts.
pub const MODELS: [&str; 8] = [
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
            let options = SessionOptions::default().context(CONTEXT).batch(50).keys(keys).values(values);
            let mut session = model.session(&options).unwrap();
            for run in history.chunk_by(|a, b| a.1 == b.1) {
                let tokens: Vec<u32> = run.iter().map(|(token, _)| *token).collect();
                match run[0].1 {
                    Role::Prefill => session.evaluate(&tokens).unwrap(),
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

/// `pool` has as many positions that pages must run out: that takes layers which keep all, and some turns.
pub fn check(name: &str, model: &Model, turns: usize, pool: Option<usize>) {
    let (keys, values) = (KvFormat::F32, KvFormat::F32);
    let mut options = BatchOptions::default();
    (options.sequences, options.checkpoints, options.context, options.rows) = (SEQUENCES, 3, CONTEXT, ROWS);
    (options.pool, options.keys, options.values) = (pool, keys, values);
    let batch = model.batch(&options).unwrap();
    let alone = Alone { model, known: HashMap::new() };
    let mut run =
        Run { name, batch, alone, random: Random(5), sequences: Vec::new(), kept: HashMap::new(), seen: [0; 2] };
    for _ in 0..turns {
        run.change();
        run.step();
    }
    assert!(run.seen[0] >= turns / 2 && (run.seen[1] > 0 || pool.is_none()), "{name}: {:?}", run.seen);
    let ids: Vec<SequenceId> = run.sequences.iter().map(|(id, _)| *id).collect();
    ids.into_iter().for_each(|id| run.batch.remove(id).unwrap());
    assert_eq!(run.batch.pages().0, 0, "{name}: pages return");
}
