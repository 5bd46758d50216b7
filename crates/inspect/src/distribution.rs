//! What a row of logits looks like: how much it says of the next token, and whether a working model can give it.
//!
//! The verdict needs no second engine. It finds what ruins a whole row; a wrong row can look healthy.

use serde::Serialize;

/// The share of the vocabulary that its last ids must be for equal logits of theirs to be a fault. Fewer are padding, to a
/// multiple of 512 at most, or tokens kept for later: 2.4 % of Gemma 3's. Elsewhere equal logits are no fault: rows of
/// tokens that hardly occur are rounded to zeros, 32 % of all in stories260K's Q4_0.
const TAIL: f64 = 0.05;

/// How many bits a row must say of the next token. Frequencies of tokens alone say several, and the models of the fixtures
/// never less than 2.3 of 9; logits that are independent and normal with a deviation of 1 say `0.5 / ln 2` = 0.72.
const LEAST_BITS: f64 = 1.0;

/// `exp(-x)` of more is 0 in 32-bit floats: `-ln(2^-150)`, half of the smallest number. The models of the fixtures have at
/// most 37 between the greatest logit and the median.
const VANISHED: f64 = 103.972;

/// A row of logits in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// Entropy of the probabilities, in bits; NaN if a logit is.
    pub entropy: f64,
    /// The most it can be: the logarithm to base 2 of the vocabulary's size.
    pub most: f64,
    /// Whether a working model can give this.
    pub verdict: Verdict,
}

/// Whether a working model can give a row of logits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// It can.
    Healthy,
    /// Some logits are no numbers.
    Nan {
        /// How many.
        count: usize,
    },
    /// Some logits are infinite: sums overflowed.
    Infinite {
        /// How many.
        count: usize,
    },
    /// The last ids all have exactly one value: rows that were never loaded, or never computed.
    Tail {
        /// The value.
        value: f32,
        /// The first of these ids.
        from: usize,
    },
    /// All tokens are about as likely: next to nothing of the text arrived.
    Flat,
    /// Half of the tokens are so unlikely that no 32-bit float holds their probability: sizes got out of hand.
    Exploded,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_healthy(&self) -> bool {
        *self == Verdict::Healthy
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Healthy => f.write_str("healthy"),
            Verdict::Nan { count: 1 } => f.write_str("a logit is NaN"),
            Verdict::Nan { count } => write!(f, "{count} logits are NaN"),
            Verdict::Infinite { count: 1 } => f.write_str("a logit is infinite"),
            Verdict::Infinite { count } => write!(f, "{count} logits are infinite"),
            Verdict::Tail { value, from } => write!(f, "all logits from id {from} on are {value}"),
            Verdict::Flat => f.write_str("flat: all tokens are about as likely"),
            Verdict::Exploded => f.write_str("exploded: half of the tokens have no probability that a float can hold"),
        }
    }
}

/// Describes a row of logits.
pub fn distribution(logits: &[f32]) -> Distribution {
    let most = (logits.len().max(1) as f64).log2();
    let entropy = entropy(logits);
    Distribution { entropy, most, verdict: verdict(logits, most - entropy) }
}

/// The verdict on logits that say `bits` of the next token.
fn verdict(logits: &[f32], bits: f64) -> Verdict {
    let count = |what: fn(&f32) -> bool| logits.iter().filter(|x| what(x)).count();
    match (count(|x| x.is_nan()), count(|x| x.is_infinite())) {
        (0, 0) => {}
        (0, count) => return Verdict::Infinite { count },
        (count, _) => return Verdict::Nan { count },
    }
    let value = logits.last().copied().unwrap_or_default();
    let tail = logits.iter().rev().take_while(|x| **x == value).count();
    // Two logits can be equal by chance, whatever their number.
    if tail > 2 && tail as f64 >= TAIL * logits.len() as f64 {
        // A zero is one, whatever its sign.
        return Verdict::Tail { value: value + 0.0, from: logits.len() - tail };
    }
    let mut sorted = logits.to_vec();
    sorted.sort_by(f32::total_cmp);
    // A handful of tokens has hardly more bits to say than a flat row of many has.
    let (Some(largest), Some(median)) = (sorted.last(), sorted.get(sorted.len() / 2)) else { return Verdict::Healthy };
    match f64::from(*largest) - f64::from(*median) {
        below if below > VANISHED => Verdict::Exploded,
        _ if logits.len() > 8 && bits < LEAST_BITS => Verdict::Flat,
        _ => Verdict::Healthy,
    }
}

/// Entropy of the probabilities, in bits.
pub fn entropy(logits: &[f32]) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = || logits.iter().map(|&logit| f64::from(logit) - f64::from(largest));
    let sum: f64 = shifted().map(f64::exp).sum();
    // Of what is impossible nothing is added, though its logarithm is infinite.
    let terms = shifted().filter(|x| *x > f64::NEG_INFINITY).map(|x| x.exp() * x);
    let nats = sum.ln() - terms.sum::<f64>() / sum;
    // Rounding may leave less than nothing; NaN stays.
    if nats < 0.0 { 0.0 } else { nats / std::f64::consts::LN_2 }
}

/// The place of a token among all, 1 for the likeliest; of equal ones the lower id is first, and NaN is last.
pub fn rank(logits: &[f32], id: u32) -> usize {
    let key = |x: f32| if x.is_nan() { f32::NEG_INFINITY } else { x };
    let own = key(logits[id as usize]);
    let before = |(other, x): (usize, &f32)| key(*x) > own || (key(*x) == own && other < id as usize);
    1 + logits.iter().enumerate().filter(|&other| before(other)).count()
}

/// The logarithm of the sum of all exponentials: a logit less this is the logarithm of its probability.
pub fn log_sum(logits: &[f32]) -> f64 {
    let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    largest + logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum::<f64>().ln()
}

/// The probabilities of some tokens.
pub fn probabilities(logits: &[f32], ids: &[u32]) -> Vec<f64> {
    let sum = log_sum(logits);
    ids.iter().map(|&id| (f64::from(logits[id as usize]) - sum).exp()).collect()
}

#[cfg(test)]
mod tests {
    use candor_testing::Random;

    use super::*;

    /// Independent normal numbers of a deviation, as sums of uniform ones.
    fn normal(count: usize, deviation: f32) -> Vec<f32> {
        let mut random = Random(7);
        (0..count).map(|_| deviation / 2.0 * (0..12).map(|_| random.signed()).sum::<f32>()).collect()
    }

    #[test]
    fn each_verdict_begins_where_its_limit_is() {
        let healthy = normal(1000, 2.5);
        let verdict = |logits: &[f32]| distribution(logits).verdict;
        let with = |value: f32, count: usize| [&healthy[count..], &vec![value; count][..]].concat();
        assert_eq!(verdict(&healthy), Verdict::Healthy);
        assert_eq!(verdict(&with(f32::NAN, 3)), Verdict::Nan { count: 3 });
        assert_eq!(verdict(&with(f32::NEG_INFINITY, 1)), Verdict::Infinite { count: 1 });
        // A padded vocabulary, and one of which the end was never loaded.
        assert_eq!(verdict(&with(0.0, 49)), Verdict::Healthy);
        assert_eq!(verdict(&with(0.0, 50)), Verdict::Tail { value: 0.0, from: 950 });
        assert_eq!(verdict(&vec![0.0; 1000]), Verdict::Tail { value: 0.0, from: 0 });
        // Rows of bytes, which a text hardly has.
        let scattered: Vec<f32> = healthy.iter().enumerate().map(|(i, x)| if i % 3 == 0 { 0.0 } else { *x }).collect();
        assert_eq!(verdict(&scattered), Verdict::Healthy);
        // A deviation of 1 says 0.72 bits, one of 1.25 says 1.13.
        assert_eq!(
            [1.0, 1.25].map(|deviation| verdict(&normal(100_000, deviation))),
            [Verdict::Flat, Verdict::Healthy]
        );
        let certain = |below: f32| [vec![0.0], normal(999, 0.5).iter().map(|x| x - below).collect()].concat();
        assert_eq!([102.0, 106.0].map(|below| verdict(&certain(below))), [Verdict::Healthy, Verdict::Exploded]);
        // Sizes alone say nothing: the same distribution far from zero.
        assert_eq!(verdict(&healthy.iter().map(|x| x - 500.0).collect::<Vec<_>>()), Verdict::Healthy);
        assert_eq!([verdict(&[]), verdict(&[1.0]), verdict(&[1.0, 9.0])], [const { Verdict::Healthy }; 3]);
    }

    #[test]
    fn entropies_are_in_bits() {
        let near = |logits: &[f32], expected: f64| assert!((entropy(logits) - expected).abs() < 1e-9, "{logits:?}");
        near(&[3.0; 8], 3.0);
        near(&[1000.0, 0.0], 0.0);
        near(&[0.5, f32::NEG_INFINITY, 0.5], 1.0);
        // 1/2, 1/4, 1/4.
        near(&[2f32.ln(), 0.0, 0.0], 1.5);
        assert!(entropy(&[f32::NAN, 1.0]).is_nan());
    }

    #[test]
    fn places_are_those_of_the_table() {
        let logits = [1.0, f32::NAN, 3.0, 1.0, f32::INFINITY];
        assert_eq!([0, 1, 2, 3, 4].map(|id| rank(&logits, id)), [3, 5, 2, 4, 1]);
    }

    #[test]
    fn probabilities_add_up_and_large_logits_do_not_overflow() {
        let logits = [1000.0, 999.0, 1000.0, f32::NEG_INFINITY];
        let all = probabilities(&logits, &[0, 1, 2, 3]);
        assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((all[1] / all[0] - (-1.0f64).exp()).abs() < 1e-12);
        assert_eq!((all[0], all[3]), (all[2], 0.0));
        assert!((log_sum(&logits) - (1000.0 + (2.0 + (-1f64).exp()).ln())).abs() < 1e-9);
    }
}
