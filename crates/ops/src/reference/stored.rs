//! The reference's cache as bytes: its numbers, already rounded, in their formats.

use std::ops::Range;

use super::{Cache, Kept};
use crate::{Error, KvFormat, Prefix, Stored, put_floats, take_floats};

impl Cache {
    /// What is at a place: the last position that came there.
    fn position(&self, prefix: Prefix, place: usize) -> usize {
        let kept = self.plan.kept(prefix.layer);
        place + (prefix.positions - 1 - place) / kept * kept
    }

    /// Heads and places of a prefix in their order, counted in heads.
    fn rows(&self, prefix: Prefix) -> Vec<usize> {
        let extent = self.plan.extent(prefix);
        let row = &|head, place| self.head(prefix.layer, prefix.sequence, self.position(prefix, place), head);
        (0..extent.heads).flat_map(|head| (0..extent.places).map(move |place| row(head, place))).collect()
    }
}

fn put(out: &mut Vec<u8>, numbers: &[f32], format: KvFormat) {
    let first = out.len();
    let format = format.format();
    out.resize(first + numbers.len() / format.block_len() * format.block_bytes(), 0);
    format.encode_direct(numbers, &mut out[first..]).expect("every format of a cache has an encoder");
}

fn take(bytes: &mut &[u8], numbers: &mut [f32], format: KvFormat) {
    let format = format.format();
    let (front, rest) = bytes.split_at(numbers.len() / format.block_len() * format.block_bytes());
    format.decode(front, numbers);
    *bytes = rest;
}

impl Stored for Cache {
    fn layers(&self) -> usize {
        self.layers.len()
    }

    fn save(&mut self, out: &mut Vec<u8>, prefix: Prefix) -> Result<(), Error> {
        let rows = self.rows(prefix);
        let Kept { plan, keys, values, states } = &self.layers[prefix.layer];
        rows.iter().for_each(|row| put(out, &keys[row * plan.key_dim..][..plan.key_dim], self.plan.keys));
        rows.iter().for_each(|row| put(out, &values[row * plan.value_dim..][..plan.value_dim], self.plan.values));
        for (states, len) in states.iter().zip(plan.states) {
            put_floats(out, &states[prefix.sequence * len..][..len]);
        }
        Ok(())
    }

    fn load(&mut self, bytes: &[u8], prefix: Prefix) -> Result<(), Error> {
        self.plan.extent_of(prefix, bytes.len())?;
        if self.plan.is_pooled(prefix.layer) {
            self.pages.reserve(prefix.sequence, 0..prefix.positions)?;
        }
        let rows = self.rows(prefix);
        let Kept { plan, keys, values, states } = &mut self.layers[prefix.layer];
        let mut rest = bytes;
        for row in &rows {
            take(&mut rest, &mut keys[row * plan.key_dim..][..plan.key_dim], self.plan.keys);
        }
        for row in &rows {
            take(&mut rest, &mut values[row * plan.value_dim..][..plan.value_dim], self.plan.values);
        }
        for (states, len) in states.iter_mut().zip(plan.states) {
            take_floats(&mut rest, &mut states[prefix.sequence * len..][..len]);
        }
        Ok(())
    }

    fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<(), Error> {
        let context = self.plan.context;
        assert!(from.max(to) < self.plan.sequences && positions <= context, "outside of the cache");
        self.pages.share(from, to, positions);
        for Kept { plan, keys, values, states } in &mut self.layers {
            for (values, dim) in [(keys, plan.key_dim), (values, plan.value_dim)] {
                let row = plan.kv_heads * dim;
                let first = from * context * row;
                values.copy_within(first..first + positions * row, to * context * row);
            }
            for (states, len) in states.iter_mut().zip(plan.states) {
                states.copy_within(from * len..(from + 1) * len, to * len);
            }
        }
        Ok(())
    }

    fn reserve(&mut self, sequence: usize, positions: Range<usize>) -> Result<bool, Error> {
        Ok(self.pages.reserve(sequence, positions).is_ok())
    }

    fn release(&mut self, sequence: usize, len: usize) {
        self.pages.release(sequence, len);
    }

    fn pages(&self) -> (usize, usize) {
        (self.pages.count() - self.pages.free(), self.pages.count())
    }
}
