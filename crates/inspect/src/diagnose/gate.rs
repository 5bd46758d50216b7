//! How far a right engine may be from a replay, by what the replay computed (section D3 of the research) and by how exactly
//! the suspect keeps its values.

use std::collections::BTreeSet;

use candor::Format;
use serde::Serialize;

use crate::{
    Evidence, Graph, Kind, NodeId, Residual,
    replay::{Arithmetic, Rounding},
};

/// Whether a value follows from the suspect's own inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It does.
    Right,
    /// More than rounding, less than a fault usually makes.
    Suspicious,
    /// It does not.
    Wrong,
    /// The dump has too few digits to tell.
    Unreadable,
    /// So much had to be computed for want of other values, or so little is there, that rounding may explain it as well.
    Undecided,
}

/// Limits of a relative residual.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// Up to here the value follows from its inputs.
    pub pass: f64,
    /// From here on it does not; between the two it is suspicious.
    pub wrong: f64,
    /// Below this, two residuals cannot be distinguished.
    pub floor: f64,
    /// How far rounding alone may bring a right engine. Where that is beyond `pass`, so much had to be computed that a value
    /// between `pass` and this cannot be judged.
    pub drift: f64,
}

/// The most that a right value may be off, whatever was computed: noise is off by 1 and more.
const MOST: f64 = 0.1;

/// The most that a value may be off before it is wrong, where rounding is not what brought it there.
const FAR: f64 = 0.5;

impl Gate {
    /// The limits for a value that was computed by these operations. `slack` is what all products of the suspect are off.
    pub(super) fn of(
        graph: &Graph,
        computed: &BTreeSet<NodeId>,
        arithmetic: Arithmetic,
        slack: f64,
        evidence: &Evidence,
    ) -> Gate {
        let mut square = 0.0f64;
        let mut attends = false;
        for &id in computed {
            let kind = &graph.nodes[id].kind;
            attends |= matches!(kind, Kind::Scores(_) | Kind::Mix(_));
            let heads = matches!(kind, Kind::Stacked { routed: false, .. });
            let pass: f64 = match kind.product().map(|weight| (weight.format, arithmetic.rounding)) {
                None => 1e-5,
                // Engines may multiply with heads' matrices before or after attention.
                Some(_) if heads && arithmetic.rounding != Rounding::Exact => 1.5e-2,
                Some((_, rounding)) if rounding.is_general() => 2e-3,
                Some((Format::F32 | Format::F64, _)) => slack.max(2e-5),
                Some((Format::F16 | Format::Bf16, Rounding::Ggml)) => 2e-4,
                Some((Format::F16, _)) => slack.max(1e-3),
                Some((Format::Bf16, _)) => slack.max(5e-3),
                Some((_, Rounding::Exact | Rounding::Unknown)) => slack.max(1.5e-2),
                // The suspect's rule of rounding is known: only ties may fall the other way.
                Some((_, _)) => 2e-3,
            };
            square += pass * pass;
        }
        let mut drift = square.sqrt();
        if attends {
            // A half-precision cache is right too.
            drift = drift.max(1.5e-3);
        }
        // Differences grow on their way through operations that amplify them.
        if computed.len() > 4 {
            drift *= (computed.len() as f64).sqrt();
        }
        let floor = if evidence.precision > 0.0 { 1e-6 } else { (drift * 1e-2).min(1e-5) };
        Gate { floor, ..Gate::for_drift(drift) }
    }

    fn for_drift(drift: f64) -> Gate {
        let pass = drift.min(MOST);
        Gate { pass, wrong: (pass * 4.0).min(FAR), floor: 0.0, drift }
    }

    /// The limits where replays with as much noise as the suspect's rounding makes are off by `measured`.
    pub(super) fn widened(self, measured: f64) -> Gate {
        const TIMES: f64 = 3.0;
        let wide = Gate::for_drift(measured * TIMES);
        // What was measured tells more than what was reckoned from the number of operations.
        let drift = if self.drift > MOST { wide.drift } else { wide.drift.max(self.drift) };
        Gate { pass: wide.pass.max(self.pass), wrong: wide.wrong.max(self.wrong), floor: self.floor, drift }
    }

    /// What a residual says.
    pub(super) fn status(&self, residual: &Residual) -> Status {
        // A dump with few digits says nothing about values below its last place.
        const READABLE: f64 = 3.0;
        // How often numbers that have nothing to do with the value may come as near to it.
        const CHANCE: f64 = 1e-4;
        match residual.relative {
            _ if residual.resolution < READABLE => Status::Unreadable,
            relative if relative <= self.pass => {
                let chance = self.pass.powi(residual.elements.min(1000) as i32);
                if chance <= CHANCE { Status::Right } else { Status::Undecided }
            }
            relative if self.drift > self.pass && relative <= self.drift.max(FAR) => Status::Undecided,
            relative if relative < self.wrong => Status::Suspicious,
            _ => Status::Wrong,
        }
    }
}
