//! A tiny T5 of random weights: an encoder that reads a text, and a decoder that answers it.

use candor_gguf::{Format, Gguf, Value, Writer};

use crate::{Random, Tiny};

/// The shape of a tiny T5; its vocabulary is [`Tiny`]'s.
#[derive(Clone, Copy, Debug)]
pub struct TinyT5 {
    /// Layers of the encoder and of the decoder.
    pub layers: [usize; 2],
    /// Width of the residual stream.
    pub dim: usize,
    /// Heads.
    pub heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the feed-forward's middle.
    pub ffn: usize,
    /// Buckets of distances.
    pub buckets: usize,
    /// Where the random numbers start.
    pub seed: u64,
}

impl Default for TinyT5 {
    fn default() -> Self {
        TinyT5 { layers: [2, 3], dim: 32, heads: 4, head_dim: 8, ffn: 48, buckets: 8, seed: 1 }
    }
}

impl TinyT5 {
    /// The token that answers begin with.
    pub const START: u32 = 0;

    /// The metadata, vocabulary included.
    pub fn metadata(&self) -> Vec<(String, Value)> {
        let key = |rest: &str| format!("t5.{rest}");
        let number = |value: usize| Value::from(value as u32);
        let vocabulary = Tiny::default().metadata().into_iter().filter(|(key, _)| key.starts_with("tokenizer."));
        let mut all = vec![
            ("general.architecture".into(), "t5".into()),
            ("general.name".into(), "tiny".into()),
            (key("block_count"), number(self.layers[0])),
            (key("decoder_block_count"), number(self.layers[1])),
            (key("context_length"), number(64)),
            (key("embedding_length"), number(self.dim)),
            (key("feed_forward_length"), number(self.ffn)),
            (key("attention.head_count"), number(self.heads)),
            (key("attention.key_length"), number(self.head_dim)),
            (key("attention.value_length"), number(self.head_dim)),
            (key("attention.layer_norm_rms_epsilon"), 1e-6f32.into()),
            (key("attention.relative_buckets_count"), number(self.buckets)),
            (key("decoder_start_token_id"), Self::START.into()),
        ];
        all.extend(vocabulary);
        all.push(("tokenizer.ggml.add_bos_token".into(), false.into()));
        all.push(("tokenizer.ggml.add_eos_token".into(), true.into()));
        all
    }

    /// Names and shapes of the tensors, the row length first.
    pub fn tensors(&self) -> Vec<(String, Vec<u64>)> {
        let [dim, ffn, vocab] = [self.dim, self.ffn, Tiny::VOCAB].map(|len| len as u64);
        let att = (self.heads * self.head_dim) as u64;
        let mut tensors = vec![("token_embd.weight".into(), vec![dim, vocab])];
        for (stack, layers) in ["enc", "dec"].into_iter().zip(self.layers) {
            for layer in 0..layers {
                let mut add = |name: &str, shape: &[u64]| {
                    tensors.push((format!("{stack}.blk.{layer}.{name}.weight"), shape.to_vec()));
                };
                let across: &[&str] = if stack == "dec" { &["attn", "cross_attn"] } else { &["attn"] };
                for attention in across {
                    add(&format!("{attention}_norm"), &[dim]);
                    for part in ["q", "k", "v"] {
                        add(&format!("{attention}_{part}"), &[dim, att]);
                    }
                    add(&format!("{attention}_o"), &[att, dim]);
                }
                if layer == 0 {
                    add("attn_rel_b", &[self.heads as u64, self.buckets as u64]);
                }
                add("ffn_norm", &[dim]);
                add("ffn_gate", &[dim, ffn]);
                add("ffn_up", &[dim, ffn]);
                add("ffn_down", &[ffn, dim]);
            }
            tensors.push((format!("{stack}.output_norm.weight"), vec![dim]));
        }
        tensors.push(("output.weight".into(), vec![dim, vocab]));
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
            // As in `Tiny`; but scores are not scaled, so that queries are small, and the scores by distance are large.
            let root = (3.0 / shape[0] as f32).sqrt();
            let (middle, spread) = match name.as_str() {
                _ if shape.len() == 1 => (1.0, 0.2),
                name if name.contains("attn_rel_b") => (0.0, 2.0),
                name if name.contains("attn_q") => (0.0, root / 2.0),
                _ => (0.0, root),
            };
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
}

/// The encoder's half of a T5 file, as `t5encoder`.
pub fn encoder_of(gguf: &Gguf) -> Gguf {
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| !key.contains("decoder")) {
        match (key, key.strip_prefix("t5.")) {
            ("general.architecture", _) => writer.insert(key, "t5encoder"),
            (_, Some(rest)) => writer.insert(format!("t5encoder.{rest}"), value.clone()),
            (_, None) => writer.insert(key, value.clone()),
        };
    }
    let tensors =
        gguf.tensors().iter().filter(|info| info.name.starts_with("enc.") || info.name == "token_embd.weight");
    for info in tensors {
        writer.tensor(&info.name, info.format, &info.shape, gguf.data(info).to_vec()).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}
