//! Faults of norms (section A3 of the catalogue, entries 13 and 28).

use std::rc::Rc;

use candor_gguf::half;
use candor_ops::Rope;

use super::{
    loader::swap_names,
    row::ROW,
    values::{left_at_decode, sum},
    weights::{tensor, weight_of_layer},
};
use crate::fault::{Edit, Fault, Fit, Steps};
use crate::replay::{Divisor, Matrix, Norm, Place, Scope, Scores, Turn};
use crate::{Kind, NodeId};

/// What a norm is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Before attention, or what else mixes tokens.
    Attention,
    /// Before the feed-forward.
    FeedForward,
    /// On what attention adds to the stream, or on that sum.
    AfterAttention,
    /// The same of the feed-forward.
    AfterFeedForward,
    /// Of embeddings.
    Embedding,
    /// Before the output matrix.
    Output,
    /// Of queries or keys.
    Heads,
    /// Of the narrow vectors that latent attention makes queries, keys and values of.
    Latent,
    /// Inside of a mixer.
    Inside,
}

fn role(place: &Place<'_>) -> Role {
    if matches!(place.weight(), "attn_q_a_norm" | "attn_kv_a_norm") {
        return Role::Latent;
    }
    match (place.name(), place.layer()) {
        ("result_norm", _) => Role::Output,
        (_, None) => Role::Embedding,
        ("attn_norm", _) => Role::Attention,
        ("ffn_norm", _) => Role::FeedForward,
        ("Qcur_normed" | "Kcur_normed" | "Qcur" | "Kcur", _) => Role::Heads,
        ("attn_post_norm" | "ffn_inp", _) => Role::AfterAttention,
        ("ffn_post_norm" | "l_out", _) => Role::AfterFeedForward,
        _ => Role::Inside,
    }
}

/// The norm without a weight that queries and keys of other layers go through, where those of this one are neither normed
/// nor rotated.
fn missing_norm(place: &Place<'_>) -> Option<Norm> {
    let Kind::Scores(heads) = place.node.kind else { return None };
    let normed = |kind: &Kind| matches!(kind, Kind::Norm { norm, weight: None, .. } if norm.run == heads.key_dim);
    let turned = |kind: &Kind| matches!(kind, Kind::Rope { .. });
    let kinds = || place.node.inputs.iter().map(|&id| &place.graph.nodes[id].kind);
    if kinds().any(|kind| normed(kind) || turned(kind)) {
        return None;
    }
    place.graph.nodes.iter().find(|node| normed(&node.kind)).and_then(|node| match &node.kind {
        Kind::Norm { norm, .. } => Some(Norm::new(norm, Vec::new(), Vec::new())),
        _ => None,
    })
}

/// The rotation of what the norm of queries or keys gives.
fn rotated_next<'a>(place: &Place<'a>) -> Option<(&'a Rope, usize)> {
    if !of_heads(place) || !matches!(place.node.kind, Kind::Norm { .. }) {
        return None;
    }
    place.graph.nodes.iter().find_map(|node| match &node.kind {
        Kind::Rope { rope, head_dim } if node.inputs == [place.id] => Some((rope, *head_dim)),
        _ => None,
    })
}

/// Which inputs of the scores are rotated behind a norm, with that norm.
fn normed_inputs(place: &Place<'_>) -> Vec<(usize, Norm)> {
    if !matches!(place.node.kind, Kind::Scores(_)) {
        return Vec::new();
    }
    let norm = |(at, &id): (usize, &NodeId)| {
        let rope = Place { node: &place.graph.nodes[id], id, ..*place };
        Some((at, plan(&rope, norm_before(&rope)?)?))
    };
    place.node.inputs.iter().enumerate().filter_map(norm).collect()
}

/// Whether the norm is one of queries or keys.
fn of_heads(place: &Place<'_>) -> bool {
    role(place) == Role::Heads
}

fn divide(norm: &mut Norm, divisor: Divisor) -> bool {
    std::mem::replace(&mut norm.divisor, divisor) != divisor
}

/// Whether the mean is taken away, and whether squares are of what differs from it.
fn around(norm: &mut Norm, centred: bool, deviation: bool) -> bool {
    let before = (norm.centred, norm.deviation);
    (norm.centred, norm.deviation) = (centred, deviation);
    before != (centred, deviation)
}

/// Leaves a norm out: what goes in comes out.
fn skip(norm: &mut Norm, roles: &[Role], place: &Place<'_>) -> bool {
    let hit = roles.contains(&role(place));
    if hit {
        norm.weight.clear();
        norm.bias.clear();
        norm.divisor = Divisor::Nothing;
        around(norm, false, false);
    }
    hit
}

/// The norm of a node as the model has it.
pub(super) fn plan(place: &Place<'_>, id: NodeId) -> Option<Norm> {
    let Kind::Norm { norm, weight, bias } = &place.graph.nodes[id].kind else { return None };
    let [weight, bias] =
        [weight, bias].map(|tensor| tensor.as_ref().map_or_else(Vec::new, |tensor| Matrix::decode(tensor).values));
    Some(Norm::new(norm, weight, bias))
}

/// Takes weight and bias of another norm of equal width.
fn take(norm: &mut Norm, place: &Place<'_>, other: Option<NodeId>) -> bool {
    match other.and_then(|id| plan(place, id)) {
        Some(other) if other.weight.len() == norm.weight.len() && !norm.weight.is_empty() => {
            (norm.weight, norm.bias) = (other.weight, other.bias);
            true
        }
        _ => false,
    }
}

/// The norm of the other half of a layer.
fn other_half(norm: &mut Norm, place: &Place<'_>, roles: &[Role]) -> bool {
    let other = match role(place) {
        role if !roles.contains(&role) => return false,
        Role::Attention => "ffn_norm",
        _ => "attn_norm",
    };
    take(norm, place, place.sibling(other))
}

/// What a norm of a sum is of: the stream, and what is added to it.
fn summed(place: &Place<'_>) -> Option<[NodeId; 2]> {
    let (Kind::Norm { .. }, &[input]) = (&place.node.kind, place.node.inputs.as_slice()) else { return None };
    let added = &place.graph.nodes[input];
    let half = matches!(role(place), Role::AfterAttention | Role::AfterFeedForward);
    match (&added.kind, added.inputs.as_slice()) {
        (Kind::Add, &[stream, product]) if half => Some([stream, product]),
        _ => None,
    }
}

/// The norm of what is added to the stream, where the operation adds it.
fn added(place: &Place<'_>) -> Option<NodeId> {
    let (Kind::Add, &[_, product], "ffn_inp" | "l_out") =
        (&place.node.kind, place.node.inputs.as_slice(), place.name())
    else {
        return None;
    };
    matches!(place.graph.nodes[product].kind, Kind::Norm { .. }).then_some(product)
}

/// Whether the norm is of queries, and not of keys.
fn of_queries(place: &Place<'_>) -> bool {
    of_heads(place) && place.name().starts_with('Q')
}

/// The norm of what is rotated here, where it comes first.
fn norm_before(place: &Place<'_>) -> Option<NodeId> {
    let input = matches!(place.node.kind, Kind::Rope { .. }).then(|| place.node.inputs.first().copied())??;
    matches!(place.graph.nodes[input].kind, Kind::Norm { .. }).then_some(input)
}

/// The norm of what is rotated here, where it comes afterwards.
fn norm_after(place: &Place<'_>) -> Option<NodeId> {
    let rope = matches!(place.node.kind, Kind::Rope { .. });
    let mut readers = place.readers().filter(|(_, reader)| rope && matches!(reader.kind, Kind::Norm { .. }));
    readers.next().map(|(id, _)| id)
}

/// Whether what the norm reads has been rotated.
fn is_after_rope(place: &Place<'_>) -> bool {
    place.node.inputs.first().is_some_and(|&input| matches!(place.graph.nodes[input].kind, Kind::Rope { .. }))
}

/// Whether the norm is one that the fault's number stands for: 1 for that before attention, 2 for that before the
/// feed-forward, 0 for all.
fn is_meant(place: &Place<'_>) -> bool {
    match place.variant {
        1.0 => role(place) == Role::Attention,
        2.0 => role(place) == Role::FeedForward,
        _ => true,
    }
}

/// Lets what reads one of two norms of the same stream read the other: halves of a parallel block.
fn reads_other(inputs: &mut [NodeId], place: &Place<'_>, own: &str, other: &str) -> bool {
    let (Some(own), Some(other)) = (place.sibling(own), place.sibling(other)) else { return false };
    let nodes = &place.graph.nodes;
    let hit = inputs.first() == Some(&own) && nodes[own].inputs == nodes[other].inputs;
    if hit {
        inputs[0] = other;
    }
    hit
}

/// Whether the operation is a norm of what is added to the stream, in a layer without norms before its halves.
fn comes_alone(place: &Place<'_>) -> bool {
    let (Kind::Norm { .. }, &[input]) = (&place.node.kind, place.node.inputs.as_slice()) else { return false };
    let before = ["attn_norm", "ffn_norm"].iter().any(|name| place.sibling(name).is_some());
    !before && !matches!(place.graph.nodes[input].kind, Kind::Add)
}

/// The norm behind the half of which the operation is the first product, where that reads the stream as it is.
fn reads_unnormed(place: &Place<'_>) -> Option<NodeId> {
    let wanted = match (&place.node.kind, place.weight()) {
        (Kind::MatMul(_), "attn_q" | "attn_k" | "attn_v" | "attn_qkv") => Role::AfterAttention,
        (Kind::MatMul(_), "ffn_gate" | "ffn_up") => Role::AfterFeedForward,
        _ => return None,
    };
    let at = |id: NodeId| Place { node: &place.graph.nodes[id], id, ..*place };
    let of_layer = |&id: &NodeId| place.graph.nodes[id].key.layer == place.layer();
    (0..place.graph.nodes.len()).filter(of_layer).find(|&id| role(&at(id)) == wanted && comes_alone(&at(id)))
}

/// Whether the operation is a norm of queries or keys.
fn is_head_norm(place: &Place<'_>) -> bool {
    of_heads(place) && matches!(place.node.kind, Kind::Norm { .. })
}

/// The norm of the layer's keys, where the operation gives the values that attention mixes.
fn key_norm(place: &Place<'_>) -> Option<Norm> {
    let mixes =
        |(_, node): (NodeId, &crate::Node)| matches!(node.kind, Kind::Mix(_)) && node.inputs.get(1) == Some(&place.id);
    if place.name() != "Vcur" || !place.readers().any(mixes) {
        return None;
    }
    let norm = plan(place, with_weight(place, place.layer(), "attn_k_norm")?)?;
    Some(norm).filter(|norm| norm.run == norm.weight.len())
}

/// The norm of a layer, or of none, that reads the weight with this name.
fn with_weight(place: &Place<'_>, layer: Option<usize>, weight: &str) -> Option<NodeId> {
    let reads = |(id, node): (NodeId, &crate::Node)| {
        matches!(node.kind, Kind::Norm { .. }) && Place { node, id, ..*place }.weight() == weight
    };
    let of_layer = |node: &crate::Node| layer.is_none() || node.key.layer == layer;
    let mut nodes = place.graph.nodes.iter().enumerate().filter(|(_, node)| of_layer(node));
    nodes.find(|&found| reads(found)).map(|(id, _)| id)
}

/// The stream that the operation reads from the layer before, and the norm behind the embedding.
fn stream_again(place: &Place<'_>) -> Option<(NodeId, Norm)> {
    let before = place.layer()?.checked_sub(1)?;
    let stream = place.graph.find(&crate::Key::new("l_out", Some(before)))?;
    let norm = place.node.inputs.contains(&stream).then(|| with_weight(place, None, "token_embd_norm"))??;
    Some((stream, plan(place, norm)?))
}

/// The norm behind a sum, where the operation is the first to add something to what is looked up.
fn norm_of_sum(place: &Place<'_>) -> Option<Norm> {
    let &input = place.node.inputs.first()?;
    let adds = matches!(place.node.kind, Kind::Bias(_) | Kind::Positions(_) | Kind::Add);
    (adds && matches!(place.graph.nodes[input].kind, Kind::Embed(_))).then_some(())?;
    let norm = with_weight(place, None, "token_embd_norm")?;
    plan(place, norm).filter(|_| norm > place.id)
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "norm-weight-plus-one",
        entry: "13, 28c",
        edits: &[Edit::Norm(|norm, _| {
            norm.weight.iter_mut().for_each(|w| *w += 1.0);
            !norm.weight.is_empty()
        })],
        cause: "norms multiply with 1 + weight",
        remedy: "the file's weights are used as they are: converters have added the 1 where an architecture (Gemma) needs it",
        source: "ggml-org/llama.cpp#5631, NeuraLegion/shainet#176",
        ..ROW
    },
    Fault {
        name: "norm-weight-minus-one",
        entry: "13",
        edits: &[Edit::Norm(|norm, _| {
            norm.weight.iter_mut().for_each(|w| *w -= 1.0);
            !norm.weight.is_empty()
        })],
        cause: "norms multiply with weight - 1: the offset of Gemma-like checkpoints is missing or was taken away",
        remedy: "use the file's weights as they are; add 1 only to a checkpoint that stores weight - 1",
        source: "vllm-project/vllm#31464, huggingface/transformers#35708",
        ..ROW
    },
    Fault {
        name: "norm-weight-twice",
        entry: "28a",
        variants: &[0.0, 1.0, 2.0],
        edits: &[Edit::Norm(|norm, place| {
            let hit = !norm.weight.is_empty() && is_meant(place);
            if hit {
                norm.weight.iter_mut().for_each(|w| *w *= *w);
            }
            hit
        })],
        cause: "the norm's weight is applied twice",
        remedy: "multiply with it once: inside of the norm, or after it",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "norm-weight-missing",
        entry: "28b",
        variants: &[0.0, 1.0, 2.0],
        edits: &[Edit::Norm(|norm, place| {
            let hit = !norm.weight.is_empty() && is_meant(place);
            if hit {
                norm.weight.fill(1.0);
            }
            hit
        })],
        cause: "the norm's weight is not applied",
        remedy: "multiply the normed row with the weight, element by element",
        source: "a fault of norms in general",
        ..ROW
    },
    Fault {
        name: "norm-bias-missing",
        entry: "28b",
        edits: &[Edit::Norm(|norm, _| {
            norm.bias.fill(0.0);
            !norm.bias.is_empty()
        })],
        cause: "the norm's bias is not added",
        remedy: "LayerNorm adds its bias after the weight: load both",
        source: "a fault of norms in general",
        ..ROW
    },
    Fault {
        name: "norm-bias-twice",
        entry: "28a",
        edits: &[Edit::Norm(|norm, _| {
            norm.bias.iter_mut().for_each(|b| *b *= 2.0);
            !norm.bias.is_empty()
        })],
        cause: "the norm's bias is added twice",
        remedy: "add it once: inside of the norm, or after it",
        source: "a fault of norms in general",
        ..ROW
    },
    Fault {
        name: "norm-bias-before-weight",
        entry: "28",
        edits: &[Edit::Norm(|norm, _| {
            let hit = !norm.bias.is_empty() && norm.weight.len() == norm.bias.len();
            if hit {
                norm.bias.iter_mut().zip(&norm.weight).for_each(|(bias, weight)| *bias *= weight);
            }
            hit
        })],
        cause: "the norm's bias is added before the row is multiplied with the norm's weight",
        remedy: "multiply with the weight first, then add the bias",
        source: "a fault of norms in general",
        ..ROW
    },
    Fault {
        name: "norm-weight-and-bias-exchanged",
        entry: "28",
        edits: &[Edit::Norm(|norm, _| {
            let hit = !norm.bias.is_empty() && norm.weight.len() == norm.bias.len();
            if hit {
                std::mem::swap(&mut norm.weight, &mut norm.bias);
            }
            hit
        })],
        cause: "the norm's weight and its bias are exchanged",
        remedy: "multiply with NAME.weight, then add NAME.bias",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "layer-norm",
        entry: "28d",
        edits: &[Edit::Norm(|norm, _| around(norm, true, true))],
        cause: "LayerNorm instead of RMSNorm: the mean is taken away first",
        remedy: "RMSNorm divides by the root of the mean square and takes nothing away",
        source: "mit-han-lab/omniserve#32",
        ..ROW
    },
    Fault {
        name: "rms-norm",
        entry: "28d",
        edits: &[Edit::Norm(|norm, _| around(norm, false, false))],
        cause: "RMSNorm instead of LayerNorm: the mean is not taken away",
        remedy: "LayerNorm takes the mean away and divides by the deviation",
        source: "Zhang and Sennrich 2019, Root Mean Square Layer Normalization",
        ..ROW
    },
    Fault {
        name: "norm-mean-left-in",
        entry: "28d",
        edits: &[Edit::Norm(|norm, _| around(norm, false, true))],
        cause: "the norm divides by the deviation from the mean, and leaves the mean in",
        remedy: "RMSNorm divides by the root of the mean square; LayerNorm takes the mean away too",
        source: "keras-team/keras#22393",
        ..ROW
    },
    Fault {
        name: "norm-mean-in-divisor",
        entry: "28d",
        edits: &[Edit::Norm(|norm, _| around(norm, true, false))],
        cause: "the norm takes the mean away, and divides by the root of the mean square of what was before",
        remedy: "LayerNorm divides by the deviation from the mean; RMSNorm takes nothing away",
        source: "a fault of norms in general",
        ..ROW
    },
    Fault {
        name: "norm-eps",
        entry: "28e",
        variants: &[0.0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3],
        fit: Some(Fit { range: (1e-9, 1.0), steps: Steps::Factors, numbers: |_| Vec::new() }),
        edits: &[Edit::Norm(|norm, place| {
            let other = (norm.eps - place.variant).abs() > 1e-3 * norm.eps;
            norm.eps = place.variant;
            other
        })],
        cause: "the norm's eps is {}, not the file's",
        remedy: "read attention.layer_norm_rms_epsilon (or layer_norm_epsilon); it matters most where rows are small, as at BOS",
        source: "ggml-org/llama.cpp#2373, huggingface/candle#271",
        ..ROW
    },
    Fault {
        name: "norm-eps-outside",
        entry: "28f",
        edits: &[Edit::Norm(|norm, _| {
            norm.divisor == Divisor::RootMeanSquare && divide(norm, Divisor::RootMeanSquarePlusEps)
        })],
        cause: "eps is added to the root instead of under it",
        remedy: "divide by sqrt(mean(x^2) + eps)",
        source: "allenai/OLMo#281",
        ..ROW
    },
    Fault {
        name: "norm-sum",
        entry: "28g",
        edits: &[Edit::Norm(|norm, _| divide(norm, Divisor::RootSumSquare))],
        cause: "the norm divides by the root of the sum of squares, not of their mean",
        remedy: "divide the sum by the number of elements first",
        source: "tenstorrent/tt-mlir#8798",
        ..ROW
    },
    Fault {
        name: "norm-unbiased",
        entry: "28g",
        edits: &[Edit::Norm(|norm, _| divide(norm, Divisor::RootMeanSquareUnbiased))],
        cause: "the sum of squares is divided by one element fewer than there are (the unbiased variance)",
        remedy: "divide by the number of elements: torch.var(x, correction=0)",
        source: "FluxML/Flux.jl#529, harvardnlp/annotated-transformer#119",
        ..ROW
    },
    Fault {
        name: "norm-without-root",
        entry: "28h",
        edits: &[Edit::Norm(|norm, _| divide(norm, Divisor::MeanSquare))],
        cause: "the norm divides by the mean square, not by its root",
        remedy: "divide by sqrt(mean(x^2) + eps)",
        source: "131250208/TPlinker-joint-extraction#37",
        ..ROW
    },
    Fault {
        name: "norm-not-divided",
        entry: "28h",
        edits: &[Edit::Norm(|norm, _| divide(norm, Divisor::Nothing))],
        cause: "the norm does not divide: its weight alone is applied",
        remedy: "divide by sqrt(mean(x^2) + eps)",
        source: "a fault of norms in general",
        ..ROW
    },
    Fault {
        name: "norm-inverse",
        entry: "28h",
        edits: &[Edit::Norm(|norm, _| divide(norm, Divisor::Inverse))],
        cause: "the norm divides by the reciprocal root, so it multiplies with the root",
        remedy: "multiply with 1 / sqrt(mean(x^2) + eps)",
        source: "mosaicml/llm-foundry#371",
        ..ROW
    },
    Fault {
        name: "norm-over-batch",
        entry: "28i",
        variants: &[0.0, 1.0],
        edits: &[Edit::Norm(|norm, place| {
            let (rows, prompt) = (place.rows(), place.tokens.prompt);
            let together = if place.variant == 0.0 { rows } else { prompt };
            let several = together > 1 && (place.variant == 0.0 || prompt < rows);
            norm.scope = if several { Scope::Batch(together) } else { norm.scope };
            several
        })],
        cause: "one mean square is taken over all tokens together (1: of a call)",
        remedy: "norm each token's row by itself",
        source: "bkitano/llama-from-scratch#4, kyegomez/zeta#180",
        ..ROW
    },
    Fault {
        name: "norm-skipped",
        entry: "28j",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::Attention, Role::FeedForward, Role::Inside], place))],
        cause: "the norms of a layer are left out: their input goes on",
        remedy: "apply attn_norm before attention and ffn_norm before the feed-forward",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "attention-norm-skipped",
        entry: "28j",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::Attention], place))],
        cause: "the norm before attention is left out: attention reads the stream as it is",
        remedy: "apply attn_norm before queries, keys and values are made",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "latent-norm-missing",
        entry: "28j",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::Latent], place))],
        cause: "the norm of the narrow vector that queries, or keys and values, are made of is left out",
        remedy: "apply attn_q_a_norm and attn_kv_a_norm between the two products of latent attention",
        source: "DeepSeek-AI 2024, arXiv:2405.04434; a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "ffn-norm-skipped",
        entry: "28j",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::FeedForward], place))],
        cause: "the norm before the feed-forward is left out: it reads the stream as it is",
        remedy: "apply ffn_norm before gate and up",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "post-norms-missing",
        entry: "28j",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::AfterAttention, Role::AfterFeedForward], place))],
        cause: "the norms after attention and after the feed-forward are left out",
        remedy: "apply post_attention_norm and post_ffw_norm to what is added to the stream",
        source: "ggml-org/llama.cpp#12957",
        ..ROW
    },
    Fault {
        name: "attention-post-norm-missing",
        entry: "28j",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::AfterAttention], place))],
        cause: "the norm after attention is left out",
        remedy: "apply post_attention_norm to attention's output before it is added to the stream",
        source: "ggml-org/llama.cpp#12957",
        ..ROW
    },
    Fault {
        name: "ffn-post-norm-missing",
        entry: "28j",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::AfterFeedForward], place))],
        cause: "the norm after the feed-forward is left out",
        remedy: "apply post_ffw_norm to the feed-forward's output before it is added to the stream",
        source: "NVIDIA-NeMo/Megatron-Bridge#3698",
        ..ROW
    },
    Fault {
        name: "norm-before-addition",
        entry: "28n",
        edits: &[
            Edit::Wiring(|inputs, place| {
                let Some([stream, product]) = summed(place) else { return false };
                *inputs = vec![product, stream];
                true
            }),
            Edit::Output(|out, inputs, place| {
                let stream = inputs.get(1).filter(|_| summed(place).is_some());
                if let Some(stream) = stream {
                    out.data.iter_mut().zip(&stream.data).for_each(|(x, y)| *x += y);
                }
                stream.is_some()
            }),
        ],
        cause: "a half's output is normed alone, and the stream is added to that",
        remedy: "add first, norm then: x = norm(x + f(x)), as BERT does",
        source: "OpenNMT/OpenNMT-py#2199",
        ..ROW
    },
    Fault {
        name: "norm-after-addition",
        entry: "28n",
        edits: &[
            Edit::Wiring(|inputs, place| {
                let Some(norm) = added(place).filter(|_| inputs.len() > 1) else { return false };
                inputs[1] = place.graph.nodes[norm].inputs[0];
                true
            }),
            Edit::Inputs(|inputs, place| {
                let norm = added(place).and_then(|norm| plan(place, norm));
                let (Some(norm), Some(sum)) = (norm, sum(inputs)) else { return false };
                *inputs = vec![Rc::new(norm.run(&sum))];
                true
            }),
        ],
        cause: "the stream is normed together with what is added to it",
        remedy: "norm what attention or the feed-forward gives, then add: x = x + norm(f(x))",
        source: "EleutherAI/gpt-neox#1408",
        ..ROW
    },
    Fault {
        name: "post-norms-used-before",
        entry: "28n",
        edits: &[
            Edit::Wiring(|_, place| reads_unnormed(place).is_some()),
            Edit::Inputs(|inputs, place| {
                let Some(norm) = reads_unnormed(place).and_then(|norm| plan(place, norm)) else { return false };
                inputs[0] = Rc::new(norm.run(&inputs[0]));
                true
            }),
            Edit::Norm(|norm, place| {
                comes_alone(place) && skip(norm, &[Role::AfterAttention, Role::AfterFeedForward], place)
            }),
        ],
        cause: "the norms after attention and after the feed-forward are applied to what these read",
        remedy: "norm what attention and the feed-forward give: x = x + norm(f(x)), as OLMo 2 does",
        source: "Team OLMo 2024, arXiv:2501.00656; a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "norms-swapped",
        entry: "8",
        edits: &[Edit::Norm(|norm, place| other_half(norm, place, &[Role::Attention, Role::FeedForward]))],
        cause: "the norms before attention and before the feed-forward are exchanged",
        remedy: "attn_norm (HF: input_layernorm) comes before attention, ffn_norm (post_attention_layernorm) before the \
                 feed-forward; of Falcon's two, attn_norm_2 is attention's",
        source: "antonellof/ferrox#236",
        ..ROW
    },
    Fault {
        name: "post-norm-and-ffn-norm-swapped",
        entry: "8",
        edits: &[Edit::Norm(|norm, place| {
            let other = match role(place) {
                Role::AfterAttention => "ffn_norm",
                Role::FeedForward => "attn_post_norm",
                _ => return false,
            };
            take(norm, place, place.sibling(other))
        })],
        cause: "the norm after attention and the one before the feed-forward are exchanged",
        remedy: "in Gemma's files post_attention_norm comes after attention, ffn_norm (pre_feedforward_layernorm) before the \
                 feed-forward; elsewhere post_attention_layernorm is the one before the feed-forward",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "ffn-normed-as-attention",
        entry: "8",
        edits: &[
            Edit::Norm(|norm, place| other_half(norm, place, &[Role::FeedForward])),
            Edit::Wiring(|inputs, place| reads_other(inputs, place, "ffn_norm", "attn_norm")),
        ],
        cause: "the feed-forward is given the norm of attention: one norm serves both",
        remedy: "where a block has two norms, the feed-forward has its own",
        source: "NVIDIA/TransformerEngine#625, antonellof/ferrox#236",
        ..ROW
    },
    Fault {
        name: "attention-normed-as-ffn",
        entry: "8",
        edits: &[
            Edit::Norm(|norm, place| other_half(norm, place, &[Role::Attention])),
            Edit::Wiring(|inputs, place| reads_other(inputs, place, "attn_norm", "ffn_norm")),
        ],
        cause: "attention is given the norm of the feed-forward: one norm serves both",
        remedy: "where a block has two norms, attention has its own (Falcon: attn_norm_2)",
        source: "antonellof/ferrox#236",
        ..ROW
    },
    Fault {
        name: "embedding-norm-missing",
        entry: "28j",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::Embedding], place))],
        cause: "embeddings are not normed",
        remedy: "apply token_embd_norm to what the first layer reads",
        source: "IntelLabs/academic-budget-bert#12",
        ..ROW
    },
    Fault {
        name: "head-norm-in-layers-without",
        entry: "28",
        wants: |place| missing_norm(place).is_some(),
        edits: &[Edit::Output(|out, inputs, place| {
            let (Kind::Scores(heads), Some(norm)) = (&place.node.kind, missing_norm(place)) else { return false };
            let [queries, keys] = [0, 1].map(|n| norm.run(&inputs[n]));
            *out = Scores::new(*heads).run(&queries, &keys);
            true
        })],
        cause: "queries and keys are normed in layers that do not rotate, too",
        remedy: "Llama 4 norms them behind the rotation, in layers that have one",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "head-norm-missing",
        entry: "28k",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::Heads], place))],
        cause: "the norms of queries and keys are missing",
        remedy: "apply attn_q_norm and attn_k_norm to each head before RoPE",
        source: "paiml/aprender#1228",
        ..ROW
    },
    Fault {
        name: "query-norm-missing",
        entry: "28k",
        edits: &[Edit::Norm(|norm, place| of_queries(place) && skip(norm, &[Role::Heads], place))],
        cause: "the norm of queries is missing, that of keys is there",
        remedy: "apply attn_q_norm as well as attn_k_norm",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "key-norm-missing",
        entry: "28k",
        edits: &[Edit::Norm(|norm, place| !of_queries(place) && skip(norm, &[Role::Heads], place))],
        cause: "the norm of keys is missing, that of queries is there",
        remedy: "apply attn_k_norm as well as attn_q_norm",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "head-norm-over-row",
        entry: "28k",
        edits: &[Edit::Norm(|norm, place| {
            let apart = of_heads(place) && norm.run < place.node.width;
            norm.scope = if apart { Scope::Row } else { norm.scope };
            apart
        })],
        cause: "queries and keys are normed over all heads together",
        remedy: "norm each head by itself",
        source: "lablup/mlxcel#391",
        ..ROW
    },
    Fault {
        name: "head-norm-by-head",
        entry: "28k",
        edits: &[Edit::Norm(|norm, place| {
            let dim = place.graph.config.heads.key_dim;
            let whole = of_heads(place) && norm.run == place.node.width && norm.run > dim;
            norm.run = if whole { dim } else { norm.run };
            whole
        })],
        cause: "each head of queries and keys is normed by itself",
        remedy: "OLMo 2, OLMoE and MiniMax norm the whole row of queries, and that of keys, before it is cut into heads",
        source: "EleutherAI/gpt-neox#1367, vllm-project/vllm-metal#768",
        ..ROW
    },
    Fault {
        name: "head-norms-swapped",
        entry: "8",
        wants: of_heads,
        edits: &[Edit::Weight(|w, place| swap_names(w, place, "attn_q_norm", "attn_k_norm"))],
        cause: "the norms of queries and of keys are exchanged",
        remedy: "attn_q_norm is that of queries, attn_k_norm that of keys",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "keys-normed-as-queries",
        entry: "8",
        edits: &[Edit::Norm(|norm, place| {
            let queries = place.node.key.name.replacen('K', "Q", 1);
            of_heads(place) && !of_queries(place) && take(norm, place, place.sibling(&queries))
        })],
        cause: "keys are normed with the weight of queries: one weight serves both",
        remedy: "attn_k_norm is that of keys",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "norms-of-first-layer",
        entry: "8",
        edits: &[Edit::Norm(|norm, place| {
            let first = weight_of_layer(place, 0).filter(|first| first.len() == norm.weight.len());
            let (true, Some(first)) = (place.layer().is_some_and(|layer| layer > 0), first) else { return false };
            norm.weight = first;
            if let Some(bias) = tensor(place, &format!("blk.0.{}.bias", place.weight())) {
                norm.bias = bias.values;
            }
            true
        })],
        cause: "the norms of every layer have the weights of the first one's",
        remedy: "check the layer index in the names of norms that are looked up",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "head-norm-of-rotated",
        entry: "28k",
        edits: &[
            Edit::Wiring(|inputs, place| {
                if let Some(norm) = norm_before(place) {
                    inputs[0] = place.graph.nodes[norm].inputs[0];
                    return true;
                }
                rotated_next(place).is_some() || !normed_inputs(place).is_empty()
            }),
            Edit::Inputs(|inputs, place| {
                if let Some((rope, head_dim)) = rotated_next(place) {
                    inputs[0] =
                        Rc::new(Turn::new(rope, head_dim, &place.tokens.positions(place.node.side)).run(&inputs[0]));
                    return true;
                }
                let norms = normed_inputs(place);
                for (at, norm) in &norms {
                    inputs[*at] = Rc::new(norm.run(&inputs[*at]));
                }
                !norms.is_empty()
            }),
        ],
        cause: "queries and keys are rotated first and normed then: what is normed is rotated already",
        remedy: "norm first, rotate then",
        source: "lablup/mlxcel#391",
        ..ROW
    },
    Fault {
        name: "head-norm-after-rope",
        entry: "28k",
        edits: &[
            Edit::Norm(|norm, place| !is_after_rope(place) && skip(norm, &[Role::Heads], place)),
            Edit::Output(|out, _, place| {
                let Some(norm) = norm_before(place).and_then(|id| plan(place, id)) else { return false };
                *out = norm.run(out);
                true
            }),
        ],
        cause: "queries and keys are normed after RoPE",
        remedy: "norm first, rotate then",
        source: "lablup/mlxcel#391",
        ..ROW
    },
    Fault {
        name: "head-norm-before-rope",
        entry: "28k",
        edits: &[
            Edit::Norm(|norm, place| is_after_rope(place) && skip(norm, &[Role::Heads], place)),
            Edit::Wiring(|_, place| norm_after(place).is_some()),
            Edit::Inputs(|inputs, place| {
                let Some(norm) = norm_after(place).and_then(|id| plan(place, id)) else { return false };
                inputs[0] = Rc::new(norm.run(&inputs[0]));
                true
            }),
        ],
        cause: "queries and keys are normed before RoPE",
        remedy: "rotate first, norm then, as Hunyuan does",
        source: "vllm-project/vllm-metal#692",
        ..ROW
    },
    Fault {
        name: "output-norm-skipped",
        entry: "28l",
        edits: &[Edit::Norm(|norm, place| skip(norm, &[Role::Output], place))],
        cause: "the output norm is left out; the first choice often stays right, its probability does not",
        remedy: "apply output_norm before the output matrix",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "output-norm-on-embedding",
        entry: "28l",
        wants: |place| matches!(place.node.kind, Kind::Embed(_)),
        edits: &[
            Edit::Norm(|norm, place| skip(norm, &[Role::Output], place)),
            Edit::Output(|out, _, place| {
                let last = place.graph.nodes.iter().position(|node| node.key.name == "result_norm");
                let norm = last.filter(|_| matches!(place.node.kind, Kind::Embed(_))).and_then(|id| plan(place, id));
                norm.map(|norm| *out = norm.run(out)).is_some()
            }),
        ],
        cause: "the output norm is applied to the embedding, and not to what the last layer gives",
        remedy: "LFM2 calls its output norm token_embd_norm (embedding_norm): apply it before the output matrix",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "output-norm-twice",
        entry: "28l",
        edits: &[
            Edit::Wiring(|_, place| plan(place, place.id).is_some() && role(place) == Role::Output),
            Edit::Inputs(|inputs, place| {
                let norm = plan(place, place.id).filter(|_| role(place) == Role::Output);
                if let Some(norm) = &norm {
                    inputs[0] = Rc::new(norm.run(&inputs[0]));
                }
                norm.is_some()
            }),
        ],
        cause: "the output norm is applied twice",
        remedy: "norm once: in the model, or in the head",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "output-norm-of-last-layer",
        entry: "28l",
        variants: &[0.0, 1.0, 2.0, 3.0],
        edits: &[Edit::Norm(|norm, place| {
            // Of either norm, the weight alone or with its bias.
            let name = if (place.variant as u32).is_multiple_of(2) { "ffn_norm" } else { "attn_norm" };
            let last = place.graph.config.layers.checked_sub(1);
            let other = last.and_then(|last| place.graph.find(&crate::Key::new(name, Some(last))));
            let (bias, alone) = (norm.bias.clone(), place.variant < 2.0);
            let taken = role(place) == Role::Output && (alone || !bias.is_empty()) && take(norm, place, other);
            if alone {
                norm.bias = bias;
            }
            taken
        })],
        cause: "the output norm has the weight of a norm of the last layer",
        remedy: "the output norm is output_norm (HF: model.norm)",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "head-norms-missing-at-decode",
        entry: "28k",
        wants: is_head_norm,
        edits: &[Edit::Output(|out, inputs, place| left_at_decode(out, inputs, place, is_head_norm(place)))],
        cause: "queries and keys are normed in the prompt, and not when tokens are decoded",
        remedy: "the code of single tokens needs attn_q_norm and attn_k_norm as well as that of prompts",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "values-normed-as-keys",
        entry: "28k",
        wants: |place| key_norm(place).is_some(),
        edits: &[Edit::Output(|out, _, place| {
            let norm = key_norm(place).filter(|norm| out.width.is_multiple_of(norm.run.max(1)));
            norm.map(|norm| *out = norm.run(out)).is_some()
        })],
        cause: "the heads of values are normed with the weight of keys, too",
        remedy: "attn_q_norm and attn_k_norm are for queries and keys alone",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "post-norms-exchanged",
        entry: "8",
        edits: &[Edit::Norm(|norm, place| {
            let pairs = [("post_attention_norm", "post_ffw_norm"), ("attn_output_norm", "layer_output_norm")];
            let other = pairs.iter().find_map(|&(a, b)| match place.weight() {
                own if own == a => Some(b),
                own if own == b => Some(a),
                _ => None,
            });
            let other = other.and_then(|other| with_weight(place, place.layer(), other));
            take(norm, place, other)
        })],
        cause: "the norms behind attention and behind the feed-forward are exchanged",
        remedy: "post_attention_norm is of what attention gives, post_ffw_norm of what the feed-forward does",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "latent-norms-exchanged",
        entry: "8",
        wants: |place| role(place) == Role::Latent,
        edits: &[Edit::Weight(|w, place| swap_names(w, place, "attn_q_a_norm", "attn_kv_a_norm"))],
        cause: "the norm of the narrow queries and that of the latent keys and values are exchanged",
        remedy: "attn_q_a_norm is of what attn_q_a gives, attn_kv_a_norm of what attn_kv_a_mqa does",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "output-norm-of-embedding",
        entry: "28l",
        edits: &[Edit::Norm(|norm, place| {
            let other = with_weight(place, None, "token_embd_norm");
            role(place) == Role::Output && take(norm, place, other)
        })],
        cause: "the output norm has the weight of the norm behind the embedding",
        remedy: "the output norm is output_norm (HF: model.norm)",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "embedding-norm-in-every-layer",
        entry: "28",
        edits: &[
            Edit::Wiring(|_, place| stream_again(place).is_some()),
            Edit::Inputs(|inputs, place| {
                let Some((stream, norm)) = stream_again(place) else { return false };
                let at = place.node.inputs.iter().position(|&input| input == stream);
                let Some(input) = at.and_then(|at| inputs.get_mut(at)) else { return false };
                *input = Rc::new(norm.run(input));
                true
            }),
        ],
        cause: "the stream is normed with the embedding's norm before each layer, not before the first alone",
        remedy: "apply token_embd_norm once, to what the first layer reads",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "embedding-norm-before-positions",
        entry: "28",
        edits: &[
            Edit::Wiring(|_, place| norm_of_sum(place).is_some()),
            Edit::Inputs(|inputs, place| {
                let norm = norm_of_sum(place);
                norm.map(|norm| inputs[0] = Rc::new(norm.run(&inputs[0]))).is_some()
            }),
            Edit::Norm(|norm, place| {
                let embeds = |node: &crate::Node| matches!(node.kind, Kind::Embed(_));
                let direct = place.node.inputs.first().is_some_and(|&input| embeds(&place.graph.nodes[input]));
                !direct && skip(norm, &[Role::Embedding], place)
            }),
        ],
        cause: "rows of the embedding are normed first, and types and positions are added then",
        remedy: "norm the sum: token_embd_norm(row + type + position), as BERT does",
        source: "Devlin et al. 2019; a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "norm-squares-overflow",
        entry: "74",
        edits: &[Edit::Norm(|norm, _| {
            norm.square = |square| {
                let stored = half::f16_to_f32(half::f32_to_f16(square as f32));
                f64::from(stored)
            };
            norm.divisor == Divisor::RootMeanSquare
        })],
        cause: "the norm squares in half precision: numbers beyond 256 overflow",
        remedy: "square and add in f32, whatever the stream is kept in",
        source: "huggingface/transformers: LlamaRMSNorm upcasts to f32; a fault of norms in general",
        ..ROW
    },
];
