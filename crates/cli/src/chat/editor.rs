//! Where messages come from: a line editor with history on a terminal, plain lines everywhere else.

use std::{
    borrow::Cow,
    env, fs,
    io::{self, BufRead, IsTerminal},
    path::PathBuf,
};

use reedline::{
    Color, ColumnarMenu, EditCommand, Emacs, FileBackedHistory, Highlighter, KeyCode, KeyModifiers, MenuBuilder,
    Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, Reedline, ReedlineEvent, ReedlineMenu,
    Signal, StyledText, ValidationResult, Validator, default_emacs_keybindings,
};

use super::{completer::Offers, multiline, tty::Quiet};
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
    Editor(Box<Reedline>, Quiet),
    /// A pipe, a file, or a terminal that cannot move its cursor.
    Lines { prompt: bool, bytes: usize },
}

impl Input {
    /// The input that stdin is.
    pub fn new() -> Input {
        let terminal = io::stdin().is_terminal();
        let capable = io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb");
        if terminal && capable {
            Input::Editor(Box::new(editor(true)), Quiet::begin())
        } else {
            Input::Lines { prompt: terminal, bytes: 0 }
        }
    }

    /// Whether a person is typing.
    pub fn is_interactive(&self) -> bool {
        matches!(self, Input::Editor(..) | Input::Lines { prompt: true, .. })
    }

    /// The next entry.
    pub fn next(&mut self) -> Result<Entry, Error> {
        match self {
            Input::Editor(editor, quiet) => {
                quiet.again();
                match editor.read_line(&Indicator("> ")).map_err(Error::Terminal)? {
                    Signal::Success(text) => Ok(Entry::Text(text)),
                    Signal::CtrlC => Ok(Entry::Interrupt),
                    _ => Ok(Entry::End),
                }
            }
            Input::Lines { prompt, bytes } => lines(*prompt, bytes),
        }
    }

    /// Has the next entry begin with a text; `false` where there is no editor.
    pub fn begin_with(&mut self, text: &str) -> bool {
        let Input::Editor(editor, _) = self else { return false };
        editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(text.to_owned())]);
        true
    }

    /// Whether a question is answered with yes; `None` where nobody is there to answer it.
    pub fn ask(&self, question: &str) -> Result<Option<bool>, Error> {
        let text = match self {
            Input::Editor(_, quiet) => {
                quiet.again();
                let mut editor = Reedline::create().with_highlighter(Box::new(Plain)).with_ansi_colors(has_colours());
                match editor.read_line(&Indicator(question)).map_err(Error::Terminal)? {
                    Signal::Success(text) => text,
                    _ => String::new(),
                }
            }
            Input::Lines { prompt: true, .. } => {
                eprint(question);
                let mut text = String::new();
                let read = io::stdin().lock().read_line(&mut text);
                read.map_err(|error| Error::File { path: "stdin".into(), error })?;
                text
            }
            Input::Lines { prompt: false, .. } => return Ok(None),
        };
        Ok(Some(matches!(text.trim().to_lowercase().as_str(), "y" | "yes")))
    }

    /// Keeps what is entered from now on for later, or no longer.
    pub fn keep_history(&mut self, keep: bool) {
        if let Input::Editor(own, _) = self {
            // The file is written when the old one goes.
            **own = editor(keep);
        }
    }
}

/// Reads lines until they are a whole message.
fn lines(prompt: bool, bytes: &mut usize) -> Result<Entry, Error> {
    let mut text = String::new();
    loop {
        if prompt {
            eprint(if text.is_empty() { "> " } else { ". " });
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

/// Prints a text before what is typed.
fn eprint(text: &str) {
    use io::Write as _;
    let _ = write!(io::stderr(), "{text}");
}

fn has_colours() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Entries of the history that are kept.
const HISTORY: usize = 1000;

/// The file that the history is kept in.
fn history_file() -> Option<PathBuf> {
    config::folders().map(|folders| folders.data_dir().join("history.txt"))
}

fn editor(keep: bool) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu("commands".into()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    // Its marker stands where the prompt was.
    let menu = ColumnarMenu::default().with_name("commands").with_marker("> ").with_text_style(Color::Default.normal());
    let editor = Reedline::create()
        .use_bracketed_paste(true)
        .with_ansi_colors(has_colours())
        .with_highlighter(Box::new(Plain))
        .with_validator(Box::new(Whole))
        .with_completer(Box::new(Offers))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)));
    let history = history_file().filter(|_| keep).map(|path| {
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

/// What is typed, in the colour that the terminal has for text.
struct Plain;

impl Highlighter for Plain {
    fn highlight(&self, line: &str, _: usize) -> StyledText {
        let mut text = StyledText::new();
        text.push((Default::default(), line.to_owned()));
        text
    }
}

/// Lets Enter begin a new line where a message is not whole.
struct Whole;

impl Validator for Whole {
    fn validate(&self, text: &str) -> ValidationResult {
        if multiline::is_whole(text) { ValidationResult::Complete } else { ValidationResult::Incomplete }
    }
}

/// What stands before the cursor.
struct Indicator<'a>(&'a str);

impl Prompt for Indicator<'_> {
    /// A colour that both light and dark backgrounds leave readable.
    fn get_indicator_color(&self) -> Color {
        Color::Cyan
    }

    fn get_prompt_color(&self) -> Color {
        Color::Cyan
    }

    fn get_prompt_multiline_color(&self) -> Color {
        Color::Cyan
    }

    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
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
