//! `candor chat`: going back, beginning with a message or a file, showing, switching.

use std::fs;

use crate::program::{Outcome, candor};

fn chat(args: &[&str], lines: &[&str]) -> Outcome {
    let fixed = ["chat", "--ignore-eos", "-n", "12", "-t", "1"];
    candor(fixed.iter().chain(args)).stdin(lines.join("\n") + "\n").outcome()
}

/// What was said, as `/save` has it at the end of the lines.
fn said(args: &[&str], lines: &[&str]) -> (Vec<String>, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.json");
    let save = format!("/save {}", path.display());
    let outcome = chat(args, &[lines, &[&save]].concat());
    let saved = candor_testing::json(&path);
    let messages = saved["messages"].as_array().unwrap().iter();
    (messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect(), outcome)
}

#[test]
fn the_last_message_is_answered_again() {
    let seed = ["-s", "7", "--temp", "3"];
    let (once, _) = said(&seed, &["Hello"]);
    let mut answers = vec![once[1].clone()];
    for commands in [["/regenerate"].as_slice(), &["/regen", "/retry"]] {
        let (messages, outcome) = said(&seed, &[&["Hello"], commands].concat());
        assert_eq!((outcome.code, messages.len(), messages[0].as_str()), (0, 2, "Hello"), "{outcome:?}");
        // A fixed seed gives another answer each time, and the same ones the next time.
        assert!(!answers.contains(&messages[1]), "{messages:?} {answers:?}");
        assert_eq!(said(&seed, &[&["Hello"], commands].concat()).0, messages);
        answers.push(messages[1].clone());
    }
    // Without chance the answer is the same, and stands once.
    let (messages, _) = said(&["--temp", "0"], &["Hello", "And then?", "/regenerate"]);
    assert_eq!(messages, said(&["--temp", "0"], &["Hello", "And then?"]).0);
}

#[test]
fn a_message_without_an_answer_is_asked_again() {
    let long = "again and again ".repeat(20);
    let lines = ["Hi", &long, "/set context-shift true", "/retry"];
    let (messages, outcome) = said(&["-c", "64", "--temp", "0", "-n", "2"], &lines);
    assert_eq!(outcome.stderr.matches("error: ").count(), 1, "{outcome:?}");
    assert_eq!((messages.len(), messages[0].as_str()), (4, "Hi"), "{messages:?}");
    assert_eq!(messages[2], long);
    // Changed, it needs none of that; taken back, it is gone.
    let (messages, _) = said(&["-c", "64", "--temp", "0", "-n", "2"], &["Hi", &long, "/edit Ho"]);
    assert_eq!((messages.len(), messages[2].as_str()), (4, "Ho"));
    let (messages, _) = said(&["-c", "64", "--temp", "0", "-n", "2"], &["Hi", &long, "/undo"]);
    assert_eq!((messages.len(), messages[0].as_str()), (2, "Hi"));
}

#[test]
fn an_answer_that_fails_leaves_the_one_before() {
    let long = "again and again ".repeat(20);
    let lines = ["Hi", &format!("/edit {long}")];
    let args = ["-c", "64", "--temp", "0", "-n", "2"];
    let (messages, outcome) = said(&args, &lines);
    assert!(outcome.stderr.contains("error: the prompt has "), "{outcome:?}");
    assert_eq!(messages, said(&args, &["Hi"]).0);
}

#[test]
fn messages_are_changed_and_taken_back() {
    let greedy = ["--temp", "0"];
    let (messages, _) = said(&greedy, &["Hello", "Who are you?", "/edit Tell me more"]);
    assert_eq!(messages, said(&greedy, &["Hello", "Tell me more"]).0);
    let (messages, outcome) = said(&greedy, &["Hello", "Who are you?", "/undo"]);
    assert!(outcome.stderr.contains("\ntaken back: Who are you?\n"), "{outcome:?}");
    assert_eq!(messages, said(&greedy, &["Hello"]).0);
    for (lines, error) in [
        (["/undo"].as_slice(), "error: there is no message yet\nhint: a line that is no command is a message\n"),
        (&["/regenerate"], "error: there is no message yet\n"),
        (&["/edit x"], "error: there is no message yet\n"),
        (&["Hi", "/undo", "/undo"], "error: there is no message yet\n"),
        (
            &["Hi", "/edit"],
            "error: /edit: there is no line editor here that the last message could be changed in\nhint: /edit TEXT changes it\n",
        ),
    ] {
        let outcome = chat(&["--temp", "0"], lines);
        assert!(outcome.code == 1 && outcome.stderr.ends_with(error) | outcome.stderr.contains(error), "{outcome:?}");
    }
}

#[test]
fn a_conversation_begins_with_a_message() {
    let usual = chat(&["--temp", "0"], &["Hello", "And then?"]);
    for first in [["-p", "Hello"].as_slice(), &["--prompt=Hello"], &["-e", "-p", "\\x48ello"]] {
        let outcome = chat(&[&["--temp", "0"], first].concat(), &["And then?"]);
        assert_eq!((outcome.code, &outcome.stdout), (0, &usual.stdout), "{outcome:?}");
    }
    // A message is no command.
    let outcome = chat(&["--temp", "0", "-p", "/help"], &[]);
    assert!(!outcome.stdout.is_empty() && !outcome.stderr.contains("/regenerate"), "{outcome:?}");
    let folder = tempfile::tempdir().unwrap();
    let model = crate::slow::model(folder.path());
    let outcome = chat(&[&model, "abc"], &[]);
    assert_eq!((outcome.code, outcome.stdout.lines().count() > 0), (0, true), "{outcome:?}");
    let both = candor(["chat", &model, "abc", "-p", "x"]).outcome();
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn a_saved_conversation_goes_on_and_leaves_flags_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    let name = path.to_str().unwrap();
    let save = format!("/save {name}");
    let saved = chat(&["--temp", "0"], &["Hello", "/set predict 7", "/set top-k 5", &save]);
    assert_eq!(saved.code, 0, "{saved:?}");
    let json = candor_testing::json(&path);
    let settings = serde_json::json!({ "ignore-eos": true, "predict": 7, "temp": 0, "top-k": 5 });
    assert_eq!(json["settings"], settings);

    // The flags of chat() are before what was saved; what is no flag is taken over.
    let loaded = chat(&["--load", name], &["/set top-k", "/set predict", "/set temp"]);
    let note = "note: predict stays 12, as the command line says\n";
    assert!(loaded.stderr.contains(&format!("{note}loaded 2 messages from {name}\n")), "{loaded:?}");
    assert!(loaded.stderr.contains("top-k                 5                      (/set)"), "{loaded:?}");
    assert!(loaded.stderr.contains("predict               12                     (flag)"), "{loaded:?}");
    assert!(loaded.stderr.contains("temp                  0                      (/set)"), "{loaded:?}");
    let missing = candor(["chat", "--load", "no-such.json"]).stdin("Hi\n").outcome();
    assert_eq!((missing.code, missing.stdout.as_str()), (1, ""), "{missing:?}");

    // Files of before had lists.
    let old = r#"{"candor":"0.1.0","model":"x","messages":[],"settings":{"top-k":["9"],"predict":["-1"],"reverse-prompt":[]}}"#;
    fs::write(&path, old).unwrap();
    let loaded = chat(&["--load", name], &["/set top-k", "/set predict"]);
    assert!(loaded.stderr.contains("top-k                 9                      (/set)"), "{loaded:?}");
    assert!(loaded.stderr.contains("predict               12                     (flag)"), "{loaded:?}");
    fs::write(&path, old.replace(r#"["9"]"#, "{}")).unwrap();
    let loaded = chat(&["--load", name], &[]);
    assert!(loaded.stderr.contains("expected a saved conversation, got a setting top-k of {}"), "{loaded:?}");
}

#[test]
fn a_file_that_is_there_is_only_written_over_when_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.txt");
    fs::write(&path, "mine").unwrap();
    let save = format!("/save {}", path.display());
    let outcome = chat(&["--temp", "0"], &["Hello", &save]);
    let error = format!("error: {}: the file is there already\nhint: /save! FILE writes over it\n", path.display());
    assert!(outcome.code == 1 && outcome.stderr.ends_with(&error), "{outcome:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    // Its own file may be written again.
    let over = format!("/save! {}", path.display());
    let outcome = chat(&["--temp", "0"], &["Hello", &over, "And then?", &save]);
    assert!(outcome.code == 0 && outcome.stderr.contains("saved 4 messages to "), "{outcome:?}");
    let outcome = chat(&["--temp", "0", "--load", path.to_str().unwrap()], &["More", &save]);
    assert!(outcome.code == 0 && outcome.stderr.contains("saved 6 messages to "), "{outcome:?}");
}

#[test]
fn show_says_what_ollama_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let mut writer = candor_testing::Tiny::default().writer();
    writer.insert("tokenizer.chat_template", "{% for m in messages %}{{ m.content }} {% endfor %}");
    writer.insert("general.license", "apache-2.0");
    writer.write_file(&path).unwrap();
    let name = path.to_str().unwrap();
    for (line, expected) in [
        ("/show", "architecture       llama\n"),
        ("/show info", "  context length     64\n  embedding length   32\n  quantization       F32\n"),
        ("/show INFO", "  parameters         3"),
        ("/show license", "apache-2.0\n"),
        ("/show template", "{% for m in messages %}{{ m.content }} {% endfor %}\n"),
        ("/show parameters", "Keep the K likeliest tokens"),
        ("/show system", "there is no system prompt\n"),
    ] {
        let outcome = chat(&[name], &[line]);
        assert!(outcome.code == 0 && outcome.stderr.contains(expected), "{line}: {outcome:?}");
    }
    for (line, expected) in [
        (
            "/show modelfile",
            "error: /show modelfile: a model here is one GGUF file and flags, without a Modelfile\nhint: ",
        ),
        ("/show licence", "error: /show licence: there is no such thing to show\nhint: is /show license meant?\n"),
    ] {
        let outcome = chat(&[name], &[line]);
        assert!(outcome.code == 1 && outcome.stderr.contains(expected), "{line}: {outcome:?}");
    }
    let outcome = chat(&[], &["/show license"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn speeds_are_shown_on_wish() {
    let outcome = chat(&["--temp", "0"], &["Hello", "/set verbose", "Hello", "/set quiet", "Hello"]);
    assert_eq!((outcome.code, outcome.stderr.matches("\ndecode: ").count()), (0, 1), "{outcome:?}");
    let outcome = chat(&["--temp", "0"], &["/set nowordwrap", "/set wordwrap", "/set nohistory", "/set history"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn what_was_cleared_is_not_counted() {
    let outcome = chat(&["--temp", "0"], &["Hello", "/clear", "/stats"]);
    assert!(outcome.stderr.contains("\ncontext: 0 of "), "{outcome:?}");
}
