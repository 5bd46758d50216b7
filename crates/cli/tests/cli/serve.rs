//! `candor serve` says over HTTP what `candor run` prints, and ends as it is asked to.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use candor_testing::Tiny;
use serde_json::{Value, json};

use crate::program::{Program, STORY, candor};

/// How long a server may take for anything: one that hangs is a failure, and does not hold up the tests.
const LIMIT: Duration = Duration::from_secs(300);

/// A server that runs, until it is dropped.
struct Server {
    child: Child,
    address: String,
    /// What it says on stderr.
    lines: Receiver<String>,
    _program: Program,
}

/// A server of the built-in model, or of what the arguments say, once it answers.
fn serve(args: &[&str]) -> Server {
    let server = listen(args);
    let begun = Instant::now();
    while server.ask("GET", "/health", &Value::Null).0 != 200 {
        assert!(begun.elapsed() < LIMIT, "it loads no model");
        thread::sleep(Duration::from_millis(20));
    }
    server
}

/// The same before it answers.
fn listen(args: &[&str]) -> Server {
    let mut program = candor(["serve", "--port", "0"].iter().chain(args));
    let mut child = program.spawn();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (said, lines) = channel();
    // All of it is read: a full pipe would stop the server.
    thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| _ = said.send(line)));
    let mut server = Server { child, address: String::new(), lines, _program: program };
    let start = "listening at http://";
    server.address = server.says(start).split_off(start.len());
    server
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that ended by itself can't be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Its next line that starts like this.
    fn says(&self, start: &str) -> String {
        let mut others = Vec::new();
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) if line.starts_with(start) => return line,
                Ok(line) => others.push(line),
                Err(why) => panic!("{why} before {start:?}; it said {others:#?}"),
            }
        }
    }

    fn begin(&self, method: &str, path: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let (host, body) = (&self.address, body.to_string());
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream
    }

    /// The status, and what follows the head.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let mut reply = String::new();
        self.begin(method, path, body).read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn json(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.ask("POST", path, body);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

#[test]
fn a_server_says_what_run_prints() {
    let server = serve(&["--temp", "0", "-np", "2", "-c", "2048"]);
    let printed = candor(["run", "--raw", "-p", STORY, "--temp", "0", "-n", "30"]).text();
    let reply = server.json("/v1/completions", &json!({ "prompt": STORY, "max_tokens": 30 }));
    assert_eq!(reply["choices"][0]["text"].as_str().unwrap().trim_end(), printed.trim_end());
    let printed = candor(["run", "-p", "Hello", "--temp", "0", "-c", "1024"]).text();
    let messages = json!([{ "role": "user", "content": "Hello" }]);
    let reply = server.json("/v1/chat/completions", &json!({ "messages": messages }));
    assert_eq!(reply["choices"][0]["message"]["content"].as_str().unwrap().trim_end(), printed.trim_end());
    // The context is divided.
    let (_, props) = server.ask("GET", "/props", &Value::Null);
    let props: Value = serde_json::from_str(&props).unwrap();
    assert_eq!((&props["default_generation_settings"]["n_ctx"], &props["total_slots"]), (&1024.into(), &2.into()));
}

/// It says that it is ready once it is.
#[test]
fn a_server_that_is_ready_answers() {
    let server = listen(&["-c", "512"]);
    let ready = server.says("ready: ");
    assert_eq!(server.ask("GET", "/health", &Value::Null).0, 200);
    assert_eq!(ready, "ready: built-in, 4 answers at once, a context of 128 tokens each");
}

/// The models of a folder: each answers by its name as it does alone, and is verified and unloaded as flags say.
#[test]
fn a_folder_of_models_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../candor/tests/goldens/cross-encoder.gguf");
    fs::write(folder.path().join("story.gguf"), Tiny::default().bytes()).unwrap();
    fs::create_dir(folder.path().join("scores")).unwrap();
    fs::copy(golden, folder.path().join("scores/model.gguf")).unwrap();
    fs::write(folder.path().join("damaged.gguf"), "GGUF").unwrap();
    let path = folder.path().to_str().unwrap();
    let server = listen(&["--models-dir", path, "--models-max", "1", "-c", "64", "--temp", "0"]);
    let (_, list) = server.ask("GET", "/v1/models", &Value::Null);
    let list: Value = serde_json::from_str(&list).unwrap();
    let names: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(names, ["damaged", "scores", "story"]);
    let printed =
        candor(["run", &format!("{path}/story.gguf"), "--raw", "-p", "the cat", "--temp", "0", "-n", "9"]).text();
    let said = || {
        let reply = server.json("/v1/completions", &json!({ "model": "story", "prompt": "the cat", "max_tokens": 9 }));
        reply["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(said().trim_end(), printed.trim_end());
    let scores = json!({ "model": "scores", "query": "where", "documents": ["here", "there"] });
    assert_eq!(server.json("/v1/rerank", &scores)["results"].as_array().unwrap().len(), 2);
    let (status, error) = server.ask("POST", "/v1/completions", &json!({ "model": "damaged", "prompt": "a" }));
    assert!(status == 503 && error.contains("damaged.gguf"), "{error}");
    assert_eq!(said().trim_end(), printed.trim_end());
    for expected in [
        "ready: story, 4 answers",
        "unloaded: story",
        "ready: scores, scores of pairs",
        "unloaded: scores",
        "failed: damaged: ",
        "ready: story",
    ] {
        server.says(expected);
    }
    drop(server);
    let error = candor(["serve", "--models-dir", path, "model.gguf"]).outcome();
    assert!(error.code == 2 && error.stderr.contains("cannot be used together"), "{}", error.stderr);
    let error = candor(["serve", "--models-dir", path, "--alias", "a"]).outcome();
    assert!(error.code == 2 && error.stderr.contains("cannot be used together"), "{}", error.stderr);
    let error = candor(["serve", "--models-dir", "/nowhere"]).error();
    assert!(error.contains("/nowhere"), "{error}");
}

/// A model that is served alone gives its memory back, too, and comes back.
#[test]
fn a_server_sleeps() {
    let server = listen(&["--sleep-idle-seconds", "1", "-c", "512"]);
    for expected in ["ready: built-in", "unloaded: built-in"] {
        server.says(expected);
    }
    assert_eq!(server.ask("GET", "/health", &Value::Null).0, 200);
    server.json("/v1/completions", &json!({ "prompt": STORY, "max_tokens": 2 }));
    server.says("ready: built-in");
}

/// With the flag a context is shared: each answer may fill it, and those that find no room wait.
#[test]
fn an_answer_may_have_all_of_the_context() {
    let server = serve(&["--temp", "0", "-np", "4", "-c", "512", "-kvu", "-a", "storyteller"]);
    let body = json!({ "prompt": STORY, "max_tokens": 300, "ignore_eos": true });
    let alone = server.json("/v1/completions", &body);
    assert_eq!((&alone["model"], &alone["usage"]["completion_tokens"]), (&"storyteller".into(), &300.into()));
    let streams: Vec<TcpStream> = (0..4).map(|_| server.begin("POST", "/v1/completions", &body)).collect();
    for mut stream in streams {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let reply: Value = serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(reply["choices"], alone["choices"]);
    }
}

/// What `candor embed` and `candor rerank` say of a model, a server of it says, too: of itself, or as flags have it.
#[test]
fn a_server_makes_the_vectors_and_scores_of_the_commands() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../candor/tests/goldens/cross-encoder.gguf");
    let model = model.to_str().unwrap();
    let flags = ["--pooling", "mean", "--embd-normalize", "1"];
    let server = serve(&[&[model][..], &flags].concat());
    let printed = candor(["embed", model, "-p", "cats sleep"].iter().chain(&flags)).text();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let reply = server.json("/v1/embeddings", &json!({ "input": "cats sleep" }));
    assert_eq!(reply["data"][0]["embedding"], printed["data"][0]["embedding"]);
    drop(server);
    let documents = ["cats sleep all day", "Paris is the capital of France."];
    let printed = candor(["rerank", model, "--query", "where", "--json"]).stdin(documents.join("\n")).text();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    for flag in [&[][..], &["--reranking"]] {
        let server = serve(&[&[model][..], flag].concat());
        let reply = server.json("/v1/rerank", &json!({ "query": "where", "documents": documents }));
        for (got, expected) in reply["results"].as_array().unwrap().iter().zip(printed["results"].as_array().unwrap()) {
            assert_eq!((&got["index"], &got["relevance_score"]), (&expected["index"], &expected["relevance_score"]));
        }
        assert_eq!(server.ask("GET", "/metrics", &Value::Null).0, 501);
        drop(server);
    }
    let error = candor(["serve", model, "--reranking", "--pooling", "cls"]).outcome();
    assert!(error.code == 2 && error.stderr.contains("cannot be used together"), "{}", error.stderr);
    // The built-in model continues texts, and makes vectors where it is to.
    let server = serve(&["--embedding", "--metrics", "--slots"]);
    let printed: Value = serde_json::from_str(&candor(["embed", "-p", "cats"]).text()).unwrap();
    let reply = server.json("/v1/embeddings", &json!({ "input": "cats" }));
    assert_eq!(reply["data"][0]["embedding"], printed["data"][0]["embedding"]);
    assert_eq!(server.ask("GET", "/slots", &Value::Null).0, 200);
    let (_, metrics) = server.ask("GET", "/metrics", &Value::Null);
    let tokens = reply["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(metrics.contains(&format!("\nllamacpp:prompt_tokens_total {tokens}\n")), "{metrics}");
    drop(server);
}

/// Files of a certificate that are missing or wrong are refused before anything is loaded.
#[test]
fn a_certificate_is_looked_at_first() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (args, expected) in [
        (&["--ssl-key-file", "key.pem"][..], "--ssl-key-file and --ssl-cert-file need each other"),
        (&["--ssl-key-file", "key.pem", "--ssl-cert-file", "/nowhere.pem"], "/nowhere.pem: "),
        (&["--ssl-key-file", "key.pem", "--ssl-cert-file", manifest], "there is no certificate in it, in PEM"),
    ] {
        let outcome = candor(["serve", "--port", "0"].iter().chain(args)).outcome();
        assert!(outcome.code != 0 && outcome.stderr.contains(expected), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("listening"), "{}", outcome.stderr);
    }
}

/// The log goes to stdout, which has nothing else.
#[test]
fn requests_are_logged_to_stdout() {
    let mut server = serve(&["--log-jsonl", "-c", "512"]);
    let stdout = server.child.stdout.take().unwrap();
    drop(server);
    let lines: Vec<Value> =
        BufReader::new(stdout).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!((&last["path"], &last["status"]), (&"/health".into(), &200.into()));
}

/// One answer at once is a setting here, where other commands take the flag for what is so anyway.
#[test]
fn one_answer_at_once_can_be_asked_for() {
    for flag in [&["-np", "1"][..], &["--parallel=1"], &["-np=1"]] {
        let server = serve(flag);
        let (_, props) = server.ask("GET", "/props", &Value::Null);
        assert_eq!(serde_json::from_str::<Value>(&props).unwrap()["total_slots"], 1, "{flag:?}");
    }
}

#[test]
fn an_answer_is_explained_afterwards() {
    let server = serve(&["--traces", "2", "-ctk", "q8_0"]);
    let mut reply = String::new();
    let body = json!({ "prompt": STORY, "max_tokens": 12 });
    server.begin("POST", "/v1/completions", &body).read_to_string(&mut reply).unwrap();
    let id =
        reply.lines().find_map(|line| line.to_lowercase().strip_prefix("x-trace-id: ").map(str::to_owned)).unwrap();
    let (_, trace) = server.ask("GET", &format!("/trace/{id}"), &Value::Null);
    let trace: Value = serde_json::from_str(&trace).unwrap();
    let text = reply.split_once("\r\n\r\n").unwrap().1;
    let answer: Value = serde_json::from_str(text).unwrap();
    assert_eq!(trace["answers"][0]["text"], answer["choices"][0]["text"]);
    let found = server.json(&format!("/diagnose/{id}"), &Value::Null);
    let operations = &found["answers"][0]["operations"];
    assert_eq!((&found["stands"], &operations["written_tokens"]), (&true.into(), &11.into()), "{found}");
    assert!(operations["classes"].as_array().unwrap().len() > 5, "{operations}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_once_all_is_answered() {
    for signal in ["-TERM", "-INT"] {
        let mut server = serve(&["--temp", "0"]);
        let body = json!({ "prompt": STORY, "max_tokens": 400, "ignore_eos": true, "stream": true });
        let mut stream = server.begin("POST", "/v1/completions", &body);
        let mut first = [0; 1];
        stream.read_exact(&mut first).unwrap();
        let killed = Command::new("kill").args([signal, &server.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        server.says("ending: ");
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("\"finish_reason\":\"length\"") && rest.contains("[DONE]"), "{rest}");
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal}");
    }
}

#[test]
fn what_cannot_be_served_ends_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let error = candor(["serve", "--port", &port]).error();
    assert!(error.contains(&format!("error: 127.0.0.1:{port}: ")) && error.contains("hint: --port 0"), "{error}");
    for wrong in ["", "nonsense", "localhost:4318", "ftp://localhost/v1/traces"] {
        let error = candor(["serve", "--port", "0", "--otlp-traces-endpoint", wrong]).error();
        assert!(error.contains(&format!("{wrong:?} is no address of http or https")), "{error}");
    }
    let error = candor(["serve", "/nowhere/model.gguf", "--port", "0"]).outcome();
    assert_eq!(error.code, 1);
    assert!(error.stderr.contains("error: /nowhere/model.gguf: no such file"), "{}", error.stderr);
}
