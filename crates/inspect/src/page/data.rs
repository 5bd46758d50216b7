//! What the page's script reads, as it is written into the page. Short, bounded, and made of text that nobody trusts.

use std::collections::BTreeMap;

use candor::{Gguf, Show, Tokenizer};
use serde::Serialize;

use super::{cell::Cell, text::clipped};
use crate::{Check, Diagnosis, Finding, Gate, Key, Outcome, Residual, Status, Trace, replay::Rounding, replay::Tokens};

/// Tokens whose ids and texts are in the page.
const TOKENS: usize = 4096;
/// Characters of a text from outside.
const TEXT: usize = 2000;
/// Names in a list.
const NAMES: usize = 100;

/// Everything.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    title: String,
    engine: Option<String>,
    backend: Option<String>,
    model: Option<String>,
    sha256: Option<String>,
    prompt: Option<String>,
    tokens: Told,
    layers: usize,
    lines: Vec<Line>,
    places: Vec<Place<'a>>,
    shown: usize,
    bars: usize,
    verdict: Option<Verdict<'a>>,
}

/// The tokens.
#[derive(Serialize)]
struct Told {
    count: usize,
    prompt: usize,
    /// The first of them.
    ids: Vec<u32>,
    /// Their spelling, where the file has a tokenizer that loads.
    pieces: Option<Vec<String>>,
    /// Their places, where they are not 0, 1, 2...
    positions: Option<Vec<u32>>,
}

/// A line of the map.
#[derive(Serialize)]
pub(super) struct Line {
    pub name: String,
    pub operation: &'static str,
    pub layered: bool,
}

/// One value.
#[derive(Serialize)]
pub(super) struct Place<'a> {
    pub key: &'a Key,
    pub operation: &'static str,
    pub weight: Option<String>,
    pub inputs: Vec<&'a Key>,
    #[serde(serialize_with = "judged")]
    pub check: Option<&'a Check>,
    pub exact: bool,
    #[serde(flatten)]
    pub cell: Cell,
}

/// A check without what the page knows anyway.
fn judged<S: serde::Serializer>(check: &Option<&Check>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Judged<'a> {
        status: Status,
        residual: &'a Residual,
        gate: Gate,
        from: &'a [Key],
    }
    let judged =
        check.map(|Check { status, residual, gate, from, .. }| Judged { status: *status, residual, gate: *gate, from });
    judged.serialize(serializer)
}

/// What a diagnosis says beside its checks.
#[derive(Serialize)]
pub(super) struct Verdict<'a> {
    oracle: &'a str,
    outcome: Outcome,
    rounding: Rounding,
    first_wrong: Option<&'a Key>,
    findings: &'a [Finding],
    unexplained: &'a BTreeMap<Key, Vec<String>>,
    unplaced: Vec<&'a Key>,
    unplaced_count: usize,
    advice: &'a [String],
}

impl<'a> Verdict<'a> {
    /// The part of a diagnosis that stands above the map.
    pub(super) fn new(diagnosis: &'a Diagnosis) -> Verdict<'a> {
        Verdict {
            oracle: diagnosis.oracle,
            outcome: diagnosis.outcome,
            rounding: diagnosis.rounding,
            first_wrong: diagnosis.first_wrong.as_ref(),
            findings: &diagnosis.findings,
            unexplained: &diagnosis.unexplained,
            unplaced: diagnosis.unplaced.iter().take(NAMES).collect(),
            unplaced_count: diagnosis.unplaced.len(),
            advice: &diagnosis.advice,
        }
    }
}

impl<'a> Data<'a> {
    /// What is known before any value is looked at.
    pub(super) fn new(trace: &Trace, tokens: &Tokens, gguf: &Gguf, title: &str) -> Data<'a> {
        let origin = &trace.origin;
        let short = |text: &Option<String>| text.as_deref().map(|text| clipped(text, TEXT));
        let ids: Vec<u32> = tokens.ids.iter().take(TOKENS).copied().collect();
        let tokenizer = Tokenizer::from_metadata(gguf.metadata()).ok();
        let spell = |id: &u32| -> Option<String> {
            let piece = String::from_utf8_lossy(&tokenizer.as_ref()?.piece(*id, Show::Specials)).into_owned();
            Some(clipped(&piece, 40))
        };
        let in_order = tokens.positions.iter().enumerate().all(|(at, &position)| at == position as usize);
        let positions = (!in_order).then(|| tokens.positions.iter().take(TOKENS).copied().collect());
        let pieces = ids.iter().map(spell).collect();
        Data {
            title: clipped(title, TEXT),
            engine: short(&origin.engine),
            backend: short(&origin.backend),
            model: short(&origin.model),
            sha256: short(&origin.model_sha256),
            prompt: short(&origin.prompt),
            tokens: Told { count: tokens.ids.len(), prompt: tokens.prompt, ids, pieces, positions },
            layers: 0,
            lines: Vec::new(),
            places: Vec::new(),
            shown: 0,
            bars: 0,
            verdict: None,
        }
    }

    /// With the map's lines and values.
    pub(super) fn with(self, lines: Vec<Line>, layers: usize, places: Vec<Place<'a>>) -> Data<'a> {
        Data { lines, layers, places, ..self }
    }

    /// With how much of long values is there.
    pub(super) fn with_limits(self, shown: usize, bars: usize) -> Data<'a> {
        Data { shown, bars, ..self }
    }

    /// With what was found.
    pub(super) fn with_verdict(self, verdict: Option<Verdict<'a>>) -> Data<'a> {
        Data { verdict, ..self }
    }
}
