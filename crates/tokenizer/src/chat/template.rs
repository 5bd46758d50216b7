//! A chat template: parsing it, and rendering a conversation with it.

use std::collections::BTreeSet;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, ErrorKind};
use serde_json::Map;

use super::date::CivilTime;
use super::message::Message;
use super::{json, python, tags};
use crate::Error;

/// Instructions of the engine after which a template is stopped, some seconds of work: far more than any conversation takes.
const MAX_WORK: u64 = 100_000_000;

/// The name under which the engine knows the template.
const NAME: &str = "chat";

/// What a template can see besides the messages.
#[derive(Clone, Debug, Default)]
pub struct ChatContext {
    /// Whether the prompt ends where the model's answer begins.
    pub add_generation_prompt: bool,
    /// The text of the BOS token, which many templates write themselves.
    pub bos_token: String,
    /// The text of the EOS token.
    pub eos_token: String,
    /// Descriptions of the tools that the model may call; undefined in the template where `None`.
    pub tools: Option<serde_json::Value>,
    /// Further variables (`enable_thinking`, `documents`...). They win over the ones above.
    pub extra: Map<String, serde_json::Value>,
    /// The date for `strftime_now`; the system's clock in UTC where `None`.
    pub now: Option<CivilTime>,
}

/// A parsed chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
}

impl ChatTemplate {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// [`Error::TemplateSyntax`] with the line where it cannot be read.
    pub fn new(source: &str) -> Result<ChatTemplate, Error> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.expect("the default delimiters are valid"));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(MAX_WORK));
        python::add_to(&mut environment);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", raise_exception);
        // Jinja2 takes every line end for a plain one.
        let text = tags::rewritten(&source.replace("\r\n", "\n").replace('\r', "\n"));
        environment
            .add_template_owned(NAME, text)
            .map_err(|error| Error::TemplateSyntax { line: error.line().unwrap_or(1), message: message(&error) })?;
        Ok(ChatTemplate { source: source.to_owned(), environment })
    }

    /// The text that it was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names of the variables that it reads: `messages`, `tools`, `enable_thinking`... Some may be its own, where they
    /// are set on one way through it and read on another.
    pub fn variables(&self) -> BTreeSet<String> {
        let template = self.environment.get_template(NAME);
        let mut variables: BTreeSet<String> =
            template.map(|template| template.undeclared_variables(false).into_iter().collect()).unwrap_or_default();
        // The engine takes `{% set x = x if x is defined else 1 %}` for the template's own.
        for question in [" is defined", " is not defined"] {
            let asked = self.source.match_indices(question).map(|(at, _)| &self.source[..at]);
            variables.extend(asked.filter_map(last_variable).map(str::to_owned));
        }
        variables
    }

    /// The prompt for a conversation.
    ///
    /// # Errors
    ///
    /// [`Error::TemplateRender`] where the template refuses the messages or trips over them.
    pub fn render(&self, messages: &[Message], context: &ChatContext) -> Result<String, Error> {
        let now = context.now;
        let mut variables = vec![
            ("messages", Value::from(Serde(messages))),
            ("add_generation_prompt", Value::from(context.add_generation_prompt)),
            ("bos_token", Value::from(context.bos_token.as_str())),
            ("eos_token", Value::from(context.eos_token.as_str())),
            ("strftime_now", Value::from_function(move |format: &str| strftime_now(format, now))),
        ];
        variables.extend(context.tools.as_ref().map(|tools| ("tools", Value::from(Serde(tools)))));
        variables.extend(context.extra.iter().map(|(name, value)| (name.as_str(), Value::from(Serde(value)))));
        let render = || self.environment.get_template(NAME)?.render(Value::from_pairs(variables));
        render().map_err(|error| Error::TemplateRender { line: error.line(), message: message(&error) })
    }
}

/// The name that a text ends with, unless it is that of a part of something.
fn last_variable(text: &str) -> Option<&str> {
    let start = text.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    // What is not part of a name may be a character of several bytes.
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at))?;
    (!text[start..].is_empty() && !text[..start].ends_with('.')).then_some(&text[start..])
}

/// What an engine's error says in one line, without its place: the detail where there is one, which for `raise_exception` is
/// the template's own words.
fn message(error: &minijinja::Error) -> String {
    use ErrorKind::{InvalidOperation, SyntaxError, UnknownFilter, UnknownFunction, UnknownMethod, UnknownTest};
    let message = match (error.kind(), error.detail()) {
        (InvalidOperation | SyntaxError, Some(detail)) => detail.to_owned(),
        (UnknownFilter | UnknownFunction | UnknownMethod | UnknownTest, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn raise_exception(message: &str) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message.to_owned()))
}

fn strftime_now(format: &str, now: Option<CivilTime>) -> Result<String, minijinja::Error> {
    let wrong = |message| minijinja::Error::new(ErrorKind::InvalidOperation, message);
    let now = now.or_else(CivilTime::utc_now).ok_or_else(|| wrong("strftime_now: no date is known here".to_owned()))?;
    now.format(format).map_err(|directive| wrong(format!("strftime_now: unknown directive {directive:?}")))
}

/// The filter `tojson(ensure_ascii, indent, separators, sort_keys)`, with the defaults of Hugging Face's.
fn to_json(value: &Value, options: Kwargs) -> Result<String, minijinja::Error> {
    let style = json::Style::from_arguments(&options)?;
    options.assert_all_used()?;
    json::dumps(value, &style)
}
