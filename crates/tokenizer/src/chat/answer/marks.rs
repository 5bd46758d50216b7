//! Which control tokens an answer's marks are made of: a text without them cannot be taken apart.

use super::formats::{Body, CallFormat, Header, Named, Tagged};
use super::{AnswerFormat, Shape, gemma, harmony};
use crate::tokenizer::Tokenizer;

impl AnswerFormat {
    /// The control tokens that must be part of the text that an [`AnswerParser`](super::AnswerParser) is given. Where these
    /// alone are shown and all others left out, what is content is what a person should read.
    pub fn marks(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let texts = self.texts();
        let ids = (0..tokenizer.vocab_size() as u32).filter(|id| tokenizer.is_control(*id));
        let is_mark = |token: &str| !token.is_empty() && texts.iter().any(|text| text.contains(token));
        ids.filter(|id| tokenizer.token(*id).is_some_and(is_mark)).collect()
    }

    /// All texts that the parser looks for.
    fn texts(&self) -> Vec<&'static str> {
        let (reasoning, calls) = match self.shape {
            Shape::Harmony => return harmony::MARKS.to_vec(),
            Shape::Marks { reasoning, calls } => (reasoning, calls),
        };
        let mut texts = Vec::new();
        if let Some(format) = reasoning {
            texts.extend([format.open, format.close]);
            texts.extend(format.around);
        }
        calls.inspect(|format| of_calls(format, &mut texts));
        texts
    }
}

fn of_calls(format: &CallFormat, texts: &mut Vec<&'static str>) {
    texts.extend([format.open, format.close]);
    match &format.body {
        Body::Named(Named { open, header, arguments, close }) => {
            texts.extend([*open, *arguments, *close]);
            match header {
                Header::NameThenId(mark) | Header::IdThenName(mark) | Header::KindThenName(mark) => texts.push(mark),
                Header::Kimi => {}
            }
        }
        Body::Tagged(Tagged { open, name_end, key, key_end, value, value_end, close, typing: _ }) => {
            texts.extend([*open, *key, *key_end, *value, *value_end, *close]);
            texts.extend(*name_end);
        }
        Body::Gemma => texts.push(gemma::QUOTE),
        Body::Json { .. } | Body::Whole { .. } => {}
    }
}
