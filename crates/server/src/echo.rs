//! The prompt in front of its answer, with how likely each of its tokens was: OpenAI's `echo`.

use std::sync::{Arc, Mutex, PoisonError};

use candor::{GenerateOptions, Show, StreamDecoder, Tokenizer, sampler::LogitsProcessor};

use crate::{
    ask::Prompts,
    likely::{Likely, Lists},
};

/// A prompt that its answer repeats.
pub struct Echo {
    text: String,
    /// The text of its first token, which nothing makes likely.
    first: String,
    /// Where the others begin in the text, in characters.
    offsets: Vec<usize>,
    /// The others, where they are looked at.
    likely: Option<Arc<Mutex<Vec<Likely>>>>,
}

/// Looks at the logits of a prompt.
#[derive(Clone)]
struct Look {
    top: usize,
    tokenizer: Arc<Tokenizer>,
    likely: Arc<Mutex<Vec<Likely>>>,
}

impl LogitsProcessor for Look {
    fn process(&mut self, _: &[u32], _: &mut [f32]) {}

    fn reads(&self) -> bool {
        true
    }

    fn read(&mut self, next: u32, logits: &[f32]) {
        let likely = Likely::of(&self.tokenizer, next, logits, self.top);
        self.likely.lock().unwrap_or_else(PoisonError::into_inner).extend(likely);
    }
}

/// Has prompts repeated, with the `top` likeliest tokens in each place where a request wants them.
pub fn echoed(asked: Prompts, top: Option<usize>, tokenizer: &Arc<Tokenizer>) -> (Prompts, Vec<Option<Echo>>) {
    let echo = |(prompt, options): (Vec<u32>, GenerateOptions)| {
        let mut echo = Echo::new(&prompt, tokenizer);
        let Some(top) = top else { return ((prompt, options), Some(echo)) };
        let look = Look { top, tokenizer: tokenizer.clone(), likely: Arc::default() };
        echo.likely = Some(look.likely.clone());
        ((prompt, options.processor(look)), Some(echo))
    };
    asked.into_iter().map(echo).unzip()
}

impl Echo {
    fn new(prompt: &[u32], tokenizer: &Arc<Tokenizer>) -> Echo {
        let first =
            prompt.first().map(|&id| String::from_utf8_lossy(&tokenizer.piece(id, Show::Specials)).into_owned());
        // What every text begins with is a token of the prompt, and not of its text.
        let silent = prompt.first().is_some_and(|&id| Some(id) == tokenizer.bos());
        let mut decoder = StreamDecoder::new(tokenizer.clone()).show(Show::Specials);
        let (mut text, mut offsets, mut at) = (String::new(), Vec::new(), 0);
        for (n, &id) in prompt.iter().enumerate() {
            if n > 0 {
                offsets.push(at);
            }
            if n > 0 || !silent {
                let piece = decoder.push(id);
                at += piece.chars().count();
                text.push_str(&piece);
            }
        }
        text.push_str(&decoder.finish());
        Echo { text, first: first.unwrap_or_default(), offsets, likely: None }
    }

    /// The prompt's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How likely its tokens were; `None` where nobody looks. All of them are known where the answer begins.
    pub fn lists(&self) -> Option<Lists> {
        let likely = self.likely.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lists = Lists::default();
        lists.begin(&self.first);
        likely.iter().zip(&self.offsets).for_each(|(token, &offset)| lists.push(token, offset));
        Some(lists)
    }
}
