//! The chat template of a conversation: the user's own, the file's, or one that the file's tokens make sure of. It writes the
//! prompts, and says how the answers to them are read.

use std::{collections::BTreeSet, path::Path, rc::Rc};

use candor::{AnswerFormat, AnswerPart, AnswerStart, ChatTemplate, Message, Model, error::TokenizerError};
use serde_json::{Map, Value};

use crate::{
    answer::Reader,
    args::{Line, TemplateArgs, Think, ThinkingArgs},
    errors::Error,
    near::nearest,
    output::say,
    paint::Paint,
    text,
};

/// The user's own template, if there is one.
pub type Given = Option<Rc<ChatTemplate>>;

/// A template, and what was found out of it.
pub struct Template {
    template: Rc<ChatTemplate>,
    format: AnswerFormat,
    /// The control tokens without which an answer cannot be taken apart.
    marks: Vec<u32>,
    /// Whether it shall be.
    parses: bool,
    variables: BTreeSet<String>,
}

/// A prompt, and the tools that were offered in it.
pub struct Prompt {
    pub text: String,
    tools: Option<Value>,
}

/// The template that the command line gives, by name, as a text or in a file.
pub fn given(line: &Line, args: &TemplateArgs) -> Result<Given, Error> {
    let template = named_or_read(line, args.chat_template.as_deref(), args.chat_template_file.as_deref())?;
    Ok(template.map(Rc::new))
}

/// The template of a name, the one that the text is, or that of a file.
pub fn named_or_read(line: &Line, name: Option<&str>, file: Option<&Path>) -> Result<Option<ChatTemplate>, Error> {
    match line.exclusive(&["chat_template", "chat_template_file"])? {
        Some("chat_template") => name.map(named).transpose(),
        _ => file.map(|path| parsed(&text::of_file(path)?)).transpose(),
    }
}

/// The template of a name, or the one that the text is.
fn named(text: &str) -> Result<ChatTemplate, Error> {
    if text.contains("{{") || text.contains("{%") {
        return parsed(text);
    }
    ChatTemplate::named(text)
        .ok_or_else(|| Error::UnknownTemplate { name: text.to_owned(), near: nearest(text, ChatTemplate::names()) })
}

fn parsed(source: &str) -> Result<ChatTemplate, Error> {
    ChatTemplate::new(source).map_err(|error: TokenizerError| error.into())
}

impl Template {
    /// The template of a conversation with a model, with a note where it is neither the user's nor the file's.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(model: &Model, given: &Given, args: &TemplateArgs) -> Result<Template, Error> {
        if let Some(template) = own(model, given)? {
            return Ok(Template::new(template, model, args));
        }
        let fit = ChatTemplate::fitting(model.tokenizer()).ok_or(candor::Error::NoChatTemplate)?;
        let template = ChatTemplate::named(fit.name).ok_or(candor::Error::NoChatTemplate)?;
        say!(
            "note: the model has no chat template; its tokens are those of {}, which is used (--chat-template NAME chooses)",
            fit.name
        );
        Ok(Template::new(Rc::new(template), model, args))
    }

    /// The template of one prompt; `None` where the model has none and does not end its texts as one would, so that it may well
    /// be a model that continues texts.
    pub fn of_prompt(model: &Model, given: &Given, args: &TemplateArgs) -> Result<Option<Template>, Error> {
        let is_own = given.is_some() || model.chat_template()?.is_some();
        let stated = model.gguf().metadata().u32("tokenizer.ggml.eot_token_id")?;
        let ends = |end: u32| model.tokenizer().eos() == Some(end) || stated == Some(end);
        match is_own || ChatTemplate::fitting(model.tokenizer()).is_some_and(|fit| ends(fit.end)) {
            true => Template::of(model, given, args).map(Some),
            false => Ok(None),
        }
    }

    /// Says that a model without a template continues a text, and what would answer it.
    pub fn say_none(model: &Model) {
        let name = ChatTemplate::fitting(model.tokenizer()).map_or("NAME", |fit| fit.name);
        say!(
            "note: the model has no chat template, the text is continued as it is (--chat-template {name} answers it)"
        );
    }

    fn new(template: Rc<ChatTemplate>, model: &Model, args: &TemplateArgs) -> Template {
        let format = template.answer_format();
        let marks = format.marks(model.tokenizer());
        Template { format, marks, parses: !args.skip_chat_parsing, variables: template.variables(), template }
    }

    /// The tokens that an answer must show.
    pub fn marks(&self) -> Vec<u32> {
        self.marks.clone()
    }

    /// The text that the model sees of a conversation.
    pub fn render(
        &self,
        model: &Model,
        args: &TemplateArgs,
        thinking: &ThinkingArgs,
        system: Option<&str>,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<Prompt, Error> {
        let mut context = model.chat_context();
        context.extra = thinking.think.as_ref().map(|think| self.thinking(think).0).unwrap_or_default();
        context.extra.extend(args.chat_template_kwargs.clone().unwrap_or_default().0);
        let all: Vec<Message> = system.map(Message::system).into_iter().chain(messages).collect();
        let text = self.template.render(&all, &context)?;
        Ok(Prompt { text, tools: context.extra.remove("tools") })
    }

    /// What the answer to a prompt says before its content.
    pub fn start(&self, prompt: &Prompt) -> AnswerStart {
        self.format.start(&prompt.text)
    }

    /// What reads the answer to a prompt.
    pub fn reader(&self, prompt: &Prompt, thinking: &ThinkingArgs) -> Reader {
        let parser = self.parses.then(|| self.format.parser(&prompt.text, prompt.tools.as_ref()));
        Reader::new(parser, thinking.hide_thinking, Paint::of_stdout())
    }

    /// The message that an answer is in the further conversation.
    pub fn message(&self, parts: &[AnswerPart]) -> Message {
        self.format.message(parts)
    }

    /// Says where the template cannot do what is asked of thinking.
    pub fn say_thinking(&self, thinking: &ThinkingArgs) {
        if let Some(note) = thinking.think.as_ref().and_then(|think| self.thinking(think).1) {
            say!("note: {note}");
        }
    }

    /// The variables that ask a template to think or not to, of those that it reads, and what it cannot do.
    fn thinking(&self, think: &Think) -> (Map<String, Value>, Option<String>) {
        let read = |names: &[&str]| -> Vec<String> {
            names.iter().filter(|name| self.variables.contains(**name)).map(|name| (*name).to_owned()).collect()
        };
        let (switches, levels) = (read(&SWITCHES), read(&LEVELS));
        let mut variables = Map::new();
        let is_on = *think != Think::Off;
        variables.extend(switches.iter().map(|name| (name.clone(), Value::from(is_on))));
        if switches.is_empty() && !is_on {
            variables.extend(read(&[BUDGET]).into_iter().map(|name| (name, Value::from(0))));
        }
        if let Think::Level(level) = think {
            variables.extend(levels.iter().map(|name| (name.clone(), Value::from(level.as_str()))));
        }
        let note = match think {
            Think::Level(_) if levels.is_empty() && !switches.is_empty() => {
                Some("the chat template knows thinking, and no levels of it".to_owned())
            }
            Think::Off if variables.is_empty() && !levels.is_empty() => {
                Some("the chat template cannot turn thinking off; --think=low asks for less of it".to_owned())
            }
            _ if variables.is_empty() => Some(format!(
                "--think={think} changes nothing: the chat template reads no variable for it{}",
                if is_on || !self.format.has_reasoning() {
                    ""
                } else {
                    " (--hide-thinking hides what the model thinks)"
                }
            )),
            _ => None,
        };
        (variables, note)
    }
}

/// Variables that turn thinking on and off.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];
/// Variables that say how much.
const LEVELS: [&str; 2] = ["reasoning_effort", "reasoning_strength"];
/// A variable of tokens, of which 0 are no thinking.
const BUDGET: &str = "thinking_budget";

/// The user's template, or the file's.
fn own(model: &Model, given: &Given) -> Result<Given, Error> {
    match given {
        Some(template) => Ok(Some(template.clone())),
        None => model.chat_template()?.map(|template| parsed(template.source()).map(Rc::new)).transpose(),
    }
}
