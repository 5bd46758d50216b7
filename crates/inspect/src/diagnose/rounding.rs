//! How a suspect rounds activations before it multiplies, by its own numbers.

use std::collections::BTreeSet;

use candor::gguf::Format;

use crate::{
    Kind, NodeId, Trace, compare,
    replay::{Arithmetic, Order, Replay, Rounding, Stage},
};

/// How the suspect rounds activations: what explains its best product best.
pub(super) fn rounding(stage: &Stage<'_>, trace: &Trace, known: &[NodeId]) -> Rounding {
    const TRIED: [Rounding; 4] = [Rounding::Exact, Rounding::Ggml, Rounding::Blocks(32), Rounding::Searched];
    const PRODUCTS: usize = 12;
    // Products of halves tell only where there are no others: an engine may round for quantized weights alone.
    let mut products: Vec<(bool, usize, NodeId)> = known
        .iter()
        .filter_map(|&id| {
            let span = span(stage, trace, id);
            let kinds = || span.iter().map(|&node| &stage.graph.nodes[node].kind);
            let formats = kinds().filter_map(|kind| Some(kind.product()?.format));
            let rounded = formats.filter(|format| !matches!(format, Format::F32 | Format::F64));
            let halves = rounded.map(|format| matches!(format, Format::F16 | Format::Bf16)).min()?;
            let attends = kinds().any(|kind| matches!(kind, Kind::Scores(_) | Kind::Mix(_)));
            (!attends).then_some((halves, span.len(), id))
        })
        .collect();
    products.sort();
    // Those with the fewest other operations around, whose own size would hide how far a rule is off.
    let nearest = products.first().map(|&(halves, span, _)| (halves, span));
    products.retain(|&(halves, span, _)| Some((halves, span)) == nearest);
    products.truncate(PRODUCTS);
    let best = |rounding: Rounding| {
        let arithmetic = Arithmetic { rounding, order: Order::Lanes };
        let residuals = products.iter().filter_map(|&(.., id)| {
            let replay = Replay::local(stage, arithmetic, &[], trace, id);
            Some(compare(&replay.value(id), &trace.values[&stage.graph.nodes[id].key])?.relative)
        });
        residuals.fold(f64::INFINITY, f64::min)
    };
    let scored = TRIED.map(|rounding| (best(rounding), rounding));
    // Exact products unless another rule is clearly closer.
    let exact = scored[0].0;
    let found = scored.into_iter().skip(1).filter(|(score, _)| *score < 0.5 * exact && *score < 2e-2);
    // Sums in floats are off by far less.
    let otherwise = if exact.is_finite() && exact > 1e-3 { Rounding::Unknown } else { Rounding::Exact };
    found.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(otherwise, |(_, rounding)| rounding)
}

/// The operations between the trace's complete values and a node.
pub(super) fn span(stage: &Stage<'_>, trace: &Trace, id: NodeId) -> BTreeSet<NodeId> {
    let Stage { graph, tokens, .. } = stage;
    let (mut span, mut open) = (BTreeSet::from([id]), vec![id]);
    while let Some(next) = open.pop() {
        for &input in &graph.nodes[next].inputs {
            let evidence = trace.values.get(&graph.nodes[input].key);
            let rows = tokens.rows(graph.nodes[input].side);
            let given = evidence.is_some_and(|evidence| evidence.dense(rows, graph.width(input, tokens)).is_some());
            if !given && span.insert(input) {
                open.push(input);
            }
        }
    }
    span
}
