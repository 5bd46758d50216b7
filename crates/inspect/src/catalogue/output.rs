//! Faults between the last layer and the logits (entries 56 and 70 to 72 of the catalogue).

use std::{collections::BTreeSet, rc::Rc};

use candor_ops::Unary;

use super::{
    row::{FACTORS, ROW},
    values::{near, scaled},
    weights::{is_matrix, reshape, tensor},
};
use crate::fault::{Edit, Fault, Fit, Steps};
use crate::replay::Place;
use crate::{Kind, Value};

/// Whether the operation is the product with the output matrix.
fn is_head(place: &Place<'_>) -> bool {
    is_matrix(place) && place.name() == "result_output"
}

/// Whether the operation gives the logits.
fn gives(place: &Place<'_>) -> bool {
    place.node.key.name == "result_output"
}

/// The file's factor on logits, and its cap.
fn file(place: &Place<'_>) -> (Option<f32>, Option<f32>) {
    let (mut scale, mut cap) = (None, None);
    let mut node = place.node;
    while let (Kind::Unary(f), Some(&input)) = (&node.kind, node.inputs.first()) {
        match *f {
            Unary::Affine { scale: factor, .. } => scale = Some(factor),
            Unary::SoftCap(limit) => cap = Some(limit),
            _ => {}
        }
        node = &place.graph.nodes[input];
    }
    (scale, cap)
}

/// Changes the file's factor on logits.
fn rescale(f: &mut Unary, place: &Place<'_>, new: impl Fn(f32) -> f32) -> bool {
    match f {
        Unary::Affine { scale, .. } if place.name() == "result_output" => {
            let old = *scale;
            *scale = new(old);
            *scale != old
        }
        _ => false,
    }
}

fn change(out: &mut Value, hit: bool, f: impl Fn(f32) -> f32) -> bool {
    if hit {
        out.data.iter_mut().for_each(|x| *x = f(*x));
    }
    hit
}

/// Changes each logit by the logarithm of the sum of all their exponentials.
fn normalized(out: &mut Value, hit: bool, f: fn(f64, f64) -> f64) -> bool {
    if hit {
        for row in out.data.chunks_exact_mut(out.width.max(1)) {
            let max = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let sum: f64 = row.iter().map(|&x| (f64::from(x) - max).exp()).sum();
            row.iter_mut().for_each(|x| *x = f(f64::from(*x), max + sum.ln()) as f32);
        }
    }
    hit
}

/// Whether the operation gives what a model without logits ends with.
fn is_last(place: &Place<'_>) -> bool {
    let logits = place.graph.nodes.iter().any(|node| node.key.name == "result_output");
    !logits && place.id + 1 == place.graph.nodes.len()
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "wrong-tie",
        entry: "70",
        wants: is_head,
        edits: &[Edit::Weight(|w, place| {
            let own = place.node.kind.weight().is_some_and(|weight| weight.name == "output.weight");
            match tensor(place, "token_embd.weight") {
                Some(embedding) if own && embedding.values.len() == w.values.len() => {
                    w.values = embedding.values;
                    true
                }
                _ => false,
            }
        })],
        cause: "the embedding serves as output matrix, although the file has one of its own",
        remedy: "use output.weight where it exists",
        source: "huggingface/transformers#43429",
        ..ROW
    },
    Fault {
        name: "head-never-loaded",
        entry: "70",
        wants: is_head,
        edits: &[Edit::Weight(|w, _| {
            w.values.fill(0.0);
            true
        })],
        cause: "the output matrix is all zeros",
        remedy: "where output.weight is missing, the embedding serves",
        source: "tinygrad/tinygrad#13796",
        ..ROW
    },
    Fault {
        name: "head-missing",
        entry: "71",
        edits: &[Edit::Output(|out, inputs, place| {
            let hit = is_head(place);
            if hit {
                let width = inputs[0].width.min(out.width);
                for t in 0..out.rows {
                    let hidden = inputs[0].row(t)[..width].to_vec();
                    let row = out.row_mut(t);
                    row.fill(0.0);
                    row[..width].copy_from_slice(&hidden);
                }
            }
            hit
        })],
        cause: "the hidden state is taken for logits: the output matrix is not applied",
        remedy: "multiply the normed state with the output matrix",
        source: "the logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "logits-of-first-row",
        entry: "72",
        edits: &[Edit::Output(|out, _, place| {
            let hit = is_head(place) && out.rows > 1;
            if hit {
                let prompt = place.tokens.prompt.max(1);
                let first = out.row(0).to_vec();
                (0..prompt).for_each(|t| out.row_mut(t).copy_from_slice(&first));
            }
            hit
        })],
        cause: "the logits of the prompt are those of its first token",
        remedy: "take the row of the last token",
        source: "the logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "logits-of-previous-row",
        entry: "72",
        variants: &[0.0, 1.0],
        edits: &[Edit::Output(|out, _, place| {
            // Of all tokens, or of those that are computed together.
            let prompt = place.tokens.prompt.min(out.rows);
            let end = if place.variant == 0.0 { out.rows } else { prompt };
            let hit = gives(place) && end > 1 && (place.variant == 0.0 || prompt < out.rows);
            if hit {
                (1..end).rev().for_each(|t| {
                    let before = out.row(t - 1).to_vec();
                    out.row_mut(t).copy_from_slice(&before);
                });
            }
            hit
        })],
        cause: "logits are those of the token before",
        remedy: "row t of the logits predicts token t + 1",
        source: "tenstorrent/tt-xla#4190",
        ..ROW
    },
    Fault {
        name: "logits-of-next-row",
        entry: "72",
        edits: &[Edit::Output(|out, _, place| {
            let end = place.tokens.prompt.min(out.rows);
            let hit = gives(place) && end > 1;
            if hit {
                out.data.copy_within(out.width..end * out.width, 0);
            }
            hit
        })],
        cause: "the logits of a prompt are those of the token after",
        remedy: "row t of the logits predicts token t + 1",
        source: "a fault of loops in general",
        ..ROW
    },
    Fault {
        name: "log-probabilities-for-logits",
        entry: "72",
        edits: &[Edit::Output(|out, _, place| normalized(out, gives(place), |x, log_sum| x - log_sum))],
        cause: "what is handed out as logits are log-probabilities",
        remedy: "hand out the logits as they are: samplers and penalties of the text expect them so",
        source: "a fault of interfaces in general",
        ..ROW
    },
    Fault {
        name: "probabilities-for-logits",
        entry: "72",
        edits: &[Edit::Output(|out, _, place| normalized(out, gives(place), |x, log_sum| (x - log_sum).exp()))],
        cause: "what is handed out as logits are probabilities: the softmax has been applied",
        remedy: "hand out the logits as they are; the sampler applies the softmax",
        source: "a fault of interfaces in general",
        ..ROW
    },
    Fault {
        name: "head-column-major",
        entry: "4",
        wants: is_head,
        edits: &[Edit::Weight(reshape)],
        cause: "the output matrix is indexed [width * vocabulary + token]",
        remedy: "the logit of a token is the product with row `token` of the output matrix",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "head-rows-shifted",
        entry: "71",
        variants: &[1.0, -1.0],
        wants: is_head,
        edits: &[Edit::Weight(|w, place| {
            let by = (place.variant as isize).rem_euclid(w.rows.max(1) as isize) as usize;
            w.values.rotate_left(by * w.cols);
            true
        })],
        cause: "the logit of a token is made with the output matrix's row {} further on",
        remedy: "row `token` of the output matrix makes the logit of the token",
        source: "a fault of lookups in general",
        ..ROW
    },
    Fault {
        name: "logit-soft-cap-missing",
        entry: "56",
        edits: &[Edit::Unary(|f, place| {
            let hit = place.name() == "result_output" && matches!(f, Unary::SoftCap(_));
            if hit {
                *f = Unary::scale(1.0);
            }
            hit
        })],
        cause: "logits are not capped; the order of tokens stays, their probabilities do not",
        remedy: "apply final_logit_softcapping: cap * tanh(logits / cap)",
        source: "vllm-project/vllm#52173, keras-team/keras-hub#1712",
        ..ROW
    },
    Fault {
        name: "logit-soft-cap",
        entry: "56",
        variants: &[30.0, 15.0],
        fit: Some(FACTORS),
        wants: gives,
        edits: &[
            Edit::Unary(|f, place| match f {
                Unary::SoftCap(cap) if gives(place) && !near(place.variant, f64::from(*cap)) => {
                    *cap = place.variant as f32;
                    true
                }
                _ => false,
            }),
            Edit::Output(|out, _, place| {
                let cap = place.variant as f32;
                change(out, gives(place) && file(place).1.is_none(), |x| cap * (x / cap).tanh())
            }),
        ],
        cause: "logits are capped at {} (Gemma 2 caps at 30); the order of tokens stays, their probabilities do not",
        remedy: "cap only where the file has final_logit_softcapping, at its number",
        source: "ggml-org/llama.cpp#21390, ollama/ollama#9692",
        ..ROW
    },
    Fault {
        name: "logit-soft-cap-not-multiplied-back",
        entry: "56",
        edits: &[
            Edit::Unary(|f, place| {
                let hit = gives(place) && matches!(f, Unary::SoftCap(_));
                if hit {
                    *f = Unary::Tanh;
                }
                hit
            }),
            Edit::Inputs(|inputs, place| match place.node.kind {
                Kind::Unary(Unary::SoftCap(cap)) if gives(place) => {
                    inputs[0] = Rc::new(scaled(&inputs[0], 1.0 / f64::from(cap)));
                    true
                }
                _ => false,
            }),
        ],
        cause: "capped logits are not multiplied with the cap again: they lie between -1 and 1",
        remedy: "cap * tanh(logits / cap)",
        source: "unslothai/unsloth-zoo#593",
        ..ROW
    },
    Fault {
        name: "logit-scale-left-out",
        entry: "28o",
        edits: &[Edit::Unary(|f, place| rescale(f, place, |_| 1.0))],
        cause: "logits are not multiplied with the file's factor",
        remedy: "multiply with logit_scale (Cohere), or divide by logits_scaling (Granite), as the architecture does",
        source: "vllm-project/vllm#52158",
        ..ROW
    },
    Fault {
        name: "logit-scale-inverted",
        entry: "28o",
        edits: &[Edit::Unary(|f, place| rescale(f, place, |scale| 1.0 / scale))],
        cause: "logits are divided by the factor that they should be multiplied with, or the reverse",
        remedy: "Cohere multiplies with logit_scale, Granite divides by logits_scaling",
        source: "vllm-project/vllm#52158",
        ..ROW
    },
    Fault {
        name: "logit-scale-twice",
        entry: "28o",
        edits: &[Edit::Unary(|f, place| rescale(f, place, |scale| scale * scale))],
        cause: "logits are multiplied with the file's factor twice",
        remedy: "multiply once: in the model, or in the head",
        source: "dphnAI/sonar#1054",
        ..ROW
    },
    Fault {
        name: "logit-scale",
        entry: "28o",
        variants: &[0.0625, 0.125, 16.0],
        fit: Some(FACTORS),
        wants: gives,
        edits: &[
            Edit::Unary(|f, place| {
                let Unary::Affine { scale, .. } = *f else { return false };
                let known = [1.0, scale, 1.0 / scale, scale * scale];
                !known.into_iter().any(|known| near(place.variant, known.into()))
                    && rescale(f, place, |_| place.variant as f32)
            }),
            Edit::Output(|out, _, place| {
                let hit = gives(place) && file(place).0.is_none() && !near(place.variant, 1.0);
                change(out, hit, |x| x * place.variant as f32)
            }),
        ],
        cause: "logits are multiplied with {}, which is not the file's factor (Cohere and Granite have one)",
        remedy: "multiply only where the file has logit_scale, with its number; a temperature is the sampler's",
        source: "vllm-project/vllm#52158",
        ..ROW
    },
    Fault {
        name: "repetition-penalty-in-logits",
        entry: "72",
        variants: &[1.1, 1.3],
        fit: Some(Fit { range: (1.01, 2.0), steps: Steps::Factors, numbers: |_| Vec::new() }),
        wants: gives,
        edits: &[Edit::Output(|out, _, place| {
            let (ids, prompt) = (&place.tokens.ids, place.tokens.prompt.max(1));
            let hit = gives(place) && out.rows == ids.len();
            for t in 0..if hit { out.rows } else { 0 } {
                let seen: BTreeSet<u32> = ids[..prompt.min(ids.len()).max(t + 1)].iter().copied().collect();
                let row = out.row_mut(t);
                for id in seen {
                    let Some(x) = row.get_mut(id as usize) else { continue };
                    let by = if *x > 0.0 { 1.0 / place.variant } else { place.variant };
                    *x = (f64::from(*x) * by) as f32;
                }
            }
            hit
        })],
        cause: "logits of tokens that occurred are divided by {} where they are above zero, and multiplied with it below",
        remedy: "a penalty on repetition is the sampler's: logits are what the model gives",
        source: "Keskar et al. 2019 (CTRL), section 4.1",
        ..ROW
    },
    Fault {
        name: "embeddings-of-unit-length",
        entry: "72",
        wants: is_last,
        edits: &[Edit::Output(|out, _, place| {
            let hit = is_last(place);
            if hit {
                for row in out.data.chunks_exact_mut(out.width.max(1)) {
                    let length = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
                    row.iter_mut().for_each(|x| *x = (f64::from(*x) / length.max(f64::MIN_POSITIVE)) as f32);
                }
            }
            hit
        })],
        cause: "each row that the encoder gives has the length 1",
        remedy: "norm a text's vector behind the pooling, where it is asked for: rows of tokens are given as they are",
        source: "a fault of encoders in general",
        ..ROW
    },
];
