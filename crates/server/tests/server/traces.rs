//! How answers came to be, and whether they stand: where the machine is right, and where a kernel is wrong for a while.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use candor::{
    BatchOptions, Engine, Format, Gguf, KvFormat, LoadOptions, Model,
    checked::{Depth, Plan, operations},
};
use candor_kernels::{F32Kernels, Kernels};
use candor_server::{Config, Loaded, Operations, Ready, Work};
use candor_testing::Tiny;
use serde_json::{Value, json};

use crate::{
    client::{Reply, get, post, send},
    serving::{Server, listen, ready, start, tiny, wait},
};

fn traced(count: usize) -> Config {
    let mut config = Config::default();
    config.traces = count;
    config
}

fn trace_id(reply: &Reply) -> String {
    let id = reply.head.lines().find_map(|line| line.to_lowercase().strip_prefix("x-trace-id: ").map(str::to_owned));
    id.unwrap_or_else(|| panic!("{}", reply.head))
}

fn diagnosed(server: &Server, id: &str) -> Value {
    let reply = post(server.address, &format!("/diagnose/{id}"), &json!({}));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

#[test]
fn the_last_answers_say_how_they_came_to_be() {
    let server = start(traced(2), 2);
    let messages = json!([{ "role": "user", "content": "the cat" }]);
    let chat = json!({ "messages": messages, "max_tokens": 6, "seed": 7, "temperature": 0.5, "ignore_eos": true });
    let first = post(server.address, "/v1/chat/completions", &chat);
    let trace = get(server.address, &format!("/trace/{}", trace_id(&first))).json();
    let answer = &trace["answers"][0];
    let template = post(server.address, "/apply-template", &json!({ "messages": messages })).json();
    // The beginning of a text is a token of its own.
    let rendered = format!("<s> {}", template["prompt"].as_str().unwrap());
    assert_eq!(answer["prompt"]["text"], rendered);
    let ids: Vec<u32> = serde_json::from_value(answer["prompt"]["tokens"].clone()).unwrap();
    assert_eq!((answer["reused"].as_u64(), answer["finish_reason"].as_str()), (Some(0), Some("length")));
    assert_eq!((&answer["seed"], &answer["settings"]["temperature"]), (&7.into(), &0.5.into()));
    // The probabilities are those of the same answer where they are asked for, and with a grammar that changes logits.
    let again =
        json!({ "prompt": ids, "n_predict": 6, "seed": 7, "temperature": 0.5, "n_probs": 5, "ignore_eos": true });
    let again = post(server.address, "/completion", &again);
    assert_eq!(answer["probabilities"], again.json()["completion_probabilities"]);
    assert_eq!(answer["tokens"].as_array().unwrap().len(), 6);
    assert_eq!(
        get(server.address, &format!("/trace/{}", trace_id(&again))).json()["answers"][0]["reused"],
        ids.len() - 1
    );
    let shaped =
        json!({ "prompt": ids, "n_predict": 3, "grammar": "root ::= [0-9]+", "n_probs": 1, "n": 2, "stream": true });
    let shaped = post(server.address, "/completion", &shaped);
    let trace = get(server.address, &format!("/trace/{}", trace_id(&shaped))).json();
    let logprobs = |index: usize| -> Vec<f64> {
        let probabilities = trace["answers"][index]["probabilities"].as_array().unwrap();
        probabilities.iter().map(|one| one["logprob"].as_f64().unwrap()).collect()
    };
    let said: Vec<f64> = shaped
        .events()
        .iter()
        .filter(|event| event["index"] == 1)
        .filter_map(|event| event["completion_probabilities"][0]["logprob"].as_f64())
        .collect();
    assert!(!said.is_empty());
    assert_eq!(logprobs(1), said);
    // Two are kept.
    assert_eq!(get(server.address, &format!("/trace/{}", trace_id(&first))).status, 404);
    assert_eq!(post(server.address, "/diagnose/none", &json!({})).status, 404);
    // Nothing holds operations against formulas here.
    assert_eq!(post(server.address, &format!("/diagnose/{}", trace_id(&again)), &json!({})).status, 501);
    server.end().unwrap();
}

#[test]
fn traces_are_asked_for_and_belong_to_a_key() {
    let server = start(Config::default(), 1);
    let reply = post(server.address, "/completion", &json!({ "prompt": "a", "n_predict": 1 }));
    assert!(!reply.head.to_lowercase().contains("x-trace-id"), "{}", reply.head);
    assert_eq!(get(server.address, "/trace/1").status, 501);
    server.end().unwrap();
    let mut config = traced(9);
    config.keys = vec!["one".to_owned(), "two".to_owned()];
    let server = start(config, 1);
    let ask = |key: &str, method: &str, path: &str, body: &str| {
        send(server.address, method, path, &[("X-Api-Key", key), ("Content-Type", "application/json")], body)
    };
    let id = trace_id(&ask("one", "POST", "/completion", "{\"prompt\": \"a\", \"n_predict\": 1}"));
    for (key, status) in [("one", 200), ("two", 404), ("three", 401)] {
        assert_eq!(ask(key, "GET", &format!("/trace/{id}"), "").status, status, "{key}");
    }
    assert_eq!(ask("two", "POST", &format!("/diagnose/{id}"), "").status, 404);
    server.end().unwrap();
}

/// Whether the kernel is wrong now.
static WRONG: AtomicBool = AtomicBool::new(false);

/// This machine's kernels, of which one is wrong at times.
fn kernels() -> &'static Kernels {
    fn swiglu(gate: &mut [f32], up: &[f32]) {
        (Kernels::from_env().unwrap().f32.swiglu)(gate, up);
        if WRONG.load(Ordering::SeqCst) {
            gate.iter_mut().for_each(|gate| *gate *= 1.5);
        }
    }
    let Kernels { name, f32, mat, attention, probe, batch, exact } = *Kernels::from_env().unwrap();
    let f32 = F32Kernels { swiglu, ..f32 };
    Box::leak(Box::new(Kernels { name, f32, mat, attention, probe, batch, exact }))
}

fn checked(prompt: &[u32], written: &[u32]) -> Result<Operations, String> {
    let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    let (keys, values, depth) = (KvFormat::F16, KvFormat::F16, Depth::Quick);
    let (text, decode) = (&[], written.len().saturating_sub(1));
    let plan = Plan { text, prompt, decode, after: written, depth, keys, values, exact: false, part: None };
    let found = operations(&gguf, &LoadOptions::default().threads(1).kernels(kernels()), &plan).unwrap();
    let report = serde_json::to_value(&found.classes).unwrap();
    Ok(Operations { failure: found.failure(), prompt: prompt.len(), written: decode, report })
}

#[test]
fn a_kernel_that_goes_wrong_after_the_start_is_named() {
    let server = listen(traced(9), || {
        let load = LoadOptions::default().threads(1).kernels(kernels());
        let model = Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &load).unwrap();
        let options = BatchOptions::default().sequences(2).kept(8).context(512).rows(64);
        let work = Work::Answers(Engine::new(model.batch(&options).unwrap(), 16));
        Ok(Loaded::Ready(Box::new(Ready { work, diagnose: Some(Arc::new(checked)), ..ready(1) })))
    });
    wait(&server);
    let ask = |text: &str, shift: u32| {
        let prompt = tiny().encode_prompt(text);
        let reply = post(server.address, "/completion", &json!({ "prompt": prompt, "n_predict": 12, "seed": shift }));
        trace_id(&reply)
    };
    let right = ask("the cat sat on the mat", 1);
    // What goes on from a kept beginning stands as well.
    let warm = ask("the cat sat on the mat and", 2);
    for id in [&right, &warm] {
        let found = diagnosed(&server, id);
        assert_eq!((&found["stands"], &found["answers"][0]["reason"]), (&true.into(), &Value::Null), "{found}");
        assert_eq!(found["answers"][0]["alone"]["largest_difference"], 0.0, "{found}");
    }
    WRONG.store(true, Ordering::SeqCst);
    let wrong = ask("a dog on the log", 3);
    // While it is wrong it is named, whatever it answered before.
    for id in [&wrong, &right] {
        let found = diagnosed(&server, id);
        let reason = found["answers"][0]["reason"].as_str().unwrap_or_default();
        assert!(found["stands"] == false && reason.contains("swiglu"), "{found}");
    }
    WRONG.store(false, Ordering::SeqCst);
    // It has gone: its answer does not stand, since it had other probabilities. From the first token on, or from the next where kernels
    // for prompts have an activation of their own.
    let first = usize::from((kernels().batch)(Format::F32).is_some());
    let found = diagnosed(&server, &wrong);
    let reason = found["answers"][0]["reason"].as_str().unwrap_or_default();
    assert!(found["stands"] == false && reason.starts_with(&format!("token {first} had the logprob")), "{found}");
    assert_eq!(diagnosed(&server, &right)["stands"], true);
    server.end().unwrap();
}
