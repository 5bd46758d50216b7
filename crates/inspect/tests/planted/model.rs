//! Random models in which faults can show: rows of different sizes, a BOS row near zero, small norms in the first layer,
//! as TinyLlama has them.

use candor_gguf::{Format, Gguf, Writer, half};
use candor_testing::{Random, Tiny};

/// What a model has beside its shape.
#[derive(Clone, Debug)]
pub struct Shape {
    pub name: &'static str,
    pub tiny: Tiny,
    pub matrices: Format,
    pub biases: bool,
    pub head_norms: bool,
    pub rope: Rope,
    /// Of which each token goes to two; 0: the feed-forward is one.
    pub experts: usize,
    /// On the embedding and the first layer's matrices: small ones have subnormal scales, large ones overflow.
    pub size: f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rope {
    Plain,
    Factors,
    Linear,
    Yarn,
    Long,
}

impl Shape {
    pub fn gguf(&self) -> Gguf {
        let tiny = &self.tiny;
        let mut writer = Writer::new();
        for (key, value) in tiny.metadata() {
            writer.insert(key, value);
        }
        let arch = tiny.arch;
        let scaling = match self.rope {
            Rope::Plain | Rope::Factors => None,
            Rope::Linear => Some("linear"),
            Rope::Yarn => Some("yarn"),
            Rope::Long => Some("longrope"),
        };
        if let Some(scaling) = scaling {
            writer.insert(format!("{arch}.rope.scaling.type"), scaling);
            writer.insert(format!("{arch}.rope.scaling.original_context_length"), 4096u32);
        }
        match self.rope {
            Rope::Linear | Rope::Yarn => writer.insert(format!("{arch}.rope.scaling.factor"), 4.0f32),
            Rope::Long => writer.insert(format!("{arch}.rope.scaling.attn_factor"), 1.2f32),
            Rope::Plain | Rope::Factors => {}
        }
        let mut random = Random(tiny.seed);
        let mut tensors = tiny.tensors();
        if self.experts > 0 {
            writer.insert(format!("{arch}.expert_count"), self.experts as u32);
            writer.insert(format!("{arch}.expert_used_count"), 2u32);
            for (name, shape) in &mut tensors {
                if ["ffn_gate", "ffn_up", "ffn_down"].iter().any(|part| name.contains(part)) {
                    *name = name.replace(".weight", "_exps.weight");
                    shape.push(self.experts as u64);
                }
            }
            let router =
                |layer| (format!("blk.{layer}.ffn_gate_inp.weight"), vec![tiny.dim as u64, self.experts as u64]);
            tensors.extend((0..tiny.layers).map(router));
        }
        let (q, kv) = ((tiny.heads * tiny.head_dim) as u64, (tiny.kv_heads * tiny.head_dim) as u64);
        for layer in 0..tiny.layers {
            let mut add = |name: &str, len: u64| tensors.push((format!("blk.{layer}.{name}"), vec![len]));
            if self.biases {
                add("attn_q.bias", q);
                add("attn_k.bias", kv);
                add("attn_v.bias", kv);
                if self.experts > 0 {
                    add("ffn_gate_inp.bias", self.experts as u64);
                }
            }
            if self.head_norms {
                add("attn_q_norm.weight", tiny.head_dim as u64);
                add("attn_k_norm.weight", tiny.head_dim as u64);
            }
        }
        if self.biases && self.experts > 0 {
            let sizes = [("gate", tiny.ffn), ("up", tiny.ffn), ("down", tiny.dim)];
            for (layer, (part, size)) in (0..tiny.layers).flat_map(|layer| sizes.map(|size| (layer, size))) {
                let name = format!("blk.{layer}.ffn_{part}_exps.bias");
                tensors.push((name, vec![size as u64, self.experts as u64]));
            }
        }
        let factors: &[&str] = match self.rope {
            Rope::Factors => &["rope_freqs.weight"],
            Rope::Long => &["rope_factors_short.weight", "rope_factors_long.weight"],
            Rope::Plain | Rope::Linear | Rope::Yarn => &[],
        };
        tensors.extend(factors.iter().map(|&name| (name.to_owned(), vec![tiny.head_dim as u64 / 2])));
        for (name, shape) in tensors {
            let count = shape.iter().product::<u64>() as usize;
            let values: Vec<f32> = (0..count)
                .map(|at| {
                    let noise = random.signed();
                    match name.as_str() {
                        "rope_freqs.weight" | "rope_factors_short.weight" => [1.0, 1.5, 4.0, 8.0][at % 4],
                        "rope_factors_long.weight" => [1.1, 2.5, 7.0, 20.0][at % 4],
                        "token_embd.weight" => {
                            let row = at / shape[0] as usize;
                            // <unk>, BOS and bytes are nearly zero, words are small.
                            0.02 * noise * self.size * if row < 3 { 0.15 } else { 1.0 }
                        }
                        _ if name.ends_with(".bias") => 0.3 * noise,
                        "blk.0.attn_norm.weight" => 0.05 + 0.04 * noise,
                        _ if shape.len() == 1 => 0.8 + 0.5 * noise,
                        _ => noise * self.size * 1.6 / (shape[0] as f32).sqrt(),
                    }
                })
                .collect();
            let plain = shape.len() == 1 || name.contains("ffn_gate_inp") || name.ends_with(".bias");
            let format = if plain { Format::F32 } else { self.matrices };
            let bytes = match format {
                Format::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
                _ => {
                    let mut bytes = vec![0; format.row_bytes(count).unwrap()];
                    if format.encode(&values, &mut bytes).is_err() {
                        let square: f32 = values.iter().map(|x| x * x).sum::<f32>() / count as f32;
                        random_blocks(format, &mut random, square.sqrt(), &mut bytes);
                    }
                    bytes
                }
            };
            writer.tensor(&name, format, &shape, bytes).unwrap();
        }
        Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
    }
}

/// Random quants with scales that give values of this root mean square; for formats that nothing here encodes.
fn random_blocks(format: Format, random: &mut Random, rms: f32, bytes: &mut [u8]) {
    // Where the scale and the scale of minima are, and the middle of the quants that the minimum takes away.
    let (scale, minimum, middle) = match format {
        Format::Q2K => (80, Some(82), 1.5),
        Format::Q3K => (108, None, 0.0),
        Format::Q4K => (0, Some(2), 7.5),
        Format::Q5K => (0, Some(2), 15.5),
        Format::Q6K => (208, None, 0.0),
        _ => panic!("{} blocks", format.name()),
    };
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        block.fill_with(|| random.bits() as u8);
        let set = |block: &mut [u8], factor: f32| {
            let mut put = |at: usize, x: f32| block[at..at + 2].copy_from_slice(&half::f32_to_f16(x).to_le_bytes());
            put(scale, factor);
            if let Some(at) = minimum {
                put(at, factor * middle);
            }
        };
        set(block, 1.0);
        let mut values = vec![0.0f32; format.block_len()];
        format.decode(block, &mut values);
        let unit = (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt();
        set(block, rms / unit * (1.0 + 0.3 * random.signed()));
    }
}

/// The llama wiring, tiny.
pub fn llama() -> Shape {
    Shape {
        name: "llama",
        tiny: Tiny { layers: 3, dim: 80, heads: 10, kv_heads: 2, head_dim: 8, ffn: 112, ..Tiny::default() },
        matrices: Format::F32,
        biases: false,
        head_norms: false,
        rope: Rope::Plain,
        experts: 0,
        size: 1.0,
    }
}

/// The qwen3 wiring, tiny: norms of heads, halves rotated, heads wider than the model.
pub fn qwen3() -> Shape {
    let tiny = Tiny { arch: "qwen3", heads: 8, kv_heads: 2, head_dim: 16, head: false, seed: 2, ..llama().tiny };
    Shape { name: "qwen3", tiny, head_norms: true, ..llama() }
}

/// The llama wiring in TinyLlama's proportions: 32 heads over 4, rows that K-quants fit.
pub fn proportioned(matrices: Format) -> Shape {
    let tiny = Tiny { layers: 2, dim: 256, heads: 16, kv_heads: 2, head_dim: 16, ffn: 768, seed: 3, ..llama().tiny };
    Shape { name: "llama-wide", tiny, matrices, ..llama() }
}

/// A mixture of four experts, two of them for each token.
pub fn experts() -> Shape {
    let tiny = Tiny { layers: 2, dim: 64, heads: 8, ffn: 96, seed: 5, ..llama().tiny };
    Shape { name: "mixtral", tiny, experts: 4, matrices: Format::Q8_0, ..llama() }
}

/// The qwen3 wiring in the same proportions.
pub fn qwen3_proportioned(matrices: Format) -> Shape {
    let tiny = Tiny { arch: "qwen3", head: false, head_dim: 32, seed: 4, ..proportioned(matrices).tiny };
    Shape { name: "qwen3-wide", tiny, head_norms: true, ..proportioned(matrices) }
}
