//! What shape a text shall have.

use std::sync::Arc;

use llguidance::{JsonCompileOptions, api::TopLevelGrammar};
use serde_json::{Value, json};

use crate::{Error, Mask, Vocabulary, gbnf::Rules, guided, schema};

/// What shape a text shall have. It is checked when it is made, and is cheap to clone.
#[derive(Clone, Debug)]
pub struct Grammar(Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Guided(Arc<TopLevelGrammar>),
    Gbnf(Arc<Rules>),
}

/// A part of a text: see [`Grammar::one_of`].
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// This text.
    Text(String),
    /// A text that a regular expression describes, as in [`Grammar::regex`].
    Pattern(String),
    /// A value that a JSON schema describes, as in [`Grammar::json_schema`].
    Json(Value),
}

/// White space in JSON as llama.cpp allows it: a space, or line breaks with an indentation. Where any were allowed, some models
/// would write nothing else.
const SPACE: &str = r" |\n{1,2}[ \t]{0,20}";

impl Grammar {
    /// A value that a JSON schema (draft 2020-12 and earlier) describes. Keys of objects come in the schema's order.
    ///
    /// # Errors
    /// [`Error::Schema`] with the keyword that is not served, or that contradicts another.
    pub fn json_schema(schema: &Value) -> Result<Grammar, Error> {
        Grammar::guided(TopLevelGrammar::from_json_schema(served(schema)?)).map_err(Error::Schema)
    }

    /// One of several texts, each of which has these parts one after the other.
    ///
    /// # Errors
    /// [`Error::Schema`] and [`Error::Lark`], where a part is wrong.
    ///
    /// ```
    /// use candor_grammar::{Grammar, Part};
    ///
    /// let number = || Part::Json(serde_json::json!({ "type": "integer" }));
    /// let text = |text: &str| Part::Text(text.to_owned());
    /// Grammar::one_of(&[vec![text("x = "), number()], vec![text("y = "), number(), text(";")]])?;
    /// # Ok::<(), candor_grammar::Error>(())
    /// ```
    pub fn one_of(texts: &[Vec<Part>]) -> Result<Grammar, Error> {
        let mut ways = Vec::new();
        for parts in texts {
            let part = |part: &Part| {
                Ok(match part {
                    Part::Text(text) => Value::from(text.as_str()).to_string(),
                    Part::Pattern(pattern) => format!("/{}/", pattern.replace('/', "\\/")),
                    Part::Json(schema) => {
                        // Alone, so that an error is one of schemas.
                        Grammar::json_schema(schema)?;
                        format!("%json {}", served(schema)?)
                    }
                })
            };
            ways.push(parts.iter().map(part).collect::<Result<Vec<_>, Error>>()?.join(" "));
        }
        Grammar::lark(&format!("start: {}\n", ways.join("\n  | ")))
    }

    /// A JSON object.
    ///
    /// # Errors
    /// None that is known.
    pub fn json() -> Result<Grammar, Error> {
        Grammar::json_schema(&json!({ "type": "object" }))
    }

    /// A text that a regular expression describes as a whole, in the syntax of Rust's crate `regex`.
    ///
    /// # Errors
    /// [`Error::Regex`] with what is wrong.
    pub fn regex(expression: &str) -> Result<Grammar, Error> {
        Grammar::guided(TopLevelGrammar::from_regex(expression)).map_err(Error::Regex)
    }

    /// A text by a grammar in Lark's syntax, as `llguidance` reads it.
    ///
    /// # Errors
    /// [`Error::Lark`] with what is wrong.
    pub fn lark(grammar: &str) -> Result<Grammar, Error> {
        Grammar::guided(TopLevelGrammar::from_lark(grammar.to_owned())).map_err(Error::Lark)
    }

    /// A text by a grammar in GBNF, llama.cpp's syntax, which begins with the rule `root`.
    ///
    /// # Errors
    /// [`Error::Gbnf`] with the line, and what is wrong there.
    pub fn gbnf(grammar: &str) -> Result<Grammar, Error> {
        Ok(Grammar(Kind::Gbnf(Arc::new(Rules::parse(grammar)?))))
    }

    fn guided(grammar: TopLevelGrammar) -> Result<Grammar, String> {
        guided::check(&grammar)?;
        Ok(Grammar(Kind::Guided(Arc::new(grammar))))
    }

    /// What makes one answer follow it, with the tokens of the model that answers. Each answer needs one of its own, or a clone.
    ///
    /// # Errors
    /// If the grammar names tokens that the vocabulary lacks.
    pub fn mask(&self, vocabulary: &Arc<Vocabulary>) -> Result<Mask, Error> {
        Mask::new(&self.0, vocabulary)
    }
}

/// A schema in the words that the library takes, with its options.
fn served(schema: &Value) -> Result<Value, Error> {
    schema::check(schema).map_err(Error::Schema)?;
    let mut schema = match schema {
        // Options lie beside keywords.
        Value::Bool(true) => json!({}),
        other => schema::strict(other),
    };
    if schema.is_object() {
        let options =
            JsonCompileOptions { whitespace_pattern: Some(SPACE.to_owned()), ..JsonCompileOptions::default() };
        options.apply_to(&mut schema);
    }
    Ok(schema)
}
