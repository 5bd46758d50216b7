//! The cache's contents as bytes: keys out of their panels, values without what fills their rows up, states in order.

use candor_ops::{Error, Extent, Prefix, Stored, put_floats, take_floats};

use super::{Kv, PANEL};

impl Kv {
    fn heads(&self, prefix: Prefix, extent: Extent) -> std::ops::Range<usize> {
        let first = prefix.sequence * self.layers[prefix.layer].plan.kv_heads;
        first..first + extent.heads
    }
}

impl Stored for Kv {
    fn layers(&self) -> usize {
        self.layers.len()
    }

    fn save(&mut self, out: &mut Vec<u8>, prefix: Prefix) -> Result<(), Error> {
        let extent = self.plan.extent(prefix);
        let [key, value] = extent.rows;
        let layer = &self.layers[prefix.layer];
        for head in self.heads(prefix, extent) {
            let panels = layer.keys.head(head);
            for place in 0..extent.places {
                let first = out.len();
                out.resize(first + key, 0);
                panels.kernels.take_key(&mut out[first..], panels.range(place / PANEL, 1), place % PANEL);
            }
        }
        for head in self.heads(prefix, extent) {
            let rows = layer.values.head(head);
            (0..extent.places).for_each(|place| out.extend_from_slice(&rows.range(place, 1)[..value]));
        }
        for state in &layer.states {
            put_floats(out, &state.in_order(prefix.sequence));
        }
        Ok(())
    }

    fn load(&mut self, bytes: &[u8], prefix: Prefix) -> Result<(), Error> {
        let extent = self.plan.extent_of(prefix, bytes.len())?;
        let [key, value] = extent.rows;
        let heads = self.heads(prefix, extent);
        let layer = &mut self.layers[prefix.layer];
        let (keys, rest) = bytes.split_at(extent.heads * extent.places * key);
        let (values, mut rest) = rest.split_at(extent.heads * extent.places * value);
        let places = || heads.clone().flat_map(|head| (0..extent.places).map(move |place| (head, place)));
        for ((head, place), bytes) in places().zip(keys.chunks_exact(key.max(1))) {
            let kernels = layer.keys.kernels;
            kernels.give_key(layer.keys.unit_mut(head, place / PANEL), place % PANEL, bytes);
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
}
