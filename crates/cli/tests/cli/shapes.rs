//! Answers of a given shape, through the binary.

use std::fs;

use candor_testing::Parrot;

use crate::{
    program::{candor, story},
    thinking::{QWEN, model},
};

const WILD: [&str; 8] = ["--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "0"];

fn answer(args: &[&str]) -> String {
    story(&[&["-n", "500"], &WILD[..], args].concat()).text()
}

#[test]
fn texts_have_the_shape_that_a_flag_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let schema = r#"{"type": "array", "items": {"enum": ["cat", 3, null]}, "minItems": 2, "maxItems": 3}"#;
    let grammar = "root ::= (\"- \" [a-z]{2,4} \"\\n\"){3}";
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (schema_file, grammar_file) = (write("schema.json", schema), write("list.gbnf", grammar));
    for seed in ["1", "2", "3"] {
        for flags in
            [["-j", schema], ["--json-schema", schema], ["-jf", &schema_file], ["--json-schema-file", &schema_file]]
        {
            let text = answer(&[&flags[..], &["-s", seed]].concat());
            let value: serde_json::Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
            let all = value.as_array().unwrap();
            assert!((2..=3).contains(&all.len()), "{text}");
            assert!(all.iter().all(|item| *item == "cat" || *item == 3 || item.is_null()), "{text}");
        }
        for flags in [["--grammar", grammar], ["--grammar-file", &grammar_file]] {
            let text = answer(&[&flags[..], &["-s", seed]].concat());
            let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
            assert!(lines.len() == 3 && lines.iter().all(|line| line.starts_with("- ")), "{text:?}");
        }
        let text = answer(&["--regex", "(yes|no), [a-z]{3}", "-s", seed]);
        assert!(["yes, ", "no, "].iter().any(|begin| text.starts_with(begin)), "{text:?}");
    }
}

#[test]
fn what_a_model_thinks_is_free() {
    let said = ["<think>", "\nI won", "der.\n", "</think>", "\n\n", "Hello"];
    let parrot = Parrot::says(&said).control(&["<think>", "</think>", "<|im_start|>"]).eos("<|im_end|>");
    let (_folder, path) = model(&parrot, Some(QWEN));
    let path = path.to_str().unwrap();
    for flags in [&["run", path, "-p", "Hi"][..], &["chat", path, "-p", "Hi"]] {
        let args = [flags, &["-t", "1", "--temp", "0", "--regex", "[ab]{3}"]].concat();
        let text = candor(&args).text();
        let content =
            text.strip_prefix("Thinking...\nI wonder.\n...done thinking.\n\n").unwrap_or_else(|| panic!("{text:?}"));
        let content = content.trim_end();
        assert!(content.len() == 3 && content.chars().all(|c| "ab".contains(c)), "{text:?}");
    }
}

#[test]
fn wrong_shapes_are_found_before_a_model_is_loaded() {
    for (flags, error) in [
        (&["-j", "{\"not\": {}}"][..], "--json-schema: JSON schema: "),
        (&["-j", "{"], "--json-schema: expected JSON: "),
        (&["--grammar", "root ::= x"], "--grammar: grammar: line 1: there is no rule x"),
        (&["--regex", "a("], "--regex: regular expression: "),
        (&["--grammar-file", "missing.gbnf"], "missing.gbnf: "),
    ] {
        let said = candor(["run", "missing.gguf", "-p", "x"].iter().chain(flags)).error();
        assert!(said.contains(error), "{flags:?}: {said}");
    }
    let said = story(&["--regex", "a", "--ignore-eos"]).error();
    assert!(said.contains("--ignore-eos would never let the answer end"), "{said}");
    let outcome = candor(["run", "-p", "x", "--regex", "a", "--grammar", "root ::= \"a\""]).outcome();
    assert_eq!(outcome.code, 2, "{outcome:?}");
}
