//! Faults of what RWKV mixes with learned shares: inputs with the token before, values with those of the first layer.

use candor_ops::Unary;

use super::{
    recurrence::{each, input, is_made_with, is_scaled_with, swap},
    row::ROW,
    weights::tensor,
};
use crate::{
    Kind,
    fault::{Edit, Fault},
    replay::{Matrix, Place},
};

/// The vectors of shares that lie one behind the other.
const FUSED: &str = "time_mix_lerp_fused";

/// Whether the operation multiplies the difference to the token before with shares.
fn is_share(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Scale(_)) && place.weight().contains("_mix_lerp_")
}

/// Which of RWKV-7's shares the operation has.
fn share(place: &Place<'_>) -> Option<usize> {
    let name = &place.node.kind.weight().filter(|_| is_scaled_with(place, FUSED))?.name;
    name.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

/// Takes the shares at another place; `false` where it is the same.
fn other_share(w: &mut Matrix, place: &Place<'_>, order: [usize; 6]) -> bool {
    let Some((old, layer)) = share(place).zip(place.layer()) else { return false };
    let new = order[old.min(5)];
    let Some(all) = tensor(place, &format!("blk.{layer}.{FUSED}.weight")).filter(|_| new != old) else { return false };
    let len = w.values.len();
    w.values.copy_from_slice(&all.values[new * len..][..len]);
    true
}

/// Takes RWKV-6's shares, which are made for each row, at another place.
fn other_made(from: &mut usize, place: &Place<'_>, order: [usize; 5]) -> bool {
    let width = place.node.width;
    if !is_made_with(place, FUSED) || width == 0 {
        return false;
    }
    let old = *from / width;
    *from = order[old.min(4)] * width;
    *from != old * width
}

/// Whether the operation mixes the values of the first layer in.
fn is_first_mixed_in(place: &Place<'_>) -> bool {
    let (Kind::Add, Some(part)) = (&place.node.kind, input(place, 1)) else { return false };
    let before = |node: &crate::Node, n: usize| node.inputs.get(n).map(|&id| &place.graph.nodes[id]);
    let difference = before(part, 0).filter(|_| matches!(part.kind, Kind::Mul));
    let first = difference.filter(|node| matches!(node.kind, Kind::Add)).and_then(|node| before(node, 1));
    first.is_some_and(|first| first.key.layer == Some(0) && place.layer() != Some(0))
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "shares-complemented",
        entry: "99",
        wants: is_share,
        edits: &[Edit::Weight(|w, _| each(w, |x| 1.0 - x))],
        cause: "shares of the token before are taken for those of the token itself",
        remedy: "x + (before - x) * mix; RWKV-4's files have it the other way",
        source: "Peng et al. 2023 (RWKV)",
        ..ROW
    },
    Fault {
        name: "shares-in-other-order",
        entry: "99",
        wants: |place| share(place).is_some(),
        edits: &[
            Edit::Weight(|w, place| other_share(w, place, [0, 3, 1, 2, 4, 5])),
            Edit::Copy(|columns, place| other_made(&mut columns.from.0, place, [1, 2, 3, 0, 4])),
        ],
        cause: "the fused shares of the token before are taken in another order: r, k, v, w, a, g (RWKV-6: r, w, k, v, g)",
        remedy: "time_mix_lerp_fused has r, w, k, v, a, g in RWKV-7, and w, k, v, r, g in RWKV-6",
        source: "Peng et al. 2025 (Goose)",
        ..ROW
    },
    Fault {
        name: "shares-of-keys-and-values-exchanged",
        entry: "99",
        wants: |place| share(place).is_some(),
        edits: &[
            Edit::Weight(|w, place| other_share(w, place, [0, 1, 3, 2, 4, 5])),
            Edit::Copy(|columns, place| other_made(&mut columns.from.0, place, [0, 2, 1, 3, 4])),
        ],
        cause: "keys are mixed with the shares of values, and values with those of keys",
        remedy: "time_mix_lerp_fused has r, w, k, v, a, g in RWKV-7, and w, k, v, r, g in RWKV-6",
        source: "Peng et al. 2025 (Goose)",
        ..ROW
    },
    Fault {
        name: "shares-not-added",
        entry: "99",
        wants: |place| matches!(place.node.kind, Kind::Bias(_)) && place.weight() == FUSED,
        edits: &[Edit::Weight(|w, _| each(w, |_| 0.0))],
        cause: "RWKV-6's shares are made from the row alone: the learned ones are not added",
        remedy: "time_mix_lerp_fused + w2 tanh(w1 x)",
        source: "Peng et al. 2024 (Eagle and Finch)",
        ..ROW
    },
    Fault {
        name: "low-rank-without-tanh",
        entry: "100",
        edits: &[Edit::Unary(|f, place| {
            let made = ["time_mix_w1", "time_mix_decay_w1"].iter().any(|weight| is_made_with(place, weight));
            made && swap(f, Unary::Tanh, Unary::scale(1.0))
        })],
        cause: "no tanh stands between the two narrow matrices of RWKV's decay (and of RWKV-6's shares)",
        remedy: "w0 + w2 tanh(w1 x)",
        source: "Peng et al. 2024 (Eagle and Finch)",
        ..ROW
    },
    Fault {
        name: "rwkv7-gate-without-sigmoid",
        entry: "100",
        edits: &[Edit::Unary(|f, place| {
            is_made_with(place, "time_mix_g1") && swap(f, Unary::Sigmoid, Unary::scale(1.0))
        })],
        cause: "no sigmoid stands between the two narrow matrices of RWKV-7's gate",
        remedy: "g2 sigmoid(g1 x)",
        source: "Peng et al. 2025 (Goose)",
        ..ROW
    },
    Fault {
        name: "learning-rate-without-sigmoid",
        entry: "100",
        edits: &[Edit::Unary(|f, place| is_rate(place) && swap(f, Unary::Sigmoid, Unary::scale(1.0)))],
        cause: "RWKV-7's rate of learning in context (a) does not go through the sigmoid",
        remedy: "a = sigmoid(a0 + a2 a1 x)",
        source: "ooples/AiDotNet.Tensors#895",
        ..ROW
    },
    Fault {
        name: "learning-rate-of-one",
        entry: "100",
        edits: &[Edit::Unary(|f, place| {
            is_rate(place) && swap(f, Unary::Sigmoid, Unary::Affine { scale: 0.0, offset: 1.0 })
        })],
        cause: "RWKV-7's rate of learning in context (a) is 1: it is not used",
        remedy: "multiply what is given back to the state with a",
        source: "ooples/AiDotNet.Tensors#895",
        ..ROW
    },
    Fault {
        name: "learning-rate-not-on-keys",
        entry: "100",
        edits: &[Edit::Wiring(|inputs, place| {
            let Kind::Mul = place.node.kind else { return false };
            let Some(share) = input(place, 1) else { return false };
            let one = matches!(share.kind, Kind::Unary(Unary::Affine { scale: 1.0, offset: 1.0 }));
            let id = place.node.inputs[1];
            let hit = one && is_made_with(&Place { node: share, id, ..*place }, "time_mix_k_a");
            if hit {
                inputs.truncate(1);
            }
            hit
        })],
        cause: "RWKV-7's keys are not multiplied with 1 + (a - 1) * k_a",
        remedy: "k * (1 + (a - 1) * k_a), before the state and the bonus",
        source: "Peng et al. 2025 (Goose)",
        ..ROW
    },
    Fault {
        name: "rwkv7-k-k-missing",
        entry: "100",
        wants: |place| is_scaled_with(place, "time_mix_k_k"),
        edits: &[Edit::Weight(|w, _| each(w, |_| 1.0))],
        cause: "RWKV-7's removal key is made without k_k",
        remedy: "unit(k * k_k)",
        source: "Peng et al. 2025 (Goose)",
        ..ROW
    },
    Fault {
        name: "rwkv7-r-k-missing",
        entry: "100",
        wants: |place| is_scaled_with(place, "time_mix_r_k"),
        edits: &[Edit::Weight(|w, _| each(w, |_| 1.0))],
        cause: "RWKV-7's bonus is made without r_k",
        remedy: "sum(r * k * r_k) * v for each head",
        source: "Peng et al. 2025 (Goose)",
        ..ROW
    },
    Fault {
        name: "first-values-missing",
        entry: "101",
        edits: &[Edit::Wiring(|inputs, place| {
            let hit = is_first_mixed_in(place);
            if hit {
                inputs.truncate(1);
            }
            hit
        })],
        cause: "the values of the first layer are not mixed in",
        remedy: "v + (v_first - v) * sigmoid(v0 + v2 v1 x), in all layers but the first",
        source: "fla-org/flash-linear-attention#145",
        ..ROW
    },
    Fault {
        name: "first-values-share-complemented",
        entry: "101",
        wants: |place| matches!(place.weight(), "time_mix_v0" | "time_mix_v2"),
        // 1 - sigmoid(x) is sigmoid(-x).
        edits: &[Edit::Weight(|w, _| each(w, |x| -x))],
        cause: "the share of the first layer's values is taken for that of the layer's own",
        remedy: "v + (v_first - v) * sigmoid(v0 + v2 v1 x)",
        source: "fla-org/flash-linear-attention#145",
        ..ROW
    },
    Fault {
        name: "channel-mix-not-squared",
        entry: "102",
        edits: &[Edit::Unary(|f, place| {
            is_made_with(place, "channel_mix_key") && swap(f, Unary::ReluSquared, Unary::Relu)
        })],
        cause: "the ReLU of the channel mixing is not squared",
        remedy: "relu(k)^2",
        source: "Peng et al. 2023 (RWKV)",
        ..ROW
    },
    Fault {
        name: "channel-mix-receptance-without-sigmoid",
        entry: "102",
        edits: &[Edit::Unary(|f, place| {
            is_made_with(place, "channel_mix_receptance") && swap(f, Unary::Sigmoid, Unary::scale(1.0))
        })],
        cause: "the receptance of the channel mixing does not go through the sigmoid",
        remedy: "sigmoid(r) * (value @ relu(k)^2)",
        source: "Peng et al. 2023 (RWKV)",
        ..ROW
    },
    Fault {
        name: "channel-mix-receptance-missing",
        entry: "102",
        edits: &[Edit::Wiring(|inputs, place| {
            let Kind::Mul = place.node.kind else { return false };
            let (Some(gate), Some(&id)) = (input(place, 1), place.node.inputs.get(1)) else { return false };
            let hit = is_made_with(&Place { node: gate, id, ..*place }, "channel_mix_receptance");
            if hit {
                inputs.truncate(1);
            }
            hit
        })],
        cause: "the channel mixing is not gated with its receptance",
        remedy: "sigmoid(r) * (value @ relu(k)^2)",
        source: "Peng et al. 2023 (RWKV)",
        ..ROW
    },
    Fault {
        name: "removal-key-of-replaced-key",
        entry: "100",
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(&key) = place.node.inputs.first().filter(|_| is_scaled_with(place, "time_mix_k_k")) else {
                return false;
            };
            let replaced = place.graph.nodes.iter().position(|node| {
                let share = node.inputs.get(1).map(|&id| &place.graph.nodes[id].kind);
                let shares = matches!(share, Some(Kind::Unary(Unary::Affine { scale: 1.0, offset: 1.0 })));
                matches!(node.kind, Kind::Mul) && node.inputs[0] == key && shares
            });
            replaced.map(|replaced| inputs[0] = replaced).is_some()
        })],
        cause: "RWKV-7's removal key is made of the key that has been replaced in part already",
        remedy: "unit(k * k_k), with k from before k * (1 + (a - 1) * k_a)",
        source: "Peng et al. 2025 (Goose)",
        ..ROW
    },
    Fault {
        name: "matrices-halved-by-layer",
        entry: "102",
        variants: &[1.0, 2.0, 6.0],
        wants: |place| matches!(place.weight(), "time_mix_output" | "channel_mix_value"),
        edits: &[Edit::Weight(|w, place| {
            let halvings = place.layer().unwrap_or(0) / (place.variant as usize).max(1);
            w.values.iter_mut().for_each(|x| *x /= (halvings as f32).exp2());
            halvings > 0
        })],
        cause: "the last matrices of a layer are halved once for each {} layers before it, and the stream is not",
        remedy: "halve both (rescale_every_n_layers), or neither: f32 needs no halving",
        source: "BlinkDL/ChatRWKV: RWKV_RESCALE_LAYER",
        ..ROW
    },
];

/// Whether the operation is the function of RWKV-7's rate of learning in context.
fn is_rate(place: &Place<'_>) -> bool {
    is_made_with(place, "time_mix_a0") || is_made_with(place, "time_mix_a2")
}
