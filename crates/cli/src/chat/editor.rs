//! Where messages come from: a line editor with history on a terminal, plain lines everywhere else.

use std::{
    borrow::Cow,
    env, fs,
    io::{self, BufRead, IsTerminal},
    path::PathBuf,
};

use reedline::{
    ColumnarMenu, DefaultCompleter, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder, Prompt,
    PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    ValidationResult, Validator, default_emacs_keybindings,
};

use super::{commands, multiline};
use crate::{config, errors::Error, output::say};

/// What the user did.
pub enum Entry {
    /// Entered a message or a command, perhaps of several lines.
    Text(String),
    /// Pressed Ctrl-C.
    Interrupt,
    /// Pressed Ctrl-D, or the input is over.
    End,
}

/// Where messages come from.
pub enum Input {
    /// A terminal.
    Editor(Box<Reedline>),
    /// A pipe, a file, or a terminal that cannot move its cursor.
    Lines { prompt: bool, bytes: usize },
}

impl Input {
    /// The input that stdin is.
    pub fn new() -> Input {
        let terminal = io::stdin().is_terminal();
        let capable = io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb");
        if terminal && capable {
            Input::Editor(Box::new(editor()))
        } else {
            Input::Lines { prompt: terminal, bytes: 0 }
        }
    }

    /// Whether a person is typing.
    pub fn is_interactive(&self) -> bool {
        matches!(self, Input::Editor(_) | Input::Lines { prompt: true, .. })
    }

    /// The next entry.
    pub fn next(&mut self) -> Result<Entry, Error> {
        match self {
            Input::Editor(editor) => match editor.read_line(&Indicator).map_err(Error::Terminal)? {
                Signal::Success(text) => Ok(Entry::Text(text)),
                Signal::CtrlC => Ok(Entry::Interrupt),
                _ => Ok(Entry::End),
            },
            Input::Lines { prompt, bytes } => lines(*prompt, bytes),
        }
    }
}

/// Reads lines until they are a whole message.
fn lines(prompt: bool, bytes: &mut usize) -> Result<Entry, Error> {
    let mut text = String::new();
    loop {
        if prompt {
            use io::Write as _;
            let _ = write!(io::stderr(), "{}", if text.is_empty() { "> " } else { ". " });
        }
        let mut line = Vec::new();
        let read = io::stdin().lock().read_until(b'\n', &mut line);
        if read.map_err(|error| Error::File { path: "stdin".into(), error })? == 0 {
            return Ok(if text.is_empty() { Entry::End } else { Entry::Text(text) });
        }
        let line = String::from_utf8(line).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Error::Utf8 { name: "stdin".into(), offset: *bytes + at, byte: error.as_bytes()[at] }
        })?;
        *bytes += line.len();
        text.push_str(line.trim_end_matches(['\r', '\n']));
        if multiline::is_whole(&text) {
            return Ok(Entry::Text(text));
        }
        text.push('\n');
    }
}

/// Entries of the history that are kept.
const HISTORY: usize = 1000;

/// The file that the history is kept in.
fn history_file() -> Option<PathBuf> {
    config::folders().map(|folders| folders.data_dir().join("history.txt"))
}

fn editor() -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu("commands".into()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    let names = commands::names().map(str::to_owned).collect();
    let completer = DefaultCompleter::with_inclusions(&['/', '?']).set_min_word_len(1);
    let completer = with_names(completer, names);
    let menu = ColumnarMenu::default().with_name("commands");
    let editor = Reedline::create()
        .use_bracketed_paste(true)
        .with_ansi_colors(env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
        .with_validator(Box::new(Whole))
        .with_completer(Box::new(completer))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)));
    let history = history_file().map(|path| {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        FileBackedHistory::with_file(HISTORY, path.clone()).map_err(|error| format!("{}: {error}", path.display()))
    });
    match history {
        Some(Ok(history)) => editor.with_history(Box::new(history)),
        Some(Err(problem)) => {
            say!("warning: the history is not kept: {problem}");
            editor
        }
        None => editor,
    }
}

fn with_names(mut completer: DefaultCompleter, names: Vec<String>) -> DefaultCompleter {
    completer.insert(names);
    completer
}

/// Lets Enter begin a new line where a message is not whole.
struct Whole;

impl Validator for Whole {
    fn validate(&self, text: &str) -> ValidationResult {
        if multiline::is_whole(text) { ValidationResult::Complete } else { ValidationResult::Incomplete }
    }
}

/// What stands before the cursor.
struct Indicator;

impl Prompt for Indicator {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed(". ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failing = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing for ",
        };
        Cow::Owned(format!("({failing}{}) ", search.term))
    }
}
