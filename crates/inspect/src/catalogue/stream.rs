//! Faults of the residual stream: what is added to it, and what its halves read (entries 28m to 28o and 73 of the catalogue).

use std::rc::Rc;

use candor_ops::Unary;

use super::{
    norm,
    row::{FACTORS, ROW},
    values::{near, scaled, sum},
};
use crate::fault::{Edit, Fault};
use crate::replay::Place;
use crate::{Key, Kind, NodeId};

/// A half of a layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    /// What mixes tokens.
    Mixer,
    /// The feed-forward.
    Ffn,
}

/// Which half's output the operation adds to the stream.
fn adds(place: &Place<'_>) -> Option<Half> {
    let (Kind::Add, &[_, mut product]) = (&place.node.kind, place.node.inputs.as_slice()) else { return None };
    match place.name() {
        "ffn_inp" => Some(Half::Mixer),
        "l_out" => loop {
            // In parallel blocks the last sum is that of attention.
            let node = &place.graph.nodes[product];
            match &node.kind {
                Kind::MatMul(weight) if !weight.name.contains("ffn_") => break Some(Half::Mixer),
                Kind::Bias(_) | Kind::Norm { .. } | Kind::Unary(_) => product = node.inputs[0],
                _ => break Some(Half::Ffn),
            }
        },
        _ => None,
    }
}

fn rewire_add(
    inputs: &mut Vec<NodeId>,
    place: &Place<'_>,
    at: Half,
    keep: impl Fn(NodeId, NodeId) -> Vec<NodeId>,
) -> bool {
    match (adds(place), inputs.as_slice()) {
        (Some(half), &[stream, product]) if half == at => {
            *inputs = keep(stream, product);
            true
        }
        _ => false,
    }
}

/// What a layer reads: before its first norm, or where it has none what its first sum adds to.
fn layer_input(place: &Place<'_>) -> Option<NodeId> {
    let sum = || {
        let node = &place.graph.nodes[place.sibling("ffn_inp")?];
        matches!(node.kind, Kind::Add).then(|| node.inputs[0])
    };
    place.layer_input().or_else(sum)
}

/// Stream and attention of a layer whose halves read the same.
fn parallel(place: &Place<'_>) -> Option<[NodeId; 2]> {
    let attention = place.sibling("attn_out").filter(|_| place.sibling("ffn_inp").is_none())?;
    Some([place.layer_input()?, attention])
}

/// Whether the operation reads what the feed-forward of a parallel block is given: its norm, or where it shares that of
/// attention its first products.
fn feeds(place: &Place<'_>) -> bool {
    let first = match &place.node.kind {
        Kind::Norm { .. } => return place.name() == "ffn_norm",
        Kind::MatMul(weight) => weight.name.contains("ffn_up") || weight.name.contains("ffn_gate"),
        _ => false,
    };
    first && place.sibling("ffn_norm").is_none() && place.node.inputs.first().copied() == place.sibling("attn_norm")
}

/// The factor on what the operation adds to the stream.
fn factor(place: &Place<'_>) -> Option<(NodeId, f64)> {
    let node = &place.graph.nodes[*place.node.inputs.get(1)?];
    match node.kind {
        Kind::Unary(Unary::Affine { scale, .. }) if adds(place).is_some() => Some((node.inputs[0], scale.into())),
        _ => None,
    }
}

/// Adds without the factor.
fn unscaled(inputs: &mut [NodeId], place: &Place<'_>, halves: &[Half]) -> bool {
    match (adds(place), factor(place)) {
        (Some(half), Some((product, _))) if halves.contains(&half) && inputs.len() > 1 => {
            inputs[1] = product;
            true
        }
        _ => false,
    }
}

/// Whether the operation gives what a layer leaves, and adds or copies it.
fn leaves(place: &Place<'_>) -> bool {
    place.node.key.name == "l_out" && matches!(place.node.kind, Kind::Add | Kind::Copy { .. })
}

/// Whether the fault's number is one that other rows stand for.
fn is_known(place: &Place<'_>) -> bool {
    near(place.variant, 1.0) || factor(place).is_some_and(|(_, scale)| near(place.variant * scale, 1.0))
}

/// The stream that a layer leaves, or that the first one is given.
fn behind(place: &Place<'_>, layer: Option<usize>) -> Option<NodeId> {
    match layer {
        Some(_) => place.graph.find(&Key::new("l_out", layer)),
        None => layer_input(&at_layer(place, 0)?),
    }
}

/// The same operation's place in another layer: that of its first norm or sum.
fn at_layer<'a>(place: &Place<'a>, layer: usize) -> Option<Place<'a>> {
    let names = ["attn_norm", "ffn_inp", "l_out"];
    let id = names.iter().find_map(|name| place.graph.find(&Key::new(*name, Some(layer))))?;
    Some(Place { node: &place.graph.nodes[id], id, ..*place })
}

/// Lets layers, and what comes behind the last one, read the stream as if they were run from the last to the first.
fn reversed(inputs: &mut [NodeId], place: &Place<'_>) -> bool {
    let layers = place.graph.config.layers;
    let Some(last) = layers.checked_sub(1).filter(|&last| last > 0) else { return false };
    let (now, new) = match place.layer() {
        Some(layer) if layer <= last => {
            let new = if layer == last { None } else { Some(layer + 1) };
            (behind(place, layer.checked_sub(1)), behind(place, new))
        }
        Some(_) => return false,
        None => (behind(place, Some(last)), behind(place, Some(0))),
    };
    let (Some(now), Some(new)) = (now, new) else { return false };
    let hit = now != new && place.id > now && inputs.contains(&now);
    if hit {
        inputs.iter_mut().filter(|input| **input == now).for_each(|input| *input = new);
    }
    hit
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "attention-residual-dropped",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| rewire_add(inputs, place, Half::Mixer, |_, product| vec![product]))],
        cause: "the residual stream is not added after attention",
        remedy: "x = x + attention(norm(x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "ffn-residual-dropped",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| rewire_add(inputs, place, Half::Ffn, |_, product| vec![product]))],
        cause: "the residual stream is not added after the feed-forward",
        remedy: "x = x + ffn(norm(x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "attention-residual-twice",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            rewire_add(inputs, place, Half::Mixer, |stream, product| vec![stream, product, stream])
        })],
        cause: "the residual stream is added twice after attention",
        remedy: "x = x + attention(norm(x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "ffn-residual-twice",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            rewire_add(inputs, place, Half::Ffn, |stream, product| vec![stream, product, stream])
        })],
        cause: "the residual stream is added twice after the feed-forward",
        remedy: "x = x + ffn(norm(x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "attention-residual-after-norm",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(normed) = place.sibling("attn_norm") else { return false };
            rewire_add(inputs, place, Half::Mixer, |_, product| vec![normed, product])
        })],
        cause: "the normed row is added after attention instead of the residual stream",
        remedy: "keep x from before the norm",
        source: "allenai/OLMo#680",
        ..ROW
    },
    Fault {
        name: "ffn-residual-after-norm",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(normed) = place.sibling("ffn_norm") else { return false };
            rewire_add(inputs, place, Half::Ffn, |_, product| vec![normed, product])
        })],
        cause: "the normed row is added after the feed-forward instead of the residual stream",
        remedy: "keep x from before the norm",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "attention-added-twice",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(sum) = place.sibling("ffn_inp").map(|id| &place.graph.nodes[id]) else { return false };
            let (Kind::Add, &[_, attention]) = (&sum.kind, sum.inputs.as_slice()) else { return false };
            rewire_add(inputs, place, Half::Ffn, |stream, product| vec![stream, product, attention])
        })],
        cause: "attention's output is added twice: after attention, and again after the feed-forward",
        remedy: "x = x + attention(...), and then x = x + ffn(...) of the new x",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "ffn-residual-from-layer-input",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            let (Some(input), Some(_)) = (layer_input(place), place.sibling("ffn_inp")) else { return false };
            rewire_add(inputs, place, Half::Ffn, |_, product| vec![input, product])
        })],
        cause: "the feed-forward's output is added to the layer's input: attention's contribution is lost",
        remedy: "x = x + attention(...), and then x = x + ffn(...) of the new x",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "parallel-residual",
        entry: "28n",
        edits: &[Edit::Wiring(|inputs, place| {
            let hit = place.name() == "ffn_norm" && matches!(place.node.kind, Kind::Norm { .. });
            match layer_input(place).filter(|&input| hit && inputs[0] != input) {
                Some(input) => inputs[0] = input,
                None => return false,
            }
            true
        })],
        cause: "the feed-forward reads the layer's input, as parallel blocks (GPT-J, NeoX, Phi) do",
        remedy: "norm the stream after attention",
        source: "rustformers/llm#237, ggml-org/ggml#139, ml-explore/mlx-lm#586, Ginjing-Yuan/QWen2-from_ground_up#2",
        ..ROW
    },
    Fault {
        name: "sequential-residual",
        entry: "28n",
        edits: &[
            Edit::Wiring(|inputs, place| match parallel(place).filter(|_| feeds(place)) {
                Some(sum) => {
                    *inputs = sum.to_vec();
                    true
                }
                None => false,
            }),
            Edit::Inputs(|inputs, place| {
                if parallel(place).is_none() || !feeds(place) {
                    return false;
                }
                let (Some(sum), norm) = (sum(inputs), place.sibling("attn_norm")) else { return false };
                let shared = norm.filter(|_| place.name() != "ffn_norm").and_then(|id| norm::plan(place, id));
                *inputs = vec![Rc::new(shared.map_or(sum.clone(), |norm| norm.run(&sum)))];
                true
            }),
        ],
        cause: "the feed-forward reads the stream after attention: the block is run one half after the other",
        remedy: "in parallel blocks (GPT-J, NeoX, Falcon, Phi, Command R) both halves read the layer's input",
        source: "EleutherAI/gpt-neox#435, TransformerLensOrg/TransformerLens#1644",
        ..ROW
    },
    Fault {
        name: "residual-multiplier",
        entry: "28o",
        variants: &[0.22, 0.5, 2.0],
        fit: Some(FACTORS),
        edits: &[
            Edit::Wiring(|_, place| adds(place).is_some() && !is_known(place)),
            Edit::Inputs(|inputs, place| {
                let hit = adds(place).is_some() && inputs.len() == 2 && !is_known(place);
                if hit {
                    inputs[1] = Rc::new(scaled(&inputs[1], place.variant));
                }
                hit
            }),
        ],
        cause: "what a block adds to the stream is multiplied with {} (Granite and MiniCPM do that)",
        remedy: "multiply only where the file has a residual scale",
        source: "ndif-team/nnterp#54",
        ..ROW
    },
    Fault {
        name: "residual-scale-left-out",
        entry: "28o",
        edits: &[Edit::Wiring(|inputs, place| unscaled(inputs, place, &[Half::Mixer, Half::Ffn]))],
        cause: "what a block adds to the stream is not multiplied with the file's factor",
        remedy: "multiply with residual_scale before the addition (Granite, MiniCPM)",
        source: "ndif-team/nnterp#54",
        ..ROW
    },
    Fault {
        name: "residual-scale-on-the-stream",
        entry: "28o",
        variants: &[0.0, 1.0],
        edits: &[
            Edit::Wiring(|inputs, place| match place.variant {
                0.0 => unscaled(inputs, place, &[Half::Mixer, Half::Ffn]),
                _ => factor(place).is_some_and(|(_, scale)| scale != 1.0),
            }),
            Edit::Output(|out, _, place| {
                let hit = factor(place).filter(|&(_, scale)| scale != 1.0);
                if let Some((_, scale)) = hit {
                    *out = scaled(out, scale);
                }
                hit.is_some()
            }),
        ],
        cause: "the file's factor is applied to the sum of the stream and what is added to it",
        remedy: "multiply what is added with residual_scale, not the sum (Granite, MiniCPM)",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "attention-scale-of-residual-left-out",
        entry: "28o",
        edits: &[Edit::Wiring(|inputs, place| unscaled(inputs, place, &[Half::Mixer]))],
        cause: "what attention adds to the stream is not multiplied with the file's factor, what the feed-forward adds is",
        remedy: "multiply both with residual_scale before the addition",
        source: "ndif-team/nnterp#54",
        ..ROW
    },
    Fault {
        name: "ffn-scale-of-residual-left-out",
        entry: "28o",
        edits: &[Edit::Wiring(|inputs, place| unscaled(inputs, place, &[Half::Ffn]))],
        cause: "what the feed-forward adds to the stream is not multiplied with the file's factor, what attention adds is",
        remedy: "multiply both with residual_scale before the addition",
        source: "ndif-team/nnterp#54",
        ..ROW
    },
    Fault {
        name: "stream-scaled",
        entry: "28o",
        variants: &[2.0, 0.5],
        fit: Some(FACTORS),
        edits: &[
            Edit::Wiring(|_, place| leaves(place)),
            Edit::Inputs(|inputs, place| {
                let hit = leaves(place);
                if hit && !near(place.variant, 1.0) {
                    inputs.iter_mut().for_each(|x| *x = Rc::new(scaled(x, place.variant)));
                }
                hit && !near(place.variant, 1.0)
            }),
            Edit::Norm(|norm, place| {
                let hit = place.node.key.name == "l_out" && !near(place.variant, 1.0);
                if hit {
                    norm.weight.iter_mut().chain(&mut norm.bias).for_each(|x| *x *= place.variant as f32);
                }
                hit
            }),
        ],
        cause: "the stream behind a layer is multiplied with {}",
        remedy: "hand the sum on as it is; look for an addition in place that is done twice",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "attention-output-missing",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| rewire_add(inputs, place, Half::Mixer, |stream, _| vec![stream]))],
        cause: "attention adds nothing to the stream",
        remedy: "x = x + attention(norm(x))",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "ffn-output-missing",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| rewire_add(inputs, place, Half::Ffn, |stream, _| vec![stream]))],
        cause: "the feed-forward adds nothing to the stream",
        remedy: "x = x + ffn(norm(x))",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "dense-ffn-output-missing",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            let experts = |layer: Option<usize>| {
                place
                    .graph
                    .nodes
                    .iter()
                    .any(|node| node.key.name == "ffn_moe_out" && (layer.is_none() || node.key.layer == layer))
            };
            let dense = experts(None) && !experts(place.layer());
            dense && rewire_add(inputs, place, Half::Ffn, |stream, _| vec![stream])
        })],
        cause: "the feed-forward of layers without experts adds nothing to the stream",
        remedy: "the first layers of many mixtures are dense (leading_dense_block_count): run their ffn_gate, ffn_up and ffn_down",
        source: "a fault of mixtures in general",
        ..ROW
    },
    Fault {
        name: "last-layer-skipped",
        entry: "73",
        edits: &[Edit::Wiring(|inputs, place| {
            if place.layer().is_some_and(|layer| layer + 1 != place.graph.config.layers) {
                return false;
            }
            rewire_add(inputs, place, Half::Mixer, |stream, _| vec![stream])
                || rewire_add(inputs, place, Half::Ffn, |stream, _| vec![stream])
        })],
        cause: "the last layer is not run",
        remedy: "run block_count layers; look for a limit left in from debugging",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "first-layer-skipped",
        entry: "73",
        edits: &[Edit::Wiring(|inputs, place| {
            if place.layer() != Some(0) {
                return false;
            }
            rewire_add(inputs, place, Half::Mixer, |stream, _| vec![stream])
                || rewire_add(inputs, place, Half::Ffn, |stream, _| vec![stream])
        })],
        cause: "the first layer is not run",
        remedy: "layers count from 0",
        source: "a fault of loops in general",
        ..ROW
    },
    Fault {
        name: "layers-in-reverse",
        entry: "73",
        edits: &[Edit::Wiring(|inputs, place| reversed(inputs, place))],
        cause: "the layers are run from the last to the first",
        remedy: "begin with layer 0, and hand its output to layer 1",
        source: "a fault of loops in general",
        ..ROW
    },
];
