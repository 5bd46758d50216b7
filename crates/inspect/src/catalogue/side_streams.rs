//! Faults of second ways around a layer: low-rank ones beside attention (LAuReL), and several streams (AltUp). Gemma 3n.

use candor_ops::Unary;

use super::{
    recurrence::{each, input, is_made_with, is_scaled_with, swap},
    row::ROW,
};
use crate::{
    Kind, Node,
    fault::{Edit, Fault},
};

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "laurel-missing",
        entry: "103",
        edits: &[Edit::Wiring(|inputs, place| {
            let added = input(place, 1).is_some_and(|node| node.key.name == "laurel_out");
            let hit = added && matches!(place.node.kind, Kind::Add);
            if hit {
                inputs.truncate(1);
            }
            hit
        })],
        cause: "the low-rank way beside attention (LAuReL) is not added",
        remedy: "(x + attention + laurel) / sqrt(2)",
        source: "Menghani et al. 2024 (LAuReL)",
        ..ROW
    },
    Fault {
        name: "laurel-without-residual",
        entry: "103",
        edits: &[Edit::Wiring(|inputs, place| {
            let hit = matches!(place.node.kind, Kind::Add) && place.name() == "laurel_out";
            if hit {
                inputs.truncate(1);
            }
            hit
        })],
        cause: "the low-rank way beside attention (LAuReL) lacks its own input",
        remedy: "h + norm(right(left(h)))",
        source: "Menghani et al. 2024 (LAuReL)",
        ..ROW
    },
    Fault {
        name: "laurel-unscaled",
        entry: "103",
        edits: &[Edit::Unary(|f, place| {
            let hit = place.name() == "attn_laurel" && matches!(f, Unary::Affine { .. });
            if hit {
                *f = Unary::scale(1.0);
            }
            hit
        })],
        cause: "the sum of attention and LAuReL is not divided by sqrt(2)",
        remedy: "(x + attention + laurel) / sqrt(2)",
        source: "Menghani et al. 2024 (LAuReL)",
        ..ROW
    },
    Fault {
        name: "altup-router-without-tanh",
        entry: "104",
        edits: &[Edit::Unary(|f, place| {
            is_made_with(place, "altup_router") && swap(f, Unary::Tanh, Unary::scale(1.0))
        })],
        cause: "what mixes the streams (AltUp) does not go through tanh",
        remedy: "tanh(router(norm(x) / width))",
        source: "Baykal et al. 2023 (AltUp)",
        ..ROW
    },
    Fault {
        name: "altup-router-unscaled",
        entry: "104",
        edits: &[Edit::Unary(|f, place| {
            let routes = |(_, node): (usize, &Node)| matches!(&node.kind, Kind::MatMul(weight) if weight.name.contains("altup_router."));
            let hit = matches!(f, Unary::Affine { .. }) && place.readers().any(routes);
            if hit {
                *f = Unary::scale(1.0);
            }
            hit
        })],
        cause: "what the router of the streams (AltUp) reads is not divided by the width",
        remedy: "tanh(router(norm(x) / width))",
        source: "Baykal et al. 2023 (AltUp)",
        ..ROW
    },
    Fault {
        name: "altup-correction-without-one",
        entry: "104",
        edits: &[Edit::Unary(|f, place| {
            let hit = is_made_with(place, "altup_correct_coef") && matches!(f, Unary::Affine { .. });
            if hit {
                *f = Unary::scale(1.0);
            }
            hit
        })],
        cause: "the shares by which streams are corrected (AltUp) lack the 1 that is added",
        remedy: "prediction + (1 + coefficient) * (activated - prediction)",
        source: "Baykal et al. 2023 (AltUp)",
        ..ROW
    },
    Fault {
        name: "altup-correct-scale-missing",
        entry: "104",
        wants: |place| is_scaled_with(place, "altup_correct_scale"),
        edits: &[Edit::Weight(|w, _| each(w, |_| 1.0))],
        cause: "the corrected active stream (AltUp) is not multiplied with correct_output_scale",
        remedy: "multiply with altup_correct_scale before the per-layer input",
        source: "Baykal et al. 2023 (AltUp)",
        ..ROW
    },
];
