//! The commands of a conversation: their names, what each takes, and reading one. Acting on them is elsewhere.

use crate::{errors::Error, near::nearest};

/// What a line that begins with `/` asks for. Arguments are what follows the name, trimmed; empty if nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Exit,
    Clear,
    Save,
    Load,
    Model,
    System,
    Set,
    Stats,
    Config,
}

/// Each command: its names, what it takes, what it does.
const TABLE: &[(Command, &[&str], &str, &str)] = &[
    (Command::Help, &["/help", "/?", "/h"], "", "show this"),
    (Command::Exit, &["/exit", "/bye", "/quit", "/q"], "", "leave (also Ctrl-D)"),
    (Command::Clear, &["/clear", "/cls"], "", "forget the conversation, keep the system prompt"),
    (Command::Save, &["/save"], "[FILE]", "write the conversation and its settings to a file"),
    (Command::Load, &["/load"], "[FILE]", "go on with a saved conversation"),
    (Command::Model, &["/model"], "[FILE]", "show the model, or go on with another"),
    (Command::System, &["/system", "/sys"], "[TEXT]", "show or change the system prompt; \"\" removes it"),
    (Command::Set, &["/set"], "[NAME [VALUE]]", "show or change a setting, such as temp"),
    (Command::Stats, &["/stats", "/status"], "", "show tokens and speeds"),
    (Command::Config, &["/config", "/cfg"], "", "show all settings and where they come from"),
];

/// All names, for completion.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|(_, names, _, _)| names.iter().copied())
}

/// The lines of `/help`.
pub fn help() -> Vec<String> {
    let line = |(_, names, takes, does): &(_, &[&str], _, &str)| {
        let left = format!("{} {takes}", names.join(" "));
        format!("  {left:<26} {does}")
    };
    let notes = [
        "A line that ends in \\ goes on; so does a text between \"\"\" and \"\"\". Ctrl-C stops an answer.",
        "A line that begins with a space is a message even if a / follows.",
        "Ollama's /set parameter, /set system, /set think, /set nothink and /show are known, too.",
    ];
    TABLE.iter().map(line).chain(notes.map(str::to_owned)).collect()
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

/// Ollama's `/set parameter NAME VALUE`, `/set system TEXT`, `/set think`, `/set nothink` and `/show WHAT`.
fn ollamas<'a>(name: &str, argument: &'a str) -> Option<(Command, &'a str)> {
    let (what, rest) = first_word(argument);
    match (name, what) {
        ("/set", "parameter") => Some((Command::Set, rest)),
        ("/set", "think") if rest.is_empty() => Some((Command::Set, "think true")),
        ("/set", "nothink") => Some((Command::Set, "think false")),
        ("/set", "system") => Some((Command::System, rest)),
        ("/show", "" | "info") => Some((Command::Model, "")),
        ("/show", "parameters") => Some((Command::Set, "")),
        ("/show", "system") => Some((Command::System, "")),
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
        assert_eq!(parse("/show info").unwrap(), Some((Command::Model, "")));
        assert_eq!(parse("/show").unwrap(), Some((Command::Model, "")));
        assert!(parse("/show license").is_err());
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
