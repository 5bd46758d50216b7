//! Answers are those of a session alone: streamed and not, and beside others.

use std::thread;

use candor::{ChatTemplate, Message, Sampling, SessionOptions, top_k};
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
    {
        let reply = post(server.address, "/v1/completions", &body).json();
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

/// A token of the tiny model behind a text, with its logarithmic probability, by the logits of a session.
fn likeliest(prompt: &[u32], count: usize) -> Vec<(u32, f64)> {
    let mut session = tiny().session(&SessionOptions::default().context(CONTEXT)).unwrap();
    session.evaluate(prompt).unwrap();
    let mut likeliest = Vec::new();
    for _ in 0..count {
        let sum: f64 = session.logits().iter().map(|&logit| f64::from(logit).exp()).sum();
        let mut best = Vec::new();
        top_k(session.logits(), 1, &mut best);
        likeliest.push((best[0].0, f64::from(best[0].1) - sum.ln()));
        session.decode(best[0].0).unwrap();
    }
    likeliest
}

#[test]
fn probabilities_are_those_of_a_session() {
    let server = start(Config::default(), 2);
    let model = tiny();
    let expected = likeliest(&model.encode_prompt("the cat"), 9);
    let close = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-5;
    let mut body = json!({ "prompt": "the cat", "max_tokens": 9, "temperature": 0, "n_probs": 3 });
    let own = post(server.address, "/completion", &body).json()["completion_probabilities"].clone();
    let own = own.as_array().unwrap();
    assert_eq!(own.len(), 9);
    for (token, &(id, logprob)) in own.iter().zip(&expected) {
        assert!(token["id"] == id && close(&token["logprob"], logprob), "{token}, expected {id} {logprob}");
        let top = token["top_logprobs"].as_array().unwrap();
        assert!(top.len() == 3 && top[0]["id"] == id && top[0]["logprob"] == token["logprob"], "{token}");
        assert!(top[1]["logprob"].as_f64() < top[0]["logprob"].as_f64(), "{token}");
    }
    body["stream"] = true.into();
    let events = post(server.address, "/completion", &body).events();
    let streamed = events.iter().filter_map(|event| event["completion_probabilities"].as_array()).flatten();
    assert_eq!(streamed.collect::<Vec<_>>(), own.iter().collect::<Vec<_>>());
    // OpenAI's form of the same.
    let body = json!({ "prompt": "the cat", "max_tokens": 9, "temperature": 0, "logprobs": 2 });
    let lists = post(server.address, "/v1/completions", &body).json()["choices"][0]["logprobs"].clone();
    for (n, token) in own.iter().enumerate() {
        assert_eq!((&lists["tokens"][n], &lists["token_logprobs"][n]), (&token["token"], &token["logprob"]));
        assert_eq!(lists["top_logprobs"][n][token["token"].as_str().unwrap()], token["logprob"]);
    }
    assert_eq!((&lists["text_offset"][0], lists["text_offset"].as_array().unwrap().len()), (&0.into(), 9));
    // In a conversation, streamed and not; drawn tokens keep their probabilities.
    let messages = json!([{ "role": "user", "content": "hi" }]);
    let mut body = json!({ "messages": messages, "max_tokens": 9, "seed": 5, "logprobs": true, "top_logprobs": 1 });
    let whole = post(server.address, "/v1/chat/completions", &body).json()["choices"][0]["logprobs"]["content"].clone();
    body["stream"] = true.into();
    let events = post(server.address, "/v1/chat/completions", &body).events();
    let streamed = events.iter().filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array()).flatten();
    assert_eq!(streamed.collect::<Vec<_>>(), whole.as_array().unwrap().iter().collect::<Vec<_>>());
    assert!(!whole[0]["token"].is_null() && whole[0]["top_logprobs"].as_array().unwrap().len() == 1, "{whole}");
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
