//! A model on a backend, with the backend's type hidden.

use std::sync::Arc;

use candor_gguf::Gguf;
use candor_models::{Config, Decoder, Pass, Scratch};
use candor_ops::{KvPlan, Ops, Step};

/// A loaded model that can begin any number of independent runs.
pub(crate) trait Loaded: Send + Sync {
    fn config(&self) -> &Config;
    /// A run with an empty cache, room for `rows` tokens and `outputs` rows of logits in a step.
    fn begin(&self, plan: &KvPlan, rows: usize, outputs: usize) -> Box<dyn Run>;
}

/// A run: the cache and buffers of one session.
pub(crate) trait Run: Send {
    /// Runs a step and replaces `logits` by those of `step.outputs`, `[outputs, V]`.
    fn step(&mut self, step: Step<'_>, logits: &mut Vec<f32>);
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
    fn step(&mut self, step: Step<'_>, logits: &mut Vec<f32>) {
        let Running { model, ops, scratch, kv } = self;
        model.forward(&mut Pass { ops, s: scratch, kv, step, tap: &mut () });
        logits.clear();
        if !step.outputs.is_empty() {
            let snapshot = ops.snapshot(&scratch.logits);
            ops.download(&snapshot, logits);
        }
    }
}
