//! Faults of the residual stream, from the embedding to the logits (sections A3, A6 and A7 of the catalogue).

use super::{FACTORS, ROW, any, is_embedding, is_matrix, tensor};
use crate::fault::{Edit, Fault};
use crate::replay::Place;
use crate::{Kind, NodeId};

/// Whether the operation adds to the residual stream, and which value it adds.
fn adds<'a>(place: &'a Place<'_>) -> Option<&'a str> {
    match (&place.node.kind, place.name()) {
        (Kind::Add, name @ ("ffn_inp" | "l_out")) => Some(name),
        _ => None,
    }
}

fn rewire_add(
    inputs: &mut Vec<NodeId>,
    place: &Place<'_>,
    at: &str,
    keep: impl Fn(NodeId, NodeId) -> Vec<NodeId>,
) -> bool {
    match (adds(place), inputs.as_slice()) {
        (Some(name), &[stream, product]) if name == at => {
            *inputs = keep(stream, product);
            true
        }
        _ => false,
    }
}

/// The width of a kernel's tile.
fn tile(place: &Place<'_>) -> usize {
    place.variant as usize
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "embedding-scaled",
        entry: "26",
        edits: &[Edit::Embed(|embed, _| {
            embed.factor *= (embed.table.cols as f64).sqrt();
            true
        })],
        cause: "embeddings are multiplied with the root of the width (Gemma does that)",
        remedy: "only Gemma-like architectures scale their embeddings",
        source: "huggingface/transformers#29402",
        ..ROW
    },
    Fault {
        name: "embedding-scale-missing",
        entry: "26",
        edits: &[Edit::Embed(|embed, _| {
            embed.factor /= (embed.table.cols as f64).sqrt();
            true
        })],
        cause: "embeddings are too small by the root of the width",
        remedy: "multiply embeddings with sqrt(width) where the architecture does",
        source: "huggingface/transformers#29402",
        ..ROW
    },
    Fault {
        name: "token-off-by-one",
        entry: "27",
        variants: &[1.0, -1.0],
        edits: &[Edit::Embed(|embed, place| {
            embed.rows.iter_mut().for_each(|row| *row += place.variant as i64);
            true
        })],
        cause: "the embedding of token id {} further on is taken",
        remedy: "token ids count from 0, as the rows of the table do",
        source: "a fault of lookups in general",
        ..ROW
    },
    Fault {
        name: "one-token-for-all",
        entry: "72",
        edits: &[Edit::Embed(|embed, _| {
            let first = embed.rows.first().copied();
            let different = embed.rows.iter().any(|row| Some(*row) != first);
            if let Some(first) = first {
                embed.rows.fill(first);
            }
            different
        })],
        cause: "every token takes the embedding of the first one",
        remedy: "look up each token of the prompt",
        source: "a fault of lookups in general",
        ..ROW
    },
    Fault {
        name: "attention-residual-dropped",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| rewire_add(inputs, place, "ffn_inp", |_, product| vec![product]))],
        cause: "the residual stream is not added after attention",
        remedy: "x = x + attention(norm(x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "ffn-residual-dropped",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| rewire_add(inputs, place, "l_out", |_, product| vec![product]))],
        cause: "the residual stream is not added after the feed-forward",
        remedy: "x = x + ffn(norm(x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "attention-residual-twice",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            rewire_add(inputs, place, "ffn_inp", |stream, product| vec![stream, product, stream])
        })],
        cause: "the residual stream is added twice after attention",
        remedy: "x = x + attention(norm(x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "ffn-residual-twice",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            rewire_add(inputs, place, "l_out", |stream, product| vec![stream, product, stream])
        })],
        cause: "the residual stream is added twice after the feed-forward",
        remedy: "x = x + ffn(norm(x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "attention-residual-after-norm",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(normed) = place.sibling("attn_norm") else { return false };
            rewire_add(inputs, place, "ffn_inp", |_, product| vec![normed, product])
        })],
        cause: "the normed row is added after attention instead of the residual stream",
        remedy: "keep x from before the norm",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "ffn-residual-after-norm",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(normed) = place.sibling("ffn_norm") else { return false };
            rewire_add(inputs, place, "l_out", |_, product| vec![normed, product])
        })],
        cause: "the normed row is added after the feed-forward instead of the residual stream",
        remedy: "keep x from before the norm",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "ffn-residual-from-layer-input",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(input) = place.layer_input() else { return false };
            rewire_add(inputs, place, "l_out", |_, product| vec![input, product])
        })],
        cause: "the feed-forward's output is added to the layer's input: attention's contribution is lost",
        remedy: "x = x + attention(...), and then x = x + ffn(...) of the new x",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "parallel-residual",
        entry: "28n",
        edits: &[Edit::Wiring(|inputs, place| {
            let hit = place.name() == "ffn_norm" && matches!(place.node.kind, Kind::Norm { .. });
            match place.layer_input() {
                Some(input) if hit => inputs[0] = input,
                _ => return false,
            }
            true
        })],
        cause: "the feed-forward reads the layer's input, as parallel blocks (GPT-J, NeoX, Phi) do",
        remedy: "norm the stream after attention",
        source: "rustformers/llm#237, ggml-org/ggml#139",
        ..ROW
    },
    Fault {
        name: "residual-multiplier",
        entry: "28o",
        variants: &[0.22, 0.5, 2.0],
        edits: &[Edit::Output(|out, inputs, place| {
            if adds(place).is_none() || inputs.len() != 2 {
                return false;
            }
            for (out, (&x, &y)) in out.data.iter_mut().zip(inputs[0].data.iter().zip(&inputs[1].data)) {
                *out = x + y * place.variant as f32;
            }
            true
        })],
        cause: "what a block adds to the stream is multiplied with {} (Granite and MiniCPM do that)",
        remedy: "multiply only where the file has a residual scale",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "attention-output-missing",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| rewire_add(inputs, place, "ffn_inp", |stream, _| vec![stream]))],
        cause: "attention adds nothing to the stream",
        remedy: "x = x + attention(norm(x))",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "ffn-output-missing",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| rewire_add(inputs, place, "l_out", |stream, _| vec![stream]))],
        cause: "the feed-forward adds nothing to the stream",
        remedy: "x = x + ffn(norm(x))",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "last-layer-skipped",
        entry: "73",
        edits: &[Edit::Wiring(|inputs, place| {
            if place.layer().is_some_and(|layer| layer + 1 != place.graph.config.layers) {
                return false;
            }
            rewire_add(inputs, place, "ffn_inp", |stream, _| vec![stream])
                || rewire_add(inputs, place, "l_out", |stream, _| vec![stream])
        })],
        cause: "the last layer is not run",
        remedy: "run block_count layers; look for a limit left in from debugging",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "first-layer-skipped",
        entry: "73",
        edits: &[Edit::Wiring(|inputs, place| {
            if place.layer() != Some(0) {
                return false;
            }
            rewire_add(inputs, place, "ffn_inp", |stream, _| vec![stream])
                || rewire_add(inputs, place, "l_out", |stream, _| vec![stream])
        })],
        cause: "the first layer is not run",
        remedy: "layers count from 0",
        source: "a fault of loops in general",
        ..ROW
    },
    Fault {
        name: "wrong-tie",
        entry: "70",
        wants: |place| is_matrix(place) && place.name() == "result_output",
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
        wants: |place| is_matrix(place) && place.name() == "result_output",
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
            let hit = is_matrix(place) && place.name() == "result_output";
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
            let hit = is_matrix(place) && place.name() == "result_output" && out.rows > 1;
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
        edits: &[Edit::Output(|out, _, place| {
            let hit = is_matrix(place) && place.name() == "result_output" && out.rows > 1;
            if hit {
                (1..out.rows).rev().for_each(|t| {
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
        name: "logit-soft-cap",
        entry: "56",
        variants: &[30.0, 15.0],
        edits: &[Edit::Output(|out, _, place| {
            let hit = is_matrix(place) && place.name() == "result_output";
            if hit {
                let cap = place.variant as f32;
                out.data.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
            }
            hit
        })],
        cause: "logits are capped to {} (Gemma 2 does that); the order of tokens stays, their probabilities do not",
        remedy: "cap only where the file has final_logit_softcapping",
        source: "vllm-project/vllm#52173",
        ..ROW
    },
    Fault {
        name: "logit-scale",
        entry: "28o",
        variants: &[0.0625, 0.125, 16.0],
        fit: Some(FACTORS),
        edits: &[Edit::Output(|out, _, place| {
            let hit = is_matrix(place) && place.name() == "result_output";
            if hit {
                out.data.iter_mut().for_each(|x| *x *= place.variant as f32);
            }
            hit
        })],
        cause: "logits are multiplied with {} (Cohere and Granite do that)",
        remedy: "multiply only where the file has logit_scale",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "tile-outputs-lost",
        entry: "77",
        variants: &[32.0, 64.0, 128.0, 16.0],
        edits: &[Edit::Output(|out, _, place| {
            let whole = out.width / tile(place) * tile(place);
            if !is_matrix(place) || whole == out.width || whole == 0 {
                return false;
            }
            out.data.chunks_exact_mut(out.width).for_each(|row| row[whole..].fill(0.0));
            true
        })],
        cause: "outputs beyond the last whole tile of {} are not written",
        remedy: "handle the rest of the rows",
        source: "tinygrad/tinygrad#16603",
        ..ROW
    },
    Fault {
        name: "tile-inputs-lost",
        entry: "77",
        variants: &[32.0, 64.0, 128.0, 256.0],
        wants: |place| is_matrix(place) && place.node.kind.weight().is_some_and(|w| w.cols > tile(place)),
        edits: &[Edit::Weight(|w, place| {
            let whole = w.cols / tile(place) * tile(place);
            w.values.chunks_exact_mut(w.cols).for_each(|row| row[whole..].fill(0.0));
            whole != w.cols
        })],
        cause: "inputs beyond the last whole tile of {} are not added up",
        remedy: "handle the rest of the columns",
        source: "tinygrad/tinygrad#16603",
        ..ROW
    },
    Fault {
        name: "f16-accumulation",
        entry: "74",
        wants: any,
        edits: &[Edit::Output(|out, _, place| {
            if !is_matrix(place) {
                return false;
            }
            let mut overflow = false;
            for x in &mut out.data {
                if x.abs() > 65504.0 {
                    *x = f32::INFINITY * x.signum();
                    overflow = true;
                }
            }
            overflow
        })],
        cause: "products beyond 65504 overflow in F16",
        remedy: "accumulate and store products in f32, or BF16",
        source: "QwenLM/Qwen3#761, mlc-ai/mlc-llm#1870",
        ..ROW
    },
    Fault {
        name: "embedding-not-found",
        entry: "9",
        wants: is_embedding,
        edits: &[Edit::Weight(|w, _| {
            w.values.fill(0.0);
            true
        })],
        cause: "the embedding is all zeros",
        remedy: "check that token_embd.weight is found and filled",
        source: "tinygrad/tinygrad#13796",
        ..ROW
    },
];
