//! The cache's contents as bytes: rows without what fills them up, their scales before their quants as in files.

use std::mem;
use std::ops::Range;
use std::task::{Context, Poll};

use candor_ops::{Error, PAGE, Pages, Prefix, Stored};

use crate::asked::Asked;
use crate::cache::{Cache, Copy, Given, Layer, Side};
use crate::device::{Device, Storage};

/// A piece of a buffer, in bytes.
struct Piece<'a> {
    storage: &'a Storage,
    first: usize,
    len: usize,
}

impl Side {
    /// Appends a row as files have it.
    fn save(&self, out: &mut Vec<u8>, row: &[u8], len: usize) {
        match self.kind.block() {
            None => out.extend_from_slice(&row[..len]),
            Some(quants) => {
                let scales = row[self.words * 4..].chunks_exact(4);
                for (quants, scale) in row[..self.words * 4].chunks_exact(quants).zip(scales) {
                    out.extend_from_slice(&scale[..2]);
                    out.extend_from_slice(quants);
                }
            }
        }
    }

    /// The same the other way, into a row of zeros.
    fn load(&self, row: &mut [u8], from: &[u8]) {
        match self.kind.block() {
            None => row[..from.len()].copy_from_slice(from),
            Some(quants) => {
                let (all, scales) = row.split_at_mut(self.words * 4);
                let rows = all.chunks_exact_mut(quants).zip(scales.chunks_exact_mut(4));
                for ((all, scale), block) in rows.zip(from.chunks_exact(2 + quants)) {
                    scale[..2].copy_from_slice(&block[..2]);
                    all.copy_from_slice(&block[2..]);
                }
            }
        }
    }
}

impl Layer {
    /// The runs of places that `count` positions of a sequence lie in: where each begins, and how long it is.
    fn runs(&self, (sequence, pages): (usize, &Pages), count: usize) -> Vec<(usize, usize)> {
        if !self.paged {
            return vec![(sequence * self.kept, count)];
        }
        let firsts = (0..count).step_by(PAGE);
        firsts.map(|first| (pages.page(sequence, first) * PAGE, PAGE.min(count - first))).collect()
    }

    /// The runs in each head, among keys (0) or among values (1).
    fn heads(&self, side: usize, runs: &[(usize, usize)]) -> impl Iterator<Item = Piece<'_>> {
        let row = self.sides[side].stride * 4;
        let storage = &self.storage[side];
        (0..self.plan.kv_heads).flat_map(move |head| {
            let head = head * self.places;
            runs.iter().map(move |(first, len)| Piece { storage, first: (head + first) * row, len: len * row })
        })
    }

    fn states(&self, sequence: usize) -> impl Iterator<Item = Piece<'_>> {
        let states = self.states.iter().zip(self.plan.states);
        states.map(move |(storage, len)| Piece { storage, first: sequence * len * 4, len: len * 4 })
    }
}

impl Cache {
    fn failed(&self, what: String) -> Error {
        Error::Device { device: format!("gpu {}", self.device.name), what }
    }

    /// Asks for the keys, the values and the states of a layer.
    fn ask(&self, prefix: Prefix) -> Result<[Option<Asked>; 3], Error> {
        let extent = self.plan.extent(prefix);
        let layer = &self.layers[prefix.layer];
        let runs = layer.runs((prefix.sequence, &self.pages), extent.places);
        let [keys, values] = [0, 1].map(|side| layer.heads(side, &runs).collect::<Vec<_>>());
        let states: Vec<_> = layer.states(prefix.sequence).collect();
        let ask = |pieces: &[Piece<'_>]| ask(&self.device, pieces).map_err(|what| self.failed(what));
        Ok([ask(&keys)?, ask(&values)?, ask(&states)?])
    }

    /// Appends what came.
    fn take(&self, out: &mut Vec<u8>, prefix: Prefix, asked: [Option<Asked>; 3]) -> Result<(), Error> {
        let extent = self.plan.extent(prefix);
        let layer = &self.layers[prefix.layer];
        for (i, asked) in asked.iter().enumerate() {
            let Some(asked) = asked else { continue };
            asked.show(&self.device, &mut |bytes| match layer.sides.get(i) {
                Some(side) => {
                    bytes.chunks_exact(side.stride.max(1) * 4).for_each(|row| side.save(out, row, extent.rows[i]));
                }
                None => out.extend_from_slice(bytes),
            });
        }
        self.device.fault.get().map_or(Ok(()), |what| Err(self.failed(what)))
    }
}

impl Stored for Cache {
    fn layers(&self) -> usize {
        self.layers.len()
    }

    fn save(&mut self, out: &mut Vec<u8>, prefix: Prefix) -> Result<(), Error> {
        let asked = self.ask(prefix)?;
        asked.iter().flatten().for_each(|asked| asked.wait(&self.device));
        self.take(out, prefix, asked)
    }

    fn begin_save(&mut self, prefix: Prefix) -> Result<(), Error> {
        if cfg!(target_arch = "wasm32") {
            self.saving = self.ask(prefix)?;
        }
        Ok(())
    }

    fn poll_save(&mut self, out: &mut Vec<u8>, prefix: Prefix, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !cfg!(target_arch = "wasm32") {
            return Poll::Ready(self.save(out, prefix));
        }
        let errors = self.device.poll_errors(cx);
        let waits = self.saving.iter().flatten().filter(|asked| asked.poll(cx).is_pending()).count();
        if self.device.fault.get().is_none() && (errors.is_pending() || waits > 0) {
            return Poll::Pending;
        }
        let asked = mem::take(&mut self.saving);
        Poll::Ready(self.take(out, prefix, asked))
    }

    fn load(&mut self, bytes: &[u8], prefix: Prefix) -> Result<(), Error> {
        let extent = self.plan.extent_of(prefix, bytes.len())?;
        if self.plan.is_pooled(prefix.layer) {
            let mut given = Given::default();
            self.give(prefix.sequence, 0..extent.places, &mut given)?;
            self.settle(given).map_err(|what| self.failed(what))?;
        }
        let layer = &self.layers[prefix.layer];
        let runs = layer.runs((prefix.sequence, &self.pages), extent.places);
        let mut rest = bytes;
        let mut scratch = Vec::new();
        for (i, side) in layer.sides.iter().enumerate() {
            let row = side.stride.max(1) * 4;
            for piece in layer.heads(i, &runs) {
                let (run, after) = rest.split_at(piece.len / row * extent.rows[i]);
                scratch.clear();
                scratch.resize(piece.len, 0);
                scratch
                    .chunks_exact_mut(row)
                    .zip(run.chunks_exact(extent.rows[i].max(1)))
                    .for_each(|(row, from)| side.load(row, from));
                self.device.queue.write_buffer(&piece.storage.buffer, piece.first as u64, &scratch);
                rest = after;
            }
        }
        for piece in layer.states(prefix.sequence) {
            let (state, after) = rest.split_at(piece.len);
            self.device.queue.write_buffer(&piece.storage.buffer, piece.first as u64, state);
            rest = after;
        }
        // What waits on its way up takes memory.
        self.device.queue.submit([]);
        self.device.wait();
        self.device.fault.get().map_or(Ok(()), |what| Err(self.failed(what)))
    }

    fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<(), Error> {
        self.pages.share(from, to, positions);
        if from == to {
            return Ok(());
        }
        self.write_table(to);
        let own = self.layers.iter().filter(|layer| !layer.paged);
        let runs = own.flat_map(|layer| layer.copies([from, to].map(|sequence| sequence * layer.kept), layer.kept));
        let states = self.layers.iter().flat_map(|layer| {
            layer.states.iter().zip(layer.plan.states).map(move |(storage, len)| {
                let [from, to] = [from, to].map(|sequence| sequence * len * 4);
                Copy { storage, from, to, len: len * 4 }
            })
        });
        self.copy(&runs.chain(states).collect::<Vec<_>>()).map_err(|what| self.failed(what))
    }

    fn reserve(&mut self, sequence: usize, positions: Range<usize>) -> Result<bool, Error> {
        let mut given = Given::default();
        if self.give(sequence, positions, &mut given).is_err() {
            return Ok(false);
        }
        self.settle(given).map_err(|what| self.failed(what))?;
        Ok(true)
    }

    fn release(&mut self, sequence: usize, len: usize) {
        if self.pages.release(sequence, len) > 0 {
            self.write_table(sequence);
        }
    }

    fn pages(&self) -> (usize, usize) {
        (self.pages.count() - self.pages.free(), self.pages.count())
    }
}

/// Asks for pieces, one after the other; `None` where they have no bytes.
fn ask(device: &Device, pieces: &[Piece<'_>]) -> Result<Option<Asked>, String> {
    let bytes: usize = pieces.iter().map(|piece| piece.len).sum();
    if bytes == 0 {
        return Ok(None);
    }
    let staging = device.staging(bytes as u64)?;
    let mut encoder = device.device.create_command_encoder(&Default::default());
    let mut to = 0;
    for piece in pieces.iter().filter(|piece| piece.len > 0) {
        let (first, len) = (piece.first as u64, piece.len as u64);
        encoder.copy_buffer_to_buffer(&piece.storage.buffer, first, &staging.buffer, to, Some(len));
        to += len;
    }
    device.queue.submit([encoder.finish()]);
    Ok(Some(Asked::new(staging, bytes as u64)))
}
