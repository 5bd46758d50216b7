//! Several sequences that go on together, a token of each in every step: a [`Batch`] of a fixed number of them.

use crate::{Batch, Cancel, Error, Model, Outputs, Role, SequenceId, SessionOptions, Want, batch::Room, now::now};

/// Sequences of tokens in a model's memory that are decoded together.
///
/// What a sequence computes depends on its own tokens alone: its logits are those of a [`crate::Session`] that was given
/// the same tokens by the same calls.
pub struct Sequences {
    batch: Batch,
    ids: Vec<SequenceId>,
    logits: Vec<f32>,
}

impl Sequences {
    pub(crate) fn new(model: Model, count: usize, options: &SessionOptions) -> Result<Sequences, Error> {
        assert!(count > 0, "no sequences");
        let room = Room::new(&model, &options.of_batch(count))?;
        let mut batch = Batch::new(model, room, count, 0)?;
        let ids = (0..count).map(|_| batch.add()).collect::<Result<_, _>>()?;
        Ok(Sequences { batch, ids, logits: Vec::new() })
    }

    fn id(&self, sequence: usize) -> Result<SequenceId, Error> {
        self.ids.get(sequence).copied().ok_or(Error::NoSuchSequence)
    }

    /// Tokens seen so far, of each sequence.
    pub fn lengths(&self) -> Vec<usize> {
        self.ids.iter().map(|&id| self.batch.tokens(id).map_or(0, <[u32]>::len)).collect()
    }

    /// Positions that each sequence has.
    pub fn context(&self) -> usize {
        self.batch.context()
    }

    /// Sets the scales of [`Model::adapters`] for all sequences. What they have seen is computed again with them when
    /// they next go on.
    ///
    /// # Errors
    /// If there are not as many scales as adapters, or the device fails at reading a text again.
    pub fn scale_adapters(&mut self, scales: &[f32]) -> Result<(), Error> {
        now(self.scale_adapters_body(scales))
    }

    /// What [`Self::scale_adapters`] does.
    pub(crate) async fn scale_adapters_body(&mut self, scales: &[f32]) -> Result<(), Error> {
        for &id in &self.ids {
            self.batch.scale_adapters_body(id, scales).await?;
        }
        Ok(())
    }

    /// Forgets all but the first `len` tokens of every sequence. A model with states, which cannot be taken back, computes
    /// those again when more tokens are evaluated.
    ///
    /// # Errors
    /// If the device fails.
    pub fn truncate(&mut self, len: usize) -> Result<(), Error> {
        self.ids.iter().try_for_each(|&id| self.batch.truncate(id, len))
    }

    /// Has sequence `to` go on from where `from` is and forget what it had: [`Batch::fork_into`].
    ///
    /// # Errors
    /// If there are no such sequences, or the device fails.
    pub fn fork(&mut self, from: usize, to: usize) -> Result<(), Error> {
        now(self.fork_body(from, to))
    }

    /// What [`Self::fork`] does.
    pub(crate) async fn fork_body(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.batch.fork_into_body(self.id(from)?, self.id(to)?, usize::MAX).await
    }

    /// Has the model's encoder read a text and forgets the sequence's tokens: those to come answer it.
    ///
    /// # Errors
    /// If there is no such sequence, the model has no encoder, the text has no tokens, too many or one outside of the vocabulary,
    /// or the device fails.
    pub fn read_text(&mut self, sequence: usize, text: &[u32]) -> Result<(), Error> {
        now(self.read_text_body(sequence, text))
    }

    /// What [`Self::read_text`] does.
    pub(crate) async fn read_text_body(&mut self, sequence: usize, text: &[u32]) -> Result<(), Error> {
        self.batch.read_text_body(self.id(sequence)?, text, None).await
    }

    /// Appends tokens that are read to one sequence and computes the logits of the last one.
    ///
    /// # Errors
    /// If there is no such sequence, the tokens do not fit, one is outside of the vocabulary, or the device fails.
    pub fn evaluate(&mut self, sequence: usize, tokens: &[u32]) -> Result<(), Error> {
        self.evaluate_until(sequence, tokens, &Cancel::new()).map(drop)
    }

    /// [`Sequences::evaluate`], unless it is cancelled before its end: `false` leaves the sequence after what was done.
    ///
    /// # Errors
    /// As there.
    pub fn evaluate_until(&mut self, sequence: usize, tokens: &[u32], cancel: &Cancel) -> Result<bool, Error> {
        now(self.evaluate_body(sequence, tokens, cancel))
    }

    /// What [`Self::evaluate_until`] does.
    pub(crate) async fn evaluate_body(
        &mut self,
        sequence: usize,
        tokens: &[u32],
        cancel: &Cancel,
    ) -> Result<bool, Error> {
        let id = self.id(sequence)?;
        self.batch.admits(id, tokens, 0)?;
        let done = self.batch.feed(id, tokens, (Role::Prefill, Want::Logits), cancel.into()).await?;
        self.logits.clone_from(self.batch.logits());
        Ok(done)
    }

    /// Appends a token that continues the text to every sequence, in one step, and computes the logits of all.
    ///
    /// # Errors
    /// If there are not as many tokens as sequences, a sequence is full, a token is outside of the vocabulary, or the device fails.
    pub fn advance(&mut self, tokens: &[u32]) -> Result<(), Error> {
        now(self.advance_body(tokens))
    }

    /// What [`Self::advance`] does.
    pub(crate) async fn advance_body(&mut self, tokens: &[u32]) -> Result<(), Error> {
        if tokens.len() != self.ids.len() {
            return Err(Error::TokenForEach { expected: self.ids.len(), got: tokens.len() });
        }
        for (&id, token) in self.ids.iter().zip(tokens) {
            let pushed = self.batch.push(id, std::slice::from_ref(token), Role::Decode, Outputs::Last(Want::Logits));
            pushed.inspect_err(|_| self.batch.unstage())?;
        }
        self.batch.step_observed_body(None, None).await?;
        self.logits.clone_from(self.batch.logits());
        Ok(())
    }

    /// What the last call computed: `[sequences, V]` after [`Sequences::advance`], `[V]` after
    /// [`Sequences::evaluate`].
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }
}
