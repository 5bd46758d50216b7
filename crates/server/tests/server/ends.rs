//! Clients that leave, requests that come too early, too late or too many, and the end of a server.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use candor::Sampling;
use candor_server::{Config, Failure, Loaded};
use serde_json::{Value, json};

use crate::{
    client::{begin, finish, get, post},
    serving::{Server, alone, listen, ready, start, tiny, wait},
};

/// A request whose answer is long.
fn long() -> Value {
    json!({ "prompt": "a", "max_tokens": 3000, "ignore_eos": true, "temperature": 0, "stream": true })
}

fn begin_long(server: &Server) -> TcpStream {
    let mut stream = begin(server.address, "POST", "/v1/completions", &[], &long().to_string());
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    stream
}

#[test]
fn a_client_that_leaves_frees_its_sequence() {
    let mut config = Config::default();
    // Answers that nobody waits for any more would fill the queue, and the rest be refused.
    config.queue = 8;
    let server = start(config, 1);
    let body = json!({ "prompt": "the cat", "max_tokens": 8, "temperature": 0 });
    let (expected, _) = alone(&tiny().encode_prompt("the cat"), Sampling::greedy(), 8);
    let started = Instant::now();
    finish(begin_long(&server));
    let whole = started.elapsed();
    let mut unstreamed = long();
    unstreamed["stream"] = false.into();
    let started = Instant::now();
    for _ in 0..20 {
        drop(begin_long(&server));
        drop(begin(server.address, "POST", "/v1/completions", &[], &unstreamed.to_string()));
        let reply = post(server.address, "/v1/completions", &body).json();
        assert_eq!(reply["choices"][0]["text"], expected.as_str());
    }
    assert!(started.elapsed() < 20 * whole, "{:?} for 40 that left, {whole:?} for one", started.elapsed());
    server.end().unwrap();
}

#[test]
fn more_than_may_wait_are_refused() {
    let mut config = Config::default();
    config.queue = 1;
    let server = start(config, 1);
    // Readers that read nothing: one answer is written until its buffers are full, one waits for it.
    let slow: Vec<_> = (0..6)
        .map(|_| {
            let stream = begin(server.address, "POST", "/v1/completions", &[], &long().to_string());
            thread::sleep(Duration::from_millis(1));
            stream
        })
        .collect();
    let replies: Vec<_> = slow.into_iter().map(finish).collect();
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status == 429).collect();
    assert!(!refused.is_empty() && replies.iter().any(|reply| reply.status == 200), "{}", replies.len());
    for reply in refused {
        assert!(reply.head.to_lowercase().contains("retry-after: 1"), "{}", reply.head);
        assert_eq!(reply.json()["error"]["type"], "rate_limit_error");
    }
    server.end().unwrap();
}

#[test]
fn nothing_is_answered_before_the_model_is_there() {
    let (go, waits) = mpsc::channel::<()>();
    let server = listen(Config::default(), move || {
        waits.recv().unwrap();
        Ok(Loaded::Ready(Box::new(ready(1))))
    });
    for path in ["/health", "/v1/models"] {
        let reply = get(server.address, path);
        assert_eq!(reply.status, 503);
        assert_eq!(reply.json()["error"]["type"], "unavailable_error");
    }
    assert_eq!(post(server.address, "/v1/completions", &json!({ "prompt": "a" })).status, 503);
    go.send(()).unwrap();
    wait(&server);
    server.end().unwrap();
}

#[test]
fn what_this_machine_computes_wrongly_is_never_answered() {
    let server = listen(Config::default(), || Ok(Loaded::Wrong("matmul Q4_K: error 1, bound 0.1".to_owned())));
    let failed = |path| {
        let reply = get(server.address, path);
        (reply.status == 503).then(|| reply.json()["error"]["message"].as_str().unwrap().to_owned())
    };
    while !failed("/health").unwrap().contains("matmul Q4_K") {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(failed("/v1/models").unwrap().contains("matmul Q4_K"));
    assert_eq!(post(server.address, "/v1/completions", &json!({ "prompt": "a" })).status, 503);
    server.end().unwrap();
}

#[test]
fn a_model_that_cannot_be_loaded_ends_the_server() {
    let server = listen(Config::default(), || Err("no model".to_owned()));
    assert!(matches!(server.ended(), Err(Failure::Load(error)) if error == "no model"));
}

#[test]
fn what_runs_is_answered_before_the_end() {
    let server = start(Config::default(), 1);
    let address = server.address;
    let mut stream = begin_long(&server);
    server.stop.now();
    let late = loop {
        // It hears of the end a moment later.
        match get(address, "/health").status {
            200 => thread::sleep(Duration::from_millis(1)),
            status => break status,
        }
    };
    assert_eq!(late, 503);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\"finish_reason\":\"length\"") && rest.contains("data: [DONE]"), "{rest}");
    server.end().unwrap();
}

#[test]
fn what_does_not_arrive_is_not_waited_for() {
    let mut config = Config::default();
    config.patience = Duration::from_millis(200);
    config.connections = 3;
    let server = start(config, 1);
    // As many as there may be: the next waits until one of these is closed.
    let mut slow: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /health HT").unwrap());
    let started = Instant::now();
    assert_eq!(get(server.address, "/health").status, 200);
    assert!(started.elapsed() > Duration::from_millis(100), "{:?}", started.elapsed());
    for mut stream in slow {
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0, "closed without an answer");
    }
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!("POST /tokenize HTTP/1.1\r\nHost: {}\r\nContent-Length: 100\r\n\r\n", server.address);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"{\"content\": ").unwrap();
    assert_eq!(finish(stream).status, 408);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(head.replace("100", "1000000000000").as_bytes()).unwrap();
    assert_eq!(finish(stream).status, 413);
    server.end().unwrap();
}
