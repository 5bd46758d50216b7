//! Diagnosis: the first operation of a foreign trace that does not follow from the trace's own inputs, and the known
//! fault that reproduces what the engine computed instead.
//!
//! Nothing is compared end to end: each operation is recomputed from the values that the suspect itself had (local
//! replay), so that rounding does not add up and later faults stay visible behind earlier ones.

mod conventions;
mod court;
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

use std::collections::BTreeSet;

use candor::{Format, Gguf};
use candor_ops::CHOSEN;

use crate::{
    Chosen, Evidence, Graph, Key, Kind, NodeId, Origin, Trace,
    fault::Active,
    replay::{Arithmetic, Cache, Decoded, Stage, Tokens},
};

use court::{Case, Court, Failure};
use precision::Precision;
use rounding::{Rounded, rounding};

pub use gate::{Gate, Status};
pub use precision::Storage;
pub use report::{Check, Confidence, Diagnosis, Finding, Outcome, Rival};

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

/// Elements that a value which is only suspicious must have for a fault to be named.
const MANY: usize = 16;

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
