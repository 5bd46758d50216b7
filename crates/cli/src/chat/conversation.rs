//! The state of a conversation, and what each command does to it.

mod again;
mod files;
mod resize;
mod show;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use candor::{AnswerStart, Cancel, Progress, Session, SessionOptions, StopReason, Timings};

use super::{
    commands::{self, Command, unquoted},
    length,
    saved::{DEFAULT_FILE, Saved, Turn},
    window::{Limits, Window},
};
use crate::{
    answer,
    args::{ChatArgs, Line, Tunable},
    conversation::system_prompt,
    errors::Error,
    interrupt::Interrupt,
    open::{Opened, Source},
    output::{Speed, say, say_hanging},
    report,
    settings::{self, Setting},
    shape::Shape,
    speculation::Guesses,
    template::{self, Template},
    waiting::Waiting,
    wrap::{self, Wrap},
};

/// Whether the conversation goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    GoOn,
    /// It does, and the next entry begins with this text.
    Type(String),
    /// It does once it is known whether this file is to be written over.
    Overwrite(PathBuf),
    /// It does, and whether entries are kept for later is changed.
    History(bool),
    /// The user leaves.
    Leave,
}

/// A conversation with a model.
pub struct Conversation<'a> {
    args: &'a ChatArgs,
    interrupt: &'a Interrupt,
    opened: Opened,
    given: template::Given,
    template: Template,
    session: Session,
    /// The length that is asked for; 0 leaves it open.
    ctx_size: u32,
    window: Window,
    guesses: Guesses<'a>,
    shape: Shape,
    system: Option<String>,
    turns: Vec<Turn>,
    /// The last message, where it has no answer and is no turn.
    failed: Option<String>,
    /// How often the last message was answered again.
    again: u32,
    /// The file that it was saved to or loaded from.
    file: Option<PathBuf>,
    verbose: bool,
    wraps: bool,
    tunable: Tunable,
    settings: Vec<Setting>,
    totals: Totals,
}

/// What was done since the beginning.
#[derive(Default)]
struct Totals {
    answers: usize,
    last: Timings,
    prompt: (usize, Duration),
    decode: (usize, Duration),
}

impl<'a> Conversation<'a> {
    /// Loads the model and makes sure that it can hold a conversation.
    pub fn begin(args: &'a ChatArgs, line: &Line, interrupt: &'a Interrupt) -> Result<Self, Error> {
        let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
        // Wrong settings are found now, before a model is loaded, instead of at the first answer.
        let options = answer::options(&args.tunable, 0, args.template.escape, Cancel::new())?;
        let shape = Shape::of(line, &args.shape)?;
        let given = template::given(line, &args.template)?;
        let system = system_prompt(line, &args.template)?;
        let ctx_size = args.context.ctx_size;
        let size = session_options(args, ctx_size);
        let opened = source.open(&args.performance, args.lora.open()?, size, &args.output)?;
        let guesses = Guesses::of(line, &args.speculation)?;
        opened.model.refuse_answers("candor chat")?;
        let template = Template::of(&opened.model, &given, &args.template)?;
        template.say_thinking(&args.tunable.thinking);
        let session = open_session(args, ctx_size, &opened, &guesses)?;
        let conversation = Conversation {
            args,
            interrupt,
            opened,
            given,
            template,
            session,
            ctx_size,
            window: Window::default(),
            guesses,
            shape,
            system,
            turns: Vec::new(),
            failed: None,
            again: 0,
            file: None,
            verbose: args.output.verbose,
            wraps: true,
            tunable: args.tunable.clone(),
            settings: settings::effective(line),
            totals: Totals::default(),
        };
        if args.output.verbose {
            let Conversation { opened, session, .. } = &conversation;
            report::say_model(opened, session, &args.context.cache, &args.performance);
            report::say_sampling(&options.sampling);
            say!("load: {:.3} s", opened.load.as_secs_f64());
        }
        Ok(conversation)
    }

    /// The name of the model that answers.
    pub fn model_name(&self) -> String {
        self.opened.source.name()
    }

    fn options(&self, prompt: usize) -> Result<candor::GenerateOptions, Error> {
        answer::options(&self.tunable, prompt, self.args.template.escape, Cancel::new())
    }

    /// Answers a message. If that fails, the conversation is as before.
    pub fn answer(&mut self, message: &str) -> Result<(), Error> {
        self.again = 0;
        self.exchange(message)
    }

    fn exchange(&mut self, message: &str) -> Result<(), Error> {
        self.turns.push(Turn::user(message));
        let answered = self.generate();
        self.failed = None;
        match &answered {
            Ok(answer) if !answer.parts.is_empty() => {
                self.turns.push(Turn::answer(answer.parts.clone(), &self.turns));
            }
            _ => self.failed = self.turns.pop().map(|turn| turn.content),
        }
        let answer = answered?;
        if answer.reason == StopReason::Cancelled {
            say!("(stopped)");
        }
        self.totals.add(answer.timings);
        if self.verbose {
            answer.say_timings();
        }
        Ok(())
    }

    fn generate(&mut self) -> Result<answer::Answer, Error> {
        let Conversation { args, opened, template, system, .. } = self;
        let (limits, thinking) = (Limits::of(self.session.context(), &self.tunable), &self.tunable.thinking);
        // How an answer is read follows from how its prompt ends, whatever was left out before.
        let (mut reader, mut start) = (None, AnswerStart::Content);
        let prompt = self.window.prompt(&self.turns, limits, |turns| {
            let messages = turns.iter().map(|turn| turn.message(template));
            let rendered = template.render(&opened.model, &args.template, thinking, system.as_deref(), messages)?;
            reader.get_or_insert_with(|| template.reader(&rendered, thinking));
            start = template.start(&rendered);
            Ok(opened.model.encode_prompt(&rendered.text))
        })?;
        let reader = reader.ok_or(candor::Error::EmptyPrompt)?;
        let mut options = self.options(prompt.len())?.marks(self.template.marks());
        let answering = self.interrupt.answering();
        options.cancel = answering.cancel();
        options.sampling.seed = options.sampling.seed.map(|seed| seed.wrapping_add(self.again));
        let waiting = Waiting::for_tokens(self.args.output.progress, "reading");
        let mark = waiting.mark();
        options.progress = Some(Progress::new(move |done, total| mark.set(done, total)));
        let options = self.shape.bind(options, self.opened.model.tokenizer(), start)?;
        let generation = self.session.generate(&prompt, options)?;
        drop(waiting);
        let columns = if self.wraps { wrap::of_stdout() } else { None };
        answer::stream(generation, reader, &mut Wrap::new(io::stdout().lock(), columns), None)
    }

    /// Does what a command asks for.
    pub fn act(&mut self, command: Command, argument: &str) -> Result<Flow, Error> {
        match command {
            Command::Help => {
                commands::help().iter().for_each(|(indent, line)| say_hanging(*indent, format_args!("{line}")));
            }
            Command::Exit => return Ok(Flow::Leave),
            Command::Clear => {
                self.turns.clear();
                (self.window, self.failed) = (Window::default(), None);
                self.session.truncate(0);
                say!("the conversation is forgotten");
            }
            Command::Regenerate => self.regenerate()?,
            Command::Undo => self.undo()?,
            Command::Edit => return self.edit(argument),
            Command::Save => return self.save(file(argument), false),
            Command::SaveOver => return self.save(file(argument), true),
            Command::Load => self.load(file(argument))?,
            Command::Model if argument.is_empty() => say!("{}", self.model_name()),
            Command::Model => self.change_model(unquoted(argument))?,
            Command::System => self.system(argument),
            Command::Show => self.show(argument)?,
            Command::Switch => return Ok(self.switch(argument)),
            Command::Set => self.set(argument)?,
            Command::Stats => self.stats(),
            Command::Config => self.settings.iter().for_each(|setting| say!("{setting}")),
        }
        Ok(Flow::GoOn)
    }

    fn change_model(&mut self, path: &str) -> Result<(), Error> {
        self.reopen(|this| {
            let (args, ctx_size) = (this.args, this.ctx_size);
            let size = session_options(args, ctx_size);
            let opened = Source::file(path).open(&args.performance, args.lora.open()?, size, &args.output)?;
            opened.model.refuse_answers("candor chat")?;
            let template = Template::of(&opened.model, &this.given, &args.template)?;
            this.session = open_session(args, ctx_size, &opened, &this.guesses)?;
            (this.opened, this.template) = (opened, template);
            this.template.say_thinking(&this.tunable.thinking);
            Ok(())
        })?;
        self.window.widen();
        say!("{} answers from now on", self.model_name());
        Ok(())
    }

    fn system(&mut self, argument: &str) {
        match (argument, unquoted(argument)) {
            ("", _) => {}
            (_, "") => self.system = None,
            (_, text) => self.system = Some(text.to_owned()),
        }
        match &self.system {
            Some(text) => say!("system prompt: {text}"),
            None => say!("there is no system prompt"),
        }
    }

    fn set(&mut self, argument: &str) -> Result<(), Error> {
        let (name, value) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        if length::is_meant(name) && !value.is_empty() {
            return self.resize(unquoted(value.trim()));
        }
        let names = Tunable::names();
        if name.is_empty() {
            for (name, help) in names.into_iter().chain([length::listed()]) {
                let values = self.settings.iter().find(|setting| setting.name == name).map(|setting| &setting.values);
                let values = values.map(|values| values.join(", ").escape_debug().to_string()).unwrap_or_default();
                // A value wider than its column has a line of its own.
                match values.chars().count() > 12 {
                    true => {
                        say!("  {name:<22} {values}");
                        say_hanging(38, format_args!("  {:<22} {:<12} {help}", "", ""));
                    }
                    false => say_hanging(38, format_args!("  {name:<22} {values:<12} {help}")),
                }
            }
            return Ok(());
        }
        let values = vec![unquoted(value.trim()).to_owned()];
        let known = match value.is_empty() {
            true if length::is_meant(name) => length::NAME.to_owned(),
            true => self.tunable.clone().set(name, &[])?,
            false => self.tunable.set(name, &values)?,
        };
        if !value.is_empty() {
            self.note_setting(&known, values);
        }
        if !value.is_empty() && known == "think" {
            self.template.say_thinking(&self.tunable.thinking);
        }
        if let Some(setting) = self.settings.iter().find(|setting| setting.name == known) {
            say!("{setting}");
        }
        Ok(())
    }

    fn note_setting(&mut self, name: &str, values: Vec<String>) {
        if let Some(setting) = self.settings.iter_mut().find(|setting| setting.name == name)
            && setting.values != values
        {
            (setting.values, setting.source) = (values, settings::Source::Set);
        }
    }

    fn stats(&self) {
        let Totals { answers, last, prompt, decode } = &self.totals;
        // After /clear the session still has what may be kept of it.
        let used = if self.turns.is_empty() { 0 } else { self.session.tokens().len() };
        say!("context: {used} of {} tokens", self.session.context());
        say!(
            "last answer: prompt {}; decode {}",
            Speed(last.prompt_tokens, last.prompt),
            Speed(last.tokens, last.decode)
        );
        if let Some(line) = answer::guesses(*last) {
            say!("{line}");
        }
        say!("answers: {answers}; prompt {}; decode {}", Speed(prompt.0, prompt.1), Speed(decode.0, decode.1));
    }
}

/// A session for a conversation with a model.
fn open_session(args: &ChatArgs, ctx_size: u32, opened: &Opened, guesses: &Guesses<'_>) -> Result<Session, Error> {
    let options = guesses.leave_room(&opened.model, session_options(args, ctx_size))?;
    let mut session = opened.session(&options)?;
    guesses.begin(&mut session, &args.performance, options, &args.output)?;
    Ok(session)
}

/// The size of the conversation's session.
fn session_options(args: &ChatArgs, ctx_size: u32) -> SessionOptions {
    answer::conversation(&args.context, &args.performance).context(ctx_size as usize)
}

fn file(argument: &str) -> &Path {
    Path::new(if argument.is_empty() { DEFAULT_FILE } else { unquoted(argument) })
}

impl Totals {
    fn add(&mut self, timings: Timings) {
        self.answers += 1;
        self.last = timings;
        self.prompt = (self.prompt.0 + timings.prompt_tokens, self.prompt.1 + timings.prompt);
        self.decode = (self.decode.0 + timings.tokens, self.decode.1 + timings.decode);
    }
}
