//! Faults of what becomes of a recurrence's output: D, the gate, and the norm beside it (Mamba, RWKV, delta rules).

use std::rc::Rc;

use candor_ops::Unary;

use super::{
    recurrence::{each, input, is_scaled_with, swap},
    row::ROW,
    time_step::skip,
};
use crate::{
    Graph, Kind, Node, NodeId,
    fault::{Edit, Fault, Fit, Steps},
    replay::{Matrix, Norm, Place, Scope},
};

/// Whether a value is what a recurrence has given, normed or with something added.
fn is_of_state(graph: &Graph, id: NodeId, depth: usize) -> bool {
    let node = &graph.nodes[id];
    match node.kind {
        Kind::Recur(_) => true,
        Kind::Norm { .. } | Kind::Add if depth > 0 => {
            node.inputs.iter().any(|&input| is_of_state(graph, input, depth - 1))
        }
        _ => false,
    }
}

/// What a product gates, and its gate.
pub(super) fn gated(place: &Place<'_>) -> Option<[NodeId; 2]> {
    let (Kind::Mul, &[a, b]) = (&place.node.kind, place.node.inputs.as_slice()) else { return None };
    match [a, b].map(|id| is_of_state(place.graph, id, 3)) {
        [true, false] => Some([a, b]),
        [false, true] => Some([b, a]),
        _ => None,
    }
}

/// Whether the operation is the function of a gate.
fn opens(place: &Place<'_>) -> bool {
    let gates = |(id, node)| gated(&Place { node, id, ..*place }).is_some_and(|[_, gate]| gate == place.id);
    matches!(place.node.kind, Kind::Unary(_)) && place.readers().any(gates)
}

/// Whether the operation is the norm of what a recurrence gives.
fn is_norm(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Norm { .. }) && matches!(place.weight(), "ssm_norm" | "time_mix_ln")
}

/// The norm that follows the gate, with what it gates and the gate.
fn norm_behind(place: &Place<'_>) -> Option<[NodeId; 2]> {
    let &id = place.node.inputs.first().filter(|_| is_norm(place))?;
    gated(&Place { node: &place.graph.nodes[id], id, ..*place })
}

/// What goes into the norm in front of the gate.
fn norm_before(place: &Place<'_>) -> Option<(NodeId, NodeId)> {
    let [state, _] = gated(place)?;
    let node = &place.graph.nodes[state];
    is_norm(&Place { node, id: state, ..*place }).then(|| (state, node.inputs[0]))
}

/// Whether the operation adds what a recurrence gives to what attention beside it gives.
fn beside_attention(place: &Place<'_>) -> bool {
    let made =
        |weight: &str| ["ssm_out.", "time_mix_output.", "shortconv.out_proj."].iter().any(|part| weight.contains(part));
    let (Kind::Add, Some(added)) = (&place.node.kind, input(place, 1)) else { return false };
    let attends = |node: &Node| matches!(node.kind, Kind::Mix(_)) && node.key.layer == place.layer();
    added.kind.product().is_some_and(|weight| made(&weight.name)) && place.graph.nodes.iter().any(attends)
}

/// What a recurrence gives, its gate, and D times its input, where the operation gates the sum of the first and the last.
fn skipped(place: &Place<'_>) -> Option<[NodeId; 3]> {
    let [sum, gate] = gated(place)?;
    let node = &place.graph.nodes[sum];
    let (Kind::Add, &[a, b]) = (&node.kind, node.inputs.as_slice()) else { return None };
    let direct = |id: NodeId| matches!(&place.graph.nodes[id].kind, Kind::Scale(w) if w.name.contains("ssm_d"));
    match (direct(a), direct(b)) {
        (false, true) => Some([a, gate, b]),
        (true, false) => Some([b, gate, a]),
        _ => None,
    }
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "d-missing",
        entry: "91",
        wants: |place| is_scaled_with(place, "ssm_d"),
        edits: &[Edit::Weight(|w, _| each(w, |_| 0.0))],
        cause: "D times the scan's input is not added",
        remedy: "y + D * x, with x from behind the convolution",
        source: "a fault of state spaces in general",
        ..ROW
    },
    Fault {
        name: "d-of-one",
        entry: "91",
        wants: |place| is_scaled_with(place, "ssm_d"),
        edits: &[Edit::Weight(|w, _| each(w, |_| 1.0))],
        cause: "the scan's input is added without D",
        remedy: "y + D * x",
        source: "a fault of state spaces in general",
        ..ROW
    },
    Fault {
        name: "d-without-input",
        entry: "91",
        wants: |place| is_scaled_with(place, "ssm_d"),
        edits: &[Edit::Output(|out, inputs, place| {
            if !is_scaled_with(place, "ssm_d") {
                return false;
            }
            // D is all that is left where the input is one.
            out.data.iter_mut().zip(&inputs[0].data).for_each(|(y, x)| *y /= x);
            out.data.iter().all(|x| x.is_finite())
        })],
        cause: "D itself is added in place of D times the scan's input",
        remedy: "y + D * x, with x from behind the convolution",
        source: "a fault of state spaces in general",
        ..ROW
    },
    Fault {
        name: "state-gate-missing",
        entry: "92",
        edits: &[Edit::Wiring(|inputs, place| match gated(place) {
            Some([state, _]) => {
                *inputs = vec![state];
                true
            }
            None => false,
        })],
        cause: "the output of the recurrence is not gated",
        remedy: "multiply with silu(z) (Mamba, delta rules, RWKV-6) or g (RWKV-7)",
        source: "a fault of state spaces in general",
        ..ROW
    },
    Fault {
        name: "state-gate-without-silu",
        entry: "92",
        edits: &[Edit::Unary(|f, place| opens(place) && swap(f, Unary::Silu, Unary::scale(1.0)))],
        cause: "the output of the recurrence is multiplied with the gate as it is, without SiLU",
        remedy: "y * silu(z)",
        source: "a fault of state spaces in general",
        ..ROW
    },
    Fault {
        name: "state-gate-by-sigmoid",
        entry: "92",
        edits: &[Edit::Unary(|f, place| opens(place) && swap(f, Unary::Silu, Unary::Sigmoid))],
        cause: "the gate of a recurrence's output goes through the sigmoid in place of SiLU",
        remedy: "y * silu(z)",
        source: "Avarok-Cybersecurity/atlas#754",
        ..ROW
    },
    Fault {
        name: "state-gate-by-gelu",
        entry: "92",
        edits: &[Edit::Unary(|f, place| opens(place) && swap(f, Unary::Silu, Unary::Gelu))],
        cause: "the gate of a recurrence's output goes through GELU in place of SiLU",
        remedy: "y * silu(z)",
        source: "a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "state-gate-behind-norm",
        entry: "93",
        wants: |place| norm_behind(place).is_some(),
        edits: &[
            Edit::Wiring(|inputs, place| match norm_behind(place) {
                Some(parts) => {
                    *inputs = parts.to_vec();
                    true
                }
                None => false,
            }),
            Edit::Output(|out, inputs, place| {
                let Some(gate) = inputs.get(1).filter(|_| norm_behind(place).is_some()) else { return false };
                out.data.iter_mut().zip(&gate.data).for_each(|(x, gate)| *x *= gate);
                true
            }),
        ],
        cause: "the output of the recurrence is normed before it is gated",
        remedy: "Mamba-2 norms y * silu(z) (norm_before_gate is false)",
        source: "state-spaces/mamba#910",
        ..ROW
    },
    Fault {
        name: "state-gate-before-norm",
        entry: "93",
        wants: |place| norm_before(place).is_some(),
        edits: &[
            Edit::Wiring(|inputs, place| match norm_before(place) {
                Some((_, raw)) => {
                    inputs.push(raw);
                    true
                }
                None => false,
            }),
            Edit::Output(|out, inputs, place| {
                let (Some((norm, _)), Some([_, gate])) = (norm_before(place), gated(place)) else { return false };
                let Kind::Norm { norm, weight, bias } = &place.graph.nodes[norm].kind else { return false };
                let [weight, bias] = [weight, bias]
                    .map(|tensor| tensor.as_ref().map_or_else(Vec::new, |tensor| Matrix::decode(tensor).values));
                let (Some(at), Some(raw)) = (place.node.inputs.iter().position(|&id| id == gate), inputs.get(2)) else {
                    return false;
                };
                let mut product = (**raw).clone();
                product.data.iter_mut().zip(&inputs[at].data).for_each(|(x, gate)| *x *= gate);
                *out = Norm::new(norm, weight, bias).run(&product);
                true
            }),
        ],
        cause: "the output of the recurrence is gated before it is normed",
        remedy: "delta rules and RWKV norm the heads, then gate",
        source: "ml-explore/mlx#2602",
        ..ROW
    },
    Fault {
        name: "state-norm-missing",
        entry: "93",
        edits: &[Edit::Norm(|norm, place| is_norm(place) && skip(norm))],
        cause: "the output of the recurrence is not normed",
        remedy: "apply ssm_norm (Mamba-2, delta rules) or time_mix_ln (RWKV), each group or head by itself",
        source: "1bit-MONSTER/1bit-MONSTER#1154",
        ..ROW
    },
    Fault {
        name: "state-norm-over-row",
        entry: "93",
        edits: &[Edit::Norm(|norm, place| {
            norm.scope = Scope::Row;
            is_norm(place) && norm.run < place.node.width
        })],
        cause: "the output of the recurrence is normed over the whole row: groups (heads) are ignored",
        remedy: "norm each group (Mamba-2: ssm.group_count) or head by itself",
        source: "state-spaces/mamba#910, ggml-org/llama.cpp#15507, huggingface/transformers#35943",
        ..ROW
    },
    Fault {
        name: "state-norm-eps",
        entry: "93",
        variants: &[1e-5, 1e-2],
        fit: Some(Fit { range: (1e-12, 1.0), steps: Steps::Factors, numbers: |_| vec![1e-5, 1e-6, 1e-8, 64e-5] }),
        edits: &[Edit::Norm(|norm, place| {
            let hit = is_norm(place) && norm.eps != place.variant;
            if hit {
                norm.eps = place.variant;
            }
            hit
        })],
        cause: "the norm of a recurrence's output has the epsilon {}",
        remedy: "RWKV's heads are normed with 64e-5 (1e-5 * 8 squared), others with the file's epsilon",
        source: "Peng et al. 2024 (Eagle and Finch)",
        ..ROW
    },
    Fault {
        name: "state-output-missing",
        entry: "93",
        edits: &[Edit::Wiring(|inputs, place| {
            let hit = beside_attention(place);
            if hit {
                inputs.truncate(1);
            }
            hit
        })],
        cause: "what the recurrence beside attention gives is not added to the stream",
        remedy: "Falcon-H1 adds attention's output and the state space's",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "attention-beside-state-missing",
        entry: "93",
        edits: &[Edit::Wiring(|inputs, place| {
            let added = input(place, 1).and_then(|node| node.kind.product());
            let attention = added.is_some_and(|weight| weight.name.contains("attn_output."));
            let all = place.graph.nodes.iter().enumerate().filter(|(_, node)| node.key.layer == place.layer());
            let hit = matches!(place.node.kind, Kind::Add)
                && attention
                && all.map(|(id, node)| Place { node, id, ..*place }).any(|other| beside_attention(&other));
            if hit {
                inputs.truncate(1);
            }
            hit
        })],
        cause: "what attention beside a recurrence gives is not added to the stream",
        remedy: "Falcon-H1 adds attention's output and the state space's",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "d-behind-gate",
        entry: "91",
        edits: &[
            Edit::Wiring(|inputs, place| match skipped(place) {
                Some([state, gate, direct]) => {
                    *inputs = vec![state, gate, direct];
                    true
                }
                None => false,
            }),
            Edit::Inputs(|inputs, place| {
                let (Some(_), [state, gate, direct]) = (skipped(place), inputs.as_slice()) else { return false };
                let mut out = (**state).clone();
                let others = gate.data.iter().zip(&direct.data);
                out.data.iter_mut().zip(others).for_each(|(x, (gate, direct))| *x = *x * gate + direct);
                *inputs = vec![Rc::new(out)];
                true
            }),
        ],
        cause: "D times the scan's input is added behind the gate",
        remedy: "(y + D * x) * silu(z)",
        source: "Gu and Dao 2023, arXiv:2312.00752; a fault of state spaces in general",
        ..ROW
    },
];
