//! Faults of mixtures of experts (section A6 of the catalogue, entries 68 and 69).

use candor::ops::{Gate, Router};

use super::{ROW, reshape};
use crate::fault::{Edit, Fault};
use crate::replay::{Matrix, Place};
use crate::{Graph, Kind, NodeId};

/// Another gate in place of this one.
fn swap(router: &mut Router, gate: Gate, other: Gate) -> bool {
    let hit = router.gate == gate;
    if hit {
        router.gate = other;
    }
    hit
}

/// Whether a value comes from the expert that every row goes to, perhaps through a gate of its own.
fn is_shared(graph: &Graph, id: NodeId, steps: usize) -> bool {
    let node = &graph.nodes[id];
    let named = node.kind.weight().is_some_and(|weight| weight.name.contains("ffn_down_shexp"));
    let whole = matches!(node.kind, Kind::Add);
    named || steps > 0 && !whole && node.inputs.first().is_some_and(|&input| is_shared(graph, input, steps - 1))
}

fn without_shared(inputs: &mut Vec<NodeId>, place: &Place<'_>) -> bool {
    if !matches!(place.node.kind, Kind::Add) {
        return false;
    }
    let count = inputs.len();
    let kept = inputs.iter().copied().filter(|&input| !is_shared(place.graph, input, 1));
    let kept: Vec<NodeId> = kept.collect();
    let hit = kept.len() < count && !kept.is_empty();
    if hit {
        *inputs = kept;
    }
    hit
}

/// Whether rows choose among the matrices of a weight.
fn is_routed(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Stacked { routed: true, .. })
}

/// Puts another matrix in the place of each.
fn replace(w: &mut Matrix, place: &Place<'_>, other: impl Fn(usize, usize) -> usize) -> bool {
    let count = place.node.kind.matrices();
    let (old, size) = (w.values.clone(), w.values.len() / count);
    for (at, matrix) in w.values.chunks_exact_mut(size).enumerate() {
        matrix.copy_from_slice(&old[other(at, count) * size..][..size]);
    }
    count > 1
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "expert-matrices-row-major",
        entry: "69",
        wants: is_routed,
        edits: &[Edit::Weight(reshape)],
        cause: "the experts' matrices are read as [experts][in][out], other matrices rightly; memory is [experts][out][in]",
        remedy: "read an expert as any other matrix: ne = [in, out, experts] means that a row is one output of one expert",
        source: "unslothai/unsloth-zoo#849, ggml-org/llama.cpp#20200",
        ..ROW
    },
    Fault {
        name: "expert-ids-shifted",
        entry: "69",
        variants: &[1.0, -1.0],
        wants: is_routed,
        edits: &[Edit::Weight(|w, place| {
            let by = place.variant as isize;
            replace(w, place, |at, count| (at as isize + by).rem_euclid(count as isize) as usize)
        })],
        cause: "a choice is multiplied with the matrix of the expert {} further on",
        remedy: "check where each expert's rows begin: expert * out * bytes per row",
        source: "mlc-ai/mlc-llm#1804",
        ..ROW
    },
    Fault {
        name: "first-expert-for-all",
        entry: "69",
        wants: is_routed,
        edits: &[Edit::Weight(|w, place| replace(w, place, |_, _| 0))],
        cause: "every choice is multiplied with the matrix of the first expert",
        remedy: "add the expert's offset in the stacked tensor: expert * out * bytes per row",
        source: "crates/inspect: a fault of strides in general",
        ..ROW
    },
    Fault {
        name: "expert-weights-not-normalized",
        entry: "68",
        edits: &[Edit::Route(|choice, _| std::mem::take(&mut choice.router.normalized))],
        cause: "the weights of the chosen experts are not divided by their sum",
        remedy: "divide them where the architecture does (norm_topk_prob, expert_weights_norm)",
        source: "lablup/mlxcel#391, Lightning-AI/litgpt#2013",
        ..ROW
    },
    Fault {
        name: "expert-weights-normalized",
        entry: "68",
        edits: &[Edit::Route(|choice, _| {
            let Router { gate, normalized, .. } = choice.router;
            choice.router.normalized = true;
            // What comes from a softmax over the chosen has a sum of 1.
            !normalized && gate != Gate::SoftmaxOfChosen
        })],
        cause: "the weights of the chosen experts are divided by their sum, the architecture keeps them as they are",
        remedy: "divide them only where the architecture does (norm_topk_prob, expert_weights_norm)",
        source: "sgl-project/sglang#35160",
        ..ROW
    },
    Fault {
        name: "experts-softmax-over-all",
        entry: "68",
        edits: &[Edit::Route(|choice, _| swap(&mut choice.router, Gate::SoftmaxOfChosen, Gate::Softmax))],
        cause: "the softmax runs over all experts, not over the chosen ones",
        remedy: "choose by logits, then take the softmax of the chosen logits",
        source: "leonickson1/Swiftlet#6",
        ..ROW
    },
    Fault {
        name: "experts-softmax-for-sigmoid",
        entry: "69",
        edits: &[Edit::Route(|choice, _| swap(&mut choice.router, Gate::Sigmoid, Gate::Softmax))],
        cause: "experts are weighed by a softmax instead of a sigmoid of each",
        remedy: "read expert_gating_func",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "experts-sigmoid-for-softmax",
        entry: "69",
        edits: &[Edit::Route(|choice, _| swap(&mut choice.router, Gate::Softmax, Gate::Sigmoid))],
        cause: "experts are weighed by a sigmoid of each instead of a softmax",
        remedy: "read expert_gating_func",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-scale-missing",
        entry: "69",
        edits: &[Edit::Route(|choice, _| std::mem::replace(&mut choice.router.scale, 1.0) != 1.0)],
        cause: "the weights of experts are not multiplied with the file's factor",
        remedy: "multiply with expert_weights_scale (routed_scaling_factor), at last",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-bias-missing",
        entry: "69",
        edits: &[Edit::Route(|choice, _| choice.bias.take().is_some())],
        cause: "experts are chosen without the bias of the file",
        remedy: "add exp_probs_b to what experts are chosen by, and not to their weights",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-groups-ignored",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            let groups = std::mem::replace(&mut choice.router.groups, (1, 1));
            groups.1 < groups.0
        })],
        cause: "experts are chosen from all groups",
        remedy: "choose expert_group_used_count groups by their two best experts first",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "shared-expert-missing",
        entry: "69",
        edits: &[Edit::Wiring(without_shared)],
        cause: "the shared expert adds nothing",
        remedy: "add the output of the shared expert (ffn_*_shexp) to that of the chosen ones",
        source: "a fault of wirings in general",
        ..ROW
    },
];
