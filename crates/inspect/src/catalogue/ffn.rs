//! Faults of the feed-forward (section A6 of the catalogue).

use candor::ops::Unary;

use super::ROW;
use crate::fault::{Edit, Fault};
use crate::{Kind, Value, replay::Place};

/// Puts a function in the place of SiLU.
fn for_silu(f: &mut Unary, other: Unary) -> bool {
    let hit = *f == Unary::Silu;
    if hit {
        *f = other;
    }
    hit
}

/// Replaces the product by one of its factors.
fn only(out: &mut Value, inputs: &[std::rc::Rc<Value>], place: &Place<'_>, input: usize) -> bool {
    let hit = matches!(place.node.kind, Kind::Mul) && place.name() == "ffn_swiglu";
    if hit {
        out.clone_from(&inputs[input]);
    }
    hit
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "gelu-for-silu",
        entry: "65",
        variants: &[0.0, 1.0],
        edits: &[Edit::Unary(|f, place| for_silu(f, if place.variant == 0.0 { Unary::Gelu } else { Unary::GeluErf }))],
        cause: "the gate goes through GELU instead of SiLU",
        remedy: "x / (1 + exp(-x)); the text stays readable for a while, so nobody notices",
        source: "huggingface/transformers#29402",
        ..ROW
    },
    Fault {
        name: "quick-gelu",
        entry: "65",
        edits: &[Edit::Unary(|f, _| for_silu(f, Unary::GeluQuick))],
        cause: "the gate goes through quick-GELU, x * sigmoid(1.702 x)",
        remedy: "x / (1 + exp(-x))",
        source: "THUDM/slime#1825",
        ..ROW
    },
    Fault {
        name: "relu-for-silu",
        entry: "65",
        edits: &[Edit::Unary(|f, _| for_silu(f, Unary::Relu))],
        cause: "the gate goes through ReLU instead of SiLU",
        remedy: "x / (1 + exp(-x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "sigmoid-for-silu",
        entry: "65",
        edits: &[Edit::Unary(|f, _| for_silu(f, Unary::Sigmoid))],
        cause: "the gate goes through the sigmoid alone (GLU instead of SwiGLU)",
        remedy: "multiply the sigmoid with x",
        source: "a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "activation-missing",
        entry: "65",
        edits: &[Edit::Unary(|f, _| for_silu(f, Unary::scale(1.0)))],
        cause: "the gate goes through no activation",
        remedy: "apply SiLU to the gate before multiplying with up",
        source: "a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "activation-on-up",
        entry: "66",
        edits: &[Edit::Wiring(|inputs, place| {
            let (Some(gate), Some(up)) = (place.sibling("ffn_gate"), place.sibling("ffn_up")) else { return false };
            match place.node.kind {
                Kind::Unary(Unary::Silu) => inputs[0] = up,
                Kind::Mul if place.name() == "ffn_swiglu" => inputs[1] = gate,
                _ => return false,
            }
            true
        })],
        cause: "the activation is applied to up instead of the gate",
        remedy: "silu(gate) * up",
        source: "ml-explore/mlx-lm#767",
        ..ROW
    },
    Fault {
        name: "up-omitted",
        entry: "67",
        edits: &[Edit::Output(|out, inputs, place| only(out, inputs, place, 0))],
        cause: "the gate is not multiplied with up",
        remedy: "silu(gate) * up",
        source: "google-research/timesfm#493",
        ..ROW
    },
    Fault {
        name: "gate-omitted",
        entry: "67",
        edits: &[Edit::Output(|out, inputs, place| only(out, inputs, place, 1))],
        cause: "up goes on without the gate",
        remedy: "silu(gate) * up",
        source: "google-research/timesfm#493",
        ..ROW
    },
];
