//! The reference's cache as bytes: its numbers, already rounded.

use super::{Cache, Kept};
use crate::{Error, Prefix, Stored, check_len, put_floats, take_floats};

impl Cache {
    /// Where a sequence's first positions begin and how many numbers they have, among keys and among values.
    fn ranges(&self, prefix: Prefix) -> [(usize, usize); 2] {
        let Kept { plan, .. } = &self.layers[prefix.layer];
        let head = self.head(prefix.layer, prefix.sequence, 0, 0);
        [plan.key_dim, plan.value_dim].map(|dim| (head * dim, prefix.positions * plan.kv_heads * dim))
    }
}

impl Stored for Cache {
    fn layout(&self) -> String {
        "reference".into()
    }

    fn layers(&self) -> usize {
        self.layers.len()
    }

    fn save(&self, out: &mut Vec<u8>, prefix: Prefix) {
        let [(key, keys), (value, values)] = self.ranges(prefix);
        let kept = &self.layers[prefix.layer];
        put_floats(out, &kept.keys[key..][..keys]);
        put_floats(out, &kept.values[value..][..values]);
        for (states, len) in kept.states.iter().zip(kept.plan.states) {
            put_floats(out, &states[prefix.sequence * len..][..len]);
        }
    }

    fn load(&mut self, bytes: &[u8], prefix: Prefix) -> Result<(), Error> {
        let fits = prefix.positions <= self.plan.context;
        let [(key, keys), (value, values)] = if fits { self.ranges(prefix) } else { [(0, 0); 2] };
        let kept = &mut self.layers[prefix.layer];
        let numbers = keys + values + kept.plan.states.iter().sum::<usize>();
        check_len(prefix.layer, fits.then_some(numbers * 4), bytes.len())?;
        let mut rest = bytes;
        take_floats(&mut rest, &mut kept.keys[key..][..keys]);
        take_floats(&mut rest, &mut kept.values[value..][..values]);
        for (states, len) in kept.states.iter_mut().zip(kept.plan.states) {
            take_floats(&mut rest, &mut states[prefix.sequence * len..][..len]);
        }
        Ok(())
    }
}
