//! Finding out how a template marks reasoning and calls: it renders a conversation in which a tool is called, and the way
//! that reads the same call back is the template's. A template that writes no calls may still tell the model how to.

use serde_json::{Map, Value, json};

use super::call;
use super::formats::{CALLS, CallFormat, REASONING, ReasoningFormat, SOLAR};
use super::part::{Part, ToolCall};
use super::style::Style;
use super::written::{self, CallPart, Probe};
use super::{AnswerFormat, Shape};
use crate::chat::date::CivilTime;
use crate::chat::message::Message;
use crate::chat::template::{ChatContext, ChatTemplate};

/// What the user says, to find the answer behind it.
const QUESTION: &str = "candor-question";
/// Characters of a call that a refusal quotes.
const QUOTED: usize = 60;

impl ChatTemplate {
    /// How the model of this template marks reasoning and tool calls.
    pub fn answer_format(&self) -> AnswerFormat {
        format(self)
    }
}

fn format(template: &ChatTemplate) -> AnswerFormat {
    let source = template.source();
    if ["<|channel|>", "<|message|>", "<|start|>", "functions."].iter().all(|mark| source.contains(mark)) {
        let (shape, refusal) = (Shape::Harmony, String::new());
        return AnswerFormat { shape, refusal, style: Style::OPENAI, tells: true, written: None };
    }
    let (calls, style, written, refusal) = match calls(template) {
        Ok(Known { format, style, written }) => (Some(format), style, written, String::new()),
        Err(refusal) => (None, Style::OPENAI, None, refusal),
    };
    let tells = template.render(&[Message::user(QUESTION)], &context()).is_ok_and(|prompt| prompt.contains(NAME));
    AnswerFormat { shape: Shape::Marks { reasoning: reasoning(source), calls }, refusal, style, tells, written }
}

fn reasoning(source: &str) -> Option<&'static ReasoningFormat> {
    if source.contains(SOLAR.open) && source.contains("<|tool_calls|>") {
        return Some(&SOLAR);
    }
    REASONING.iter().find(|format| source.contains(format.close))
}

/// How a template calls tools.
struct Known {
    format: &'static CallFormat,
    style: Style,
    /// The parts of a call that it has written.
    written: Option<Vec<CallPart>>,
}

/// How it calls tools, or why that is not known.
fn calls(template: &ChatTemplate) -> Result<Known, String> {
    let mut written = None;
    for style in Style::ALL {
        let Ok(answer) = called(template, style) else { continue };
        if let Some((format, written)) = CALLS.iter().find_map(|format| Some((format, reads(format, &answer)?))) {
            return Ok(Known { format, style, written });
        }
        let worth = answer.contains(NAME);
        written = written.or(Some(answer).filter(|_| worth));
    }
    let known: Vec<&str> = CALLS.iter().map(|format| format.name).chain(["gpt-oss"]).collect();
    let known = known.join(", ");
    if let Some(answer) = written {
        let quoted = quoted(&answer);
        return Err(format!("it calls them in a way that is not known ({quoted:?}; known are {known})"));
    }
    let told = match template.render(&[Message::user(QUESTION)], &context()) {
        Ok(prompt) => prompt + template.source(),
        Err(error) if !template.source().contains("tools") => error.to_string(),
        Err(error) => return Err(format!("it fails where a tool is given ({error})")),
    };
    let named = CALLS.iter().find(|format| format.told.iter().any(|words| told.contains(words)));
    named.map(|format| Known { format, style: Style::OPENAI, written: None }).ok_or_else(|| {
        if told.contains(NAME) {
            format!("it does not show how the model calls them (known are {known})")
        } else {
            "it does not tell the model of any".to_owned()
        }
    })
}

const NAME: &str = "get_weather";

fn arguments() -> Map<String, Value> {
    [("city".to_owned(), json!("Bern")), ("days".to_owned(), json!(3))].into_iter().collect()
}

fn context() -> ChatContext {
    let city = json!({"type": "string", "description": "The city"});
    let days = json!({"type": "integer", "description": "How many days"});
    let parameters = json!({"type": "object", "properties": {"city": city, "days": days}, "required": ["city"]});
    let tool = json!({"name": NAME, "description": "The weather", "parameters": parameters});
    ChatContext {
        tools: Some(json!([{"type": "function", "function": tool}])),
        now: CivilTime::new(2024, 7, 26, 12, 0, 0),
        ..ChatContext::default()
    }
}

/// The answer in which a tool is called, as the template writes it.
fn called(template: &ChatTemplate, style: Style) -> Result<String, crate::Error> {
    let call = ToolCall { name: NAME.to_owned(), arguments: arguments(), id: None };
    let text = template.render(&[Message::user(QUESTION), style.message(&[Part::Call(call)])], &context())?;
    Ok(text.rsplit_once(QUESTION).map(|(_, answer)| answer.to_owned()).unwrap_or_default())
}

/// Where a format reads the probe's call in an answer, wherever it begins: its parts, if they are known.
fn reads(format: &CallFormat, answer: &str) -> Option<Option<Vec<CallPart>>> {
    let expected = |calls: &[ToolCall]| matches!(calls, [call] if call.name == NAME && call.arguments == arguments());
    let block = &answer[answer.find(format.open)?..];
    let closes = block.match_indices(format.close).map(|(end, _)| end).filter(|_| !format.close.is_empty());
    let tools = context().tools;
    let end = closes.map(|end| (end, true)).chain([(block.len(), false)]).find(|&(end, _)| {
        call::read(format, &block[..end], tools.as_ref())
            .is_some_and(|(calls, rest)| expected(&calls) && (format.close.is_empty() || rest.trim().is_empty()))
    });
    let (end, is_closed) = end?;
    let probe = Probe { name: NAME, arguments: &arguments(), id: Style::FIRST_ID };
    let is_known = is_closed || format.close.is_empty();
    Some(is_known.then(|| written::parts(format, block, end, &probe)).flatten())
}

/// The part of an answer around the tool's name.
fn quoted(answer: &str) -> String {
    let at = answer.find(NAME).map_or(0, |at| answer[..at].chars().count());
    answer.chars().skip(at.saturating_sub(QUOTED / 2)).take(QUOTED).collect()
}
