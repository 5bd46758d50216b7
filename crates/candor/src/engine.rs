//! Answers to many prompts at once, each as it is alone: what a server stands on. No thread, clock or channel is known here.

mod schedule;

use std::mem;

use candor_ops::PAGE;

use crate::{Batch, Continuation, Error, GenerateOptions, Model, Outputs, Piece, Role, SequenceId, StopReason, Value};
use schedule::{Job, Limits, Plan, schedule};

/// A prompt that was taken by an [`Engine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What happens to a prompt on its way to the end of its answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
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
    /// Tokens that were chosen.
    pub tokens: usize,
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
    /// Pages of keys and values in use, and all there are.
    pub pages: (usize, usize),
}

/// Answers prompts beside each other in the sequences of a [`Batch`].
///
/// Each [`Engine::step`] computes one row of every answer that is being written, and some rows of prompts. So a stream waits
/// for no prompt of another longer than for those rows. Which answers share a step changes none of them, to the bit, unless the model
/// was loaded with [`crate::Batching::Fastest`]. Where pages run out, the youngest answer gives its own back, and is read again
/// once there are some: that changes no bit, either.
///
/// ```no_run
/// use candor::{BatchOptions, Engine, Event, GenerateOptions, Model};
///
/// fn answer(model: &Model, prompts: &[Vec<u32>]) -> Result<(), candor::Error> {
///     let mut engine = Engine::new(model.batch(&BatchOptions::default().sequences(4))?, 64);
///     for prompt in prompts {
///         engine.submit(prompt.clone(), &GenerateOptions::default())?;
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
    /// Tickets that were given out, and steps that were made.
    given: u64,
    steps: u64,
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
        let (rows, sequences) = (batch.rows(), batch.sequences());
        let limits = Limits { rows, quantum: prompt_rows.max(1), sequences, page: PAGE, pages };
        Engine { batch, limits, answers: Vec::new(), given: 0, steps: 0 }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        self.batch.model()
    }

    /// Answers that are written at once at most.
    pub fn sequences(&self) -> usize {
        self.limits.sequences
    }

    /// Tokens that a prompt and its answer have at most.
    pub fn context(&self) -> usize {
        self.batch.context().min(self.limits.pages.saturating_mul(PAGE))
    }

    /// Takes a prompt, which is answered in the steps to come.
    ///
    /// # Errors
    /// If the prompt is empty, does not fit into the context, or has a token outside of the vocabulary; if the sampling settings
    /// make no sense; if the options slide over a full context, or the model answers texts, which is not done here.
    pub fn submit(&mut self, prompt: Vec<u32>, options: &GenerateOptions) -> Result<Ticket, Error> {
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
            text,
            held: false,
            cancelled: false,
            failed: false,
            turn: self.steps,
        });
        Ok(ticket)
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
        let running = self.answers.iter().filter(|answer| answer.sequence.is_some()).count();
        Load { waiting: self.answers.len() - running, running, pages: self.batch.pages() }
    }

    /// Goes on with all answers that are not held; `false` where there was nothing to do.
    ///
    /// # Errors
    /// If the device fails: no answer can go on then.
    pub fn step(&mut self, emit: &mut dyn FnMut(Ticket, Event)) -> Result<bool, Error> {
        self.end_cancelled(emit)?;
        let jobs: Vec<Job> = self.answers.iter().map(Answering::job).collect();
        let plan = schedule(&jobs, &self.limits);
        if plan == Plan::default() {
            return Ok(false);
        }
        self.steps += 1;
        for &number in &plan.set_back {
            self.set_back(number)?;
        }
        for &number in &plan.seat {
            self.answers[number].sequence = Some(self.batch.add()?);
        }
        let mut given = Vec::new();
        for &(number, rows) in &plan.rows {
            let rows = self.push(number, rows)?;
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
            answer.turn = self.steps;
            if answer.read < answer.tokens.len() || answer.tokens.len() == answer.prompt {
                let (done, of) = (answer.read, answer.tokens.len());
                emit(answer.ticket, Event::Read { done, of });
            }
        }
        self.choose(emit);
        self.remove_ended(emit)?;
        Ok(true)
    }

    /// Notes the next rows of an answer; how many, since those of one step have one role.
    fn push(&mut self, number: usize, rows: usize) -> Result<usize, Error> {
        let top_k = self.batch.top_k();
        let answer = &mut self.answers[number];
        let Some(id) = answer.sequence else { return Err(Error::NoSuchSequence) };
        let (role, end) = match answer.read < answer.prompt {
            true => (Role::Prefill, answer.prompt),
            false => (Role::Decode, answer.tokens.len()),
        };
        let to = end.min(answer.read + rows);
        let is_last = to == answer.tokens.len();
        let outputs = if is_last { Outputs::Last(answer.text.want(top_k)) } else { Outputs::None };
        self.batch.push(id, &answer.tokens[answer.read..to], role, outputs)?;
        Ok(to - answer.read)
    }

    /// Chooses the next tokens from what a step has found.
    fn choose(&mut self, emit: &mut dyn FnMut(Ticket, Event)) {
        let context = self.context();
        for found in self.batch.answers() {
            let answering = self.answers.iter_mut().find(|answering| answering.sequence == Some(found.sequence));
            let Some(answering) = answering else { continue };
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

    /// A step has found no page: the youngest gives its pages back, and one that is alone ends.
    fn make_way(&mut self, emit: &mut dyn FnMut(Ticket, Event)) -> Result<(), Error> {
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
            } else if answer.text.is_over() {
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
            let Answering { ticket, sequence, prompt, text, .. } = answer;
            if let Some(id) = sequence {
                self.batch.remove(id)?;
            }
            if let Some(reason) = text.stop_reason() {
                let (stop_text, tokens, seed) = (text.stop_text(), text.tokens(), text.seed());
                emit(ticket, Event::Done(Finish { reason, stop_text, prompt, tokens, seed }));
            }
        }
        Ok(())
    }
}

impl Answering {
    fn job(&self) -> Job {
        let (tokens, seated) = (self.tokens.len(), self.sequence.is_some());
        Job { tokens, read: self.read, seated, held: self.held, turn: self.turn }
    }

    fn is_over(&self) -> bool {
        self.failed || self.text.stop_reason().is_some()
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
