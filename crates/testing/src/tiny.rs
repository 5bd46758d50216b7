//! Tiny models with random weights and a small SPM vocabulary, made in memory from a seed.

use candor_gguf::{Array, Format, Value, Writer};

/// A reproducible stream of numbers (splitmix64; Steele et al. 2014).
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in -1..1.
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Uniform in 0..`below`.
    pub fn below(&mut self, below: usize) -> usize {
        (self.bits() % below as u64) as usize
    }
}

/// The shape of a tiny model of an architecture with the llama wiring.
#[derive(Clone, Debug)]
pub struct Tiny {
    /// `general.architecture`.
    pub arch: &'static str,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub dim: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the feed-forward's middle.
    pub ffn: usize,
    /// Whether the head has a matrix of its own.
    pub head: bool,
    /// Where the random numbers start.
    pub seed: u64,
}

impl Default for Tiny {
    fn default() -> Self {
        Tiny { arch: "llama", layers: 2, dim: 32, heads: 4, kv_heads: 2, head_dim: 8, ffn: 48, head: true, seed: 1 }
    }
}

impl Tiny {
    /// Tokens of the vocabulary: unknown, BOS, EOS, 256 bytes, and letters with and without a space.
    pub const VOCAB: usize = 3 + 256 + 2 * 26 + 1;

    /// The metadata, vocabulary included.
    pub fn metadata(&self) -> Vec<(String, Value)> {
        let key = |rest: &str| format!("{}.{rest}", self.arch);
        let number = |value: usize| Value::from(value as u32);
        let mut tokens: Vec<String> = vec!["<unk>".into(), "<s>".into(), "</s>".into()];
        let mut types = vec![2i32, 3, 3];
        tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
        types.extend([6; 256]);
        tokens.push("\u{2581}".into());
        tokens.extend(('a'..='z').map(String::from));
        tokens.extend(('a'..='z').map(|letter| format!("\u{2581}{letter}")));
        types.extend([1; 53]);
        let scores: Vec<f32> = (0..tokens.len()).map(|id| -(id as f32)).collect();
        vec![
            ("general.architecture".into(), self.arch.into()),
            ("general.name".into(), "tiny".into()),
            (key("block_count"), number(self.layers)),
            (key("context_length"), number(64)),
            (key("embedding_length"), number(self.dim)),
            (key("feed_forward_length"), number(self.ffn)),
            (key("attention.head_count"), number(self.heads)),
            (key("attention.head_count_kv"), number(self.kv_heads)),
            (key("attention.key_length"), number(self.head_dim)),
            (key("attention.value_length"), number(self.head_dim)),
            (key("attention.layer_norm_rms_epsilon"), 1e-5f32.into()),
            (key("rope.dimension_count"), number(self.head_dim)),
            ("tokenizer.ggml.model".into(), "llama".into()),
            ("tokenizer.ggml.tokens".into(), Value::Array(Array::String(tokens))),
            ("tokenizer.ggml.scores".into(), Value::Array(Array::F32(scores))),
            ("tokenizer.ggml.token_type".into(), Value::Array(Array::I32(types))),
            ("tokenizer.ggml.bos_token_id".into(), 1u32.into()),
            ("tokenizer.ggml.eos_token_id".into(), 2u32.into()),
            ("tokenizer.ggml.unknown_token_id".into(), 0u32.into()),
        ]
    }

    /// Names and shapes of the tensors, the row length first.
    pub fn tensors(&self) -> Vec<(String, Vec<u64>)> {
        let (dim, ffn, vocab) = (self.dim as u64, self.ffn as u64, Self::VOCAB as u64);
        let (q, kv) = ((self.heads * self.head_dim) as u64, (self.kv_heads * self.head_dim) as u64);
        let mut tensors = vec![("token_embd.weight".into(), vec![dim, vocab])];
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[u64]| {
                tensors.push((format!("blk.{layer}.{name}.weight"), shape.to_vec()));
            };
            add("attn_norm", &[dim]);
            add("attn_q", &[dim, q]);
            add("attn_k", &[dim, kv]);
            add("attn_v", &[dim, kv]);
            add("attn_output", &[q, dim]);
            add("ffn_norm", &[dim]);
            add("ffn_gate", &[dim, ffn]);
            add("ffn_up", &[dim, ffn]);
            add("ffn_down", &[ffn, dim]);
        }
        tensors.push(("output_norm.weight".into(), vec![dim]));
        if self.head {
            tensors.push(("output.weight".into(), vec![dim, vocab]));
        }
        tensors
    }

    /// The model as a writer of F32 tensors, to be changed or written.
    ///
    /// # Panics
    /// Never for the shapes above.
    pub fn writer(&self) -> Writer {
        let mut writer = Writer::new();
        for (key, value) in self.metadata() {
            writer.insert(key, value);
        }
        let mut random = Random(self.seed);
        for (name, shape) in self.tensors() {
            let count = shape.iter().product::<u64>() as usize;
            // Norms around 1, matrices with rows of about unit length: activations keep their size.
            let (middle, spread) = if shape.len() == 1 { (1.0, 0.2) } else { (0.0, (3.0 / shape[0] as f32).sqrt()) };
            let values = (0..count).flat_map(|_| (middle + spread * random.signed()).to_le_bytes());
            let bytes: Vec<u8> = values.collect();
            writer.tensor(&name, Format::F32, &shape, bytes).expect("a fresh name and a fitting length");
        }
        writer
    }

    /// The model as the bytes of a file.
    ///
    /// # Panics
    /// Never for the shapes above.
    pub fn bytes(&self) -> Vec<u8> {
        self.writer().to_bytes().expect("a complete model").to_vec()
    }

    /// A model whose layers have vectors beside the usual tensors: each name within a layer with its length, biases of random
    /// numbers around 0 and others around 1. Matrices are in `format`.
    ///
    /// # Panics
    /// If a row is no whole number of the format's blocks.
    pub fn writer_with(&self, vectors: &[(&str, usize)], format: Format) -> Writer {
        let mut writer = Writer::new();
        self.metadata().into_iter().for_each(|(key, value)| writer.insert(key, value));
        let mut tensors = self.tensors();
        for layer in 0..self.layers {
            tensors.extend(vectors.iter().map(|(name, len)| (format!("blk.{layer}.{name}"), vec![*len as u64])));
        }
        let mut random = Random(11);
        for (name, shape) in tensors {
            let (middle, spread, format) = match shape.len() {
                1 if name.ends_with("bias") => (0.0, 0.3, Format::F32),
                1 => (1.0, 0.2, Format::F32),
                _ => (0.0, (3.0 / shape[0] as f32).sqrt(), format),
            };
            let values: Vec<f32> = (0..shape.iter().product()).map(|_| middle + spread * random.signed()).collect();
            let mut bytes = vec![0; format.row_bytes(values.len()).expect("rows are whole blocks")];
            format.encode(&values, &mut bytes).expect("a format that can be encoded");
            writer.tensor(&name, format, &shape, bytes).expect("a tensor of its own name");
        }
        writer
    }
}
