//! Guesses of a smaller model with the same vocabulary: its likeliest tokens, as long as it is sure enough of them.

use super::Drafter;
use crate::{Error, Model, Session};

/// Token ids by which the sizes of two vocabularies may differ: padding. llama.cpp allows as many.
const PADDING: usize = 128;

/// A model that guesses.
pub struct DraftModel {
    session: Session,
    /// Tokens that both know.
    vocab: usize,
    least_probability: f32,
}

impl DraftModel {
    /// The session's model guesses for `target`; a token that it thinks less likely than `least_probability` (of all
    /// tokens) ends a guess. llama.cpp's default is 0.75.
    ///
    /// # Errors
    /// If the vocabularies are not the same, or the model keeps states, which each guess would compute from the beginning.
    pub fn new(session: Session, target: &Model, least_probability: f32) -> Result<DraftModel, Error> {
        let draft = session.model();
        refuse_states(draft)?;
        draft.refuse_answers("a draft model")?;
        let sizes = [target.tokenizer().vocab_size(), draft.tokenizer().vocab_size()];
        if sizes[0].abs_diff(sizes[1]) > PADDING {
            return Err(Error::DraftVocabularySize { target: sizes[0], draft: sizes[1] });
        }
        let vocab = sizes[0].min(sizes[1]);
        for id in 0..vocab as u32 {
            let [expected, got] = [target, draft].map(|model| model.tokenizer().token(id).unwrap_or_default());
            if expected != got {
                return Err(Error::DraftVocabulary { id, target: expected.to_owned(), draft: got.to_owned() });
            }
        }
        Ok(DraftModel { session, vocab, least_probability })
    }
}

impl Drafter for DraftModel {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Result<Vec<u32>, Error> {
        let DraftModel { session, vocab, least_probability } = self;
        let mut drafts = Vec::new();
        // The last token of a guess need not be read.
        let most = most.min((session.context() + 1).saturating_sub(tokens.len()));
        if most == 0 || tokens.iter().any(|&token| token as usize >= *vocab) {
            return Ok(drafts);
        }
        let common = session.tokens().iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let common = common.min(tokens.len() - 1);
        session.truncate(common);
        session.evaluate(&tokens[common..])?;
        while let Some((token, _)) = likeliest(&session.logits()[..*vocab]).filter(|(_, p)| *p >= *least_probability) {
            drafts.push(token);
            if drafts.len() == most {
                break;
            }
            session.decode(token)?;
        }
        Ok(drafts)
    }
}

/// The token of the greatest logit and its probability; `None` where that is no number.
fn likeliest(logits: &[f32]) -> Option<(u32, f32)> {
    let best = (0..logits.len()).reduce(|best, i| if logits[i] > logits[best] { i } else { best })?;
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - logits[best]).exp()).sum();
    let p = (1.0 / sum) as f32;
    p.is_finite().then_some((best as u32, p))
}

/// Guesses are taken back, and states cannot be.
pub(crate) fn refuse_states(model: &Model) -> Result<(), Error> {
    if !model.config().is_recurrent() {
        return Ok(());
    }
    let architecture = model.gguf().metadata().str("general.architecture")?.unwrap_or_default().to_owned();
    Err(Error::SpeculationOnStates { architecture })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_and_how_likely() {
        assert_eq!(likeliest(&[0.0, 0.0]), Some((0, 0.5)));
        let (token, p) = likeliest(&[0.0, 3f32.ln(), -1e30]).unwrap();
        assert!(token == 1 && (p - 0.75).abs() < 1e-6, "{token} {p}");
        assert_eq!(likeliest(&[f32::NAN, 1.0]), None);
        assert_eq!(likeliest(&[]), None);
    }
}
