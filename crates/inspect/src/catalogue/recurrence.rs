//! Faults of recurrences: what a state keeps from token to token, how it fades, what enters it and what reads it (Mamba,
//! RWKV, delta rules).

use candor_gguf::half;
use candor_ops::{Columns, NormKind, Unary};

use super::{
    row::{ROW, UP_TO_TOKENS},
    weights::fused,
};
use crate::{
    Kind, Node,
    fault::{Edit, Fault},
    replay::{Fading, Matrix, Place, Recur},
};

/// The node that the operation reads as its `n`th input.
pub(super) fn input<'a>(place: &Place<'a>, n: usize) -> Option<&'a Node> {
    place.node.inputs.get(n).map(|&id| &place.graph.nodes[id])
}

/// Whether the first input is made with this weight, or is its product with the bias added.
pub(super) fn is_made_with(place: &Place<'_>, weight: &str) -> bool {
    let Some(&id) = place.node.inputs.first() else { return false };
    let node = &place.graph.nodes[id];
    let made = Place { node, id, ..*place };
    made.weight().strip_suffix(".bias").unwrap_or_else(|| made.weight()) == weight
}

/// Whether the operation is a product of each row with this vector.
pub(super) fn is_scaled_with(place: &Place<'_>, weight: &str) -> bool {
    matches!(place.node.kind, Kind::Scale(_)) && place.weight() == weight
}

/// Puts another function in the place of one.
pub(super) fn swap(f: &mut Unary, one: Unary, other: Unary) -> bool {
    let hit = *f == one;
    if hit {
        *f = other;
    }
    hit
}

/// Changes each element of a weight.
pub(super) fn each(w: &mut Matrix, change: fn(f32) -> f32) -> bool {
    w.values.iter_mut().for_each(|x| *x = change(*x));
    true
}

/// The function of the first input.
fn function_before(place: &Place<'_>) -> Option<Unary> {
    match input(place, 0)?.kind {
        Kind::Unary(f) => Some(f),
        _ => None,
    }
}

/// The first token of the calls after the prompt's, where there are any.
pub(super) fn decoding(place: &Place<'_>) -> Option<usize> {
    let prompt = place.tokens.prompt;
    (prompt < place.tokens.ids.len()).then_some(prompt)
}

/// Lets the state be zero before more tokens.
fn empty_before(plan: &mut Recur, also: impl Fn(usize) -> bool + 'static) {
    let begins = std::mem::replace(&mut plan.begins, Box::new(|_| false));
    plan.begins = Box::new(move |t| begins(t) || also(t));
}

/// The state is empty when a call begins.
pub(super) fn lost(plan: &mut Recur, place: &Place<'_>) -> bool {
    let Some(first) = decoding(place) else { return false };
    empty_before(plan, move |t| t >= first);
    true
}

/// Whether decays are made from this vector: Mamba's `A`, and a delta rule's.
fn is_rate(place: &Place<'_>) -> bool {
    is_scaled_with(place, "ssm_a")
}

/// Changes the rates that a state fades by.
fn rates(plan: &mut Recur, change: impl Fn(f32) -> f32) -> bool {
    let Some(rates) = &mut plan.rates else { return false };
    rates.values.iter_mut().for_each(|x| *x = change(*x));
    true
}

/// `ln(-a)`, with a sign.
fn logarithm(a: f32, sign: f64) -> f32 {
    sign as f32 * (-a).max(f32::MIN_POSITIVE).ln()
}

/// Which copy gives heads their key head, as a repetition: how many heads share one, which of them the copy is for, and
/// whether these are neighbours.
fn repetition(columns: &Columns, width: usize) -> Option<(usize, usize, bool)> {
    let Columns { groups, len, from, to } = *columns;
    let times = width / (groups * len).max(1);
    let repeats = groups > 1 && times > 1 && from == (0, len) && times * groups * len == width;
    match (repeats, to) {
        (true, (first, step)) if step == times * len && first % len == 0 => Some((times, first / len, true)),
        (true, (first, step)) if step == len && first % (groups * len) == 0 => {
            Some((times, first / (groups * len), false))
        }
        _ => None,
    }
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "state-lost-between-calls",
        entry: "80",
        edits: &[Edit::Recur(lost)],
        cause: "the state of a recurrence is empty at the beginning of each call: decoded tokens forget all before them",
        remedy: "keep the state of each layer and sequence, and begin with it where a sequence goes on",
        source: "huggingface/transformers#46741",
        ..ROW
    },
    Fault {
        name: "state-not-carried",
        entry: "80",
        edits: &[Edit::Recur(|plan, _| {
            plan.begins = Box::new(|_| true);
            true
        })],
        cause: "the state of a recurrence is empty before each token",
        remedy: "carry the state from token to token, within a call too",
        source: "a fault of recurrences in general",
        ..ROW
    },
    Fault {
        name: "state-reset-per-batch",
        entry: "80",
        variants: &[4.0, 3.0, 8.0, 64.0, 256.0],
        fit: Some(UP_TO_TOKENS),
        edits: &[Edit::Recur(|plan, place| {
            let (batch, prompt) = (place.variant.max(1.0) as usize, place.tokens.prompt.min(place.rows()));
            empty_before(plan, move |t| t < prompt && t % batch == 0);
            batch > 1 && batch < prompt
        })],
        cause: "the state of a recurrence is empty after each {} tokens of the prompt: batches do not go on where the last one ended",
        remedy: "begin a batch with the state that the one before has left",
        source: "huggingface/transformers#46741, vllm-project/vllm#16942",
        ..ROW
    },
    Fault {
        name: "state-kept-a-call-late",
        entry: "80",
        edits: &[Edit::Recur(|plan, place| {
            let Some(first) = decoding(place) else { return false };
            empty_before(plan, move |t| t == first);
            place.tokens.ids.len() > first + 1
        })],
        cause: "the state that the prompt has left is not there when the first token is decoded",
        remedy: "write the prompt's last state to the cache",
        source: "huggingface/transformers#35154",
        ..ROW
    },
    Fault {
        name: "state-updated-twice",
        entry: "80",
        edits: &[Edit::Recur(|plan, place| {
            let Some(first) = decoding(place) else { return false };
            plan.twice = Box::new(move |t| t >= first);
            true
        })],
        cause: "each decoded token goes through the state twice",
        remedy: "write the state back once for each token: a run for warming up, or for checking, must not keep it",
        source: "a fault of recurrences in general",
        ..ROW
    },
    Fault {
        name: "state-in-half-precision",
        entry: "81",
        variants: &[11.0, 8.0],
        edits: &[Edit::Recur(|plan, place| {
            let half: fn(f32) -> f32 = match place.variant {
                11.0 => |x| half::f16_to_f32(half::f32_to_f16(x)),
                _ => |x| f32::from_bits((x.to_bits() + 0x7fff + (x.to_bits() >> 16 & 1)) & 0xffff_0000),
            };
            plan.kept = Box::new(move |_, state, _| state.iter_mut().for_each(|x| *x = half(*x)));
            true
        })],
        cause: "the state of a recurrence is kept in half precision, with {} significant bits in place of 24",
        remedy: "keep it in f32: what is rounded is added up over all tokens",
        source: "ollama/ollama#15865, sgl-project/sglang#38975",
        ..ROW
    },
    Fault {
        name: "state-transposed",
        entry: "82",
        edits: &[Edit::Wiring(|inputs, place| {
            let Kind::Recur(shape) = &place.node.kind else { return false };
            inputs.swap(1, 2);
            shape.key_dim == shape.value_dim && shape.key_heads == shape.heads
        })],
        cause: "the state is written transposed: values take the place of keys",
        remedy: "a state has a row for each element of a key, and a column for each of a value",
        source: "ooples/AiDotNet.Tensors#895",
        ..ROW
    },
    Fault {
        name: "state-transposed-between-calls",
        entry: "82",
        edits: &[Edit::Recur(|plan, place| {
            let Some(first) = decoding(place) else { return false };
            plan.kept = Box::new(move |t, state, width| {
                if t >= first {
                    let old = state.to_vec();
                    let rows = old.len() / width.max(1);
                    state.iter_mut().enumerate().for_each(|(at, x)| *x = old[at % rows * width + at / rows]);
                }
            });
            plan.shape.key_dim > 1 && plan.shape.value_dim > 1
        })],
        cause: "the state is kept in another order of rows and columns than it is read in when a call begins",
        remedy: "the code of prompts and that of single tokens must agree about the cache",
        source: "vllm-project/vllm#55524",
        ..ROW
    },
    Fault {
        name: "state-read-before-update",
        entry: "83",
        edits: &[Edit::Recur(|plan, _| {
            plan.late = true;
            plan.bonus.is_none()
        })],
        cause: "the output is read from the state before the token has entered it",
        remedy: "let the token's key and value enter the state first",
        source: "a fault of recurrences in general",
        ..ROW
    },
    Fault {
        name: "state-newest-fades",
        entry: "83",
        edits: &[Edit::Recur(|plan, _| {
            plan.newest_fades = true;
            true
        })],
        cause: "what a token adds to the state fades at once",
        remedy: "let the old state fade, then add",
        source: "NVlabs/GatedDeltaNet#13",
        ..ROW
    },
    Fault {
        name: "b-and-c-exchanged",
        entry: "84",
        edits: &[Edit::Wiring(|inputs, place| {
            let recurs = matches!(place.node.kind, Kind::Recur(_));
            if recurs {
                inputs.swap(0, 1);
            }
            recurs
        })],
        cause: "what is written to the state and what it is read by are exchanged: B and C, keys and queries",
        remedy: "B (the key) writes, C (the query) reads; a fused product has B before C",
        source: "a fault of fused products in general",
        ..ROW
    },
    Fault {
        name: "delta-query-and-key-exchanged",
        entry: "84",
        edits: &[Edit::Copy(|columns, place| {
            let unit = |node: &Node| matches!(node.kind, Kind::Norm { norm, .. } if norm.kind == NormKind::L2);
            let parts = columns.groups == 1 && place.readers().any(|(_, node)| unit(node));
            columns.from.0 = columns.len - columns.from.0.min(columns.len);
            parts
        })],
        cause: "a delta rule's queries are taken for its keys, and keys for queries",
        remedy: "the convolved product has queries first, then keys, then values",
        source: "a fault of fused products in general",
        ..ROW
    },
    Fault {
        name: "vectors-before-input",
        entry: "84",
        edits: &[Edit::Copy(|columns, place| {
            let nodes = place.graph.nodes.iter().filter(|node| node.key.layer == place.layer());
            let has_d = nodes.into_iter().any(|node| matches!(&node.kind, Kind::Scale(w) if w.name.contains("ssm_d")));
            let (Some(all), Some(Unary::Silu)) = (input(place, 0), function_before(place)) else { return false };
            let (from, len) = (columns.from.0, columns.len);
            // x, B and C, by where they end.
            columns.from.0 = match all.width {
                width if from == 0 => width - len,
                width if from + 2 * len == width => 0,
                _ => len,
            };
            has_d && columns.groups == 1 && len < all.width
        })],
        cause: "what the convolution gives is taken for B, C and x in this order",
        remedy: "Mamba 2 has x first, then B, then C",
        source: "a fault of fused products in general",
        ..ROW
    },
    Fault {
        name: "state-input-unscaled",
        entry: "84",
        edits: &[Edit::Wiring(|inputs, place| {
            let (Kind::Recur(_), Some(v)) = (&place.node.kind, input(place, 2)) else { return false };
            let scaled = matches!(v.kind, Kind::Mul | Kind::MulGroups);
            if scaled {
                inputs[2] = v.inputs[0];
            }
            scaled
        })],
        cause: "what enters the state is not multiplied with the time step (a delta rule's beta)",
        remedy: "the state takes dt * B * x (Mamba), beta * v (delta rules)",
        source: "state-spaces/mamba#281",
        ..ROW
    },
    Fault {
        name: "state-input-held-exactly",
        entry: "84",
        edits: &[Edit::Recur(|plan, _| {
            plan.held = |fade| match fade.ln() {
                log if log.abs() < 1e-9 => 1.0,
                log => (fade - 1.0) / log,
            };
            !plan.shape.erases && plan.bonus.is_none()
        })],
        cause: "input enters the state by the exact hold, (exp(dt A) - 1) / A, in place of dt",
        remedy: "Mamba's own code multiplies B with dt alone, whatever the paper's formula says",
        source: "state-spaces/mamba#281",
        ..ROW
    },
    Fault {
        name: "state-groups-in-turn",
        entry: "85",
        edits: &[
            Edit::Recur(|plan, _| {
                plan.group = |h, shape| h % shape.key_heads.max(1);
                plan.shape.key_heads > 1 && plan.shape.key_heads < plan.shape.heads
            }),
            Edit::Copy(|columns, place| {
                let Some((times, n, neighbours)) = repetition(columns, place.node.width) else { return false };
                let Columns { groups, len, .. } = *columns;
                columns.to = if neighbours { (n * groups * len, len) } else { (n * len, times * len) };
                true
            }),
        ],
        cause: "heads take their groups of B and C (key heads) in the other order: in turn for neighbours, or neighbours for in turn",
        remedy: "head h has group h / (heads / groups); GGUF files of Qwen3.5 have their heads in turn",
        source: "vllm-project/vllm#19924",
        ..ROW
    },
    Fault {
        name: "state-first-group-for-all",
        entry: "85",
        edits: &[Edit::Recur(|plan, _| {
            plan.group = |_, _| 0;
            plan.shape.key_heads > 1
        })],
        cause: "all heads have the first group's B and C",
        remedy: "head h has group h / (heads / groups)",
        source: "ggml-org/llama.cpp#15507",
        ..ROW
    },
    Fault {
        name: "state-grows",
        entry: "86",
        wants: is_rate,
        edits: &[
            Edit::Recur(|plan, _| rates(plan, |a| -a)),
            Edit::Weight(|w, _| each(w, |a| -a)),
            Edit::Unary(|f, place| match f {
                Unary::Affine { scale, offset: 0.0 }
                    if *scale < 0.0 && matches!(function_before(place), Some(Unary::Exp | Unary::Sigmoid)) =>
                {
                    *scale = -*scale;
                    true
                }
                _ => false,
            }),
        ],
        cause: "states grow where they should fade: the exponent of the decay has the other sign",
        remedy: "the file holds -exp(A_log): multiply with it as it is; RWKV's decay is exp(-exp(w))",
        source: "alxndrTL/mamba.py#53, state-spaces/mamba#72",
        ..ROW
    },
    Fault {
        name: "state-does-not-fade",
        entry: "86",
        wants: is_rate,
        edits: &[
            Edit::Recur(|plan, _| {
                plan.factor = |_| 1.0;
                matches!(plan.shape.fading, Fading::Keys) || rates(plan, |_| 0.0)
            }),
            Edit::Weight(|w, _| each(w, |_| 0.0)),
        ],
        cause: "the state does not fade",
        remedy: "multiply the state with exp(dt * A) (Mamba), exp(g) (delta rules), exp(-exp(w)) (RWKV) before something is added",
        source: "ooples/AiDotNet.Tensors#895",
        ..ROW
    },
    Fault {
        name: "a-exponentiated-again",
        entry: "86",
        wants: is_rate,
        edits: &[Edit::Recur(|plan, _| rates(plan, |a| -a.exp())), Edit::Weight(|w, _| each(w, |a| -a.exp()))],
        cause: "-exp(A) is taken for A, although the file holds -exp(A_log) already",
        remedy: "take ssm_a as it is: converters have done this",
        source: "state-spaces/mamba#72",
        ..ROW
    },
    Fault {
        name: "a-taken-as-logarithm",
        entry: "86",
        variants: &[1.0, -1.0],
        wants: is_rate,
        edits: &[
            Edit::Recur(|plan, place| rates(plan, |a| logarithm(a, place.variant))),
            Edit::Weight(|w, place| {
                w.values.iter_mut().for_each(|a| *a = logarithm(*a, place.variant));
                true
            }),
        ],
        cause: "A_log (times {}) is taken for A: the exponential is missing",
        remedy: "A is -exp(A_log), which is what ssm_a holds",
        source: "state-spaces/mamba#72",
        ..ROW
    },
    Fault {
        name: "decay-without-exponential",
        entry: "86",
        edits: &[
            Edit::Recur(|plan, _| {
                plan.fade = |time, rate| time * rate;
                plan.rates.is_some()
            }),
            Edit::Unary(|f, place| is_made_with(place, "ssm_a") && swap(f, Unary::Exp, Unary::scale(1.0))),
        ],
        cause: "the state is multiplied with dt * A in place of exp(dt * A)",
        remedy: "take the exponential",
        source: "alxndrTL/mamba.py#53",
        ..ROW
    },
    Fault {
        name: "decay-by-euler",
        entry: "86",
        edits: &[
            Edit::Recur(|plan, _| {
                plan.fade = |time, rate| 1.0 + time * rate;
                plan.rates.is_some()
            }),
            Edit::Unary(|f, place| {
                is_made_with(place, "ssm_a") && swap(f, Unary::Exp, Unary::Affine { scale: 1.0, offset: 1.0 })
            }),
        ],
        cause: "the state is multiplied with 1 + dt * A in place of exp(dt * A)",
        remedy: "take the exponential",
        source: "a fault of recurrences in general",
        ..ROW
    },
    Fault {
        name: "bonus-missing",
        entry: "87",
        edits: &[
            Edit::Recur(|plan, _| match &mut plan.bonus {
                Some(bonus) => {
                    bonus.fill(0.0);
                    true
                }
                None => false,
            }),
            Edit::Wiring(|inputs, place| {
                let (Kind::Add, Some(own)) = (&place.node.kind, input(place, 1)) else { return false };
                let last = own.inputs.last().map(|&id| &place.graph.nodes[id].kind);
                let bonus = matches!((&own.kind, last), (Kind::MulGroups, Some(Kind::DotGroups)));
                if bonus {
                    inputs.truncate(1);
                }
                bonus
            }),
        ],
        cause: "a token's own value is not added: the bonus (time_first, r_k) is missing",
        remedy: "RWKV-6 reads S + u k v, RWKV-7 adds (r * k * r_k) v behind the norm",
        source: "Peng et al. 2024 (Eagle and Finch)",
        ..ROW
    },
    Fault {
        name: "bonus-of-one",
        entry: "87",
        edits: &[Edit::Recur(|plan, _| match &mut plan.bonus {
            Some(bonus) => {
                bonus.fill(1.0);
                true
            }
            None => false,
        })],
        cause: "a token's own value counts for one: the bonus (time_first) is not used",
        remedy: "multiply what the token itself adds with time_first",
        source: "Peng et al. 2024 (Eagle and Finch)",
        ..ROW
    },
    Fault {
        name: "rwkv-decay-once-exponentiated",
        entry: "87",
        variants: &[0.0, 1.0],
        wants: is_inner_exponential,
        edits: &[Edit::Output(|out, inputs, place| {
            let hit = is_inner_exponential(place);
            if hit {
                out.clone_from(&inputs[0]);
                // Rates are above zero.
                if place.variant == 1.0 {
                    out.data.iter_mut().for_each(|x| *x = x.abs());
                }
            }
            hit
        })],
        cause: "the decay is exp(-w) in place of exp(-exp(w))",
        remedy: "take both exponentials",
        source: "OpenGVLab/Vision-RWKV#21",
        ..ROW
    },
    Fault {
        name: "rwkv7-decay-of-version-6",
        entry: "87",
        edits: &[Edit::Unary(|f, place| match (*f, function_before(place)) {
            (Unary::Affine { scale, .. }, Some(Unary::Sigmoid)) if is_slowest(scale) => {
                *f = Unary::scale(-1.0);
                true
            }
            (Unary::Sigmoid, _) => {
                let slowed =
                    |node: &Node| matches!(node.kind, Kind::Unary(Unary::Affine { scale, .. }) if is_slowest(scale));
                place.readers().any(|(_, node)| slowed(node)) && swap(f, Unary::Sigmoid, Unary::Exp)
            }
            _ => false,
        })],
        cause: "RWKV-7's decay is RWKV-6's exp(-exp(w))",
        remedy: "exp(-exp(-1/2) * sigmoid(w))",
        source: "ooples/AiDotNet.Tensors#895",
        ..ROW
    },
    Fault {
        name: "rwkv7-decay-without-half",
        entry: "87",
        edits: &[Edit::Unary(|f, place| match (*f, function_before(place)) {
            (Unary::Affine { scale, .. }, Some(Unary::Sigmoid)) if is_slowest(scale) => {
                *f = Unary::scale(-1.0);
                true
            }
            _ => false,
        })],
        cause: "RWKV-7's decay is exp(-sigmoid(w)): the factor exp(-1/2) is missing",
        remedy: "exp(-exp(-1/2) * sigmoid(w))",
        source: "ooples/AiDotNet.Tensors#895",
        ..ROW
    },
    Fault {
        name: "erased-with-other-sign",
        entry: "88",
        edits: &[Edit::Recur(|plan, _| {
            plan.erasing = -1.0;
            plan.shape.erases
        })],
        cause: "what the state knew of a key is added once more in place of being taken away",
        remedy: "S - beta k (k^T S) (delta rules), S - (a * kk) (kk^T S) (RWKV-7)",
        source: "ooples/AiDotNet.Tensors#895",
        ..ROW
    },
    Fault {
        name: "nothing-erased",
        entry: "88",
        edits: &[Edit::Recur(|plan, _| {
            plan.erasing = 0.0;
            plan.shape.erases
        })],
        cause: "what the state knew of a key is not taken away: plain linear attention",
        remedy: "S - beta k (k^T S) (delta rules), S - (a * kk) (kk^T S) (RWKV-7)",
        source: "ooples/AiDotNet.Tensors#895",
        ..ROW
    },
    Fault {
        name: "erased-before-fading",
        entry: "88",
        edits: &[Edit::Wiring(|inputs, place| {
            let (Kind::Unary(Unary::Affine { scale: -1.0, .. }), Some(faded)) = (&place.node.kind, input(place, 0))
            else {
                return false;
            };
            let beside = |node: &Node| node.inputs.first().map(|&id| &place.graph.nodes[id].kind);
            let both = matches!((&faded.kind, beside(faded)), (Kind::MulGroups, Some(Kind::MulGroups)));
            if both {
                inputs[0] = faded.inputs[0];
            }
            both
        })],
        cause: "the delta rule compares a value with what the state knew before it faded",
        remedy: "let the state fade first, then read what it knows of the key",
        source: "Yang et al. 2024 (Gated Delta Networks)",
        ..ROW
    },
    Fault {
        name: "beta-without-sigmoid",
        entry: "88",
        edits: &[Edit::Unary(|f, place| is_beta(f, place) && swap(f, Unary::Sigmoid, Unary::scale(1.0)))],
        cause: "a delta rule's beta does not go through the sigmoid",
        remedy: "beta = sigmoid(b)",
        source: "sgl-project/sglang#38975",
        ..ROW
    },
    Fault {
        name: "beta-scaled",
        entry: "88",
        variants: &[2.0, 0.5],
        wants: makes_beta,
        edits: &[Edit::Output(|out, _, place| {
            if !makes_beta(place) {
                return false;
            }
            out.data.iter_mut().for_each(|x| *x *= place.variant as f32);
            true
        })],
        cause: "a delta rule's beta is {} times what it is",
        remedy: "beta = sigmoid(b); twice that is for models that allow negative eigenvalues",
        source: "Grazzi et al. 2024 (negative eigenvalues)",
        ..ROW
    },
    Fault {
        name: "beta-of-one",
        entry: "88",
        edits: &[Edit::Unary(|f, place| {
            is_beta(f, place) && swap(f, Unary::Sigmoid, Unary::Affine { scale: 0.0, offset: 1.0 })
        })],
        cause: "a delta rule's beta is 1: it is not used",
        remedy: "multiply the value and what is erased with sigmoid(b)",
        source: "Yang et al. 2024 (Gated Delta Networks)",
        ..ROW
    },
    Fault {
        name: "beta-and-alpha-exchanged",
        entry: "88",
        edits: &[
            Edit::Copy(|columns, place| {
                let half = is_made_with(place, "ssm_ba") && columns.from.1 == 2 * columns.len;
                if half {
                    columns.from.0 = columns.len - columns.from.0.min(columns.len);
                }
                half
            }),
            Edit::Wiring(|inputs, place| {
                let other = match place.node.kind {
                    Kind::Unary(Unary::Sigmoid) if is_made_with(place, "ssm_beta") => "ssm_alpha",
                    Kind::Bias(_) if is_made_with(place, "ssm_alpha") => "ssm_beta",
                    _ => return false,
                };
                let product = |node: &Node| {
                    node.key.layer == place.layer()
                        && matches!(&node.kind, Kind::MatMul(weight) if weight.name.contains(other))
                };
                let Some(id) = place.graph.nodes.iter().position(product) else { return false };
                inputs[0] = id;
                true
            }),
        ],
        cause: "a delta rule's beta and alpha are exchanged",
        remedy: "the sigmoid is of b, the softplus of a + dt_bias; ssm_ba has for each key head first its b, then its a",
        source: "a fault of fused products in general",
        ..ROW
    },
    Fault {
        name: "beta-and-alpha-in-halves",
        entry: "88",
        edits: &[Edit::Copy(|columns, place| {
            let Columns { groups, len, from, .. } = *columns;
            let half = is_made_with(place, "ssm_ba") && from.1 == 2 * len && groups > 1;
            if half {
                columns.from = (if from.0 == 0 { 0 } else { groups * len }, len);
            }
            half
        })],
        cause: "the first half of ssm_ba is taken for beta, the second for alpha",
        remedy: "it has for each key head first its betas, then its alphas",
        source: "a fault of fused products in general",
        ..ROW
    },
    Fault {
        name: "delta-query-unscaled",
        entry: "88",
        edits: &[Edit::Unary(|f, place| {
            let Unary::Affine { scale, .. } = f else { return false };
            let asks = |(_, node): (usize, &Node)| {
                matches!(node.kind, Kind::Recur(_)) && node.inputs.first() == Some(&place.id)
            };
            *scale != 1.0 && place.readers().any(asks) && {
                *f = Unary::scale(1.0);
                true
            }
        })],
        cause: "a delta rule's queries are not scaled",
        remedy: "multiply with 1 / sqrt(key_head_dim) behind the norm",
        source: "openvinotoolkit/openvino#34529",
        ..ROW
    },
    Fault {
        name: "decay-along-values",
        entry: "88",
        edits: &[Edit::Recur(|plan, _| {
            plan.fades_values = true;
            let shape = &plan.shape;
            matches!(shape.fading, Fading::Keys) && shape.key_dim == shape.value_dim && shape.key_dim > 1
        })],
        cause: "the state fades along its values in place of its keys",
        remedy: "a decay per channel belongs to the keys' side of the state",
        source: "Peng et al. 2024 (Eagle and Finch)",
        ..ROW
    },
    Fault {
        name: "step-last-in-product",
        entry: "84",
        wants: |place| place.weight() == "ssm_x",
        edits: &[Edit::Weight(|w, place| {
            let Some((whole, rows)) = fused(place) else { return false };
            let states = place.gguf.metadata().u32(&format!("{}.ssm.state_size", place.graph.arch)).ok().flatten();
            let Some(rank) = states.and_then(|states| whole.rows.checked_sub(2 * states as usize)) else {
                return false;
            };
            // dt, B and C, by where they begin.
            let first = if rows.start == 0 { whole.rows - rank } else { rows.start - rank.min(rows.start) };
            let taken = whole.values.get(first * whole.cols..(first + rows.len()) * whole.cols);
            let same = taken.filter(|taken| taken.len() == w.values.len());
            same.map(|taken| w.values.copy_from_slice(taken)).is_some()
        })],
        cause: "the second product is cut into B, C and the narrow time step, in this order",
        remedy: "Mamba has the time step first, then B, then C",
        source: "Gu and Dao 2023, arXiv:2312.00752; state-spaces/mamba: x_proj",
        ..ROW
    },
];

/// Whether the operation is the inner exponential of RWKV-6's decay.
fn is_inner_exponential(place: &Place<'_>) -> bool {
    let negated = |node: &Node| matches!(node.kind, Kind::Unary(Unary::Affine { scale: -1.0, .. }));
    matches!(place.node.kind, Kind::Unary(Unary::Exp)) && place.readers().any(|(_, node)| negated(node))
}

/// Whether it is the factor of RWKV-7's decay, -exp(-1/2).
fn is_slowest(scale: f32) -> bool {
    (scale + 0.606_531).abs() < 1e-4
}

/// Whether the operation makes a delta rule's beta.
fn makes_beta(place: &Place<'_>) -> bool {
    matches!(&place.node.kind, Kind::Unary(f) if is_beta(f, place))
}

/// Whether the function makes a delta rule's beta.
fn is_beta(f: &Unary, place: &Place<'_>) -> bool {
    *f == Unary::Sigmoid && place.readers().any(|(_, node)| matches!(node.kind, Kind::MulGroups))
}
