//! Faults of the KV cache: what is written where, and what is read (section A5 of the catalogue).

use candor_ops::Mask;

use super::{
    row::{FACTORS, ROW, UP_TO_TOKENS},
    seen::{attending, decodes, mask, seeing, windows},
    values::near,
};
use crate::fault::{Edit, Fault, Fit, Steps};
use crate::replay::{Place, Scores, Side, Source, Turn};
use crate::{Kind, Node};

/// Reads of the cache are redirected alike for keys and values.
macro_rules! cache {
    ($source:expr) => {
        &[
            Edit::Scores(|plan, place| {
                let source: Option<Source> = $source(place);
                source.map(|source| plan.source = source).is_some()
            }),
            Edit::Mix(|plan, place| {
                let source: Option<Source> = $source(place);
                source.map(|source| plan.source = source).is_some()
            }),
        ]
    };
}

/// Whether two tokens were computed in one batch of `size`.
fn same_batch(size: usize) -> impl Fn(usize, usize) -> bool {
    move |t, p| t / size == p / size
}

/// The cache whose first slots decoded tokens overwrite; slots past the prompt stay empty.
fn restarted(place: &Place<'_>) -> Source {
    let prompt = place.tokens.prompt;
    Box::new(move |t, p| match p {
        p if t < prompt => Some(p),
        p if p + prompt <= t => Some(prompt + p),
        p if p < prompt => Some(p),
        _ => None,
    })
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "kv-written-one-late",
        entry: "59",
        // Decoded tokens go to the slot after their own, and read what lies there.
        edits: cache!(|place: &Place<'_>| {
            let prompt = place.tokens.prompt;
            let source: Source = Box::new(move |t, p| match p {
                p if t < prompt || p < prompt => Some(p),
                p if p == prompt => None,
                p => Some(p - 1),
            });
            decodes(place).then_some(source)
        }),
        cause: "decoded keys and values are written one slot too far: a slot of zeros is read, the newest token is not",
        remedy: "write at the token's position, then attend over positions 0..=position",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "kv-written-one-early",
        entry: "59",
        edits: cache!(|place: &Place<'_>| {
            let prompt = place.tokens.prompt;
            // Each decoded token overwrites the one before it; its own slot is still empty.
            let source: Source = Box::new(move |t, p| match p {
                p if t < prompt || p + 1 < prompt => Some(p),
                p if p < t => Some(p + 1),
                _ => None,
            });
            decodes(place).then_some(source)
        }),
        cause: "decoded keys and values are written one slot too early, over the token before",
        remedy: "write at the token's position, then attend over positions 0..=position",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "kv-decode-restarts",
        entry: "59",
        variants: &[0.0, 1.0],
        edits: &[
            Edit::Scores(|plan, place| {
                plan.source = restarted(place);
                decodes(place)
            }),
            Edit::Mix(|plan, place| {
                plan.source = restarted(place);
                decodes(place)
            }),
            Edit::SoftMax(|plan, place| {
                let (prompt, rest) = (place.tokens.prompt, place.variant == 0.0);
                // A slot is as far away as the token that was written to it; what lies behind the prompt may be read or not.
                seeing(plan, move |seen, t, p| match (t < prompt, p < prompt) {
                    (true, _) => seen(t, p),
                    (false, true) => seen(t, if p + prompt <= t { p + prompt } else { p }),
                    (false, false) => rest && seen(t, p),
                });
                decodes(place)
            }),
        ],
        cause: "decoded keys and values overwrite the cache from slot 0 on",
        remedy: "the first decoded token goes behind the prompt",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "kv-gap-after-prompt",
        entry: "59",
        variants: &[1.0, 2.0],
        fit: Some(UP_TO_TOKENS),
        edits: &[Edit::SoftMax(|plan, place| {
            let (prompt, slots) = (place.tokens.prompt, place.variant as usize);
            plan.empty = Box::new(move |t| if t >= prompt { slots } else { 0 });
            decodes(place)
        })],
        cause: "{} slots of zeros lie in the cache between the prompt and decoded tokens, and are read",
        remedy: "the first decoded token goes right behind the prompt",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "kv-prompt-end-twice",
        entry: "59",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            // Twice the same key and value count twice.
            let bias = std::mem::replace(&mut plan.bias, Box::new(|_, _, _| 0.0));
            plan.bias = Box::new(move |h, t, p| {
                let twice = t >= prompt && p + 1 == prompt;
                bias(h, t, p) + if twice { std::f64::consts::LN_2 } else { 0.0 }
            });
            decodes(place)
        })],
        cause: "keys and values of the prompt's last token are in the cache twice",
        remedy: "feed the last token of the prompt once: the next one fed is the first that was decoded",
        source: "ggml-org/llama.cpp#7859",
        ..ROW
    },
    Fault {
        name: "kv-prompt-end-lost",
        entry: "59",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            seeing(plan, move |seen, t, p| seen(t, p) && (t < prompt || p + 1 != prompt));
            decodes(place)
        })],
        cause: "keys and values of the prompt's last token are not in the cache",
        remedy: "store keys and values of all tokens of the prompt",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "kv-newest-not-seen",
        entry: "59",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            seeing(plan, move |seen, t, p| seen(t, p) && (t < prompt || p != t));
            decodes(place)
        })],
        cause: "a decoded token does not see itself: attention runs before its key and value are stored",
        remedy: "write a token's key and value first, then attend over positions 0..=position",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "kv-written-over-the-last",
        entry: "59",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            seeing(plan, move |seen, t, p| seen(t, p) && (t < prompt || p + 1 < prompt || p == t));
            decodes(place)
        })],
        cause: "each decoded token's key and value are written over those of the token before: the cache does not grow",
        remedy: "write at the token's position, then attend over positions 0..=position",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "kv-trimmed-to-window",
        entry: "57",
        edits: &[Edit::SoftMax(|plan, place| {
            let Some((_, window)) = windows(place).next() else { return false };
            let prompt = place.tokens.prompt;
            seeing(plan, move |seen, t, p| seen(t, p) && (t < prompt || p + window > t));
            decodes(place) && mask(place) == Mask::Causal && window < place.tokens.ids.len()
        })],
        cause: "decoded tokens see no more than the window of other layers in layers that see everything",
        remedy: "trim the cache in layers with a window alone",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "kv-keys-not-written",
        entry: "59",
        edits: &[Edit::Scores(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.source = Box::new(move |t, p| Some(p).filter(|&p| t < prompt || p < prompt));
            decodes(place)
        })],
        cause: "keys of decoded tokens are zeros in the cache, values are not",
        remedy: "write both keys and values of each decoded token",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "kv-values-not-written",
        entry: "59",
        edits: &[Edit::Mix(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.source = Box::new(move |t, p| Some(p).filter(|&p| t < prompt || p < prompt));
            decodes(place)
        })],
        cause: "values of decoded tokens are zeros in the cache, keys are not",
        remedy: "write both keys and values of each decoded token",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "kv-values-one-late",
        entry: "59",
        variants: &[1.0, -1.0],
        edits: &[Edit::Mix(|plan, place| {
            let (prompt, by) = (place.tokens.prompt, place.variant as isize);
            // The first and the last stand for what lies beyond them.
            plan.source = Box::new(move |t, p| {
                let moved = if t < prompt { p as isize } else { (p as isize - by).clamp(0, t as isize) };
                Some(moved as usize)
            });
            decodes(place)
        })],
        cause: "values are read {} positions late when a token is decoded, keys rightly",
        remedy: "weight p belongs to the value of position p",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "kv-keys-unrotated",
        entry: "41, 59",
        variants: &[0.0, 1.0],
        edits: &[Edit::Output(|out, inputs, place| {
            let Kind::Scores(heads) = place.node.kind else { return false };
            let Some(rope) = place.node.inputs.get(1).map(|&id| &place.graph.nodes[id].kind) else { return false };
            let Kind::Rope { rope, head_dim } = rope else { return false };
            let mut back = Turn::new(rope, *head_dim, &place.tokens.positions(Side::Tokens));
            back.pairs.iter_mut().for_each(|pair| pair.2 = -pair.2);
            // What turns is stretched by the magnitude, too.
            back.magnitude = 1.0 / rope.magnitude;
            let scores = Scores::new(heads).run(&inputs[0], &back.run(&inputs[1]));
            let prompt = place.tokens.prompt;
            if !decodes(place) || scores.data.len() != out.data.len() {
                return false;
            }
            let (width, keys) = (out.width, inputs[1].rows.max(1));
            for (at, (score, unrotated)) in out.data.iter_mut().zip(&scores.data).enumerate() {
                // A token's own key may go round the cache.
                let own = at % width % keys == at / width && place.variant == 1.0;
                if at / width >= prompt && !own {
                    *score = *unrotated;
                }
            }
            true
        })],
        cause: "the cache keeps keys as they were before RoPE, and decoded tokens read them so (1: all but their own)",
        remedy: "store rotated keys, or rotate all of them whenever they are read",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "kv-keys-in-few-bits",
        entry: "59",
        variants: &[4.0, 8.0],
        wants: |place| matches!(place.node.kind, Kind::Scores(_)),
        edits: &[Edit::Output(|out, inputs, place| {
            let Kind::Scores(heads) = place.node.kind else { return false };
            let steps = (place.variant - 1.0).exp2() as f32 - 1.0;
            let mut keys = (*inputs[1]).clone();
            for head in keys.data.chunks_mut(heads.key_dim.max(1)) {
                let largest = head.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                let scale = largest / steps;
                head.iter_mut().filter(|_| scale > 0.0).for_each(|x| *x = (*x / scale).round() * scale);
            }
            let scores = Scores::new(heads).run(&inputs[0], &keys);
            let same = scores.data.len() == out.data.len();
            if same {
                *out = scores;
            }
            same
        })],
        cause: "keys are kept with {} bits a number, and one scale for each head of a token",
        remedy: "keep keys in f16, or in blocks of 32 numbers with a scale each",
        source: "ggml-org/llama.cpp#5932",
        ..ROW
    },
    Fault {
        name: "kv-unused-slots-read",
        entry: "59",
        variants: &[64.0, 32.0, 128.0, 512.0, 2048.0],
        fit: Some(Fit {
            range: (1.0, 65536.0),
            steps: Steps::Factors,
            numbers: |place| vec![place.graph.rotary.context],
        }),
        edits: &[Edit::SoftMax(|plan, place| {
            let slots = place.variant.round() as usize;
            // Scores of zeros in unused slots take their share of the softmax.
            plan.empty = Box::new(move |t| slots.saturating_sub(t + 1));
            slots > place.tokens.ids.len() && attending(place).is_some_and(crate::Attending::is_plain)
        })],
        cause: "the softmax runs over slots of the cache that hold nothing yet, {} slots in all",
        remedy: "attend over positions 0..=position",
        source: "paiml/realizar#94",
        ..ROW
    },
    Fault {
        name: "kv-cache-unused",
        entry: "60",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            seeing(plan, move |seen, t, p| seen(t, p) && (t < prompt || p == t));
            decodes(place)
        })],
        cause: "a decoded token sees itself only: the cache is not read",
        remedy: "attend over all cached positions",
        source: "EricLBuehler/mistral.rs#765",
        ..ROW
    },
    Fault {
        name: "kv-prompt-forgotten",
        entry: "60",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            seeing(plan, move |seen, t, p| seen(t, p) && (t < prompt || p >= prompt));
            place.tokens.ids.len() > place.tokens.prompt + 1 && place.tokens.prompt > 0
        })],
        cause: "decoded tokens see each other, but not the prompt",
        remedy: "keep the prompt's keys and values",
        source: "EricLBuehler/mistral.rs#765",
        ..ROW
    },
    Fault {
        name: "kv-of-another-layer",
        entry: "60",
        variants: &[0.0, 1.0],
        edits: &[Edit::Wiring(|inputs, place| {
            let Some(layer) = place.layer() else { return false };
            let other = if place.variant == 0.0 { Some(0) } else { layer.checked_sub(1) };
            let same = |node: &Node| node.key.layer == other && node.side == place.node.side;
            let alike = |node: &Node| match (&node.kind, &place.node.kind) {
                (Kind::Scores(a), Kind::Scores(b)) | (Kind::Mix(a), Kind::Mix(b)) => a == b,
                _ => false,
            };
            if !matches!(place.node.kind, Kind::Scores(_) | Kind::Mix(_)) || other == Some(layer) {
                return false;
            }
            let Some(node) = place.graph.nodes.iter().find(|node| same(node) && alike(node)) else { return false };
            let changed = inputs[1] != node.inputs[1];
            inputs[1] = node.inputs[1];
            changed
        })],
        cause: "the layer reads keys and values of another layer: the first one's, or the one's before",
        remedy: "each layer has a cache of its own, but for those that attention.shared_kv_layers says",
        source: "vllm-project/vllm-ascend#11791, ml-explore/mlx-lm#1674",
        ..ROW
    },
    Fault {
        name: "batch-boundary",
        entry: "61",
        variants: &[2.0, 4.0, 8.0, 32.0, 512.0],
        edits: &[Edit::SoftMax(|plan, place| {
            let (prompt, same) = (place.tokens.prompt, same_batch(place.variant as usize));
            seeing(plan, move |seen, t, p| seen(t, p) && (t >= prompt || same(t, p)));
            prompt > place.variant as usize
        })],
        cause: "the prompt is computed in batches of {} that do not see those before",
        remedy: "a batch attends over everything cached so far",
        source: "ggml-org/llama.cpp#12253, ggml-org/llama.cpp#4097",
        ..ROW
    },
    Fault {
        name: "values-without-keys-order",
        entry: "62",
        edits: &[Edit::Mix(|plan, _| {
            plan.source = Box::new(|t, p| Some(t.saturating_sub(p)));
            true
        })],
        cause: "values are read in the reverse order of their positions",
        remedy: "weight p belongs to the value of position p",
        source: "vllm-project/vllm#42494: stale or mixed-up tables of blocks",
        ..ROW
    },
    Fault {
        name: "kv-keys-rotated-again",
        entry: "41, 59",
        edits: &[Edit::Output(|out, inputs, place| {
            let Kind::Scores(heads) = place.node.kind else { return false };
            let Some(rope) = place.node.inputs.get(1).map(|&id| &place.graph.nodes[id].kind) else { return false };
            let Kind::Rope { rope, head_dim } = rope else { return false };
            let turn = Turn::new(rope, *head_dim, &place.tokens.positions(Side::Tokens));
            let scores = Scores::new(heads).run(&inputs[0], &turn.run(&inputs[1]));
            let prompt = place.tokens.prompt;
            if !decodes(place) || scores.data.len() != out.data.len() {
                return false;
            }
            let (width, keys) = (out.width, inputs[1].rows.max(1));
            for (at, (score, again)) in out.data.iter_mut().zip(&scores.data).enumerate() {
                let (t, p) = (at / width, at % width % keys);
                if t >= prompt && p != t {
                    *score = *again;
                }
            }
            true
        })],
        cause: "decoded tokens rotate all keys of the cache, though these were rotated before they were stored",
        remedy: "rotate a key once: before it is stored, or whenever it is read",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "kv-values-rolled",
        entry: "59",
        variants: &[1.0, -1.0],
        edits: &[Edit::Mix(|plan, place| {
            let (prompt, by) = (place.tokens.prompt, place.variant as i64);
            plan.source = Box::new(move |t, p| {
                let seen = t as i64 + 1;
                Some(if t < prompt || p > t { p } else { (p as i64 - by).rem_euclid(seen) as usize })
            });
            decodes(place)
        })],
        cause: "values are read {} positions late when a token is decoded, in a circle: the first weight has the last value",
        remedy: "weight p belongs to the value of position p",
        source: "a fault of caches in general",
        ..ROW
    },
    Fault {
        name: "kv-values-scaled-at-decode",
        entry: "59",
        variants: &[0.5, 2.0],
        fit: Some(FACTORS),
        wants: |place| matches!(place.node.kind, Kind::Mix(_)),
        edits: &[Edit::Output(|out, _, place| {
            let hit = matches!(place.node.kind, Kind::Mix(_)) && decodes(place) && !near(place.variant, 1.0);
            if hit {
                let first = place.tokens.prompt * out.width;
                out.data[first..].iter_mut().for_each(|x| *x = (f64::from(*x) * place.variant) as f32);
            }
            hit
        })],
        cause: "values that decoded tokens read are multiplied with {}: a scale of the cache is not undone",
        remedy: "divide by the scale of a quantized cache where it is read",
        source: "a fault of caches in general",
        ..ROW
    },
];
