//! Faults of what scores go through besides the causal mask: windows, caps, sinks and biases (section A5 of the catalogue).

use candor_ops::{Mask, alibi_slope};

use super::{
    row::{ROW, UP_TO_TOKENS},
    seen::{attending, decodes, mask, seeing, windows},
};
use crate::Kind;
use crate::fault::{Edit, Fault};
use crate::replay::{Masking, Place, SoftMax};

/// Positions before the first that a row of the last token sees.
fn hidden(place: &Place<'_>) -> usize {
    let tokens = place.tokens.ids.len();
    mask(place).seen(tokens.saturating_sub(1), tokens).start
}

/// Lets tokens see what another mask lets them; `false` where that is the same.
fn masked(plan: &mut SoftMax, place: &Place<'_>, other: Mask) -> bool {
    let (rows, own) = (place.rows(), mask(place));
    plan.visible = Box::new(move |t, p| other.seen(t, rows).contains(&p));
    !own.is_both() && !other.is_both() && (0..rows).any(|t| own.seen(t, rows) != other.seen(t, rows))
}

/// Takes from the score of head `h` a slope times a distance.
fn sloped(
    plan: &mut SoftMax,
    place: &Place<'_>,
    slope: impl Fn(usize, usize, f64) -> f64 + 'static,
    distance: impl Fn(usize, usize) -> f64 + 'static,
) -> bool {
    let Some(max) = attending(place).and_then(|attending| attending.alibi) else { return false };
    let heads = plan.heads.heads;
    plan.bias = Box::new(move |h, t, p| -slope(h, heads, max.into()) * distance(t, p));
    place.rows() > 1
}

/// How far a key is away.
fn away(t: usize, p: usize) -> f64 {
    t.abs_diff(p) as f64
}

/// The slope of a head as it should be.
fn slope(h: usize, heads: usize, max: f64) -> f64 {
    alibi_slope(h, heads, max as f32)
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "window-ignored",
        entry: "57",
        edits: &[Edit::SoftMax(|plan, place| {
            let both = mask(place).is_both();
            plan.visible = Box::new(move |t, p| both || p <= t);
            hidden(place) > 0
        })],
        cause: "attention sees all positions before, although the layer has a window",
        remedy: "apply attention.sliding_window to the layers that have one; nothing shows before the window is full",
        source: "vllm-project/vllm#2064, EricLBuehler/mistral.rs#246",
        ..ROW
    },
    Fault {
        name: "window-off-by-one",
        entry: "57",
        variants: &[1.0, -1.0],
        edits: &[Edit::SoftMax(|plan, place| {
            let Mask::Window(window) = mask(place) else { return false };
            masked(plan, place, Mask::Window(window.saturating_add_signed(place.variant as isize).max(1)))
        })],
        cause: "the window is {} positions wider than the file says",
        remedy: "a window of w lets a token see itself and the w - 1 positions before it",
        source: "sgl-project/sglang#4823",
        ..ROW
    },
    Fault {
        name: "attention-soft-cap-missing",
        entry: "56",
        edits: &[Edit::SoftMax(|plan, _| plan.cap.take().is_some())],
        cause: "scores are not capped, although the file has a cap",
        remedy: "cap * tanh(score / cap) on scaled scores, before the mask (attn_logit_softcapping)",
        source: "ml-explore/mlx-examples#857, keras-team/keras-hub#1712",
        ..ROW
    },
    Fault {
        name: "attention-soft-cap-not-multiplied",
        entry: "56",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.squash = |score, cap| (score / cap).tanh();
            plan.cap.is_some_and(|cap| cap != 1.0)
        })],
        cause: "scores are capped as tanh(score / cap), and not multiplied with the cap again",
        remedy: "cap * tanh(score / cap) (attn_logit_softcapping)",
        source: "ml-explore/mlx-examples#857",
        ..ROW
    },
    Fault {
        name: "attention-soft-cap-not-divided",
        entry: "56",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.squash = |score, cap| cap * score.tanh();
            plan.cap.is_some_and(|cap| cap != 1.0)
        })],
        cause: "scores are capped as cap * tanh(score), and not divided by the cap first",
        remedy: "cap * tanh(score / cap) (attn_logit_softcapping)",
        source: "ml-explore/mlx-examples#857",
        ..ROW
    },
    Fault {
        name: "attention-sinks-missing",
        entry: "58",
        edits: &[Edit::SoftMax(|plan, _| plan.sinks.take().is_some())],
        cause: "the sinks of the file take no part in the softmax",
        remedy: "add exp(sink - max) of each head to the sum that weights are divided by",
        source: "a fault of softmaxes in general",
        ..ROW
    },
    Fault {
        name: "alibi-missing",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            plan.bias = Box::new(|_, _, _| 0.0);
            attending(place).is_some_and(|attending| attending.alibi.is_some())
        })],
        cause: "ALiBi is not added to the scores",
        remedy: "take slope(head) * distance from scaled scores",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "distance-scores-missing",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            plan.bias = Box::new(|_, _, _| 0.0);
            attending(place).is_some_and(|attending| attending.relative.is_some())
        })],
        cause: "the learned scores by distance (T5) are not added",
        remedy: "add the bucket's score of each head before the softmax",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "window-length",
        entry: "57",
        variants: &[3.0, 8.0],
        fit: Some(UP_TO_TOKENS),
        edits: &[Edit::SoftMax(|plan, place| {
            let (length, own) = (place.variant as usize, mask(place));
            match own {
                // One more or less is a fault of its own.
                Mask::Window(window) => window.abs_diff(length) > 1 && masked(plan, place, Mask::Window(length)),
                Mask::Chunk(_) => masked(plan, place, Mask::Chunk(length.max(1))),
                Mask::Around(reach) => {
                    let rows = place.rows();
                    plan.visible = Box::new(move |t, p| t.abs_diff(p) <= length);
                    reach != length && rows > reach.min(length) + 1
                }
                _ => false,
            }
        })],
        cause: "the window (chunk, or reach to either side) is {} positions, not as long as the file says",
        remedy: "read attention.sliding_window; an encoder's window reaches half of it to either side",
        source: "a fault of masks in general",
        ..ROW
    },
    Fault {
        name: "window-on-global-layers",
        entry: "57",
        edits: &[Edit::SoftMax(|plan, place| {
            let Some((_, window)) = windows(place).next() else { return false };
            mask(place) == Mask::Causal && masked(plan, place, Mask::Window(window))
        })],
        cause: "layers that see everything have the window of the others",
        remedy: "some layers have no window (sliding_window_pattern): every other of Gemma 2, every sixth of Gemma 3",
        source: "a fault of masks in general",
        ..ROW
    },
    Fault {
        name: "window-on-the-other-layers",
        entry: "57",
        edits: &[Edit::SoftMax(|plan, place| {
            let Some((_, window)) = windows(place).next() else { return false };
            match mask(place) {
                Mask::Causal => masked(plan, place, Mask::Window(window)),
                Mask::Window(_) => masked(plan, place, Mask::Causal),
                _ => false,
            }
        })],
        cause: "layers with a window and layers without have changed places",
        remedy: "check the parity of the pattern: which layer is the first with a window",
        source: "a fault of masks in general",
        ..ROW
    },
    Fault {
        name: "window-pattern-shifted",
        entry: "57",
        variants: &[1.0, -1.0],
        edits: &[Edit::SoftMax(|plan, place| {
            let Some(layer) = place.layer().and_then(|layer| layer.checked_add_signed(place.variant as isize)) else {
                return false;
            };
            let other = place.graph.nodes.iter().find_map(|node| match &node.kind {
                Kind::SoftMax(other) if node.key.layer == Some(layer) && node.side == place.node.side => {
                    Some(other.mask)
                }
                _ => None,
            });
            other.is_some_and(|other| masked(plan, place, other))
        })],
        cause: "a layer sees what the layer {} further on should see: the pattern of windows is shifted",
        remedy: "check with which layer the pattern of windows begins",
        source: "a fault of masks in general",
        ..ROW
    },
    Fault {
        name: "chunk-for-window",
        entry: "57",
        edits: &[Edit::SoftMax(|plan, place| match mask(place) {
            Mask::Window(window) => masked(plan, place, Mask::Chunk(window)),
            Mask::Chunk(chunk) => masked(plan, place, Mask::Window(chunk)),
            _ => false,
        })],
        cause: "a sliding window is taken for chunks that do not see each other, or chunks for a sliding window",
        remedy: "a window moves with each token; Llama 4's chunks begin at multiples of their length",
        source: "antonellof/ferrox#255",
        ..ROW
    },
    Fault {
        name: "attention-soft-cap-before-scale",
        entry: "56",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.cap_first = true;
            plan.cap.is_some() && plan.scale != 1.0
        })],
        cause: "scores are capped before they are scaled",
        remedy: "scale first: cap * tanh(scale * score / cap)",
        source: "a fault of caps in general",
        ..ROW
    },
    Fault {
        name: "attention-soft-cap-cuts-off",
        entry: "56",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.squash = |score, cap| score.clamp(-cap, cap);
            plan.cap.is_some()
        })],
        cause: "scores are cut off at the cap instead of bent towards it",
        remedy: "cap * tanh(score / cap)",
        source: "a fault of caps in general",
        ..ROW
    },
    Fault {
        name: "attention-soft-cap-after-mask",
        entry: "56",
        edits: &[Edit::SoftMax(|plan, place| {
            plan.masking = Masking::BeforeCap;
            plan.cap.is_some() && place.tokens.prompt > 1
        })],
        cause: "the cap comes after the mask, so that masked scores are no less than -cap and are seen",
        remedy: "cap first, then mask",
        source: "onnx/onnx#7865",
        ..ROW
    },
    Fault {
        name: "attention-sinks-missing-at-decode",
        entry: "58",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.sunk = Box::new(move |t| t < prompt);
            plan.sinks.is_some() && prompt < place.tokens.ids.len()
        })],
        cause: "the sinks take no part in the softmax of decoded tokens",
        remedy: "the kernel for single tokens needs them as well as that for prompts",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "attention-sinks-zero",
        entry: "58",
        edits: &[Edit::SoftMax(|plan, _| {
            let heads = plan.heads.heads;
            plan.sinks.replace(vec![0.0; heads]).is_some_and(|sinks| sinks.iter().any(|&sink| sink != 0.0))
        })],
        cause: "all sinks are taken as 0: the softmax has a one more in its sum",
        remedy: "read attn_sinks.weight, a number per head",
        source: "vllm-project/vllm-metal#550",
        ..ROW
    },
    Fault {
        name: "attention-sinks-of-first-head",
        entry: "58",
        edits: &[Edit::SoftMax(|plan, _| {
            let Some(sinks) = &mut plan.sinks else { return false };
            let first = sinks[0];
            sinks.fill(first);
            sinks.len() > 1
        })],
        cause: "every head has the sink of the first",
        remedy: "read attn_sinks.weight, a number per head",
        source: "a fault of softmaxes in general",
        ..ROW
    },
    Fault {
        name: "attention-sinks-scaled",
        entry: "58",
        edits: &[Edit::SoftMax(|plan, _| {
            let scale = plan.scale;
            plan.sinks.iter_mut().flatten().for_each(|sink| *sink *= scale);
            plan.sinks.is_some() && scale != 1.0
        })],
        cause: "the sinks are scaled as if they were scores",
        remedy: "sinks take part in the softmax as they are",
        source: "a fault of softmaxes in general",
        ..ROW
    },
    Fault {
        name: "attention-sinks-of-another-head",
        entry: "58",
        variants: &[1.0, -1.0],
        edits: &[Edit::SoftMax(|plan, place| {
            let Some(sinks) = &mut plan.sinks else { return false };
            let by = (place.variant as isize).rem_euclid(sinks.len() as isize) as usize;
            sinks.rotate_left(by);
            sinks.len() > 1
        })],
        cause: "a head has the sink of the head {} further on",
        remedy: "where heads are divided among devices, sinks are divided alike",
        source: "lightseekorg/tokenspeed#254",
        ..ROW
    },
    Fault {
        name: "alibi-sign",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| sloped(plan, place, slope, |t, p| -away(t, p)))],
        cause: "ALiBi is added with the other sign: what is far away is favoured",
        remedy: "take slope(head) * distance from scaled scores",
        source: "a fault of ALiBi in general (Press et al. 2022)",
        ..ROW
    },
    Fault {
        name: "alibi-one-sided",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            let both = mask(place).is_both();
            both && sloped(plan, place, slope, |t, p| t as f64 - p as f64)
        })],
        cause: "ALiBi favours later tokens in an encoder: the distance has a sign",
        remedy: "take slope(head) * |distance| where tokens see both sides",
        source: "a fault of ALiBi in general (Press et al. 2022)",
        ..ROW
    },
    Fault {
        name: "alibi-slopes-reversed",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            sloped(plan, place, |h, heads, max| slope(heads - 1 - h, heads, max), away)
        })],
        cause: "ALiBi's slopes are in the reverse order of heads",
        remedy: "the first head has the largest slope, 2^(-8/n)",
        source: "a fault of ALiBi in general (Press et al. 2022)",
        ..ROW
    },
    Fault {
        name: "alibi-slopes-from-one",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            let slopes = |h: usize, heads, max| if h == 0 { 1.0 } else { slope(h - 1, heads, max) };
            sloped(plan, place, slopes, away)
        })],
        cause: "ALiBi's slopes begin one head early: the first head has 1",
        remedy: "the exponents are 8/n, 16/n ... 8, the first is not 0",
        source: "paiml/aprender#2143",
        ..ROW
    },
    Fault {
        name: "alibi-slopes-geometric",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            let uneven = !plan.heads.heads.is_power_of_two();
            let slopes = |h: usize, heads: usize, max: f64| f64::exp2(-max * (h + 1) as f64 / heads as f64);
            uneven && sloped(plan, place, slopes, away)
        })],
        cause: "ALiBi's slopes are one geometric series, although the number of heads is no power of two",
        remedy: "take the series of the next lower power of two, and every other slope of the next higher for the rest",
        source: "ml-explore/mlx#343, ml-explore/mlx#3071",
        ..ROW
    },
    Fault {
        name: "alibi-one-slope",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            let several = plan.heads.heads > 1;
            several && sloped(plan, place, |_, heads, max| slope(0, heads, max), away)
        })],
        cause: "all heads have the ALiBi slope of the first",
        remedy: "each head has a slope of its own",
        source: "a fault of ALiBi in general (Press et al. 2022)",
        ..ROW
    },
    Fault {
        name: "alibi-scaled",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            let scale = plan.scale;
            scale != 1.0 && sloped(plan, place, move |h, heads, max| scale * slope(h, heads, max), away)
        })],
        cause: "ALiBi is added before the scale, so that it is scaled too",
        remedy: "scale scores first, then take slope(head) * distance from them",
        source: "a fault of ALiBi in general (Press et al. 2022)",
        ..ROW
    },
    Fault {
        name: "alibi-decode-restarts",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            let since = move |t, p| if t < prompt { away(t, p) } else { away(t, prompt.max(p + 1) - 1) };
            decodes(place) && sloped(plan, place, slope, since)
        })],
        cause: "ALiBi's distances of decoded tokens are counted from the prompt's end",
        remedy: "a distance is that between the positions of query and key",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "alibi-of-base-two",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| {
            sloped(plan, place, |h, heads, max| slope(h, heads, max) * std::f64::consts::LN_2, away)
        })],
        cause: "ALiBi's slopes are too small by ln 2: scores are made ready for powers of 2, and ALiBi is not",
        remedy: "where exp2 is used for speed, multiply with log2(e) what comes after ALiBi is added",
        source: "Press et al. 2022; a fault of softmaxes by exp2 in general",
        ..ROW
    },
    Fault {
        name: "window-ignored-at-decode",
        entry: "57",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            seeing(plan, move |seen, t, p| seen(t, p) || t >= prompt && p <= t);
            let Mask::Window(window) = mask(place) else { return false };
            decodes(place) && window < place.tokens.ids.len()
        })],
        cause: "decoded tokens see everything in layers that have a window, tokens of the prompt do not",
        remedy: "the kernel for single tokens needs the window as well as that for prompts",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "attention-sinks-not-shifted",
        entry: "58",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.shifted_sinks = false;
            plan.sinks.is_some()
        })],
        cause: "the largest score is taken from all scores before they are exponentiated, and not from the sinks",
        remedy: "a sink is a score among the others: exp(sink - max)",
        source: "a fault of softmaxes in general",
        ..ROW
    },
    Fault {
        name: "last-position-hidden",
        entry: "50",
        edits: &[Edit::SoftMax(|plan, place| {
            let last = place.rows().saturating_sub(1);
            seeing(plan, move |seen, t, p| seen(t, p) && (p < last || t == p));
            mask(place).is_both() && last > 0
        })],
        cause: "no token of a text sees its last one, as if that were padding",
        remedy: "mask what is behind the text's end: the last token is one of it",
        source: "a fault of masks in general",
        ..ROW
    },
];
