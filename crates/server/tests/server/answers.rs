//! Answers are those of a session alone: streamed and not, and beside others.

use std::thread;

use candor::{ChatTemplate, Message, Sampling};
use candor_server::Config;
use serde_json::{Value, json};

use crate::{
    client::{get, post},
    serving::{CONTEXT, alone, start, tiny},
};

fn text(events: &[Value], path: &str) -> String {
    events.iter().filter_map(|event| event.pointer(path)?.as_str()).collect()
}

#[test]
fn completions_are_those_of_a_session() {
    let server = start(Config::default(), 2);
    let prompt = "the cat";
    let (expected, count) = alone(&tiny().encode_prompt(prompt), Sampling::greedy(), 24);
    let mut body = json!({ "prompt": prompt, "max_tokens": 24, "temperature": 0 });
    for path in ["/v1/completions", "/completions"] {
        let reply = post(server.address, path, &body).json();
        assert_eq!(reply["choices"][0]["text"], expected.as_str());
        assert_eq!(reply["usage"]["completion_tokens"], count);
        assert_eq!(reply["usage"]["prompt_tokens"], tiny().encode_prompt(prompt).len());
        assert_eq!(reply["choices"][0]["finish_reason"], if count == 24 { "length" } else { "stop" });
    }
    body["stream"] = true.into();
    body["stream_options"] = json!({ "include_usage": true });
    let reply = post(server.address, "/v1/completions", &body);
    assert!(reply.body.ends_with("data: [DONE]\n\n"), "{}", reply.body);
    let events = reply.events();
    assert_eq!(text(&events, "/choices/0/text"), expected);
    assert_eq!(events.last().unwrap()["usage"]["completion_tokens"], count);
    // llama.cpp's own form of the same.
    let mut own = json!({ "prompt": prompt, "n_predict": 24, "temperature": 0 });
    let reply = post(server.address, "/completion", &own).json();
    assert_eq!((&reply["content"], &reply["tokens_predicted"]), (&expected.as_str().into(), &count.into()));
    own["stream"] = true.into();
    let events = post(server.address, "/completion", &own).events();
    assert_eq!(text(&events, "/content"), expected);
    assert_eq!(events.last().unwrap()["stop"], true);
    server.end().unwrap();
}

#[test]
fn conversations_are_put_as_the_template_says() {
    let server = start(Config::default(), 2);
    let model = tiny();
    let template = ChatTemplate::named("chatml").unwrap();
    let messages = [Message::system("be kind"), Message::user("hello\nyou")];
    let prompt = template.render(&messages, &model.chat_context()).unwrap();
    let (expected, count) = alone(&model.encode_prompt(&prompt), Sampling::default().seed(7), 30);
    let parts = json!([{ "type": "text", "text": "hello" }, { "type": "text", "text": "you" }]);
    let messages = json!([{ "role": "system", "content": "be kind" }, { "role": "user", "content": parts }]);
    let mut body =
        json!({ "model": "any", "messages": messages, "max_completion_tokens": 30, "seed": 7, "user": "me" });
    let reply = post(server.address, "/v1/chat/completions", &body).json();
    let message = &reply["choices"][0]["message"];
    assert_eq!((&message["role"], &message["content"]), (&"assistant".into(), &expected.as_str().into()));
    assert_eq!(reply["usage"]["completion_tokens"], count);
    body["stream"] = true.into();
    let events = post(server.address, "/chat/completions", &body).events();
    assert_eq!(text(&events, "/choices/0/delta/content"), expected);
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(events.last().unwrap()["choices"][0]["finish_reason"].is_string());
    let reply = post(server.address, "/apply-template", &json!({ "messages": messages })).json();
    assert_eq!(reply["prompt"], prompt);
    server.end().unwrap();
}

#[test]
fn several_answers_have_seeds_of_their_own() {
    let server = start(Config::default(), 3);
    let (first, second) = ("the cat", "a dog");
    let body = json!({ "prompt": [first, second], "n": 2, "max_tokens": 12, "seed": 3 });
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let reply = post(server.address, "/v1/completions", &body).json();
    let events = post(server.address, "/v1/completions", &streamed).events();
    for (index, (prompt, seed)) in [(first, 3), (first, 4), (second, 3), (second, 4)].into_iter().enumerate() {
        let (expected, _) = alone(&tiny().encode_prompt(prompt), Sampling::default().seed(seed), 12);
        assert_eq!(reply["choices"][index]["text"], expected.as_str());
        let own: Vec<Value> = events.iter().filter(|event| event["choices"][0]["index"] == index).cloned().collect();
        assert_eq!(text(&own, "/choices/0/text"), expected);
    }
    let prompts = [first, second].map(|prompt| tiny().encode_prompt(prompt).len()).iter().sum::<usize>();
    assert_eq!(reply["usage"]["prompt_tokens"], prompts);
    server.end().unwrap();
}

#[test]
fn eight_clients_get_their_own_answers() {
    let server = start(Config::default(), 3);
    let address = server.address;
    let clients: Vec<_> = (0..8u32)
        .map(|n| {
            thread::spawn(move || {
                for round in 0..3 {
                    let prompt = "word ".repeat(1 + (n as usize * 7 + round) % 30);
                    let body = json!({ "prompt": prompt, "max_tokens": 20, "seed": n, "stream": n % 2 == 0 });
                    let reply = post(address, "/v1/completions", &body);
                    let got = match n % 2 == 0 {
                        true => text(&reply.events(), "/choices/0/text"),
                        false => reply.json()["choices"][0]["text"].as_str().unwrap().to_owned(),
                    };
                    let (expected, _) = alone(&tiny().encode_prompt(&prompt), Sampling::default().seed(n), 20);
                    assert_eq!(got, expected, "client {n}");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    server.end().unwrap();
}

#[test]
fn the_model_and_its_tokens_can_be_asked_for() {
    let server = start(Config::default(), 2);
    let models = get(server.address, "/v1/models").json();
    assert_eq!((&models["data"][0]["id"], &models["object"]), (&"tiny".into(), &"list".into()));
    let props = get(server.address, "/props").json();
    assert_eq!((&props["total_slots"], &props["exact"]), (&2.into(), &true.into()));
    assert_eq!(props["default_generation_settings"]["n_ctx"], CONTEXT);
    let ids = post(server.address, "/tokenize", &json!({ "content": "a cat" })).json()["tokens"].clone();
    assert!(ids.as_array().is_some_and(|ids| ids.len() > 1 && ids[0] != 1), "{ids}");
    let pieces = post(server.address, "/tokenize", &json!({ "content": "a cat", "with_pieces": true })).json();
    let joined: String =
        pieces["tokens"].as_array().unwrap().iter().map(|token| token["piece"].as_str().unwrap()).collect();
    assert_eq!(joined.trim_start(), "a cat");
    let back = post(server.address, "/detokenize", &json!({ "tokens": ids })).json();
    assert_eq!(back["content"].as_str().unwrap().trim_start(), "a cat");
    let bos = post(server.address, "/tokenize", &json!({ "content": "a", "add_special": true })).json();
    assert_eq!(bos["tokens"][0], 1);
    server.end().unwrap();
}
