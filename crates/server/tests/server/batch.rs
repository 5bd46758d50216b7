//! Files of requests.

use std::{collections::BTreeMap, fs, path::Path};

use candor::Sampling;
use candor_server::{Batch, BatchError, Config, Failure, Listed, Loaded, Stop};
use serde_json::{Value, json};

use crate::serving::{alone, listed, ready, tiny};

fn request(name: &str, body: &Value) -> String {
    json!({ "custom_id": name, "method": "POST", "url": "/v1/completions", "body": body }).to_string()
}

fn two() -> Listed<String> {
    listed("tiny", || Ok(Loaded::Ready(Box::new(ready(2)))))
}

fn run(batch: &mut Batch, hear: impl FnMut(usize)) -> Result<(), Failure<String>> {
    batch.answer(Config::default(), two(), &Stop::new(), hear)
}

/// The answers of a file by their names.
fn answers(path: &Path) -> BTreeMap<String, Value> {
    let text = fs::read_to_string(path).unwrap();
    let answer = |line| {
        let mut answer: Value = serde_json::from_str(line).unwrap();
        (answer["custom_id"].as_str().unwrap().to_owned(), answer["response"].take())
    };
    text.lines().map(answer).collect()
}

#[test]
fn each_request_has_its_answer_once() {
    let folder = tempfile::tempdir().unwrap();
    let (requests, out) = (folder.path().join("in.jsonl"), folder.path().join("out.jsonl"));
    let prompts = ["the cat", "a", "one two", "b c d", "the end"];
    let body = |prompt| json!({ "prompt": prompt, "max_tokens": 9, "temperature": 0 });
    let mut lines: Vec<String> = prompts.iter().map(|prompt| request(prompt, &body(prompt))).collect();
    lines.push(request("refused", &json!({ "prompt": "a", "best_of": 7 })));
    lines.insert(2, String::new());
    fs::write(&requests, lines.join("\n")).unwrap();

    // Stopped after two, and while a third was being written.
    let stop = Stop::new();
    let mut batch = Batch::open(&requests, &out).unwrap();
    assert_eq!((batch.count(), batch.answered()), (6, 0));
    let ends = stop.clone();
    let stops = move |done| {
        if done == 2 {
            ends.now()
        }
    };
    batch.answer(Config::default(), two(), &stop, stops).unwrap();
    drop(batch);
    let first = answers(&out);
    assert_eq!(first.len(), 2);
    fs::write(&out, fs::read_to_string(&out).unwrap() + "{\"id\": \"batch_re").unwrap();

    let mut batch = Batch::open(&requests, &out).unwrap();
    assert_eq!(batch.answered(), 2);
    let mut heard = Vec::new();
    run(&mut batch, |done| heard.push(done)).unwrap();
    assert_eq!(heard, [3, 4, 5, 6]);
    let all = answers(&out);
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 6);
    for prompt in prompts {
        let (expected, _) = alone(&tiny().encode_prompt(prompt), Sampling::greedy(), 9);
        assert_eq!(all[prompt]["status_code"], 200);
        assert_eq!(all[prompt]["body"]["choices"][0]["text"], expected.as_str(), "{prompt}");
    }
    assert_eq!(all["refused"]["status_code"], 400);
    assert_eq!(all["refused"]["body"]["error"]["param"], "best_of");
    assert!(first.iter().all(|(name, answer)| all[name] == *answer));
}

#[test]
fn wrong_lines_are_named_before_anything_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (requests, out) = (folder.path().join("in.jsonl"), folder.path().join("out.jsonl"));
    let good = request("a", &json!({ "prompt": "a" }));
    for (line, says) in [
        ("{", "line 2: no JSON"),
        ("{}", "line 2: custom_id: expected a string"),
        (&good, "line 2: custom_id \"a\" is that of an earlier line"),
        (&good.replace("\"a\"", "\"b\"").replace("POST", "GET"), "line 2: method: expected \"POST\", got \"GET\""),
        (&request("b", &json!([])), "line 2: body: expected an object"),
        (&request("b", &json!({ "stream": true })), "line 2: body.stream: "),
    ] {
        fs::write(&requests, format!("{good}\n{line}\n")).unwrap();
        let error = Batch::open(&requests, &out).unwrap_err();
        assert!(error.to_string().contains(says), "{line}: {error}");
        assert!(!out.exists());
    }
    // A file of something else stays as it is.
    fs::write(&requests, &good).unwrap();
    fs::write(&out, "something else\n").unwrap();
    assert!(matches!(Batch::open(&requests, &out), Err(BatchError::Line { line: 1, .. })));
    assert_eq!(fs::read_to_string(&out).unwrap(), "something else\n");
}

#[test]
fn what_cannot_be_answered_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let (requests, out) = (folder.path().join("in.jsonl"), folder.path().join("out.jsonl"));
    fs::write(&requests, request("a", &json!({ "prompt": "a" }))).unwrap();
    let mut batch = Batch::open(&requests, &out).unwrap();
    let another = Batch::open(&requests, &out).unwrap_err();
    assert!(another.to_string().contains("another run writes"), "{another}");
    let mut ended = |model| batch.answer(Config::default(), model, &Stop::new(), |_| {});
    let none = ended(listed("none", || Err("no model".to_owned())));
    assert!(matches!(none, Err(Failure::Load(why)) if why == "no model"));
    let wrong = ended(listed("wrong", || Ok(Loaded::Wrong("matmul".to_owned()))));
    assert!(matches!(wrong, Err(Failure::Wrong(why)) if why.contains("matmul")));
}
