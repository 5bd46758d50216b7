//! The recording of a session: operations gather in one compute pass of one command encoder until something is read.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BufferUsages, CommandEncoder, ComputePass, SubmissionIndex,
};

use crate::Counters;
use crate::asked::Asked;
use crate::buffer::Snapshot;
use crate::device::{Device, Pipeline, Storage};
use crate::kernel::{Access, Kernel};
use crate::times::{self, Clock};

/// Numbers of a dispatch that lie in its uniform buffer.
pub(crate) const NUMBERS: usize = 20;

/// Buffers of a dispatch at most.
const BUFFERS: usize = 8;

/// Bind groups kept at most: far more than a model has dispatches, so that only a session of ever new shapes starts over.
const GROUPS: usize = 1 << 14;

/// What decides on a bind group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    kernel: Kernel,
    buffers: [u32; BUFFERS],
    numbers: [u32; NUMBERS],
}

/// Operations on their way to the queue.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    open: Option<Open>,
    groups: HashMap<Key, Bound>,
    /// Where results wait to be read by the host: those that no read has.
    staging: Vec<Storage>,
    /// Multiply-adds that were recorded and not handed over.
    work: u64,
    /// Dispatches that were.
    ahead: u32,
    /// What was handed over and nobody has waited for.
    submitted: Vec<SubmissionIndex>,
    /// What times dispatches, from the first on that was timed.
    clock: Option<Clock>,
    pub(crate) counters: Counters,
}

#[derive(Debug)]
struct Open {
    // The pass goes before its encoder.
    pass: ComputePass<'static>,
    encoder: CommandEncoder,
    /// The pipeline that is set.
    current: Option<Kernel>,
}

#[derive(Debug)]
struct Bound {
    pipeline: Arc<Pipeline>,
    group: BindGroup,
}

/// A kernel with what it works on.
#[derive(Debug)]
pub(crate) struct Dispatch<'a> {
    pub(crate) kernel: Kernel,
    /// In the order in which the shader declares them.
    pub(crate) buffers: &'a [&'a Storage],
    /// The shader's `P`.
    pub(crate) numbers: &'a [u32],
    /// Workgroups.
    pub(crate) grid: [u32; 3],
}

impl Recorder {
    pub(crate) fn dispatch(&mut self, device: &Device, dispatch: &Dispatch<'_>) {
        if dispatch.grid.contains(&0) {
            return;
        }
        let timed = device.has_clock && times::is_on();
        if timed && self.clock.as_ref().is_some_and(Clock::is_full) {
            self.submit(device);
        }
        let Recorder { open, groups, counters, clock, .. } = self;
        let mut key = Key { kernel: dispatch.kernel, buffers: [u32::MAX; BUFFERS], numbers: [0; NUMBERS] };
        key.buffers.iter_mut().zip(dispatch.buffers).for_each(|(id, storage)| *id = storage.id);
        key.numbers[..dispatch.numbers.len()].copy_from_slice(dispatch.numbers);
        if groups.len() >= GROUPS {
            groups.clear();
        }
        let bound = groups.entry(key).or_insert_with(|| {
            counters.bind_groups += 1;
            counters.buffers += 1;
            bind(device, &key, dispatch.buffers)
        });
        let open = open.get_or_insert_with(|| {
            counters.passes += 1;
            let mut encoder = device.device.create_command_encoder(&Default::default());
            let pass = encoder.begin_compute_pass(&Default::default()).forget_lifetime();
            Open { pass, encoder, current: None }
        });
        if open.current != Some(dispatch.kernel) {
            open.pass.set_pipeline(&bound.pipeline.pipeline);
            open.current = Some(dispatch.kernel);
        }
        open.pass.set_bind_group(0, &bound.group, &[]);
        let [x, y, z] = dispatch.grid;
        let clock = timed.then(|| clock.get_or_insert_with(|| Clock::new(&device.device)));
        match clock {
            Some(clock) => clock.dispatch(&mut open.pass, dispatch.kernel, dispatch.grid),
            None => open.pass.dispatch_workgroups(x, y, z),
        }
        for (storage, (_, access)) in dispatch.buffers.iter().zip(&bound.pipeline.bindings) {
            if *access == Access::Write {
                storage.written();
            }
        }
        counters.dispatches += 1;
        self.ahead += 1;
        if self.ahead >= device.ahead {
            self.submit(device);
        }
    }

    /// Counts multiply-adds of what was recorded last, and hands over what was when they are many: drivers take a device for
    /// hung that is busy with one submission for seconds.
    pub(crate) fn worked(&mut self, device: &Device, multiply_adds: usize) {
        self.work += multiply_adds as u64;
        if self.work >= device.work {
            self.submit(device);
        }
    }

    /// Hands what was recorded to the queue.
    pub(crate) fn submit(&mut self, device: &Device) {
        if let Some(Open { pass, encoder, .. }) = self.open.take() {
            drop(pass);
            self.hand_over(device, encoder);
        }
    }

    fn hand_over(&mut self, device: &Device, mut encoder: CommandEncoder) {
        if let Some(clock) = &self.clock {
            clock.copy(&mut encoder);
        }
        self.submitted.push(device.queue.submit([encoder.finish()]));
        if let Some(clock) = &mut self.clock {
            clock.add(device.queue.get_timestamp_period(), || device.wait());
        }
        self.counters.submits += 1;
        (self.work, self.ahead) = (0, 0);
    }

    /// Copies words of a buffer behind what was recorded before.
    pub(crate) fn copy(&mut self, device: &Device, from: &Storage, to: &Storage, bytes: u64) {
        let mut encoder = self.encoder(device);
        encoder.copy_buffer_to_buffer(&from.buffer, 0, &to.buffer, 0, Some(bytes));
        to.written();
        self.hand_over(device, encoder);
    }

    fn encoder(&mut self, device: &Device) -> CommandEncoder {
        match self.open.take() {
            Some(Open { pass, encoder, .. }) => {
                drop(pass);
                encoder
            }
            None => device.device.create_command_encoder(&Default::default()),
        }
    }

    /// Hands what was recorded to the queue and asks for the first `bytes` of a buffer; `None` where the device has no memory
    /// for them, which its fault tells.
    pub(crate) fn ask(&mut self, device: &Device, from: &Storage, bytes: u64) -> Option<Asked> {
        let fits = self.staging.iter().position(|staging| staging.buffer.size() >= bytes);
        let staging = match fits {
            Some(fits) => self.staging.swap_remove(fits),
            None => {
                self.staging.clear();
                self.counters.buffers += 1;
                let staging = device.staging(bytes.next_power_of_two());
                staging.map_err(|what| device.fault.set(what)).ok()?
            }
        };
        let mut encoder = self.encoder(device);
        encoder.copy_buffer_to_buffer(&from.buffer, 0, &staging.buffer, 0, Some(bytes));
        self.hand_over(device, encoder);
        self.counters.bytes_read += bytes;
        Some(Asked::new(staging, bytes))
    }

    /// Shows `out` what a snapshot holds, or nothing where the device has failed. Where nobody can wait, the read must have been
    /// polled until it was ready.
    pub(crate) fn read(&mut self, device: &Device, snapshot: &Snapshot, out: &mut dyn FnMut(&[u8])) {
        if snapshot.len == 0 {
            return;
        }
        if let Some(asked) = &snapshot.asked {
            return asked.show(device, out);
        }
        let Some(asked) = self.ask(device, &snapshot.storage, snapshot.bytes()) else { return };
        // One after the other: each has the device's time to answer.
        self.submitted.drain(..).for_each(|index| device.wait_for(index));
        asked.wait(device);
        asked.show(device, out);
        self.staging.push(asked.staging);
    }

    /// Asks for what a snapshot holds, and is ready when it has come.
    pub(crate) fn poll(&mut self, device: &Device, snapshot: &mut Snapshot, cx: &mut Context<'_>) -> Poll<()> {
        if snapshot.asked.is_none() && snapshot.len > 0 {
            snapshot.asked = self.ask(device, &snapshot.storage, snapshot.bytes());
            // They are done when this one is read.
            self.submitted.clear();
        }
        let errors = device.poll_errors(cx);
        let answer = snapshot.asked.as_ref().map_or(Poll::Ready(()), |asked| asked.poll(cx));
        // A device that has failed may never answer.
        if device.fault.get().is_some() || errors.is_ready() && answer.is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

fn bind(device: &Device, key: &Key, buffers: &[&Storage]) -> Bound {
    let pipeline = device.pipeline(key.kernel);
    let uniform = device.buffer(4 * NUMBERS as u64, BufferUsages::UNIFORM | BufferUsages::COPY_DST);
    device.queue.write_buffer(&uniform.buffer, 0, bytemuck::cast_slice(&key.numbers));
    // A format's points are declared last. They are there, since its weights are.
    let book = key.kernel.format().and_then(|format| device.book(format).ok().flatten());
    let all = std::iter::once(&uniform).chain(buffers.iter().copied()).chain(&book);
    let bindings = std::iter::once(0).chain(pipeline.bindings.iter().map(|&(binding, _)| binding));
    let entries: Vec<_> = bindings
        .zip(all)
        .map(|(binding, storage)| BindGroupEntry { binding, resource: storage.buffer.as_entire_binding() })
        .collect();
    let layout = &pipeline.layout;
    let group = device.device.create_bind_group(&BindGroupDescriptor { label: None, layout, entries: &entries });
    Bound { pipeline, group }
}
