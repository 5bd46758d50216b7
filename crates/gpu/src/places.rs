//! The step buffer: all that varies from step to step, written once per step.
//!
//! `vec4<u32>` 0 is (rows of prompts, outputs of those, rows, sequences); `vec4` t + 1 is (token, position, sequence,
//! output) of row t. Behind all rows, `vec4` rows + t + 1 is (end, before, next, first): the end of row t's sequence,
//! the rows before and after it in the sequence, counted from 1 or 0 where there are none, and the first row of the
//! step's t-th sequence.

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
    /// Each sequence's last row so far.
    lasts: Vec<(u32, usize)>,
}

impl Places {
    /// The buffer with the step in it. A step that differs from the last one waits for what was recorded with that.
    pub(crate) fn stage(&mut self, device: &Device, recorder: &mut Recorder, step: &Step<'_>) -> &Storage {
        let lists = [step.tokens, step.positions, step.sequences, step.outputs];
        let rows = lists.iter().map(|list| list.len()).max().unwrap_or(0);
        let row = |row: usize| lists.map(|list| list.get(row).copied().unwrap_or(0));
        let prefill = rows.saturating_sub(step.decoding);
        let outputs = step.outputs.partition_point(|&row| (row as usize) < prefill);
        let counts = [prefill, outputs, rows].map(|count| count as u32);
        let is_same = self.words.len() == 1 + 2 * rows
            && self.words[0][..3] == counts
            && self.words[1..=rows].iter().enumerate().all(|(at, words)| *words == row(at));
        if is_same {
            return self.write_again(device, recorder);
        }
        self.next.clear();
        self.next.push([counts[0], counts[1], counts[2], 0]);
        self.next.extend((0..rows).map(row));
        self.link(rows);
        self.write(device, recorder)
    }

    /// Appends how rows hang together.
    fn link(&mut self, rows: usize) {
        let Places { next, lasts, .. } = self;
        lasts.clear();
        next.resize(1 + 2 * rows, [0; 4]);
        let (known, links) = next.split_at_mut(1 + rows);
        for (at, place) in known[1..].iter().enumerate() {
            match lasts.iter_mut().find(|last| last.0 == place[2]) {
                Some((_, last)) => {
                    links[at][1] = *last as u32 + 1;
                    links[*last][2] = at as u32 + 1;
                    *last = at;
                }
                None => {
                    links[lasts.len()][3] = at as u32;
                    lasts.push((place[2], at));
                }
            }
        }
        known[0][3] = lasts.len() as u32;
        // Each row hands its sequence's end to the one before it.
        for at in (0..rows).rev() {
            let own = known[at + 1][1].saturating_add(1);
            let end = match links[at][2] {
                0 => own,
                next => own.max(links[next as usize - 1][0]),
            };
            links[at][0] = end;
        }
    }

    /// Sequences of the step that was staged.
    pub(crate) fn sequences(&self) -> u32 {
        self.words.first().map_or(0, |head| head[3])
    }

    /// The buffer, and which of its counts is `prefill`: how many rows are of prompts, and where those that decode
    /// begin.
    pub(crate) fn count(&mut self, device: &Device, recorder: &mut Recorder, prefill: usize) -> (&Storage, u32) {
        let counts = self.words.first().map_or(&[][..], |head| &head[..2]);
        match counts.iter().position(|&count| count as usize == prefill) {
            Some(which) => (self.write_again(device, recorder), which as u32),
            None => {
                self.next.clear();
                self.next.push([prefill as u32, 0, 0, 0]);
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
