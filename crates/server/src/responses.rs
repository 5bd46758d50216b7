//! OpenAI's `/v1/responses`, without memory: a request brings the whole conversation.

use candor::{Finish, Piece, StopReason};
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

/// Fields that change no answer here, besides those of all endpoints.
pub const WITHOUT_EFFECT: [&str; 8] = [
    "metadata",
    "model",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "stream_options",
    "user",
];

/// Understands a request.
///
/// # Errors
/// If it is refused.
pub fn read(app: &App, served: &Served, mut fields: Fields) -> Result<Asked<Responses>, Refusal> {
    let said = said(&fields);
    let conversation = conversation(&mut fields, app, served)?;
    let mut options = ask::options(&mut fields, &app.config, &served.model, &["max_output_tokens"])?;
    let streamed = fields.flag("stream")?.unwrap_or_default();
    let off = |value: &Value| *value == false;
    fields.refuse("store", off, "answers are not stored: store: false says so")?;
    fields.refuse("background", off, "answers are not stored, and cannot be asked for later")?;
    for name in ["previous_response_id", "conversation", "prompt"] {
        fields.refuse(name, |_| false, "nothing is stored here: input brings the whole conversation")?;
    }
    // What is asked for besides is an empty list, or reasoning for the next request, which comes readable.
    let include = |value: &Value| {
        let list = value.as_array().map(Vec::as_slice);
        list.is_some_and(|list| list.iter().all(|item| item == "reasoning.encrypted_content"))
    };
    fields.refuse("include", include, "nothing comes besides the answer")?;
    fields.refuse("truncation", |value| *value == "disabled", "a conversation that is too long is refused")?;
    let shape = Shape::of_text(&mut fields)?.or_call(&conversation, served.template.as_ref())?;
    fields.refuse("top_logprobs", |value| *value == 0, "/v1/chat/completions gives probabilities")?;
    // Tools that would be called here are refused.
    fields.refuse("max_tool_calls", |value| value.is_u64(), "expected a number")?;
    fields.finish(&WITHOUT_EFFECT)?;
    let (prompt, parser, start) = chat::prompt(served, conversation, &mut options)?;
    let head = Head::new("resp", &served.name, now());
    let blocks = Blocks::new(parser, format!("call_{}", head.number()));
    let (created, prompt_tokens) = (now(), prompt.len());
    let form = Responses { head, created, said, prompt: prompt_tokens, thought: 0, blocks, sent: 0, end: None };
    let prompts = shape.bind(vec![(prompt, options)], &served.model, &served.tokens, start)?;
    Ok(Asked { prompts, form, streamed })
}

/// `/v1/responses/input_tokens`: the tokens of a conversation, with the fields of one that is answered.
///
/// # Errors
/// If it is refused.
pub fn count(app: &App, served: &Served, fields: Fields) -> Result<Value, Refusal> {
    Ok(ask::input_tokens(&read(app, served, fields)?.prompts))
}

/// What an answer repeats of its request.
fn said(fields: &Fields) -> Map<String, Value> {
    let repeated = [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", true.into()),
        ("reasoning", json!({ "effort": null, "summary": null })),
        ("temperature", Value::Null),
        ("text", json!({ "format": { "type": "text" } })),
        ("tool_choice", "auto".into()),
        ("tools", json!([])),
        ("top_p", Value::Null),
        ("truncation", "disabled".into()),
    ];
    let own = |(name, default): (&str, Value)| (name.to_owned(), fields.get(name).cloned().unwrap_or(default));
    let user = fields.get("user").map(|user| ("user".to_owned(), user.clone()));
    repeated.map(own).into_iter().chain(user).collect()
}

/// What the template sees of a request.
fn conversation(fields: &mut Fields, app: &App, served: &Served) -> Result<Conversation, Refusal> {
    let mut history = History::default();
    if let Some(instructions) = fields.text("instructions")? {
        history.say("system", &instructions);
    }
    match fields.take("input") {
        None => return Err(Refusal::field("input", "missing")),
        Some(Value::String(text)) => history.say("user", &text),
        Some(Value::Array(items)) if !items.is_empty() => {
            for (n, value) in items.iter().enumerate() {
                item(&mut history, &format!("input[{n}]"), value)?;
            }
        }
        Some(other) => return Err(expected("input", "a string or an array of items", &other)),
    }
    let mut variables = app.config.template_variables.clone();
    if let Some(mut reasoning) = fields.object("reasoning")? {
        match reasoning.shift_remove("effort").unwrap_or_default() {
            Value::Null => {}
            Value::String(level) => {
                let refuse = |message| Refusal::unsupported("reasoning.effort", message);
                let set = match level.as_str() {
                    "none" => served.template()?.thinking(false),
                    level => served.template()?.effort(level),
                };
                variables.extend(set.map_err(refuse)?);
            }
            other => return Err(expected("reasoning.effort", "a string", &other)),
        }
        // "auto" leaves it to the server, and reasoning comes as it is.
        if let Some((name, _)) = reasoning.iter().find(|(_, value)| !value.is_null() && *value != "auto") {
            return Err(Refusal::unsupported(&format!("reasoning.{name}"), "reasoning comes as it is"));
        }
    }
    let tools = fields.list("tools")?.unwrap_or_default();
    let tools = tools.iter().enumerate().map(|(n, value)| tool(&format!("tools[{n}]"), value));
    let tools = Some(tools.collect::<Result<Vec<_>, _>>()?).filter(|tools| !tools.is_empty());
    let (tools, calls) = Calls::of(fields.take("tool_choice"), "/name", tools.map(Value::from))?;
    chat::parallel(fields, &calls)?;
    Ok(Conversation { messages: history.messages(), tools, calls, variables, opens: true, begun: None })
}

/// A tool in the shape that templates know.
fn tool(place: &str, value: &Value) -> Result<Value, Refusal> {
    if value["type"] != "function" {
        return Err(Refusal::unsupported(
            &format!("{place}.type"),
            "tools are called by the client: \"function\" is served",
        ));
    }
    if !value["name"].is_string() {
        return Err(Refusal::field(&format!("{place}.name"), "expected a string"));
    }
    let mut function = Map::new();
    for name in ["name", "description", "parameters"] {
        if !value[name].is_null() {
            function.insert(name.to_owned(), value[name].clone());
        }
    }
    Ok(json!({ "type": "function", "function": function }))
}

/// An item of the conversation.
fn item(history: &mut History, place: &str, item: &Value) -> Result<(), Refusal> {
    let string = |name: &str| match &item[name] {
        Value::String(text) => Ok(text.as_str()),
        other => Err(expected(&format!("{place}.{name}"), "a string", other)),
    };
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let role = match string("role")? {
                role @ ("user" | "assistant" | "system") => role,
                "developer" => "system",
                _ => {
                    let message = "expected \"user\", \"assistant\", \"system\" or \"developer\"";
                    return Err(Refusal::field(&format!("{place}.role"), message));
                }
            };
            history.say(role, &text(&format!("{place}.content"), &item["content"])?);
        }
        "function_call" => {
            let refuse =
                |error| Refusal::field(&format!("{place}.arguments"), format!("expected a JSON object: {error}"));
            let arguments = serde_json::from_str(string("arguments")?).map_err(refuse)?;
            history.call(string("call_id")?, string("name")?, arguments);
        }
        "function_call_output" => {
            history.result(string("call_id")?, &text(&format!("{place}.output"), &item["output"])?);
        }
        "reasoning" => {
            let content = &item["content"];
            if !content.is_null() {
                history.reason(&text(&format!("{place}.content"), content)?);
            }
        }
        _ => {
            let message = "messages, calls of functions, their outputs and reasoning are served";
            return Err(Refusal::unsupported(&format!("{place}.type"), message));
        }
    }
    Ok(())
}

/// A text, or the texts of parts.
fn text(place: &str, value: &Value) -> Result<String, Refusal> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let text = |(n, part): (usize, &Value)| match (part["type"].as_str(), part["text"].as_str()) {
                (Some("input_text" | "output_text" | "reasoning_text" | "text"), Some(text)) => Ok(text.to_owned()),
                _ => Err(Refusal::unsupported(&format!("{place}[{n}]"), "only text is served")),
            };
            Ok(parts.iter().enumerate().map(text).collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        other => Err(expected(place, "a string or an array of parts", other)),
    }
}

/// The answer so far.
pub struct Responses {
    head: Head,
    created: u64,
    /// What is repeated of the request.
    said: Map<String, Value>,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens of reasoning.
    thought: usize,
    blocks: Blocks,
    /// Events that were sent.
    sent: usize,
    end: Option<Finish>,
}

impl Responses {
    fn id(&self, n: usize) -> String {
        let kind = match self.blocks.all()[n] {
            Block::Text(_) => "msg",
            Block::Reasoning(_) => "rs",
            Block::Call { .. } => "fc",
        };
        format!("{kind}_{}-{n}", self.head.number())
    }

    /// A block as an item: as it is in the end, or as it begins.
    fn item(&self, n: usize, whole: bool) -> Value {
        let status = if whole { "completed" } else { "in_progress" };
        let id = self.id(n);
        match &self.blocks.all()[n] {
            Block::Text(_) => {
                let content = if whole { vec![self.part(n, true)] } else { Vec::new() };
                json!({ "id": id, "type": "message", "role": "assistant", "status": status, "content": content })
            }
            Block::Reasoning(_) => {
                let content = if whole { vec![self.part(n, true)] } else { Vec::new() };
                json!({ "id": id, "type": "reasoning", "summary": [], "content": content, "status": status })
            }
            Block::Call { id: call, name, arguments } => {
                let arguments = if whole { Value::Object(arguments.clone()).to_string() } else { String::new() };
                json!({
                    "id": id,
                    "type": "function_call",
                    "call_id": call,
                    "name": name,
                    "arguments": arguments,
                    "status": status,
                })
            }
        }
    }

    /// The part of an item that has its text.
    fn part(&self, n: usize, whole: bool) -> Value {
        match &self.blocks.all()[n] {
            Block::Reasoning(text) => json!({ "type": "reasoning_text", "text": if whole { text } else { "" } }),
            Block::Text(text) => {
                let text = if whole { text } else { "" };
                json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
            }
            Block::Call { .. } => Value::Null,
        }
    }

    fn response(&self) -> Value {
        let is_cut = self.end.is_some_and(|end| matches!(end.reason, StopReason::MaxTokens | StopReason::ContextFull));
        let status = match self.end {
            None => "in_progress",
            Some(_) if is_cut => "incomplete",
            Some(_) => "completed",
        };
        let output = match self.end {
            None => Vec::new(),
            Some(_) => (0..self.blocks.all().len()).map(|n| self.item(n, true)).collect(),
        };
        let usage = self.end.map(|Finish { tokens, reused, .. }| {
            json!({
                "input_tokens": self.prompt,
                "input_tokens_details": { "cached_tokens": reused, "cache_write_tokens": 0 },
                "output_tokens": tokens,
                "output_tokens_details": { "reasoning_tokens": self.thought },
                "total_tokens": self.prompt + tokens,
            })
        });
        let mut response = json!({
            "id": format!("resp_{}", self.head.number()),
            "object": "response",
            "created_at": self.created,
            "completed_at": self.end.map(|_| now()),
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": is_cut.then(|| json!({ "reason": "max_output_tokens" })),
            "model": self.head.model(),
            "output": output,
            "previous_response_id": null,
            "store": false,
            "usage": usage,
        });
        if let Value::Object(fields) = &mut response {
            fields.extend(self.said.clone());
        }
        response
    }

    fn event(&mut self, kind: &str, fields: Value) -> Value {
        let mut event = json!({ "type": kind, "sequence_number": self.sent });
        self.sent += 1;
        if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
            event.extend(fields);
        }
        event
    }

    fn whole_event(&mut self, kind: &str) -> Value {
        let response = self.response();
        self.event(kind, json!({ "response": response }))
    }

    fn events(&mut self, changes: Vec<Change>) -> Vec<Value> {
        changes.into_iter().flat_map(|change| self.changed(change)).collect()
    }

    fn changed(&mut self, change: Change) -> Vec<Value> {
        let (Change::Begin(n) | Change::Grow(n, _) | Change::End(n)) = change;
        let block = self.blocks.all()[n].clone();
        // The names of the events that a block's text comes with, and whether it is in a part.
        let (name, in_part) = match &block {
            Block::Text(_) => ("output_text", true),
            Block::Reasoning(_) => ("reasoning_text", true),
            Block::Call { .. } => ("function_call_arguments", false),
        };
        let mut place = json!({ "item_id": self.id(n), "output_index": n });
        if in_part {
            place["content_index"] = 0.into();
        }
        let with = |more: Value| {
            let mut all = place.clone();
            if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
                all.extend(more);
            }
            all
        };
        match change {
            Change::Begin(_) => {
                let item = self.item(n, false);
                let mut events =
                    vec![self.event("response.output_item.added", json!({ "output_index": n, "item": item }))];
                if in_part {
                    let part = self.part(n, false);
                    events.push(self.event("response.content_part.added", with(json!({ "part": part }))));
                }
                events
            }
            Change::Grow(_, text) => {
                let mut delta = json!({ "delta": text });
                if matches!(block, Block::Text(_)) {
                    delta["logprobs"] = json!([]);
                }
                vec![self.event(&format!("response.{name}.delta"), with(delta))]
            }
            Change::End(_) => {
                let done = match &block {
                    Block::Text(text) => json!({ "text": text, "logprobs": [] }),
                    Block::Reasoning(text) => json!({ "text": text }),
                    Block::Call { name, arguments, .. } => {
                        json!({ "name": name, "arguments": Value::Object(arguments.clone()).to_string() })
                    }
                };
                let mut events = vec![self.event(&format!("response.{name}.done"), with(done))];
                if in_part {
                    let part = self.part(n, true);
                    events.push(self.event("response.content_part.done", with(json!({ "part": part }))));
                }
                let item = self.item(n, true);
                events.push(self.event("response.output_item.done", json!({ "output_index": n, "item": item })));
                events
            }
        }
    }
}

impl Form for Responses {
    const LAST: Option<&'static str> = None;
    const FRAMING: Framing = Framing::Named;

    fn begin(&mut self) -> Vec<Value> {
        vec![self.whole_event("response.created"), self.whole_event("response.in_progress")]
    }

    fn piece(&mut self, _: usize, piece: &Piece) -> Vec<Value> {
        let changes = self.blocks.push(&piece.text);
        self.thought += usize::from(piece.token.is_some() && self.blocks.reasons());
        self.events(changes)
    }

    fn end(&mut self, _: usize, finish: &Finish) -> Vec<Value> {
        let changes = self.blocks.finish();
        let events = self.events(changes);
        self.end = Some(*finish);
        events
    }

    fn done(&mut self) -> Vec<Value> {
        let kind = match self.end.map(|end| end.reason) {
            Some(StopReason::MaxTokens | StopReason::ContextFull) => "response.incomplete",
            _ => "response.completed",
        };
        vec![self.whole_event(kind)]
    }

    fn failed(&mut self, refusal: &Refusal) -> Value {
        let error = refusal.json();
        let error = &error["error"];
        let fields = json!({ "code": error["type"], "message": error["message"], "param": error["param"] });
        self.event("error", fields)
    }

    fn whole(self) -> Value {
        self.response()
    }
}
