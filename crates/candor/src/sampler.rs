//! Sampling: logits in, one token out, with llama.cpp's samplers, names, order and defaults.
//!
//! A [`Sampler`] is the chain of one sequence: the settings, the windows of tokens seen, the random number generators
//! and the buffers. The reference is llama.cpp at commit 0c1e57098 (the one inside llama-cpp-python 0.3.36); what each
//! sampler keeps and the probabilities are tested against it. All arithmetic is ours or libm's and the generator is
//! MT19937, so the same seed gives the same tokens on every platform, and mostly llama.cpp's own (see
//! [`Sampler::sample`]).
//!
//! [`Sample`] and [`LogitsProcessor`] are for samplers, masks and grammars of others. The chain is not a grammar and knows no model; it sees token texts only to find DRY's sequence breakers.

mod bias;
mod breakers;
mod dry;
mod enough;
mod error;
mod exp;
mod kind;
mod mirostat;
mod own;
mod penalties;
mod pool;
mod random;
mod settings;
mod sigma;
mod temperature;
mod top;
mod typical;
mod xtc;

pub use breakers::Vocabulary;
pub use error::Error;
pub use kind::SamplerKind;
pub use own::{LogitsProcessor, OwnProcessor, OwnSampler, Sample};
pub use pool::Candidate;
pub use settings::Sampling;

use breakers::Breakers;
use dry::Dry;
use mirostat::Mirostat;
use penalties::Penalties;
use pool::Pool;
use random::Mt19937;
use typical::Typical;
use xtc::Xtc;

/// The sampling chain of one sequence. Buffers are kept between tokens; a clone goes on from the same state.
#[derive(Clone, Debug)]
pub struct Sampler {
    settings: Sampling,
    seed: u32,
    random: Mt19937,
    pool: Pool,
    penalties: Penalties,
    dry: Option<Dry>,
    typical: Typical,
    xtc: Xtc,
    mirostat: Option<Mirostat>,
    /// Tokens that were accepted.
    accepted: usize,
    /// The pool holds candidates of which none was accepted yet.
    open: bool,
}

impl Sampler {
    /// Makes the chain. `context` is the number of tokens that a window of -1 stands for; `vocabulary` is needed where
    /// DRY is on and has sequence breakers, and read only then (once per token: tens of milliseconds for 128k tokens).
    ///
    /// # Errors
    /// [`Error::Setting`] for a value out of range, [`Error::NoVocabulary`] where DRY needs one.
    pub fn new(settings: &Sampling, context: usize, vocabulary: Option<&Vocabulary<'_>>) -> Result<Self, Error> {
        settings.validate()?;
        let dry = if settings.mirostat == 0 && settings.samplers.contains(&SamplerKind::Dry) && Dry::is_on(settings) {
            Some(Dry::new(settings, context, Breakers::find(&settings.dry_sequence_breakers, vocabulary)?))
        } else {
            None
        };
        let seed = settings.seed.filter(|&seed| seed != u32::MAX).unwrap_or_else(random::entropy);
        Ok(Self {
            seed,
            random: Mt19937::new(seed),
            pool: Pool::default(),
            penalties: Penalties::new(settings, context),
            dry,
            typical: Typical::default(),
            xtc: Xtc::new(settings, seed),
            mirostat: Mirostat::new(settings),
            settings: settings.clone(),
            accepted: 0,
            open: false,
        })
    }

    /// The seed in use: the one of the settings, or the one that was drawn for a random start.
    pub fn seed(&self) -> u32 {
        self.seed
    }

    /// Takes note of a token of the prompt or of the continuation, from any source: it enters the windows of the
    /// penalties and of DRY. After [`Self::candidates`] or [`Self::sample`] the first accepted token also moves
    /// mirostat's target, if it is one of the candidates.
    pub fn accept(&mut self, id: u32) {
        self.accepted += 1;
        self.penalties.accept(id);
        if let Some(dry) = &mut self.dry {
            dry.accept(id);
        }
        if std::mem::take(&mut self.open)
            && let Some(mirostat) = &mut self.mirostat
            && let Some(chosen) = self.pool.items().iter().find(|candidate| candidate.id == id)
        {
            mirostat.observe(chosen.p);
        }
    }

    /// Runs the chain over `logits` (`[vocabulary]`, one per id): the tokens that may follow and their probabilities,
    /// in the order in which the chain left them. With XTC on each call uses up a random number.
    ///
    /// NaN counts as minus infinity, plus infinity as the largest number.
    ///
    /// # Errors
    /// [`Error::NothingLeft`] if no token is left, [`Error::BiasOutside`] if a logit bias names no token.
    pub fn candidates(&mut self, logits: &[f32]) -> Result<&[Candidate], Error> {
        self.pool.load(logits);
        self.run(logits.len())
    }

    /// Runs the chain over what was loaded of a vocabulary of that size.
    fn run(&mut self, vocabulary: usize) -> Result<&[Candidate], Error> {
        self.open = false;
        bias::apply(&mut self.pool, &self.settings.logit_bias, vocabulary)?;
        if let Some(mirostat) = &self.mirostat {
            temperature::scale(&mut self.pool, self.settings.temperature);
            mirostat.truncate(&mut self.pool);
        } else {
            self.chain();
        }
        self.pool.drop_masked();
        if self.pool.items().is_empty() {
            return Err(Error::NothingLeft { logits: vocabulary });
        }
        self.pool.softmax();
        self.open = true;
        Ok(self.pool.items())
    }

    fn chain(&mut self) {
        let (pool, settings) = (&mut self.pool, &self.settings);
        for kind in &settings.samplers {
            match kind {
                SamplerKind::Penalties => self.penalties.apply(pool),
                SamplerKind::Dry => {
                    if let Some(dry) = &mut self.dry {
                        dry.apply(pool);
                    }
                }
                SamplerKind::TopNSigma => sigma::top_n_sigma(pool, settings.top_n_sigma),
                SamplerKind::TopK => top::top_k(pool, settings.top_k),
                SamplerKind::TypicalP => self.typical.apply(pool, settings.typical_p, settings.min_keep),
                SamplerKind::TopP => top::top_p(pool, settings.top_p, settings.min_keep),
                SamplerKind::MinP => top::min_p(pool, settings.min_p, settings.min_keep),
                SamplerKind::Xtc => self.xtc.apply(pool),
                SamplerKind::Temperature => temperature::dynamic(pool, settings),
            }
        }
    }

    /// Runs the chain over `logits` and draws one of the candidates, which stay readable with
    /// [`Self::last_candidates`]. The token is not accepted: that is the caller's next call.
    ///
    /// The generator and the conversion of its numbers are those of llama.cpp built with GNU's libstdc++. Where the
    /// chain sorts the candidates (the default one does, through top-k; so does mirostat), the same seed and the same
    /// logits draw the same token as there.
    ///
    /// # Errors
    /// As [`Self::candidates`].
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, Error> {
        self.candidates(logits)?;
        Ok(self.draw())
    }

    /// One of the candidates, of which there must be any.
    fn draw(&mut self) -> u32 {
        let items = self.pool.items();
        // C++'s discrete_distribution, which mirostat uses there, draws nothing where there is no choice.
        if self.mirostat.is_some() && items.len() == 1 {
            return items[0].id;
        }
        let sum: f64 = items.iter().map(|candidate| f64::from(candidate.p)).sum();
        let target = self.random.uniform() * sum;
        let mut reached = 0.0;
        let chosen = items.iter().find(|candidate| {
            reached += f64::from(candidate.p);
            reached > target
        });
        // `target` is below `sum`, which was added up in this order: the fallback is for a sum of 0.
        chosen.unwrap_or(&items[0]).id
    }

    /// The candidates of the last [`Self::candidates`] or [`Self::sample`]; empty before the first.
    pub fn last_candidates(&self) -> &[Candidate] {
        self.pool.items()
    }

    /// Back to the start, with the same seed: no token seen, no number drawn.
    pub fn reset(&mut self) {
        self.random = Mt19937::new(self.seed);
        self.penalties.reset();
        if let Some(dry) = &mut self.dry {
            dry.reset();
        }
        self.xtc.reset(self.seed);
        self.mirostat = Mirostat::new(&self.settings);
        self.pool.load(&[]);
        self.accepted = 0;
        self.open = false;
    }
}

/// Accepts those of `tokens` that it has not, so that it is given all from the first on, and samples.
impl Sample for Sampler {
    fn choose(&mut self, tokens: &[u32], logits: &[f32]) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        let new = tokens.get(self.accepted..).unwrap_or_default();
        new.iter().for_each(|&token| self.accept(token));
        Ok(self.sample(logits)?)
    }
}

/// A window's length in tokens: -1 is the whole context.
fn window(last_n: i32, context: usize) -> usize {
    usize::try_from(last_n).unwrap_or(context)
}
