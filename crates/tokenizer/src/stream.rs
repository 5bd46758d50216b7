//! Ids to text as they come. A character may be spread over several tokens, so text is held back until it is whole. It
//! does not know where generation stops.

use std::borrow::Borrow;

use crate::tidy::Tidy;
use crate::tokenizer::{Show, Tokenizer};

/// Decodes a stream of ids. The pieces of text together are [`Tokenizer::decode`] of the ids; none ends within a
/// character. `T` is a `&Tokenizer` or an `Arc<Tokenizer>`.
pub struct StreamDecoder<T> {
    tokenizer: T,
    show: Show,
    /// Control tokens that are shown in any case, ascending.
    marks: Vec<u32>,
    /// Bytes of a character that is not whole yet: fewer than four between calls.
    pending: Vec<u8>,
    /// Whether a space at the start of the next token is the one that encoding puts there.
    drop_space: bool,
    /// Takes back spaces around punctuation, where decoding puts them.
    tidy: Option<Tidy>,
}

impl Tokenizer {
    /// The text of `ids`, the inverse of [`Tokenizer::encode`]: control tokens are left out, and so are the spaces that
    /// encoding adds. WordPiece and unigram vocabularies normalize text, so that it comes back without accents, case or
    /// double spaces, as the file has it. Bytes that are not UTF-8 become U+FFFD, ids that are no token nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = self.stream();
        let mut text = String::new();
        for &id in ids {
            text.push_str(&stream.push(id));
        }
        text.push_str(&stream.finish());
        text
    }

    /// Decodes token by token, from the beginning of a text. See [`StreamDecoder`] for the middle of one.
    pub fn stream(&self) -> StreamDecoder<&Tokenizer> {
        StreamDecoder::new(self)
    }
}

impl<T: Borrow<Tokenizer>> StreamDecoder<T> {
    /// A decoder at the beginning of a text or of an answer: the space that the vocabulary puts before it is dropped.
    pub fn new(tokenizer: T) -> Self {
        let drop_space = tokenizer.borrow().adds_space_after(None);
        StreamDecoder { drop_space, ..Self::continuing(tokenizer) }
    }

    /// A decoder in the middle of a text, after a prompt that it continues: a space at its start is shown.
    pub fn continuing(tokenizer: T) -> Self {
        let tidy = tokenizer.borrow().algorithm.spaces_punctuation().then(Tidy::default);
        StreamDecoder { tokenizer, show: Show::Text, marks: Vec::new(), pending: Vec::new(), drop_space: false, tidy }
    }

    /// Chooses whether control tokens are shown; by default they are not.
    pub fn show(self, show: Show) -> Self {
        StreamDecoder { show, ..self }
    }

    /// Shows these control tokens in any case, such as the [marks](crate::AnswerFormat::marks) of reasoning and tool calls.
    pub fn marks(self, mut marks: Vec<u32>) -> Self {
        marks.sort_unstable();
        StreamDecoder { marks, ..self }
    }

    /// The text that token `id` completes: nothing, one or more whole characters.
    pub fn push(&mut self, id: u32) -> String {
        let tokenizer = self.tokenizer.borrow();
        let show = if self.marks.binary_search(&id).is_ok() { Show::Specials } else { self.show };
        let piece = tokenizer.piece(id, show);
        if self.tidy.is_some() {
            self.pending.extend_from_slice(&piece);
            let text = self.whole();
            return self.tidied(&text);
        }
        let special = tokenizer.adds_space_after(Some(id));
        let text = match piece.strip_prefix(b" ") {
            Some(rest) if self.drop_space && !special => rest,
            _ => &piece,
        };
        self.pending.extend_from_slice(text);
        self.drop_space = special || self.drop_space && piece.is_empty();
        self.whole()
    }

    /// What is left at the end: nothing, U+FFFD for a character that never became whole, or a space or an apostrophe of
    /// a WordPiece vocabulary, which the next token might have taken back.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        if self.tidy.is_none() {
            return text;
        }
        let mut tidied = self.tidied(&text);
        let mut rest = String::new();
        if let Some(tidy) = &mut self.tidy {
            tidy.finish(&mut rest);
        }
        self.drop_first_space(&mut rest);
        tidied.push_str(&rest);
        tidied
    }

    /// `text` without the spaces that decoding puts around punctuation, and before the first word.
    fn tidied(&mut self, text: &str) -> String {
        let mut tidied = String::with_capacity(text.len() + 2);
        if let Some(tidy) = &mut self.tidy {
            tidy.push(text, &mut tidied);
        }
        self.drop_first_space(&mut tidied);
        tidied
    }

    fn drop_first_space(&mut self, text: &mut String) {
        if self.drop_space && !text.is_empty() {
            self.drop_space = false;
            if text.starts_with(' ') {
                text.remove(0);
            }
        }
    }

    /// Takes everything from `pending` that later bytes cannot change.
    fn whole(&mut self) -> String {
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, after) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            rest = after;
            let Some(bad) = error.error_len() else { break };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[bad..];
        }
        if let Ok(valid) = std::str::from_utf8(rest) {
            text.push_str(valid);
            rest = &[];
        }
        self.pending = rest.to_vec();
        text
    }
}
