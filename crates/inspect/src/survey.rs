//! What of the catalogue can be distinguished in a file: which operations each fault changes there, which other faults
//! change the same ones to the same numbers, and why the rest does not apply.
//!
//! Each operation is computed once rightly and once with each fault, from a short run of the model; of layers that are
//! alike the first one is taken.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use candor::Gguf;
use serde::Serialize;

use crate::{
    Evidence, Graph, Key, Kind, NodeId, Origin, Trace, Value, catalogue,
    fault::{Active, Edit, Fault},
    replay::{Arithmetic, Decoded, Place, Replay, Stage, Tokens},
};

/// A fault in a file.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub fault: &'static str,
    /// Values that it changes, by the names that they have in all layers; empty where it does not apply.
    pub values: Vec<String>,
    /// Faults that give the same numbers everywhere.
    pub twins: Vec<&'static str>,
    /// Why it does not apply, in a few words.
    pub because: Option<&'static str>,
}

/// A prompt of these many tokens, and what is decoded behind it.
const TOKENS: (usize, usize) = (7, 3);

/// Relative difference from which on a change shows.
const SHOWS: f64 = 1e-5;

/// Relative difference up to which two changes are the same.
const SAME: f64 = 1e-6;

/// What a fault with one of its numbers makes of a value, in a few sums that no two changes share by chance.
type Sketch = BTreeMap<NodeId, [f64; 4]>;

/// Looks through the catalogue.
///
/// # Errors
/// If the model does not run.
pub fn survey(gguf: &Gguf) -> Result<Vec<Row>, candor_models::Error> {
    let graph = Graph::new(gguf)?;
    let tokens = tokens(&graph);
    let decoded = Decoded::default();
    let stage = Stage { graph: &graph, gguf, tokens: &tokens, decoded: &decoded };
    let (ids, trace) = chosen(&stage);
    let arithmetic = Arithmetic::default();
    let mut found: Vec<(&'static Fault, Vec<Sketch>)> = catalogue().map(|fault| (fault, Vec::new())).collect();
    for (fault, sketches) in &mut found {
        for &variant in fault.variants {
            let active = [Active::new(fault, variant)];
            let mut sketch = Sketch::new();
            for &id in &ids {
                let place = Place { graph: &graph, gguf, node: &graph.nodes[id], id, tokens: &tokens, variant };
                if !concerns(fault, &place) {
                    continue;
                }
                let replay = Replay::local(&stage, arithmetic, &active, &trace, id);
                let value = replay.value(id);
                if replay.all_applied() && differs(&value, &trace, &graph, id) {
                    sketch.insert(id, sums(&value));
                }
            }
            sketches.push(sketch);
        }
    }
    let same = |a: &Sketch, b: &Sketch| {
        let equal = |(a, b): (&f64, &f64)| (a - b).abs() <= SAME * (a.abs() + b.abs()) || a.to_bits() == b.to_bits();
        a.keys().eq(b.keys()) && a.values().zip(b.values()).all(|(a, b)| a.iter().zip(b).all(equal))
    };
    let rows = found.iter().map(|(fault, sketches)| {
        let shown: Vec<&Sketch> = sketches.iter().filter(|sketch| !sketch.is_empty()).collect();
        let twin = |(other, theirs): &&(&'static Fault, Vec<Sketch>)| {
            other.name != fault.name && theirs.iter().any(|b| shown.iter().any(|a| same(a, b)))
        };
        let values: BTreeSet<String> =
            shown.iter().flat_map(|sketch| sketch.keys()).map(|&id| graph.nodes[id].key.name.clone()).collect();
        Row {
            fault: fault.name,
            because: values.is_empty().then(|| because(fault, &graph)),
            values: values.into_iter().collect(),
            twins: found.iter().filter(twin).map(|(other, _)| other.name).collect(),
        }
    });
    Ok(rows.collect())
}

/// Tokens that any vocabulary has, none of them twice.
fn tokens(graph: &Graph) -> Tokens {
    let (prompt, more) = TOKENS;
    let some = |count: usize, from: usize| -> Vec<u32> {
        let vocab = graph.config.vocab.max(1);
        (0..count).map(|n| ((from + n * 37) % vocab) as u32).collect()
    };
    let tokens = Tokens::new(some(prompt + more, 5), prompt);
    match graph.config.start {
        Some(_) => Tokens { text: some(prompt, 11), ..tokens },
        None => tokens,
    }
}

/// The nodes that are looked at, and all their inputs: the first of layers that are alike, what is in no layer, and the last layer.
fn chosen(stage: &Stage<'_>) -> (Vec<NodeId>, Trace) {
    let nodes = &stage.graph.nodes;
    let mut layers: BTreeMap<Option<usize>, Vec<String>> = BTreeMap::new();
    for node in nodes {
        let inputs = node.inputs.iter().map(|&input| nodes[input].key.name.as_str()).collect::<Vec<_>>().join(",");
        let format = node.kind.weight().map_or("", |weight| weight.format.name());
        let mask = match &node.kind {
            Kind::SoftMax(attending) => format!("{:?}", attending.mask),
            _ => String::new(),
        };
        let about = format!("{} {} {inputs} {format} {mask}", node.key.name, node.kind.name());
        layers.entry(node.key.layer).or_default().push(about);
    }
    let last = layers.keys().flatten().max().copied();
    let mut seen = HashSet::new();
    let kept: BTreeSet<Option<usize>> = layers
        .iter()
        .filter(|(layer, about)| layer.is_none() || **layer == last || seen.insert((*about).clone()))
        .map(|(layer, _)| *layer)
        .collect();
    let ids: Vec<NodeId> = (0..nodes.len()).filter(|&id| kept.contains(&nodes[id].key.layer)).collect();
    let mut trace =
        Trace { origin: Origin { tokens: Some(stage.tokens.ids.clone()), ..Origin::default() }, ..Trace::default() };
    // A layer that is left out is replaced by what went into it: what it would have added does not matter here.
    let replay = Replay::whole(stage, Arithmetic::default(), &[]);
    for &id in &ids {
        keep(&mut trace, &nodes[id].key, nodes[id].per_token, &replay.value(id));
        for &input in &nodes[id].inputs {
            keep(&mut trace, &nodes[input].key, nodes[input].per_token, &replay.value(input));
        }
    }
    (ids, trace)
}

fn keep(trace: &mut Trace, key: &Key, per_token: usize, value: &Value) {
    if !trace.values.contains_key(key) {
        let value = value.clone().joined(per_token);
        trace.values.insert(key.clone(), Evidence::all(value.width, value.data));
    }
}

/// Whether the fault has anything to do with such an operation.
fn concerns(fault: &Fault, place: &Place<'_>) -> bool {
    fault.edits.iter().any(|edit| match edit {
        Edit::Wiring(change) => change(&mut place.node.inputs.clone(), place),
        Edit::Weight(_) => place.node.kind.weight().is_some() && (fault.wants)(place),
        Edit::Output(_) => true,
        other => needs(other).is_some_and(|(applies, _)| applies(&place.node.kind)),
    })
}

/// Whether a value is not what it should be.
fn differs(value: &Value, trace: &Trace, graph: &Graph, id: NodeId) -> bool {
    let node = &graph.nodes[id];
    let right =
        trace.values.get(&node.key).and_then(|right| crate::compare(&value.clone().joined(node.per_token), right));
    right.is_none_or(|residual| residual.relative.is_nan() || residual.relative > SHOWS)
}

fn sums(value: &Value) -> [f64; 4] {
    let mut sums = [0.0; 4];
    for (at, &x) in value.data.iter().enumerate() {
        let x = f64::from(x);
        let angle = at as f64;
        sums[0] += x * x;
        sums[1] += x * (angle * 0.7 + 0.3).sin();
        sums[2] += x * (angle * 1.9 + 0.1).cos();
        sums[3] += x.abs() * (angle * 0.31).cos().abs();
    }
    sums
}

/// Whether an operation is one that an edit is for.
type IsOf = fn(&Kind) -> bool;

/// Which operations an edit is for, and what a model without any lacks.
fn needs(edit: &Edit) -> Option<(IsOf, &'static str)> {
    Some(match edit {
        Edit::Embed(_) => (|kind| matches!(kind, Kind::Embed(_)), "no embedding"),
        Edit::Positions(_) => (|kind| matches!(kind, Kind::Positions(_)), "no learned positions"),
        Edit::Norm(_) => (|kind| matches!(kind, Kind::Norm { .. }), "no norms"),
        Edit::Rope(_) => (|kind| matches!(kind, Kind::Rope { .. }), "no rotation"),
        Edit::Scores(_) => (|kind| matches!(kind, Kind::Scores(_)), "no attention"),
        Edit::SoftMax(_) => (|kind| matches!(kind, Kind::SoftMax(_)), "no attention"),
        Edit::Mix(_) => (|kind| matches!(kind, Kind::Mix(_)), "no attention"),
        Edit::Unary(_) => (|kind| matches!(kind, Kind::Unary(_)), "no functions of single numbers"),
        Edit::Copy(_) => (|kind| matches!(kind, Kind::Copy { .. }), "no columns are copied"),
        Edit::Conv(_) => (|kind| matches!(kind, Kind::Conv(_)), "no convolution"),
        Edit::Recur(_) => (|kind| matches!(kind, Kind::Recur(_)), "no recurrence"),
        Edit::Route(_) => (|kind| matches!(kind, Kind::Route { .. }), "no experts"),
        _ => return None,
    })
}

/// Parts of names, and what a model lacks that faults with such names are about; the first that fits counts.
const ABOUT: &[(&str, &str)] = &[
    ("q2-k", "no weight in Q2_K"),
    ("q3-k", "no weight in Q3_K"),
    ("q6-k", "no weight in Q6_K"),
    ("k-scales", "no weight in this format"),
    ("scale-as-f32", "no weight in blocks of this kind"),
    ("first-scale-for-all", "no weight in blocks of this kind"),
    ("f16-accumulation", "too few products for a difference"),
    ("f16-saturation", "no values that large"),
    ("softmax-f16-overflow", "no scores that large"),
    ("softmax-without-maximum", "no scores that large"),
    ("tail-of-bytes", "tensors too small for such a tail"),
    ("tile-", "as wide as a whole number of tiles"),
    ("rows-lost-after-tile", "fewer tokens than a tile has"),
    ("latent-", "no latent attention"),
    ("padding-", "no padding token"),
    ("token-type", "no token types"),
    ("qkv-clamp", "no clamp"),
    ("xielu", "no xIELU"),
    ("relu", "no squared ReLU"),
    ("gate-and-up", "no gate and up side by side in one tensor"),
    ("gate-limits", "no limits at a gate"),
    ("plain-swiglu", "no limits at a gate"),
    ("up-shift", "no shift at a gate"),
    ("shared-gate", "no gate of a shared expert"),
    ("attention-gate", "no gate at attention"),
    ("up-", "no feed-forward with a gate"),
    ("logit-scale", "no scale of logits"),
    ("embedding-scale", "no scale of embeddings"),
    ("residual-scale", "no scale of residuals"),
    ("attention-scale-of-residual", "no scale of residuals"),
    ("ffn-scale-of-residual", "no scale of residuals"),
    ("attention-scale", "the same number, or no attention"),
    ("altup", "no side streams (AltUp)"),
    ("laurel", "no LAuReL"),
    ("window", "no window that these few tokens fill"),
    ("soft-cap", "no cap"),
    ("sink", "no sinks"),
    ("alibi", "no ALiBi"),
    ("distance-", "no scores by distance"),
    ("encoder-", "no encoder"),
    ("cross-", "no encoder"),
    ("gqa-", "as many key heads as heads"),
    ("kv-heads", "as many key heads as heads"),
    ("head-norm", "no norms of heads"),
    ("yarn", "no YaRN"),
    ("rope-factors", "no rope factors"),
    ("shared-expert", "no shared expert"),
    ("expert", "no experts of this kind"),
    ("router", "no router"),
    ("short-convolution", "no short convolution"),
    ("convolution", "no convolution of this kind"),
    ("token-shift", "no token shift"),
    ("channel-mix", "no channel mixing"),
    ("shares-", "no learned shares (RWKV)"),
    ("rwkv", "no RWKV layer of this version"),
    ("learning-rate", "no rate of learning in context (RWKV-7)"),
    ("low-rank", "no RWKV layer"),
    ("first-values", "no values of the first layer in others"),
    ("bonus", "no bonus (RWKV)"),
    ("erased", "nothing is erased from a state"),
    ("nothing-erased", "nothing is erased from a state"),
    ("beta-", "no delta rule, or its beta is made otherwise"),
    ("delta-", "no delta rule"),
    ("state-", "no recurrence of this kind"),
    ("softplus", "no softplus"),
    ("step-", "no time step"),
    ("small-norms", "no state space, or its norms are as they should be"),
    ("unit-", "no keys of unit length"),
    ("d-", "no D"),
    ("a-", "no state space"),
    ("decay-", "no state space"),
    ("b-and-c", "no recurrence"),
    ("x-and-z", "no halves of ssm_in"),
    ("tie", "the head is no other table"),
    ("head-", "no head of its own"),
    ("bias", "no such bias"),
    ("activation", "no such activation"),
    ("-silu", "no SiLU of this kind"),
    ("gate", "no such gate"),
    ("norm", "no norm of this kind"),
    ("rope", "no rotation of this kind"),
    ("scale", "no factor of this kind"),
    ("fused", "no fused product"),
    ("nibbles", "no weight in this format"),
    ("block", "no weight in blocks of this kind"),
    ("fifth-bit", "no weight in this format"),
    ("zero-point", "no weight in this format"),
    ("signed", "no weight in this format"),
    ("f16", "no weight in F16, or none that shows it"),
    ("bf16", "no weight in BF16"),
    ("residual", "no residual of this kind"),
];

/// Why a fault changes nothing in a model.
fn because(fault: &Fault, graph: &Graph) -> &'static str {
    let lacks = |(applies, word): (fn(&Kind) -> bool, &'static str)| {
        (!graph.nodes.iter().any(|node| applies(&node.kind))).then_some(word)
    };
    let operations: Vec<_> = fault.edits.iter().map(needs).collect();
    let word = operations.iter().copied().flatten().find_map(lacks).filter(|_| operations.iter().all(Option::is_some));
    // Parts begin where words begin.
    let name = format!("-{}", fault.name);
    let says = |part: &str| name.contains(&format!("-{}", part.trim_start_matches('-')));
    let about = || ABOUT.iter().find(|(part, _)| says(part)).map(|(_, word)| *word);
    word.or_else(about).unwrap_or("nothing here that it could change")
}
