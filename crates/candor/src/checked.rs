//! Runs whose operations are all held against the formulas of `candor_verify`, on whatever backend options choose.
//!
//! They are compiled here, where the backends are known: a crate that visits a backend to run one ([`visit_backend`]) compiles the
//! forward pass for each backend once more.

pub use candor_verify::{Depth, Operations, Plan};

use candor_gguf::Gguf;
use candor_ops::Ops;

use crate::{Activations, BackendVisitor, Device, Error, LoadOptions, Placement, backends::visit_backend, now::now};

/// [`candor_verify::operations`] on the backend that `options` choose. A GPU is not verified before.
///
/// # Errors
/// If the model cannot be run. That an operation is wrong is what [`Operations::failure`] says.
pub fn operations(gguf: &Gguf, options: &LoadOptions, plan: &Plan<'_>) -> Result<Operations, Error> {
    Ok(visit_backend(options, Planned { gguf, plan })??)
}

/// [`candor_verify::quick`] on the processor. `options` say which kernels and threads, and the formats of the cache.
///
/// # Errors
/// If the model cannot be run.
pub fn quick(gguf: &Gguf, options: &LoadOptions) -> Result<Operations, Error> {
    let options = options.clone().device(Device::Cpu).placement(Placement::Planned);
    visit_backend(&options, Quick { gguf, options: &options })?
}

struct Planned<'a> {
    gguf: &'a Gguf,
    plan: &'a Plan<'a>,
}

impl BackendVisitor for Planned<'_> {
    type Output = Result<Operations, candor_models::Error>;

    fn visit<B>(self, ops: B, _: String) -> Self::Output
    where
        B: Ops<Weight: Send + Sync, Buf: Send, Kv: Send, Snapshot: Send, Rope: Send + Sync, Routes: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        candor_verify::operations(self.gguf, ops, self.plan)
    }
}

struct Quick<'a> {
    gguf: &'a Gguf,
    options: &'a LoadOptions,
}

impl BackendVisitor for Quick<'_> {
    type Output = Result<Operations, Error>;

    fn visit<B>(self, ops: B, _: String) -> Self::Output
    where
        B: Ops<Weight: Send + Sync, Buf: Send, Kv: Send, Snapshot: Send, Rope: Send + Sync, Routes: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let LoadOptions { session, activations, .. } = self.options;
        let exact = *activations == Activations::F32;
        now(async { Ok(candor_verify::quick(self.gguf, ops, session.keys, session.values, exact).await?) })
    }
}
