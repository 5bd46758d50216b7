//! What statistics of the weights mean: damage, and what looks like damage and is right.

use std::collections::HashMap;

use candor_gguf::{Format, Gguf, TensorInfo};

use super::{finding::Finding, known, scan::TensorStats};

/// Weights beyond this are no weights. The largest of trained models are in the hundreds.
const ABSURD: f64 = 1e4;
/// A matrix of a smaller root mean square does nothing.
const VANISHING: f64 = 1e-8;
/// Rows that are decoded in the other byte order, for comparison.
const SWAPPED_ROWS: usize = 8;
/// Distance to a known share of loaded rows.
const SHARE_TOLERANCE: f64 = 0.002;
/// A norm of the first layer below this looks odd, and isn't.
const SMALL_NORM: f64 = 0.2;
/// Rows of the embedding below this share of the usual look odd, and aren't.
const SMALL_ROW: f32 = 0.01;
/// Rows that a message names.
const NAMED_ROWS: usize = 4;
/// Bytes compared before whole tensors are.
const PROBE: usize = 256;
/// Rows in which padding is looked for.
const PADDING_ROWS: usize = 16;
/// Columns below this share of the others' size are padding: a block format may not have an exact 0 for them.
const PADDING: f64 = 0.1;
/// Tensors that take the outputs of others as their columns: where these are 0 too, both are padded.
const TAKERS: &[(&str, &str)] = &[
    ("ffn_gate.weight", "ffn_down.weight"),
    ("ffn_up.weight", "ffn_down.weight"),
    ("attn_q.weight", "attn_output.weight"),
];
/// Tensors whose outputs are added to the embedding's columns.
const ADDED: &[&str] = &["attn_output.weight", "ffn_down.weight"];
/// Divisors of rotary frequencies, of any size: not weights.
const FACTORS: &str = "rope_";

/// What is wrong with the weights, what may be, and what only looks so.
pub(crate) fn findings(gguf: &Gguf, tensors: &[TensorStats]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let tokens = gguf.metadata().strings("tokenizer.ggml.tokens").ok().flatten().map_or(&[][..], |tokens| tokens);
    for stats in tensors.iter().filter(|stats| !stats.name.starts_with(FACTORS)) {
        let Some(tensor) = gguf.tensor(&stats.name) else { continue };
        findings.extend(numbers(gguf, tensor, stats));
        findings.extend(zeros(gguf, tensor.format, stats, tokens.len()));
        findings.extend(small_norm(stats));
        if stats.name == "token_embd.weight" {
            findings.extend(small_rows(stats, tokens));
        }
    }
    findings.extend(unfinished(gguf, tensors));
    findings.extend(norms(tensors));
    findings.extend(duplicates(gguf, tensors));
    findings.extend(subnormals(tensors));
    findings
}

/// NaN, infinities and sizes that no weight has.
fn numbers(gguf: &Gguf, tensor: &TensorInfo, stats: &TensorStats) -> Option<Finding> {
    let broken = stats.nan + stats.infinite > 0;
    let absurd = stats.max > ABSURD || stats.rms > ABSURD;
    let vanishing = stats.rows > 1 && stats.rms > 0.0 && stats.rms < VANISHING;
    if !broken && !absurd && !vanishing {
        return None;
    }
    if let Some(rms) = swapped_rms(gguf, tensor) {
        let found = if broken { "NaN or infinite".to_owned() } else { format!("up to {:.1e}", stats.max) };
        let message =
            format!("values are {found}; with each number's bytes reversed, of the usual size (rms {rms:.2e})");
        let hint = "the data is in the other byte order than the header says: convert on a machine of one order";
        return Some(Finding::error(&stats.name, message, hint));
    }
    Some(if broken {
        let row = stats.first_bad_row.unwrap_or_default();
        let message = format!("{} NaN and {} infinite elements, the first in row {row}", stats.nan, stats.infinite);
        Finding::error(&stats.name, message, "the file is damaged or its conversion overflowed: get it again")
    } else if absurd {
        let message = format!("values up to {:.1e}, rms {:.1e}", stats.max, stats.rms);
        let hint = "scales of that size mean damaged bytes, a wrong offset or a wrong type in the directory";
        Finding::error(&stats.name, message, hint)
    } else {
        let message = format!("values of rms {:.1e}", stats.rms);
        Finding::warning(&stats.name, message, "a matrix that does nothing: the bytes may be of another type")
    })
}

/// Root mean square of the first rows with the bytes of each number reversed, where that is of a weight's size.
fn swapped_rms(gguf: &Gguf, tensor: &TensorInfo) -> Option<f64> {
    let cols = tensor.shape[0] as usize;
    let rows = (tensor.elements() / tensor.shape[0]) as usize;
    let data = gguf.data(tensor);
    let stride = data.len() / rows;
    let mut values = vec![0.0; cols];
    let (mut squares, mut count) = (0.0, 0);
    for row in data.chunks_exact(stride).take(SWAPPED_ROWS) {
        let mut row = row.to_vec();
        tensor.format.swap_endian(&mut row);
        tensor.format.decode(&row, &mut values);
        squares += values.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
        count += cols;
    }
    let rms = (squares / count as f64).sqrt();
    (rms.is_finite() && rms > 1e-5 && rms < 100.0).then_some(rms)
}

/// Rows of zeros, and tails of them.
fn zeros(gguf: &Gguf, format: Format, stats: &TensorStats, tokens: usize) -> Option<Finding> {
    let (name, rows, tail) = (&stats.name, stats.rows, stats.zero_tail_rows);
    if rows == 1 {
        let bias = name.ends_with(".bias");
        return (stats.zero_rows == 1 && !bias).then(|| {
            Finding::error(name, "every element is 0", "a norm of zeros silences its layer: the file is damaged")
        });
    }
    if stats.rms == 0.0 && stats.nan + stats.infinite == 0 {
        let hint = "right only for blocks that were inserted and never trained; otherwise data is missing";
        return Some(Finding::warning(name, "every row is 0", hint));
    }
    let padded = matches!(name.as_str(), "token_embd.weight" | "output.weight") && tokens > 0 && rows - tail >= tokens;
    if tail > 0 && padded {
        let hint = "they pad the vocabulary; no token reaches them";
        return Some(Finding::fine(name, format!("the last {tail} of {rows} rows are 0"), hint));
    }
    if tail > 0 && is_padding(gguf, name, rows - tail) {
        let hint = "whatever takes these outputs has zeros for them: the model was padded to a round size";
        return Some(Finding::fine(name, format!("the last {tail} of {rows} rows are 0"), hint));
    }
    if tail > 1 {
        let loaded = (rows - tail) as f64 / rows as f64;
        let message = format!(
            "the last {tail} of {rows} rows are 0 ({:.2} % have data): outputs from {} on are exactly 0",
            loaded * 100.0,
            rows - tail
        );
        let tolerance = SHARE_TOLERANCE + 1.0 / rows as f64;
        let known = known::shares(format).into_iter().find(|known| (known.share - loaded).abs() <= tolerance);
        let hint = match known {
            Some(known) => format!(
                "{:.2} % is what is left when {}: whatever wrote this file loaded it so",
                known.share * 100.0,
                known.cause
            ),
            None => "the end of the data is missing: get or convert the file again".to_owned(),
        };
        return Some(Finding::error(name, message, hint));
    }
    (stats.zero_rows > 0).then(|| {
        let message = format!("{} of {} rows are 0", stats.zero_rows, stats.seen_rows);
        if name == "token_embd.weight" {
            Finding::fine(name, message, "tokens that never occurred in training")
        } else {
            Finding::warning(name, message, "right for a pruned model; otherwise data is missing")
        }
    })
}

/// Whether the outputs of a tensor from `first` on have no effect: the tensor that takes them ignores them, or the
/// embedding has nothing in their columns either.
fn is_padding(gguf: &Gguf, name: &str, first: usize) -> bool {
    let sibling = |&(rest, taker): &(&str, &str)| name.strip_suffix(rest).map(|layer| format!("{layer}{taker}"));
    let taker = TAKERS.iter().find_map(sibling);
    let embedding = ADDED.iter().any(|rest| name.ends_with(rest)).then(|| "token_embd.weight".to_owned());
    let Some(taker) = taker.or(embedding).and_then(|name| gguf.tensor(&name)) else { return false };
    let cols = taker.shape[0] as usize;
    let Some(stride) = taker.format.row_bytes(cols).filter(|&stride| stride > 0 && first < cols) else { return false };
    let mut values = vec![0.0; cols];
    let (mut used, mut padding) = (0.0, 0.0);
    for row in gguf.data(taker).chunks_exact(stride).take(PADDING_ROWS) {
        taker.format.decode(row, &mut values);
        let squares = |values: &[f32]| values.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
        used += squares(&values[..first]);
        padding += squares(&values[first..]);
    }
    let rms = |squares: f64, columns: usize| (squares / columns.max(1) as f64).sqrt();
    rms(padding, cols - first) < PADDING * rms(used, first)
}

/// Zeros from somewhere to the end of the file: space that a download reserved and did not fill.
fn unfinished(gguf: &Gguf, tensors: &[TensorStats]) -> Option<Finding> {
    let mut order: Vec<&TensorStats> = tensors.iter().collect();
    let place = |stats: &TensorStats| gguf.tensor(&stats.name).map(|tensor| (tensor.shard(), tensor.offset()));
    order.sort_by_key(|stats| place(stats));
    let empty = order.iter().rev().take_while(|stats| stats.rms == 0.0 && stats.nan + stats.infinite == 0);
    let empty: Vec<_> = empty.collect();
    let matrix = empty.iter().any(|stats| stats.rows > 1);
    let first = empty.last()?;
    matrix.then(|| {
        let message = format!("the last {} tensors, from {} on, hold nothing but zeros", empty.len(), first.name);
        Finding::error("file", message, "the download did not finish: the space was reserved and not filled")
    })
}

/// Norm weights to which 1 was added twice, or not at all.
fn norms(tensors: &[TensorStats]) -> Option<Finding> {
    let norm = |stats: &&TensorStats| stats.rows == 1 && stats.name.ends_with("norm.weight");
    let norms: Vec<&TensorStats> = tensors.iter().filter(norm).collect();
    if norms.len() < 3 {
        return None;
    }
    let share =
        |of: &dyn Fn(&TensorStats) -> bool| norms.iter().filter(|stats| of(stats)).count() as f64 / norms.len() as f64;
    // Trained norms begin small and grow with the layers; all of them around 2, or around 0 with both signs, is a shift.
    if share(&|stats| stats.mean > 1.6 && stats.rms < 1.2 * stats.mean) > 0.95 {
        let hint =
            "1 may have been added twice (by the converter and before it): models that fold it in are Gemma-like";
        return Some(Finding::warning("norms", "all norm weights lie around 2", hint));
    }
    if share(&|stats| stats.mean.abs() < 0.4 && stats.negative_share > 0.2) > 0.8 {
        let hint = "the converter has to add 1 to norms that are stored as a difference from it (Gemma, Nemotron)";
        return Some(Finding::error("norms", "norm weights lie around 0 with both signs", hint));
    }
    None
}

/// A first layer whose norm is small: TinyLlama's is 0.046, and three engines' authors took it for a fault.
fn small_norm(stats: &TensorStats) -> Option<Finding> {
    let first = matches!(stats.name.as_str(), "blk.0.attn_norm.weight" | "blk.0.ffn_norm.weight");
    (first && stats.rms > 0.0 && stats.rms < SMALL_NORM).then(|| {
        let hint = "trained so: norms of first layers are small (TinyLlama's first is 0.0464). Do not scale them up";
        Finding::fine(&stats.name, format!("weights of rms {:.4}", stats.rms), hint)
    })
}

/// Embedding rows that are nearly zero.
fn small_rows(stats: &TensorStats, tokens: &[String]) -> Option<Finding> {
    let mut sorted: Vec<f32> = stats.row_rms.iter().map(|&(_, rms)| rms).collect();
    sorted.sort_by(f32::total_cmp);
    let usual = *sorted.get(sorted.len() / 2)?;
    let small = |&&(_, rms): &&(usize, f32)| rms > 0.0 && rms < SMALL_ROW * usual;
    let small: Vec<usize> = stats.row_rms.iter().filter(small).map(|&(row, _)| row).collect();
    if small.is_empty() || small.len() * 2 > stats.row_rms.len() {
        return None;
    }
    let names = small.iter().take(NAMED_ROWS).filter_map(|&row| tokens.get(row));
    let names: Vec<String> = names.map(|token| token.escape_debug().to_string()).collect();
    let message = format!("{} rows are nearly 0: {}...", small.len(), names.join(", "));
    let hint = "trained so: unknown, byte and rare tokens hardly occur, and decay. They need exact subnormal scales";
    Some(Finding::fine(&stats.name, message, hint))
}

/// Block scales below half precision's normal range.
fn subnormals(tensors: &[TensorStats]) -> Option<Finding> {
    let with: Vec<&TensorStats> = tensors.iter().filter(|stats| stats.subnormal_scales > 0).collect();
    let count: usize = with.iter().map(|stats| stats.subnormal_scales).sum();
    let most = with.iter().max_by_key(|stats| stats.subnormal_scales)?;
    let message =
        format!("{count} block scales in {} tensors are subnormal, most of them in {}", with.len(), most.name);
    let hint = "normal; an engine that flushes or halves subnormal half-precision numbers gets these blocks wrong";
    Some(Finding::fine("scales", message, hint))
}

/// Matrices with the same bytes.
fn duplicates(gguf: &Gguf, tensors: &[TensorStats]) -> Vec<Finding> {
    let mut seen: HashMap<(&str, usize, usize, Vec<u8>), Vec<&TensorInfo>> = HashMap::new();
    let mut findings = Vec::new();
    for stats in tensors.iter().filter(|stats| stats.rows > 1 && stats.rms > 0.0) {
        let Some(tensor) = gguf.tensor(&stats.name) else { continue };
        let data = gguf.data(tensor);
        let probe = data[..data.len().min(PROBE)].to_vec();
        let alike = seen.entry((&stats.format, stats.rows, stats.cols, probe)).or_default();
        match alike.iter().find(|other| gguf.data(other) == data) {
            None => alike.push(tensor),
            Some(other) => {
                let message = format!("has the same bytes as {}", other.name);
                let pair = [other.name.as_str(), tensor.name.as_str()];
                let tied = pair.contains(&"token_embd.weight") && pair.contains(&"output.weight");
                findings.push(if tied {
                    Finding::fine(
                        &tensor.name,
                        message,
                        "a tied head that was written out: right, and larger than need be",
                    )
                } else {
                    Finding::warning(&tensor.name, message, "one of the two may have been written under a wrong name")
                });
            }
        }
    }
    findings
}
