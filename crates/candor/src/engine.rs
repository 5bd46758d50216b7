//! Answers to many prompts at once, each as it is alone: what a server stands on. No thread, clock or channel is known here.

mod prefixes;
mod schedule;

use std::mem;

use candor_ops::{KvFormat, PAGE};

use crate::{
    Batch, Continuation, Error, GenerateOptions, Model, Outputs, Piece, Role, SequenceId, StopReason, Value, Want,
};
use prefixes::{Found, Prefixes, Text};
use schedule::{Job, Limits, Plan, Room, Way, schedule};

/// A prompt that was taken by an [`Engine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Which prompts an answer shares memory with: a prompt that begins as one did before need not be read as far as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// With none: all of it is read, and nothing of it is kept.
    Off,
    /// With those of the same number, such as that of a user. How long a prompt of another takes tells nothing of them.
    Within(u64),
}

impl Default for Reuse {
    /// With all that do not say otherwise.
    fn default() -> Reuse {
        Reuse::Within(0)
    }
}

/// What happens to a prompt on its way to the end of its answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Its reading begins.
    Begun {
        /// Tokens of the prompt that do not have to be read, since another prompt began with them.
        reused: usize,
    },
    /// Tokens of the prompt, and of an answer that was set back, are read.
    Read {
        /// How many memory holds now.
        done: usize,
        /// How many there are.
        of: usize,
    },
    /// A piece of the answer.
    Piece(Piece),
    /// The answer has ended; nothing follows.
    Done(Finish),
    /// This answer cannot go on, while others do; nothing follows.
    Failed(Error),
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finish {
    /// The reason.
    pub reason: StopReason,
    /// Which of [`GenerateOptions::stop`] came, counted from 0, where one of them ended it.
    pub stop_text: Option<usize>,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// How many of them did not have to be read, since another prompt began with them.
    pub reused: usize,
    /// Tokens that were chosen.
    pub tokens: usize,
    /// The token that ended the text, where one did: it is no piece, and does not count.
    pub end: Option<u32>,
    /// The seed that was used: see [`Continuation::seed`].
    pub seed: u32,
}

/// How much an [`Engine`] has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Answers that have no sequence yet, or had to give it back.
    pub waiting: usize,
    /// Answers with a sequence.
    pub running: usize,
    /// Pages of keys and values in use, those of kept beginnings among them, and all there are.
    pub pages: (usize, usize),
    /// Pages that answers need, a shared one counted for each of them: the others can be had at once.
    pub needed: usize,
    /// Beginnings of prompts that are kept.
    pub kept: usize,
    /// Tokens that did not have to be read so far, since they were kept.
    pub hits: u64,
}

/// Answers prompts beside each other in the sequences of a [`Batch`].
///
/// Each [`Engine::step`] computes one row of every answer that is being written, and some rows of prompts. So a stream waits
/// for no prompt of another longer than for those rows. Which answers share a step changes none of them, to the bit, unless the model
/// was loaded with [`crate::Batching::Fastest`]. Where pages run out, the youngest answer gives its own back, and is read again
/// once there are some: that changes no bit, either.
///
/// A prompt that begins as that of an answer which is being read waits for what they share, and goes on from there. Where an answer
/// ends, its prompt is kept in memory that nobody needs: in sequences without an answer, of which
/// [`BatchOptions::kept`](crate::BatchOptions::kept) gives more. A prompt that begins with the same tokens goes on from there, with
/// the bits that it has alone: what an answer wrote is read again, since written tokens have other bits than those that are read
/// (unless the model was loaded with [`crate::Batching::Invariant`] and is on no GPU). States and windows cannot go back; of
/// them there is a copy from the end of each prompt.
///
/// ```no_run
/// use candor::{BatchOptions, Engine, Event, GenerateOptions, Model, Reuse};
///
/// fn answer(model: &Model, prompts: &[Vec<u32>]) -> Result<(), candor::Error> {
///     let mut engine = Engine::new(model.batch(&BatchOptions::default().sequences(4).kept(4))?, 64);
///     for prompt in prompts {
///         engine.submit(prompt.clone(), &GenerateOptions::default(), Reuse::default())?;
///     }
///     while engine.step(&mut |ticket, event| match event {
///         Event::Piece(piece) => println!("{ticket:?} {}", piece.text),
///         _ => {}
///     })? {}
///     Ok(())
/// }
/// ```
pub struct Engine {
    batch: Batch,
    limits: Limits,
    /// Those that have not ended, by age.
    answers: Vec<Answering>,
    prefixes: Prefixes<Scope, SequenceId>,
    /// Whether a token's bits depend on its role.
    by_role: bool,
    /// Tokens that did not have to be read.
    hits: u64,
    /// Tickets that were given out, and steps that were made.
    given: u64,
    steps: u64,
}

/// Whose prompts share memory: those of one number, with the same bits of the adapters' scales.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Scope {
    number: u64,
    scales: Vec<u32>,
}

/// An answer that has not ended.
struct Answering {
    ticket: Ticket,
    /// The prompt, and what was chosen.
    tokens: Vec<u32>,
    prompt: usize,
    /// How many of the tokens are in the sequence.
    read: usize,
    sequence: Option<SequenceId>,
    /// The prompts that it may share memory with.
    scope: Option<u64>,
    /// By how much each adapter changes the model.
    scales: Vec<f32>,
    /// How many of its tokens did not have to be read when it first got a sequence.
    reused: Option<usize>,
    /// Whether the page of its next position may be another's, too.
    shared: bool,
    /// Whether its prompt was kept, so that going on may overwrite it.
    kept: bool,
    /// How many tokens of the prompt were shown with their logits.
    shown: usize,
    text: Continuation,
    held: bool,
    cancelled: bool,
    failed: bool,
    turn: u64,
}

impl Engine {
    /// Answers in the sequences of `batch`, which are ended. `prompt_rows` are the rows of prompts at most that a step computes
    /// beside answers that are being written.
    pub fn new(mut batch: Batch, prompt_rows: usize) -> Engine {
        let ids: Vec<SequenceId> = batch.ids().collect();
        for id in ids {
            batch.remove(id).expect("a sequence that there is");
        }
        let pages = match batch.pages().1 {
            // What has no pages never runs out of them.
            0 => usize::MAX / PAGE,
            pages => pages,
        };
        let (rows, sequences) = (batch.rows(), batch.sequences() - batch.kept());
        let limits = Limits { rows, quantum: prompt_rows.max(1), sequences, page: PAGE, pages };
        let by_role = !batch.model().promises_same_bits();
        let (answers, prefixes) = (Vec::new(), Prefixes::new());
        Engine { batch, limits, answers, prefixes, by_role, hits: 0, given: 0, steps: 0 }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        self.batch.model()
    }

    /// The formats of cached keys and values.
    pub fn cache_formats(&self) -> [KvFormat; 2] {
        self.batch.cache_formats()
    }

    /// Answers that are written at once at most.
    pub fn sequences(&self) -> usize {
        self.limits.sequences
    }

    /// Tokens that a prompt and its answer have at most.
    pub fn context(&self) -> usize {
        self.batch.context().min(self.limits.pages.saturating_mul(PAGE))
    }

    /// Takes a prompt, which is answered in the steps to come. `reuse` says which other prompts it may go on from, and may be gone
    /// on from by.
    ///
    /// # Errors
    /// If the prompt is empty, does not fit into the context, or has a token outside of the vocabulary; if the sampling settings
    /// make no sense; if the options slide over a full context, or the model answers texts, which is not done here.
    pub fn submit(&mut self, prompt: Vec<u32>, options: &GenerateOptions, reuse: Reuse) -> Result<Ticket, Error> {
        self.model().refuse_answers("sharing steps")?;
        if options.context_shift.is_some() {
            return Err(Error::Slides);
        }
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.batch.fits(&prompt)?;
        let context = self.context();
        if prompt.len() > context {
            return Err(Error::PromptTooLong { prompt: prompt.len(), context });
        }
        let text = Continuation::new(self.model(), options, &prompt, self.batch.context())?;
        let ticket = Ticket(self.given);
        self.given += 1;
        self.answers.push(Answering {
            ticket,
            prompt: prompt.len(),
            tokens: prompt,
            read: 0,
            sequence: None,
            scope: match reuse {
                Reuse::Off => None,
                Reuse::Within(scope) => Some(scope),
            },
            scales: self.model().scales(),
            reused: None,
            shared: false,
            kept: false,
            shown: 1,
            text,
            held: false,
            cancelled: false,
            failed: false,
            turn: self.steps,
        });
        Ok(ticket)
    }

    /// Sets an answer's scales of [`Model::adapters`], before the step after [`Engine::submit`]. It shares memory with those of the
    /// same scales alone. Others are other passes over the weights in a step.
    ///
    /// # Errors
    /// If there are not as many scales as adapters. The answer keeps those that it had then.
    pub fn scale_adapters(&mut self, ticket: Ticket, scales: &[f32]) -> Result<(), Error> {
        self.model().expect_scales(scales)?;
        if let Some(answer) = self.answer(ticket).filter(|answer| answer.reused.is_none()) {
            answer.scales.copy_from_slice(scales);
        }
        Ok(())
    }

    /// Ends an answer with [`StopReason::Cancelled`] at the next step; nothing if it has ended.
    pub fn cancel(&mut self, ticket: Ticket) {
        if let Some(answer) = self.answer(ticket) {
            answer.cancelled = true;
        }
    }

    /// Has an answer wait, or go on: its reader is slow. While it waits, others may take its memory.
    pub fn hold(&mut self, ticket: Ticket, on: bool) {
        if let Some(answer) = self.answer(ticket) {
            answer.held = on;
        }
    }

    fn answer(&mut self, ticket: Ticket) -> Option<&mut Answering> {
        self.answers.iter_mut().find(|answer| answer.ticket == ticket)
    }

    /// How much there is to do.
    pub fn load(&mut self) -> Load {
        let seated = self.answers.iter().filter(|answer| answer.sequence.is_some());
        let (running, needed) = (seated.clone().count(), seated.map(|answer| self.limits.pages_of(answer.read)).sum());
        let (pages, kept) = (self.batch.pages(), self.prefixes.len());
        Load { waiting: self.answers.len() - running, running, pages, needed, kept, hits: self.hits }
    }

    /// Forgets the beginnings of prompts that are kept, and gives their memory back.
    ///
    /// # Errors
    /// If the device fails.
    pub fn forget_kept(&mut self) -> Result<(), Error> {
        while self.forget_oldest()? {}
        Ok(())
    }

    /// Forgets the beginning that was not used for the longest time; `false` if none is kept.
    fn forget_oldest(&mut self) -> Result<bool, Error> {
        match self.prefixes.forget_oldest() {
            Some(id) => self.batch.remove(id).map(|()| true),
            None => Ok(false),
        }
    }

    /// Goes on with all answers that are not held; `false` where there was nothing to do.
    ///
    /// # Errors
    /// If the device fails: no answer can go on then.
    pub fn step(&mut self, emit: &mut dyn FnMut(Ticket, Event)) -> Result<bool, Error> {
        self.end_cancelled(emit)?;
        let mut seats = true;
        let plan = loop {
            let (jobs, room) = (self.jobs(), self.room(seats));
            let plan = schedule(&jobs, &self.limits, &room);
            match plan.way {
                Some(Way::Forget) => drop(self.forget_oldest()?),
                Some(Way::SetBack(number)) => {
                    self.set_back(number)?;
                    seats = false;
                }
                None => break plan,
            }
        };
        if plan == Plan::default() {
            return Ok(!seats);
        }
        self.steps += 1;
        for &number in &plan.seat {
            self.seat(number, emit)?;
        }
        let mut given = Vec::new();
        // Each job has the logits of one row at least.
        let mut outputs = self.batch.outputs().saturating_sub(plan.rows.len());
        for &(number, rows) in &plan.rows {
            let rows = self.push(number, rows, &mut outputs)?;
            given.push((number, rows));
        }
        match self.batch.step() {
            // Pages are counted before; what is not known here, such as a window's, may need more.
            Err(Error::PagesFull { .. }) => return self.make_way(emit).map(|()| true),
            done => done?,
        }
        for (number, rows) in given {
            let answer = &mut self.answers[number];
            answer.read += rows;
            (answer.turn, answer.shared) = (self.steps, false);
            if answer.read < answer.tokens.len() || answer.tokens.len() == answer.prompt {
                let (done, of) = (answer.read, answer.tokens.len());
                emit(answer.ticket, Event::Read { done, of });
            }
        }
        self.choose(emit);
        (0..self.answers.len()).try_for_each(|number| self.keep_before_lost(number))?;
        self.remove_ended(emit)?;
        Ok(true)
    }

    /// The answers in numbers.
    fn jobs(&mut self) -> Vec<Job> {
        let mut jobs: Vec<Job> = self.answers.iter().map(Answering::job).collect();
        let seated = jobs.iter().filter(|job| job.seated).count();
        // A page is another's only where there is one.
        let others = seated + self.prefixes.len() > 1;
        jobs.iter_mut().for_each(|job| job.shared &= others);
        let next = (0..jobs.len()).filter(|&number| !jobs[number].seated && !jobs[number].held);
        let next: Vec<usize> = next.take(self.limits.sequences.saturating_sub(seated)).collect();
        // What the first of them goes on from is forgotten last.
        for number in next.into_iter().rev() {
            if let Some(Found { id, tokens }) = self.find(number) {
                self.prefixes.touch(id);
                jobs[number].reused = tokens;
            }
            jobs[number].coming = self.coming(number);
        }
        jobs
    }

    /// What there is for a step.
    fn room(&mut self, seats: bool) -> Room {
        let kept = self.prefixes.len();
        let seated = self.answers.iter().filter(|answer| answer.sequence.is_some()).count();
        let free = self.limits.pages.saturating_sub(self.batch.pages().0);
        Room { free, sequences: self.batch.sequences().saturating_sub(seated + kept), kept, seats }
    }

    /// The first tokens of an answer, as far as they have bits of their own.
    fn text<'a>(&self, answer: &'a Answering, len: usize) -> Text<'a> {
        let tokens = &answer.tokens[..len];
        Text { tokens, read: if self.by_role { answer.prompt } else { tokens.len() } }
    }

    /// The beginning that an answer can go on from: one that is kept, or one that another answer has read. Its last token is computed
    /// in any case.
    fn find(&self, number: usize) -> Option<Found<SequenceId>> {
        let answer = &self.answers[number];
        let len = answer.tokens.len();
        if answer.shows() {
            return None;
        }
        let kept = self.prefixes.find(&answer.shared_with()?, self.text(answer, len), len - 1);
        let read = self.beside(number).filter_map(|(other, alike)| {
            let Answering { sequence, read, .. } = self.answers[other];
            Some(Found { id: sequence?, tokens: alike.min(read) })
        });
        read.chain(kept).filter(|found| found.tokens > 0).max_by_key(|found| found.tokens)
    }

    /// How many tokens of an answer older ones are about to read, or have read.
    fn coming(&self, number: usize) -> usize {
        if self.answers[number].shows() {
            return 0;
        }
        let reads = |other: usize| other < number && !self.answers[other].held && !self.answers[other].shows();
        self.beside(number).filter(|(other, _)| reads(*other)).map(|(_, alike)| alike).max().unwrap_or(0)
    }

    /// The other answers that an answer may share memory with, and how many of its first tokens are theirs. Memory that forgets cannot
    /// go back to where they part.
    fn beside(&self, number: usize) -> impl Iterator<Item = (usize, usize)> {
        let answer = &self.answers[number];
        let scope = answer.shared_with().filter(|_| !self.batch.forgets());
        let len = answer.tokens.len();
        let others = self.answers.iter().enumerate().filter(move |(other, beside)| {
            scope.is_some() && *other != number && !beside.failed && beside.shared_with() == scope
        });
        others.map(move |(other, beside)| {
            let theirs = self.text(beside, beside.tokens.len());
            (other, self.text(answer, len).alike(theirs).min(len - 1))
        })
    }

    /// Gives an answer a sequence, which begins with what is kept of its tokens.
    fn seat(&mut self, number: usize, emit: &mut dyn FnMut(Ticket, Event)) -> Result<(), Error> {
        let mut seated = None;
        if let Some(Found { id, tokens }) = self.find(number) {
            let fork = self.batch.fork(id, tokens)?;
            // A backend may not let its memory out.
            match self.batch.missing(fork)? {
                0 => {
                    seated = Some((fork, tokens));
                    let from = self.answers.iter_mut().filter(|answer| answer.sequence == Some(id));
                    from.for_each(|answer| answer.shared = true);
                }
                _ => self.batch.remove(fork)?,
            }
        }
        let (id, reused) = match seated {
            Some(seated) => seated,
            None => {
                let id = self.batch.add()?;
                self.batch.scale_adapters(id, &self.answers[number].scales)?;
                (id, 0)
            }
        };
        self.hits += reused as u64;
        let answer = &mut self.answers[number];
        (answer.sequence, answer.read, answer.shared) = (Some(id), reused, true);
        if answer.reused.is_none() {
            answer.reused = Some(reused);
            emit(answer.ticket, Event::Begun { reused: reused.min(answer.prompt) });
        }
        Ok(())
    }

    /// Keeps the first tokens of a sequence, which is no answer's any more.
    fn keep(&mut self, id: SequenceId, scope: Scope, (answer, len): (&Answering, usize)) -> Result<(), Error> {
        self.batch.truncate(id, len)?;
        if self.batch.missing(id)? > 0 {
            return self.batch.remove(id);
        }
        let least = self.batch.least(id, 0)?;
        let over = self.prefixes.keep(scope, self.text(answer, len), id, least);
        over.into_iter().try_for_each(|id| self.batch.remove(id))
    }

    /// Keeps a copy of an answer's prompt, without its last token or with it, where memory could not go back there after
    /// the next row.
    fn keep_before_lost(&mut self, number: usize) -> Result<(), Error> {
        let answer = &self.answers[number];
        let (scope, last) = (answer.shared_with(), answer.prompt - 1);
        let (Some(scope), Some(id)) = (scope, answer.sequence) else { return Ok(()) };
        if answer.kept || answer.is_over() || answer.read < last.max(1) || self.batch.least(id, 1)? <= last {
            return Ok(());
        }
        let (read, len) = (answer.read, answer.read.min(answer.prompt));
        self.answers[number].kept = true;
        let is_lost = len < read && self.batch.least(id, 0)? > len;
        if is_lost || self.room(true).sequences == 0 && !self.forget_oldest()? {
            return Ok(());
        }
        let copy = self.batch.fork(id, len)?;
        let answer = self.answers.remove(number);
        let kept = self.keep(copy, scope, (&answer, len));
        self.answers.insert(number, Answering { shared: true, ..answer });
        kept
    }

    /// Notes the next rows of an answer; how many, since those of one step have one role. Logits of as many as `outputs` can be had
    /// besides.
    fn push(&mut self, number: usize, rows: usize, outputs: &mut usize) -> Result<usize, Error> {
        let top_k = self.batch.top_k();
        let answer = &mut self.answers[number];
        let Some(id) = answer.sequence else { return Err(Error::NoSuchSequence) };
        let (role, end) = match answer.read < answer.prompt {
            true => (Role::Prefill, answer.prompt),
            false => (Role::Decode, answer.tokens.len()),
        };
        let (mut to, last) = (end.min(answer.read + rows), answer.prompt - 1);
        // A state is kept before the last token of the prompt, so that the same prompt can go on from it, too.
        let keeps = answer.scope.is_some() && !answer.kept && answer.read < last && to > last;
        if keeps && self.batch.least(id, to - answer.read)? > last {
            to = last;
        }
        if answer.shows() {
            to = to.min(answer.read + 1 + *outputs);
            *outputs -= to - answer.read - 1;
        }
        let wanted = match to == answer.tokens.len() {
            _ if answer.shows() => Outputs::Each(Want::Logits),
            true => Outputs::Last(answer.text.want(top_k)),
            false => Outputs::None,
        };
        self.batch.push(id, &answer.tokens[answer.read..to], role, wanted)?;
        Ok(to - answer.read)
    }

    /// Chooses the next tokens from what a step has found.
    fn choose(&mut self, emit: &mut dyn FnMut(Ticket, Event)) {
        let context = self.context();
        for found in self.batch.answers() {
            let answering = self.answers.iter_mut().find(|answering| answering.sequence == Some(found.sequence));
            let Some(answering) = answering.filter(|answering| !answering.failed) else { continue };
            if found.position + 1 < answering.prompt {
                answering.show(found.position + 1, found.value, emit);
                continue;
            }
            answering.choose(found.value, context, emit);
        }
    }

    /// Has an answer give its sequence back, which is read again later.
    fn set_back(&mut self, number: usize) -> Result<(), Error> {
        let answer = &mut self.answers[number];
        answer.read = 0;
        match answer.sequence.take() {
            Some(id) => self.batch.remove(id),
            None => Ok(()),
        }
    }

    /// A step has found no page: a kept beginning is forgotten, or the youngest gives its pages back, and one that is alone ends.
    fn make_way(&mut self, emit: &mut dyn FnMut(Ticket, Event)) -> Result<(), Error> {
        if self.forget_oldest()? {
            return Ok(());
        }
        let seated: Vec<usize> = (0..self.answers.len()).filter(|&n| self.answers[n].sequence.is_some()).collect();
        match seated[..] {
            [] => Ok(()),
            [alone] => {
                self.answers[alone].stop(StopReason::ContextFull, emit);
                self.remove_ended(emit)
            }
            [.., youngest] => self.set_back(youngest),
        }
    }

    /// Ends what was cancelled, here or from elsewhere, and what needs no token.
    fn end_cancelled(&mut self, emit: &mut dyn FnMut(Ticket, Event)) -> Result<(), Error> {
        for answer in &mut self.answers {
            if answer.cancelled {
                answer.stop(StopReason::Cancelled, emit);
            } else if !answer.shows() && answer.text.is_over() {
                answer.rest(emit);
            }
        }
        self.remove_ended(emit)
    }

    /// Forgets answers that have ended.
    fn remove_ended(&mut self, emit: &mut dyn FnMut(Ticket, Event)) -> Result<(), Error> {
        let (ended, on) = mem::take(&mut self.answers).into_iter().partition(Answering::is_over);
        self.answers = on;
        for answer in ended {
            self.leave(&answer)?;
            let Answering { ticket, prompt, reused, text, .. } = answer;
            if let Some(reason) = text.stop_reason() {
                let stop_text = text.stop_text();
                let (reused, tokens, seed) = (reused.unwrap_or(0).min(prompt), text.tokens(), text.seed());
                emit(ticket, Event::Done(Finish { reason, stop_text, prompt, reused, tokens, end: text.end(), seed }));
            }
        }
        Ok(())
    }

    /// Keeps what memory holds of an answer that has ended, as far as another prompt may go on from it.
    fn leave(&mut self, answer: &Answering) -> Result<(), Error> {
        let Some(id) = answer.sequence else { return Ok(()) };
        let len = if self.by_role { answer.read.min(answer.prompt) } else { answer.read };
        match answer.shared_with() {
            Some(scope) if len > 0 && !answer.failed => self.keep(id, scope, (answer, len)),
            _ => self.batch.remove(id),
        }
    }
}

impl Answering {
    fn job(&self) -> Job {
        let (tokens, seated) = (self.tokens.len(), self.sequence.is_some());
        let Answering { read, shared, held, turn, .. } = *self;
        Job { tokens, read, seated, shared, reused: 0, coming: 0, held, turn }
    }

    /// The prompts that it may share memory with, which have the same bits.
    fn shared_with(&self) -> Option<Scope> {
        let scales = self.scales.iter().map(|scale| scale.to_bits()).collect();
        self.scope.map(|number| Scope { number, scales })
    }

    fn is_over(&self) -> bool {
        self.failed || self.text.stop_reason().is_some()
    }

    /// Whether tokens of the prompt are still to be shown with their logits.
    fn shows(&self) -> bool {
        self.shown < self.prompt && self.text.reads()
    }

    /// Shows the logits of a token of the prompt, unless they were shown before it was set back.
    fn show(&mut self, position: usize, value: Value<'_>, emit: &mut dyn FnMut(Ticket, Event)) {
        if self.failed || position != self.shown {
            return;
        }
        self.shown += 1;
        if let Err(error) = self.text.read(self.tokens[position], position, value) {
            self.failed = true;
            emit(self.ticket, Event::Failed(error));
        }
    }

    /// Chooses the next token, unless that ends it.
    fn choose(&mut self, value: Value<'_>, context: usize, emit: &mut dyn FnMut(Ticket, Event)) {
        match self.text.choose(value) {
            Ok(piece) => {
                self.tokens.extend(self.text.pending());
                if let Some(piece) = piece {
                    emit(self.ticket, Event::Piece(piece));
                }
            }
            Err(error) => {
                self.failed = true;
                emit(self.ticket, Event::Failed(error));
            }
        }
        if self.is_over() {
            return;
        }
        if self.text.is_over() {
            self.rest(emit);
        } else if self.tokens.len() > context {
            self.stop(StopReason::ContextFull, emit);
        }
    }

    fn stop(&mut self, reason: StopReason, emit: &mut dyn FnMut(Ticket, Event)) {
        if let Some(piece) = self.text.stop(reason) {
            emit(self.ticket, Event::Piece(piece));
        }
    }

    /// The text that was held back.
    fn rest(&mut self, emit: &mut dyn FnMut(Ticket, Event)) {
        if let Some(piece) = self.text.rest() {
            emit(self.ticket, Event::Piece(piece));
        }
    }
}

/// An engine may be moved to the thread that serves it.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Engine>();
};
