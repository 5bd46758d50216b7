//! The check before a processor's first token, as a server makes it: the one that a GPU passes before a model is loaded on it.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use candor::{Activations, BackendVisitor, Device, Gguf, LoadOptions, Ops, Placement, visit_backend};
use candor_verify::{Operations, quick};

use super::VerifyError;

/// Holds the processor's operations against the formulas: those of a model's first layers, as many as have all that any of
/// them has, and its head, for a prompt and a token after it. A sample of each product's outputs is checked.
///
/// `options` say which kernels and threads, and the formats of the cache.
///
/// # Errors
/// If the model cannot be run. That an operation is wrong is what [`Operations::failure`] says.
pub fn processor(gguf: &Gguf, options: &LoadOptions) -> Result<Operations, VerifyError> {
    let options = options.clone().device(Device::Cpu).placement(Placement::Planned);
    let found = visit_backend(&options, Quick { gguf, options: &options })?;
    Ok(found.map_err(candor::Error::from)?)
}

struct Quick<'a> {
    gguf: &'a Gguf,
    options: &'a LoadOptions,
}

impl BackendVisitor for Quick<'_> {
    type Output = Result<Operations, candor_models::Error>;

    fn visit<B>(self, ops: B, _: String) -> Self::Output
    where
        B: Ops<Weight: Send + Sync, Buf: Send, Kv: Send, Snapshot: Send, Rope: Send + Sync, Routes: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let LoadOptions { session, activations, .. } = self.options;
        let checked = quick(self.gguf, ops, session.keys, session.values, *activations == Activations::F32);
        match pin!(checked).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => found,
            Poll::Pending => unreachable!("a processor waits for no device"),
        }
    }
}
