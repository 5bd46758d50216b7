//! Colours of what goes to stdout: only on a terminal, and not where `NO_COLOR` is set.

use std::{
    env, fmt,
    io::{self, IsTerminal},
};

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// As the terminal has them.
    Colours,
    /// Text alone.
    Plain,
}

/// A way to stand out, as the parameter of an SGR sequence (ECMA-48).
#[derive(Clone, Copy, Debug)]
pub enum Style {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

impl Paint {
    /// For stdout.
    pub fn of_stdout() -> Paint {
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        if io::stdout().is_terminal() && !unwanted && !dumb { Paint::Colours } else { Paint::Plain }
    }

    /// The text in a style. Widths have to be applied before: the sequences around it count as letters.
    pub fn paint(self, style: Style, text: impl fmt::Display) -> String {
        match self {
            Paint::Colours => format!("\u{1b}[{}m{text}\u{1b}[0m", style as u8),
            Paint::Plain => text.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_as_it_is() {
        assert_eq!(Paint::Plain.paint(Style::Red, "a"), "a");
        assert_eq!(Paint::Colours.paint(Style::Red, "a"), "\u{1b}[31ma\u{1b}[0m");
    }
}
