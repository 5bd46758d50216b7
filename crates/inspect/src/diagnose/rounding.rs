//! How a suspect rounds activations before it multiplies, by its own numbers.

use std::collections::{BTreeMap, BTreeSet};

use candor::Format;

use crate::{
    Kind, Known, NodeId, Trace, compare,
    replay::{Arithmetic, Replay, Rounding, Stage},
};

/// How a suspect's products are rounded.
pub(super) struct Rounded {
    /// The rule.
    pub(super) rule: Rounding,
    /// What all products are off alike, where no rule explains it; else 0.
    pub(super) slack: f64,
}

/// How the suspect rounds activations: what explains its best product best, and of rules that do so equally well, the one that
/// explains the others best.
pub(super) fn rounding(stage: &Stage<'_>, trace: &Trace, known: &[NodeId]) -> Rounded {
    // Of each format.
    const PRODUCTS: usize = 8;
    // Products of halves, and of floats, tell only where there are no others: an engine may round for quantized weights alone.
    let mut products: Vec<(usize, usize, NodeId)> = known
        .iter()
        .filter_map(|&id| {
            let span = span(stage, trace, id);
            let kinds = || span.iter().map(|&node| &stage.graph.nodes[node].kind);
            let formats = kinds().filter_map(|kind| Some(kind.product()?.format));
            let class = |format| match format {
                Format::F32 | Format::F64 => 2,
                Format::F16 | Format::Bf16 => 1,
                _ => 0,
            };
            let class = formats.map(class).min()?;
            let attends = kinds().any(|kind| matches!(kind, Kind::Scores(_) | Kind::Mix(_)));
            (!attends).then_some((class, span.len(), id))
        })
        .collect();
    products.sort();
    // Those with the fewest other operations around, whose own size would hide how far a rule is off.
    let nearest = products.first().map(|&(class, span, _)| (class, span));
    products.retain(|&(class, span, _)| Some((class, span)) == nearest);
    let floats = nearest.is_some_and(|(class, _)| class == 2);
    // Of each format some: rules may differ in one alone.
    let mut formats: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    products.retain(|&(.., id)| {
        let format = stage.graph.nodes[id].kind.product().map(|weight| weight.format.name());
        let count = formats.entry(format).or_default();
        *count += 1;
        *count <= PRODUCTS
    });
    let all = |products: &[(usize, usize, NodeId)], rounding: Rounding| -> Vec<f64> {
        let arithmetic = Arithmetic { rounding, ..Arithmetic::default() };
        let residual = |&(.., id): &(usize, usize, NodeId)| {
            let replay = Replay::local(stage, arithmetic, &[], trace, id);
            Some(compare(&replay.value(id), &trace.values[&stage.graph.nodes[id].key])?.relative)
        };
        products.iter().filter_map(residual).collect()
    };
    // Rows of a table of 8 bits are what rounding to 8 bits leaves as they are: they tell nothing.
    let probe = if floats { Rounding::Bfloat } else { Rounding::Blocks(32) };
    let telling = |product: &(usize, usize, NodeId)| {
        let [exact, rounded] = [Rounding::Exact, probe].map(|rule| all(&[*product], rule));
        exact.iter().zip(&rounded).any(|(exact, rounded)| *exact > 1e-6 || (exact - rounded).abs() > 1e-6)
    };
    if products.iter().any(telling) {
        products.retain(telling);
    }
    let residuals = |rounding: Rounding| all(&products, rounding);
    let best = |residuals: &[f64]| residuals.iter().copied().fold(f64::INFINITY, f64::min);
    // What is far off is a fault, however far.
    let sum = |residuals: &[f64]| -> f64 { residuals.iter().map(|residual| residual.min(LIMIT)).sum() };
    // Exact products unless another rule is clearly closer.
    let exact = residuals(Rounding::Exact);
    let near = best(&exact);
    if floats && near <= 2e-5 {
        return Rounded { rule: Rounding::Exact, slack: 0.0 };
    }
    // Half precision cannot hold what TF32 can, and rounds the rest as it does.
    let large = |&x: &f32| x.is_finite() && x.abs() > HALF_MAX;
    let beyond = trace.values.values().any(|evidence| match &evidence.known {
        Known::All(values) => values.iter().any(large),
        Known::Some(_) => false,
    });
    let possible = rules(floats).into_iter().filter(|&rule| !(beyond && rule == Rounding::Half));
    let scored = possible.map(|rounding| (residuals(rounding), rounding));
    let found: Vec<_> = scored.filter(|(all, _)| best(all) < 0.5 * near && best(all) < LIMIT).collect();
    let closest = found.iter().map(|(all, _)| best(all)).fold(f64::INFINITY, f64::min);
    // Where the best product goes with several rules, the others decide.
    let equals = found.iter().filter(|(all, _)| best(all) <= 2.0 * closest + 1e-5);
    if let Some(&(_, rule)) = equals.min_by(|a, b| sum(&a.0).total_cmp(&sum(&b.0))) {
        return Rounded { rule, slack: 0.0 };
    }
    // Sums in floats are off by far less.
    let rule = if near.is_finite() && near > 1e-3 { Rounding::Unknown } else { Rounding::Exact };
    Rounded { rule, slack: alike(&exact).unwrap_or(0.0) }
}

/// What most residuals of products stay below, where all of these are of one size: then it is a rounding, since a fault is
/// not as large in every product.
fn alike(residuals: &[f64]) -> Option<f64> {
    const LEAST: usize = 4;
    let mut sorted = residuals.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, middle) = (sorted.get(sorted.len() / 8)?, sorted.get(sorted.len() / 2)?);
    let rounding = sorted.len() >= LEAST && *middle <= 3.0 * first && (1e-5..LIMIT).contains(middle);
    rounding.then_some(3.0 * middle)
}

/// The largest number of half precision.
const HALF_MAX: f32 = 65_504.0;

/// Residual from which on a rule does not explain a product.
const LIMIT: f64 = 2e-2;

/// The rules that are tried.
fn rules(floats: bool) -> Vec<Rounding> {
    let general = [
        Rounding::AnyQ8,
        Rounding::AnyBlocks(32),
        Rounding::AnyBlocks(64),
        Rounding::AnyBlocks(128),
        Rounding::AnyBlocks(256),
        Rounding::Rows,
        Rounding::Tf32,
        Rounding::Half,
        Rounding::Bfloat,
    ];
    if floats {
        return general.to_vec();
    }
    vec![
        Rounding::Ggml,
        Rounding::Blocks(32),
        Rounding::Searched,
        Rounding::Superblocks,
        Rounding::Tf32,
        Rounding::Half,
        Rounding::Bfloat,
        Rounding::Tiles,
    ]
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
