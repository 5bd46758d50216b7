//! A model on its backends, with their types hidden: parts that follow each other, each on one backend. All that goes
//! from a part to the next is the residual stream.

use std::{ops::Add, sync::Arc};

use candor_gguf::Gguf;
use candor_models::{Begin, Config, Decoder, End, Part, Pass, Scratch};
use candor_ops::{Adapted, CHOSEN, KvPlan, LowRank, Ops, Prims, Ranked, Step, Stored, Tap, Traffic};

use crate::{Error, Observed, Observer};

/// A loaded model that can begin any number of independent runs.
pub(crate) struct Loaded {
    config: Config,
    /// In the order of the layers, the whole model together.
    parts: Vec<Arc<dyn LoadedPart>>,
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

/// A part of a run.
pub(crate) trait RunPart: Send {
    /// Runs a step. `values` is the stream `[T, D]` where the part begins with it, and is replaced by what the part ends
    /// with: the stream, or the logits of `step.outputs`, `[outputs, V]`. An error is the device's, after which no step
    /// will do.
    fn step(&mut self, step: Step<'_>, values: &mut Vec<f32>) -> Result<(), Error>;
    /// The same for a step with one output at most; where that is cheaper, no logits come, but the best `count` of them with
    /// their tokens, the best first. Otherwise there are none of these.
    fn step_best(&mut self, step: Step<'_>, count: usize, values: &mut Vec<f32>) -> Result<Vec<Ranked>, Error>;
    /// Of how many logits at most the best are cheaper found where they are than read.
    fn top_k(&self) -> usize;
    /// As [`RunPart::step`], and every named value is shown to `observer`.
    fn step_observed(
        &mut self,
        step: Step<'_>,
        values: &mut Vec<f32>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error>;
    /// Reads the step's tokens, whole texts, as an encoder does: [`Decoder::encode`]. `observer` sees every named value.
    fn encode(&mut self, step: Step<'_>, observer: Option<&mut dyn Observer>) -> Result<(), Error>;
    /// The cache's contents, where the backend lets them out.
    fn stored(&mut self) -> Option<&mut dyn Stored>;
    /// [`Stored::fork`], texts that were read included; `false` where the backend does not let the cache out.
    fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<bool, Error>;
    /// As [`RunPart::step`], but where the part would end with logits, it ends with the last norm's result, `[T, D]`.
    fn step_embeddings(&mut self, step: Step<'_>, values: &mut Vec<f32>) -> Result<(), Error>;
    /// What was exchanged with the device so far.
    fn traffic(&self) -> Traffic;
    /// Other scales of the adapters from the next step on.
    fn rescale(&mut self, scales: &[f32]);
}

impl Loaded {
    pub(crate) fn new(config: Config, parts: Vec<Arc<dyn LoadedPart>>) -> Loaded {
        Loaded { config, parts }
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
    /// Runs a step and replaces `logits` by those of `step.outputs`, `[outputs, V]`. An error is a device's, after which no
    /// step will do.
    pub(crate) fn step(&mut self, step: Step<'_>, logits: &mut Vec<f32>) -> Result<(), Error> {
        // On its way to the last part this is the stream.
        self.parts.iter_mut().try_for_each(|part| part.step(step, logits))
    }

    /// The same for a step with one output at most; where that is cheaper, no logits come, but the best `count` of them with
    /// their tokens, the best first. Otherwise there are none of these.
    pub(crate) fn step_best(
        &mut self,
        step: Step<'_>,
        count: usize,
        logits: &mut Vec<f32>,
    ) -> Result<Vec<Ranked>, Error> {
        self.parts.iter_mut().try_fold(Vec::new(), |_, part| part.step_best(step, count, logits))
    }

    /// How many of the best logits [`Run::step_best`] finds at most; 0 where logits are at hand anyway.
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

    /// Runs a step and replaces `values` by what its rows are after the last norm, `[T, D]`.
    pub(crate) fn step_embeddings(&mut self, step: Step<'_>, values: &mut Vec<f32>) -> Result<(), Error> {
        self.parts.iter_mut().try_for_each(|part| part.step_embeddings(step, values))
    }

    /// Reads the step's tokens, whole texts that later steps answer, and shows every named value to `observer`.
    pub(crate) fn encode(&mut self, step: Step<'_>, mut observer: Option<&mut dyn Observer>) -> Result<(), Error> {
        for part in &mut self.parts {
            // What a loop lends must be no longer than its turn.
            let observer = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
            part.encode(step, observer)?;
        }
        Ok(())
    }

    /// What was exchanged with devices so far.
    pub(crate) fn traffic(&self) -> Traffic {
        self.parts.iter().map(|part| part.traffic()).fold(Traffic::default(), Traffic::add)
    }

    /// Other scales of the adapters from the next step on; as many as there are adapters.
    pub(crate) fn rescale(&mut self, scales: &[f32]) {
        self.parts.iter_mut().for_each(|part| part.rescale(scales));
    }

    /// As [`Run::step`], and every named value is shown to `observer`.
    pub(crate) fn step_observed(
        &mut self,
        step: Step<'_>,
        logits: &mut Vec<f32>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.parts.iter_mut().try_for_each(|part| part.step_observed(step, logits, observer))
    }
}

/// Hands the named values of a pass to an observer, as copies.
struct Watch<'a> {
    step: Step<'a>,
    observer: &'a mut dyn Observer,
    copy: Vec<f32>,
}

impl<B: Ops> Tap<B> for Watch<'_> {
    fn tap(&mut self, ops: &mut B, name: &'static str, layer: Option<usize>, x: &B::Buf) {
        if self.observer.wants(name, layer) {
            let snapshot = ops.snapshot(x);
            ops.download(&snapshot, &mut self.copy);
            let rows = if name == "result_output" { self.step.outputs.len() } else { self.step.tokens.len() };
            self.observer.value(&Observed { name, layer, step: self.step, rows, values: &self.copy });
        }
    }

    fn chosen(&mut self, ops: &mut B, layer: Option<usize>, routes: &B::Routes) {
        let wanted = CHOSEN.map(|name| self.observer.wants(name, layer));
        if wanted == [false; 2] {
            return;
        }
        let mut chosen = Vec::new();
        ops.chosen(routes, &mut chosen);
        let (experts, weights): (Vec<f32>, Vec<f32>) = chosen.iter().map(|&(expert, x)| (expert as f32, x)).unzip();
        for ((name, values), _) in CHOSEN.into_iter().zip([experts, weights]).zip(wanted).filter(|&(_, wanted)| wanted)
        {
            self.observer.value(&Observed {
                name,
                layer,
                step: self.step,
                rows: self.step.tokens.len(),
                values: &values,
            });
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
}

impl<B> LoadedPart for On<B>
where
    B: Backend + Sync + 'static,
    Decoder<Adapted<B>>: Send + Sync,
    Scratch<Adapted<B>>: Send,
    B::Buf: Send,
    B::Kv: Send,
    B::Routes: Send,
{
    fn begin(&self, plan: &KvPlan, rows: usize, outputs: usize) -> Result<Box<dyn RunPart>, Error> {
        // The changes are with the weights already.
        let mut ops = Adapted::new(self.ops.clone(), Arc::new([]), self.scales.clone());
        ops.check_kv(plan).map_err(candor_models::Error::from)?;
        let mut scratch = self.model.scratch(&mut ops, rows, outputs);
        scratch.far = plan.context > self.model.config().original_context();
        let kv = ops.kv(&plan.part(self.model.config().cached(self.model.part())));
        Ok(Box::new(Running { model: self.model.clone(), ops, scratch, kv }))
    }
}

impl<B> RunPart for Running<Adapted<B>>
where
    B: Ops + Send,
    Decoder<Adapted<B>>: Send + Sync,
    Scratch<Adapted<B>>: Send,
    B::Buf: Send,
    B::Kv: Send,
    B::Routes: Send,
{
    fn step(&mut self, step: Step<'_>, values: &mut Vec<f32>) -> Result<(), Error> {
        self.run(step, values, &mut ());
        self.read(step, values);
        self.finish()
    }

    fn step_best(&mut self, step: Step<'_>, count: usize, values: &mut Vec<f32>) -> Result<Vec<Ranked>, Error> {
        self.run(step, values, &mut ());
        let mut best = Vec::new();
        if count <= B::TOP_K && self.model.part().end == End::Logits && !step.outputs.is_empty() {
            values.clear();
            self.ops.top_k(&self.scratch.logits, self.model.config().outputs(), count, &mut best);
        } else {
            self.read(step, values);
        }
        self.finish()?;
        Ok(best)
    }

    fn top_k(&self) -> usize {
        B::TOP_K
    }

    fn step_observed(
        &mut self,
        step: Step<'_>,
        values: &mut Vec<f32>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.run(step, values, &mut Watch { step, observer, copy: Vec::new() });
        self.read(step, values);
        self.finish()
    }

    fn encode(&mut self, step: Step<'_>, observer: Option<&mut dyn Observer>) -> Result<(), Error> {
        let Running { model, ops, scratch, kv } = self;
        match observer {
            None => model.encode(&mut Pass { ops, s: scratch, kv, step, tap: &mut () }),
            Some(observer) => {
                let tap = &mut Watch { step, observer, copy: Vec::new() };
                model.encode(&mut Pass { ops, s: scratch, kv, step, tap });
            }
        }
        self.finish()
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

    fn step_embeddings(&mut self, step: Step<'_>, values: &mut Vec<f32>) -> Result<(), Error> {
        self.take(step, values);
        let Running { model, ops, scratch, kv } = self;
        model.embed(&mut Pass { ops, s: scratch, kv, step, tap: &mut () });
        let result = match model.part().end {
            End::Stream => &scratch.x,
            End::Logits => &scratch.h,
        };
        let snapshot = ops.snapshot(result);
        ops.download(&snapshot, values);
        self.finish()
    }

    fn traffic(&self) -> Traffic {
        self.ops.traffic()
    }

    fn rescale(&mut self, scales: &[f32]) {
        self.ops.rescale(scales);
    }
}

impl<B: Ops> Running<B> {
    /// The stream, where the part begins with it.
    fn take(&mut self, step: Step<'_>, values: &[f32]) {
        if self.model.part().begin == Begin::Stream {
            self.ops.upload(&mut self.scratch.x, values, &step);
        }
    }

    /// The pass itself; what it ends with is left with the backend.
    fn run<P: Tap<B>>(&mut self, step: Step<'_>, values: &[f32], tap: &mut P) {
        self.take(step, values);
        let Running { model, ops, scratch, kv } = self;
        model.forward(&mut Pass { ops, s: scratch, kv, step, tap });
    }

    /// Replaces `values` by what the pass ended with.
    fn read(&mut self, step: Step<'_>, values: &mut Vec<f32>) {
        let Running { model, ops, scratch, .. } = self;
        values.clear();
        let result = match model.part().end {
            End::Stream => Some(&scratch.x),
            End::Logits => Some(&scratch.logits).filter(|_| !step.outputs.is_empty()),
        };
        if let Some(result) = result {
            let snapshot = ops.snapshot(result);
            ops.download(&snapshot, values);
        }
    }

    /// What the device says to it all.
    fn finish(&mut self) -> Result<(), Error> {
        Ok(self.ops.finish().map_err(candor_models::Error::from)?)
    }
}
