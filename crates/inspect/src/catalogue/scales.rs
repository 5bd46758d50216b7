//! Faults of scales that an architecture has and an engine leaves out (entries 26 and 28o of the catalogue).

use candor::ops::Unary;

use super::ROW;
use crate::Kind;
use crate::fault::{Edit, Fault};
use crate::replay::Place;

/// Takes the factor away.
fn leave_out(f: &mut Unary) -> bool {
    match f {
        Unary::Affine { scale, .. } => std::mem::replace(scale, 1.0) != 1.0,
        _ => false,
    }
}

/// Whether the operation's output is added to something.
fn is_added(place: &Place<'_>) -> bool {
    place.graph.nodes.iter().any(|node| matches!(node.kind, Kind::Add) && node.inputs.contains(&place.id))
}

/// Whether the operation reads embeddings.
fn of_embeddings(place: &Place<'_>) -> bool {
    let input = place.node.inputs.first().map(|&input| &place.graph.nodes[input].kind);
    matches!(input, Some(Kind::Embed(_)))
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "embedding-scale-left-out",
        entry: "26",
        edits: &[Edit::Unary(|f, place| of_embeddings(place) && leave_out(f))],
        cause: "embeddings are not multiplied with the architecture's factor",
        remedy: "multiply with sqrt(width) (Gemma) or embedding_scale (Granite, MiniCPM)",
        source: "huggingface/transformers#29402",
        ..ROW
    },
    Fault {
        name: "residual-scale-left-out",
        entry: "28o",
        edits: &[Edit::Unary(|f, place| is_added(place) && leave_out(f))],
        cause: "what a block adds to the stream is not multiplied with the file's factor",
        remedy: "multiply with residual_scale before the addition (Granite, MiniCPM)",
        source: "a fault of wirings in general",
        ..ROW
    },
];
