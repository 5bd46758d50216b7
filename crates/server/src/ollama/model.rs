//! What Ollama's clients ask of the model itself.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{capabilities, time};
use crate::{
    app::{Does, Served},
    fields::Fields,
    refusal::Refusal,
};

/// `/api/version`.
pub fn version() -> Value {
    json!({ "version": env!("CARGO_PKG_VERSION") })
}

/// `/api/tags`: the models that there are.
pub fn tags(served: &Served) -> Value {
    json!({ "models": [entry(served)] })
}

/// `/api/ps`: the models that are loaded.
pub fn ps(served: &Served) -> Value {
    let mut entry = entry(served);
    // It stays as long as the server does.
    entry["expires_at"] = time::text(u64::from(u32::MAX)).into();
    entry["context_length"] = served.context.into();
    json!({ "models": [entry] })
}

/// `/api/show`: what is known of the model.
///
/// # Errors
/// If the request is refused.
pub fn show(served: &Served, mut fields: Fields) -> Result<Value, Refusal> {
    for name in ["model", "name", "verbose"] {
        fields.take(name);
    }
    fields.finish(&[])?;
    let (arch, config, model) = (architecture(served), served.model.config(), entry(served));
    let capabilities = match served.does {
        Does::Answers => capabilities(served.template.as_ref()),
        Does::Vectors { .. } => vec!["embedding"],
    };
    let mut info = json!({ "general.architecture": arch, "general.parameter_count": parameters(served) });
    for (name, number) in
        [("context_length", config.context), ("embedding_length", config.dim), ("block_count", config.layers)]
    {
        info[format!("{arch}.{name}")] = number.into();
    }
    Ok(json!({
        "template": served.template.as_ref().map_or("", |template| template.source()),
        "details": model["details"],
        "model_info": info,
        "capabilities": capabilities,
        "modified_at": model["modified_at"],
    }))
}

fn entry(served: &Served) -> Value {
    let arch = architecture(served);
    let mut formats: BTreeMap<&str, u64> = BTreeMap::new();
    for tensor in served.model.gguf().tensors() {
        *formats.entry(tensor.format.name()).or_default() += tensor.bytes;
    }
    let size: u64 = formats.values().sum();
    let most = formats.iter().max_by_key(|(_, bytes)| **bytes).map_or("", |(name, _)| *name);
    json!({
        "name": served.name,
        "model": served.name,
        "modified_at": time::text(served.created),
        "size": size,
        "digest": "",
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": arch,
            "families": [arch],
            "parameter_size": count(parameters(served)),
            "quantization_level": most,
        },
    })
}

fn architecture(served: &Served) -> &str {
    served.model.gguf().metadata().str("general.architecture").ok().flatten().unwrap_or_default()
}

fn parameters(served: &Served) -> u64 {
    served.model.gguf().tensors().iter().map(|tensor| tensor.elements()).sum()
}

/// A number as Ollama shows it.
fn count(number: u64) -> String {
    match number {
        1_000_000_000.. => format!("{:.1}B", number as f64 / 1e9),
        1_000_000.. => format!("{:.2}M", number as f64 / 1e6),
        _ => format!("{:.2}K", number as f64 / 1e3),
    }
}
