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
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub ffn: u64,
    pub vocab: u32,
    pub context: u32,
    pub rope_base: f32,
    /// The head is the embedding.
    pub tied: bool,
    /// Experts of each layer, and how many a token goes to; `ffn` is the width of one.
    pub experts: Option<(u32, u32)>,
    /// Queries and keys are normed head by head.
    pub qk_norm: bool,
    /// Llama 3's scaling of rope frequencies.
    pub rope_scaling: Option<RopeScaling>,
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
    heads: 32,
    kv_heads: 32,
    head_dim: 128,
    ffn: 11008,
    vocab: 32000,
    context: 4096,
    rope_base: 10_000.0,
    tied: false,
    experts: None,
    qk_norm: false,
    rope_scaling: None,
};

/// Every shape there is.
pub const SHAPES: &[Shape] = &[
    Shape {
        name: "tiny",
        layers: 4,
        dim: 256,
        heads: 8,
        kv_heads: 2,
        head_dim: 32,
        ffn: 768,
        vocab: 1024,
        ..LLAMA2_7B
    },
    Shape {
        name: "tinyllama",
        layers: 22,
        dim: 2048,
        kv_heads: 4,
        head_dim: 64,
        ffn: 5632,
        context: 2048,
        ..LLAMA2_7B
    },
    Shape {
        name: "llama3.2-3b",
        layers: 28,
        dim: 3072,
        heads: 24,
        kv_heads: 8,
        ffn: 8192,
        vocab: 128_256,
        context: 131_072,
        rope_base: 500_000.0,
        tied: true,
        rope_scaling: Some(RopeScaling { factor: 32.0, low: 1.0, high: 4.0, context: 8192.0 }),
        ..LLAMA2_7B
    },
    LLAMA2_7B,
    // 8 of its 48 layers.
    Shape {
        name: "qwen3-30b-a3b-8",
        arch: "qwen3moe",
        layers: 8,
        dim: 2048,
        kv_heads: 4,
        ffn: 768,
        context: 40_960,
        rope_base: 1_000_000.0,
        experts: Some((128, 8)),
        qk_norm: true,
        ..LLAMA2_7B
    },
];

impl Shape {
    /// Writes the keys of the architecture.
    pub fn describe(&self, writer: &mut Writer) {
        writer.insert("general.architecture", self.arch);
        let key = |rest: &str| format!("{}.{rest}", self.arch);
        writer.insert("general.name", format!("random {}", self.name));
        writer.insert(key("block_count"), self.layers);
        writer.insert(key("context_length"), self.context);
        writer.insert(key("embedding_length"), self.dim as u32);
        writer.insert(key("feed_forward_length"), self.ffn as u32);
        writer.insert(key("attention.head_count"), self.heads as u32);
        writer.insert(key("attention.head_count_kv"), self.kv_heads as u32);
        writer.insert(key("attention.key_length"), self.head_dim as u32);
        writer.insert(key("attention.value_length"), self.head_dim as u32);
        writer.insert(key("attention.layer_norm_rms_epsilon"), 1e-5f32);
        writer.insert(key("rope.dimension_count"), self.head_dim as u32);
        writer.insert(key("rope.freq_base"), self.rope_base);
        writer.insert(key("vocab_size"), self.vocab);
        if let Some((experts, used)) = self.experts {
            writer.insert(key("expert_count"), experts);
            writer.insert(key("expert_used_count"), used);
            writer.insert(key("expert_feed_forward_length"), self.ffn as u32);
        }
    }

    /// The divisors of the rope frequencies that `rope_freqs.weight` holds.
    pub fn rope_factors(&self) -> Option<Vec<f32>> {
        let RopeScaling { factor, low, high, context } = *self.rope_scaling.as_ref()?;
        let pairs = self.head_dim / 2;
        let divisor = |pair| {
            let frequency = self.rope_base.powf(-(pair as f32) / pairs as f32);
            let turns = context * frequency / std::f32::consts::TAU;
            // Short waves turn often within the first context and stay; long ones stretch; between, a blend.
            let blend = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            1.0 / (blend + (1.0 - blend) / factor)
        };
        Some((0..pairs).map(divisor).collect())
    }
}
