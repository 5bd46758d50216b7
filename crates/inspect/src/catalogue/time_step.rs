//! Faults of what a state space's time step, B and C are made by (Mamba, delta rules).

use candor_ops::{NormKind, Unary};

use super::{
    recurrence::{each, is_made_with, swap},
    row::ROW,
    weights::tensor,
};
use crate::{
    Kind, Value,
    fault::{Edit, Fault, Fit, Steps},
    replay::{Divisor, Norm, Place},
};

/// Whether the operation adds the time step's bias.
fn is_step_bias(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Bias(_)) && place.weight() == "ssm_dt.bias"
}

fn is_softplus(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Unary(Unary::Softplus))
}

/// Keeps time steps within limits.
fn limit(out: &mut Value, place: &Place<'_>, bound: fn(f32, f32) -> f32) -> bool {
    let hit = is_softplus(place);
    if hit {
        out.data.iter_mut().for_each(|x| *x = bound(*x, place.variant as f32));
    }
    hit
}

/// Limits of time steps.
const LIMITS: Option<Fit> = Some(Fit { range: (1e-4, 10.0), steps: Steps::Factors, numbers: |_| Vec::new() });

/// Leaves a norm out.
pub(super) fn skip(norm: &mut Norm) -> bool {
    (norm.divisor, norm.centred) = (Divisor::Nothing, false);
    norm.weight.clear();
    norm.bias.clear();
    true
}

/// One over the root mean square: what a norm without a weight multiplies with.
fn of_norm(x: &[f32]) -> f64 {
    let square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / x.len().max(1) as f64;
    1.0 / (square + 1e-6).sqrt()
}

/// Whether B and C go to the recurrence as they come out of their product.
fn is_plain(place: &Place<'_>) -> bool {
    let product =
        |&id: &usize| matches!(&place.graph.nodes[id].kind, Kind::MatMul(weight) if weight.name.contains("ssm_x."));
    matches!(place.node.kind, Kind::Recur(_)) && place.node.inputs[..2].iter().all(product)
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "softplus-missing",
        entry: "89",
        edits: &[Edit::Unary(|f, _| swap(f, Unary::Softplus, Unary::scale(1.0)))],
        cause: "the time step does not go through softplus",
        remedy: "ln(1 + exp(dt + bias))",
        source: "alxndrTL/mamba.py#53",
        ..ROW
    },
    Fault {
        name: "exponential-for-softplus",
        entry: "89",
        edits: &[Edit::Unary(|f, _| swap(f, Unary::Softplus, Unary::Exp))],
        cause: "the time step goes through the exponential in place of softplus",
        remedy: "ln(1 + exp(dt + bias))",
        source: "tenstorrent/tt-metal#9910",
        ..ROW
    },
    Fault {
        name: "relu-for-softplus",
        entry: "89",
        edits: &[Edit::Unary(|f, _| swap(f, Unary::Softplus, Unary::Relu))],
        cause: "the time step goes through ReLU in place of softplus",
        remedy: "ln(1 + exp(dt + bias))",
        source: "a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "step-bias-missing",
        entry: "89",
        wants: is_step_bias,
        edits: &[Edit::Weight(|w, _| each(w, |_| 0.0))],
        cause: "the bias of the time step (dt_bias) is not added",
        remedy: "add ssm_dt.bias before softplus",
        source: "state-spaces/mamba#281",
        ..ROW
    },
    Fault {
        name: "step-bias-behind-softplus",
        entry: "89",
        wants: is_softplus,
        edits: &[
            Edit::Wiring(|inputs, place| {
                let Some(&id) = inputs.first() else { return false };
                let node = &place.graph.nodes[id];
                let biased = is_softplus(place) && is_step_bias(&Place { node, id, ..*place });
                if biased {
                    inputs[0] = node.inputs[0];
                }
                biased
            }),
            Edit::Output(|out, _, place| {
                if !is_softplus(place) || !is_made_with(place, "ssm_dt") {
                    return false;
                }
                let bias = place.layer().and_then(|layer| tensor(place, &format!("blk.{layer}.ssm_dt.bias")));
                let Some(bias) = bias else { return false };
                for row in out.data.chunks_exact_mut(out.width) {
                    row.iter_mut().zip(&bias.values).for_each(|(x, b)| *x += b);
                }
                true
            }),
        ],
        cause: "the bias of the time step is added behind softplus",
        remedy: "softplus(dt + bias)",
        source: "state-spaces/mamba#281",
        ..ROW
    },
    Fault {
        name: "step-limited-below",
        entry: "89",
        wants: is_softplus,
        variants: &[1.0, 0.5],
        fit: LIMITS,
        edits: &[Edit::Output(|out, _, place| limit(out, place, f32::max))],
        cause: "time steps are raised to {} at least",
        remedy: "time_step_min and time_step_floor are for training; time_step_limit is (0, infinity) unless the model says otherwise",
        source: "huggingface/transformers#35154",
        ..ROW
    },
    Fault {
        name: "step-limited-above",
        entry: "89",
        wants: is_softplus,
        variants: &[0.1, 0.5],
        fit: LIMITS,
        edits: &[Edit::Output(|out, _, place| limit(out, place, f32::min))],
        cause: "time steps are cut off at {}",
        remedy: "time_step_max is for training; time_step_limit is (0, infinity) unless the model says otherwise",
        source: "huggingface/transformers#35154",
        ..ROW
    },
    Fault {
        name: "small-norms-missing",
        entry: "90",
        edits: &[Edit::Norm(|norm, place| is_made_with(place, "ssm_x") && skip(norm))],
        cause: "time step, B and C are not normed (Jamba, Falcon-Mamba)",
        remedy: "norm each of the three between ssm_x and what reads it; Falcon-Mamba has no weights for it",
        source: "alxndrTL/mamba.py#53",
        ..ROW
    },
    Fault {
        name: "small-norms-added",
        entry: "90",
        wants: |place| matches!(place.node.kind, Kind::MatMul(_)) && place.weight() == "ssm_dt",
        edits: &[
            Edit::Recur(|plan, place| {
                plan.sizes = [of_norm; 2];
                is_plain(place)
            }),
            Edit::Output(|out, inputs, place| {
                let plain = matches!(&place.node.kind, Kind::MatMul(weight) if weight.name.contains("ssm_dt."))
                    && matches!(place.graph.nodes[place.node.inputs[0]].kind, Kind::MatMul(_));
                if plain {
                    for (t, row) in out.data.chunks_exact_mut(out.width).enumerate() {
                        let factor = of_norm(inputs[0].row(t)) as f32;
                        row.iter_mut().for_each(|x| *x *= factor);
                    }
                }
                plain
            }),
        ],
        cause: "time step, B and C are normed, as Falcon-Mamba has it, in a model that does not",
        remedy: "norm them where the file has ssm_dt_norm or ssm.dt_b_c_rms says so",
        source: "alxndrTL/mamba.py#53",
        ..ROW
    },
    Fault {
        name: "unit-length-missing",
        entry: "90",
        edits: &[Edit::Norm(|norm, place| is_unit(place) && skip(norm))],
        cause: "keys are not brought to the length 1 (a delta rule's queries and keys, RWKV-7's kk)",
        remedy: "divide each head by the root of its sum of squares",
        source: "ooples/AiDotNet.Tensors#895",
        ..ROW
    },
    Fault {
        name: "unit-mean-for-unit-length",
        entry: "90",
        edits: &[Edit::Norm(|norm, place| {
            norm.divisor = Divisor::RootMeanSquare;
            is_unit(place)
        })],
        cause: "keys are divided by their root mean square in place of their length",
        remedy: "divide by the root of the sum of squares: RMS norm times 1 / sqrt(head width)",
        source: "a fault of norms in general",
        ..ROW
    },
];

/// Whether the operation is a norm to the length 1.
fn is_unit(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Norm { norm, .. } if norm.kind == NormKind::L2)
}
