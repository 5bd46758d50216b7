//! Faults of positions and RoPE (section A4 of the catalogue).

use candor::ops::Pairing;

use super::{ROW, any};
use crate::fault::{Edit, Fault, Harm};
use crate::replay::{Place, Turn};
use crate::{Kind, Value};

fn rope<'a>(place: &'a Place<'_>) -> Option<&'a candor::ops::Rope> {
    match &place.node.kind {
        Kind::Rope { rope, .. } => Some(rope),
        _ => None,
    }
}

/// Gives every pair another frequency, from its index and the number of elements that turn.
fn frequencies(turn: &mut Turn, frequency: impl Fn(usize, usize) -> f64) -> bool {
    let dims = turn.pairs.len() * 2;
    let mut changed = false;
    for (index, pair) in turn.pairs.iter_mut().enumerate() {
        let new = frequency(index, dims);
        changed |= (new - pair.2).abs() > 1e-9 * pair.2.abs();
        pair.2 = new;
    }
    changed
}

fn plain(base: f64) -> impl Fn(usize, usize) -> f64 {
    move |pair, dims| base.powf(-2.0 * pair as f64 / dims as f64)
}

/// A number rounded to bfloat16.
fn bf16(x: f64) -> f64 {
    let bits = (x as f32).to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
    f64::from(f32::from_bits(rounded))
}

/// Gives every token another position.
fn moved(turn: &mut Turn, to: impl Fn(usize, f64) -> f64) -> bool {
    let old = turn.positions.clone();
    for (t, position) in turn.positions.iter_mut().enumerate() {
        *position = to(t, *position);
    }
    old != turn.positions
}

fn give_back(out: &mut Value, inputs: &[std::rc::Rc<Value>], place: &Place<'_>, name: &str) -> bool {
    let hit = place.name() == name && rope(place).is_some();
    if hit {
        out.clone_from(&inputs[0]);
    }
    hit
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "rope-other-pairing",
        entry: "29",
        edits: &[Edit::Rope(|turn, place| {
            let Some(rope) = rope(place) else { return false };
            let other = match rope.pairing {
                Pairing::Norm => Pairing::Neox,
                Pairing::Neox => Pairing::Norm,
            };
            let other = candor::ops::Rope { pairing: other, ..rope.clone() };
            for (index, pair) in turn.pairs.iter_mut().enumerate() {
                (pair.0, pair.1) = other.elements(index);
            }
            true
        })],
        cause: "RoPE pairs the wrong elements: halves (i, i + d/2) and neighbours (2i, 2i + 1) are exchanged",
        remedy: "GGUF files of architecture llama rotate neighbours, most others (qwen, phi, gemma, HF checkpoints) halves",
        source: "huggingface/candle#3410, jzhang38/TinyLlama#24, karpathy/llama2.c#286",
        ..ROW
    },
    Fault {
        name: "rope-overlapping-pairs",
        entry: "30",
        edits: &[Edit::Rope(|turn, _| {
            for (index, pair) in turn.pairs.iter_mut().enumerate() {
                (pair.0, pair.1) = (index, index + 1);
            }
            turn.pairs.len() > 1
        })],
        cause: "RoPE rotates the overlapping pairs (0, 1), (1, 2), (2, 3)",
        remedy: "every element belongs to one pair",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "rope-missing",
        entry: "31",
        edits: &[Edit::Output(|out, inputs, place| {
            let hit = rope(place).is_some();
            if hit {
                out.clone_from(&inputs[0]);
            }
            hit
        })],
        cause: "RoPE is not applied",
        remedy: "rotate queries and keys by their positions",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "rope-position-zero",
        entry: "31",
        edits: &[Edit::Rope(|turn, _| moved(turn, |_, _| 0.0))],
        cause: "every token is rotated as if it stood at position 0",
        remedy: "pass each token's position, not that of the call",
        source: "the RusTorch and wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "rope-position-offset",
        entry: "32",
        variants: &[1.0, -1.0, 2.0],
        edits: &[Edit::Rope(|turn, place| {
            let variant = place.variant;
            moved(turn, |_, position| position + variant)
        })],
        harm: Harm::Harmless,
        cause: "all positions are {} further on; scores depend on differences of positions only",
        remedy: "nothing needs to change, unless a cache mixes both ways of counting",
        source: "measured: the same logits to rounding",
        ..ROW
    },
    Fault {
        name: "rope-decode-restarts",
        entry: "33",
        edits: &[Edit::Rope(|turn, place| {
            let prompt = place.tokens.prompt;
            moved(turn, |t, position| if t >= prompt { (t - prompt) as f64 } else { position })
        })],
        cause: "positions begin anew at 0 with the first decoded token",
        remedy: "a decoded token stands after all tokens before it",
        source: "nobodywho-ooo/nobodywho#83",
        ..ROW
    },
    Fault {
        name: "rope-decode-off-by-one",
        entry: "33",
        variants: &[1.0, -1.0],
        edits: &[Edit::Rope(|turn, place| {
            let (prompt, variant) = (place.tokens.prompt, place.variant);
            moved(turn, |t, position| if t >= prompt { position + variant } else { position })
        })],
        cause: "decoded tokens are rotated {} positions off, the prompt is right",
        remedy: "the first decoded token's position is the length of the prompt",
        source: "utensils/mold#1690",
        ..ROW
    },
    Fault {
        name: "rope-decode-position-zero",
        entry: "31, 33",
        edits: &[Edit::Rope(|turn, place| {
            let prompt = place.tokens.prompt;
            moved(turn, |t, position| if t >= prompt { 0.0 } else { position })
        })],
        cause: "every decoded token is rotated as if it stood at position 0; the prompt is right",
        remedy: "count positions on from the prompt's length",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "rope-one-position-per-call",
        entry: "31",
        edits: &[Edit::Rope(|turn, place| {
            let prompt = place.tokens.prompt;
            let last = prompt.saturating_sub(1) as f64;
            moved(turn, |t, position| if t < prompt { last } else { position })
        })],
        cause: "all tokens of the prompt are rotated by the position of its last one",
        remedy: "rotate each row by its own position",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "rope-sign",
        entry: "34",
        edits: &[Edit::Rope(|turn, _| {
            turn.pairs.iter_mut().for_each(|pair| pair.2 = -pair.2);
            true
        })],
        cause: "RoPE turns the wrong way round",
        remedy: "(a, b) becomes (a cos - b sin, a sin + b cos)",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-base",
        entry: "35",
        variants: &[1e4, 2.5e4, 1e5, 5e5, 1e6, 1e3, 8e6],
        edits: &[Edit::Rope(|turn, place| {
            let rotary = &place.graph.rotary;
            if (rotary.base - place.variant).abs() < 1.0 {
                return false;
            }
            // Scaling stays: every frequency changes by the ratio of the two bases' frequencies.
            let (right, wrong) = (plain(rotary.base), plain(place.variant));
            let old: Vec<f64> = turn.pairs.iter().map(|pair| pair.2).collect();
            frequencies(turn, |pair, dims| old[pair] * wrong(pair, dims) / right(pair, dims))
        })],
        cause: "RoPE's base is {}, not the file's",
        remedy: "read rope.freq_base",
        source: "ggml-org/llama.cpp#3090, karpathy/llama2.c#356, ollama/ollama#3565",
        ..ROW
    },
    Fault {
        name: "rope-exponent",
        entry: "36",
        edits: &[Edit::Rope(|turn, place| {
            let base = place.graph.rotary.base;
            frequencies(turn, |pair, dims| base.powf(-(pair as f64) / dims as f64))
        })],
        cause: "the exponent of RoPE's frequencies is i/d instead of 2i/d",
        remedy: "pair i turns by base^(-2i/d)",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-linear-scaling",
        entry: "37",
        variants: &[2.0, 4.0, 8.0, 0.5, 0.25],
        edits: &[Edit::Rope(|turn, place| {
            turn.pairs.iter_mut().for_each(|pair| pair.2 /= place.variant);
            true
        })],
        cause: "positions are divided by {} more than the file says: linear scaling is applied where it does not belong, or left out",
        remedy: "divide by rope.scaling.factor where rope.scaling.type is linear, and only there",
        source: "ggml-org/llama.cpp#2402",
        ..ROW
    },
    Fault {
        name: "rope-factors-ignored",
        entry: "38",
        edits: &[Edit::Rope(|turn, place| {
            place.gguf.tensor("rope_freqs.weight").is_some() && frequencies(turn, plain(place.graph.rotary.base))
        })],
        cause: "rope_freqs.weight (Llama 3's scaling) is ignored",
        remedy: "divide the frequency of pair i by rope_freqs.weight[i]",
        source: "ggml-org/llama.cpp#8650, jmaczan/tiny-vllm#1",
        ..ROW
    },
    Fault {
        name: "rope-yarn-ignored",
        entry: "39",
        edits: &[Edit::Rope(|turn, place| {
            let yarn = place.graph.rotary.scaling.as_deref() == Some("yarn");
            turn.magnitude = if yarn { 1.0 } else { turn.magnitude };
            yarn && frequencies(turn, plain(place.graph.rotary.base))
        })],
        cause: "YaRN scaling is ignored",
        remedy: "interpolate slow pairs by the factor, keep fast ones, and scale by the attention factor",
        source: "ggml-org/llama.cpp#18006",
        ..ROW
    },
    Fault {
        name: "rope-yarn-magnitude",
        entry: "39",
        variants: &[0.0, 2.0],
        edits: &[Edit::Rope(|turn, place| {
            let scaled = (turn.magnitude - 1.0).abs() > 1e-9;
            turn.magnitude = turn.magnitude.powf(place.variant);
            scaled
        })],
        cause: "YaRN's attention factor is raised to the power {}: missing, or applied twice",
        remedy: "multiply rotated queries and keys with it once",
        source: "1bit-MONSTER/1bit-MONSTER#1632",
        ..ROW
    },
    Fault {
        name: "rope-partial",
        entry: "40",
        edits: &[Edit::Rope(|turn, place| {
            let half = turn.pairs.len() / 2;
            let Some(rope) = rope(place) else { return false };
            let pairing = rope.pairing;
            let part = candor::ops::Rope { pairing, frequencies: vec![0.0; half], magnitude: 1.0 };
            let base = place.graph.rotary.base;
            turn.pairs = (0..half)
                .map(|index| {
                    let (i, j) = part.elements(index);
                    (i, j, base.powf(-2.0 * index as f64 / (2 * half) as f64))
                })
                .collect();
            half > 0
        })],
        cause: "only half of each head is rotated",
        remedy: "rotate rope.dimension_count elements of a head",
        source: "pie-project/pie#603, vllm-project/vllm#16912",
        ..ROW
    },
    Fault {
        name: "rope-head-dim-frequencies",
        entry: "40",
        edits: &[Edit::Rope(|turn, place| {
            let base = place.graph.rotary.base;
            let count = turn.pairs.len() as f64 * 4.0;
            frequencies(turn, |pair, _| base.powf(-2.0 * pair as f64 / count))
        })],
        cause: "RoPE's frequencies are spread over twice as many elements as turn",
        remedy: "the exponent is 2i over rope.dimension_count",
        source: "ml-explore/mlx-lm#1698",
        ..ROW
    },
    Fault {
        name: "rope-keys-unrotated",
        entry: "41",
        edits: &[Edit::Output(|out, inputs, place| give_back(out, inputs, place, "Kcur"))],
        cause: "queries are rotated, keys are not",
        remedy: "rotate both",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-queries-unrotated",
        entry: "41",
        edits: &[Edit::Output(|out, inputs, place| give_back(out, inputs, place, "Qcur"))],
        cause: "keys are rotated, queries are not",
        remedy: "rotate both",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-on-values",
        entry: "41",
        wants: any,
        edits: &[Edit::Output(|out, _, place| {
            if place.node.key.name != "Vcur" {
                return false;
            }
            let keys = place.sibling("Kcur").map(|id| &place.graph.nodes[id].kind);
            let Some(Kind::Rope { rope, head_dim }) = keys else { return false };
            for (t, row) in out.data.chunks_exact_mut(out.width).enumerate() {
                for head in row.chunks_exact_mut(*head_dim) {
                    for pair in 0..rope.frequencies.len() {
                        let (cos, sin) = rope.turn(pair, place.tokens.positions[t]);
                        let (i, j) = rope.elements(pair);
                        let (a, b) = (f64::from(head[i]), f64::from(head[j]));
                        head[i] = (a * cos - b * sin) as f32;
                        head[j] = (a * sin + b * cos) as f32;
                    }
                }
            }
            true
        })],
        cause: "values are rotated too",
        remedy: "rotate queries and keys only",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-bf16-angles",
        entry: "42",
        edits: &[Edit::Rope(|turn, _| {
            turn.angle = bf16;
            true
        })],
        cause: "angles are rounded to bfloat16",
        remedy: "compute positions times frequencies in f32 at least",
        source: "huggingface/transformers#27179",
        ..ROW
    },
    Fault {
        name: "rope-degrees",
        entry: "34",
        edits: &[Edit::Rope(|turn, _| {
            turn.angle = f64::to_radians;
            true
        })],
        cause: "angles are taken as degrees",
        remedy: "sine and cosine take radians",
        source: "a fault of rotations in general",
        ..ROW
    },
];
