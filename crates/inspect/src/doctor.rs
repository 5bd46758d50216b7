//! What is wrong with a model file, and what only looks wrong: found by reading it, not by running it. How the file
//! computes on this machine is `verify`.

mod finding;
mod hash;
mod known;
mod likelihood;
mod metadata;
mod opening;
mod scan;
mod weights;

use std::path::Path;

use candor::Gguf;
use serde::{Deserialize, Serialize};

pub use finding::{Finding, Severity};
pub use hash::{FileHash, files_of, sha256};
pub(crate) use hash::{Hashing, hashes};
pub use likelihood::{Likelihood, Repaired, TextOptions, likelihood};
pub use scan::TensorStats;
pub(crate) use scan::{Extent, scan};
pub(crate) use weights::findings as weight_findings;

/// Version of [`DoctorReport`]'s layout.
pub const DOCTOR_VERSION: u32 = 1;

/// What a file says it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// `general.name`.
    pub name: Option<String>,
    /// Version of the container.
    pub gguf: u32,
    /// Keys of the metadata.
    pub keys: usize,
    /// Tensors.
    pub tensors: usize,
    /// Elements of all tensors.
    pub elements: u64,
    /// Formats and how many tensors have each, the most frequent first.
    pub formats: Vec<(String, usize)>,
}

/// What was found in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// [`DOCTOR_VERSION`].
    pub version: u32,
    /// The files, with their hashes.
    pub files: Vec<FileHash>,
    /// What they hold; `None` where they cannot be opened.
    pub contents: Option<Contents>,
    /// What was found, the worst first, in the order of the file.
    pub findings: Vec<Finding>,
    /// Statistics of the weights, in the order of the file.
    pub tensors: Vec<TensorStats>,
    /// What a text says about it, where there was one.
    #[serde(default)]
    pub likelihood: Option<Likelihood>,
}

impl DoctorReport {
    /// Findings of one severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.severity == severity)
    }

    /// Whether nothing is wrong. Warnings do not count.
    pub fn is_healthy(&self) -> bool {
        self.of(Severity::Error).next().is_none()
    }

    /// Adds what a text says.
    pub fn add(&mut self, likelihood: Likelihood) {
        self.findings.extend(likelihood.findings());
        self.likelihood = Some(likelihood);
        self.sort();
    }

    fn sort(&mut self) {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }
}

/// Reads a model file (any one of its shards) and says what is wrong with it.
///
/// # Errors
/// If the file cannot be read. That it is no model is a finding.
pub fn doctor(path: impl AsRef<Path>) -> std::io::Result<DoctorReport> {
    let path = path.as_ref();
    // A missing shard is a finding; a missing file is not.
    path.metadata()?;
    let files: Vec<_> = files_of(path).into_iter().filter(|file| file == path || file.is_file()).collect();
    let mut report = DoctorReport {
        version: DOCTOR_VERSION,
        files: if path.is_file() { hashes(&files, Hashing::Whole)? } else { Vec::new() },
        contents: None,
        findings: Vec::new(),
        tensors: Vec::new(),
        likelihood: None,
    };
    match Gguf::open(path) {
        Err(error) => report.findings.push(opening::refused(&error)),
        Ok(gguf) => {
            report.contents = Some(contents(&gguf));
            report.findings.extend(opening::findings(&gguf, &files));
            report.findings.extend(metadata::findings(&gguf));
            report.tensors = scan(&gguf, Extent::All);
            report.findings.extend(weight_findings(&gguf, &report.tensors));
        }
    }
    report.sort();
    Ok(report)
}

fn contents(gguf: &Gguf) -> Contents {
    let text = |key: &str| gguf.metadata().str(key).ok().flatten().map(str::to_owned);
    let mut formats: Vec<(String, usize)> = Vec::new();
    for tensor in gguf.tensors() {
        match formats.iter_mut().find(|(name, _)| name == tensor.format.name()) {
            Some((_, count)) => *count += 1,
            None => formats.push((tensor.format.name().to_owned(), 1)),
        }
    }
    formats.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    Contents {
        architecture: text("general.architecture"),
        name: text("general.name"),
        gguf: gguf.version(),
        keys: gguf.metadata().len(),
        tensors: gguf.tensors().len(),
        elements: gguf.tensors().iter().map(|tensor| tensor.elements()).fold(0, u64::saturating_add),
        formats,
    }
}
