//! Whose the rows of a trace's expert values are. Engines sort a row's experts as they please: a trace tells the order
//! by `ffn_moe_topk`, or by products that come out right in one order alone.

use std::{borrow::Cow, rc::Rc};

use candor_ops::CHOSEN;

use super::{gate::Gate, rounding::span};
use crate::{
    Chosen, Evidence, Graph, Key, Kind, NodeId, Trace, Value, compare,
    replay::{Arithmetic, Replay, Stage},
};

/// Whether a value has a row for each expert of a token.
fn of_experts(graph: &Graph, key: &Key) -> bool {
    graph.find(key).is_some_and(|id| graph.nodes[id].per_token != 1)
}

/// The trace without the values whose order must be known before they can be compared.
pub(crate) fn without<'t>(graph: &Graph, trace: &'t Trace) -> Cow<'t, Trace> {
    if !trace.values.keys().any(|key| of_experts(graph, key)) {
        return Cow::Borrowed(trace);
    }
    let rest = trace.values.iter().filter(|(key, _)| !of_experts(graph, key));
    let values = rest.map(|(key, evidence)| (key.clone(), evidence.clone())).collect();
    Cow::Owned(Trace { origin: trace.origin.clone(), values })
}

/// The trace with the choices of experts that its values go with, in their order, and the values for which none was
/// found.
pub(crate) fn placed<'t>(stage: &Stage<'_>, trace: &'t Trace, arithmetic: Arithmetic) -> (Cow<'t, Trace>, Vec<Key>) {
    let Stage { graph, tokens, .. } = stage;
    let mut out = without(graph, trace);
    let whole = |key: &Key| {
        let id = graph.find(key)?;
        trace.values[key].dense(tokens.rows(graph.nodes[id].side), graph.width(id, tokens))
    };
    let chosen = |key: &Key| CHOSEN.contains(&key.name.as_str()) && graph.find(key).is_some();
    let (mut unplaced, partly): (Vec<Key>, Vec<Key>) = trace
        .values
        .keys()
        .filter(|key| of_experts(graph, key) || chosen(key))
        .cloned()
        .partition(|key| whole(key).is_some());
    unplaced.retain(|key| !chosen(key));
    let choices = graph.nodes.iter().enumerate();
    for (id, node) in choices.filter(|(_, node)| matches!(node.kind, Kind::Route { part: Chosen::Both, .. })) {
        let layer = |key: &Key| key.layer == node.key.layer;
        let (members, rest): (Vec<Key>, _) = unplaced.into_iter().partition(layer);
        unplaced = rest;
        let case = Choices { stage, arithmetic, id, used: node.width / 2, trace, members: &members };
        match case.order(&mut out) {
            Some(order) => {
                let out = out.to_mut();
                out.values.insert(node.key.clone(), order);
                out.values.extend(members.into_iter().map(|key| (key.clone(), trace.values[&key].clone())));
            }
            None => unplaced.extend(members),
        }
    }
    unplaced.extend(partly);
    (out, unplaced)
}

/// The choices of a layer.
struct Choices<'a> {
    stage: &'a Stage<'a>,
    arithmetic: Arithmetic,
    id: NodeId,
    used: usize,
    trace: &'a Trace,
    /// Values with a row for each of them.
    members: &'a [Key],
}

impl Choices<'_> {
    /// The choices in the order of the trace's values; `out` is the trace without these.
    fn order(&self, out: &mut Cow<'_, Trace>) -> Option<Evidence> {
        let told = self.told(CHOSEN[0]);
        if told.is_none() && self.members.is_empty() {
            return None;
        }
        let own = Replay::given(self.stage, self.arithmetic, out).value(self.id);
        let first = match told {
            Some(experts) => self.with_weights(&own, experts)?,
            None => own,
        };
        if self.used == 1 || self.members.is_empty() {
            return Some(evidence(&first));
        }
        let key = &self.stage.graph.nodes[self.id].key;
        out.to_mut().values.insert(key.clone(), evidence(&first));
        let found = self.members.iter().find_map(|member| self.fitting(out, &first, member));
        out.to_mut().values.remove(key);
        // Where nothing is right in the order that the dump gives nor in another, it is the values that are wrong.
        found.or_else(|| told.map(|_| evidence(&first)))
    }

    fn told(&self, name: &str) -> Option<&[f32]> {
        let Stage { graph, tokens, .. } = self.stage;
        let node = &graph.nodes[self.id];
        let evidence = self.trace.values.get(&Key::new(name, node.key.layer))?;
        evidence.dense(tokens.rows(node.side), self.used)
    }

    /// Pairs of these experts and their weights, if both are known.
    fn with_weights(&self, own: &Value, experts: &[f32]) -> Option<Rc<Value>> {
        let Kind::Route { router, .. } = &self.stage.graph.nodes[self.id].kind else { return None };
        let weights = self.told(CHOSEN[1]);
        let mut pairs = own.clone();
        for (at, (pair, &expert)) in pairs.data.chunks_exact_mut(2).zip(experts).enumerate() {
            let is_one = expert.fract() == 0.0 && (0.0..router.experts as f32).contains(&expert);
            let same = own.row(at / self.used).chunks_exact(2).find(|pair| pair[0] == expert);
            let weight = weights.map(|weights| weights[at]).or_else(|| same.map(|pair| pair[1]));
            pair.copy_from_slice(&[expert, weight.filter(|_| is_one)?]);
        }
        Some(Rc::new(pairs))
    }

    /// The order in which a value follows from its inputs: the given one, or that of the nearest products.
    fn fitting(&self, out: &Trace, given: &Value, member: &Key) -> Option<Evidence> {
        let Stage { graph, tokens, .. } = self.stage;
        let (id, theirs) = (graph.find(member)?, &self.trace.values[member]);
        let node = &graph.nodes[id];
        let rows = theirs.dense(tokens.rows(node.side), graph.width(id, tokens))?;
        let (expected, _) = Replay::given(self.stage, self.arithmetic, out).recompute(id);
        let gate = Gate::of(graph, &span(self.stage, out, id), self.arithmetic, 0.0, theirs);
        let fits = |value: Value| Some(compare(&value.joined(self.used), theirs)?.relative < gate.wrong);
        if fits(expected.clone())? {
            return Some(evidence(given));
        }
        let (mut sorted, mut pairs) = (expected.clone(), given.clone());
        for (at, row) in rows.chunks_exact(node.width).enumerate() {
            let first = at / self.used * self.used;
            let far = |other: usize| -> f64 {
                let other = expected.row(other);
                row.iter().zip(other).map(|(a, b)| f64::from(a - b).powi(2)).sum()
            };
            let nearest = (first..first + self.used).min_by(|&a, &b| far(a).total_cmp(&far(b)))?;
            sorted.row_mut(at).copy_from_slice(expected.row(nearest));
            pairs.data[2 * at..][..2].copy_from_slice(&given.data[2 * nearest..][..2]);
        }
        let several = |row: &[f32]| {
            let experts = || row.chunks_exact(2).map(|pair| pair[0]);
            experts().enumerate().any(|(at, expert)| experts().take(at).any(|other| other == expert))
        };
        let twice = pairs.data.chunks_exact(2 * self.used).any(several);
        (!twice && fits(sorted)?).then(|| evidence(&pairs))
    }
}

fn evidence(pairs: &Value) -> Evidence {
    Evidence::all(pairs.width, pairs.data.clone())
}
