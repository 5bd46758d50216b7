//! OpenAI's `/chat/completions`.

use std::sync::Arc;

use axum::{body::Bytes, response::Response};
use candor::{AnswerParser, AnswerPart, Finish, GenerateOptions, Message, Piece};
use serde_json::{Map, Value, json};

use crate::{
    answer::Form,
    app::{App, Served, blocking, now},
    ask,
    fields::{Fields, expected},
    head::Head,
    likely::{self, Watch},
    refusal::Refusal,
    shape::Shape,
    template::Conversation,
};

/// Answers a request.
///
/// # Errors
/// If it is refused.
pub async fn answer(app: Arc<App>, body: Bytes) -> Result<Response, Refusal> {
    let shared = app.clone();
    let Asked { prompts, form, streamed } = blocking(move || read(&shared, &body)).await?;
    app.answer(prompts).await?.respond(form, streamed).await
}

/// A request that was understood.
struct Asked {
    prompts: Vec<(Vec<u32>, GenerateOptions)>,
    form: Chat,
    streamed: bool,
}

fn read(app: &App, body: &[u8]) -> Result<Asked, Refusal> {
    let served = app.served()?;
    let mut fields = Fields::of(body)?;
    let conversation = conversation(&mut fields, app, served)?;
    let count = ask::count(&mut fields)?;
    let limits = ["n_predict", "max_tokens", "max_completion_tokens"];
    let mut options = ask::options(&mut fields, &app.config, &limits)?;
    let streamed = fields.flag("stream")?.unwrap_or_default();
    let with_usage = with_usage(&mut fields)?;
    let top = match (fields.flag("logprobs")?.unwrap_or_default(), likely::count(&mut fields, "top_logprobs")?) {
        (true, top) => Some(top.unwrap_or_default()),
        (false, None | Some(0)) => None,
        (false, Some(_)) => return Err(Refusal::field("top_logprobs", "logprobs: true asks for them")),
    };
    fields.refuse("store", |value| *value == false, "answers are not stored")?;
    let shape = Shape::of(&mut fields)?;
    shape.without_tools(conversation.tools.is_some())?;
    fields.finish(&ask::WITHOUT_EFFECT)?;
    let (text, parser) = served.template()?.render(&served.model, conversation)?;
    options.marks = served.template()?.marks().to_vec();
    let prompts = ask::each(vec![served.model.encode_prompt(&text)], &options, count);
    let (prompts, watches) = ask::watched(prompts, top, &served.model);
    let start = served.template()?.start(&text);
    let prompts = shape.bind(prompts, &served.model, &served.tokens, start)?;
    let choice = |watch| Choice { parser: Some(parser.clone()), watch, ..Choice::default() };
    let choices = watches.into_iter().map(choice).collect();
    let form = Chat { head: Head::new("chatcmpl", &served.name, now()), with_usage, choices };
    Ok(Asked { prompts, form, streamed })
}

/// Whether the end of a stream says how many tokens there were.
pub fn with_usage(fields: &mut Fields) -> Result<bool, Refusal> {
    let Some(mut options) = fields.object("stream_options")? else { return Ok(false) };
    let usage = match options.shift_remove("include_usage") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(usage)) => usage,
        Some(other) => return Err(expected("stream_options.include_usage", "true or false", &other)),
    };
    // Padding against eavesdroppers is no part of the answer.
    options.shift_remove("include_obfuscation");
    match options.keys().next() {
        None => Ok(usage),
        Some(name) => Err(Refusal::unsupported(&format!("stream_options.{name}"), "this field is not served")),
    }
}

/// The messages and all that the template sees of a request.
pub fn conversation(fields: &mut Fields, app: &App, served: &Served) -> Result<Conversation, Refusal> {
    let missing = || Refusal::field("messages", "expected an array of messages");
    let list = fields.list("messages")?.filter(|list| !list.is_empty()).ok_or_else(missing)?;
    let messages = list.into_iter().enumerate().map(|(n, value)| message(n, value)).collect::<Result<_, _>>()?;
    let mut variables = app.config.template_variables.clone();
    let given = fields.object("chat_template_kwargs")?.unwrap_or_default();
    if let Some(name) = ["messages", "tools"].into_iter().find(|&name| given.contains_key(name)) {
        return Err(Refusal::field(&format!("chat_template_kwargs.{name}"), "this is a field of its own"));
    }
    variables.extend(given);
    if let Some(effort) = fields.text("reasoning_effort")? {
        if !served.template.as_ref().is_some_and(|template| template.reads("reasoning_effort")) {
            return Err(Refusal::unsupported("reasoning_effort", "the chat template knows no levels of reasoning"));
        }
        variables.insert("reasoning_effort".to_owned(), effort.into());
    }
    let tools = fields.list("tools")?.filter(|tools| !tools.is_empty());
    for (n, tool) in tools.iter().flatten().enumerate() {
        if tool["type"] != "function" || !tool["function"]["name"].is_string() {
            let message = "expected {\"type\": \"function\", \"function\": {\"name\": ...}}";
            return Err(Refusal::field(&format!("tools[{n}]"), message));
        }
    }
    let choice = fields.take("tool_choice").unwrap_or_else(|| "auto".into());
    let tools = match choice.as_str() {
        Some("auto") => tools.map(Value::from),
        Some("none") => None,
        _ => return Err(Refusal::unsupported("tool_choice", "\"auto\" and \"none\" are served")),
    };
    fields.refuse("parallel_tool_calls", |value| *value == true, "the model decides how many tools it calls")?;
    Ok(Conversation { messages, tools, variables })
}

/// A message as templates take it: its content as one text, arguments of calls as objects.
fn message(number: usize, value: Value) -> Result<Message, Refusal> {
    let name = |rest: &str| format!("messages[{number}]{rest}");
    let Value::Object(mut fields) = value else { return Err(expected(&name(""), "an object", &value)) };
    if !fields.get("role").is_some_and(Value::is_string) {
        return Err(Refusal::field(&name(".role"), "expected a string"));
    }
    match fields.get_mut("content") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(content @ Value::Array(_)) => {
            let mut texts = Vec::new();
            for (n, part) in content.as_array().into_iter().flatten().enumerate() {
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text"), Some(text)) => texts.push(text),
                    (Some("text"), None) => {
                        return Err(Refusal::field(&name(&format!(".content[{n}].text")), "expected a string"));
                    }
                    _ => {
                        let message = "only text is served";
                        return Err(Refusal::unsupported(&name(&format!(".content[{n}].type")), message));
                    }
                }
            }
            *content = texts.join("\n").into();
        }
        Some(other) => return Err(expected(&name(".content"), "a string or an array of parts", other)),
    }
    let calls = fields.get_mut("tool_calls").and_then(Value::as_array_mut);
    for (n, call) in calls.into_iter().flatten().enumerate() {
        let place = name(&format!(".tool_calls[{n}].function.arguments"));
        let Some(arguments) = call.pointer_mut("/function/arguments") else {
            return Err(Refusal::field(&place, "missing"));
        };
        if let Value::String(text) = arguments {
            match serde_json::from_str::<Map<String, Value>>(text) {
                Ok(read) => *arguments = read.into(),
                Err(error) => return Err(Refusal::field(&place, format!("expected a JSON object: {error}"))),
            }
        }
    }
    Ok(Message(fields))
}

/// The answers so far.
struct Chat {
    head: Head,
    with_usage: bool,
    choices: Vec<Choice>,
}

/// An answer so far.
#[derive(Default)]
struct Choice {
    parser: Option<AnswerParser>,
    watch: Option<Watch>,
    /// What is known of tokens, and of how many of them a stream has heard.
    likely: Vec<Value>,
    sent: usize,
    content: String,
    reasoning: String,
    calls: Vec<Value>,
    reason: Option<&'static str>,
}

impl Chat {
    fn chunk(&mut self, index: usize, delta: Value, reason: Option<&str>) -> Value {
        let mut choice = json!({ "index": index, "delta": delta, "finish_reason": reason });
        let Choice { likely, sent, .. } = &mut self.choices[index];
        if *sent < likely.len() {
            choice["logprobs"] = json!({ "content": likely[*sent..] });
            *sent = likely.len();
        }
        self.head.chunk("chat.completion.chunk", vec![choice], self.with_usage)
    }

    /// Takes parts of an answer; what a stream says of them.
    fn take(&mut self, index: usize, parts: Vec<AnswerPart>) -> Vec<Value> {
        let mut deltas = Vec::new();
        for part in parts {
            let choice = &mut self.choices[index];
            deltas.push(match part {
                AnswerPart::Content(text) => {
                    choice.content.push_str(&text);
                    json!({ "content": text })
                }
                AnswerPart::Reasoning(text) => {
                    choice.reasoning.push_str(&text);
                    json!({ "reasoning_content": text })
                }
                AnswerPart::Call(call) => {
                    let n = choice.calls.len();
                    let id = call.id.unwrap_or_else(|| format!("call-{}-{index}-{n}", self.head.number()));
                    let arguments = Value::Object(call.arguments).to_string();
                    let function = json!({ "name": call.name, "arguments": arguments });
                    let call = json!({ "id": id, "type": "function", "function": function });
                    choice.calls.push(call.clone());
                    let mut delta = json!({ "index": n });
                    if let (Value::Object(delta), Value::Object(call)) = (&mut delta, call) {
                        delta.extend(call);
                    }
                    json!({ "tool_calls": [delta] })
                }
            });
        }
        deltas.into_iter().map(|delta| self.chunk(index, delta, None)).collect()
    }
}

impl Form for Chat {
    const LAST: Option<&'static str> = Some("[DONE]");

    fn begin(&mut self) -> Vec<Value> {
        let first = json!({ "role": "assistant", "content": null });
        (0..self.choices.len()).map(|index| self.chunk(index, first.clone(), None)).collect()
    }

    fn piece(&mut self, index: usize, piece: &Piece) -> Vec<Value> {
        let Choice { parser, watch, likely, .. } = &mut self.choices[index];
        let token = watch.as_mut().zip(piece.token).and_then(|(watch, id)| watch.token(id));
        likely.extend(token.map(|token| token.json()));
        let parts = parser.as_mut().map(|parser| parser.push(&piece.text)).unwrap_or_default();
        self.take(index, parts)
    }

    fn end(&mut self, index: usize, finish: &Finish) -> Vec<Value> {
        let rest = self.choices[index].parser.take().map(AnswerParser::finish).unwrap_or_default();
        let mut chunks = self.take(index, rest);
        self.head.count(finish.tokens);
        self.head.read(finish.prompt);
        let choice = &mut self.choices[index];
        let reason = match ask::reason(finish.reason) {
            "stop" if !choice.calls.is_empty() => "tool_calls",
            reason => reason,
        };
        choice.reason = Some(reason);
        chunks.push(self.chunk(index, json!({}), Some(reason)));
        chunks
    }

    fn done(&mut self) -> Vec<Value> {
        self.head.last("chat.completion.chunk", self.with_usage)
    }

    fn whole(self) -> Value {
        let choice = |(index, choice): (usize, Choice)| {
            let Choice { content, reasoning, calls, reason, watch, likely, .. } = choice;
            let logprobs = watch.map(|_| json!({ "content": likely }));
            let mut message = json!({ "role": "assistant", "content": content });
            if !reasoning.is_empty() {
                message["reasoning_content"] = reasoning.into();
            }
            if !calls.is_empty() {
                message["tool_calls"] = calls.into();
            }
            json!({ "index": index, "message": message, "logprobs": logprobs, "finish_reason": reason })
        };
        let choices = self.choices.into_iter().enumerate().map(choice).collect();
        self.head.whole("chat.completion", choices)
    }
}
