//! From words to arguments: gives every flag a variable and the configuration file's value, and knows afterwards where
//! each value came from. What the flags mean is not known here.

use std::{env, ffi::OsString};

use clap::{
    Arg, ArgMatches, CommandFactory, FromArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};

use super::{
    argv,
    command::{Cli, Command},
    daily, elsewhere,
    flag::{names, settable},
    taken, thinking, variables,
};
use crate::{
    config::ConfigFile,
    errors::{Error, first_line},
    near::nearest,
    output::say,
};

/// The fewest bytes of a value that an error is searched for: shorter ones stand in any text.
const SHORTEST: usize = 3;

/// A command line that was understood.
pub struct Parsed {
    /// What to do.
    pub command: Command,
    /// Where its values came from.
    pub line: Line,
}

/// The words of a command, with the sources of their values.
pub struct Line {
    pub command: clap::Command,
    pub matches: ArgMatches,
    pub config: ConfigFile,
}

/// Where a value came from; the later wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The program.
    Default,
    /// The configuration file.
    File,
    /// A variable of the environment.
    Variable,
    /// The command line.
    Flag,
}

/// The whole command line: flags, each with its variable.
pub fn command() -> clap::Command {
    // As in llama.cpp, the last one counts of a flag that is given twice.
    Cli::command().mut_subcommands(|sub| daily::shorten(sub.args_override_self(true).mut_args(settable)))
}

/// Reads the command line, the variables and the configuration file.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Parsed, Error> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    let argv = argv::conversation(argv::instead(&argv).unwrap_or(argv));
    let plain = command();
    let args = plain.get_subcommands().flat_map(clap::Command::get_arguments);
    let ours: Vec<String> = args.filter_map(names).flatten().collect();
    let has = |command: &str, typed: &str| {
        let arguments = plain.find_subcommand(command).into_iter().flat_map(clap::Command::get_arguments);
        let name = argv::long_name(typed).strip_prefix("--");
        arguments.filter_map(names).flatten().any(|long| name == Some(&long))
    };
    let argv = thinking::ours(argv, argv::is_free_text);
    let (argv, notes) = taken::without(argv, has, argv::is_free_text);
    let argv = argv::long_flags(argv, |name| ours.iter().any(|long| long == name));
    // The first reading finds wrong usage and requests for help before a wrong configuration file can be in the way.
    let matches = plain.clone().try_get_matches_from(&argv).map_err(|error| usage(error, &plain, &argv))?;
    let config = match matches.subcommand_name() {
        Some("completions" | "man") => ConfigFile::default(),
        Some("config") if wants_path(&matches) => ConfigFile::default(),
        _ => ConfigFile::load(&plain)?,
    };
    let mut command = config.apply(plain);
    let matches = command.clone().try_get_matches_from(&argv).map_err(|error| usage(error, &command, &argv))?;
    let cli =
        Cli::from_arg_matches(&matches).map_err(|error| usage(error.format(&mut command.clone()), &command, &argv))?;
    for note in notes.into_iter().chain(variables::unknown(&command)) {
        say!("{note}");
    }
    // Gives the subcommands their full names, which usage begins with.
    command.build();
    let (name, matches) = matches.subcommand().ok_or(Error::NoCommand)?;
    let sub = command.find_subcommand(name).ok_or(Error::NoCommand)?.clone();
    Ok(Parsed { command: cli.command, line: Line { command: sub, matches: matches.clone(), config } })
}

fn wants_path(matches: &ArgMatches) -> bool {
    let config = matches.subcommand().map(|(_, config)| config);
    config.and_then(|config| config.get_raw("what")).is_some_and(|mut what| what.any(|what| what == "path"))
}

/// An error of usage with a true hint; where the wrong value is a variable's, its name is added.
fn usage(mut error: clap::Error, command: &clap::Command, argv: &[OsString]) -> Error {
    advise(&mut error, command, argv);
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let long = context(ContextKind::InvalidArg).and_then(|arg| {
        let long = arg.strip_prefix("--")?;
        Some(long.split([' ', '[', '=']).next()?.to_owned())
    });
    let value = context(ContextKind::InvalidValue);
    let variable = long.zip(value).and_then(|(long, value)| {
        let args = command.get_subcommands().flat_map(clap::Command::get_arguments);
        let mut variables = args.filter(|arg| arg.get_long() == Some(&long)).filter_map(Arg::get_env);
        variables.find(|name| env::var_os(name).is_some_and(|set| set == value.as_str()))
    });
    match variable {
        Some(variable) => {
            Error::Variable { variable: variable.to_string_lossy().into_owned(), problem: first_line(&error) }
        }
        None => Error::Usage(Box::new(error)),
    }
}

/// Says what there is instead of a name that is not ours, and nothing that is only near it or that never helps.
fn advise(error: &mut clap::Error, command: &clap::Command, argv: &[OsString]) {
    let word = |i: usize| argv.get(i).and_then(|word| word.to_str()).unwrap_or_default();
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return,
    };
    let Some(ContextValue::String(given)) = error.get(kind).cloned() else { return };
    // Of a flag with one dash, which `argv` gave more, as it was typed.
    let bare = given.strip_prefix("---");
    let given = bare.map_or(given.clone(), |name| format!("-{name}"));
    let typed = given.strip_prefix('-').filter(|typed| elsewhere::is_single_dash(typed)).unwrap_or(&given).to_owned();
    let is_path = typed.ends_with(".gguf") || typed.contains(std::path::MAIN_SEPARATOR);
    let takes_prompt =
        command.find_subcommand(word(1)).is_some_and(|sub| sub.get_arguments().any(|arg| arg.get_id() == "prompt"));
    let hint = match kind {
        _ if bare.is_some() => Some(format!("-{typed} has two dashes")),
        ContextKind::InvalidSubcommand if is_path => Some(format!("candor run {typed}")),
        ContextKind::InvalidSubcommand => elsewhere::command(&typed).map(str::to_owned),
        _ if word(1).starts_with('-') => Some("a command comes first, as in candor run -m MODEL.gguf".to_owned()),
        _ if typed.parse::<f64>().is_ok() => {
            Some("no negative number is taken here; 0 leaves -c, -t and -tb to candor, auto -ngl".to_owned())
        }
        _ if !typed.starts_with('-') && takes_prompt => Some("-p TEXT gives the prompt".to_owned()),
        _ => elsewhere::flag(&typed).map(str::to_owned).or_else(|| of_another_command(command, &typed, word(1))),
    };
    // That a flag would be a value after `--` is true and never meant.
    error.remove(ContextKind::Suggested);
    // The usage was that of the nearest flag.
    let mut command = command.clone();
    command.build();
    if let Some(sub) = command.find_subcommand_mut(word(1)) {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(sub.render_usage()));
    }
    let Some(hint) = hint else {
        if kind == ContextKind::InvalidSubcommand {
            let near = nearest(&typed, command.get_subcommands().map(clap::Command::get_name));
            let near = near.map(|near| ContextValue::Strings(vec![near.to_owned()]));
            near.map(|near| error.insert(ContextKind::SuggestedSubcommand, near));
        }
        return;
    };
    for near in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand] {
        error.remove(near);
    }
    error.insert(kind, ContextValue::String(typed));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
}

/// Which command has a flag that another one lacks.
fn of_another_command(command: &clap::Command, typed: &str, lacking: &str) -> Option<String> {
    let long = typed.strip_prefix("--")?;
    let has = |sub: &clap::Command| sub.get_arguments().filter_map(names).flatten().any(|name| name == long);
    let mut others = command.get_subcommands().filter(|sub| sub.get_name() != lacking && has(sub));
    others.next().map(|other| format!("candor {} has it", other.get_name()))
}

impl Line {
    /// Where the value of an argument came from.
    pub fn rank(&self, id: &str) -> Rank {
        match self.matches.value_source(id) {
            Some(ValueSource::CommandLine) => Rank::Flag,
            Some(ValueSource::EnvVariable) => Rank::Variable,
            Some(_) if self.config.sets(id) => Rank::File,
            _ => Rank::Default,
        }
    }

    /// Of arguments that exclude each other, the one that was given, by the precedence of sources.
    ///
    /// # Errors
    /// If two come from the same source.
    pub fn exclusive<'i>(&self, ids: &[&'i str]) -> Result<Option<&'i str>, Error> {
        let mut given: Vec<_> = ids.iter().map(|&id| (self.rank(id), id)).collect();
        given.retain(|&(rank, _)| rank > Rank::Default);
        given.sort_by_key(|&(rank, _)| std::cmp::Reverse(rank));
        match *given {
            [] => Ok(None),
            [(first_rank, first), (second_rank, second), ..] if first_rank == second_rank => {
                let message = format!("{} cannot be used together with {}", self.name(first), self.name(second));
                Err(self.usage_error(ErrorKind::ArgumentConflict, message))
            }
            [(_, first), ..] => Ok(Some(first)),
        }
    }

    /// The error with where it came from, if it is about a value of a variable or of the configuration file: nobody sees it on the
    /// command line.
    pub fn with_origin(&self, error: Error) -> Error {
        if matches!(error, Error::Usage(_) | Error::Closed) {
            return error;
        }
        let message = error.to_string();
        let settings = self.command.get_arguments().filter(|arg| arg.get_long().is_some());
        let set = settings.filter(|arg| matches!(self.rank(arg.get_id().as_str()), Rank::File | Rank::Variable));
        let named = set.filter(|arg| {
            let values = self.matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
            values
                .map(|value| value.to_string_lossy())
                .any(|value| value.len() >= SHORTEST && message.contains(&*value))
        });
        match named.map(|arg| self.origin(arg)).next() {
            Some(origin) => error.of(origin),
            None => error,
        }
    }

    /// Where a value that is not on the command line was set.
    fn origin(&self, arg: &Arg) -> String {
        let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match self.rank(arg.get_id().as_str()) {
            Rank::Variable => format!("variable {variable}"),
            _ => format!("{} in {}", arg.get_long().unwrap_or_default(), self.config.path().display()),
        }
    }

    /// An error of usage, with the usage of the command.
    pub fn usage_error(&self, kind: ErrorKind, message: impl std::fmt::Display) -> Error {
        Error::Usage(Box::new(self.command.clone().error(kind, message)))
    }

    /// How an argument is written.
    fn name(&self, id: &str) -> String {
        let arg = self.command.get_arguments().find(|arg| arg.get_id() == id);
        if let Some(arg) = arg
            && matches!(self.rank(id), Rank::File | Rank::Variable)
        {
            return self.origin(arg);
        }
        let value = || arg.and_then(Arg::get_value_names).map_or("MODEL", |names| names[0].as_str());
        arg.and_then(Arg::get_long).map_or_else(|| format!("[{}]", value()), |long| format!("--{long}"))
    }
}
