//! The settings in effect, each with its source, and changing those that may change between answers.

use std::{fmt, io, io::Write, process::ExitCode};

use clap::{Arg, ArgAction, Args as _, FromArgMatches as _};

use crate::{
    args::{ConfigArgs, ConfigWhat, Line, Rank, Tunable, flag, parse},
    config,
    errors::{Error, first_line},
    near::nearest,
};

/// A setting in effect.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The long name of its flag.
    pub name: String,
    /// Its values: none if it is not set, several for a flag that can be given more than once.
    pub values: Vec<String>,
    /// Where they came from.
    pub source: Source,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line, a variable, the file or the program.
    Start(Rank, Option<String>),
    /// The conversation's `/set`.
    Set,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Start(Rank::Flag, _) => f.write_str("flag"),
            Source::Start(Rank::Variable, variable) => {
                write!(f, "variable {}", variable.as_deref().unwrap_or_default())
            }
            Source::Start(Rank::File, _) => f.write_str("file"),
            Source::Start(Rank::Default, _) => f.write_str("default"),
            Source::Set => f.write_str("/set"),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.values.as_slice() {
            [] => "-".to_owned(),
            [one] => plain(one),
            many => format!("[{}]", many.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ")),
        };
        write!(f, "{:<22}{text:<22} ({})", self.name, self.source)
    }
}

/// A value as it is, or quoted if it would not be seen as it is.
fn plain(value: &str) -> String {
    let odd = value.is_empty() || value.trim() != value || value.chars().any(char::is_control);
    if odd { format!("{value:?}") } else { value.to_owned() }
}

/// Every setting of a command line that has a long name.
pub fn effective(line: &Line) -> Vec<Setting> {
    let args = line.command.get_arguments().filter_map(|arg| Some((arg, flag::names(arg)?)));
    let settings = args.map(|(arg, names)| {
        let id = arg.get_id().as_str();
        let raw = line.matches.get_raw(id).into_iter().flatten();
        let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
        Setting {
            name: names[0].clone(),
            values: raw.map(|value| value.to_string_lossy().into_owned()).collect(),
            source: Source::Start(line.rank(id), variable),
        }
    });
    settings.collect()
}

/// Runs `candor config`: the settings that `candor run` would have, or the path of the file.
pub fn config(args: &ConfigArgs, line: &Line) -> Result<ExitCode, Error> {
    let mut out = io::stdout().lock();
    match args.what {
        ConfigWhat::Path => match config::path() {
            Some(path) => writeln!(out, "{}", path.display())?,
            None => return Err(Error::NoConfigPath),
        },
        ConfigWhat::Show => {
            let root = line.config.apply(parse::command());
            let matches = root.clone().try_get_matches_from(["candor", "run"]);
            let matches = matches.map_err(|error| Error::Usage(Box::new(error)))?;
            let (Some(command), Some((_, matches))) = (root.find_subcommand("run"), matches.subcommand()) else {
                return Err(Error::NoCommand);
            };
            let run = Line { command: command.clone(), matches: matches.clone(), config: line.config.clone() };
            for setting in effective(&run) {
                writeln!(out, "{setting}")?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

impl Tunable {
    /// The flags alone, without defaults and variables: what was not given stays as it was.
    fn changes() -> clap::Command {
        let command = Tunable::augment_args(clap::Command::new("set")).no_binary_name(true).disable_help_flag(true);
        command.mut_args(|arg| {
            let arg = if matches!(arg.get_action(), ArgAction::SetTrue) { flag::on_or_off(arg) } else { arg };
            arg.default_value(None)
        })
    }

    /// The names that [`Tunable::set`] knows, with what each means.
    pub fn names() -> Vec<(String, String)> {
        let help = |arg: &Arg| arg.get_help().map(ToString::to_string).unwrap_or_default();
        let named = |arg: &Arg| Some((arg.get_long()?.to_owned(), help(arg)));
        Tunable::changes().get_arguments().filter_map(named).collect()
    }

    /// Gives a setting new values, under any of its names, and returns its own name.
    ///
    /// # Errors
    /// If there is no such setting or it does not take them; nothing is changed then.
    pub fn set(&mut self, name: &str, values: &[String]) -> Result<String, Error> {
        let command = Tunable::changes();
        let typed = name.trim_start_matches('-').replace('_', "-");
        let all: Vec<(String, Vec<String>)> =
            command.get_arguments().filter_map(|arg| Some((arg.get_long()?.to_owned(), flag::names(arg)?))).collect();
        let Some((long, _)) = all.iter().find(|(_, names)| names.contains(&typed)) else {
            let known = all.iter().flat_map(|(_, names)| names).map(String::as_str);
            return Err(Error::UnknownSetting { name: typed.clone(), near: nearest(&typed, known).map(str::to_owned) });
        };
        let words = values.iter().map(|value| format!("--{long}={value}"));
        let fault = |error: clap::Error| Error::Setting(first_line(&error));
        let matches = command.clone().try_get_matches_from(words).map_err(fault)?;
        let mut changed = self.clone();
        changed.update_from_arg_matches(&matches).map_err(fault)?;
        changed.sampling.sampling(|text| Ok(text.to_owned()))?;
        *self = changed;
        Ok(long.clone())
    }
}
