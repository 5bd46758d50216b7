//! What was made of the lines of a log, line by line: its reader is believed when one can see how it read.

use std::fmt;

use serde::Serialize;

use crate::Key;

/// A line, or several in one, and what was made of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// The line, counted from 1.
    pub line: usize,
    /// How it begins.
    pub text: String,
    /// What it is.
    #[serde(flatten)]
    pub made: Made,
}

/// What a line is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "as", rename_all = "snake_case")]
pub enum Made {
    /// Numbers of a value.
    Value {
        /// The value.
        key: Key,
        /// The tokens that its rows are, in words.
        rows: String,
        /// How many numbers.
        numbers: usize,
        /// What was concluded to get there.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The ids of the tokens that went in.
    Tokens {
        /// How many.
        numbers: usize,
    },
    /// Statistics, which are no evidence: most faults leave them as they are.
    Statistics {
        /// Of which value, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<Key>,
    },
    /// Numbers that could not be placed.
    Unread {
        /// Why.
        reason: String,
    },
    /// Other numbers than an earlier line has for the same elements, or more than the model has. They were left out.
    Contradiction {
        /// The value.
        key: Key,
        /// What contradicts, with the other line.
        reason: String,
    },
}

/// Letters of a line that are shown.
const SHOWN: usize = 60;

impl Reading {
    pub(super) fn new(line: usize, text: &str, made: Made) -> Reading {
        let text = text.trim();
        let end = text.char_indices().nth(SHOWN).map(|(at, _)| at);
        let text = end.map_or_else(|| text.to_owned(), |end| format!("{}...", text[..end].trim_end()));
        Reading { line, text, made }
    }

    /// Whether numbers of the line are in the trace.
    pub fn is_evidence(&self) -> bool {
        matches!(self.made, Made::Value { .. } | Made::Tokens { .. })
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        match &self.made {
            Made::Value { key, rows, numbers, note } => {
                write!(f, "line {line}: {key}, {rows} ({numbers} numbers)")?;
                note.as_ref().map_or(Ok(()), |note| write!(f, ": {note}"))
            }
            Made::Tokens { numbers } => write!(f, "line {line}: the ids of {numbers} tokens"),
            Made::Statistics { key: Some(key) } => write!(f, "line {line}: statistics of {key}, which are no evidence"),
            Made::Statistics { key: None } => write!(f, "line {line}: statistics, which are no evidence"),
            Made::Unread { reason } => write!(f, "line {line}: not read, {reason}: {}", self.text),
            Made::Contradiction { key, reason } => write!(f, "line {line}: {key} left out, {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_print_with_their_lines() {
        let key = Key::new("l_out", Some(21));
        let value = |note| Made::Value { key: key.clone(), rows: "row 4".to_owned(), numbers: 3, note };
        for (made, expected) in [
            (value(None), "line 7: l_out-21, row 4 (3 numbers)"),
            (value(Some("as said".to_owned())), "line 7: l_out-21, row 4 (3 numbers): as said"),
            (Made::Tokens { numbers: 5 }, "line 7: the ids of 5 tokens"),
            (Made::Statistics { key: None }, "line 7: statistics, which are no evidence"),
            (Made::Unread { reason: "no name".to_owned() }, "line 7: not read, no name: x: 0.5"),
        ] {
            assert_eq!(Reading::new(7, " x: 0.5", made).to_string(), expected);
        }
        let long = Reading::new(1, &"é".repeat(100), Made::Tokens { numbers: 0 });
        assert_eq!(long.text, format!("{}...", "é".repeat(60)));
    }
}
