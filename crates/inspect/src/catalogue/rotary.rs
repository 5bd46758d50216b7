//! Faults of positions and RoPE (section A4 of the catalogue).

use std::f64::consts::{FRAC_PI_2, PI};

use candor_gguf::half;
use candor_ops::{Mask, Pairing, Rope};

use super::{
    row::{FACTORS, ROW, UP_TO_TOKENS, any},
    weights::tensor,
};
use crate::fault::{Edit, Fault, Fit, Harm, Steps};
use crate::replay::{Matrix, Place, Side, Turn};
use crate::{Kind, Value};

fn rope<'a>(place: &'a Place<'_>) -> Option<&'a Rope> {
    match &place.node.kind {
        Kind::Rope { rope, .. } => Some(rope),
        _ => None,
    }
}

/// The rotations of a model, each with its layer.
fn ropes<'a>(place: &Place<'a>) -> impl Iterator<Item = (Option<usize>, &'a Rope, usize)> {
    place.graph.nodes.iter().filter_map(|node| match &node.kind {
        Kind::Rope { rope, head_dim } => Some((node.key.layer, rope, *head_dim)),
        _ => None,
    })
}

/// The rotation of other layers, where it is another than that of this one.
fn other_rope<'a>(place: &Place<'a>) -> Option<&'a Rope> {
    let Kind::Rope { rope, .. } = &place.node.kind else { return None };
    let other = |other: &Rope| other.frequencies != rope.frequencies && other.pairing == rope.pairing;
    ropes(place).map(|(_, rope, _)| rope).find(|rope| other(rope))
}

/// Whether the layer sees a window, or a chunk.
fn is_local(place: &Place<'_>) -> bool {
    place.graph.nodes.iter().any(|node| match &node.kind {
        Kind::SoftMax(attending) if node.key.layer == place.layer() => {
            !matches!(attending.mask, Mask::Causal | Mask::Whole)
        }
        _ => false,
    })
}

/// The base of a rotation that is not scaled.
fn base_of(rope: &Rope) -> Option<f64> {
    let second = rope.frequencies.get(1).filter(|&&frequency| frequency > 0.0)?;
    Some(second.powf(-(rope.frequencies.len() as f64)))
}

/// The base of the operation's rotation: local layers may have one of their own, and are not scaled.
fn base(place: &Place<'_>) -> f64 {
    let own = || other_rope(place).filter(|_| is_local(place)).and_then(|_| base_of(rope(place)?));
    own().unwrap_or(place.graph.rotary.base)
}

/// The bases that a model suggests, and common ones.
fn bases(place: &Place<'_>) -> Vec<f64> {
    let Some(_) = rope(place) else { return Vec::new() };
    let others = other_rope(place).filter(|_| !is_local(place)).and_then(base_of);
    [place.graph.rotary.base].into_iter().chain(others).collect()
}

/// The frequencies of YaRN, which keeps pairs that turn often within a context and slows those that turn seldom.
fn yarn(place: &Place<'_>, dims: usize, context: f64, whole: bool) -> Vec<f64> {
    let rotary = &place.graph.rotary;
    let pair_of = |turns: f64| dims as f64 * (context / (turns * 2.0 * PI)).ln() / (2.0 * rotary.base.ln());
    let (mut low, mut high) = (pair_of(rotary.betas.0), pair_of(rotary.betas.1));
    if whole {
        (low, high) = (low.floor(), high.ceil());
    }
    let (low, high) = (low.max(0.0), high.min(dims as f64 - 1.0));
    let frequency = |pair: usize| {
        let ramp = ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
        plain(rotary.base)(pair, dims) * (1.0 - ramp + ramp / rotary.factor)
    };
    (0..dims / 2).map(frequency).collect()
}

/// Whether the operation's rotation is scaled by YaRN.
fn is_yarn(place: &Place<'_>) -> bool {
    let rotary = &place.graph.rotary;
    rotary.scaling.as_deref() == Some("yarn")
        && rotary.factor > 1.0
        && !(is_local(place) && other_rope(place).is_some())
}

/// Whether the operation's rotation is slowed by the file's factor alone.
fn is_linear(place: &Place<'_>) -> bool {
    let factor = place.graph.rotary.factor;
    let first = rope(place).and_then(|rope| rope.frequencies.first());
    factor != 1.0 && first.is_some_and(|first| (first * factor - 1.0).abs() < 1e-6)
}

/// The bias of what the operation rotates.
fn rotated_bias(place: &Place<'_>) -> Option<Vec<f32>> {
    rope(place)?;
    match &place.graph.nodes[*place.node.inputs.first()?].kind {
        Kind::Bias(bias) => Some(Matrix::decode(bias).values),
        _ => None,
    }
}

/// A number rounded to half precision.
fn f16(x: f64) -> f64 {
    f64::from(half::f16_to_f32(half::f32_to_f16(x as f32)))
}

/// Turns pairs of `dims` elements of each head, at the head's end or its beginning.
fn turned(turn: &mut Turn, place: &Place<'_>, dims: usize, first: usize) -> bool {
    let Some(rope) = rope(place) else { return false };
    let (base, count) = (base(place), dims / 2);
    let same = count == rope.frequencies.len();
    let part = Rope { pairing: rope.pairing, frequencies: vec![0.0; count], magnitude: 1.0 };
    turn.pairs = (0..count)
        .map(|index| {
            let (i, j) = part.elements(index);
            let frequency = if same { rope.frequencies[index] } else { plain(base)(index, dims) };
            (i + first, j + first, frequency)
        })
        .collect();
    count > 0 && first + dims <= turn.head_dim
}

/// The rotation that the model has in other layers, or the usual one, and the width of a head; `None` where the layer has
/// one itself.
fn foreign(place: &Place<'_>) -> Option<(Rope, usize)> {
    let name = place.node.key.name.as_str();
    if !matches!(name.strip_prefix(crate::graph::ENCODER).unwrap_or(name), "Qcur" | "Kcur") || rope(place).is_some() {
        return None;
    }
    let (_, scores) = place.readers().find(|(_, node)| matches!(node.kind, Kind::Scores(_)))?;
    let Kind::Scores(heads) = scores.kind else { return None };
    if ropes(place).any(|(layer, ..)| layer == place.layer()) {
        return None;
    }
    let elsewhere = ropes(place).find(|(.., head_dim)| *head_dim == heads.key_dim).map(|(_, rope, _)| rope.clone());
    let usual = || {
        let frequencies = (0..heads.key_dim / 2).map(|pair| plain(1e4)(pair, heads.key_dim)).collect();
        let pairing = if place.variant == 0.0 { Pairing::Neox } else { Pairing::Norm };
        Rope { pairing, frequencies, magnitude: 1.0 }
    };
    match elsewhere {
        Some(_) if place.variant != 0.0 => None,
        found => Some((found.unwrap_or_else(usual), heads.key_dim)),
    }
}

/// The magnitude of the layer's rotation.
fn magnitude(place: &Place<'_>) -> f64 {
    ropes(place).find(|(layer, ..)| *layer == place.layer()).map_or(1.0, |(_, rope, _)| rope.magnitude)
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
pub(super) fn bf16(x: f64) -> f64 {
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
            let other = candor_ops::Rope { pairing: other, ..rope.clone() };
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
        fit: Some(UP_TO_TOKENS),
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
        fit: Some(Fit { range: (50.0, 1e13), steps: Steps::Factors, numbers: bases }),
        edits: &[Edit::Rope(|turn, place| {
            let base = base(place);
            if (base - place.variant).abs() < 1e-4 * base {
                return false;
            }
            // Scaling stays: every frequency changes by the ratio of the two bases' frequencies.
            let (right, wrong) = (plain(base), plain(place.variant));
            let old: Vec<f64> = turn.pairs.iter().map(|pair| pair.2).collect();
            frequencies(turn, |pair, dims| old[pair] * wrong(pair, dims) / right(pair, dims))
        })],
        cause: "RoPE's base is {}, not the file's",
        remedy: "read rope.freq_base",
        source: "ggml-org/llama.cpp#3090, karpathy/llama2.c#356, ollama/ollama#3565",
        ..ROW
    },
    Fault {
        name: "rope-base-without-scaling",
        entry: "35",
        variants: &[1e4, 5e5, 1e6],
        fit: Some(Fit { range: (50.0, 1e9), steps: Steps::Factors, numbers: |_| Vec::new() }),
        edits: &[Edit::Rope(|turn, place| {
            let (own, other) = (plain(base(place)), plain(place.variant));
            let dims = 2 * turn.pairs.len();
            let scaled = turn.pairs.iter().enumerate().any(|(i, pair)| (pair.2 / own(i, dims) - 1.0).abs() > 1e-6);
            let another = (place.variant / base(place) - 1.0).abs() > 1e-4;
            scaled && another && frequencies(turn, other)
        })],
        cause: "RoPE's base is {}, not the file's, and frequencies are not scaled (YaRN, LongRoPE, Llama 3)",
        remedy: "read rope.freq_base and rope.scaling",
        source: "ggml-org/llama.cpp#3090, ollama/ollama#3565",
        ..ROW
    },
    Fault {
        name: "rope-exponent",
        entry: "36",
        edits: &[Edit::Rope(|turn, place| {
            let base = base(place);
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
        fit: Some(Fit { numbers: |place| vec![1.0 / place.graph.rotary.factor, place.graph.rotary.factor], ..FACTORS }),
        edits: &[Edit::Rope(|turn, place| {
            turn.pairs.iter_mut().for_each(|pair| pair.2 /= place.variant);
            (place.variant - 1.0).abs() > 1e-4
        })],
        cause: "positions are divided by {} more than the file says: linear scaling is applied where it does not belong, or left out",
        remedy: "divide by rope.scaling.factor where rope.scaling.type is linear, and only there",
        source: "ggml-org/llama.cpp#2402",
        ..ROW
    },
    Fault {
        name: "rope-linear-ignored",
        entry: "37",
        edits: &[Edit::Rope(|turn, place| is_linear(place) && frequencies(turn, plain(base(place))))],
        cause: "positions are not divided by the file's factor, in the layers where they are to be",
        remedy: "divide by rope.scaling.factor where rope.scaling.type is linear; local layers of Gemma 3 are not scaled",
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
        name: "rope-factors-as-one",
        entry: "38",
        edits: &[Edit::Rope(|turn, place| {
            let Some(factors) = tensor(place, "rope_freqs.weight") else { return false };
            let most = factors.values.iter().copied().fold(1.0, f32::max);
            let plain = plain(place.graph.rotary.base);
            frequencies(turn, |pair, dims| plain(pair, dims) / f64::from(most))
        })],
        cause: "all frequencies are divided by Llama 3's factor, as in linear scaling",
        remedy: "divide the frequency of pair i by rope_freqs.weight[i]",
        source: "ggml-org/llama.cpp#8650",
        ..ROW
    },
    Fault {
        name: "rope-yarn-ignored",
        entry: "39",
        edits: &[Edit::Rope(|turn, place| {
            let yarn = is_yarn(place);
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
        cause: "the factor that YaRN or LongRoPE put on rotated queries and keys is raised to the power {}: missing, or applied twice",
        remedy: "multiply rotated queries and keys with it once",
        source: "1bit-MONSTER/1bit-MONSTER#1632",
        ..ROW
    },
    Fault {
        name: "rope-partial",
        entry: "40",
        edits: &[Edit::Rope(|turn, place| {
            let half = turn.pairs.len() / 2 * 2;
            // As many elements as pairs before.
            turned(turn, place, half, 0)
        })],
        cause: "only half of each head is rotated",
        remedy: "rotate rope.dimension_count elements of a head",
        source: "pie-project/pie#603, vllm-project/vllm#16912",
        ..ROW
    },
    Fault {
        name: "rope-head-dim-frequencies",
        entry: "40",
        variants: &[2.0, 4.0],
        fit: Some(Fit {
            numbers: |place| match &place.node.kind {
                Kind::Rope { rope, head_dim } => vec![*head_dim as f64 / (2 * rope.frequencies.len()) as f64],
                _ => Vec::new(),
            },
            // Any other number is another base.
            range: (1.0, 1.0),
            steps: Steps::Whole,
        }),
        edits: &[Edit::Rope(|turn, place| {
            let base = base(place);
            // Over as many elements as turn is right.
            place.variant > 1.0
                && frequencies(turn, |pair, dims| base.powf(-2.0 * pair as f64 / (place.variant * dims as f64)))
        })],
        cause: "RoPE's frequencies are spread over {} times as many elements as turn",
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
            let here = ropes(place).find(|(layer, ..)| *layer == place.layer());
            let Some((_, rope, head_dim)) = here.filter(|(.., head_dim)| out.width % head_dim == 0) else {
                return false;
            };
            *out = Turn::new(rope, head_dim, &place.tokens.positions(place.node.side)).run(out);
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
    Fault {
        name: "rope-global-base-in-local-layers",
        entry: "35",
        edits: &[Edit::Rope(|turn, place| {
            let Some(other) = other_rope(place).filter(|_| is_local(place)) else { return false };
            turn.magnitude = other.magnitude;
            other.frequencies.len() == turn.pairs.len() && frequencies(turn, |pair, _| other.frequencies[pair])
        })],
        cause: "layers with a window are rotated like those without: with the base of global layers",
        remedy: "read rope.freq_base_swa for layers with a window, and do not scale them",
        source: "antonellof/ferrox#39, google/gemma.cpp#986",
        ..ROW
    },
    Fault {
        name: "rope-local-base-in-global-layers",
        entry: "35",
        edits: &[Edit::Rope(|turn, place| {
            let Some(other) = other_rope(place).filter(|_| !is_local(place)) else { return false };
            turn.magnitude = other.magnitude;
            other.frequencies.len() == turn.pairs.len() && frequencies(turn, |pair, _| other.frequencies[pair])
        })],
        cause: "layers that see everything are rotated like those with a window: with the base of local layers",
        remedy: "rope.freq_base_swa is for layers with a window only",
        source: "lablup/mlxcel#1340, google/gemma.cpp#986",
        ..ROW
    },
    Fault {
        name: "rope-linear-factor-inverted",
        entry: "37",
        edits: &[Edit::Rope(|turn, place| {
            let factor = place.graph.rotary.factor;
            turn.pairs.iter_mut().for_each(|pair| pair.2 *= factor * factor);
            is_linear(place)
        })],
        cause: "positions are multiplied with the factor of linear scaling instead of divided by it",
        remedy: "divide positions by rope.scaling.factor: the context grows, and angles shrink",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "longrope-factors-ignored",
        entry: "38",
        edits: &[Edit::Rope(|turn, place| {
            place.gguf.tensor("rope_factors_short.weight").is_some()
                && frequencies(turn, plain(place.graph.rotary.base))
        })],
        cause: "the factors of LongRoPE (rope_factors_short.weight) are ignored",
        remedy: "divide the frequency of pair i by rope_factors_short.weight[i], beyond the original context by that of rope_factors_long",
        source: "ggml-org/llama.cpp#7225, mlc-ai/mlc-llm#3375",
        ..ROW
    },
    Fault {
        name: "longrope-long-for-short",
        entry: "38",
        edits: &[Edit::Rope(|turn, place| {
            let factors = ["short", "long"].map(|which| tensor(place, &format!("rope_factors_{which}.weight")));
            let [Some(short), Some(long)] = factors else { return false };
            let [short, long] = [short.values, long.values];
            if short.len() != turn.pairs.len() || long.len() != short.len() {
                return false;
            }
            let old: Vec<f64> = turn.pairs.iter().map(|pair| pair.2).collect();
            frequencies(turn, |pair, _| old[pair] * f64::from(short[pair]) / f64::from(long[pair]))
        })],
        cause: "LongRoPE's factors for long contexts are taken for a short one",
        remedy: "take rope_factors_long only where the context is longer than rope.scaling.original_context_length",
        source: "ggml-org/llama.cpp#24823",
        ..ROW
    },
    Fault {
        name: "rope-yarn-all-interpolated",
        entry: "39",
        variants: &[0.0, 1.0],
        edits: &[Edit::Rope(|turn, place| {
            let (rotary, keeps) = (&place.graph.rotary, place.variant == 0.0);
            turn.magnitude = if keeps { turn.magnitude } else { 1.0 };
            let slowed = |pair, dims| plain(rotary.base)(pair, dims) / rotary.factor;
            is_yarn(place) && (keeps || magnitude(place) != 1.0) && frequencies(turn, slowed)
        })],
        cause: "YaRN is taken for linear scaling: all frequencies are divided by its factor",
        remedy: "keep pairs that turn often within the original context, divide those that turn less than once by the factor",
        source: "apache/tvm#18576 (Peng et al. 2023, section 3.2)",
        ..ROW
    },
    Fault {
        name: "rope-yarn-ramp-not-rounded",
        entry: "39",
        edits: &[Edit::Rope(|turn, place| {
            let other =
                is_yarn(place).then(|| yarn(place, 2 * turn.pairs.len(), place.graph.rotary.original_context, false));
            other.is_some_and(|other| frequencies(turn, |pair, _| other[pair]))
        })],
        cause: "YaRN's ramp begins and ends between pairs, where the file's begins and ends at whole ones",
        remedy: "round the ramp's beginning down and its end up, unless rope.scaling.yarn_truncate is false",
        source: "keras-team/keras-hub#2981",
        ..ROW
    },
    Fault {
        name: "rope-yarn-ramp-rounded",
        entry: "39",
        edits: &[Edit::Rope(|turn, place| {
            let other =
                is_yarn(place).then(|| yarn(place, 2 * turn.pairs.len(), place.graph.rotary.original_context, true));
            other.is_some_and(|other| frequencies(turn, |pair, _| other[pair]))
        })],
        cause: "YaRN's ramp begins and ends at whole pairs, although the file says that it is not rounded",
        remedy: "where rope.scaling.yarn_truncate is false (gpt-oss), the ramp's ends are not rounded",
        source: "vllm-project/vllm#27722, apache/tvm#18576",
        ..ROW
    },
    Fault {
        name: "rope-yarn-ramp-inverted",
        entry: "39",
        edits: &[Edit::Rope(|turn, place| {
            let (base, factor) = (place.graph.rotary.base, place.graph.rotary.factor);
            let old: Vec<f64> = turn.pairs.iter().map(|pair| pair.2).collect();
            // The share that was slowed is kept, and what was kept is slowed.
            is_yarn(place) && frequencies(turn, |pair, dims| plain(base)(pair, dims) * (1.0 + 1.0 / factor) - old[pair])
        })],
        cause: "YaRN's ramp is upside down: pairs that turn often are divided by the factor, and slow ones kept",
        remedy: "the ramp is 0 for pairs that turn often within the original context, which are kept as they are",
        source: "Peng et al. 2023, section 3.2",
        ..ROW
    },
    Fault {
        name: "rope-factors-multiplied",
        entry: "38",
        edits: &[Edit::Rope(|turn, place| {
            let (old, plain) = (turn.pairs.iter().map(|pair| pair.2).collect::<Vec<f64>>(), plain(base(place)));
            let factors = turn.head_dim > 0 && !is_yarn(place) && !is_linear(place);
            factors && frequencies(turn, |pair, dims| plain(pair, dims).powi(2) / old[pair])
        })],
        cause: "frequencies are multiplied with the factors that they are to be divided by (rope_freqs, LongRoPE)",
        remedy: "divide each pair's frequency by its factor",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "rope-before-bias",
        entry: "34",
        edits: &[
            Edit::Inputs(|inputs, place| {
                let Some(bias) = rotated_bias(place) else { return false };
                let mut plain = (*inputs[0]).clone();
                let width = plain.width;
                plain.data.chunks_exact_mut(width).for_each(|row| row.iter_mut().zip(&bias).for_each(|(x, b)| *x -= b));
                inputs[0] = std::rc::Rc::new(plain);
                true
            }),
            Edit::Output(|out, _, place| {
                let Some(bias) = rotated_bias(place) else { return false };
                let width = out.width;
                out.data.chunks_exact_mut(width).for_each(|row| row.iter_mut().zip(&bias).for_each(|(x, b)| *x += b));
                true
            }),
        ],
        cause: "queries and keys are rotated first, and their biases added then",
        remedy: "add the biases of Q and K before RoPE",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "rope-yarn-context",
        entry: "39",
        variants: &[2048.0, 8192.0, 131_072.0],
        fit: Some(Fit { range: (8.0, 1e7), steps: Steps::Factors, numbers: |place| vec![place.graph.rotary.context] }),
        edits: &[Edit::Rope(|turn, place| {
            let rotary = &place.graph.rotary;
            let same = (place.variant / rotary.original_context - 1.0).abs() < 1e-3;
            if !is_yarn(place) || same {
                return false;
            }
            let dims = 2 * turn.pairs.len();
            let old: Vec<f64> = turn.pairs.iter().map(|pair| pair.2).collect();
            // Rounded where that is what gives the file's frequencies.
            let near = |other: &[f64]| other.iter().zip(&old).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs());
            let whole = near(&yarn(place, dims, rotary.original_context, true));
            let other = yarn(place, dims, place.variant, whole);
            frequencies(turn, |pair, _| other[pair])
        })],
        cause: "YaRN's ramp is made for an original context of {}, not the file's",
        remedy: "read rope.scaling.original_context_length; the context that the model can be run with is another number",
        source: "NVIDIA-NeMo/Speech#14686, NVIDIA/Megatron-LM#1418",
        ..ROW
    },
    Fault {
        name: "rope-yarn-magnitude-on-scores",
        entry: "39",
        variants: &[2.0, 1.0],
        edits: &[
            Edit::Rope(|turn, _| std::mem::replace(&mut turn.magnitude, 1.0) != 1.0),
            Edit::SoftMax(|plan, place| {
                let magnitude = magnitude(place);
                plan.scale *= magnitude.powf(place.variant);
                magnitude != 1.0
            }),
        ],
        cause: "YaRN's attention factor is not on queries and keys; to the power {} it is on the scores",
        remedy: "put its square on the scores, or the factor on both queries and keys",
        source: "guoqingbao/xinfer#329",
        ..ROW
    },
    Fault {
        name: "rope-whole-head",
        entry: "40",
        edits: &[Edit::Rope(|turn, place| {
            let head = turn.head_dim;
            head > 2 * turn.pairs.len() && turned(turn, place, head / 2 * 2, 0)
        })],
        cause: "all of each head is rotated, although only a part of it should be",
        remedy: "rotate rope.dimension_count elements of a head (partial_rotary_factor)",
        source: "AI-Hypercomputer/maxtext#4616, labscommunity/cascadia#69",
        ..ROW
    },
    Fault {
        name: "rope-last-part",
        entry: "40",
        edits: &[Edit::Rope(|turn, place| {
            let dims = 2 * turn.pairs.len();
            turn.head_dim > dims && turned(turn, place, dims, turn.head_dim - dims)
        })],
        cause: "the last part of each head is rotated instead of the first",
        remedy: "the first rope.dimension_count elements of a head turn, the rest stays",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-where-there-is-none",
        entry: "41",
        variants: &[0.0, 1.0],
        edits: &[Edit::Output(|out, _, place| {
            let Some((rope, head_dim)) = foreign(place) else { return false };
            if out.width % head_dim != 0 || 2 * rope.frequencies.len() > head_dim {
                return false;
            }
            *out = Turn::new(&rope, head_dim, &place.tokens.positions(place.node.side)).run(out);
            true
        })],
        cause: "queries and keys are rotated in a layer that has no rotary positions",
        remedy: "rotate only where the architecture does: some layers (NoPE) or whole models have no rotation",
        source: "airockchip/rknn-llm#501, huggingface/transformers#43756",
        ..ROW
    },
    Fault {
        name: "rope-queries-backwards",
        entry: "34",
        edits: &[Edit::Rope(|turn, place| {
            let hit = place.name() == "Qcur";
            if hit {
                turn.pairs.iter_mut().for_each(|pair| pair.2 = -pair.2);
            }
            hit
        })],
        cause: "queries are turned the other way round than keys",
        remedy: "rotate queries and keys alike",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-sine-and-cosine-exchanged",
        entry: "34",
        edits: &[Edit::Rope(|turn, _| {
            turn.angle = |angle| FRAC_PI_2 - angle;
            true
        })],
        cause: "sine and cosine are exchanged",
        remedy: "(a, b) becomes (a cos - b sin, a sin + b cos)",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-by-head-index",
        entry: "32",
        edits: &[Edit::Rope(|turn, place| {
            turn.by_head = true;
            place.rows() > 1
        })],
        cause: "heads are rotated by their own index instead of their token's position: tokens and heads are exchanged",
        remedy: "know which axis is the token's: [tokens, heads, dim] before the transpose, [heads, tokens, dim] after it",
        source: "mlfoundations/open_lm#4, vukrosic/leo-optimizer#2",
        ..ROW
    },
    Fault {
        name: "rope-decode-stands-still",
        entry: "33",
        variants: &[0.0, -1.0],
        edits: &[Edit::Rope(|turn, place| {
            let prompt = place.tokens.prompt;
            let stands = prompt as f64 + place.variant;
            moved(turn, |t, position| if t >= prompt { stands } else { position })
        })],
        cause: "all decoded tokens are rotated by the same position, at the prompt's end",
        remedy: "count on with each decoded token",
        source: "jundot/omlx#2363",
        ..ROW
    },
    Fault {
        name: "rope-bf16-frequencies",
        entry: "42",
        edits: &[Edit::Rope(|turn, _| {
            let old: Vec<f64> = turn.pairs.iter().map(|pair| pair.2).collect();
            frequencies(turn, |pair, _| bf16(old[pair]))
        })],
        cause: "RoPE's frequencies are rounded to bfloat16",
        remedy: "keep inv_freq in f32: loading a model in half precision must not convert it",
        source: "huggingface/transformers#25681, sgl-project/sglang-jax#1472",
        ..ROW
    },
    Fault {
        name: "rope-f16-angles",
        entry: "42",
        variants: &[0.0, 1.0],
        edits: &[Edit::Rope(|turn, place| {
            turn.pairs.iter_mut().for_each(|pair| pair.2 = f16(pair.2));
            (turn.angle, turn.store) = (f16, if place.variant == 0.0 { f16 } else { |x| x });
            true
        })],
        cause: "angles are computed in F16",
        remedy: "compute positions times frequencies in f32 at least",
        source: "EleutherAI/gpt-neox#1003, huggingface/transformers#27179",
        ..ROW
    },
    Fault {
        name: "rope-half-not-negated",
        entry: "34",
        edits: &[Edit::Rope(|turn, _| {
            turn.negated = 1.0;
            true
        })],
        cause: "the halves of a head are exchanged without the minus of one of them: a cos + b sin stands beside b cos + a sin",
        remedy: "(a, b) becomes (a cos - b sin, a sin + b cos)",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-first-head-alone",
        entry: "40",
        wants: |place| rope(place).is_some(),
        edits: &[Edit::Output(|out, inputs, place| {
            let Kind::Rope { head_dim, .. } = place.node.kind else { return false };
            let width = out.width;
            for (row, old) in out.data.chunks_exact_mut(width).zip(inputs[0].data.chunks_exact(width)) {
                row[head_dim..].copy_from_slice(&old[head_dim..]);
            }
            width > head_dim
        })],
        cause: "the first elements of a row are rotated, not those of each of its heads",
        remedy: "cut the row into heads first: each head is rotated",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "rope-scaling-missing-at-decode",
        entry: "37",
        wants: |place| rope(place).is_some(),
        edits: &[Edit::Output(|out, inputs, place| {
            let Kind::Rope { rope, head_dim } = &place.node.kind else { return false };
            let dims = 2 * rope.frequencies.len();
            let usual: Vec<f64> = (0..rope.frequencies.len()).map(|pair| plain(base(place))(pair, dims)).collect();
            let same = usual.iter().zip(&rope.frequencies).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs());
            let (first, width) = (place.tokens.prompt, out.width);
            if same && rope.magnitude == 1.0 || place.node.side != Side::Tokens || first == 0 || first >= out.rows {
                return false;
            }
            let bare = Rope { frequencies: usual, magnitude: 1.0, pairing: rope.pairing };
            let other = Turn::new(&bare, *head_dim, &place.tokens.positions(Side::Tokens)).run(&inputs[0]);
            out.data[first * width..].copy_from_slice(&other.data[first * width..]);
            true
        })],
        cause: "decoded tokens are rotated by frequencies that nothing has scaled, the prompt by scaled ones",
        remedy: "scale the frequencies once, and use them for prompts and single tokens alike",
        source: "a fault of rotations in general",
        ..ROW
    },
    Fault {
        name: "positions-restart-per-batch",
        entry: "33",
        variants: &[2.0, 4.0, 8.0, 32.0, 512.0],
        fit: Some(UP_TO_TOKENS),
        edits: &[
            Edit::Rope(|turn, place| {
                let (size, prompt) = (place.variant.max(1.0), place.tokens.prompt);
                moved(turn, |t, position| if t < prompt { position % size } else { position })
            }),
            Edit::Positions(|positions, place| {
                let (size, prompt) = ((place.variant as i64).max(1), place.tokens.prompt);
                let old = positions.rows.clone();
                positions.rows.iter_mut().take(prompt).for_each(|position| *position %= size);
                old != positions.rows
            }),
        ],
        cause: "the prompt is computed in batches of {}, and positions begin again at 0 with each of them",
        remedy: "a token's position is the number of tokens before it, those of earlier batches too",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "rope-yarn-ramp-over-elements",
        entry: "39",
        edits: &[Edit::Rope(|turn, place| {
            let (rotary, pairs) = (&place.graph.rotary, turn.pairs.len());
            if !is_yarn(place) || pairs < 2 {
                return false;
            }
            let old: Vec<f64> = turn.pairs.iter().map(|pair| pair.2).collect();
            let slowed: Vec<f64> = (0..pairs).map(|pair| old[pair] / plain(rotary.base)(pair, 2 * pairs)).collect();
            frequencies(turn, |pair, dims| plain(rotary.base)(pair, dims) * slowed[(2 * pair).min(pairs - 1)])
        })],
        cause: "YaRN's ramp counts elements of a head in place of pairs: it ends after half as many",
        remedy: "the ramp runs over pairs, from 0 to half of rope.dimension_count",
        source: "Peng et al. 2023, section 3.2",
        ..ROW
    },
];
