//! Prompts that begin alike are read once, where their keys are the same; answers are those of a cold run.

use candor::Sampling;
use candor_server::Config;
use serde_json::{Value, json};

use crate::{
    client::{post, send},
    serving::{alone, start, tiny},
};

const CACHED: &str = "/usage/prompt_tokens_details/cached_tokens";

fn cached(reply: &Value) -> u64 {
    reply.pointer(CACHED).and_then(Value::as_u64).unwrap_or_else(|| panic!("{reply}"))
}

#[test]
fn the_next_turn_reads_what_is_new() {
    let server = start(Config::default(), 2);
    let text = "the cat sat on the mat, and the dog on the log. ".repeat(20);
    let tokens = tiny().encode_prompt(&text);
    let (expected, _) = alone(&tokens, Sampling::greedy(), 12);
    let body = json!({ "prompt": text, "max_tokens": 12, "temperature": 0 });
    let cold = post(server.address, "/v1/completions", &body).json();
    assert_eq!((cached(&cold), &cold["choices"][0]["text"]), (0, &expected.as_str().into()));
    let warm = post(server.address, "/v1/completions", &body).json();
    let all = tokens.len() as u64 - 1;
    assert_eq!((cached(&warm), &warm["choices"][0]["text"]), (all, &expected.as_str().into()));
    // The same in llama.cpp's form, and in a stream.
    let own = post(server.address, "/completion", &json!({ "prompt": text, "n_predict": 2 })).json();
    assert_eq!(own["tokens_cached"], all);
    let mut streamed = body.clone();
    (streamed["stream"], streamed["stream_options"]) = (true.into(), json!({ "include_usage": true }));
    assert_eq!(cached(post(server.address, "/v1/completions", &streamed).events().last().unwrap()), all);
    // Cold where it is asked for.
    let mut off = body.clone();
    off["cache_prompt"] = false.into();
    let reply = post(server.address, "/v1/completions", &off).json();
    assert_eq!((cached(&reply), &reply["choices"][0]["text"]), (0, &expected.as_str().into()));
    let user = |text: &str| json!({ "role": "user", "content": text });
    let mut chat = json!({ "messages": [user(&text)], "max_tokens": 5, "seed": 1 });
    let first = post(server.address, "/v1/chat/completions", &chat).json();
    let read = first["usage"]["prompt_tokens"].as_u64().unwrap();
    chat["messages"] = json!([user(&text), { "role": "assistant", "content": "yes" }, user("and then?")]);
    let next = post(server.address, "/v1/chat/completions", &chat).json();
    assert!(cached(&next) + 2 >= read, "{} of {read}", cached(&next));
    // Other forms of the same.
    let messages = json!([user(&text)]);
    let claude = post(server.address, "/v1/messages", &json!({ "messages": messages, "max_tokens": 2 })).json();
    assert_eq!(
        (&claude["usage"]["input_tokens"], &claude["usage"]["cache_read_input_tokens"]),
        (&1.into(), &(read - 1).into())
    );
    let response = post(server.address, "/v1/responses", &json!({ "input": text, "max_output_tokens": 2 })).json();
    assert_eq!(response["usage"]["input_tokens_details"]["cached_tokens"], read - 1);
    assert_eq!(response["usage"]["input_tokens"], read);
    (chat["stream"], chat["return_progress"], chat["messages"]) = (true.into(), true.into(), messages);
    let events = post(server.address, "/v1/chat/completions", &chat).events();
    let progress: Vec<&Value> = events.iter().map(|event| &event["prompt_progress"]).filter(|p| !p.is_null()).collect();
    let numbers = |one: &Value| ["cache", "processed", "total"].map(|name| one[name].as_u64().unwrap());
    assert_eq!(
        progress.into_iter().map(numbers).collect::<Vec<_>>(),
        [[read - 1, read - 1, read], [read - 1, read, read]]
    );
    server.end().unwrap();
}

#[test]
fn keys_share_nothing() {
    let mut config = Config::default();
    (config.keys, config.cache_prompt) = (vec!["one".to_owned(), "two".to_owned()], false);
    let server = start(config, 2);
    let body = json!({ "prompt": "the cat sat on the mat ".repeat(9), "max_tokens": 2, "cache_prompt": true });
    let ask = |key: &str, body: &Value| {
        let bearer = format!("Bearer {key}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        cached(&send(server.address, "POST", "/v1/completions", &headers, &body.to_string()).json())
    };
    assert_eq!((ask("one", &body), ask("two", &body)), (0, 0));
    assert!(ask("one", &body) > 0 && ask("two", &body) > 0);
    // Where nothing is said the server's own setting holds.
    let plain = json!({ "prompt": body["prompt"], "max_tokens": 2 });
    assert_eq!(ask("one", &plain), 0);
    server.end().unwrap();
}
