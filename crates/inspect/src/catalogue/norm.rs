//! Faults of norms (section A3 of the catalogue, entries 13 and 28).

use super::{ROW, any};
use crate::fault::{Edit, Fault};
use crate::replay::{Divisor, Norm, Place, Scope};

/// Whether the norm is one of queries or keys.
fn of_heads(place: &Place<'_>) -> bool {
    matches!(place.name(), "Qcur_normed" | "Kcur_normed")
}

fn divide(norm: &mut Norm, divisor: Divisor) -> bool {
    norm.divisor = divisor;
    true
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
        edits: &[Edit::Norm(|norm, _| {
            norm.weight.iter_mut().for_each(|w| *w *= *w);
            !norm.weight.is_empty()
        })],
        cause: "the norm's weight is applied twice",
        remedy: "multiply with it once: inside of the norm, or after it",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "norm-weight-missing",
        entry: "28b",
        edits: &[Edit::Norm(|norm, _| {
            norm.weight.fill(1.0);
            !norm.weight.is_empty()
        })],
        cause: "the norm's weight is not applied",
        remedy: "multiply the normed row with the weight, element by element",
        source: "a fault of norms in general",
        ..ROW
    },
    Fault {
        name: "layer-norm",
        entry: "28d",
        edits: &[Edit::Norm(|norm, _| !std::mem::replace(&mut norm.centred, true))],
        cause: "LayerNorm instead of RMSNorm: the mean is taken away first",
        remedy: "RMSNorm divides by the root of the mean square and takes nothing away",
        source: "a fault of norms in general",
        ..ROW
    },
    Fault {
        name: "norm-eps",
        entry: "28e",
        variants: &[0.0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3],
        edits: &[Edit::Norm(|norm, place| {
            let other = (norm.eps - place.variant).abs() > 1e-3 * norm.eps;
            norm.eps = place.variant;
            other
        })],
        cause: "the norm's eps is {}, not the file's",
        remedy: "read attention.layer_norm_rms_epsilon; it matters most where rows are small, as at BOS",
        source: "ggml-org/llama.cpp#2373, huggingface/candle#271",
        ..ROW
    },
    Fault {
        name: "norm-eps-outside",
        entry: "28f",
        edits: &[Edit::Norm(|norm, _| divide(norm, Divisor::RootMeanSquarePlusEps))],
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
        edits: &[Edit::Norm(|norm, _| {
            norm.scope = Scope::Batch;
            true
        })],
        cause: "one mean square is taken over all tokens together",
        remedy: "norm each token's row by itself",
        source: "kyegomez/zeta#180",
        ..ROW
    },
    Fault {
        name: "norm-skipped",
        entry: "28j",
        edits: &[Edit::Output(|out, inputs, place| {
            let skip = !of_heads(place)
                && place.name() != "result_norm"
                && out.width == inputs.first().map_or(0, |x| x.width)
                && matches!(place.node.kind, crate::Kind::Norm { .. });
            if skip {
                out.clone_from(&inputs[0]);
            }
            skip
        })],
        cause: "the norm is left out: its input goes on",
        remedy: "apply attn_norm before attention and ffn_norm before the feed-forward",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "head-norm-missing",
        entry: "28k",
        edits: &[Edit::Output(|out, inputs, place| {
            if of_heads(place) {
                out.clone_from(&inputs[0]);
            }
            of_heads(place)
        })],
        cause: "the norms of queries and keys are missing",
        remedy: "apply attn_q_norm and attn_k_norm to each head before RoPE",
        source: "paiml/aprender#1228",
        ..ROW
    },
    Fault {
        name: "head-norm-over-row",
        entry: "28k",
        edits: &[Edit::Norm(|norm, place| {
            norm.scope = Scope::Row;
            of_heads(place)
        })],
        cause: "queries and keys are normed over all heads together",
        remedy: "norm each head by itself",
        source: "lablup/mlxcel#391",
        ..ROW
    },
    Fault {
        name: "head-norm-after-rope",
        entry: "28k",
        wants: any,
        edits: &[
            Edit::Output(|out, inputs, place| {
                if of_heads(place) {
                    out.clone_from(&inputs[0]);
                }
                of_heads(place)
            }),
            Edit::Output(|out, _, place| {
                let normed = match place.name() {
                    "Qcur" => place.sibling("Qcur_normed"),
                    "Kcur" => place.sibling("Kcur_normed"),
                    _ => None,
                };
                let (Some(id), crate::Kind::Rope { .. }) = (normed, &place.node.kind) else { return false };
                let crate::Kind::Norm { norm, weight, bias } = &place.graph.nodes[id].kind else { return false };
                let [weight, bias] = [weight, bias].map(|tensor| {
                    tensor.as_ref().map_or_else(Vec::new, |tensor| crate::replay::Matrix::decode(tensor).values)
                });
                *out = Norm::new(norm, weight, bias).run(out);
                true
            }),
        ],
        cause: "queries and keys are normed after RoPE",
        remedy: "norm first, rotate then",
        source: "lablup/mlxcel#391",
        ..ROW
    },
    Fault {
        name: "output-norm-skipped",
        entry: "28l",
        edits: &[Edit::Output(|out, inputs, place| {
            let skip = place.name() == "result_norm";
            if skip {
                out.clone_from(&inputs[0]);
            }
            skip
        })],
        cause: "the output norm is left out; the first choice often stays right, its probability does not",
        remedy: "apply output_norm before the output matrix",
        source: "a fault of wirings in general",
        ..ROW
    },
];
