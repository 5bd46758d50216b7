//! What a context of some lengths takes, and whether this machine holds it.

use std::io::{self, Write};

use candor::{Gguf, KvFormat, SessionOptions, fit::Takes};
use candor_models::Config;
use serde_json::{Value, json};

use super::row::row;
use crate::{errors::Error, output::Bytes};

/// The shortest length that is shown.
const SHORTEST: usize = 2048;

/// A length of the context.
pub struct Length {
    tokens: usize,
    /// Bytes of keys and values in f16 and q8_0; not of a format that the heads' width does not allow.
    caches: [Option<u64>; 2],
    /// Bytes of all, with a cache of each format.
    totals: [Option<u64>; 2],
    /// Whether it fits, with each.
    fits: [Option<bool>; 2],
}

/// From a short length to the model's own, doubling, and the one that was asked for.
///
/// # Errors
/// If the file's model cannot be run.
pub fn of(gguf: &Gguf, asked: usize) -> Result<Vec<Length>, Error> {
    let config = Config::from_gguf(gguf).map_err(candor::Error::from)?;
    let own = config.context.min(config.limit.unwrap_or(usize::MAX));
    let mut lengths: Vec<usize> = std::iter::successors(Some(SHORTEST), |length| length.checked_mul(2))
        .take_while(|&length| length < own)
        .chain([own, asked])
        .filter(|&length| length > 0)
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths.into_iter().map(|tokens| length(gguf, &config, tokens)).collect()
}

fn length(gguf: &Gguf, config: &Config, tokens: usize) -> Result<Length, Error> {
    let (mut caches, mut totals, mut fits) = ([None; 2], [None; 2], [None; 2]);
    for (index, format) in [KvFormat::F16, KvFormat::Q8_0].into_iter().enumerate() {
        if config.kv_plan(tokens, 1, format, format).check().is_err() {
            continue;
        }
        let options = SessionOptions::default().context(tokens).keys(format).values(format);
        let takes = Takes::of(gguf, &options)?;
        (caches[index], totals[index]) = (Some(takes.cache), Some(takes.total()));
        fits[index] = Some(match candor::Fit::of(gguf, &options) {
            Ok(_) => true,
            Err(candor::Error::Memory(_)) => false,
            Err(error) => return Err(error.into()),
        });
    }
    Ok(Length { tokens, caches, totals, fits })
}

/// A line for each.
pub fn print(lengths: &[Length], out: &mut impl Write) -> io::Result<()> {
    let head = ["cache f16", "cache q8_0", "together f16", "together q8_0"].map(|name| format!("{name:>14}")).concat();
    row(out, "", format_args!("{:>9}{head}   fits here", "context"))?;
    for Length { tokens, caches, totals, fits } in lengths {
        let size = |bytes: &Option<u64>| bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string());
        let cells = caches.iter().chain(totals).map(|bytes| format!("{:>14}", size(bytes))).collect::<String>();
        let fits = match fits {
            [Some(true), _] => "yes",
            [_, Some(true)] => "q8_0",
            _ => "no",
        };
        row(out, "", format_args!("{tokens:>9}{cells}   {fits}"))?;
    }
    Ok(())
}

/// The same as data.
pub fn value(lengths: &[Length]) -> Value {
    let value = |Length { tokens, caches: [f16, q8_0], totals, fits }: &Length| {
        json!({
            "context": tokens, "cache_f16": f16, "cache_q8_0": q8_0, "total_f16": totals[0], "total_q8_0": totals[1],
            "fits_f16": fits[0], "fits_q8_0": fits[1],
        })
    };
    lengths.iter().map(value).collect()
}
