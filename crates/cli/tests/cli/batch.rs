//! `candor batch`: a file of requests, answered as `candor run` answers, and once.

use std::fs;

use serde_json::{Value, json};

use crate::program::{STORY, candor};

#[test]
fn a_file_is_answered_once() {
    let folder = tempfile::tempdir().unwrap();
    let (requests, answers) = (folder.path().join("in.jsonl"), folder.path().join("out.jsonl"));
    let body = json!({ "prompt": STORY, "max_tokens": 12, "temperature": 0 });
    let request = |name| json!({ "custom_id": name, "method": "POST", "url": "/v1/completions", "body": body });
    fs::write(&requests, format!("{}\n{}\n", request("a"), request("b"))).unwrap();
    let run = || candor([std::path::Path::new("batch"), &requests, &answers]).outcome();
    let first = run();
    assert!(first.code == 0 && first.stderr.contains("2 requests are answered"), "{}", first.stderr);
    let text = fs::read_to_string(&answers).unwrap();
    let alone = candor(["run", "--raw", "-p", STORY, "-n", "12", "--temp", "0"]).text();
    for line in text.lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["response"]["body"]["choices"][0]["text"], alone.trim_end_matches('\n'));
    }
    let second = run();
    assert!(second.code == 0 && second.stderr.contains("2 of 2 requests are answered already"), "{}", second.stderr);
    assert_eq!(fs::read_to_string(&answers).unwrap(), text);
    fs::write(&requests, "\n").unwrap();
    fs::remove_file(&answers).unwrap();
    let none = run();
    assert!(none.code == 0 && none.stderr.contains("there are 0 requests in"), "{}", none.stderr);
    fs::write(&requests, "no request").unwrap();
    let wrong = run();
    assert!(wrong.code != 0 && wrong.stderr.contains("in.jsonl, line 1: no JSON"), "{}", wrong.stderr);
}
