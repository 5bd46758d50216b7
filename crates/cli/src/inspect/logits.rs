//! `candor logits`: the likeliest next tokens after a prompt, with logits and probabilities; where the tokens asked for
//! are among all, and what all together look like.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use candor::{Encode, Session, SessionOptions, Show, Tokenizer};
use candor_inspect::distribution::{Distribution, distribution, probabilities, rank};
use serde::Serialize;

use super::{error, json, tokens::Given};
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
    let asked = args.token.iter().map(|text| asked(tokenizer, text)).collect::<Result<Vec<_>, _>>()?;
    let what = What { tokenizer, top: args.top, asked: &asked };
    let mut reports = Vec::new();
    let mut waiting = Some(Waiting::new(args.output.progress, "reading"));
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut take = |index: usize, logits: &[f32]| {
        let after = what.after(index, tokens[index], logits);
        if args.json {
            reports.push(after);
            return Ok(());
        }
        after.print(&mut out)
    };
    if args.all {
        let mut taken = Ok(());
        session.evaluate_each(&tokens, |index, logits| {
            drop(waiting.take());
            if taken.is_ok() {
                taken = take(index, logits);
            }
        })?;
        taken?;
    } else {
        let logits = after(&mut session, &tokens)?;
        drop(waiting);
        take(tokens.len() - 1, logits)?;
    }
    if args.json {
        json::print(&reports)?;
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

/// The token that an argument names: an id, or a text that is one token.
fn asked(tokenizer: &Tokenizer, text: &str) -> Result<u32, Error> {
    let size = tokenizer.vocab_size();
    if let Ok(id) = text.parse::<u32>() {
        let inside = (id as usize) < size;
        return if inside { Ok(id) } else { Err(error::Error::TokenId { id, size }.into()) };
    }
    let same = |&id: &u32| *tokenizer.piece(id, Show::Specials) == *text.as_bytes();
    // A token that stands for a byte is what is left where there is no other.
    let of_byte = |id: &u32| tokenizer.token(*id).is_some_and(|token| token.starts_with("<0x"));
    let found = (0..size as u32).filter(same).min_by_key(|id| (of_byte(id), *id));
    found.ok_or_else(|| {
        let ids = tokenizer.encode(text, Encode { bos: false, specials: true });
        error::Error::TokenText { text: text.to_owned(), ids }.into()
    })
}

/// What is said of a row of logits.
struct What<'a> {
    tokenizer: &'a Tokenizer,
    top: usize,
    asked: &'a [u32],
}

/// A token and its text, which may be part of a character.
#[derive(Serialize)]
struct Piece {
    id: u32,
    token: String,
    bytes: Vec<u8>,
}

/// A token after a text.
#[derive(Serialize)]
struct Candidate {
    rank: usize,
    #[serde(flatten)]
    piece: Piece,
    logit: f32,
    probability: f64,
}

/// What may follow a token.
#[derive(Serialize)]
struct After {
    position: usize,
    #[serde(flatten)]
    piece: Piece,
    #[serde(flatten)]
    distribution: Distribution,
    /// The likeliest.
    top: Vec<Candidate>,
    /// Those asked for.
    asked: Vec<Candidate>,
}

impl What<'_> {
    fn after(&self, position: usize, id: u32, logits: &[f32]) -> After {
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        // NaN comes last, whatever its sign.
        let key = |id: &u32| {
            let logit = logits[*id as usize];
            if logit.is_nan() { f32::NEG_INFINITY } else { logit }
        };
        order.sort_by(|a, b| key(b).total_cmp(&key(a)));
        let count = if self.top == 0 { order.len() } else { self.top.min(order.len()) };
        let candidates = |ids: &[u32], place: &dyn Fn(usize) -> usize| {
            let all = ids.iter().zip(probabilities(logits, ids)).enumerate();
            let candidate = |(i, (&id, probability))| Candidate {
                rank: place(i),
                piece: self.piece(id),
                logit: logits[id as usize],
                probability,
            };
            all.map(candidate).collect()
        };
        After {
            position,
            piece: self.piece(id),
            distribution: distribution(logits),
            top: candidates(&order[..count], &|i| i + 1),
            asked: candidates(self.asked, &|i| rank(logits, self.asked[i])),
        }
    }

    fn piece(&self, id: u32) -> Piece {
        let bytes = self.tokenizer.piece(id, Show::Specials).into_owned();
        Piece { id, token: String::from_utf8_lossy(&bytes).into_owned(), bytes }
    }
}

impl After {
    fn print(&self, out: &mut impl Write) -> Result<(), Error> {
        let After { position, piece, distribution: Distribution { entropy, most, verdict }, top, asked } = self;
        let (id, text) = (piece.id, quoted(&piece.bytes));
        writeln!(
            out,
            "after position {position}, token {id} {text}: entropy {entropy:.4} of {most:.4} bits, {verdict}"
        )?;
        for (candidate, ranked) in top.iter().map(|top| (top, false)).chain(asked.iter().map(|asked| (asked, true))) {
            let Candidate { rank, piece, logit, probability } = candidate;
            let (id, text) = (piece.id, quoted(&piece.bytes));
            let rank = if ranked { format!(", rank {rank}") } else { String::new() };
            writeln!(out, "{id:>7}  {logit:>12.6}  {probability:>10.8}  {text}{rank}")?;
        }
        Ok(())
    }
}
