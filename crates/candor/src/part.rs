//! A part of a model whose weights are on its backend, and its runs.

use std::{
    mem,
    ops::Range,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use candor_gguf::Gguf;
use candor_models::{Begin, Decoder, End, Part, Pass, Scratch};
use candor_ops::{Adapted, CHOSEN, KvPlan, LowRank, Ops, Prims, SharedListener, Step, Stop, Stored, Tap, Traffic};

use crate::{
    Error, Observed, Observer,
    runner::{Asked, AskedLogits, Computed, Doing, LoadedPart, RunPart},
};

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

/// A run of a part.
struct Running<B: Ops> {
    model: Arc<Decoder<B>>,
    ops: B,
    scratch: Scratch<B>,
    kv: B::Kv,
    copies: Copies<B::Snapshot>,
}

/// Copies of what a step gives.
pub(crate) struct Copies<S> {
    /// What was asked for.
    found: Vec<(Found, S)>,
    /// What its observer has not seen yet.
    kept: Vec<Kept<S>>,
}

impl<S> Default for Copies<S> {
    fn default() -> Self {
        Copies { found: Vec::new(), kept: Vec::new() }
    }
}

/// What a part's step works with.
pub(crate) struct Working<'a, B: Ops> {
    pub(crate) model: &'a Decoder<B>,
    pub(crate) ops: &'a mut B,
    pub(crate) scratch: &'a mut Scratch<B>,
    pub(crate) kv: &'a mut B::Kv,
    pub(crate) copies: &'a mut Copies<B::Snapshot>,
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
    fn begin(&self, plan: &KvPlan, rows: usize, outputs: usize) -> Result<Vec<Box<dyn RunPart>>, Error> {
        // The changes are with the weights already.
        let mut ops = Adapted::new(self.ops.clone(), Arc::new([]), self.scales.clone());
        ops.check_kv(plan).map_err(candor_models::Error::from)?;
        let mut scratch = self.model.scratch(&mut ops, rows, outputs);
        scratch.far = plan.context > self.model.config().original_context();
        let kv = ops.kv(&plan.part(self.model.config().cached(self.model.part())));
        Ok(vec![Box::new(Running { model: self.model.clone(), ops, scratch, kv, copies: Copies::default() })])
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
    fn layers(&self) -> Range<usize> {
        self.model.part().layers.clone()
    }

    fn record(
        &mut self,
        step: Step<'_>,
        doing: Doing,
        layers: Range<usize>,
        computed: &Computed,
        observer: Option<&mut dyn Observer>,
    ) {
        self.working().record(step, doing, layers, computed, observer);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.copies.poll(&mut self.ops, cx)
    }

    fn end(
        &mut self,
        step: Step<'_>,
        computed: &mut Computed,
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        self.working().end(step, computed, observer)
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

    fn listen(&mut self, listener: Option<SharedListener>) {
        self.ops.listen(listener);
    }

    fn stop_at(&mut self, stop: Option<Stop>) {
        self.ops.stop_at(stop);
    }
}

impl<B: Ops> Running<B> {
    fn working(&mut self) -> Working<'_, B> {
        let Running { model, ops, scratch, kv, copies } = self;
        Working { model, ops, scratch, kv, copies }
    }
}

impl<S> Copies<S> {
    /// Asks for all of them, and is ready when they have come.
    pub(crate) fn poll<B: Prims<Snapshot = S>>(&mut self, ops: &mut B, cx: &mut Context<'_>) -> Poll<()> {
        let Copies { found, kept } = self;
        let copies = found.iter_mut().map(|(_, copy)| copy).chain(kept.iter_mut().map(|kept| &mut kept.copy));
        let pending = copies.filter_map(|copy| ops.poll_read(copy, cx).is_pending().then_some(())).count();
        if pending == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<B: Ops> Working<'_, B> {
    /// [`RunPart::record`].
    pub(crate) fn record(
        &mut self,
        step: Step<'_>,
        doing: Doing,
        layers: Range<usize>,
        computed: &Computed,
        observer: Option<&mut dyn Observer>,
    ) {
        let part = self.model.part();
        let is_last = layers.end == part.layers.end;
        if layers.start == part.layers.start {
            // Of a step that nobody waited for to its end.
            self.copies.kept.clear();
            self.copies.found.clear();
            if matches!(doing, Doing::Step(_)) && part.begin == Begin::Stream {
                self.ops.upload(&mut self.scratch.x, &computed.stream, &step);
            }
        }
        let mut kept = mem::take(&mut self.copies.kept);
        match observer {
            None => self.run(step, doing, layers, &mut ()),
            Some(observer) => self.run(step, doing, layers, &mut Watch { step, observer, kept: &mut kept }),
        }
        self.copies.kept = kept;
        if is_last {
            self.take(step, doing);
        }
    }

    /// [`RunPart::end`].
    pub(crate) fn end(
        &mut self,
        step: Step<'_>,
        computed: &mut Computed,
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        let Copies { found, kept } = &mut *self.copies;
        if let Some(observer) = observer {
            kept.iter().for_each(|kept| kept.show(self.ops, step, observer));
        }
        kept.clear();
        let width = self.model.config().outputs();
        for (of, copy) in found.drain(..) {
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

    /// The pass itself, or a stretch of it; what it ends with is left with the backend.
    fn run<P: Tap<B>>(&mut self, step: Step<'_>, doing: Doing, layers: Range<usize>, tap: &mut P) {
        let Working { model, ops, scratch, kv, .. } = self;
        let pass = &mut Pass { ops: &mut **ops, s: &mut **scratch, kv: &mut **kv, step, tap };
        match doing {
            Doing::Encode => model.encode(pass),
            Doing::Step(Asked { logits: AskedLogits::None, embeddings: true }) => model.embed(pass),
            Doing::Step(_) => model.forward_some(pass, layers),
        }
    }

    /// Copies what the pass ended with, as far as it was asked for.
    fn take(&mut self, step: Step<'_>, doing: Doing) {
        let Working { model, ops, scratch, copies, .. } = self;
        let found = &mut copies.found;
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
