//! Faults of the biases of products (entry 28p of the catalogue).

use super::{ROW, weight_of_layer};
use crate::fault::{Edit, Fault};
use crate::{Kind, replay::Matrix, replay::Place};

/// What the bias is added to, by the weight's name: `attn_q`, `ffn_down_exps`.
fn of<'a>(place: &'a Place<'_>) -> Option<&'a str> {
    match place.node.kind {
        Kind::Bias(_) | Kind::Weighted(crate::Weighted::Bias(_)) => place.weight().strip_suffix(".bias"),
        _ => None,
    }
}

fn is_of(place: &Place<'_>, products: &[&str]) -> bool {
    of(place).is_some_and(|name| products.contains(&name))
}

/// Whether the bias is one of queries, keys or values.
fn of_attention(place: &Place<'_>, values: &[&str]) -> bool {
    is_of(place, &["attn_q", "attn_k", "attn_v", "attn_qkv"]) && values.iter().any(|name| place.name() == *name)
}

fn times(w: &mut Matrix, place: &Place<'_>) -> bool {
    w.values.iter_mut().for_each(|b| *b *= place.variant as f32);
    true
}

/// A row for biases that are added never, or too often.
const fn row(name: &'static str, wants: fn(&Place<'_>) -> bool, cause: &'static str, source: &'static str) -> Fault {
    Fault {
        name,
        entry: "28p",
        variants: &[0.0, 2.0],
        wants,
        edits: &[Edit::Weight(times)],
        cause,
        remedy: "add each bias that the file has once; with the sum of a product that is split over several devices, not with \
                 each part",
        source,
        ..ROW
    }
}

/// Where biases are left out, in most reports.
const DROPPED: &str = "sbryngelson/ANEForge#253, vllm-project/vllm#3767";

/// Where more than those of queries, keys and values are.
const OTHERS: &str = "mlc-ai/mlc-llm#3494, huggingface/text-generation-inference#1036";

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    row("biases", |place| of(place).is_some(), "every bias of a product is added {} times instead of once", OTHERS),
    row(
        "qkv-biases",
        |place| of_attention(place, &["Qcur", "Kcur", "Vcur"]),
        "the biases of queries, keys and values are added {} times instead of once",
        DROPPED,
    ),
    row(
        "query-bias",
        |place| of_attention(place, &["Qcur"]),
        "the bias of queries is added {} times instead of once",
        DROPPED,
    ),
    row(
        "key-bias",
        |place| of_attention(place, &["Kcur"]),
        "the bias of keys is added {} times instead of once",
        DROPPED,
    ),
    row(
        "value-bias",
        |place| of_attention(place, &["Vcur"]),
        "the bias of values is added {} times instead of once",
        DROPPED,
    ),
    row(
        "attention-output-bias",
        |place| is_of(place, &["attn_output", "attn_o"]),
        "the bias of attention's output is added {} times instead of once",
        OTHERS,
    ),
    row(
        "ffn-biases",
        |place| is_of(place, &["ffn_gate", "ffn_up", "ffn_down"]),
        "the biases of the feed-forward are added {} times instead of once",
        OTHERS,
    ),
    row(
        "ffn-down-bias",
        |place| is_of(place, &["ffn_down"]),
        "the bias of the feed-forward's last product is added {} times instead of once",
        OTHERS,
    ),
    row(
        "ffn-up-biases",
        |place| is_of(place, &["ffn_gate", "ffn_up"]),
        "the biases of the feed-forward's first products are added {} times instead of once",
        OTHERS,
    ),
    row(
        "router-bias",
        |place| is_of(place, &["ffn_gate_inp"]),
        "the bias of the router is added {} times instead of once",
        "ggml-org/llama.cpp#15091",
    ),
    row(
        "expert-biases",
        |place| is_of(place, &["ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps", "ffn_down_exps"]),
        "the biases of experts are added {} times instead of once",
        "ggml-org/llama.cpp#15091",
    ),
    row(
        "expert-up-biases",
        |place| is_of(place, &["ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps"]),
        "the biases of the experts' first products are added {} times instead of once",
        "ggml-org/llama.cpp#15091",
    ),
    row(
        "expert-down-bias",
        |place| is_of(place, &["ffn_down_exps"]),
        "the bias of the experts' last product is added {} times instead of once",
        "ggml-org/llama.cpp#15091",
    ),
    row(
        "head-bias",
        |place| is_of(place, &["output"]),
        "the bias of logits is added {} times instead of once",
        "a fault of wirings in general",
    ),
    Fault {
        name: "biases-of-first-layer",
        entry: "8",
        wants: |place| of(place).is_some() && place.layer().is_some_and(|layer| layer > 0),
        edits: &[Edit::Weight(|w, place| {
            let first = weight_of_layer(place, 0).filter(|first| first.len() == w.values.len());
            first.map(|first| w.values = first).is_some()
        })],
        cause: "every layer has the biases of the first one",
        remedy: "check the layer index in the names of biases that are looked up",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "expert-bias-not-weighted",
        entry: "28p",
        wants: |place| is_of(place, &["ffn_down_exps"]),
        edits: &[
            Edit::Weight(|w, _| {
                w.values.fill(0.0);
                true
            }),
            Edit::Output(|out, inputs, place| {
                let (Kind::Weighted(crate::Weighted::Scale), Some(&input)) =
                    (&place.node.kind, place.node.inputs.first())
                else {
                    return false;
                };
                let Kind::Weighted(crate::Weighted::Bias(bias)) = &place.graph.nodes[input].kind else { return false };
                let bias = Matrix::decode(bias);
                let Some(choice) = inputs.get(1) else { return false };
                let rows = out.data.chunks_exact_mut(bias.cols).zip(choice.data.chunks_exact(2));
                for (row, pair) in rows.filter(|(_, pair)| (pair[0] as usize) < bias.rows) {
                    row.iter_mut().zip(bias.row(pair[0] as usize)).for_each(|(x, b)| *x += b);
                }
                true
            }),
        ],
        cause: "the bias of the experts' last product is added after their weights, whole for each expert",
        remedy: "an expert's output is weighted with its bias",
        source: "a fault of mixtures in general",
        ..ROW
    },
];
