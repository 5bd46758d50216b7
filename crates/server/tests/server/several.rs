//! Several models: the request says which, and one that answers never goes.

use std::{
    collections::BTreeMap,
    io::Read,
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use candor::{BatchOptions, EmbedOptions, Engine, Gguf, LoadOptions, Model, Pooling, Sampling};
use candor_server::{Config, Loaded, Models, Ready, Work};
use candor_testing::Tiny;
use serde_json::{Value, json};

use crate::{
    client::{Reply, begin, finish, get, post},
    serving::{Server, alone, listed, listen, listen_to, ready, start, tiny, wait},
    vectors,
};

/// How often each model was loaded.
type Loads = Arc<Mutex<BTreeMap<&'static str, usize>>>;

const ALL: [&str; 3] = ["first", "second", "third"];

/// A server of three models that say the same, one that makes vectors, one that cannot be loaded and one that is computed wrongly.
fn several(mut config: Config) -> (Server, Loads) {
    (config.metrics, config.slots, config.traces) = (true, true, 9);
    let loads = Loads::default();
    let answers = |name: &'static str| {
        let loads = loads.clone();
        listed(name, move || {
            *loads.lock().unwrap().entry(name).or_default() += 1;
            Ok(Loaded::Ready(Box::new(ready(2))))
        })
    };
    let mut all: Vec<_> = ALL.into_iter().map(answers).collect();
    all.push(listed("encoder", || {
        let work = Work::Vectors(vectors::encoder().embedder(&EmbedOptions::default().pooling(Pooling::Mean)).unwrap());
        Ok(Loaded::Ready(Box::new(Ready { work, template: None, diagnose: None })))
    }));
    all.push(listed("broken", || Err("no such file".to_owned())));
    all.push(listed("panics", || panic!("as it should")));
    all.push(listed("wrong", || Ok(Loaded::Wrong("matmul Q4_K: error 1, bound 0.1".to_owned()))));
    let server = listen_to(config, Models::Several(all));
    wait(&server);
    (server, loads)
}

fn most(models: usize) -> Config {
    let mut config = Config::default();
    config.models_max = models;
    config
}

/// What a model says, at temperature 0.
fn ask(server: &Server, model: &str) -> Reply {
    let body = json!({ "model": model, "prompt": "the cat", "max_tokens": 8, "temperature": 0 });
    post(server.address, "/v1/completions", &body)
}

fn said() -> String {
    alone(&tiny().encode_prompt("the cat"), Sampling::greedy(), 8).0
}

/// How each model is.
fn states(server: &Server) -> BTreeMap<String, String> {
    let list = get(server.address, "/v1/models").json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list["data"].as_array().unwrap().iter().map(|one| (text(&one["id"]), text(&one["status"]["value"]))).collect()
}

/// Waits until a model is so.
fn until(server: &Server, model: &str, state: &str) {
    let started = Instant::now();
    while states(server)[model] != state {
        assert!(started.elapsed() < Duration::from_secs(30), "{model} is not {state}: {:?}", states(server));
        thread::sleep(Duration::from_millis(2));
    }
}

/// An answer that is being written; nobody reads all of it.
fn begin_long(server: &Server, model: &str) -> TcpStream {
    let body = json!({
        "model": model, "prompt": "a", "max_tokens": 3000, "ignore_eos": true, "temperature": 0, "stream": true
    });
    let mut stream = begin(server.address, "POST", "/v1/completions", &[], &body.to_string());
    stream.read_exact(&mut [0; 1]).unwrap();
    stream
}

#[test]
fn a_model_is_loaded_where_it_is_asked_for() {
    let (server, loads) = several(most(0));
    assert!(states(&server).values().all(|state| state == "unloaded"));
    assert!(get(server.address, "/api/ps").json()["models"].as_array().unwrap().is_empty());
    let tags = get(server.address, "/api/tags").json();
    assert_eq!((tags["models"].as_array().unwrap().len(), &tags["models"][1]["name"]), (7, &"second".into()));
    for _ in 0..2 {
        let reply = ask(&server, "second").json();
        assert_eq!((&reply["model"], &reply["choices"][0]["text"]), (&"second".into(), &said().into()));
    }
    assert_eq!(*loads.lock().unwrap(), [("second", 1)].into());
    assert_eq!((states(&server)["first"].as_str(), states(&server)["second"].as_str()), ("unloaded", "loaded"));
    // Ollama's clients may write a tag.
    let chat = json!({ "model": "first:latest", "messages": [{ "role": "user", "content": "hi" }], "stream": false });
    assert_eq!(post(server.address, "/api/chat", &chat).json()["model"], "first");
    let body = json!({ "model": "encoder", "input": "cats sleep" });
    let vector = post(server.address, "/v1/embeddings", &body).json()["data"][0]["embedding"].take();
    assert_eq!(vectors::numbers(&vector), vectors::alone("cats sleep", EmbedOptions::default().pooling(Pooling::Mean)));
    // What is asked without a body has the name in its address.
    assert_eq!(get(server.address, "/props?model=second").json()["model_alias"], "second");
    assert_eq!(get(server.address, "/tokenizer_info?model=second").status, 200);
    assert_eq!(get(server.address, "/props").json()["role"], "router");
    assert_eq!(get(server.address, "/tokenizer_info").status, 400);
    let loaded: Vec<Value> = get(server.address, "/api/ps").json()["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(loaded, ["first", "second", "encoder"]);
    server.end().unwrap();
}

#[test]
fn numbers_and_traces_are_those_of_the_model() {
    let (server, _) = several(most(1));
    let reply = ask(&server, "first");
    let id = reply.head.lines().find_map(|line| line.to_lowercase().strip_prefix("x-trace-id: ").map(str::to_owned));
    let id = id.unwrap();
    let tokens = |model: &str| {
        let text = get(server.address, &format!("/metrics?model={model}")).body;
        let line = text.lines().find_map(|line| line.strip_prefix("llamacpp:tokens_predicted_total "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let written = reply.json()["usage"]["completion_tokens"].as_u64().unwrap() as usize;
    assert_eq!((tokens("first"), tokens("second")), (written, 0));
    let slots = |model: &str| get(server.address, &format!("/slots?model={model}")).json();
    assert_eq!((slots("first").as_array().unwrap().len(), slots("second")), (2, json!([])));
    // Neither loads anything.
    assert_eq!(states(&server)["second"], "unloaded");
    // What is known of a model stays where it goes.
    assert_eq!(ask(&server, "second").status, 200);
    assert_eq!(states(&server)["first"], "unloaded");
    assert_eq!(get(server.address, &format!("/trace/{id}")).json()["model"], "first");
    assert_eq!((tokens("first"), tokens("second")), (written, written));
    // To diagnose an answer its model is loaded again. This one has nothing to be held against.
    assert_eq!(post(server.address, &format!("/diagnose/{id}"), &Value::Null).status, 501);
    assert_eq!((states(&server)["first"].as_str(), states(&server)["second"].as_str()), ("loaded", "unloaded"));
    for path in ["/metrics", "/slots"] {
        assert_eq!(get(server.address, path).status, 400);
        assert_eq!(get(server.address, &format!("{path}?model=none")).status, 404);
    }
    server.end().unwrap();
}

#[test]
fn the_one_that_was_not_used_for_the_longest_time_goes() {
    let (server, loads) = several(most(2));
    for model in ["first", "second", "first", "third"] {
        assert_eq!(ask(&server, model).status, 200);
    }
    let state = |model: &str| states(&server)[model].clone();
    assert_eq!(ALL.map(state), ["loaded", "unloaded", "loaded"]);
    // Its answer is the same when it is back.
    assert_eq!(ask(&server, "second").json()["choices"][0]["text"], said().as_str());
    assert_eq!(ALL.map(state), ["unloaded", "loaded", "loaded"]);
    assert_eq!(*loads.lock().unwrap(), [("first", 1), ("second", 2), ("third", 1)].into());
    server.end().unwrap();
}

#[test]
fn one_that_answers_never_goes() {
    let (server, loads) = several(most(1));
    let address = server.address;
    let stream = begin_long(&server, "first");
    // They wait for the one place; the model that they want is loaded once.
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let body = json!({ "model": "second", "prompt": "the cat", "max_tokens": 8, "temperature": 0 });
            thread::spawn(move || post(address, "/v1/completions", &body))
        })
        .collect();
    thread::sleep(Duration::from_millis(30));
    assert_eq!((states(&server)["first"].as_str(), states(&server)["second"].as_str()), ("loaded", "unloaded"));
    // It may be told to go, and does not either.
    assert_eq!(post(address, "/models/unload", &json!({ "model": "first" })).status, 200);
    assert_eq!(states(&server)["first"], "loaded");
    let whole = finish(stream);
    assert!(whole.body.contains("\"finish_reason\":\"length\"") && whole.body.contains("[DONE]"));
    for one in waiting {
        assert_eq!(one.join().unwrap().json()["choices"][0]["text"], said().as_str());
    }
    assert_eq!(*loads.lock().unwrap(), [("first", 1), ("second", 1)].into());
    server.end().unwrap();
}

#[test]
fn who_leaves_waits_for_no_model() {
    let (server, loads) = several(most(1));
    let stream = begin_long(&server, "first");
    let body = json!({ "model": "second", "prompt": "a" }).to_string();
    drop(begin(server.address, "POST", "/v1/completions", &[], &body));
    // A queue that kept its place would let nobody else have one.
    thread::sleep(Duration::from_millis(30));
    drop(stream);
    assert_eq!(ask(&server, "third").status, 200);
    assert_eq!(*loads.lock().unwrap(), [("first", 1), ("third", 1)].into());
    server.end().unwrap();
}

#[test]
fn models_are_loaded_and_sent_away_by_name() {
    let mut config = most(4);
    config.autoload = false;
    let (server, _) = several(config);
    let ask_with = |path: &str| post(server.address, path, &json!({ "model": "first", "content": "a" }));
    let refused = ask_with("/tokenize");
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &"model".into()));
    assert_eq!(ask_with("/tokenize?autoload=true").status, 200);
    assert_eq!(ask_with("/tokenize?autoload=7").status, 400);
    let change = |path: &str, model: &str| post(server.address, path, &json!({ "model": model }));
    assert_eq!(change("/models/unload", "first").json(), json!({ "success": true }));
    until(&server, "first", "unloaded");
    assert_eq!(change("/models/load", "second").json(), json!({ "success": true }));
    assert_eq!(states(&server)["second"], "loaded");
    assert_eq!(ask(&server, "second").status, 200);
    assert_eq!(change("/models/load", "none").status, 404);
    assert_eq!(post(server.address, "/models/load", &json!({})).status, 400);
    assert_eq!(get(server.address, "/props").json()["models_autoload"], false);
    server.end().unwrap();
    // One that is served alone stays.
    let server = start(Config::default(), 1);
    assert_eq!(post(server.address, "/models/unload", &json!({ "model": "tiny" })).status, 404);
    server.end().unwrap();
}

#[test]
fn a_model_stays_as_long_as_a_request_says() {
    let (server, loads) = several(most(4));
    let generate = |body: &Value| post(server.address, "/api/generate", body).json();
    let ps = || get(server.address, "/api/ps").json()["models"].clone();
    let reply = generate(&json!({ "model": "first", "prompt": "a", "stream": false, "keep_alive": "1h",
        "options": { "num_predict": 2 } }));
    assert_eq!(reply["done"], true);
    let hour = ps()[0]["expires_at"].as_str().unwrap().to_owned();
    assert!(hour.starts_with("20"), "{hour}");
    // Without a text it is loaded, or sent away.
    let body = json!({ "model": "first", "stream": false, "keep_alive": -1 });
    assert_eq!(generate(&body)["done_reason"], "load");
    assert!(ps()[0]["expires_at"].as_str().unwrap() > hour.as_str(), "{}", ps());
    assert_eq!(generate(&json!({ "model": "first", "stream": false, "keep_alive": 0 }))["done_reason"], "unload");
    until(&server, "first", "unloaded");
    assert_eq!(ps(), json!([]));
    // After an answer, too, and after a time.
    let chat = json!({ "model": "first", "messages": [{ "role": "user", "content": "hi" }], "stream": false,
        "keep_alive": "20ms", "options": { "num_predict": 2 } });
    assert_eq!(post(server.address, "/api/chat", &chat).status, 200);
    until(&server, "first", "unloaded");
    assert_eq!(
        post(server.address, "/api/embed", &json!({ "model": "encoder", "input": "a", "keep_alive": 0 })).status,
        200
    );
    until(&server, "encoder", "unloaded");
    assert_eq!(*loads.lock().unwrap(), [("first", 2)].into());
    let wrong = post(server.address, "/api/generate", &json!({ "model": "first", "keep_alive": "soon" }));
    assert!(wrong.status == 400 && wrong.body.contains("keep_alive"), "{wrong:?}");
    server.end().unwrap();
}

#[test]
fn one_that_cannot_be_loaded_leaves_the_others() {
    let (server, _) = several(most(1));
    assert_eq!(ask(&server, "first").status, 200);
    let error = |model: &str, status: u16| {
        let reply = ask(&server, model);
        assert_eq!(reply.status, status, "{reply:?}");
        reply.json()["error"].clone()
    };
    for (model, says) in [
        ("broken", "broken: no such file"),
        ("panics", "panics: the model's thread has ended"),
        ("wrong", "matmul Q4_K"),
    ] {
        let message = error(model, 503)["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(model) && message.contains(says), "{message}");
    }
    let list = get(server.address, "/models").json();
    let failed = |one: &Value| one["status"]["failed"] == true;
    assert_eq!(
        list["data"].as_array().unwrap().iter().map(failed).collect::<Vec<_>>(),
        [false, false, false, false, true, true, true]
    );
    // Nobody learns without a key where files lie.
    assert!(!list.to_string().contains("no such file"));
    let unknown = error("gpt-4", 404);
    assert_eq!((&unknown["code"], &unknown["param"]), (&"model_not_found".into(), &"model".into()));
    assert_eq!(post(server.address, "/v1/completions", &json!({ "prompt": "a" })).json()["error"]["param"], "model");
    assert_eq!(post(server.address, "/v1/completions", &json!({ "model": 7, "prompt": "a" })).status, 400);
    assert_eq!(post(server.address, "/api/chat", &json!({ "model": "gpt-4" })).status, 404);
    assert_eq!(ask(&server, "first").json()["choices"][0]["text"], said().as_str());
    server.end().unwrap();
}

/// The one model of a server may sleep, too, and wakes up for a request.
#[test]
fn a_model_that_nobody_uses_sleeps() {
    let loads = Arc::new(AtomicUsize::new(0));
    let count = loads.clone();
    let mut config = Config::default();
    config.idle = Some(Duration::from_millis(20));
    let server = listen(config, move || {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Loaded::Ready(Box::new(ready(2))))
    });
    wait(&server);
    // Longer than it may sleep, and answered to the end.
    let whole = finish(begin_long(&server, "any"));
    assert!(whole.body.contains("[DONE]"));
    assert_eq!(loads.load(Ordering::SeqCst), 1);
    // To be asked what it is keeps it from nothing.
    let props =
        (0..2000).map(|_| get(server.address, "/props").json()).find(|props| props["is_sleeping"] == true).unwrap();
    assert_eq!(props["total_slots"], 2);
    assert_eq!((get(server.address, "/health").status, loads.load(Ordering::SeqCst)), (200, 1));
    assert_eq!(ask(&server, "any").json()["choices"][0]["text"], said().as_str());
    assert_eq!(loads.load(Ordering::SeqCst), 2);
    assert_eq!(get(server.address, "/props").json()["model_alias"], "tiny");
    server.end().unwrap();
}

/// Requests that wait while a model is loaded are answered, and those that come at the end of the server refused.
#[test]
fn what_waits_for_a_load_is_answered() {
    let (go, waits) = mpsc::channel::<()>();
    let model = listed("slow", move || {
        let _ = waits.recv();
        Ok(Loaded::Ready(Box::new(ready(1))))
    });
    let server = listen_to(Config::default(), Models::Several(vec![model]));
    let address = server.address;
    let one = || {
        thread::spawn(move || {
            let body = json!({ "model": "slow", "prompt": "the cat", "max_tokens": 8, "temperature": 0 });
            post(address, "/v1/completions", &body)
        })
    };
    let waiting = [one(), one()];
    until(&server, "slow", "loading");
    go.send(()).unwrap();
    for one in waiting {
        assert_eq!(one.join().unwrap().json()["choices"][0]["text"], said().as_str());
    }
    assert_eq!(post(address, "/models/unload", &json!({ "model": "slow" })).status, 200);
    until(&server, "slow", "unloaded");
    let late = one();
    until(&server, "slow", "loading");
    server.stop.now();
    assert_eq!(late.join().unwrap().status, 503);
    drop(go);
    server.end().unwrap();
}

/// What an engine keeps is given back with it: models of one size come and go for long.
#[test]
fn models_come_and_go_for_long() {
    let (server, loads) = several(most(1));
    for n in 0..40 {
        let model = ALL[n % 3];
        let streams: Vec<_> = ALL
            .map(|model| {
                let body = json!({ "model": model, "prompt": "the cat", "max_tokens": 8, "temperature": 0 });
                begin(server.address, "POST", "/v1/completions", &[], &body.to_string())
            })
            .into();
        assert_eq!(ask(&server, model).json()["choices"][0]["text"], said().as_str());
        for stream in streams {
            assert_eq!(finish(stream).json()["choices"][0]["text"], said().as_str());
        }
    }
    assert!(loads.lock().unwrap().values().sum::<usize>() >= 80, "{loads:?}");
    server.end().unwrap();
}

/// The engine of another model is another: a larger context is that of the one that is named.
#[test]
fn each_has_its_own_context() {
    let model = |name: &str, context: usize| {
        listed(name, move || {
            let load = LoadOptions::default().threads(1);
            let model = Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &load).unwrap();
            let work = Work::Answers(Engine::new(model.batch(&BatchOptions::default().context(context)).unwrap(), 16));
            Ok(Loaded::Ready(Box::new(Ready { work, template: None, diagnose: None })))
        })
    };
    let server = listen_to(Config::default(), Models::Several(vec![model("small", 256), model("large", 1024)]));
    for (name, context) in [("small", 256), ("large", 1024)] {
        let props = get(server.address, &format!("/props?model={name}")).json();
        assert_eq!(props["default_generation_settings"]["n_ctx"], context, "{name}");
    }
    let prompt = vec![5; 500];
    let body = |name: &str| json!({ "model": name, "prompt": prompt, "max_tokens": 1 });
    assert_eq!(post(server.address, "/v1/completions", &body("small")).status, 400);
    assert_eq!(post(server.address, "/v1/completions", &body("large")).status, 200);
    server.end().unwrap();
}
