//! `candor embed` and `candor rerank`: vectors of texts, and documents by how well they answer a query.

use std::{
    fs,
    io::{self, BufWriter, IsTerminal, Write},
    path::Path,
    process::ExitCode,
    time::Instant,
};

use candor::{Adapter, EmbedOptions, Embedder, Pooling, SessionOptions};
use serde_json::{Value, json};

use crate::{
    args::{EmbedArgs, Line, OutputArgs, PerformanceArgs, RerankArgs, VectorFormat},
    bar::Bar,
    errors::Error,
    inspect::json,
    open::Source,
    output::{Speed, say},
    text,
};

/// Runs `candor embed`.
pub fn embed(args: &EmbedArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    let is_terminal = args.output_file.is_none() && io::stdout().is_terminal();
    if args.embd_output_format == VectorFormat::Npy && is_terminal {
        return Err(Error::Binary);
    }
    let texts = match line.exclusive(&["prompt", "file"])? {
        Some("prompt") => args.prompt.clone(),
        _ => lines(args.file.as_deref())?,
    };
    let mut embedder = open((source, args.lora.open()?), &args.options(), &args.performance, &args.output)?;
    let ids: Vec<Vec<u32>> = texts.iter().map(|text| embedder.encode(text)).collect();
    let vectors = vectors(&mut embedder, &ids, &args.output)?;
    let made = Made { vectors, width: embedder.width(), pooling: embedder.pooling() };
    let mut bytes = Vec::new();
    match args.embd_output_format {
        VectorFormat::Npy => made.npy(&mut bytes)?,
        format => {
            serde_json::to_writer(&mut bytes, &made.json(format)).map_err(io::Error::from)?;
            bytes.push(b'\n');
        }
    }
    match &args.output_file {
        Some(path) => fs::write(path, bytes).map_err(|error| Error::File { path: path.clone(), error })?,
        None => {
            let mut out = io::stdout().lock();
            out.write_all(&bytes)?;
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `candor rerank`.
pub fn rerank(args: &RerankArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    let documents = lines(args.file.as_deref())?;
    let mut embedder = open((source, args.lora.open()?), &args.options(), &args.performance, &args.output)?;
    let pairs = documents.iter().map(|document| embedder.model().encode_pair(&args.query, document));
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    let scores = vectors(&mut embedder, &pairs, &args.output)?;
    let mut order: Vec<(usize, f32)> = scores.iter().map(|scores| scores[0]).enumerate().collect();
    // Of equals the earlier one stays first.
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    if args.top_n > 0 {
        order.truncate(args.top_n);
    }
    if args.json {
        let result = |&(index, score): &(usize, f32)| json!({ "index": index, "relevance_score": score, "document": documents[index] });
        json::print(&json!({ "results": order.iter().map(result).collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for (index, score) in order {
        writeln!(out, "{score:>9.4}  {index:>5}  {}", text::shown(&documents[index]))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The lines of a file or of stdin.
fn lines(file: Option<&Path>) -> Result<Vec<String>, Error> {
    let text = match file {
        Some(path) => text::of_file(path)?,
        None if io::stdin().is_terminal() => return Err(Error::NoLines),
        None => text::of_stdin()?,
    };
    match text.lines().map(str::to_owned).collect::<Vec<_>>() {
        lines if lines.is_empty() => Err(Error::NoLines),
        lines => Ok(lines),
    }
}

fn open(
    (source, adapters): (Source, Vec<Adapter>),
    options: &EmbedOptions,
    performance: &PerformanceArgs,
    output: &OutputArgs,
) -> Result<Embedder, Error> {
    let room = SessionOptions::default().batch(options.rows).ubatch(options.rows).context(options.rows).fit(false);
    let opened = source.open(performance, adapters, room, output)?;
    let embedder = opened.model.embedder(options)?;
    if output.verbose {
        say!("model: {}, {}", opened.source.name(), opened.model.device_label());
        say!("vectors: {} numbers, pooling {:?}", embedder.width(), embedder.pooling());
        say!("load: {:.3} s", opened.load.as_secs_f64());
    }
    Ok(embedder)
}

/// What the texts give, under a bar.
fn vectors(embedder: &mut Embedder, ids: &[Vec<u32>], output: &OutputArgs) -> Result<Vec<Vec<f32>>, Error> {
    let started = Instant::now();
    let mut bar = Bar::new(output.progress, "{wide_bar} {pos} of {len} texts, {eta} left", started);
    let vectors = embedder.embed(ids, |done| bar.set(done as u64, ids.len() as u64))?;
    drop(bar);
    if output.verbose {
        say!("texts: {}, {}", ids.len(), Speed(ids.iter().map(Vec::len).sum(), started.elapsed()));
    }
    Ok(vectors)
}

/// Vectors on their way out.
struct Made {
    vectors: Vec<Vec<f32>>,
    width: usize,
    pooling: Pooling,
}

impl Made {
    fn json(&self, format: VectorFormat) -> Value {
        let vectors = self.vectors.iter().map(|vector| match self.pooling {
            Pooling::None => json!(vector.chunks_exact(self.width).collect::<Vec<_>>()),
            _ => json!(vector),
        });
        match format {
            VectorFormat::Array => Value::Array(vectors.collect()),
            _ => {
                let item = |(index, vector)| json!({ "object": "embedding", "index": index, "embedding": vector });
                json!({ "object": "list", "data": vectors.enumerate().map(item).collect::<Vec<_>>() })
            }
        }
    }

    /// NumPy's format, version 1: a row for each text, or for each token of the only one.
    fn npy(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.pooling == Pooling::None && self.vectors.len() > 1 {
            return Err(Error::Ragged);
        }
        let rows = self.vectors.iter().map(Vec::len).sum::<usize>() / self.width.max(1);
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {}), }}", self.width);
        // What comes before the numbers, its line break included, is a multiple of 64 bytes.
        let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
        out.extend_from_slice(b"\x93NUMPY\x01\x00");
        out.extend_from_slice(&(length as u16).to_le_bytes());
        out.extend_from_slice(format!("{header:<width$}\n", width = length - 1).as_bytes());
        out.extend(self.vectors.iter().flatten().flat_map(|x| x.to_le_bytes()));
        Ok(())
    }
}
