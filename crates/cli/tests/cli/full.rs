//! Conversations that are longer than the context, and contexts that change their length.

use std::fs;

use crate::program::{Outcome, candor};

/// A conversation of these lines, at temperature 0 and with short answers that do not end by themselves.
fn chat(args: &[&str], lines: &[&str]) -> Outcome {
    let fixed = ["chat", "--temp", "0", "-n", "12", "-t", "1", "--ignore-eos"];
    candor(fixed.iter().chain(args)).stdin(lines.join("\n") + "\n").outcome()
}

/// The template of the built-in model, which refuses conversations without a system prompt, or with a half of a turn.
fn strict() -> String {
    let model = candor::Model::builtin(&candor::LoadOptions::default()).unwrap();
    let own = model.gguf().metadata().str("tokenizer.chat_template").unwrap().unwrap().to_owned();
    let no = |when: &str, what: &str| format!("{{% if {when} %}}{{{{ raise_exception('{what}') }}}}{{% endif %}}");
    let system = no("messages[0].role != 'system' or messages[0].content != 'Be kind.'", "no system prompt");
    let user = no("messages[1].role != 'user' or messages[-1].role != 'user'", "half a turn");
    let order = format!(
        "{{% for m in messages[1:] %}}{}{{% endfor %}}",
        no("m.role != ('user' if loop.index0 % 2 == 0 else 'assistant')", "out of order")
    );
    system + &user + &order + &own
}

#[test]
fn a_hundred_turns_have_no_error_and_keep_the_system_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let (template, saved) = (folder.path().join("strict.jinja"), folder.path().join("saved.json"));
    fs::write(&template, strict()).unwrap();
    let messages: Vec<String> = (0..100).map(|number| format!("Tell me story number {number}")).collect();
    let save = format!("/save {}", saved.display());
    let lines: Vec<&str> = messages.iter().map(String::as_str).chain(["/stats", save.as_str()]).collect();
    let outcome = chat(&["-sys", "Be kind.", "--chat-template-file", template.to_str().unwrap()], &lines);
    assert_eq!((outcome.code, outcome.stderr.matches("error").count()), (0, 1), "{}", outcome.stderr);
    let notes: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("note: ")).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("note: the context of 512 tokens is full: the oldest turns are left out"),
        "{notes:?}"
    );
    assert!(notes[0].ends_with("/set truncate off makes this an error)"), "{notes:?}");
    assert!(outcome.stderr.contains(" of 512 tokens\n") && outcome.stderr.contains("answers: 100;"), "{outcome:?}");
    // What is not seen is still part of the conversation.
    assert_eq!(candor_testing::json(&saved)["messages"].as_array().unwrap().len(), 200);
}

#[test]
fn a_full_context_is_an_error_where_that_is_wanted() {
    let lines = ["Hello", "And then?", "And then?", "And then?", "And then?"];
    let kept = chat(&["-c", "64"], &lines);
    assert_eq!((kept.code, kept.stderr.matches("note: the context of 64 tokens is full").count()), (0, 1), "{kept:?}");
    for off in [&["--truncate", "off"][..], &["--truncate=off"]] {
        let outcome = chat(&[&["-c", "64"], off].concat(), &lines);
        assert!(outcome.code == 1 && outcome.stderr.contains("error: the prompt has "), "{outcome:?}");
        assert!(!outcome.stderr.contains("left out"), "{outcome:?}");
    }
    let set = chat(&["-c", "64"], &[&["/set truncate off"], &lines[..]].concat());
    assert!(set.code == 1 && set.stderr.contains("error: the prompt has "), "{set:?}");
}

#[test]
fn an_answer_that_runs_into_the_end_does_not_end_the_conversation() {
    let outcome = chat(&["-c", "48", "-n", "-1"], &["Hello", "And then?", "And then?"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(outcome.stderr.matches("stopped: the context of 48 tokens is full").count(), 3, "{outcome:?}");
    assert_eq!(outcome.stderr.matches("note: ").count(), 1, "{outcome:?}");
}

#[test]
fn a_message_that_does_not_fit_leaves_the_conversation_as_it_was() {
    let long = "again and again ".repeat(40);
    let plain = chat(&["-c", "96"], &["Hello", "And then?"]);
    let outcome = chat(&["-c", "96"], &["Hello", &long, "And then?", "/stats"]);
    assert_eq!(outcome.stdout, plain.stdout, "{outcome:?}");
    assert!(outcome.code == 1 && outcome.stderr.matches("error: the prompt has ").count() == 1, "{outcome:?}");
}

#[test]
fn the_context_gets_another_length_and_the_conversation_goes_on() {
    let plain = chat(&[], &["Hello", "And then?"]);
    for resize in ["/set num_ctx 300", "/set ctx-size 300", "/set parameter num_ctx 300"] {
        let outcome = chat(&[], &["Hello", resize, "And then?", "/stats", "/set num_ctx"]);
        assert_eq!((outcome.code, &outcome.stdout), (0, &plain.stdout), "{outcome:?}");
        assert!(outcome.stderr.contains("\ncontext: 300 tokens\n"), "{outcome:?}");
        assert!(outcome.stderr.contains(" of 300 tokens\n"), "{outcome:?}");
        assert!(outcome.stderr.ends_with("ctx-size              300                    (/set)\n"), "{outcome:?}");
    }
    // One that cannot be had changes nothing.
    let outcome = chat(&[], &["Hello", "/set num_ctx 4294967295", "And then?", "/stats"]);
    assert_eq!((outcome.code, &outcome.stdout), (1, &plain.stdout), "{outcome:?}");
    assert!(outcome.stderr.contains("error: a context of 4294967295 tokens takes "), "{outcome:?}");
    assert!(outcome.stderr.contains(" of 512 tokens\n"), "{outcome:?}");
    // What was left out is seen again where there is room for it.
    let lines = ["Hello", "And then?", "And then?", "And then?", "/stats", "/set num_ctx 512", "And then?", "/stats"];
    let outcome = chat(&["-c", "64"], &lines);
    let used = |line: &str| line.strip_prefix("context: ")?.split_once(" of ")?.0.parse::<usize>().ok();
    let used: Vec<usize> = outcome.stderr.lines().filter_map(used).collect();
    assert!(used.len() == 2 && used[1] > 64, "{outcome:?}");
}

#[test]
fn a_conversation_that_was_forgotten_takes_no_context() {
    let outcome = chat(&[], &["Hello", "/stats", "/clear", "/stats"]);
    let used: Vec<&str> = outcome.stderr.lines().filter_map(|line| line.strip_prefix("context: ")).collect();
    assert!(used.len() == 2 && used[0] != used[1] && used[1] == "0 of 512 tokens", "{outcome:?}");
}

#[test]
fn the_contexts_length_is_listed_among_the_settings() {
    let outcome = chat(&["-c", "100"], &["/set", "/set num_ctx"]);
    assert!(outcome.stderr.contains("  ctx-size               100          Tokens of context; "), "{outcome:?}");
    assert!(outcome.stderr.ends_with("ctx-size              100                    (flag)\n"), "{outcome:?}");
}
