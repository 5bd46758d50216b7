//! Faults of a mixture's experts: their matrices, what they read, how their results are weighed and added, and the expert
//! that all tokens share (section A6 of the catalogue, entry 69).

use std::rc::Rc;

use candor_ops::Unary;

use super::{
    row::ROW,
    weights::{reshape, tensor},
};
use crate::fault::{Edit, Fault};
use crate::graph::{Chosen, Weighted};
use crate::replay::{Matrix, Place};
use crate::{Graph, Kind, NodeId, Value};

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

/// Multiplies the rows of experts with what their choice says; `pick` finds the choice of a row's place among those of its
/// token.
fn weigh(out: &mut Value, choice: &Value, pick: impl Fn(usize, usize) -> usize, by: impl Fn(f64) -> f64) {
    let used = (choice.width / 2).max(1);
    for (at, row) in out.data.chunks_exact_mut(out.width.max(1)).enumerate() {
        let pair = at / used * used + pick(at % used, used);
        let weight = by(f64::from(choice.data[2 * pair + 1]));
        row.iter_mut().for_each(|x| *x = (f64::from(*x) * weight) as f32);
    }
}

/// Whether the operation weighs what experts give.
fn weighs(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Weighted(Weighted::Scale))
}

/// Whether the operation weighs what experts give at their end, and not what they are given.
fn weighs_after(place: &Place<'_>) -> bool {
    let next = |(_, node): (NodeId, &crate::Node)| matches!(node.kind, Kind::Weighted(Weighted::Sum(_)));
    weighs(place) && place.readers().any(next)
}

/// Whether the operation is the first product of an expert.
fn opens(place: &Place<'_>) -> bool {
    is_routed(place) && matches!(place.weight(), "ffn_gate_exps" | "ffn_up_exps" | "ffn_gate_up_exps")
}

/// Whether the layer weighs what its experts give, or what they are given.
fn weighed(place: &Place<'_>, after: bool) -> bool {
    let mut nodes = place.graph.nodes.iter().enumerate().filter(|(_, node)| node.key.layer == place.layer());
    let id = nodes.find(|(_, node)| matches!(node.kind, Kind::Weighted(Weighted::Scale))).map(|(id, _)| id);
    id.is_some_and(|id| weighs_after(&Place { node: &place.graph.nodes[id], id, ..*place }) == after)
}

/// What the shared expert is multiplied with: its gate's logit, or the whole operation.
fn shared_gate(place: &Place<'_>) -> bool {
    let nodes = &place.graph.nodes;
    let of_gate = |id: NodeId| nodes[id].kind.weight().is_some_and(|weight| weight.name.contains("ffn_gate_inp_shexp"));
    let input = |id: NodeId| nodes[id].inputs.first().copied();
    match (&place.node.kind, place.node.inputs.as_slice()) {
        (Kind::Unary(Unary::Sigmoid), &[logit]) => of_gate(logit),
        (Kind::MulGroups, &[_, gate]) => input(gate).is_some_and(of_gate),
        _ => false,
    }
}

/// The factor on the weights of the layer's chosen experts.
fn factor(place: &Place<'_>) -> f64 {
    let mut nodes = place.graph.nodes.iter().filter(|node| node.key.layer == place.layer());
    let scale = nodes.find_map(|node| match &node.kind {
        Kind::Route { router, part: Chosen::Both, .. } => Some(f64::from(router.scale)),
        _ => None,
    });
    scale.unwrap_or(1.0)
}

/// The stream that a product's input is the norm of.
fn unnormed(place: &Place<'_>) -> Option<NodeId> {
    let input = &place.graph.nodes[*place.node.inputs.first()?];
    matches!(input.kind, Kind::Norm { .. }).then(|| input.inputs[0])
}

/// Keeps one of a token's experts, where they are added up: `better` says of two choices, an expert and its weight, whether
/// the first is kept.
fn keep_one(out: &mut Value, inputs: &[Rc<Value>], place: &Place<'_>, better: fn([f32; 2], [f32; 2]) -> bool) -> bool {
    let (Kind::Weighted(Weighted::Sum(_)), [x, choice]) = (&place.node.kind, inputs) else { return false };
    let used = choice.width / 2;
    if used < 2 || x.rows != out.rows * used {
        return false;
    }
    for t in 0..out.rows {
        let pairs = choice.data[t * choice.width..][..choice.width].as_chunks::<2>().0;
        let kept = (1..used).fold(0, |kept, at| if better(pairs[at], pairs[kept]) { at } else { kept });
        out.row_mut(t).copy_from_slice(x.row(t * used + kept));
    }
    true
}

/// Multiplies what comes out.
fn times(out: &mut Value, by: f64) {
    out.data.iter_mut().for_each(|x| *x = (f64::from(*x) * by) as f32);
}

/// Adds the shared expert once more.
fn twice_shared(inputs: &mut Vec<NodeId>, place: &Place<'_>) -> bool {
    let shared = inputs.iter().copied().find(|&input| is_shared(place.graph, input, 1));
    let Some(shared) = shared.filter(|_| matches!(place.node.kind, Kind::Add)) else { return false };
    inputs.push(shared);
    true
}

/// Puts another of the layer's weights in the place of each expert's gate or up.
fn exchanged(w: &mut Matrix, place: &Place<'_>) -> bool {
    let Some(weight) = place.node.kind.weight() else { return false };
    let other = match weight.name.contains("ffn_gate_exps.") {
        true => weight.name.replace("ffn_gate_exps.", "ffn_up_exps."),
        false => weight.name.replace("ffn_up_exps.", "ffn_gate_exps."),
    };
    let Some(other) = tensor(place, &other).filter(|other| other.values.len() == w.values.len()) else { return false };
    w.values = other.values;
    true
}

/// Whether the operation reads a weight or bias of experts' gate or up, in a layer whose experts have biases.
fn is_biased_opening(place: &Place<'_>) -> bool {
    let Some(weight) = place.node.kind.weight() else { return false };
    let both = ["ffn_gate_exps.", "ffn_up_exps."].iter().any(|part| weight.name.contains(part));
    both && place.layer().is_some_and(|layer| place.gguf.tensor(&format!("blk.{layer}.ffn_gate_exps.bias")).is_some())
}

/// Puts rows of gate and up, which one matrix holds, in another order: from the row that is read, of a number of rows,
/// to the one that should be.
fn reordered(w: &mut Matrix, place: &Place<'_>, from: impl Fn(usize, usize) -> usize) -> bool {
    let count = place.node.kind.matrices();
    let (rows, cols) = (w.rows / count.max(1), w.cols);
    for matrix in w.values.chunks_exact_mut(rows * cols) {
        let old = matrix.to_vec();
        for (row, out) in matrix.chunks_exact_mut(cols).enumerate() {
            out.copy_from_slice(&old[from(row, rows) * cols..][..cols]);
        }
    }
    true
}

/// Whether one matrix holds gate and up of an expert.
fn is_fused(place: &Place<'_>) -> bool {
    is_routed(place) && place.weight() == "ffn_gate_up_exps"
}

/// The choice of the layer's only expert for each token, where the operation is the first product of the shared expert.
fn weighed_before(place: &Place<'_>) -> Option<NodeId> {
    let opens =
        matches!(place.node.kind, Kind::MatMul(_)) && matches!(place.weight(), "ffn_gate_shexp" | "ffn_up_shexp");
    if !opens || !weighed(place, false) {
        return None;
    }
    place.graph.nodes.iter().position(|node| {
        let both = matches!(node.kind, Kind::Route { part: Chosen::Both, .. });
        both && node.key.layer == place.layer() && node.width == 2
    })
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
        name: "shared-expert-missing",
        entry: "69",
        edits: &[Edit::Wiring(without_shared)],
        cause: "the shared expert adds nothing",
        remedy: "add the output of the shared expert (ffn_*_shexp) to that of the chosen ones",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "shared-expert-twice",
        entry: "69",
        edits: &[Edit::Wiring(twice_shared)],
        cause: "the shared expert is added twice",
        remedy: "add the output of the shared expert once",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "shared-expert-scaled",
        entry: "69",
        variants: &[0.0, 1.0],
        edits: &[Edit::Output(|out, inputs, place| {
            let factor = factor(place);
            if factor == 1.0 {
                return false;
            }
            // Where it is added, or where it is made.
            if place.variant == 1.0 {
                let made = place.weight() == "ffn_down_shexp" && place.node.kind.product().is_some();
                if made {
                    times(out, factor);
                }
                return made;
            }
            let added = place.node.inputs.iter().position(|&input| is_shared(place.graph, input, 1));
            let Some(shared) = added.filter(|_| matches!(place.node.kind, Kind::Add)) else { return false };
            let more = (factor - 1.0) as f32;
            out.data.iter_mut().zip(&inputs[shared].data).for_each(|(out, x)| *out += more * x);
            true
        })],
        cause: "the shared expert is multiplied with the factor of the chosen ones, too",
        remedy: "expert_weights_scale (routed_scaling_factor) is for the chosen experts only",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "shared-expert-unnormed",
        entry: "69",
        edits: &[Edit::Wiring(|inputs, place| {
            if !matches!(place.weight(), "ffn_gate_shexp" | "ffn_up_shexp") {
                return false;
            }
            let Some(stream) = unnormed(place) else { return false };
            inputs[0] = stream;
            true
        })],
        cause: "the shared expert reads the stream without its norm",
        remedy: "the shared expert reads what the router reads",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "shared-gate-missing",
        entry: "69",
        edits: &[Edit::Output(|out, inputs, place| {
            let hit = matches!(place.node.kind, Kind::MulGroups) && shared_gate(place);
            if hit {
                out.clone_from(&inputs[0]);
            }
            hit
        })],
        cause: "the shared expert is added without its gate",
        remedy: "multiply it with sigmoid(ffn_gate_inp_shexp @ x)",
        source: "NousResearch/torchtitan#36",
        ..ROW
    },
    Fault {
        name: "shared-gate-not-squashed",
        entry: "69",
        edits: &[Edit::Unary(|f, place| {
            let hit = shared_gate(place);
            *f = if hit { Unary::scale(1.0) } else { *f };
            hit
        })],
        cause: "the shared expert is multiplied with its gate's logit, without a sigmoid",
        remedy: "multiply it with sigmoid(ffn_gate_inp_shexp @ x)",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "shared-gate-silu",
        entry: "69",
        edits: &[Edit::Unary(|f, place| {
            let hit = shared_gate(place);
            *f = if hit { Unary::Silu } else { *f };
            hit
        })],
        cause: "the shared expert's gate goes through SiLU instead of a sigmoid",
        remedy: "multiply it with sigmoid(ffn_gate_inp_shexp @ x)",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "expert-weights-of-another",
        entry: "69",
        variants: &[0.0, 1.0],
        edits: &[Edit::Output(|out, inputs, place| {
            if !weighs(place) || inputs[1].width < 4 {
                return false;
            }
            let turned = place.variant == 1.0;
            out.clone_from(&inputs[0]);
            weigh(out, &inputs[1], |at, used| if turned { (at + 1) % used } else { used - 1 - at }, |weight| weight);
            // Of two both are the same.
            !turned || inputs[1].width > 4
        })],
        cause: "an expert's result is multiplied with the weight of another chosen expert: weights and experts are in different orders",
        remedy: "sort experts and their weights together",
        source: "xberg-io/xberg#1211",
        ..ROW
    },
    Fault {
        name: "expert-weights-twice",
        entry: "69",
        edits: &[Edit::Output(|out, inputs, place| {
            let hit = weighs(place);
            if hit {
                out.clone_from(&inputs[0]);
                weigh(out, &inputs[1], |at, _| at, |weight| weight * weight);
            }
            hit
        })],
        cause: "experts are multiplied with their weights twice",
        remedy: "multiply with the weight before the experts or behind them, not both",
        source: "vllm-project/vllm-xpu-kernels#66",
        ..ROW
    },
    Fault {
        name: "expert-weights-on-input",
        entry: "69",
        edits: &[Edit::Output(|out, inputs, place| {
            if opens(place) && weighed(place, true) {
                weigh(out, &inputs[1], |at, _| at, |weight| weight);
                return true;
            }
            let hit = weighs_after(place);
            if hit {
                out.clone_from(&inputs[0]);
            }
            hit
        })],
        cause: "what experts read is multiplied with their weights, instead of what they give",
        remedy: "weigh the experts' results; Llama 4 alone weighs what they read",
        source: "vllm-project/llm-compressor#1907",
        ..ROW
    },
    Fault {
        name: "expert-weights-on-output",
        entry: "69",
        edits: &[Edit::Output(|out, inputs, place| {
            if is_routed(place) && place.weight() == "ffn_down_exps" && weighed(place, false) {
                weigh(out, &inputs[1], |at, _| at, |weight| weight);
                return true;
            }
            let hit = weighs(place) && !weighs_after(place);
            if hit {
                out.clone_from(&inputs[0]);
            }
            hit
        })],
        cause: "what experts give is multiplied with their weights, instead of what they read",
        remedy: "Llama 4 multiplies the experts' input: silu is not linear",
        source: "sgl-project/sglang#7889, vllm-project/llm-compressor#1907",
        ..ROW
    },
    Fault {
        name: "best-expert-alone-added",
        entry: "69",
        edits: &[Edit::Output(|out, inputs, place| keep_one(out, inputs, place, |a, b| a[1] > b[1]))],
        cause: "the best of a token's experts alone adds its result, with its weight; the others are dropped",
        remedy: "add up the results of all chosen experts",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "last-expert-alone-added",
        entry: "69",
        variants: &[0.0, 1.0],
        edits: &[Edit::Output(|out, inputs, place| match place.variant {
            // By its place in the file, or as the least of the chosen.
            0.0 => keep_one(out, inputs, place, |a, b| a[0] > b[0]),
            _ => keep_one(out, inputs, place, |a, b| a[1] < b[1]),
        })],
        cause: "the results of a token's experts replace each other: the last one alone is left",
        remedy: "add each expert's result to the sum (+=) instead of storing it (=)",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "router-unnormed",
        entry: "68",
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(stream) = unnormed(place).filter(|_| place.weight() == "ffn_gate_inp") else { return false };
            inputs[0] = stream;
            true
        })],
        cause: "the router reads the stream without its norm",
        remedy: "the router reads the normed stream, as the experts do",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "expert-gate-and-up-exchanged",
        entry: "66, 69",
        wants: is_biased_opening,
        edits: &[Edit::Weight(exchanged)],
        cause: "gate and up of the experts are exchanged, with their biases",
        remedy: "the gate goes through the activation, up does not: check the names, and the order in a fused tensor",
        source: "ikawrakow/ik_llama.cpp#1408",
        ..ROW
    },
    Fault {
        name: "expert-gate-up-halves-exchanged",
        entry: "66, 69",
        wants: is_fused,
        edits: &[Edit::Weight(|w, place| reordered(w, place, |row, rows| (row + rows / 2) % rows))],
        cause: "gate and up are taken from each other's half of the experts' fused matrix",
        remedy: "the gate's rows come first in ffn_gate_up_exps",
        source: "ikawrakow/ik_llama.cpp#1408",
        ..ROW
    },
    Fault {
        name: "expert-gate-up-interleaved",
        entry: "66, 69",
        wants: is_fused,
        edits: &[Edit::Weight(|w, place| reordered(w, place, |row, rows| row % (rows / 2) * 2 + row / (rows / 2)))],
        cause: "gate and up are taken as every other row of the experts' fused matrix",
        remedy: "the gate's rows come first in ffn_gate_up_exps, then those of up",
        source: "vllm-project/llm-compressor#3100",
        ..ROW
    },
    Fault {
        name: "shared-expert-weighted",
        entry: "69",
        edits: &[
            Edit::Wiring(|inputs, place| match weighed_before(place) {
                Some(choice) => {
                    inputs.push(choice);
                    true
                }
                None => false,
            }),
            Edit::Inputs(|inputs, place| {
                let Some(choice) = weighed_before(place).and_then(|_| inputs.get(1).cloned()) else { return false };
                let mut x = (*inputs[0]).clone();
                if choice.rows != x.rows || choice.width != 2 {
                    return false;
                }
                let width = x.width.max(1);
                for (row, pair) in x.data.chunks_exact_mut(width).zip(choice.data.chunks_exact(2)) {
                    row.iter_mut().for_each(|x| *x *= pair[1]);
                }
                *inputs = vec![Rc::new(x)];
                true
            }),
        ],
        cause: "what the shared expert reads is multiplied with the weight of the chosen one, too",
        remedy: "the weight is on what chosen experts read (Llama 4): the shared expert reads the norm's output as it is",
        source: "a fault of wirings in general",
        ..ROW
    },
];
