//! Attention's scores and weights of a recorded run. No backend has them as values: they are made of the run's own
//! queries and keys, rounded as the cache keeps them, by the formulas.

use std::collections::{BTreeMap, BTreeSet};

use candor::{Gguf, KvFormat, Observed};

use super::{Selection, Sink, selection::is_scored};
use crate::{
    Evidence, Graph, Key, Kind, NodeId, Trace,
    file::WriteError,
    replay::{Arithmetic, Cache, Decoded, Replay, Stage, Tokens},
};

/// What is asked for of one run, and the queries and keys so far.
pub(super) struct Scores {
    graph: Graph,
    /// Scores and weights that are asked for.
    asked: Vec<NodeId>,
    /// The queries and keys that they are made of.
    needs: BTreeSet<Key>,
    /// Width and rows of each.
    given: BTreeMap<Key, (usize, Vec<f32>)>,
}

impl Scores {
    /// What a selection asks for; `None` where it asks for nothing of the kind.
    ///
    /// # Errors
    /// If the file is not a model that runs.
    pub(super) fn of(gguf: &Gguf, selection: &Selection) -> Result<Option<Scores>, candor::Error> {
        if selection.names.is_empty() {
            return Ok(None);
        }
        let graph = Graph::new(gguf)?;
        let asks = |&id: &NodeId| is_scored(&graph, &graph.nodes[id]) && selection.asks(&graph.nodes[id].key);
        let asked: Vec<NodeId> = (0..graph.nodes.len()).filter(asks).collect();
        let scores = asked.iter().map(|&id| match graph.nodes[id].kind {
            Kind::SoftMax(_) => graph.nodes[id].inputs[0],
            _ => id,
        });
        let inputs = scores.flat_map(|id| graph.nodes[id].inputs.clone());
        let needs: BTreeSet<Key> = inputs.map(|id| graph.nodes[id].key.clone()).collect();
        Ok((!asked.is_empty()).then(|| Scores { graph, asked, needs, given: BTreeMap::new() }))
    }

    /// Whether a value is needed.
    pub(super) fn wants(&self, name: &str, layer: Option<usize>) -> bool {
        self.needs.iter().any(|key| key.name == name && key.layer == layer)
    }

    /// Keeps a value's rows, where they are needed. They come in the order of the tokens.
    pub(super) fn take(&mut self, observed: &Observed<'_>, width: usize) {
        let key = Key::new(observed.name, observed.layer);
        if self.needs.contains(&key) {
            let (_, rows) = self.given.entry(key).or_insert_with(|| (width, Vec::new()));
            rows.extend_from_slice(observed.values);
        }
    }

    /// Makes what is asked for, and hands rows from a token on to every sink. A position that a row does not see has 0.
    pub(super) fn finish(
        self,
        gguf: &Gguf,
        tokens: &Tokens,
        [keys, values]: [KvFormat; 2],
        selection: &Selection,
        sinks: &mut [&mut dyn Sink],
    ) -> Result<(), WriteError> {
        let Scores { graph, asked, given, .. } = self;
        let values_of = |(key, (width, rows)): (Key, (usize, Vec<f32>))| (key, Evidence::all(width, rows));
        let trace = Trace { values: given.into_iter().map(values_of).collect(), ..Trace::default() };
        let cache = Cache { keys: keys.format(), values: values.format(), ..Cache::default() };
        let (decoded, arithmetic) = (Decoded::default(), Arithmetic { cache, ..Arithmetic::default() });
        let stage = Stage { graph: &graph, gguf, tokens, decoded: &decoded };
        for id in asked {
            // What a replay computes it keeps: each value has its own, so that memory holds one.
            let mut value = (*Replay::given(&stage, arithmetic, &trace).value(id)).clone();
            let counts = graph.counts(id, tokens);
            for row in 0..value.rows {
                let unseen = |(col, _): &(usize, &mut f32)| !counts(row, *col);
                value.row_mut(row).iter_mut().enumerate().filter(unseen).for_each(|(_, score)| *score = 0.0);
            }
            let first = selection.first_row(tokens.prompt).min(value.rows.saturating_sub(1));
            for sink in sinks.iter_mut() {
                sink.rows(&graph.nodes[id].key, value.width, first, &value.data[first * value.width..])?;
            }
        }
        Ok(())
    }
}
