//! An opened device: what all sessions on it share.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use candor_quant::Format;
use wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, Buffer, BufferBindingType,
    BufferDescriptor, BufferUsages, ComputePipeline, ComputePipelineDescriptor, DeviceDescriptor, DeviceType,
    ErrorFilter, ErrorScopeGuard, MemoryHints, PipelineLayoutDescriptor, PollType, Queue, ShaderModule,
    ShaderModuleDescriptor, ShaderRuntimeChecks, ShaderSource, ShaderStages, SubmissionIndex, Trace,
};

use crate::compiled::Compiled;
use crate::counters::Account;
use crate::fault::Fault;
use crate::kernel::{Access, Kernel, bindings};
use crate::{Dequant, Error, GpuOptions, Variant, adapter, cooperative, times};

/// A device, its queue and the pipelines compiled so far.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: Queue,
    pub(crate) fault: Fault,
    pub(crate) variant: Variant,
    pub(crate) dequant: Dequant,
    pub(crate) timeout: Duration,
    /// Multiply-adds that are handed over at once.
    pub(crate) work: u64,
    /// Dispatches that are.
    pub(crate) ahead: u32,
    /// Most bytes of one part of a weight.
    pub(crate) part_bytes: u64,
    /// Most bytes that can be bound at all.
    pub(crate) binding_bytes: u64,
    pub(crate) name: String,
    pub(crate) backend: String,
    #[cfg(feature = "faults")]
    edits: Vec<crate::ShaderEdit>,
    /// Pipelines on disk.
    compiled: Option<Compiled>,
    pipelines: Mutex<HashMap<Kernel, Arc<Pipeline>>>,
    /// What is still to be heard of: whether something that was made is there.
    errors: Errors,
    /// Codebooks of the formats that were uploaded.
    pub(crate) books: Mutex<HashMap<Format, Storage>>,
    spares: Mutex<Weak<Spares>>,
    /// Whether it has a clock for single dispatches.
    pub(crate) has_clock: bool,
}

/// A compiled kernel.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) pipeline: ComputePipeline,
    pub(crate) layout: BindGroupLayout,
    /// Of its storage buffers, in the order in which they are declared.
    pub(crate) bindings: Vec<(u32, Access)>,
}

/// Dispatches that hardware is handed at once: an H200 wrote 292 tokens a second without, 425 with 30, 411 with 60.
const AHEAD: u32 = 32;

/// What wgpu adds to shaders. Accesses to memory keep their checks; loops go without a counter, which kept drivers from unrolling
/// them, so that memory was waited for once in each round.
pub(crate) const CHECKS: ShaderRuntimeChecks =
    ShaderRuntimeChecks { force_loop_bounding: false, ..ShaderRuntimeChecks::checked() };

/// A constant that nobody overrides: on Vulkan wgpu asks for the checks of those modules alone that have one.
pub(crate) const UNBOUNDED: &str = "\noverride unbounded = true;\n";

/// A buffer of the device, with a number of its own for keys of caches.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub(crate) buffer: Buffer,
    pub(crate) id: u32,
    /// Writes to it that were recorded.
    writes: Arc<AtomicU64>,
    _account: Arc<Account>,
}

impl Storage {
    /// How many writes to it were recorded.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Counts a write.
    pub(crate) fn written(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Buffers of weights that are gone, for others of their sizes.
#[derive(Debug, Default)]
pub(crate) struct Spares(Mutex<Vec<Arc<Storage>>>);

impl Spares {
    /// A buffer of that many bytes, where there is one.
    pub(crate) fn take(&self, bytes: u64) -> Option<Arc<Storage>> {
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = spares.iter().position(|spare| spare.buffer.size() == Device::size(bytes))?;
        // In turn: so layers of the same sizes come to take the same ones, for which there are bind groups.
        Some(spares.remove(fits))
    }

    pub(crate) fn add(&self, free: impl Iterator<Item = Arc<Storage>>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(free);
    }
}

/// The devices that are open, with what they were opened by.
static OPEN: Mutex<Vec<(GpuOptions, Weak<Device>)>> = Mutex::new(Vec::new());

impl Device {
    /// A device that is open already and has not failed, or else a new one.
    pub(crate) async fn shared(options: &GpuOptions) -> Result<Arc<Device>, Error> {
        let lock = || OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = |(with, device): &(GpuOptions, Weak<Device>)| {
            device.upgrade().filter(|device| with == options && device.fault.get().is_none())
        };
        if let Some(device) = lock().iter().find_map(usable) {
            return Ok(device);
        }
        let device = Arc::new(Device::open(options).await?);
        let mut open = lock();
        open.retain(|(_, device)| device.strong_count() > 0);
        open.push((options.clone(), Arc::downgrade(&device)));
        Ok(device)
    }

    /// A new one, that nobody else joins.
    pub(crate) async fn open(options: &GpuOptions) -> Result<Device, Error> {
        let adapter = adapter::choose(adapter::instance(), options.adapter.as_ref()).await?;
        let info = adapter.get_info();
        let mut variant = options.variant.unwrap_or_else(|| Variant::of(&adapter));
        variant.cooperative = variant.cooperative.filter(|_| options.cooperative);
        if options.exact {
            variant = variant.exact();
        }
        let hardware = info.device_type != DeviceType::Cpu && !cfg!(target_arch = "wasm32");
        let limits = adapter.limits();
        let descriptor = DeviceDescriptor {
            label: Some("candor"),
            required_features: variant.features(&adapter)? | times::features(&adapter),
            required_limits: limits.clone(),
            experimental_features: cooperative::experimental(variant.cooperative),
            memory_hints: MemoryHints::Performance,
            trace: Trace::Off,
        };
        let request = adapter.request_device(&descriptor).await;
        let (device, queue) =
            request.map_err(|error| Error::Request { adapter: info.name.clone(), reason: error.to_string() })?;
        let fault = Fault::default();
        let kept = fault.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| kept.set(error.to_string())));
        let kept = fault.clone();
        device.set_device_lost_callback(move |reason, message| {
            // A device that is dropped is lost too, and nobody asks any more.
            kept.set(format!("the device was lost ({reason:?}): {message}"));
        });
        let compiled = options.cache.as_ref().and_then(|folder| Compiled::open(&device, &info, folder));
        let binding_bytes = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        Ok(Device {
            device,
            queue,
            fault,
            variant,
            dequant: options.dequant,
            timeout: options.timeout,
            work: options.work,
            ahead: options.ahead.unwrap_or(if hardware { AHEAD } else { u32::MAX }).max(1),
            part_bytes: options.part_bytes.unwrap_or(binding_bytes).min(binding_bytes),
            binding_bytes,
            // A browser need not say what a GPU is.
            name: if info.name.is_empty() { "unnamed".to_owned() } else { info.name },
            backend: info.backend.to_string(),
            #[cfg(feature = "faults")]
            edits: options.edits.clone(),
            compiled,
            pipelines: Mutex::default(),
            errors: Errors::default(),
            books: Mutex::default(),
            spares: Mutex::default(),
            has_clock: !times::features(&adapter).is_empty(),
        })
    }

    /// A buffer that shaders read and write, full of zeros; or why it cannot be had, an error of this call alone.
    pub(crate) fn storage(&self, bytes: u64) -> Result<Storage, String> {
        let limit = self.binding_bytes;
        if bytes > limit {
            return Err(format!("out of memory: expected buffers of at most {limit} bytes, got {bytes}"));
        }
        self.caught(bytes, BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST)
    }

    /// A buffer, unless there is no memory for it.
    pub(crate) fn caught(&self, bytes: u64, usage: BufferUsages) -> Result<Storage, String> {
        let scope = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let storage = self.buffer(bytes, usage);
        match self.errors.of(scope, move |_| format!("out of memory: a buffer of {bytes} bytes")) {
            Some(what) => Err(what),
            None => Ok(storage),
        }
    }

    pub(crate) fn buffer(&self, bytes: u64, usage: BufferUsages) -> Storage {
        static IDS: AtomicU32 = AtomicU32::new(0);
        let size = Device::size(bytes);
        let buffer =
            self.device.create_buffer(&BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Storage { buffer, id, writes: Arc::default(), _account: Account::open(size) }
    }

    /// Bytes of a buffer that holds as many.
    pub(crate) fn size(bytes: u64) -> u64 {
        bytes.next_multiple_of(16).max(16)
    }

    /// Buffers of weights that are gone, of all who recycle them at present.
    pub(crate) fn spares(&self) -> Arc<Spares> {
        let mut shared = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let spares = Arc::default();
            *shared = Arc::downgrade(&spares);
            spares
        })
    }

    /// The kernel's pipeline, compiled when it is first asked for.
    pub(crate) fn pipeline(&self, kernel: Kernel) -> Arc<Pipeline> {
        let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        pipelines.entry(kernel).or_insert_with(|| Arc::new(self.compile(kernel))).clone()
    }

    fn compile(&self, kernel: Kernel) -> Pipeline {
        let label = format!("{kernel:?}");
        let source = kernel.source(self.variant);
        #[cfg(feature = "faults")]
        let source = self.edited(&label, source);
        let entry = |(binding, ty)| BindGroupLayoutEntry {
            binding,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        };
        let declared = bindings(&source);
        let storage = declared.iter().map(|&(binding, access)| {
            let ty = BufferBindingType::Storage { read_only: access == Access::Read };
            (binding, ty)
        });
        let all = std::iter::once((0, BufferBindingType::Uniform)).chain(storage);
        let entries: Vec<_> = all.map(entry).collect();
        let scope = self.device.push_error_scope(ErrorFilter::Validation);
        let layout =
            self.device.create_bind_group_layout(&BindGroupLayoutDescriptor { label: Some(&label), entries: &entries });
        let module = self.module(&label, source);
        let pipeline_layout = self.device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label: Some(&label),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = self.device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: Some(&label),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: self.compiled.as_ref().map(Compiled::cache),
        });
        if let Some(what) = self.errors.of(scope, move |error| format!("{label}: {error}")) {
            self.fault.set(what);
        }
        Pipeline { pipeline, layout, bindings: declared }
    }

    /// A shader with [`CHECKS`].
    #[allow(unsafe_code)]
    fn module(&self, label: &str, source: String) -> ShaderModule {
        let source = ShaderSource::Wgsl((source + UNBOUNDED).into());
        let descriptor = ShaderModuleDescriptor { label: Some(label), source };
        // SAFETY: accesses to memory are checked; what is not is that loops end, and all of ours do. They count up to constants
        // and numbers of a dispatch, far below 2^32, or halve a constant; a recurrence follows links from row to row, which
        // `places.rs` makes to lead onwards, and the last to nowhere.
        unsafe { self.device.create_shader_module_trusted(descriptor, CHECKS) }
    }

    /// A shader's source with the faults that are to be in it.
    #[cfg(feature = "faults")]
    fn edited(&self, kernel: &str, mut source: String) -> String {
        for edit in self.edits.iter().filter(|edit| kernel.starts_with(edit.kernel)) {
            if !source.contains(edit.from) {
                self.fault.set(format!("{kernel}: expected {:?} in its source", edit.from));
            }
            source = source.replace(edit.from, edit.to);
        }
        source
    }

    /// Keeps what went wrong with things made before, and is ready when of all of them it is known.
    pub(crate) fn poll_errors(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut pending = self.errors.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain_mut(|scope| match scope.as_mut().poll(cx) {
            Poll::Ready(error) => {
                error.into_iter().for_each(|what| self.fault.set(what));
                false
            }
            Poll::Pending => true,
        });
        if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits until all that was submitted is done.
    pub(crate) fn wait(&self) {
        self.poll(None);
    }

    /// Waits until a submission is done.
    pub(crate) fn wait_for(&self, submission: SubmissionIndex) {
        self.poll(Some(submission));
    }

    fn poll(&self, submission_index: Option<SubmissionIndex>) {
        // A device that has failed does not answer for the rest either.
        if self.fault.get().is_some() {
            return;
        }
        if let Err(error) = self.device.poll(PollType::Wait { submission_index, timeout: Some(self.timeout) }) {
            self.fault.set(format!("no answer within {} seconds: {error}", self.timeout.as_secs()));
        }
    }
}

/// Scopes of which it is not known yet whether they have caught something: a browser tells later.
#[derive(Default)]
struct Errors(Mutex<Vec<Pending>>);

/// Says in the end what went wrong, if something did.
type Pending = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

impl std::fmt::Debug for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Errors")
    }
}

impl Errors {
    /// What a scope has caught, in words; `None` where it is not known yet, too.
    fn of(&self, scope: ErrorScopeGuard, words: impl FnOnce(wgpu::Error) -> String + Send + 'static) -> Option<String> {
        let caught = scope.pop();
        let mut caught: Pending = Box::pin(async move { caught.await.map(words) });
        match caught.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(error) => error,
            Poll::Pending => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).push(caught);
                None
            }
        }
    }
}
