//! How far a right engine may be from a replay, by what the replay computed (section D3 of the research).

use std::collections::BTreeSet;

use candor::gguf::Format;
use serde::Serialize;

use super::Status;
use crate::{
    Evidence, Graph, Kind, NodeId, Residual,
    replay::{Arithmetic, Rounding},
};

/// Limits of a relative residual.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// Up to here the value follows from its inputs.
    pub pass: f64,
    /// From here on it does not; between the two it is suspicious.
    pub wrong: f64,
    /// Below this, two residuals cannot be told apart.
    pub floor: f64,
}

impl Gate {
    /// The limits for a value that was computed by these operations.
    pub(super) fn of(graph: &Graph, computed: &BTreeSet<NodeId>, arithmetic: Arithmetic, evidence: &Evidence) -> Gate {
        let mut square = 0.0f64;
        let mut attends = false;
        for &id in computed {
            let kind = &graph.nodes[id].kind;
            attends |= matches!(kind, Kind::Scores(_) | Kind::Mix(_));
            let pass: f64 = match kind.product().map(|weight| (weight.format, arithmetic.rounding)) {
                None => 1e-5,
                Some((Format::F32 | Format::F64, _)) => 2e-5,
                Some((Format::F16 | Format::Bf16, Rounding::Ggml)) => 2e-4,
                Some((Format::F16, _)) => 1e-3,
                Some((Format::Bf16, _)) => 5e-3,
                Some((_, Rounding::Exact | Rounding::Unknown)) => 1.5e-2,
                // The suspect's rule of rounding is known: only ties may fall the other way.
                Some((_, _)) => 2e-3,
            };
            square += pass * pass;
        }
        let mut pass = square.sqrt();
        if attends {
            // A half-precision cache is right too.
            pass = pass.max(1.5e-3);
        }
        // Differences grow on their way through operations that amplify them.
        if computed.len() > 4 {
            pass *= (computed.len() as f64).sqrt();
        }
        let floor = if evidence.precision > 0.0 { 1e-6 } else { (pass * 1e-2).min(1e-5) };
        Gate { pass, wrong: (pass * 4.0).min(0.5), floor }
    }

    /// What a residual says.
    pub(super) fn status(&self, residual: &Residual) -> Status {
        // A dump with few digits says nothing about values below its last place.
        const READABLE: f64 = 3.0;
        match residual.relative {
            _ if residual.resolution < READABLE => Status::Unreadable,
            relative if relative <= self.pass => Status::Right,
            relative if relative < self.wrong => Status::Suspicious,
            _ => Status::Wrong,
        }
    }
}
