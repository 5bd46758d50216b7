//! What verifying found, as data.

use candor_verify::{Depth, Operations};
use serde::{Deserialize, Serialize};

use crate::{
    Key,
    doctor::{FileHash, Finding},
};

/// Version of [`VerifyReport`]'s layout.
pub const VERIFY_VERSION: u32 = 1;

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// The file's weights.
    File,
    /// Tokenizer and chat template.
    Text,
    /// Runs that must agree.
    Session,
}

/// How a check went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Passed,
    /// Not so; in words.
    Failed(String),
    /// Not checked; why.
    Skipped(String),
}

/// One check that is not of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What it is about.
    pub subject: Subject,
    /// What is checked: `prefill against token by token`.
    pub name: String,
    /// On what: `24 positions`.
    pub detail: String,
    /// How it went.
    pub outcome: Outcome,
}

/// Whether the run is proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everything that was checked is within its bound.
    Pass,
    /// Something is not.
    Fail {
        /// The first, in the order file, text, operations, sessions, trace.
        first: String,
    },
}

/// What verifying found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// [`VERIFY_VERSION`].
    pub version: u32,
    /// This program, with its version.
    pub engine: String,
    /// `general.name` of the file.
    pub model: Option<String>,
    /// Where it ran: `cpu, avx2 kernels, 2 threads`.
    pub device: String,
    /// What the run was held against, in words.
    pub oracle: String,
    /// How much was checked.
    pub depth: Depth,
    /// The model's files; empty for one in memory.
    pub files: Vec<FileHash>,
    /// What was found in the weights.
    pub findings: Vec<Finding>,
    /// The text that an encoder read, which the tokens answer; empty where the model has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<u32>,
    /// The prompt and what was decoded after it.
    pub tokens: Vec<u32>,
    /// How many of the tokens are the prompt.
    pub prompt_tokens: usize,
    /// Every class of operations, in the order in which they first ran; `None` where a trace was the oracle.
    pub operations: Option<Operations>,
    /// Everything else.
    pub checks: Vec<Check>,
    /// The comparison with a trace, where one was the oracle.
    pub against: Option<Against>,
    /// Seconds that it took.
    pub seconds: f64,
    /// Whether the run is proven.
    pub verdict: Verdict,
}

/// One named value, over all layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// llama.cpp's name of it, without the layer.
    pub name: String,
    /// Values compared: layers that the trace has.
    pub values: usize,
    /// Elements compared.
    pub elements: usize,
    /// The one that is worst in multiples of its bound.
    pub worst: Key,
    /// Its error: root mean square of the difference, relative to each row's; `None` where it is not finite.
    pub error: Option<f64>,
    /// The largest that would pass.
    pub bound: f64,
}

impl Compared {
    /// Whether the worst is within its bound.
    pub fn passes(&self) -> bool {
        self.error.is_some_and(|error| error <= self.bound)
    }

    pub(super) fn ratio(&self) -> f64 {
        self.error.map_or(f64::INFINITY, |error| error / self.bound)
    }
}

/// The comparison with a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The trace's origin in words.
    pub oracle: String,
    /// Why the trace proves nothing, where it does not.
    pub refused: Option<String>,
    /// Each name, in the order of computation.
    pub names: Vec<Compared>,
    /// Values that were left out, and why.
    pub left_out: Vec<(Key, String)>,
}

impl Against {
    /// The first failure in words.
    pub(super) fn failure(&self) -> Option<String> {
        if let Some(why) = &self.refused {
            return Some(format!("trace: {why}"));
        }
        let failed = self.names.iter().find(|compared| !compared.passes())?;
        let error = failed.error.map_or("not finite, or of another shape".to_owned(), |error| format!("{error:.1e}"));
        Some(format!("{}: error {error}, at most {:.1e}", failed.worst, failed.bound))
    }
}
