//! `candor show`: what is in a model file, whether it can be run, and the memory that it needs.

pub mod adapter;
mod contexts;
mod json;
mod row;
pub mod summary;
mod values;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use candor::{Config, Tokenizer};
use candor_gguf::Gguf;

use crate::{
    args::{Line, ShowArgs},
    errors::Error,
    open::Source,
    output::{Bytes, Count, grouped},
};
use row::row;
use summary::{Memory, Summary, Use, order};

/// Runs the command.
pub fn show(args: &ShowArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    let gguf = source.gguf()?;
    if !args.tensor.is_empty() {
        return values::print(&gguf, args);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let all = !args.metadata && !args.tensors;
    if args.json {
        let value = json::value(&gguf, &source, args, all);
        serde_json::to_writer_pretty(&mut out, &value).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        if all {
            head(&gguf, &source, args, &mut out)?;
        }
        if all || args.metadata {
            metadata(&gguf, args.full, &mut out)?;
        }
        if all || args.tensors {
            tensors(&gguf, &mut out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn head(gguf: &Gguf, source: &Source, args: &ShowArgs, out: &mut impl Write) -> Result<(), Error> {
    let (summary, usage) = (Summary::of(gguf), Use::of(gguf));
    row(out, "file", source.name())?;
    let shards = if gguf.shards() > 1 { format!(" in {} files", gguf.shards()) } else { String::new() };
    row(out, "size", format_args!("{} ({} bytes){shards}", Bytes(gguf.file_bytes()), grouped(gguf.file_bytes())))?;
    let order = order(gguf);
    row(
        out,
        "container",
        format_args!("GGUF version {}, {order}, aligned to {} bytes", gguf.version(), gguf.alignment()),
    )?;
    row(out, "architecture", summary.architecture.as_deref().unwrap_or("not said"))?;
    if let Some(name) = &summary.name {
        row(out, "name", name.escape_debug())?;
    }
    row(out, "parameters", format_args!("{} ({})", Count(summary.parameters), grouped(summary.parameters)))?;
    row(out, "formats", format_args!("{} ({:.2} bits per weight)", summary.formats_line(), summary.bits()))?;
    match adapter::of(gguf, &source.name()) {
        Some(Ok(adapter)) => return Ok(adapter::rows(&adapter, out)?),
        Some(Err(error)) => return Ok(row(out, "not usable", error)?),
        None => {}
    }
    match &usage.config {
        Ok(config) => dimensions(config, out)?,
        Err(error) => row(out, "not runnable", error)?,
    }
    match &usage.tokenizer {
        Ok(tokenizer) => vocabulary(tokenizer, out)?,
        Err(error) => row(out, "tokenizer", format_args!("not usable: {error}"))?,
    }
    let template =
        usage.template.as_ref().map_or("no".to_owned(), |text| format!("yes ({} characters)", text.chars().count()));
    row(out, "chat template", template)?;
    if let Some(memory) = usage.memory(gguf, &summary, args.ctx_size as usize) {
        memory_rows(&memory, out)?;
        if memory.grows {
            contexts::print(&contexts::of(gguf, args.ctx_size as usize)?, out)?;
        }
    }
    Ok(())
}

fn dimensions(config: &Config, out: &mut impl Write) -> Result<(), Error> {
    let heads = &config.heads;
    let encoder = config.encoder_layers().map(|layers| format!(", and {layers} of the encoder that reads texts"));
    row(out, "layers", format_args!("{}{}", config.layers, encoder.unwrap_or_default()))?;
    let feed_forward = if config.ffn > 0 { format!(", feed-forward {}", config.ffn) } else { String::new() };
    row(out, "width", format_args!("{}{feed_forward}", config.dim))?;
    let widths = match heads.key_dim == heads.value_dim {
        true => heads.key_dim.to_string(),
        false => format!("{} (values {})", heads.key_dim, heads.value_dim),
    };
    if heads.heads > 0 {
        let kv_heads = heads.kv_heads;
        row(out, "heads", format_args!("{}, of keys and values {kv_heads}, each of width {widths}", heads.heads))?;
    }
    let window = config.window.map(|window| format!(", sliding window of {window}")).unwrap_or_default();
    row(out, "context", format_args!("{} tokens{window}", config.context))?;
    Ok(())
}

fn vocabulary(tokenizer: &Tokenizer, out: &mut impl Write) -> Result<(), Error> {
    let token = |id: u32| format!("{id} {:?}", tokenizer.token(id).unwrap_or_default());
    let bos = match (tokenizer.bos(), tokenizer.add_bos()) {
        (Some(id), true) => format!(", begins with {}", token(id)),
        _ => ", adds no first token".to_owned(),
    };
    let stops: Vec<String> = tokenizer.stop_ids().iter().map(|&id| token(id)).collect();
    let stops = if stops.is_empty() { "nothing".to_owned() } else { stops.join(", ") };
    let (size, model, pre) = (tokenizer.vocab_size(), tokenizer.model_name(), tokenizer.pre_name());
    row(out, "tokenizer", format_args!("{model} ({pre}), {size} tokens{bos}, ends with {stops}"))?;
    for warning in tokenizer.warnings() {
        row(out, "warning", warning)?;
    }
    Ok(())
}

fn memory_rows(memory: &Memory, out: &mut impl Write) -> Result<(), Error> {
    let Memory { context, weights, cache, buffers, caches, .. } = memory;
    let size =
        |bytes: &Option<u64>| bytes.map_or_else(|| "more than any machine has".to_owned(), |b| Bytes(b).to_string());
    let [half, single] = cache.each_ref().map(size);
    row(out, "memory", format_args!("weights {}, buffers {}", Bytes(*weights), Bytes(*buffers)))?;
    if !caches {
        return Ok(());
    }
    row(out, "", format_args!("cache of {context} tokens {half} (f16) or {single} (f32)"))?;
    if let [Some(half), _] = cache {
        let total = weights.saturating_add(*half).saturating_add(*buffers);
        row(out, "", format_args!("together {} with an f16 cache", Bytes(total)))?;
    }
    Ok(())
}

fn metadata(gguf: &Gguf, full: bool, out: &mut impl Write) -> Result<(), Error> {
    writeln!(out, "\nmetadata ({} keys)", gguf.metadata().len())?;
    let width = gguf.metadata().iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0).min(48);
    for (key, value) in gguf.metadata().iter() {
        let key = key.escape_debug().to_string();
        match full {
            true => writeln!(out, "  {key:<width$}  {value:#}")?,
            false => writeln!(out, "  {key:<width$}  {value}")?,
        }
    }
    Ok(())
}

fn tensors(gguf: &Gguf, out: &mut impl Write) -> Result<(), Error> {
    writeln!(out, "\ntensors ({})", gguf.tensors().len())?;
    let width = gguf.tensors().iter().map(|tensor| tensor.name.chars().count()).max().unwrap_or(0).min(48);
    for tensor in gguf.tensors() {
        let shape = tensor.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
        let (name, format) = (tensor.name.escape_debug().to_string(), tensor.format.name());
        writeln!(out, "  {name:<width$}  {format:<8}{shape:>20}  {:>10}", Bytes(tensor.bytes).to_string())?;
    }
    Ok(())
}
