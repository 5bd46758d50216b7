//! OpenAI's `/chat/completions`.

use candor::{AnswerParser, AnswerPart, AnswerStart, Finish, GenerateOptions, Message, Piece};
use serde_json::{Map, Value, json};

use crate::{
    answer::Form,
    app::{App, Served, now},
    ask::{self, Asked},
    calls::Calls,
    fields::{Fields, expected},
    head::Head,
    likely::{self, Likely},
    record::{self, Record, Shared, Wanted},
    refusal::Refusal,
    shape::Shape,
    template::Conversation,
};

/// Understands a request.
///
/// # Errors
/// If it is refused.
pub fn read(app: &App, served: &Served, mut fields: Fields) -> Result<Asked<Chat>, Refusal> {
    let conversation = conversation(&mut fields, app, served)?;
    let count = ask::count(&mut fields)?;
    let limits = ["n_predict", "max_tokens", "max_completion_tokens"];
    let mut options = ask::options(&mut fields, &app.config, &served.model, &limits)?;
    let streamed = fields.flag("stream")?.unwrap_or_default();
    let with_usage = with_usage(&mut fields)?;
    let top = match (fields.flag("logprobs")?.unwrap_or_default(), likely::count(&mut fields, "top_logprobs")?) {
        (true, top) => Some(top.unwrap_or_default()),
        (false, None | Some(0)) => None,
        (false, Some(_)) => return Err(Refusal::field("top_logprobs", "logprobs: true asks for them")),
    };
    fields.refuse("store", |value| *value == false, "answers are not stored")?;
    let wanted = Wanted::of(&mut fields, &app.config)?;
    let shape = Shape::of(&mut fields)?.or_call(&conversation, served.template.as_ref())?;
    fields.finish(&ask::WITHOUT_EFFECT)?;
    let (prompt, parser, start) = prompt(served, conversation, &mut options)?;
    let prompts = ask::each(vec![prompt], &options, count);
    let (prompts, watches) = ask::watched(prompts, top, &served.model);
    let prompts = shape.bind(prompts, &served.model, &served.tokens, start)?;
    let shared = Shared::new(&served.name, wanted, &options, served.model.tokenizer());
    let records = record::each(shared, &prompts, watches).into_iter();
    let choices = records.map(|record| Choice::new(record, parser.clone())).collect();
    let form = Chat { head: Head::new("chatcmpl", &served.name, now()), with_usage, read: None, choices };
    Ok(Asked { prompts, form, streamed })
}

/// The prompt of a conversation, what reads the answer, and what that says before its content; `options` show what reading needs.
///
/// # Errors
/// If there is no template, or it refuses the conversation.
pub fn prompt(
    served: &Served,
    conversation: Conversation,
    options: &mut GenerateOptions,
) -> Result<(Vec<u32>, AnswerParser, AnswerStart), Refusal> {
    let (text, parser) = served.template()?.render(&served.model, conversation)?;
    options.marks = served.template()?.marks().to_vec();
    let start = served.template()?.start(&text);
    Ok((served.model.encode_prompt(&text), parser, start))
}

/// `/v1/chat/completions/input_tokens`: the tokens of a conversation, with the fields of one that is answered.
///
/// # Errors
/// If it is refused.
pub fn count(app: &App, served: &Served, fields: Fields) -> Result<Value, Refusal> {
    Ok(ask::input_tokens(&read(app, served, fields)?.prompts))
}

/// Refuses `parallel_tool_calls: false`, unless there has to be a call, which is one.
pub fn parallel(fields: &mut Fields, calls: &Calls) -> Result<(), Refusal> {
    let harmless = |value: &Value| *value == true || *calls != Calls::Free;
    fields.refuse("parallel_tool_calls", harmless, "the model decides how many tools it calls")
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
    let mut messages: Vec<Message> =
        list.into_iter().enumerate().map(|(n, value)| message(n, value)).collect::<Result<_, _>>()?;
    let opens = fields.flag("add_generation_prompt")?;
    let begun = begun(&mut messages, opens, fields.flag("continue_final_message")?)?;
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
    let (tools, calls) = Calls::of(fields.take("tool_choice"), "/function/name", tools.map(Value::from))?;
    parallel(fields, &calls)?;
    Ok(Conversation { messages, tools, calls, variables, opens: opens.unwrap_or(true), begun })
}

/// Takes the last message away where it is the beginning of the answer: its text.
fn begun(messages: &mut Vec<Message>, opens: Option<bool>, goes_on: Option<bool>) -> Result<Option<String>, Refusal> {
    if goes_on == Some(true) && opens == Some(true) {
        let message = "an answer that goes on is not opened: add_generation_prompt must be false";
        return Err(Refusal::field("continue_final_message", message));
    }
    let (last, rest) = match &messages[..] {
        [rest @ .., last] if last.role() == "assistant" && goes_on != Some(false) => (last, rest),
        _ if goes_on == Some(true) => {
            return Err(Refusal::field("continue_final_message", "the last message is not the assistant's"));
        }
        _ => return Ok(None),
    };
    let name = |field: &str| format!("messages[{}]{field}", rest.len());
    if rest.last().is_some_and(|before| before.role() == "assistant") {
        return Err(Refusal::field(&name(""), "two messages of the assistant at the end: one can go on"));
    }
    for field in ["tool_calls", "reasoning_content"] {
        if last.0.get(field).is_some_and(|value| !value.is_null()) {
            return Err(Refusal::field(&name(&format!(".{field}")), "a last message of the assistant goes on as text"));
        }
    }
    let text = last.text().unwrap_or_default().to_owned();
    messages.pop();
    Ok(Some(text))
}

/// A message as templates take it: its content as one text, arguments of calls as objects.
pub fn message(number: usize, value: Value) -> Result<Message, Refusal> {
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
    if let Some(wrong) = fields.get("tool_calls").filter(|calls| !calls.is_array() && !calls.is_null()) {
        return Err(expected(&name(".tool_calls"), "an array", wrong));
    }
    let calls = fields.get_mut("tool_calls").and_then(Value::as_array_mut);
    for (n, call) in calls.into_iter().flatten().enumerate() {
        let place = name(&format!(".tool_calls[{n}].function.arguments"));
        if let Some(wrong) = call.pointer("/function/name").filter(|name| !name.is_string()) {
            return Err(expected(&name(&format!(".tool_calls[{n}].function.name")), "a string", wrong));
        }
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
pub struct Chat {
    head: Head,
    with_usage: bool,
    /// Tokens of the prompt, and how many of them no answer had to read.
    read: Option<(usize, usize)>,
    choices: Vec<Choice>,
}

/// An answer so far.
struct Choice {
    record: Record,
    /// `None` once the answer has ended.
    parser: Option<AnswerParser>,
    /// Of how many tokens a stream has heard how likely they are.
    sent: usize,
    content: String,
    reasoning: String,
    calls: Vec<Value>,
    reason: Option<&'static str>,
}

impl Choice {
    fn new(record: Record, parser: AnswerParser) -> Choice {
        let (content, reasoning) = (String::new(), String::new());
        Choice { record, parser: Some(parser), sent: 0, content, reasoning, calls: Vec::new(), reason: None }
    }
}

impl Chat {
    fn chunk(&mut self, index: usize, delta: Value, reason: Option<&str>) -> Value {
        let mut choice = json!({ "index": index, "delta": delta, "finish_reason": reason });
        let Choice { record, sent, .. } = &mut self.choices[index];
        let likely = record.likely().unwrap_or_default();
        if *sent < likely.len() {
            choice["logprobs"] = json!({ "content": likely[*sent..].iter().map(Likely::json).collect::<Vec<_>>() });
            *sent = likely.len();
        }
        self.head.chunk("chat.completion.chunk", vec![choice], self.with_usage)
    }

    fn progress(&mut self, index: usize, progress: Option<Value>) -> Option<Value> {
        let progress = progress?;
        let mut chunk = self.chunk(index, json!({}), None);
        self.choices[index].record.note(&mut chunk, Some(progress));
        Some(chunk)
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
        let chunk = |delta| {
            let mut chunk = self.chunk(index, delta, None);
            self.choices[index].record.note(&mut chunk, None);
            chunk
        };
        deltas.into_iter().map(chunk).collect()
    }
}

impl Form for Chat {
    const LAST: Option<&'static str> = Some("[DONE]");

    fn begin(&mut self) -> Vec<Value> {
        let first = json!({ "role": "assistant", "content": null });
        (0..self.choices.len()).map(|index| self.chunk(index, first.clone(), None)).collect()
    }

    fn begun(&mut self, index: usize, reused: usize) -> Vec<Value> {
        let progress = self.choices[index].record.begun(reused);
        self.progress(index, progress).into_iter().collect()
    }

    fn read(&mut self, index: usize, done: usize) -> Vec<Value> {
        let progress = self.choices[index].record.read(done);
        self.progress(index, progress).into_iter().collect()
    }

    fn piece(&mut self, index: usize, piece: &Piece) -> Vec<Value> {
        let Choice { record, parser, .. } = &mut self.choices[index];
        record.piece(piece);
        let parts = parser.as_mut().map(|parser| parser.push(&piece.text)).unwrap_or_default();
        self.take(index, parts)
    }

    fn end(&mut self, index: usize, finish: &Finish) -> Vec<Value> {
        let rest = self.choices[index].parser.take().map(AnswerParser::finish).unwrap_or_default();
        let mut chunks = self.take(index, rest);
        self.head.count(finish.tokens);
        let reused = self.read.map_or(finish.reused, |(_, reused)| reused.min(finish.reused));
        self.read = Some((finish.prompt, reused));
        let choice = &mut self.choices[index];
        choice.record.end(finish);
        let reason = match record::reason(finish.reason) {
            "stop" if !choice.calls.is_empty() => "tool_calls",
            reason => reason,
        };
        choice.reason = Some(reason);
        let mut chunk = self.chunk(index, json!({}), Some(reason));
        let record = &self.choices[index].record;
        chunk["timings"] = record.timings();
        record.explain(&mut chunk);
        chunks.push(chunk);
        chunks
    }

    fn done(&mut self) -> Vec<Value> {
        let (tokens, reused) = self.read.unwrap_or_default();
        self.head.read(tokens, reused);
        let mut last = self.head.last("chat.completion.chunk", self.with_usage);
        if let Some((last, first)) = last.first_mut().zip(self.choices.first()) {
            last["timings"] = first.record.timings();
        }
        last
    }

    fn whole(self) -> Value {
        let choice = |(index, choice): (usize, &Choice)| {
            let likely = |likely: &[Likely]| likely.iter().map(Likely::json).collect::<Vec<_>>();
            let logprobs = choice.record.likely().map(|tokens| json!({ "content": likely(tokens) }));
            let mut message = json!({ "role": "assistant", "content": choice.content, "refusal": null });
            if !choice.reasoning.is_empty() {
                message["reasoning_content"] = choice.reasoning.as_str().into();
            }
            if !choice.calls.is_empty() {
                message["tool_calls"] = choice.calls.clone().into();
            }
            json!({ "index": index, "message": message, "logprobs": logprobs, "finish_reason": choice.reason })
        };
        let choices = self.choices.iter().enumerate().map(choice).collect();
        let mut whole = self.head.whole("chat.completion", choices);
        if let Some(Choice { record, .. }) = self.choices.first() {
            whole["timings"] = record.timings();
            record.explain(&mut whole);
        }
        whole
    }
}
