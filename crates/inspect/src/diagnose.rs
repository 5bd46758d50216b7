//! Diagnosis: the first operation of a foreign trace that does not follow from the trace's own inputs, and the known
//! fault that reproduces what the engine computed instead.
//!
//! Nothing is compared end to end: each operation is recomputed from the values that the suspect itself had (local
//! replay), so that rounding does not add up and later faults stay visible behind earlier ones.

pub(crate) mod experts;
mod explain;
mod fit;
mod gate;
mod report;
mod rounding;
mod structure;

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use candor::{gguf::Gguf, ops::CHOSEN};

use crate::{
    Graph, Key, Kind, Node, NodeId, Residual, Trace, Value, catalogue, compare_where,
    fault::{Active, Edit},
    replay::{Arithmetic, Decoded, Order, Place, Replay, Stage, Tokens},
};

use rounding::{rounding, span};

pub use gate::Gate;
pub use report::{Check, Confidence, Diagnosis, Finding, Outcome, Rival, Status};

/// Why a trace cannot be diagnosed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model does not run.
    #[error(transparent)]
    Model(#[from] candor::models::Error),
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
    /// The trace's values, and what follows from them where it has none.
    healthy: &'a Replay<'a>,
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

/// Diagnoses a trace of the model in `gguf`.
///
/// # Errors
/// If the model does not run, or the trace is not one of it.
pub fn diagnose(gguf: &Gguf, trace: &Trace) -> Result<Diagnosis, Error> {
    diagnose_in(&Graph::new(gguf)?, gguf, trace)
}

/// Diagnoses a trace of the model in `gguf`, whose operations are those of `graph`.
///
/// # Errors
/// If the trace is not one of it.
pub fn diagnose_in(graph: &Graph, gguf: &Gguf, trace: &Trace) -> Result<Diagnosis, Error> {
    let (told, tokens) = (trace, tokens(trace, graph)?);
    let known = fit(told, graph, &tokens)?;
    let decoded = Decoded::default();
    let stage = Stage { graph, gguf, tokens: &tokens, decoded: &decoded };
    let bare = experts::without(graph, told);
    let plain: Vec<NodeId> =
        known.iter().copied().filter(|&id| bare.values.contains_key(&graph.nodes[id].key)).collect();
    let arithmetic = Arithmetic { rounding: rounding(&stage, &bare, &plain), order: Order::Lanes };
    let (trace, unordered) = experts::placed(&stage, told, arithmetic);
    let trace = &*trace;
    let healthy = Replay::given(&stage, arithmetic, trace);
    let court = Court { stage: &stage, trace, arithmetic, healthy: &healthy };

    let mut checks = Vec::new();
    let mut failures: Vec<Failure> = Vec::new();
    for &id in known.iter().filter(|&&id| !unordered.contains(&graph.nodes[id].key)) {
        let Some(case) = court.case(id) else { continue };
        let key = &graph.nodes[id].key;
        let Case { gate, residual, .. } = case;
        let status = gate.status(&residual);
        checks.push(Check { key: key.clone(), status, residual, gate, from: given_inputs(graph, &case.span) });
        if matches!(status, Status::Wrong | Status::Suspicious) {
            let mut before: Vec<Vec<Active>> = Vec::new();
            for found in failures.iter().flat_map(|failure| &failure.matches) {
                if !before.contains(&found.faults) {
                    before.push(found.faults.clone());
                }
            }
            let (matches, rival) = court.search(&case, &before);
            if status == Status::Wrong || !matches.is_empty() {
                failures.push(Failure { id, gate, healthy: residual, matches, rival });
            }
        }
    }
    let unknown = told.values.keys().filter(|key| graph.find(key).is_none());
    let unplaced = unknown.chain(&unordered).cloned().collect();
    let findings = court.explain(&failures, &checks);
    let unexplained = court.unexplained(&failures);
    let mut said = Diagnosis::new(trace, &tokens, arithmetic.rounding, checks, findings, unexplained, unplaced);
    if let Some(key) = unordered.first() {
        let [experts, _] = CHOSEN.map(|name| Key::new(name, key.layer));
        said.advice.push(format!(
            "in which order {key} has a token's experts is not known, so that it was not compared: dump {experts} too"
        ));
    }
    Ok(said)
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
pub(crate) fn fit(trace: &Trace, graph: &Graph, tokens: &Tokens) -> Result<Vec<NodeId>, Error> {
    let mut known = BTreeSet::new();
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
            return Err(Error::Width { key: key.clone(), expected, got: evidence.width });
        }
        if let Some(list) = evidence.rows.as_ref()
            && (list.len() > rows || list.iter().any(|&row| row >= rows))
        {
            return Err(Error::Rows { key: key.clone(), expected: rows, got: list.len() });
        }
        known.insert(id);
    }
    match trace.values.keys().next() {
        Some(first) if known.is_empty() => Err(Error::NoValues { count: trace.values.len(), first: first.to_string() }),
        None => Err(Error::NoValues { count: 0, first: "missing".to_owned() }),
        Some(_) => Ok(known.into_iter().collect()),
    }
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
        | (Edit::Route(_), Kind::Route { .. })
        | (Edit::Output(_), _) => true,
        _ => false,
    })
}

/// All faults of the catalogue with all their numbers.
fn suspects() -> impl Iterator<Item = Active> {
    catalogue().flat_map(|fault| fault.variants.iter().map(move |&variant| Active { fault, variant }))
}

/// Of how many single faults, the closest ones, pairs are tried.
const PAIRS_FROM: usize = 24;

/// Most operations in a row for which pairs and unknown numbers are tried.
const WITHIN: usize = 4;

impl Court<'_> {
    fn place(&self, id: NodeId, variant: f64) -> Place<'_> {
        let Stage { graph, gguf, tokens, .. } = *self.stage;
        Place { graph, gguf, node: &graph.nodes[id], id, tokens, variant }
    }

    /// A value of the trace beside what follows from its inputs; `None` where the two have nothing in common.
    fn case(&self, id: NodeId) -> Option<Case> {
        let graph = self.stage.graph;
        let evidence = &self.trace.values[&graph.nodes[id].key];
        let (expected, inputs) = self.healthy.recompute(id);
        let residual = self.residual(id, expected.clone())?;
        let span = span(self.stage, self.trace, id);
        let gate = Gate::of(graph, &span, self.arithmetic, evidence);
        Some(Case { id, gate, residual, span, expected, inputs })
    }

    /// How far the suspect is from a value.
    fn residual(&self, id: NodeId, value: Value) -> Option<Residual> {
        let Stage { graph, tokens, .. } = self.stage;
        let node = &graph.nodes[id];
        compare_where(&value.joined(node.per_token), &self.trace.values[&node.key], graph.counts(id, tokens))
    }

    /// How far faults are from what the suspect has; `None` where they change nothing.
    fn try_faults(&self, faults: &[Active], case: &Case) -> Option<Residual> {
        let edits = || faults.iter().flat_map(|active| active.fault.edits.iter().map(move |edit| (active, edit)));
        if case.span.len() == 1 && edits().all(|(_, edit)| matches!(edit, Edit::Output(_))) {
            // What comes out is changed: no need to compute it anew.
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
        let concerned = suspects()
            .filter(|active| case.span.iter().any(|&node| concerns(active, &self.place(node, active.variant))));
        let mut tried: Vec<Match> = concerned.filter_map(|active| attempt(vec![active])).collect();
        for fault in catalogue() {
            let Some(fit) = &fault.fit else { continue };
            let active = Active { fault, variant: fault.variants[0] };
            if case.span.iter().any(|&node| concerns(&active, &self.place(node, active.variant))) {
                tried.extend(self.fitted(fault, fit, case));
            }
        }
        tried.sort_by(|a, b| a.residual.relative.total_cmp(&b.residual.relative));
        let best: Vec<Active> = tried.iter().take(PAIRS_FROM).map(|found| found.faults[0]).collect();
        let (found, rival) = sort_out(tried, case);
        if !found.is_empty() || case.span.len() > WITHIN {
            return (found, rival);
        }
        let mut pairs = Vec::new();
        for (index, &a) in best.iter().enumerate() {
            for &b in best[index + 1..].iter().filter(|b| b.fault.name != a.fault.name) {
                pairs.extend([vec![a, b], vec![b, a]].into_iter().filter_map(attempt));
            }
        }
        let (found, pair_rival) = sort_out(pairs, case);
        (found, pair_rival.or(rival))
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
    // What cannot be told from the best by the suspect's own rounding.
    let limit = best * 1.3 + case.gate.floor;
    let rest = tried.split_off(tried.partition_point(|found| found.residual.relative <= limit));
    (tried, rest.into_iter().next())
}
