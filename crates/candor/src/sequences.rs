//! Several sequences that go on together: a pass reads the weights once and adds a token to each of them. Which token is
//! the caller's; sampling is not known here.

use candor_ops::Step;

use crate::{Error, Model, SessionOptions, past::Past, runner, session::Room};

/// Sequences of tokens in a model's memory that are decoded together.
///
/// What a sequence computes depends on its own tokens alone: its logits are those of a [`crate::Session`] that was given
/// the same tokens in the same calls.
pub struct Sequences {
    model: Model,
    run: runner::Run,
    room: Room,
    all: Vec<Sequence>,
    logits: Vec<f32>,
    scales: Vec<f32>,
}

/// One of them.
#[derive(Clone, Default)]
struct Sequence {
    /// What an encoder has read, which the tokens answer.
    text: Vec<u32>,
    tokens: Vec<u32>,
    /// Which of its tokens are in memory.
    past: Past,
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
        let (all, scales) = (vec![Sequence::default(); count], model.scales());
        Ok(Sequences { model, run, room, all, logits: Vec::new(), scales })
    }

    /// Tokens seen so far, of each sequence.
    pub fn lengths(&self) -> Vec<usize> {
        self.all.iter().map(|sequence| sequence.tokens.len()).collect()
    }

    /// Positions that each sequence has.
    pub fn context(&self) -> usize {
        self.room.plan.context
    }

    /// Changes the model by so much for these sequences from now on: a scale for each of [`Model::adapters`]. What the
    /// sequences have seen is computed anew with them when they next go on.
    ///
    /// # Errors
    /// If there are not as many scales as adapters.
    pub fn scale_adapters(&mut self, scales: &[f32]) -> Result<(), Error> {
        self.model.expect_scales(scales)?;
        if self.scales != scales {
            self.run.rescale(scales);
            self.scales.copy_from_slice(scales);
            (0..self.all.len()).try_for_each(|sequence| self.begin_anew(sequence))?;
        }
        Ok(())
    }

    /// Forgets all but the first `len` tokens of every sequence. A model with states, which cannot be taken back, computes
    /// those anew when more tokens are evaluated.
    pub fn truncate(&mut self, len: usize) {
        for Sequence { tokens, past, .. } in self.all.iter_mut().filter(|sequence| len < sequence.tokens.len()) {
            tokens.truncate(len);
            past.truncate(&self.room.plan, len);
        }
    }

    /// Has sequence `to` go on from where `from` is and forget what it had. They share memory: a page of positions is copied
    /// when one of them writes to it, so that many can answer one long prompt.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If there are no such sequences.
    pub fn fork(&mut self, from: usize, to: usize) -> Result<(), Error> {
        let sequence = self.all[from].clone();
        let positions = sequence.past.reached().max(sequence.text.len());
        self.all[to] = sequence;
        match self.run.fork(from, to, positions)? {
            true => Ok(()),
            false => self.begin_anew(to),
        }
    }

    /// Has the model's encoder read a text and forgets the sequence's tokens: those to come answer it.
    ///
    /// # Errors
    /// If the model has no encoder, the text has no tokens, too many or one outside of the vocabulary, or the device fails.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn read_text(&mut self, sequence: usize, text: &[u32]) -> Result<(), Error> {
        if !self.model.answers() {
            return Err(Error::NoEncoder { arch: self.model.architecture().to_owned() });
        }
        if text.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.admit(text.len(), text)?;
        self.all[sequence] = Sequence::default();
        self.encode(sequence, text)
    }

    /// Has a sequence's text read again, and its tokens computed anew when it next goes on.
    fn begin_anew(&mut self, sequence: usize) -> Result<(), Error> {
        self.all[sequence].past.truncate(&self.room.plan, 0);
        let text = std::mem::take(&mut self.all[sequence].text);
        match text.is_empty() {
            true => Ok(()),
            false => self.encode(sequence, &text),
        }
    }

    fn encode(&mut self, sequence: usize, text: &[u32]) -> Result<(), Error> {
        let (positions, sequences) = ((0..text.len() as u32).collect::<Vec<_>>(), vec![sequence as u32; text.len()]);
        let step = Step { tokens: text, positions: &positions, sequences: &sequences, outputs: &[], decoding: 0 };
        self.run.encode(step, None)?;
        self.all[sequence].text = text.to_vec();
        Ok(())
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
        self.has_read(sequence)?;
        self.admit(self.all[sequence].tokens.len() + tokens.len(), tokens)?;
        if !tokens.is_empty() && !self.catch_up(sequence, || proceed(0))? {
            return Ok(false);
        }
        let mut done = 0;
        for chunk in tokens.chunks(self.room.chunk) {
            if !proceed(done) {
                return Ok(false);
            }
            done += chunk.len();
            let last = [chunk.len() as u32 - 1];
            self.feed(sequence, chunk, if done == tokens.len() { &last } else { &[] })?;
            self.all[sequence].tokens.extend_from_slice(chunk);
        }
        Ok(true)
    }

    /// Computes a sequence's tokens anew that memory no longer holds; `false` if `proceed` stopped that.
    fn catch_up(&mut self, sequence: usize, mut proceed: impl FnMut() -> bool) -> Result<bool, Error> {
        loop {
            let Sequence { tokens, past, .. } = &self.all[sequence];
            let missing = &tokens[past.held()..];
            if missing.is_empty() {
                return Ok(true);
            }
            if !proceed() {
                return Ok(false);
            }
            let chunk = missing[..missing.len().min(self.room.chunk)].to_vec();
            self.feed(sequence, &chunk, &[])?;
        }
    }

    /// Puts tokens into memory after those that it holds of a sequence.
    fn feed(&mut self, sequence: usize, tokens: &[u32], outputs: &[u32]) -> Result<(), Error> {
        let first = self.all[sequence].past.held() as u32;
        let positions: Vec<u32> = (first..first + tokens.len() as u32).collect();
        let sequences = vec![sequence as u32; tokens.len()];
        let step = Step { tokens, positions: &positions, sequences: &sequences, outputs, decoding: 0 };
        self.run.step(step, &mut self.logits)?;
        self.all[sequence].past.extend(tokens.len());
        Ok(())
    }

    /// Appends a token to every sequence, in one pass, and computes the logits of all.
    ///
    /// # Errors
    /// If a sequence is full, a token is outside of the vocabulary, or the device fails.
    ///
    /// # Panics
    /// If there are not as many tokens as sequences.
    pub fn advance(&mut self, tokens: &[u32]) -> Result<(), Error> {
        assert_eq!(tokens.len(), self.all.len(), "a token for each sequence");
        self.admit(self.lengths().into_iter().max().unwrap_or(0) + 1, tokens)?;
        (0..self.all.len()).try_for_each(|sequence| self.has_read(sequence))?;
        for sequence in 0..self.all.len() {
            self.catch_up(sequence, || true)?;
        }
        let positions: Vec<u32> = self.all.iter().map(|sequence| sequence.past.held() as u32).collect();
        let numbers: Vec<u32> = (0..tokens.len() as u32).collect();
        let (decoding, sequences) = (tokens.len(), &numbers[..]);
        let step = Step { tokens, positions: &positions, sequences, outputs: &numbers, decoding };
        self.run.step(step, &mut self.logits)?;
        for (sequence, &token) in self.all.iter_mut().zip(tokens) {
            sequence.tokens.push(token);
            sequence.past.extend(1);
        }
        Ok(())
    }

    /// What the last call computed: `[sequences, V]` after [`Sequences::advance`], `[V]` after
    /// [`Sequences::evaluate`].
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Whether there is a text to answer, where the model does that.
    fn has_read(&self, sequence: usize) -> Result<(), Error> {
        match self.model.answers() && self.all[sequence].text.is_empty() {
            true => Err(Error::Answers { arch: self.model.architecture().to_owned() }),
            false => Ok(()),
        }
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
