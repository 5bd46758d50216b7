//! Models by name: `candor pull`, `list` and `rm`, and names where a model is taken. The server is on this machine.

#[path = "../../../hub/tests/hub/server.rs"]
#[allow(dead_code, reason = "it can do more than is needed here")]
mod server;

use std::{fs, path::Path, sync::Arc};

use candor_gguf::Split;
use candor_testing::Tiny;
use server::{Asked, Fault, Reply, Server};

use crate::program::{Program, candor};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const RUN: [&str; 7] = ["--raw", "-p", "the cat", "--temp", "0", "-n", "9"];

/// A hub with the repository `u/r`, which has two models; a third file has more bytes, which come slowly.
fn hub(slow: usize) -> Server {
    let tiny: Arc<[u8]> = Tiny::default().bytes().into();
    let large: Arc<[u8]> = vec![7; slow].into();
    Server::start(move |asked: &Asked| {
        if asked.path == "/api/models/u/r/revision/main" {
            let files =
                ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "large.gguf"].map(|path| format!("{{\"rfilename\":\"{path}\"}}"));
            return Reply::text(&format!("{{\"sha\":\"{COMMIT}\",\"siblings\":[{}]}}", files.join(",")));
        }
        let file = asked.path.strip_prefix(&format!("/u/r/resolve/{COMMIT}/")).or(asked.path.strip_prefix("/plain/"));
        match file {
            Some("m-Q4_K_M.gguf") => Reply::file(asked, &tiny, "\"four\""),
            Some("m-Q8_0.gguf") => Reply::file(asked, &tiny, "\"eight\""),
            Some("large.gguf") => Reply::file(asked, &large, "\"large\"").fault(Fault::Drip(1 << 16, 20)),
            _ => Reply::status(404).with("x-error-code", "RepoNotFound"),
        }
    })
}

/// A hub with these files in the repository `u/r`.
fn hub_of(files: Vec<(String, Arc<[u8]>)>) -> Server {
    Server::start(move |asked: &Asked| {
        if asked.path == "/api/models/u/r/revision/main" {
            let list: Vec<String> = files.iter().map(|(path, _)| format!("{{\"rfilename\":\"{path}\"}}")).collect();
            return Reply::text(&format!("{{\"sha\":\"{COMMIT}\",\"siblings\":[{}]}}", list.join(",")));
        }
        let path = asked.path.strip_prefix(&format!("/u/r/resolve/{COMMIT}/")).unwrap_or_default();
        match files.iter().position(|(other, _)| other == path) {
            Some(file) => Reply::file(asked, &files[file].1, &format!("\"{file}\"")),
            None => Reply::status(404),
        }
    })
}

/// The program with that hub and a folder for all that is fetched.
fn with<'a>(server: &Server, folder: &Path, args: impl IntoIterator<Item = &'a str>) -> Program {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let mut program = candor(args);
    for name in ["HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        program.command.env_remove(name).env_remove(name.to_lowercase());
    }
    let program = program.env("HF_ENDPOINT", &server.url()).env("HF_HOME", &path("hf"));
    program.env("OLLAMA_MODELS", &path("ollama")).env("XDG_CACHE_HOME", &path("cache"))
}

#[test]
fn a_model_is_pulled_listed_run_and_removed() {
    let (server, folder) = (hub(0), tempfile::tempdir().unwrap());
    let program = |args: &[&'static str]| with(&server, folder.path(), args.iter().copied());
    let pulled = program(&["pull", "hf:u/r", "hf:u/r:q8_0"]).text();
    let paths: Vec<&Path> = pulled.lines().map(Path::new).collect();
    let snapshot = folder.path().join("hf/hub/models--u--r/snapshots").join(COMMIT);
    assert_eq!(paths, [snapshot.join("m-Q4_K_M.gguf"), snapshot.join("m-Q8_0.gguf")]);
    assert_eq!(fs::read(paths[0]).unwrap(), Tiny::default().bytes());
    let asked = server.count("/");
    // What is there is used without a question.
    let expected = candor(["run", pulled.lines().next().unwrap()].into_iter().chain(RUN)).text();
    for name in [&["hf:u/r"][..], &["u/r:Q4_K_M"], &["u/r"], &["-hf", "u/r"], &["-hf", "u/r", "-hff", "m-Q8_0.gguf"]] {
        let line = ["run"].iter().chain(name).chain(&RUN).copied();
        assert_eq!(with(&server, folder.path(), line).text(), expected, "{name:?}");
    }
    let list = program(&["list"]).text();
    let names: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(names, ["hf:u/r:Q4_K_M", "hf:u/r:Q8_0"], "{list}");
    let json: serde_json::Value = serde_json::from_str(&program(&["list", "--json"]).text()).unwrap();
    assert_eq!((json[0]["name"].as_str(), json[0]["bytes"].as_u64()), (Some("hf:u/r:Q4_K_M"), json[0]["of"].as_u64()));
    let removed = program(&["rm", "u/r:Q4_K_M"]).outcome();
    assert!(removed.stderr.starts_with("u/r:Q4_K_M is removed: ") && removed.code == 0, "{removed:?}");
    assert!(!paths[0].exists() && paths[1].exists());
    let error = program(&["rm", "u/r:Q4_K_M"]).error();
    assert_eq!(
        error,
        "error: u/r:Q4_K_M: no model on this machine has this name\nhint: candor list says what is there"
    );
    assert_eq!(server.count("/"), asked);
    program(&["rm", "hf:u/r:Q8_0"]).text();
    let none = program(&["list"]).outcome();
    assert!(none.stdout.is_empty() && none.stderr.starts_with("no models are on this machine"), "{none:?}");
}

#[test]
fn a_name_is_fetched_where_a_model_is_taken() {
    for command in ["run", "show", "tokenize", "logits", "doctor"] {
        let (server, folder) = (hub(0), tempfile::tempdir().unwrap());
        let outcome = with(&server, folder.path(), [command, "hf:u/r"]).stdin("the cat").outcome();
        assert!(outcome.code == 0 && outcome.stderr.contains("hf:u/r: "), "{command}: {outcome:?}");
        assert_eq!(server.count("/u/r/resolve"), 2, "{command}: one question and one range");
    }
    let (server, folder) = (hub(0), tempfile::tempdir().unwrap());
    let address = format!("{}/plain/m-Q8_0.gguf", server.url());
    let outcome = with(&server, folder.path(), ["show", "-mu", &address]).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(with(&server, folder.path(), ["list"]).text().contains(&address));
    let other = tempfile::tempdir().unwrap();
    with(&server, other.path(), ["show", "-hf", "u/r", "-hff", "m-Q8_0.gguf"]).text();
    let list = with(&server, other.path(), ["list"]).text();
    assert!(list.contains("hf:u/r:Q8_0") && !list.contains("Q4_K_M"), "{list}");
    let bench = ["bench", "-hf", "u/r", "-p", "0", "-n", "1", "-r", "1"];
    assert_eq!(with(&server, folder.path(), bench).outcome().code, 0);
    let draft = ["run", "hf:u/r", "-md", "hf:u/r:Q8_0"].into_iter().chain(RUN);
    let plain = ["run", "hf:u/r"].into_iter().chain(RUN);
    assert_eq!(with(&server, folder.path(), draft).text(), with(&server, folder.path(), plain).text());
}

#[test]
fn nothing_is_asked_without_a_name_or_offline() {
    let (server, folder) = (hub(0), tempfile::tempdir().unwrap());
    let program = |args: &[&'static str]| with(&server, folder.path(), args.iter().copied());
    let model = folder.path().join("m.gguf");
    fs::write(&model, Tiny::default().bytes()).unwrap();
    with(&server, folder.path(), ["run", model.to_str().unwrap()].into_iter().chain(RUN)).text();
    program(&["run", "--raw", "-p", "a", "-n", "1"]).text();
    program(&["list"]).outcome();
    program(&["run", "u/r", "-p", "a"]).error();
    let expected = "error: hf:u/r: it is not on this machine, and nothing is fetched offline\nhint: ";
    for error in [
        program(&["run", "hf:u/r", "--offline"]).error(),
        program(&["pull", "hf:u/r", "--offline"]).error(),
        program(&["run", "hf:u/r"]).env("HF_HUB_OFFLINE", "1").error(),
    ] {
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(server.count("/"), 0);
}

#[test]
fn a_split_model_runs_from_the_cache() {
    let (parts, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shards = Tiny::default().writer().write_shards(parts.path().join("m-F32"), Split::Tensors(7)).unwrap();
    assert!(shards.len() > 2);
    let name = |path: &Path| format!("sub/{}", path.file_name().unwrap().to_str().unwrap());
    let server = hub_of(shards.iter().map(|path| (name(path), fs::read(path).unwrap().into())).collect());
    let expected = candor(["run", shards[0].to_str().unwrap()].into_iter().chain(RUN)).text();
    assert_eq!(with(&server, folder.path(), ["run", "hf:u/r:F32"].into_iter().chain(RUN)).text(), expected);
    assert!(with(&server, folder.path(), ["list"]).text().contains("hf:u/r:F32"));
}

#[test]
fn what_ollama_has_is_run_by_its_name() {
    let (server, folder) = (hub(0), tempfile::tempdir().unwrap());
    let digest = "ab".repeat(32);
    let tiny = Tiny::default().bytes();
    let layer = format!(
        "{{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"sha256:{digest}\",\"size\":{}}}",
        tiny.len()
    );
    let store = folder.path().join("ollama");
    let manifests = store.join("manifests/registry.ollama.ai/library/tiny");
    fs::create_dir_all(&manifests).unwrap();
    fs::write(manifests.join("1b"), format!("{{\"layers\":[{layer}]}}")).unwrap();
    fs::create_dir_all(store.join("blobs")).unwrap();
    let blob = store.join(format!("blobs/sha256-{digest}"));
    fs::write(&blob, tiny).unwrap();
    let expected = candor(["run", blob.to_str().unwrap()].into_iter().chain(RUN)).text();
    for name in ["tiny:1b", "ollama:tiny:1b"] {
        assert_eq!(with(&server, folder.path(), ["run", name].into_iter().chain(RUN)).text(), expected, "{name}");
    }
    let list = with(&server, folder.path(), ["list"]).text();
    assert!(list.lines().nth(1).is_some_and(|line| line.starts_with("ollama:tiny:1b  ")), "{list}");
}

#[test]
fn without_a_network_what_is_there_is_taken() {
    let (server, folder) = (hub(0), tempfile::tempdir().unwrap());
    with(&server, folder.path(), ["pull", "hf:u/r:Q8_0"]).text();
    let nobody = || {
        with(&server, folder.path(), ["run", "hf:u/r"].into_iter().chain(RUN)).env("HF_ENDPOINT", "http://127.0.0.1:1")
    };
    let outcome = nobody().outcome();
    let note = "note: without a network it is not known which format hf:u/r means: taking what is there\n";
    assert!(outcome.code == 0 && outcome.stderr.contains(note), "{outcome:?}");
    with(&server, folder.path(), ["rm", "hf:u/r:Q8_0"]).text();
    let error = nobody().error();
    assert!(error.starts_with("error: 127.0.0.1:1: ") && error.contains("\nhint: "), "{error}");
}

#[test]
fn faults_are_one_line_with_what_to_do() {
    let (server, folder) = (hub(0), tempfile::tempdir().unwrap());
    let error = |args: &[&'static str]| with(&server, folder.path(), args.iter().copied()).error();
    let host = server.host();
    let missing = format!("error: hf:u/other: {host} does not have it (404)\nhint: check the spelling of the name");
    assert_eq!(error(&["run", "hf:u/other"]), missing);
    assert_eq!(
        error(&["pull", "hf:u/r:Q2_K"]),
        "error: hf:u/r:Q2_K: there is no whole model in Q2_K\nhint: it has large.gguf, m-Q4_K_M.gguf, m-Q8_0.gguf"
    );
    let name = "hint: a name is hf:USER/REPO[:QUANT], ollama:NAME[:TAG] or an address";
    for (args, text) in
        [(&["pull", "llama3.2"][..], "llama3.2"), (&["run", "-hf", "x"], "x"), (&["run", "hf:../x"], "hf:../x")]
    {
        let error = error(args);
        assert!(error.starts_with(&format!("error: {text}: expected ")) && error.ends_with(name), "{error}");
    }
    let wrong = with(&server, folder.path(), ["run", "-hff", "m.gguf", "-p", "a"]).outcome();
    assert!(wrong.code == 2 && wrong.stderr.contains("--hf-file needs --hf-repo"), "{wrong:?}");
    let two = with(&server, folder.path(), ["run", "hf:u/r", "-hf", "u/r", "-p", "a"]).outcome();
    assert!(two.code == 2 && two.stderr.contains("cannot be used together with --hf-repo"), "{two:?}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_pull_at_once_and_the_next_one_goes_on() {
    use std::{
        process::Command,
        time::{Duration, Instant},
    };
    const BYTES: usize = 80 << 20;
    let (server, folder) = (hub(BYTES), tempfile::tempdir().unwrap());
    let pull = || with(&server, folder.path(), ["pull", "hf:u/r/large.gguf"]);
    let mut program = pull();
    let child = program.spawn();
    let began = Instant::now();
    while server.sent() == 0 && server.seen.most_at_once.load(std::sync::atomic::Ordering::SeqCst) < 4 {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    // Until each connection has written a piece or two.
    while !with(&server, folder.path(), ["list"]).text().contains("MB  ") {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    let sent = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(sent.elapsed() < Duration::from_secs(5), "{:?}", sent.elapsed());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said.as_str()),
        (Some(130), "stopped: the same command goes on where it stopped\n")
    );
    let list: serde_json::Value =
        serde_json::from_str(&with(&server, folder.path(), ["list", "--json"]).text()).unwrap();
    assert_eq!((list[0]["name"].as_str(), list[0]["of"].as_u64()), (Some("hf:u/r/large.gguf"), Some(BYTES as u64)));
    assert!(list[0]["bytes"].as_u64().unwrap() >= 8 << 20, "{list}");
    let outcome = pull().outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(fs::read(outcome.stdout.trim()).unwrap().len(), BYTES);
    assert!(!outcome.stderr.contains("83.9 MB"), "all of it came again: {}", outcome.stderr);
}
