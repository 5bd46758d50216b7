//! A page: one HTML file that shows what is in a trace and, with a diagnosis, how far each value is from the one that
//! follows from the suspect's own inputs. It loads nothing, from no network and no other file.
//!
//! The page is a template with data: here is what the data are, `page/` holds how they look.

mod cell;
mod data;
mod given;
mod text;

use candor::Gguf;

use crate::{
    Check, DiagnoseError, Diagnosis, Graph, Key, Kind, NodeId, Trace, Value,
    diagnose::{self, experts},
    replay::{Arithmetic, Decoded, Replay, Stage},
};
use cell::{Budget, Cell};
use data::{Data, Line, Place, Verdict};
use given::{Given, Shape};

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// In the order in which they run, in one scope.
const SCRIPTS: [&str; 6] = [
    include_str!("page/data.js"),
    include_str!("page/story.js"),
    include_str!("page/map.js"),
    include_str!("page/charts.js"),
    include_str!("page/panel.js"),
    include_str!("page/start.js"),
];

/// Bytes of the page that elements of values take at most, shared by all values.
const ELEMENT_BYTES: usize = 6 << 20;
/// Bytes of the page that bars take at most, shared by all values.
const BAR_BYTES: usize = 3 << 20;
/// A float in base64.
const FLOAT_BYTES: usize = 6;

/// One self-contained HTML file about a trace of the model in `gguf`.
///
/// With a diagnosis of this trace, it shows findings and residuals, and expected values beside those of the suspect;
/// without one, values and statistics only. `#Qcur-0` behind its address opens that value. Of long values it holds
/// samples, of at most some 10 MB, and says so.
///
/// # Errors
/// If the model does not run, or the trace is not one of it.
pub fn page(gguf: &Gguf, trace: &Trace, diagnosis: Option<&Diagnosis>, title: &str) -> Result<String, DiagnoseError> {
    let graph = Graph::new(gguf)?;
    let tokens = diagnose::tokens(trace, &graph)?;
    let known = diagnose::fit(trace, &graph, &tokens)?;
    let decoded = Decoded::default();
    let stage = Stage { graph: &graph, gguf, tokens: &tokens, decoded: &decoded };
    let budget = Budget {
        rows: (ELEMENT_BYTES / (known.len().max(1) * cell::SHOWN * 2 * FLOAT_BYTES)).clamp(1, 24),
        bars: (BAR_BYTES / (known.len().max(1) * FLOAT_BYTES)).clamp(16, 512),
    };
    // Expected values of experts are in the trace's order.
    let placed = diagnosis.map(|said| experts::placed(&stage, trace, arithmetic(said)).0);
    let compared = placed.as_deref().unwrap_or(trace);
    let known: Vec<NodeId> =
        known.into_iter().filter(|&id| compared.values.contains_key(&graph.nodes[id].key)).collect();
    let sketch = Sketch { stage: &stage, trace: compared, diagnosis, budget };
    let lines = lines(&graph, &known);
    let places: Vec<Place<'_>> = known.iter().map(|&id| sketch.place(id)).collect();
    let data = Data::new(trace, &tokens, gguf, title)
        .with(lines, graph.config.layers, places)
        .with_limits(cell::SHOWN, budget.bars)
        .with_verdict(diagnosis.map(Verdict::new));
    Ok(html(&data, title))
}

/// What values were compared with.
fn arithmetic(said: &Diagnosis) -> Arithmetic {
    Arithmetic { rounding: said.rounding, ..Arithmetic::default() }
}

/// Puts data into the template.
fn html(data: &Data<'_>, title: &str) -> String {
    // Nothing in it can fail to serialise: keys are strings, and numbers that JSON lacks become null.
    let json = serde_json::to_string(data).unwrap_or_default();
    // Browsers hash what they read, and they read line ends as newlines.
    let style = STYLE.replace('\r', "");
    let script = format!("\"use strict\";\n(() => {{\n{}}})();\n", SCRIPTS.concat().replace('\r', ""));
    text::fill(TEMPLATE, |mark| match mark {
        "title" => text::html(title),
        "style" => style.clone(),
        "style_hash" => text::hash(&style),
        "script" => script.clone(),
        "script_hash" => text::hash(&script),
        "data" => text::embeddable(&json),
        _ => String::new(),
    })
}

/// The lines of the map: names of values in the order of computation, those that engines show or this trace holds.
fn lines(graph: &Graph, known: &[NodeId]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    // The first layer gives the order; values that only later layers have come after it.
    for (id, node) in graph.nodes.iter().enumerate() {
        let here = node.tapped || known.binary_search(&id).is_ok();
        if here && !lines.iter().any(|line| line.name == node.key.name) {
            lines.push(Line {
                name: node.key.name.clone(),
                operation: node.kind.name(),
                layered: node.key.layer.is_some(),
            });
        }
    }
    let at = |name: &str| graph.nodes.iter().position(|node| node.key.name == name);
    lines.sort_by_key(|line| at(&line.name));
    lines
}

/// Heads side by side in a row of a node's output.
fn heads(graph: &Graph, id: NodeId) -> usize {
    let (node, config) = (&graph.nodes[id], graph.config.heads);
    match &node.kind {
        Kind::Scores(heads) | Kind::Mix(heads) => heads.heads,
        Kind::SoftMax(attending) => attending.heads.heads,
        Kind::Rope { head_dim, .. } => node.width.checked_div(*head_dim).unwrap_or(1),
        Kind::Norm { norm, .. } if norm.run < node.width => node.width.checked_div(norm.run).unwrap_or(1),
        _ => match node.key.name.split('.').next() {
            Some("Qcur") => config.heads,
            Some("Kcur" | "Vcur") => config.kv_heads,
            _ => 1,
        },
    }
}

/// What cells are made from.
struct Sketch<'a> {
    stage: &'a Stage<'a>,
    trace: &'a Trace,
    diagnosis: Option<&'a Diagnosis>,
    budget: Budget,
}

impl<'a> Sketch<'a> {
    fn check(&self, key: &Key) -> Option<&'a Check> {
        self.diagnosis?.checks.iter().find(|check| check.key == *key)
    }

    fn place(&self, id: NodeId) -> Place<'a> {
        let Stage { graph, tokens, .. } = *self.stage;
        let node = &graph.nodes[id];
        let evidence = &self.trace.values[&node.key];
        let check = self.check(&node.key);
        let expected = check.and_then(|_| self.expected(id));
        let rows = tokens.rows(node.side);
        let (width, heads) = (graph.width(id, tokens), heads(graph, id));
        let shape = Shape { rows, prompt: tokens.prompt, width, heads };
        let counts = graph.counts(id, tokens);
        let given = Given { evidence, expected: expected.as_ref(), counts: &counts, shape };
        let worst = check.map(|check| check.residual.worst);
        Place {
            key: &node.key,
            operation: node.kind.name(),
            weight: node.kind.weight().map(|weight| format!("{}, {}", weight.name, weight.format)),
            inputs: node.inputs.iter().map(|&input| &graph.nodes[input].key).collect(),
            check,
            exact: evidence.precision == 0.0,
            cell: Cell::new(given, worst, self.budget),
        }
    }

    /// What follows from the suspect's own inputs.
    fn expected(&self, id: NodeId) -> Option<Value> {
        let replay = Replay::local(self.stage, arithmetic(self.diagnosis?), &[], self.trace, id);
        Some((*replay.value(id)).clone().joined(self.stage.graph.nodes[id].per_token))
    }
}
