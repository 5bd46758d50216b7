//! What turns logits into text: a sampler, a decoder of tokens, the texts that end it, and limits. It borrows no session, so that
//! as many as there are sequences go on side by side.

use std::sync::Arc;

use candor_ops::{Ranked, top_k};
use candor_tokenizer::{Encode, Show, StreamDecoder, Tokenizer};

use crate::{
    Error, GenerateOptions, Model, Piece, StopReason, Value, Want,
    sampler::{OwnProcessor, Sampler, Vocabulary},
};

/// The text that follows a prompt, token by token.
///
/// ```no_run
/// use candor::{Batch, Continuation, Model, Outputs, Role, SequenceId};
///
/// /// Reads a prompt and prints what follows it, beside whatever else the batch does.
/// fn answer(model: &Model, batch: &mut Batch, id: SequenceId, prompt: &[u32]) -> Result<(), candor::Error> {
///     let mut text = Continuation::new(model, &Default::default(), prompt, batch.context())?;
///     let want = text.want(batch.top_k());
///     batch.push(id, prompt, Role::Prefill, Outputs::Last(want))?;
///     loop {
///         batch.step()?;
///         let value = batch.answers().find(|answer| answer.sequence == id).map(|answer| answer.value);
///         let Some(piece) = value.map(|value| text.choose(value)).transpose()?.flatten() else { break };
///         print!("{}", piece.text);
///         let Some(token) = text.pending() else { break };
///         let want = text.want(batch.top_k());
///         batch.push(id, &[token], Role::Decode, Outputs::Last(want))?;
///     }
///     Ok(())
/// }
/// ```
pub struct Continuation {
    options: GenerateOptions,
    sampler: Sampler,
    /// All tokens, and logits to change, where something of the user's asks for them.
    seen: Vec<u32>,
    logits: Vec<f32>,
    /// The best logits, where they decide.
    best: Vec<Ranked>,
    decoder: StreamDecoder<Arc<Tokenizer>>,
    tokenizer: Arc<Tokenizer>,
    /// Logits of a row.
    width: usize,
    /// Tokens of the prompt and those that were chosen, the last position whose logits came.
    position: usize,
    /// Tokens that were chosen.
    tokens: usize,
    /// Chosen, but not yet seen by the model.
    pending: Option<u32>,
    /// Text that may be the beginning of a stop text.
    held: String,
    stop_reason: Option<StopReason>,
    /// Which of the stop texts ended it.
    stop_text: Option<usize>,
    /// The token that ended it.
    end: Option<u32>,
}

impl Continuation {
    /// What follows `prompt` in a context of the given size.
    ///
    /// # Errors
    /// If the sampling settings make no sense.
    pub fn new(
        model: &Model,
        options: &GenerateOptions,
        prompt: &[u32],
        context: usize,
    ) -> Result<Continuation, Error> {
        let (tokenizer, mut options) = (model.tokenizer().clone(), options.clone());
        if options.ignore_eos {
            let stops = tokenizer.stop_ids().iter();
            options.sampling.logit_bias.extend(stops.map(|&id| (id, f32::NEG_INFINITY)));
        }
        let vocabulary = Vocabulary {
            tokens: tokenizer.vocab_size(),
            piece: &|id| tokenizer.piece(id, Show::Specials).into_owned(),
            encode: &|text| tokenizer.encode(text, Encode::text()),
        };
        let mut sampler = Sampler::new(&options.sampling, context, Some(&vocabulary))?;
        prompt.iter().for_each(|&token| sampler.accept(token));
        let seen = if takes_all(&options) { prompt.to_vec() } else { Vec::new() };
        // An answer begins a text of its own after a control token; otherwise the prompt's text goes on.
        let answer = model.is_encoder_decoder() || prompt.last().is_some_and(|&token| tokenizer.is_control(token));
        let own = tokenizer.clone();
        let decoder = if answer { StreamDecoder::new(own) } else { StreamDecoder::continuing(own) };
        Ok(Continuation {
            decoder: decoder.show(options.show).marks(options.marks.clone()),
            sampler,
            seen,
            logits: Vec::new(),
            best: Vec::new(),
            tokenizer,
            width: model.config().outputs(),
            position: prompt.len().saturating_sub(1),
            tokens: 0,
            pending: None,
            held: String::new(),
            stop_reason: None,
            stop_text: None,
            end: None,
            options,
        })
    }

    /// What the next choice needs of a row, where a device finds up to `top_k` of the best logits itself ([`crate::Batch::top_k`]).
    pub fn want(&mut self, top_k: usize) -> Want {
        if top_k == 0 {
            return Want::Logits;
        }
        // A logit with its token is as much as two logits.
        let width = self.width;
        let worthwhile = |&count: &usize| count <= top_k && count.saturating_mul(2) < width;
        self.enough().filter(worthwhile).map_or(Want::Logits, Want::Best)
    }

    /// Chooses the next token from what was wanted of the row of the last one: its text, or the rest of the text with
    /// [`Continuation::stop_reason`] where it ends, or nothing.
    ///
    /// # Errors
    /// If a logit is not a number, the sampler takes all of them away, or something else than logits was wanted. If the user's own
    /// sampler or processor fails, or chooses a token outside of the vocabulary.
    pub fn choose(&mut self, value: Value<'_>) -> Result<Option<Piece>, Error> {
        if self.is_over() {
            return Ok(self.rest());
        }
        let token = self.sample(value)?;
        self.position += 1;
        self.sampler.accept(token);
        if takes_all(&self.options) {
            self.seen.push(token);
        }
        if !self.options.ignore_eos && self.tokenizer.stop_ids().contains(&token) {
            self.end = Some(token);
            return Ok(self.stop(StopReason::EndOfText));
        }
        self.tokens += 1;
        self.pending = Some(token);
        let text = self.decoder.push(token);
        self.held.push_str(&text);
        let found = self.options.stop.iter().enumerate();
        if let Some((end, stop)) = found.filter_map(|(n, stop)| Some((self.held.find(stop.as_str())?, n))).min() {
            self.held.truncate(end);
            self.stop_text = Some(stop);
            return Ok(self.stop(StopReason::StopText));
        }
        let keep = self.options.stop.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Ok(Some(Piece { token: Some(token), text: std::mem::replace(&mut self.held, rest) }))
    }

    fn sample(&mut self, value: Value<'_>) -> Result<u32, Error> {
        let best = match value {
            Value::Logits(logits) => match self.enough().filter(|count| count.saturating_mul(8) < self.width) {
                // The chain reads all candidates several times; where a few decide, they are found in one pass.
                Some(count) => {
                    self.best.clear();
                    top_k(logits, count, &mut self.best);
                    &self.best[..]
                }
                None => return self.sample_all(logits),
            },
            Value::Best(best) if !takes_all(&self.options) => best,
            Value::Best(_) | Value::Embedding(_) => return Err(Error::NoLogits),
        };
        if best.first().is_none_or(|(_, logit)| logit.is_nan()) {
            return Err(Error::NotFinite { position: self.position });
        }
        Ok(self.sampler.sample_best(best, self.width)?)
    }

    fn sample_all(&mut self, logits: &[f32]) -> Result<u32, Error> {
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(Error::NotFinite { position: self.position });
        }
        if takes_all(&self.options) { self.sample_own(logits) } else { Ok(self.sampler.sample(logits)?) }
    }

    /// Chooses with what the user brought.
    fn sample_own(&mut self, logits: &[f32]) -> Result<u32, Error> {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        for processor in &mut self.options.processors {
            processor.process(&self.seen, &mut self.logits).map_err(Error::OwnProcessor)?;
        }
        let Some(own) = &mut self.options.sampler else { return Ok(self.sampler.sample(&self.logits)?) };
        if self.options.ignore_eos {
            for &id in self.tokenizer.stop_ids() {
                if let Some(logit) = self.logits.get_mut(id as usize) {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        let token = own.choose(&self.seen, &self.logits).map_err(Error::OwnSampler)?;
        match (token as usize) < logits.len() {
            true => Ok(token),
            false => Err(Error::Token { token, vocab: logits.len() }),
        }
    }

    /// Whether something of the user's looks at the logits of the prompt.
    pub(crate) fn reads(&self) -> bool {
        self.options.processors.iter().any(OwnProcessor::reads)
    }

    /// Shows the logits of the prompt's token `next`, which is at `position`.
    pub(crate) fn read(&mut self, next: u32, position: usize, value: Value<'_>) -> Result<(), Error> {
        let Value::Logits(logits) = value else { return Err(Error::NoLogits) };
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(Error::NotFinite { position: position - 1 });
        }
        self.options.processors.iter_mut().for_each(|processor| processor.read(next, logits));
        Ok(())
    }

    /// Whether it has ended: before, or now, by a limit or from elsewhere.
    pub(crate) fn is_over(&mut self) -> bool {
        if self.stop_reason.is_none() {
            let enough = self.options.max_tokens.is_some_and(|most| self.tokens >= most);
            self.stop_reason = match (self.options.cancel.is_cancelled(), enough) {
                (true, _) => Some(StopReason::Cancelled),
                (false, true) => Some(StopReason::MaxTokens),
                (false, false) => None,
            };
        }
        self.stop_reason.is_some()
    }

    /// Ends it; the text that was held back until now.
    pub fn stop(&mut self, reason: StopReason) -> Option<Piece> {
        self.stop_reason = Some(reason);
        self.rest()
    }

    /// What was held back, once.
    pub(crate) fn rest(&mut self) -> Option<Piece> {
        self.pending = None;
        let mut text = std::mem::take(&mut self.held);
        if self.stop_reason != Some(StopReason::StopText) {
            text.push_str(&self.decoder.finish());
        }
        (!text.is_empty()).then_some(Piece { token: None, text })
    }

    /// The token that the model has to see before the next choice; `None` before the first one and after the end.
    pub fn pending(&self) -> Option<u32> {
        self.pending
    }

    /// Why it ended; `None` while it goes on.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop_reason
    }

    /// Which of [`GenerateOptions::stop`] ended it, counted from 0.
    pub fn stop_text(&self) -> Option<usize> {
        self.stop_text
    }

    /// The text of the token that ended it, where control tokens are shown; no piece has it.
    pub fn end_shown(&self) -> Option<String> {
        let end = self.end.filter(|_| self.options.show == Show::Specials)?;
        Some(String::from_utf8_lossy(&self.tokenizer.piece(end, Show::Specials)).into_owned())
    }

    /// The token that ended it; no piece has it.
    pub(crate) fn end(&self) -> Option<u32> {
        self.end
    }

    /// Tokens that were chosen so far.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The built-in chain's seed in use: with it and the same settings the same text comes again.
    pub fn seed(&self) -> u32 {
        self.sampler.seed()
    }

    /// How it was asked to go on.
    pub(crate) fn options(&self) -> &GenerateOptions {
        &self.options
    }

    /// Tells where the last logits came from, since tokens before it were forgotten.
    pub(crate) fn slid(&mut self, position: usize) {
        self.position = position;
    }

    /// Whether the best `count` logits decide on the next token.
    pub(crate) fn is_enough(&mut self, count: usize) -> bool {
        self.enough().is_some_and(|enough| count >= enough)
    }

    /// How many of the best logits decide on the next token; `None` where all do.
    fn enough(&mut self) -> Option<usize> {
        if takes_all(&self.options) { None } else { self.sampler.enough() }
    }
}

/// Whether something of the user's looks at all logits.
fn takes_all(options: &GenerateOptions) -> bool {
    options.sampler.is_some() || !options.processors.is_empty()
}

/// Bytes at the end of `text` that `stop` begins with.
fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len().saturating_sub(1));
    (1..=longest).rev().find(|&len| text.as_bytes().ends_with(&stop.as_bytes()[..len])).unwrap_or(0)
}

/// A continuation may be moved to the thread that serves it.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Continuation>();
};

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
}
