//! A finding, and how bad it is.

use serde::{Deserialize, Serialize};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be, though it looks odd.
    Fine,
    /// Possibly wrong.
    Warning,
    /// Wrong: the file will not run, or not give what its model gives.
    Error,
}

/// Something about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The tensor, the metadata key, or `file`.
    pub subject: String,
    /// What was found.
    pub message: String,
    /// What to do, or why it is right.
    pub hint: String,
}

impl Finding {
    fn new(
        severity: Severity,
        subject: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Finding { severity, subject: subject.into(), message: message.into(), hint: hint.into() }
    }

    pub(crate) fn error(subject: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding::new(Severity::Error, subject, message, hint)
    }

    pub(crate) fn warning(subject: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding::new(Severity::Warning, subject, message, hint)
    }

    pub(crate) fn fine(subject: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding::new(Severity::Fine, subject, message, hint)
    }
}
