//! What a model says, taken apart: reasoning, content, tool calls. How a model marks them follows from its own template, which
//! is made to write a call that is read back; nothing is taken from a model's name, and what is not known is not parsed.

mod call;
mod formats;
mod gemma;
mod harmony;
mod hold;
mod marks;
mod parser;
mod part;
mod probe;
mod start;
mod style;
mod tagged;
mod written;

pub use parser::AnswerParser;
pub use part::{Part, ToolCall};
pub use start::AnswerStart;
pub use written::CallPart;

use serde_json::Value;

use super::message::Message;
use crate::Error;
use formats::{CallFormat, ReasoningFormat};
use parser::{Marks, State};
use style::Style;

/// How a model marks reasoning and tool calls. Made by [`ChatTemplate::answer_format`](super::ChatTemplate::answer_format).
#[derive(Clone, Debug)]
pub struct AnswerFormat {
    shape: Shape,
    /// Why no tools can be offered, where none can.
    refusal: String,
    style: Style,
    tells: bool,
    written: Option<Vec<CallPart>>,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Marks { reasoning: Option<&'static ReasoningFormat>, calls: Option<&'static CallFormat> },
    Harmony,
}

impl AnswerFormat {
    /// The family's name for tool calls: `hermes`, `llama3`, `gpt-oss`...
    ///
    /// # Errors
    /// [`Error::Tools`] where the template has no tools, or calls them in a way that is not known here.
    pub fn tools(&self) -> Result<&'static str, Error> {
        match self.shape {
            Shape::Harmony => Ok("gpt-oss"),
            Shape::Marks { calls: Some(calls), .. } => Ok(calls.name),
            Shape::Marks { calls: None, .. } => Err(Error::Tools { reason: self.refusal.clone() }),
        }
    }

    /// Whether the template tells the model of the tools that it is given. Where it does not, though its model can call some,
    /// their description belongs in the system message.
    pub fn tells_of_tools(&self) -> bool {
        self.tells
    }

    /// The parts of a call, as the template writes one; `None` where it writes none, or its arguments are no JSON.
    ///
    /// ```
    /// use candor_tokenizer::{CallPart, ChatTemplate};
    ///
    /// let calls = "{% for c in m.tool_calls %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}";
    /// let template = format!("{{% for m in messages %}}{{{{ m.content }}}}{calls}{{% endfor %}}");
    /// let format = ChatTemplate::new(&template)?.answer_format();
    /// let text = |text: &str| CallPart::Text(text.to_owned());
    /// let begin = text("<tool_call>{\"name\": \"");
    /// let parts = [begin, CallPart::Name, text("\", \"arguments\": "), CallPart::Arguments, text("}</tool_call>")];
    /// assert_eq!(format.call_parts(), Some(&parts[..]));
    /// # Ok::<(), candor_tokenizer::Error>(())
    /// ```
    pub fn call_parts(&self) -> Option<&[CallPart]> {
        self.written.as_deref()
    }

    /// The message that an answer is in the further conversation, in the shape that this template takes. Calls without an id
    /// get `call00000` and so on: where several answers have calls, give them ids first.
    pub fn message(&self, parts: &[Part]) -> Message {
        self.style.message(parts)
    }

    /// Whether reasoning is distinguished from content.
    pub fn has_reasoning(&self) -> bool {
        matches!(self.shape, Shape::Harmony | Shape::Marks { reasoning: Some(_), .. })
    }

    /// What the answer to `prompt`, the rendered conversation, says before its content.
    ///
    /// ```
    /// use candor_tokenizer::{AnswerStart, ChatTemplate};
    ///
    /// let template = ChatTemplate::new("{{ messages[0].content }}<think>{# </think> #}")?;
    /// let format = template.answer_format();
    /// assert_eq!(format.start("Hi<think>"), AnswerStart::Reasoning { open: None, close: "</think>" });
    /// assert_eq!(format.start("Hi"), AnswerStart::Reasoning { open: Some("<think>"), close: "</think>" });
    /// # Ok::<(), candor_tokenizer::Error>(())
    /// ```
    pub fn start(&self, prompt: &str) -> AnswerStart {
        match self.shape {
            Shape::Harmony => {
                AnswerStart::Messages { channel: harmony::CHANNEL, name: "final", message: harmony::MESSAGE }
            }
            Shape::Marks { reasoning: None, .. } => AnswerStart::Content,
            Shape::Marks { reasoning: Some(format), .. } => {
                let open = (!format.is_open(prompt)).then_some(format.open);
                AnswerStart::Reasoning { open, close: format.close }
            }
        }
    }

    /// A parser for the answer to `prompt`, the rendered conversation, whose end says whether the model is thinking already.
    /// Only where `tools` were offered (their definitions, as the template had them) anything is a call.
    ///
    /// ```
    /// use candor_tokenizer::{ChatTemplate, Part};
    ///
    /// let template = ChatTemplate::new("{{ messages[0].content }}<think>{# </think> #}")?;
    /// let mut parser = template.answer_format().parser("Hi<think>", None);
    /// assert_eq!(parser.push("Well.</thi"), [Part::Reasoning("Well.".into())]);
    /// assert_eq!(parser.push("nk>Hello!"), [Part::Content("Hello!".into())]);
    /// assert_eq!(parser.finish(), []);
    /// # Ok::<(), candor_tokenizer::Error>(())
    /// ```
    pub fn parser(&self, prompt: &str, tools: Option<&Value>) -> AnswerParser {
        let Shape::Marks { reasoning, calls } = self.shape else { return AnswerParser::harmony() };
        let is_open = reasoning.is_some_and(|format| format.is_open(prompt));
        let tools = tools.filter(|tools| tools.as_array().is_some_and(|tools| !tools.is_empty()));
        AnswerParser::marks(Marks {
            reasoning,
            calls: calls.filter(|_| tools.is_some()),
            tools: tools.cloned(),
            state: if is_open { State::Opened } else { State::Start },
            held: String::new(),
        })
    }
}
