//! What a trained model's likelihood of a text says about how its file was converted: each known fault of a conversion is undone in
//! memory, and the repair with which the text is clearly likelier names the fault. A fault that no repair undoes is not found, and text
//! unlike the model's training shows little.

mod change;
mod measure;
mod repair;
mod repairs;
mod rows;
mod verdict;

use candor::{Encode, Error, Gguf, LoadOptions, Model, SessionOptions};
use serde::{Deserialize, Serialize};

use measure::{BROKEN, Gain, Measure, entropy, mean};
use repair::{Attempt, Conversion, Repair};
use repairs::repairs;

/// The least gain that counts, in nats per token. Rounding weights to four or five bits costs about as much, so that less may be the
/// file's format.
const LEAST: f64 = 0.02;
/// The least gain in standard errors. A file has about a hundred attempts, of which chance lets one pass in less than one of a thousand
/// files: by Student's distribution of 31 degrees of freedom, one of 100,000 attempts.
const ERRORS: f64 = 5.0;
/// Standard errors that the first window may be wrong by, where it decides which attempts go on.
const DOUBT: f64 = 3.0;
/// By how much the counts of tokens have to be beaten by a repair of a file that does not beat them itself, in nats per token: a flatter
/// distribution helps on text unlike the training, by 0.4 for a model of stories that reads Shakespeare.
const KNOWN: f64 = 0.75;
/// Faults of one file that are looked for, one after the other.
const ROUNDS: usize = 3;

/// How to measure.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// Where to compute.
    pub load: LoadOptions,
    /// The cache and batches; its context is not used.
    pub session: SessionOptions,
    /// Tokens of a window, of which all but the first quarter are scored. No more are taken than the model's context has.
    pub window: usize,
    /// Windows at most, from the beginning of the text.
    pub windows: usize,
}

/// What a text says about a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Likelihood {
    /// Windows of the text.
    pub windows: usize,
    /// Tokens of one.
    pub window: usize,
    /// Tokens that were scored.
    pub tokens: usize,
    /// Negative log-likelihood with the file as it is, in nats per token; `None` where it is no number.
    pub nats: Option<f64>,
    /// Nats per token of who knows how often each token occurs in the text, and nothing else.
    pub entropy: f64,
    /// Repairs that were tried on the file as it is.
    pub tried: usize,
    /// What is wrong with the file, as far as the text shows: one fault after the other, each with the ones before it undone. Of one
    /// fault the likeliest repair first, and those that are about as likely.
    pub faults: Vec<Vec<Repaired>>,
}

/// A repair with which the text is clearly likelier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repaired {
    /// Its name.
    pub name: String,
    /// What it changes.
    pub detail: String,
    /// The tensors or the key that are concerned.
    pub subject: String,
    /// What is wrong with the file.
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
    /// Commands that mend the file, where `candor gguf` can.
    pub commands: Vec<String>,
    /// Nats per token with it.
    pub nats: f64,
    /// By how much that is less than before.
    pub gain: f64,
    /// One standard error of the gain.
    pub error: f64,
}

/// Measures a model's likelihood of a text, and with each repair that its file can have. `progress` hears how many of the repairs are
/// tried.
///
/// # Errors
/// If the model does not continue texts, the text is shorter than two windows, or the file as it is does not run.
pub fn likelihood(
    gguf: &Gguf,
    text: &str,
    options: &TextOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<Likelihood, Error> {
    let model = Model::from_gguf(gguf.clone(), &options.load)?;
    model.refuse_answers("candor doctor --text")?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let tokens = model.tokenizer().encode(text, Encode { bos: true, specials: false });
    let window = options.window.min(model.config().context).max(4);
    drop(model);
    let measure = Measure::new(&options.load, options.session, &tokens, (window, options.windows))?;
    let scores = measure.scores(gguf, 0..measure.windows)?;
    let nats = scores.iter().all(|&score| score < BROKEN).then(|| mean(&scores));
    let entropy = entropy(&tokens);
    let (windows, tokens) = (measure.windows, scores.len());
    let mut found = Likelihood { windows, window, tokens, nats, entropy, tried: 0, faults: Vec::new() };
    let mut state = (gguf.clone(), scores);
    for round in 0..ROUNDS {
        let trial = Trial { measure: &measure, gguf: &state.0, before: &state.1, entropy };
        let (tried, mut clear) = trial.run(&mut progress)?;
        if round == 0 {
            found.tried = tried;
        }
        let Some(best) = clear.first() else { break };
        let next = change::changed(&state.0, &best.attempt.changes);
        let scores = best.scores.clone();
        clear.retain(|other| other.is_as_likely(&scores));
        found.faults.push(clear.iter().map(Candidate::described).collect());
        let Some(next) = next else { break };
        state = (next, scores);
    }
    Ok(found)
}

/// A file, and what is held against it.
struct Trial<'a> {
    measure: &'a Measure<'a>,
    gguf: &'a Gguf,
    before: &'a [f64],
    entropy: f64,
}

/// An attempt with which the text is clearly likelier.
struct Candidate {
    repair: &'static Repair,
    attempt: Attempt,
    scores: Vec<f64>,
    gain: Gain,
}

impl Trial<'_> {
    /// Tries every repair; how many there were, and those that clearly help, the likeliest first.
    fn run(&self, progress: &mut impl FnMut(usize, usize)) -> Result<(usize, Vec<Candidate>), Error> {
        let model = Model::from_gguf(self.gguf.clone(), self.measure.load)?;
        let file = Conversion::of(&model, self.measure.window);
        let attempts: Vec<_> = repairs()
            .flat_map(|repair| (repair.attempts)(&file).into_iter().map(move |attempt| (repair, attempt)))
            .collect();
        drop(model);
        let bound = self.entropy - if mean(self.before) < self.entropy { 0.0 } else { KNOWN };
        let (count, mut tried, mut clear) = (attempts.len(), 0, Vec::new());
        for (number, (repair, attempt)) in attempts.into_iter().enumerate() {
            if let Some(scores) = self.scores(&attempt) {
                tried += 1;
                let gain = Gain::of(self.before, &scores);
                if gain.mean >= LEAST && gain.mean >= ERRORS * gain.error && mean(&scores) < bound {
                    clear.push(Candidate { repair, attempt, scores, gain });
                }
            }
            progress(number + 1, count);
        }
        clear.sort_by(|a, b| mean(&a.scores).total_cmp(&mean(&b.scores)));
        Ok((tried, clear))
    }

    /// Scores of all windows with an attempt; of the first alone where that shows that it does not help. `None` where the file cannot
    /// have it, or it changes nothing.
    fn scores(&self, attempt: &Attempt) -> Option<Vec<f64>> {
        let changed = change::changed(self.gguf, &attempt.changes)?;
        let mut scores = self.measure.scores(&changed, 0..1).ok()?;
        let before = &self.before[..scores.len()];
        if scores == before {
            return None;
        }
        let gain = Gain::of(before, &scores);
        if gain.mean + DOUBT * gain.error >= LEAST && self.measure.windows > 1 {
            scores.extend(self.measure.scores(&changed, 1..self.measure.windows).ok()?);
        }
        Some(scores)
    }
}

impl Candidate {
    /// Whether the text is about as likely with it as with the best, or likelier.
    fn is_as_likely(&self, best: &[f64]) -> bool {
        let loss = Gain::of(&self.scores, best);
        loss.mean < LEAST || loss.mean < ERRORS * loss.error
    }

    fn described(&self) -> Repaired {
        let Repair { name, cause, remedy, .. } = self.repair;
        Repaired {
            name: (*name).to_owned(),
            detail: self.attempt.detail.clone(),
            subject: self.attempt.subject.clone(),
            cause: (*cause).to_owned(),
            remedy: (*remedy).to_owned(),
            commands: self.attempt.commands().unwrap_or_default(),
            nats: mean(&self.scores),
            gain: self.gain.mean,
            error: self.gain.error,
        }
    }
}
