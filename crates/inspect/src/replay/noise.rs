//! Small random changes of values: how far a right engine of less precision may be from a replay is measured by them.

use crate::{NodeId, Value};

/// How values are changed, at every operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Largest relative change of an element; 0 changes nothing.
    pub unit: f64,
    /// Other seeds give other changes.
    pub seed: u64,
}

impl Noise {
    /// Changes a value of a node.
    pub(super) fn shake(self, value: &mut Value, id: NodeId) {
        if self.unit == 0.0 {
            return;
        }
        let mut state = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (id as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
        for x in &mut value.data {
            // SplitMix64 (Steele et al. 2014).
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            let signed = (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
            *x *= (1.0 + self.unit * signed) as f32;
        }
    }
}
