//! llama.cpp's `/infill`: the middle of a text, between what comes before it and what comes after it.

use candor::{Encode, FillIn, Tokenizer};
use serde_json::Value;

use crate::{
    app::{App, Served},
    ask::Asked,
    fields::{Fields, expected},
    native::{self, Completion},
    refusal::Refusal,
};

/// Texts around the middle.
struct Around {
    prefix: String,
    suffix: String,
    /// Files besides: their names and texts.
    extra: Vec<(String, String)>,
    /// How the middle begins.
    begun: String,
}

/// What parts files where the model has no token for it: llama.cpp's.
const SNIP: &str = "\n\n--- snip ---\n\n";

/// Understands a request.
///
/// # Errors
/// If it is refused, or the model has no tokens for it.
pub fn read(app: &App, served: &Served, mut fields: Fields) -> Result<Asked<Completion>, Refusal> {
    let tokenizer = served.model.tokenizer();
    let unable = || {
        Refusal::other_model("the model fills in no text: its vocabulary lacks the tokens for prefix, suffix or middle")
    };
    let marks = tokenizer.fill_in().ok_or_else(unable)?;
    let needed = |name: &str, text: Option<String>| text.ok_or_else(|| Refusal::field(name, "missing"));
    let around = Around {
        prefix: needed("input_prefix", fields.text("input_prefix")?)?,
        suffix: needed("input_suffix", fields.text("input_suffix")?)?,
        extra: extra(fields.list("input_extra")?.unwrap_or_default())?,
        begun: fields.text("prompt")?.unwrap_or_default(),
    };
    native::answer(app, served, fields, vec![around.prompt(tokenizer, marks)])
}

fn extra(list: Vec<Value>) -> Result<Vec<(String, String)>, Refusal> {
    let file = |(n, value): (usize, Value)| {
        let string = |name: &str| match &value[name] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            other => Err(expected(&format!("input_extra[{n}].{name}"), "a string", other)),
        };
        let text = string("text")?.ok_or_else(|| Refusal::field(&format!("input_extra[{n}].text"), "missing"))?;
        Ok((string("filename")?.unwrap_or_else(|| "tmp".to_owned()), text))
    };
    list.into_iter().enumerate().map(file).collect()
}

impl Around {
    /// The prompt, as llama.cpp makes it of a repository's files. Nothing is cut, and what a text begins with comes first.
    fn prompt(&self, tokenizer: &Tokenizer, marks: FillIn) -> Vec<u32> {
        let mut ids: Vec<u32> = tokenizer.bos().filter(|_| tokenizer.add_bos()).into_iter().collect();
        let text = |ids: &mut Vec<u32>, text: &str| ids.extend(tokenizer.encode(text, Encode::text()));
        if let Some(repository) = marks.repository {
            ids.push(repository);
            text(&mut ids, "myproject\n");
        }
        for (name, content) in &self.extra {
            match marks.file {
                Some(file) => {
                    ids.push(file);
                    text(&mut ids, &format!("{name}\n"));
                }
                None => text(&mut ids, SNIP),
            }
            text(&mut ids, content);
        }
        if let Some(file) = marks.file {
            ids.push(file);
            text(&mut ids, "filename\n");
        }
        ids.push(marks.prefix);
        text(&mut ids, &self.prefix);
        text(&mut ids, &self.begun);
        ids.push(marks.suffix);
        text(&mut ids, &self.suffix);
        ids.push(marks.middle);
        ids
    }
}
