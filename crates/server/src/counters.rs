//! What a server has done and is doing, in numbers: `/metrics` in Prometheus' text format, `/slots`.

use std::{
    fmt::{Display, Write},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use candor::{Event, Load};
use serde_json::{Value, json};

use crate::{app::App, refusal::Refusal, registry::Name};

/// Numbers that the model's thread keeps and requests read.
#[derive(Default)]
pub struct Counters {
    prompt_tokens: AtomicU64,
    reused: AtomicU64,
    prompt_microseconds: AtomicU64,
    tokens: AtomicU64,
    microseconds: AtomicU64,
    steps: AtomicU64,
    waiting: AtomicU64,
    running: AtomicU64,
    pages: AtomicU64,
    all_pages: AtomicU64,
}

/// When an answer began to be read, and to be written.
#[derive(Default)]
pub struct Clock {
    read: Option<Instant>,
    written: Option<Instant>,
}

impl Counters {
    /// Counts texts that were read.
    pub fn read(&self, tokens: usize, time: Duration) {
        self.prompt_tokens.fetch_add(tokens as u64, Ordering::Relaxed);
        self.prompt_microseconds.fetch_add(microseconds(time), Ordering::Relaxed);
    }

    /// Counts a step, and notes what is left to do.
    pub fn step(&self, load: Load) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.note(load);
    }

    /// Notes what there is to do.
    pub fn note(&self, load: Load) {
        let (pages, all) = (load.needed.min(load.pages.0), load.pages.1);
        for (counter, number) in
            [(&self.waiting, load.waiting), (&self.running, load.running), (&self.pages, pages), (&self.all_pages, all)]
        {
            counter.store(number as u64, Ordering::Relaxed);
        }
    }

    /// Notes that the model is not there.
    pub fn rest(&self) {
        for counter in [&self.waiting, &self.running, &self.pages] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Counts what happens to an answer.
    pub fn event(&self, clock: &mut Clock, event: &Event) {
        let now = Instant::now();
        match event {
            Event::Read { .. } => _ = clock.read.get_or_insert(now),
            Event::Piece(_) => _ = clock.written.get_or_insert(now),
            Event::Done(finish) => {
                let read = clock.read.unwrap_or(now);
                let written = clock.written.unwrap_or(now);
                self.read(finish.prompt - finish.reused, written.saturating_duration_since(read));
                self.reused.fetch_add(finish.reused as u64, Ordering::Relaxed);
                self.tokens.fetch_add(finish.tokens as u64, Ordering::Relaxed);
                self.microseconds.fetch_add(microseconds(now - written), Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// `/metrics` of a model: llama.cpp's names, and vLLM's, which those who spread requests look at.
///
/// # Errors
/// If they are not asked for on the command line.
pub fn metrics(app: &App, number: usize) -> Result<String, Refusal> {
    if !app.config.metrics {
        return Err(Refusal::other_model("this server gives no metrics: start it with `--metrics`"));
    }
    app.models.ready()?;
    let Name { name, counters, .. } = &app.models.names()[number];
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let seconds = |counter: &AtomicU64| get(counter) as f64 / 1e6;
    let speed = |tokens: u64, seconds: f64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    let (read, written) = (get(&counters.prompt_tokens), get(&counters.tokens));
    let (reading, writing) = (seconds(&counters.prompt_microseconds), seconds(&counters.microseconds));
    let (running, waiting) = (get(&counters.running), get(&counters.waiting));
    let (pages, all) = (get(&counters.pages), get(&counters.all_pages));
    let used = pages as f64 / all.max(1) as f64;
    let mut text = String::new();
    let counter = &mut |name, help, value: &dyn Display| line(&mut text, name, help, "counter", "", value);
    counter("llamacpp:prompt_tokens_total", "Tokens of prompts", &read);
    let reused = get(&counters.reused);
    counter("llamacpp:prompt_tokens_cached_total", "Tokens of prompts that did not have to be read", &reused);
    counter("llamacpp:prompt_seconds_total", "Seconds that prompts were read for", &reading);
    counter("llamacpp:tokens_predicted_total", "Tokens of answers", &written);
    counter("llamacpp:tokens_predicted_seconds_total", "Seconds that answers were written for", &writing);
    counter("llamacpp:n_decode_total", "Steps", &get(&counters.steps));
    let model = format!("{{model_name=\"{}\"}}", name.replace('\\', "\\\\").replace('"', "\\\""));
    let pool = format!("{{block_size=\"{}\",num_gpu_blocks=\"{all}\"}}", candor::PAGE);
    let adapters = "{max_lora=\"0\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"}";
    let gauge = &mut |name, help, labels, value: &dyn Display| line(&mut text, name, help, "gauge", labels, value);
    gauge("llamacpp:prompt_tokens_seconds", "Tokens of prompts a second", "", &speed(read, reading));
    gauge("llamacpp:predicted_tokens_seconds", "Tokens of an answer a second", "", &speed(written, writing));
    gauge("llamacpp:requests_processing", "Answers with a sequence", "", &running);
    gauge("llamacpp:requests_deferred", "Answers that wait for one", "", &waiting);
    gauge("vllm:num_requests_running", "Answers with a sequence", &model, &running);
    gauge("vllm:num_requests_waiting", "Answers that wait for one", &model, &waiting);
    gauge("vllm:kv_cache_usage_perc", "Share of pages that answers need, from 0 to 1", &model, &used);
    gauge("vllm:cache_config_info", "Positions of a page, and all pages", &pool, &1);
    gauge("vllm:lora_requests_info", "Adapters that are models of their own", adapters, &1);
    Ok(text)
}

fn line(text: &mut String, name: &str, help: &str, kind: &str, labels: &str, value: &dyn Display) {
    // Writing to a text does not fail.
    let _ = write!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name}{labels} {value}\n");
}

/// `/slots` of a model: whether answers are being written. It shows nothing of them. A model that is not loaded has none.
///
/// # Errors
/// If they are not asked for on the command line.
pub fn slots(app: &App, number: usize) -> Result<Value, Refusal> {
    if !app.config.slots {
        return Err(Refusal::other_model("this server shows no slots: start it with `--slots`"));
    }
    app.models.ready()?;
    let Some(served) = app.models.status(number).served else { return Ok(json!([])) };
    let running = served.counters.running.load(Ordering::Relaxed);
    let slot = |n: usize| json!({ "id": n, "n_ctx": served.context, "is_processing": (n as u64) < running });
    Ok((0..served.sequences).map(slot).collect())
}
