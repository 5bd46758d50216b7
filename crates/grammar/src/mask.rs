//! The mask of an answer: which tokens may follow those that were chosen.

use std::{error::Error as StdError, fmt, sync::Arc};

use candor::{AnswerStart, sampler::LogitsProcessor};
use llguidance::{Matcher, api::TopLevelGrammar};
use toktrie::SimpleVob;

use crate::{
    Error, Vocabulary,
    before::{Before, Then},
    gbnf::{DEAD, Machine},
    grammar::Kind,
    guided,
};

/// Makes an answer follow a grammar: a processor of logits for [`GenerateOptions`](candor::GenerateOptions). Tokens that may not
/// follow become minus infinity, the logits of the others stay as they are. A text that has to end can only end.
///
/// A clone goes on from the same place of the same answer. Where the grammar is too complex to say what may follow, the generation
/// ends with [`Error::OwnProcessor`](candor::Error::OwnProcessor).
#[derive(Clone)]
pub struct Mask {
    vocabulary: Arc<Vocabulary>,
    follower: Follower,
    before: Option<Before>,
    /// The follower at the beginning, where something is before the content.
    fresh: Option<Follower>,
    /// Whether the grammar allows all that was said: it need not where a mark is being written.
    is_with: bool,
    /// Tokens that were seen, the prompt's included; `None` before the first.
    seen: Option<usize>,
    /// Whether the next token begins an answer, so that a space in front of it is dropped.
    is_first: bool,
    failure: Option<String>,
}

#[derive(Clone)]
enum Follower {
    Guided { grammar: Arc<TopLevelGrammar>, matcher: Box<Matcher> },
    Gbnf { machine: Box<Machine>, set: u32 },
}

impl Mask {
    pub(crate) fn new(kind: &Kind, vocabulary: &Arc<Vocabulary>) -> Result<Mask, Error> {
        let follower = match kind {
            Kind::Guided(grammar) => {
                let matcher = guided::begin(&vocabulary.all().factory, grammar).map_err(Error::Lark)?;
                Follower::Guided { grammar: grammar.clone(), matcher: Box::new(matcher) }
            }
            Kind::Gbnf(rules) => {
                let (machine, set) = Machine::new(rules.clone());
                Follower::Gbnf { machine: Box::new(machine), set }
            }
        };
        let vocabulary = vocabulary.clone();
        Ok(Mask {
            vocabulary,
            follower,
            before: None,
            fresh: None,
            is_with: true,
            seen: None,
            is_first: false,
            failure: None,
        })
    }

    /// Begins after what an answer says before its content ([`AnswerFormat::start`](candor::AnswerFormat::start)): until then every
    /// token may come, but none that ends the text. `marks` are the control tokens that the text shows.
    #[must_use]
    pub fn after(mut self, start: AnswerStart, marks: &[u32]) -> Mask {
        self.before = Before::new(start, marks, &self.vocabulary);
        self.fresh = self.before.as_ref().map(|_| self.follower.clone());
        self
    }

    /// The tokens that may follow by the grammar, and whether the text may end.
    fn allowed(&mut self, prompt: &[u32]) -> Result<(SimpleVob, bool), String> {
        let first = self.vocabulary.first(prompt).filter(|_| self.is_first);
        let (mut mask, may_end) = match &mut self.follower {
            Follower::Guided { grammar, matcher } => match first {
                None => guided::allowed(matcher, self.vocabulary.all())?,
                Some(side) => guided::allowed(&mut guided::begin(&side.factory, grammar)?, side)?,
            },
            Follower::Gbnf { machine, set } => {
                let mask = match first {
                    Some(side) => machine.walk(*set, side.trie()),
                    None => {
                        let (mask, now) = machine.allowed(*set, self.vocabulary.all().trie());
                        *set = now;
                        mask.as_ref().clone()
                    }
                };
                if let Some(failure) = machine.failure() {
                    return Err(failure.to_owned());
                }
                (mask, machine.may_end(*set))
            }
        };
        if first.is_some() {
            self.vocabulary.spaces().iter().for_each(|&id| mask.allow_token(id));
        }
        Ok((mask, may_end))
    }

    /// Follows the grammar by a token; whether it is allowed.
    fn follow(&mut self, id: u32, prompt: &[u32]) -> Result<bool, String> {
        let all = self.vocabulary.all();
        let side = self.vocabulary.first(prompt).filter(|_| self.is_first).unwrap_or(all);
        let bytes = side.trie().token(id);
        if bytes.is_empty() {
            return Ok(self.is_first && self.vocabulary.spaces().contains(&id));
        }
        match &mut self.follower {
            Follower::Guided { matcher, .. } => guided::take(matcher, all, bytes),
            Follower::Gbnf { machine, set } => {
                let next = machine.take(*set, bytes);
                if let Some(failure) = machine.failure() {
                    return Err(failure.to_owned());
                }
                if next != DEAD {
                    *set = next;
                }
                Ok(next != DEAD)
            }
        }
    }

    /// Takes note of a token that was chosen.
    fn take(&mut self, id: u32, prompt: &[u32]) -> Result<(), String> {
        let then = match &mut self.before {
            None => Then::Mark { goes_on: false },
            Some(before) => before.take(id, &self.vocabulary),
        };
        let unknown = || Err(format!("token {id} was chosen, which the grammar does not allow"));
        match then {
            Then::Before => {}
            Then::Again => {
                if let Some(fresh) = &self.fresh {
                    (self.follower, self.is_with) = (fresh.clone(), true);
                }
            }
            Then::Content => self.before = None,
            Then::Mark { goes_on } => {
                self.is_with = self.is_with && self.follow(id, prompt)?;
                match (goes_on, self.is_with) {
                    (true, _) => {}
                    (false, true) => self.before = None,
                    (false, false) => return unknown(),
                }
            }
            Then::Blank { goes_on } => match (self.follow(id, prompt)?, goes_on) {
                (true, _) => self.before = None,
                (false, true) => {}
                (false, false) => return unknown(),
            },
        }
        self.is_first = false;
        Ok(())
    }

    fn step(&mut self, tokens: &[u32], logits: &mut [f32]) -> Result<(), String> {
        let from = *self.seen.get_or_insert_with(|| {
            self.is_first = true;
            tokens.len()
        });
        let vocabulary = self.vocabulary.clone();
        let stops = vocabulary.tokenizer().stop_ids();
        for at in from..tokens.len() {
            // What ends a text ends the generation; where it is ignored there, nothing follows that the grammar knows.
            if !stops.contains(&tokens[at]) {
                self.take(tokens[at], &tokens[..at])?;
            }
        }
        self.seen = Some(tokens.len());
        let mut exclude = |ids: &[u32]| {
            for &id in ids {
                if let Some(logit) = logits.get_mut(id as usize) {
                    *logit = f32::NEG_INFINITY;
                }
            }
        };
        if let Some(before) = self.before.as_ref().filter(|before| !before.may_begin()) {
            exclude(stops);
            before.exclude(logits);
            return Ok(());
        }
        let (mut mask, may_end) = match self.is_with {
            true => self.allowed(tokens)?,
            false => (vocabulary.all().trie().alloc_token_set(), false),
        };
        stops.iter().for_each(|&id| mask.set(id as usize, may_end));
        if let Some(before) = &self.before {
            before.add(&mut mask);
        }
        if mask.is_zero() {
            return Err("the vocabulary has no token that the grammar allows here".to_owned());
        }
        apply(&mask, logits);
        Ok(())
    }
}

/// Takes away what the mask does not have. Rows may be longer than the vocabulary.
fn apply(mask: &SimpleVob, logits: &mut [f32]) {
    let words = mask.as_slice().iter().copied().chain(std::iter::repeat(0));
    for (logits, word) in logits.chunks_mut(32).zip(words) {
        match word {
            0 => logits.fill(f32::NEG_INFINITY),
            u32::MAX => {}
            _ => {
                for (bit, logit) in logits.iter_mut().enumerate() {
                    if word >> bit & 1 == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }
}

impl LogitsProcessor for Mask {
    fn process(&mut self, tokens: &[u32], logits: &mut [f32]) {
        if self.failure.is_none() {
            self.failure = self.step(tokens, logits).err();
        }
    }

    fn failure(&mut self) -> Option<Box<dyn StdError + Send + Sync>> {
        self.failure.as_ref().map(|failure| format!("grammar: {failure}").into())
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("seen", &self.seen).finish_non_exhaustive()
    }
}
