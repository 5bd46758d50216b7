//! Models of published shapes and lengths whose weights are holes in the file: they take no room on the disk, and as much
//! of everything else as the real ones.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

use candor_gguf::{Format, Writer};

use crate::Tiny;

/// A published shape.
pub struct Large {
    /// What it is the shape of.
    pub name: &'static str,
    tiny: Tiny,
    vocab: u64,
    /// Tokens that it was trained on.
    pub context: u32,
    /// Queries and keys are normed head by head.
    qk_norm: bool,
    /// Queries, keys and values are one matrix, and so are gate and up.
    fused: bool,
}

/// Three that people begin with.
pub fn large() -> [Large; 3] {
    let tiny = |arch, layers, dim, heads, kv_heads, head_dim, ffn, head| Tiny {
        arch,
        layers,
        dim,
        heads,
        kv_heads,
        head_dim,
        ffn,
        head,
        seed: 0,
    };
    [
        Large {
            name: "Llama-3.1-8B",
            tiny: tiny("llama", 32, 4096, 32, 8, 128, 14336, true),
            vocab: 128_256,
            context: 131_072,
            qk_norm: false,
            fused: false,
        },
        Large {
            name: "Phi-3.5-mini",
            tiny: tiny("phi3", 32, 3072, 32, 32, 96, 8192, true),
            vocab: 32_064,
            context: 131_072,
            qk_norm: false,
            fused: true,
        },
        Large {
            name: "Qwen3-4B-2507",
            tiny: tiny("qwen3", 36, 2560, 32, 8, 128, 9728, false),
            vocab: 151_936,
            context: 262_144,
            qk_norm: true,
            fused: false,
        },
    ]
}

impl Large {
    /// Writes the file: a chat model with matrices of Q4_K zeros.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, path: &Path) {
        let Large { tiny, vocab, context, qk_norm, fused, .. } = self;
        let mut writer = Writer::new();
        tiny.metadata().into_iter().for_each(|(key, value)| writer.insert(key, value));
        writer.insert(format!("{}.context_length", tiny.arch), *context);
        writer.insert("tokenizer.chat_template", "{% for m in messages %}{{ m.content }} {% endfor %}");
        let mut tensors = tiny.tensors();
        for (name, shape) in &mut tensors {
            if name.starts_with("token_embd") || name.starts_with("output.") {
                shape[1] = *vocab;
            }
        }
        let head = tiny.head_dim as u64;
        for layer in 0..tiny.layers {
            let name = |rest: &str| format!("blk.{layer}.{rest}.weight");
            if *qk_norm {
                tensors.extend(["attn_q_norm", "attn_k_norm"].map(|norm| (name(norm), vec![head])));
            }
            if *fused {
                let apart = ["attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"].map(name);
                tensors.retain(|(name, _)| !apart.contains(name));
                let (dim, heads) = (tiny.dim as u64, (tiny.heads + 2 * tiny.kv_heads) as u64);
                tensors.push((name("attn_qkv"), vec![dim, heads * head]));
                tensors.push((name("ffn_up"), vec![dim, 2 * tiny.ffn as u64]));
            }
        }
        if *fused {
            writer.insert(format!("{}.attention.sliding_window", tiny.arch), 2 * *context);
        }
        for (name, shape) in tensors {
            let format = if shape.len() == 1 { Format::F32 } else { Format::Q4K };
            let bytes = format.row_bytes(shape.iter().product::<u64>() as usize).expect("rows are whole blocks");
            let zeros = move || Ok(vec![0u8; bytes].into());
            writer.tensor_from(&name, format, &shape, zeros).expect("a tensor of its own name");
        }
        let mut out = Sparse(File::create(path).expect("a file"));
        writer.write(&mut out).expect("written");
        // A hole at the end has no bytes behind it.
        let length = out.0.stream_position().expect("a position");
        out.0.set_len(length).expect("a length");
    }
}

/// A file in which what is written in large pieces, all zeros here, becomes a hole.
struct Sparse(File);

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const LARGE: usize = 1 << 18;
        if bytes.len() < LARGE {
            return self.0.write(bytes);
        }
        self.0.seek(SeekFrom::Current(bytes.len() as i64))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
