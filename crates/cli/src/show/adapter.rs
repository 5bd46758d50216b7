//! What `candor show` says of an adapter, in place of what it says of a model.

use std::io::{self, Write};

use candor::{Adapter, Gguf, adapter::Target};
use serde_json::{Value, json};

use super::row::row;

/// A file that says it is an adapter: what it is, or why it cannot be used.
pub fn of(gguf: &Gguf, name: &str) -> Option<Result<Adapter, String>> {
    let is_adapter = gguf.metadata().str("general.type").ok().flatten() == Some("adapter");
    is_adapter.then(|| Adapter::from_gguf(name, gguf.clone()).map_err(|error| error.to_string()))
}

/// The lines of one that can be used.
pub fn rows(adapter: &Adapter, out: &mut impl Write) -> io::Result<()> {
    row(out, "adapter", format_args!("LoRA for {} models", adapter.architecture().escape_debug()))?;
    row(out, "ranks", ranks(adapter))?;
    row(out, "alpha", factors(adapter))?;
    for (name, text) in [("task", adapter.task_name()), ("prompt prefix", adapter.prompt_prefix())] {
        if let Some(text) = text {
            row(out, name, format_args!("{text:?} (not applied)"))?;
        }
    }
    row(out, "changes", format_args!("{} weights: {}", adapter.targets().len(), kinds(adapter.targets()).join(", ")))
}

/// The same as data.
pub fn value(adapter: &Adapter) -> Value {
    let targets: Vec<Value> =
        adapter.targets().iter().map(|target| json!({ "tensor": target.name, "rank": target.rank })).collect();
    json!({
        "type": "lora", "architecture": adapter.architecture(), "alpha": adapter.alpha(), "task_name": adapter.task_name(),
        "prompt_prefix": adapter.prompt_prefix(), "targets": targets,
    })
}

/// From the least rank to the greatest.
pub fn ranks(adapter: &Adapter) -> String {
    let ranks = || adapter.targets().iter().map(|target| target.rank);
    match (ranks().min().unwrap_or(0), ranks().max().unwrap_or(0)) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

fn factors(adapter: &Adapter) -> String {
    match adapter.alpha() {
        0.0 => "none: changes are multiplied by the scale alone".to_owned(),
        alpha => format!("{alpha}: changes are multiplied by the scale and {alpha} / rank"),
    }
}

/// The names of what is changed, less their layers, each once, with how many layers there are of it.
fn kinds(targets: &[Target]) -> Vec<String> {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for target in targets {
        let in_layer = target.name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).map(|(_, kind)| kind);
        let kind = in_layer.unwrap_or(&target.name).trim_end_matches(".weight").escape_debug().to_string();
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    let shown = |(kind, count): (String, usize)| if count == 1 { kind } else { format!("{kind} x {count}") };
    kinds.into_iter().map(shown).collect()
}
