//! What is known of each token, and the figures that follow.

use serde::Serialize;

/// What two models say of each token of a text.
#[derive(Clone, Debug)]
pub struct Divergence {
    window: usize,
    tokens: Vec<Token>,
}

/// A token that followed.
#[derive(Clone, Copy, Debug)]
struct Token {
    /// Where in its window the token stands that it follows.
    place: usize,
    /// Its negative log-likelihood in the model and in the base, in nats.
    nll: f64,
    base: f64,
    /// `sum p_base ln(p_base / p)` over the vocabulary.
    divergence: f64,
    /// Whether both hold the same token likeliest.
    same: bool,
}

/// A mean, and one standard error of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// The standard error; 0 of ten values or fewer.
    pub error: f64,
}

/// How values are distributed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Their mean.
    pub mean: Estimate,
    /// The least.
    pub minimum: f64,
    /// Percentages, and what as many of the values are below.
    pub percentiles: Vec<(f64, f64)>,
    /// The greatest.
    pub maximum: f64,
}

/// Divergence at a place in the windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Place {
    /// Tokens that both models had read.
    pub read: usize,
    /// Mean divergence, in nats.
    pub divergence: f64,
}

/// All figures; probabilities are shares of 1, divergences and logarithms in nats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Tokens that were compared.
    pub tokens: usize,
    /// Perplexity of the model.
    pub perplexity: Estimate,
    /// Perplexity of the base.
    pub base_perplexity: Estimate,
    /// Correlation of the tokens' log-likelihoods.
    pub correlation: f64,
    /// Logarithm of the ratio of the perplexities.
    pub log_ratio: Estimate,
    /// The ratio itself.
    pub ratio: Estimate,
    /// Difference of the perplexities.
    pub difference: Estimate,
    /// Kullback-Leibler divergence of a token's probabilities from the base's.
    pub divergence: Spread,
    /// By how much the probability of the token that followed differs from the base's.
    pub change: Spread,
    /// Root of the mean square of that.
    pub change_rms: Estimate,
    /// How often both hold the same token likeliest.
    pub same_top: Estimate,
    /// Mean divergence by the place in a window.
    pub places: Vec<Place>,
}

/// Shares of values that [`Figures`] names.
const DIVERGENCES: [f64; 9] = [99.9, 99.0, 95.0, 90.0, 50.0, 10.0, 5.0, 1.0, 0.1];
const CHANGES: [f64; 11] = [99.9, 99.0, 95.0, 90.0, 75.0, 50.0, 25.0, 10.0, 5.0, 1.0, 0.1];

impl Divergence {
    /// Of no token yet.
    pub(super) fn new(window: usize) -> Divergence {
        Divergence { window, tokens: Vec::new() }
    }

    /// Notes what follows the token at `place` of a window: `base` is `[V]`, the logarithms of the base's probabilities, of which those
    /// up to `floor` count as impossible; `logits` is `[V]`.
    pub(super) fn add(&mut self, place: usize, next: u32, base: &[f64], floor: f64, logits: &[f32]) {
        let likely = log_softmax(logits);
        let divergence = base.iter().zip(&likely).filter(|(base, _)| **base > floor);
        let divergence = divergence.map(|(&base, &likely)| base.exp() * (base - likely)).sum();
        let next = next as usize;
        let same = greatest(base) == greatest(&likely);
        self.tokens.push(Token { place, nll: -likely[next], base: -base[next], divergence, same });
    }

    /// Whether all is finite so far.
    pub(super) fn is_finite(&self) -> bool {
        self.tokens.iter().rev().take(self.window).all(|token| (token.nll + token.base + token.divergence).is_finite())
    }

    /// Windows that were compared.
    pub fn windows(&self) -> usize {
        self.tokens.len() / (self.window - 1 - self.window / 2)
    }

    /// Mean divergence so far, in nats.
    pub fn mean(&self) -> Estimate {
        mean(&self.tokens.iter().map(|token| token.divergence).collect::<Vec<_>>())
    }

    /// All figures so far.
    pub fn figures(&self) -> Figures {
        let of = |value: fn(&Token) -> f64| -> Vec<f64> { self.tokens.iter().map(value).collect() };
        let (nll, base) = (of(|token| token.nll), of(|token| token.base));
        let changes = of(|token| (-token.nll).exp() - (-token.base).exp());
        let (log, log_base) = (mean(&nll), mean(&base));
        let covariance = covariance(&nll, &base);
        let scaled = |log: Estimate| Estimate { value: log.value.exp(), error: log.value.exp() * log.error };
        let (perplexity, base_perplexity) = (scaled(log), scaled(log_base));
        let log_ratio = difference(log, log_base, covariance);
        let squares = mean(&changes.iter().map(|change| change * change).collect::<Vec<_>>());
        let rms = squares.value.sqrt();
        let same = of(|token| f64::from(u8::from(token.same)));
        let share = same.iter().sum::<f64>() / same.len() as f64;
        Figures {
            tokens: self.tokens.len(),
            perplexity,
            base_perplexity,
            correlation: covariance / (log.error * log_base.error),
            log_ratio,
            ratio: scaled(log_ratio),
            difference: difference(perplexity, base_perplexity, perplexity.value * base_perplexity.value * covariance),
            divergence: Spread::of(of(|token| token.divergence), &DIVERGENCES),
            change: Spread::of(changes, &CHANGES),
            change_rms: Estimate { value: rms, error: if rms > 0.0 { 0.5 / rms * squares.error } else { 0.0 } },
            same_top: Estimate { value: share, error: (share * (1.0 - share) / (same.len() as f64 - 1.0)).sqrt() },
            places: self.places(),
        }
    }

    fn places(&self) -> Vec<Place> {
        let mut sums = vec![(0.0, 0u32); self.window];
        for token in &self.tokens {
            sums[token.place].0 += token.divergence;
            sums[token.place].1 += 1;
        }
        let place = |(place, (sum, count)): (usize, (f64, u32))| {
            (count > 0).then(|| Place { read: place + 1, divergence: sum / f64::from(count) })
        };
        sums.into_iter().enumerate().filter_map(place).collect()
    }
}

impl Spread {
    fn of(mut values: Vec<f64>, shares: &[f64]) -> Spread {
        let mean = mean(&values);
        values.sort_by(f64::total_cmp);
        let (minimum, maximum) = (values[0], values[values.len() - 1]);
        let percentiles = shares.iter().map(|&share| (share, percentile(&values, share))).collect();
        Spread { mean, minimum, percentiles, maximum }
    }
}

/// Logarithms of the probabilities that logits make.
pub(super) fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let greatest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - greatest).exp()).sum();
    let whole = greatest + sum.ln();
    logits.iter().map(|&logit| f64::from(logit) - whole).collect()
}

/// The first of the greatest.
fn greatest(values: &[f64]) -> usize {
    let better = |best: usize, at: usize| if values[at] > values[best] { at } else { best };
    (0..values.len()).fold(0, better)
}

fn mean(values: &[f64]) -> Estimate {
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| value * value).sum::<f64>() / count - value * value;
    let error = if variance > 0.0 && values.len() > 10 { (variance / (count - 1.0)).sqrt() } else { 0.0 };
    Estimate { value, error }
}

/// Of the means of two quantities; 0 of fewer than ten values.
fn covariance(a: &[f64], b: &[f64]) -> f64 {
    let count = a.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let products = a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / count;
    if a.len() < 10 { 0.0 } else { (products - mean(a) * mean(b)) / (count - 1.0) }
}

fn difference(a: Estimate, b: Estimate, covariance: f64) -> Estimate {
    let variance = a.error * a.error + b.error * b.error - 2.0 * covariance;
    Estimate { value: a.value - b.value, error: variance.max(0.0).sqrt() }
}

/// What `share` percent of sorted values are below.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = share / 100.0 * (sorted.len() - 1) as f64;
    let (low, part) = (at as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    (1.0 - part) * sorted[low] + part * sorted[high]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_models_do_not_diverge() {
        let logits = [1.0, -2.0, 0.5, 3.0];
        let mut found = Divergence::new(8);
        for place in [4, 5, 6, 4, 5, 6] {
            found.add(place, 1, &log_softmax(&logits), f64::NEG_INFINITY, &logits);
        }
        let figures = found.figures();
        assert_eq!((found.windows(), figures.tokens, figures.places.len()), (2, 6, 3));
        assert_eq!((figures.divergence.maximum, figures.ratio.value, figures.same_top.value), (0.0, 1.0, 1.0));
    }

    #[test]
    fn the_divergence_of_known_probabilities() {
        // Halves against a quarter and three quarters: ln 2 - ln 3 / 2.
        let mut found = Divergence::new(4);
        found.add(2, 0, &log_softmax(&[0.0, 0.0]), f64::NEG_INFINITY, &[0.0, 3f32.ln()]);
        let figures = found.figures();
        assert!((figures.divergence.mean.value - (2f64.ln() - 3f64.ln() / 2.0)).abs() < 1e-7, "{figures:?}");
        assert!((figures.change.mean.value + 0.25).abs() < 1e-7, "{figures:?}");
        assert_eq!(figures.same_top.value, 0.0);
    }
}
