//! Faults of what scores go through besides the causal mask: windows, caps, sinks and biases (section A5 of the catalogue).

use candor::ops::Mask;

use super::ROW;
use crate::fault::{Edit, Fault};
use crate::replay::Place;
use crate::{Attending, Kind};

/// What the layer does, where the operation is its softmax.
fn attending<'a>(place: &Place<'a>) -> Option<&'a Attending> {
    match &place.node.kind {
        Kind::SoftMax(attending) => Some(attending),
        _ => None,
    }
}

/// The layer's mask.
fn mask(place: &Place<'_>) -> Mask {
    attending(place).map_or(Mask::Causal, |attending| attending.mask)
}

/// Positions before the first that a row of the last token sees.
fn hidden(place: &Place<'_>) -> usize {
    let tokens = place.tokens.ids.len();
    mask(place).seen(tokens.saturating_sub(1), tokens).start
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "window-ignored",
        entry: "57",
        edits: &[Edit::SoftMax(|plan, place| {
            plan.visible = Box::new(|t, p| p <= t);
            !mask(place).is_both() && hidden(place) > 0
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
            let window = window.saturating_add_signed(place.variant as isize).max(1);
            plan.visible = Box::new(move |t, p| p <= t && t - p < window);
            place.tokens.ids.len() > window
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
];
