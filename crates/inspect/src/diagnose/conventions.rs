//! Names that mean another moment of the computation in another program: embeddings before positions are added, scores that
//! are scaled already, one product for queries, keys and values. What a value equals decides, and whether what was
//! computed from it follows.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use candor_ops::Pairing;

use super::{court::Court, gate::Status, rounding::span};
use crate::{Evidence, Graph, Key, Kind, Known, NodeId, Trace, compare, replay::Stage};

/// How many operations away another meaning is looked for.
const AWAY: usize = 4;

/// Names that programs are known to give to more than one moment: taken for what they equal although nothing that was
/// computed from them is there.
const LOOSE: [&str; 9] = ["inp_embd", "kq", "Qcur", "Kcur", "Vcur", "kqv_out", "ffn_out", "ffn_up", "ffn_moe_logits"];

/// Another meaning of a value.
struct Meaning {
    /// What it is.
    id: NodeId,
    /// On the numbers, to be that.
    factor: f32,
}

/// The trace with products that engines keep in one taken apart, where the model's file has them in one tensor.
pub(super) fn apart<'t>(stage: &Stage<'_>, trace: &'t Trace) -> (Cow<'t, Trace>, Vec<String>) {
    let (mut out, mut said) = (Cow::Borrowed(trace), Vec::new());
    for (key, evidence) in &trace.values {
        let fits = |id: NodeId| stage.graph.width(id, stage.tokens) == evidence.width;
        if key.layer.is_none() || evidence.width == 0 || stage.graph.find(key).is_some_and(fits) {
            continue;
        }
        let Some(parts) = parts(stage.graph, key, evidence.width) else { continue };
        let taken = |id: NodeId| Some(&stage.graph.nodes[id].key).filter(|other| *other != key);
        if parts.iter().filter_map(|&(id, _)| taken(id)).any(|other| trace.values.contains_key(other)) {
            continue;
        }
        let Known::All(values) = &evidence.known else { continue };
        let names: Vec<String> = parts.iter().map(|(id, _)| stage.graph.nodes[*id].key.to_string()).collect();
        said.push(format!("{key} is {} side by side", names.join(", ")));
        let values_of = |first: usize, width: usize| {
            let rows = values.chunks_exact(evidence.width);
            rows.flat_map(|row| row[first..first + width].iter().copied()).collect::<Vec<f32>>()
        };
        let mut split = Vec::new();
        for (id, first) in parts {
            let width = stage.graph.nodes[id].width;
            let known = Known::All(values_of(first, width));
            let part = Evidence { width, known, sum: None, ..evidence.clone() };
            split.push((stage.graph.nodes[id].key.clone(), part));
        }
        out.to_mut().values.remove(key);
        out.to_mut().values.extend(split);
    }
    (out, said)
}

/// The products of a layer that share a tensor and are together as wide as a value, with their first columns; with their
/// biases, where they have some.
fn parts(graph: &Graph, key: &Key, width: usize) -> Option<Vec<(NodeId, usize)>> {
    let mut tensors: BTreeMap<&str, Vec<(usize, NodeId)>> = BTreeMap::new();
    let of_layer = graph.nodes.iter().enumerate().filter(|(_, node)| node.key.layer == key.layer);
    for (id, node) in of_layer {
        let Kind::MatMul(weight) = &node.kind else { continue };
        let Some((name, rows)) = weight.name.split_once('[') else { continue };
        let first = rows.split("..").next().and_then(|first| first.parse().ok())?;
        tensors.entry(name).or_default().push((first, id));
    }
    let whole =
        |parts: &Vec<(usize, NodeId)>| parts.iter().map(|&(_, id)| graph.nodes[id].width).sum::<usize>() == width;
    let mut of_width = tensors.into_values().filter(whole);
    // Two tensors of the same width: which one is meant is not known.
    let (mut found, None) = (of_width.next()?, of_width.next()) else { return None };
    found.sort();
    let biased = |id: NodeId| {
        let next = graph.nodes.iter().position(|node| matches!(node.kind, Kind::Bias(_)) && node.inputs == [id]);
        next.unwrap_or(id)
    };
    Some(found.into_iter().map(|(first, id)| (biased(id), first)).collect())
}

impl Court<'_> {
    /// The trace with values under the names of what they equal, where that is not what their own names say and what was
    /// computed from them follows then.
    pub(super) fn settled(&self, known: &[NodeId]) -> (Trace, Vec<String>) {
        let graph = self.stage.graph;
        let (mut trace, mut said) = (self.trace.clone(), BTreeMap::new());
        if let Some(moved) = self.moved(&trace) {
            trace = moved;
            said.insert((String::new(), String::new()), "hidden states begin with the first layer's output".to_owned());
        }
        if let Some(reordered) = self.with(&trace).reordered() {
            trace = reordered;
            let words =
                "queries and keys have the halves of their heads side by side, as in Transformers; the file has pairs";
            said.insert((String::new(), "halves".to_owned()), words.to_owned());
        }
        let mut say = |id: NodeId, meaning: &Meaning| {
            let [own, other] = [id, meaning.id].map(|id| graph.nodes[id].key.clone());
            said.entry((own.name.clone(), other.name.clone())).or_insert_with(|| match meaning.factor {
                1.0 => format!("{own} is what is called {other} here"),
                factor => format!("{own} is scaled already, by {}", 1.0 / factor),
            });
        };
        // Layer by layer: queries and keys may both mean something else, and nothing follows until both are understood.
        let layers: BTreeSet<Option<usize>> = known.iter().map(|&id| graph.nodes[id].key.layer).collect();
        for layer in layers {
            let of_layer: Vec<NodeId> =
                known.iter().copied().filter(|&id| graph.nodes[id].key.layer == layer).collect();
            let wrong = self.with(&trace).wrong(&of_layer);
            if wrong.len() > 1
                && let Some((better, meanings)) = self.with(&trace).together(&wrong)
            {
                meanings.iter().for_each(|(id, meaning)| say(*id, meaning));
                trace = better;
            }
            for id in self.with(&trace).wrong(&of_layer) {
                if let Some((meaning, better)) = self.with(&trace).meaning(id) {
                    say(id, &meaning);
                    trace = better;
                }
            }
        }
        (trace, said.into_values().collect())
    }

    /// The trace with queries and keys in the file's order of rows, where it has them in that of Transformers and attention
    /// does not follow from them as they stand. Where all follows once rotation takes halves, that is reported as what
    /// it is: a difference that does no harm.
    fn reordered(&self) -> Option<Trace> {
        let graph = self.stage.graph;
        let ropes = || {
            graph.nodes.iter().filter_map(|node| match &node.kind {
                Kind::Rope { rope, head_dim } => Some((rope, *head_dim)),
                _ => None,
            })
        };
        let (_, head_dim) = ropes().next().filter(|_| ropes().all(|(rope, _)| rope.pairing == Pairing::Norm))?;
        let of_heads = |key: &&Key| key.name.starts_with("Qcur") || key.name.starts_with("Kcur");
        let mut trace = self.trace.clone();
        for key in self.trace.values.keys().filter(of_heads) {
            let Known::All(values) = &mut trace.values.get_mut(key)?.known else { return None };
            if !values.len().is_multiple_of(head_dim) {
                return None;
            }
            for head in values.chunks_exact_mut(head_dim) {
                let halves = head.to_vec();
                for (pair, out) in head.chunks_exact_mut(2).enumerate() {
                    out.copy_from_slice(&[halves[pair], halves[pair + head_dim / 2]]);
                }
            }
        }
        let products: Vec<NodeId> =
            self.trace.values.keys().filter(of_heads).filter_map(|key| graph.find(key)).collect();
        let products: Vec<NodeId> = products
            .into_iter()
            .filter(|&id| matches!(graph.nodes[id].kind, Kind::MatMul(_) | Kind::Bias(_)))
            .collect();
        let court = self.with(&trace);
        let theirs = products.len() > 1
            && products.iter().all(|&id| court.follows(id))
            && products.iter().any(|&id| !self.follows(id));
        if !theirs {
            return None;
        }
        let later: Vec<NodeId> = products
            .iter()
            .flat_map(|&id| {
                let mut without = self.trace.clone();
                without.values.remove(&graph.nodes[id].key);
                self.frontier(&without, id)
            })
            .filter(|id| !products.contains(id))
            .collect();
        let as_it_stands = later.iter().all(|&id| self.follows(id));
        let as_the_file = later.iter().all(|&id| court.follows(id));
        (!as_it_stands && !as_the_file).then_some(trace)
    }

    /// Those of the values that the trace has and that are wrong under their names.
    fn wrong(&self, ids: &[NodeId]) -> Vec<NodeId> {
        let is_wrong = |id: &NodeId| {
            let known = self.trace.values.contains_key(&self.stage.graph.nodes[*id].key);
            // With most of the model between two values nothing tells what a name means.
            known
                && !self.is_deep(&span(self.stage, self.trace, *id))
                && self.case(*id).is_none_or(|case| case.gate.status(&case.residual) == Status::Wrong)
        };
        ids.iter().copied().filter(is_wrong).collect()
    }

    /// The trace with its layers' outputs one layer later, where the first that it has as the embedding is that of layer 0:
    /// some of Transformers' models keep hidden states so.
    fn moved(&self, trace: &Trace) -> Option<Trace> {
        let graph = self.stage.graph;
        let (embedding, first) = (Key::new("inp_embd", None), Key::new("l_out", Some(0)));
        let evidence = trace.values.get(&embedding)?;
        if self.is_deep(&span(self.stage, trace, graph.find(&first)?)) || self.follows(graph.find(&embedding)?) {
            return None;
        }
        let mut moved = trace.clone();
        moved.values.retain(|key, _| key.name != "l_out" && *key != embedding);
        let (expected, id) = (self.with(&moved), graph.find(&first)?);
        let value = expected.healthy.recompute(id).0;
        let gate = expected.gate(id, &span(self.stage, &moved, id), evidence);
        let right = gate.status(&compare(&value, evidence)?) == Status::Right;
        moved.values.insert(first, evidence.clone());
        for (key, evidence) in trace.values.iter().filter(|(key, _)| key.name == "l_out") {
            moved.values.insert(Key::new("l_out", key.layer.map(|layer| layer + 1)), evidence.clone());
        }
        moved.values.retain(|key, _| graph.find(key).is_some() || trace.values.contains_key(key));
        // Where the first layer is wrong, the last norm tells which state it was made from.
        let last =
            graph.find(&Key::new("result_norm", None)).filter(|id| trace.values.contains_key(&graph.nodes[*id].key));
        let told = || last.is_some_and(|last| !self.follows(last) && self.with(&moved).follows(last));
        (right || told()).then_some(moved)
    }

    /// Meanings of several wrong values at once, if all that was computed from them follows then.
    fn together(&self, wrong: &[NodeId]) -> Option<(Trace, Vec<(NodeId, Meaning)>)> {
        let graph = self.stage.graph;
        let mut trace = self.trace.clone();
        let mut meanings = Vec::new();
        for &id in wrong {
            let mut without = trace.clone();
            let evidence = without.values.remove(&graph.nodes[id].key)?;
            let Some((meaning, changed)) = self.with(&without).equal(id, &evidence).into_iter().next() else {
                continue;
            };
            without.values.insert(graph.nodes[meaning.id].key.clone(), changed);
            trace = without;
            meanings.push((id, meaning));
        }
        let frontier: BTreeSet<NodeId> = meanings
            .iter()
            .flat_map(|&(id, _)| {
                let mut without = self.trace.clone();
                without.values.remove(&graph.nodes[id].key);
                self.frontier(&without, id)
            })
            .filter(|id| trace.values.contains_key(&graph.nodes[*id].key))
            .collect();
        let court = self.with(&trace);
        let gained = frontier.iter().any(|&id| !self.follows(id));
        (meanings.len() > 1 && gained && frontier.iter().all(|&id| court.follows(id))).then_some((trace, meanings))
    }

    /// What a value equals that this trace does not have, the nearest first, and the value as that.
    fn equal(&self, id: NodeId, evidence: &Evidence) -> Vec<(Meaning, Evidence)> {
        let meanings = self.meanings(id, evidence).into_iter().filter_map(|meaning| {
            let other = &self.stage.graph.nodes[meaning.id];
            let changed = scaled(evidence, meaning.factor);
            let expected = self.healthy.recompute(meaning.id).0.joined(other.per_token);
            let gate = self.gate(meaning.id, &span(self.stage, self.trace, meaning.id), &changed);
            let residual = compare(&expected, &changed)?;
            (gate.status(&residual) == Status::Right).then_some((meaning, changed))
        });
        meanings.collect()
    }

    /// What a value is that is not what its name says, and the trace with it in its place.
    fn meaning(&self, id: NodeId) -> Option<(Meaning, Trace)> {
        let graph = self.stage.graph;
        let key = &graph.nodes[id].key;
        let mut without = self.trace.clone();
        let evidence = without.values.remove(key)?;
        let bare = self.with(&without);
        let frontier = self.frontier(&without, id);
        let before: Vec<bool> = frontier.iter().map(|&id| self.follows(id)).collect();
        // The sum with the stream, under the name of what is added to it: such a value is wrong by itself, which it would not
        // be if the stream had been left out.
        let same = |&other: &NodeId| {
            let known = without.values.get(&graph.nodes[other].key);
            matches!(graph.nodes[other].kind, Kind::Add) && known.is_some_and(|known| known.known == evidence.known)
        };
        if let Some(&sum) = frontier.iter().find(|other| same(other)) {
            return Some((Meaning { id: sum, factor: 1.0 }, without));
        }
        bare.equal(id, &evidence).into_iter().find_map(|(meaning, changed)| {
            let mut trace = without.clone();
            trace.values.insert(graph.nodes[meaning.id].key.clone(), changed);
            let court = self.with(&trace);
            let after: Vec<bool> = frontier.iter().map(|&id| court.follows(id)).collect();
            let pairs = || before.iter().zip(&after);
            let gained = pairs().any(|(before, after)| !before && *after);
            let lost = pairs().any(|(before, after)| *before && !after);
            // Nothing speaks for the name: nothing was computed from it, or what was follows in either way or in none.
            let alone = pairs().all(|(before, after)| before == after);
            // What the engine's own traces do not hold has a name of ours alone.
            let known = LOOSE.contains(&key.name.as_str()) || !graph.nodes[id].tapped;
            let whole = is_whole(graph, id, meaning.id) || is_fused(graph, id, meaning.id);
            let loose = alone && known && meaning.factor == 1.0 && whole;
            (!lost && (gained || loose)).then_some((meaning, trace))
        })
    }

    /// Whether a value of the trace is right.
    fn follows(&self, id: NodeId) -> bool {
        self.case(id).is_none_or(|case| {
            matches!(case.gate.status(&case.residual), Status::Right | Status::Unreadable | Status::Undecided)
        })
    }

    /// The values of the trace that are computed from a value which it does not have.
    fn frontier(&self, without: &Trace, id: NodeId) -> Vec<NodeId> {
        let graph = self.stage.graph;
        let known = without.values.keys().filter_map(|key| graph.find(key)).filter(|&other| other > id);
        let mut known: Vec<NodeId> = known.collect();
        known.sort_unstable();
        known.retain(|&other| span(self.stage, without, other).contains(&id));
        known
    }

    /// Values near another, of as many elements, which the trace does not have.
    fn meanings(&self, id: NodeId, evidence: &Evidence) -> Vec<Meaning> {
        let Graph { nodes, .. } = self.stage.graph;
        let mut near = BTreeSet::from([id]);
        let mut open = vec![id];
        for _ in 0..AWAY {
            let up =
                open.iter().filter(|&&id| is_small(&nodes[id].kind)).flat_map(|&id| nodes[id].inputs.iter().copied());
            let down = nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| is_small(&node.kind) && node.inputs.iter().any(|input| open.contains(input)));
            let found: Vec<NodeId> = up.chain(down.map(|(id, _)| id)).filter(|&other| near.insert(other)).collect();
            open = found;
        }
        if evidence.width == 0 {
            // The first numbers of a row may be those of several products side by side.
            let layer = nodes[id].key.layer;
            let beside = (0..id).filter(|&other| nodes[other].key.layer == layer);
            near.extend(beside.filter(|&other| is_fused(self.stage.graph, id, other)));
        }
        near.remove(&id);
        let width = |id: NodeId| self.stage.graph.width(id, self.stage.tokens);
        let fits = |id: NodeId| evidence.width == 0 || width(id) == evidence.width;
        let free = |id: &NodeId| fits(*id) && !self.trace.values.contains_key(&nodes[*id].key);
        let mut all: Vec<Meaning> = near.into_iter().filter(free).map(|id| Meaning { id, factor: 1.0 }).collect();
        all.sort_by_key(|meaning| meaning.id.abs_diff(id));
        if let Kind::Scores(heads) = nodes[id].kind
            && heads.scale > 0.0
        {
            all.push(Meaning { id, factor: 1.0 / heads.scale });
        }
        all
    }
}

/// Whether one value is made of the other alone, or of weights besides: then either may be meant.
fn is_whole(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    let (first, mut last) = (a.min(b), a.max(b));
    for _ in 0..AWAY {
        let &[input] = graph.nodes[last].inputs.as_slice() else { return false };
        if matches!(graph.nodes[last].kind, Kind::Rope { .. }) {
            return false;
        }
        if input == first {
            return true;
        }
        last = input;
    }
    false
}

/// Whether two products read parts of one tensor, as an engine has them that multiplies with all of it.
fn is_fused(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    let tensor = |id: NodeId| graph.nodes[id].kind.product()?.name.split_once('[').map(|(name, _)| name);
    tensor(a).is_some() && tensor(a) == tensor(b)
}

/// Whether an operation is one of those between which programs differ in what they call a value.
fn is_small(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Bias(_)
            | Kind::Add
            | Kind::Unary(_)
            | Kind::Scale(_)
            | Kind::Norm { .. }
            | Kind::Rope { .. }
            | Kind::Positions(_)
            | Kind::Copy { .. }
            | Kind::MulGroups
            | Kind::Mul
            | Kind::Stacked { routed: false, .. }
    )
}

fn scaled(evidence: &Evidence, factor: f32) -> Evidence {
    let mut out = evidence.clone();
    if factor != 1.0 {
        match &mut out.known {
            Known::All(values) => values.iter_mut().for_each(|x| *x *= factor),
            Known::Some(points) => points.iter_mut().for_each(|(_, _, x)| *x *= factor),
        }
        out.precision *= f64::from(factor.abs());
        out.sum = None;
    }
    out
}
