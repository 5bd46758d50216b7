//! A session: one sequence of a batch, with the logits of its last token and tokens that were guessed ahead.

mod text;

use candor_ops::{KvFormat, Ranked, SharedListener, Traffic};

use crate::{
    Batch, BatchOptions, Cancel, Error, Model, Observer, Outputs, Role, SequenceId, Want,
    batch::{LEAST_CONTEXT, Room, Sequence},
    now::now,
    progress::Until,
    speculate::{self, Ahead, Speculation},
};

/// The size of a session.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Positions; 0 takes the length that the model was trained on, or what memory holds where that is less: of the machine's,
    /// of the process's limits and of GPUs' budgets, with a reserve of 1 GiB, or of a quarter where there is little.
    /// [`Model::fit`] says which it will be, and why. What does not fit is [`Error::Memory`].
    pub context: usize,
    /// The fewest that 0 may become, where the model's own length is not less.
    pub least_context: usize,
    /// Whether 0 is shortened to what memory holds, and whether weights count there that are mapped from a file. The system may
    /// give up their pages, and reads them again for every token then. `false` counts what must stay in memory alone.
    pub fit: bool,
    /// Bytes of each memory that 0 leaves for others, such as a second session.
    pub spare: u64,
    /// Most tokens handed to the model at once.
    pub batch: usize,
    /// Most tokens computed at once, bounded by `batch`.
    pub ubatch: usize,
    /// Element type of cached keys.
    pub keys: KvFormat,
    /// Element type of cached values.
    pub values: KvFormat,
}

setters!(SessionOptions {
    context: usize,
    least_context: usize,
    fit: bool,
    spare: u64,
    batch: usize,
    ubatch: usize,
    keys: KvFormat,
    values: KvFormat,
});

impl Default for SessionOptions {
    /// llama.cpp's defaults: the model's context or, from 4096 on, what fits; batches of 2048 in steps of 512, a half-precision cache.
    fn default() -> Self {
        SessionOptions {
            context: 0,
            least_context: LEAST_CONTEXT,
            fit: true,
            spare: 0,
            batch: 2048,
            ubatch: 512,
            keys: KvFormat::F16,
            values: KvFormat::F16,
        }
    }
}

impl SessionOptions {
    /// The size of a batch of as many such sequences.
    pub(crate) fn of_batch(&self, sequences: usize) -> BatchOptions {
        let rows = self.batch.min(self.ubatch);
        BatchOptions {
            sequences,
            context: self.context,
            least_context: self.least_context,
            fit: self.fit,
            spare: self.spare,
            rows: rows.max(sequences),
            keys: self.keys,
            values: self.values,
            ..BatchOptions::default()
        }
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

/// A sequence of tokens in a model's memory.
pub struct Session {
    batch: Batch,
    id: SequenceId,
    logits: Vec<f32>,
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

impl Session {
    pub(crate) fn new(model: Model, options: &SessionOptions) -> Result<Session, Error> {
        let room = Room::new(&model, &options.of_batch(1))?;
        let mut batch = Batch::new(model, room, 1, 0)?;
        let id = batch.add()?;
        let (logits, best) = (Vec::new(), Vec::new());
        Ok(Session { batch, id, logits, best, speculation: None, ahead: Ahead::default() })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        self.batch.model()
    }

    /// Positions in all.
    pub fn context(&self) -> usize {
        self.batch.context()
    }

    /// The formats of cached keys and values.
    pub fn cache_formats(&self) -> [KvFormat; 2] {
        self.batch.cache_formats()
    }

    fn sequence(&self) -> &Sequence {
        self.batch.sequence(self.id).expect("a session has its sequence")
    }

    /// The tokens seen so far.
    pub fn tokens(&self) -> &[u32] {
        let tokens = self.sequence().tokens();
        &tokens[..tokens.len() - self.ahead.left()]
    }

    /// Logits of the last token that was evaluated, `[V]`; empty in the beginning, after [`Session::truncate`], and after
    /// generation on a GPU, which reads back no more of them than sampling takes.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// How many of the best logits a step finds at most without reading all; 0 where all are at hand anyway.
    pub(crate) fn top_k(&self) -> usize {
        self.batch.top_k()
    }

    /// The best of the last token's logits with their tokens, the best first, where these were found without reading all. The
    /// first is NaN where any of all is.
    pub(crate) fn best(&self) -> &[Ranked] {
        &self.best
    }

    /// By how much each of [`Model::adapters`] changes the model for this session.
    pub fn adapter_scales(&self) -> &[f32] {
        self.batch.adapter_scales(self.id).expect("a session's sequence is not removed")
    }

    /// Sets the session's scales of [`Model::adapters`], of which 0 costs nothing. What the session has seen is
    /// computed again with them when it next goes on; a text that an encoder has read, now.
    ///
    /// # Errors
    /// If there are not as many scales as adapters, or the device fails at reading a text again.
    pub fn scale_adapters(&mut self, scales: &[f32]) -> Result<(), Error> {
        now(self.scale_adapters_body(scales))
    }

    /// What [`Self::scale_adapters`] does.
    pub(crate) async fn scale_adapters_body(&mut self, scales: &[f32]) -> Result<(), Error> {
        if self.adapter_scales() != scales {
            self.drop_ahead()?;
            self.batch.scale_adapters_body(self.id, scales).await?;
            self.forget_logits();
        }
        Ok(())
    }

    /// What the session has exchanged with devices so far; nothing on the processor.
    pub fn traffic(&self) -> Traffic {
        self.batch.traffic()
    }

    fn forget_logits(&mut self) {
        self.logits.clear();
        self.best.clear();
    }

    /// Forgets all but the first `len` tokens. A model with states, which cannot be taken back, computes those again
    /// when more tokens are evaluated.
    pub fn truncate(&mut self, len: usize) {
        if len < self.tokens().len() {
            let done = self.drop_ahead().and_then(|()| self.batch.truncate(self.id, len));
            done.expect("a session has its sequence, and no checkpoints that a device could fail at");
            self.forget_logits();
        }
    }

    /// Appends tokens that are read, and computes the logits of the last one.
    ///
    /// # Errors
    /// If the tokens do not fit, one is outside of the vocabulary, or the device fails.
    pub fn evaluate(&mut self, tokens: &[u32]) -> Result<(), Error> {
        self.evaluate_until(tokens, &Cancel::new()).map(drop)
    }

    /// [`Session::evaluate`], unless it is cancelled before its end: `false` leaves the session after what was done.
    ///
    /// # Errors
    /// As there.
    pub fn evaluate_until(&mut self, tokens: &[u32], cancel: &Cancel) -> Result<bool, Error> {
        now(self.evaluate_body(tokens, cancel))
    }

    /// What [`Self::evaluate_until`] does.
    pub(crate) async fn evaluate_body(&mut self, tokens: &[u32], cancel: &Cancel) -> Result<bool, Error> {
        self.evaluate_for(Want::Logits, tokens, cancel.into()).await
    }

    /// Appends a token that continues the text and computes its logits. They differ, within rounding, from those that
    /// [`Session::evaluate`] computes for it on a device that has two ways of computing: see [`Role`].
    ///
    /// # Errors
    /// As there.
    pub fn decode(&mut self, token: u32) -> Result<(), Error> {
        now(self.decode_body(token))
    }

    /// What [`Self::decode`] does.
    pub(crate) async fn decode_body(&mut self, token: u32) -> Result<(), Error> {
        self.feed(&[token], Role::Decode, Want::Logits, (&Cancel::new()).into()).await.map(drop)
    }

    /// [`Session::evaluate_until`], as far as it takes for what is wanted.
    pub(crate) async fn evaluate_for(&mut self, want: Want, tokens: &[u32], until: Until<'_>) -> Result<bool, Error> {
        self.feed(tokens, Role::Prefill, want, until).await
    }

    /// Appends tokens and takes over what is wanted of the last one.
    async fn feed(&mut self, tokens: &[u32], role: Role, want: Want, until: Until<'_>) -> Result<bool, Error> {
        self.admit(tokens)?;
        if tokens.is_empty() {
            return Ok(true);
        }
        self.drop_ahead()?;
        let before = self.tokens().len();
        let done = self.batch.feed(self.id, tokens, (role, want), until).await?;
        if self.tokens().len() > before {
            self.take_results(want);
        }
        Ok(done)
    }

    /// Takes over what a step has found of the last token, or forgets what was known before.
    fn take_results(&mut self, want: Want) {
        self.forget_logits();
        match want {
            Want::Logits => std::mem::swap(&mut self.logits, self.batch.logits()),
            Want::Best(_) => std::mem::swap(&mut self.best, self.batch.best()),
            Want::Embedding => {}
        }
    }

    /// Guesses tokens from now on while text is generated, or no longer. Texts stay the same: see [`speculate`].
    ///
    /// # Errors
    /// If the model keeps states, which cannot be taken back, or is an encoder-decoder.
    pub fn speculate(&mut self, speculation: Option<Speculation>) -> Result<(), Error> {
        if speculation.is_some() {
            self.model().refuse_answers("speculative decoding")?;
            speculate::refuse_states(self.model())?;
        }
        self.speculation = speculation;
        Ok(())
    }

    /// Appends a token that was chosen and computes what is wanted of it, with up to `most` tokens that may follow; `None` where
    /// that was cancelled.
    pub(crate) async fn go_on(
        &mut self,
        want: Want,
        token: u32,
        most: usize,
        cancel: &Cancel,
    ) -> Result<Option<Guessed>, Error> {
        if self.ahead.take(token, &mut self.logits) {
            self.best.clear();
            return Ok(Some(Guessed { drafted: 0, accepted: 1 }));
        }
        let drafts = self.draft(token, most)?;
        if drafts.is_empty() {
            let done = self.feed(&[token], Role::Decode, want, (&cancel.flag()).into()).await?;
            return Ok(done.then(Guessed::default));
        }
        self.admit(&[token])?;
        self.catch_up().await?;
        let tokens = [&[token][..], &drafts].concat();
        self.batch.push(self.id, &tokens, Role::Decode, Outputs::Each(Want::Logits))?;
        self.batch.step_observed_body(None, None).await?;
        self.take_results(Want::Logits);
        let drafted = drafts.len();
        self.ahead.keep(drafts, &mut self.logits);
        Ok(Some(Guessed { drafted, accepted: 0 }))
    }

    /// Up to `most` tokens that may follow `token`, as many as a step and the context have room for.
    fn draft(&mut self, token: u32, most: usize) -> Result<Vec<u32>, Error> {
        let Some(speculation) = &mut self.speculation else { return Ok(Vec::new()) };
        let batch = &self.batch;
        let mut text = batch.tokens(self.id)?.to_vec();
        text.truncate(text.len() - self.ahead.left());
        let room = batch.context().saturating_sub(text.len() + 1);
        let most = most.min(room).min(batch.outputs().min(batch.rows()) - 1);
        text.push(token);
        speculation.draft(&text, most, batch.model().config().vocab)
    }

    /// Forgets what was guessed and not chosen.
    fn drop_ahead(&mut self) -> Result<(), Error> {
        match self.ahead.drop_rest() {
            0 => Ok(()),
            left => self.batch.truncate(self.id, self.sequence().tokens().len() - left),
        }
    }

    /// Appends tokens that are read and hands the logits of every one, `[V]`, to `each` with its index.
    ///
    /// # Errors
    /// If the tokens do not fit, one is outside of the vocabulary, or the device fails.
    pub fn evaluate_each(&mut self, tokens: &[u32], each: impl FnMut(usize, &[f32])) -> Result<(), Error> {
        now(self.evaluate_each_body(tokens, each))
    }

    /// What [`Self::evaluate_each`] does.
    pub(crate) async fn evaluate_each_body(
        &mut self,
        tokens: &[u32],
        mut each: impl FnMut(usize, &[f32]),
    ) -> Result<(), Error> {
        self.admit(tokens)?;
        self.catch_up().await?;
        let (vocab, most) = (self.model().config().vocab, self.batch.outputs());
        for (number, chunk) in tokens.chunks(most).enumerate() {
            self.batch.push(self.id, chunk, Role::Prefill, Outputs::Each(Want::Logits))?;
            self.batch.step_observed_body(None, None).await?;
            self.take_results(Want::Logits);
            for (row, logits) in self.logits.chunks_exact(vocab).enumerate() {
                each(number * most + row, logits);
            }
            self.keep_last(vocab);
        }
        Ok(())
    }

    /// Appends tokens, that are read or continue the text, and shows every named value to `observer`. [`Logits`] says which tokens'
    /// logits are computed; the last one's are left in [`Session::logits`].
    ///
    /// # Errors
    /// If the tokens do not fit, one is outside of the vocabulary, or the device fails.
    pub fn observe(
        &mut self,
        tokens: &[u32],
        role: Role,
        logits: Logits,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        now(self.observe_body(tokens, role, logits, observer))
    }

    /// What [`Self::observe`] does.
    pub(crate) async fn observe_body(
        &mut self,
        tokens: &[u32],
        role: Role,
        logits: Logits,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.admit(tokens)?;
        self.catch_up().await?;
        let size = match logits {
            Logits::All => self.batch.outputs(),
            Logits::Last => self.batch.rows(),
        };
        let mut done = 0;
        for chunk in tokens.chunks(size) {
            done += chunk.len();
            let outputs = match logits {
                Logits::All => Outputs::Each(Want::Logits),
                Logits::Last if done == tokens.len() => Outputs::Last(Want::Logits),
                Logits::Last => Outputs::None,
            };
            self.batch.push(self.id, chunk, role, outputs)?;
            self.batch.step_observed_body(Some(observer), None).await?;
            self.take_results(Want::Logits);
        }
        self.keep_last(self.model().config().vocab);
        Ok(())
    }

    /// Tells a listener of the model's products from now on, or nobody. In a browser it hears of none.
    pub fn listen(&mut self, listener: Option<&SharedListener>) {
        self.batch.listen(listener);
    }

    /// Forgets all logits but the last token's.
    fn keep_last(&mut self, vocab: usize) {
        let rest = self.logits.len().saturating_sub(vocab);
        self.logits.drain(..rest);
    }

    fn admit(&self, tokens: &[u32]) -> Result<(), Error> {
        self.batch.admits(self.id, tokens, self.ahead.left())
    }

    /// Tokens that are not computed again when more are evaluated.
    pub(crate) fn held(&self) -> usize {
        self.sequence().past.held().min(self.tokens().len())
    }

    /// What the session consists of, without guesses: the batch, its sequence, and what is known of the last token.
    pub(crate) fn parts(&mut self) -> (&mut Batch, SequenceId, &[f32], &[Ranked]) {
        (&mut self.batch, self.id, &self.logits, &self.best)
    }

    /// Takes over what is known of the last token.
    pub(crate) fn know(&mut self, (logits, best): (Vec<f32>, Vec<Ranked>)) {
        (self.logits, self.best) = (logits, best);
    }

    /// Brings memory to where the tokens end, neither before nor beyond.
    pub(crate) async fn catch_up(&mut self) -> Result<(), Error> {
        self.drop_ahead()?;
        while self.batch.catch_up_once_body(self.id).await? {}
        Ok(())
    }
}
