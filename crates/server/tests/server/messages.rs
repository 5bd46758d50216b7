//! Anthropic's endpoint: what it says is what the others say, in its own form.

use candor::{ChatTemplate, Message, Sampling};
use candor_server::Config;
use serde_json::{Value, json};

use crate::{
    client::{Reply, get, post, send},
    serving::{alone, start, tiny},
    tools,
};

/// The prompt of a conversation with the template of the server.
pub fn prompt(messages: &[Message]) -> Vec<u32> {
    let model = tiny();
    let template = ChatTemplate::named("chatml").unwrap();
    model.encode_prompt(&template.render(messages, &model.chat_context()).unwrap())
}

fn error(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{reply:?}");
    let error = reply.json();
    assert!(error["type"] == "error" && error["error"]["message"].is_string(), "{error}");
    error["error"].clone()
}

fn tool() -> Value {
    json!({ "name": "get_weather", "description": "The weather", "input_schema": { "type": "object", "properties": {} } })
}

#[test]
fn messages_are_answered() {
    let server = start(Config::default(), 2);
    let ids = prompt(&[Message::system("be\nkind"), Message::user("hello\nyou")]);
    let (expected, count) = alone(&ids, Sampling::default().seed(7), 30);
    let system = json!([{ "type": "text", "text": "be" }, { "type": "text", "text": "kind", "cache_control": {} }]);
    let content = json!([{ "type": "text", "text": "hello" }, { "type": "text", "text": "you" }]);
    let messages = json!([{ "role": "user", "content": content }]);
    let mut body = json!({ "model": "any", "system": system, "messages": messages, "max_tokens": 30, "seed": 7 });
    let reply = post(server.address, "/v1/messages", &body).json();
    assert_eq!(reply["content"], json!([{ "type": "text", "text": expected }]));
    assert_eq!((&reply["type"], &reply["role"]), (&"message".into(), &"assistant".into()));
    let reason = if count == 30 { "max_tokens" } else { "end_turn" };
    assert_eq!((&reply["stop_reason"], &reply["stop_sequence"]), (&reason.into(), &Value::Null));
    assert_eq!((&reply["usage"]["input_tokens"], &reply["usage"]["output_tokens"]), (&ids.len().into(), &count.into()));
    let counted = json!({ "system": system, "messages": messages, "model": "any" });
    let counted = post(server.address, "/v1/messages/count_tokens", &counted).json();
    assert_eq!(counted, json!({ "input_tokens": ids.len() }));
    body["stream"] = true.into();
    let events = post(server.address, "/v1/messages", &body).named();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..4], ["message_start", "ping", "content_block_start", "content_block_delta"]);
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    let start = &events[0]["message"];
    // All but the last token is in memory by now.
    let usage = json!({
        "input_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": ids.len() - 1, "output_tokens": 0,
    });
    assert_eq!((&start["usage"], &start["content"]), (&usage, &json!([])));
    let text: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(text, expected);
    let end = &events[events.len() - 2];
    assert_eq!((&end["delta"]["stop_reason"], &end["usage"]["output_tokens"]), (&reason.into(), &count.into()));
    assert_eq!(end["usage"]["cache_read_input_tokens"], ids.len() - 1);
    // A text that ends it is named.
    let stop = expected.chars().nth(9).unwrap().to_string();
    let from = expected.find(&stop).unwrap();
    (body["stream"], body["stop_sequences"]) = (false.into(), json!(["never comes", stop]));
    let reply = post(server.address, "/v1/messages", &body).json();
    assert_eq!((&reply["stop_reason"], &reply["stop_sequence"]), (&"stop_sequence".into(), &stop.into()));
    let text = reply["content"][0]["text"].as_str().unwrap_or_default();
    assert!(expected[..from] == *text || expected[..from].trim().is_empty(), "{text:?}");
    server.end().unwrap();
}

#[test]
fn tools_are_used() {
    let server = tools::serve();
    let mut body = json!({
        "messages": [{ "role": "user", "content": "Hi" }],
        "max_tokens": 200,
        "tools": [tool()],
        "temperature": 0,
    });
    let reply = post(server.address, "/v1/messages", &body).json();
    let [thinking, text, call] = &reply["content"].as_array().unwrap()[..] else { panic!("{reply}") };
    assert_eq!((&thinking["type"], &thinking["thinking"]), (&"thinking".into(), &"Well.".into()));
    assert_eq!((&text["type"], text["text"].as_str().unwrap().trim()), (&"text".into(), "I look."));
    assert_eq!((&call["type"], &call["name"]), (&"tool_use".into(), &"get_weather".into()));
    assert_eq!((&call["input"], &reply["stop_reason"]), (&json!({ "city": "Paris" }), &"tool_use".into()));
    body["stream"] = true.into();
    let events = post(server.address, "/v1/messages", &body).named();
    let of = |n: usize, kind: &str, name: &str| -> String {
        let own = events.iter().filter(|event| event["index"] == n && event["delta"]["type"] == kind);
        own.filter_map(|event| event["delta"][name].as_str()).collect()
    };
    assert_eq!(of(0, "thinking_delta", "thinking"), "Well.");
    assert_eq!(of(1, "text_delta", "text").trim(), "I look.");
    let input: Value = serde_json::from_str(&of(2, "input_json_delta", "partial_json")).unwrap();
    assert_eq!(input, json!({ "city": "Paris" }));
    for n in 0..3 {
        let own: Vec<&Value> = events.iter().filter(|event| event["index"] == n).map(|event| &event["type"]).collect();
        assert_eq!((own[0], own[own.len() - 1]), (&"content_block_start".into(), &"content_block_stop".into()));
    }
    let begun = events.iter().find(|event| event["index"] == 2).unwrap();
    assert_eq!(
        (&begun["content_block"]["name"], &begun["content_block"]["input"]),
        (&"get_weather".into(), &json!({}))
    );
    server.end().unwrap();
}

/// The template shows a conversation of more than two messages in an error of its own.
#[test]
fn earlier_turns_are_put_as_templates_take_them() {
    let server = tools::serve();
    let body = json!({
        "system": "be kind",
        "max_tokens": 1,
        "messages": [
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Well.", "signature": "" },
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "a", "name": "f", "input": { "x": [1] } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "text", "text": "sunny" }] },
                { "type": "text", "text": "And?" },
            ] },
        ],
    });
    let message = error(&post(server.address, "/v1/messages", &body), 400)["message"].as_str().unwrap().to_owned();
    let shown: Value =
        serde_json::from_str(&message[message.find("[{").unwrap()..=message.rfind("}]").unwrap() + 1]).unwrap();
    let call = json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": { "x": [1] } } });
    let expected = json!([
        { "role": "system", "content": "be kind" },
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": "I look.", "reasoning_content": "Well.", "tool_calls": [call] },
        { "role": "tool", "content": "sunny", "tool_call_id": "a", "name": "f" },
        { "role": "user", "content": "And?" },
    ]);
    assert_eq!(shown, expected);
    server.end().unwrap();
}

#[test]
fn what_is_not_served_is_refused_in_its_form() {
    let mut config = Config::default();
    config.keys = vec!["one".to_owned()];
    let server = start(config, 1);
    let good = json!({ "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 1 });
    let ask = |body: &Value, key: &str| {
        send(server.address, "POST", "/v1/messages", &[("x-api-key", key)], &body.to_string())
    };
    assert_eq!(error(&ask(&good, "two"), 401)["type"], "authentication_error");
    for (field, value) in [
        ("max_tokens", Value::Null),
        ("messages", json!([])),
        ("messages", json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "I" }])),
        ("messages", json!([{ "role": "system", "content": "hi" }])),
        ("messages", json!([{ "role": "user", "content": [{ "type": "image" }] }])),
        (
            "messages",
            json!([{ "role": "user", "content": [{ "type": "tool_use", "id": "a", "name": "b", "input": {} }] }]),
        ),
        ("tool_choice", json!({ "type": "any" })),
        ("tool_choice", json!({ "type": {} })),
        ("tool_choice", json!({ "type": "auto", "disable_parallel_tool_use": true })),
        ("tools", json!([{ "type": "web_search_20250305", "name": "web_search" }])),
        ("tools", json!([{ "name": "f" }])),
        ("thinking", json!({ "type": "enabled", "budget_tokens": 1024 })),
        // The template leaves thinking to the model.
        ("thinking", json!({ "type": "disabled" })),
        ("mcp_servers", json!([{}])),
        ("output_config", json!({ "format": {} })),
        ("system", json!([{ "type": "image" }])),
    ] {
        let mut body = good.clone();
        body[field] = value;
        if body["max_tokens"].is_null() {
            body.as_object_mut().unwrap().shift_remove("max_tokens");
        }
        let error = error(&ask(&body, "one"), 400);
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().starts_with(field), "{body}: {error}");
    }
    let mut body = good.clone();
    for (field, value) in [
        ("metadata", json!({ "user_id": "me" })),
        ("thinking", json!({ "type": "adaptive" })),
        ("tool_choice", json!({ "type": "auto" })),
        ("service_tier", json!("auto")),
        ("top_k", json!(5)),
    ] {
        body[field] = value;
    }
    assert_eq!(ask(&body, "one").status, 200);
    error(&get(server.address, "/v1/messages"), 401);
    error(&send(server.address, "GET", "/v1/messages", &[("x-api-key", "one")], ""), 405);
    error(
        &ask(&json!({ "messages": [{ "role": "user", "content": "hi ".repeat(5000) }], "max_tokens": 1 }), "one"),
        400,
    );
    server.end().unwrap();
}
