//! A model on a backend, with the backend's type hidden.

use std::sync::Arc;

use candor_gguf::Gguf;
use candor_models::{Config, Decoder, Pass, Scratch};
use candor_ops::{KvPlan, Ops, Step, Tap};

use crate::{Error, Observed, Observer};

/// A loaded model that can begin any number of independent runs.
pub(crate) trait Loaded: Send + Sync {
    fn config(&self) -> &Config;
    /// A run with an empty cache, room for `rows` tokens and `outputs` rows of logits in a step.
    fn begin(&self, plan: &KvPlan, rows: usize, outputs: usize) -> Box<dyn Run>;
}

/// A run: the cache and buffers of one session.
pub(crate) trait Run: Send {
    /// Runs a step and replaces `logits` by those of `step.outputs`, `[outputs, V]`.
    /// An error is the device's, after which no step will do.
    fn step(&mut self, step: Step<'_>, logits: &mut Vec<f32>) -> Result<(), Error>;
    /// The same, and every named value is shown to `observer`.
    fn step_observed(
        &mut self,
        step: Step<'_>,
        logits: &mut Vec<f32>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error>;
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
}

/// Loads the file's weights into a backend.
pub(crate) fn load<B>(gguf: &Gguf, mut ops: B) -> Result<Arc<dyn Loaded>, candor_models::Error>
where
    B: Backend + Sync + 'static,
    Decoder<B>: Send + Sync,
    Scratch<B>: Send,
    B::Kv: Send,
{
    let model = Arc::new(Decoder::load(gguf, &mut ops)?);
    Ok(Arc::new(On { model, ops }))
}

/// What a backend must be to serve several sessions.
pub(crate) trait Backend: Ops + Clone + Send {}
impl<B: Ops + Clone + Send> Backend for B {}

struct On<B: Ops> {
    model: Arc<Decoder<B>>,
    ops: B,
}

struct Running<B: Ops> {
    model: Arc<Decoder<B>>,
    ops: B,
    scratch: Scratch<B>,
    kv: B::Kv,
}

impl<B> Loaded for On<B>
where
    B: Backend + Sync + 'static,
    Decoder<B>: Send + Sync,
    Scratch<B>: Send,
    B::Kv: Send,
{
    fn config(&self) -> &Config {
        self.model.config()
    }

    fn begin(&self, plan: &KvPlan, rows: usize, outputs: usize) -> Box<dyn Run> {
        let mut ops = self.ops.clone();
        let scratch = self.model.scratch(&mut ops, rows, outputs);
        let kv = ops.kv(plan);
        Box::new(Running { model: self.model.clone(), ops, scratch, kv })
    }
}

impl<B> Run for Running<B>
where
    B: Ops + Send,
    Decoder<B>: Send + Sync,
    Scratch<B>: Send,
    B::Kv: Send,
{
    fn step(&mut self, step: Step<'_>, logits: &mut Vec<f32>) -> Result<(), Error> {
        let Running { model, ops, scratch, kv } = self;
        model.forward(&mut Pass { ops, s: scratch, kv, step, tap: &mut () });
        self.read(step, logits)
    }

    fn step_observed(
        &mut self,
        step: Step<'_>,
        logits: &mut Vec<f32>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let Running { model, ops, scratch, kv } = self;
        let mut tap = Watch { step, observer, copy: Vec::new() };
        model.forward(&mut Pass { ops, s: scratch, kv, step, tap: &mut tap });
        self.read(step, logits)
    }
}

impl<B: Ops> Running<B> {
    fn read(&mut self, step: Step<'_>, logits: &mut Vec<f32>) -> Result<(), Error> {
        logits.clear();
        if !step.outputs.is_empty() {
            let snapshot = self.ops.snapshot(&self.scratch.logits);
            self.ops.download(&snapshot, logits);
        }
        Ok(self.ops.finish().map_err(candor_models::Error::from)?)
    }
}
