//! What a diagnosis says, as data.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    gate::{Gate, Status},
    precision::Storage,
};
use crate::{
    Key, Residual, Trace,
    fault::Harm,
    replay::{Rounding, Tokens},
};

/// The form of this report; grows when fields change their meaning.
const VERSION: u32 = 1;

/// One value, recomputed.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The value.
    pub key: Key,
    /// What came of it.
    pub status: Status,
    /// How far the suspect is from the replay.
    #[serde(flatten)]
    pub residual: Residual,
    /// The limits.
    pub gate: Gate,
    /// The suspect's values that it was recomputed from; empty for token ids alone.
    pub from: Vec<Key>,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Few values, or another fault is nearly as close.
    Low,
    /// The fault reproduces the values, but so do others.
    Medium,
    /// Only this fault (or its exact twins) reproduces the values to rounding.
    High,
}

/// Another fault, for comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Rival {
    /// Its name.
    pub name: String,
    /// Its residual.
    pub residual: f64,
}

/// A fault that explains wrong values.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The fault's name in the catalogue.
    pub fault: String,
    /// Its number there.
    pub entry: String,
    /// What the engine did.
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
    /// Where it was seen.
    pub source: String,
    /// Whether the text changes.
    pub harm: Harm,
    /// How sure this is.
    pub confidence: Confidence,
    /// The values that it explains, in the order of computation.
    pub places: Vec<Key>,
    /// The largest residual with the fault.
    pub residual: f64,
    /// The largest residual without it.
    pub healthy: f64,
    /// Other faults that explain the same as well: exact twins.
    pub twins: Vec<String>,
    /// The next best fault, which does not explain it.
    pub rival: Option<Rival>,
}

/// The whole in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every value follows from its inputs.
    Healthy,
    /// There are differences, none of which can change the text.
    Harmless,
    /// Known faults were found.
    Faulty,
    /// Something is wrong, and no known fault explains all of it.
    Unknown,
    /// Nothing is known to be wrong, and not enough is there to say that all is right.
    Undecided,
}

/// What was found in a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The form of this report.
    pub version: u32,
    /// What the values were compared with.
    pub oracle: &'static str,
    /// The whole in a word.
    pub outcome: Outcome,
    /// Who made the trace.
    pub engine: Option<String>,
    /// Tokens of the trace, and how many of them were the prompt.
    pub tokens: (usize, usize),
    /// How the suspect rounds activations.
    pub rounding: Rounding,
    /// The floats that most of its values are kept in.
    pub storage: Storage,
    /// Values that mean another moment of the computation than their names say, by what they equal.
    pub meanings: Vec<String>,
    /// The first value that does not follow from its inputs and matters.
    pub first_wrong: Option<Key>,
    /// Every value, in the order of computation.
    pub checks: Vec<Check>,
    /// The faults, in the order of their first place.
    pub findings: Vec<Finding>,
    /// Wrong values that no known fault reproduces, with what can be said of them.
    pub unexplained: BTreeMap<Key, Vec<String>>,
    /// Values of the trace that the model has no name for.
    pub unplaced: Vec<Key>,
    /// The first token whose rows are wrong, where those of all tokens before are right and none after.
    #[serde(skip)]
    pub(super) decoding: Option<usize>,
    /// How much of the evidence is there, and which single dump would decide more.
    pub advice: Vec<String>,
}

impl Diagnosis {
    pub(super) fn new(
        trace: &Trace,
        tokens: &Tokens,
        (rounding, storage): (Rounding, Storage),
        checks: Vec<Check>,
        findings: Vec<Finding>,
        unexplained: BTreeMap<Key, Vec<String>>,
        unplaced: Vec<Key>,
    ) -> Diagnosis {
        let covering = |key: &Key| findings.iter().filter(|finding| finding.places.contains(key)).collect::<Vec<_>>();
        let harmless = |key: &Key| {
            let covering = covering(key);
            !covering.is_empty() && covering.iter().all(|finding| finding.harm == Harm::Harmless)
        };
        let explained = |key: &Key| findings.iter().any(|finding| finding.places.contains(key));
        let wrong = |check: &&Check| {
            let key = &check.key;
            (check.status == Status::Wrong || explained(key)) && !harmless(key)
        };
        let first_wrong = checks.iter().find(wrong).map(|check| check.key.clone());
        let outcome = match (&first_wrong, findings.is_empty(), unexplained.is_empty()) {
            (None, true, _) if checks.iter().any(|check| check.status == Status::Undecided) => Outcome::Undecided,
            (None, true, _) if checks.iter().all(|check| check.status == Status::Unreadable) => Outcome::Undecided,
            (None, true, _) => Outcome::Healthy,
            (None, false, _) => Outcome::Harmless,
            (Some(_), false, true) => Outcome::Faulty,
            (Some(_), _, _) => Outcome::Unknown,
        };
        let advice = advice(&checks, &findings, outcome);
        Diagnosis {
            version: VERSION,
            oracle: "the operations' formulas in f64, on the suspect's own inputs",
            outcome,
            engine: trace.origin.engine.clone(),
            tokens: (tokens.ids.len(), tokens.prompt),
            rounding,
            storage,
            meanings: Vec::new(),
            first_wrong,
            checks,
            findings,
            unexplained,
            unplaced,
            decoding: None,
            advice,
        }
    }
}

/// What is missing to be surer.
fn advice(checks: &[Check], findings: &[Finding], outcome: Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(first) = checks.iter().find(|check| check.status == Status::Wrong)
        && (outcome == Outcome::Unknown || findings.iter().any(|finding| finding.confidence < Confidence::High))
        && let Some(dump) = wanted(first).filter(|dump| checks.iter().all(|check| check.key.to_string() != *dump))
    {
        lines.push(format!("a dump of {dump} would decide more: {} was recomputed from {}", first.key, origin(first)));
    }
    if outcome == Outcome::Undecided
        && let Some(first) = checks.iter().find(|check| check.status == Status::Undecided)
    {
        let dump = match first.key.layer {
            Some(layer) => format!("the first layer's values and the output of layer {}", layer.saturating_sub(1)),
            None => "every layer's output (l_out)".to_owned(),
        };
        lines.push(format!(
            "whether {} is right cannot be decided from what there is, dump {dump}: it was recomputed from {}",
            first.key,
            origin(first)
        ));
    }
    let unreadable = checks.iter().filter(|check| check.status == Status::Unreadable).count();
    if unreadable > 0 {
        lines.push(format!("{unreadable} values are too small for the digits of the dump: print more of them"));
    }
    lines
}

fn origin(check: &Check) -> String {
    match check.from.as_slice() {
        [] => "the token ids alone".to_owned(),
        keys => keys.iter().map(Key::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The value whose dump would narrow the search the most: the middle of what had to be computed.
fn wanted(check: &Check) -> Option<String> {
    let layer = check.key.layer;
    let before = match check.key.name.as_str() {
        "Qcur" => "Qcur.mul_mat",
        "Kcur" => "Kcur.mul_mat",
        "kqv_out" => "kq_soft_max",
        "ffn_inp" => "kqv_out",
        "l_out" => "ffn_swiglu",
        "ffn_swiglu" => "ffn_gate",
        "Qcur.mul_mat" | "Kcur.mul_mat" | "Vcur" => "attn_norm",
        "result_output" => return Some("every layer's output (l_out)".to_owned()),
        _ => return None,
    };
    Some(Key::new(before, layer).to_string())
}
