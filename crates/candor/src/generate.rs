//! Continuing a prompt, piece by piece.

use std::{
    io::Write,
    slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use candor_tokenizer::{Encode, Show, StreamDecoder, Tokenizer};
use web_time::Instant;

use crate::{
    Error, Session,
    batch::Want,
    sampler::{Sampler, Sampling, Vocabulary},
};

/// How to continue a prompt.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Most tokens to generate; `None` goes on until the model ends the text or the context is full.
    pub max_tokens: Option<usize>,
    /// Makes the tokens that end a text impossible.
    pub ignore_eos: bool,
    /// Texts that end the generation; they are not part of it.
    pub stop: Vec<String>,
    /// When the context is full, forget half of what follows its first tokens and go on.
    pub context_shift: Option<ContextShift>,
    /// Whether control tokens are part of the text. An [`AnswerParser`](candor_tokenizer::AnswerParser) needs them: many
    /// models mark reasoning and tool calls by control tokens.
    pub show: Show,
    /// Set from elsewhere to end the generation: asked before every step.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// What sliding over a full context keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextShift {
    /// First tokens that always stay; a BOS token stays in any case.
    pub keep: usize,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model ended its text.
    EndOfText,
    /// The number of tokens asked for was reached.
    MaxTokens,
    /// One of the stop texts came.
    StopText,
    /// The context is full.
    ContextFull,
    /// It was cancelled.
    Cancelled,
}

/// A piece of generated text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The token; `None` for a rest of text at the end.
    pub token: Option<u32>,
    /// Text that is now complete, perhaps empty: never half a character, never part of a stop text.
    pub text: String,
}

/// How long a generation took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// Tokens of the prompt that had to be computed.
    pub prompt_tokens: usize,
    /// Time for them.
    pub prompt: Duration,
    /// Tokens generated.
    pub tokens: usize,
    /// Time from the end of the prompt to the last token.
    pub decode: Duration,
    /// Tokens that were guessed ahead ([`Session::speculate`]).
    pub drafted: usize,
    /// Tokens of them that were chosen.
    pub accepted: usize,
}

impl Timings {
    /// The share of guessed tokens that were chosen; `None` where none were guessed.
    pub fn acceptance(&self) -> Option<f64> {
        (self.drafted > 0).then(|| self.accepted as f64 / self.drafted as f64)
    }
}

/// A running generation: an iterator over pieces of text.
pub struct Generation<'s> {
    session: &'s mut Session,
    options: GenerateOptions,
    sampler: Sampler,
    decoder: StreamDecoder<Arc<Tokenizer>>,
    /// Chosen, but not yet seen by the model.
    pending: Option<u32>,
    /// Text that may be the beginning of a stop text.
    held: String,
    stop_reason: Option<StopReason>,
    timings: Timings,
    decoding_since: Instant,
}

impl Session {
    /// Reads `prompt`, the whole text so far, and generates its continuation. What the session has in common with the
    /// prompt is not computed again. A model that answers texts has its encoder read the prompt, and generates an answer.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), candor::Error> {
    /// let model = candor::Model::open("model.gguf", &Default::default())?;
    /// let mut session = model.session(&Default::default())?;
    /// let prompt = model.encode_prompt("Once upon a time");
    /// for piece in session.generate(&prompt, Default::default())? {
    ///     print!("{}", piece?.text);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the prompt is empty, has a token outside of the vocabulary, or does not fit into the context.
    pub fn generate(&mut self, prompt: &[u32], mut options: GenerateOptions) -> Result<Generation<'_>, Error> {
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let (reading, context) = (Instant::now(), self.context());
        let start = self.model().config().start;
        let (prompt, text) = match &start {
            None => (prompt, 0),
            Some(start) => {
                if options.context_shift.is_some() {
                    self.model().refuse_answers("sliding over a full context")?;
                }
                let known = self.text() == prompt;
                self.read_text(prompt)?;
                (slice::from_ref(start), if known { 0 } else { prompt.len() })
            }
        };
        let reading = reading.elapsed();
        let shortened;
        let prompt = match options.context_shift {
            Some(shift) if prompt.len() >= context => {
                shortened = shift.shorten(prompt, context, self.kept(shift, prompt));
                &shortened[..]
            }
            _ if prompt.len() > context => {
                return Err(Error::PromptTooLong { prompt: prompt.len(), context });
            }
            _ => prompt,
        };
        if options.ignore_eos {
            let stops = self.model().tokenizer().stop_ids().iter();
            options.sampling.logit_bias.extend(stops.map(|&id| (id, f32::NEG_INFINITY)));
        }
        let tokenizer = self.model().tokenizer().clone();
        let vocabulary = Vocabulary {
            tokens: tokenizer.vocab_size(),
            piece: &|id| tokenizer.piece(id, Show::Specials).into_owned(),
            encode: &|text| tokenizer.encode(text, Encode::text()),
        };
        let mut sampler = Sampler::new(&options.sampling, context, Some(&vocabulary))?;
        for &token in prompt {
            sampler.accept(token);
        }

        let started = Instant::now();
        let common = self.tokens().iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let wanted = wanted(&mut sampler, self);
        // Whoever found the best, they are enough here, too.
        let known = match self.best() {
            [] => !self.logits().is_empty(),
            best => sampler.enough().is_some_and(|count| best.len() >= count),
        };
        let seen = common == self.tokens().len() && common == prompt.len() && known;
        let common = if seen { common } else { common.min(prompt.len() - 1) };
        self.truncate(common);
        let prompt_tokens = text + prompt.len() - self.held();
        let cancel = options.cancel.clone();
        let go_on = |_| !cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
        // States cannot be taken back: whoever goes on from this prompt with other settings needs all logits.
        let wanted = if self.model().config().is_recurrent() { Want::Logits } else { wanted };
        let finished = self.evaluate_for(wanted, &prompt[common..], go_on)?;
        // An answer begins a text of its own after a control token; otherwise the prompt's text goes on.
        let answer = start.is_some() || prompt.last().is_some_and(|&token| tokenizer.is_control(token));
        let decoder = if answer { StreamDecoder::new(tokenizer) } else { StreamDecoder::continuing(tokenizer) };
        Ok(Generation {
            sampler,
            decoder: decoder.show(options.show),
            pending: None,
            held: String::new(),
            stop_reason: (!finished).then_some(StopReason::Cancelled),
            timings: Timings { prompt_tokens, prompt: reading + started.elapsed(), ..Timings::default() },
            decoding_since: Instant::now(),
            session: self,
            options,
        })
    }

    /// The first tokens that sliding keeps: what was asked for, and a BOS token in any case.
    fn kept(&self, shift: ContextShift, tokens: &[u32]) -> usize {
        let bos = tokens.first().copied() == self.model().tokenizer().bos() && !tokens.is_empty();
        shift.keep.max(usize::from(bos)).min(self.context().saturating_sub(2))
    }
}

impl ContextShift {
    /// Leaves out whole half-windows after the kept tokens until the rest fits with room to go on.
    fn shorten(self, tokens: &[u32], context: usize, keep: usize) -> Vec<u32> {
        let window = ((context - keep) / 2).max(1);
        let excess = (tokens.len() + 1).saturating_sub(context);
        let dropped = excess.div_ceil(window) * window;
        let from = (keep + dropped).min(tokens.len());
        [&tokens[..keep.min(tokens.len())], &tokens[from..]].concat()
    }
}

impl Generation<'_> {
    /// Why the generation ended; `None` while it goes on.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop_reason
    }

    /// Where it writes: the prompt, and what was generated and read again.
    pub fn session(&self) -> &Session {
        self.session
    }

    /// Writes the session as it is now, as [`Session::save`] does.
    ///
    /// # Errors
    /// As there.
    pub fn save(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        self.session.save(out)
    }

    /// How long it took so far.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// The seed in use: with it and the same settings the same text comes again.
    pub fn seed(&self) -> u32 {
        self.sampler.seed()
    }

    /// One token further: its text, or the reason to end.
    fn advance(&mut self) -> Result<Result<Piece, StopReason>, Error> {
        if self.options.cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Ok(Err(StopReason::Cancelled));
        }
        if self.options.max_tokens.is_some_and(|most| self.timings.tokens >= most) {
            return Ok(Err(StopReason::MaxTokens));
        }
        if let Some(token) = self.pending.take() {
            if self.session.tokens().len() == self.session.context() {
                let Some(shift) = self.options.context_shift else { return Ok(Err(StopReason::ContextFull)) };
                self.slide(shift)?;
            }
            // The last token of all need not be guessed ahead.
            let most = self.options.max_tokens.map_or(usize::MAX, |most| most - self.timings.tokens - 1);
            let wanted = wanted(&mut self.sampler, self.session);
            let guessed = self.session.go_on(wanted, token, most)?;
            self.timings.drafted += guessed.drafted;
            self.timings.accepted += guessed.accepted;
        }
        let token = self.choose()?;
        self.sampler.accept(token);
        if !self.options.ignore_eos && self.session.model().tokenizer().stop_ids().contains(&token) {
            return Ok(Err(StopReason::EndOfText));
        }
        self.timings.tokens += 1;
        self.pending = Some(token);
        let text = self.decoder.push(token);
        self.held.push_str(&text);
        if let Some(end) = self.options.stop.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(end);
            return Ok(Err(StopReason::StopText));
        }
        let keep = self.options.stop.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Ok(Ok(Piece { token: Some(token), text: std::mem::replace(&mut self.held, rest) }))
    }

    /// The next token.
    fn choose(&mut self) -> Result<u32, Error> {
        let (logits, best) = (self.session.logits(), self.session.best());
        let broken = best.first().is_some_and(|(_, logit)| logit.is_nan()) || logits.iter().any(|logit| logit.is_nan());
        if broken {
            return Err(Error::NotFinite { position: self.session.tokens().len() - 1 });
        }
        Ok(match best {
            [] => self.sampler.sample(logits)?,
            best => self.sampler.sample_best(best, self.session.model().config().outputs())?,
        })
    }

    /// Forgets half of what follows the kept tokens and computes the rest anew at its new positions.
    fn slide(&mut self, shift: ContextShift) -> Result<(), Error> {
        let tokens = self.session.tokens().to_vec();
        let keep = self.session.kept(shift, &tokens);
        let shortened = shift.shorten(&tokens, self.session.context(), keep);
        self.session.truncate(keep);
        let wanted = wanted(&mut self.sampler, self.session);
        self.session.evaluate_for(wanted, &shortened[keep..], |_| true)?;
        Ok(())
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.stop_reason.is_some() {
            return None;
        }
        let advanced = self.advance();
        self.timings.decode = self.decoding_since.elapsed();
        match advanced {
            Ok(Ok(piece)) => Some(Ok(piece)),
            Ok(Err(reason)) => {
                self.stop_reason = Some(reason);
                let mut text = std::mem::take(&mut self.held);
                if reason != StopReason::StopText {
                    text.push_str(&self.decoder.finish());
                }
                (!text.is_empty()).then_some(Ok(Piece { token: None, text }))
            }
            Err(error) => {
                self.stop_reason = Some(StopReason::Cancelled);
                Some(Err(error))
            }
        }
    }
}

/// What a sampler needs of every step.
fn wanted(sampler: &mut Sampler, session: &Session) -> Want {
    let most = session.top_k();
    if most == 0 {
        return Want::Logits;
    }
    // A logit with its token is as much as two logits.
    let worthwhile = |&count: &usize| count <= most && count.saturating_mul(2) < session.model().config().outputs();
    sampler.enough().filter(worthwhile).map_or(Want::Logits, Want::Best)
}

/// Bytes at the end of `text` that `stop` begins with.
fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len().saturating_sub(1));
    (1..=longest).rev().find(|&len| text.as_bytes().ends_with(&stop.as_bytes()[..len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_the_longest_suffix_that_begins_the_stop_text() {
        for (text, stop, expected) in
            [("abc", "cd", 1), ("abcab", "abx", 2), ("", "a", 0), ("aa", "aab", 2), ("stop", "stop", 0), ("x", "é", 0)]
        {
            assert_eq!(overlap(text, stop), expected, "{text:?} {stop:?}");
        }
    }

    #[test]
    fn sliding_keeps_the_first_and_the_last_tokens() {
        let tokens: Vec<u32> = (0..10).collect();
        let shift = ContextShift { keep: 2 };
        // A context of 8 keeps 2 and drops windows of 3 until 7 at most are left.
        assert_eq!(shift.shorten(&tokens, 8, 2), [0, 1, 5, 6, 7, 8, 9]);
        assert_eq!(shift.shorten(&tokens[..8], 8, 2), [0, 1, 5, 6, 7]);
        let long: Vec<u32> = (0..1000).collect();
        let short = shift.shorten(&long, 8, 2);
        assert!(short.len() < 8 && short.ends_with(&[999]) && short.starts_with(&[0, 1]), "{short:?}");
    }
}
