//! Proves one machine's run of one file: every operation against formulas, runs that must agree, the file, the text.
//!
//! The report says which oracle it used. A run that is only held against itself is never called a proof. What is wrong
//! with a run, and why, is `diagnose`; a file without a run is `doctor`.

mod against;
mod answered;
mod error;
mod limits;
mod processor;
mod report;
mod sessions;
mod texts;

use std::path::{Path, PathBuf};

use candor::{Activations, Device, Gguf, KvFormat, LoadOptions, Model, Verify};
use web_time::Instant;

use crate::{
    Trace,
    doctor::{Extent, FileHash, Finding, Hashing, Severity, files_of, hashes, scan, weight_findings},
};

pub use answered::answered;
pub use candor_verify::{Class, Depth, Operation, Operations, Place, Plan, Work, Worst, operations, watched};
pub use error::VerifyError;
pub use limits::{MAX_DECODE, MAX_PROMPT};
pub use processor::processor;
pub use report::{Against, Check, Compared, Outcome, Subject, VERIFY_VERSION, Verdict, VerifyReport};

/// The text that is run where none is given.
pub const BUILT_IN_PROMPT: &str = "The quick brown fox jumps over the lazy dog, and 12 hens look on.";
/// Tokens of the built-in text that a quick run takes.
const QUICK_PROMPT: usize = 9;
/// What is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prompt {
    /// [`BUILT_IN_PROMPT`] in the words of the model's vocabulary.
    #[default]
    BuiltIn,
    /// A text; special tokens are recognised.
    Text(String),
    /// Token ids as they are.
    Ids(Vec<u32>),
}

/// How to verify.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// The device in question, and its threads. A GPU is verified here, so that [`LoadOptions::verify`] means nothing.
    pub load: LoadOptions,
    /// What is run.
    pub prompt: Prompt,
    /// Tokens decoded after the prompt, one by one; at most [`MAX_DECODE`].
    pub decode: usize,
    /// How much is checked. In full, besides the operations: every weight of the file, its hash, and one thread against
    /// several. Quickly: 64 rows of each tensor and a short prompt.
    pub depth: Depth,
    /// Element type of cached keys.
    pub keys: KvFormat,
    /// Element type of cached values.
    pub values: KvFormat,
    /// Another program's trace of the same model, to be used as the oracle instead of the formulas.
    pub against: Option<Trace>,
}

impl Default for VerifyOptions {
    /// The built-in text and two tokens after it on the processor, in full, with a half-precision cache.
    fn default() -> Self {
        VerifyOptions {
            load: LoadOptions::default(),
            prompt: Prompt::BuiltIn,
            decode: 2,
            depth: Depth::Full,
            keys: KvFormat::F16,
            values: KvFormat::F16,
            against: None,
        }
    }
}

/// Verifies a model file (any one of its shards) on this machine.
///
/// # Errors
/// If the file does not load, or what is to be run makes no sense. That something is wrong with the run is the report's
/// [`VerifyReport::verdict`].
pub fn verify(path: impl AsRef<Path>, options: &VerifyOptions) -> Result<VerifyReport, VerifyError> {
    let path = path.as_ref();
    let gguf = Gguf::open(path).map_err(candor::Error::from)?;
    verify_opened(gguf, &files_of(path), options)
}

/// Verifies an opened model. `files` are hashed; a model in memory has none.
///
/// # Errors
/// As [`verify`].
pub fn verify_opened(gguf: Gguf, files: &[PathBuf], options: &VerifyOptions) -> Result<VerifyReport, VerifyError> {
    let start = Instant::now();
    let load = options.load.clone().verify(Verify::Off);
    let model = Model::from_gguf(gguf.clone(), &load)?;
    let (tokens, prompt_tokens) = tokens(&model, options)?;
    let (text, tokens, prompt_tokens) = match (model.config().start, &options.against) {
        (None, _) => (Vec::new(), tokens, prompt_tokens),
        (Some(start), None) => (tokens, vec![start], 1),
        (Some(_), Some(trace)) => (trace.origin.text.clone().ok_or(VerifyError::NoTokens)?, tokens, prompt_tokens),
    };
    // A trace that names its model is only worth something against that model.
    let wanted = options.against.as_ref().is_some_and(|trace| trace.origin.model_sha256.is_some());
    let hashing = if options.depth == Depth::Full || wanted { Hashing::Whole } else { Hashing::Skip };
    let files = hash_all(files, hashing)?;

    let (findings, file_check) = weights(&gguf, options.depth);
    let mut checks = vec![file_check, texts::round_trip(&model), texts::template(&model)];
    let mut report = VerifyReport {
        version: VERIFY_VERSION,
        engine: engine(),
        model: gguf.metadata().str("general.name").ok().flatten().map(str::to_owned),
        device: model.device_label().to_owned(),
        oracle: "Candor's own f64 formulas, op by op on identical inputs".to_owned(),
        depth: options.depth,
        files,
        findings,
        text,
        tokens,
        prompt_tokens,
        operations: None,
        checks: Vec::new(),
        against: None,
        seconds: 0.0,
        verdict: Verdict::Pass,
    };
    match &options.against {
        None => {
            let prompt = &report.tokens[..prompt_tokens];
            let VerifyOptions { decode, depth, keys, values, .. } = *options;
            let text = &report.text;
            let exact = load.activations == Activations::F32;
            let plan = Plan { text, prompt, decode, after: &[], depth, keys, values, exact, part: None };
            let found = candor::checked::operations(&gguf, &load, &plan)?;
            report.tokens.clone_from(&found.tokens);
            report.operations = Some(found);
        }
        Some(trace) => {
            let against = against::compare(&model, trace, &report, (options.keys, options.values))?;
            report.oracle.clone_from(&against.oracle);
            report.against = Some(against);
        }
    }
    checks.extend(session_checks(&model, &report, options)?);
    report.checks = checks;
    report.verdict = verdict(&report);
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// This program, as traces name it.
pub(crate) fn engine() -> String {
    concat!("candor ", env!("CARGO_PKG_VERSION")).to_owned()
}

/// The tokens to be run, and how many of them are evaluated together.
fn tokens(model: &Model, options: &VerifyOptions) -> Result<(Vec<u32>, usize), VerifyError> {
    let origin = options.against.as_ref().map(|trace| &trace.origin);
    let mut prompt = match (&options.prompt, origin.and_then(|origin| origin.tokens.clone())) {
        (_, Some(tokens)) => tokens,
        (Prompt::Ids(ids), None) => ids.clone(),
        (Prompt::Text(_) | Prompt::BuiltIn, None) if origin.is_some() => return Err(VerifyError::NoTokens),
        (Prompt::Text(text), None) => model.encode_prompt(text),
        (Prompt::BuiltIn, None) => model.encode_prompt(BUILT_IN_PROMPT),
    };
    let limits = [("prompt", prompt.len(), MAX_PROMPT), ("decode", options.decode, MAX_DECODE)];
    if let Some((what, got, most)) = limits.into_iter().find(|(_, got, most)| got > most) {
        return Err(VerifyError::TooLong { what, most, got });
    }
    if options.prompt == Prompt::BuiltIn && origin.is_none() {
        // What the text becomes depends on the vocabulary; it must leave room to decode.
        let config = model.config();
        let most = config.context.saturating_sub(options.decode);
        let most = if options.depth == Depth::Quick { most.min(QUICK_PROMPT) } else { most };
        prompt.truncate(most.max(1));
    }
    if prompt.is_empty() {
        return Err(candor::Error::EmptyPrompt.into());
    }
    let vocab = model.config().vocab;
    if let Some(&token) = prompt.iter().find(|&&token| token as usize >= vocab) {
        return Err(candor::Error::Token { token, vocab }.into());
    }
    if let Some(positions) = origin.and_then(|origin| origin.positions.as_ref()) {
        let moved = positions.iter().enumerate().find(|&(index, &got)| index as u32 != got);
        if let Some((index, &got)) = moved {
            return Err(VerifyError::Positions { index, got });
        }
    }
    let together = origin.and_then(|origin| origin.prompt_tokens).unwrap_or(prompt.len()).clamp(1, prompt.len());
    Ok((prompt, together))
}

fn hash_all(files: &[PathBuf], hashing: Hashing) -> Result<Vec<FileHash>, VerifyError> {
    let mut all = Vec::new();
    for path in files {
        let one = hashes(std::slice::from_ref(path), hashing);
        all.extend(one.map_err(|error| VerifyError::Io { path: path.clone(), error })?);
    }
    Ok(all)
}

/// Findings in the weights, and the check that there is no error among them.
fn weights(gguf: &Gguf, depth: Depth) -> (Vec<Finding>, Check) {
    let extent = match depth {
        Depth::Full => Extent::All,
        Depth::Quick => Extent::Sampled,
    };
    let stats = scan(gguf, extent);
    let findings = weight_findings(gguf, &stats);
    let outcome = match findings.iter().find(|finding| finding.severity == Severity::Error) {
        None => Outcome::Passed,
        Some(finding) => Outcome::Failed(format!("{}: {}", finding.subject, finding.message)),
    };
    let rows: usize = stats.iter().map(|stats| stats.seen_rows).sum();
    let detail = format!("{} tensors, {rows} rows", stats.len());
    (findings, Check { subject: Subject::File, name: "weights".to_owned(), detail, outcome })
}

fn session_checks(model: &Model, report: &VerifyReport, options: &VerifyOptions) -> Result<Vec<Check>, VerifyError> {
    let VerifyReport { text, tokens, .. } = report;
    let (keys, values) = (options.keys, options.values);
    let agreement = match model.is_batch_invariant() {
        true => sessions::Agreement::Bits,
        false => sessions::Agreement::Within(sessions::SESSIONS_QUANTIZED),
    };
    let runs = sessions::Sessions::new(sessions::Runs { model, text, tokens, keys, values, agreement })?;
    let mut checks = vec![runs.prefill_and_steps()?, runs.decoded()?, runs.cached_and_fresh()?, runs.observed()?];
    if options.depth == Depth::Full && options.load.device == Device::Cpu {
        checks.push(runs.threads(&options.load)?);
    }
    Ok(checks)
}

fn verdict(report: &VerifyReport) -> Verdict {
    let failed = |subjects: &[Subject]| {
        let mut checks = report.checks.iter().filter(|check| subjects.contains(&check.subject));
        checks.find_map(|check| match &check.outcome {
            Outcome::Failed(why) => Some(format!("{}: {why}", check.name)),
            Outcome::Passed | Outcome::Skipped(_) => None,
        })
    };
    let first = failed(&[Subject::File, Subject::Text])
        .or_else(|| report.operations.as_ref().and_then(Operations::failure))
        .or_else(|| failed(&[Subject::Session]))
        .or_else(|| report.against.as_ref().and_then(Against::failure));
    first.map_or(Verdict::Pass, |first| Verdict::Fail { first })
}
