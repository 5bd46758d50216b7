//! Conversations as nobody plans them (empty, very long, missing and non-string contents, nested tools, reasoning),
//! rendered by every template of the fixtures as Jinja2 does in Hugging Face's environment: the same bytes, or both refuse.
//!
//! `goldens/chat.json` has digests, made by tools/goldens/chat.py. Where CANDOR_CHAT_TEXTS names the folder of its
//! `--texts`, the test prints where a text first differs.

use candor_tokenizer::{ChatContext, ChatTemplate, CivilTime, Message};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;

/// A value with its `$repeat` and `$times` written out, as the script says.
fn expanded(value: &Value) -> Value {
    match value {
        Value::Object(map) => match map.get("$repeat").and_then(Value::as_array).map(Vec::as_slice) {
            Some([Value::String(text), count]) => text.repeat(count.as_u64().unwrap() as usize).into(),
            _ => map.iter().map(|(key, value)| (key.clone(), expanded(value))).collect(),
        },
        Value::Array(items) => {
            let times = |item: &Value| Some((item.get("$times")?[0].as_u64()?, expanded(&item["$times"][1])));
            let items = items.iter().flat_map(|item| match times(item) {
                Some((count, Value::Array(items))) => (0..count).flat_map(|_| items.clone()).collect(),
                _ => vec![expanded(item)],
            });
            items.collect()
        }
        value => value.clone(),
    }
}

fn context(mut case: Map<String, Value>) -> (Vec<Message>, ChatContext) {
    let messages = serde_json::from_value(case.shift_remove("messages").unwrap()).unwrap();
    let add_generation_prompt = case.shift_remove("add_generation_prompt").unwrap_or(json!(true));
    let context = ChatContext {
        add_generation_prompt: add_generation_prompt.as_bool().unwrap(),
        bos_token: "<|BOS|>".to_owned(),
        eos_token: "<|EOS|>".to_owned(),
        tools: case.shift_remove("tools"),
        extra: case,
        now: CivilTime::new(2024, 7, 26, 12, 34, 56),
    };
    (messages, context)
}

/// The template of a file; those of mistral.rs are in JSON.
fn source(path: &Path) -> String {
    if path.extension().is_some_and(|extension| extension == "json") {
        return candor_testing::json(path)["chat_template"].as_str().unwrap().to_owned();
    }
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Says where a text first differs from the one that the script wrote.
fn say_difference(name: &str, case: &str, got: &Result<String, candor_tokenizer::Error>) {
    let Some(folder) = std::env::var_os("CANDOR_CHAT_TEXTS") else { return };
    let expected = std::fs::read_to_string(Path::new(&folder).join(name).join(format!("{case}.txt"))).unwrap();
    let got = got.as_ref().map_or_else(|error| format!("raises {error}"), Clone::clone);
    let at = got.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let part = &text.as_bytes()[at.saturating_sub(40)..(at + 120).min(text.len())];
        String::from_utf8_lossy(part).into_owned()
    };
    println!("{name} {case}\n  expected {:?}\n  got      {:?}", around(&expected), around(&got));
}

#[test]
fn every_template_renders_odd_conversations_as_jinja2_does() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let golden = candor_testing::json(&goldens.join("chat.json"));
    let cases = candor_testing::json(&goldens.join("chat_cases.json"));
    let cases: Vec<(String, Map<String, Value>)> = cases
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, case)| (name.clone(), expanded(case).as_object().unwrap().clone()))
        .collect();
    assert_eq!(golden["cases"], cases.iter().map(|(name, _)| json!(name)).collect::<Value>(), "run the script again");
    let templates = golden["templates"].as_object().unwrap();
    let (mut renderings, mut wrong) = (0, Vec::new());
    for (name, digests) in templates {
        let template = ChatTemplate::new(&source(&fixtures.join("templates").join(name)))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let digests: Vec<&str> = digests.as_str().unwrap().split(' ').collect();
        assert_eq!(digests.len(), cases.len(), "{name}");
        for ((case, variables), expected) in cases.iter().zip(digests) {
            let (messages, context) = context(variables.clone());
            let got = template.render(&messages, &context);
            let digest = match &got {
                Ok(text) => Sha256::digest(text).iter().take(6).map(|byte| format!("{byte:02x}")).collect(),
                Err(_) => "-".to_owned(),
            };
            renderings += 1;
            if digest != expected {
                say_difference(name, case, &got);
                wrong.push(format!("{name} {case}: expected {expected}, got {digest}"));
            }
        }
    }
    println!("{} templates, {renderings} renderings, {} wrong", templates.len(), wrong.len());
    assert!(wrong.is_empty(), "{} of {renderings}:\n{}", wrong.len(), wrong.join("\n"));
}
