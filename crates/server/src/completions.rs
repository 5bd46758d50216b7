//! OpenAI's `/completions`.

use std::mem;

use candor::{AnswerStart, Encode, Finish, Model, Piece, Tokenizer};
use serde_json::{Value, json};

use crate::{
    answer::Form,
    app::{App, Served, now},
    ask::{self, Asked},
    chat::with_usage,
    echo::{self, Echo},
    fields::{Fields, expected},
    head::Head,
    likely::{self, Lists},
    record::{self, Record, Shared, Wanted},
    refusal::Refusal,
    shape::Shape,
};

/// Understands a request.
///
/// # Errors
/// If it is refused.
pub fn read(app: &App, served: &Served, mut fields: Fields) -> Result<Asked<Completions>, Refusal> {
    let prompts = prompts(&served.model, fields.take("prompt"))?;
    let count = ask::count(&mut fields)?;
    let options = ask::options(&mut fields, &app.config, &served.model, &["n_predict", "max_tokens"])?;
    let streamed = fields.flag("stream")?.unwrap_or_default();
    let with_usage = with_usage(&mut fields)?;
    let echo = fields.flag("echo")?.unwrap_or_default();
    let top = likely::count(&mut fields, "logprobs")?;
    fields.refuse("suffix", |value| *value == "", "text in the middle is not served")?;
    fields.refuse("best_of", |value| value.as_u64() == Some(count as u64), "all answers are given: n says how many")?;
    let wanted = Wanted::of(&mut fields, &app.config)?;
    let shape = Shape::of(&mut fields)?;
    fields.finish(&ask::WITHOUT_EFFECT)?;
    let head = Head::new("cmpl", &served.name, now());
    let read = vec![None; prompts.len()];
    let prompts = ask::each(prompts, &options, count);
    let (prompts, echoes) = match echo {
        true => echo::echoed(prompts, top, served.model.tokenizer()),
        false => prompts.into_iter().map(|asked| (asked, None)).unzip(),
    };
    let (prompts, watches) = ask::watched(prompts, top, &served.model);
    let prompts = shape.bind(prompts, &served.model, &served.tokens, AnswerStart::Content)?;
    let shared = Shared::new(&served.name, wanted, &options, served.model.tokenizer());
    let records = record::each(shared, &prompts, watches).into_iter().zip(echoes);
    let choices = records.map(|(record, echo)| Choice { record, echo, begun: false, reason: None }).collect();
    Ok(Asked { prompts, form: Completions { head, with_usage, choices, count, read }, streamed })
}

/// The prompts of a request: a text, tokens, both in a list, or a list of either.
///
/// # Errors
/// If it is missing, or neither a text nor tokens.
pub fn prompts(model: &Model, value: Option<Value>) -> Result<Vec<Vec<u32>>, Refusal> {
    texts(model, "prompt", value)
}

/// The texts of a field of that name: a text, tokens, both in a list, or a list of either.
///
/// # Errors
/// If it is missing, or neither a text nor tokens.
pub fn texts(model: &Model, name: &str, value: Option<Value>) -> Result<Vec<Vec<u32>>, Refusal> {
    match value {
        None => Err(Refusal::field(name, "missing")),
        Some(Value::Array(list)) if !list.is_empty() && !list.iter().any(Value::is_number) => {
            list.iter().map(|item| text(model, name, item)).collect()
        }
        Some(value) => Ok(vec![text(model, name, &value)?]),
    }
}

fn text(model: &Model, name: &str, value: &Value) -> Result<Vec<u32>, Refusal> {
    let wrong = || expected(name, "a string, an array of strings and tokens, or an array of those", value);
    let text = match value {
        Value::Object(object) => {
            if object.get("multimodal_data").is_some_and(|data| data.as_array().is_none_or(|data| !data.is_empty())) {
                return Err(Refusal::unsupported(&format!("{name}.multimodal_data"), "only text is served"));
            }
            object.get("prompt_string").filter(|text| text.is_string()).ok_or_else(wrong)?
        }
        Value::Array(list) if list.is_empty() => return Err(wrong()),
        other => other,
    };
    mixed(model.tokenizer(), text, Encode::prompt()).ok_or_else(wrong)
}

/// The tokens of a text, or of texts and tokens in a list: only a text at its beginning gets what a prompt begins with.
pub fn mixed(tokenizer: &Tokenizer, value: &Value, how: Encode) -> Option<Vec<u32>> {
    let list = match value {
        Value::Array(list) => &list[..],
        text => std::slice::from_ref(text),
    };
    let mut ids = Vec::new();
    for (n, item) in list.iter().enumerate() {
        match item {
            Value::String(text) => {
                let mut how = how;
                how.bos &= n == 0;
                ids.extend(tokenizer.encode(text, how));
            }
            Value::Number(id) if value.is_array() => ids.push(u32::try_from(id.as_u64()?).ok()?),
            _ => return None,
        }
    }
    Some(ids)
}

/// The answers so far.
pub struct Completions {
    head: Head,
    with_usage: bool,
    choices: Vec<Choice>,
    /// Answers to each prompt.
    count: usize,
    /// Tokens of each prompt, and how many of them no answer had to read.
    read: Vec<Option<(usize, usize)>>,
}

/// An answer so far.
struct Choice {
    record: Record,
    /// The prompt, where the answer repeats it.
    echo: Option<Echo>,
    /// Whether a stream has sent that.
    begun: bool,
    reason: Option<&'static str>,
}

impl Choice {
    /// Characters in front of what the model writes next.
    fn offset(&self) -> usize {
        self.echo.as_ref().map_or(0, |echo| echo.text().chars().count()) + self.record.content().chars().count()
    }

    /// All text, and how likely its tokens were.
    fn whole(&self) -> (String, Option<Lists>) {
        let echo = self.echo.as_ref();
        let text = echo.map_or("", Echo::text);
        let lists = self.record.likely().map(|likely| {
            let mut lists = echo.and_then(Echo::lists).unwrap_or_default();
            lists.extend(likely, text.chars().count());
            lists
        });
        (text.to_owned() + self.record.content(), lists)
    }
}

impl Completions {
    fn chunk(&self, index: usize, text: &str, logprobs: Option<Lists>, reason: Option<&str>) -> Value {
        let logprobs = logprobs.map(Lists::json);
        let choice = json!({ "text": text, "index": index, "logprobs": logprobs, "finish_reason": reason });
        self.head.chunk("text_completion", vec![choice], self.with_usage)
    }

    fn progress(&self, index: usize, progress: Option<Value>) -> Option<Value> {
        let mut chunk = self.chunk(index, "", None, None);
        self.choices[index].record.note(&mut chunk, Some(progress?));
        Some(chunk)
    }

    /// The prompt, once, where the answer repeats it.
    fn echo(&mut self, index: usize) -> Option<Value> {
        let choice = &mut self.choices[index];
        let was_begun = mem::replace(&mut choice.begun, true);
        let echo = self.choices[index].echo.as_ref().filter(|_| !was_begun)?;
        Some(self.chunk(index, echo.text(), echo.lists(), None))
    }
}

impl Form for Completions {
    const LAST: Option<&'static str> = Some("[DONE]");

    fn begin(&mut self) -> Vec<Value> {
        Vec::new()
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
        let mut chunks = Vec::from_iter(self.echo(index));
        let offset = self.choices[index].offset();
        let lists = self.choices[index].record.piece(piece).map(|likely| {
            let mut lists = Lists::default();
            lists.push(likely, offset);
            lists
        });
        if lists.is_some() || !piece.text.is_empty() {
            let mut chunk = self.chunk(index, &piece.text, lists, None);
            self.choices[index].record.note(&mut chunk, None);
            chunks.push(chunk);
        }
        chunks
    }

    fn end(&mut self, index: usize, finish: &Finish) -> Vec<Value> {
        self.head.count(finish.tokens);
        let read = &mut self.read[index / self.count];
        let reused = read.map_or(finish.reused, |(_, reused)| reused.min(finish.reused));
        *read = Some((finish.prompt, reused));
        let mut chunks = Vec::from_iter(self.echo(index));
        let reason = record::reason(finish.reason);
        let offset = self.choices[index].offset();
        let choice = &mut self.choices[index];
        choice.record.end(finish);
        choice.reason = Some(reason);
        let lists = choice.echo.as_ref().and_then(|_| choice.record.end_likely(finish)).map(|likely| {
            let mut lists = Lists::default();
            lists.push(likely, offset);
            lists
        });
        let mut chunk = self.chunk(index, "", lists, Some(reason));
        let record = &self.choices[index].record;
        chunk["timings"] = record.timings();
        record.explain(&mut chunk);
        chunks.push(chunk);
        chunks
    }

    fn done(&mut self) -> Vec<Value> {
        self.read.iter().flatten().for_each(|&(tokens, reused)| self.head.read(tokens, reused));
        let mut last = self.head.last("text_completion", self.with_usage);
        if let Some((last, first)) = last.first_mut().zip(self.choices.first()) {
            last["timings"] = first.record.timings();
        }
        last
    }

    fn whole(self) -> Value {
        let choice = |(index, choice): (usize, &Choice)| {
            let (text, lists) = choice.whole();
            let logprobs = lists.map(Lists::json);
            json!({ "text": text, "index": index, "logprobs": logprobs, "finish_reason": choice.reason })
        };
        let choices = self.choices.iter().enumerate().map(choice).collect();
        let mut whole = self.head.whole("text_completion", choices);
        if let Some(Choice { record, .. }) = self.choices.first() {
            whole["timings"] = record.timings();
            record.explain(&mut whole);
        }
        whole
    }
}
