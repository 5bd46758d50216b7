//! What `--verbose` says of the model and the settings before an answer.

use candor::{Model, Sampling, Session};

use crate::{
    args::{CacheArgs, CacheFormat, PerformanceArgs},
    memory,
    open::Opened,
    output::{Bytes, Count, say},
    show::{self, summary},
};

/// Says what runs, and where.
pub fn say_model(opened: &Opened, session: &Session, cache: &CacheArgs, performance: &PerformanceArgs) {
    let Opened { model, source, .. } = opened;
    say!("model: {}, {}", source.name(), in_short(model));
    for (adapter, scale) in model.adapters().iter().zip(session.adapter_scales()) {
        let (weights, ranks) = (adapter.targets().len(), show::adapter::ranks(adapter));
        say!("adapter: {} by {scale}, {weights} weights, rank {ranks}", adapter.name());
    }
    say!("device: {}", model.device_label());
    if let Some(weights) = weights(model, !performance.no_mmap) {
        say!("{weights}");
    }
    let (k, v) = (cache.cache_type_k, cache.cache_type_v);
    let bytes = memory::cache_bytes(model.config(), session.context(), k, v);
    let size = bytes.map_or_else(|| "unknown".to_owned(), |bytes| Bytes(bytes).to_string());
    say!("context: {} tokens, cache of {size} (keys {}, values {})", session.context(), name(k), name(v));
    say!(
        "batch: {} tokens, computed {} at once",
        performance.batch_size,
        performance.ubatch_size.min(performance.batch_size)
    );
}

/// Says how tokens are chosen: every setting that is in effect.
pub fn say_sampling(sampling: &Sampling) {
    let json = serde_json::to_value(sampling).unwrap_or_default();
    let fields = json.as_object().into_iter().flatten().filter(|(name, _)| name.as_str() != "seed");
    let texts: Vec<String> = fields.map(|(name, value)| format!("{name} {}", shown(value))).collect();
    say!("sampling: {}", texts.join(", "));
}

/// Computes the part of a model's file that lies in huge pages of memory, where the system tells.
pub fn huge_share(model: &Model) -> Option<f64> {
    let gguf = model.gguf();
    Some(gguf.huge_bytes()? as f64 / gguf.file_bytes().max(1) as f64)
}

/// Says how a model's file lies in memory, where the system tells.
pub fn weights(model: &Model, mapped: bool) -> Option<String> {
    let how = if mapped { "mapped" } else { "read into memory" };
    Some(format!("weights: {how}, {:.0} % in huge pages", 100.0 * huge_share(model)?))
}

/// Architecture, size and formats on one line.
fn in_short(model: &Model) -> String {
    let summary = summary::Summary::of(model.gguf());
    let architecture = summary.architecture.as_deref().unwrap_or("unknown");
    format!(
        "{architecture}, {} parameters, {}, {}",
        Count(summary.parameters),
        summary.formats_line(),
        Bytes(summary.tensor_bytes)
    )
}

/// A cache format as the flags name it.
pub fn name(format: CacheFormat) -> &'static str {
    match format {
        CacheFormat::F32 => "f32",
        CacheFormat::F16 => "f16",
        CacheFormat::Q8_0 => "q8_0",
        CacheFormat::Q4_0 => "q4_0",
    }
}

/// A value in the fewest digits: settings are 32-bit floats, which JSON would show with the digits of 64 bits.
fn shown(value: &serde_json::Value) -> String {
    match value.as_f64() {
        Some(number) if value.is_f64() => (number as f32).to_string(),
        _ => value.to_string(),
    }
}
