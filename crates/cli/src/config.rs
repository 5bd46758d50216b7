//! The configuration file: where it is, what it says, and how it becomes the defaults of flags.
//!
//! It is TOML with the long names of flags as keys. It knows no flag of its own: the command line's are looked up.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use clap::Arg;
use directories::ProjectDirs;

use crate::{
    args::flag::names,
    errors::{Error, first_line},
    near::nearest,
};

/// The variable that names another file; empty for none at all.
const VARIABLE: &str = "CANDOR_CONFIG";

/// What a configuration file says.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    /// Where it lies.
    path: PathBuf,
    /// Values by the id of the argument that they are for.
    values: BTreeMap<String, Vec<String>>,
}

/// The platform's folders of this program.
pub fn folders() -> Option<ProjectDirs> {
    ProjectDirs::from("", "", "candor")
}

/// Where the file is looked for; `None` if nowhere.
pub fn path() -> Option<PathBuf> {
    match env::var_os(VARIABLE) {
        Some(path) if path.is_empty() => None,
        Some(path) => Some(path.into()),
        None => folders().map(|folders| folders.config_dir().join("config.toml")),
    }
}

impl ConfigFile {
    /// Reads the file, if there is one, for the flags of `command`.
    ///
    /// # Errors
    /// If it cannot be read, sets something unknown, or has a value that its flag does not take. A file that is missing
    /// is an error only if the variable names it.
    pub fn load(command: &clap::Command) -> Result<ConfigFile, Error> {
        let Some(path) = path() else { return Ok(ConfigFile::default()) };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && env::var_os(VARIABLE).is_none() => {
                return Ok(ConfigFile::default());
            }
            Err(error) => return Err(Error::File { path, error }),
        };
        ConfigFile::parse(&text, &path, command)
    }

    fn parse(text: &str, path: &Path, command: &clap::Command) -> Result<ConfigFile, Error> {
        let fault = |problem, hint| Error::Config { path: path.to_owned(), problem, hint };
        let table: toml::Table = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            fault(format!("{place}{}", error.message().lines().next().unwrap_or_default()), None)
        })?;
        let args: Vec<&Arg> = command.get_subcommands().flat_map(clap::Command::get_arguments).collect();
        let mut values = BTreeMap::new();
        for (key, value) in &table {
            let key = key.replace('_', "-");
            let Some(arg) = args.iter().find(|arg| names(arg).is_some_and(|names| names.contains(&key))) else {
                if let Some(long) = of_letter(&args, &key) {
                    return Err(fault(format!("{key} is no setting"), Some(format!("its long name is {long}"))));
                }
                let known: Vec<String> = args.iter().filter_map(|arg| names(arg)).flatten().collect();
                let near = nearest(&key, known.iter().map(String::as_str));
                return Err(fault(format!("{key} is no setting"), near.map(|near| format!("is {near} meant?"))));
            };
            let texts = texts(value).ok_or_else(|| {
                let expected = "expected a text, a number, true or false, or a list of these";
                fault(format!("{key}: {expected}, got a {}", value.type_str()), None)
            })?;
            // A command with this flag alone says what is wrong with the value.
            let alone = clap::Command::new("config").no_binary_name(true).arg((*arg).clone().env(None));
            let words = texts.iter().map(|text| format!("--{key}={text}"));
            if let Err(error) = alone.try_get_matches_from(words) {
                return Err(fault(first_line(&error), None));
            }
            if values.insert(arg.get_id().to_string(), texts).is_some() {
                let own = arg.get_long().unwrap_or_default();
                return Err(fault(format!("{own} is set twice, under two names"), None));
            }
        }
        Ok(ConfigFile { path: path.to_owned(), values })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file has a value for the argument of that id.
    pub fn sets(&self, id: &str) -> bool {
        self.values.contains_key(id)
    }

    /// The command line with the file's values as the defaults of its flags.
    pub fn apply(&self, command: clap::Command) -> clap::Command {
        command.mut_subcommands(|sub| {
            sub.mut_args(|arg| match self.values.get(arg.get_id().as_str()) {
                Some(values) if arg.get_long().is_some() => arg.default_values(values.clone()),
                _ => arg,
            })
        })
    }
}

/// The long name of the first flag with this letter.
fn of_letter<'a>(args: &[&'a Arg], key: &str) -> Option<&'a str> {
    let mut letters = key.chars();
    let (Some(letter), None) = (letters.next(), letters.next()) else { return None };
    args.iter().find(|arg| arg.get_short() == Some(letter)).and_then(|arg| arg.get_long())
}

/// A value as the words of a command line.
fn texts(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::Array(items) => items.iter().map(text).collect(),
        one => Some(vec![text(one)?]),
    }
}

fn text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(on.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse::command;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(text, Path::new("config.toml"), &command()).map_err(|error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })
    }

    #[test]
    fn keys_are_long_names_or_their_aliases() {
        let file = parse("top-k = 7\nmax_tokens = 9\nraw = true\nreverse-prompt = [\"a\", \"b\"]\ntemp = 0.5").unwrap();
        let expected = [
            ("predict", vec!["9"]),
            ("raw", vec!["true"]),
            ("reverse_prompt", vec!["a", "b"]),
            ("temp", vec!["0.5"]),
            ("top_k", vec!["7"]),
        ];
        let got: Vec<_> = file.values.iter().map(|(id, texts)| (id.as_str(), texts.clone())).collect();
        assert_eq!(got.len(), expected.len());
        for ((id, texts), (expected_id, expected_texts)) in got.into_iter().zip(expected) {
            assert_eq!((id, texts), (expected_id, expected_texts.into_iter().map(String::from).collect()));
        }
    }

    #[test]
    fn faults_name_the_file_and_the_key() {
        for (text, expected) in [
            ("tempp = 1", "config.toml: tempp is no setting; is temp meant?"),
            ("zzzzzzz = 1", "config.toml: zzzzzzz is no setting"),
            ("n = 5", "config.toml: n is no setting; its long name is predict"),
            ("top-k = \"x\"", "config.toml: invalid value 'x' for '--top-k <K>': expected a whole number"),
            (
                "top-k = {}",
                "config.toml: top-k: expected a text, a number, true or false, or a list of these, got a table",
            ),
            ("predict = 1\nmax-tokens = 2", "config.toml: predict is set twice, under two names"),
            ("a = 1\nb =", "config.toml: line 2: "),
            ("cpu-strict = 2", "config.toml: invalid value '2' for '--cpu-strict <0|1>'"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
