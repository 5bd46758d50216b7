//! Faults of embeddings: lookups, scales, learned positions, token types (entries 9, 26, 27 and 29 of the catalogue).

use candor_ops::Unary;

use super::{
    row::{FACTORS, ROW},
    values::{left_at_decode, near},
    weights::{is_embedding, tensor},
};
use crate::Kind;
use crate::fault::{Edit, Fault, Fit, Steps};
use crate::replay::{Embed, Place, Positions};

/// Whether the operation is a factor on embeddings.
fn scales(place: &Place<'_>) -> bool {
    let input = place.node.inputs.first().map(|&input| &place.graph.nodes[input].kind);
    matches!(input, Some(Kind::Embed(_)))
}

/// Whether the architecture scales what is looked up here.
fn is_scaled(place: &Place<'_>) -> bool {
    place.readers().any(|(_, reader)| matches!(reader.kind, Kind::Unary(Unary::Affine { .. })))
}

/// Changes the factor on embeddings where there is one.
fn rescale(f: &mut Unary, place: &Place<'_>, new: impl Fn(f32) -> f32) -> bool {
    match f {
        Unary::Affine { scale, .. } if scales(place) => {
            let old = *scale;
            *scale = new(old);
            *scale != old
        }
        _ => false,
    }
}

/// Puts another factor on what is looked up, where the architecture has none.
fn scale(embed: &mut Embed, place: &Place<'_>, factor: f64) -> bool {
    let bare = !is_scaled(place);
    if bare {
        embed.factor *= factor;
    }
    bare
}

/// The number in BF16.
fn bf16(x: f32) -> f32 {
    half::bf16::from_f32(x).to_f32()
}

/// Looks other rows up; whether one of them is another.
fn look_up(embed: &mut Embed, row: impl Fn(usize, &[i64]) -> i64) -> bool {
    let old = embed.rows.clone();
    embed.rows = (0..old.len()).map(|t| row(t, &old)).collect();
    embed.rows != old
}

/// Takes other positions; whether one of them is another.
fn stand(positions: &mut Positions, row: impl Fn(i64) -> i64) -> bool {
    let old = positions.rows.clone();
    positions.rows.iter_mut().for_each(|position| *position = row(*position));
    positions.rows != old
}

fn is_type(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Bias(_)) && place.weight().starts_with("token_types")
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "embedding-scaled",
        entry: "26",
        edits: &[Edit::Embed(|embed, place| scale(embed, place, (embed.table.cols as f64).sqrt()))],
        cause: "embeddings are multiplied with the root of the width (Gemma does that)",
        remedy: "only Gemma-like architectures scale their embeddings",
        source: "huggingface/transformers#29402",
        ..ROW
    },
    Fault {
        name: "embedding-scale-missing",
        entry: "26",
        edits: &[Edit::Embed(|embed, place| scale(embed, place, 1.0 / (embed.table.cols as f64).sqrt()))],
        cause: "embeddings are too small by the root of the width",
        remedy: "multiply embeddings with sqrt(width) where the architecture does",
        source: "huggingface/transformers#29402",
        ..ROW
    },
    Fault {
        name: "embedding-scale-left-out",
        entry: "26",
        edits: &[Edit::Unary(|f, place| rescale(f, place, |_| 1.0))],
        cause: "embeddings are not multiplied with the architecture's factor",
        remedy: "multiply with sqrt(width) (Gemma) or embedding_scale (Granite, MiniCPM)",
        source: "huggingface/transformers#29402",
        ..ROW
    },
    Fault {
        name: "embedding-scale-rounded",
        entry: "26",
        edits: &[Edit::Unary(|f, place| rescale(f, place, bf16))],
        cause: "the factor on embeddings is rounded to BF16: 55.5 instead of sqrt(3072) = 55.4256",
        remedy: "the model was trained so; engines that compare with llama.cpp keep the factor in f32",
        source: "huggingface/transformers#29402, google/gemma_pytorch#67",
        ..ROW
    },
    Fault {
        name: "embedding-scale",
        entry: "26",
        variants: &[0.1, 7.0],
        fit: Some(Fit {
            numbers: |place| {
                let width = place.graph.config.dim as f64;
                vec![width, 1.0 / width, 1.0 / width.sqrt(), width.sqrt()]
            },
            ..FACTORS
        }),
        edits: &[
            Edit::Unary(|f, place| {
                let Unary::Affine { scale, .. } = *f else { return false };
                let known = [1.0, scale, bf16(scale)].into_iter().any(|known| near(place.variant, known.into()));
                !known && rescale(f, place, |_| place.variant as f32)
            }),
            Edit::Embed(|embed, place| {
                let root = (embed.table.cols as f64).sqrt();
                let known = [1.0, root, 1.0 / root].into_iter().any(|known| near(place.variant, known));
                !known && scale(embed, place, place.variant)
            }),
        ],
        cause: "embeddings are multiplied with {}, which is not the architecture's factor",
        remedy: "the factor is sqrt(width) (Gemma), embedding_scale (Granite, MiniCPM), or 1",
        source: "huggingface/transformers#29402",
        ..ROW
    },
    Fault {
        name: "token-off-by-one",
        entry: "27",
        variants: &[1.0, -1.0],
        edits: &[Edit::Embed(|embed, place| look_up(embed, |t, rows| rows[t] + place.variant as i64))],
        cause: "the embedding of token id {} further on is taken",
        remedy: "token ids count from 0, as the rows of the table do",
        source: "a fault of lookups in general",
        ..ROW
    },
    Fault {
        name: "one-token-for-all",
        entry: "72",
        edits: &[Edit::Embed(|embed, _| look_up(embed, |_, rows| rows[0]))],
        cause: "every token takes the embedding of the first one",
        remedy: "look up each token of the prompt",
        source: "a fault of lookups in general",
        ..ROW
    },
    Fault {
        name: "token-of-neighbour",
        entry: "72",
        variants: &[-1.0, 1.0],
        edits: &[Edit::Embed(|embed, place| {
            look_up(embed, |t, rows| {
                let other = t.checked_add_signed(place.variant as isize);
                other.and_then(|other| rows.get(other)).copied().unwrap_or(rows[t])
            })
        })],
        cause: "each place takes the embedding of the token {} further on in the text",
        remedy: "row t of what goes in is token t; labels alone are shifted",
        source: "a fault of lookups in general",
        ..ROW
    },
    Fault {
        name: "padding-embedding-zero",
        entry: "27",
        edits: &[Edit::Embed(|embed, place| {
            let Ok(Some(padding)) = place.gguf.metadata().u32("tokenizer.ggml.padding_token_id") else { return false };
            look_up(embed, |t, rows| if rows[t] == i64::from(padding) { -1 } else { rows[t] })
        })],
        cause: "the padding token's row is zero, although the file has one for it",
        remedy: "a table made with padding_idx must still take the file's row: the padding token is often a real one (EOS, UNK)",
        source: "huggingface/transformers#15292",
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
    Fault {
        name: "learned-positions-missing",
        entry: "29",
        edits: &[Edit::Positions(|positions, _| stand(positions, |_| -1))],
        cause: "the learned positions are not added",
        remedy: "add row p of position_embd to the embedding of the token at position p",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "learned-positions-shifted",
        entry: "29",
        variants: &[1.0, 2.0, -1.0, -2.0],
        fit: Some(Fit { range: (1.0, 16.0), steps: Steps::Whole, numbers: |_| Vec::new() }),
        edits: &[Edit::Positions(|positions, place| stand(positions, |p| p + place.variant as i64))],
        cause: "learned positions are counted {} further on (OPT and RoBERTa count from 2)",
        remedy: "in a GGUF file row 0 is that of the first token: converters have cut off what comes before",
        source: "huggingface/transformers#5285, sbryngelson/ANEForge#257, EleutherAI/gpt-neox#650",
        ..ROW
    },
    Fault {
        name: "learned-positions-stand-still",
        entry: "29",
        edits: &[Edit::Positions(|positions, _| stand(positions, |_| 0))],
        cause: "every token has the learned position 0",
        remedy: "count positions along the text",
        source: "a fault of lookups in general",
        ..ROW
    },
    Fault {
        name: "learned-positions-begin-again",
        entry: "29",
        edits: &[Edit::Positions(|positions, place| {
            let prompt = place.tokens.prompt as i64;
            stand(positions, |p| if p >= prompt { p - prompt } else { p })
        })],
        cause: "learned positions begin again at 0 with the first decoded token",
        remedy: "a decoded token's position is the number of tokens before it, not its place in the call",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "learned-positions-zero-at-decode",
        entry: "29",
        edits: &[Edit::Positions(|positions, place| {
            let prompt = place.tokens.prompt as i64;
            stand(positions, |p| if p >= prompt { 0 } else { p })
        })],
        cause: "every decoded token has the learned position 0",
        remedy: "a decoded token's position is the number of tokens before it, not its place in the call",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "learned-positions-stop-at-the-prompt",
        entry: "29",
        edits: &[Edit::Positions(|positions, place| {
            let prompt = place.tokens.prompt as i64;
            stand(positions, |p| p.min(prompt - 1))
        })],
        cause: "every decoded token has the learned position of the prompt's last",
        remedy: "a decoded token's position is the number of tokens before it",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "learned-positions-shifted-at-decode",
        entry: "29",
        variants: &[1.0, -1.0],
        edits: &[Edit::Positions(|positions, place| {
            let prompt = place.tokens.prompt as i64;
            stand(positions, |p| if p >= prompt { p + place.variant as i64 } else { p })
        })],
        cause: "decoded tokens have learned positions {} further on",
        remedy: "the first decoded token's position is the prompt's length",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "token-type-missing",
        entry: "29",
        wants: is_type,
        edits: &[Edit::Weight(|w, _| {
            w.values.fill(0.0);
            true
        })],
        cause: "the row of the token type is not added",
        remedy: "add row 0 of token_types to every token of a single text",
        source: "lucidrains/x-transformers#213, visheratin/web-ai#12",
        ..ROW
    },
    Fault {
        name: "token-type-of-second-text",
        entry: "29",
        wants: is_type,
        edits: &[Edit::Weight(|w, place| match tensor(place, "token_types.weight") {
            Some(types) if types.rows > 1 => {
                w.values = types.row(1).to_vec();
                true
            }
            _ => false,
        })],
        cause: "every token has the type of a second text",
        remedy: "the tokens of a single text have type 0",
        source: "SKTBrain/KoBERT#59",
        ..ROW
    },
    Fault {
        name: "embedding-scale-missing-at-decode",
        entry: "26",
        wants: |place| scales(place) && matches!(place.node.kind, Kind::Unary(Unary::Affine { .. })),
        edits: &[Edit::Output(|out, inputs, place| {
            let factor = matches!(place.node.kind, Kind::Unary(Unary::Affine { .. }));
            left_at_decode(out, inputs, place, factor && scales(place))
        })],
        cause: "embeddings of the prompt are multiplied with the architecture's factor, those of decoded tokens are not",
        remedy: "the code of single tokens needs the factor as well as that of prompts",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "stale-token-at-decode",
        entry: "72",
        edits: &[Edit::Embed(|embed, place| {
            let first = place.tokens.prompt.max(1);
            look_up(embed, |t, rows| if t >= first { rows[t - 1] } else { rows[t] })
        })],
        cause: "each decoding step is given the token before the new one",
        remedy: "feed the token that was chosen last",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "tokens-looked-up-in-head",
        entry: "70",
        wants: is_embedding,
        edits: &[Edit::Weight(|w, place| match tensor(place, "output.weight") {
            Some(head) if head.values.len() == w.values.len() => {
                w.values = head.values;
                true
            }
            _ => false,
        })],
        cause: "tokens are looked up in the output matrix, although the file has an embedding of its own",
        remedy: "token_embd.weight is what goes in, output.weight what logits are made with",
        source: "a fault of name maps in general",
        ..ROW
    },
];
