//! OpenAI's `/completions`.

use std::sync::Arc;

use axum::{body::Bytes, response::Response};
use candor::{AnswerStart, Finish, GenerateOptions, Model, Piece};
use serde_json::{Value, json};

use crate::{
    answer::Form,
    app::{App, blocking, now},
    ask,
    chat::with_usage,
    fields::{Fields, expected},
    head::Head,
    likely::{self, Likely, Watch},
    refusal::Refusal,
    shape::Shape,
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
    form: Completions,
    streamed: bool,
}

fn read(app: &App, body: &[u8]) -> Result<Asked, Refusal> {
    let served = app.served()?;
    let mut fields = Fields::of(body)?;
    let prompts = prompts(&served.model, fields.take("prompt"))?;
    let count = ask::count(&mut fields)?;
    let options = ask::options(&mut fields, &app.config, &["n_predict", "max_tokens"])?;
    let streamed = fields.flag("stream")?.unwrap_or_default();
    let with_usage = with_usage(&mut fields)?;
    let off = |value: &Value| *value == false;
    fields.refuse("echo", off, "the prompt is not repeated")?;
    let top = likely::count(&mut fields, "logprobs")?;
    fields.refuse("suffix", |value| *value == "", "text in the middle is not served")?;
    fields.refuse("best_of", |value| value.as_u64() == Some(count as u64), "all answers are given: n says how many")?;
    let shape = Shape::of(&mut fields)?;
    fields.finish(&ask::WITHOUT_EFFECT)?;
    let head = Head::new("cmpl", &served.name, now());
    let read = vec![0; prompts.len()];
    let (prompts, watches) = ask::watched(ask::each(prompts, &options, count), top, &served.model);
    let prompts = shape.bind(prompts, &served.model, &served.tokens, AnswerStart::Content)?;
    let choices = watches.into_iter().map(|watch| Choice { watch, ..Choice::default() }).collect();
    Ok(Asked { prompts, form: Completions { head, with_usage, choices, count, read }, streamed })
}

/// The prompts of a request: a text, tokens, or a list of either.
///
/// # Errors
/// If it is missing, or neither a text nor tokens.
pub fn prompts(model: &Model, value: Option<Value>) -> Result<Vec<Vec<u32>>, Refusal> {
    let wrong = |value: &Value| expected("prompt", "a string, an array of tokens, or an array of those", value);
    match value {
        None => Err(Refusal::field("prompt", "missing")),
        Some(Value::Array(list)) if list.is_empty() => Err(wrong(&Value::Array(list))),
        Some(Value::Array(list)) if list.iter().all(|item| item.is_string() || item.is_array()) => {
            list.iter().map(|item| prompt(model, item).ok_or_else(|| wrong(item))).collect()
        }
        Some(value) => Ok(vec![prompt(model, &value).ok_or_else(|| wrong(&value))?]),
    }
}

/// A text, tokens, or both in a list.
fn prompt(model: &Model, value: &Value) -> Option<Vec<u32>> {
    let tokens = |list: &Vec<Value>| list.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect();
    match value {
        Value::String(text) => Some(model.encode_prompt(text)),
        Value::Array(list) => tokens(list),
        _ => None,
    }
}

/// The answers so far.
struct Completions {
    head: Head,
    with_usage: bool,
    choices: Vec<Choice>,
    /// Answers to each prompt.
    count: usize,
    /// Tokens of each prompt.
    read: Vec<usize>,
}

/// An answer so far.
#[derive(Default)]
struct Choice {
    watch: Option<Watch>,
    text: String,
    likely: Vec<Likely>,
    reason: Option<&'static str>,
}

impl Completions {
    fn chunk(&self, index: usize, text: &str, logprobs: Value, reason: Option<&str>) -> Value {
        let choice = json!({ "text": text, "index": index, "logprobs": logprobs, "finish_reason": reason });
        self.head.chunk("text_completion", vec![choice], self.with_usage)
    }
}

impl Form for Completions {
    const LAST: Option<&'static str> = Some("[DONE]");

    fn begin(&mut self) -> Vec<Value> {
        Vec::new()
    }

    fn piece(&mut self, index: usize, piece: &Piece) -> Vec<Value> {
        let Choice { watch, text, likely, .. } = &mut self.choices[index];
        let token = watch.as_mut().zip(piece.token).and_then(|(watch, id)| watch.token(id));
        let logprobs = match token {
            Some(token) => {
                let lists = likely::lists(std::slice::from_ref(&token), text.chars().count());
                likely.push(token);
                lists
            }
            None if piece.text.is_empty() => return Vec::new(),
            None => Value::Null,
        };
        text.push_str(&piece.text);
        vec![self.chunk(index, &piece.text, logprobs, None)]
    }

    fn end(&mut self, index: usize, finish: &Finish) -> Vec<Value> {
        self.head.count(finish.tokens);
        self.read[index / self.count] = finish.prompt;
        let reason = ask::reason(finish.reason);
        self.choices[index].reason = Some(reason);
        vec![self.chunk(index, "", Value::Null, Some(reason))]
    }

    fn done(&mut self) -> Vec<Value> {
        self.head.read(self.read.iter().sum());
        self.head.last("text_completion", self.with_usage)
    }

    fn whole(self) -> Value {
        let choice = |(index, choice): (usize, Choice)| {
            let logprobs = choice.watch.map(|_| likely::lists(&choice.likely, 0));
            json!({ "text": choice.text, "index": index, "logprobs": logprobs, "finish_reason": choice.reason })
        };
        let choices = self.choices.into_iter().enumerate().map(choice).collect();
        self.head.whole("text_completion", choices)
    }
}
