//! Whether an answer stands: it is replayed alone, and its operations are held against formulas.

use std::{sync::Arc, thread};

use axum::Json;
use candor::{Error, KvFormat, Model, SessionOptions};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    app::App,
    config::{Diagnose, Operations},
    guard::Scope,
    likely::logprob,
    refusal::Refusal,
};

/// An answer to be replayed.
struct Given {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    /// The logarithm of each token's probability when it was chosen.
    logprobs: Vec<f64>,
}

/// What a replay found.
struct Replayed {
    /// The first token whose probability is another one, and that.
    first: Option<(usize, f64)>,
    /// The largest difference between two logarithms.
    largest: f64,
}

/// Takes its turn until the end.
struct Diagnosis {
    model: Model,
    formats: [KvFormat; 2],
    check: Arc<Diagnose>,
    _turn: OwnedSemaphorePermit,
}

/// `POST /diagnose/{id}`: whether the answers of a trace stand, and what is wrong where they do not.
///
/// # Errors
/// If there is no such trace, another is being diagnosed, or the model cannot be run.
pub async fn diagnose(app: Arc<App>, scope: Scope, id: &str) -> Result<Json<Value>, Refusal> {
    app.models.ready()?;
    let trace = app.traces.find(scope.0, id)?;
    // It is held until the end, and its thread with it no longer than the client waits.
    let held = app.models.hold(app.models.find(trace.model())?, app.config.autoload).await?;
    let served = held.answers()?;
    let check = served
        .diagnose
        .clone()
        .ok_or_else(|| Refusal::other_model("answers of a model with adapters are not diagnosed"))?;
    let turn = app.diagnosing.clone().try_acquire_owned();
    let _turn = turn.map_err(|_| Refusal::busy("an answer is being diagnosed: try again later"))?;
    let diagnosis = Diagnosis { model: served.model.clone(), formats: served.formats, check, _turn };
    let given: Vec<Given> = trace
        .answers()
        .iter()
        .map(|answer| Given {
            prompt: answer.prompt.clone(),
            tokens: answer.tokens.iter().map(|(id, _)| *id).collect(),
            logprobs: answer.tokens.iter().map(|(_, likely)| likely.logprob()).collect(),
        })
        .collect();
    let (done, found) = oneshot::channel();
    // A thread of its own: it takes long, and nothing waits for it at the end of the server.
    let work = move || {
        let answers = given.iter().map(|given| diagnosis.judge(given)).collect();
        // Who hears of it may ask for the next.
        drop(diagnosis);
        let _ = done.send(answers);
    };
    thread::Builder::new()
        .name("diagnose".to_owned())
        .spawn(work)
        .map_err(|error| Refusal::failed(error.to_string()))?;
    let answers: Result<Vec<Value>, Refusal> =
        found.await.unwrap_or_else(|_| Err(Refusal::failed("this is a bug: the server's log has more")));
    let answers = answers?;
    let stands = answers.iter().all(|answer| answer["stands"] == true);
    Ok(Json(json!({ "object": "diagnosis", "trace_id": id, "stands": stands, "answers": answers })))
}

impl Diagnosis {
    fn judge(&self, given: &Given) -> Result<Value, Refusal> {
        let replayed = self.alone(given)?;
        let Operations { failure, prompt, written, report } =
            (self.check)(&given.prompt, &given.tokens).map_err(Refusal::failed)?;
        let exact = self.model.is_batch_invariant();
        let moved = replayed.first.filter(|_| exact).map(|(index, logprob)| {
            let was = given.logprobs[index];
            format!("token {index} had the logprob {was} when it was chosen, and has {logprob} alone")
        });
        Ok(json!({
            "stands": failure.is_none() && moved.is_none(),
            "reason": failure.or(moved),
            "alone": {
                "tokens": given.tokens.len(),
                "expected": if exact { "the same bits" } else { "roundings of steps with other rows" },
                "first_difference": replayed.first.map(|(index, _)| index),
                "largest_difference": replayed.largest,
            },
            "operations": { "prompt_tokens": prompt, "written_tokens": written, "classes": report },
        }))
    }

    /// Reads the prompt and the answer alone, as they were read and written.
    fn alone(&self, given: &Given) -> Result<Replayed, Error> {
        let mut replayed = Replayed { first: None, largest: 0.0 };
        let [keys, values] = self.formats;
        let context = given.prompt.len() + given.tokens.len();
        let options = SessionOptions::default().context(context).fit(false).keys(keys).values(values);
        let mut session = self.model.session(&options)?;
        session.evaluate(&given.prompt)?;
        for (index, (&token, &was)) in given.tokens.iter().zip(&given.logprobs).enumerate() {
            if index > 0 {
                session.decode(given.tokens[index - 1])?;
            }
            let logprob = logprob(session.logits(), token);
            if logprob.to_bits() != was.to_bits() {
                replayed.first.get_or_insert((index, logprob));
                replayed.largest = replayed.largest.max((logprob - was).abs());
            }
        }
        Ok(replayed)
    }
}
