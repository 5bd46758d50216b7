//! The cache's contents as bytes: keys out of their panels, values without what fills their rows up, states in order.

use std::ops::Range;

use candor_ops::{Error, Extent, Moved, PAGE, Prefix, Stored, put_floats, take_floats};

use super::{Kv, Layer, PANEL};

impl Kv {
    /// The page of each place that a prefix takes in every head of a layer, and the place there.
    fn places(&self, prefix: Prefix, extent: &Extent) -> Vec<(usize, usize)> {
        let pages = self.pages_of(prefix.layer);
        // A layer without heads was never written to.
        let count = if extent.heads == 0 { 0 } else { extent.places };
        (0..count).map(|place| (pages.page(prefix.sequence, place), place % PAGE)).collect()
    }
}

impl Stored for Kv {
    fn layers(&self) -> usize {
        self.layers.len()
    }

    fn save(&mut self, out: &mut Vec<u8>, prefix: Prefix) -> Result<(), Error> {
        let extent = self.plan.extent(prefix);
        let [key, value] = extent.rows;
        let places = self.places(prefix, &extent);
        let layer = &self.layers[prefix.layer];
        for head in 0..extent.heads {
            let panels = layer.keys.head(head);
            for &(page, place) in &places {
                let first = out.len();
                out.resize(first + key, 0);
                let panel = panels.range(page, place / PANEL, 1);
                panels.kernels.take_key(&mut out[first..], panel, place % PANEL);
            }
        }
        for head in 0..extent.heads {
            let rows = layer.values.head(head);
            places.iter().for_each(|&(page, place)| out.extend_from_slice(&rows.range(page, place, 1)[..value]));
        }
        for state in &layer.states {
            put_floats(out, &state.in_order(prefix.sequence));
        }
        Ok(())
    }

    fn load(&mut self, bytes: &[u8], prefix: Prefix) -> Result<(), Error> {
        let extent = self.plan.extent_of(prefix, bytes.len())?;
        let [key, value] = extent.rows;
        if self.plan.is_pooled(prefix.layer) {
            self.own(prefix.sequence, 0..extent.places)?;
        }
        let places = self.places(prefix, &extent);
        let layer = &mut self.layers[prefix.layer];
        let (keys, rest) = bytes.split_at(extent.heads * extent.places * key);
        let (values, mut rest) = rest.split_at(extent.heads * extent.places * value);
        let places = || (0..extent.heads).flat_map(|head| places.iter().map(move |&place| (head, place)));
        for ((head, (page, place)), bytes) in places().zip(keys.chunks_exact(key.max(1))) {
            let kernels = layer.keys.kernels;
            kernels.give_key(layer.keys.unit_mut(head, (page, place / PANEL)), place % PANEL, bytes);
        }
        for ((head, place), bytes) in places().zip(values.chunks_exact(value.max(1))) {
            // Beyond the value there are zeros from the beginning on.
            layer.values.unit_mut(head, place)[..value].copy_from_slice(bytes);
        }
        for state in &mut layer.states {
            let mut numbers = vec![0.0; state.len];
            take_floats(&mut rest, &mut numbers);
            state.put_in_order(prefix.sequence, &numbers);
        }
        Ok(())
    }

    fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<(), Error> {
        self.pages.share(from, to, positions);
        for Layer { ring, keys, values, states, .. } in &mut self.layers {
            if let Some(ring) = ring {
                for (&from, &to) in ring.of(from).iter().zip(ring.of(to)) {
                    let moved = Moved { from: from as usize, to: to as usize };
                    keys.copy_page(moved);
                    values.copy_page(moved);
                }
            }
            states.iter_mut().for_each(|state| state.copy(from, to));
        }
        Ok(())
    }

    fn reserve(&mut self, sequence: usize, positions: Range<usize>) -> Result<bool, Error> {
        Ok(self.own(sequence, positions).is_ok())
    }

    fn release(&mut self, sequence: usize, len: usize) {
        self.pages.release(sequence, len);
    }

    fn pages(&self) -> (usize, usize) {
        (self.pages.count() - self.pages.free(), self.pages.count())
    }
}
