//! Chat templates of real models, rendered as Jinja2 renders them in Hugging Face's environment.

use candor_tokenizer::{ChatContext, ChatTemplate, CivilTime, Message};
use serde_json::{Map, Value};
use std::path::Path;

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The variables of one of `cases.json`.
fn context(case: &Value) -> (Vec<Message>, ChatContext) {
    let mut extra: Map<String, Value> = case.as_object().unwrap().clone();
    let mut take = |key: &str| extra.shift_remove(key);
    let messages = serde_json::from_value(take("messages").unwrap()).unwrap();
    let mut text = |key: &str| take(key).and_then(|value| Some(value.as_str()?.to_owned())).unwrap();
    let (bos_token, eos_token) = (text("bos_token"), text("eos_token"));
    let add_generation_prompt = take("add_generation_prompt").and_then(|value| value.as_bool()).unwrap();
    let tools = take("tools");
    let now = CivilTime::new(2024, 7, 26, 12, 34, 56);
    (messages, ChatContext { add_generation_prompt, bos_token, eos_token, tools, extra, now })
}

/// The cases that a template fails, with what it gave.
fn failures(chat: &Path, cases: &Value, name: &str) -> Vec<String> {
    let expected = read(&chat.join(format!("{name}.json")));
    let path = chat.join("../..").join(match expected["template"].as_str().unwrap() {
        path if path.starts_with("chat/mistralrs/") => path.replace("chat/mistralrs", "templates/mistralrs"),
        path if path.starts_with("chat/ollama-jinja/") => path.replace("chat/ollama-jinja", "templates/ollama"),
        path => path.to_owned(),
    });
    let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let template = match ChatTemplate::new(&source) {
        Ok(template) => template,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let mut failures = Vec::new();
    for (case, outcome) in expected["cases"].as_object().unwrap() {
        let (messages, context) = context(&cases[case]);
        let got = template.render(&messages, &context);
        match (outcome["text"].as_str(), got) {
            (Some(expected), Ok(got)) if got == expected => {}
            (None, Err(_)) => {}
            (Some(expected), Ok(got)) => {
                let at = got.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
                let around = |text: &str| {
                    String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(30)..(at + 50).min(text.len())])
                        .into_owned()
                };
                failures.push(format!("{name} {case}: expected {:?}, got {:?}", around(expected), around(&got)));
            }
            (Some(_), Err(error)) => failures.push(format!("{name} {case}: {error}")),
            (None, Ok(_)) => failures.push(format!("{name} {case}: expected {}", outcome["error"])),
        }
    }
    assert_eq!(expected["cases"].as_object().unwrap().len(), 15, "{name}");
    failures
}

#[test]
fn every_template_renders_every_case() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let chat = fixtures.join("expected/chat");
    let cases = read(&chat.join("cases.json"));
    let mut names: Vec<_> = std::fs::read_dir(&chat).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let names = names.iter().filter_map(|name| name.to_str()?.strip_suffix(".json")).filter(|name| *name != "cases");
    let wrong: Vec<String> = names.clone().flat_map(|name| failures(&chat, &cases, name)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(names.count(), 73);
}
