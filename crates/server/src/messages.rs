//! Anthropic's `/v1/messages`.

use candor::{Finish, GenerateOptions, Piece, StopReason};
use serde_json::{Map, Value, json};

use crate::{
    answer::{Form, Framing},
    app::{App, Served, now},
    ask::{self, Asked},
    blocks::{Block, Blocks, Change},
    calls::Calls,
    chat,
    fields::{Fields, expected},
    head::Head,
    history::History,
    refusal::Refusal,
    shape::Shape,
    template::Conversation,
};

/// Fields that change no answer here.
pub const WITHOUT_EFFECT: [&str; 5] = ["model", "metadata", "service_tier", "cache_control", "inference_geo"];

/// Understands a request.
///
/// # Errors
/// If it is refused.
pub fn read(app: &App, served: &Served, mut fields: Fields) -> Result<Asked<Messages>, Refusal> {
    let conversation = conversation(&mut fields, app, served)?;
    if fields.get("max_tokens").is_none() {
        return Err(Refusal::field("max_tokens", "missing"));
    }
    fields.rename("stop_sequences", "stop");
    let mut options = ask::options(&mut fields, &app.config, &served.model, &["max_tokens"])?;
    let streamed = fields.flag("stream")?.unwrap_or_default();
    fields.finish(&WITHOUT_EFFECT)?;
    let shape = Shape::default().or_call(&conversation, served.template.as_ref())?;
    let (prompt, parser, start) = chat::prompt(served, conversation, &mut options)?;
    let head = Head::new("msg", &served.name, now());
    let blocks = Blocks::new(parser, format!("toolu_{}", head.number()));
    let form = Messages { head, stop: options.stop.clone(), prompt: prompt.len(), reused: 0, blocks, end: None };
    let prompts = shape.bind(vec![(prompt, options)], &served.model, &served.tokens, start)?;
    Ok(Asked { prompts, form, streamed })
}

/// `/v1/messages/count_tokens`: the tokens of a conversation.
///
/// # Errors
/// If it is refused.
pub fn count(app: &App, served: &Served, mut fields: Fields) -> Result<Value, Refusal> {
    let conversation = conversation(&mut fields, app, served)?;
    fields.finish(&WITHOUT_EFFECT)?;
    let (prompt, ..) = chat::prompt(served, conversation, &mut GenerateOptions::default())?;
    Ok(json!({ "input_tokens": prompt.len() }))
}

/// What the template sees of a request.
fn conversation(fields: &mut Fields, app: &App, served: &Served) -> Result<Conversation, Refusal> {
    let mut history = History::default();
    if let Some(system) = fields.take("system") {
        history.say("system", &text("system", &system)?);
    }
    let missing = || Refusal::field("messages", "expected an array of messages");
    let list = fields.list("messages")?.filter(|list| !list.is_empty()).ok_or_else(missing)?;
    for (n, value) in list.iter().enumerate() {
        message(&mut history, &format!("messages[{n}]"), value)?;
    }
    if list.last().is_some_and(|last| last["role"] == "assistant") {
        let message = "the last message is the user's: an answer that has begun is not continued";
        return Err(Refusal::unsupported("messages", message));
    }
    let mut variables = app.config.template_variables.clone();
    variables.extend(thinking(fields, served)?);
    if let Some(choice) = fields.get("tool_choice").filter(|choice| !choice["type"].is_string()) {
        return Err(expected("tool_choice", "an object with a type", choice));
    }
    let tools = fields.list("tools")?.unwrap_or_default();
    let tools = tools.iter().enumerate().map(|(n, value)| tool(&format!("tools[{n}]"), value));
    let tools = Some(tools.collect::<Result<Vec<_>, _>>()?).filter(|tools| !tools.is_empty());
    let choice = fields.object("tool_choice")?.unwrap_or_default();
    let tools = tools.map(Value::from);
    if let Some(name) = choice.get("name").filter(|name| !name.is_string()) {
        return Err(expected("tool_choice.name", "a string", name));
    }
    let name = choice.get("name").and_then(Value::as_str);
    let (tools, calls) = match (choice.get("type").and_then(Value::as_str), name) {
        (None | Some("auto"), _) => (tools, Calls::Free),
        (Some("none"), _) => (None, Calls::Free),
        (Some("any"), _) => Calls::One.among(tools)?,
        (Some("tool"), Some(name)) => Calls::Named(name.to_owned()).among(tools)?,
        _ => return Err(expected("tool_choice", "auto, none, any, or a tool with its name", &choice.into())),
    };
    // Where there has to be a call it is one.
    if calls == Calls::Free && choice.get("disable_parallel_tool_use").is_some_and(|value| *value != false) {
        let message = "the model decides how many tools it calls";
        return Err(Refusal::unsupported("tool_choice.disable_parallel_tool_use", message));
    }
    Ok(Conversation { messages: history.messages(), tools, calls, variables, opens: true, begun: None })
}

/// The variables of the template that turn thinking on or off.
fn thinking(fields: &mut Fields, served: &Served) -> Result<Map<String, Value>, Refusal> {
    let Some(thinking) = fields.object("thinking")? else { return Ok(Map::new()) };
    let on = match thinking.get("type").and_then(Value::as_str) {
        Some("adaptive") => true,
        Some("disabled") => false,
        Some("enabled") => {
            let message = "thinking has no limit of its own: {\"type\": \"adaptive\"} turns it on";
            return Err(Refusal::unsupported("thinking.budget_tokens", message));
        }
        _ => return Err(Refusal::field("thinking.type", "expected \"adaptive\" or \"disabled\"")),
    };
    served.template()?.thinking(on).map_err(|message| Refusal::unsupported("thinking", message))
}

/// A tool in the shape that templates know.
fn tool(place: &str, value: &Value) -> Result<Value, Refusal> {
    if value.get("type").is_some_and(|kind| *kind != "custom" && !kind.is_null()) {
        return Err(Refusal::unsupported(
            &format!("{place}.type"),
            "tools are called by the client: \"custom\" is served",
        ));
    }
    if !value["name"].is_string() || !value["input_schema"].is_object() {
        return Err(Refusal::field(place, "expected {\"name\": ..., \"input_schema\": {...}}"));
    }
    let mut function = json!({ "name": value["name"] });
    if value["description"].is_string() {
        function["description"] = value["description"].clone();
    }
    function["parameters"] = value["input_schema"].clone();
    Ok(json!({ "type": "function", "function": function }))
}

/// A message, in as many as templates make of it.
fn message(history: &mut History, place: &str, value: &Value) -> Result<(), Refusal> {
    let role = match value["role"].as_str() {
        Some(role @ ("user" | "assistant")) => role,
        _ => return Err(Refusal::field(&format!("{place}.role"), "expected \"user\" or \"assistant\"")),
    };
    let place = format!("{place}.content");
    let blocks = match &value["content"] {
        Value::String(text) => {
            history.say(role, text);
            return Ok(());
        }
        Value::Array(blocks) => blocks,
        other => return Err(expected(&place, "a string or an array of blocks", other)),
    };
    // Texts of the user that follow each other are one message.
    let mut said: Vec<&str> = Vec::new();
    for (n, block) in blocks.iter().enumerate() {
        let place = format!("{place}[{n}]");
        let string = |name: &str| match &block[name] {
            Value::String(text) => Ok(text.as_str()),
            other => Err(expected(&format!("{place}.{name}"), "a string", other)),
        };
        match (string("type")?, role) {
            ("text", _) => said.push(string("text")?),
            ("tool_result", "user") => {
                say(history, role, &mut said);
                let given = &block["content"];
                let given = if given.is_null() { String::new() } else { text(&format!("{place}.content"), given)? };
                history.result(string("tool_use_id")?, &given);
            }
            ("thinking", "assistant") => history.reason(string("thinking")?),
            ("tool_use", "assistant") => {
                say(history, role, &mut said);
                let Value::Object(input) = &block["input"] else {
                    return Err(expected(&format!("{place}.input"), "an object", &block["input"]));
                };
                history.call(string("id")?, string("name")?, input.clone());
            }
            // Nobody can read what is in it.
            ("redacted_thinking", "assistant") => {}
            _ => return Err(Refusal::unsupported(&format!("{place}.type"), "only text and calls of tools are served")),
        }
    }
    say(history, role, &mut said);
    Ok(())
}

fn say(history: &mut History, role: &str, said: &mut Vec<&str>) {
    if !said.is_empty() {
        history.say(role, &said.join("\n"));
        said.clear();
    }
}

/// A text, or the texts of blocks.
fn text(place: &str, value: &Value) -> Result<String, Refusal> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let text = |(n, block): (usize, &Value)| match (block["type"].as_str(), block["text"].as_str()) {
                (Some("text"), Some(text)) => Ok(text.to_owned()),
                _ => Err(Refusal::unsupported(&format!("{place}[{n}]"), "only text is served")),
            };
            Ok(blocks.iter().enumerate().map(text).collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        other => Err(expected(place, "a string or an array of blocks", other)),
    }
}

/// The answer so far.
pub struct Messages {
    head: Head,
    stop: Vec<String>,
    /// Tokens of the prompt, and how many of them do not have to be read.
    prompt: usize,
    reused: usize,
    blocks: Blocks,
    end: Option<Finish>,
}

impl Messages {
    fn usage(&self, tokens: usize) -> Value {
        json!({
            "input_tokens": self.prompt - self.reused,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.reused,
            "output_tokens": tokens,
        })
    }

    fn message(&self, content: Vec<Value>, tokens: usize) -> Value {
        let (reason, stop) = self.reason();
        json!({
            "id": format!("msg_{}", self.head.number()),
            "type": "message",
            "role": "assistant",
            "model": self.head.model(),
            "content": content,
            "stop_reason": reason,
            "stop_sequence": stop,
            "usage": self.usage(tokens),
        })
    }

    /// Why the answer ended, and the text that ended it.
    fn reason(&self) -> (Option<&'static str>, Option<&str>) {
        let Some(end) = self.end else { return (None, None) };
        let stop = end.stop_text.and_then(|n| self.stop.get(n)).map(String::as_str);
        let reason = match end.reason {
            StopReason::StopText => "stop_sequence",
            StopReason::MaxTokens => "max_tokens",
            StopReason::ContextFull => "model_context_window_exceeded",
            _ if self.blocks.calls() => "tool_use",
            StopReason::EndOfText | StopReason::Cancelled => "end_turn",
        };
        (Some(reason), stop)
    }

    fn events(&self, changes: Vec<Change>) -> Vec<Value> {
        changes.into_iter().map(|change| self.event(change)).collect()
    }

    fn event(&self, change: Change) -> Value {
        match change {
            Change::Begin(n) => {
                let block = match &self.blocks.all()[n] {
                    Block::Text(_) => json!({ "type": "text", "text": "" }),
                    Block::Reasoning(_) => json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    Block::Call { id, name, .. } => json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
                };
                json!({ "type": "content_block_start", "index": n, "content_block": block })
            }
            Change::Grow(n, text) => {
                let delta = match &self.blocks.all()[n] {
                    Block::Text(_) => json!({ "type": "text_delta", "text": text }),
                    Block::Reasoning(_) => json!({ "type": "thinking_delta", "thinking": text }),
                    Block::Call { .. } => json!({ "type": "input_json_delta", "partial_json": text }),
                };
                json!({ "type": "content_block_delta", "index": n, "delta": delta })
            }
            Change::End(n) => json!({ "type": "content_block_stop", "index": n }),
        }
    }
}

impl Form for Messages {
    const LAST: Option<&'static str> = None;
    const FRAMING: Framing = Framing::Named;

    fn begin(&mut self) -> Vec<Value> {
        Vec::new()
    }

    fn begun(&mut self, _: usize, reused: usize) -> Vec<Value> {
        self.reused = reused;
        let start = json!({ "type": "message_start", "message": self.message(Vec::new(), 0) });
        vec![start, json!({ "type": "ping" })]
    }

    fn piece(&mut self, _: usize, piece: &Piece) -> Vec<Value> {
        let changes = self.blocks.push(&piece.text);
        self.events(changes)
    }

    fn end(&mut self, _: usize, finish: &Finish) -> Vec<Value> {
        let changes = self.blocks.finish();
        self.end = Some(*finish);
        self.events(changes)
    }

    fn done(&mut self) -> Vec<Value> {
        let (reason, stop) = self.reason();
        let usage = self.usage(self.end.map_or(0, |end| end.tokens));
        let delta = json!({ "stop_reason": reason, "stop_sequence": stop });
        let end = json!({ "type": "message_delta", "delta": delta, "usage": usage });
        vec![end, json!({ "type": "message_stop" })]
    }

    fn failed(&mut self, refusal: &Refusal) -> Value {
        refusal.anthropic()
    }

    fn whole(self) -> Value {
        let content = self.blocks.all().iter().map(|block| match block {
            Block::Text(text) => json!({ "type": "text", "text": text }),
            Block::Reasoning(text) => json!({ "type": "thinking", "thinking": text, "signature": "" }),
            Block::Call { id, name, arguments } => {
                json!({ "type": "tool_use", "id": id, "name": name, "input": arguments })
            }
        });
        self.message(content.collect(), self.end.map_or(0, |end| end.tokens))
    }
}
