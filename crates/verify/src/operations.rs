//! A model's run on a watched backend: a prompt in one pass, then tokens one by one, every operation checked.

use std::future::poll_fn;

use candor_gguf::Gguf;
use candor_models::{Decoder, Part, Pass, Scratch};
use candor_ops::{Error, KvFormat, Ops, Plain, Prims as _, Step};
use serde::{Deserialize, Serialize};

use crate::{
    checked::Checked,
    ledger::{Ledger, Operation, Worst},
    product::Columns,
};

/// Outputs of each product that a quick run checks.
const QUICK_COLUMNS: usize = 64;

/// How many of the best logits a device is asked for that finds them itself: one, those of llama.cpp's default and a few
/// that are penalised, and many.
const TOP: [usize; 3] = [1, 43, 200];

/// How much is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// Every output of every operation, with the fusions and without.
    #[default]
    Full,
    /// A self-check: 64 outputs of each product, with the fusions.
    Quick,
}

/// What is run while the operations are checked.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The text that an encoder reads first; empty where the model has none.
    pub text: &'a [u32],
    /// The prompt: at least one token, each within the vocabulary.
    pub prompt: &'a [u32],
    /// Tokens decoded after it: those of `after`, then always the most likely one.
    pub decode: usize,
    /// What is known of them.
    pub after: &'a [u32],
    /// How much of each product is checked.
    pub depth: Depth,
    /// Element type of cached keys.
    pub keys: KvFormat,
    /// Element type of cached values.
    pub values: KvFormat,
    /// Whether the backend promises to take the inputs of products as they are: its bound is then that of sums in f32.
    pub exact: bool,
    /// The part of the model that runs, from the tokens to the logits; `None` for all of it.
    pub part: Option<Part>,
}

/// What checking every operation of a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// The classes, in the order in which they first ran.
    pub classes: Vec<Operation>,
    /// The first failure in the order of computation: index of its class, and what failed.
    pub first_failure: Option<(usize, Worst)>,
    /// The prompt and what was decoded after it.
    pub tokens: Vec<u32>,
}

impl Operations {
    /// Whether every operation was within its bound.
    pub fn passes(&self) -> bool {
        self.first_failure.is_none()
    }

    /// What failed first, with its error and bound, for people to read; `None` where nothing did.
    pub fn failure(&self) -> Option<String> {
        let (index, worst) = self.first_failure.as_ref()?;
        let error = worst.error.map_or("not a number".to_owned(), |error| format!("error {error:.1e}"));
        Some(format!("{}: {error}, at most {:.1e}, at {}", self.classes[*index].class, worst.bound, worst.place))
    }
}

impl From<(Ledger, Vec<u32>)> for Operations {
    fn from((ledger, tokens): (Ledger, Vec<u32>)) -> Self {
        Operations { classes: ledger.operations, first_failure: ledger.first_failure, tokens }
    }
}

/// Runs the plan on `ops` and computes every operation and fusion again from the backend's own inputs. At full depth
/// the prompt and a token run once more with the fusions switched off, so that each primitive is seen by itself.
///
/// # Errors
/// If the backend cannot hold the model, or its device fails.
pub fn operations<B: Ops + Clone>(gguf: &Gguf, ops: B, plan: &Plan<'_>) -> Result<Operations, candor_models::Error> {
    let columns = match plan.depth {
        Depth::Full => Columns::All,
        Depth::Quick => Columns::Sampled(QUICK_COLUMNS),
    };
    let mut fused = Checked::new(ops.clone(), columns, plan.exact);
    let tokens = run(gguf, &mut fused, plan, Checked::begin)?;
    let mut ledger = fused.ledger;
    if plan.depth == Depth::Full {
        let mut plain = Plain(Checked::new(ops, columns, plan.exact));
        plain.0.ledger = ledger;
        let first = plan.decode + 1;
        let short = Plan { decode: plan.decode.min(1), ..plan.clone() };
        run(gguf, &mut plain, &short, |plain, pass| plain.0.begin(first + pass))?;
        ledger = plain.0.ledger;
    }
    Ok((ledger, tokens).into())
}

/// Operations that any backend can be asked for, outside of a model.
pub trait Work {
    /// Asks for them.
    ///
    /// # Errors
    /// If the backend refuses a weight, or its device fails.
    fn run<B: Ops>(&self, ops: &mut B) -> Result<(), Error>;
}

/// Does the work on `ops`, and computes every operation again from the backend's own inputs.
///
/// # Errors
/// As [`Work::run`].
pub fn watched<B: Ops>(ops: B, work: &impl Work) -> Result<Operations, Error> {
    let mut checked = Checked::new(ops, Columns::All, false);
    work.run(&mut checked)?;
    Ok((checked.ledger, Vec::new()).into())
}

/// [`operations`] at [`Depth::Quick`], where reads are awaited. The passes run twice: what they read is kept, and checked when all
/// of it is there.
///
/// # Errors
/// As there.
pub(crate) async fn awaited<B: Ops>(gguf: &Gguf, ops: B, plan: &Plan<'_>) -> Result<Operations, candor_models::Error> {
    let mut checked = Checked::new(ops, Columns::Sampled(QUICK_COLUMNS), plan.exact);
    let mut run = Run::new(gguf, &mut checked, plan)?;
    let mut logits = Vec::new();
    checked.keep();
    run.read_text(&mut checked, Checked::begin);
    for pass in 0..=plan.decode {
        checked.begin(pass);
        let mut snapshot = run.pass(&mut checked, pass);
        poll_fn(|cx| checked.poll_read(&mut snapshot, cx)).await;
        checked.download(&snapshot, &mut logits);
        checked.finish()?;
        run.choose(pass, &logits);
    }
    checked.read_kept().await;
    checked.finish()?;
    run.read_text(&mut checked, Checked::begin);
    for pass in 0..=plan.decode {
        checked.begin(pass);
        run.pass(&mut checked, pass);
    }
    checked.finish()?;
    Ok((checked.ledger, run.tokens).into())
}

/// Runs the prompt and decodes; the tokens of both.
fn run<O: Ops>(
    gguf: &Gguf,
    ops: &mut O,
    plan: &Plan<'_>,
    begin: impl Fn(&mut O, usize),
) -> Result<Vec<u32>, candor_models::Error> {
    let mut run = Run::new(gguf, ops, plan)?;
    let mut logits = Vec::new();
    run.read_text(ops, &begin);
    for pass in 0..=plan.decode {
        begin(ops, pass);
        let snapshot = run.pass(ops, pass);
        ops.download(&snapshot, &mut logits);
        ops.finish()?;
        run.choose(pass, &logits);
    }
    Ok(run.tokens)
}

/// A plan on its way.
struct Run<'a, O: Ops> {
    plan: &'a Plan<'a>,
    model: Decoder<O>,
    scratch: Scratch<O>,
    kv: O::Kv,
    /// The prompt, and what was chosen after it.
    tokens: Vec<u32>,
}

impl<'a, O: Ops> Run<'a, O> {
    fn new(gguf: &Gguf, ops: &mut O, plan: &'a Plan<'a>) -> Result<Self, candor_models::Error> {
        let model = match &plan.part {
            Some(part) => Decoder::load_part(gguf, ops, part)?,
            None => Decoder::load(gguf, ops)?,
        };
        let length = (plan.prompt.len() + plan.decode).max(plan.text.len());
        let scratch = model.scratch(ops, plan.prompt.len().max(plan.text.len()), 2);
        let whole = model.config().kv_plan(length, 1, plan.keys, plan.values);
        let cache = whole.part(model.config().cached(model.part()));
        cache.check()?;
        let kv = ops.kv(&cache);
        Ok(Run { plan, model, scratch, kv, tokens: plan.prompt.to_vec() })
    }

    /// An encoder's pass, where the model has one.
    fn read_text(&mut self, ops: &mut O, begin: impl Fn(&mut O, usize)) {
        let Run { plan: Plan { text, .. }, model, scratch, kv, .. } = self;
        if text.is_empty() {
            return;
        }
        let places: Vec<u32> = (0..text.len() as u32).collect();
        let sequences = vec![0; places.len()];
        let step = Step { tokens: text, positions: &places, sequences: &sequences, outputs: &[], decoding: 0 };
        begin(ops, 0);
        model.encode(&mut Pass { ops, s: scratch, kv, step, tap: &mut () });
    }

    /// A pass: the prompt's, or that of the token which was chosen in the pass before. A copy of its logits.
    fn pass(&mut self, ops: &mut O, pass: usize) -> O::Snapshot {
        let Run { plan, model, scratch, kv, tokens } = self;
        let end = plan.prompt.len() + pass;
        let first = if pass == 0 { 0 } else { end - 1 };
        let positions: Vec<u32> = (first as u32..end as u32).collect();
        let sequences = vec![0; positions.len()];
        // Two rows of the prompt where it has them: a product of several rows may be another kernel than that of one.
        let last = positions.len() as u32 - 1;
        let outputs: &[u32] = if last == 0 { &[0] } else { &[0, last] };
        let decoding = if pass == 0 { 0 } else { positions.len() };
        let tokens = &tokens[first..end];
        let step = Step { tokens, positions: &positions, sequences: &sequences, outputs, decoding };
        model.forward(&mut Pass { ops, s: scratch, kv, step, tap: &mut () });
        for count in TOP.into_iter().filter(|&count| count <= O::TOP_K) {
            ops.top_k(&scratch.logits, model.config().outputs(), count);
        }
        ops.snapshot(&scratch.logits)
    }

    /// Chooses the token of the next pass, if there is one.
    fn choose(&mut self, pass: usize, logits: &[f32]) {
        if pass < self.plan.decode {
            let row = logits.len().saturating_sub(self.model.config().vocab);
            let likeliest = || greatest(&logits[row..]);
            self.tokens.push(self.plan.after.get(pass).copied().unwrap_or_else(likeliest));
        }
    }
}

/// Index of the largest value; NaN is never larger.
fn greatest(values: &[f32]) -> u32 {
    let better = |best: usize, i: usize| if values[i] > values[best] { i } else { best };
    (1..values.len()).fold(0, better) as u32
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use candor_ops::Reference;
    use candor_testing::TinyT5;

    use super::*;

    #[test]
    fn values_that_are_read_later_say_the_same() {
        let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/goldens/architectures");
        // Attention, experts and states, several streams, an encoder.
        let files = ["smollm3", "nemotron-h-moe", "gemma3n"].map(|name| Gguf::open(all.join(name).join("model.gguf")));
        let t5 = Gguf::from_bytes(TinyT5::default().bytes().into());
        for gguf in files.into_iter().chain([t5]).map(Result::unwrap) {
            let name = gguf.metadata().str("general.architecture").unwrap().unwrap();
            let config = candor_models::Config::from_gguf(&gguf).unwrap();
            let prompt = [1, 5, 9, 2, 7];
            let text: &[u32] = if config.start.is_some() { &prompt } else { &[] };
            let (keys, values) = (KvFormat::F16, KvFormat::F16);
            let depth = Depth::Quick;
            let plan =
                Plan { text, prompt: &prompt, decode: 2, after: &[6], depth, keys, values, exact: true, part: None };
            let expected = operations(&gguf, Reference, &plan).unwrap();
            let later = pin!(awaited(&gguf, Reference, &plan));
            let Poll::Ready(later) = later.poll(&mut Context::from_waker(Waker::noop())) else {
                panic!("the host can wait")
            };
            assert_eq!(later.unwrap(), expected, "{name}");
            assert_eq!((expected.tokens[5], expected.tokens.len()), (6, 7), "{name}");
            assert!(expected.classes.iter().any(|class| class.calls > 2), "{name}");
        }
    }
}
