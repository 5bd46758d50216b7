//! The table of architectures: what each needs said beyond its metadata and tensors. Whatever a number of the metadata or
//! the presence of a tensor can tell is not here.

use candor_gguf::Gguf;
use candor_ops::{Gate, NormKind, Pairing, Unary};

use super::{
    kinds::{
        Activation, AttentionTemperature, Labels, LogitScale, NormWeights, QkNorm, Residual, Rotation, Stacks, Width,
        Windows,
    },
    needs::{
        ATTENTION_GATE, CHOICE_BIAS, CONV_BIAS, DOWN_BIAS, EMBEDDING_NORM, EMBEDDING_NORM_BIAS, EXPERT_BIAS, FFN_BIAS,
        FFN_GATE, FFN_NORM_BIAS, HEAD, HEAD_BIAS, LARGE_QK_NORM, LOW_RANK_BIAS, NORM_BIAS, OUTPUT_BIAS, POSITIONS,
        POST_NORM_BIAS, QK_NORM, QKV_BIAS, ROTARY_FACTORS, SHARED_GATE, SINKS, STATE_NORM, STEP_BIAS, STEP_NORMS,
        TIME_MIX_BIAS, TOKEN_TYPES, VALUES,
    },
    row::Architecture,
};
use crate::{
    Error,
    common::{Common, Scores},
};

/// Scales that Granite's models have in their metadata.
const GRANITE_SCALES: &[&str] = &["attention.scale", "logit_scale", "embedding_scale", "residual_scale"];

/// How experts are weighed.
const EXPERT_WEIGHTS: &[&str] = &["expert_weights_norm", "expert_weights_scale", "expert_gating_func"];

/// What most have in common.
const LLAMA: Architecture = Architecture {
    name: "llama",
    stacks: Stacks::One,
    encodes: false,
    pairing: Pairing::Norm,
    sectioned: None,
    rotation: Rotation::Same,
    norm: NormKind::Rms,
    norm_weights: NormWeights::Always,
    residual: Residual::Sequential,
    sandwich: false,
    norms: ["attn_norm", "ffn_norm", "output_norm"],
    qk_norm: QkNorm::Before,
    windows: Windows::Never,
    window: Width::None,
    temperature: None,
    alibi: None,
    caps: [None, None],
    activation: Activation::Plain(Unary::Silu),
    router: (Gate::Softmax, true),
    logit_scale: LogitScale::Multiplied,
    rank: (Unary::Tanh, Labels::Scores),
    needs: &[],
    needs_keys: &[],
    own_keys: &[],
    quirk: |_| (),
    note: |_| Ok(None),
};

/// The same with halves paired.
const NEOX: Architecture = Architecture { pairing: Pairing::Neox, ..LLAMA };

/// Layer norm and GELU, as before Llama.
const GPT: Architecture = Architecture {
    name: "gpt2",
    rotation: Rotation::None,
    norm: NormKind::Layer,
    activation: Activation::Plain(Unary::Gelu),
    needs: &[QKV_BIAS, OUTPUT_BIAS, NORM_BIAS, FFN_NORM_BIAS, FFN_BIAS, POSITIONS],
    ..NEOX
};

const GEMMA: Architecture = Architecture {
    name: "gemma",
    activation: Activation::Plain(Unary::Gelu),
    quirk: root_of_width,
    needs: &[FFN_GATE],
    ..NEOX
};

const COHERE: Architecture = Architecture {
    name: "command-r",
    norm: NormKind::Layer,
    residual: Residual::Parallel,
    needs: &[LARGE_QK_NORM],
    own_keys: &["logit_scale"],
    ..LLAMA
};

const BERT: Architecture = Architecture {
    name: "bert",
    encodes: true,
    residual: Residual::After,
    activation: Activation::Plain(Unary::GeluErf),
    norms: ["attn_output_norm", "layer_output_norm", ""],
    needs: &[POST_NORM_BIAS, EMBEDDING_NORM_BIAS, POSITIONS],
    ..GPT
};

const T5: Architecture = Architecture {
    name: "t5",
    stacks: Stacks::Both,
    rotation: Rotation::None,
    activation: Activation::GeluOrRelu,
    quirk: |common| common.scores = Scores::Unscaled,
    own_keys: &["logit_scale"],
    ..NEOX
};

const QWEN35: Architecture = Architecture {
    name: "qwen35",
    norms: ["attn_norm", "post_attention_norm", "output_norm"],
    needs: &[QK_NORM],
    ..NEOX
};

/// Every supported architecture.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture { windows: Windows::All, note: missing_window, ..LLAMA },
    Architecture {
        name: "llama4",
        // Maverick has 128 and no norms, Scout has 16.
        qk_norm: QkNorm::BareUnless(128),
        windows: Windows::Chunks(4, 8192),
        rotation: Rotation::OnlyWindows,
        router: (Gate::Sigmoid, false),
        temperature: Some(AttentionTemperature { every: 8192, scale: 0.1, offset: 1, unrotated: true }),
        quirk: |common| common.weigh_before = true,
        ..LLAMA
    },
    Architecture { name: "baichuan", quirk: baichuan, needs: &[HEAD], ..LLAMA },
    Architecture {
        name: "mistral3",
        own_keys: &[
            "attention.temperature_scale",
            "rope.scaling.yarn_beta_fast",
            "rope.scaling.yarn_beta_slow",
            "rope.scaling.yarn_log_multiplier",
        ],
        ..LLAMA
    },
    Architecture { name: "smollm3", rotation: Rotation::ButEvery(4), ..LLAMA },
    Architecture { name: "arcee", activation: Activation::Plain(Unary::ReluSquared), ..LLAMA },
    Architecture { name: "internlm2", needs: &[HEAD], ..LLAMA },
    Architecture { name: "xverse", needs: &[HEAD], ..LLAMA },
    Architecture { name: "ernie4_5", ..LLAMA },
    Architecture { name: "ernie4_5-moe", ..LLAMA },
    Architecture {
        name: "minicpm",
        logit_scale: LogitScale::Divided,
        quirk: minicpm,
        own_keys: &["logit_scale", "embedding_scale", "residual_scale"],
        ..LLAMA
    },
    Architecture { name: "minicpm3", quirk: minicpm, ..NEOX },
    Architecture {
        name: "granite",
        logit_scale: LogitScale::Divided,
        rotation: Rotation::IfFinetuned,
        own_keys: GRANITE_SCALES,
        ..LLAMA
    },
    Architecture { name: "granitemoe", logit_scale: LogitScale::Divided, own_keys: GRANITE_SCALES, ..LLAMA },
    Architecture {
        name: "granitehybrid",
        logit_scale: LogitScale::Divided,
        rotation: Rotation::IfFinetuned,
        needs: &[STATE_NORM],
        own_keys: GRANITE_SCALES,
        ..LLAMA
    },
    Architecture {
        name: "deepseek2",
        router: (Gate::Softmax, false),
        own_keys: &[
            "attention.temperature_scale",
            "rope.scaling.yarn_log_multiplier",
            "expert_weights_norm",
            "expert_weights_scale",
            "expert_gating_func",
        ],
        ..LLAMA
    },
    Architecture { name: "chatglm", ..LLAMA },
    Architecture { name: "glm4", sandwich: true, sectioned: Some(Pairing::Neox), ..LLAMA },
    Architecture {
        name: "glm4moe",
        norms: ["attn_norm", "post_attention_norm", "output_norm"],
        router: (Gate::Sigmoid, false),
        needs: &[CHOICE_BIAS],
        own_keys: EXPERT_WEIGHTS,
        ..NEOX
    },
    COHERE,
    Architecture {
        name: "cohere2",
        windows: Windows::ButEvery(4),
        window: Width::Needed,
        rotation: Rotation::OnlyWindows,
        needs: &[],
        ..COHERE
    },
    Architecture {
        name: "olmo",
        norm: NormKind::Layer,
        norm_weights: NormWeights::Never,
        own_keys: &["attention.clamp_kqv"],
        ..LLAMA
    },
    Architecture {
        name: "olmo2",
        residual: Residual::Inside,
        norms: ["post_attention_norm", "post_ffw_norm", "output_norm"],
        windows: Windows::ButEvery(4),
        rotation: Rotation::WindowsUnscaled(None),
        needs: &[QK_NORM, HEAD],
        ..NEOX
    },
    Architecture { name: "olmoe", router: (Gate::Softmax, false), needs: &[QK_NORM, HEAD], ..NEOX },
    Architecture { name: "qwen", needs: &[QKV_BIAS, HEAD], ..NEOX },
    Architecture { name: "qwen2", ..NEOX },
    Architecture { name: "qwen2vl", ..NEOX },
    Architecture { name: "qwen2moe", router: (Gate::Softmax, false), needs: &[SHARED_GATE, HEAD], ..NEOX },
    Architecture { name: "qwen3", rank: (Unary::Tanh, Labels::Shares), needs: &[QK_NORM], ..NEOX },
    Architecture { name: "qwen3vl", needs: &[QK_NORM], ..NEOX },
    Architecture { name: "qwen3moe", needs: &[QK_NORM], ..NEOX },
    Architecture { name: "qwen3vlmoe", needs: &[QK_NORM], ..NEOX },
    Architecture { name: "qwen3next", needs: &[QK_NORM, SHARED_GATE], ..QWEN35 },
    QWEN35,
    Architecture { name: "qwen35moe", needs: &[QK_NORM, SHARED_GATE], ..QWEN35 },
    Architecture { name: "exaone", ..NEOX },
    Architecture {
        name: "exaone4",
        residual: Residual::Inside,
        norms: ["post_attention_norm", "post_ffw_norm", "output_norm"],
        windows: Windows::ButEvery(4),
        rotation: Rotation::OnlyWindows,
        needs: &[QK_NORM],
        ..NEOX
    },
    Architecture {
        name: "exaone-moe",
        windows: Windows::ButEvery(4),
        window: Width::Needed,
        rotation: Rotation::OnlyWindows,
        router: (Gate::Sigmoid, false),
        needs: &[QK_NORM, HEAD],
        own_keys: EXPERT_WEIGHTS,
        ..NEOX
    },
    Architecture {
        name: "afmoe",
        sandwich: true,
        windows: Windows::ButEvery(4),
        window: Width::Needed,
        rotation: Rotation::OnlyWindows,
        router: (Gate::Sigmoid, false),
        quirk: root_of_width,
        needs: &[QK_NORM, CHOICE_BIAS, ATTENTION_GATE],
        own_keys: EXPERT_WEIGHTS,
        ..NEOX
    },
    Architecture {
        name: "dots1",
        router: (Gate::Softmax, false),
        needs: &[QK_NORM, HEAD],
        own_keys: EXPERT_WEIGHTS,
        ..NEOX
    },
    Architecture { name: "hunyuan-dense", qk_norm: QkNorm::After, needs: &[QK_NORM], ..NEOX },
    Architecture { name: "hunyuan-moe", qk_norm: QkNorm::After, needs: &[QK_NORM], ..NEOX },
    Architecture { name: "maincoder", qk_norm: QkNorm::After, needs: &[QK_NORM], ..LLAMA },
    Architecture { name: "seed_oss", norms: ["attn_norm", "post_attention_norm", "output_norm"], ..NEOX },
    Architecture {
        name: "jais2",
        norm: NormKind::Layer,
        activation: Activation::Plain(Unary::ReluSquared),
        needs: &[OUTPUT_BIAS, NORM_BIAS, FFN_NORM_BIAS, FFN_BIAS],
        ..NEOX
    },
    Architecture {
        name: "minimax-m2",
        router: (Gate::Sigmoid, true),
        needs: &[QK_NORM, CHOICE_BIAS, HEAD],
        own_keys: &["expert_gating_func"],
        ..NEOX
    },
    Architecture {
        name: "mellum",
        windows: Windows::ButEvery(4),
        rotation: Rotation::WindowsUnscaled(None),
        needs: &[QK_NORM, HEAD],
        ..NEOX
    },
    Architecture {
        name: "gpt-oss",
        norms: ["attn_norm", "post_attention_norm", "output_norm"],
        windows: Windows::ButEvery(2),
        window: Width::Needed,
        router: (Gate::SoftmaxOfChosen, false),
        activation: Activation::ClampedGlu,
        quirk: |common| {
            common.rounds_yarn.get_or_insert(false);
        },
        needs: &[OUTPUT_BIAS, HEAD, SINKS, EXPERT_BIAS],
        own_keys: &["rope.scaling.yarn_truncate"],
        ..NEOX
    },
    GEMMA,
    Architecture {
        name: "gemma2",
        sandwich: true,
        windows: Windows::ButEvery(2),
        // Files older than the keys mean the numbers of the only models that there are.
        window: Width::Or(4096),
        caps: [Some(50.0), Some(30.0)],
        quirk: gemma2,
        own_keys: &["attn_logit_softcapping", "final_logit_softcapping"],
        ..GEMMA
    },
    Architecture {
        name: "gemma3",
        sandwich: true,
        windows: Windows::ButEvery(6),
        rotation: Rotation::WindowsUnscaled(Some(10_000.0)),
        quirk: gemma3,
        needs: &[QK_NORM, FFN_GATE],
        own_keys: &["final_logit_softcapping"],
        ..GEMMA
    },
    Architecture {
        name: "gemma4",
        sandwich: true,
        windows: Windows::ButEvery(6),
        rotation: Rotation::WindowsUnscaled(Some(10_000.0)),
        window: Width::Needed,
        caps: [None, Some(30.0)],
        quirk: gemma4,
        needs: &[QK_NORM, FFN_GATE, ROTARY_FACTORS],
        own_keys: &["final_logit_softcapping"],
        ..GEMMA
    },
    Architecture {
        name: "gemma3n",
        // What llama.cpp has as constants is not guessed.
        needs_keys: &["attention.shared_kv_layers", "activation_sparsity_scale"],
        sandwich: true,
        windows: Windows::ButEvery(5),
        rotation: Rotation::WindowsUnscaled(Some(10_000.0)),
        window: Width::Needed,
        caps: [None, Some(30.0)],
        quirk: gemma4,
        needs: &[QK_NORM, FFN_GATE, VALUES],
        ..GEMMA
    },
    Architecture {
        name: "gemma-embedding",
        encodes: true,
        sandwich: true,
        windows: Windows::ButEvery(6),
        window: Width::Needed,
        rotation: Rotation::WindowsUnscaled(Some(10_000.0)),
        quirk: root_of_width,
        needs: &[QK_NORM, FFN_GATE],
        ..GEMMA
    },
    Architecture {
        name: "phi2",
        residual: Residual::Parallel,
        rotation: Rotation::Same,
        needs: &[OUTPUT_BIAS, NORM_BIAS, FFN_BIAS, HEAD, HEAD_BIAS],
        ..GPT
    },
    Architecture { name: "phi3", windows: Windows::All, ..NEOX },
    Architecture {
        name: "phimoe",
        norm: NormKind::Layer,
        windows: Windows::All,
        router: (Gate::SparseMixer(0.02), false),
        needs: &[OUTPUT_BIAS, NORM_BIAS, FFN_NORM_BIAS, HEAD, HEAD_BIAS],
        ..NEOX
    },
    Architecture {
        name: "stablelm",
        norm: NormKind::Layer,
        residual: Residual::ByNorm,
        needs: &[NORM_BIAS, HEAD],
        ..NEOX
    },
    Architecture { name: "orion", norm: NormKind::Layer, needs: &[NORM_BIAS, FFN_NORM_BIAS, FFN_GATE, HEAD], ..NEOX },
    Architecture {
        name: "dbrx",
        norm: NormKind::Layer,
        norms: ["attn_norm", "attn_output_norm", "output_norm"],
        needs: &[HEAD],
        own_keys: &["attention.clamp_kqv"],
        ..NEOX
    },
    Architecture {
        name: "nemotron",
        norm: NormKind::Layer,
        activation: Activation::Plain(Unary::ReluSquared),
        needs: &[NORM_BIAS, FFN_NORM_BIAS, HEAD],
        ..NEOX
    },
    Architecture { name: "apertus", activation: Activation::Xielu, needs: &[QK_NORM, HEAD], ..NEOX },
    GPT,
    Architecture { name: "starcoder", ..GPT },
    Architecture {
        name: "starcoder2",
        rotation: Rotation::Same,
        needs: &[OUTPUT_BIAS, NORM_BIAS, FFN_NORM_BIAS, FFN_BIAS],
        ..GPT
    },
    Architecture {
        name: "gptneox",
        rotation: Rotation::Same,
        activation: Activation::Plain(Unary::GeluErf),
        needs: &[QKV_BIAS, OUTPUT_BIAS, NORM_BIAS, FFN_NORM_BIAS, FFN_BIAS, HEAD],
        own_keys: &["use_parallel_residual"],
        ..GPT
    },
    Architecture {
        name: "falcon",
        rotation: Rotation::Same,
        residual: Residual::Parallel,
        activation: Activation::Plain(Unary::GeluErf),
        needs: &[NORM_BIAS],
        ..GPT
    },
    Architecture {
        name: "bloom",
        alibi: Some(8.0),
        needs: &[QKV_BIAS, OUTPUT_BIAS, NORM_BIAS, FFN_NORM_BIAS, FFN_BIAS, EMBEDDING_NORM_BIAS],
        ..GPT
    },
    Architecture {
        name: "mpt",
        activation: Activation::Plain(Unary::GeluErf),
        needs: &[],
        own_keys: &["attention.clamp_kqv", "attention.max_alibi_bias"],
        ..GPT
    },
    Architecture { name: "mamba", needs: &[CONV_BIAS, STEP_BIAS], ..NEOX },
    Architecture { name: "mamba2", needs: &[CONV_BIAS, STATE_NORM], ..NEOX },
    Architecture {
        name: "jamba",
        rotation: Rotation::None,
        router: (Gate::Softmax, false),
        needs: &[CONV_BIAS, STEP_BIAS, STEP_NORMS],
        ..NEOX
    },
    Architecture { name: "falcon-h1", ..NEOX },
    Architecture {
        name: "nemotron_h",
        rotation: Rotation::None,
        activation: Activation::Plain(Unary::ReluSquared),
        needs: &[STATE_NORM],
        ..NEOX
    },
    Architecture {
        name: "nemotron_h_moe",
        rotation: Rotation::None,
        activation: Activation::Plain(Unary::ReluSquared),
        router: (Gate::Sigmoid, false),
        needs: &[CHOICE_BIAS, STATE_NORM],
        own_keys: &["expert_weights_norm", "expert_weights_scale"],
        ..NEOX
    },
    Architecture {
        name: "rwkv6",
        norm: NormKind::Layer,
        norms: ["attn_norm", "attn_norm_2", "output_norm"],
        needs: &[NORM_BIAS, EMBEDDING_NORM_BIAS, TIME_MIX_BIAS, HEAD],
        own_keys: &["rescale_every_n_layers"],
        ..NEOX
    },
    Architecture {
        name: "rwkv7",
        norm: NormKind::Layer,
        norms: ["attn_norm", "attn_norm_2", "output_norm"],
        needs: &[NORM_BIAS, EMBEDDING_NORM_BIAS, TIME_MIX_BIAS, LOW_RANK_BIAS, HEAD],
        ..NEOX
    },
    Architecture {
        name: "lfm2",
        windows: Windows::All,
        norms: ["attn_norm", "ffn_norm", "token_embd_norm"],
        needs: &[QK_NORM],
        ..NEOX
    },
    Architecture {
        name: "lfm2moe",
        norms: ["attn_norm", "ffn_norm", "token_embd_norm"],
        router: (Gate::Sigmoid, true),
        needs: &[QK_NORM, CHOICE_BIAS],
        own_keys: &["expert_gating_func"],
        ..NEOX
    },
    BERT,
    Architecture {
        name: "nomic-bert",
        activation: Activation::Plain(Unary::Silu),
        rotation: Rotation::Same,
        needs: &[POST_NORM_BIAS, EMBEDDING_NORM_BIAS],
        ..BERT
    },
    Architecture {
        name: "jina-bert-v2",
        alibi: Some(8.0),
        needs: &[OUTPUT_BIAS, DOWN_BIAS, POST_NORM_BIAS, EMBEDDING_NORM_BIAS, TOKEN_TYPES],
        ..BERT
    },
    Architecture {
        name: "modern-bert",
        encodes: true,
        norm: NormKind::Layer,
        norm_weights: NormWeights::ButFirst,
        windows: Windows::ButFirstOf(3),
        rotation: Rotation::WindowsUnscaled(Some(10_000.0)),
        activation: Activation::Named(Unary::GeluErf),
        rank: (Unary::GeluErf, Labels::Scores),
        needs: &[EMBEDDING_NORM],
        ..NEOX
    },
    Architecture { name: "eurobert", encodes: true, ..NEOX },
    T5,
    Architecture { name: "t5encoder", stacks: Stacks::Encoder, own_keys: &[], ..T5 },
];

/// Embeddings are multiplied by the square root of their width.
fn root_of_width(common: &mut Common) {
    common.embedding_scale = (common.dim as f32).sqrt();
}

/// The largest Gemma 2 and 3 scale scores by the width of the stream instead of a head's; the file does not say.
fn gemma2(common: &mut Common) {
    root_of_width(common);
    if common.layers == 46 {
        common.scores = Scores::ByStream;
    }
}

fn gemma3(common: &mut Common) {
    root_of_width(common);
    if common.layers == 62 {
        common.scores = Scores::ByStream;
    }
}

/// Norms on queries, keys and values take the place of a scale.
fn gemma4(common: &mut Common) {
    root_of_width(common);
    common.scores = Scores::Unscaled;
    common.value_norm = true;
}

/// The 13B model, of 40 layers, has ALiBi instead of rotary positions; the file does not say.
fn baichuan(common: &mut Common) {
    if common.layers == 40 {
        common.alibi = Some(8.0);
    }
}

/// Files older than the keys mean the numbers of MiniCPM 2B; those of MiniCPM 3 never have them.
fn minicpm(common: &mut Common) {
    let Common { layers, dim, .. } = *common;
    let or = |value: &mut f32, default: f32| {
        if *value == 1.0 {
            *value = default;
        }
    };
    or(&mut common.embedding_scale, 12.0);
    or(&mut common.residual_scale, 1.4 / (layers as f32).sqrt());
    or(&mut common.logit_scale, 256.0 / dim as f32);
}

/// Mistral 7B v0.1 was converted without its window at first.
fn missing_window(gguf: &Gguf) -> Result<Option<String>, Error> {
    let metadata = gguf.metadata();
    let named = ["general.name", "general.basename", "general.base_model.0.name"];
    let mut names = named.iter().filter_map(|key| metadata.str(key).ok().flatten());
    let mistral = names.any(|name| name.to_ascii_lowercase().contains("mistral"));
    let windowless = metadata.get("llama.attention.sliding_window").is_none();
    Ok((mistral && windowless).then(|| {
        "the file has no sliding window (llama.attention.sliding_window); Mistral 7B v0.1 and what is made of it \
         were trained with one of 4096"
            .into()
    }))
}

impl Architecture {
    /// The row of the file's architecture.
    ///
    /// # Errors
    /// If the file names none or an unknown one.
    pub fn of(gguf: &Gguf) -> Result<&'static Architecture, Error> {
        const KEY: &str = "general.architecture";
        let name = gguf.metadata().str(KEY)?.ok_or_else(|| Error::MissingKey(KEY.into()))?;
        ARCHITECTURES
            .iter()
            .find(|row| row.name == name)
            .ok_or_else(|| Error::UnknownArchitecture { name: name.into(), known: ARCHITECTURES.len() })
    }
}
