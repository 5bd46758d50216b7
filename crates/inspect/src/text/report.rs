//! What a check of the text side says, as data.

use serde::Serialize;

use super::{
    difference::Difference,
    row::{Row, TextFault},
};

/// The form of this report; grows when fields change their meaning.
const VERSION: u32 = 1;

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It follows from what the suspect had.
    Right,
    /// It does not.
    Wrong,
    /// Too little is known.
    NotCheckable,
}

/// One fault, or two at once, that gives exactly what the suspect has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The faults, in the order in which they act.
    pub faults: Vec<TextFault>,
    /// What the engine did: the causes with their variants filled in, and what speaks for them.
    pub cause: String,
}

impl Explanation {
    /// From the rows with the words for their variants.
    pub(super) fn new(parts: &[(&'static Row, String)]) -> Explanation {
        let causes: Vec<String> = parts.iter().map(|(row, label)| row.fault.cause.replace("{}", label)).collect();
        Explanation { faults: parts.iter().map(|(row, _)| row.fault).collect(), cause: causes.join(" ") }
    }

    /// The names of its faults, `no-bos + no-space-prefix`.
    pub fn name(&self) -> String {
        self.faults.iter().map(|fault| fault.name).collect::<Vec<_>>().join(" + ")
    }
}

/// One stage of the way from a prompt to a printed answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TextCheck {
    /// The stage.
    pub name: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// The verdict in a sentence.
    pub sentence: String,
    /// Where the suspect parts from what is right.
    pub difference: Option<Difference>,
    /// Every known fault that reproduces what the suspect has: one, or twins that cannot be distinguished here.
    pub explanations: Vec<Explanation>,
    /// The single thing that would make the check possible, or decide between twins.
    pub decided_by: Option<String>,
}

impl TextCheck {
    pub(super) fn right(name: &'static str, sentence: impl Into<String>) -> TextCheck {
        TextCheck {
            name,
            verdict: Verdict::Right,
            sentence: sentence.into(),
            difference: None,
            explanations: Vec::new(),
            decided_by: None,
        }
    }

    pub(super) fn wrong(name: &'static str, sentence: impl Into<String>) -> TextCheck {
        TextCheck { verdict: Verdict::Wrong, ..TextCheck::right(name, sentence) }
    }

    pub(super) fn not_checkable(name: &'static str, sentence: impl Into<String>, by: Option<&str>) -> TextCheck {
        TextCheck {
            verdict: Verdict::NotCheckable,
            decided_by: by.map(str::to_owned),
            ..TextCheck::right(name, sentence)
        }
    }

    pub(super) fn differing(self, difference: Difference) -> TextCheck {
        TextCheck { difference: Some(difference), ..self }
    }

    pub(super) fn explained(self, explanations: Vec<Explanation>) -> TextCheck {
        TextCheck { explanations, ..self }
    }

    /// Whether a fault of this name is among the explanations.
    pub fn names(&self, fault: &str) -> bool {
        self.explanations.iter().any(|explanation| explanation.faults.iter().any(|known| known.name == fault))
    }
}

/// The whole in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextOutcome {
    /// What could be checked is right.
    Healthy,
    /// Known faults explain all that is wrong.
    Faulty,
    /// Something is wrong, and no known fault explains all of it.
    Unknown,
    /// Nothing could be checked.
    Undecided,
}

/// What was found of the text side of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TextReport {
    /// The form of this report.
    pub version: u32,
    /// What the suspect was compared with.
    pub oracle: &'static str,
    /// The whole in a word.
    pub outcome: TextOutcome,
    /// The stages in their order; each takes the suspect's own result of the one before.
    pub checks: Vec<TextCheck>,
    /// The single thing that would decide the earliest stage that is open.
    pub decided_by: Option<String>,
}

impl TextReport {
    pub(super) fn new(checks: Vec<TextCheck>) -> TextReport {
        let wrong = || checks.iter().filter(|check| check.verdict == Verdict::Wrong);
        let outcome = if wrong().any(|check| check.explanations.is_empty()) {
            TextOutcome::Unknown
        } else if wrong().next().is_some() {
            TextOutcome::Faulty
        } else if checks.iter().any(|check| check.verdict == Verdict::Right) {
            TextOutcome::Healthy
        } else {
            TextOutcome::Undecided
        };
        let decided_by = checks.iter().find_map(|check| check.decided_by.clone());
        let oracle = "the file's vocabulary and template, and the suspect's own ids and logits";
        TextReport { version: VERSION, oracle, outcome, checks, decided_by }
    }

    /// The check of a stage.
    pub fn check(&self, name: &str) -> Option<&TextCheck> {
        self.checks.iter().find(|check| check.name == name)
    }
}
