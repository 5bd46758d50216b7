//! An answer: the settings that it is generated with, its text to stdout as it comes, and what is said about it.

#[cfg(test)]
mod families;
mod printer;
mod reader;

use std::io::Write;

use candor::{
    AnswerPart, Cancel, ContextShift, GenerateOptions, Generation, KvFormat, SessionOptions, Show, StopReason, Timings,
};

use crate::{
    args::{CacheArgs, CacheFormat, ContextArgs, PerformanceArgs, Tunable},
    errors::Error,
    output::{Speed, say},
    text,
};

pub use reader::Reader;

/// A finished answer.
pub struct Answer {
    /// What the model said, as its template tells it apart.
    pub parts: Vec<AnswerPart>,
    pub reason: StopReason,
    pub timings: Timings,
    pub seed: u32,
}

/// The session of a conversation, as the arguments ask for.
pub fn conversation(context: &ContextArgs, performance: &PerformanceArgs) -> SessionOptions {
    session_options(context.ctx_size, &context.cache, performance)
        .fit(context.fit)
        .least_context(context.fit_ctx as usize)
}

/// A session of a size that its task has. Weights in the file's mapping may be more than memory holds.
pub fn session_options(context: u32, cache: &CacheArgs, performance: &PerformanceArgs) -> SessionOptions {
    SessionOptions::default()
        .context(context as usize)
        .fit(false)
        .batch(performance.batch_size as usize)
        .ubatch(performance.ubatch_size as usize)
        .keys(kv_format(cache.cache_type_k))
        .values(kv_format(cache.cache_type_v))
}

/// The library's name of a cache format.
pub fn kv_format(format: CacheFormat) -> KvFormat {
    match format {
        CacheFormat::F32 => KvFormat::F32,
        CacheFormat::F16 => KvFormat::F16,
        CacheFormat::Q8_0 => KvFormat::Q8_0,
        CacheFormat::Q4_0 => KvFormat::Q4_0,
    }
}

/// How to generate, by the arguments. `prompt` is the number of its tokens, `escape` says how to read texts.
pub fn options(tunable: &Tunable, prompt: usize, escape: bool, cancel: Cancel) -> Result<GenerateOptions, Error> {
    let generation = &tunable.generation;
    let keep = usize::try_from(generation.keep).unwrap_or(prompt);
    let stop = generation.reverse_prompt.iter().map(|stop| text::escaped(stop, escape));
    let stop = stop.filter(|stop| !matches!(stop, Ok(stop) if stop.is_empty())).collect::<Result<_, _>>()?;
    Ok(GenerateOptions::default()
        .sampling(tunable.sampling.sampling(|breaker| text::escaped(breaker, escape))?)
        .max_tokens(usize::try_from(generation.predict).ok())
        .ignore_eos(generation.ignore_eos)
        .stop(stop)
        .context_shift((generation.context_shift && generation.predict != -2).then_some(ContextShift { keep }))
        .show(Show::Text)
        .cancel(cancel))
}

/// Looks on while an answer comes.
pub trait Watch {
    /// Takes a token of the answer, when the text that is complete with it was written.
    fn token(&mut self, id: u32, text: &str) -> Result<(), Error>;
    /// Takes the end.
    fn stopped(&mut self, why: StopReason) -> Result<(), Error>;
}

/// Goes on generating, and writes each piece of text to `out` as it comes, while `watch` may look on.
pub fn stream(
    mut generation: Generation<'_>,
    mut reader: Reader,
    out: &mut impl Write,
    mut watch: Option<&mut dyn Watch>,
) -> Result<Answer, Error> {
    let context = generation.session().context();
    for piece in generation.by_ref() {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                reader.finish(out)?;
                return Err(error.into());
            }
        };
        reader.push(&piece.text, out)?;
        if let (Some(watch), Some(id)) = (&mut watch, piece.token) {
            watch.token(id, &piece.text)?;
        }
    }
    if let Some(end) = generation.end_shown() {
        reader.push(&end, out)?;
    }
    let parts = reader.finish(out)?;
    let reason = generation.stop_reason().unwrap_or(StopReason::Cancelled);
    if let Some(watch) = &mut watch {
        watch.stopped(reason)?;
    }
    if reason == StopReason::ContextFull {
        say!("stopped: the context of {context} tokens is full (-c N makes it longer, --context-shift goes on)");
    }
    Ok(Answer { parts, reason, timings: generation.timings(), seed: generation.seed() })
}

impl Answer {
    /// Says how long it took and why it ended.
    pub fn say_timings(&self) {
        say!("prompt: {}", Speed(self.timings.prompt_tokens, self.timings.prompt));
        say!("decode: {}", Speed(self.timings.tokens, self.timings.decode));
        if let Some(line) = guesses(self.timings) {
            say!("{line}");
        }
        say!("stopped: {}", reason(self.reason));
    }
}

/// How many guessed tokens were right; `None` where none were guessed.
pub fn guesses(timings: Timings) -> Option<String> {
    let Timings { drafted, accepted, .. } = timings;
    let percent = 100.0 * timings.acceptance()?;
    Some(format!("draft: {accepted} of {drafted} tokens accepted ({percent:.1} %)"))
}

/// The reason in words.
pub fn reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndOfText => "end of text",
        StopReason::MaxTokens => "-n tokens generated",
        StopReason::StopText => "reverse prompt",
        StopReason::ContextFull => "context full",
        StopReason::Cancelled => "interrupted",
    }
}
