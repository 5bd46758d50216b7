//! Faults of short convolutions along the tokens, and of RWKV's look at the token before.

use candor_ops::Unary;

use super::{
    recurrence::{decoding, each, input, lost, swap},
    row::ROW,
    values::left_at_decode,
};
use crate::{
    Kind, NodeId,
    fault::{Edit, Fault},
    replay::{Conv, Matrix, Place},
};

/// Whether the operation is RWKV's look at the token before.
fn is_shift(place: &Place<'_>) -> bool {
    matches!(&place.node.kind, Kind::Conv(weight) if weight.name == SHIFT)
}

/// The name of the weights that only look at the token before.
const SHIFT: &str = "token shift";

fn is_convolution(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Conv(_)) && !is_shift(place)
}

fn is_short(place: &Place<'_>) -> bool {
    matches!(&place.node.kind, Kind::Conv(weight) if weight.name.contains("shortconv."))
}

fn is_convolution_bias(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Bias(_)) && matches!(place.weight(), "ssm_conv1d.bias" | "shortconv.conv.bias")
}

/// Changes which rows are read.
fn read(
    plan: &mut Conv,
    change: impl Fn(&dyn Fn(usize, usize) -> Option<usize>, usize, usize) -> Option<usize> + 'static,
) {
    let right = std::mem::replace(&mut plan.source, Box::new(|_, _| None));
    plan.source = Box::new(move |t, back| change(&*right, t, back));
}

/// Nothing is known of tokens before the call.
fn forget(plan: &mut Conv, place: &Place<'_>) -> bool {
    let Some(first) = decoding(place) else { return false };
    read(plan, move |right, t, back| right(t, back).filter(|&row| row >= if t < first { 0 } else { t }));
    true
}

/// Whether the file's shares of a token and the one before are added to those made of the token.
fn is_share(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Bias(_)) && place.weight() == "time_mix_lerp_fused"
}

/// What a short convolution reads and what it is gated by.
struct Gated {
    /// Its input: the product of two parts.
    before: NodeId,
    /// The gate behind it.
    gate: NodeId,
}

/// The short convolution whose gate the operation is.
fn gated(place: &Place<'_>) -> Option<Gated> {
    let (Kind::Mul, &[gate, out]) = (&place.node.kind, place.node.inputs.as_slice()) else { return None };
    let mut node = &place.graph.nodes[out];
    if let Kind::Bias(_) = node.kind {
        node = &place.graph.nodes[node.inputs[0]];
    }
    let place = Place { node, ..*place };
    is_short(&place).then(|| Gated { before: node.inputs[0], gate })
}

/// The gate behind the short convolution that reads the operation's output.
fn gate_behind(place: &Place<'_>) -> Option<NodeId> {
    if !matches!(place.node.kind, Kind::Mul) || !place.readers().any(|(_, node)| matches!(node.kind, Kind::Conv(_))) {
        return None;
    }
    let nodes = place.graph.nodes.iter().enumerate().skip(place.id);
    let all = nodes.take_while(|(_, node)| node.key.layer == place.layer());
    all.filter_map(|(id, node)| gated(&Place { node, id, ..*place }))
        .find(|found| found.before == place.id)
        .map(|found| found.gate)
}

/// Whether one part of a product of three halves stands for another: the operation that reads them, with the part to read.
fn exchange(inputs: &mut [NodeId], place: &Place<'_>, part: usize) -> bool {
    if let Some(gate) = gate_behind(place) {
        inputs[part] = gate;
        return true;
    }
    let Some(found) = gated(place) else { return false };
    let Some(&other) = place.graph.nodes[found.before].inputs.get(part) else { return false };
    inputs[0] = other;
    true
}

/// Whether the operation is the last of a convolution: its activation, or where it has none its bias or itself.
fn ends_convolution(place: &Place<'_>) -> bool {
    is_part(place) && !place.readers().any(|(id, node)| is_part(&Place { node, id, ..*place }))
}

/// Whether the operation is a convolution, the addition of its bias or its activation.
fn is_part(place: &Place<'_>) -> bool {
    let before = place.node.inputs.first().map(|&id| Place { node: &place.graph.nodes[id], id, ..*place });
    match place.node.kind {
        Kind::Conv(_) => is_convolution(place),
        Kind::Bias(_) => is_convolution_bias(place),
        Kind::Unary(Unary::Silu) => {
            before.is_some_and(|before| is_convolution(&before) || is_convolution_bias(&before))
        }
        _ => false,
    }
}

/// The first column of B and C, where they go through the convolution of a state space together with x.
fn vectors(place: &Place<'_>) -> Option<usize> {
    let key = format!("{}.ssm.inner_size", place.graph.arch);
    let inner = place.gguf.metadata().u32(&key).ok()?? as usize;
    let has_d = place.graph.nodes.iter().any(|node| {
        matches!(&node.kind, Kind::Scale(w) if w.name.contains("ssm_d")) && node.key.layer == place.layer()
    });
    (is_part(place) && has_d && inner < place.node.width).then_some(inner)
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "convolution-bias-missing",
        entry: "94",
        wants: is_convolution_bias,
        edits: &[Edit::Weight(|w, _| each(w, |_| 0.0))],
        cause: "the bias of the convolution is not added",
        remedy: "add ssm_conv1d.bias (shortconv.conv.bias) before the activation",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "convolution-flipped",
        entry: "94",
        wants: is_convolution,
        edits: &[Edit::Weight(|w, _| {
            let taps = w.cols.max(1);
            w.values.chunks_exact_mut(taps).for_each(<[f32]>::reverse);
            taps > 1
        })],
        cause: "the taps of the convolution are read backwards",
        remedy: "the last tap is the newest token's",
        source: "a fault of convolutions in general",
        ..ROW
    },
    Fault {
        name: "convolution-without-silu",
        entry: "94",
        edits: &[Edit::Unary(|f, place| {
            let convolved = match input(place, 0) {
                Some(node) if matches!(node.kind, Kind::Bias(_)) => {
                    node.inputs.first().map(|&id| &place.graph.nodes[id].kind)
                }
                node => node.map(|node| &node.kind),
            };
            matches!(convolved, Some(Kind::Conv(_))) && swap(f, Unary::Silu, Unary::scale(1.0))
        })],
        cause: "no SiLU follows the convolution",
        remedy: "silu(conv(x) + bias); causal_conv1d has it only if it is asked for",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "convolution-missing",
        entry: "94",
        edits: &[Edit::Conv(|plan, place| {
            for taps in plan.weight.values.chunks_exact_mut(plan.weight.cols.max(1)) {
                taps.fill(0.0);
                taps.last_mut().into_iter().for_each(|tap| *tap = 1.0);
            }
            is_convolution(place)
        })],
        cause: "the convolution is left out: its input goes on",
        remedy: "each channel is a sum over the last ssm.conv_kernel (shortconv.l_cache) tokens",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "convolution-state-lost",
        entry: "95",
        edits: &[Edit::Conv(|plan, place| is_convolution(place) && forget(plan, place))],
        cause: "the convolution knows nothing of the tokens before the call: decoded tokens see zeros in their place",
        remedy: "keep the last inputs of each sequence and layer",
        source: "huggingface/transformers#48256, sgl-project/sglang#23975",
        ..ROW
    },
    Fault {
        name: "convolution-state-one-old",
        entry: "95",
        edits: &[Edit::Conv(|plan, place| {
            let Some(first) = decoding(place) else { return false };
            read(plan, move |right, t, back| match right(t, back) {
                Some(row) if t >= first && row < first => row.checked_sub(1),
                found => found,
            });
            is_convolution(place)
        })],
        cause: "the convolution's window is one token old when decoding begins",
        remedy: "keep the inputs of the prompt's last tokens, the newest one too",
        source: "state-spaces/mamba#1027",
        ..ROW
    },
    Fault {
        name: "convolution-state-holds-outputs",
        entry: "95",
        wants: is_convolution,
        edits: &[Edit::Output(|out, inputs, place| {
            let (Kind::Conv(weight), Some(first)) = (&place.node.kind, decoding(place)) else { return false };
            if is_shift(place) || out.width != inputs[0].width {
                return false;
            }
            let taps = Matrix::decode(weight);
            let bias = place.readers().find_map(|(_, node)| match &node.kind {
                Kind::Bias(bias) => Some(Matrix::decode(bias).values),
                _ => None,
            });
            let right = out.clone();
            for t in first..out.rows.min(first + taps.cols - 1) {
                for back in (t + 1 - first)..taps.cols {
                    let Some(row) = t.checked_sub(back) else { continue };
                    for (channel, x) in out.row_mut(t).iter_mut().enumerate() {
                        let added = bias.as_ref().map_or(0.0, |bias| bias[channel]);
                        let kept = right.row(row)[channel] + added - inputs[0].row(row)[channel];
                        *x += taps.row(channel)[taps.cols - 1 - back] * kept;
                    }
                }
            }
            true
        })],
        cause: "the convolution's results of the prompt's last tokens are kept for decoding, in place of its inputs",
        remedy: "keep the inputs of the last tokens: what goes into the convolution",
        source: "a fault of convolutions in general",
        ..ROW
    },
    Fault {
        name: "convolution-one-late",
        entry: "95",
        edits: &[Edit::Conv(|plan, place| {
            read(plan, |right, t, back| right(t, back + 1));
            is_convolution(place)
        })],
        cause: "the convolution ends one token early: it does not see the token itself",
        remedy: "the last tap is the token's own",
        source: "a fault of convolutions in general",
        ..ROW
    },
    Fault {
        name: "convolution-not-causal",
        entry: "95",
        edits: &[Edit::Conv(|plan, place| {
            let (prompt, ahead) = (place.tokens.prompt.min(place.rows()), plan.weight.cols.saturating_sub(1));
            read(plan, move |right, t, back| match t < prompt {
                true => (t + ahead).checked_sub(back).filter(|&row| row < prompt),
                false => right(t, back),
            });
            is_convolution(place) && prompt > 1 && ahead > 0
        })],
        cause: "the convolution looks at the tokens behind in place of those before",
        remedy: "pad in front and cut off at the end: conv1d(padding = taps - 1)[..tokens]",
        source: "a fault of convolutions in general",
        ..ROW
    },
    Fault {
        name: "convolution-one-early",
        entry: "94",
        edits: &[Edit::Conv(|plan, place| {
            let prompt = place.tokens.prompt;
            // The last token of a call has none after it.
            let shift = move |t: usize| usize::from(t + 1 < prompt);
            read(plan, move |right, t, back| right(t + shift(t), back));
            is_convolution(place) && prompt > 1
        })],
        cause: "the convolution sees the next token: its window lies one token late",
        remedy: "pad taps - 1 rows before the first token, and none behind the last",
        source: "a fault of convolutions in general",
        ..ROW
    },
    Fault {
        name: "convolution-state-one-short",
        entry: "94",
        edits: &[Edit::Conv(|plan, place| {
            let Some(first) = decoding(place) else { return false };
            let kept = plan.weight.cols.saturating_sub(1);
            let call = move |t: usize| if t < first { 0 } else { t };
            read(plan, move |right, t, back| right(t, back).filter(|&row| t < first || row + kept != call(t)));
            is_convolution(place) && kept > 0
        })],
        cause: "one row too few is kept for the convolution of the next call: the oldest is zero",
        remedy: "keep as many rows as there are taps, less one",
        source: "a fault of convolutions in general",
        ..ROW
    },
    Fault {
        name: "states-lost-between-calls",
        entry: "95",
        edits: &[Edit::Conv(forget), Edit::Recur(lost)],
        cause: "all that layers keep of a sequence is empty at the beginning of each call: states, and the tokens before",
        remedy: "keep both: the last inputs of convolutions (token shifts), and the states of recurrences",
        source: "huggingface/transformers#46741",
        ..ROW
    },
    Fault {
        name: "x-and-z-exchanged",
        entry: "96",
        edits: &[Edit::Wiring(|inputs, place| {
            let part = |id: NodeId| match &place.graph.nodes[id].kind {
                Kind::MatMul(weight) => {
                    weight.name.split_once("ssm_in.weight[").map(|(layer, rows)| (layer, rows, weight.rows))
                }
                _ => None,
            };
            let reads = matches!(place.node.kind, Kind::Conv(_) | Kind::Unary(Unary::Silu));
            let Some((layer, rows, width)) = inputs.first().filter(|_| reads).and_then(|&id| part(id)) else {
                return false;
            };
            let other = (inputs[0].saturating_sub(1)..(inputs[0] + 2).min(place.graph.nodes.len()))
                .find(|&id| part(id).is_some_and(|(of, other, size)| of == layer && other != rows && size == width));
            let Some(other) = other else { return false };
            inputs[0] = other;
            true
        })],
        cause: "the two halves of ssm_in are exchanged: the gate goes through the convolution, and its input gates",
        remedy: "x is the first half, z the second (Mamba)",
        source: "a fault of fused products in general",
        ..ROW
    },
    Fault {
        name: "short-convolution-ungated-before",
        entry: "97",
        edits: &[Edit::Wiring(|inputs, place| {
            let hit = gate_behind(place).is_some();
            if hit {
                inputs.remove(0);
            }
            hit
        })],
        cause: "the input of a short convolution is not gated with B",
        remedy: "C * conv(B * x)",
        source: "Liquid AI 2025 (LFM2)",
        ..ROW
    },
    Fault {
        name: "short-convolution-ungated-behind",
        entry: "97",
        edits: &[Edit::Wiring(|inputs, place| {
            let hit = gated(place).is_some();
            if hit {
                inputs.remove(0);
            }
            hit
        })],
        cause: "the output of a short convolution is not gated with C",
        remedy: "C * conv(B * x)",
        source: "Liquid AI 2025 (LFM2)",
        ..ROW
    },
    Fault {
        name: "short-convolution-with-silu",
        entry: "97",
        wants: is_short,
        edits: &[Edit::Output(|out, _, place| {
            if !is_short(place) {
                return false;
            }
            out.data.iter_mut().for_each(|x| *x /= 1.0 + (-*x).exp());
            true
        })],
        cause: "SiLU follows a short convolution, as it follows Mamba's",
        remedy: "C * conv(B * x), without an activation",
        source: "Liquid AI 2025 (LFM2)",
        ..ROW
    },
    Fault {
        name: "short-convolution-gates-squashed",
        entry: "97",
        wants: |place| gated(place).is_some() || gate_behind(place).is_some(),
        edits: &[Edit::Output(|out, inputs, place| {
            if gated(place).is_none() && gate_behind(place).is_none() {
                return false;
            }
            let [gate, x] = inputs else { return false };
            let squashed = gate.data.iter().zip(&x.data).map(|(gate, x)| x / (1.0 + (-gate).exp()));
            out.data = squashed.collect();
            true
        })],
        cause: "the gates of a short convolution go through the sigmoid",
        remedy: "C * conv(B * x), with gates as the product gives them",
        source: "Liquid AI 2025 (LFM2)",
        ..ROW
    },
    Fault {
        name: "short-convolution-gates-exchanged",
        entry: "97",
        edits: &[Edit::Wiring(|inputs, place| exchange(inputs, place, 0))],
        cause: "the gates before and behind a short convolution are exchanged",
        remedy: "shortconv.in_proj gives B, C and x, in this order: C * conv(B * x)",
        source: "Liquid AI 2025 (LFM2)",
        ..ROW
    },
    Fault {
        name: "short-convolution-c-for-x",
        entry: "97",
        edits: &[Edit::Wiring(|inputs, place| exchange(inputs, place, 1))],
        cause: "C and x of a short convolution are exchanged: the second part is taken for what is convolved",
        remedy: "shortconv.in_proj gives B, C and x, in this order: C * conv(B * x)",
        source: "Liquid AI 2025 (LFM2)",
        ..ROW
    },
    Fault {
        name: "token-shift-without-tokens",
        entry: "98",
        wants: is_share,
        edits: &[Edit::Output(|out, inputs, place| {
            if !is_share(place) {
                return false;
            }
            out.data.iter_mut().zip(&inputs[0].data).for_each(|(share, made)| *share -= made);
            true
        })],
        cause: "the shares of a token and the one before are the file's alone, without what RWKV-6 makes of the token",
        remedy: "add w2(tanh(w1(mix))) to time_mix_lerp_fused",
        source: "Peng et al. 2024 (Eagle and Finch)",
        ..ROW
    },
    Fault {
        name: "token-shift-missing",
        entry: "98",
        edits: &[Edit::Conv(|plan, place| {
            plan.source = Box::new(|t, _| Some(t));
            is_shift(place)
        })],
        cause: "the token itself stands for the one before: the token shift is missing",
        remedy: "x + (before - x) * mix",
        source: "Peng et al. 2023 (RWKV)",
        ..ROW
    },
    Fault {
        name: "token-shift-of-zeros",
        entry: "98",
        edits: &[Edit::Conv(|plan, place| {
            plan.source = Box::new(|_, _| None);
            is_shift(place)
        })],
        cause: "zeros stand for the token before",
        remedy: "x + (before - x) * mix",
        source: "ggml-org/llama.cpp#11445",
        ..ROW
    },
    Fault {
        name: "token-shift-of-next",
        entry: "98",
        edits: &[Edit::Conv(|plan, place| {
            plan.source = Box::new(|t, back| Some(t + back));
            is_shift(place)
        })],
        cause: "the token shift takes the next token for the one before",
        remedy: "shift rows towards the end: the first one sees zeros",
        source: "Peng et al. 2023 (RWKV)",
        ..ROW
    },
    Fault {
        name: "token-shift-lost-between-calls",
        entry: "98",
        edits: &[Edit::Conv(|plan, place| is_shift(place) && forget(plan, place))],
        cause: "the first token of a call has none before it: the token shift's state is lost between calls",
        remedy: "keep the last row of each call",
        source: "ggml-org/llama.cpp#11445",
        ..ROW
    },
    Fault {
        name: "token-shift-of-stream",
        entry: "98",
        variants: &[1.0, 2.0],
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(norm) = input(place, 0).filter(|_| is_shift(place)) else { return false };
            let wanted = if place.variant == 1.0 { "attn_norm" } else { "ffn_norm" };
            let hit = matches!(norm.kind, Kind::Norm { .. }) && norm.key.name == wanted;
            if hit {
                inputs[0] = norm.inputs[0];
            }
            hit
        })],
        cause: "the token before is taken from the stream in place of its norm, in mixing {} of the layer (1: time, 2: channels)",
        remedy: "shift what the norm has given",
        source: "Peng et al. 2023 (RWKV)",
        ..ROW
    },
    Fault {
        name: "convolution-bias-missing-at-decode",
        entry: "94",
        wants: is_convolution_bias,
        edits: &[Edit::Output(|out, inputs, place| left_at_decode(out, inputs, place, is_convolution_bias(place)))],
        cause: "the bias of the convolution is added in the prompt, and not when tokens are decoded",
        remedy: "the code of single tokens needs ssm_conv1d.bias as well as that of prompts",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "convolution-results-one-late",
        entry: "95",
        wants: ends_convolution,
        edits: &[Edit::Output(|out, _, place| {
            let hit = ends_convolution(place) && place.node.per_token == 1 && out.rows > 1;
            if hit {
                let width = out.width;
                out.data.rotate_right(width);
                out.row_mut(0).fill(0.0);
            }
            hit
        })],
        cause: "each token gets what the convolution and its activation give for the token before, the first one nothing",
        remedy: "pad with as many rows as there are taps, less one",
        source: "a fault of convolutions in general",
        ..ROW
    },
    Fault {
        name: "vectors-not-convolved",
        entry: "95",
        variants: &[0.0, 1.0],
        wants: |place| vectors(place).is_some(),
        edits: &[Edit::Output(|out, inputs, place| {
            let acts = matches!(place.node.kind, Kind::Unary(_)) && place.variant == 0.0;
            let Some(first) = vectors(place).filter(|_| !acts) else { return false };
            let width = out.width;
            for (row, old) in out.data.chunks_exact_mut(width).zip(inputs[0].data.chunks_exact(width)) {
                row[first..].copy_from_slice(&old[first..]);
            }
            true
        })],
        cause: "x goes through the convolution, B and C go past it (1: past its activation, too)",
        remedy: "Mamba 2 convolves x, B and C together",
        source: "Dao and Gu 2024, arXiv:2405.21060, section 7.1",
        ..ROW
    },
];
