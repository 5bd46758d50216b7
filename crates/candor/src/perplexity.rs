//! Perplexity of a text, windowed as llama-perplexity does: the second half of each window is scored.

use std::ops::Range;

use crate::{Cancel, Error, Model, Session, now::now};

/// How well a model predicts a text.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Perplexity {
    /// `exp` of the mean negative log-likelihood.
    pub value: f64,
    /// One standard error of it.
    pub error: f64,
    /// Windows scored.
    pub windows: usize,
    /// Tokens scored.
    pub tokens: usize,
}

/// Running sums over scored tokens.
#[derive(Default)]
struct Sums {
    nll: f64,
    nll_squared: f64,
    tokens: usize,
    windows: usize,
}

/// A text in windows of which the second half is scored, as llama-perplexity has it.
#[derive(Clone, Debug)]
pub struct Windows<'a> {
    tokens: &'a [u32],
    window: usize,
    bos: Option<u32>,
}

impl<'a> Windows<'a> {
    /// A text in windows of `window` tokens, for a model's vocabulary.
    ///
    /// # Errors
    /// If the text is shorter than two windows.
    pub fn new(model: &Model, tokens: &'a [u32], window: usize) -> Result<Windows<'a>, Error> {
        if tokens.len() < 2 * window || window < 4 {
            return Err(Error::TextTooShort { tokens: tokens.len(), needed: 2 * window.max(4) });
        }
        let tokenizer = model.tokenizer();
        let bos = tokenizer.add_bos().then(|| tokenizer.bos()).flatten();
        Ok(Windows { tokens: &tokens[..tokens.len() / window * window], window, bos })
    }

    /// The first `most` of them.
    #[must_use]
    pub fn first(self, most: usize) -> Windows<'a> {
        let most = most.max(1).saturating_mul(self.window).min(self.tokens.len());
        Windows { tokens: &self.tokens[..most], ..self }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.tokens.len() / self.window
    }

    /// Tokens of one.
    pub fn window(&self) -> usize {
        self.window
    }

    /// The tokens of all.
    pub fn tokens(&self) -> &'a [u32] {
        self.tokens
    }

    /// Where in a window the tokens stand whose logits are scored by the token that follows.
    pub fn scored(&self) -> Range<usize> {
        self.window / 2..self.window - 1
    }

    /// What a model reads of window `number`: where the vocabulary adds a BOS, it is the first token.
    pub fn input(&self, number: usize) -> Vec<u32> {
        let mut input = self.tokens[number * self.window..][..self.window].to_vec();
        if let Some(bos) = self.bos {
            input[0] = bos;
        }
        input
    }

    /// The token that follows place `at` of window `number`.
    pub fn next(&self, number: usize, at: usize) -> u32 {
        self.tokens[number * self.window + at + 1]
    }
}

/// Scores `tokens` in windows of the session's context, the first token of each replaced by BOS where the vocabulary
/// adds one. `progress` sees the estimate after every window and the number of windows in all.
///
/// # Errors
/// If the text is shorter than two windows.
pub fn perplexity(
    session: &mut Session,
    tokens: &[u32],
    progress: impl FnMut(Perplexity, usize),
) -> Result<Perplexity, Error> {
    now(perplexity_body(session, tokens, progress))
}

/// What [`perplexity`] does.
pub(crate) async fn perplexity_body(
    session: &mut Session,
    tokens: &[u32],
    progress: impl FnMut(Perplexity, usize),
) -> Result<Perplexity, Error> {
    let windows = Windows::new(session.model(), tokens, session.context())?;
    score_body(session, &windows, |_, _| (), progress).await
}

/// As [`perplexity`], of windows that fit the session's context. `each` sees the logits of every token that is scored, and the
/// token that follows.
///
/// # Errors
/// If the windows do not fit, or logits are no numbers.
pub fn score(
    session: &mut Session,
    windows: &Windows<'_>,
    each: impl FnMut(&[f32], u32),
    progress: impl FnMut(Perplexity, usize),
) -> Result<Perplexity, Error> {
    now(score_body(session, windows, each, progress))
}

async fn score_body(
    session: &mut Session,
    windows: &Windows<'_>,
    mut each: impl FnMut(&[f32], u32),
    mut progress: impl FnMut(Perplexity, usize),
) -> Result<Perplexity, Error> {
    let (scored, mut sums) = (windows.scored(), Sums::default());
    for number in 0..windows.count() {
        let input = windows.input(number);
        session.truncate(0);
        session.evaluate_body(&input[..scored.start], &Cancel::new()).await?;
        session
            .evaluate_each_body(&input[scored.clone()], |index, logits| {
                let next = windows.next(number, scored.start + index);
                each(logits, next);
                sums.add(negative_log_likelihood(logits, next));
            })
            .await?;
        sums.windows += 1;
        if !sums.nll.is_finite() {
            return Err(Error::NotFinite { position: sums.windows * windows.window() });
        }
        progress(sums.estimate(), windows.count());
    }
    Ok(sums.estimate())
}

impl Sums {
    fn add(&mut self, nll: f64) {
        self.nll += nll;
        self.nll_squared += nll * nll;
        self.tokens += 1;
    }

    fn estimate(&self) -> Perplexity {
        let count = self.tokens as f64;
        let mean = self.nll / count;
        let variance = (self.nll_squared / count - mean * mean).max(0.0) / (count - 1.0);
        let value = mean.exp();
        Perplexity { value, error: variance.sqrt() * value, windows: self.windows, tokens: self.tokens }
    }
}

/// `-ln softmax(logits)[token]` in nats, in f64.
pub fn negative_log_likelihood(logits: &[f32], token: u32) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - max).exp()).sum();
    sum.ln() + max - f64::from(logits[token as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likelihood_of_known_logits() {
        let even = negative_log_likelihood(&[3.0; 4], 2);
        assert!((even - 4f64.ln()).abs() < 1e-12, "{even}");
        let sure = negative_log_likelihood(&[0.0, 1000.0], 1);
        assert!(sure.abs() < 1e-12, "{sure}");
    }
}
