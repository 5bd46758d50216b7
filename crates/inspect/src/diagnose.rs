//! Diagnosis: the first operation of a foreign trace that does not follow from the trace's own inputs, and the known
//! fault that reproduces what the engine computed instead.
//!
//! Nothing is compared end to end: each operation is recomputed from the values that the suspect itself had (local
//! replay), so that rounding does not add up and later faults stay visible behind earlier ones.

mod conventions;
pub(crate) mod experts;
mod explain;
mod fit;
mod gate;
mod near;
mod precision;
mod report;
mod rounding;
mod structure;
mod ways;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use candor::{Format, Gguf};
use candor_ops::CHOSEN;

use web_time::Instant;

use crate::{
    Chosen, Evidence, Graph, Key, Kind, Known, Node, NodeId, Origin, Residual, Trace, Value, catalogue, compare_where,
    fault::{Active, Edit, Harm},
    replay::{Arithmetic, Cache, Decoded, Noise, Place, Replay, Rounding, Stage, Tokens},
};

use precision::Precision;
use rounding::{Rounded, rounding, span};

pub use gate::Gate;
pub use precision::Storage;
pub use report::{Check, Confidence, Diagnosis, Finding, Outcome, Rival, Status};

/// Why a trace cannot be diagnosed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model does not run.
    #[error(transparent)]
    Model(#[from] candor_models::Error),
    /// Nothing says which tokens went in.
    #[error("trace: it does not say which tokens the engine was given")]
    NoTokens,
    /// Nothing says which text was read.
    #[error("trace: it does not say which text the encoder was given")]
    NoText,
    /// A token is outside of the vocabulary: the trace is of another model.
    #[error("trace: token {token} is outside of the model's vocabulary of {vocab}: the trace is of another model")]
    Token {
        /// The id.
        token: u32,
        /// Rows of the embedding.
        vocab: usize,
    },
    /// No value of the trace belongs to the model.
    #[error("trace: none of its {count} values has a name that the model knows, the first is {first}")]
    NoValues {
        /// Values in the trace.
        count: usize,
        /// The name of one.
        first: String,
    },
    /// A value has another size than in this model.
    #[error("{key}: expected rows of {expected}, got {got}: the trace is of another model")]
    Width {
        /// The value.
        key: Key,
        /// Elements per row in the model.
        expected: usize,
        /// Elements per row in the trace.
        got: usize,
    },
    /// A value has rows for tokens that were not given.
    #[error("{key}: expected at most {expected} rows, one per token, got {got}: the trace is of another prompt")]
    Rows {
        /// The value.
        key: Key,
        /// Tokens.
        expected: usize,
        /// Rows.
        got: usize,
    },
}

/// A fault, or two at once, and how well it reproduces a value.
#[derive(Clone, Debug)]
struct Match {
    faults: Vec<Active>,
    residual: Residual,
}

impl Match {
    fn name(&self) -> String {
        self.faults.iter().map(|active| active.fault.name).collect::<Vec<_>>().join(" + ")
    }
}

/// What was found at a value that does not follow from its inputs.
struct Failure {
    id: NodeId,
    gate: Gate,
    status: Status,
    healthy: Residual,
    /// Faults that reproduce the value, best first.
    matches: Vec<Match>,
    /// The best of the others.
    rival: Option<Match>,
}

/// What a trace is diagnosed against.
struct Court<'a> {
    stage: &'a Stage<'a>,
    trace: &'a Trace,
    arithmetic: Arithmetic,
    /// What all products of the suspect are off alike.
    slack: f64,
    precision: &'a Precision,
    /// The trace's values, and what follows from them where it has none.
    healthy: Replay<'a>,
    /// Whether there was no time for every fault.
    hasty: Cell<bool>,
    /// How long wide searches may still take.
    patience: Cell<Duration>,
}

/// A value that is looked at: what it should be, and what it was computed from.
struct Case {
    id: NodeId,
    gate: Gate,
    residual: Residual,
    /// The operations that had to be computed, for want of their outputs in the trace.
    span: BTreeSet<NodeId>,
    expected: Value,
    inputs: Vec<Rc<Value>>,
}

/// Elements that a value which is only suspicious must have for a fault to be named.
const MANY: usize = 16;

impl Case {
    /// Whether the best of the faults leaves more than a tenth of a difference.
    fn far_from(&self, matches: &[Match]) -> bool {
        matches.first().is_none_or(|best| best.residual.relative > 0.1 * self.residual.relative)
    }
}

/// Diagnoses a trace of the model in `gguf`.
///
/// # Errors
/// If the model does not run, or the trace is not one of it.
pub fn diagnose(gguf: &Gguf, trace: &Trace) -> Result<Diagnosis, Error> {
    diagnose_in(&Graph::new(gguf)?, gguf, trace)
}

/// Judges the values of a trace of the model in `gguf`, and looks for no fault behind wrong ones.
///
/// # Errors
/// As [`diagnose`].
pub fn judge(gguf: &Gguf, trace: &Trace) -> Result<Diagnosis, Error> {
    explained(&Graph::new(gguf)?, gguf, trace, false)
}

/// Diagnoses a trace of the model in `gguf`, whose operations are those of `graph`.
///
/// # Errors
/// If the trace is not one of it.
pub fn diagnose_in(graph: &Graph, gguf: &Gguf, trace: &Trace) -> Result<Diagnosis, Error> {
    explained(graph, gguf, trace, true)
}

/// Diagnoses a trace, with `faults` or without.
fn explained(graph: &Graph, gguf: &Gguf, trace: &Trace, faults: bool) -> Result<Diagnosis, Error> {
    let tokens = tokens(trace, graph)?;
    let said = judged(graph, gguf, trace, &tokens, faults)?;
    // Where nobody says how long the prompt was, rows that are wrong from one on tell where decoding began.
    let began = said.decoding.filter(|_| trace.origin.prompt_tokens.is_none() && !said.unexplained.is_empty());
    let Some(prompt) = began else { return Ok(said) };
    let mut other = judged(graph, gguf, trace, &Tokens { prompt, ..tokens }, faults)?;
    if other.unexplained.len() >= said.unexplained.len() || other.findings.is_empty() {
        return Ok(said);
    }
    other.advice.push(format!(
        "the rows from token {prompt} on are wrong, as if a prompt of {prompt} tokens came before: give --prompt-tokens to be sure"
    ));
    Ok(other)
}

/// Diagnoses a trace of these tokens.
fn judged(graph: &Graph, gguf: &Gguf, trace: &Trace, tokens: &Tokens, faults: bool) -> Result<Diagnosis, Error> {
    let decoded = Decoded::default();
    let stage = Stage { graph, gguf, tokens, decoded: &decoded };
    let (told, mut meanings) = conventions::apart(&stage, trace);
    let told = &*told;
    let known = fit(told, graph, tokens)?;
    let bare = experts::without(graph, told);
    let plain: Vec<NodeId> =
        known.iter().copied().filter(|&id| bare.values.contains_key(&graph.nodes[id].key)).collect();
    let Rounded { rule, slack } = rounding(&stage, &bare, &plain);
    let precision = Precision::new(graph, told, &known);
    let cache = cache(&told.origin);
    let arithmetic = Arithmetic { rounding: rule, unit: precision.most.unit(), cache, ..Arithmetic::default() };
    let (arithmetic, own) = ways::own(&stage, &bare, &plain, arithmetic);
    meanings.extend(own);
    let (trace, unordered) = experts::placed(&stage, told, arithmetic);
    let court = Court::new(&stage, &trace, (arithmetic, slack), &precision);
    let (trace, renamed) = court.settled(&known);
    meanings.extend(renamed);
    let court = court.with(&trace);

    let known = fit(&trace, graph, tokens)?;
    let mut checks = Vec::new();
    let mut failures: Vec<Failure> = Vec::new();
    let mut decoding = None;
    // The order of experts that was put in for replay is no value of the suspect's.
    let checked = |id: &&NodeId| {
        let key = &graph.nodes[**id].key;
        let put_in = matches!(graph.nodes[**id].kind, Kind::Route { part: Chosen::Both, .. });
        !unordered.contains(key) && (!put_in || told.values.contains_key(key))
    };
    for &id in known.iter().filter(checked) {
        let Some(case) = court.case(id) else { continue };
        let key = &graph.nodes[id].key;
        let Case { gate, residual, .. } = case;
        let status = gate.status(&residual);
        checks.push(Check { key: key.clone(), status, residual, gate, from: given_inputs(graph, &case.span) });
        if matches!(status, Status::Wrong | Status::Suspicious) {
            if status == Status::Wrong && failures.is_empty() {
                decoding = court.begins(&case);
            }
            let mut before: Vec<Vec<Active>> = Vec::new();
            for found in failures.iter().flat_map(|failure| &failure.matches) {
                if !before.contains(&found.faults) {
                    before.push(found.faults.clone());
                }
            }
            let (mut matches, rival) = if faults { court.search(&case, &before) } else { (Vec::new(), None) };
            // A little off may be rounding that nobody knows: a fault must explain it altogether, and many numbers.
            if status == Status::Suspicious && (residual.elements < MANY || case.far_from(&matches)) {
                matches.clear();
            }
            if status == Status::Wrong || !matches.is_empty() {
                failures.push(Failure { id, gate, status, healthy: residual, matches, rival });
            }
        }
    }
    let misfit = |id: NodeId, evidence: &Evidence| {
        let wide = evidence.width != 0 && evidence.width != graph.width(id, tokens);
        wide || beyond(evidence, tokens.rows(graph.nodes[id].side)).is_some()
    };
    let odd = |(key, evidence): &(&Key, &Evidence)| graph.find(key).is_none_or(|id| misfit(id, evidence));
    let unknown = trace.values.iter().filter(odd).map(|(key, _)| key);
    let unplaced = unknown.chain(&unordered).cloned().collect();
    let findings = court.explain(&failures, &checks);
    let unexplained = court.unexplained(&failures);
    let floats = (arithmetic.rounding, precision.most);
    let mut said = Diagnosis::new(&trace, tokens, floats, checks, findings, unexplained, unplaced);
    said.decoding = decoding;
    said.meanings = meanings;
    if court.hasty.get() {
        said.advice.push(
            "so much lies between some values that there was no time to try every fault: dump every layer's output, and the \
             values of the first layer"
                .to_owned(),
        );
    }
    if let Some(key) = unordered.first() {
        let [experts, _] = CHOSEN.map(|name| Key::new(name, key.layer));
        said.advice.push(format!(
            "in which order {key} has a token's experts is not known, so that it was not compared: dump {experts} too"
        ));
    }
    Ok(said)
}

/// The formats that a trace says of its keys and values.
fn cache(origin: &Origin) -> Cache {
    let format = |name: &str| {
        let named = |format: &Format| format.name().eq_ignore_ascii_case(name);
        (0..64).filter_map(Format::from_ggml_id).find(named).unwrap_or(Format::F32)
    };
    let Some([keys, values]) = &origin.cache else { return Cache::default() };
    Cache { keys: format(keys), values: format(values), ..Cache::default() }
}

pub(crate) fn tokens(trace: &Trace, graph: &Graph) -> Result<Tokens, Error> {
    let ids = trace.origin.tokens.clone().filter(|ids| !ids.is_empty()).ok_or(Error::NoTokens)?;
    let vocab = graph.config.vocab;
    if let Some(&token) = ids.iter().find(|&&id| id as usize >= vocab) {
        return Err(Error::Token { token, vocab });
    }
    let mut tokens = Tokens::new(ids, trace.origin.prompt_tokens.unwrap_or(usize::MAX));
    if graph.config.start.is_some() {
        let text = trace.origin.text.clone().filter(|ids| !ids.is_empty()).ok_or(Error::NoText)?;
        if let Some(&token) = text.iter().find(|&&id| id as usize >= vocab) {
            return Err(Error::Token { token, vocab });
        }
        tokens.text = text;
    }
    if let Some(positions) = trace.origin.positions.clone().filter(|list| list.len() == tokens.ids.len()) {
        tokens.positions = positions;
    }
    Ok(tokens)
}

/// The nodes that the trace knows something of, in the order of computation.
///
/// Values of another shape than the model's are left out where most have the model's: a name may mean something else,
/// and a token may have had another number of experts.
pub(crate) fn fit(trace: &Trace, graph: &Graph, tokens: &Tokens) -> Result<Vec<NodeId>, Error> {
    let (mut known, mut odd) = (BTreeSet::new(), Vec::new());
    for (key, evidence) in &trace.values {
        let Some(id) = graph.find(key) else { continue };
        let (rows, expected) = (tokens.rows(graph.nodes[id].side), graph.width(id, tokens));
        if evidence.width != 0 && evidence.width != expected {
            if matches!(graph.nodes[id].kind, Kind::Scores(_) | Kind::SoftMax(_)) {
                // Engines pad the cache: scores have as many columns as they please.
                continue;
            }
            if graph.nodes[id].per_token != 1 || matches!(graph.nodes[id].kind, Kind::Route { .. }) {
                // Dumps may have rows of experts where those of others are tokens.
                continue;
            }
            if near(graph, id, evidence.width, tokens) {
                // It may be another moment of the computation.
                known.insert(id);
                continue;
            }
            odd.push(foreign(key, Error::Width { key: key.clone(), expected, got: evidence.width })?);
            continue;
        }
        if let Some(got) = beyond(evidence, rows) {
            odd.push(foreign(key, Error::Rows { key: key.clone(), expected: rows, got })?);
            continue;
        }
        known.insert(id);
    }
    if odd.len() >= known.len()
        && let Some(error) = odd.into_iter().next()
    {
        return Err(error);
    }
    match trace.values.keys().next() {
        Some(first) if known.is_empty() => Err(Error::NoValues { count: trace.values.len(), first: first.to_string() }),
        None => Err(Error::NoValues { count: 0, first: "missing".to_owned() }),
        Some(_) => Ok(known.into_iter().collect()),
    }
}

/// The number of rows of a value that has more than the tokens allow.
fn beyond(evidence: &Evidence, rows: usize) -> Option<usize> {
    let list = evidence.rows.as_ref()?;
    (list.len() > rows || list.iter().any(|&row| row >= rows)).then_some(list.len())
}

/// Refuses a trace whose stream is of another shape: that is the same in every program. Other values may be left out.
fn foreign(key: &Key, error: Error) -> Result<Error, Error> {
    if matches!(key.name.as_str(), "inp_embd" | "l_out" | "result_norm") { Err(error) } else { Ok(error) }
}

/// Whether a value of another width is made of this one, or the other way round, in a step or two.
fn near(graph: &Graph, id: NodeId, width: usize, tokens: &Tokens) -> bool {
    let next = |id: NodeId| graph.nodes.iter().enumerate().filter(move |(_, node)| node.inputs.contains(&id));
    let wide = |id: NodeId| graph.width(id, tokens) == width;
    graph.nodes[id].inputs.iter().any(|&input| wide(input)) || next(id).any(|(id, _)| wide(id))
}

/// The values that a replay started from.
fn given_inputs(graph: &Graph, computed: &BTreeSet<NodeId>) -> Vec<Key> {
    let inputs = computed.iter().flat_map(|&id| graph.nodes[id].inputs.iter());
    let given: BTreeSet<NodeId> = inputs.filter(|id| !computed.contains(id)).copied().collect();
    given.into_iter().map(|id| graph.nodes[id].key.clone()).collect()
}

/// Whether a fault can concern an operation at all, without computing anything.
fn concerns(active: &Active, place: &Place<'_>) -> bool {
    active.fault.edits.iter().any(|edit| match (edit, &place.node.kind) {
        (Edit::Weight(_), kind) => kind.weight().is_some() && (active.fault.wants)(place),
        (Edit::Wiring(edit), _) => edit(&mut place.node.inputs.clone(), place),
        (Edit::Embed(_), Kind::Embed(_))
        | (Edit::Norm(_), Kind::Norm { .. })
        | (Edit::Rope(_), Kind::Rope { .. })
        | (Edit::Scores(_), Kind::Scores(_))
        | (Edit::SoftMax(_), Kind::SoftMax(_))
        | (Edit::Mix(_), Kind::Mix(_))
        | (Edit::Positions(_), Kind::Positions(_))
        | (Edit::Unary(_), Kind::Unary(_))
        | (Edit::Copy(_), Kind::Copy { .. })
        | (Edit::Conv(_), Kind::Conv(_))
        | (Edit::Recur(_), Kind::Recur(_))
        | (Edit::Route(_), Kind::Route { .. }) => true,
        (Edit::Output(_), _) => (active.fault.wants)(place),
        _ => false,
    })
}

/// All faults of the catalogue with all their numbers.
fn suspects() -> impl Iterator<Item = Active> {
    catalogue().flat_map(|fault| fault.variants.iter().map(move |&variant| Active::new(fault, variant)))
}

/// How long faults are tried one after the other where each takes a replay of much of the model.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for all that is tried where nothing else reproduces a value with much of a layer behind it.
const WIDE_PATIENCE: Duration = Duration::from_secs(6);

/// How far a value is off, at most, for which that is tried: what is further off has nothing of the right one.
const ALIKE: f64 = 1.0;

/// Of how many single faults, the closest ones, pairs are tried.
const PAIRS_FROM: usize = 32;

/// Of how many where more operations than [`WITHIN`] lie between: beside each other, and beside what is harmless.
const WIDE_PAIRS_FROM: usize = 8;

/// Most operations in a row for which all pairs are tried.
const WITHIN: usize = 4;

impl<'a> Court<'a> {
    fn new(
        stage: &'a Stage<'a>,
        trace: &'a Trace,
        (arithmetic, slack): (Arithmetic, f64),
        precision: &'a Precision,
    ) -> Court<'a> {
        let healthy = Replay::given(stage, arithmetic, trace);
        Court {
            stage,
            trace,
            arithmetic,
            slack,
            precision,
            healthy,
            hasty: Cell::new(false),
            patience: Cell::new(WIDE_PATIENCE),
        }
    }

    /// The same, of another trace.
    fn with<'b>(&self, trace: &'b Trace) -> Court<'b>
    where
        'a: 'b,
    {
        Court::new(self.stage, trace, (self.arithmetic, self.slack), self.precision)
    }

    fn place(&self, id: NodeId, variant: f64) -> Place<'_> {
        let Stage { graph, gguf, tokens, .. } = *self.stage;
        Place { graph, gguf, node: &graph.nodes[id], id, tokens, variant }
    }

    /// A value of the trace beside what follows from its inputs; `None` where the two have nothing in common.
    fn case(&self, id: NodeId) -> Option<Case> {
        let evidence = &self.trace.values[&self.stage.graph.nodes[id].key];
        let (expected, inputs) = self.healthy.recompute(id);
        let residual = self.residual(id, expected.clone())?;
        let span = span(self.stage, self.trace, id);
        let strict = Gate::of(self.stage.graph, &span, self.arithmetic, self.slack, evidence);
        let gate = match strict.status(&residual) {
            Status::Right | Status::Unreadable => strict,
            _ => strict.widened(self.deviation(id, &span, &expected)),
        };
        Some(Case { id, gate, residual, span, expected, inputs })
    }

    /// The limits for a value that the trace may not have.
    fn gate(&self, id: NodeId, span: &BTreeSet<NodeId>, evidence: &Evidence) -> Gate {
        let strict = Gate::of(self.stage.graph, span, self.arithmetic, self.slack, evidence);
        let expected = self.healthy.recompute(id).0;
        strict.widened(self.deviation(id, span, &expected))
    }

    /// How far values come out that are computed as the suspect computes, except for the rounding of floats, or of what
    /// is multiplied.
    fn deviation(&self, id: NodeId, span: &BTreeSet<NodeId>, expected: &Value) -> f64 {
        let nodes = &self.stage.graph.nodes;
        let beside = span.iter().flat_map(|&id| nodes[id].inputs.iter().copied()).chain([id]);
        let unit = self.precision.unit(beside);
        let mut others: Vec<Arithmetic> = Vec::new();
        let quantized = |id: &NodeId| nodes[*id].kind.product().is_some_and(|weight| weight.format.block_len() > 1);
        let known = !matches!(self.arithmetic.rounding, Rounding::Exact | Rounding::Unknown);
        let away = |arithmetic: Arithmetic| -> f64 {
            let value = Replay::local(self.stage, arithmetic, &[], self.trace, id).value(id);
            let pairs = || value.data.iter().zip(&expected.data).filter(|(a, b)| a.is_finite() && b.is_finite());
            let off: f64 = pairs().map(|(a, b)| f64::from(a - b).powi(2)).sum();
            let of: f64 = pairs().map(|(_, b)| f64::from(*b).powi(2)).sum();
            (off / of.max(f64::MIN_POSITIVE)).sqrt()
        };
        if self.is_deep(span) {
            // One replay has to do for all that may be rounded.
            let noise = Noise { unit: unit.max(1e-6), seed: 1 };
            let cache = Cache { keys: Format::F16, values: Format::F16, ..Cache::default() };
            let rounding = if known { self.arithmetic.rounding } else { Rounding::Blocks(32) };
            others.push(Arithmetic { rounding, noise, cache, ..self.arithmetic });
            return others.into_iter().map(away).fold(0.0, f64::max);
        }
        if unit > 0.0 {
            others.extend([1, 2].map(|seed| Arithmetic { noise: Noise { unit, seed }, ..self.arithmetic }));
        }
        if span.len() > WITHIN && span.iter().any(quantized) && !known {
            others.push(Arithmetic { rounding: Rounding::Blocks(32), ..self.arithmetic });
        }
        if span.len() > WITHIN {
            // Sums in floats, and keys and values in halves.
            let noise = Noise { unit: 1e-6, seed: 3 };
            let cache = Cache { keys: Format::F16, values: Format::F16, ..Cache::default() };
            others.push(Arithmetic { noise, cache, ..self.arithmetic });
        }
        if self.arithmetic.cache != Cache::default() {
            // Engines may turn heads before they round them, so that other numbers are rounded.
            let noise = Noise { unit: 1e-6, seed: 3 };
            others.push(Arithmetic { noise, cache: Cache::default(), ..self.arithmetic });
        }
        others.into_iter().map(away).fold(0.0, |most, off| if off.is_finite() { most.max(off) } else { most })
    }

    /// Whether so much lies between the suspect's values that a replay of it takes a good part of a second.
    fn is_deep(&self, span: &BTreeSet<NodeId>) -> bool {
        const MUCH: usize = 1 << 29;
        self.stage.work(span) > MUCH
    }

    /// The first wrong row, where all rows before it are right and all after it wrong.
    fn begins(&self, case: &Case) -> Option<usize> {
        let node = &self.stage.graph.nodes[case.id];
        let expected = case.expected.clone().joined(node.per_token);
        let got = self.trace.values[&node.key].dense(expected.rows, expected.width)?;
        let far = |(got, row): (&[f32], usize)| -> bool {
            let pairs = || got.iter().zip(expected.row(row));
            let off: f64 = pairs().map(|(a, b)| f64::from(a - b).powi(2)).sum();
            let of: f64 = pairs().map(|(_, b)| f64::from(*b).powi(2)).sum();
            off.sqrt() > case.gate.wrong * of.sqrt()
        };
        let wrong: Vec<bool> = got.chunks_exact(expected.width.max(1)).zip(0..).map(far).collect();
        let first = wrong.iter().position(|&wrong| wrong)?;
        (first > 0 && wrong[first..].iter().all(|&wrong| wrong)).then_some(first)
    }

    /// How far the suspect is from a value.
    fn residual(&self, id: NodeId, value: Value) -> Option<Residual> {
        let Stage { graph, tokens, .. } = self.stage;
        let node = &graph.nodes[id];
        let evidence = &self.trace.values[&node.key];
        let counts = graph.counts(id, tokens);
        // What is made of NaN may be NaN, whichever way it was computed.
        let spoilt = self.spoilt(id);
        let is_none =
            |row: usize, col: usize| match (&evidence.known, evidence.dense(tokens.rows(node.side), evidence.width)) {
                (Known::All(_), Some(values)) => !values[row * evidence.width + col].is_finite(),
                _ => false,
            };
        compare_where(&value.joined(node.per_token), evidence, |row, col| {
            counts(row, col) && !(spoilt && is_none(row, col))
        })
    }

    /// Whether an input that the trace has holds numbers that are none.
    fn spoilt(&self, id: NodeId) -> bool {
        let inputs = self.stage.graph.nodes[id].inputs.iter();
        inputs
            .filter_map(|&input| self.trace.values.get(&self.stage.graph.nodes[input].key))
            .any(|evidence| matches!(&evidence.known, Known::All(values) if values.iter().any(|x| !x.is_finite())))
    }

    /// How far faults are from what the suspect has; `None` where they change nothing.
    fn try_faults(&self, faults: &[Active], case: &Case) -> Option<Residual> {
        let edits = || faults.iter().flat_map(|active| active.fault.edits.iter().map(move |edit| (active, edit)));
        if case.span.len() == 1 && edits().all(|(_, edit)| matches!(edit, Edit::Output(_))) {
            // What comes out is changed: no need to compute it again.
            let mut value = case.expected.clone();
            let mut changed = vec![false; faults.len()];
            for (index, active) in faults.iter().enumerate() {
                for edit in active.fault.edits {
                    if let Edit::Output(edit) = edit {
                        changed[index] |= edit(&mut value, &case.inputs, &self.place(case.id, active.variant));
                    }
                }
            }
            return changed.into_iter().all(|changed| changed).then(|| self.residual(case.id, value))?;
        }
        let replay = Replay::local(self.stage, self.arithmetic, faults, self.trace, case.id);
        let value = replay.value(case.id);
        replay.all_applied().then(|| self.residual(case.id, (*value).clone()))?
    }

    /// The faults that reproduce a value, and the best of those that do not; `known` are faults found
    /// before, tried first: an engine that is wrong once is wrong in the same way in every layer.
    fn search(&self, case: &Case, known: &[Vec<Active>]) -> (Vec<Match>, Option<Match>) {
        let attempt = |faults: Vec<Active>| {
            let residual = self.try_faults(&faults, case)?;
            Some(Match { faults, residual })
        };
        let (found, _) = sort_out(known.iter().cloned().filter_map(attempt).collect(), case);
        if !found.is_empty() {
            return (found, None);
        }
        let concerned = suspects().filter(|active| self.spans(active, case));
        let wide = case.span.len() > WITHIN;
        let until = self.is_deep(&case.span).then(|| Instant::now() + PATIENCE);
        let mut tried: Vec<Match> = Vec::new();
        for active in concerned {
            if until.is_some_and(|until| Instant::now() > until) {
                self.hasty.set(true);
                break;
            }
            tried.extend(attempt(vec![active]));
        }
        for fault in catalogue().filter(|_| until.is_none()) {
            let Some(fit) = &fault.fit else { continue };
            let active = Active::new(fault, fault.variants[0]);
            if self.spans(&active, case) {
                tried.extend(self.fitted(active, fit, case, !wide));
            }
        }
        tried.sort_by(|a, b| a.residual.relative.total_cmp(&b.residual.relative));
        let from = if wide { WIDE_PAIRS_FROM } else { PAIRS_FROM };
        let mut best: Vec<Active> = tried.iter().take(from).map(|found| found.faults[0]).collect();
        // An engine may have its own way of something and a fault beside it.
        let own = tried.iter().skip(from).map(|found| found.faults[0]);
        let harmless = |active: &Active| active.fault.harm == Harm::Harmless || active.fault.name == explain::ROUNDED;
        best.extend(own.filter(|active| wide && harmless(active)));
        let (found, rival) = sort_out(tried, case);
        if !found.is_empty() || until.is_some() || self.is_nothing(case.id) {
            return (found, rival);
        }
        let mut pairs = Vec::new();
        for (index, &a) in best.iter().enumerate().take(from) {
            for &b in best[index + 1..].iter().filter(|b| b.fault.name != a.fault.name) {
                pairs.extend([vec![a, b], vec![b, a]].into_iter().filter_map(attempt));
            }
        }
        let (found, pair_rival) = sort_out(pairs, case);
        let rival = pair_rival.or(rival);
        match found.is_empty() && wide && case.residual.relative < ALIKE {
            true => (self.search_wide(case), rival),
            false => (found, rival),
        }
    }

    /// Whether the suspect has zeros alone: two faults of which one takes away what the other puts in their place give these,
    /// whatever went wrong.
    fn is_nothing(&self, id: NodeId) -> bool {
        match &self.trace.values[&self.stage.graph.nodes[id].key].known {
            Known::All(values) => values.iter().all(|&x| x == 0.0),
            Known::Some(points) => points.iter().all(|&(.., x)| x == 0.0),
        }
    }

    /// What takes longest: faults of one operation where they could concern more, and numbers that nobody knows, for a
    /// value with much of a layer behind it.
    fn search_wide(&self, case: &Case) -> Vec<Match> {
        let begun = Instant::now();
        let until = begun + self.patience.get();
        let all =
            || catalogue().map(|fault| Active::new(fault, fault.variants[0])).filter(|active| self.spans(active, case));
        let alone: Vec<Active> = all().flat_map(|active| self.in_one_operation(active, case)).collect();
        let variants = |active: Active| active.fault.variants.iter().map(move |&variant| Active { variant, ..active });
        let fitted = |active: Active| {
            let fit = active.fault.fit.as_ref()?;
            self.fitted(active, fit, case, true)
        };
        let plain = |active| {
            let faults = vec![active];
            self.try_faults(&faults, case).map(|residual| Match { faults, residual })
        };
        let of_weights = |active: &&Active| active.fault.edits.iter().all(|edit| matches!(edit, Edit::Weight(_)));
        let ways: [Box<dyn Iterator<Item = Option<Match>>>; 3] = [
            Box::new(alone.iter().flat_map(|&active| variants(active)).map(plain)),
            Box::new(all().map(fitted)),
            Box::new(alone.iter().filter(of_weights).map(|&active| fitted(active))),
        ];
        let in_time = |_: &Option<Match>| Instant::now() < until;
        let found = ways
            .into_iter()
            .map(|way| sort_out(way.take_while(in_time).flatten().collect(), case).0)
            .find(|found| !found.is_empty());
        self.patience.set(self.patience.get().saturating_sub(begun.elapsed()));
        self.hasty.set(self.hasty.get() || found.is_none() && self.patience.get().is_zero());
        found.unwrap_or_default()
    }

    /// Whether a fault concerns anything that a value is computed from.
    fn spans(&self, active: &Active, case: &Case) -> bool {
        case.span.iter().any(|&id| concerns(active, &self.place(id, active.variant)))
    }

    /// The fault for each of the operations that it can concern, where there are more than one.
    fn in_one_operation(&self, active: Active, case: &Case) -> Vec<Active> {
        let one = |edit: &Edit| matches!(edit, Edit::Weight(_) | Edit::Norm(_) | Edit::Rope(_));
        let nodes = case.span.iter().map(|&id| (id, self.place(id, active.variant)));
        let ids: Vec<NodeId> = nodes
            .filter(|(_, place)| active.fault.edits.iter().any(one) && concerns(&active, place))
            .map(|(id, _)| id)
            .collect();
        let several = ids.len() > 1;
        ids.into_iter().filter(|_| several).map(|id| Active { only: Some(id), ..active }).collect()
    }

    /// Keys of failures that no known fault reproduces, with what can be said of them.
    fn unexplained(&self, failures: &[Failure]) -> BTreeMap<Key, Vec<String>> {
        let unknown = failures.iter().filter(|failure| failure.matches.is_empty());
        unknown
            .map(|failure| {
                let replay = Replay::local(self.stage, self.arithmetic, &[], self.trace, failure.id);
                let Node { key, per_token, .. } = &self.stage.graph.nodes[failure.id];
                let expected = (*replay.value(failure.id)).clone().joined(*per_token);
                let lines = structure::describe(self.stage, failure.id, &expected, &self.trace.values[key]);
                (key.clone(), lines)
            })
            .collect()
    }
}

/// Matches that reproduce the value, best first, and the best that does not.
fn sort_out(mut tried: Vec<Match>, case: &Case) -> (Vec<Match>, Option<Match>) {
    tried.sort_by(|a, b| a.residual.relative.total_cmp(&b.residual.relative));
    let Some(best) = tried.first().map(|best| best.residual.relative) else { return (tried, None) };
    let accepted = best <= case.gate.pass && best <= 0.3 * case.residual.relative;
    if !accepted {
        let rival = tried.into_iter().next();
        return (Vec::new(), rival);
    }
    // What cannot be distinguished from the best by the suspect's own rounding.
    let limit = best * 1.3 + case.gate.floor;
    let rest = tried.split_off(tried.partition_point(|found| found.residual.relative <= limit));
    (tried, rest.into_iter().next())
}
