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

/// How likely each token of a prompt is but the first, by the logits of a session: its logarithmic probability, and the likeliest there.
fn read_alone(prompt: &[u32]) -> Vec<(f64, f64)> {
    let mut session = tiny().session(&SessionOptions::default().context(CONTEXT)).unwrap();
    let mut read = Vec::new();
    let rows = &prompt[..prompt.len() - 1];
    session
        .evaluate_each(rows, |index, logits| {
            let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
            let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let of = |logit: f32| f64::from(logit) - sum.ln();
            read.push((of(logits[prompt[index + 1] as usize]), of(best)));
        })
        .unwrap();
    read
}

/// What `lm-eval` asks for: the prompt with its probabilities in front of the answer.
#[test]
fn a_prompt_is_repeated_with_its_probabilities() {
    let server = start(Config::default(), 2);
    let text = "the cat sat on the mat, and the dog on the log. ".repeat(6) + "caf\u{e9}!";
    let ids = tiny().encode_prompt(&text);
    let expected = read_alone(&ids);
    let body = |prompt: Value, tokens: usize| json!({ "prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 1, "echo": true });
    for (prompt, tokens) in [(json!(text), 0), (json!(text), 1), (json!(ids), 0), (json!([ids]), 1)] {
        let reply = post(server.address, "/v1/completions", &body(prompt, tokens)).json();
        let choice = &reply["choices"][0];
        assert!(choice["text"].as_str().is_some_and(|all| all.starts_with(&text)), "{choice}");
        assert_eq!(
            (&reply["usage"]["completion_tokens"], &choice["finish_reason"]),
            (&tokens.into(), &"length".into())
        );
        let lists = ["tokens", "token_logprobs", "top_logprobs", "text_offset"].map(|name| {
            let list = choice["logprobs"][name].as_array().unwrap();
            assert_eq!(list.len(), ids.len() + tokens, "{name}");
            list.clone()
        });
        let [pieces, logprobs, tops, offsets] = &lists;
        assert!(logprobs[0].is_null() && tops[0].is_null(), "{logprobs:?}");
        for (n, &(logprob, best)) in expected.iter().enumerate() {
            let (got, top) = (logprobs[n + 1].as_f64().unwrap(), tops[n + 1].as_object().unwrap());
            let top = top.values().next().and_then(Value::as_f64).unwrap();
            assert!((got - logprob).abs() < 1e-5 && (top - best).abs() < 1e-5, "{n}: {got} {logprob}, {top} {best}");
        }
        // What every text begins with is not in the text.
        assert_eq!((&pieces[0], &offsets[0], &offsets[1]), (&"<s>".into(), &0.into(), &0.into()));
        let chars: Vec<char> = choice["text"].as_str().unwrap().chars().collect();
        for n in 2..ids.len() {
            let (from, piece) = (offsets[n].as_u64().unwrap() as usize, pieces[n].as_str().unwrap());
            if !piece.contains('\u{fffd}') {
                assert_eq!(chars[from..].iter().take(piece.chars().count()).collect::<String>(), piece);
            }
        }
        assert_eq!(offsets.get(ids.len()), (tokens == 1).then(|| json!(text.chars().count())).as_ref());
    }
    // The prompt is in memory by now, which changes no bit; streamed, with several answers, and without probabilities.
    let mut asked = body(json!([text, "a dog"]), 3);
    let whole = post(server.address, "/v1/completions", &asked).json();
    asked["stream"] = true.into();
    let events = post(server.address, "/v1/completions", &asked).events();
    for index in 0..2 {
        let own = || events.iter().map(|event| &event["choices"][0]).filter(|choice| choice["index"] == index);
        let choice = &whole["choices"][index];
        assert_eq!(own().filter_map(|choice| choice["text"].as_str()).collect::<String>(), choice["text"]);
        for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            let streamed = own().filter_map(|choice| choice["logprobs"][name].as_array()).flatten();
            assert_eq!(
                streamed.collect::<Vec<_>>(),
                choice["logprobs"][name].as_array().unwrap().iter().collect::<Vec<_>>()
            );
        }
    }
    let plain = json!({ "prompt": text, "max_tokens": 0, "echo": true });
    let choice = post(server.address, "/v1/completions", &plain).json()["choices"][0].clone();
    assert_eq!((&choice["text"], &choice["logprobs"]), (&text.as_str().into(), &Value::Null));
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
