//! Ollama's endpoints.

mod keep;
mod model;
mod time;

pub use model::{ps, show, tags, version};

use std::time::{Duration, Instant};

use candor::{AnswerParser, AnswerPart, AnswerStart, Finish, GenerateOptions, Message, Piece, Scaling};
use serde_json::{Map, Value, json};

use self::keep::Keep;
use crate::{
    answer::{Form, Framing},
    app::{App, Served},
    ask::{self, Asked},
    calls::Calls,
    chat, completions,
    fields::{Fields, expected},
    record,
    refusal::Refusal,
    shape::Shape,
    template::{Conversation, Template},
    vectors,
};

/// Fields that change no answer.
pub const WITHOUT_EFFECT: [&str; 1] = ["model"];

/// Options that change no answer: how Ollama would run the model.
pub const OPTIONS_WITHOUT_EFFECT: [&str; 12] = [
    "f16_kv",
    "low_vram",
    "main_gpu",
    "num_batch",
    "num_gpu",
    "num_keep",
    "num_thread",
    "numa",
    "use_mlock",
    "use_mmap",
    "vocab_only",
    "embedding_only",
];

/// `/api/generate`: continues a text, or answers it where there is a template.
///
/// # Errors
/// If the request is refused.
pub fn generate(app: &App, served: &Served, mut fields: Fields) -> Result<Asked<Answer>, Refusal> {
    let prompt = fields.text("prompt")?.unwrap_or_default();
    let raw = fields.flag("raw")?.unwrap_or_default();
    let system = fields.text("system")?.filter(|system| !system.is_empty());
    fields.refuse("suffix", |value| *value == "", "text in the middle is not served")?;
    fields.refuse("images", no_items, "only text is served")?;
    fields.refuse("context", no_items, "nothing is kept between requests: /api/chat takes the whole conversation")?;
    fields.refuse("template", |value| *value == "", "the server's template is served: --chat-template sets it")?;
    let variables = thinking(&mut fields, app, served)?;
    let (mut options, shape, streamed) = common(&mut fields, app, served)?;
    let keep = keep::read(&mut fields)?;
    fields.finish(&WITHOUT_EFFECT)?;
    keep.heed(served);
    let (ids, parser, start) = match (&served.template, raw) {
        // To load a model is asked for by a request without a text.
        _ if prompt.is_empty() => (Vec::new(), None, AnswerStart::Content),
        (Some(_), false) => {
            let system = system.map(Message::system);
            let messages = system.into_iter().chain([Message::user(prompt)]).collect();
            let conversation =
                Conversation { messages, tools: None, calls: Calls::Free, variables, opens: true, begun: None };
            let (ids, parser, start) = chat::prompt(served, conversation, &mut options)?;
            (ids, Some(parser), start)
        }
        _ if system.is_some() => return Err(Refusal::field("system", "there is no template to put it in")),
        _ => (served.model.encode_prompt(&prompt), None, AnswerStart::Content),
    };
    let prompts = if ids.is_empty() { Vec::new() } else { vec![(ids, options)] };
    let prompts = shape.bind(prompts, &served.model, &served.tokens, start)?;
    Ok(Asked { prompts, form: Answer::new(served, Place::Generate, parser, keep), streamed })
}

/// `/api/chat`: answers a conversation.
///
/// # Errors
/// If the request is refused.
pub fn chat(app: &App, served: &Served, mut fields: Fields) -> Result<Asked<Answer>, Refusal> {
    let list = fields.list("messages")?.unwrap_or_default();
    let messages = list.into_iter().enumerate().map(|(n, value)| message(n, value));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let tools = fields.list("tools")?.filter(|tools| !tools.is_empty()).map(Value::from);
    let variables = thinking(&mut fields, app, served)?;
    let (mut options, shape, streamed) = common(&mut fields, app, served)?;
    let keep = keep::read(&mut fields)?;
    fields.finish(&WITHOUT_EFFECT)?;
    keep.heed(served);
    if messages.is_empty() {
        return Ok(Asked { prompts: Vec::new(), form: Answer::new(served, Place::Chat, None, keep), streamed });
    }
    let conversation = Conversation { messages, tools, calls: Calls::Free, variables, opens: true, begun: None };
    let shape = shape.or_call(&conversation, served.template.as_ref())?;
    let (ids, parser, start) = chat::prompt(served, conversation, &mut options)?;
    let form = Answer::new(served, Place::Chat, Some(parser), keep);
    let prompts = shape.bind(vec![(ids, options)], &served.model, &served.tokens, start)?;
    Ok(Asked { prompts, form, streamed })
}

/// What both have in common: how to go on, the answer's shape, and whether it is streamed.
fn common(fields: &mut Fields, app: &App, served: &Served) -> Result<(GenerateOptions, Shape, bool), Refusal> {
    let (options, shape) = (options(fields, app, served)?, Shape::of_format(fields)?);
    let streamed = fields.flag("stream")?.unwrap_or(true);
    Ok((options, shape, streamed))
}

/// The field `options`.
fn options(fields: &mut Fields, app: &App, served: &Served) -> Result<GenerateOptions, Refusal> {
    let given = fields.object("options")?.unwrap_or_default();
    let read = |mut fields: Fields| {
        if let Some(context) = fields.whole("num_ctx")?
            && usize::try_from(context).is_ok_and(|context| context > served.context)
        {
            let message = format!("the context has {} tokens: -c sets it where the server is started", served.context);
            return Err(Refusal::field("num_ctx", message));
        }
        // To the end of the context is as far as it goes in any case.
        if fields.get("num_predict").is_some_and(|value| *value == -2) {
            fields.take("num_predict");
        }
        let options = ask::options(&mut fields, &app.config, &served.model, &["num_predict"])?;
        fields.finish(&OPTIONS_WITHOUT_EFFECT)?;
        Ok(options)
    };
    read(Fields::from(given)).map_err(|refusal| refusal.within("options"))
}

/// The variables of the template that say whether the model thinks, and how much.
fn thinking(fields: &mut Fields, app: &App, served: &Served) -> Result<Map<String, Value>, Refusal> {
    let mut variables = app.config.template_variables.clone();
    let template = || served.template();
    let set = match fields.take("think") {
        None => return Ok(variables),
        Some(Value::Bool(true)) if !template()?.thinks() => Err("the model does not think"),
        Some(Value::Bool(on)) => template()?.thinking(on),
        Some(Value::String(level)) => template()?.effort(&level),
        Some(other) => return Err(expected("think", "true, false or a level", &other)),
    };
    variables.extend(set.map_err(|message| Refusal::unsupported("think", message))?);
    Ok(variables)
}

/// A message, in the shape that templates know.
fn message(number: usize, mut value: Value) -> Result<Message, Refusal> {
    if let Value::Object(fields) = &mut value {
        if fields.shift_remove("images").is_some_and(|images| !no_items(&images)) {
            return Err(Refusal::unsupported(&format!("messages[{number}].images"), "only text is served"));
        }
        for (theirs, ours) in [("thinking", "reasoning_content"), ("tool_name", "name")] {
            if let Some(value) = fields.shift_remove(theirs) {
                fields.insert(ours.to_owned(), value);
            }
        }
        for call in fields.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(call) = call {
                call.entry("type").or_insert_with(|| "function".into());
            }
        }
    }
    chat::message(number, value)
}

fn no_items(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// `/api/embed`: vectors of texts.
///
/// # Errors
/// If the request is refused.
pub fn embed(served: &Served, fields: Fields) -> Result<vectors::Asked, Refusal> {
    let (started, name) = (Instant::now(), served.name.clone());
    let (ids, scaling) = texts(served, fields, "input")?;
    let tokens: usize = ids.iter().map(Vec::len).sum();
    let form = move |vectors: Vec<Vec<f32>>| {
        let (total, load) = (nanoseconds(started.elapsed()), 0);
        json!({
            "model": name,
            "embeddings": vectors,
            "total_duration": total,
            "load_duration": load,
            "prompt_eval_count": tokens,
        })
    };
    Ok(vectors::Asked::new(ids, scaling, form))
}

/// `/api/embeddings`, the older form: the vector of one text.
///
/// # Errors
/// If the request is refused.
pub fn embeddings(served: &Served, fields: Fields) -> Result<vectors::Asked, Refusal> {
    let (ids, scaling) = texts(served, fields, "prompt")?;
    if ids.len() != 1 {
        return Err(Refusal::field("prompt", "expected one text"));
    }
    Ok(vectors::Asked::new(ids, scaling, |mut vectors| json!({ "embedding": vectors.pop() })))
}

/// The ids of texts, and how long their vectors are.
fn texts(served: &Served, mut fields: Fields, name: &str) -> Result<(Vec<Vec<u32>>, Scaling), Refusal> {
    let (width, scaling) = vectors::pooled(served)?;
    let ids = completions::texts(&served.model, name, fields.take(name))?;
    fields.refuse("truncate", |value| *value == false, "texts are not cut: truncate: false says so")?;
    let own = |value: &Value| value.as_u64() == Some(width as u64);
    fields.refuse("dimensions", own, &format!("the model's vectors have {width} numbers, and are not cut"))?;
    let options = Fields::from(fields.object("options")?.unwrap_or_default());
    options.finish(&OPTIONS_WITHOUT_EFFECT).map_err(|refusal| refusal.within("options"))?;
    let keep = keep::read(&mut fields)?;
    fields.finish(&WITHOUT_EFFECT)?;
    keep.heed(served);
    Ok((ids, scaling))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Where an answer's text stands.
#[derive(Clone, Copy)]
enum Place {
    Generate,
    Chat,
}

/// The answer so far.
pub struct Answer {
    place: Place,
    model: String,
    /// Reads the answer to a conversation; others are text alone.
    parser: Option<AnswerParser>,
    content: String,
    thinking: String,
    calls: Vec<Value>,
    started: Instant,
    first: Option<Instant>,
    end: Option<Finish>,
    keep: Keep,
}

impl Answer {
    fn new(served: &Served, place: Place, parser: Option<AnswerParser>, keep: Keep) -> Answer {
        Answer {
            place,
            model: served.name.clone(),
            parser,
            content: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            started: Instant::now(),
            first: None,
            end: None,
            keep,
        }
    }

    fn value(&self, content: &str, thinking: &str, calls: &[Value]) -> Value {
        let mut value = json!({ "model": self.model, "created_at": time::now(), "done": false });
        let mut said = match self.place {
            Place::Generate => json!({ "response": content }),
            Place::Chat => json!({ "role": "assistant", "content": content }),
        };
        if !thinking.is_empty() {
            said["thinking"] = thinking.into();
        }
        if !calls.is_empty() {
            said["tool_calls"] = calls.into();
        }
        match (self.place, &mut value, said) {
            (Place::Generate, Value::Object(value), Value::Object(said)) => value.extend(said),
            (_, value, said) => value["message"] = said,
        }
        value
    }

    /// The value with what is known at the end.
    fn ended(&self, mut value: Value) -> Value {
        value["done"] = true.into();
        let Some(end) = self.end else {
            value["done_reason"] = if self.keep.is_not() { "unload" } else { "load" }.into();
            return value;
        };
        value["done_reason"] = record::reason(end.reason).into();
        let (first, now) = (self.first.unwrap_or(self.started), Instant::now());
        for (name, number) in [
            ("total_duration", nanoseconds(now - self.started)),
            ("load_duration", 0),
            ("prompt_eval_count", end.prompt as u64),
            ("prompt_eval_duration", nanoseconds(first - self.started)),
            ("eval_count", end.tokens as u64),
            ("eval_duration", nanoseconds(now - first)),
        ] {
            value[name] = number.into();
        }
        value
    }

    fn take(&mut self, parts: Vec<AnswerPart>) -> Vec<Value> {
        let mut values = Vec::new();
        for part in parts {
            values.push(match part {
                AnswerPart::Content(text) => {
                    self.content.push_str(&text);
                    self.value(&text, "", &[])
                }
                AnswerPart::Reasoning(text) => {
                    self.thinking.push_str(&text);
                    self.value("", &text, &[])
                }
                AnswerPart::Call(call) => {
                    let call = json!({ "function": { "name": call.name, "arguments": call.arguments } });
                    self.calls.push(call.clone());
                    self.value("", "", &[call])
                }
            });
        }
        values
    }
}

impl Form for Answer {
    const LAST: Option<&'static str> = None;
    const FRAMING: Framing = Framing::Lines;

    fn begin(&mut self) -> Vec<Value> {
        Vec::new()
    }

    fn piece(&mut self, _: usize, piece: &Piece) -> Vec<Value> {
        self.first.get_or_insert_with(Instant::now);
        let parts = match &mut self.parser {
            Some(parser) => parser.push(&piece.text),
            None if piece.text.is_empty() => Vec::new(),
            None => vec![AnswerPart::Content(piece.text.clone())],
        };
        self.take(parts)
    }

    fn end(&mut self, _: usize, finish: &Finish) -> Vec<Value> {
        let parts = self.parser.take().map(AnswerParser::finish).unwrap_or_default();
        let values = self.take(parts);
        self.end = Some(*finish);
        values
    }

    fn done(&mut self) -> Vec<Value> {
        vec![self.ended(self.value("", "", &[]))]
    }

    fn failed(&mut self, refusal: &Refusal) -> Value {
        refusal.ollama()
    }

    fn whole(self) -> Value {
        self.ended(self.value(&self.content, &self.thinking, &self.calls))
    }
}

/// What a model can do, by Ollama's names.
fn capabilities(template: Option<&Template>) -> Vec<&'static str> {
    let mut all = vec!["completion"];
    if template.is_some_and(Template::calls) {
        all.push("tools");
    }
    if template.is_some_and(Template::thinks) {
        all.push("thinking");
    }
    all
}
