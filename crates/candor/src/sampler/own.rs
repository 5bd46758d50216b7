//! What users of the library write: samplers, and processors of logits. Not the built-in chain.

use std::fmt;

/// Chooses the next token from logits: [`GenerateOptions::sampler`](crate::GenerateOptions::sampler) takes any instead of the
/// built-in chain, [`Sampler`](super::Sampler), which is one itself. All logits are read for it, from a GPU, too.
///
/// ```
/// use candor::{GenerateOptions, sampler::Sample};
///
/// /// Chooses the greatest logit.
/// #[derive(Clone)]
/// struct Greedy;
///
/// impl Sample for Greedy {
///     fn choose(&mut self, _: &[u32], logits: &[f32]) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
///         let best = (0..).zip(logits).max_by(|(_, a), (_, b)| a.total_cmp(b));
///         Ok(best.ok_or("no logits")?.0)
///     }
/// }
///
/// let options = GenerateOptions::default().sampler(Greedy);
/// ```
pub trait Sample: Send {
    /// Chooses the token that follows `tokens`, the prompt and all that was chosen since, by `logits`, `[V]`, one per id. It is
    /// called once for each token, in order; the logits of a model are finite, those that a processor left may be anything.
    ///
    /// # Errors
    /// If no token may follow, or for reasons of its own: the generation gives it as
    /// [`Error::OwnSampler`](crate::Error::OwnSampler).
    fn choose(&mut self, tokens: &[u32], logits: &[f32]) -> Result<u32, Box<dyn std::error::Error + Send + Sync>>;
}

/// Changes logits before a token is chosen: a mask, a grammar, a penalty. Closures are some.
/// [`GenerateOptions::processor`](crate::GenerateOptions::processor) takes them; all logits are read for one, from a GPU, too.
///
/// ```
/// use candor::GenerateOptions;
///
/// // No token follows itself.
/// let options = GenerateOptions::default().processor(|tokens: &[u32], logits: &mut [f32]| {
///     if let Some(&last) = tokens.last() {
///         logits[last as usize] = f32::NEG_INFINITY;
///     }
/// });
/// ```
pub trait LogitsProcessor: Send {
    /// Changes `logits`, `[V]`, one per id, of the token that follows `tokens`, the prompt and all that was chosen since. Minus
    /// infinity excludes a token. It is called once for each token, in order.
    fn process(&mut self, tokens: &[u32], logits: &mut [f32]);

    /// Why the logits could not be changed as they should, asked after each [`LogitsProcessor::process`]: the generation gives it as
    /// [`Error::OwnProcessor`](crate::Error::OwnProcessor).
    fn failure(&mut self) -> Option<Box<dyn std::error::Error + Send + Sync>> {
        None
    }

    /// Whether it looks at the prompt, too: see [`LogitsProcessor::read`].
    fn reads(&self) -> bool {
        false
    }

    /// Looks at `logits`, `[V]`, of the token `next` of the prompt. It is called once for each of them but the first, in order, and
    /// only by an [`Engine`](crate::Engine), which reads the whole prompt then.
    fn read(&mut self, _next: u32, _logits: &[f32]) {}
}

impl<F: FnMut(&[u32], &mut [f32]) + Send> LogitsProcessor for F {
    fn process(&mut self, tokens: &[u32], logits: &mut [f32]) {
        self(tokens, logits);
    }
}

/// A sampler of the user's. Every generation begins with a clone of it.
pub struct OwnSampler(Box<dyn CloneSample>);

/// A processor of the user's. Every generation begins with a clone of it.
pub struct OwnProcessor(Box<dyn CloneProcessor>);

trait CloneSample: Sample {
    fn boxed(&self) -> Box<dyn CloneSample>;
}

trait CloneProcessor: LogitsProcessor {
    fn boxed(&self) -> Box<dyn CloneProcessor>;
}

impl<T: Sample + Clone + 'static> CloneSample for T {
    fn boxed(&self) -> Box<dyn CloneSample> {
        Box::new(self.clone())
    }
}

impl<T: LogitsProcessor + Clone + 'static> CloneProcessor for T {
    fn boxed(&self) -> Box<dyn CloneProcessor> {
        Box::new(self.clone())
    }
}

impl OwnSampler {
    /// Takes a sampler.
    pub fn new(sampler: impl Sample + Clone + 'static) -> OwnSampler {
        OwnSampler(Box::new(sampler))
    }

    pub(crate) fn choose(
        &mut self,
        tokens: &[u32],
        logits: &[f32],
    ) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        self.0.choose(tokens, logits)
    }
}

impl OwnProcessor {
    /// Takes a processor.
    pub fn new(processor: impl LogitsProcessor + Clone + 'static) -> OwnProcessor {
        OwnProcessor(Box::new(processor))
    }

    pub(crate) fn reads(&self) -> bool {
        self.0.reads()
    }

    pub(crate) fn read(&mut self, next: u32, logits: &[f32]) {
        self.0.read(next, logits);
    }

    pub(crate) fn process(
        &mut self,
        tokens: &[u32],
        logits: &mut [f32],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.process(tokens, logits);
        self.0.failure().map_or(Ok(()), Err)
    }
}

impl Clone for OwnSampler {
    fn clone(&self) -> Self {
        OwnSampler((*self.0).boxed())
    }
}

impl Clone for OwnProcessor {
    fn clone(&self) -> Self {
        OwnProcessor((*self.0).boxed())
    }
}

impl fmt::Debug for OwnSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnSampler")
    }
}

impl fmt::Debug for OwnProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnProcessor")
    }
}
