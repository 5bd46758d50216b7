//! What is refused: by its name, with the status that clients know.

use candor_server::Config;
use serde_json::{Value, json};

use crate::{
    client::{Reply, get, post, send},
    serving::{CONTEXT, start},
};

fn error(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{reply:?}");
    let error = reply.json()["error"].clone();
    assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    error
}

#[test]
fn what_would_change_an_answer_is_refused_by_name() {
    let server = start(Config::default(), 1);
    let messages = json!([{ "role": "user", "content": "hi" }]);
    let chat = json!({ "messages": messages, "max_tokens": 1 });
    for (field, value) in [
        ("response_format", json!({ "type": "xml" })),
        ("response_format", json!("json_object")),
        ("logprobs", json!(3)),
        ("top_logprobs", json!(3)),
        ("top_logprobs", json!(21)),
        ("tool_choice", json!("required")),
        ("tool_choice", json!("any")),
        ("tool_choice", json!({ "type": "function", "function": { "name": "f" } })),
        ("guided_json", json!({})),
        ("modalities", json!(["audio"])),
        ("reasoning_effort", json!("low")),
        ("n", json!(0)),
        ("n", json!("2")),
        ("max_tokens", json!(-2)),
        ("max_tokens", json!(1.5)),
        ("temperature", json!("hot")),
        ("stop", json!([1])),
        ("stream", json!("yes")),
        ("logit_bias", json!({ "x": "y" })),
        ("stream_options", json!({ "other": 1 })),
        ("store", json!(true)),
        ("messages", json!([])),
        ("messages", json!("hi")),
        ("messages", json!([{ "content": "hi" }])),
        ("messages", json!([{ "role": "user", "content": [{ "type": "image_url" }] }])),
        ("messages", json!([{ "role": "user", "content": "hi", "tool_calls": "none" }])),
        ("messages", json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": {}, "arguments": {} } }] }])),
        (
            "messages",
            json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": "f", "arguments": "{" } }] }]),
        ),
    ] {
        let mut body = chat.clone();
        body[field] = value;
        let error = error(&post(server.address, "/v1/chat/completions", &body), 400);
        assert!(error["param"].as_str().is_some_and(|param| param.starts_with(field)), "{body}: {error}");
    }
    for (field, value) in [("echo", json!(1)), ("suffix", json!("x")), ("best_of", json!(3)), ("prompt", json!(4))] {
        let mut body = json!({ "prompt": "a", "max_tokens": 1 });
        body[field] = value;
        assert_eq!(error(&post(server.address, "/v1/completions", &body), 400)["param"], field);
    }
    // Without effect, or with the value that is served.
    let mut body = chat.clone();
    for (field, value) in [
        ("user", json!("me")),
        ("metadata", json!({ "a": "b" })),
        ("store", json!(false)),
        ("service_tier", json!("auto")),
        ("response_format", json!({ "type": "text" })),
        ("logprobs", json!(false)),
        ("n", json!(1)),
        ("tools", json!([])),
        ("tool_choice", json!("none")),
        ("top_p", Value::Null),
        ("cache_prompt", json!(true)),
    ] {
        body[field] = value;
    }
    assert_eq!(post(server.address, "/v1/chat/completions", &body).status, 200);
    server.end().unwrap();
}

#[test]
fn what_is_no_request_is_refused() {
    let mut config = Config::default();
    config.body = 1000;
    let server = start(config, 1);
    let path = "/v1/completions";
    for body in ["", "{", "[1]", "{\"prompt\": \"a\"} x"] {
        error(&send(server.address, "POST", path, &[], body), 400);
    }
    let long = json!({ "prompt": "a".repeat(2000) });
    error(&post(server.address, path, &long), 413);
    error(&get(server.address, "/v2/none"), 404);
    error(&get(server.address, path), 405);
    error(&send(server.address, "OPTIONS", path, &[], ""), 405);
    assert!(!get(server.address, "/health").head.to_lowercase().contains("access-control"));
    server.end().unwrap();
}

#[test]
fn a_prompt_that_is_too_long_is_refused_with_the_numbers() {
    let server = start(Config::default(), 1);
    let body = json!({ "prompt": vec![5; CONTEXT + 1] });
    let error = error(&post(server.address, "/v1/completions", &body), 400);
    assert_eq!(error["type"], "exceed_context_size_error");
    assert_eq!((&error["n_prompt_tokens"], &error["n_ctx"]), (&(CONTEXT + 1).into(), &CONTEXT.into()));
    let body = json!({ "prompt": [1_000_000] });
    self::error(&post(server.address, "/v1/completions", &body), 400);
    server.end().unwrap();
}

#[test]
fn keys_are_asked_for() {
    let mut config = Config::default();
    config.keys = vec!["one".to_owned(), "two".to_owned()];
    let server = start(config, 1);
    let body = json!({ "prompt": "a", "max_tokens": 1 }).to_string();
    let ask = |headers: &[(&str, &str)]| send(server.address, "POST", "/v1/completions", headers, &body);
    for headers in [
        &[][..],
        &[("Authorization", "Bearer on")],
        &[("Authorization", "Bearer onee")],
        &[("Authorization", "Bearer ")],
        &[("Authorization", "one")],
        &[("X-Api-Key", "three")],
    ] {
        assert_eq!(error(&ask(headers), 401)["type"], "authentication_error");
    }
    for headers in [("Authorization", "Bearer one"), ("Authorization", "Bearer two"), ("X-Api-Key", "two")] {
        assert_eq!(ask(&[headers]).status, 200);
    }
    error(&get(server.address, "/props"), 401);
    assert_eq!(get(server.address, "/health").status, 200);
    server.end().unwrap();
}

/// A page of another site cannot ask: neither by a name that leads here, nor from its own.
#[test]
fn other_names_and_pages_are_refused() {
    let mut config = Config::default();
    config.hosts = vec!["models.lan".to_owned()];
    let server = start(config, 1);
    let ask = |headers: &[(&str, &str)]| send(server.address, "GET", "/v1/models", headers, "");
    for host in ["evil.example", "evil.example:8080", "localhost.evil.example", ""] {
        error(&ask(&[("Host", host)]), 403);
    }
    for host in ["localhost", "models.lan:80", "127.0.0.1"] {
        assert_eq!(ask(&[("Host", host)]).status, 200, "{host}");
    }
    for origin in ["https://evil.example", "null", "localhost"] {
        error(&ask(&[("Origin", origin)]), 403);
    }
    assert_eq!(ask(&[("Origin", "http://localhost:3000")]).status, 200);
    server.end().unwrap();
}

/// Pages of other sites may ask where the server is asked to let them, and a browser hears of it.
#[test]
fn pages_may_be_let_in() {
    for (origins, origin, may) in [
        (&["*"][..], "https://chat.example", true),
        (&["https://chat.example"], "https://chat.example", true),
        (&["https://chat.example"], "https://chat.example.evil", false),
        (&["https://chat.example"], "http://chat.example", false),
        (&["localhost"], "http://localhost:3000", true),
        (&["localhost"], "http://[::1]:3000", true),
        (&["localhost"], "http://localhost.evil.example", false),
        (&["localhost", "https://a.example"], "https://a.example", true),
    ] {
        let mut config = Config::default();
        config.origins = origins.iter().map(|&origin| origin.to_owned()).collect();
        config.keys = vec!["key".to_owned()];
        let server = start(config, 1);
        let allowed = format!("access-control-allow-origin: {origin}\r\n");
        let heard = |reply: &Reply| format!("{}\r\n", reply.head.to_lowercase()).contains(&allowed);
        let before = send(server.address, "OPTIONS", "/v1/completions", &[("Origin", origin)], "");
        assert_eq!((before.status, heard(&before)), (200, may), "{origins:?} {origin}");
        let headers = [("Origin", origin), ("Authorization", "Bearer key")];
        let asked = send(server.address, "POST", "/v1/completions", &headers, "{\"prompt\": \"a\", \"max_tokens\": 1}");
        assert_eq!((asked.status, heard(&asked)), if may { (200, true) } else { (403, false) }, "{origins:?} {origin}");
        // A key is asked for as ever, and the name of the host looked at.
        assert_eq!(
            send(server.address, "GET", "/props", &[("Origin", origin)], "").status,
            if may { 401 } else { 403 }
        );
        let other = [("Origin", origin), ("Host", "evil.example")];
        assert_eq!(send(server.address, "OPTIONS", "/props", &other, "").status, 403);
        server.end().unwrap();
    }
}
