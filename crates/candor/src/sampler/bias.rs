//! Logit bias: a number added to chosen tokens' logits before all else, and its serialised form.

use super::{Error, pool::Pool};

/// Adds the biases; several for one token add up. The vocabulary has `tokens` tokens.
pub(super) fn apply(pool: &mut Pool, biases: &[(u32, f32)], tokens: usize) -> Result<(), Error> {
    for &(id, bias) in biases {
        if id as usize >= tokens {
            return Err(Error::BiasOutside { id, tokens });
        }
        // A token may be missing where only the best were loaded.
        let Some(candidate) = pool.by_id(id) else { continue };
        let sum = candidate.logit + bias;
        // Infinities of both signs: excluded is excluded.
        candidate.logit = if sum.is_nan() { f32::NEG_INFINITY } else { sum.min(f32::MAX) };
    }
    Ok(())
}

/// Whether no bias raises a logit; zero would raise minus zero.
pub(super) fn lowers(biases: &[(u32, f32)]) -> bool {
    biases.iter().all(|(_, bias)| bias.is_sign_negative())
}

/// Serialised, minus infinity is `false`, which JSON can say; llama.cpp's server has the same convention.
pub(super) mod text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Bias {
        Number(f32),
        Allowed(bool),
    }

    pub fn serialize<S: Serializer>(biases: &[(u32, f32)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(biases.iter().map(|&(id, bias)| {
            let excluded = bias == f32::NEG_INFINITY;
            (id, if excluded { Bias::Allowed(false) } else { Bias::Number(bias) })
        }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(u32, f32)>, D::Error> {
        let biases = Vec::<(u32, Bias)>::deserialize(deserializer)?;
        let number = |(id, bias)| match bias {
            Bias::Number(bias) => Ok((id, bias)),
            Bias::Allowed(false) => Ok((id, f32::NEG_INFINITY)),
            Bias::Allowed(true) => Err(D::Error::custom("logit bias: expected a number or false, got true")),
        };
        biases.into_iter().map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{Sampler, Sampling};

    #[test]
    fn a_bias_of_minus_infinity_excludes() {
        let logits = [5.0, 4.0, 3.0];
        let sampler = |settings| Sampler::new(&settings, 512, None).unwrap();
        let biased = |logit_bias: &[(u32, f32)]| Sampling::greedy().logit_bias(logit_bias.to_vec());
        assert_eq!(sampler(biased(&[])).sample(&logits), Ok(0));
        assert_eq!(sampler(biased(&[(0, f32::NEG_INFINITY)])).sample(&logits), Ok(1));
        assert_eq!(sampler(biased(&[(2, 1.5), (2, 1.0)])).sample(&logits), Ok(2));
        assert_eq!(sampler(biased(&[(2, f32::INFINITY)])).sample(&logits), Ok(2));
        assert_eq!(sampler(biased(&[(2, f32::INFINITY), (2, f32::NEG_INFINITY)])).sample(&logits), Ok(0));
        let all = [0, 1, 2].map(|id| (id, f32::NEG_INFINITY));
        assert_eq!(sampler(biased(&all)).sample(&logits), Err(Error::NothingLeft { logits: 3 }));
        assert_eq!(sampler(biased(&[(3, 1.0)])).sample(&logits), Err(Error::BiasOutside { id: 3, tokens: 3 }));
        // Nor is an excluded token drawn where nothing else cuts.
        let mut open = sampler(biased(&[(0, f32::NEG_INFINITY)]).samplers(vec![]).seed(1));
        assert!((0..1000).all(|_| open.sample(&logits) != Ok(0)));
    }
}
