//! Layers that do not stay: each is taken from the file for each step, while the one before it computes.

use std::{
    ops::{Add, Range},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use candor_gguf::Gguf;
use candor_models::{Begin, Config, Decoder, End, Part, Scratch};
use candor_ops::{Adapted, KvPlan, LowRank, Ops, Prims, SharedListener, Step, Stop, Stored, Traffic};

use crate::{
    Error, Observer,
    part::{Backend, Changes, Copies, Working},
    runner::{Computed, Doing, LoadedPart, RunPart},
};

/// Layers of a file on a backend.
struct Streamed<B: Ops> {
    gguf: Gguf,
    layers: Range<usize>,
    ops: B,
    changes: Arc<[LowRank]>,
    scales: Vec<f32>,
}

/// A run of one of them.
struct Passing<B: Ops> {
    gguf: Gguf,
    part: Part,
    /// Takes over its weights.
    loader: B,
    kv: B::Kv,
    /// Has the layer from where it is awaited to the end of its step.
    model: Decoder<B>,
    is_here: bool,
    copies: Copies<B::Snapshot>,
    bench: Arc<Mutex<Bench<B>>>,
    /// Whether it speaks for the bench.
    is_first: bool,
}

/// What the layers work on, one after the other.
struct Bench<B: Ops> {
    ops: B,
    scratch: Scratch<B>,
}

/// Layers that are taken from the file when they are needed. The whole model was loaded once, on this backend or another.
pub(crate) fn load<B>(gguf: &Gguf, ops: B, layers: Range<usize>, changes: Changes<'_>) -> Arc<dyn LoadedPart>
where
    B: Backend + Sync + 'static,
    Decoder<Adapted<B>>: Send + Sync,
    Scratch<Adapted<B>>: Send,
    B::Buf: Send,
    B::Kv: Send,
    B::Snapshot: Send,
    B::Routes: Send,
{
    let scales = changes.scales.to_vec();
    Arc::new(Streamed { gguf: gguf.clone(), layers, ops, changes: changes.all.clone(), scales })
}

fn of(layers: Range<usize>) -> Part {
    Part { begin: Begin::Stream, layers, end: End::Stream }
}

impl<B> LoadedPart for Streamed<B>
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
        let Streamed { gguf, layers, ops, changes, scales } = self;
        let config = Config::from_gguf(gguf)?;
        let mut ops = Adapted::new(ops.clone(), Arc::new([]), scales.clone());
        ops.check_kv(plan).map_err(candor_models::Error::from)?;
        let nothing = of(layers.start..layers.start);
        let mut scratch = Decoder::load_part(gguf, &mut ops, &nothing)?.scratch(&mut ops, rows, outputs);
        scratch.far = plan.context > config.original_context();
        let bench = Arc::new(Mutex::new(Bench { ops, scratch }));
        let first = layers.start;
        let layers = layers.clone().map(|layer| {
            let part = of(layer..layer + 1);
            let mut loader = Adapted::new(self.ops.clone(), changes.clone(), Vec::new());
            loader.recycle_weights();
            let model = Decoder::load_part(gguf, &mut loader, &nothing)?;
            let kv = loader.kv(&plan.part(config.cached(&part)));
            let (gguf, bench, copies, is_first) = (gguf.clone(), bench.clone(), Copies::default(), layer == first);
            Ok(Box::new(Passing { gguf, part, loader, kv, model, is_here: false, copies, bench, is_first }) as _)
        });
        layers.collect()
    }
}

impl<B: Ops> Passing<Adapted<B>> {
    fn bench(&self) -> MutexGuard<'_, Bench<Adapted<B>>> {
        self.bench.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the layer, which is there.
    fn work<T>(&mut self, how: impl FnOnce(&mut Working<'_, Adapted<B>>) -> T) -> T {
        let Passing { model, bench, kv, copies, .. } = self;
        let Bench { ops, scratch } = &mut *bench.lock().unwrap_or_else(PoisonError::into_inner);
        how(&mut Working { model, ops, scratch, kv, copies })
    }
}

impl<B> RunPart for Passing<Adapted<B>>
where
    B: Ops + Send,
    Decoder<Adapted<B>>: Send + Sync,
    Scratch<Adapted<B>>: Send,
    B::Buf: Send,
    B::Kv: Send,
    B::Snapshot: Send,
    B::Routes: Send,
{
    fn expect(&mut self) {
        let prefixes: Vec<_> = self.part.layers.clone().map(|layer| format!("blk.{layer}.")).collect();
        let is_of = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        self.gguf.expect(self.gguf.tensors().iter().filter(|tensor| is_of(&tensor.name)));
    }

    fn poll_weights(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // One of a step that nobody waited for to its end.
        if !self.is_here {
            ready!(self.gguf.poll_expected(cx));
            self.model.replace_layers(&self.gguf, &mut self.loader, self.part.layers.clone())?;
            self.is_here = true;
        }
        Poll::Ready(Ok(()))
    }

    fn layers(&self) -> Range<usize> {
        self.part.layers.clone()
    }

    fn record(
        &mut self,
        step: Step<'_>,
        doing: Doing,
        layers: Range<usize>,
        computed: &Computed,
        observer: Option<&mut dyn Observer>,
    ) {
        self.work(|working| working.record(step, doing, layers, computed, observer));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Bench { ops, .. } = &mut *self.bench.lock().unwrap_or_else(PoisonError::into_inner);
        self.copies.poll(ops, cx)
    }

    fn end(
        &mut self,
        step: Step<'_>,
        computed: &mut Computed,
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        self.work(|working| working.end(step, computed, observer))?;
        self.is_here = false;
        let nothing = self.part.layers.start..self.part.layers.start;
        Ok(self.model.replace_layers(&self.gguf, &mut self.loader, nothing)?)
    }

    fn top_k(&self) -> usize {
        B::TOP_K
    }

    fn stored(&mut self) -> Option<&mut dyn Stored> {
        self.loader.stored(&mut self.kv)
    }

    fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<bool, Error> {
        let Some(cache) = self.loader.stored(&mut self.kv) else { return Ok(false) };
        cache.fork(from, to, positions).map_err(candor_models::Error::from)?;
        Ok(true)
    }

    fn traffic(&self) -> Traffic {
        let own = self.loader.traffic();
        if self.is_first { own.add(self.bench().ops.traffic()) } else { own }
    }

    fn rescale(&mut self, scales: &[f32]) {
        self.bench().ops.rescale(scales);
    }

    fn listen(&mut self, listener: Option<SharedListener>) {
        self.bench().ops.listen(listener);
    }

    fn stop_at(&mut self, stop: Option<Stop>) {
        self.bench().ops.stop_at(stop);
    }
}
