//! Several sequences that go on together: a pass reads the weights once and adds a token to each of them. Which token is
//! the caller's; sampling is not known here.

use candor_ops::Step;

use crate::{Error, Model, SessionOptions, runner, session::Room};

/// Sequences of tokens in a model's memory that are decoded together.
///
/// What a sequence computes depends on its own tokens alone: its logits are those of a [`crate::Session`] that was given
/// the same tokens in the same calls.
pub struct Sequences {
    model: Model,
    run: runner::Run,
    room: Room,
    lengths: Vec<usize>,
    logits: Vec<f32>,
}

impl Sequences {
    pub(crate) fn new(
        model: Model,
        loaded: &runner::Loaded,
        count: usize,
        options: &SessionOptions,
    ) -> Result<Sequences, Error> {
        assert!(count > 0, "no sequences");
        let room = Room::new(loaded.config(), count, options)?;
        // A pass over all sequences needs as many rows, and the logits of every one.
        let run = loaded.begin(&room.plan, room.chunk.max(count), count)?;
        Ok(Sequences { model, run, room, lengths: vec![0; count], logits: Vec::new() })
    }

    /// Tokens seen so far, of each sequence.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Positions that each sequence has.
    pub fn context(&self) -> usize {
        self.room.plan.context
    }

    /// Forgets all but the first `len` tokens of every sequence.
    pub fn truncate(&mut self, len: usize) {
        self.lengths.iter_mut().for_each(|length| *length = len.min(*length));
    }

    /// Appends tokens to one sequence and computes the logits of the last one. `proceed` is asked before every step
    /// whether to go on, with the number of tokens done; `false` leaves the sequence after what was done.
    ///
    /// # Errors
    /// If the tokens do not fit, one is outside of the vocabulary, or the device fails.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn evaluate(
        &mut self,
        sequence: usize,
        tokens: &[u32],
        mut proceed: impl FnMut(usize) -> bool,
    ) -> Result<bool, Error> {
        let first = self.lengths[sequence];
        self.admit(first + tokens.len(), tokens)?;
        let mut done = 0;
        for chunk in tokens.chunks(self.room.chunk) {
            if !proceed(done) {
                return Ok(false);
            }
            let start = (first + done) as u32;
            let positions: Vec<u32> = (start..start + chunk.len() as u32).collect();
            done += chunk.len();
            let sequences = vec![sequence as u32; chunk.len()];
            let last = [chunk.len() as u32 - 1];
            let outputs: &[u32] = if done == tokens.len() { &last } else { &[] };
            let step = Step { tokens: chunk, positions: &positions, sequences: &sequences, outputs };
            self.run.step(step, &mut self.logits)?;
            self.lengths[sequence] = first + done;
        }
        Ok(true)
    }

    /// Appends a token to every sequence, in one pass, and computes the logits of all.
    ///
    /// # Errors
    /// If a sequence is full, a token is outside of the vocabulary, or the device fails.
    ///
    /// # Panics
    /// If there are not as many tokens as sequences.
    pub fn advance(&mut self, tokens: &[u32]) -> Result<(), Error> {
        assert_eq!(tokens.len(), self.lengths.len(), "a token for each sequence");
        self.admit(self.lengths.iter().copied().max().unwrap_or(0) + 1, tokens)?;
        let positions: Vec<u32> = self.lengths.iter().map(|&length| length as u32).collect();
        let numbers: Vec<u32> = (0..tokens.len() as u32).collect();
        let step = Step { tokens, positions: &positions, sequences: &numbers, outputs: &numbers };
        self.run.step(step, &mut self.logits)?;
        self.lengths.iter_mut().for_each(|length| *length += 1);
        Ok(())
    }

    /// What the last call computed: `[sequences, V]` after [`Sequences::advance`], `[V]` after
    /// [`Sequences::evaluate`].
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    fn admit(&self, length: usize, tokens: &[u32]) -> Result<(), Error> {
        let (vocab, context) = (self.model.config().vocab, self.context());
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::Token { token, vocab });
        }
        if length > context {
            return Err(Error::PromptTooLong { prompt: length, context });
        }
        Ok(())
    }
}
