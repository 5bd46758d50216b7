//! Recording a run of Candor's own: every named value on its way to a file or to statistics, as it is computed. What a
//! trace is in memory is `crate::trace`, how the file looks `crate::file`.

mod scores;
mod selection;
mod sink;
mod statistics;

use candor::{Logits, Observed, Observer, Role, Session};

use crate::{Evidence, Key, Known, Trace, file::WriteError, replay::Tokens};
use scores::Scores;

pub(crate) use selection::is_beside;
pub use selection::{Rows, Selection, SelectionError, matches};
pub use sink::Sink;
pub use statistics::{Statistics, Summary};

/// Why a run could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The tokens cannot be run.
    #[error(transparent)]
    Run(#[from] candor::Error),
    /// A value cannot be kept.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Runs the prompt in a session without tokens, then `steps` times its likeliest next token, and hands the selected
/// values to every sink. Where the model answers texts, the prompt is the text, and the token that answers begin with
/// follows it. The session holds the tokens afterwards; recording changes no bit of what it computes. Scores and weights of
/// attention come last.
///
/// # Errors
/// If the tokens do not fit, one is outside of the vocabulary, or a sink fails.
pub fn record(
    session: &mut Session,
    prompt: &[u32],
    steps: usize,
    selection: &Selection,
    sinks: &mut [&mut dyn Sink],
) -> Result<(), RecordError> {
    let logits = match selection.rows {
        // Logits are the largest product of all: they are computed for every token only if they are to be seen.
        Rows::All if selection.wants("result_norm", None) || selection.wants("result_output", None) => Logits::All,
        _ => Logits::Last,
    };
    let from = selection.first_row(session.tokens().len() + prompt.len());
    let scores = Scores::of(session.model().gguf(), selection)?;
    let mut recorder = Recorder { selection, from, scores, sinks, failed: None };
    match session.model().config().start {
        None => session.observe(prompt, Role::Prefill, logits, &mut recorder)?,
        Some(start) => {
            session.observe_text(prompt, &mut recorder)?;
            recorder.from = 0;
            session.observe(&[start], Role::Prefill, logits, &mut recorder)?;
        }
    }
    for _ in 0..steps {
        let next = likeliest(session.logits());
        session.observe(&[next], Role::Decode, Logits::All, &mut recorder)?;
    }
    let Recorder { failed, scores, sinks, .. } = recorder;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if let Some(scores) = scores {
        let together = if session.text().is_empty() { prompt.len() } else { 1 };
        let tokens = Tokens { text: session.text().to_vec(), ..Tokens::new(session.tokens().to_vec(), together) };
        scores.finish(session.model().gguf(), &tokens, session.cache_formats(), selection, sinks)?;
    }
    Ok(())
}

/// Hands the selected values of a trace in memory to every sink. Values that are not known in full are left out.
///
/// # Errors
/// If a sink fails.
pub fn replay_into(trace: &Trace, selection: &Selection, sinks: &mut [&mut dyn Sink]) -> Result<(), RecordError> {
    let tokens = trace.origin.tokens.as_ref().map_or(0, Vec::len);
    let from = selection.first_row(trace.origin.prompt_tokens.unwrap_or(tokens));
    for (key, evidence) in &trace.values {
        let Evidence { width, rows: Some(rows), known: Known::All(values), .. } = evidence else { continue };
        if *width == 0 || !selection.wants(&key.name, key.layer) {
            continue;
        }
        let start = rows.iter().position(|&row| row >= from).unwrap_or(rows.len());
        let Some(&first) = rows.get(start) else { continue };
        for sink in sinks.iter_mut() {
            sink.rows(key, *width, first, &values[start * width..])?;
        }
    }
    Ok(())
}

/// Index of the largest logit; NaN is never larger.
pub fn likeliest(logits: &[f32]) -> u32 {
    let better = |best: usize, i: usize| if logits[i] > logits[best] { i } else { best };
    (1..logits.len()).fold(0, better) as u32
}

struct Recorder<'a, 's> {
    selection: &'a Selection,
    /// The first token whose rows are taken.
    from: usize,
    scores: Option<Scores>,
    sinks: &'a mut [&'s mut dyn Sink],
    failed: Option<WriteError>,
}

impl Observer for Recorder<'_, '_> {
    fn wants(&mut self, name: &'static str, layer: Option<usize>) -> bool {
        let scored = self.scores.as_ref().is_some_and(|scores| scores.wants(name, layer));
        self.failed.is_none() && (scored || self.selection.wants(name, layer))
    }

    fn value(&mut self, observed: &Observed<'_>) {
        let Some(width) = observed.values.len().checked_div(observed.rows).filter(|&width| width > 0) else { return };
        if let Some(scores) = &mut self.scores {
            scores.take(observed, width);
        }
        if !self.selection.wants(observed.name, observed.layer) {
            return;
        }
        // Rows of logits are the outputs', which are the step's last tokens or all of them.
        let row = if observed.rows == observed.step.tokens.len() { 0 } else { observed.step.outputs[0] as usize };
        let first = observed.step.positions[row] as usize;
        let skipped = self.from.saturating_sub(first);
        if skipped >= observed.rows || self.failed.is_some() {
            return;
        }
        let key = Key::new(observed.name, observed.layer);
        let values = &observed.values[skipped * width..observed.rows * width];
        for sink in self.sinks.iter_mut() {
            if let Err(error) = sink.rows(&key, width, first + skipped, values) {
                self.failed = Some(error);
                return;
            }
        }
    }
}
