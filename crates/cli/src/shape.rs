//! The shape that answers are to have, by the arguments: found wrong before a model is loaded, and then a mask for each answer.

use std::{cell::RefCell, path::PathBuf, sync::Arc};

use candor::{AnswerStart, GenerateOptions, Tokenizer};
use candor_grammar::{Grammar, Vocabulary};

use crate::{
    args::{Line, ShapeArgs},
    errors::Error,
    text,
};

/// The shape of answers.
pub struct Shape {
    /// The flag that gave it, and what it gave.
    grammar: Option<(&'static str, Grammar)>,
    /// The tokens of the model that answered last.
    vocabulary: RefCell<Option<(Arc<Tokenizer>, Arc<Vocabulary>)>>,
}

impl Shape {
    /// The one that the arguments ask for, if they ask for any.
    pub fn of(line: &Line, args: &ShapeArgs) -> Result<Shape, Error> {
        let ids = ["json_schema", "json_schema_file", "grammar", "grammar_file", "regex"];
        let from = |file: &Option<PathBuf>| file.as_deref().map(text::of_file).transpose();
        let (flag, given) = match line.exclusive(&ids)? {
            Some("json_schema") => ("--json-schema", args.json_schema.clone()),
            Some("json_schema_file") => ("--json-schema-file", from(&args.json_schema_file)?),
            Some("grammar") => ("--grammar", args.grammar.clone()),
            Some("grammar_file") => ("--grammar-file", from(&args.grammar_file)?),
            Some(_) => ("--regex", args.regex.clone()),
            None => ("", None),
        };
        let read = |text: String| match flag {
            "--json-schema" | "--json-schema-file" => {
                let schema = serde_json::from_str(&text).map_err(|error| format!("expected JSON: {error}"))?;
                Grammar::json_schema(&schema).map_err(|error| error.to_string())
            }
            "--regex" => Grammar::regex(&text).map_err(|error| error.to_string()),
            _ => Grammar::gbnf(&text).map_err(|error| error.to_string()),
        };
        let wrong = |problem| Error::Shape { flag, problem };
        let grammar = given.filter(|text| !text.is_empty()).map(read).transpose().map_err(wrong)?;
        Ok(Shape { grammar: grammar.map(|grammar| (flag, grammar)), vocabulary: RefCell::default() })
    }

    /// Has an answer that begins so have the shape.
    pub fn bind(
        &self,
        options: GenerateOptions,
        tokenizer: &Arc<Tokenizer>,
        start: AnswerStart,
    ) -> Result<GenerateOptions, Error> {
        let Some((flag, grammar)) = &self.grammar else { return Ok(options) };
        let flag = *flag;
        let wrong = |problem: String| Error::Shape { flag, problem };
        if options.ignore_eos {
            return Err(wrong("--ignore-eos would never let the answer end".to_owned()));
        }
        let mut known = self.vocabulary.borrow_mut();
        let vocabulary = match &*known {
            Some((of, vocabulary)) if Arc::ptr_eq(of, tokenizer) => vocabulary.clone(),
            _ => {
                let made = Arc::new(Vocabulary::new(tokenizer).map_err(|error| wrong(error.to_string()))?);
                *known = Some((tokenizer.clone(), made.clone()));
                made
            }
        };
        let mask = grammar.mask(&vocabulary).map_err(|error| wrong(error.to_string()))?;
        let mask = mask.after(start, &options.marks);
        Ok(options.processor(mask))
    }
}
