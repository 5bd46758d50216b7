//! The cache's contents as bytes: rows without what fills them up, their scales before their quants as in files.

use std::ops::Range;

use candor_ops::{Error, PAGE, Pages, Prefix, Stored};

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

    fn read<'a>(&self, pieces: impl Iterator<Item = Piece<'a>>) -> Result<Vec<u8>, Error> {
        let pieces: Vec<_> = pieces.collect();
        read(&self.device, &pieces).map_err(|what| self.failed(what))
    }
}

impl Stored for Cache {
    fn layers(&self) -> usize {
        self.layers.len()
    }

    fn save(&mut self, out: &mut Vec<u8>, prefix: Prefix) -> Result<(), Error> {
        let extent = self.plan.extent(prefix);
        let layer = &self.layers[prefix.layer];
        let runs = layer.runs((prefix.sequence, &self.pages), extent.places);
        for (i, side) in layer.sides.iter().enumerate() {
            let bytes = self.read(layer.heads(i, &runs))?;
            bytes.chunks_exact(side.stride.max(1) * 4).for_each(|row| side.save(out, row, extent.rows[i]));
        }
        out.extend(self.read(layer.states(prefix.sequence))?);
        Ok(())
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

/// The pieces one after the other.
fn read(device: &Device, pieces: &[Piece<'_>]) -> Result<Vec<u8>, String> {
    let bytes: usize = pieces.iter().map(|piece| piece.len).sum();
    let mut out = Vec::new();
    if bytes > 0 {
        let staging = device.staging(bytes as u64)?;
        let mut encoder = device.device.create_command_encoder(&Default::default());
        let mut to = 0;
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
            let (first, len) = (piece.first as u64, piece.len as u64);
            encoder.copy_buffer_to_buffer(&piece.storage.buffer, first, &staging.buffer, to, Some(len));
            to += len;
        }
        device.queue.submit([encoder.finish()]);
        device.mapped(&staging, bytes as u64, &mut |read| out.extend_from_slice(read));
    }
    match device.fault.get() {
        Some(what) => Err(what),
        None => Ok(out),
    }
}
