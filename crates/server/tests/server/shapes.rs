//! Answers of a given shape: schemas and grammars by the fields of OpenAI and of llama.cpp's server.

use std::net::SocketAddr;

use candor_server::Config;
use serde_json::{Value, json};

use crate::{
    client::post,
    serving::{Server, start},
};

/// Bounded, so that a model of random weights comes to its end.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "word": { "type": "string", "maxLength": 4 }, "count": { "type": "integer", "minimum": 1, "maximum": 99 } },
        "required": ["word", "count"],
        "additionalProperties": false,
    })
}

fn has_shape(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    let fields = value.as_object().unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["word", "count"], "{text}");
    assert!(value["word"].as_str().is_some_and(|word| word.chars().count() <= 4), "{text}");
    assert!(value["count"].as_u64().is_some_and(|count| (1..100).contains(&count)), "{text}");
}

fn ask(server: &Server, path: &str, fields: &Value, seed: u32) -> Value {
    let mut body = json!({ "prompt": "the cat", "max_tokens": 2000, "seed": seed });
    if path.contains("chat") {
        body = json!({ "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 2000, "seed": seed });
    }
    for (name, value) in [("temperature", json!(1)), ("top_k", json!(0)), ("top_p", json!(1)), ("min_p", json!(0))] {
        body[name] = value;
    }
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    post(server.address, path, &body).json()
}

#[test]
fn answers_have_the_shape_that_is_asked_for() {
    let server = start(Config::default(), 2);
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "pair", "schema": schema(), "strict": true } });
    let object = json!({ "type": "json_object", "schema": schema() });
    for seed in 0..4 {
        for fields in [
            json!({ "response_format": format }),
            json!({ "response_format": object }),
            json!({ "json_schema": schema() }),
        ] {
            let reply = ask(&server, "/v1/chat/completions", &fields, seed);
            let choice = &reply["choices"][0];
            assert_eq!(choice["finish_reason"], "stop", "{reply}");
            has_shape(choice["message"]["content"].as_str().unwrap());
            let reply = ask(&server, "/v1/completions", &fields, seed);
            assert_eq!(reply["choices"][0]["finish_reason"], "stop", "{reply}");
            has_shape(reply["choices"][0]["text"].as_str().unwrap());
            let reply = ask(&server, "/completion", &fields, seed);
            assert_eq!(reply["stop_type"], "eos", "{reply}");
            has_shape(reply["content"].as_str().unwrap());
        }
        let grammar = json!({ "grammar": "root ::= (\"yes\" | \"no\") [a-c]{3}", "n": 2 });
        let reply = ask(&server, "/v1/chat/completions", &grammar, seed);
        for choice in reply["choices"].as_array().unwrap() {
            let text = choice["message"]["content"].as_str().unwrap();
            let rest = text.strip_prefix("yes").or(text.strip_prefix("no")).unwrap();
            assert!(rest.len() == 3 && rest.chars().all(|c| "abc".contains(c)), "{text}");
        }
    }
    server.end().unwrap();
}

/// The same by Ollama's `format` and by `text.format` of responses.
#[test]
fn other_endpoints_have_shapes_of_their_own() {
    let server = start(Config::default(), 2);
    let settings = json!({ "temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0 });
    for seed in 0..3 {
        let mut options = settings.clone();
        (options["seed"], options["num_predict"]) = (seed.into(), 2000.into());
        let messages = json!([{ "role": "user", "content": "hi" }]);
        for (path, place, mut body) in [
            ("/api/chat", "/message/content", json!({ "messages": messages })),
            ("/api/generate", "/response", json!({ "prompt": "hi" })),
            ("/api/generate", "/response", json!({ "prompt": "the cat", "raw": true })),
        ] {
            (body["options"], body["stream"], body["format"]) = (options.clone(), false.into(), schema());
            let reply = post(server.address, path, &body).json();
            assert_eq!(reply["done_reason"], "stop", "{reply}");
            has_shape(reply.pointer(place).and_then(Value::as_str).unwrap());
        }
        let mut body = settings.clone();
        let format = json!({ "type": "json_schema", "name": "pair", "strict": true, "schema": schema() });
        body.as_object_mut().unwrap().extend(
            json!({ "input": "hi", "seed": seed, "max_output_tokens": 2000, "text": { "format": format } })
                .as_object()
                .unwrap()
                .clone(),
        );
        let reply = post(server.address, "/v1/responses", &body).json();
        assert_eq!((&reply["status"], &reply["text"]["format"]), (&"completed".into(), &format), "{reply}");
        has_shape(reply["output"][0]["content"][0]["text"].as_str().unwrap());
    }
    // Any object, as far as it goes.
    let body = json!({ "prompt": "the cat", "raw": true, "stream": false, "format": "json", "options": { "num_predict": 9, "temperature": 0 } });
    let reply = post(server.address, "/api/generate", &body).json();
    assert!(reply["response"].as_str().unwrap().starts_with('{'), "{reply}");
    let body = json!({ "input": "hi", "max_output_tokens": 9, "text": { "format": { "type": "json_object" } } });
    let reply = post(server.address, "/v1/responses", &body).json();
    assert!(reply["output"][0]["content"][0]["text"].as_str().unwrap().starts_with('{'), "{reply}");
    server.end().unwrap();
}

/// Probabilities are those of the model, as without a shape.
#[test]
fn a_shape_changes_no_probabilities() {
    let server = start(Config::default(), 1);
    let likely = |grammar: Value| {
        let body = json!({ "prompt": "the cat", "n_predict": 1, "n_probs": 5, "grammar": grammar });
        let reply = post(server.address, "/completion", &body).json();
        reply["completion_probabilities"][0]["top_logprobs"].clone()
    };
    let free = likely(Value::Null);
    assert_eq!(free.as_array().map(Vec::len), Some(5));
    assert_eq!(likely("root ::= \"q\"+".into()), free);
    server.end().unwrap();
}

fn refused(address: SocketAddr, fields: &Value) -> (String, String) {
    let mut body = json!({ "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 1 });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let reply = post(address, "/v1/chat/completions", &body);
    assert_eq!(reply.status, 400, "{fields}: {reply:?}");
    let error = &reply.json()["error"];
    (error["param"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
}

#[test]
fn what_is_not_served_is_refused_by_field_and_keyword() {
    let server = start(Config::default(), 1);
    let format = |schema: Value| json!({ "type": "json_schema", "json_schema": { "schema": schema } });
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    for (fields, param, word) in [
        (json!({ "response_format": format(json!({ "not": {} })) }), "response_format", "not"),
        (
            json!({ "response_format": format(json!({ "items": { "uniqueItems": true } })) }),
            "response_format",
            "uniqueItems",
        ),
        (json!({ "response_format": { "type": "json_schema" } }), "response_format.json_schema", "missing"),
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": {} } }),
            "response_format.json_schema.schema",
            "missing",
        ),
        (json!({ "response_format": { "type": "xml" } }), "response_format.type", "json_schema"),
        (json!({ "response_format": { "type": "json_object", "mode": 1 } }), "response_format.mode", "not served"),
        (json!({ "json_schema": { "if": {} } }), "json_schema", "if"),
        (json!({ "grammar": "root ::= x" }), "grammar", "line 1: there is no rule x"),
        (json!({ "grammar": 3 }), "grammar", "a string"),
        (json!({ "grammar": "root ::= \"a\"", "json_schema": {} }), "grammar", "one shape"),
        (json!({ "json_schema": {}, "ignore_eos": true }), "ignore_eos", "json_schema"),
        (json!({ "json_schema": {}, "tools": tools }), "json_schema", "tools"),
        (json!({ "guided_regex": "a" }), "guided_regex", "not served"),
    ] {
        let (named, message) = refused(server.address, &fields);
        assert!(named == param && message.contains(word), "{fields}: {named}: {message}");
    }
    server.end().unwrap();
}
