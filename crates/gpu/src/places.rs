//! The step buffer: all that varies from step to step, written once per step.
//!
//! `vec4<u32>` 0 is (tokens, outputs, rows, -); `vec4` t + 1 is (token, position, sequence, output) of row t.

use candor_ops::Step;
use wgpu::BufferUsages;

use crate::device::{Device, Storage};
use crate::record::Recorder;

/// The step buffer of a session, and what it holds.
#[derive(Debug, Default)]
pub(crate) struct Places {
    storage: Option<Storage>,
    words: Vec<[u32; 4]>,
    next: Vec<[u32; 4]>,
}

impl Places {
    /// The buffer with the step in it. A step that differs from the last one waits for what was recorded with that.
    pub(crate) fn stage(&mut self, device: &Device, recorder: &mut Recorder, step: &Step<'_>) -> &Storage {
        let lists = [step.tokens, step.positions, step.sequences, step.outputs];
        let rows = lists.iter().map(|list| list.len()).max().unwrap_or(0);
        self.next.clear();
        self.next.push([step.tokens.len() as u32, step.outputs.len() as u32, rows as u32, 0]);
        self.next.extend((0..rows).map(|row| lists.map(|list| list.get(row).copied().unwrap_or(0))));
        self.write(device, recorder)
    }

    /// The buffer, and which of its counts is `rows`.
    pub(crate) fn count(&mut self, device: &Device, recorder: &mut Recorder, rows: usize) -> (&Storage, u32) {
        let counts = self.words.first().map_or(&[][..], |head| &head[..2]);
        match counts.iter().position(|&count| count as usize == rows) {
            Some(which) => (self.write_again(device, recorder), which as u32),
            None => {
                self.next.clear();
                self.next.push([rows as u32, 0, 0, 0]);
                (self.write(device, recorder), 0)
            }
        }
    }

    fn write_again(&mut self, device: &Device, recorder: &mut Recorder) -> &Storage {
        self.next.clone_from(&self.words);
        self.write(device, recorder)
    }

    fn write(&mut self, device: &Device, recorder: &mut Recorder) -> &Storage {
        let bytes = (self.next.len() * 16) as u64;
        let fits = self.storage.as_ref().is_some_and(|storage| storage.buffer.size() >= bytes);
        let changed = self.words != self.next;
        if changed || !fits {
            recorder.submit(device);
        }
        if !fits {
            recorder.counters.buffers += 1;
        }
        let storage = match self.storage.take() {
            Some(storage) if fits => storage,
            _ => device.buffer(bytes.next_power_of_two().max(1024), BufferUsages::STORAGE | BufferUsages::COPY_DST),
        };
        if changed || !fits {
            device.queue.write_buffer(&storage.buffer, 0, bytemuck::cast_slice(&self.next));
            std::mem::swap(&mut self.words, &mut self.next);
        }
        self.storage.insert(storage)
    }
}
