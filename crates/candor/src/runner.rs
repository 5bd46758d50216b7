//! A model on its backends, with their types hidden: parts that follow each other, each on one backend. All that goes
//! from a part to the next is the residual stream.

use std::{
    ops::{Add, Range},
    sync::Arc,
};

use candor_gguf::Gguf;
use candor_models::{Begin, Config, Decoder, End, Part, Pass, Scratch};
use candor_ops::{Adapted, CHOSEN, KvPlan, LowRank, Ops, Prims, Ranked, Step, Stored, Tap, Traffic};

use crate::{Error, Observed, Observer, batch::Want};

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

/// A part of a run.
pub(crate) trait RunPart: Send {
    /// Runs a step: on the stream of `computed` where the part begins with it, and leaves there the stream or what was asked for. Every
    /// named value is shown to `observer`. An error is the device's, after which no step will do.
    fn step(
        &mut self,
        step: Step<'_>,
        asked: Asked,
        computed: &mut Computed,
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error>;
    /// Of how many logits at most the best are cheaper found where they are than read.
    fn top_k(&self) -> usize;
    /// Reads the step's tokens, whole texts, as an encoder does: [`Decoder::encode`]. `observer` sees every named value.
    fn encode(&mut self, step: Step<'_>, observer: Option<&mut dyn Observer>) -> Result<(), Error>;
    /// The cache's contents, where the backend lets them out.
    fn stored(&mut self) -> Option<&mut dyn Stored>;
    /// [`Stored::fork`], texts that were read included; `false` where the backend does not let the cache out.
    fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<bool, Error>;
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
    /// Runs a step and replaces what `computed` holds by what was asked for. Every named value is shown to `observer`. An error is
    /// a device's, after which no step will do.
    pub(crate) fn step(
        &mut self,
        step: Step<'_>,
        asked: Asked,
        computed: &mut Computed,
        mut observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        computed.clear();
        for part in &mut self.parts {
            // What a loop lends must be no longer than its turn.
            let observer = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
            part.step(step, asked, computed, observer)?;
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
    fn step(
        &mut self,
        step: Step<'_>,
        asked: Asked,
        computed: &mut Computed,
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        if self.model.part().begin == Begin::Stream {
            self.ops.upload(&mut self.scratch.x, &computed.stream, &step);
        }
        match observer {
            None => self.run(step, asked, &mut ()),
            Some(observer) => self.run(step, asked, &mut Watch { step, observer, copy: Vec::new() }),
        }
        self.read(step, asked, computed);
        Ok(self.ops.finish().map_err(candor_models::Error::from)?)
    }

    fn top_k(&self) -> usize {
        B::TOP_K
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
        Ok(self.ops.finish().map_err(candor_models::Error::from)?)
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
}

impl<B: Ops> Running<B> {
    /// The pass itself; what it ends with is left with the backend.
    fn run<P: Tap<B>>(&mut self, step: Step<'_>, asked: Asked, tap: &mut P) {
        let Running { model, ops, scratch, kv } = self;
        let pass = &mut Pass { ops, s: scratch, kv, step, tap };
        match asked.embeddings && asked.logits == AskedLogits::None {
            true => model.embed(pass),
            false => model.forward(pass),
        }
    }

    /// Reads what the pass ended with.
    fn read(&mut self, step: Step<'_>, asked: Asked, computed: &mut Computed) {
        let Running { model, ops, scratch, .. } = self;
        let mut read = |buf: &B::Buf, out: &mut Vec<f32>| {
            let snapshot = ops.snapshot(buf);
            ops.download(&snapshot, out);
        };
        if model.part().end == End::Stream {
            return read(&scratch.x, &mut computed.stream);
        }
        if asked.embeddings {
            read(&scratch.h, &mut computed.embeddings);
        }
        if step.outputs.is_empty() {
            return;
        }
        match asked.logits {
            AskedLogits::None => {}
            AskedLogits::All => read(&scratch.logits, &mut computed.logits),
            AskedLogits::Best(count) => {
                ops.top_k(&scratch.logits, model.config().outputs(), count, &mut computed.best);
                computed.each = computed.best.len() / step.outputs.len();
            }
        }
    }
}
