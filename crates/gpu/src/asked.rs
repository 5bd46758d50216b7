//! Reads of the device's buffers by the host.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use wgpu::{BufferAsyncError, BufferUsages, MapMode};

use crate::device::{Device, Storage};

/// A read that is under way.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) staging: Storage,
    bytes: u64,
    answer: Arc<Answer>,
}

/// What came of mapping. Polling the device calls the callbacks, so it may be another session that does so a moment
/// after this one's wait is over.
#[derive(Debug, Default)]
struct Answer {
    state: Mutex<Mapping>,
    came: Condvar,
}

/// A mapping's result, once it is there, and the task to wake then.
#[derive(Debug, Default)]
struct Mapping {
    result: Option<Result<(), BufferAsyncError>>,
    waker: Option<Waker>,
}

impl Asked {
    /// Asks for the first `bytes` of a buffer to which what was submitted writes.
    pub(crate) fn new(staging: Storage, bytes: u64) -> Asked {
        let answer = Arc::<Answer>::default();
        let given = answer.clone();
        staging.buffer.map_async(MapMode::Read, 0..bytes, move |result| {
            let waker = {
                let mut state = given.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.result = Some(result);
                state.waker.take()
            };
            given.came.notify_all();
            waker.into_iter().for_each(Waker::wake);
        });
        Asked { staging, bytes, answer }
    }

    /// Waits until what was submitted is done and the answer is there; in a browser for nothing.
    pub(crate) fn wait(&self, device: &Device) {
        device.wait();
        if cfg!(target_arch = "wasm32") || device.fault.get().is_some() {
            return;
        }
        let state = self.answer.state.lock().unwrap_or_else(PoisonError::into_inner);
        let came = self.answer.came.wait_timeout_while(state, device.timeout, |state| state.result.is_none());
        drop(came.unwrap_or_else(PoisonError::into_inner));
    }

    /// Ready when the answer is there.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.answer.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.result.is_some() {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Shows `out` what came; nothing where the device has failed. Once.
    pub(crate) fn show(&self, device: &Device, out: &mut dyn FnMut(&[u8])) {
        let answer = self.answer.state.lock().unwrap_or_else(PoisonError::into_inner).result.take();
        if device.fault.get().is_none() {
            match answer {
                Some(Ok(())) => match self.staging.buffer.get_mapped_range(0..self.bytes) {
                    Ok(view) => {
                        out(&view);
                        drop(view);
                    }
                    Err(error) => device.fault.set(format!("reading back: {error}")),
                },
                Some(Err(error)) => device.fault.set(format!("reading back: {error}")),
                None => device.fault.set("reading back: the device does not answer".to_owned()),
            }
        }
        self.staging.buffer.unmap();
    }
}

impl Device {
    /// A buffer from which the host reads; or why it cannot be had, an error of this call alone.
    pub(crate) fn staging(&self, bytes: u64) -> Result<Storage, String> {
        self.caught(bytes, BufferUsages::MAP_READ | BufferUsages::COPY_DST)
    }
}
