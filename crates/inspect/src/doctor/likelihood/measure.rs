//! How likely a model finds the tokens of a text, and whether one model finds them likelier than another.

use std::{collections::HashMap, ops::Range};

use candor::{Error, Gguf, LoadOptions, Model, SessionOptions, Windows, negative_log_likelihood};

/// What a token counts whose logits are no numbers, in nats.
pub(super) const BROKEN: f64 = 1000.0;
/// Tokens whose differences are averaged before anything is concluded from their spread: neighbours are not independent of each other.
const RUN: usize = 16;

/// A text in windows, and where its likelihood is computed.
pub(super) struct Measure<'a> {
    pub(super) load: &'a LoadOptions,
    session: SessionOptions,
    tokens: &'a [u32],
    /// Tokens of a window.
    pub(super) window: usize,
    /// How many there are.
    pub(super) windows: usize,
}

impl<'a> Measure<'a> {
    /// At most `most` windows of `window` tokens.
    ///
    /// # Errors
    /// If the text is shorter than two windows.
    pub(super) fn new(
        load: &'a LoadOptions,
        session: SessionOptions,
        tokens: &'a [u32],
        (window, most): (usize, usize),
    ) -> Result<Measure<'a>, Error> {
        if tokens.len() < 2 * window {
            return Err(Error::TextTooShort { tokens: tokens.len(), needed: 2 * window });
        }
        let windows = (tokens.len() / window).min(most.max(1));
        Ok(Measure { load, session: session.context(window), tokens, window, windows })
    }

    /// Negative log-likelihoods of the scored tokens of some windows, in nats; [`BROKEN`] where a logit is no number.
    ///
    /// # Errors
    /// If the file is no model that runs, or the device fails.
    pub(super) fn scores(&self, gguf: &Gguf, numbers: Range<usize>) -> Result<Vec<f64>, Error> {
        let model = Model::from_gguf(gguf.clone(), self.load)?;
        // What begins a text may be what is changed, so that windows are the model's own.
        let windows = Windows::new(&model, self.tokens, self.window)?;
        // A quarter is enough to know what the text is about; the more is scored, the surer is the verdict.
        let scored = self.window / 4..self.window - 1;
        let mut session = model.session(&self.session)?;
        let mut found = Vec::with_capacity(numbers.len() * scored.len());
        for number in numbers {
            let input = windows.input(number);
            session.truncate(0);
            session.evaluate(&input[..scored.start])?;
            session.evaluate_each(&input[scored.clone()], |row, logits| {
                let nats = negative_log_likelihood(logits, windows.next(number, scored.start + row));
                found.push(if nats.is_finite() { nats.min(BROKEN) } else { BROKEN });
            })?;
        }
        Ok(found)
    }
}

/// Mean of some scores.
pub(super) fn mean(scores: &[f64]) -> f64 {
    scores.iter().sum::<f64>() / scores.len().max(1) as f64
}

/// By how much one model finds a text likelier than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gain {
    /// Nats per token.
    pub(super) mean: f64,
    /// One standard error of it.
    pub(super) error: f64,
}

impl Gain {
    /// Of the scores of the same tokens.
    pub(super) fn of(before: &[f64], after: &[f64]) -> Gain {
        let differences: Vec<f64> = before.iter().zip(after).map(|(a, b)| a - b).collect();
        let runs: Vec<f64> = differences.chunks_exact(RUN).map(mean).collect();
        let (count, middle) = (runs.len() as f64, mean(&runs));
        let variance = runs.iter().map(|run| (run - middle).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        Gain { mean: mean(&differences), error: (variance / count.max(1.0)).sqrt() }
    }
}

/// Nats per token of the best predictor that knows how often each token occurs in the text, and nothing of what stands before it.
pub(super) fn entropy(tokens: &[u32]) -> f64 {
    let mut counts = HashMap::new();
    tokens.iter().for_each(|token| *counts.entry(token).or_insert(0.0) += 1.0);
    let all = tokens.len() as f64;
    counts.values().map(|count: &f64| -count / all * (count / all).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_of_known_differences() {
        let before: Vec<f64> = (0..64).map(f64::from).collect();
        let same = Gain::of(&before, &before);
        assert_eq!(same, Gain { mean: 0.0, error: 0.0 });
        let after: Vec<f64> = before.iter().map(|score| score - 0.5).collect();
        let better = Gain::of(&before, &after);
        assert!((better.mean - 0.5).abs() < 1e-12 && better.error < 1e-12, "{better:?}");
        // Runs of means 1, 0, 1, 0: a spread of 1/sqrt(3) among four.
        let after: Vec<f64> =
            before.iter().map(|x| x - f64::from(u8::from((*x as usize / RUN).is_multiple_of(2)))).collect();
        let mixed = Gain::of(&before, &after);
        assert!(
            (mixed.mean - 0.5).abs() < 1e-12 && (mixed.error - (1f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12,
            "{mixed:?}"
        );
    }

    #[test]
    fn entropy_of_known_texts() {
        assert!((entropy(&[1, 2, 3, 4]) - 4f64.ln()).abs() < 1e-12);
        assert!(entropy(&[7; 9]).abs() < 1e-12);
    }
}
