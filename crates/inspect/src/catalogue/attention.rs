//! Faults of attention and the KV cache (section A5 of the catalogue).

use super::{ROW, UP_TO_TOKENS, any};
use crate::fault::{Edit, Fault};
use crate::replay::{Axis, Masking, Place, Source};
use crate::{Kind, Value};

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

/// Heads read another group of keys and values.
macro_rules! grouping {
    ($group:expr) => {
        &[
            Edit::Scores(|plan, _| {
                let (heads, dim) = (plan.heads, plan.heads.key_dim);
                plan.slices = (0..heads.heads).map(|h| ($group(h, heads.heads, heads.kv_heads) * dim, dim)).collect();
                heads.kv_heads != heads.heads && heads.kv_heads > 1
            }),
            Edit::Mix(|plan, _| {
                let (heads, dim) = (plan.heads, plan.heads.value_dim);
                plan.slices = (0..heads.heads).map(|h| ($group(h, heads.heads, heads.kv_heads) * dim, dim)).collect();
                heads.kv_heads != heads.heads && heads.kv_heads > 1
            }),
        ]
    };
}

fn decodes(place: &Place<'_>) -> bool {
    place.tokens.ids.len() > place.tokens.prompt && place.tokens.prompt > 0
}

/// Whether two tokens were computed in one batch of so many.
fn same_batch(size: usize) -> impl Fn(usize, usize) -> bool {
    move |t, p| t / size == p / size
}

fn bias_missing(out: &mut Value, inputs: &[std::rc::Rc<Value>], place: &Place<'_>) -> bool {
    let hit = matches!(place.node.kind, Kind::Bias(_)) && matches!(place.name(), "Qcur" | "Kcur" | "Vcur");
    if hit {
        out.clone_from(&inputs[0]);
    }
    hit
}

/// Where a token's head lies, counted in heads, among so many tokens and heads.
type Slot = fn(usize, usize, usize, usize) -> usize;

/// Heads of a token side by side.
const BY_TOKEN: Slot = |t, h, _, heads| t * heads + h;

/// Tokens of a head side by side.
const BY_HEAD: Slot = |t, h, tokens, _| h * tokens + t;

/// Writes in one order of memory what is read in the other.
fn reinterpret(out: &mut Value, head_dim: usize, to: Slot, from: Slot) -> bool {
    let (tokens, heads) = (out.rows, out.width / head_dim);
    if tokens < 2 || heads < 2 {
        return false;
    }
    let old = out.data.clone();
    for t in 0..tokens {
        for h in 0..heads {
            let [to, from] = [to, from].map(|slot| slot(t, h, tokens, heads) * head_dim);
            out.data[to..to + head_dim].copy_from_slice(&old[from..from + head_dim]);
        }
    }
    true
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "gqa-modulo",
        entry: "45",
        edits: grouping!(|h: usize, _: usize, kv: usize| h % kv),
        cause: "query head h reads key head h % n_kv (tiled) instead of h / (n_head / n_kv) (repeated)",
        remedy: "repeat each key and value head n_head / n_kv times in a row",
        source: "ekzhang/jax-js#180, onnx/onnx#7274",
        ..ROW
    },
    Fault {
        name: "gqa-first-head",
        entry: "45",
        edits: grouping!(|_: usize, _: usize, _: usize| 0),
        cause: "all query heads read the first key and value head",
        remedy: "query head h reads key head h / (n_head / n_kv)",
        source: "apple/axlearn#842",
        ..ROW
    },
    Fault {
        name: "gqa-divides-by-kv-heads",
        entry: "45",
        edits: grouping!(|h: usize, _: usize, kv: usize| (h / kv).min(kv - 1)),
        cause: "query head h reads key head h / n_kv",
        remedy: "divide by n_head / n_kv",
        source: "nntile/nntile#347",
        ..ROW
    },
    Fault {
        name: "kv-heads-taken-as-heads",
        entry: "46",
        edits: &[
            Edit::Scores(|plan, _| {
                let heads = plan.heads;
                let dim = heads.kv_heads * heads.key_dim / heads.heads;
                plan.slices = (0..heads.heads).map(|h| (h * dim, dim)).collect();
                heads.kv_heads != heads.heads
            }),
            Edit::Mix(|plan, _| {
                let heads = plan.heads;
                let dim = heads.kv_heads * heads.value_dim / heads.heads;
                plan.slices = (0..heads.heads).map(|h| (h * dim, dim)).collect();
                heads.kv_heads != heads.heads
            }),
        ],
        cause: "keys and values are split into n_head heads instead of n_kv, which makes heads too narrow",
        remedy: "read attention.head_count_kv",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "attention-scale-width",
        entry: "47, 48",
        edits: &[Edit::SoftMax(|plan, place| {
            let config = &place.graph.config;
            let narrow = config.dim / config.heads.heads;
            plan.scale = 1.0 / (narrow as f64).sqrt();
            narrow != config.heads.key_dim
        })],
        cause: "scores are scaled by the width over the number of heads, which is not this model's head width",
        remedy: "scale by 1 / sqrt(attention.key_length)",
        source: "huggingface/candle#2358, huggingface/transformers#32846",
        ..ROW
    },
    Fault {
        name: "attention-scale-missing",
        entry: "48",
        edits: &[Edit::SoftMax(|plan, _| {
            let scaled = plan.scale != 1.0;
            plan.scale = 1.0;
            scaled
        })],
        cause: "scores are not scaled",
        remedy: "multiply with 1 / sqrt(head width) before the softmax",
        source: "ggml-org/llama.cpp#13951",
        ..ROW
    },
    Fault {
        name: "attention-scale-without-root",
        entry: "48",
        edits: &[Edit::SoftMax(|plan, _| {
            let scaled = plan.scale != 1.0;
            plan.scale *= plan.scale;
            scaled
        })],
        cause: "scores are scaled twice, or by 1 / width without the root",
        remedy: "multiply with 1 / sqrt(head width) once",
        source: "ml-explore/mlx-swift-examples#99",
        ..ROW
    },
    Fault {
        name: "attention-scale-model-width",
        entry: "48",
        edits: &[Edit::SoftMax(|plan, place| {
            plan.scale = 1.0 / (place.graph.config.dim as f64).sqrt();
            true
        })],
        cause: "scores are scaled by the width of the model instead of a head",
        remedy: "multiply with 1 / sqrt(head width)",
        source: "ml-explore/mlx-swift-examples#99",
        ..ROW
    },
    Fault {
        name: "qkv-bias-missing",
        entry: "49",
        edits: &[Edit::Output(bias_missing)],
        cause: "the biases of Q, K and V are not added",
        remedy: "add attn_q.bias, attn_k.bias and attn_v.bias (Qwen2 has them)",
        source: "sbryngelson/ANEForge#253, EricLBuehler/candle-vllm#167",
        ..ROW
    },
    Fault {
        name: "causal-mask-missing",
        entry: "50",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.visible = Box::new(move |t, p| if t < prompt { p < prompt } else { p <= t });
            prompt > 1
        })],
        cause: "tokens of the prompt see the tokens after them",
        remedy: "mask scores of later positions before the softmax; a single row needs no mask, several do",
        source: "lablup/mlxcel#998, panbanda/higgs#203",
        ..ROW
    },
    Fault {
        name: "causal-mask-strict",
        entry: "51",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.visible = Box::new(|t, p| p < t || t == 0 && p == 0);
            true
        })],
        cause: "a token does not see itself",
        remedy: "position p is visible to token t where p <= t",
        source: "flashinfer-ai/flashinfer#348",
        ..ROW
    },
    Fault {
        name: "causal-mask-one-late",
        entry: "51",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.visible = Box::new(move |t, p| p <= t || p == t + 1 && p < prompt);
            prompt > 1
        })],
        cause: "a token of the prompt sees the one after it",
        remedy: "position p is visible to token t where p <= t",
        source: "flashinfer-ai/flashinfer#348",
        ..ROW
    },
    Fault {
        name: "causal-mask-aligned-to-start",
        entry: "51",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.visible = Box::new(move |t, p| p <= if t >= prompt { 0 } else { t });
            decodes(place)
        })],
        cause: "the mask of a decoded token is aligned to the first position: it sees that one only",
        remedy: "with q_len < kv_len align the mask to the end",
        source: "flashinfer-ai/flashinfer#348",
        ..ROW
    },
    Fault {
        name: "mask-after-softmax",
        entry: "52",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.masking = Masking::After;
            true
        })],
        cause: "the mask acts after the softmax, so rows do not sum to 1",
        remedy: "add -inf to masked scores before the softmax",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "softmax-over-queries",
        entry: "53",
        edits: &[Edit::SoftMax(|plan, _| {
            plan.axis = Axis::Queries;
            true
        })],
        cause: "the softmax runs over queries instead of keys",
        remedy: "normalise each query's row of scores",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "softmax-without-maximum",
        entry: "54",
        edits: &[Edit::SoftMax(|plan, _| {
            // In f32 the exponential of a score above 88.7 is infinite.
            plan.exp = |score, _| f64::from((score as f32).exp());
            true
        })],
        cause: "the softmax does not take the maximum away first and overflows",
        remedy: "exponentiate score - max",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "softmax-f16-overflow",
        entry: "74",
        edits: &[Edit::Scores(|plan, _| {
            plan.store = |score| if score.abs() > 65504.0 { f64::INFINITY * score.signum() } else { score };
            true
        })],
        cause: "scores beyond 65504 overflow in F16",
        remedy: "keep scores in f32, or scale queries before the product",
        source: "ggml-org/llama.cpp#7805, huggingface/transformers#33317",
        ..ROW
    },
    Fault {
        name: "attention-soft-cap",
        entry: "56",
        variants: &[50.0, 30.0, 5.0],
        edits: &[Edit::SoftMax(|plan, place| {
            let other = plan.cap.is_none_or(|cap| (cap - place.variant).abs() > 1e-6);
            plan.cap = Some(place.variant);
            other
        })],
        cause: "scores are capped to {} (Gemma 2 does that)",
        remedy: "cap only where the file has attn_logit_softcapping",
        source: "ml-explore/mlx-examples#857",
        ..ROW
    },
    Fault {
        name: "sliding-window",
        entry: "57",
        variants: &[4.0, 3.0, 2.0, 8.0, 16.0, 512.0, 4096.0],
        fit: Some(UP_TO_TOKENS),
        edits: &[Edit::SoftMax(|plan, place| {
            let window = place.variant as usize;
            plan.visible = Box::new(move |t, p| p <= t && t - p < window);
            place.tokens.ids.len() > window
        })],
        cause: "attention sees the last {} positions only, the file has no such window",
        remedy: "apply a window where attention.sliding_window says so, to the layers that have one",
        source: "vllm-project/vllm#2064, ggml-org/llama.cpp#8227",
        ..ROW
    },
    Fault {
        name: "attention-sink",
        entry: "58",
        edits: &[Edit::SoftMax(|plan, _| {
            // In units of exp(0): a score of 0 per head.
            let none = plan.sinks.is_none();
            plan.sinks = Some(vec![0.0; plan.heads.heads]);
            none
        })],
        cause: "the softmax has an extra term in its sum (softmax1, attention sinks)",
        remedy: "sinks belong to models whose file has them (gpt-oss)",
        source: "a fault of softmaxes in general",
        ..ROW
    },
    Fault {
        name: "alibi",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, _| {
            let heads = plan.heads.heads;
            plan.bias = Box::new(move |h, t, p| {
                let slope = 2f64.powf(-8.0 * (h + 1) as f64 / heads as f64);
                -slope * (t as f64 - p as f64)
            });
            true
        })],
        cause: "ALiBi is added to the scores",
        remedy: "models with RoPE have no ALiBi",
        source: "a fault of wirings in general",
        ..ROW
    },
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
        edits: cache!(|place: &Place<'_>| {
            let prompt = place.tokens.prompt;
            // Decoded tokens overwrite the cache from its first slot on; slots past the prompt stay empty.
            let source: Source = Box::new(move |t, p| match p {
                p if t < prompt => Some(p),
                p if p <= t - prompt => Some(prompt + p),
                p if p < prompt => Some(p),
                _ => None,
            });
            decodes(place).then_some(source)
        }),
        cause: "decoded keys and values overwrite the cache from slot 0 on",
        remedy: "the first decoded token goes behind the prompt",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "kv-unused-slots-read",
        entry: "59",
        edits: &[Edit::Output(|out, inputs, place| {
            // Scores of zeros in unused slots take their share of the softmax: exp(0 - max) each.
            const SLOTS: f64 = 64.0;
            let Kind::SoftMax(attending) = &place.node.kind else { return false };
            let (heads, tokens) = (attending.heads, out.rows);
            if tokens >= SLOTS as usize || !attending.is_plain() {
                return false;
            }
            for t in 0..tokens {
                for h in 0..heads.heads {
                    let at = (t * heads.heads + h) * tokens;
                    let unused = SLOTS - (t + 1) as f64;
                    let scores = &inputs[0].data[at..=at + t];
                    let sum: f64 = scores.iter().map(|&s| (f64::from(s) * f64::from(heads.scale)).exp()).sum();
                    if unused <= 0.0 {
                        continue;
                    }
                    let share = sum / (sum + unused);
                    out.data[at..=at + t].iter_mut().for_each(|w| *w = (f64::from(*w) * share) as f32);
                }
            }
            true
        })],
        cause: "the softmax runs over slots of the cache that hold nothing yet (here 64 slots)",
        remedy: "attend over positions 0..=position",
        source: "paiml/realizar#94",
        ..ROW
    },
    Fault {
        name: "kv-cache-unused",
        entry: "60",
        edits: &[Edit::SoftMax(|plan, place| {
            let prompt = place.tokens.prompt;
            plan.visible = Box::new(move |t, p| p <= t && (t < prompt || p == t));
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
            plan.visible = Box::new(move |t, p| p <= t && (t < prompt || p >= prompt));
            place.tokens.ids.len() > place.tokens.prompt + 1 && place.tokens.prompt > 0
        })],
        cause: "decoded tokens see each other, but not the prompt",
        remedy: "keep the prompt's keys and values",
        source: "EricLBuehler/mistral.rs#765",
        ..ROW
    },
    Fault {
        name: "batch-boundary",
        entry: "61",
        variants: &[2.0, 4.0, 8.0, 32.0, 512.0],
        edits: &[Edit::SoftMax(|plan, place| {
            let (prompt, same) = (place.tokens.prompt, same_batch(place.variant as usize));
            plan.visible = Box::new(move |t, p| p <= t && (t >= prompt || same(t, p)));
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
        name: "head-merge-order",
        entry: "63",
        edits: &[Edit::Output(|out, _, place| match place.node.kind {
            Kind::Mix(heads) => reinterpret(out, heads.value_dim, BY_HEAD, BY_TOKEN),
            _ => false,
        })],
        cause: "heads are merged without transposing [head, token, dim] to [token, head, dim]",
        remedy: "transpose before flattening",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "view-not-contiguous",
        entry: "79",
        wants: any,
        edits: &[Edit::Output(|out, _, place| match place.node.kind {
            Kind::Rope { head_dim, .. } if place.name() == "Qcur" => reinterpret(out, head_dim, BY_TOKEN, BY_HEAD),
            _ => false,
        })],
        cause: "a permuted view of the queries is read as if it were contiguous: [token, head] memory as [head, token]",
        remedy: "copy to contiguous memory before handing out a raw pointer",
        source: "a fault of tensor libraries in general",
        ..ROW
    },
];
