//! `candor logits`: the likeliest next tokens after a prompt, with logits and probabilities.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use candor::{Session, SessionOptions, Show, Tokenizer};

use super::tokens::Given;
use crate::{
    answer::kv_format,
    args::{CacheArgs, Line, LogitsArgs, PerformanceArgs},
    errors::Error,
    open::Source,
    output::say,
    report,
    text::quoted,
    waiting::Waiting,
};

/// Runs the command.
pub fn logits(args: &LogitsArgs, line: &Line) -> Result<ExitCode, Error> {
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    let given = Given::of(&args.tokens, line)?;
    let opened = source.open(
        &args.performance,
        args.lora.open()?,
        session_options(USUAL, &args.cache, &args.performance),
        &args.output,
    )?;
    let tokenizer = opened.model.tokenizer();
    let tokens = given.tokens(&opened.model)?;
    let mut session = opened.model.session(&session_options(tokens.len(), &args.cache, &args.performance))?;
    if args.output.verbose {
        report::say_model(&opened, &session, &args.cache, &args.performance);
        say!("prompt: {} tokens", tokens.len());
    }
    let mut waiting = Some(Waiting::new(args.output.progress, "reading"));
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.all {
        let mut written = Ok(());
        session.evaluate_each(&tokens, |index, logits| {
            drop(waiting.take());
            if written.is_ok() {
                written = print(tokenizer, (index, tokens[index]), logits, args.top, &mut out);
            }
        })?;
        written?;
    } else {
        let last = (tokens.len() - 1, tokens[tokens.len() - 1]);
        let logits = after(&mut session, &tokens)?;
        drop(waiting);
        print(tokenizer, last, logits, args.top, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Positions that a GPU has room for where the tokens are not known yet.
pub const USUAL: usize = 4096;

/// A session of exactly as many positions as there are tokens.
pub fn session_options(context: usize, cache: &CacheArgs, performance: &PerformanceArgs) -> SessionOptions {
    SessionOptions::default()
        .context(context)
        .fit(false)
        .batch(performance.batch_size as usize)
        .ubatch(performance.ubatch_size as usize)
        .keys(kv_format(cache.cache_type_k))
        .values(kv_format(cache.cache_type_v))
}

fn after<'s>(session: &'s mut Session, tokens: &[u32]) -> Result<&'s [f32], Error> {
    session.evaluate(tokens)?;
    Ok(session.logits())
}

/// Prints the `top` likeliest tokens after a token.
fn print(
    tokenizer: &Tokenizer,
    (position, token): (usize, u32),
    logits: &[f32],
    top: usize,
    out: &mut impl Write,
) -> Result<(), Error> {
    let piece = |id: u32| quoted(&tokenizer.piece(id, Show::Specials));
    writeln!(out, "after position {position}, token {token} {}", piece(token))?;
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    // NaN comes last, whatever its sign.
    let key = |id: &u32| {
        let logit = logits[*id as usize];
        if logit.is_nan() { f32::NEG_INFINITY } else { logit }
    };
    order.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let count = if top == 0 { order.len() } else { top.min(order.len()) };
    for (&id, probability) in order[..count].iter().zip(probabilities(logits, &order[..count])) {
        writeln!(out, "{id:>7}  {:>12.6}  {probability:>10.8}  {}", logits[id as usize], piece(id))?;
    }
    Ok(())
}

/// The probabilities of some tokens.
fn probabilities(logits: &[f32], ids: &[u32]) -> Vec<f64> {
    let largest = logits.iter().copied().filter(|x| !x.is_nan()).fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| (f64::from(logit) - f64::from(largest)).exp();
    let sum: f64 = logits.iter().map(|&logit| weight(logit)).sum();
    ids.iter().map(|&id| weight(logits[id as usize]) / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_and_large_logits_do_not_overflow() {
        let logits = [1000.0, 999.0, 1000.0, f32::NEG_INFINITY];
        let all = probabilities(&logits, &[0, 1, 2, 3]);
        assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((all[1] / all[0] - (-1.0f64).exp()).abs() < 1e-12);
        assert_eq!((all[0], all[3]), (all[2], 0.0));
    }
}
