//! The commands of a conversation: their names, what each takes, and reading one. Acting on them is elsewhere.

use crate::{errors::Error, near::nearest};

/// What a line that begins with `/` asks for. Arguments are what follows the name, trimmed; empty if nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Exit,
    Clear,
    Regenerate,
    Undo,
    Edit,
    Save,
    SaveOver,
    Load,
    Model,
    System,
    Show,
    Set,
    /// What [`SWITCHES`] turn on and off.
    Switch,
    Stats,
    Config,
}

/// Each command: its names, what it takes, what it does.
const TABLE: &[(Command, &[&str], &str, &str)] = &[
    (Command::Help, &["/help", "/?", "/h"], "", "show this"),
    (Command::Exit, &["/exit", "/bye", "/quit", "/q"], "", "leave (also Ctrl-D)"),
    (Command::Clear, &["/clear", "/cls"], "", "forget the conversation, keep the system prompt"),
    (Command::Regenerate, &["/regenerate", "/regen", "/retry"], "", "answer the last message again"),
    (Command::Undo, &["/undo"], "", "take the last message and its answer back"),
    (Command::Edit, &["/edit"], "[TEXT]", "change the last message and answer it instead"),
    (Command::Save, &["/save"], "[FILE]", "write the conversation and its settings to a file"),
    (Command::SaveOver, &["/save!"], "[FILE]", "the same, over a file that is there"),
    (Command::Load, &["/load"], "[FILE]", "go on with a saved conversation"),
    (Command::Model, &["/model"], "[FILE]", "show the model, or go on with another"),
    (Command::System, &["/system", "/sys"], "[TEXT]", "show or change the system prompt; \"\" removes it"),
    (Command::Show, &["/show"], "[WHAT]", "show info, license, parameters, system or template"),
    (Command::Set, &["/set"], "[NAME [VALUE]]", "show or change a setting, such as temp"),
    (Command::Stats, &["/stats", "/status"], "", "show tokens and speeds"),
    (Command::Config, &["/config", "/cfg"], "", "show all settings and where they come from"),
];

/// Words of Ollama's `/set` that take no value.
pub const SWITCHES: &[&str] = &["history", "nohistory", "wordwrap", "nowordwrap", "verbose", "quiet"];
/// What `/show` takes.
pub const SHOWN: &[&str] = &["info", "license", "parameters", "system", "template"];
/// Where in a line of [`help`] it says what a command does.
const INDENT: usize = 33;

/// All names, for completion.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|(_, names, _, _)| names.iter().copied())
}

/// The lines of `/help`, each with where what does not fit goes on.
pub fn help() -> Vec<(usize, String)> {
    let line = |(_, names, takes, does): &(_, &[&str], _, &str)| {
        let left = format!("{} {takes}", names.join(" "));
        (INDENT, format!("  {left:<30} {does}"))
    };
    let notes = [
        "A line that ends in \\ goes on; so does a text between \"\"\" and \"\"\". Ctrl-C stops an answer.",
        "A line that begins with a space is a message even if a / follows.",
        "Ollama's /set parameter, /set system, /set think and nothink, /set verbose and quiet (speeds after an answer), \
         wordwrap and nowordwrap, history and nohistory are known, too.",
    ];
    TABLE.iter().map(line).chain(notes.map(|note| (0, note.to_owned()))).collect()
}

/// The command of a line with its argument; `None` if the line is a message.
///
/// # Errors
/// If the line begins like a command, and is not one.
pub fn parse(line: &str) -> Result<Option<(Command, &str)>, Error> {
    if !line.starts_with('/') {
        return Ok(None);
    }
    let (typed, argument) = first_word(line);
    let lower = typed.to_lowercase();
    let ours = TABLE.iter().find(|(_, names, _, _)| names.contains(&lower.as_str()));
    match ollamas(&lower, argument).or(ours.map(|(command, _, _, _)| (*command, argument))) {
        Some(command) => Ok(Some(command)),
        None => Err(Error::UnknownCommand { typed: typed.to_owned(), near: nearest(typed, names()) }),
    }
}

/// Ollama's `/set parameter NAME VALUE`, `/set system TEXT`, `/set think`, `/set nothink` and `/set SWITCH`.
fn ollamas<'a>(name: &str, argument: &'a str) -> Option<(Command, &'a str)> {
    let (what, rest) = first_word(argument);
    match (name, what) {
        ("/set", "parameter") => Some((Command::Set, rest)),
        ("/set", "think") if rest.is_empty() => Some((Command::Set, "think true")),
        ("/set", "nothink") => Some((Command::Set, "think false")),
        ("/set", "system") => Some((Command::System, rest)),
        ("/set", what) if rest.is_empty() && SWITCHES.contains(&what) => Some((Command::Switch, what)),
        _ => None,
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// An argument without the quotes around it.
pub fn unquoted(argument: &str) -> &str {
    let inner = argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_messages() {
        assert_eq!(parse("hello /help").unwrap(), None);
        assert_eq!(parse(" /help").unwrap(), None);
        assert_eq!(parse("/HELP").unwrap(), Some((Command::Help, "")));
        assert_eq!(parse("/set  temp 0.5 ").unwrap(), Some((Command::Set, "temp 0.5")));
        assert_eq!(parse("/system be\nshort").unwrap(), Some((Command::System, "be\nshort")));
        assert_eq!(parse("/set parameter temperature  0.5").unwrap(), Some((Command::Set, "temperature  0.5")));
        assert_eq!(parse("/set system be\nshort").unwrap(), Some((Command::System, "be\nshort")));
        assert_eq!(parse("/set think").unwrap(), Some((Command::Set, "think true")));
        assert_eq!(parse("/set think low").unwrap(), Some((Command::Set, "think low")));
        assert_eq!(parse("/set nothink").unwrap(), Some((Command::Set, "think false")));
        assert_eq!(parse("/show license").unwrap(), Some((Command::Show, "license")));
        assert_eq!(parse("/set verbose").unwrap(), Some((Command::Switch, "verbose")));
        assert_eq!(parse("/set verbose 1").unwrap(), Some((Command::Set, "verbose 1")));
        assert_eq!(parse("/save! a b").unwrap(), Some((Command::SaveOver, "a b")));
        let error = parse("/hlep").unwrap_err();
        assert_eq!(error.to_string(), "/hlep is no command");
        assert_eq!(error.hint().as_deref(), Some("is /help meant?"));
        assert_eq!(parse("/zzzzzz").unwrap_err().hint().as_deref(), Some("/help lists the commands"));
    }

    #[test]
    fn quotes_around_an_argument_are_taken_away() {
        assert_eq!([r#""a b""#, r#""""#, r#"""#, "a"].map(unquoted), ["a b", "", "\"", "a"]);
    }
}
