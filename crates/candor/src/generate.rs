//! Continuing a prompt, piece by piece.

use std::{io::Write, slice, time::Duration};

use candor_tokenizer::Show;
use web_time::Instant;

use crate::{
    Cancel, Continuation, Error, Sampling, Session, Value, Want,
    now::now,
    progress::{Progress, Until},
    sampler::{LogitsProcessor, OwnProcessor, OwnSampler, Sample},
};

/// How to continue a prompt.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Chooses the next token instead, so that of [`GenerateOptions::sampling`] nothing counts.
    pub sampler: Option<OwnSampler>,
    /// Change the logits, one after the other, before anything of `sampling` or `sampler` does.
    pub processors: Vec<OwnProcessor>,
    /// Most tokens to generate; `None` goes on until the model ends the text or the context is full.
    pub max_tokens: Option<usize>,
    /// Makes the tokens that end a text impossible.
    pub ignore_eos: bool,
    /// Texts that end the generation; they are not part of it.
    pub stop: Vec<String>,
    /// When the context is full, forget half of what follows its first tokens and go on.
    pub context_shift: Option<ContextShift>,
    /// Whether control tokens are part of the text. An [`AnswerParser`](candor_tokenizer::AnswerParser) needs some of them:
    /// many models mark reasoning and tool calls by control tokens.
    pub show: Show,
    /// Control tokens that are part of the text in any case: the marks of an [`AnswerFormat`](candor_tokenizer::AnswerFormat).
    pub marks: Vec<u32>,
    /// Ends the generation from elsewhere, with [`StopReason::Cancelled`].
    pub cancel: Cancel,
    /// Hears how far the reading of the prompt is.
    pub progress: Option<Progress>,
}

setters!(GenerateOptions {
    sampling: Sampling,
    max_tokens: impl Into<Option<usize>>,
    ignore_eos: bool,
    stop: Vec<String>,
    context_shift: impl Into<Option<ContextShift>>,
    show: Show,
    marks: Vec<u32>,
    cancel: Cancel,
    progress: impl Into<Option<Progress>>,
});

impl GenerateOptions {
    /// Has `sampler` choose the tokens instead of [`GenerateOptions::sampling`]. Every generation begins with a clone of it.
    pub fn sampler(mut self, sampler: impl Sample + Clone + 'static) -> Self {
        self.sampler = Some(OwnSampler::new(sampler));
        self
    }

    /// Has `processor` change the logits, after those that were added before. Every generation begins with a clone of it.
    pub fn processor(mut self, processor: impl LogitsProcessor + Clone + 'static) -> Self {
        self.processors.push(OwnProcessor::new(processor));
        self
    }
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
    /// It was cancelled, while the prompt was read or later: [`GenerateOptions::cancel`].
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
    text: Continuation,
    timings: Timings,
    decoding_since: Instant,
    is_done: bool,
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
    pub fn generate(&mut self, prompt: &[u32], options: GenerateOptions) -> Result<Generation<'_>, Error> {
        now(self.generate_body(prompt, options))
    }

    /// What [`Session::generate`] does.
    pub(crate) async fn generate_body(
        &mut self,
        prompt: &[u32],
        options: GenerateOptions,
    ) -> Result<Generation<'_>, Error> {
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let (reading, context) = (Instant::now(), self.context());
        let start = self.model().config().start;
        let (prompt, read) = match &start {
            None => (prompt, 0),
            Some(start) => {
                if options.context_shift.is_some() {
                    self.model().refuse_answers("sliding over a full context")?;
                }
                let known = self.text() == prompt;
                self.read_text_body(prompt).await?;
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
        let mut text = Continuation::new(self.model(), &options, prompt, context)?;
        let started = Instant::now();
        let common = self.tokens().iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let want = text.want(self.top_k());
        // The best that another generation left may be enough here, too.
        let known = match self.best() {
            [] => !self.logits().is_empty(),
            best => text.is_enough(best.len()),
        };
        let seen = common == self.tokens().len() && common == prompt.len() && known;
        let common = if seen { common } else { common.min(prompt.len() - 1) };
        self.truncate(common);
        let prompt_tokens = read + prompt.len() - self.held();
        // States cannot be taken back: a generation from this prompt with other settings needs all logits.
        let want = if self.model().config().is_recurrent() { Want::Logits } else { want };
        let until = Until { cancel: &options.cancel, progress: options.progress.as_ref(), pause: None };
        if !self.evaluate_for(want, &prompt[common..], until).await? {
            text.stop(StopReason::Cancelled);
        }
        let is_done = text.stop_reason().is_some();
        let timings = Timings { prompt_tokens, prompt: reading + started.elapsed(), ..Timings::default() };
        Ok(Generation { text, timings, decoding_since: Instant::now(), session: self, is_done })
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
        self.text.stop_reason()
    }

    /// The text of the token that ended it, where control tokens are shown ([`GenerateOptions::show`]); no piece has it.
    pub fn end_shown(&self) -> Option<String> {
        self.text.end_shown()
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
        now(self.save_body(out))
    }

    /// What [`Self::save`] does.
    pub(crate) async fn save_body(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        self.session.save_body(out).await
    }

    /// How long it took so far.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// The seed in use: with it and the same settings the same text comes again.
    pub fn seed(&self) -> u32 {
        self.text.seed()
    }

    /// What its iterator does: the next piece of text, `None` at the end.
    pub(crate) async fn next_body(&mut self) -> Result<Option<Piece>, Error> {
        if self.is_done {
            return Ok(None);
        }
        let advanced = self.advance().await;
        self.timings.decode = self.decoding_since.elapsed();
        self.is_done = self.text.stop_reason().is_some() || advanced.is_err();
        advanced
    }

    /// One token further: its text, or what is left of it at the end.
    async fn advance(&mut self) -> Result<Option<Piece>, Error> {
        if self.text.is_over() {
            return Ok(self.text.rest());
        }
        if let Some(token) = self.text.pending() {
            if self.session.tokens().len() == self.session.context() {
                let Some(shift) = self.text.options().context_shift else {
                    return Ok(self.text.stop(StopReason::ContextFull));
                };
                if !self.slide(shift).await? {
                    return Ok(self.text.stop(StopReason::Cancelled));
                }
            }
            // The last token of all need not be guessed ahead.
            let most = self.text.options().max_tokens.map_or(usize::MAX, |most| most - self.timings.tokens - 1);
            let want = self.text.want(self.session.top_k());
            let Some(guessed) = self.session.go_on(want, token, most, &self.text.options().cancel).await? else {
                return Ok(self.text.stop(StopReason::Cancelled));
            };
            self.timings.drafted += guessed.drafted;
            self.timings.accepted += guessed.accepted;
        }
        self.text.slid(self.session.tokens().len() - 1);
        let value = match self.session.best() {
            [] => Value::Logits(self.session.logits()),
            best => Value::Best(best),
        };
        let piece = self.text.choose(value);
        self.timings.tokens = self.text.tokens();
        piece
    }

    /// Forgets half of what follows the kept tokens and computes the rest again at its new positions; `false` where that was
    /// cancelled.
    async fn slide(&mut self, shift: ContextShift) -> Result<bool, Error> {
        let tokens = self.session.tokens().to_vec();
        let keep = self.session.kept(shift, &tokens);
        let shortened = shift.shorten(&tokens, self.session.context(), keep);
        self.session.truncate(keep);
        let want = self.text.want(self.session.top_k());
        self.session.evaluate_for(want, &shortened[keep..], (&self.text.options().cancel).into()).await
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        now(self.next_body()).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
