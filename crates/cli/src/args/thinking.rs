//! Whether a model thinks before it answers, and whether that is shown: Ollama's flags, and what llama.cpp's mean in them.

use std::{ffi::OsString, fmt, str::FromStr};

use clap::Args;

/// How a model thinks.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Thinking")]
pub struct ThinkingArgs {
    /// Whether the model thinks before it answers, or how much: true, false, or a level of the model's such as low, medium or
    /// high. Left out, the template decides
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub think: Option<Think>,
    /// Do not print what the model thinks
    #[arg(long, visible_alias = "hidethinking")]
    pub hide_thinking: bool,
}

/// The value of `--think`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Think {
    /// It does, as much as it likes.
    On,
    /// It does not.
    Off,
    /// It does, this much.
    Level(String),
}

impl FromStr for Think {
    type Err = String;

    fn from_str(text: &str) -> Result<Think, String> {
        match text.to_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Ok(Think::On),
            "false" | "off" | "no" | "0" | "none" => Ok(Think::Off),
            level if !level.is_empty() && level.chars().all(|c| c.is_ascii_alphabetic()) => {
                Ok(Think::Level(level.to_owned()))
            }
            _ => Err("expected true, false, or a level such as low, medium or high".to_owned()),
        }
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Think::On => "true",
            Think::Off => "false",
            Think::Level(level) => level,
        })
    }
}

/// A flag's names, and what it is here with each of its values.
type Theirs = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// llama.cpp's flags with their values, and ours in their place. An effort is a level of the same name.
const THEIRS: &[Theirs] = &[
    (&["-rea", "--reasoning"], &[("on", "--think=true"), ("off", "--think=false")]),
    (&["--reasoning-budget"], &[("0", "--think=false")]),
    (&["--reasoning-format"], &[("none", "--skip-chat-parsing")]),
];
const EFFORT: &str = "--reasoning-effort";

/// What one of llama.cpp's flags is with which of its values.
#[cfg(test)]
pub fn stands_for(name: &str) -> Option<String> {
    if name == EFFORT {
        return Some(format!("`{EFFORT} LEVEL` as `--think=LEVEL`"));
    }
    let (_, values) = THEIRS.iter().find(|(names, _)| names.contains(&name))?;
    let words = values.iter().map(|(value, ours)| format!("`{name} {value}` as `{ours}`"));
    Some(words.collect::<Vec<_>>().join(", "))
}

/// The command line with llama.cpp's flags of thinking in our words, up to a `--`. `free` says whether what follows a flag is
/// a text, and left alone. Values that have no meaning here stay.
pub fn ours(argv: impl IntoIterator<Item = OsString>, free: impl Fn(&str) -> bool) -> Vec<OsString> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    let word = |i: usize| argv.get(i).and_then(|word| word.to_str()).unwrap_or_default();
    let mut ours = Vec::new();
    let mut i = 0;
    while i < argv.len() && word(i) != "--" {
        let (flag, joined) = word(i).split_once('=').map_or((word(i), None), |(flag, value)| (flag, Some(value)));
        let value = joined.unwrap_or_else(|| word(i + 1));
        let replaced = match flag {
            EFFORT if !matches!(value, "" | "default") && !value.starts_with('-') => Some(format!("--think={value}")),
            _ => theirs(flag, value).map(str::to_owned),
        };
        let words = match &replaced {
            Some(_) if joined.is_none() => 2,
            None if free(word(i)) => 2,
            _ => 1,
        };
        let end = argv.len().min(i + words);
        match replaced {
            Some(flag) => ours.push(flag.into()),
            None => ours.extend_from_slice(&argv[i..end]),
        }
        i = end;
    }
    ours.extend_from_slice(&argv[i..]);
    ours
}

fn theirs(flag: &str, value: &str) -> Option<&'static str> {
    let (_, values) = THEIRS.iter().find(|(names, _)| names.contains(&flag))?;
    values.iter().find(|(theirs, _)| *theirs == value).map(|(_, ours)| *ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama_cpp_s_flags_become_ours() {
        for (given, expected) in [
            ("run -rea off -p hi", "run --think=false -p hi"),
            ("run --reasoning=on", "run --think=true"),
            ("run --reasoning auto", "run --reasoning auto"),
            ("run --reasoning-budget 0 --reasoning-budget 128", "run --think=false --reasoning-budget 128"),
            ("run --reasoning-effort high --reasoning-effort default", "run --think=high --reasoning-effort default"),
            ("run --reasoning-format none", "run --skip-chat-parsing"),
            ("run -p -rea off", "run -p -rea off"),
            ("run -- -rea off", "run -- -rea off"),
            ("run --reasoning-effort", "run --reasoning-effort"),
        ] {
            let words = ours(given.split(' ').map(OsString::from), |flag| flag == "-p");
            assert_eq!(words, expected.split(' ').map(OsString::from).collect::<Vec<_>>(), "{given}");
        }
    }

    #[test]
    fn levels_are_words() {
        for (text, expected) in
            [("true", Think::On), ("OFF", Think::Off), ("low", Think::Level("low".into())), ("0", Think::Off)]
        {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for wrong in ["", "2", "a b", "-1"] {
            assert!(wrong.parse::<Think>().is_err(), "{wrong}");
        }
    }
}
