//! The shape that a request asks its answers to have: schemas and grammars, by the names of OpenAI and of llama.cpp's server.

use std::sync::{Arc, OnceLock};

use candor::{AnswerStart, Model};
use candor_grammar::{Error, Grammar, Vocabulary};
use serde_json::{Map, Value, json};

use crate::{
    ask::Prompts,
    calls::Calls,
    fields::{Fields, expected},
    refusal::Refusal,
    template::{Conversation, Template},
};

/// The shape of answers; any by default.
#[derive(Default)]
pub struct Shape {
    /// The field that asks for it, and what it asks for.
    grammar: Option<(&'static str, Grammar)>,
    /// The control tokens that are part of the text.
    marks: Vec<u32>,
}

/// The model's tokens as grammars need them, made where the first request asks for a shape.
#[derive(Default)]
pub struct Tokens {
    text: OnceLock<Arc<Vocabulary>>,
    /// The same with the marks of the chat template, for calls of tools.
    marks: OnceLock<Arc<Vocabulary>>,
}

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
        Ok(Shape::new(all.pop().map(|(field, grammar)| read(field, grammar)).transpose()?))
    }

    /// The one that OpenAI's responses ask for, by `text.format`.
    ///
    /// # Errors
    /// As [`Shape::of`].
    pub fn of_text(fields: &mut Fields) -> Result<Shape, Refusal> {
        let Some(mut text) = fields.object("text")? else { return Ok(Shape::default()) };
        let mut grammar = None;
        match text.shift_remove("format").unwrap_or_default() {
            Value::Null => {}
            Value::Object(mut flat) => {
                // A schema and its name lie beside the type.
                let is_named = flat.get("type").is_some_and(|kind| kind == "json_schema");
                let schema = is_named.then(|| {
                    NAMED.iter().for_each(|field| drop(flat.shift_remove(*field)));
                    flat.shift_remove("schema")
                });
                let schema = format_of("text.format", flat, schema.flatten())?;
                grammar = schema.map(|schema| read("text.format", Grammar::json_schema(&schema))).transpose()?;
            }
            other => return Err(expected("text.format", "an object", &other)),
        }
        nothing_left("text", &text)?;
        Ok(Shape::new(grammar))
    }

    /// The one that Ollama's requests ask for, by `format`.
    ///
    /// # Errors
    /// As [`Shape::of`].
    pub fn of_format(fields: &mut Fields) -> Result<Shape, Refusal> {
        let grammar = match fields.take("format") {
            None => None,
            Some(Value::String(name)) if name.is_empty() => None,
            Some(Value::String(name)) if name == "json" => Some(Grammar::json()),
            Some(schema @ Value::Object(_)) => Some(Grammar::json_schema(&schema)),
            Some(other) => return Err(expected("format", "\"json\" or a schema", &other)),
        };
        Ok(Shape::new(grammar.map(|grammar| read("format", grammar)).transpose()?))
    }

    fn new(grammar: Option<(&'static str, Grammar)>) -> Shape {
        Shape { grammar, marks: Vec::new() }
    }

    /// The one of an answer to a conversation: that of a call, where there has to be one.
    ///
    /// # Errors
    /// If there are tools beside a shape, or such calls are not served.
    pub fn or_call(self, asked: &Conversation, template: Option<&Template>) -> Result<Shape, Refusal> {
        match (&self.grammar, template) {
            (Some((field, _)), _) if asked.tools.is_some() => {
                Err(Refusal::unsupported(field, "a shape beside tools is not served"))
            }
            (None, Some(template)) if asked.calls != Calls::Free => {
                let grammar = asked.calls.grammar(asked.tools.as_ref(), template.call_parts())?;
                Ok(Shape { grammar: Some(("tool_choice", grammar)), marks: template.marks().to_vec() })
            }
            _ => Ok(self),
        }
    }

    /// Has answers that begin so have the shape.
    ///
    /// # Errors
    /// If the answers could not end, or the model's tokens cannot have a shape.
    pub fn bind(&self, asked: Prompts, model: &Model, tokens: &Tokens, start: AnswerStart) -> Result<Prompts, Refusal> {
        let Some((field, grammar)) = &self.grammar else { return Ok(asked) };
        let wrong = |error: Error| Refusal::field(field, error.to_string());
        let vocabulary = tokens.of(model, &self.marks).map_err(wrong)?;
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
    /// The marks are always those of the one template, or none.
    fn of(&self, model: &Model, marks: &[u32]) -> Result<Arc<Vocabulary>, Error> {
        let place = if marks.is_empty() { &self.text } else { &self.marks };
        if let Some(known) = place.get() {
            return Ok(known.clone());
        }
        let made = Arc::new(Vocabulary::showing(model.tokenizer(), marks)?);
        Ok(place.get_or_init(|| made).clone())
    }
}

/// What a schema is named with. It binds whether it is called strict or not.
const NAMED: [&str; 3] = ["name", "description", "strict"];

fn read(field: &'static str, grammar: Result<Grammar, Error>) -> Result<(&'static str, Grammar), Refusal> {
    grammar.map(|grammar| (field, grammar)).map_err(|error| Refusal::field(field, error.to_string()))
}

/// The schema of a `response_format`; `None` where it is any text.
fn format(mut format: Map<String, Value>) -> Result<Option<Value>, Refusal> {
    let name = "response_format.json_schema";
    let schema = match format.get("type").and_then(Value::as_str) {
        Some("json_schema") => {
            let mut named = match format.shift_remove("json_schema") {
                Some(Value::Object(named)) => named,
                Some(other) => return Err(expected(name, "an object", &other)),
                None => return Err(Refusal::field(name, "missing")),
            };
            NAMED.iter().for_each(|field| drop(named.shift_remove(*field)));
            let missing = || Refusal::field(&format!("{name}.schema"), "missing");
            let schema = named.shift_remove("schema").ok_or_else(missing)?;
            nothing_left(name, &named)?;
            Some(schema)
        }
        _ => None,
    };
    format_of("response_format", format, schema)
}

/// The schema of a format of this name, whose own is `schema` where it is of type `json_schema`; `None` where it is any text.
fn format_of(name: &str, mut format: Map<String, Value>, schema: Option<Value>) -> Result<Option<Value>, Refusal> {
    let kind = format.shift_remove("type").unwrap_or_default();
    let schema = match kind.as_str() {
        Some("text") => None,
        Some("json_object") => Some(format.shift_remove("schema").unwrap_or_else(|| json!({ "type": "object" }))),
        Some("json_schema") => Some(schema.ok_or_else(|| Refusal::field(&format!("{name}.schema"), "missing"))?),
        _ => return Err(expected(&format!("{name}.type"), "text, json_object or json_schema", &kind)),
    };
    nothing_left(name, &format)?;
    Ok(schema)
}

fn nothing_left(name: &str, fields: &Map<String, Value>) -> Result<(), Refusal> {
    match fields.keys().next() {
        None => Ok(()),
        Some(field) => Err(Refusal::unsupported(&format!("{name}.{field}"), "this field is not served")),
    }
}
