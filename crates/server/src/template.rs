//! The chat template of the model that is served: conversations as prompts, and how the answers are read.

use std::{collections::BTreeSet, sync::Arc};

use candor::{AnswerFormat, AnswerParser, AnswerStart, CallPart, ChatTemplate, CivilTime, Error, Message, Model};
use serde_json::{Map, Value};

use crate::{calls::Calls, refusal::Refusal};

/// A template, and what was found out of it.
pub struct Template {
    template: Arc<ChatTemplate>,
    format: AnswerFormat,
    marks: Vec<u32>,
    variables: BTreeSet<String>,
}

/// A conversation, as a request has it.
pub struct Conversation {
    /// The messages.
    pub messages: Vec<Message>,
    /// The tools that may be called.
    pub tools: Option<Value>,
    /// Which of them have to be.
    pub calls: Calls,
    /// Further variables of the template.
    pub variables: Map<String, Value>,
    /// Whether the prompt ends where an answer begins.
    pub opens: bool,
    /// How the answer begins, where it goes on from there.
    pub begun: Option<String>,
}

/// Variables that turn thinking on and off.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];
/// Variables that say how much.
const LEVELS: [&str; 2] = ["reasoning_effort", "reasoning_strength"];
/// A variable of tokens, of which 0 are no thinking.
const BUDGET: &str = "thinking_budget";

/// Variables of the date, and how it is written: llama.cpp's.
const DATES: [(&str, &str); 2] = [("date_string", "%d %b %Y"), ("datetime", "%b %d %Y")];

impl Template {
    /// The one that is given, or the file's, or the one that the file's tokens make sure of.
    ///
    /// # Errors
    /// If the file's cannot be parsed.
    pub fn of(model: &Model, given: Option<Arc<ChatTemplate>>) -> Result<Option<Template>, Error> {
        let own = || model.chat_template()?.map(|own| ChatTemplate::new(own.source()).map_err(Error::from)).transpose();
        let template = match given {
            Some(template) => Some(template),
            None => own()?.map(Arc::new),
        };
        let fitting = || ChatTemplate::fitting(model.tokenizer()).and_then(|fit| ChatTemplate::named(fit.name));
        Ok(template.or_else(|| fitting().map(Arc::new)).map(|template| {
            let format = template.answer_format();
            let (marks, variables) = (format.marks(model.tokenizer()), template.variables());
            Template { template, format, marks, variables }
        }))
    }

    /// The text that it was parsed from.
    pub fn source(&self) -> &str {
        self.template.source()
    }

    /// The tokens that an answer must show.
    pub fn marks(&self) -> &[u32] {
        &self.marks
    }

    /// Whether it reads a variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    /// What the answer to a prompt says before its content.
    pub fn start(&self, prompt: &str) -> AnswerStart {
        self.format.start(prompt)
    }

    /// The parts of a call; `None` where they are not known.
    pub fn call_parts(&self) -> Option<&[CallPart]> {
        self.format.call_parts()
    }

    /// Whether answers have reasoning.
    pub fn thinks(&self) -> bool {
        self.format.has_reasoning()
    }

    /// Whether tools can be called.
    pub fn calls(&self) -> bool {
        self.format.tools().is_ok() && self.format.tells_of_tools()
    }

    /// The variables that have the model think or not.
    ///
    /// # Errors
    /// If the model thinks, and the template cannot have it not do so.
    pub fn thinking(&self, on: bool) -> Result<Map<String, Value>, &'static str> {
        let read = SWITCHES.into_iter().filter(|name| self.reads(name));
        let switches: Map<String, Value> = read.map(|name| (name.to_owned(), on.into())).collect();
        match (on, switches.is_empty()) {
            (_, false) | (true, true) => Ok(switches),
            (false, true) if self.reads(BUDGET) => Ok(Map::from_iter([(BUDGET.to_owned(), 0.into())])),
            (false, true) if self.format.has_reasoning() => Err("the chat template cannot turn thinking off"),
            (false, true) => Ok(switches),
        }
    }

    /// The variables that say how much the model thinks.
    ///
    /// # Errors
    /// If the template knows no levels.
    pub fn effort(&self, level: &str) -> Result<Map<String, Value>, &'static str> {
        let read = LEVELS.into_iter().filter(|name| self.reads(name));
        let levels: Map<String, Value> = read.map(|name| (name.to_owned(), level.into())).collect();
        if levels.is_empty() { Err("the chat template knows no levels of reasoning") } else { Ok(levels) }
    }

    /// The date, by the variables that templates without a clock read. One that is not known is missing.
    fn dates(&self) -> Map<String, Value> {
        let read = DATES.into_iter().filter(|(name, _)| self.reads(name));
        let now = CivilTime::utc_now();
        read.filter_map(|(name, format)| Some((name.to_owned(), now?.format(format).ok()?.into()))).collect()
    }

    /// The prompt for a conversation, and what reads the answer.
    ///
    /// # Errors
    /// If the template refuses the messages, or knows no tools.
    pub fn render(&self, model: &Model, asked: Conversation) -> Result<(String, AnswerParser), Refusal> {
        if asked.tools.is_some() {
            self.format.tools().map_err(|error| Refusal::unsupported("tools", error.to_string()))?;
            if !self.format.tells_of_tools() {
                return Err(Refusal::unsupported("tools", "the chat template does not show them to the model"));
            }
        }
        let mut context = model.chat_context();
        (context.tools, context.extra) = (asked.tools.clone(), self.dates());
        context.extra.extend(asked.variables);
        context.add_generation_prompt = asked.opens || asked.begun.is_some();
        let mut text = self.template.render(&asked.messages, &context).map_err(Error::from)?;
        text.push_str(&asked.begun.unwrap_or_default());
        let parser = self.format.parser(&text, asked.tools.as_ref());
        Ok((text, parser))
    }
}
