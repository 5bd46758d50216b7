//! A GPU whose shaders compute wrongly, as after a driver's fault: it is named, and not trusted. Skipped with a printed
//! reason where there is no adapter, not even a software one (lavapipe).

mod others;
mod shaders;

use std::io::Write;

use candor::{Device, KvFormat, LoadOptions, SessionOptions, Verify};
use candor_gguf::{Format, Gguf};
use candor_gpu::ShaderEdit;
use candor_gpu::{AdapterChoice, GpuOptions, Variant, adapters};
use candor_testing::Tiny;

/// More tokens than a GPU multiplies without tiles.
const PROMPT: [u32; 12] = [1, 262, 270, 5, 300, 262, 8, 281, 35, 290, 263, 275];

/// Products of bytes, which a software adapter does not choose by itself.
const BYTES: Variant = Variant { subgroups: false, int8_dot: true, f16: false, cooperative: None };

/// Cooperative matrices, which a software adapter does not choose either; `None`, and a reason, where it has none.
fn matrices() -> Option<Variant> {
    let cooperative = adapters().first()?.cooperative;
    if cooperative.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: the adapter has no cooperative matrices");
    }
    cooperative.map(|cooperative| Variant { cooperative: Some(cooperative), ..Variant::default() })
}

/// [`gpu`], but with this way of computing.
fn gpu_with(variant: Option<Variant>, edits: &[ShaderEdit]) -> Option<LoadOptions> {
    let mut options = gpu(edits)?;
    options.gpu.variant = variant;
    Some(options)
}

/// A healthy GPU, or one with faults; `None` without a GPU.
fn gpu(edits: &[ShaderEdit]) -> Option<LoadOptions> {
    if adapters().is_empty() {
        let _ = writeln!(std::io::stderr(), "skipped: no GPU, and no software adapter (lavapipe) either");
        return None;
    }
    let adapter = Some(AdapterChoice::Index(0));
    let gpu = GpuOptions::default().adapter(adapter).edits(edits.to_vec());
    let session = SessionOptions::default().context(32).keys(KvFormat::F16).values(KvFormat::F16);
    Some(LoadOptions::default().device(Device::Gpu).gpu(gpu).session(session).verify(Verify::Off).threads(2))
}

/// A tiny model, with biases or with norms of heads, its matrices in `format`.
fn model(arch: &'static str, format: Format) -> Gguf {
    let tiny = Tiny { arch, ffn: 96, ..Tiny::default() };
    let vectors: &[(&str, usize)] = match arch {
        "qwen3" => &[("attn_q_norm.weight", 8), ("attn_k_norm.weight", 8)],
        _ => &[("attn_q.bias", 32), ("attn_k.bias", 16), ("attn_v.bias", 16)],
    };
    Gguf::from_bytes(tiny.writer_with(vectors, format).to_bytes().unwrap()).unwrap()
}
