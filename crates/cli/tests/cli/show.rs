//! `candor show`.

use std::fs;

use candor_gguf::{Format, Split, Writer};
use candor_testing::Tiny;

use crate::program::candor;

#[test]
fn the_built_in_model_is_shown() {
    let text = candor(["show"]).text();
    for row in [
        "file          built-in model",
        "size          ",
        "container     GGUF version 3, little-endian, aligned to 32 bytes",
        "architecture  llama",
        "parameters    ",
        "formats       ",
        "layers        ",
        "width         ",
        "heads         ",
        "context       ",
        "tokenizer     llama (default), ",
        "chat template yes (",
        "memory        weights ",
        "metadata (",
        "  general.architecture ",
        "tensors (",
        "  token_embd.weight ",
    ] {
        assert!(text.lines().any(|line| line.starts_with(row)), "{row}: {text}");
    }
    assert!(text.contains(" in all)]"), "arrays are shortened: {text}");
    assert!(!candor(["show", "--full"]).text().contains(" in all)]"));
}

#[test]
fn parts_can_be_chosen() {
    let metadata = candor(["show", "--metadata"]).text();
    assert!(metadata.starts_with("\nmetadata (") && !metadata.contains("tensors ("), "{metadata}");
    let tensors = candor(["show", "--tensors"]).text();
    assert!(tensors.starts_with("\ntensors (") && !tensors.contains("metadata ("), "{tensors}");
}

#[test]
fn json_has_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, Tiny::default().bytes()).unwrap();
    let json = |args: &[&str]| {
        let text = candor(["show", path.to_str().unwrap(), "--json"].iter().chain(args)).text();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let all = json(&[]);
    assert_eq!(all["architecture"], "llama");
    assert_eq!(all["bytes"], fs::metadata(&path).unwrap().len());
    assert_eq!(all["dimensions"]["width"], 32);
    assert_eq!(all["runnable"], true);
    assert_eq!(all["metadata"]["llama.block_count"], 2);
    assert_eq!(all["metadata"]["tokenizer.ggml.tokens"]["length"], Tiny::VOCAB);
    assert_eq!(json(&["--full"])["metadata"]["tokenizer.ggml.tokens"][1], "<s>");
    let tensors = all["tensors"].as_array().unwrap();
    assert_eq!(tensors[0]["name"], "token_embd.weight");
    assert_eq!(tensors[0]["shape"], serde_json::json!([32, Tiny::VOCAB]));
    let parameters: u64 = tensors
        .iter()
        .map(|t| t["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product::<u64>())
        .sum();
    assert_eq!(all["parameters"], parameters);
    // 2 layers of 2 heads of width 8, keys and values, 2 bytes each.
    assert_eq!(all["memory"]["context"], 64);
    assert_eq!(all["memory"]["cache_f16"], 64 * 2 * 2 * 8 * 2 * 2);
    assert_eq!(json(&["-c", "10"])["memory"]["cache_f32"], 10 * 2 * 2 * 8 * 2 * 4);
    assert_eq!(json(&["--ctx-size", "10"])["memory"]["context"], 10);
    let only = json(&["--tensors"]);
    assert_eq!(only.as_object().unwrap().keys().collect::<Vec<_>>(), ["tensors"]);
}

#[test]
fn a_file_that_cannot_be_run_is_shown_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.gguf");
    let mut writer = Writer::new();
    writer.insert("general.architecture", "mamba9000");
    writer.tensor("some.weight", Format::F16, &[4, 2], vec![0u8; 16]).unwrap();
    writer.write_file(&path).unwrap();
    let text = candor(["show", path.to_str().unwrap()]).text();
    assert!(text.contains("not runnable  architecture mamba9000 is not supported: it needs a row"), "{text}");
    assert!(text.contains("tokenizer     not usable: tokenizer.ggml.model: missing"), "{text}");
    assert!(text.contains("some.weight") && text.contains("4 x 2"), "{text}");
    let json = candor(["show", path.to_str().unwrap(), "--json"]).text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["runnable"], &json["memory"]), (&false.into(), &serde_json::Value::Null));
}

#[test]
fn a_split_model_is_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Tiny::default().writer().write_shards(folder.path().join("tiny"), Split::Tensors(7)).unwrap();
    assert!(paths.len() > 2);
    let whole = folder.path().join("tiny.gguf");
    fs::write(&whole, Tiny::default().bytes()).unwrap();
    let text = candor(["show", paths[1].to_str().unwrap()]).text();
    assert!(text.contains(&format!(" in {} files\n", paths.len())), "{text}");
    let run = |path: &std::path::Path| {
        candor(["run", path.to_str().unwrap(), "-p", "a b", "-n", "9", "--temp", "0", "--ignore-eos"]).text()
    };
    assert_eq!(run(&paths[0]), run(&whole));
    fs::remove_file(&paths[2]).unwrap();
    let error = candor(["show", paths[0].to_str().unwrap()]).error();
    assert!(error.contains("shard 3 of ") && error.contains("file is missing\nhint: all shards belong"), "{error}");
}

#[test]
fn what_a_model_does_not_have_is_not_shown() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let shown = |arch: &str, args: &[&str]| {
        let path = fixtures.join("arch").join(arch).join("model.gguf");
        candor(["show", path.to_str().unwrap()].iter().chain(args)).text()
    };
    let head = |arch: &str| shown(arch, &[]).split("\nmetadata (").next().unwrap().to_owned();
    // Its state does not grow with the context.
    let mamba = head("mamba");
    assert!(!mamba.contains("\nheads ") && !mamba.contains("feed-forward"), "{mamba}");
    assert!(mamba.contains("cache of ") && !mamba.contains("fits here"), "{mamba}");
    let bert = head("bert");
    assert!(bert.contains("\nheads ") && bert.contains("\nmemory ") && !bert.contains("cache"), "{bert}");
    let json: serde_json::Value = serde_json::from_str(&shown("bert", &["--json"])).unwrap();
    assert_eq!((&json["memory"]["cache_f16"], &json["memory"]["contexts"]), (&0.into(), &serde_json::Value::Null));
    let llama = head("llama");
    assert!(llama.contains("fits here") && !llama.contains(" 0 %"), "{llama}");
}
