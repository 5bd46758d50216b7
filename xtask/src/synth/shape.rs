//! The shapes of real models: the numbers of their published configurations.

use candor_gguf::Writer;

/// A model without its weights.
pub struct Shape {
    /// What the command line calls it.
    pub name: &'static str,
    /// `general.architecture`.
    pub arch: &'static str,
    pub layers: u32,
    pub dim: u64,
    pub vocab: u32,
    pub context: u32,
    /// The head is the embedding.
    pub tied: bool,
    /// What mixes tokens, layer after layer, again from the first where there are more layers.
    pub mixers: &'static [Mixer],
    pub ffn: Ffn,
}

/// What mixes tokens.
pub enum Mixer {
    Attention(Attention),
    Latent(Latent),
    Mamba {
        inner: u64,
        state: u64,
        rank: u64,
    },
    Mamba2 {
        inner: u64,
        state: u64,
        heads: u64,
        groups: u64,
    },
    /// The gated delta rule of Qwen3-Next: `heads` of values, each key head serves several.
    Delta {
        heads: u64,
        key_heads: u64,
        head_dim: u64,
    },
}

/// Attention over cached keys and values.
pub struct Attention {
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    /// Elements of a head that turn; 0 where nothing does.
    pub turning: u64,
    pub rope_base: f32,
    /// Llama 3's scaling of rope frequencies.
    pub rope_scaling: Option<RopeScaling>,
    /// Queries and keys are normed head by head.
    pub qk_norm: bool,
    /// Queries come with a gate as wide as they are.
    pub gated: bool,
}

/// Multi-head latent attention.
pub struct Latent {
    pub heads: u64,
    /// Width of the vector that keys and values are made of.
    pub rank: u64,
    /// Elements of a key that do not turn, and that do.
    pub still: u64,
    pub turning: u64,
    pub value: u64,
}

/// What follows the mixer.
pub enum Ffn {
    /// Nothing.
    None,
    /// Gate, up and down, of this width.
    Gated(u64),
    /// Up and down with biases, and all norms after what they norm: an encoder of BERT's kind.
    Encoder(u64),
    Experts(Experts),
}

/// A mixture of experts.
pub struct Experts {
    pub count: u32,
    pub used: u32,
    /// Width of one.
    pub width: u64,
    /// Width of what every token goes through beside them.
    pub shared: u64,
    /// Whether a learned gate weighs that.
    pub shared_gate: bool,
    /// First layers that have no experts, and the width of these.
    pub dense: (u32, u64),
}

/// Stretches long waves by `factor` and leaves short ones alone.
pub struct RopeScaling {
    pub factor: f32,
    pub low: f32,
    pub high: f32,
    /// Tokens that the model was first trained on.
    pub context: f32,
}

const LLAMA2_7B: Shape = Shape {
    name: "llama2-7b",
    arch: "llama",
    layers: 32,
    dim: 4096,
    vocab: 32000,
    context: 4096,
    tied: false,
    mixers: &[Mixer::Attention(HEADS)],
    ffn: Ffn::Gated(11008),
};

const HEADS: Attention = Attention {
    heads: 32,
    kv_heads: 32,
    head_dim: 128,
    turning: 128,
    rope_base: 10_000.0,
    rope_scaling: None,
    qk_norm: false,
    gated: false,
};

const EXPERTS: Experts = Experts { count: 128, used: 8, width: 768, shared: 0, shared_gate: false, dense: (0, 0) };

/// Every shape there is.
pub const SHAPES: &[Shape] = &[
    Shape {
        name: "tiny",
        layers: 4,
        dim: 256,
        vocab: 1024,
        mixers: &[Mixer::Attention(Attention { heads: 8, kv_heads: 2, head_dim: 32, turning: 32, ..HEADS })],
        ffn: Ffn::Gated(768),
        ..LLAMA2_7B
    },
    Shape {
        name: "tinyllama",
        layers: 22,
        dim: 2048,
        context: 2048,
        mixers: &[Mixer::Attention(Attention { kv_heads: 4, head_dim: 64, turning: 64, ..HEADS })],
        ffn: Ffn::Gated(5632),
        ..LLAMA2_7B
    },
    Shape {
        name: "llama3.2-3b",
        layers: 28,
        dim: 3072,
        vocab: 128_256,
        context: 131_072,
        tied: true,
        mixers: &[Mixer::Attention(Attention {
            heads: 24,
            kv_heads: 8,
            rope_base: 500_000.0,
            rope_scaling: Some(RopeScaling { factor: 32.0, low: 1.0, high: 4.0, context: 8192.0 }),
            ..HEADS
        })],
        ffn: Ffn::Gated(8192),
        ..LLAMA2_7B
    },
    LLAMA2_7B,
    // 8 of its 48 layers.
    Shape {
        name: "qwen3-30b-a3b-8",
        arch: "qwen3moe",
        layers: 8,
        dim: 2048,
        context: 40_960,
        mixers: &[Mixer::Attention(Attention { kv_heads: 4, rope_base: 1_000_000.0, qk_norm: true, ..HEADS })],
        ffn: Ffn::Experts(EXPERTS),
        ..LLAMA2_7B
    },
    // 4 of its 48 layers: three delta rules and an attention.
    Shape {
        name: "qwen3-next-80b-a3b-4",
        arch: "qwen3next",
        layers: 4,
        dim: 2048,
        context: 262_144,
        mixers: &[
            QWEN3_NEXT_DELTA,
            QWEN3_NEXT_DELTA,
            QWEN3_NEXT_DELTA,
            Mixer::Attention(Attention {
                heads: 16,
                kv_heads: 2,
                head_dim: 256,
                turning: 64,
                rope_base: 10_000_000.0,
                qk_norm: true,
                gated: true,
                ..HEADS
            }),
        ],
        ffn: Ffn::Experts(Experts { count: 512, used: 10, width: 512, shared: 512, shared_gate: true, ..EXPERTS }),
        ..LLAMA2_7B
    },
    // Whole: llama.cpp knows the lite ones by their 27 layers.
    Shape {
        name: "deepseek-v2-lite",
        arch: "deepseek2",
        layers: 27,
        dim: 2048,
        vocab: 102_400,
        context: 163_840,
        mixers: &[Mixer::Latent(Latent { heads: 16, rank: 512, still: 128, turning: 64, value: 128 })],
        ffn: Ffn::Experts(Experts { count: 64, used: 6, width: 1408, shared: 2816, dense: (1, 10_944), ..EXPERTS }),
        ..LLAMA2_7B
    },
    Shape {
        name: "mamba-1.4b",
        arch: "mamba",
        layers: 48,
        dim: 2048,
        vocab: 50_280,
        context: 1_048_576,
        tied: true,
        mixers: &[Mixer::Mamba { inner: 4096, state: 16, rank: 128 }],
        ffn: Ffn::None,
    },
    Shape {
        name: "mamba2-1.3b",
        arch: "mamba2",
        layers: 48,
        dim: 2048,
        vocab: 50_288,
        context: 1_048_576,
        tied: true,
        mixers: &[Mixer::Mamba2 { inner: 4096, state: 128, heads: 64, groups: 1 }],
        ffn: Ffn::None,
    },
    Shape {
        name: "bge-base",
        arch: "bert",
        layers: 12,
        dim: 768,
        vocab: 30_522,
        context: 512,
        tied: true,
        mixers: &[Mixer::Attention(Attention { heads: 12, kv_heads: 12, head_dim: 64, turning: 0, ..HEADS })],
        ffn: Ffn::Encoder(3072),
    },
];

const QWEN3_NEXT_DELTA: Mixer = Mixer::Delta { heads: 32, key_heads: 16, head_dim: 128 };

impl Shape {
    /// What mixes tokens in a layer.
    pub fn mixer(&self, layer: u32) -> &'static Mixer {
        &self.mixers[layer as usize % self.mixers.len()]
    }

    /// Its attention, if it has one.
    pub fn attention(&self) -> Option<&'static Attention> {
        self.mixers
            .iter()
            .find_map(|mixer| if let Mixer::Attention(attention) = mixer { Some(attention) } else { None })
    }

    /// Writes the keys of the architecture.
    pub fn describe(&self, writer: &mut Writer) {
        writer.insert("general.architecture", self.arch);
        writer.insert("general.name", format!("random {}", self.name));
        let mut put = Keys { writer, arch: self.arch };
        put.number("block_count", u64::from(self.layers));
        put.number("context_length", u64::from(self.context));
        put.number("embedding_length", self.dim);
        put.number("vocab_size", u64::from(self.vocab));
        let epsilon = if matches!(self.ffn, Ffn::Encoder(_)) { "epsilon" } else { "rms_epsilon" };
        put.float(&format!("attention.layer_norm_{epsilon}"), 1e-5);
        // Kinds of layers differ in their keys, layers of a kind do not.
        for mixer in self.mixers.iter().take(1).chain(self.mixers.last().filter(|_| self.mixers.len() > 1)) {
            mixer.describe(&mut put);
        }
        if self.mixers.len() > 1 {
            put.number("full_attention_interval", self.mixers.len() as u64);
        }
        self.ffn.describe(&mut put);
    }

    /// The divisors of the rope frequencies that `rope_freqs.weight` holds.
    pub fn rope_factors(&self) -> Option<Vec<f32>> {
        let attention = self.attention()?;
        let RopeScaling { factor, low, high, context } = *attention.rope_scaling.as_ref()?;
        let pairs = attention.turning / 2;
        let divisor = |pair| {
            let frequency = attention.rope_base.powf(-(pair as f32) / pairs as f32);
            let turns = context * frequency / std::f32::consts::TAU;
            // Short waves turn often within the first context and stay; long ones stretch; between, a blend.
            let blend = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            1.0 / (blend + (1.0 - blend) / factor)
        };
        Some((0..pairs).map(divisor).collect())
    }
}

/// Metadata under an architecture's name.
struct Keys<'a> {
    writer: &'a mut Writer,
    arch: &'static str,
}

impl Keys<'_> {
    fn number(&mut self, rest: &str, value: u64) {
        self.writer.insert(format!("{}.{rest}", self.arch), value as u32);
    }

    fn float(&mut self, rest: &str, value: f32) {
        self.writer.insert(format!("{}.{rest}", self.arch), value);
    }
}

impl Mixer {
    fn describe(&self, put: &mut Keys<'_>) {
        match *self {
            Mixer::Attention(Attention { heads, kv_heads, head_dim, turning, rope_base, .. }) => {
                put.number("attention.head_count", heads);
                put.number("attention.head_count_kv", kv_heads);
                put.number("attention.key_length", head_dim);
                put.number("attention.value_length", head_dim);
                if turning > 0 {
                    put.number("rope.dimension_count", turning);
                    put.float("rope.freq_base", rope_base);
                }
            }
            Mixer::Latent(Latent { heads, rank, still, turning, value }) => {
                put.number("attention.head_count", heads);
                put.number("attention.head_count_kv", 1);
                put.number("attention.key_length", rank + turning);
                put.number("attention.value_length", rank);
                put.number("attention.key_length_mla", still + turning);
                put.number("attention.value_length_mla", value);
                put.number("attention.kv_lora_rank", rank);
                put.number("rope.dimension_count", turning);
                put.float("rope.freq_base", 10_000.0);
            }
            Mixer::Mamba { inner, state, rank } => put.states(inner, state, rank, 0),
            Mixer::Mamba2 { inner, state, heads, groups } => put.states(inner, state, heads, groups),
            Mixer::Delta { heads, key_heads, head_dim } => put.states(heads * head_dim, head_dim, heads, key_heads),
        }
    }
}

impl Keys<'_> {
    /// Keys of a recurrence.
    fn states(&mut self, inner: u64, state: u64, rank: u64, groups: u64) {
        self.number("ssm.conv_kernel", 4);
        self.number("ssm.inner_size", inner);
        self.number("ssm.state_size", state);
        self.number("ssm.time_step_rank", rank);
        if groups > 0 {
            self.number("ssm.group_count", groups);
        }
    }
}

impl Ffn {
    fn describe(&self, put: &mut Keys<'_>) {
        match *self {
            Ffn::None => {
                put.number("feed_forward_length", 0);
                put.number("attention.head_count", 0);
            }
            Ffn::Gated(width) => put.number("feed_forward_length", width),
            Ffn::Encoder(width) => {
                put.number("feed_forward_length", width);
                put.writer.insert(format!("{}.attention.causal", put.arch), false);
                put.writer.insert("tokenizer.ggml.token_type_count", 2u32);
                put.number("pooling_type", 2);
            }
            Ffn::Experts(Experts { count, used, width, shared, dense, .. }) => {
                put.number("feed_forward_length", if dense.0 > 0 { dense.1 } else { width });
                put.number("expert_count", u64::from(count));
                put.number("expert_used_count", u64::from(used));
                put.number("expert_feed_forward_length", width);
                if shared > 0 {
                    put.number("expert_shared_feed_forward_length", shared);
                    put.number("expert_shared_count", shared / width);
                }
                if dense.0 > 0 {
                    put.number("leading_dense_block_count", u64::from(dense.0));
                    put.float("expert_weights_scale", 1.0);
                }
            }
        }
    }
}
