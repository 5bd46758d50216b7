//! A session's recording on a shared device, and what it makes there.

use std::sync::Arc;

use candor_ops::Error;
use candor_quant::Format;
use wgpu::BufferUsages;

use crate::buffer::Pool;
use crate::constants::{Constant, Floats};
use crate::device::{Device, Spares, Storage};
use crate::format::{QUAD, RUN};
use crate::kernel::Kernel;
use crate::places::Places;
use crate::record::{Dispatch, Recorder};
use crate::{Counters, GpuOptions, Variant, Weight};

/// A GPU. Clones share the device, its weights and its compiled shaders; each has a recording of its own.
#[derive(Debug)]
pub struct Gpu {
    pub(crate) device: Arc<Device>,
    pub(crate) recorder: Recorder,
    pub(crate) places: Places,
    pub(crate) pool: Pool,
    pub(crate) constants: Vec<(Constant, Storage)>,
    pub(crate) refused: Option<String>,
    /// Where buffers of its weights come from and go to.
    pub(crate) spares: Option<Arc<Spares>>,
}

impl Clone for Gpu {
    fn clone(&self) -> Gpu {
        Gpu::on(self.device.clone())
    }
}

impl Gpu {
    fn on(device: Arc<Device>) -> Gpu {
        let (recorder, places, pool) = (Recorder::default(), Places::default(), Pool::default());
        Gpu { device, recorder, places, pool, constants: Vec::new(), refused: None, spares: None }
    }

    /// Opens a device, or joins those who have opened it with the same options.
    ///
    /// # Errors
    /// If there is no such adapter, or it has no device to give.
    pub async fn open(options: &GpuOptions) -> Result<Gpu, crate::Error> {
        Ok(Gpu::on(Device::shared(options).await?))
    }

    /// [`Gpu::open`], waited for.
    ///
    /// # Errors
    /// If there is no such adapter, or it has no device to give.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(options: &GpuOptions) -> Result<Gpu, crate::Error> {
        pollster::block_on(Gpu::open(options))
    }

    /// [`Gpu::new`], of a device that nobody else joins: what fails on it concerns nobody else.
    ///
    /// # Errors
    /// If there is no such adapter, or it has no device to give.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn apart(options: &GpuOptions) -> Result<Gpu, crate::Error> {
        Ok(Gpu::on(Arc::new(pollster::block_on(Device::open(options))?)))
    }

    /// Ready when it is known of all buffers and shaders that were made so far whether the device has them: at once, but in a
    /// browser.
    ///
    /// # Errors
    /// If the device has failed, or lacks one of them.
    pub async fn settled(&self) -> Result<(), Error> {
        std::future::poll_fn(|cx| self.device.poll_errors(cx)).await;
        self.device.fault.get().map_or(Ok(()), |what| Err(self.failed(what)))
    }

    pub(crate) fn failed(&self, what: String) -> Error {
        Error::Device { device: format!("gpu {}", self.device.name), what }
    }

    /// The device's name and the interface to it, for people to read: `llvmpipe (LLVM 15), vulkan`.
    pub fn label(&self) -> String {
        format!("{}, {}", self.device.name, self.device.backend)
    }

    /// Which ways of computing are in use.
    pub fn variant(&self) -> Variant {
        self.device.variant
    }

    /// What this session has asked of the device so far.
    pub fn counters(&self) -> Counters {
        self.recorder.counters
    }

    /// Loses the device, as one that hangs or is unplugged is lost.
    #[cfg(feature = "faults")]
    pub fn lose(&self) {
        self.device.device.destroy();
        self.device.wait();
    }

    pub(crate) fn dispatch(&mut self, dispatch: &Dispatch<'_>) {
        self.recorder.dispatch(&self.device, dispatch);
    }

    pub(crate) fn storage(&mut self, bytes: u64) -> Storage {
        self.recorder.counters.buffers += 1;
        self.device.storage(bytes).unwrap_or_else(|what| {
            self.refuse(what);
            // Something to bind: what is computed now is reported as worthless.
            self.device.buffer(0, BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST)
        })
    }

    /// Keeps what this session was refused, for [`candor_ops::Prims::finish`] to tell.
    pub(crate) fn refuse(&mut self, what: String) {
        self.refused.get_or_insert(what);
    }

    /// A buffer from the pool, of at least `bytes` bytes and at most four times as many.
    pub(crate) fn pooled(&mut self, bytes: u64) -> Arc<Storage> {
        let fits = |storage: &Storage| (bytes..=bytes.saturating_mul(4).max(1024)).contains(&storage.buffer.size());
        if let Some(free) = self.pool.0.iter().find(|item| Arc::strong_count(item) == 1 && fits(item)) {
            return free.clone();
        }
        let storage = Arc::new(self.storage(bytes.next_power_of_two()));
        self.pool.0.push(storage.clone());
        storage
    }

    /// The table, made when it is first asked for.
    pub(crate) fn constant(&mut self, constant: Constant) -> Storage {
        if let Some((_, storage)) = self.constants.iter().find(|(known, _)| *known == constant) {
            return storage.clone();
        }
        let words = constant.words();
        let storage = self.storage((words.len() * 4) as u64);
        self.device.queue.write_buffer(&storage.buffer, 0, bytemuck::cast_slice(&words));
        self.constants.push((constant, storage.clone()));
        storage
    }

    /// A small matrix as floats, which it usually is already.
    pub(crate) fn floats(&mut self, w: &Weight) -> Floats {
        let stride = w.runs * RUN as u32;
        if let (Format::F32, [part]) = (w.format, &w.parts[..]) {
            return Floats { storage: part.storage.clone(), stride };
        }
        let rows: u32 = w.parts.iter().map(|part| part.rows).sum();
        let storage = self.pooled(u64::from(rows) * u64::from(w.runs) * 4 * QUAD as u64);
        for part in &w.parts {
            self.dispatch(&Dispatch {
                kernel: Kernel::Unpack(w.format),
                buffers: &[&part.storage, &storage],
                numbers: &[w.runs, w.stride, w.tails, part.first],
                grid: [w.runs.div_ceil(64), part.rows, 1],
            });
        }
        Floats { storage, stride }
    }
}
