//! Lines of the log: one for each request, and nothing of what it says.

use std::{collections::BTreeSet, io::Read, sync::Mutex, thread, time::Duration};

use candor_server::Config;
use serde_json::{Value, json};

use crate::{
    client::{begin, get, post, send},
    serving::start,
};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn each_request_has_a_line_without_its_text() {
    let mut config = Config::default();
    config.log = Some(|line| {
        if !line.contains("/health") {
            LINES.lock().unwrap().push(line.to_owned());
        }
    });
    let server = start(config, 2);
    let address = server.address;
    let secret = "never in a log";
    let body = json!({ "prompt": secret, "max_tokens": 5, "ignore_eos": true });
    let whole = post(address, "/v1/completions", &body);
    let usage = &whole.json()["usage"];
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    post(address, "/v1/completions?never=in+a+log", &streamed);
    send(address, "POST", "/v1/completions", &[], &json!({ "prompt": 4, "never in a log": secret }).to_string());
    get(address, "/never");
    // Who leaves is noted, too.
    streamed["max_tokens"] = 3000.into();
    let mut stream = begin(address, "POST", "/v1/completions", &[], &streamed.to_string());
    stream.read_exact(&mut [0; 300]).unwrap();
    drop(stream);
    while LINES.lock().unwrap().len() < 5 {
        thread::sleep(Duration::from_millis(5));
    }
    server.end().unwrap();
    let lines = LINES.lock().unwrap();
    assert!(!lines.join("\n").contains("never in"), "{lines:?}");
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |line: &Value| json!([line["method"], line["path"], line["status"]]);
    let expected = [
        json!(["POST", "/v1/completions", 200]),
        json!(["POST", "/v1/completions", 200]),
        json!(["POST", "/v1/completions", 400]),
        json!(["GET", "/never", 404]),
        json!(["POST", "/v1/completions", 200]),
    ];
    assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!((&lines[0]["prompt_tokens"], &lines[0]["tokens"]), (&usage["prompt_tokens"], &5.into()));
    assert_eq!((&lines[1]["prompt_tokens"], &lines[1]["tokens"]), (&usage["prompt_tokens"], &5.into()));
    assert!(lines[1]["cached_tokens"].as_u64() > Some(0) && lines[2]["tokens"].is_null());
    let left: Vec<bool> = lines.iter().map(|line| line["left"] == true).collect();
    assert_eq!(left, [false, false, false, false, true]);
    let ids: BTreeSet<&str> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), lines.len());
    // A client hears which request it was.
    assert!(whole.head.contains(&format!("x-request-id: {}", lines[0]["id"].as_str().unwrap())), "{}", whole.head);
    for line in &lines {
        assert!(line["time"].as_f64() > Some(1.7e9) && line["ms"].as_f64() >= Some(0.0), "{line}");
    }
}
