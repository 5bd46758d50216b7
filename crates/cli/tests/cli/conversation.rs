//! `candor chat` through a pipe: each line is a message or a command, answers go to stdout, all else to stderr.

use std::fs;

use crate::program::{Outcome, candor};

/// A conversation of these lines, at temperature 0 and with short answers.
fn chat(args: &[&str], lines: &[&str]) -> Outcome {
    let fixed = ["chat", "--temp", "0", "-n", "12", "-t", "1"];
    candor(fixed.iter().chain(args)).stdin(lines.join("\n") + "\n").outcome()
}

/// Answers at the end of which a line is ended.
fn answers(outcome: &Outcome) -> Vec<&str> {
    outcome.stdout.lines().collect()
}

#[test]
fn lines_are_answered_in_turn_with_what_was_said_before() {
    let outcome = chat(&["--ignore-eos"], &["Hello", "", "Tell me more"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(answers(&outcome).len() >= 2, "{outcome:?}");
    let one = candor(["run", "--temp", "0", "-n", "12", "-t", "1", "--ignore-eos", "-p", "Hello"]).text();
    assert!(outcome.stdout.starts_with(&one), "{one:?} {outcome:?}");
    assert_eq!(outcome.stderr, "using the built-in model (name another: candor run MODEL.gguf)\n");
    // The second answer computes only what is new: fewer tokens than the whole conversation.
    let verbose = chat(&["--ignore-eos", "-v"], &["Hello", "Tell me more", "/stats"]);
    let prompts: Vec<usize> = verbose
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("prompt: ")?.split_whitespace().next()?.parse().ok())
        .collect();
    let context = verbose.stderr.lines().find_map(|line| line.strip_prefix("context: ")).map(str::to_owned);
    let used = verbose.stderr.lines().filter_map(|line| line.strip_prefix("context: ")).next_back().unwrap();
    let used: usize = used.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(prompts.len(), 2, "{verbose:?} {context:?}");
    assert!(prompts[1] < used - prompts[0], "{verbose:?}");
}

#[test]
fn every_name_of_every_command_works() {
    for name in ["/exit", "/bye", "/quit", "/q", "/EXIT"] {
        assert_eq!(chat(&[], &[name, "Hello"]).stdout, "", "{name}");
    }
    for name in ["/help", "/?", "/h"] {
        let outcome = chat(&[], &[name]);
        for command in [
            "/help", "/?", "/exit", "/bye", "/clear", "/save", "/load", "/model", "/system", "/set", "/stats",
            "/config",
        ] {
            assert!(outcome.stderr.contains(command), "{name}: {outcome:?}");
        }
        assert_eq!(outcome.stdout, "");
    }
    for (name, expected) in [
        ("/clear", "the conversation is forgotten"),
        ("/cls", "the conversation is forgotten"),
        ("/stats", "context: 0 of "),
        ("/status", "context: 0 of "),
        ("/config", "temp                  0                      (flag)"),
        ("/cfg", "top-k                 40                     (default)"),
        ("/model", "built-in model\n"),
        ("/system", "there is no system prompt"),
        ("/sys", "there is no system prompt"),
        ("/set", "Keep the K likeliest tokens"),
        ("/set temp", "temp                  0                      (flag)"),
    ] {
        let outcome = chat(&[], &[name]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""), "{outcome:?}");
        assert!(outcome.stderr.contains(expected), "{name}: {outcome:?}");
    }
}

#[test]
fn unknown_commands_say_what_is_near_and_fail_a_script() {
    let outcome = chat(&["--ignore-eos"], &["/hlep", "/xyzzyx", "Hello"]);
    assert!(outcome.stderr.contains("error: /hlep is no command\nhint: is /help meant?\n"), "{outcome:?}");
    assert!(outcome.stderr.contains("error: /xyzzyx is no command\nhint: /help lists the commands\n"), "{outcome:?}");
    assert_eq!((outcome.code, answers(&outcome).is_empty()), (1, false), "{outcome:?}");
    // A space before it makes a message of it.
    assert_eq!(chat(&["--ignore-eos"], &[" /hlep"]).code, 0);
}

#[test]
fn messages_of_several_lines() {
    let seen = |lines: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved.json");
        let save = format!("/save {}", path.display());
        let outcome = chat(&["--ignore-eos"], &[lines, &[&save]].concat());
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let saved = candor_testing::json(&path);
        saved["messages"][0]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(seen(&["one\\", "two"]), "one\ntwo");
    assert_eq!(seen(&["\"\"\"one", "", "/two\"\"\""]), "one\n\n/two");
    assert_eq!(seen(&["\"\"\"", "one\\", "\"\"\""]), "one\\");
}

#[test]
fn settings_change_between_answers() {
    let outcome =
        chat(&["--ignore-eos", "-v"], &["Hello", "/set predict 3", "Hello", "/set max-tokens 4", "Hello", "/config"]);
    let counts: Vec<&str> =
        outcome.stderr.lines().filter_map(|line| line.strip_prefix("decode: ")?.split_whitespace().next()).collect();
    assert_eq!(counts, ["12", "3", "4"], "{outcome:?}");
    assert!(outcome.stderr.contains("predict               4                      (/set)\n"), "{outcome:?}");
    for (line, expected) in [
        ("/set tepm 1", "error: tepm is no setting that can be changed here\nhint: is temp meant?\n"),
        ("/set batch-size 8", "error: batch-size is no setting that can be changed here\n"),
        ("/set ctx-size long", "error: invalid value 'long' for '--ctx-size <N>': expected a whole number from 0"),
        ("/set temp hot", "error: invalid value 'hot' for '--temp <T>'"),
        ("/set temp nan", "error: temperature: expected a finite number, got NaN\n"),
        ("/set samplers x", "error: sampler `x` is unknown"),
        ("/set ignore-eos maybe", "error: invalid value 'maybe' for '--ignore-eos"),
    ] {
        let outcome = chat(&[], &[line]);
        assert!(outcome.code == 1 && outcome.stderr.contains(expected), "{line}: {outcome:?}");
    }
    // As Ollama writes it.
    let outcome = chat(
        &[],
        &["/set parameter temperature 0.5", "/set parameter num_predict 3", "/set system Be short.", "/show system"],
    );
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for expected in ["temp                  0.5 ", "predict               3 ", "Be short."] {
        assert!(outcome.stderr.contains(expected), "{expected}: {outcome:?}");
    }
    // Quotes hold spaces; a switch can be set both ways.
    let outcome = chat(&[], &["/set reverse-prompt \"a b \"", "/set ignore-eos true", "/set ignore-eos false"]);
    assert!(outcome.stderr.contains("reverse-prompt        \"a b \"                 (/set)"), "{outcome:?}");
    assert!(outcome.stderr.ends_with("ignore-eos            false                  (/set)\n"), "{outcome:?}");
}

#[test]
fn a_conversation_is_saved_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b.json");
    let name = path.to_str().unwrap();
    let args = ["--ignore-eos", "-sys", "be kind"];
    let whole = chat(&args, &["Hello", "/set predict 5", "And then?"]);
    let saved = chat(&args, &["Hello", "/set predict 5", &format!("/save \"{name}\"")]);
    assert!(saved.stderr.ends_with(&format!("saved 2 messages to {name}\n")), "{saved:?}");
    let loaded = ["chat", "--temp", "0", "-t", "1", "--ignore-eos"];
    let loaded = candor(loaded).stdin(format!("/load {name}\nAnd then?\n")).outcome();
    assert!(loaded.stderr.ends_with(&format!("loaded 2 messages from {name}\n")), "{loaded:?}");
    assert_eq!(format!("{}{}", saved.stdout, loaded.stdout), whole.stdout);

    let json = candor_testing::json(&path);
    assert_eq!(json["system"], "be kind");
    assert_eq!(json["messages"][0], serde_json::json!({ "role": "user", "content": "Hello" }));
    assert_eq!(json["messages"][1]["role"], "assistant");
    // What was changed, and nothing that the program has anyway.
    assert_eq!(json["settings"], serde_json::json!({ "predict": 5, "ignore-eos": true, "temp": 0 }));

    // Without a name both take the same one.
    let save = candor(["chat", "-n", "2", "--ignore-eos"]).within(folder.path()).stdin("Hello\n/save\n/clear\n/load\n");
    let outcome = save.outcome();
    assert!(outcome.stderr.ends_with("loaded 2 messages from candor-chat.json\n"), "{outcome:?}");

    let spoilt = folder.path().join("spoilt.json");
    fs::write(&spoilt, "{\"candor\":\"0.1.0\",\"model\":\"x\",\"messages\":[],\"settings\":{\"tepm\":[\"1\"]}}")
        .unwrap();
    let no = |path: &str, expected: &str| {
        let outcome = chat(&[], &[&format!("/load {path}")]);
        assert!(outcome.code == 1 && outcome.stderr.contains(expected), "{outcome:?}");
    };
    no("no-such-file.json", "error: no-such-file.json: no such file or directory\n");
    no(spoilt.to_str().unwrap(), "error: tepm is no setting");
    for (bytes, got) in [
        ("Once upon a time\n", "something else"),
        ("GGUF\u{3}", "something else"),
        ("[1, 2]", "something else"),
        (" \n", "an empty file"),
        ("{\"candor\": \"0.1", "broken JSON: EOF while parsing a string at line 1 column 15"),
        ("{}", "other JSON: missing field `candor` at line 1 column 2"),
    ] {
        fs::write(&spoilt, bytes).unwrap();
        let name = spoilt.to_str().unwrap();
        let hint = "hint: /save FILE writes one, as JSON\n";
        no(name, &format!("error: {name}: expected a saved conversation, got {got}\n{hint}"));
    }
    // A name that is near, and none that is not.
    let near = folder.path().join("spolit.json");
    no(near.to_str().unwrap(), &format!("hint: is {} meant?\n", spoilt.display()));
}

#[test]
fn settings_are_listed_in_columns() {
    let outcome = chat(&[], &["/set"]);
    let rows: Vec<&str> = outcome.stderr.lines().skip(1).collect();
    let at = rows[0].find("Most tokens").expect("what predict means");
    for row in rows.iter().filter(|row| !row.contains("penalties;dry;")) {
        let (left, right) = row.split_at(at);
        assert!(left.ends_with(' ') && !right.starts_with(' '), "{row:?}");
    }
    let wide = rows.iter().position(|row| row.starts_with("  samplers ")).expect("a row");
    assert!(rows[wide].ends_with(";temperature"), "{rows:?}");
    assert_eq!(rows[wide + 1].trim_start(), "Order of the samplers, with ; between them");
}

#[test]
fn the_system_prompt_and_the_model_can_be_changed() {
    let outcome = chat(&["-sys", "be short"], &["/system", "/system be kind", "/sys", "/system \"\""]);
    let lines: Vec<&str> = outcome.stderr.lines().skip(1).collect();
    let expected =
        ["system prompt: be short", "system prompt: be kind", "system prompt: be kind", "there is no system prompt"];
    assert_eq!(lines, expected);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let mut writer = candor_testing::Tiny::default().writer();
    writer.insert("tokenizer.chat_template", "{% for m in messages %}{{ m.content }} {% endfor %}");
    writer.write_file(&path).unwrap();
    let name = path.to_str().unwrap();
    let outcome = chat(&["--ignore-eos"], &["Hello", &format!("/model {name}"), "a b c", "/model"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stderr.contains(&format!("{name} answers from now on\n")), "{outcome:?}");
    assert!(outcome.stderr.ends_with(&format!("{name}\n")), "{outcome:?}");
    let missing = chat(&["--ignore-eos"], &["/model no-such.gguf", "/model", "Hello"]);
    assert!(missing.stderr.contains("error: no-such.gguf: no such file\n"), "{missing:?}");
    assert!(missing.stderr.ends_with("built-in model\n") && !missing.stdout.is_empty(), "{missing:?}");
    // As an argument, too.
    assert_eq!(candor(["chat", name, "-n", "2"]).stdin("a b\n").outcome().code, 0);
}

#[test]
fn clear_forgets_what_was_said() {
    let forgotten = chat(&["--ignore-eos", "-sys", "be kind"], &["Hello", "/clear", "Hello"]);
    let lines = answers(&forgotten).len();
    let (first, second) = forgotten.stdout.split_at(forgotten.stdout.len() / 2);
    assert!(lines >= 2 && first == second, "{forgotten:?}");
}

#[test]
fn a_model_without_a_template_needs_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, candor_testing::Tiny::default().bytes()).unwrap();
    let error = candor(["chat", path.to_str().unwrap()]).stdin("a\n").error();
    assert!(error.starts_with("error: the model has no chat template\nhint: candor run --raw "), "{error}");
    let template = folder.path().join("template.jinja");
    fs::write(&template, "{% for m in messages %}{{ m.content }}{% endfor %}").unwrap();
    let args = ["chat", path.to_str().unwrap(), "--chat-template-file", template.to_str().unwrap(), "-n", "2"];
    assert_eq!(candor(args).stdin("a\n").outcome().code, 0);
    fs::write(&template, "a\n{% for %}").unwrap();
    let error = candor(args).stdin("a\n").error();
    assert!(error.starts_with("error: chat template line 2: "), "{error}");
}

#[test]
fn a_conversation_that_outgrows_the_context_says_so_and_goes_on() {
    let long = "again and again ".repeat(20);
    let outcome = chat(&["-c", "48", "--ignore-eos"], &[&long, "Hi", "/set context-shift true", &long]);
    assert!(outcome.stderr.contains("error: the prompt has "), "{outcome:?}");
    assert!(outcome.stderr.contains("/set num_ctx N"), "{outcome:?}");
    assert_eq!(outcome.stderr.matches("error: ").count(), 1, "{outcome:?}");
    assert!(answers(&outcome).len() >= 2, "{outcome:?}");
}

#[test]
fn invalid_utf8_ends_the_conversation_with_one_line() {
    let error = candor(["chat", "-n", "2"]).stdin(b"/stats\n\xff\n").outcome();
    assert!(
        error.code == 1 && error.stderr.ends_with("error: stdin: expected UTF-8, got byte 0xff at offset 7\n"),
        "{error:?}"
    );
}
