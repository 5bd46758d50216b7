//! What Ollama's clients ask of the model itself.

use std::{collections::BTreeMap, fs, time::Instant};

use serde_json::{Value, json};

use super::{capabilities, time};
use crate::{
    app::{self, App, Does, Served},
    fields::Fields,
    refusal::Refusal,
    registry::{Name, Status},
};

/// `/api/version`.
pub fn version() -> Value {
    json!({ "version": env!("CARGO_PKG_VERSION") })
}

/// `/api/tags`: the models that there are. What is in the file of one is known once it is loaded.
///
/// # Errors
/// If the one that there is was never loaded, or the server is about to end.
pub fn tags(app: &App) -> Result<Value, Refusal> {
    app.models.ready()?;
    let one = |(number, name): (usize, &Name)| match app.models.status(number).served {
        Some(served) => entry(&served),
        None => unloaded(app, name),
    };
    let models: Vec<Value> = app.models.names().iter().enumerate().map(one).collect();
    Ok(json!({ "models": models }))
}

/// `/api/ps`: the models that are loaded.
///
/// # Errors
/// As [`tags`].
pub fn ps(app: &App) -> Result<Value, Refusal> {
    app.models.ready()?;
    let one = |number| {
        let Status { served, expires, .. } = app.models.status(number);
        let (served, now) = (served?, Instant::now());
        let mut entry = entry(&served);
        let expires = expires.map(|at| app::now() + at.saturating_duration_since(now).as_secs());
        // Without an end it stays as long as the server does.
        entry["expires_at"] = time::text(expires.unwrap_or_else(|| u64::from(u32::MAX))).into();
        entry["context_length"] = served.context.into();
        Some(entry)
    };
    let models: Vec<Value> = (0..app.models.names().len()).filter_map(one).collect();
    Ok(json!({ "models": models }))
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

/// A model that is not loaded.
fn unloaded(app: &App, Name { name, path, .. }: &Name) -> Value {
    let size = path.as_ref().and_then(|path| fs::metadata(path).ok()).map_or(0, |file| file.len());
    json!({
        "name": name,
        "model": name,
        "modified_at": time::text(app.started),
        "size": size,
        "digest": "",
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "",
            "families": [],
            "parameter_size": "",
            "quantization_level": "",
        },
    })
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
