//! A session: the tokens that a model has seen, their keys and values, and how more are added.

mod text;

use candor_models::Config;
use candor_ops::{KvFormat, KvPlan, Ranked, Step, Stored, Traffic};

use crate::{
    Error, Model, Observer,
    past::Past,
    runner, saved,
    speculate::{self, Ahead, Speculation},
};

/// The size of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Positions; 0 takes the length that the model was trained on.
    pub context: usize,
    /// Most tokens handed to the model at once.
    pub batch: usize,
    /// Most tokens computed at once, bounded by `batch`.
    pub ubatch: usize,
    /// Element type of cached keys.
    pub keys: KvFormat,
    /// Element type of cached values.
    pub values: KvFormat,
}

impl Default for SessionOptions {
    /// llama.cpp's defaults: the model's context, batches of 2048 in steps of 512, a half-precision cache.
    fn default() -> Self {
        SessionOptions { context: 0, batch: 2048, ubatch: 512, keys: KvFormat::F16, values: KvFormat::F16 }
    }
}

/// Which tokens' logits an observed pass computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logits {
    /// Every token's.
    All,
    /// The last one's.
    Last,
}

/// Most elements of the logits buffer, 64 MB of floats: bounds the rows whose logits one step gives.
const LOGITS_ELEMENTS: usize = 1 << 24;

/// A sequence of tokens in a model's memory.
pub struct Session {
    model: Model,
    run: runner::Run,
    plan: KvPlan,
    chunk: usize,
    max_outputs: usize,
    /// What an encoder has read, which the tokens answer.
    text: Vec<u32>,
    tokens: Vec<u32>,
    /// Which of them are in memory; fewer than there are after going back where that cannot be done in place.
    past: Past,
    logits: Vec<f32>,
    /// By how much each of the model's adapters changes it.
    scales: Vec<f32>,
    /// The best of the logits, the best first, where no others were read.
    best: Vec<Ranked>,
    speculation: Option<Speculation>,
    ahead: Ahead,
}

/// What came of guesses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guessed {
    /// Tokens that were tried.
    pub(crate) drafted: usize,
    /// Tokens of them that were chosen.
    pub(crate) accepted: usize,
}

/// What is to be known of the last token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Its logits.
    Logits,
    /// The best so many logits with their tokens, or all where they are at hand anyway.
    Best(usize),
}

/// The memory that options ask for.
pub(crate) struct Room {
    /// The cache.
    pub(crate) plan: KvPlan,
    /// Most tokens computed at once.
    pub(crate) chunk: usize,
}

impl Room {
    /// Room for so many sequences.
    ///
    /// # Errors
    /// If it does not fit into memory.
    pub(crate) fn new(config: &Config, sequences: usize, options: &SessionOptions) -> Result<Room, Error> {
        let room = Room::planned(config, sequences, options);
        let (context, plan) = (room.plan.context, &room.plan);
        if let Some(limit) = config.limit.filter(|&limit| context > limit) {
            return Err(Error::ContextLimit { context, limit });
        }
        plan.check().map_err(candor_models::Error::from)?;
        // The cache is allocated without touching it; whether the system would give it is asked first.
        let bytes = plan.checked_bytes().unwrap_or(usize::MAX);
        if Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
            return Err(Error::Memory { context: context.saturating_mul(sequences), bytes });
        }
        Ok(room)
    }

    /// The same, before it is known whether there is so much.
    pub(crate) fn planned(config: &Config, sequences: usize, options: &SessionOptions) -> Room {
        let context = match options.context {
            0 => config.context.min(config.limit.unwrap_or(usize::MAX)),
            asked => asked,
        };
        let mut plan = config.kv_plan(context, sequences, options.keys, options.values);
        let chunk = match config.start {
            // An encoder's tokens see each other: a text is read at once.
            Some(_) => context,
            None => options.batch.min(options.ubatch).clamp(1, context),
        };
        plan.step = chunk.max(sequences);
        Room { plan, chunk }
    }

    /// Rows of logits of a session's steps.
    pub(crate) fn outputs(&self, config: &Config) -> usize {
        (LOGITS_ELEMENTS / config.vocab.max(1)).clamp(1, self.chunk)
    }
}

impl Session {
    pub(crate) fn new(model: Model, loaded: &runner::Loaded, options: &SessionOptions) -> Result<Session, Error> {
        let room = Room::new(loaded.config(), 1, options)?;
        let max_outputs = room.outputs(loaded.config());
        let Room { plan, chunk } = room;
        let run = loaded.begin(&plan, chunk, max_outputs)?;
        let (tokens, past, logits, best) = (Vec::new(), Past::default(), Vec::new(), Vec::new());
        let (text, scales, speculation, ahead) = (Vec::new(), model.scales(), None, Ahead::default());
        Ok(Session {
            model,
            run,
            plan,
            chunk,
            max_outputs,
            text,
            tokens,
            past,
            logits,
            scales,
            best,
            speculation,
            ahead,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Positions in all.
    pub fn context(&self) -> usize {
        self.plan.context
    }

    /// The tokens seen so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Logits of the last token that was evaluated, `[V]`; empty in the beginning, after [`Session::truncate`], and after
    /// generation on a GPU, which reads back no more of them than sampling takes.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// How many of the best logits a step finds at most without reading all; 0 where all are at hand anyway.
    pub(crate) fn top_k(&self) -> usize {
        self.run.top_k()
    }

    /// The best of the last token's logits with their tokens, the best first, where these were found without reading all. The
    /// first is NaN where any of all is.
    pub(crate) fn best(&self) -> &[Ranked] {
        &self.best
    }

    /// By how much each of [`Model::adapters`] changes the model for this session.
    pub fn adapter_scales(&self) -> &[f32] {
        &self.scales
    }

    /// Changes the model by so much for this session from now on: a scale for each of [`Model::adapters`], of which 0 costs
    /// nothing. What the session has seen is computed anew with them when it next goes on; a text that an encoder has read, now.
    ///
    /// # Errors
    /// If there are not as many scales as adapters, or the device fails at reading a text anew.
    pub fn scale_adapters(&mut self, scales: &[f32]) -> Result<(), Error> {
        self.model.expect_scales(scales)?;
        if self.scales != scales {
            self.run.rescale(scales);
            self.scales.copy_from_slice(scales);
            self.drop_ahead();
            self.past.truncate(&self.plan, 0);
            self.logits.clear();
            self.best.clear();
            let text = std::mem::take(&mut self.text);
            if !text.is_empty() {
                self.encode(&text, None)?;
            }
        }
        Ok(())
    }

    /// What the session has exchanged with devices so far; nothing on the processor.
    pub fn traffic(&self) -> Traffic {
        self.run.traffic()
    }

    /// Forgets all but the first `len` tokens. A model with states, which cannot be taken back, computes those anew when
    /// more tokens are evaluated.
    pub fn truncate(&mut self, len: usize) {
        if len < self.tokens.len() {
            self.drop_ahead();
            self.tokens.truncate(len);
            self.past.truncate(&self.plan, len);
            self.logits.clear();
            self.best.clear();
        }
    }

    /// Appends tokens and computes the logits of the last one. `proceed` is asked before every step whether to go on,
    /// with the number of tokens done; `false` leaves the session after what was done.
    ///
    /// # Errors
    /// If the tokens do not fit, one is outside of the vocabulary, or the device fails.
    pub fn evaluate(&mut self, tokens: &[u32], proceed: impl FnMut(usize) -> bool) -> Result<bool, Error> {
        self.evaluate_for(Wanted::Logits, tokens, proceed)
    }

    /// [`Session::evaluate`], as far as it takes for what is wanted.
    pub(crate) fn evaluate_for(
        &mut self,
        wanted: Wanted,
        tokens: &[u32],
        mut proceed: impl FnMut(usize) -> bool,
    ) -> Result<bool, Error> {
        self.admit(tokens)?;
        if !tokens.is_empty() && !self.catch_up(|| proceed(0))? {
            return Ok(false);
        }
        let mut done = 0;
        for chunk in tokens.chunks(self.chunk) {
            if !proceed(done) {
                return Ok(false);
            }
            done += chunk.len();
            let last = [chunk.len() as u32 - 1];
            self.step(chunk, if done == tokens.len() { &last } else { &[] }, wanted)?;
        }
        Ok(true)
    }

    /// Guesses tokens from now on while text is generated, or no longer. Texts stay the same: see [`speculate`].
    ///
    /// # Errors
    /// If the model keeps states, which cannot be taken back, or answers texts, which guesses are not made for.
    pub fn speculate(&mut self, speculation: Option<Speculation>) -> Result<(), Error> {
        if speculation.is_some() {
            self.model.refuse_answers("speculative decoding")?;
            speculate::refuse_states(&self.model)?;
        }
        self.speculation = speculation;
        Ok(())
    }

    /// Appends a token that was chosen and computes what is wanted of it, with up to `most` tokens that may follow.
    pub(crate) fn go_on(&mut self, wanted: Wanted, token: u32, most: usize) -> Result<Guessed, Error> {
        if self.ahead.take(token, &mut self.logits) {
            self.tokens.push(token);
            self.best.clear();
            return Ok(Guessed { drafted: 0, accepted: 1 });
        }
        let drafts = self.draft(token, most)?;
        if drafts.is_empty() {
            self.evaluate_for(wanted, &[token], |_| true)?;
            return Ok(Guessed::default());
        }
        self.admit(&[token])?;
        self.catch_up(|| true)?;
        let tokens = [&[token][..], &drafts].concat();
        let outputs: Vec<u32> = (0..tokens.len() as u32).collect();
        self.feed(&tokens, &outputs, |run, step, logits| run.step(step, logits).map(|()| Vec::new()))?;
        self.tokens.push(token);
        let drafted = drafts.len();
        self.ahead.keep(drafts, &mut self.logits);
        Ok(Guessed { drafted, accepted: 0 })
    }

    /// Up to `most` tokens that may follow `token`, as many as a step and the context have room for.
    fn draft(&mut self, token: u32, most: usize) -> Result<Vec<u32>, Error> {
        let Some(speculation) = &mut self.speculation else { return Ok(Vec::new()) };
        let room = self.plan.context.saturating_sub(self.tokens.len() + 1);
        let most = most.min(room).min(self.max_outputs.min(self.chunk) - 1);
        self.tokens.push(token);
        let drafts = speculation.draft(&self.tokens, most, self.model.config().vocab);
        self.tokens.pop();
        drafts
    }

    /// Forgets what was guessed.
    fn drop_ahead(&mut self) {
        if self.ahead.drop_rest() {
            self.past.truncate(&self.plan, self.tokens.len());
        }
    }

    /// Appends tokens and hands the logits of every one, `[V]`, to `each` with its index.
    ///
    /// # Errors
    /// If the tokens do not fit, one is outside of the vocabulary, or the device fails.
    pub fn evaluate_each(&mut self, tokens: &[u32], mut each: impl FnMut(usize, &[f32])) -> Result<(), Error> {
        self.admit(tokens)?;
        self.catch_up(|| true)?;
        let vocab = self.model.config().vocab;
        for (number, chunk) in tokens.chunks(self.max_outputs).enumerate() {
            let outputs: Vec<u32> = (0..chunk.len() as u32).collect();
            self.step(chunk, &outputs, Wanted::Logits)?;
            for (row, logits) in self.logits.chunks_exact(vocab).enumerate() {
                each(number * self.max_outputs + row, logits);
            }
            let rest = self.logits.len() - vocab;
            self.logits.drain(..rest);
        }
        Ok(())
    }

    /// Appends tokens as [`Session::evaluate`] does, and shows every named value to `observer`. [`Logits`] says which
    /// tokens' logits are computed; the last one's are left in [`Session::logits`].
    ///
    /// # Errors
    /// If the tokens do not fit, one is outside of the vocabulary, or the device fails.
    pub fn observe(&mut self, tokens: &[u32], logits: Logits, observer: &mut dyn Observer) -> Result<(), Error> {
        self.admit(tokens)?;
        self.catch_up(|| true)?;
        let size = match logits {
            Logits::All => self.max_outputs,
            Logits::Last => self.chunk,
        };
        let mut done = 0;
        for chunk in tokens.chunks(size) {
            done += chunk.len();
            let outputs: Vec<u32> = match logits {
                Logits::All => (0..chunk.len() as u32).collect(),
                Logits::Last if done == tokens.len() => vec![chunk.len() as u32 - 1],
                Logits::Last => Vec::new(),
            };
            self.advance(chunk, &outputs, |run, step, logits| {
                run.step_observed(step, logits, observer).map(|()| Vec::new())
            })?;
        }
        let vocab = self.model.config().vocab;
        let rest = self.logits.len().saturating_sub(vocab);
        self.logits.drain(..rest);
        Ok(())
    }

    fn admit(&self, tokens: &[u32]) -> Result<(), Error> {
        if self.model.answers() && self.text.is_empty() {
            return Err(Error::Answers { arch: self.model.architecture().to_owned() });
        }
        self.fits(tokens)?;
        let prompt = self.tokens.len() + tokens.len();
        if prompt > self.context() {
            return Err(Error::PromptTooLong { prompt, context: self.context() });
        }
        Ok(())
    }

    /// Whether the vocabulary has the tokens, and the context as many positions.
    fn fits(&self, tokens: &[u32]) -> Result<(), Error> {
        let vocab = self.model.config().vocab;
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::Token { token, vocab });
        }
        if tokens.len() > self.context() {
            return Err(Error::PromptTooLong { prompt: tokens.len(), context: self.context() });
        }
        Ok(())
    }

    /// Tokens that are not computed again when more are evaluated.
    pub(crate) fn held(&self) -> usize {
        self.past.held()
    }

    /// What memory holds.
    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    /// The dimensions of the cache.
    pub(crate) fn plan(&self) -> &KvPlan {
        &self.plan
    }

    /// The caches' contents.
    pub(crate) fn stored(&mut self) -> Result<Vec<&mut dyn Stored>, Error> {
        let device = self.model.device_label();
        self.run.stored().ok_or_else(|| saved::Error::Device { device: device.to_owned() }.into())
    }

    /// Brings memory to where the tokens end, neither before nor beyond.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.catch_up(|| true).map(drop)
    }

    /// Takes over tokens whose keys, values and states were put into the cache.
    pub(crate) fn become_of(&mut self, tokens: Vec<u32>, (logits, best): (Vec<f32>, Vec<Ranked>), past: Past) {
        (self.tokens, self.logits, self.past, self.best) = (tokens, logits, past, best);
    }

    /// Computes the session's tokens anew that memory no longer holds; `false` if `proceed` stopped that.
    fn catch_up(&mut self, mut proceed: impl FnMut() -> bool) -> Result<bool, Error> {
        self.drop_ahead();
        while self.past.held() < self.tokens.len() {
            if !proceed() {
                return Ok(false);
            }
            let first = self.past.held();
            let tokens = self.tokens[first..self.tokens.len().min(first + self.chunk)].to_vec();
            self.feed(&tokens, &[], |run, step, logits| run.step(step, logits).map(|()| Vec::new()))?;
        }
        Ok(true)
    }

    fn step(&mut self, tokens: &[u32], outputs: &[u32], wanted: Wanted) -> Result<(), Error> {
        self.advance(tokens, outputs, |run, step, logits| match wanted {
            Wanted::Logits => run.step(step, logits).map(|()| Vec::new()),
            Wanted::Best(count) => run.step_best(step, count, logits),
        })
    }

    /// Appends tokens by a step that `take` runs.
    fn advance(
        &mut self,
        tokens: &[u32],
        outputs: &[u32],
        take: impl FnOnce(&mut runner::Run, Step<'_>, &mut Vec<f32>) -> Result<Vec<Ranked>, Error>,
    ) -> Result<(), Error> {
        self.feed(tokens, outputs, take)?;
        self.tokens.extend_from_slice(tokens);
        Ok(())
    }

    /// Puts tokens into memory after those that it holds.
    fn feed(
        &mut self,
        tokens: &[u32],
        outputs: &[u32],
        take: impl FnOnce(&mut runner::Run, Step<'_>, &mut Vec<f32>) -> Result<Vec<Ranked>, Error>,
    ) -> Result<(), Error> {
        let first = self.past.held() as u32;
        let positions: Vec<u32> = (first..first + tokens.len() as u32).collect();
        let sequences = vec![0; tokens.len()];
        let step = Step { tokens, positions: &positions, sequences: &sequences, outputs, decoding: 0 };
        self.best = take(&mut self.run, step, &mut self.logits)?;
        self.past.extend(tokens.len());
        Ok(())
    }
}
