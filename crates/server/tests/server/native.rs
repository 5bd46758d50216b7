//! What llama.cpp's server says besides the text, and what it takes: by the tokens and logits of a session.

use std::sync::Arc;

use candor::{
    BatchOptions, ChatTemplate, CivilTime, Engine, Message, Sampling, SessionOptions, Show, sampler::Sampler,
};
use candor_server::{Config, Loaded, Ready, Work};
use serde_json::{Value, json};

use crate::{
    client::{get, post},
    serving::{CONTEXT, alone, listen, ready, start, tiny, wait},
};

/// All pieces of a prompt's tokens, one after the other.
fn shown(ids: &[u32]) -> String {
    let model = tiny();
    let bytes: Vec<u8> = ids.iter().flat_map(|&id| model.tokenizer().piece(id, Show::Specials).into_owned()).collect();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn an_answer_says_how_it_was_made() {
    let server = start(Config::default(), 2);
    let (prompt, ids) = ("the cat", tiny().encode_prompt("the cat"));
    let (text, count) = alone(&ids, Sampling::default().seed(5), 20);
    let body = json!({ "prompt": prompt, "n_predict": 20, "seed": 5, "return_tokens": true, "stop": ["never said"], "cache_prompt": false });
    for path in ["/completion", "/completions"] {
        let whole = post(server.address, path, &body).json();
        assert_eq!((&whole["content"], &whole["prompt"]), (&text.as_str().into(), &shown(&ids).into()));
        assert_eq!(whole["tokens"].as_array().unwrap().len(), count);
        assert_eq!((&whole["tokens_evaluated"], &whole["tokens_predicted"]), (&ids.len().into(), &count.into()));
        assert_eq!((&whole["truncated"], &whole["stopping_word"]), (&false.into(), &"".into()));
        assert_eq!(whole["has_new_line"], text.contains('\n'));
        let settings = &whole["generation_settings"];
        for (name, value) in [("n_predict", json!(20)), ("seed", json!(5)), ("stop", json!(["never said"]))] {
            assert_eq!(settings[name], value, "{name}");
        }
        let timings = &whole["timings"];
        assert_eq!((&timings["prompt_n"], &timings["predicted_n"]), (&ids.len().into(), &count.into()));
        let (ms, rate) = (timings["predicted_ms"].as_f64().unwrap(), timings["predicted_per_second"].as_f64().unwrap());
        // The first token costs no step of its own.
        assert!(timings["prompt_ms"].as_f64() > Some(0.0) && (rate - 1e3 / ms * (count - 1) as f64).abs() < 1e-6);
    }
    let mut only = body.clone();
    only["response_fields"] = json!(["content", "generation_settings/seed", "no/such"]);
    let only = post(server.address, "/completion", &only).json();
    assert_eq!(only, json!({ "content": text, "generation_settings/seed": 5 }));
    // The same of a conversation.
    let messages = json!([{ "role": "user", "content": "hi" }]);
    let mut chat = json!({ "messages": messages, "max_tokens": 5, "verbose": true });
    let reply = post(server.address, "/v1/chat/completions", &chat).json();
    let template = ChatTemplate::named("chatml").unwrap();
    let prompt = template.render(&[Message::user("hi")], &tiny().chat_context()).unwrap();
    assert_eq!(reply["__verbose"]["prompt"], shown(&tiny().encode_prompt(&prompt)));
    chat["verbose"] = false.into();
    assert!(post(server.address, "/v1/chat/completions", &chat).json()["__verbose"].is_null());
    server.end().unwrap();
}

/// Which text ends an answer, and how the end of the context is called.
#[test]
fn ends_are_named() {
    let server = start(Config::default(), 1);
    let ids = tiny().encode_prompt("the cat");
    let (text, _) = alone(&ids, Sampling::greedy(), 12);
    let at = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
    let word = &text[at..];
    let mut body = json!({ "prompt": "the cat", "n_predict": 12, "temperature": 0, "stop": ["never said", word] });
    let whole = post(server.address, "/completion", &body).json();
    assert_eq!((&whole["stop_type"], &whole["stopping_word"]), (&"word".into(), &word.into()));
    assert_eq!(whole["content"], text[..text.find(word).unwrap()]);
    body["stop"] = Value::Null;
    body["ignore_eos"] = true.into();
    let whole = post(server.address, "/completion", &body).json();
    let biases = whole["generation_settings"]["logit_bias"].as_array().unwrap().clone();
    let stops: Vec<Value> =
        tiny().tokenizer().stop_ids().iter().map(|&id| json!({ "token": id, "bias": null })).collect();
    assert!(!stops.is_empty() && biases == stops, "{biases:?}");
    let body = json!({ "prompt": vec![5; CONTEXT - 3], "ignore_eos": true, "temperature": 0 });
    let whole = post(server.address, "/completion", &body).json();
    assert_eq!((&whole["truncated"], &whole["stop_type"]), (&true.into(), &"limit".into()));
    server.end().unwrap();
}

#[test]
fn a_prompt_is_text_and_tokens() {
    let server = start(Config::default(), 2);
    let first = tiny().encode_prompt("the cat");
    let more = post(server.address, "/tokenize", &json!({ "content": "sat" })).json()["tokens"].clone();
    let same =
        post(server.address, "/tokenize", &json!({ "content": ["the cat", 7, "sat"], "add_special": true })).json();
    let mut expected: Vec<Value> = first.iter().map(|&id| id.into()).collect();
    expected.push(7.into());
    expected.extend(more.as_array().unwrap().clone());
    assert_eq!(same["tokens"], Value::from(expected.clone()));
    let ask = |prompt: Value| {
        let body = json!({ "prompt": prompt, "n_predict": 4, "temperature": 0 });
        post(server.address, "/completion", &body).json()
    };
    let whole = ask(json!(expected));
    let mixed = ask(json!(["the cat", 7, "sat"]));
    assert_eq!((&mixed["prompt"], &mixed["content"]), (&whole["prompt"], &whole["content"]));
    let several = ask(json!([{ "prompt_string": "the cat" }, first, "the cat"]));
    let contents: Vec<&Value> = several.as_array().unwrap().iter().map(|one| &one["content"]).collect();
    assert!(contents.len() == 3 && contents[0] == contents[1] && contents[1] == contents[2], "{several}");
    for wrong in [json!([]), json!({}), json!([1, [2]]), json!({ "prompt_string": "a", "multimodal_data": ["x"] })] {
        let reply = post(server.address, "/completion", &json!({ "prompt": wrong }));
        assert!(reply.status == 400 && reply.json()["error"]["param"].as_str().unwrap().starts_with("prompt"));
    }
    server.end().unwrap();
}

/// Biases by token and by text, in both forms.
#[test]
fn biases_take_tokens_away() {
    let server = start(Config::default(), 1);
    let ask = |bias: Value| {
        let body =
            json!({ "prompt": "the cat", "n_predict": 1, "temperature": 0, "return_tokens": true, "logit_bias": bias });
        post(server.address, "/completion", &body).json()["tokens"][0].clone()
    };
    let best = ask(Value::Null);
    for bias in [json!([[best, false]]), json!([[best, -1e9]]), json!({ best.to_string(): -1e9 })] {
        assert_ne!(ask(bias.clone()), best, "{bias}");
    }
    // A text stands for its tokens.
    let tokens = post(server.address, "/tokenize", &json!({ "content": "cat", "parse_special": false })).json();
    let last = tokens["tokens"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(ask(json!([[last, 1e9]])), last);
    assert!(tokens["tokens"].as_array().unwrap().contains(&ask(json!([["cat", 1e9]]))));
    assert!(tokens["tokens"].as_array().unwrap().contains(&ask(json!({ "cat": 1e9 }))));
    for wrong in [json!(3), json!([[1]]), json!([[-1, 0]]), json!([[1, true]]), json!([["a", "b"]])] {
        let reply = post(server.address, "/completion", &json!({ "prompt": "a", "logit_bias": wrong }));
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &"logit_bias".into()), "{reply:?}");
    }
    server.end().unwrap();
}

/// Probabilities after sampling are the candidates of the sampler, by a session's logits; also where the seed is drawn.
#[test]
fn probabilities_after_sampling_are_those_of_the_sampler() {
    let server = start(Config::default(), 1);
    let ids = tiny().encode_prompt("the cat");
    let sampling = Sampling::default().temperature(0.7).top_k(0).top_p(1.0).min_p(0.0).repeat_penalty(1.3);
    let sampling = sampling.xtc_probability(0.5).xtc_threshold(0.001);
    for seed in [json!(9), Value::Null] {
        let mut body = serde_json::to_value(&sampling).unwrap();
        for (name, value) in [("prompt", json!("the cat")), ("n_predict", json!(24)), ("n_probs", json!(4))] {
            body[name] = value;
        }
        (body["post_sampling_probs"], body["ignore_eos"], body["seed"]) = (true.into(), true.into(), seed);
        let reply = post(server.address, "/completion", &body).json();
        let tokens = reply["completion_probabilities"].as_array().unwrap();
        assert_eq!(tokens.len(), 24);
        let mut session = tiny().session(&SessionOptions::default().context(CONTEXT)).unwrap();
        let seed = reply["generation_settings"]["seed"].as_u64().unwrap() as u32;
        let excluded = tiny().tokenizer().stop_ids().iter().map(|&id| (id, f32::NEG_INFINITY)).collect();
        let sampling = sampling.clone().seed(seed).logit_bias(excluded);
        let mut sampler = Sampler::new(&sampling, CONTEXT, None).unwrap();
        ids.iter().for_each(|&id| sampler.accept(id));
        session.evaluate(&ids).unwrap();
        for token in tokens {
            let mut left = sampler.candidates(session.logits()).unwrap().to_vec();
            left.sort_by(|a, b| b.p.total_cmp(&a.p));
            let id = token["id"].as_u64().unwrap() as u32;
            let close = |value: &Value, p: f32| (value.as_f64().unwrap() - f64::from(p)).abs() < 1e-6;
            assert!(left.iter().any(|one| one.id == id && close(&token["prob"], one.p)), "{token} {left:?}");
            let top = token["top_probs"].as_array().unwrap();
            assert_eq!(top.len(), left.len().min(4));
            assert!(top.iter().zip(&left).all(|(top, left)| close(&top["prob"], left.p)), "{top:?} {left:?}");
            sampler.accept(id);
            session.decode(id).unwrap();
        }
    }
    server.end().unwrap();
}

#[test]
fn a_stream_says_how_far_it_is() {
    let server = start(Config::default(), 1);
    let prompt = "word ".repeat(60);
    let total = tiny().encode_prompt(&prompt).len();
    let body = json!({
        "prompt": prompt, "max_tokens": 8, "stream": true, "return_progress": true, "timings_per_token": true,
        "cache_prompt": false, "temperature": 0, "ignore_eos": true, "stream_options": { "include_usage": true },
    });
    let messages = json!({
        "messages": [{ "role": "user", "content": prompt }], "max_tokens": 8, "stream": true, "return_progress": true,
        "timings_per_token": true, "cache_prompt": false, "temperature": 0, "ignore_eos": true, "stream_options": { "include_usage": true },
    });
    let mut own = body.clone();
    own["stream_options"] = Value::Null;
    for (path, body) in [("/completion", own), ("/v1/completions", body), ("/v1/chat/completions", messages)] {
        let events = post(server.address, path, &body).events();
        let progress: Vec<&Value> = events.iter().filter(|event| !event["prompt_progress"].is_null()).collect();
        let read: Vec<u64> = progress.iter().map(|one| one["prompt_progress"]["processed"].as_u64().unwrap()).collect();
        assert!(read[0] == 0 && read.len() > 2 && read.is_sorted_by(|a, b| a < b), "{path}: {read:?}");
        let of = progress[0]["prompt_progress"]["total"].as_u64().unwrap();
        assert!(read.last() == Some(&of) && of as usize >= total, "{path}: {read:?} of {of}");
        assert_eq!(
            (&progress[0]["timings"]["prompt_n"], &progress[0]["timings"]["prompt_ms"]),
            (&0.into(), &0.0.into())
        );
        let times: Vec<f64> = progress.iter().map(|one| one["timings"]["prompt_ms"].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times.last() > Some(&0.0), "{path}: {times:?}");
        assert_eq!(events.last().unwrap()["timings"]["prompt_n"], of, "{path}");
        let written: Vec<u64> = events.iter().filter_map(|event| event["timings"]["predicted_n"].as_u64()).collect();
        assert!(written.is_sorted() && written.iter().any(|n| (1..8).contains(n)) && written.ends_with(&[8]), "{path}");
    }
    server.end().unwrap();
}

/// An answer that gave its memory back reads more than its prompt later; what it says of the prompt stays.
#[test]
fn a_prompt_is_counted_once() {
    let server = listen(Config::default(), || {
        let options = BatchOptions::default().sequences(2).context(512).pool(512).rows(64);
        let ready = ready(1);
        let work = Work::Answers(Engine::new(tiny().batch(&options).unwrap(), 16));
        Ok(Loaded::Ready(Box::new(Ready { work, ..ready })))
    });
    wait(&server);
    let address = server.address;
    let prompt = vec![5; 100];
    let mut body = json!({
        "prompt": [prompt, prompt], "n_predict": 300, "seed": 3, "ignore_eos": true, "cache_prompt": false
    });
    let both = post(address, "/completion", &body).json();
    body["prompt"] = json!(prompt);
    let alone = post(address, "/completion", &body);
    for one in both.as_array().unwrap() {
        assert_eq!(one["content"], alone.json()["content"]);
        assert_eq!((&one["timings"]["prompt_n"], &one["timings"]["predicted_n"]), (&100.into(), &300.into()));
    }
    server.end().unwrap();
}

/// A template without a clock hears of the date by the variables that llama.cpp gives.
#[test]
fn templates_know_the_date() {
    let source =
        "{{ date_string|default('') }}|{{ datetime|default('') }}|{{ strftime_now('%Y') }}|{{ messages[0].content }}";
    let server = listen(Config::default(), || {
        let template = ChatTemplate::new(source).map_err(|error| error.to_string())?;
        Ok(Loaded::Ready(Box::new(Ready { template: Some(Arc::new(template)), ..ready(1) })))
    });
    wait(&server);
    let render =
        |body: Value| post(server.address, "/apply-template", &body).json()["prompt"].as_str().unwrap().to_owned();
    let messages = json!([{ "role": "user", "content": "hi" }]);
    let dates = || {
        let now = CivilTime::utc_now().unwrap();
        ["%d %b %Y", "%b %d %Y", "%Y"].map(|format| now.format(format).unwrap()).join("|") + "|hi"
    };
    // It may be midnight in between.
    let (before, prompt, after) = (dates(), render(json!({ "messages": messages })), dates());
    assert!(prompt == before || prompt == after, "{prompt}, {before}");
    let given =
        json!({ "messages": messages, "chat_template_kwargs": { "date_string": "1 May", "datetime": "May 1" } });
    assert!(render(given).starts_with("1 May|May 1|"));
    server.end().unwrap();
}

/// vLLM's names for what `lm-eval` asks of a tokenizer.
#[test]
fn a_tokenizer_can_be_asked_from_afar() {
    let server = start(Config::default(), 1);
    let info = get(server.address, "/tokenizer_info").json();
    assert_eq!((&info["bos_token"], &info["eos_token"]), (&"<s>".into(), &"</s>".into()));
    let body = json!({ "prompt": "<s>the cat", "add_special_tokens": false });
    let tokens = post(server.address, "/tokenize", &body).json()["tokens"].clone();
    assert_eq!(tokens, json!(tiny().encode_prompt("the cat")));
    let back = post(server.address, "/detokenize", &json!({ "tokens": tokens })).json();
    assert!(back["prompt"].as_str().is_some_and(|text| text.ends_with("the cat")), "{back}");
    server.end().unwrap();
}

/// A last message of the assistant is the beginning of the answer.
#[test]
fn an_answer_may_be_begun() {
    let server = start(Config::default(), 1);
    let user = json!({ "role": "user", "content": "hi" });
    let begun = json!({ "role": "assistant", "content": "Well" });
    let template = ChatTemplate::named("chatml").unwrap();
    let mut context = tiny().chat_context();
    let opened = template.render(&[Message::user("hi")], &context).unwrap();
    context.add_generation_prompt = false;
    let closed = template.render(&[Message::user("hi")], &context).unwrap();
    let render = |body: Value| post(server.address, "/apply-template", &body);
    let prompt = |body: Value| render(body).json()["prompt"].as_str().unwrap().to_owned();
    assert_eq!(prompt(json!({ "messages": [user, begun] })), format!("{opened}Well"));
    let explicit = json!({ "messages": [user, begun], "continue_final_message": true, "add_generation_prompt": false });
    assert_eq!(prompt(explicit), format!("{opened}Well"));
    assert_eq!(prompt(json!({ "messages": [user], "add_generation_prompt": false })), closed);
    let whole = prompt(json!({ "messages": [user, begun], "continue_final_message": false }));
    assert!(whole.contains("Well<|im_end|>"), "{whole}");
    for wrong in [
        json!({ "messages": [user, begun], "continue_final_message": true, "add_generation_prompt": true }),
        json!({ "messages": [user], "continue_final_message": true }),
        json!({ "messages": [user, begun, begun] }),
        json!({ "messages": [user, { "role": "assistant", "content": "", "reasoning_content": "so" }] }),
    ] {
        assert_eq!(render(wrong.clone()).status, 400, "{wrong}");
    }
    server.end().unwrap();
}
