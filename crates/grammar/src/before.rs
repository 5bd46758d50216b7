//! What an answer says before its content, where the grammar does not bind: reasoning, and the messages of gpt-oss.

use std::sync::Arc;

use candor::{AnswerStart, Show};
use toktrie::SimpleVob;

use crate::Vocabulary;

/// How far an answer is that has not come to its content.
#[derive(Clone)]
pub struct Before {
    state: State,
    /// Control tokens that are part of the text.
    marks: Vec<u32>,
    near: Arc<Near>,
}

#[derive(Clone)]
enum State {
    /// Reasoning may be opened, or the content begin.
    Start { open: &'static str, close: &'static str, said: Vec<u8> },
    /// In reasoning, whose last bytes are kept.
    Reasoning { close: &'static str, said: Vec<u8> },
    /// After it: white space, of this length in bytes.
    Blank { bytes: usize },
    /// In messages of which none is content yet.
    Messages { channel: &'static str, name: &'static str, message: &'static str, said: Vec<u8> },
}

/// The tokens that matter around reasoning, looked up once.
#[derive(Default)]
struct Near {
    /// Parts of the mark that opens it.
    openers: Vec<Opener>,
    overruns: Vec<Overrun>,
    /// White space, and its length in bytes.
    blanks: Vec<(u32, usize)>,
}

/// A token that is a part of a mark.
struct Opener {
    id: u32,
    piece: Vec<u8>,
    /// Whether it can begin one: it is all of it, or a control token. Letters that a mark begins with are the content's.
    begins: bool,
}

/// A token that closes reasoning, and says something more. `before` bytes of the mark have to be there already.
struct Overrun {
    id: u32,
    before: usize,
}

/// What a token does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The content has not begun.
    Before,
    /// The same, and what was said until now was a mark: the content is still whole.
    Again,
    /// The content begins with the next token.
    Content,
    /// It is the content's unless it goes on with a mark, which more may show.
    Mark { goes_on: bool },
    /// It is the content's if the grammar allows it, and may be white space in front of it otherwise.
    Blank { goes_on: bool },
}

/// White space between reasoning and content: an empty line, as most templates write it.
const MOST_BLANK: usize = 2;

impl Before {
    /// What comes before the content of an answer that begins so; `None` where nothing does.
    pub fn new(start: AnswerStart, marks: &[u32], vocabulary: &Vocabulary) -> Option<Before> {
        let said = Vec::new();
        let (state, near) = match start {
            AnswerStart::Content => return None,
            AnswerStart::Messages { channel, name, message } => {
                (State::Messages { channel, name, message, said }, Near::default())
            }
            AnswerStart::Reasoning { open: None, close } => {
                (State::Reasoning { close, said }, Near::new("", close, marks, vocabulary))
            }
            AnswerStart::Reasoning { open: Some(open), close } => {
                (State::Start { open, close, said }, Near::new(open, close, marks, vocabulary))
            }
        };
        Some(Before { state, marks: marks.to_vec(), near: Arc::new(near) })
    }

    /// Whether the content may begin with the next token, so that what the grammar allows is allowed.
    pub fn may_begin(&self) -> bool {
        matches!(self.state, State::Start { .. } | State::Blank { .. })
    }

    /// Adds the tokens that are allowed whatever the grammar says, where there are few.
    pub fn add(&self, mask: &mut SimpleVob) {
        match &self.state {
            State::Start { open, said, .. } => {
                let rest = &open.as_bytes()[said.len()..];
                let fits = |opener: &&Opener| rest.starts_with(&opener.piece) && (opener.begins || !said.is_empty());
                self.near.openers.iter().filter(fits).for_each(|opener| mask.allow_token(opener.id));
            }
            State::Blank { bytes } => {
                let blanks = self.near.blanks.iter().filter(|(_, length)| bytes + length <= MOST_BLANK);
                blanks.for_each(|(id, _)| mask.allow_token(*id));
            }
            State::Reasoning { .. } | State::Messages { .. } => {}
        }
    }

    /// Excludes the tokens that may not come, where all others may.
    pub fn exclude(&self, logits: &mut [f32]) {
        let State::Reasoning { close, said } = &self.state else { return };
        for overrun in &self.near.overruns {
            if said.ends_with(&close.as_bytes()[..overrun.before])
                && let Some(logit) = logits.get_mut(overrun.id as usize)
            {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    /// Takes the next token.
    pub fn take(&mut self, id: u32, vocabulary: &Vocabulary) -> Then {
        let piece = piece(id, &self.marks, vocabulary);
        match &mut self.state {
            State::Start { open, close, said } => {
                said.extend(&piece);
                if said != open.as_bytes() {
                    return Then::Mark { goes_on: open.as_bytes().starts_with(said) };
                }
                self.state = State::Reasoning { close, said: Vec::new() };
                return Then::Again;
            }
            State::Reasoning { close, said } => {
                said.extend(&piece);
                let mark = close.as_bytes();
                if let Some(at) = find(said, mark) {
                    self.state = State::Blank { bytes: said.len() - at - mark.len() };
                } else if said.len() > mark.len() {
                    said.drain(..said.len() - mark.len());
                }
            }
            State::Blank { bytes } => {
                *bytes += piece.len();
                return Then::Blank { goes_on: is_blank(&piece) && *bytes <= MOST_BLANK };
            }
            State::Messages { channel, name, message, said } => {
                said.extend(&piece);
                if said.ends_with(message.as_bytes()) {
                    let header = String::from_utf8_lossy(said);
                    let to = header.rsplit_once(*channel).map(|(_, to)| to.trim_start());
                    if to.is_some_and(|to| to.starts_with(*name)) {
                        return Then::Content;
                    }
                    said.clear();
                }
            }
        }
        Then::Before
    }
}

impl Near {
    fn new(open: &str, close: &str, marks: &[u32], vocabulary: &Vocabulary) -> Near {
        let (open, close) = (open.as_bytes(), close.as_bytes());
        let mut near = Near::default();
        for id in 0..vocabulary.tokenizer().vocab_size() as u32 {
            let piece = piece(id, marks, vocabulary);
            if piece.is_empty() {
                continue;
            }
            if is_blank(&piece) {
                near.blanks.push((id, piece.len()));
            }
            // The whole mark within it, or its end at the beginning.
            if let Some(at) = find(&piece, close) {
                if !is_blank(&piece[at + close.len()..]) {
                    near.overruns.push(Overrun { id, before: 0 });
                }
            } else {
                let ends = (1..close.len()).filter(|&end| piece.starts_with(&close[end..]));
                let ends = ends.filter(|end| !is_blank(&piece[close.len() - end..]));
                near.overruns.extend(ends.map(|before| Overrun { id, before }));
            }
            if find(open, &piece).is_some() {
                let begins = piece == open || vocabulary.tokenizer().is_control(id);
                near.openers.push(Opener { id, piece, begins });
            }
        }
        near
    }
}

/// Where some bytes are in others.
fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// What a token adds to the text.
fn piece(id: u32, marks: &[u32], vocabulary: &Vocabulary) -> Vec<u8> {
    let show = if marks.contains(&id) { Show::Specials } else { Show::Text };
    vocabulary.tokenizer().piece(id, show).into_owned()
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}
