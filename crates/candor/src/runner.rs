//! A model on its backends, with their types hidden: parts that follow each other, each on one backend. All that goes
//! from a part to the next is the residual stream.

use std::{
    future::poll_fn,
    mem,
    ops::{Add, Range},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use candor_gguf::Gguf;
use candor_models::{Begin, Config, Decoder, End, Part, Pass, Scratch};
use candor_ops::{Adapted, CHOSEN, KvPlan, LowRank, Ops, Prims, Ranked, Step, Stop, Stored, Tap, Traffic};

use crate::{
    Error, Observed, Observer,
    batch::{Room, Want},
    fit::{Holder, Takes},
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
    /// A run with an empty cache, room for `rows` tokens and `outputs` rows of logits in a step. `plan` is the model's.
    fn begin(&self, plan: &KvPlan, rows: usize, outputs: usize) -> Result<Box<dyn RunPart>, Error>;
}

/// A run: the caches and buffers of one session.
pub(crate) struct Run {
    parts: Vec<Box<dyn RunPart>>,
}

/// What a step is to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    logits: AskedLogits,
    /// Whether rows after the last norm are read, of all tokens.
    embeddings: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedLogits {
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
    stream: Vec<f32>,
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

/// A part of a run. A step is begun, polled until it is ready, and ended.
pub(crate) trait RunPart: Send {
    /// Records a step, on the stream of `computed` where the part begins with it. Named values are shown to `observer`.
    fn begin(&mut self, step: Step<'_>, doing: Doing, computed: &Computed, observer: Option<&mut dyn Observer>);
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
        Ok(Run { parts: parts.collect::<Result<_, _>>()? })
    }
}

impl Run {
    /// Runs a step and replaces what `computed` holds by what was asked for. Every named value is shown to `observer`. An error is
    /// a device's, after which no step will do.
    pub(crate) async fn step(
        &mut self,
        step: Step<'_>,
        doing: Doing,
        computed: &mut Computed,
        mut observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        computed.clear();
        for part in &mut self.parts {
            // What a loop lends must be no longer than its turn.
            let lent = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
            part.begin(step, doing, computed, lent);
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

    /// Other scales of the adapters from the next step on; as many as there are adapters.
    pub(crate) fn rescale(&mut self, scales: &[f32]) {
        self.parts.iter_mut().for_each(|part| part.rescale(scales));
    }
}

/// Hands the named values of a pass to an observer, as copies: at once where that is possible, or else after the pass.
struct Watch<'a, B: Prims> {
    step: Step<'a>,
    observer: &'a mut dyn Observer,
    kept: &'a mut Vec<Kept<B::Snapshot>>,
}

/// A copy that an observer has not seen yet.
struct Kept<S> {
    value: Named,
    layer: Option<usize>,
    copy: S,
}

/// What a copy is of.
#[derive(Clone, Copy)]
enum Named {
    /// A value of this name.
    Value(&'static str),
    /// The choices of experts: those of [`CHOSEN`] that are wanted.
    Chosen([bool; 2]),
}

impl<B: Ops> Watch<'_, B> {
    fn take(&mut self, ops: &mut B, mut kept: Kept<B::Snapshot>) {
        // Values come in the order of computation.
        let now =
            self.kept.is_empty() && ops.poll_read(&mut kept.copy, &mut Context::from_waker(Waker::noop())).is_ready();
        if now { kept.show(ops, self.step, self.observer) } else { self.kept.push(kept) }
    }
}

impl<B: Ops> Tap<B> for Watch<'_, B> {
    fn wants(&mut self, name: &'static str, layer: Option<usize>) -> bool {
        self.observer.wants(name, layer)
    }

    fn tap(&mut self, ops: &mut B, name: &'static str, layer: Option<usize>, x: &B::Buf) {
        if self.observer.wants(name, layer) {
            let copy = ops.snapshot(x);
            self.take(ops, Kept { value: Named::Value(name), layer, copy });
        }
    }

    fn chosen(&mut self, ops: &mut B, layer: Option<usize>, routes: &B::Routes) {
        let wanted = CHOSEN.map(|name| self.observer.wants(name, layer));
        if wanted != [false; 2] {
            let copy = ops.choices(routes);
            self.take(ops, Kept { value: Named::Chosen(wanted), layer, copy });
        }
    }
}

impl<S> Kept<S> {
    fn show<B: Prims<Snapshot = S>>(&self, ops: &mut B, step: Step<'_>, observer: &mut dyn Observer) {
        let Kept { value, layer, copy } = self;
        let mut show = |name, values: &[f32]| {
            let rows = if name == "result_output" { step.outputs.len() } else { step.tokens.len() };
            observer.value(&Observed { name, layer: *layer, step, rows, values });
        };
        match *value {
            Named::Value(name) => {
                let mut values = Vec::new();
                ops.download(copy, &mut values);
                show(name, &values);
            }
            Named::Chosen(wanted) => {
                let mut chosen = Vec::new();
                ops.chosen(copy, &mut chosen);
                let (experts, weights): (Vec<f32>, Vec<f32>) =
                    chosen.iter().map(|&(expert, weight)| (expert as f32, weight)).unzip();
                let both = CHOSEN.into_iter().zip([experts, weights]).zip(wanted);
                both.filter(|&(_, wanted)| wanted).for_each(|((name, values), _)| show(name, &values));
            }
        }
    }
}

/// What changes a model's weights.
#[derive(Clone, Copy)]
pub(crate) struct Changes<'a> {
    /// All of them.
    pub(crate) all: &'a Arc<[LowRank]>,
    /// The scales that they obey in the beginning.
    pub(crate) scales: &'a [f32],
}

/// Loads a part's weights into a backend.
pub(crate) fn load<B>(
    gguf: &Gguf,
    ops: B,
    part: &Part,
    changes: Changes<'_>,
) -> Result<Arc<dyn LoadedPart>, candor_models::Error>
where
    B: Backend + Sync + 'static,
    Decoder<Adapted<B>>: Send + Sync,
    Scratch<Adapted<B>>: Send,
    B::Buf: Send,
    B::Kv: Send,
    B::Snapshot: Send,
    B::Routes: Send,
{
    let mut ops = Adapted::new(ops, changes.all.clone(), Vec::new());
    let model = Arc::new(Decoder::load_part(gguf, &mut ops, part)?);
    Ok(Arc::new(On { model, ops: ops.into_base(), scales: changes.scales.to_vec() }))
}

/// What a backend must be to serve several sessions.
pub(crate) trait Backend: Ops + Clone + Send {}
impl<B: Ops + Clone + Send> Backend for B {}

struct On<B: Ops> {
    model: Arc<Decoder<Adapted<B>>>,
    ops: B,
    scales: Vec<f32>,
}

struct Running<B: Ops> {
    model: Arc<Decoder<B>>,
    ops: B,
    scratch: Scratch<B>,
    kv: B::Kv,
    /// Copies of what the step that was begun gives.
    found: Vec<(Found, B::Snapshot)>,
    /// Copies that its observer has not seen yet.
    kept: Vec<Kept<B::Snapshot>>,
}

/// What a copy is of.
#[derive(Clone, Copy)]
enum Found {
    Stream,
    Embeddings,
    Logits,
    Best(usize),
}

impl<B> LoadedPart for On<B>
where
    B: Backend + Sync + 'static,
    Decoder<Adapted<B>>: Send + Sync,
    Scratch<Adapted<B>>: Send,
    B::Buf: Send,
    B::Kv: Send,
    B::Snapshot: Send,
    B::Routes: Send,
{
    fn begin(&self, plan: &KvPlan, rows: usize, outputs: usize) -> Result<Box<dyn RunPart>, Error> {
        // The changes are with the weights already.
        let mut ops = Adapted::new(self.ops.clone(), Arc::new([]), self.scales.clone());
        ops.check_kv(plan).map_err(candor_models::Error::from)?;
        let mut scratch = self.model.scratch(&mut ops, rows, outputs);
        scratch.far = plan.context > self.model.config().original_context();
        let kv = ops.kv(&plan.part(self.model.config().cached(self.model.part())));
        let (found, kept) = (Vec::new(), Vec::new());
        Ok(Box::new(Running { model: self.model.clone(), ops, scratch, kv, found, kept }))
    }
}

impl<B> RunPart for Running<Adapted<B>>
where
    B: Ops + Send,
    Decoder<Adapted<B>>: Send + Sync,
    Scratch<Adapted<B>>: Send,
    B::Buf: Send,
    B::Kv: Send,
    B::Snapshot: Send,
    B::Routes: Send,
{
    fn begin(&mut self, step: Step<'_>, doing: Doing, computed: &Computed, observer: Option<&mut dyn Observer>) {
        // Of a step that nobody waited for to its end.
        self.kept.clear();
        if matches!(doing, Doing::Step(_)) && self.model.part().begin == Begin::Stream {
            self.ops.upload(&mut self.scratch.x, &computed.stream, &step);
        }
        let mut kept = mem::take(&mut self.kept);
        match observer {
            None => self.run(step, doing, &mut ()),
            Some(observer) => self.run(step, doing, &mut Watch { step, observer, kept: &mut kept }),
        }
        self.kept = kept;
        self.take(step, doing);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Running { ops, found, kept, .. } = self;
        let copies = found.iter_mut().map(|(_, copy)| copy).chain(kept.iter_mut().map(|kept| &mut kept.copy));
        // All of them are asked for.
        let pending = copies.filter_map(|copy| ops.poll_read(copy, cx).is_pending().then_some(())).count();
        if pending == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn end(
        &mut self,
        step: Step<'_>,
        computed: &mut Computed,
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        if let Some(observer) = observer {
            self.kept.iter().for_each(|kept| kept.show(&mut self.ops, step, observer));
        }
        self.kept.clear();
        let width = self.model.config().outputs();
        for (of, copy) in self.found.drain(..) {
            match of {
                Found::Stream => self.ops.download(&copy, &mut computed.stream),
                Found::Embeddings => self.ops.download(&copy, &mut computed.embeddings),
                Found::Logits => self.ops.download(&copy, &mut computed.logits),
                Found::Best(count) => {
                    self.ops.ranked(&copy, width, count, &mut computed.best);
                    computed.each = computed.best.len() / step.outputs.len();
                }
            }
        }
        Ok(self.ops.finish().map_err(candor_models::Error::from)?)
    }

    fn top_k(&self) -> usize {
        B::TOP_K
    }

    fn stored(&mut self) -> Option<&mut dyn Stored> {
        self.ops.stored(&mut self.kv)
    }

    fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<bool, Error> {
        self.scratch.fork(from, to);
        let Some(cache) = self.ops.stored(&mut self.kv) else { return Ok(false) };
        cache.fork(from, to, positions).map_err(candor_models::Error::from)?;
        Ok(true)
    }

    fn traffic(&self) -> Traffic {
        self.ops.traffic()
    }

    fn rescale(&mut self, scales: &[f32]) {
        self.ops.rescale(scales);
    }

    fn stop_at(&mut self, stop: Option<Stop>) {
        self.ops.stop_at(stop);
    }
}

impl<B: Ops> Running<B> {
    /// The pass itself; what it ends with is left with the backend.
    fn run<P: Tap<B>>(&mut self, step: Step<'_>, doing: Doing, tap: &mut P) {
        let Running { model, ops, scratch, kv, .. } = self;
        let pass = &mut Pass { ops, s: scratch, kv, step, tap };
        match doing {
            Doing::Encode => model.encode(pass),
            Doing::Step(Asked { logits: AskedLogits::None, embeddings: true }) => model.embed(pass),
            Doing::Step(_) => model.forward(pass),
        }
    }

    /// Copies what the pass ended with, as far as it was asked for.
    fn take(&mut self, step: Step<'_>, doing: Doing) {
        let Running { model, ops, scratch, found, .. } = self;
        found.clear();
        let Doing::Step(asked) = doing else { return };
        if model.part().end == End::Stream {
            return found.push((Found::Stream, ops.snapshot(&scratch.x)));
        }
        if asked.embeddings {
            found.push((Found::Embeddings, ops.snapshot(&scratch.h)));
        }
        match asked.logits {
            _ if step.outputs.is_empty() => {}
            AskedLogits::None => {}
            AskedLogits::All => found.push((Found::Logits, ops.snapshot(&scratch.logits))),
            AskedLogits::Best(count) => {
                let best = ops.top_k(&scratch.logits, model.config().outputs(), count);
                found.push((Found::Best(count), best));
            }
        }
    }
}
