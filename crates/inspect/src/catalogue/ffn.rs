//! Faults of the feed-forward (section A6 of the catalogue).

use super::ROW;
use crate::fault::{Edit, Fault};
use crate::replay::Activation;
use crate::{Kind, Value, replay::Place};

fn activate(plan: &mut Activation, function: fn(f64) -> f64) -> bool {
    plan.function = function;
    true
}

/// `erf`, by the series of Abramowitz and Stegun 7.1.5 and the continued fraction beyond.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..80 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
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
        edits: &[Edit::Activation(|plan, place| {
            activate(plan, if place.variant == 0.0 { gelu_tanh } else { |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())) })
        })],
        cause: "the gate goes through GELU instead of SiLU",
        remedy: "x / (1 + exp(-x)); the text stays readable for a while, so nobody notices",
        source: "huggingface/transformers#29402",
        ..ROW
    },
    Fault {
        name: "quick-gelu",
        entry: "65",
        edits: &[Edit::Activation(|plan, _| activate(plan, |x| x / (1.0 + (-1.702 * x).exp())))],
        cause: "the gate goes through quick-GELU, x * sigmoid(1.702 x)",
        remedy: "x / (1 + exp(-x))",
        source: "THUDM/slime#1825",
        ..ROW
    },
    Fault {
        name: "relu-for-silu",
        entry: "65",
        edits: &[Edit::Activation(|plan, _| activate(plan, |x| x.max(0.0)))],
        cause: "the gate goes through ReLU instead of SiLU",
        remedy: "x / (1 + exp(-x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "sigmoid-for-silu",
        entry: "65",
        edits: &[Edit::Activation(|plan, _| activate(plan, |x| 1.0 / (1.0 + (-x).exp())))],
        cause: "the gate goes through the sigmoid alone (GLU instead of SwiGLU)",
        remedy: "multiply the sigmoid with x",
        source: "a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "activation-missing",
        entry: "65",
        edits: &[Edit::Activation(|plan, _| activate(plan, |x| x))],
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
                Kind::Silu => inputs[0] = up,
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
