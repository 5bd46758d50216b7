//! Ollama's endpoints: what they say is what the other endpoints say, in their own form.

use candor::{EmbedOptions, Message, Pooling, Sampling};
use candor_server::Config;
use serde_json::{Value, json};

use crate::{
    client::{get, post},
    messages::prompt,
    serving::{CONTEXT, alone, start, start_vectors, tiny},
    tools, vectors,
};

fn text(lines: &[Value], path: &str) -> String {
    lines.iter().filter_map(|line| line.pointer(path)?.as_str()).collect()
}

#[test]
fn texts_are_generated() {
    let server = start(Config::default(), 2);
    let sampling = Sampling::default().seed(7);
    let (raw, count) = alone(&tiny().encode_prompt("the cat"), sampling.clone(), 20);
    let options = json!({ "seed": 7, "num_predict": 20, "num_ctx": CONTEXT, "num_thread": 3, "num_gpu": 1 });
    let mut body = json!({ "model": "any", "prompt": "the cat", "raw": true, "options": options, "keep_alive": "5m" });
    let lines = post(server.address, "/api/generate", &body).lines();
    assert_eq!(text(&lines, "/response"), raw);
    assert!(lines[0]["done"] == false && lines[0]["created_at"].as_str().unwrap().ends_with('Z'), "{}", lines[0]);
    body["stream"] = false.into();
    let whole = post(server.address, "/api/generate", &body).json();
    assert_eq!(whole["response"], raw.as_str());
    for end in [&whole, lines.last().unwrap()] {
        assert_eq!((&end["done"], &end["eval_count"]), (&true.into(), &count.into()));
        assert_eq!(end["done_reason"], if count == 20 { "length" } else { "stop" });
        assert_eq!(end["prompt_eval_count"], tiny().encode_prompt("the cat").len());
        let time = |name: &str| end[name].as_u64().unwrap();
        assert_eq!(time("total_duration") / 1000, (time("prompt_eval_duration") + time("eval_duration")) / 1000);
        assert!(time("eval_duration") > 0 && time("prompt_eval_duration") > 0, "{end}");
    }
    // With the template.
    let (answer, _) = alone(&prompt(&[Message::system("be kind"), Message::user("hello")]), sampling, 20);
    (body["raw"], body["prompt"], body["system"]) = (false.into(), "hello".into(), "be kind".into());
    assert_eq!(post(server.address, "/api/generate", &body).json()["response"], answer.as_str());
    let messages = json!([{ "role": "system", "content": "be kind" }, { "role": "user", "content": "hello" }]);
    let chat = json!({ "model": "any", "messages": messages, "options": options });
    let lines = post(server.address, "/api/chat", &chat).lines();
    assert_eq!(text(&lines, "/message/content"), answer);
    assert!(lines.iter().all(|line| line["message"]["role"] == "assistant"));
    // Without a text the model is loaded, which it is.
    for (path, body) in
        [("/api/generate", json!({ "model": "any" })), ("/api/chat", json!({ "model": "any", "messages": [] }))]
    {
        let lines = post(server.address, path, &body).lines();
        assert_eq!((lines.len(), &lines[0]["done"], &lines[0]["done_reason"]), (1, &true.into(), &"load".into()));
    }
    server.end().unwrap();
}

#[test]
fn tools_are_called() {
    let server = tools::serve();
    let tool = json!({ "type": "function", "function": { "name": "get_weather", "parameters": {} } });
    let mut body = json!({
        "model": "any",
        "messages": [{ "role": "user", "content": "Hi" }],
        "tools": [tool],
        "options": { "temperature": 0 },
        "stream": false,
    });
    let message = post(server.address, "/api/chat", &body).json()["message"].clone();
    let call = json!({ "function": { "name": "get_weather", "arguments": { "city": "Paris" } } });
    assert_eq!((&message["thinking"], &message["tool_calls"]), (&"Well.".into(), &json!([call])));
    assert_eq!(message["content"].as_str().unwrap().trim(), "I look.");
    body["stream"] = true.into();
    let lines = post(server.address, "/api/chat", &body).lines();
    assert_eq!(text(&lines, "/message/thinking"), "Well.");
    assert_eq!(lines.iter().filter(|line| line["message"]["tool_calls"] == json!([call])).count(), 1);
    let shown = post(server.address, "/api/show", &json!({ "model": "any" })).json();
    assert_eq!(shown["capabilities"], json!(["completion", "tools", "thinking"]));
    // A second turn, which the template shows as an error of its own.
    body["messages"] = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": "I look.", "thinking": "Well.", "tool_calls": [call] },
        { "role": "tool", "tool_name": "get_weather", "content": "sunny" },
    ]);
    let reply = post(server.address, "/api/chat", &body);
    assert_eq!(reply.status, 400);
    let message = reply.json()["error"].as_str().unwrap().to_owned();
    for part in
        ["\"reasoning_content\": \"Well.\"", "\"arguments\": {\"city\": \"Paris\"}", "\"name\": \"get_weather\""]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    server.end().unwrap();
}

#[test]
fn vectors_are_made() {
    let mean = EmbedOptions::default().pooling(Pooling::Mean);
    let server = start_vectors(vectors::encoder(), mean);
    let texts = ["cats sleep", "paris"];
    let reply = post(server.address, "/api/embed", &json!({ "model": "any", "input": texts })).json();
    for (n, text) in texts.iter().enumerate() {
        let expected = vectors::alone(text, mean);
        assert_eq!(vectors::numbers(&reply["embeddings"][n]), expected);
        let older = post(server.address, "/api/embeddings", &json!({ "model": "any", "prompt": text })).json();
        assert_eq!(vectors::numbers(&older["embedding"]), expected);
    }
    assert_eq!(reply["prompt_eval_count"], 7);
    for (field, value) in [("truncate", json!(true)), ("dimensions", json!(3)), ("options", json!({ "num_ctx": 3 }))] {
        let mut body = json!({ "input": "a" });
        body[field] = value;
        let reply = post(server.address, "/api/embed", &body);
        assert_eq!(reply.status, 400);
        assert!(reply.json()["error"].as_str().unwrap().starts_with(field), "{reply:?}");
    }
    assert_eq!(
        post(server.address, "/api/show", &json!({ "model": "any" })).json()["capabilities"],
        json!(["embedding"])
    );
    server.end().unwrap();
}

#[test]
fn the_model_is_listed() {
    let server = start(Config::default(), 1);
    let model = get(server.address, "/api/tags").json()["models"][0].clone();
    assert_eq!((&model["name"], &model["model"]), (&"tiny".into(), &"tiny".into()));
    assert_eq!((&model["details"]["format"], &model["details"]["family"]), (&"gguf".into(), &"llama".into()));
    assert!(model["size"].as_u64() > Some(1000), "{model}");
    assert_eq!(get(server.address, "/api/ps").json()["models"][0]["context_length"], CONTEXT);
    assert!(get(server.address, "/api/version").json()["version"].is_string());
    let shown = post(server.address, "/api/show", &json!({ "model": "any" })).json();
    let config = tiny().config().clone();
    assert_eq!(shown["model_info"]["llama.embedding_length"], config.dim);
    assert_eq!(shown["model_info"]["llama.context_length"], config.context);
    server.end().unwrap();
}

#[test]
fn what_is_not_served_is_refused_by_name() {
    let server = start(Config::default(), 1);
    for (path, field, value) in [
        ("/api/generate", "format", json!("xml")),
        ("/api/generate", "suffix", json!("x")),
        ("/api/generate", "images", json!(["x"])),
        ("/api/generate", "context", json!([1])),
        ("/api/generate", "template", json!("x")),
        ("/api/generate", "think", json!(false)),
        ("/api/generate", "think", json!("low")),
        ("/api/generate", "options.num_ctx", json!(CONTEXT + 1)),
        ("/api/generate", "options.num_predict", json!("x")),
        ("/api/generate", "options.penalize_newline", json!(true)),
        ("/api/chat", "format", json!({ "not": {} })),
        ("/api/chat", "messages[0].images", json!(["x"])),
        ("/api/chat", "logprobs", json!(true)),
    ] {
        let mut body = json!({ "model": "any", "prompt": "a" });
        if path == "/api/chat" {
            body = json!({ "model": "any", "messages": [{ "role": "user", "content": "hi" }] });
        }
        match field.split_once('.') {
            Some(("options", option)) => body["options"] = json!({ option: value }),
            Some(_) => body["messages"][0]["images"] = value,
            None => body[field] = value,
        }
        let reply = post(server.address, path, &body);
        assert_eq!(reply.status, 400, "{body}");
        assert!(reply.json()["error"].as_str().unwrap().starts_with(field), "{body}: {reply:?}");
    }
    let harmless = json!({ "prompt": "a", "format": "", "think": true, "suffix": "", "images": [], "options": { "num_predict": -2, "stop": "a" } });
    assert_eq!(post(server.address, "/api/generate", &harmless).status, 200);
    assert!(post(server.address, "/api/none", &json!({})).json()["error"].is_string());
    server.end().unwrap();
}
