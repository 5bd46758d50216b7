//! A model on its backends, with their types hidden: parts that follow each other, each on one backend. All that goes
//! from a part to the next is the residual stream.

use std::{
    future::poll_fn,
    ops::{Add, Range},
    sync::Arc,
    task::{Context, Poll},
};

use candor_models::Config;
use candor_ops::{KvPlan, Ranked, SharedListener, Step, Stop, Stored, Traffic};

use crate::{
    Error, Observer,
    batch::{Room, Want},
    fit::{Holder, Takes},
    progress::Pause,
};

/// A loaded model that can begin any number of independent runs.
pub(crate) struct Loaded {
    config: Config,
    /// In the order of the layers, the whole model together.
    parts: Vec<Arc<dyn LoadedPart>>,
    /// What each memory has of it.
    shares: Vec<Share>,
}

/// What one memory has of a model.
pub(crate) struct Share {
    /// A GPU, and what of its budget its weights leave; `None` is this process's memory.
    pub(crate) gpu: Option<Holder>,
    /// The layers whose caches lie there, of each part.
    pub(crate) caches: Vec<Range<usize>>,
    /// Whether logits are computed there.
    pub(crate) logits: bool,
    /// Bytes of weights that are multiplied with where they lie in a file's mapping.
    pub(crate) mapped: u64,
}

impl Share {
    /// What a session takes of it, with weights in the mapping if these count.
    pub(crate) fn takes(&self, config: &Config, room: &Room, weights: bool) -> Takes {
        let cache = |layers: &Range<usize>| room.plan.part(layers.clone()).checked_bytes().unwrap_or(usize::MAX) as u64;
        let scratch = config.scratch_bytes(room.rows, 0).saturating_mul(self.caches.len() as u64);
        let logits = if self.logits { config.scratch_bytes(0, room.outputs) } else { 0 };
        Takes {
            cache: self.caches.iter().map(cache).fold(0, u64::saturating_add),
            weights: if weights { self.mapped } else { 0 },
            buffers: scratch.saturating_add(logits),
        }
    }
}

/// A part of a model on a backend.
pub(crate) trait LoadedPart: Send + Sync {
    /// A run with an empty cache, room for `rows` tokens and `outputs` rows of logits in a step: its pieces, in the order of the
    /// layers. `plan` is the model's.
    fn begin(&self, plan: &KvPlan, rows: usize, outputs: usize) -> Result<Vec<Box<dyn RunPart>>, Error>;
}

/// A run: the caches and buffers of one session.
pub(crate) struct Run {
    parts: Vec<Box<dyn RunPart>>,
}

/// What a step is to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) logits: AskedLogits,
    /// Whether rows after the last norm are read, of all tokens.
    pub(crate) embeddings: bool,
}

/// Which logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskedLogits {
    None,
    All,
    /// The best of each output, where they lie.
    Best(usize),
}

impl Asked {
    /// What serves all wants, where a device finds up to `top_k` of the best logits itself.
    pub(crate) fn of(wants: impl Iterator<Item = Want>, top_k: usize) -> Asked {
        let nothing = Asked { logits: AskedLogits::None, embeddings: false };
        wants.fold(nothing, |asked, want| match (want, asked.logits) {
            (Want::Embedding, _) => Asked { embeddings: true, ..asked },
            (Want::Best(count), AskedLogits::None) if count <= top_k => {
                Asked { logits: AskedLogits::Best(count), ..asked }
            }
            (Want::Best(count), AskedLogits::Best(most)) if count <= top_k => {
                Asked { logits: AskedLogits::Best(most.max(count)), ..asked }
            }
            (Want::Best(_) | Want::Logits, _) => Asked { logits: AskedLogits::All, ..asked },
        })
    }
}

/// What a step has found, row after row.
#[derive(Default)]
pub(crate) struct Computed {
    /// Logits of all outputs, `[outputs, V]`, where they were read.
    pub(crate) logits: Vec<f32>,
    /// The best of each output, `[outputs, each]`, where a device found them.
    pub(crate) best: Vec<Ranked>,
    pub(crate) each: usize,
    /// Rows after the last norm, `[T, D]`, where they were asked for.
    pub(crate) embeddings: Vec<f32>,
    /// The stream on its way from part to part, `[T, D]`.
    pub(crate) stream: Vec<f32>,
}

impl Computed {
    pub(crate) fn clear(&mut self) {
        let Computed { logits, best, each, embeddings, stream } = self;
        [logits, embeddings, stream].into_iter().for_each(Vec::clear);
        best.clear();
        *each = 0;
    }

    /// Takes over what another pass has found, which was asked for the same.
    pub(crate) fn append(&mut self, other: &mut Computed) {
        self.logits.append(&mut other.logits);
        self.best.append(&mut other.best);
        self.embeddings.append(&mut other.embeddings);
        self.each = self.each.max(other.each);
    }
}

/// What a part does with a step's tokens.
#[derive(Clone, Copy)]
pub(crate) enum Doing {
    /// It computes what was asked for.
    Step(Asked),
    /// It reads whole texts, as an encoder does: [`Decoder::encode`].
    Encode,
}

impl Doing {
    /// Whether its layers may be run one after the other.
    fn has_stretches(self) -> bool {
        matches!(self, Doing::Step(Asked { embeddings: false, .. }))
    }
}

/// What comes between the layers of a step.
#[derive(Clone, Copy)]
pub(crate) struct Between<'a> {
    pub(crate) stop: &'a Stop,
    pub(crate) pause: Option<&'a Pause<'a>>,
}

impl Between<'_> {
    /// Whether the step ends here, where `done` of its layers are done.
    async fn is_over(&self, done: usize, layers: usize) -> bool {
        if let Some(pause) = self.pause {
            poll_fn(|cx| pause(done, layers, cx)).await;
        }
        self.stop.is_due()
    }
}

/// A part of a run. Its weights are awaited, then a step is recorded, polled until it is ready, and ended.
pub(crate) trait RunPart: Send {
    /// Says that a step comes soon: weights that are read for each may come meanwhile.
    fn expect(&mut self) {}
    /// Ready when the weights are there for a step. An error is the file's or the device's.
    fn poll_weights(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
    /// Its layers.
    fn layers(&self) -> Range<usize>;
    /// Records a stretch of a step: some layers, after those before them. It is on the stream of `computed` where the part begins
    /// with it. Named values are shown to `observer`.
    fn record(
        &mut self,
        step: Step<'_>,
        doing: Doing,
        layers: Range<usize>,
        computed: &Computed,
        observer: Option<&mut dyn Observer>,
    );
    /// Ready when what the step is to give can be read without waiting, or where the host can wait.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
    /// Shows `observer` the named values that it has not seen yet, and leaves the stream or what was asked for in `computed`. An
    /// error is the device's, after which no step will do.
    fn end(
        &mut self,
        step: Step<'_>,
        computed: &mut Computed,
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error>;
    /// Of how many logits at most the best are cheaper found where they are than read.
    fn top_k(&self) -> usize;
    /// The cache's contents, where the backend lets them out.
    fn stored(&mut self) -> Option<&mut dyn Stored>;
    /// [`Stored::fork`], texts that were read included; `false` where the backend does not let the cache out.
    fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<bool, Error>;
    /// What was exchanged with the device so far.
    fn traffic(&self) -> Traffic;
    /// Other scales of the adapters from the next step on.
    fn rescale(&mut self, scales: &[f32]);
    /// Tells a listener of products from the next step on.
    fn listen(&mut self, listener: Option<SharedListener>);
    /// Steps end early once this is due, where the backend asks in their middle.
    fn stop_at(&mut self, stop: Option<Stop>);
}

impl Loaded {
    pub(crate) fn new(config: Config, parts: Vec<Arc<dyn LoadedPart>>, shares: Vec<Share>) -> Loaded {
        Loaded { config, parts, shares }
    }

    /// What each memory has of it.
    pub(crate) fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// What a session takes of this process's memory, beside weights.
    pub(crate) fn on_host(&self, room: &Room) -> Takes {
        let host = self.shares.iter().find(|share| share.gpu.is_none());
        host.map_or_else(Takes::default, |share| share.takes(&self.config, room, false))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// A run with empty caches, room for `rows` tokens and `outputs` rows of logits in a step.
    ///
    /// # Errors
    /// If a backend cannot have such a cache.
    pub(crate) fn begin(&self, plan: &KvPlan, rows: usize, outputs: usize) -> Result<Run, Error> {
        let parts = self.parts.iter().map(|part| part.begin(plan, rows, outputs));
        Ok(Run { parts: parts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect() })
    }
}

impl Run {
    /// Runs a step and replaces what `computed` holds by what was asked for. Every named value is shown to `observer`. An error is
    /// a device's, after which no step will do. What was seen to be due in `between` has ended it early.
    pub(crate) async fn step(
        &mut self,
        step: Step<'_>,
        doing: Doing,
        computed: &mut Computed,
        mut observer: Option<&mut dyn Observer>,
        between: Option<Between<'_>>,
    ) -> Result<(), Error> {
        computed.clear();
        let between = between.filter(|between| between.pause.is_some() && doing.has_stretches());
        let total = self.parts.iter().map(|part| part.layers().len()).sum();
        let mut done = 0;
        for at in 0..self.parts.len() {
            poll_fn(|cx| self.parts[at].poll_weights(cx)).await?;
            // After the last part comes the first, of the next step.
            let next = (at + 1) % self.parts.len();
            self.parts[next].expect();
            let part = &mut self.parts[at];
            let mut layers = part.layers();
            loop {
                let last = if between.is_some() { layers.end.min(layers.start + 1) } else { layers.end };
                if let Some(between) = between.filter(|_| (1..total).contains(&done))
                    && between.is_over(done, total).await
                {
                    return part.end(step, computed, None);
                }
                // What a loop lends must be no longer than its turn.
                let lent = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
                part.record(step, doing, layers.start..last, computed, lent);
                done += last - layers.start;
                layers.start = last;
                if layers.is_empty() {
                    break;
                }
            }
            poll_fn(|cx| part.poll(cx)).await;
            let lent = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
            part.end(step, computed, lent)?;
        }
        Ok(())
    }

    /// How many of the best logits are cheaper found on the device than read; 0 where logits are at hand anyway.
    pub(crate) fn top_k(&self) -> usize {
        self.parts.last().map_or(0, |part| part.top_k())
    }

    /// The caches' contents in the order of the layers; `None` where a backend does not let them out.
    pub(crate) fn stored(&mut self) -> Option<Vec<&mut dyn Stored>> {
        self.parts.iter_mut().map(|part| part.stored()).collect()
    }

    /// Has sequence `to` keep what `from` keeps of its first `positions` positions and of the text it answers; `false` where a
    /// backend cannot, and `to` keeps nothing then.
    pub(crate) fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<bool, Error> {
        self.parts.iter_mut().try_fold(true, |all, part| Ok(part.fork(from, to, positions)? && all))
    }

    /// Has sequences own the pages of positions that they are about to write to; `false` where a cache has too few free ones, and
    /// those that got pages before it keep them.
    pub(crate) fn reserve(
        &mut self,
        places: impl Iterator<Item = (usize, Range<usize>)> + Clone,
    ) -> Result<bool, Error> {
        for cache in self.parts.iter_mut().filter_map(|part| part.stored()) {
            for (sequence, positions) in places.clone() {
                if !cache.reserve(sequence, positions).map_err(candor_models::Error::from)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Gives back the pages of a sequence that hold none of its first `len` positions.
    pub(crate) fn release(&mut self, sequence: usize, len: usize) {
        self.parts.iter_mut().filter_map(|part| part.stored()).for_each(|cache| cache.release(sequence, len));
    }

    /// Pages that sequences have and all there are, in the part that has the most of its own.
    pub(crate) fn pages(&mut self) -> (usize, usize) {
        let pages = self.parts.iter_mut().filter_map(|part| part.stored()).map(|cache| cache.pages());
        pages.max().unwrap_or_default()
    }

    /// What was exchanged with devices so far.
    pub(crate) fn traffic(&self) -> Traffic {
        self.parts.iter().map(|part| part.traffic()).fold(Traffic::default(), Traffic::add)
    }

    /// Steps end early once this is due, where a backend asks in their middle; what they leave is not to be used then.
    pub(crate) fn stop_at(&mut self, stop: Option<&Stop>) {
        self.parts.iter_mut().for_each(|part| part.stop_at(stop.cloned()));
    }

    /// Tells a listener of products from the next step on.
    pub(crate) fn listen(&mut self, listener: Option<&SharedListener>) {
        self.parts.iter_mut().for_each(|part| part.listen(listener.cloned()));
    }

    /// Other scales of the adapters from the next step on; as many as there are adapters.
    pub(crate) fn rescale(&mut self, scales: &[f32]) {
        self.parts.iter_mut().for_each(|part| part.rescale(scales));
    }
}
