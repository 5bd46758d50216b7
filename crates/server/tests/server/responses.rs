//! OpenAI's responses: what they say is what the other endpoints say, in their own form.

use candor::{Message, Sampling};
use candor_server::Config;
use serde_json::{Value, json};

use crate::{
    client::post,
    messages::prompt,
    serving::{alone, start},
    tools,
};

fn tool() -> Value {
    json!({ "type": "function", "name": "get_weather", "parameters": { "type": "object" }, "strict": false })
}

/// The events' numbers are theirs in the stream.
fn in_order(events: &[Value]) {
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], n, "{event}");
    }
}

#[test]
fn responses_are_those_of_a_session() {
    let server = start(Config::default(), 2);
    let ids = prompt(&[Message::system("be kind"), Message::user("hello")]);
    let (expected, count) = alone(&ids, Sampling::default().seed(7), 30);
    let mut body =
        json!({ "model": "any", "instructions": "be kind", "input": "hello", "max_output_tokens": 30, "seed": 7 });
    let reply = post(server.address, "/v1/responses", &body).json();
    let status = if count == 30 { "incomplete" } else { "completed" };
    assert_eq!((&reply["object"], &reply["status"]), (&"response".into(), &status.into()));
    let item = &reply["output"][0];
    assert_eq!((&item["type"], &item["content"][0]["text"]), (&"message".into(), &expected.as_str().into()));
    assert_eq!((&reply["usage"]["input_tokens"], &reply["usage"]["output_tokens"]), (&ids.len().into(), &count.into()));
    let counted = json!({ "instructions": "be kind", "input": "hello" });
    let counted = post(server.address, "/v1/responses/input_tokens", &counted).json();
    assert_eq!(counted, json!({ "object": "response.input_tokens", "input_tokens": ids.len() }));
    let messages = json!([{ "role": "system", "content": "be kind" }, { "role": "user", "content": "hello" }]);
    let chat = post(server.address, "/v1/chat/completions/input_tokens", &json!({ "messages": messages })).json();
    assert_eq!(chat["input_tokens"], ids.len());
    // What is asked of memory does not count.
    let same = json!({ "messages": messages, "cache_prompt": false, "lora": [] });
    assert_eq!(post(server.address, "/v1/chat/completions/input_tokens", &same).json(), chat);
    let wrong = json!({ "messages": messages, "lora": [{ "id": 0, "scale": 1 }] });
    assert_eq!(post(server.address, "/v1/chat/completions/input_tokens", &wrong).status, 400);
    // The same as items.
    body["instructions"] = Value::Null;
    body["input"] = json!([
        { "role": "developer", "content": "be kind" },
        { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "hello" }] },
    ]);
    body["stream"] = true.into();
    let events = post(server.address, "/v1/responses", &body).named();
    in_order(&events);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let begin =
        ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"];
    assert_eq!((&kinds[..4], kinds[4]), (&begin[..], "response.output_text.delta"));
    let end = ["response.output_text.done", "response.content_part.done", "response.output_item.done"];
    assert_eq!(kinds[kinds.len() - 4..kinds.len() - 1], end);
    assert_eq!(kinds[kinds.len() - 1], format!("response.{status}"));
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, expected);
    let (last, item) = (&events[events.len() - 1]["response"], &events[2]["item"]);
    assert_eq!((&last["output"][0]["content"][0]["text"], &last["output"][0]["id"]), (&expected.into(), &item["id"]));
    assert!(events[3..events.len() - 2].iter().all(|event| event["item_id"] == item["id"]), "{kinds:?}");
    assert_eq!(events[0]["response"]["id"], last["id"]);
    server.end().unwrap();
}

#[test]
fn functions_are_called() {
    let server = tools::serve();
    let mut body = json!({ "input": "Hi", "tools": [tool()], "temperature": 0, "store": false });
    let reply = post(server.address, "/v1/responses", &body).json();
    let [reasoning, message, call] = &reply["output"].as_array().unwrap()[..] else { panic!("{reply}") };
    assert_eq!((&reasoning["type"], &reasoning["content"][0]["text"]), (&"reasoning".into(), &"Well.".into()));
    assert_eq!(message["content"][0]["text"].as_str().unwrap().trim(), "I look.");
    assert_eq!((&call["type"], &call["name"]), (&"function_call".into(), &"get_weather".into()));
    assert_eq!(call["arguments"], "{\"city\":\"Paris\"}");
    assert!(reply["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64() > Some(0), "{reply}");
    body["stream"] = true.into();
    let events = post(server.address, "/v1/responses", &body).named();
    in_order(&events);
    let of = |kind: &str| -> String {
        let own = events.iter().filter(|event| event["type"] == kind);
        own.filter_map(|event| event["delta"].as_str()).collect()
    };
    assert_eq!(of("response.reasoning_text.delta"), "Well.");
    assert_eq!(of("response.function_call_arguments.delta"), "{\"city\":\"Paris\"}");
    let done: Vec<&Value> = events.iter().filter(|event| event["type"] == "response.output_item.done").collect();
    assert_eq!(done.len(), 3);
    assert_eq!(done[2]["item"]["call_id"], events.last().unwrap()["response"]["output"][2]["call_id"]);
    server.end().unwrap();
}

/// The template shows a conversation of more than two messages in an error of its own.
#[test]
fn earlier_items_are_put_as_templates_take_them() {
    let server = tools::serve();
    let body = json!({ "instructions": "be kind", "input": [
        { "role": "user", "content": "Hi" },
        { "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": "Well." }] },
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "I look." }] },
        { "role": "assistant", "content": "Now." },
        { "type": "function_call", "call_id": "a", "name": "f", "arguments": "{\"x\": [1]}" },
        { "type": "function_call_output", "call_id": "a", "output": "sunny" },
    ] });
    let reply = post(server.address, "/v1/responses", &body);
    assert_eq!(reply.status, 400, "{reply:?}");
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    let shown: Value =
        serde_json::from_str(&message[message.find("[{").unwrap()..=message.rfind("}]").unwrap() + 1]).unwrap();
    let call = json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": { "x": [1] } } });
    let expected = json!([
        { "role": "system", "content": "be kind" },
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": "I look.\nNow.", "reasoning_content": "Well.", "tool_calls": [call] },
        { "role": "tool", "content": "sunny", "tool_call_id": "a", "name": "f" },
    ]);
    assert_eq!(shown, expected);
    server.end().unwrap();
}

#[test]
fn what_needs_memory_is_refused() {
    let server = start(Config::default(), 1);
    for (field, value) in [
        ("previous_response_id", json!("resp_1")),
        ("conversation", json!("conv_1")),
        ("prompt", json!({ "id": "a" })),
        ("store", json!(true)),
        ("background", json!(true)),
        ("include", json!(["message.output_text.logprobs"])),
        ("truncation", json!("auto")),
        ("text", json!({ "format": { "type": "json_schema" } })),
        ("text", json!({ "format": { "type": "json_schema", "schema": { "not": {} } } })),
        ("text", json!({ "format": { "type": "xml" } })),
        ("text", json!({ "verbosity": "low" })),
        ("tools", json!([{ "type": "web_search" }])),
        ("tool_choice", json!("required")),
        ("parallel_tool_calls", json!(false)),
        ("reasoning", json!({ "effort": "low" })),
        ("reasoning", json!({ "summary": "detailed" })),
        ("top_logprobs", json!(2)),
        ("max_output_tokens", json!("1")),
        ("input", Value::Null),
        ("input", json!([])),
        ("input", json!([{ "type": "item_reference", "id": "a" }])),
        ("input", json!([{ "role": "user", "content": [{ "type": "input_image" }] }])),
        ("input", json!([{ "type": "function_call", "call_id": "a", "name": "f", "arguments": "{" }])),
    ] {
        let mut body = json!({ "input": "hi", "max_output_tokens": 1 });
        body[field] = value;
        let reply = post(server.address, "/v1/responses", &body);
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        assert!(
            reply.json()["error"]["param"].as_str().is_some_and(|param| param.starts_with(field)),
            "{body}: {reply:?}"
        );
    }
    let body = json!({
        "input": "hi",
        "max_output_tokens": 1,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "text": { "format": { "type": "text" } },
        "reasoning": { "effort": null, "summary": "auto" },
        "truncation": "disabled",
        "metadata": { "a": "b" },
    });
    let reply = post(server.address, "/responses", &body).json();
    assert_eq!((&reply["metadata"], &reply["store"]), (&body["metadata"], &false.into()));
    server.end().unwrap();
}
