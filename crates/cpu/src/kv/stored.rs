//! The cache's contents as bytes: the units of each head as they lie in memory, and the states.

use candor_ops::{Error, Prefix, Stored, check_len, put_floats, take_floats};

use super::{Kv, Layer, PANEL, Store};

impl Layer {
    /// Bytes of keys and of values of a head's first positions, as far as there is room for them; more than there is for
    /// a cache that begins again at its start.
    fn head_bytes(&self, positions: usize) -> [usize; 2] {
        let Layer { keys, values, .. } = self;
        [positions.div_ceil(PANEL).min(keys.units) * keys.unit, positions.min(values.units) * values.unit]
    }

    fn bytes(&self, positions: usize) -> Option<usize> {
        let head: usize = self.head_bytes(positions).iter().sum();
        head.checked_mul(self.plan.kv_heads)?.checked_add(self.plan.states.iter().sum::<usize>().checked_mul(4)?)
    }

    fn heads(&self, sequence: usize) -> std::ops::Range<usize> {
        sequence * self.plan.kv_heads..(sequence + 1) * self.plan.kv_heads
    }
}

impl Store {
    fn head_mut(&mut self, head: usize) -> &mut [u8] {
        let bytes = self.units * self.unit;
        &mut self.bytes.get_mut()[head * bytes..][..bytes]
    }
}

impl Stored for Kv {
    /// Instruction sets lay keys out alike, but do not compute them alike to the bit.
    fn layout(&self) -> String {
        format!("cpu {}", self.isa)
    }

    fn layers(&self) -> usize {
        self.layers.len()
    }

    fn save(&self, out: &mut Vec<u8>, prefix: Prefix) {
        let layer = &self.layers[prefix.layer];
        let [keys, values] = layer.head_bytes(prefix.positions);
        for head in layer.heads(prefix.sequence) {
            out.extend_from_slice(&layer.keys.head(head).bytes[..keys]);
            out.extend_from_slice(&layer.values.head(head).bytes[..values]);
        }
        for (states, len) in layer.states.iter().zip(layer.plan.states) {
            put_floats(out, &states[prefix.sequence * len..][..len]);
        }
    }

    fn load(&mut self, bytes: &[u8], prefix: Prefix) -> Result<(), Error> {
        let context = self.plan.context;
        let layer = &mut self.layers[prefix.layer];
        let expected = layer.bytes(prefix.positions).filter(|_| prefix.positions <= context);
        check_len(prefix.layer, expected, bytes.len())?;
        let [keys, values] = layer.head_bytes(prefix.positions);
        let mut rest = bytes;
        for head in layer.heads(prefix.sequence) {
            for (store, len) in [(&mut layer.keys, keys), (&mut layer.values, values)] {
                let (front, back) = rest.split_at(len);
                store.head_mut(head)[..len].copy_from_slice(front);
                rest = back;
            }
        }
        for (states, len) in layer.states.iter_mut().zip(layer.plan.states) {
            take_floats(&mut rest, &mut states[prefix.sequence * len..][..len]);
        }
        Ok(())
    }
}
