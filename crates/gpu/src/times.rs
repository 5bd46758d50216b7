//! How long a device takes for each dispatch, by its own clock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use wgpu::{
    Adapter, Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePass, Device, Features, MapMode, QuerySet,
    QuerySetDescriptor, QueryType,
};

use crate::kernel::Kernel;

/// Readings of the clock in one submission at most.
const READINGS: u32 = wgpu::QUERY_SET_MAX_QUERIES;

/// What the dispatches of a kernel took that had the same number of workgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// The kernel with its constants, for people to read.
    pub kernel: String,
    /// Workgroups in three dimensions.
    pub workgroups: [u32; 3],
    /// How many dispatches there were.
    pub dispatches: u64,
    /// From the end of the dispatch before each to its own end, in all.
    pub time: Duration,
}

static ON: AtomicBool = AtomicBool::new(false);
static TIMES: LazyLock<Mutex<HashMap<Key, Sum>>> = LazyLock::new(Mutex::default);

type Key = (Kernel, [u32; 3]);

#[derive(Default)]
struct Sum {
    dispatches: u64,
    nanoseconds: f64,
}

/// Runs something, and says what each kernel took meanwhile on all devices of this process that have a clock for it. Every
/// submission is waited for. Nothing else may be timed at the same time.
pub fn timed<T>(run: impl FnOnce() -> T) -> (T, Vec<Timed>) {
    TIMES.lock().unwrap_or_else(PoisonError::into_inner).clear();
    ON.store(true, Ordering::Relaxed);
    let output = run();
    ON.store(false, Ordering::Relaxed);
    let sums = std::mem::take(&mut *TIMES.lock().unwrap_or_else(PoisonError::into_inner));
    let timed = sums.into_iter().map(|((kernel, workgroups), Sum { dispatches, nanoseconds })| Timed {
        kernel: format!("{kernel:?}"),
        workgroups,
        dispatches,
        time: Duration::from_nanos(nanoseconds as u64),
    });
    (output, timed.collect())
}

pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// What a device needs to time dispatches, if the adapter has all of it. In a browser nobody could wait for it.
pub(crate) fn features(adapter: &Adapter) -> Features {
    let needed = Features::TIMESTAMP_QUERY.union(Features::TIMESTAMP_QUERY_INSIDE_PASSES);
    let has = !cfg!(target_arch = "wasm32") && adapter.features().contains(needed);
    if has { needed } else { Features::empty() }
}

/// The readings of a recording.
#[derive(Debug)]
pub(crate) struct Clock {
    set: QuerySet,
    resolved: Buffer,
    staging: Buffer,
    /// What ended at each reading; the first of a submission is that of its beginning.
    ended: Vec<Option<Key>>,
}

impl Clock {
    pub(crate) fn new(device: &Device) -> Clock {
        let buffer = |usage| {
            let size = u64::from(READINGS) * 8;
            device.create_buffer(&BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
        };
        let set = QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count: READINGS };
        Clock {
            set: device.create_query_set(&set),
            resolved: buffer(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC),
            staging: buffer(BufferUsages::COPY_DST | BufferUsages::MAP_READ),
            ended: Vec::new(),
        }
    }

    /// Whether there is no room for another dispatch.
    pub(crate) fn is_full(&self) -> bool {
        self.ended.len() + 2 > READINGS as usize
    }

    /// Dispatches between two readings.
    pub(crate) fn dispatch(&mut self, pass: &mut ComputePass<'_>, kernel: Kernel, [x, y, z]: [u32; 3]) {
        if self.ended.is_empty() {
            self.read(pass, None);
        }
        pass.dispatch_workgroups(x, y, z);
        self.read(pass, Some((kernel, [x, y, z])));
    }

    fn read(&mut self, pass: &mut ComputePass<'_>, ended: Option<Key>) {
        pass.write_timestamp(&self.set, self.ended.len() as u32);
        self.ended.push(ended);
    }

    /// Bytes of the readings so far.
    fn bytes(&self) -> u64 {
        self.ended.len() as u64 * 8
    }

    /// Copies the readings behind what was recorded.
    pub(crate) fn copy(&self, encoder: &mut CommandEncoder) {
        if !self.ended.is_empty() {
            encoder.resolve_query_set(&self.set, 0..self.ended.len() as u32, &self.resolved, 0);
            encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, Some(self.bytes()));
        }
    }

    /// Has somebody wait for what was submitted, and adds its readings, with that many nanoseconds between two ticks, to those of the
    /// process.
    pub(crate) fn add(&mut self, period: f32, wait: impl FnOnce()) {
        if self.ended.is_empty() {
            return;
        }
        let slice = self.staging.slice(..self.bytes());
        slice.map_async(MapMode::Read, |_| {});
        wait();
        let ended = std::mem::take(&mut self.ended);
        // A device that has failed has no readings.
        if let Ok(view) = slice.get_mapped_range() {
            let ticks: Vec<u64> = view.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
            let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
            for (pair, key) in ticks.windows(2).zip(&ended[1..]) {
                if let Some(key) = key {
                    let sum = times.entry(*key).or_default();
                    sum.dispatches += 1;
                    sum.nanoseconds += pair[1].saturating_sub(pair[0]) as f64 * f64::from(period);
                }
            }
            drop(view);
            self.staging.unmap();
        }
    }
}
