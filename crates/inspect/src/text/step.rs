//! A step at which a token was chosen.

use candor::sampler::Sampling;

use super::Penalised;

/// One choice: what was known before it, and what was chosen.
pub(super) struct Step<'s> {
    /// Place of the token before; its logits decide.
    pub place: usize,
    /// `[vocabulary]`.
    pub logits: &'s [f32],
    /// Every token up to `place`, the prompt's too.
    pub before: &'s [u32],
    /// Tokens of the prompt among them.
    pub prompt: usize,
    pub chosen: u32,
    pub settings: &'s Sampling,
}

impl<'s> Step<'s> {
    /// The tokens that penalties look at.
    pub fn seen(&self, penalised: Penalised) -> &'s [u32] {
        match penalised {
            Penalised::Context => self.before,
            Penalised::Continuation => &self.before[self.prompt.min(self.before.len())..],
        }
    }
}
