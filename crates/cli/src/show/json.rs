//! `candor show --json`: the same as data.

use candor_gguf::{Array, Gguf, Value};
use serde_json::{Map, Value as Json, json};

use super::summary::{Summary, Use, order};
use crate::{args::ShowArgs, open::Source};

/// Longer arrays are given by type and length alone, unless `--full` is.
const SHOWN_ELEMENTS: usize = 16;

/// The parts that the arguments ask for.
pub fn value(gguf: &Gguf, source: &Source, args: &ShowArgs, all: bool) -> Json {
    let mut object = if all { head(gguf, source, args) } else { Map::new() };
    if all || args.metadata {
        let entries = gguf.metadata().iter().map(|(key, value)| (key.to_owned(), metadata_value(value, args.full)));
        object.insert("metadata".into(), Json::Object(entries.collect()));
    }
    if all || args.tensors {
        object.insert("tensors".into(), gguf.tensors().iter().map(tensor).collect());
    }
    Json::Object(object)
}

fn tensor(tensor: &candor_gguf::TensorInfo) -> Json {
    json!({
        "name": tensor.name, "format": tensor.format.name(), "shape": tensor.shape, "bytes": tensor.bytes,
        "offset": tensor.offset(), "shard": tensor.shard(),
    })
}

fn head(gguf: &Gguf, source: &Source, args: &ShowArgs) -> Map<String, Json> {
    let (summary, usage) = (Summary::of(gguf), Use::of(gguf));
    let formats = summary.formats.iter().map(|share| {
        let (tensors, elements, bytes) = (share.tensors, share.elements, share.bytes);
        (share.format.name().to_owned(), json!({ "tensors": tensors, "parameters": elements, "bytes": bytes }))
    });
    let config = usage.config.as_ref().ok().map(|config| {
        let heads = &config.heads;
        json!({
            "layers": config.layers, "encoder_layers": config.encoder_layers(), "width": config.dim, "feed_forward": config.ffn, "vocabulary": config.vocab,
            "context": config.context, "heads": heads.heads, "kv_heads": heads.kv_heads, "key_width": heads.key_dim,
            "value_width": heads.value_dim, "sliding_window": config.window,
        })
    });
    let tokenizer = usage.tokenizer.as_ref().ok().map(|tokenizer| {
        json!({
            "model": tokenizer.model_name(), "pre": tokenizer.pre_name(), "tokens": tokenizer.vocab_size(),
            "bos": tokenizer.bos(), "add_bos": tokenizer.add_bos(), "eos": tokenizer.eos(),
            "stops": tokenizer.stop_ids(), "warnings": tokenizer.warnings(),
        })
    });
    let memory = usage.memory(gguf, &summary, args.ctx_size as usize).map(|memory| {
        let [f16, f32] = if memory.caches { memory.cache } else { [Some(0); 2] };
        let contexts = if memory.grows { super::contexts::of(gguf, args.ctx_size as usize).ok() } else { None };
        json!({
            "context": memory.context, "weights": memory.weights, "cache_f16": f16, "cache_f32": f32,
            "buffers": memory.buffers, "contexts": contexts.map(|contexts| super::contexts::value(&contexts)),
        })
    });
    let value = json!({
        "file": source.name(), "bytes": gguf.file_bytes(), "files": gguf.shards(), "version": gguf.version(),
        "byte_order": order(gguf), "alignment": gguf.alignment(), "architecture": summary.architecture,
        "name": summary.name, "parameters": summary.parameters, "bits_per_weight": summary.bits(),
        "formats": formats.collect::<Map<_, _>>(), "runnable": usage.config.is_ok(), "not_runnable": usage.config.as_ref().err(),
        "dimensions": config, "tokenizer": tokenizer, "tokenizer_error": usage.tokenizer.as_ref().err(),
        "chat_template": usage.template, "memory": memory,
    });
    let adapter = super::adapter::of(gguf, &source.name());
    match value {
        Json::Object(mut object) => {
            if let Some(adapter) = adapter {
                object.insert(
                    "adapter".into(),
                    adapter.map_or_else(Json::from, |adapter| super::adapter::value(&adapter)),
                );
            }
            object
        }
        _ => Map::new(),
    }
}

fn metadata_value(value: &Value, full: bool) -> Json {
    match value {
        Value::U8(x) => json!(x),
        Value::I8(x) => json!(x),
        Value::U16(x) => json!(x),
        Value::I16(x) => json!(x),
        Value::U32(x) => json!(x),
        Value::I32(x) => json!(x),
        Value::F32(x) => json!(x),
        Value::Bool(x) => json!(x),
        Value::String(x) => json!(x),
        Value::U64(x) => json!(x),
        Value::I64(x) => json!(x),
        Value::F64(x) => json!(x),
        Value::Array(array) if full || array.len() <= SHOWN_ELEMENTS => elements(array),
        Value::Array(array) => json!({ "type": array.type_name(), "length": array.len() }),
    }
}

fn elements(array: &Array) -> Json {
    match array {
        Array::U8(run) => json!(run),
        Array::I8(run) => json!(run),
        Array::U16(run) => json!(run),
        Array::I16(run) => json!(run),
        Array::U32(run) => json!(run),
        Array::I32(run) => json!(run),
        Array::F32(run) => json!(run),
        Array::Bool(run) => json!(run),
        Array::String(run) => json!(run),
        Array::U64(run) => json!(run),
        Array::I64(run) => json!(run),
        Array::F64(run) => json!(run),
        Array::Array(run) => run.iter().map(elements).collect(),
    }
}
