//! Faults of latent attention (DeepSeek-AI 2024): which part of a query or key is rotated, and the matrices that spell
//! keys and values out.

use super::{norm, row::ROW, weights::reshape};
use crate::fault::{Edit, Fault};
use crate::replay::{Matrix, Norm, Place};
use crate::{Kind, Node, NodeId};

/// Elements of a head that are rotated apart from the others, where the layer's attention is latent.
fn turning(place: &Place<'_>) -> Option<usize> {
    let layer = place.layer()?;
    place.gguf.tensor(&format!("blk.{layer}.attn_kv_a_mqa.weight"))?;
    place.graph.nodes.iter().find_map(|node| match node.kind {
        Kind::Rope { head_dim, .. } if node.key.layer == Some(layer) => Some(head_dim),
        _ => None,
    })
}

/// Whether an operation that reads this one's output is of a kind.
fn feeds(place: &Place<'_>, kind: fn(&Kind) -> bool) -> bool {
    place.readers().any(|(_, node)| kind(&node.kind))
}

/// Whether the operation copies part of what comes of this weight.
fn is_part_of(place: &Place<'_>, weight: &str) -> bool {
    let input = place.node.inputs.first().map(|&id| &place.graph.nodes[id].kind);
    input.and_then(Kind::weight).is_some_and(|tensor| tensor.name.contains(weight))
}

/// Whether the operation spells keys or values of heads out.
fn spells(place: &Place<'_>) -> bool {
    matches!(place.weight(), "attn_k_b" | "attn_v_b") && place.node.kind.matrices() > 1
}

/// The norm of the layer's latent vector of keys and values.
fn latent_norm(place: &Place<'_>) -> Option<NodeId> {
    let of_layer = |node: &Node| node.key.layer.is_some() && node.key.layer == place.layer();
    let named = |node: &Node| node.kind.weight().is_some_and(|weight| weight.name.contains("attn_kv_a_norm"));
    place.graph.nodes.iter().position(|node| of_layer(node) && named(node))
}

/// The narrow product of which the operation norms the latent vector, or copies the key that is rotated.
fn narrow(place: &Place<'_>) -> Option<NodeId> {
    let nodes = &place.graph.nodes;
    let &input = place.node.inputs.first()?;
    match place.node.kind {
        Kind::Norm { .. } if latent_norm(place) == Some(place.id) => {
            matches!(nodes[input].kind, Kind::Copy { .. }).then(|| nodes[input].inputs.first().copied())?
        }
        Kind::Copy { columns } if columns.from.0 > 0 && is_part_of(place, "attn_kv_a_mqa") => {
            latent_norm(place).map(|_| input)
        }
        _ => None,
    }
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "latent-rotated-part-first",
        entry: "40",
        edits: &[
            Edit::Copy(|columns, place| {
                let Some(turning) = turning(place).filter(|_| columns.from.1 != 0) else { return false };
                let rotated = feeds(place, |kind| matches!(kind, Kind::Rope { .. })) && columns.from.0 != 0;
                let still = feeds(place, |kind| matches!(kind, Kind::Stacked { .. })) && columns.from.0 == 0;
                if rotated {
                    columns.from.0 = 0;
                } else if still {
                    columns.from.0 = turning;
                }
                rotated || still
            }),
            Edit::Output(|out, inputs, place| {
                let Kind::Copy { columns } = place.node.kind else { return false };
                let &[part, whole] = place.node.inputs.as_slice() else { return false };
                let nodes = &place.graph.nodes;
                let (rotated, product) = (&nodes[part].kind, nodes[whole].kind.product());
                if !matches!(rotated, Kind::Rope { .. }) || product.is_none() || turning(place) != Some(columns.len) {
                    return false;
                }
                let (still, step) = (columns.to.0, columns.to.1);
                for (row, old) in out.data.chunks_exact_mut(step).zip(inputs[1].data.chunks_exact(step)) {
                    row[..still].copy_from_slice(&old[columns.len..]);
                }
                true
            }),
        ],
        cause: "the first part of each query head is rotated, and the rest taken for what is not: the parts are exchanged",
        remedy: "the part that is not rotated comes first in a query head, then the rotated one (qk_nope, qk_rope)",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "latent-rotated-key-first",
        entry: "40",
        edits: &[Edit::Copy(|columns, place| {
            let Some(turning) = turning(place).filter(|_| is_part_of(place, "attn_kv_a_mqa")) else { return false };
            columns.from.0 = if columns.from.0 == 0 { turning } else { 0 };
            true
        })],
        cause: "the first part of the narrow product is taken for the key that is rotated, and the rest for the latent vector",
        remedy: "the latent vector (kv_lora_rank) comes first, then the rotated key",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "latent-norm-over-rotated-key",
        entry: "40",
        edits: &[
            Edit::Wiring(|inputs, place| match narrow(place) {
                Some(whole) if matches!(place.node.kind, Kind::Norm { .. }) => {
                    inputs.push(whole);
                    true
                }
                Some(_) => true,
                None => false,
            }),
            Edit::Output(|out, inputs, place| {
                let Some(whole) = narrow(place).and_then(|_| inputs.last()) else { return false };
                let Some(norm) = latent_norm(place).and_then(|id| norm::plan(place, id)) else { return false };
                let plain = Norm { weight: Vec::new(), bias: Vec::new(), run: whole.width, ..norm };
                let normed = plain.run(whole);
                // The latent vector comes first, and has the weight.
                let key = matches!(place.node.kind, Kind::Copy { .. });
                let from = if key { whole.width - out.width } else { 0 };
                for t in 0..out.rows {
                    let row = &normed.row(t)[from..];
                    let weight = |at: usize| if key { 1.0 } else { norm.weight.get(at).copied().unwrap_or(1.0) };
                    out.row_mut(t).iter_mut().enumerate().for_each(|(at, x)| *x = row[at] * weight(at));
                }
                true
            }),
        ],
        cause: "the norm of the latent vector runs over the rotated key, too",
        remedy: "split the narrow product first, and norm its latent part (kv_lora_rank) alone",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "latent-matrices-transposed",
        entry: "44",
        wants: spells,
        edits: &[Edit::Weight(|w: &mut Matrix, place| reshape(w, place))],
        cause: "the matrices of heads that keys and values are spelt out with (attn_k_b, attn_v_b) are read as their transposes",
        remedy: "attn_k_b maps a query's unrotated part to the latent vector: it is stored transposed",
        source: "ggml-org/llama.cpp#12801",
        ..ROW
    },
    Fault {
        name: "latent-heads-shifted",
        entry: "44",
        variants: &[1.0, -1.0],
        wants: |place| spells(place) && place.weight() == "attn_v_b",
        edits: &[Edit::Weight(|w: &mut Matrix, place| {
            let (size, heads) = (w.values.len() / place.node.kind.matrices(), place.node.kind.matrices());
            let by = if place.variant > 0.0 { size } else { size * (heads - 1) };
            w.values.rotate_left(by);
            true
        })],
        cause: "each head's values are spelt out with the matrix of the head {} places on",
        remedy: "attn_v_b has a matrix for each head, in their order",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "latent-rotated-key-missing",
        entry: "44",
        edits: &[Edit::Output(|out, _, place| {
            let key =
                matches!(place.node.kind, Kind::Rope { .. }) && place.name() == "Kcur" && turning(place).is_some();
            if key {
                out.data.fill(0.0);
            }
            key
        })],
        cause: "scores are of the latent vectors alone: the rotated key takes no part in them",
        remedy: "add the product of the rotated parts of query and key to each score",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "latent-values-unnormed",
        entry: "44",
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(norm) = latent_norm(place).filter(|_| matches!(place.node.kind, Kind::Mix(_))) else {
                return false;
            };
            let hit = inputs.get(1) == Some(&norm);
            if hit {
                inputs[1] = place.graph.nodes[norm].inputs[0];
            }
            hit
        })],
        cause: "values are the latent vector before its norm, keys are made of the normed one",
        remedy: "apply attn_kv_a_norm first: keys and values share what it gives",
        source: "DeepSeek-AI 2024, arXiv:2405.04434; a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "latent-key-matrices-transposed",
        entry: "44",
        wants: |place| spells(place) && place.weight() == "attn_k_b",
        edits: &[Edit::Weight(|w: &mut Matrix, place| reshape(w, place))],
        cause: "the matrices of heads that keys are spelt out with (attn_k_b) are read as their transposes",
        remedy: "attn_k_b maps a query's unrotated part to the latent vector: it is stored transposed",
        source: "ggml-org/llama.cpp#12801",
        ..ROW
    },
];
