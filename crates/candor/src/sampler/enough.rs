//! How many of the greatest logits decide on the next token, whatever the others are: a device that finds those need not hand
//! over the rest. The chain then runs on what it would have kept, and gives the same candidates to the bit.
//!
//! It holds as far as a chain only lowers logits before it cuts. Where it lowers those of `t` tokens and keeps the best `k`, these
//! are among the best `k + t` from before: any token beyond has `k` before it that stay as they are, and itself comes no earlier.

use candor_ops::Ranked;

use super::{Error, Sampler, SamplerKind, Sampling, bias};

impl Sampler {
    /// How many of the greatest logits decide on the next token, by [`Self::sample_best`]; `None` where it takes all of
    /// them. It changes with the tokens that were accepted: those that are penalised count.
    pub fn enough(&mut self) -> Option<usize> {
        if self.mirostat.is_some() || !bias::lowers(&self.settings.logit_bias) {
            return None;
        }
        let cold = self.is_cold();
        let Sampler { settings, penalties, dry, xtc, .. } = self;
        let mut lowered = settings.logit_bias.len();
        // What a cut to the best takes that came already; and whether anything was cut.
        let (mut enough, mut cut) = (None, false);
        for kind in &settings.samplers {
            // Every kind is named: one that is added has to say what it does.
            let touched = match kind {
                SamplerKind::Penalties if penalties.are_on() => penalties.lowered(),
                SamplerKind::Penalties => continue,
                SamplerKind::Dry => match dry {
                    Some(dry) => dry.lowered(),
                    None => continue,
                },
                SamplerKind::TopK if settings.top_k > 0 => {
                    if !cut {
                        enough = Some(lowered + settings.top_k as usize);
                    }
                    cut = true;
                    continue;
                }
                SamplerKind::TopK => continue,
                // These depend on all logits, but whatever they are, keep the best.
                SamplerKind::TopNSigma => {
                    cut |= settings.top_n_sigma > 0.0;
                    continue;
                }
                SamplerKind::TopP => {
                    cut |= settings.top_p < 1.0;
                    continue;
                }
                SamplerKind::MinP => {
                    cut |= settings.min_p > 0.0;
                    continue;
                }
                SamplerKind::Temperature if cold => return Some(lowered + 1),
                SamplerKind::Temperature => return enough,
                SamplerKind::TypicalP if settings.typical_p < 1.0 => return enough,
                SamplerKind::TypicalP => continue,
                SamplerKind::Xtc if xtc.is_on() => return enough,
                SamplerKind::Xtc => continue,
            };
            // What was kept before is changed here.
            if cut {
                return enough;
            }
            lowered += touched?;
        }
        enough
    }

    /// Whether temperature leaves nothing but the best token, and nothing takes that away.
    fn is_cold(&self) -> bool {
        let Sampling { temperature, dynatemp_range, samplers, .. } = &self.settings;
        let excludes = self.xtc.is_on() && samplers.contains(&SamplerKind::Xtc);
        *temperature <= 0.0 && *dynatemp_range <= 0.0 && !excludes
    }

    /// [`Self::sample`], given no more than the `best` logits with their tokens, the best first, of a vocabulary of
    /// `vocabulary` tokens: the same token, and the same state afterwards. There must be as many as [`Self::enough`]
    /// says, or all; and no logit of the vocabulary may be NaN.
    ///
    /// # Errors
    /// As [`Self::candidates`].
    pub fn sample_best(&mut self, best: &[Ranked], vocabulary: usize) -> Result<u32, Error> {
        self.pool.load_best(best);
        self.run(vocabulary)?;
        Ok(self.draw())
    }
}
