//! Running a test: the passes of a prompt and of generated tokens, timed, on random tokens. Nothing is sampled.

use std::time::Instant;

use candor::{Cancel, Ceilings, EmbedOptions, Embedder, Model, Pooling, Sequences, Session};
use candor_inspect::Graph;

use super::plan::{Setup, Test};
#[cfg(feature = "gpu")]
use crate::timing::{self, kernels::Kernels};
use crate::{errors::Error, timing::Timing};

/// How a test is run.
pub struct Runs<'a> {
    /// Runs that count.
    pub repetitions: u32,
    /// Whether one goes before that does not.
    pub warmup: bool,
    /// What Ctrl-C sets.
    pub cancel: &'a Cancel,
}

/// The times of the runs in nanoseconds; `None` where Ctrl-C came before the last.
pub fn measure(model: &Model, setup: Setup, test: Test, runs: &Runs<'_>) -> Result<Option<Vec<u64>>, Error> {
    let mut course = Course::new(model, setup, test, runs.cancel)?;
    if runs.warmup && !course.warm_up()? {
        return Ok(None);
    }
    let depth = test.depth as usize;
    course.feed.truncate(0)?;
    if !course.prompt(depth)? {
        return Ok(None);
    }
    let mut samples = Vec::new();
    for _ in 0..runs.repetitions {
        course.feed.truncate(depth)?;
        let started = Instant::now();
        if !course.prompt(test.prompt as usize)? || !course.generate(test.generated)? {
            return Ok(None);
        }
        samples.push(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(Some(samples))
}

/// Runs a test's passes once more with a clock at each operation, and writes what took the time; whether it came to its end.
pub fn times(
    model: &Model,
    (setup, test): (Setup, Test),
    graph: &Graph,
    runs: &Runs<'_>,
    ceilings: &Ceilings,
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    let mut course = Course::new(model, setup, test, runs.cancel)?;
    if !course.prompt(test.depth as usize)? {
        return Ok(false);
    }
    let Feed::One(session) = &mut course.feed else { return Ok(true) };
    let most = setup.batch.min(setup.ubatch) as usize;
    let [mut read, mut decode] = [0, 1].map(|_| Timing::new(graph, session, most));
    for _ in 0..runs.repetitions {
        session.truncate(test.depth as usize);
        let first = course.bos.filter(|_| session.tokens().is_empty());
        if runs.cancel.is_cancelled() {
            return Ok(false);
        }
        if test.prompt > 0 {
            read.read(session, &course.random.tokens(test.prompt as usize, first))?;
        }
        for _ in 0..test.generated {
            if runs.cancel.is_cancelled() {
                return Ok(false);
            }
            decode.decode(session, course.random.next())?;
        }
    }
    let runs = runs.repetitions;
    read.print(&format!("{test} in {runs} runs, prompt"), ceilings, out)?;
    decode.print(&format!("{test} in {runs} runs, decode"), ceilings, out)?;
    Ok(true)
}

/// Runs a test's passes once more with the GPU's clock at each kernel, and writes what took the time; whether it came to its end.
#[cfg(feature = "gpu")]
pub fn kernels(model: &Model, (setup, test): (Setup, Test), runs: &Runs<'_>, out: &mut Vec<u8>) -> Result<bool, Error> {
    let mut course = Course::new(model, setup, test, runs.cancel)?;
    if !course.warm_up()? {
        return Ok(false);
    }
    let depth = test.depth as usize;
    course.feed.truncate(0)?;
    if !course.prompt(depth)? {
        return Ok(false);
    }
    let mut all = [(); 2].map(|()| Kernels::default());
    for _ in 0..runs.repetitions {
        course.feed.truncate(depth)?;
        let (read, prompt) = candor::timed(|| course.prompt(test.prompt as usize));
        let (written, decode) = candor::timed(|| course.generate(test.generated));
        if !read? || !written? {
            return Ok(false);
        }
        all.iter_mut().zip([prompt, decode]).for_each(|(kernels, timed)| kernels.add(timed));
    }
    if all.iter().all(Kernels::is_empty) {
        return Err(timing::untimed(model));
    }
    for (kernels, what) in all.iter().zip(["prompt", "decode"]) {
        kernels.print(&format!("{test} in {} runs, {what}", runs.repetitions), out)?;
    }
    Ok(true)
}

/// What is measured: what `candor run` does, what serves several users, or what `candor embed` does.
enum Feed {
    One(Box<Session>),
    Many(Box<Sequences>),
    /// An encoder, which remembers nothing.
    Texts(Box<Embedder>),
}

/// A test being run.
struct Course<'a> {
    feed: Feed,
    test: Test,
    random: Random,
    bos: Option<u32>,
    cancel: &'a Cancel,
}

impl Feed {
    fn truncate(&mut self, len: usize) -> Result<(), Error> {
        match self {
            Feed::One(session) => session.truncate(len),
            Feed::Many(sequences) => sequences.truncate(len)?,
            Feed::Texts(_) => {}
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        match self {
            Feed::One(session) => session.tokens().is_empty(),
            Feed::Many(sequences) => sequences.lengths().iter().all(|&length| length == 0),
            Feed::Texts(_) => true,
        }
    }
}

impl<'a> Course<'a> {
    fn new(model: &Model, setup: Setup, test: Test, cancel: &'a Cancel) -> Result<Course<'a>, Error> {
        let context = usize::try_from(test.context()).unwrap_or(usize::MAX);
        let options = setup.session().context(context);
        let feed = match test.sequences {
            _ if model.is_encoder() => {
                // How rows become a vector costs nothing beside them.
                let options = EmbedOptions::default().pooling(Pooling::Mean);
                Feed::Texts(Box::new(model.embedder(&options)?))
            }
            1 => Feed::One(Box::new(model.session(&options)?)),
            several => Feed::Many(Box::new(model.sequences(several as usize, &options)?)),
        };
        let tokenizer = model.tokenizer();
        let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
        Ok(Course { feed, test, random: Random::new(model.config().vocab), bos, cancel })
    }

    /// What is to be measured once, of generated tokens one.
    fn warm_up(&mut self) -> Result<bool, Error> {
        Ok(self.prompt(self.test.prompt as usize)? && self.generate(self.test.generated.min(1))?)
    }

    /// A prompt of `tokens` tokens for every sequence, or one that all share; whether it got to its end.
    fn prompt(&mut self, tokens: usize) -> Result<bool, Error> {
        if tokens == 0 {
            return Ok(true);
        }
        let first = self.bos.filter(|_| self.feed.is_empty());
        match &mut self.feed {
            Feed::One(session) => Ok(session.evaluate_until(&self.random.tokens(tokens, first), self.cancel)?),
            Feed::Many(sequences) => {
                for sequence in 0..self.test.prompts() as usize {
                    if !sequences.evaluate_until(sequence, &self.random.tokens(tokens, first), self.cancel)? {
                        return Ok(false);
                    }
                }
                for sequence in self.test.prompts()..self.test.sequences {
                    sequences.fork(0, sequence as usize)?;
                }
                Ok(true)
            }
            Feed::Texts(embedder) => {
                embedder.embed(&[self.random.tokens(tokens, first)], |_| ())?;
                Ok(!self.cancel.is_cancelled())
            }
        }
    }

    /// `passes` passes that add a token to every sequence; whether they got to their end.
    fn generate(&mut self, passes: u32) -> Result<bool, Error> {
        for _ in 0..passes {
            if self.cancel.is_cancelled() {
                return Ok(false);
            }
            let tokens = self.random.tokens(self.test.sequences as usize, None);
            match &mut self.feed {
                Feed::One(session) => session.decode(tokens[0])?,
                Feed::Many(sequences) => sequences.advance(&tokens)?,
                Feed::Texts(embedder) => embedder.model().continues_text()?,
            }
        }
        Ok(true)
    }
}

/// Token ids, the same in every run of the program.
struct Random {
    state: u64,
    vocab: u64,
}

impl Random {
    fn new(vocab: usize) -> Random {
        Random { state: 0, vocab: vocab as u64 }
    }

    /// `count` tokens, `first` before all others.
    fn tokens(&mut self, count: usize, first: Option<u32>) -> Vec<u32> {
        let rest = count - usize::from(first.is_some());
        first.into_iter().chain((0..rest).map(|_| self.next())).collect()
    }

    /// The upper half of a 64-bit congruential generator (Knuth's MMIX), scaled to the vocabulary.
    fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.state >> 32) * self.vocab) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tokens_lie_in_the_vocabulary_and_reach_its_ends() {
        let mut random = Random::new(10);
        let tokens = random.tokens(1000, Some(77));
        assert_eq!((tokens.len(), tokens[0]), (1000, 77));
        assert!((0..10).all(|id| tokens[1..].contains(&id)) && tokens[1..].iter().all(|&id| id < 10));
    }
}
