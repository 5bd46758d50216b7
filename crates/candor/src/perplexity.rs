//! Perplexity of a text, windowed as llama-perplexity does: the second half of each window is scored.

use crate::{Cancel, Error, Session, now::now};

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
    mut progress: impl FnMut(Perplexity, usize),
) -> Result<Perplexity, Error> {
    let window = session.context();
    if tokens.len() < 2 * window || window < 4 {
        return Err(Error::TextTooShort { tokens: tokens.len(), needed: 2 * window.max(4) });
    }
    let tokenizer = session.model().tokenizer();
    let bos = tokenizer.add_bos().then(|| tokenizer.bos()).flatten();
    let windows = tokens.len() / window;
    let mut sums = Sums::default();
    for chunk in tokens.chunks_exact(window) {
        let mut input = chunk.to_vec();
        if let Some(bos) = bos {
            input[0] = bos;
        }
        session.truncate(0);
        session.evaluate_body(&input[..window / 2], &Cancel::new()).await?;
        session
            .evaluate_each_body(&input[window / 2..window - 1], |index, logits| {
                let nll = negative_log_likelihood(logits, chunk[window / 2 + index + 1]);
                sums.nll += nll;
                sums.nll_squared += nll * nll;
                sums.tokens += 1;
            })
            .await?;
        sums.windows += 1;
        if !sums.nll.is_finite() {
            return Err(Error::NotFinite { position: sums.windows * window });
        }
        progress(sums.estimate(), windows);
    }
    Ok(sums.estimate())
}

impl Sums {
    fn estimate(&self) -> Perplexity {
        let count = self.tokens as f64;
        let mean = self.nll / count;
        let variance = (self.nll_squared / count - mean * mean).max(0.0) / (count - 1.0);
        let value = mean.exp();
        Perplexity { value, error: variance.sqrt() * value, windows: self.windows, tokens: self.tokens }
    }
}

/// `-ln softmax(logits)[token]`, in f64.
fn negative_log_likelihood(logits: &[f32], token: u32) -> f64 {
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
