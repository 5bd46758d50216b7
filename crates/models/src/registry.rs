//! The table of architectures: what each needs said beyond its metadata and tensors. Whatever a number of the metadata or
//! the presence of a tensor can tell is not here.

use candor_gguf::Gguf;
use candor_ops::{Gate, NormKind, Pairing, Unary};

use crate::{Error, config::Config, temperature::Temperature};

/// How the two halves of a layer, attention and feed-forward, are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// `x += mix(norm(x)); x += ffn(norm(x))`. `use_parallel_residual` in the metadata makes it [`Residual::Parallel`].
    Sequential,
    /// `x += mix(norm(x)) + ffn(norm(x))`, where the second norm may be the first.
    Parallel,
    /// [`Residual::Parallel`] where the file lacks the second norm, otherwise [`Residual::Sequential`].
    ByNorm,
    /// `x += norm(mix(x)); x += norm(ffn(x))`.
    Inside,
    /// `x = norm(x + mix(x)); x = norm(x + ffn(x))`: the original Transformer.
    After,
}

/// Which weights a layer's norms have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighing {
    /// All have weights.
    Always,
    /// None has.
    Never,
    /// The first norm of the first layer is left out altogether.
    ButFirst,
}

/// When queries and keys are normed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Before they are rotated, where the file has weights for it.
    Before,
    /// After.
    After,
    /// After, without weights, in the layers that rotate, but not in the model with this number of experts: the file
    /// does not say.
    BareUnless(usize),
}

/// Which layers see a window of positions, where the file has one: `sliding_window_pattern` says it for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// None: the key means nothing here.
    Never,
    /// All.
    All,
    /// All layers except every n-th.
    ButEvery(usize),
    /// All layers except the first of every n.
    ButFirstOf(usize),
    /// All layers except every n-th, which is global; the others attend within chunks of a number of positions.
    Chunks(usize, usize),
}

/// What it means if a file does not say how long windows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// There are none.
    None,
    /// They are so long.
    Or(usize),
    /// It lacks something.
    Needed,
}

/// How rotary positions differ between layers with a window and those without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rotation {
    /// Not at all.
    Same,
    /// Layers without a window do not rotate, where there are layers with one.
    OnlyWindows,
    /// Layers with a window have the base `rope.freq_base_swa`, or this one, and no scaling.
    WindowsUnscaled(Option<f32>),
    /// All layers except every n-th rotate.
    ButEvery(usize),
    /// Nothing rotates.
    None,
    /// Nothing rotates unless `rope.scaling.finetuned` says so.
    IfFinetuned,
}

/// The stacks of layers that a file has, and what the names of their tensors begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacks {
    /// One: `blk.0`.
    One,
    /// An encoder alone: `enc.blk.0`.
    Encoder,
    /// An encoder, and a decoder that also attends to what that gives: `enc.blk.0` and `dec.blk.0`.
    Both,
}

/// What the feed-forward does between its matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// A function; of the gate, where there is one.
    Plain(Unary),
    /// That which `hidden_activation` names, or this one.
    Named(Unary),
    /// GELU of the gate, and ReLU without a gate.
    GeluOrRelu,
    /// xIELU, whose numbers each layer has in the metadata.
    Xielu,
    /// `min(g, 7) * sigmoid(1.702 min(g, 7)) * (clamp(u, -7, 7) + 1)` (OpenAI 2025).
    ClampedGlu,
}

impl Activation {
    /// Whether it never goes without a gate, so that a feed-forward without the gate's matrix lacks it.
    pub(crate) fn opens(self) -> bool {
        matches!(self, Activation::Plain(Unary::Silu) | Activation::Named(_) | Activation::ClampedGlu)
    }

    /// Whether it goes with a gate, so that a file without the gate's matrix lacks something.
    pub(crate) fn gates(self) -> bool {
        !matches!(self, Activation::Plain(Unary::ReluSquared))
    }
}

/// What becomes of `logit_scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitScale {
    /// Logits are multiplied by it.
    Multiplied,
    /// They are divided by it.
    Divided,
}

/// What becomes of a reranker's label scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// They stay as they are.
    Scores,
    /// A softmax makes shares of them.
    Shares,
}

/// An architecture.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// GGUF's `general.architecture`.
    pub name: &'static str,
    /// Its stacks of layers.
    pub stacks: Stacks,
    /// Whether it only gives vectors of texts, and looks to both sides, whatever the metadata says.
    pub encodes: bool,
    /// Which elements rotary embedding pairs.
    pub pairing: Pairing,
    /// Which others it pairs where positions have several parts (M-RoPE), those of a text being the same.
    pub sectioned: Option<Pairing>,
    /// How rotation differs between layers.
    pub rotation: Rotation,
    /// The kind of all norms.
    pub norm: NormKind,
    /// Their weights.
    pub weighing: Weighing,
    /// How a layer is connected.
    pub residual: Residual,
    /// Whether each half of a layer is normed once more before it is added.
    pub sandwich: bool,
    /// Norms before attention, before the feed-forward and after the last layer, by their tensors.
    pub norms: [&'static str; 3],
    /// When queries and keys are normed.
    pub qk_norm: QkNorm,
    /// Which layers see a window.
    pub windows: Windows,
    /// Whether the file says how long windows are.
    pub window: Width,
    /// How queries grow with their position, where the metadata does not say.
    pub temperature: Option<Temperature>,
    /// ALiBi's greatest exponent where the metadata has none.
    pub alibi: Option<f32>,
    /// What caps scores, and logits, where the metadata does not say.
    pub caps: [Option<f32>; 2],
    /// What the feed-forward does.
    pub activation: Activation,
    /// How logits become weights of experts, and whether these are made to add up to 1, where the metadata does not say.
    pub router: (Gate, bool),
    /// What `logit_scale` does.
    pub logit_scale: LogitScale,
    /// The function between the matrices of a reranker's head, and what becomes of its scores.
    pub rank: (Unary, Labels),
    /// What else there is, on the numbers that were read.
    pub quirk: fn(&mut Config),
}

/// What most have in common.
const LLAMA: Architecture = Architecture {
    name: "llama",
    stacks: Stacks::One,
    encodes: false,
    pairing: Pairing::Norm,
    sectioned: None,
    rotation: Rotation::Same,
    norm: NormKind::Rms,
    weighing: Weighing::Always,
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
    quirk: |_| (),
};

/// The same with halves paired.
const NEOX: Architecture = Architecture { pairing: Pairing::Neox, ..LLAMA };

/// Layer norm and GELU, as before Llama.
const GPT: Architecture = Architecture {
    name: "gpt2",
    rotation: Rotation::None,
    norm: NormKind::Layer,
    activation: Activation::Plain(Unary::Gelu),
    ..NEOX
};

const GEMMA: Architecture =
    Architecture { name: "gemma", activation: Activation::Plain(Unary::Gelu), quirk: root_of_width, ..NEOX };

const COHERE: Architecture =
    Architecture { name: "command-r", norm: NormKind::Layer, residual: Residual::Parallel, ..LLAMA };

const BERT: Architecture = Architecture {
    name: "bert",
    encodes: true,
    residual: Residual::After,
    activation: Activation::Plain(Unary::GeluErf),
    norms: ["attn_output_norm", "layer_output_norm", ""],
    ..GPT
};

const T5: Architecture = Architecture {
    name: "t5",
    stacks: Stacks::Both,
    rotation: Rotation::None,
    activation: Activation::GeluOrRelu,
    quirk: Config::leave_scores,
    ..NEOX
};

const QWEN35: Architecture =
    Architecture { name: "qwen35", norms: ["attn_norm", "post_attention_norm", "output_norm"], ..NEOX };

/// Every supported architecture.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture { windows: Windows::All, ..LLAMA },
    Architecture {
        name: "llama4",
        // Maverick has 128 and no norms, Scout has 16.
        qk_norm: QkNorm::BareUnless(128),
        windows: Windows::Chunks(4, 8192),
        rotation: Rotation::OnlyWindows,
        router: (Gate::Sigmoid, false),
        temperature: Some(Temperature { every: 8192, scale: 0.1, offset: 1, unrotated: true }),
        quirk: |config| config.weigh_before = true,
        ..LLAMA
    },
    Architecture { name: "baichuan", quirk: baichuan, ..LLAMA },
    Architecture { name: "mistral3", ..LLAMA },
    Architecture { name: "smollm3", rotation: Rotation::ButEvery(4), ..LLAMA },
    Architecture { name: "arcee", activation: Activation::Plain(Unary::ReluSquared), ..LLAMA },
    Architecture { name: "internlm2", ..LLAMA },
    Architecture { name: "xverse", ..LLAMA },
    Architecture { name: "ernie4_5", ..LLAMA },
    Architecture { name: "ernie4_5-moe", ..LLAMA },
    Architecture { name: "minicpm", logit_scale: LogitScale::Divided, quirk: minicpm, ..LLAMA },
    Architecture { name: "minicpm3", quirk: minicpm3, ..NEOX },
    Architecture { name: "granite", logit_scale: LogitScale::Divided, rotation: Rotation::IfFinetuned, ..LLAMA },
    Architecture { name: "granitemoe", logit_scale: LogitScale::Divided, ..LLAMA },
    Architecture { name: "granitehybrid", logit_scale: LogitScale::Divided, rotation: Rotation::IfFinetuned, ..LLAMA },
    Architecture { name: "deepseek2", router: (Gate::Softmax, false), ..LLAMA },
    Architecture { name: "chatglm", ..LLAMA },
    Architecture { name: "glm4", sandwich: true, sectioned: Some(Pairing::Neox), ..LLAMA },
    Architecture {
        name: "glm4moe",
        norms: ["attn_norm", "post_attention_norm", "output_norm"],
        router: (Gate::Sigmoid, false),
        ..NEOX
    },
    COHERE,
    Architecture {
        name: "cohere2",
        windows: Windows::ButEvery(4),
        window: Width::Needed,
        rotation: Rotation::OnlyWindows,
        ..COHERE
    },
    Architecture { name: "olmo", norm: NormKind::Layer, weighing: Weighing::Never, ..LLAMA },
    Architecture {
        name: "olmo2",
        residual: Residual::Inside,
        norms: ["post_attention_norm", "post_ffw_norm", "output_norm"],
        windows: Windows::ButEvery(4),
        rotation: Rotation::WindowsUnscaled(None),
        ..NEOX
    },
    Architecture { name: "olmoe", router: (Gate::Softmax, false), ..NEOX },
    Architecture { name: "qwen", ..NEOX },
    Architecture { name: "qwen2", ..NEOX },
    Architecture { name: "qwen2vl", ..NEOX },
    Architecture { name: "qwen2moe", router: (Gate::Softmax, false), ..NEOX },
    Architecture { name: "qwen3", rank: (Unary::Tanh, Labels::Shares), ..NEOX },
    Architecture { name: "qwen3vl", ..NEOX },
    Architecture { name: "qwen3moe", ..NEOX },
    Architecture { name: "qwen3vlmoe", ..NEOX },
    Architecture { name: "qwen3next", ..QWEN35 },
    QWEN35,
    Architecture { name: "qwen35moe", ..QWEN35 },
    Architecture { name: "exaone", ..NEOX },
    Architecture {
        name: "exaone4",
        residual: Residual::Inside,
        norms: ["post_attention_norm", "post_ffw_norm", "output_norm"],
        windows: Windows::ButEvery(4),
        rotation: Rotation::OnlyWindows,
        ..NEOX
    },
    Architecture {
        name: "exaone-moe",
        windows: Windows::ButEvery(4),
        window: Width::Needed,
        rotation: Rotation::OnlyWindows,
        router: (Gate::Sigmoid, false),
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
        ..NEOX
    },
    Architecture { name: "dots1", router: (Gate::Softmax, false), ..NEOX },
    Architecture { name: "hunyuan-dense", qk_norm: QkNorm::After, ..NEOX },
    Architecture { name: "hunyuan-moe", qk_norm: QkNorm::After, ..NEOX },
    Architecture { name: "seed_oss", norms: ["attn_norm", "post_attention_norm", "output_norm"], ..NEOX },
    Architecture { name: "jais2", norm: NormKind::Layer, activation: Activation::Plain(Unary::ReluSquared), ..NEOX },
    Architecture { name: "minimax-m2", router: (Gate::Sigmoid, true), ..NEOX },
    Architecture { name: "mellum", windows: Windows::ButEvery(4), rotation: Rotation::WindowsUnscaled(None), ..NEOX },
    Architecture {
        name: "gpt-oss",
        norms: ["attn_norm", "post_attention_norm", "output_norm"],
        windows: Windows::ButEvery(2),
        window: Width::Needed,
        router: (Gate::SoftmaxOfChosen, false),
        activation: Activation::ClampedGlu,
        quirk: |config| {
            config.rounds_yarn.get_or_insert(false);
        },
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
        ..GEMMA
    },
    Architecture {
        name: "gemma3",
        sandwich: true,
        windows: Windows::ButEvery(6),
        rotation: Rotation::WindowsUnscaled(Some(10_000.0)),
        quirk: gemma3,
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
        ..GEMMA
    },
    Architecture {
        name: "gemma3n",
        sandwich: true,
        windows: Windows::ButEvery(5),
        rotation: Rotation::WindowsUnscaled(Some(10_000.0)),
        window: Width::Needed,
        caps: [None, Some(30.0)],
        quirk: gemma4,
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
        ..GEMMA
    },
    Architecture { name: "phi2", residual: Residual::Parallel, rotation: Rotation::Same, ..GPT },
    Architecture { name: "phi3", windows: Windows::All, ..NEOX },
    Architecture {
        name: "phimoe",
        norm: NormKind::Layer,
        windows: Windows::All,
        router: (Gate::SparseMixer(0.02), false),
        ..NEOX
    },
    Architecture { name: "stablelm", norm: NormKind::Layer, residual: Residual::ByNorm, ..NEOX },
    Architecture {
        name: "dbrx",
        norm: NormKind::Layer,
        norms: ["attn_norm", "attn_output_norm", "output_norm"],
        ..NEOX
    },
    Architecture { name: "nemotron", norm: NormKind::Layer, activation: Activation::Plain(Unary::ReluSquared), ..NEOX },
    Architecture { name: "apertus", activation: Activation::Xielu, ..NEOX },
    GPT,
    Architecture { name: "starcoder", ..GPT },
    Architecture { name: "starcoder2", rotation: Rotation::Same, ..GPT },
    Architecture { name: "gptneox", rotation: Rotation::Same, activation: Activation::Plain(Unary::GeluErf), ..GPT },
    Architecture {
        name: "falcon",
        rotation: Rotation::Same,
        residual: Residual::Parallel,
        activation: Activation::Plain(Unary::GeluErf),
        ..GPT
    },
    Architecture { name: "bloom", alibi: Some(8.0), ..GPT },
    Architecture { name: "mpt", activation: Activation::Plain(Unary::GeluErf), ..GPT },
    Architecture { name: "mamba", ..NEOX },
    Architecture { name: "mamba2", ..NEOX },
    Architecture { name: "jamba", rotation: Rotation::None, router: (Gate::Softmax, false), ..NEOX },
    Architecture { name: "falcon-h1", ..NEOX },
    Architecture {
        name: "nemotron_h",
        rotation: Rotation::None,
        activation: Activation::Plain(Unary::ReluSquared),
        ..NEOX
    },
    Architecture {
        name: "nemotron_h_moe",
        rotation: Rotation::None,
        activation: Activation::Plain(Unary::ReluSquared),
        router: (Gate::Sigmoid, false),
        ..NEOX
    },
    Architecture { name: "rwkv6", norm: NormKind::Layer, norms: ["attn_norm", "attn_norm_2", "output_norm"], ..NEOX },
    Architecture { name: "rwkv7", norm: NormKind::Layer, norms: ["attn_norm", "attn_norm_2", "output_norm"], ..NEOX },
    Architecture { name: "lfm2", windows: Windows::All, norms: ["attn_norm", "ffn_norm", "token_embd_norm"], ..NEOX },
    Architecture {
        name: "lfm2moe",
        norms: ["attn_norm", "ffn_norm", "token_embd_norm"],
        router: (Gate::Sigmoid, true),
        ..NEOX
    },
    BERT,
    Architecture { name: "nomic-bert", activation: Activation::Plain(Unary::Silu), rotation: Rotation::Same, ..BERT },
    Architecture { name: "jina-bert-v2", alibi: Some(8.0), ..BERT },
    Architecture {
        name: "modern-bert",
        encodes: true,
        norm: NormKind::Layer,
        weighing: Weighing::ButFirst,
        windows: Windows::ButFirstOf(3),
        rotation: Rotation::WindowsUnscaled(Some(10_000.0)),
        activation: Activation::Named(Unary::GeluErf),
        rank: (Unary::GeluErf, Labels::Scores),
        ..NEOX
    },
    Architecture { name: "eurobert", encodes: true, ..NEOX },
    T5,
    Architecture { name: "t5encoder", stacks: Stacks::Encoder, ..T5 },
];

/// Embeddings are multiplied by the square root of their width.
fn root_of_width(config: &mut Config) {
    config.embedding_scale = (config.dim as f32).sqrt();
}

/// The largest Gemma 2 and 3 scale scores by the width of the stream instead of a head's; the file does not say.
fn gemma2(config: &mut Config) {
    root_of_width(config);
    if config.layers == 46 {
        config.scale_scores_by_stream();
    }
}

fn gemma3(config: &mut Config) {
    root_of_width(config);
    if config.layers == 62 {
        config.scale_scores_by_stream();
    }
}

/// Norms on queries, keys and values take the place of a scale.
fn gemma4(config: &mut Config) {
    root_of_width(config);
    config.leave_scores();
    config.value_norm = true;
}

/// The 13B model, of 40 layers, has ALiBi instead of rotary positions; the file does not say.
fn baichuan(config: &mut Config) {
    if config.layers == 40 {
        config.use_alibi(8.0);
    }
}

/// Files older than the keys mean the numbers of MiniCPM 2B.
fn minicpm(config: &mut Config) {
    let Config { layers, dim, .. } = *config;
    let or = |value: &mut f32, default: f32| {
        if *value == 1.0 {
            *value = default;
        }
    };
    or(&mut config.embedding_scale, 12.0);
    or(&mut config.residual_scale, 1.4 / (layers as f32).sqrt());
    or(&mut config.logit_scale, 256.0 / dim as f32);
}

/// The file does not say these.
fn minicpm3(config: &mut Config) {
    minicpm(config);
}

impl Architecture {
    /// The row of the file's architecture.
    ///
    /// # Errors
    /// If the file names none or an unknown one.
    pub fn of(gguf: &Gguf) -> Result<Architecture, Error> {
        const KEY: &str = "general.architecture";
        let name = gguf.metadata().str(KEY)?.ok_or_else(|| Error::MissingKey(KEY.into()))?;
        ARCHITECTURES
            .iter()
            .find(|row| row.name == name)
            .copied()
            .ok_or_else(|| Error::UnknownArchitecture { name: name.into(), known: ARCHITECTURES.len() })
    }
}
