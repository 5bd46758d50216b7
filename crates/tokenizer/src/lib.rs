//! Text to token ids and back, and chat templates, from the metadata of a GGUF file alone.
//!
//! [`Tokenizer`] has the SPM, BPE, WordPiece, unigram, RWKV and PLaMo 2 vocabularies, with the ids that llama.cpp gives; [`ChatTemplate`]
//! renders a conversation the way Hugging Face's `apply_chat_template` does, and [`AnswerFormat`] takes the model's answer apart.
//! Nothing here reads files or clocks, or
//! knows what a model does with the ids.
//!
//! ```
//! use candor_tokenizer::{ChatContext, ChatTemplate, Message};
//!
//! let template = ChatTemplate::new("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>")?;
//! let prompt = template.render(&[Message::user("Hello!")], &ChatContext::default())?;
//! assert_eq!(prompt, "<user>Hello!<assistant>");
//! # Ok::<(), candor_tokenizer::Error>(())
//! ```
#![forbid(unsafe_code)]

mod algorithm;
mod bpe;
mod byte_alphabet;
mod char_bpe;
mod charset;
mod charsmap;
mod chat;
mod class;
mod deepseek_letters;
mod digits;
mod error;
mod keys;
mod kind;
mod load;
mod marked;
mod merge;
mod pair;
mod partition;
mod plamo2;
mod pre;
mod prose;
mod rules;
mod runs;
mod rwkv;
mod scan;
mod specials;
mod spm;
mod stream;
mod tidy;
mod tokenizer;
mod trie;
mod unigram;
mod vocab;
mod wordpiece;
mod words;

pub use chat::{
    AnswerFormat, AnswerParser, AnswerStart, CallPart, ChatContext, ChatTemplate, CivilTime, Message, Part,
    TemplateFit, ToolCall,
};
pub use error::Error;
pub use stream::StreamDecoder;
pub use tokenizer::{Encode, FillIn, Show, Tokenizer};
