//! Faults of attention (section A5 of the catalogue).

use candor_ops::{Mask, Unary};

use super::{
    row::{ROW, UP_TO_TOKENS, any},
    seen::{attending, decodes, mask, seeing, windows},
};
use crate::fault::{Edit, Fault, Fit, Steps};
use crate::replay::{Axis, Masking, Place, Side, SoftMax, across};
use crate::{Kind, Value};

/// Heads read another group of keys and values.
macro_rules! grouping {
    ($group:expr) => {
        &[
            Edit::Scores(|plan, _| {
                let (heads, dim) = (plan.heads, plan.heads.key_dim);
                plan.slices = (0..heads.heads).map(|h| ($group(h, heads.heads, heads.kv_heads) * dim, dim)).collect();
                heads.kv_heads != heads.heads && heads.kv_heads > 1
            }),
            Edit::Mix(|plan, _| {
                let (heads, dim) = (plan.heads, plan.heads.value_dim);
                plan.slices = (0..heads.heads).map(|h| ($group(h, heads.heads, heads.kv_heads) * dim, dim)).collect();
                heads.kv_heads != heads.heads && heads.kv_heads > 1
            }),
        ]
    };
}

fn bias_missing(out: &mut Value, inputs: &[std::rc::Rc<Value>], place: &Place<'_>) -> bool {
    let hit = matches!(place.node.kind, Kind::Bias(_)) && matches!(place.name(), "Qcur" | "Kcur" | "Vcur");
    if hit {
        out.clone_from(&inputs[0]);
    }
    hit
}

/// The limits that queries, keys and values are cut off at, where the operation does that.
fn clamp(place: &Place<'_>) -> Option<(f32, f32)> {
    match place.node.kind {
        Kind::Unary(Unary::Clamp { low, high }) if matches!(place.name(), "Qcur" | "Kcur" | "Vcur") => {
            Some((low, high))
        }
        _ => None,
    }
}

/// Where a token's head lies, counted in heads, among a number of tokens and heads.
type Slot = fn(usize, usize, usize, usize) -> usize;

/// Heads of a token side by side.
const BY_TOKEN: Slot = |t, h, _, heads| t * heads + h;

/// Tokens of a head side by side.
const BY_HEAD: Slot = |t, h, tokens, _| h * tokens + t;

/// Writes in one order of memory what is read in the other: the tokens that are computed together, of which a decoded one is
/// alone.
fn reinterpret(out: &mut Value, place: &Place<'_>, head_dim: usize, to: Slot, from: Slot) -> bool {
    let tokens = if decodes(place) && place.node.side == Side::Tokens { place.tokens.prompt } else { out.rows };
    let heads = out.width / head_dim;
    if tokens < 2 || heads < 2 {
        return false;
    }
    let old = out.data.clone();
    for t in 0..tokens {
        for h in 0..heads {
            let [to, from] = [to, from].map(|slot| slot(t, h, tokens, heads) * head_dim);
            out.data[to..to + head_dim].copy_from_slice(&old[from..from + head_dim]);
        }
    }
    true
}

/// Gives scores another scale.
fn rescaled(plan: &mut SoftMax, scale: f64) -> bool {
    let old = std::mem::replace(&mut plan.scale, scale);
    (old / scale - 1.0).abs() > 1e-4
}

/// The part of a key that is not rotated, where the rotated part is made apart from it.
fn unrotated(place: &Place<'_>) -> Option<usize> {
    let Kind::SoftMax(attending) = &place.node.kind else { return None };
    let of_layer = || place.graph.nodes.iter().filter(|node| node.key.layer == place.layer());
    // Of latent attention it is what goes into the matrix of each head.
    let spelt = of_layer().filter_map(|node| node.kind.weight()).find(|weight| weight.name.contains("attn_k_b"));
    if let Some(spelt) = spelt {
        return Some(spelt.cols);
    }
    let apart = place.graph.nodes.iter().find_map(|node| match node.kind {
        Kind::Rope { head_dim, .. } if node.key.layer == place.layer() && !node.tapped => Some(head_dim),
        _ => None,
    })?;
    attending.heads.key_dim.checked_sub(apart).filter(|&still| still > 0)
}

/// Heads and their width, where a value has queries, keys or values as they go into norms, rotation and attention.
fn cut(place: &Place<'_>) -> Option<(usize, usize)> {
    let part = place.node.key.name.as_str();
    let reads = |kind: &Kind, at: usize| -> Option<(usize, usize)> {
        match (kind, at) {
            (Kind::Scores(heads), 0) => Some((heads.heads, heads.key_dim)),
            (Kind::Scores(heads), _) => Some((heads.kv_heads, heads.key_dim)),
            (Kind::Mix(heads), 1) => Some((heads.kv_heads, heads.value_dim)),
            _ => None,
        }
    };
    if !matches!(part, "Qcur" | "Kcur" | "Vcur") || matches!(place.node.kind, Kind::Rope { .. }) {
        return None;
    }
    let mut readers = place.readers();
    readers.find_map(|(_, node)| reads(&node.kind, node.inputs.iter().position(|&input| input == place.id)?))
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "gqa-modulo",
        entry: "45",
        edits: grouping!(|h: usize, _: usize, kv: usize| h % kv),
        cause: "query head h reads key head h % n_kv (tiled) instead of h / (n_head / n_kv) (repeated)",
        remedy: "repeat each key and value head n_head / n_kv times in a row",
        source: "ekzhang/jax-js#180, onnx/onnx#7274",
        ..ROW
    },
    Fault {
        name: "gqa-first-head",
        entry: "45",
        edits: grouping!(|_: usize, _: usize, _: usize| 0),
        cause: "all query heads read the first key and value head",
        remedy: "query head h reads key head h / (n_head / n_kv)",
        source: "apple/axlearn#842",
        ..ROW
    },
    Fault {
        name: "gqa-reversed",
        entry: "45",
        edits: grouping!(|h: usize, heads: usize, kv: usize| kv - 1 - h / (heads / kv)),
        cause: "the first query heads read the last key and value head, and the last ones the first",
        remedy: "query head h reads key head h / (n_head / n_kv)",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "gqa-divides-by-kv-heads",
        entry: "45",
        edits: grouping!(|h: usize, _: usize, kv: usize| (h / kv).min(kv - 1)),
        cause: "query head h reads key head h / n_kv",
        remedy: "divide by n_head / n_kv",
        source: "nntile/nntile#347",
        ..ROW
    },
    Fault {
        name: "gqa-values-modulo",
        entry: "45",
        edits: &[Edit::Mix(|plan, _| {
            let (heads, dim) = (plan.heads, plan.heads.value_dim);
            plan.slices = (0..heads.heads).map(|h| (h % heads.kv_heads * dim, dim)).collect();
            heads.kv_heads != heads.heads && heads.kv_heads > 1
        })],
        cause: "query head h reads value head h % n_kv, keys are read by groups",
        remedy: "repeat value heads as key heads: n_head / n_kv times in a row",
        source: "ekzhang/jax-js#180, onnx/onnx#7274",
        ..ROW
    },
    Fault {
        name: "kv-heads-taken-as-heads",
        entry: "46",
        edits: &[
            Edit::Scores(|plan, _| {
                let heads = plan.heads;
                let dim = heads.kv_heads * heads.key_dim / heads.heads;
                plan.slices = (0..heads.heads).map(|h| (h * dim, dim)).collect();
                heads.kv_heads != heads.heads
            }),
            Edit::Mix(|plan, _| {
                let heads = plan.heads;
                let dim = heads.kv_heads * heads.value_dim / heads.heads;
                plan.slices = (0..heads.heads).map(|h| (h * dim, dim)).collect();
                heads.kv_heads != heads.heads
            }),
        ],
        cause: "keys and values are split into n_head heads instead of n_kv, which makes heads too narrow",
        remedy: "read attention.head_count_kv",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "attention-scale-width",
        entry: "47, 48",
        edits: &[Edit::SoftMax(|plan, place| {
            let narrow = place.graph.config.dim / plan.heads.heads;
            rescaled(plan, 1.0 / (narrow as f64).sqrt())
        })],
        cause: "scores are scaled by the width over the number of heads, which is not this model's head width",
        remedy: "scale by 1 / sqrt(attention.key_length), or by the file's attention.scale",
        source: "huggingface/candle#2358, huggingface/transformers#32846",
        ..ROW
    },
    Fault {
        name: "attention-scale-missing",
        entry: "48",
        edits: &[Edit::SoftMax(|plan, _| {
            let scaled = plan.scale != 1.0;
            plan.scale = 1.0;
            scaled
        })],
        cause: "scores are not scaled",
        remedy: "multiply with 1 / sqrt(head width) before the softmax",
        source: "ggml-org/llama.cpp#13951",
        ..ROW
    },
    Fault {
        name: "attention-scale-without-root",
        entry: "48",
        edits: &[Edit::SoftMax(|plan, _| {
            let scaled = plan.scale != 1.0;
            plan.scale *= plan.scale;
            scaled
        })],
        cause: "scores are scaled twice, or by 1 / width without the root",
        remedy: "multiply with 1 / sqrt(head width) once",
        source: "ml-explore/mlx-swift-examples#99",
        ..ROW
    },
    Fault {
        name: "attention-scale-model-width",
        entry: "48",
        edits: &[Edit::SoftMax(|plan, place| rescaled(plan, 1.0 / (place.graph.config.dim as f64).sqrt()))],
        cause: "scores are scaled by the width of the model instead of a head",
        remedy: "multiply with 1 / sqrt(head width)",
        source: "ml-explore/mlx-swift-examples#99",
        ..ROW
    },
    Fault {
        name: "attention-scale-of-head",
        entry: "48",
        edits: &[Edit::SoftMax(|plan, _| {
            // Where scores are not scaled at all, that is a fault of its own.
            let scaled = plan.scale != 1.0;
            rescaled(plan, 1.0 / (plan.heads.key_dim as f64).sqrt()) && scaled
        })],
        cause: "scores are scaled by 1 / sqrt(head width), the model has a number of its own for that",
        remedy: "read attention.scale (attention_multiplier, query_pre_attn_scalar), and what scaling of positions adds to it",
        source: "antonellof/ferrox#40, ggml-org/llama.cpp#13951",
        ..ROW
    },
    Fault {
        name: "attention-scale-unrotated-part",
        entry: "48",
        edits: &[Edit::SoftMax(|plan, place| {
            let Some(still) = unrotated(place) else { return false };
            rescaled(plan, 1.0 / (still as f64).sqrt())
        })],
        cause: "scores are scaled by the root of the part of a head that is not rotated",
        remedy: "a head is both parts together: scale by 1 / sqrt(rotated + unrotated)",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "attention-scale-other",
        entry: "48",
        variants: &[0.05, 0.7],
        fit: Some(Fit { range: (1e-4, 30.0), steps: Steps::Factors, numbers: |_| Vec::new() }),
        edits: &[Edit::SoftMax(|plan, place| {
            // What has a name of its own is not another number.
            let heads = plan.heads;
            let roots = [heads.key_dim, place.graph.config.dim, place.graph.config.dim / heads.heads];
            let roots = roots.into_iter().chain(unrotated(place)).map(|width| 1.0 / (width as f64).sqrt());
            let named = [1.0, plan.scale * plan.scale, plan.scale * std::f64::consts::LN_2];
            let taken = roots.chain(named).any(|other| (place.variant / other - 1.0).abs() < 1e-2);
            !taken && rescaled(plan, place.variant)
        })],
        cause: "scores are scaled by {}, not by the model's number",
        remedy: "multiply scores with 1 / sqrt(head width), or with the number that the file has (attention.scale)",
        source: "ggml-org/llama.cpp#8444, huggingface/transformers#31891",
        ..ROW
    },
    Fault {
        name: "qkv-clamp-missing",
        entry: "49",
        edits: &[Edit::Unary(|f, place| {
            clamp(place).is_some_and(|_| {
                *f = Unary::Affine { scale: 1.0, offset: 0.0 };
                true
            })
        })],
        cause: "queries, keys and values are not cut off at the file's limit",
        remedy: "clip them to attention.clamp_kqv on either side (OLMo, DBRX)",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "qkv-clamp-one-sided",
        entry: "49",
        variants: &[1.0, -1.0],
        edits: &[Edit::Unary(|f, place| {
            clamp(place).is_some_and(|(low, high)| {
                let above = place.variant > 0.0;
                *f =
                    Unary::Clamp { low: if above { f32::MIN } else { low }, high: if above { high } else { f32::MAX } };
                true
            })
        })],
        cause: "queries, keys and values are cut off on one side alone (1: above, -1: below)",
        remedy: "clip them to attention.clamp_kqv on either side (OLMo, DBRX)",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "qkv-bias-missing",
        entry: "49",
        edits: &[Edit::Output(bias_missing)],
        cause: "the biases of Q, K and V are not added",
        remedy: "add attn_q.bias, attn_k.bias and attn_v.bias (Qwen2 has them)",
        source: "sbryngelson/ANEForge#253, EricLBuehler/candle-vllm#167",
        ..ROW
    },
    Fault {
        name: "causal-mask-missing",
        entry: "50",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.visible = Box::new(move |t, p| if t < prompt { p < prompt } else { p <= t });
            prompt > 1
        })],
        cause: "tokens of the prompt see the tokens after them",
        remedy: "mask scores of later positions before the softmax; a single row needs no mask, several do",
        source: "lablup/mlxcel#998, panbanda/higgs#203",
        ..ROW
    },
    Fault {
        name: "causal-mask-strict",
        entry: "51",
        variants: &[0.0, 1.0],
        edits: &[Edit::SoftMax(|plan, place| {
            // Decoded tokens may see themselves.
            let first = if place.variant == 0.0 { usize::MAX } else { place.tokens.prompt };
            seeing(plan, move |seen, t, p| seen(t, p) && (t >= first || p != t || t == 0));
            (place.variant == 0.0 || decodes(place)) && place.rows() > 1
        })],
        cause: "a token does not see itself",
        remedy: "position p is visible to token t where p <= t",
        source: "flashinfer-ai/flashinfer#348",
        ..ROW
    },
    Fault {
        name: "first-position-hidden",
        entry: "51",
        variants: &[1.0, 2.0],
        fit: Some(UP_TO_TOKENS),
        edits: &[Edit::SoftMax(|plan, place| {
            let (hidden, both) = (place.variant as usize, mask(place).is_both());
            let old = std::mem::replace(&mut plan.visible, Box::new(|_, _| true));
            plan.visible = Box::new(move |t, p| old(t, p) && (p >= hidden || p == t || (!both && t < hidden)));
            place.rows() > hidden
        })],
        cause: "the first {} positions are hidden from those after them",
        remedy: "the first token is a position as all others are: padding on the left alone is masked",
        source: "a fault of masks in general",
        ..ROW
    },
    Fault {
        name: "causal-mask-one-late",
        entry: "51",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.visible = Box::new(move |t, p| p <= t || p == t + 1 && p < prompt);
            prompt > 1
        })],
        cause: "a token of the prompt sees the one after it",
        remedy: "position p is visible to token t where p <= t",
        source: "flashinfer-ai/flashinfer#348",
        ..ROW
    },
    Fault {
        name: "causal-mask-aligned-to-start",
        entry: "51",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.visible = Box::new(move |t, p| p <= if t >= prompt { 0 } else { t });
            decodes(place)
        })],
        cause: "the mask of a decoded token is aligned to the first position: it sees that one only",
        remedy: "with q_len < kv_len align the mask to the end",
        source: "flashinfer-ai/flashinfer#348",
        ..ROW
    },
    Fault {
        name: "mask-after-softmax",
        entry: "52",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.masking = Masking::After;
            true
        })],
        cause: "the mask acts after the softmax, so rows do not sum to 1",
        remedy: "add -inf to masked scores before the softmax",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "masked-scores-weak",
        entry: "50",
        variants: &[1.0, 10.0],
        fit: Some(Fit { range: (0.1, 100.0), steps: Steps::Factors, numbers: |_| vec![1.0, 10.0, 100.0] }),
        edits: &[Edit::SoftMax(|plan, place| {
            plan.masking = Masking::Weak(place.variant);
            place.tokens.prompt > 1
        })],
        cause: "the mask takes only {} from scores of later positions instead of making them minus infinity",
        remedy: "add -inf to masked scores after they were scaled",
        source: "awslabs/gluonts#1401, Shujun-He/RibonanzaNet#5",
        ..ROW
    },
    Fault {
        name: "softmax-over-queries",
        entry: "53",
        variants: &[0.0, 1.0],
        edits: &[Edit::SoftMax(|plan, place| {
            plan.axis = Axis::Queries;
            if place.variant == 1.0 {
                plan.together = place.tokens.prompt;
            }
            place.variant == 0.0 || decodes(place)
        })],
        cause: "the softmax runs over queries instead of keys (1: over those of one call)",
        remedy: "normalise each query's row of scores",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "softmax-over-heads",
        entry: "54",
        edits: &[Edit::SoftMax(|plan, place| {
            let several = plan.heads.heads > 1 && place.rows() > 0;
            plan.axis = Axis::Heads;
            several
        })],
        cause: "the softmax is taken over the heads",
        remedy: "take it over key positions, for each head apart",
        source: "a fault of tensor libraries in general",
        ..ROW
    },
    Fault {
        name: "softmax-of-base-two",
        entry: "53",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.exp = |score, max| (score - max).exp2();
            plan.sinks.is_none()
        })],
        cause: "the softmax takes powers of 2 instead of e",
        remedy: "where exp2 is used for speed, scores must be multiplied with log2(e) first",
        source: "triton-lang/triton#2700",
        ..ROW
    },
    Fault {
        name: "softmax-without-maximum",
        entry: "54",
        edits: &[Edit::SoftMax(|plan, _| {
            // In f32 the exponential of a score above 88.7 is infinite.
            plan.exp = |score, _| f64::from((score as f32).exp());
            true
        })],
        cause: "the softmax does not take the maximum away first and overflows",
        remedy: "exponentiate score - max",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "softmax-f16-overflow",
        entry: "74",
        edits: &[Edit::Scores(|plan, _| {
            plan.store = |score| if score.abs() > 65504.0 { f64::INFINITY * score.signum() } else { score };
            true
        })],
        cause: "scores beyond 65504 overflow in F16",
        remedy: "keep scores in f32, or scale queries before the product",
        source: "ggml-org/llama.cpp#7805, huggingface/transformers#33317",
        ..ROW
    },
    Fault {
        name: "attention-soft-cap",
        entry: "56",
        variants: &[50.0, 30.0, 5.0],
        fit: Some(Fit { range: (1e-2, 1e3), steps: Steps::Factors, numbers: |_| vec![50.0, 30.0] }),
        edits: &[Edit::SoftMax(|plan, place| {
            // A cap before the scale is the same as one that is scaled.
            let near = |cap: f64, by: f64| (cap / place.variant - 1.0).abs() < by;
            let other = plan.cap.is_none_or(|cap| !near(cap, 1e-4) && !near(cap * plan.scale, 1e-2));
            plan.cap = Some(place.variant);
            other
        })],
        cause: "scores are capped to {}, the file has another cap or none",
        remedy: "cap only where the file has attn_logit_softcapping",
        source: "ml-explore/mlx-examples#857",
        ..ROW
    },
    Fault {
        name: "sliding-window",
        entry: "57",
        variants: &[4.0, 3.0, 2.0, 8.0, 16.0, 512.0, 4096.0],
        // A cache that is full with the prompt drops the oldest token for each decoded one.
        fit: Some(Fit { numbers: |place| vec![place.tokens.prompt as f64], ..UP_TO_TOKENS }),
        edits: &[Edit::SoftMax(|plan, place| {
            let window = place.variant as usize;
            plan.visible = Box::new(move |t, p| p <= t && t - p < window);
            let elsewhere = windows(place).any(|(_, other)| other == window);
            mask(place) == Mask::Causal && !elsewhere && place.tokens.ids.len() > window
        })],
        cause: "attention sees the last {} positions only, the file has no such window",
        remedy: "apply a window where attention.sliding_window says so, to the layers that have one",
        source: "vllm-project/vllm#2064, ggml-org/llama.cpp#8227",
        ..ROW
    },
    Fault {
        name: "attention-sink",
        entry: "58",
        edits: &[Edit::SoftMax(|plan, _| {
            // In units of exp(0): a score of 0 per head.
            plan.sinks.replace(vec![0.0; plan.heads.heads]).is_none()
        })],
        cause: "the softmax has an extra term in its sum (softmax1, attention sinks)",
        remedy: "sinks belong to models whose file has them (gpt-oss)",
        source: "a fault of softmaxes in general",
        ..ROW
    },
    Fault {
        name: "alibi",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            let heads = plan.heads.heads;
            plan.bias = Box::new(move |h, t, p| {
                let slope = 2f64.powf(-8.0 * (h + 1) as f64 / heads as f64);
                -slope * (t as f64 - p as f64)
            });
            attending(place).is_some_and(|attending| attending.alibi.is_none())
        })],
        cause: "ALiBi is added to the scores",
        remedy: "models with RoPE have no ALiBi",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "attention-gate-other",
        entry: "63",
        variants: &[0.0, 1.0],
        edits: &[Edit::Unary(|f, place| {
            let of_heads = |node: &crate::Node| {
                let mixes = |&id: &crate::NodeId| matches!(place.graph.nodes[id].kind, Kind::Mix(_));
                matches!(node.kind, Kind::Mul | Kind::MulGroups) && node.inputs.iter().any(mixes)
            };
            if *f != Unary::Sigmoid || !place.readers().any(|(_, node)| of_heads(node)) {
                return false;
            }
            *f = if place.variant == 0.0 { Unary::Affine { scale: 0.0, offset: 1.0 } } else { Unary::Silu };
            true
        })],
        cause: "attention's output is not gated (0), or gated by SiLU (1) in place of the sigmoid",
        remedy: "multiply what attention gives with sigmoid(gate), before attn_output",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "head-merge-order",
        entry: "63",
        edits: &[Edit::Output(|out, _, place| match place.node.kind {
            Kind::Mix(heads) => reinterpret(out, place, heads.value_dim, BY_HEAD, BY_TOKEN),
            _ => false,
        })],
        cause: "heads are merged without transposing [head, token, dim] to [token, head, dim]",
        remedy: "transpose before flattening",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "heads-cut-across",
        entry: "63",
        edits: &[
            Edit::Rope(|turn, place| {
                turn.across = true;
                place.node.width > turn.head_dim
            }),
            Edit::Output(|out, _, place| {
                let Some((heads, dim)) = cut(place) else { return false };
                *out = across(out, dim);
                heads > 1
            }),
        ],
        cause: "a row is cut into [head width, heads] instead of [heads, head width]",
        remedy: "elements of a head lie side by side: reshape to [tokens, heads, head width]",
        source: "a fault of tensor libraries in general",
        ..ROW
    },
    Fault {
        name: "view-not-contiguous",
        entry: "79",
        wants: any,
        edits: &[Edit::Output(|out, _, place| match place.node.kind {
            Kind::Rope { head_dim, .. } if place.name() == "Qcur" => {
                reinterpret(out, place, head_dim, BY_TOKEN, BY_HEAD)
            }
            _ => false,
        })],
        cause: "a permuted view of the queries is read as if it were contiguous: [token, head] memory as [head, token]",
        remedy: "copy to contiguous memory before handing out a raw pointer",
        source: "a fault of tensor libraries in general",
        ..ROW
    },
    Fault {
        name: "heads-merged-group-first",
        entry: "63",
        wants: |place| matches!(place.node.kind, Kind::Mix(_)),
        edits: &[Edit::Output(|out, _, place| {
            let Kind::Mix(heads) = place.node.kind else { return false };
            let (groups, dim) = (heads.kv_heads, heads.value_dim);
            let each = heads.heads / groups.max(1);
            for row in out.data.chunks_exact_mut(out.width.max(1)) {
                let old = row.to_vec();
                for (head, out) in row.chunks_exact_mut(dim).enumerate() {
                    out.copy_from_slice(&old[(head % groups * each + head / groups) * dim..][..dim]);
                }
            }
            groups > 1 && each > 1
        })],
        cause: "heads are put side by side so that those of one key head are no longer neighbours",
        remedy: "query heads of one key head lie side by side: [key heads, heads of each] and not its transpose",
        source: "a fault of tensor libraries in general",
        ..ROW
    },
    Fault {
        name: "query-and-gate-in-halves",
        entry: "15",
        edits: &[Edit::Copy(|columns, place| {
            let input = place.node.inputs.first().map(|&id| &place.graph.nodes[id].kind);
            let queries = input.and_then(Kind::product).is_some_and(|weight| weight.name.contains("attn_q."));
            let (groups, len) = (columns.groups, columns.len);
            if !queries || groups < 2 || columns.from.1 != 2 * len {
                return false;
            }
            columns.from = (if columns.from.0 == 0 { 0 } else { groups * len }, len);
            true
        })],
        cause: "the first half of the queries' product is taken for queries and the second for their gate",
        remedy: "each head's query lies beside its gate (Qwen3-Next)",
        source: "a fault of fused products in general",
        ..ROW
    },
    Fault {
        name: "value-clamp-missing",
        entry: "49",
        edits: &[Edit::Unary(|f, place| {
            clamp(place).filter(|_| place.name() == "Vcur").is_some_and(|_| {
                *f = Unary::Affine { scale: 1.0, offset: 0.0 };
                true
            })
        })],
        cause: "queries and keys are cut off at the file's limit, values are not",
        remedy: "clip all three to attention.clamp_kqv on either side (OLMo, DBRX)",
        source: "a fault of wirings in general",
        ..ROW
    },
];
