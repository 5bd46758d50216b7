//! Chat templates: the Jinja text in a GGUF file (`tokenizer.chat_template`) that turns a conversation into a prompt. The
//! environment is the one that Hugging Face's `apply_chat_template` gives a template; the engine is minijinja. For files
//! without one there are templates by name.

mod answer;
mod date;
mod filters;
mod generator;
mod json;
mod lazy;
mod markup;
mod message;
mod named;
mod printed;
mod python;
mod slices;
mod splitting;
mod strings;
mod stripping;
mod tags;
mod template;
mod tokens;

pub use answer::{AnswerFormat, AnswerParser, AnswerStart, CallPart, Part, ToolCall};
pub use date::CivilTime;
pub use message::Message;
pub use named::TemplateFit;
pub use template::{ChatContext, ChatTemplate};
