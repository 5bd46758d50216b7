//! How exactly a suspect keeps its values, shown by the values themselves: numbers of half precision are only those
//! that half precision has.

use std::collections::BTreeMap;

use candor_gguf::half;
use serde::Serialize;

use crate::{Evidence, Graph, Kind, Known, NodeId, Trace};

/// The floats that a value is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// 23 bits of mantissa, or more.
    F32,
    /// 10 bits of mantissa, the exponent of F32.
    Tf32,
    /// 10 bits of mantissa.
    F16,
    /// 7 bits of mantissa.
    Bf16,
    /// 3 bits of mantissa, 4 of exponent.
    Fp8E4m3,
    /// 2 bits of mantissa, 5 of exponent.
    Fp8E5m2,
}

impl Storage {
    /// Largest relative error of a number that is rounded to such floats.
    pub fn unit(self) -> f64 {
        match self {
            Storage::F32 => 0.0,
            Storage::Tf32 | Storage::F16 => f64::powi(2.0, -11),
            Storage::Bf16 => f64::powi(2.0, -8),
            Storage::Fp8E4m3 => f64::powi(2.0, -4),
            Storage::Fp8E5m2 => f64::powi(2.0, -3),
        }
    }

    /// Whether the number is one of these floats.
    fn has(self, x: f32) -> bool {
        let free = |bits: u32| x.to_bits().trailing_zeros() >= bits;
        match self {
            Storage::F32 => true,
            Storage::Tf32 => free(13),
            Storage::F16 => half::f16_to_f32(half::f32_to_f16(x)) == x,
            Storage::Bf16 => free(16),
            Storage::Fp8E4m3 => free(20) && x.abs() <= 448.0,
            Storage::Fp8E5m2 => free(21) && x.abs() <= 57344.0,
        }
    }

    /// The coarsest floats that have all of a value's numbers; `None` where there are too few to tell.
    fn of(evidence: &Evidence) -> Option<Storage> {
        // A number of F32 is one of half precision by chance once in 8192.
        const ENOUGH: usize = 8;
        let Known::All(values) = &evidence.known else { return None };
        if evidence.precision > 0.0 {
            return None;
        }
        let telling = || values.iter().copied().filter(|x| x.is_finite() && *x != 0.0);
        let different = telling().take(4096).map(f32::to_bits).collect::<std::collections::BTreeSet<_>>().len();
        if different < ENOUGH {
            return None;
        }
        let coarsest = [Storage::Fp8E5m2, Storage::Fp8E4m3, Storage::Bf16, Storage::F16, Storage::Tf32];
        Some(coarsest.into_iter().find(|storage| telling().all(|x| storage.has(x))).unwrap_or(Storage::F32))
    }
}

/// What is known of a trace's floats.
pub(super) struct Precision {
    /// Of single values.
    of: BTreeMap<NodeId, Storage>,
    /// Of most values: what lies between them is kept so, too.
    pub(super) most: Storage,
}

impl Precision {
    pub(super) fn new(graph: &Graph, trace: &Trace, known: &[NodeId]) -> Precision {
        // A row of a table, or a choice, is whatever the file has.
        let given = |id: NodeId| matches!(graph.nodes[id].kind, Kind::Embed(_) | Kind::Route { .. });
        let told = known.iter().copied().filter(|&id| !given(id));
        let of: BTreeMap<NodeId, Storage> =
            told.filter_map(|id| Some((id, Storage::of(trace.values.get(&graph.nodes[id].key)?)?))).collect();
        let mut sorted: Vec<Storage> = of.values().copied().collect();
        sorted.sort();
        let most = sorted.get(sorted.len() / 3).copied().unwrap_or(Storage::F32);
        Precision { of, most }
    }

    /// The largest relative error of any value that a check has to do with.
    pub(super) fn unit(&self, ids: impl Iterator<Item = NodeId>) -> f64 {
        let own = ids.filter_map(|id| self.of.get(&id)).map(|storage| storage.unit()).fold(0.0, f64::max);
        own.max(self.most.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_told_by_their_numbers() {
        let numbers = |step: f32| Evidence::all(8, (1..=8).map(|i| 1.0 + i as f32 * step).collect());
        for (step, storage) in [
            (1e-6, Storage::F32),
            (f32::powi(2.0, -10), Storage::F16),
            (f32::powi(2.0, -7), Storage::Bf16),
            (0.125, Storage::Fp8E4m3),
        ] {
            assert_eq!(Storage::of(&numbers(step)), Some(storage), "{step}");
        }
        let large =
            Evidence::all(16, (1..=16).map(|i| f32::powi(2.0, 30) * (1.0 + i as f32 * f32::powi(2.0, -10))).collect());
        assert_eq!(Storage::of(&large), Some(Storage::Tf32), "beyond half precision");
        assert_eq!(Storage::of(&Evidence::all(2, vec![1.0, 2.0])), None);
    }
}
