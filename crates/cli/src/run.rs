//! `candor run`: answers one prompt, or continues one text.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

use candor::{AnswerStart, Cancel, Message, Model, Progress, Show, StopReason};
use clap::error::ErrorKind;

use crate::{
    answer::{self, Reader},
    args::{Line, PromptArgs, Rank, RunArgs},
    conversation,
    errors::Error,
    interrupt::{EXIT_CODE, Interrupt},
    logprobs::Logprobs,
    open::{Opened, Source},
    output::say,
    paint::Paint,
    prompt_cache::PromptCache,
    report,
    shape::Shape,
    speculation::Guesses,
    template::{self, Template},
    text,
    waiting::Waiting,
    wrap::{self, Wrap},
};

/// Runs the command.
pub fn run(args: &RunArgs, line: &Line) -> Result<ExitCode, Error> {
    let interrupt = Interrupt::catch()?;
    let source = Source::of(line, &args.model)?.overridden(&args.overrides, line)?;
    for (id, flag) in [
        ("chat_template", "--chat-template"),
        ("chat_template_file", "--chat-template-file"),
        ("chat_template_kwargs", "--chat-template-kwargs"),
        ("think", "--think"),
    ] {
        if args.prompt.raw && line.rank(id) == Rank::Flag {
            let message = format!("--raw cannot be used together with {flag}");
            return Err(line.usage_error(ErrorKind::ArgumentConflict, &message));
        }
    }
    if args.prompt.raw && line.rank("system_prompt").max(line.rank("system_prompt_file")) == Rank::Flag {
        return Err(Error::SystemPrompt("--raw goes without"));
    }
    if args.logprobs.logprobs.is_none() && args.logprobs.logprobs_output.is_some() {
        let message = "--logprobs N says how many of the likeliest tokens --logprobs-output writes";
        return Err(line.usage_error(ErrorKind::MissingRequiredArgument, message));
    }
    // Wrong settings are found before a model is loaded.
    answer::options(&args.tunable, 0, args.template.escape, Cancel::new())?;
    let guesses = Guesses::of(line, &args.speculation)?;
    let shape = Shape::of(line, &args.shape)?;
    let prompt = prompt(&args.prompt, args.template.escape, line)?;
    let size = answer::conversation(&args.context, &args.performance);
    let opened = source.open(&args.performance, args.lora.open()?, size, &args.output)?;
    opened.model.continues_text()?;
    let Asked { text, reader, marks, start, is_continued } = full_text(args, line, &opened.model, &prompt)?;
    let tokens = opened.model.encode_prompt(&text);
    if args.verbose_prompt {
        say_prompt(&opened.model, &text, &tokens);
    }

    let answering = interrupt.answering();
    let options = answer::options(&args.tunable, tokens.len(), args.template.escape, answering.cancel())?.marks(marks);
    let size = guesses.leave_room(&opened.model, size)?;
    let options = if args.special { options.show(Show::Specials) } else { options };
    let (mut logprobs, mut options) = Logprobs::of(&args.logprobs, opened.model.tokenizer(), options)?;
    // After what looks at the logits as they are.
    options = shape.bind(options, opened.model.tokenizer(), start)?;
    let mut session = opened.session(&size)?;
    guesses.begin(&mut session, &args.performance, size, &args.output)?;
    let cache = PromptCache::of(&args.prompt_cache);
    cache.read(&mut session)?;
    if args.output.verbose {
        report::say_model(&opened, &session, &args.context.cache, &args.performance);
        report::say_sampling(&options.sampling);
    }
    if is_continued && !args.prompt.raw && !opened.model.is_encoder_decoder() {
        Template::say_none(&opened.model);
    }
    let waiting = Waiting::for_tokens(args.output.progress, "reading");
    let mark = waiting.mark();
    options.progress = Some(Progress::new(move |done, total| mark.set(done, total)));
    let mut generation = session.generate(&tokens, options)?;
    drop(waiting);
    cache.write_prompt(&mut generation)?;
    let watch = logprobs.as_mut().map(|logprobs| logprobs as &mut dyn answer::Watch);
    let answer = answer::stream(generation, reader, &mut Wrap::new(io::stdout().lock(), wrap::of_stdout()), watch)?;
    cache.write_all(&mut session)?;
    if args.output.verbose {
        say_timings(&opened, &answer);
    }
    Ok(if answer.reason == StopReason::Cancelled { ExitCode::from(EXIT_CODE) } else { ExitCode::SUCCESS })
}

fn say_timings(opened: &Opened, answer: &answer::Answer) {
    say!("seed: {}", answer.seed);
    say!("load: {:.3} s", opened.load.as_secs_f64());
    answer.say_timings();
}

/// Whether there is somebody to talk with and nothing to answer.
pub fn is_conversation(args: &RunArgs) -> bool {
    let PromptArgs { words, prompt, file, raw } = &args.prompt;
    let asked = words.is_some() || prompt.is_some() || file.is_some() || *raw;
    !asked && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The prompt: an argument and what comes through a pipe after it, a file, or what comes through a pipe alone.
fn prompt(args: &PromptArgs, escape: bool, line: &Line) -> Result<String, Error> {
    let given = match line.exclusive(&["words", "prompt", "file"])? {
        Some("words") => args.words.as_ref(),
        Some("prompt") => args.prompt.as_ref(),
        _ => None,
    };
    match (given, &args.file) {
        (Some(prompt), _) => {
            let (prompt, piped) = (text::escaped(prompt, escape)?, piped()?);
            Ok(if piped.is_empty() { prompt } else { format!("{prompt}\n{piped}") })
        }
        (None, Some(path)) => Ok(text::without_last_break(text::of_file(path)?)),
        _ if io::stdin().is_terminal() => Err(Error::NoPrompt),
        _ => piped(),
    }
}

/// What comes through a pipe, without its last line break.
fn piped() -> Result<String, Error> {
    if io::stdin().is_terminal() {
        return Ok(String::new());
    }
    Ok(text::without_last_break(text::of_stdin()?))
}

/// What the model sees: the prompt in its chat template's words, with what reads the answer, or the prompt itself.
fn full_text(args: &RunArgs, line: &Line, model: &Model, prompt: &str) -> Result<Asked, Error> {
    let thinking = &args.tunable.thinking;
    let template = match args.prompt.raw {
        true => None,
        false => Template::of_prompt(model, &template::given(line, &args.template)?, &args.template)?,
    };
    let Some(template) = template else {
        if !args.prompt.raw && conversation::system_prompt(line, &args.template)?.is_some() {
            return Err(Error::SystemPrompt("the model has none"));
        }
        if prompt.is_empty() && !model.is_encoder_decoder() {
            say!("note: the prompt is empty, the model begins a text of its own");
        }
        let reader = Reader::new(None, false, Paint::Plain);
        let (marks, start) = (Vec::new(), AnswerStart::Content);
        return Ok(Asked { text: prompt.to_owned(), reader, marks, start, is_continued: true });
    };
    if prompt.trim().is_empty() {
        return Err(Error::EmptyPrompt);
    }
    template.say_thinking(thinking);
    let system = conversation::system_prompt(line, &args.template)?;
    let rendered = template.render(model, &args.template, thinking, system.as_deref(), [Message::user(prompt)])?;
    let reader = template.reader(&rendered, thinking);
    let (marks, start) = (template.marks(), template.start(&rendered));
    Ok(Asked { text: rendered.text, reader, marks, start, is_continued: false })
}

/// A prompt, and how the answer to it is read.
struct Asked {
    text: String,
    reader: Reader,
    /// The tokens that the answer must show.
    marks: Vec<u32>,
    /// What the answer says before its content.
    start: AnswerStart,
    /// Whether it is a text without a template.
    is_continued: bool,
}

/// Says what the model sees, and the tokens that it sees it as.
fn say_prompt(model: &Model, text: &str, tokens: &[u32]) {
    say!("prompt: {text:?}");
    say!("prompt tokens: {}", tokens.len());
    for &token in tokens {
        let piece = model.tokenizer().piece(token, Show::Specials);
        say!("{token:>6} {:?}", String::from_utf8_lossy(&piece));
    }
}
