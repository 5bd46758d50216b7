//! Sequences of a model's memory, and steps that compute rows of any of them together. [`crate::Session`],
//! [`crate::Sequences`] and [`crate::Embedder`] are thin over it; what is done with logits is not known here.

mod sequence;
mod staged;

use std::{mem, ops::Range};

use candor_models::Config;
use candor_ops::{KvFormat, KvPlan, PAGE, Ranked, SharedListener, Stop, Stored, Traffic, top_k};

use crate::{
    Error, Model, Observer,
    fit::{self, Fit, Holder, Place, Promise, Shortage, Wanted},
    now::now,
    progress::Until,
    runner::{self, Asked, Between, Computed, Doing, Share},
};
pub(crate) use sequence::Sequence;
use staged::{Row, Staged};

pub use sequence::SequenceId;

/// What tokens are to the model. It decides on the arithmetic of their rows where a backend has two: see
/// [`crate::Batching`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// They are read: a prompt, or a part of one.
    #[default]
    Prefill,
    /// They were chosen, or guessed, and continue a text.
    Decode,
}

/// What is to be known of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// All logits, `[V]`.
    Logits,
    /// The greatest logits with their tokens, at most this many, the greatest first.
    Best(usize),
    /// The row after the last norm, `[D]`.
    Embedding,
}

/// Of which rows of some tokens something is to be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outputs {
    /// Of none: a chunk in the middle of a prompt.
    #[default]
    None,
    /// Of the last one.
    Last(Want),
    /// Of every one.
    Each(Want),
}

/// The size of a batch.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BatchOptions {
    /// Sequences that there can be at once.
    pub sequences: usize,
    /// Sequences beside them that have no positions of their own: an [`Engine`](crate::Engine) keeps beginnings of prompts in
    /// them. Where the model keeps states, or only the last positions, each of them takes memory for those all the same.
    pub kept: usize,
    /// Sequences that are kept beside them by [`Batch::checkpoint`].
    pub checkpoints: usize,
    /// Positions that a sequence can have; 0 takes the length that the model was trained on, or what memory holds: see
    /// [`SessionOptions::context`](field@crate::SessionOptions::context).
    pub context: usize,
    /// The fewest that 0 may become.
    pub least_context: usize,
    /// Whether 0 is shortened to what memory holds, and weights count there: see
    /// [`SessionOptions::fit`](field@crate::SessionOptions::fit).
    pub fit: bool,
    /// Bytes of each memory that 0 leaves for others.
    pub spare: u64,
    /// Rows of a step at most.
    pub rows: usize,
    /// Rows of a step at most whose logits, or the best of them, are to be known; 0 takes as many as there are sequences, or more where 64 MB
    /// hold their logits.
    pub outputs: usize,
    /// Positions of all sequences together that there is memory for; `None` takes as many as all of them can have. With fewer, a
    /// step may end with [`Error::PagesFull`].
    pub pool: Option<usize>,
    /// Element type of cached keys.
    pub keys: KvFormat,
    /// Element type of cached values.
    pub values: KvFormat,
}

setters!(BatchOptions {
    sequences: usize,
    kept: usize,
    checkpoints: usize,
    context: usize,
    least_context: usize,
    fit: bool,
    spare: u64,
    rows: usize,
    outputs: usize,
    pool: impl Into<Option<usize>>,
    keys: KvFormat,
    values: KvFormat,
});

impl Default for BatchOptions {
    /// One sequence of the model's context, steps of 512 rows, a half-precision cache.
    fn default() -> Self {
        let (keys, values) = (KvFormat::F16, KvFormat::F16);
        BatchOptions {
            sequences: 1,
            kept: 0,
            checkpoints: 0,
            context: 0,
            least_context: LEAST_CONTEXT,
            fit: true,
            spare: 0,
            rows: 512,
            outputs: 0,
            pool: None,
            keys,
            values,
        }
    }
}

/// What a conversation needs at least to be worth beginning: llama.cpp's `--fit-ctx`.
pub(crate) const LEAST_CONTEXT: usize = 4096;

/// Most elements of the logits buffer, 64 MB of floats: bounds the rows whose logits one step gives.
const LOGITS_ELEMENTS: usize = 1 << 24;

/// The memory that a batch takes.
pub(crate) struct Room {
    /// The cache.
    pub(crate) plan: KvPlan,
    /// Rows of a step at most.
    pub(crate) rows: usize,
    /// Rows at most whose logits are to be known.
    pub(crate) outputs: usize,
}

impl Room {
    /// The room for a batch.
    ///
    /// # Errors
    /// If it does not fit into memory.
    pub(crate) fn new(model: &Model, options: &BatchOptions) -> Result<Room, Error> {
        let config = model.config();
        let fit = Room::fit(model, options)?;
        let room = Room::planned(config, &options.context(fit.context));
        // The cache is allocated without touching it; whether the system would give it is asked first.
        let takes = model.loaded().on_host(&room);
        if Vec::<u8>::new().try_reserve_exact(usize::try_from(takes.cache).unwrap_or(usize::MAX)).is_err() {
            let (context, sequences) = (fit.context, room.plan.sequences);
            let shortage = Shortage { context, asked: true, sequences, takes, holder: None, longest: 0 };
            return Err(Error::Memory(Box::new(shortage)));
        }
        Ok(room)
    }

    /// How long the context of a batch is.
    ///
    /// # Errors
    /// If it does not fit into memory, or the model allows no such length or no such formats of the cache.
    pub(crate) fn fit(model: &Model, options: &BatchOptions) -> Result<Fit, Error> {
        Room::fit_shares(model.config(), model.loaded().shares(), options)
    }

    /// The same where the memories have these shares of a model.
    pub(crate) fn fit_shares(config: &Config, shares: &[Share], options: &BatchOptions) -> Result<Fit, Error> {
        let asked = Room::planned(config, options).plan;
        if let Some(limit) = config.limit.filter(|&limit| asked.context > limit) {
            return Err(Error::ContextLimit { context: asked.context, limit });
        }
        asked.check().map_err(candor_models::Error::from)?;
        let wanted = Wanted {
            context: options.context,
            least: options.least_context,
            own: own(config),
            shorten: options.fit,
            sequences: options.sequences.max(1) + options.checkpoints,
        };
        let mut places = Vec::new();
        for share in shares {
            let place = |holder: Holder, reserve: u64, weights: bool| Place {
                strict: share.gpu.is_none(),
                reserve: reserve.saturating_add(options.spare),
                takes: Box::new(move |context| {
                    share.takes(config, &Room::planned(config, &options.context(context)), weights)
                }),
                holder,
            };
            match &share.gpu {
                Some(left) => places.push(place(left.clone(), 0, false)),
                None => places.extend(fit::system().into_iter().map(|(holder, pages)| {
                    let reserve = fit::reserve(holder.free);
                    place(holder, reserve, pages && options.fit)
                })),
            }
        }
        fit::settle(wanted, &places).map_err(|shortage| Error::Memory(Box::new(shortage)))
    }

    /// The same, before it is known whether there is as much.
    pub(crate) fn planned(config: &Config, options: &BatchOptions) -> Room {
        let context = match options.context {
            0 => own(config),
            asked => asked,
        };
        let sequences = options.sequences.max(1);
        let owners = sequences + options.checkpoints;
        let mut plan = config.kv_plan(context, owners + options.kept, options.keys, options.values);
        let own = (options.kept > 0).then(|| owners.saturating_mul(context.div_ceil(PAGE)).saturating_mul(PAGE));
        let most = context.saturating_mul(sequences).max(1);
        let rows = match config.start {
            // An encoder's tokens see each other: a text is read at once.
            Some(_) => options.rows.max(context),
            None => options.rows.clamp(1, most),
        };
        (plan.step, plan.pool) = (rows, options.pool.or(own));
        let outputs = match options.outputs {
            0 => (LOGITS_ELEMENTS / config.vocab.max(1)).clamp(sequences.min(rows), rows),
            asked => asked.min(rows),
        };
        Room { plan, rows, outputs }
    }
}

/// The length that a model was trained on, or the most that is supported.
pub(crate) fn own(config: &Config) -> usize {
    config.context.min(config.limit.unwrap_or(usize::MAX))
}

/// Sequences, and the steps that they take together.
///
/// [`Batch::push`] notes which tokens of which sequences the next step computes, and what is to be known of their rows;
/// [`Batch::step`] computes them, and [`Batch::answers`] has the results. What a sequence computes depends on its own tokens
/// and on their [`Role`]s alone, to the bit, unless the model was loaded with [`crate::Batching::Fastest`].
pub struct Batch {
    model: Model,
    run: runner::Run,
    room: Room,
    /// By the number that the backends know them by; the first can be had, those behind are checkpoints' memory.
    slots: Vec<Option<Sequence>>,
    /// How often a slot was given out.
    given: Vec<u32>,
    sequences: usize,
    /// How many of them have no positions of their own.
    kept: usize,
    staged: Staged,
    computed: Computed,
    /// The rows that [`Batch::answers`] tells of.
    rows: Vec<Row>,
    /// The scales of adapters that the backends have.
    scales: Vec<f32>,
    _memory: Promise,
}

/// What a step has found of a row.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Answer<'a> {
    /// Whose row it is.
    pub sequence: SequenceId,
    /// The position of its token.
    pub position: usize,
    /// What was wanted.
    pub value: Value<'a>,
}

/// What was wanted of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// All logits, `[V]`.
    Logits(&'a [f32]),
    /// The greatest logits with their tokens, the greatest first; the first is NaN where any of all is.
    Best(&'a [Ranked]),
    /// The row after the last norm, `[D]`.
    Embedding(&'a [f32]),
}

impl Batch {
    pub(crate) fn new(model: Model, room: Room, own: usize, kept: usize) -> Result<Batch, Error> {
        let sequences = own + kept;
        let memory = Promise::new(model.loaded().on_host(&room).total());
        let run = model.loaded().begin(&room.plan, room.rows, room.outputs)?;
        let slots = room.plan.sequences;
        let scales = model.scales();
        let (mut empty, given) = (Vec::new(), vec![0; slots]);
        empty.resize_with(slots, || None);
        let (staged, computed, rows) = (Staged::default(), Computed::default(), Vec::new());
        let slots = empty;
        Ok(Batch { model, run, room, slots, given, sequences, kept, staged, computed, rows, scales, _memory: memory })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The formats of cached keys and values.
    pub fn cache_formats(&self) -> [KvFormat; 2] {
        [self.room.plan.keys, self.room.plan.values]
    }

    /// Sequences that there can be at once, with those that have no positions of their own.
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// How many of them have no positions of their own: [`BatchOptions::kept`].
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Positions that a sequence can have.
    pub fn context(&self) -> usize {
        self.room.plan.context
    }

    /// Rows of a step at most.
    pub fn rows(&self) -> usize {
        self.room.rows
    }

    /// Rows at most whose logits, or the best of them, can be known after a step.
    pub fn outputs(&self) -> usize {
        self.room.outputs
    }

    /// How many of the greatest logits are found on the device without reading all of them; 0 where all are at hand anyway.
    pub fn top_k(&self) -> usize {
        self.run.top_k()
    }

    /// Pages of keys and values that sequences have, shared ones counted once, and all there are.
    pub fn pages(&mut self) -> (usize, usize) {
        self.run.pages()
    }

    /// The dimensions of the cache.
    pub(crate) fn plan(&self) -> &KvPlan {
        &self.room.plan
    }

    /// What was exchanged with devices so far; nothing on the processor.
    pub fn traffic(&self) -> Traffic {
        self.run.traffic()
    }

    /// The caches' contents.
    pub(crate) fn stored(&mut self) -> Option<Vec<&mut dyn Stored>> {
        self.run.stored()
    }

    /// By how much each of [`Model::adapters`] changes the model for a sequence.
    ///
    /// # Errors
    /// If there is no such sequence.
    pub fn adapter_scales(&self, id: SequenceId) -> Result<&[f32], Error> {
        Ok(&self.sequence(id)?.scales)
    }

    /// Sets a sequence's scales of [`Model::adapters`], of which 0 costs nothing. What it has seen is computed again with them
    /// when it next goes on; a text that an encoder has read, now. Sequences with other scales are other passes over the
    /// weights in a step.
    ///
    /// # Errors
    /// If there is no such sequence, there are not as many scales as adapters, or the device fails at reading a text again.
    pub fn scale_adapters(&mut self, id: SequenceId, scales: &[f32]) -> Result<(), Error> {
        now(self.scale_adapters_body(id, scales))
    }

    /// What [`Self::scale_adapters`] does.
    pub(crate) async fn scale_adapters_body(&mut self, id: SequenceId, scales: &[f32]) -> Result<(), Error> {
        let slot = self.slot(id)?;
        self.model.expect_scales(scales)?;
        if self.sequence(id)?.scales == scales {
            return Ok(());
        }
        self.staged.drop_slot(slot);
        self.forget_checkpoints(slot);
        let Some(sequence) = &mut self.slots[slot] else { return Err(Error::NoSuchSequence) };
        sequence.scales.copy_from_slice(scales);
        sequence.past.truncate(&self.room.plan, 0);
        let text = mem::take(&mut sequence.text);
        self.run.release(slot, 0);
        if text.is_empty() { Ok(()) } else { self.encode(slot, &text, None).await }
    }

    /// How many tokens memory holds of a sequence.
    fn held(&self, slot: usize) -> usize {
        self.slots[slot].as_ref().map_or(0, |sequence| sequence.past.held())
    }

    fn scales(&self, slot: usize) -> &[f32] {
        self.slots[slot].as_ref().map_or(&[], |sequence| &sequence.scales)
    }

    /// Has the backends scale adapters as a sequence does.
    fn rescale(&mut self, slot: usize) {
        let Some(sequence) = &self.slots[slot] else { return };
        if self.scales != sequence.scales {
            self.run.rescale(&sequence.scales);
            self.scales.clone_from(&sequence.scales);
        }
    }

    /// Notes tokens that the next step appends to a sequence, once for each sequence and step.
    ///
    /// # Errors
    /// If there is no such sequence or it has tokens in this step already; if the tokens do not fit into the context or the step, or
    /// one is outside of the vocabulary; if the model answers texts and the sequence has none. Nothing is noted then.
    pub fn push(&mut self, id: SequenceId, tokens: &[u32], role: Role, outputs: Outputs) -> Result<(), Error> {
        let slot = self.slot(id)?;
        self.admits(id, tokens, 0)?;
        if self.staged.has(slot) {
            return Err(Error::SequenceInStep);
        }
        let (rows, asked) = (self.staged.rows() + tokens.len(), self.staged.outputs() + outputs.count(tokens.len()));
        if rows > self.room.rows || asked > self.room.outputs {
            let (got, most) = if rows > self.room.rows { (rows, self.room.rows) } else { (asked, self.room.outputs) };
            return Err(Error::StepTooLong { rows: got, most });
        }
        if !tokens.is_empty() {
            self.staged.push(slot, tokens, role, outputs);
        }
        Ok(())
    }

    /// Forgets what was noted for the next step.
    pub fn unstage(&mut self) {
        self.staged.clear();
    }

    /// Computes what was noted, in one pass over the weights for each choice of scales of adapters. A sequence whose
    /// past memory no longer holds is computed again first.
    ///
    /// # Errors
    /// [`Error::PagesFull`] if the pool has too few free pages: what was noted is forgotten, and all sequences are as they were.
    /// Otherwise if the device fails, after which no step will do.
    pub fn step(&mut self) -> Result<(), Error> {
        self.step_observed(None)
    }

    /// [`Batch::step`], and every named value is shown to `observer`.
    ///
    /// # Errors
    /// As there.
    pub fn step_observed(&mut self, observer: Option<&mut dyn Observer>) -> Result<(), Error> {
        now(self.step_observed_body(observer, None)).map(drop)
    }

    /// What [`Self::step_observed`] does; `false` where `between` ended it, and the sequences are as they were.
    pub(crate) async fn step_observed_body(
        &mut self,
        observer: Option<&mut dyn Observer>,
        between: Option<Between<'_>>,
    ) -> Result<bool, Error> {
        let staged = mem::take(&mut self.staged);
        let done = self.compute(&staged, observer, between).await;
        if matches!(done, Ok(true)) {
            for push in &staged.pushes {
                let sequence = self.slots[push.slot].as_mut().expect("a sequence in a step is not removed");
                sequence.append(staged.tokens(push), push.role);
            }
        }
        self.staged = staged;
        self.staged.clear();
        done
    }

    /// [`crate::Session::listen`].
    pub(crate) fn listen(&mut self, listener: Option<&SharedListener>) {
        self.run.listen(listener);
    }

    async fn compute(
        &mut self,
        staged: &Staged,
        observer: Option<&mut dyn Observer>,
        between: Option<Between<'_>>,
    ) -> Result<bool, Error> {
        for push in &staged.pushes {
            while self.catch_up(push.slot, None).await? {}
        }
        self.run_until(staged, observer, between).await
    }

    /// Runs a step; `false` where `between` ended it, and memory holds of the sequences what it held before, or less.
    async fn run_until(
        &mut self,
        staged: &Staged,
        observer: Option<&mut dyn Observer>,
        between: Option<Between<'_>>,
    ) -> Result<bool, Error> {
        let stop = between.map(|between| between.stop);
        self.run.stop_at(stop);
        let run = self.run_staged(staged, observer, between).await;
        self.run.stop_at(None);
        let places = run?;
        let done = !stop.is_some_and(Stop::was_seen);
        for (slot, positions) in places {
            let past = &mut self.slots[slot].as_mut().expect("a sequence in a step is not removed").past;
            past.extend(positions.len());
            if !done {
                // As if it had been done and taken back: where that cannot be, rings and states are spoilt.
                past.truncate(&self.room.plan, positions.start);
                let held = past.held();
                self.release(slot, held);
            }
        }
        if done {
            self.rank();
        } else {
            self.computed.clear();
            self.rows.clear();
        }
        Ok(done)
    }

    /// Runs a step, and gives the positions that it has written to, by sequence.
    async fn run_staged(
        &mut self,
        staged: &Staged,
        mut observer: Option<&mut dyn Observer>,
        between: Option<Between<'_>>,
    ) -> Result<Vec<(usize, Range<usize>)>, Error> {
        self.rows.clear();
        self.computed.clear();
        let places = staged.pushes.iter().map(|push| {
            let held = self.held(push.slot);
            (push.slot, held..held + push.len())
        });
        let places: Vec<_> = places.collect();
        self.reserve(&places)?;
        let asked = Asked::of(staged.wants(), self.run.top_k());
        let (mut rows, mut more) = (Vec::new(), Computed::default());
        let [mut tokens, mut outputs] = [0, 0];
        for leader in self.leaders(staged) {
            self.rescale(leader);
            let alike = |slot| self.scales(slot) == self.scales(leader);
            let layout = staged.lay_out(alike, |slot| self.held(slot));
            let computed = if tokens == 0 { &mut self.computed } else { &mut more };
            // What a loop lends must be no longer than its turn.
            let observer = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
            self.run.step(layout.step(), Doing::Step(asked), computed, observer, between).await?;
            if tokens > 0 {
                self.computed.append(&mut more);
            }
            rows.extend(layout.rows.iter().map(|(number, row)| (*number, row.behind(tokens, outputs))));
            tokens += layout.tokens.len();
            outputs += layout.outputs.len();
        }
        rows.sort_by_key(|(number, _)| *number);
        self.rows = rows.into_iter().map(|(_, row)| row).collect();
        Ok(places)
    }

    /// A sequence of the step for each choice of scales: those with the same are a pass over the weights.
    fn leaders(&self, staged: &Staged) -> Vec<usize> {
        staged.pushes.iter().fold(Vec::new(), |mut leaders, push| {
            if !leaders.iter().any(|&leader| self.scales(leader) == self.scales(push.slot)) {
                leaders.push(push.slot);
            }
            leaders
        })
    }

    /// Has sequences own the pages of positions that they are about to write to: all of them, or those that they had.
    fn reserve(&mut self, places: &[(usize, Range<usize>)]) -> Result<(), Error> {
        if self.run.reserve(places.iter().cloned())? {
            return Ok(());
        }
        for (slot, positions) in places {
            self.release(*slot, positions.start);
        }
        let (used, total) = self.run.pages();
        Err(Error::PagesFull { free: total - used, total })
    }

    /// Gives back the pages of a sequence that hold none of its first `len` positions, nor its text.
    fn release(&mut self, slot: usize, len: usize) {
        let text = self.slots[slot].as_ref().map_or(0, |sequence| sequence.text.len());
        self.run.release(slot, len.max(text));
    }

    /// Finds the best logits of rows that want those where the device gave all.
    fn rank(&mut self) {
        let width = self.model.config().outputs();
        let Computed { logits, best, each, .. } = &mut self.computed;
        if logits.is_empty() || !self.rows.iter().any(|row| matches!(row.want, Want::Best(_))) {
            return;
        }
        let most = self.rows.iter().filter_map(|row| row.want.best()).max().unwrap_or(0).min(width);
        best.clear();
        *each = most;
        let mut one = Vec::new();
        for row in &mut self.rows {
            if row.want.best().is_some() {
                one.clear();
                top_k(&logits[row.logits * width..][..width], most, &mut one);
                row.best = best.len() / most.max(1);
                best.extend_from_slice(&one);
            }
        }
    }

    /// What the last step has found, in the order in which it was asked for.
    pub fn answers(&self) -> impl ExactSizeIterator<Item = Answer<'_>> {
        self.rows.iter().map(|row| self.answer(row))
    }

    fn answer<'a>(&'a self, row: &Row) -> Answer<'a> {
        let Computed { logits, best, each, embeddings, .. } = &self.computed;
        let (width, dim) = (self.model.config().outputs(), self.model.config().dim);
        let value = match row.want {
            Want::Logits => Value::Logits(&logits[row.logits * width..][..width]),
            Want::Best(count) => Value::Best(&best[row.best * each..][..count.min(*each)]),
            Want::Embedding => Value::Embedding(&embeddings[row.row * dim..][..dim]),
        };
        Answer { sequence: self.id(row.slot), position: row.position, value }
    }

    /// The logits of all rows, one after the other, where all wanted them; there are no answers then.
    pub(crate) fn logits(&mut self) -> &mut Vec<f32> {
        self.rows.clear();
        &mut self.computed.logits
    }

    /// The same of the best.
    pub(crate) fn best(&mut self) -> &mut Vec<Ranked> {
        self.rows.clear();
        &mut self.computed.best
    }

    /// Appends tokens to a sequence, step after step; the answer is the last token's. `false` where it was cancelled, which leaves
    /// the sequence after what was done.
    pub(crate) async fn feed(
        &mut self,
        id: SequenceId,
        tokens: &[u32],
        (role, want): (Role, Want),
        until: Until<'_>,
    ) -> Result<bool, Error> {
        if tokens.is_empty() {
            return Ok(true);
        }
        let stop = until.cancel.stop();
        let between = Some(Between { stop: &stop, pause: until.pause });
        let total = self.missing(id)? + tokens.len();
        let slot = self.slot(id)?;
        while let missing @ 1.. = self.missing(id)? {
            until.at(total - missing - tokens.len(), total);
            if until.cancel.is_cancelled() || !self.catch_up(slot, between).await? {
                return Ok(false);
            }
        }
        let mut done = 0;
        for chunk in tokens.chunks(self.room.rows) {
            until.at(total - tokens.len() + done, total);
            if until.cancel.is_cancelled() {
                return Ok(false);
            }
            done += chunk.len();
            let outputs = if done == tokens.len() { Outputs::Last(want) } else { Outputs::None };
            self.push(id, chunk, role, outputs)?;
            if !self.step_observed_body(None, between).await? {
                return Ok(false);
            }
        }
        until.at(total, total);
        Ok(true)
    }

    /// Computes a chunk of a sequence's tokens again that memory no longer holds; `false` if no such token is left, or `between`
    /// ended it.
    pub(crate) async fn catch_up(&mut self, slot: usize, between: Option<Between<'_>>) -> Result<bool, Error> {
        let Some(sequence) = &self.slots[slot] else { return Ok(false) };
        let (missing, role) = sequence.missing(self.room.rows);
        if missing.is_empty() {
            return Ok(false);
        }
        let mut staged = Staged::default();
        staged.push(slot, missing, role, Outputs::None);
        self.run_until(&staged, None, between).await
    }

    /// Whether the tokens can follow those of a sequence, without the last `dropped` of these.
    pub(crate) fn admits(&self, id: SequenceId, tokens: &[u32], dropped: usize) -> Result<(), Error> {
        let sequence = self.sequence(id)?;
        // Where no logits are given, an encoder's rows are.
        if self.model.is_encoder_decoder() && sequence.text.is_empty() && self.room.outputs > 0 {
            return Err(Error::Answers { arch: self.model.architecture().to_owned() });
        }
        self.fits(tokens)?;
        let (prompt, context) = (sequence.tokens().len() - dropped + tokens.len(), self.context());
        if prompt > context {
            return Err(Error::PromptTooLong { prompt, context });
        }
        Ok(())
    }

    /// Whether the vocabulary has the tokens, and the context as many positions.
    pub(crate) fn fits(&self, tokens: &[u32]) -> Result<(), Error> {
        let vocab = self.model.config().vocab;
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::Token { token, vocab });
        }
        if tokens.len() > self.context() {
            return Err(Error::PromptTooLong { prompt: tokens.len(), context: self.context() });
        }
        Ok(())
    }
}

impl Want {
    fn best(self) -> Option<usize> {
        match self {
            Want::Best(count) => Some(count),
            Want::Logits | Want::Embedding => None,
        }
    }
}

impl Outputs {
    /// Rows of logits that as many tokens need.
    fn count(self, tokens: usize) -> usize {
        match self {
            Outputs::None | Outputs::Last(Want::Embedding) | Outputs::Each(Want::Embedding) => 0,
            Outputs::Last(_) => tokens.min(1),
            Outputs::Each(_) => tokens,
        }
    }
}

/// A batch may be moved to the thread that serves it.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Batch>();
};
