//! Faults of the biases of products (entry 28p of the catalogue).

use std::rc::Rc;

use super::{row::ROW, values::left_at_decode, weights::weight_of_layer};
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

/// What scores are scaled by in the operation's layer, where that is another number than 1.
fn score_scale(place: &Place<'_>) -> Option<f64> {
    let of_layer = |node: &&crate::Node| node.key.layer == place.layer() && node.side == place.node.side;
    let mut scales = place.graph.nodes.iter().filter(of_layer).filter_map(|node| match &node.kind {
        Kind::SoftMax(attending) => Some(f64::from(attending.heads.scale)),
        _ => None,
    });
    scales.next().filter(|&scale| scale != 1.0 && scale > 0.0)
}

/// The bias that is added to what the operation gives, where that is attention's output.
fn output_bias(place: &Place<'_>) -> Option<Vec<f32>> {
    if !matches!(&place.node.kind, Kind::MatMul(_)) || place.weight() != "attn_output" {
        return None;
    }
    place.readers().find_map(|(_, node)| match &node.kind {
        Kind::Bias(bias) => Some(Matrix::decode(bias).values),
        _ => None,
    })
}

/// The bias of the values that the operation mixes by weights which do not add up to 1.
fn value_bias(place: &Place<'_>) -> Option<Vec<f32>> {
    let (Kind::Mix(heads), &[weights, values]) = (&place.node.kind, place.node.inputs.as_slice()) else { return None };
    let nodes = &place.graph.nodes;
    let Kind::SoftMax(attending) = &nodes[weights].kind else { return None };
    let Kind::Bias(bias) = &nodes[values].kind else { return None };
    let bias = Matrix::decode(bias).values;
    (attending.sinks.is_some() && bias.len() == heads.kv_heads * heads.value_dim).then_some(bias)
}

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
    row(
        "key-and-value-biases",
        |place| of_attention(place, &["Kcur", "Vcur"]),
        "the biases of keys and of values are added {} times instead of once, that of queries once",
        DROPPED,
    ),
    Fault {
        name: "query-bias-unscaled",
        entry: "28p",
        wants: |place| of_attention(place, &["Qcur"]) && score_scale(place).is_some(),
        edits: &[Edit::Weight(|w, place| {
            let Some(scale) = score_scale(place) else { return false };
            w.values.iter_mut().for_each(|b| *b = (f64::from(*b) / scale) as f32);
            true
        })],
        cause: "queries are scaled before their bias is added, which stays unscaled",
        remedy: "add the bias to the product, then scale",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "qkv-biases-missing-at-decode",
        entry: "28p",
        wants: |place| of_attention(place, &["Qcur", "Kcur", "Vcur"]),
        edits: &[Edit::Output(|out, inputs, place| {
            left_at_decode(out, inputs, place, of_attention(place, &["Qcur", "Kcur", "Vcur"]))
        })],
        cause: "the biases of queries, keys and values are added in the prompt, and not when tokens are decoded",
        remedy: "the code of single tokens needs the biases as well as that of prompts",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "attention-output-bias-before-product",
        entry: "28p",
        edits: &[
            Edit::Wiring(|_, place| output_bias(place).is_some()),
            Edit::Inputs(|inputs, place| {
                let Some(bias) = output_bias(place) else { return false };
                let mut x = (*inputs[0]).clone();
                let hit = x.width == bias.len();
                if hit {
                    x.data.chunks_exact_mut(bias.len()).for_each(|row| {
                        row.iter_mut().zip(&bias).for_each(|(x, b)| *x += b);
                    });
                    inputs[0] = Rc::new(x);
                }
                hit
            }),
            Edit::Output(|out, inputs, place| {
                let hit = is_of(place, &["attn_output"]) && matches!(place.node.kind, Kind::Bias(_));
                if hit {
                    out.clone_from(&inputs[0]);
                }
                hit
            }),
        ],
        cause: "the bias of attention's output is added before the product in place of behind it",
        remedy: "y = W x + b",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "value-bias-behind-attention",
        entry: "28p",
        wants: |place| value_bias(place).is_some(),
        edits: &[Edit::Output(|out, inputs, place| {
            let (Kind::Mix(heads), Some(bias)) = (&place.node.kind, value_bias(place)) else { return false };
            let (weights, dim) = (&inputs[0], heads.value_dim);
            let (keys, each) = (weights.width / heads.heads, heads.heads / heads.kv_heads.max(1));
            for t in 0..out.rows {
                let row = weights.row(t).to_vec();
                for (head, out) in out.row_mut(t).chunks_exact_mut(dim).enumerate() {
                    let sum: f64 = row[head * keys..][..keys].iter().map(|&w| f64::from(w)).sum();
                    let bias = &bias[head / each * dim..][..dim];
                    out.iter_mut().zip(bias).for_each(|(x, &b)| *x += ((1.0 - sum) * f64::from(b)) as f32);
                }
            }
            true
        })],
        cause: "the bias of values is added to what heads give, as if weights added up to 1 beside a sink",
        remedy: "add it to the values: with a sink, weights add up to less than 1",
        source: "a fault of wirings in general",
        ..ROW
    },
];
