//! The shape that a request asks its answers to have: schemas and grammars, by the names of OpenAI and of llama.cpp's server.

use std::sync::{Arc, OnceLock};

use candor::{AnswerStart, Model};
use candor_grammar::{Error, Grammar, Vocabulary};
use serde_json::{Map, Value, json};

use crate::{
    ask::Prompts,
    fields::{Fields, expected},
    refusal::Refusal,
};

/// The shape of answers.
pub struct Shape {
    /// The field that asks for it, and what it asks for.
    grammar: Option<(&'static str, Grammar)>,
}

/// The model's tokens as grammars need them, made where the first request asks for a shape.
#[derive(Default)]
pub struct Tokens(OnceLock<Arc<Vocabulary>>);

impl Shape {
    /// The one that a request's fields ask for: `response_format`, or llama.cpp's `json_schema` and `grammar`.
    ///
    /// # Errors
    /// If a schema or a grammar is wrong or not served, or there are several.
    pub fn of(fields: &mut Fields) -> Result<Shape, Refusal> {
        let mut all = Vec::new();
        let format = fields.object("response_format")?.map(format).transpose()?;
        all.extend(format.flatten().map(|schema| ("response_format", Grammar::json_schema(&schema))));
        all.extend(fields.take("json_schema").map(|schema| ("json_schema", Grammar::json_schema(&schema))));
        let grammar = fields.text("grammar")?.filter(|grammar| !grammar.is_empty());
        all.extend(grammar.map(|grammar| ("grammar", Grammar::gbnf(&grammar))));
        if let [_, (field, _), ..] = all[..] {
            return Err(Refusal::field(field, "an answer has one shape: another field asks for one, too"));
        }
        let read = |(field, grammar): (_, Result<_, Error>)| match grammar {
            Ok(grammar) => Ok((field, grammar)),
            Err(error) => Err(Refusal::field(field, error.to_string())),
        };
        Ok(Shape { grammar: all.pop().map(read).transpose()? })
    }

    /// Refuses a shape beside tools: an answer may be a call of one.
    ///
    /// # Errors
    /// If there are both.
    pub fn without_tools(&self, tools: bool) -> Result<(), Refusal> {
        match &self.grammar {
            Some((field, _)) if tools => Err(Refusal::unsupported(field, "a shape beside tools is not served")),
            _ => Ok(()),
        }
    }

    /// Has answers that begin so have the shape.
    ///
    /// # Errors
    /// If the answers could not end, or the model's tokens cannot have a shape.
    pub fn bind(&self, asked: Prompts, model: &Model, tokens: &Tokens, start: AnswerStart) -> Result<Prompts, Refusal> {
        let Some((field, grammar)) = &self.grammar else { return Ok(asked) };
        let wrong = |error: Error| Refusal::field(field, error.to_string());
        let vocabulary = tokens.of(model).map_err(wrong)?;
        // The marks are the template's, the same for all.
        let marks = asked.first().map(|(_, options)| options.marks.clone()).unwrap_or_default();
        let mask = grammar.mask(&vocabulary).map_err(wrong)?.after(start, &marks);
        let mut bound = Vec::new();
        for (prompt, options) in asked {
            if options.ignore_eos {
                return Err(Refusal::field("ignore_eos", format!("an answer of {field} ends by itself")));
            }
            bound.push((prompt, options.processor(mask.clone())));
        }
        Ok(bound)
    }
}

impl Tokens {
    fn of(&self, model: &Model) -> Result<Arc<Vocabulary>, Error> {
        if let Some(known) = self.0.get() {
            return Ok(known.clone());
        }
        let made = Arc::new(Vocabulary::new(model.tokenizer())?);
        Ok(self.0.get_or_init(|| made).clone())
    }
}

/// The schema of a `response_format`; `None` where it is any text.
fn format(mut format: Map<String, Value>) -> Result<Option<Value>, Refusal> {
    let kind = format.shift_remove("type").unwrap_or_default();
    let schema = match kind.as_str() {
        Some("text") => None,
        Some("json_object") => Some(format.shift_remove("schema").unwrap_or_else(|| json!({ "type": "object" }))),
        Some("json_schema") => {
            let name = "response_format.json_schema";
            let mut named = match format.shift_remove("json_schema") {
                Some(Value::Object(named)) => named,
                Some(other) => return Err(expected(name, "an object", &other)),
                None => return Err(Refusal::field(name, "missing")),
            };
            // A schema binds whether it is called strict or not.
            for field in ["name", "description", "strict"] {
                named.shift_remove(field);
            }
            let missing = || Refusal::field(&format!("{name}.schema"), "missing");
            let schema = named.shift_remove("schema").ok_or_else(missing)?;
            nothing_left(name, &named)?;
            Some(schema)
        }
        _ => return Err(expected("response_format.type", "text, json_object or json_schema", &kind)),
    };
    nothing_left("response_format", &format)?;
    Ok(schema)
}

fn nothing_left(name: &str, fields: &Map<String, Value>) -> Result<(), Refusal> {
    match fields.keys().next() {
        None => Ok(()),
        Some(field) => Err(Refusal::unsupported(&format!("{name}.{field}"), "this field is not served")),
    }
}
