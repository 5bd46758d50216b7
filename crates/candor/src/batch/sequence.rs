//! The sequences of a batch: how they come, go back, are forked, and leave.

use std::mem;

use candor_ops::Step;

use super::{Batch, Role};
use crate::{
    Error, Observer,
    now::now,
    past::Past,
    runner::{Computed, Doing},
};

/// A sequence of a [`Batch`]. After its removal it names none, even where another took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceId {
    slot: u32,
    /// The slot was given out so often before.
    given: u32,
}

/// What is known of a sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequence {
    /// What an encoder has read, which the tokens answer.
    pub(crate) text: Vec<u32>,
    tokens: Vec<u32>,
    /// What each of them is to the model.
    roles: Vec<Role>,
    /// Which of them are in memory.
    pub(crate) past: Past,
    /// By how much each adapter changes the model for it.
    pub(crate) scales: Vec<f32>,
    /// Where memory of its first tokens is kept, by their number, ascending.
    checkpoints: Vec<Checkpoint>,
}

/// Memory of the first tokens of a sequence, where it cannot be had by going back.
#[derive(Clone, Debug)]
struct Checkpoint {
    slot: usize,
    past: Past,
}

impl Sequence {
    /// The tokens seen so far.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// What each token is to the model.
    pub(crate) fn roles(&self) -> &[Role] {
        &self.roles
    }

    pub(super) fn append(&mut self, tokens: &[u32], role: Role) {
        self.tokens.extend_from_slice(tokens);
        self.roles.resize(self.tokens.len(), role);
    }

    /// The first tokens that memory lacks, at most `most` and all of the same role.
    pub(super) fn missing(&self, most: usize) -> (&[u32], Role) {
        let held = self.past.held();
        let role = self.roles.get(held).copied().unwrap_or_default();
        let alike = self.roles[held.min(self.roles.len())..].iter().take(most).take_while(|&&other| other == role);
        (&self.tokens[held.min(self.tokens.len())..][..alike.count()], role)
    }

    /// One without tokens.
    pub(super) fn new(scales: Vec<f32>) -> Sequence {
        Sequence { scales, ..Sequence::default() }
    }
}

impl Batch {
    /// Begins a sequence without tokens.
    ///
    /// # Errors
    /// If there are as many as there can be.
    pub fn add(&mut self) -> Result<SequenceId, Error> {
        let slot = self.slots[..self.sequences].iter().position(Option::is_none);
        let slot = slot.ok_or(Error::SequencesFull { most: self.sequences })?;
        self.slots[slot] = Some(Sequence::new(self.model.scales()));
        Ok(self.id(slot))
    }

    /// Ends a sequence; its id names none from now on.
    ///
    /// # Errors
    /// If there is no such sequence.
    pub fn remove(&mut self, id: SequenceId) -> Result<(), Error> {
        let slot = self.slot(id)?;
        self.staged.drop_slot(slot);
        self.forget_checkpoints(slot);
        self.slots[slot] = None;
        self.run.release(slot, 0);
        self.given[slot] = self.given[slot].wrapping_add(1);
        self.rows.retain(|row| row.slot != slot);
        Ok(())
    }

    /// The sequences that there are.
    pub fn ids(&self) -> impl Iterator<Item = SequenceId> {
        (0..self.sequences).filter(|&slot| self.slots[slot].is_some()).map(|slot| self.id(slot))
    }

    /// A sequence's tokens.
    ///
    /// # Errors
    /// If there is no such sequence.
    pub fn tokens(&self, id: SequenceId) -> Result<&[u32], Error> {
        Ok(self.sequence(id)?.tokens())
    }

    /// The text that a sequence answers, by its tokens; empty where the model has no encoder.
    ///
    /// # Errors
    /// If there is no such sequence.
    pub fn text(&self, id: SequenceId) -> Result<&[u32], Error> {
        Ok(&self.sequence(id)?.text)
    }

    /// How many of a sequence's tokens are computed again before it goes on: memory could not go back to where it is.
    ///
    /// # Errors
    /// If there is no such sequence.
    pub fn missing(&self, id: SequenceId) -> Result<usize, Error> {
        let sequence = self.sequence(id)?;
        Ok(sequence.tokens.len().saturating_sub(sequence.past.held()))
    }

    /// Computes what memory lacks of a sequence again, a chunk of at most [`Batch::rows`]; `false` where nothing was
    /// lacking.
    ///
    /// # Errors
    /// If there is no such sequence, or the device fails.
    pub fn catch_up_once(&mut self, id: SequenceId) -> Result<bool, Error> {
        now(self.catch_up_once_body(id))
    }

    /// What [`Self::catch_up_once`] does.
    pub(crate) async fn catch_up_once_body(&mut self, id: SequenceId) -> Result<bool, Error> {
        let slot = self.slot(id)?;
        self.catch_up(slot, None).await
    }

    /// Forgets all but the first `len` tokens of a sequence. Memory goes back where it can: in place, or to the last checkpoint
    /// before; what is lacking then is computed again when the sequence goes on.
    ///
    /// # Errors
    /// If there is no such sequence, or the device fails.
    pub fn truncate(&mut self, id: SequenceId, len: usize) -> Result<(), Error> {
        let slot = self.slot(id)?;
        self.staged.drop_slot(slot);
        let Some(sequence) = &mut self.slots[slot] else { return Err(Error::NoSuchSequence) };
        sequence.tokens.truncate(len);
        sequence.roles.truncate(len);
        self.take_back(slot, len)
    }

    /// Brings memory back to the first `len` tokens, or fewer.
    pub(crate) fn take_back(&mut self, slot: usize, len: usize) -> Result<(), Error> {
        let Some(sequence) = &mut self.slots[slot] else { return Err(Error::NoSuchSequence) };
        let kept = sequence.checkpoints.iter().take_while(|checkpoint| checkpoint.past.held() <= len).count();
        let after = sequence.checkpoints.split_off(kept);
        after.iter().for_each(|checkpoint| self.drop_checkpoint(checkpoint));
        let Some(sequence) = &mut self.slots[slot] else { return Err(Error::NoSuchSequence) };
        sequence.past.truncate(&self.room.plan, len);
        if let Some(Checkpoint { slot: kept, past }) = sequence.checkpoints.last()
            && sequence.past.held() < past.held()
        {
            let (kept, past) = (*kept, past.clone());
            if self.run.fork(kept, slot, past.reached())? {
                sequence.past = past;
            }
        }
        let held = sequence.past.held();
        self.release(slot, held);
        Ok(())
    }

    fn drop_checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.slots[checkpoint.slot] = None;
        self.run.release(checkpoint.slot, 0);
    }

    /// Keeps memory as it is after a sequence's tokens so far, so that [`Batch::truncate`] and [`Batch::fork`] can go back there.
    /// Where memory can go back anyway, nothing is kept and nothing is needed.
    ///
    /// # Errors
    /// If there is no such sequence, no room for another checkpoint, or the device fails.
    pub fn checkpoint(&mut self, id: SequenceId) -> Result<(), Error> {
        now(self.checkpoint_body(id))
    }

    /// What [`Self::checkpoint`] does.
    pub(crate) async fn checkpoint_body(&mut self, id: SequenceId) -> Result<(), Error> {
        let slot = self.slot(id)?;
        while self.catch_up(slot, None).await? {}
        let sequence = self.sequence(id)?;
        let past = sequence.past.clone();
        let is_kept = sequence.checkpoints.last().is_some_and(|last| last.past.held() == past.held());
        if past.held() == 0 || is_kept || !self.forgets() {
            return Ok(());
        }
        let free = (self.sequences..self.slots.len()).find(|&slot| self.slots[slot].is_none());
        let kept = free.ok_or(Error::CheckpointsFull { most: self.slots.len() - self.sequences })?;
        if self.run.fork(slot, kept, past.reached())? {
            self.slots[kept] = Some(Sequence::default());
            if let Some(sequence) = &mut self.slots[slot] {
                sequence.checkpoints.push(Checkpoint { slot: kept, past });
            }
        }
        Ok(())
    }

    /// The fewest tokens, besides all of them, that memory of a sequence can go back to in place once `more` are appended.
    pub(crate) fn least(&self, id: SequenceId, more: usize) -> Result<usize, Error> {
        let past = &self.sequence(id)?.past;
        Ok(self.room.plan.rollback(past.reached().max(past.held() + more)))
    }

    /// Whether layers forget what they had before: states, and windows that are kept in rings.
    pub(crate) fn forgets(&self) -> bool {
        let plan = &self.room.plan;
        (0..plan.layers.len()).any(|layer| {
            let kept = &plan.layers[layer];
            kept.states.iter().any(|&state| state > 0) || kept.kv_heads > 0 && plan.kept(layer) < plan.context
        })
    }

    /// Gives the memory of a sequence's checkpoints back.
    pub(super) fn forget_checkpoints(&mut self, slot: usize) {
        let Some(sequence) = &mut self.slots[slot] else { return };
        let checkpoints = mem::take(&mut sequence.checkpoints);
        checkpoints.iter().for_each(|checkpoint| self.drop_checkpoint(checkpoint));
    }

    /// Begins a sequence with the first `len` tokens of another, or all where it has fewer. They share memory: a page of
    /// positions is copied when one of them writes to it, so that many can answer one long prompt.
    ///
    /// # Errors
    /// If there is no such sequence, or as many as there can be, or the device fails.
    pub fn fork(&mut self, from: SequenceId, len: usize) -> Result<SequenceId, Error> {
        now(self.fork_body(from, len))
    }

    /// What [`Self::fork`] does.
    pub(crate) async fn fork_body(&mut self, from: SequenceId, len: usize) -> Result<SequenceId, Error> {
        let from = self.slot(from)?;
        let id = self.add()?;
        let to = self.slot(id)?;
        self.fork_slot(from, to, len).await?;
        Ok(id)
    }

    /// Has a sequence go on from the first `len` tokens of another and forget what it had.
    ///
    /// # Errors
    /// If there are no such sequences, or the device fails.
    pub fn fork_into(&mut self, from: SequenceId, to: SequenceId, len: usize) -> Result<(), Error> {
        now(self.fork_into_body(from, to, len))
    }

    /// What [`Self::fork_into`] does.
    pub(crate) async fn fork_into_body(&mut self, from: SequenceId, to: SequenceId, len: usize) -> Result<(), Error> {
        let (from, to) = (self.slot(from)?, self.slot(to)?);
        self.staged.drop_slot(to);
        self.fork_slot(from, to, len).await
    }

    async fn fork_slot(&mut self, from: usize, to: usize, len: usize) -> Result<(), Error> {
        if from == to {
            let Some(sequence) = &mut self.slots[to] else { return Err(Error::NoSuchSequence) };
            sequence.tokens.truncate(len);
            sequence.roles.truncate(len);
            return self.take_back(to, len);
        }
        self.forget_checkpoints(to);
        let Some(source) = &self.slots[from] else { return Err(Error::NoSuchSequence) };
        // Where memory cannot go back as far, that of a checkpoint may.
        let mut past = source.past.clone();
        past.truncate(&self.room.plan, len);
        let usable = source.checkpoints.iter().rev().find(|checkpoint| checkpoint.past.held() <= len);
        let (memory, before) = match usable {
            Some(Checkpoint { slot, past: kept }) if kept.held() > past.held() => (*slot, kept.clone()),
            _ => (from, source.past.clone()),
        };
        let mut sequence = Sequence { checkpoints: Vec::new(), past: before.clone(), ..source.clone() };
        sequence.tokens.truncate(len);
        sequence.roles.truncate(len);
        sequence.past.truncate(&self.room.plan, len);
        let positions = before.reached().max(sequence.text.len());
        let text = sequence.text.clone();
        self.slots[to] = Some(sequence);
        if self.run.fork(memory, to, positions)? {
            let held = self.held(to);
            self.release(to, held);
            return Ok(());
        }
        // The backend keeps nothing for the fork.
        if let Some(sequence) = &mut self.slots[to] {
            sequence.past.truncate(&self.room.plan, 0);
        }
        if text.is_empty() { Ok(()) } else { self.encode(to, &text, None).await }
    }

    /// Has the model's encoder read a text and forgets the sequence's tokens: those to come answer it. `observer` is shown every
    /// named value.
    ///
    /// # Errors
    /// If there is no such sequence, the model has no encoder, the text has no tokens, too many or one outside of the vocabulary,
    /// or the device fails.
    pub fn read_text(
        &mut self,
        id: SequenceId,
        text: &[u32],
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        now(self.read_text_body(id, text, observer))
    }

    /// What [`Self::read_text`] does.
    pub(crate) async fn read_text_body(
        &mut self,
        id: SequenceId,
        text: &[u32],
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        let slot = self.slot(id)?;
        if !self.model.is_encoder_decoder() {
            return Err(Error::NoEncoder { arch: self.model.architecture().to_owned() });
        }
        if text.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.fits(text)?;
        self.staged.drop_slot(slot);
        self.forget_checkpoints(slot);
        let scales = self.slots[slot].take().map_or_else(Vec::new, |sequence| sequence.scales);
        self.slots[slot] = Some(Sequence::new(scales));
        self.run.release(slot, 0);
        self.encode(slot, text, observer).await
    }

    pub(super) async fn encode(
        &mut self,
        slot: usize,
        text: &[u32],
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        self.reserve(&[(slot, 0..text.len())])?;
        self.rescale(slot);
        let (positions, sequences) = ((0..text.len() as u32).collect::<Vec<_>>(), vec![slot as u32; text.len()]);
        let step = Step { tokens: text, positions: &positions, sequences: &sequences, ..Step::default() };
        self.run.step(step, Doing::Encode, &mut Computed::default(), observer, None).await?;
        if let Some(sequence) = &mut self.slots[slot] {
            sequence.text = text.to_vec();
        }
        Ok(())
    }

    pub(super) fn id(&self, slot: usize) -> SequenceId {
        SequenceId { slot: slot as u32, given: self.given[slot] }
    }

    /// The slot of a sequence.
    pub(crate) fn slot(&self, id: SequenceId) -> Result<usize, Error> {
        let slot = id.slot as usize;
        let known = slot < self.sequences && self.given[slot] == id.given && self.slots[slot].is_some();
        if known { Ok(slot) } else { Err(Error::NoSuchSequence) }
    }

    pub(crate) fn sequence(&self, id: SequenceId) -> Result<&Sequence, Error> {
        self.slots.get(self.slot(id)?).and_then(Option::as_ref).ok_or(Error::NoSuchSequence)
    }

    /// Puts a sequence's tokens in the place of those that it had, as a file says; its memory is what was put there.
    pub(crate) fn restore(
        &mut self,
        id: SequenceId,
        (tokens, roles): (Vec<u32>, Vec<Role>),
        past: Past,
    ) -> Result<(), Error> {
        let slot = self.slot(id)?;
        self.staged.drop_slot(slot);
        self.forget_checkpoints(slot);
        let Some(sequence) = &mut self.slots[slot] else { return Err(Error::NoSuchSequence) };
        (sequence.tokens, sequence.roles, sequence.past) = (tokens, roles, past);
        sequence.text.clear();
        Ok(())
    }
}
