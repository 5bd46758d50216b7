//! Speculative decoding: something cheap guesses the next tokens, the model computes the logits of all of them in one step,
//! and the sampler chooses from these as if they had come one by one. What it chooses otherwise ends the guess.
//!
//! A guess is one token, not a distribution, so rejection sampling (Leviathan et al. 2023, Chen et al. 2023) with it is this:
//! draw from the model's own distribution, and keep the guess where that is what was drawn. So not only the distribution
//! is the same as without guesses, whatever the samplers, but with the same seed the text too, as far as the logits
//! of a token do not depend on how many are computed at once ([`crate::Model::is_batch_invariant`]).

mod lookup;
mod model;

pub use lookup::PromptLookup;
pub use model::DraftModel;
pub(crate) use model::refuse_states;

use crate::Error;

/// Something that guesses tokens. What it guesses changes the time that a text takes, never the text.
pub trait Drafter: Send {
    /// Up to `most` tokens that may follow `tokens`, all of the text so far.
    ///
    /// # Errors
    /// If its device fails.
    fn draft(&mut self, tokens: &[u32], most: usize) -> Result<Vec<u32>, Error>;
}

/// How tokens are guessed.
pub struct Speculation {
    /// What guesses them.
    pub drafter: Box<dyn Drafter>,
    /// Most tokens of a guess.
    pub most: usize,
    /// Guesses of fewer tokens are not tried.
    pub least: usize,
}

impl Speculation {
    /// llama.cpp's defaults: up to 16 tokens, and as few as one.
    pub fn new(drafter: impl Drafter + 'static) -> Speculation {
        Speculation { drafter: Box::new(drafter), most: 16, least: 0 }
    }

    /// A guess that is worth trying; perhaps none.
    pub(crate) fn draft(&mut self, tokens: &[u32], most: usize, vocab: usize) -> Result<Vec<u32>, Error> {
        let most = most.min(self.most);
        if most == 0 {
            return Ok(Vec::new());
        }
        let mut draft = self.drafter.draft(tokens, most)?;
        draft.truncate(most);
        let known = draft.iter().take_while(|&&token| (token as usize) < vocab).count();
        draft.truncate(known);
        if draft.len() < self.least {
            draft.clear();
        }
        Ok(draft)
    }
}

/// Tokens in a session's memory that follow its last one in case they are chosen, and their logits. They end its batch's
/// sequence.
#[derive(Default)]
pub(crate) struct Ahead {
    tokens: Vec<u32>,
    logits: Vec<f32>,
    /// Tokens that were chosen indeed.
    taken: usize,
}

impl Ahead {
    /// Keeps a guess: `logits` are those of the token before it, which stay there, and its own.
    pub(crate) fn keep(&mut self, tokens: Vec<u32>, logits: &mut Vec<f32>) {
        let vocab = logits.len() / (tokens.len() + 1);
        self.logits.clear();
        self.logits.extend_from_slice(&logits[vocab..]);
        logits.truncate(vocab);
        (self.tokens, self.taken) = (tokens, 0);
    }

    /// Whether the guess goes on with `token`, whose logits replace `logits` then.
    pub(crate) fn take(&mut self, token: u32, logits: &mut Vec<f32>) -> bool {
        if self.tokens.get(self.taken) != Some(&token) {
            return false;
        }
        let vocab = self.logits.len() / self.tokens.len();
        logits.clear();
        logits.extend_from_slice(&self.logits[self.taken * vocab..][..vocab]);
        self.taken += 1;
        true
    }

    /// Tokens of the guess that were not chosen so far.
    pub(crate) fn left(&self) -> usize {
        self.tokens.len() - self.taken
    }

    /// Forgets the guess; how many tokens of it were left.
    pub(crate) fn drop_rest(&mut self) -> usize {
        let left = self.left();
        (self.tokens, self.taken) = (Vec::new(), 0);
        left
    }
}
