//! What a model thinks and the tools that it calls, through the binary: a model that says one text whatever it is asked.

use std::{
    fs,
    path::{Path, PathBuf},
};

use candor_testing::Parrot;
use tempfile::TempDir;

use crate::program::{Outcome, candor};

/// ChatML as Qwen3 has it: without thinking the prompt holds an empty thought. What a message thought and called stays out.
pub const QWEN: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
    <|im_start|>assistant\n{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}";

/// The same for a model that calls tools as Qwen3 does, and shows all messages of a second turn as an error.
const TOOLS: &str = "{% if messages|length > 2 %}{{ raise_exception(messages|tojson) }}{% endif %}{% if tools %}{{ tools|tojson }}{% endif %}\
    {% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}\
    <tool_call>\n{{ {'name': c.function.name, 'arguments': c.function.arguments}|tojson }}\n</tool_call>{% endfor %}\
    {% endfor %}{% if '</think>' in x %}{% endif %}\n";

/// As gpt-oss has it.
const HARMONY: &str = "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}\
    {# <|channel|> functions. #}{% if reasoning_effort %}[{{ reasoning_effort }}]{% endif %}<|start|>assistant";

/// A model in a folder of its own.
pub fn model(parrot: &Parrot, template: Option<&str>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parrot.gguf");
    let mut writer = parrot.writer();
    if let Some(template) = template {
        writer.insert("tokenizer.chat_template", template);
    }
    writer.write_file(&path).unwrap();
    (folder, path)
}

/// Thinks, and answers; after an empty thought it only answers. A control token that marks nothing is not seen.
pub fn thinker() -> Parrot {
    let said = ["<think>", "\nI won", "der.\n", "</think>", "\n\n ", "Hello", "<|odd|>", " there!"];
    Parrot::says(&said).control(&["<think>", "</think>", "<|odd|>", "<|im_start|>"]).after("\n\n", 5).eos("<|im_end|>")
}

fn run(path: &Path, args: &[&str]) -> Outcome {
    let outcome = candor(["run", path.to_str().unwrap(), "-p", "Hi", "-t", "1"].iter().chain(args)).outcome();
    assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
    outcome
}

const THOUGHT: &str = "Thinking...\nI wonder.\n...done thinking.\n\n";

#[test]
fn thoughts_stand_between_marks_and_can_be_hidden_or_turned_off() {
    let (_folder, path) = model(&thinker(), Some(QWEN));
    let whole = format!("{THOUGHT}Hello there!\n");
    for (args, expected) in [
        (&[][..], whole.as_str()),
        (&["--think"], &whole),
        (&["--think=true"], &whole),
        (&["--think=high"], &whole),
        (&["--hide-thinking"], "Hello there!\n"),
        (&["--hidethinking"], "Hello there!\n"),
        (&["--think=false"], "Hello there!\n"),
        (&["-rea", "off"], "Hello there!\n"),
        (&["--reasoning-budget", "0"], "Hello there!\n"),
        (&["--reasoning-format", "auto"], &whole),
        (&["--skip-chat-parsing"], "<think>\nI wonder.\n</think>\n\n Hello there!\n"),
        (&["--reasoning-format", "none"], "<think>\nI wonder.\n</think>\n\n Hello there!\n"),
        // A text that is continued is printed as it comes, without control tokens.
        (&["--raw"], "\nI wonder.\n\n\n Hello there!\n"),
        (&["-n", "3"], "Thinking...\nI wonder.\n"),
        (&["-n", "3", "--hide-thinking"], ""),
    ] {
        assert_eq!(run(&path, args).stdout, expected, "{args:?}");
    }
    let prompt = |args: &[&str]| run(&path, &[args, &["--verbose-prompt"]].concat()).stderr;
    assert!(prompt(&["--think=false"]).contains(r"<think>\n\n</think>\n\n"));
    // What is said of the template goes before.
    assert!(!prompt(&["--think=false", "--chat-template-kwargs", "{\"enable_thinking\": true}"]).contains("<think>"));
}

#[test]
fn what_a_template_cannot_do_is_said() {
    let (_folder, path) = model(&thinker(), Some(QWEN));
    let (_other, plain) = model(&thinker(), Some("{% for m in messages %}{{ m.content }}{% endfor %}{# </think> #}"));
    let (_third, harmony) = model(&thinker(), Some(HARMONY));
    for (path, args, expected) in [
        (&path, "--think=low", "note: the chat template knows thinking, and no levels of it\n"),
        (&plain, "--think", "note: --think=true changes nothing: the chat template reads no variable for it\n"),
        (
            &plain,
            "--think=false",
            "note: --think=false changes nothing: the chat template reads no variable for it (--hide-thinking hides what the model thinks)\n",
        ),
        (
            &harmony,
            "--think=false",
            "note: the chat template cannot turn thinking off; --think=low asks for less of it\n",
        ),
    ] {
        let outcome = run(path, &[args]);
        assert!(outcome.stderr.ends_with(expected), "{outcome:?}");
    }
    for args in [&["--think=low"][..], &["--reasoning-effort", "low"]] {
        let outcome = run(&harmony, &[args, &["--verbose-prompt"]].concat());
        assert!(outcome.stderr.contains("[low]<|start|>assistant") && !outcome.stderr.contains("note"), "{outcome:?}");
    }
}

#[test]
fn channels_are_told_apart() {
    let parrot = Parrot::says(&[
        "<|channel|>analysis<|message|>",
        "Hm.",
        "<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>",
        "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>",
        "{\"city\":\"Paris\"}<|end|>",
        "<|start|>assistant<|channel|>final<|message|>",
        "It rains.",
    ]);
    let (_folder, path) = model(&parrot, Some(HARMONY));
    let expected =
        "Thinking...\nHm.\n...done thinking.\n\nI look.\n[tool call] get_weather({\"city\": \"Paris\"})\nIt rains.\n";
    assert_eq!(run(&path, &[]).stdout, expected);
}

/// A model that calls a tool, and the tools that are offered to it.
fn caller() -> (TempDir, PathBuf, &'static str) {
    let call = "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}";
    let parrot = Parrot::says(&["<think>", "Well.", "</think>", "I look.\n\n", "<tool_call>", call, "</tool_call>"]);
    let (folder, path) = model(&parrot.control(&["<tool_call>", "</tool_call>"]), Some(TOOLS));
    let tools = r#"{"tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]}"#;
    (folder, path, tools)
}

#[test]
fn tool_calls_have_a_line_of_their_own() {
    let (_folder, path, tools) = caller();
    let outcome = run(&path, &["--chat-template-kwargs", tools]);
    let expected = "Thinking...\nWell.\n...done thinking.\n\nI look.\n[tool call] get_weather({\"city\": \"Paris\"})\n";
    assert_eq!(outcome.stdout, expected);
    // Where no tools are offered, nothing is a call.
    let outcome = run(&path, &["--hide-thinking"]);
    let expected =
        "I look.\n\n<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}</tool_call>\n";
    assert_eq!(outcome.stdout, expected);
}

#[test]
fn a_conversation_keeps_thoughts_and_calls_apart_and_saves_them() {
    let (folder, path, tools) = caller();
    let saved = folder.path().join("saved.json");
    let args = ["chat", path.to_str().unwrap(), "-t", "1", "--chat-template-kwargs", tools];
    let lines = format!("Hi\n/save {}\nAgain\n", saved.display());
    let outcome = candor(args).stdin(lines).outcome();
    // The template refuses the second turn, and shows the first.
    let call = r#""tool_calls": [{"id": "call00000", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}]"#;
    let seen = format!(
        r#"{{"role": "assistant", "content": "I look.", "reasoning_content": "Well.", "reasoning": "Well.", "thinking": "Well.", {call}}}"#
    );
    assert!(outcome.code == 1 && outcome.stderr.contains(&seen), "{outcome:?}");
    let json = candor_testing::json(&saved);
    let answer = &json["messages"][1];
    assert_eq!((&answer["content"], &answer["reasoning_content"]), (&"I look.".into(), &"Well.".into()));
    assert_eq!(answer["tool_calls"][0]["function"]["arguments"]["city"], "Paris");
    // Loaded, it is what it was.
    let outcome = candor(args).stdin(format!("/load {}\nAgain\n", saved.display())).outcome();
    assert!(outcome.code == 1 && outcome.stderr.contains(&seen), "{outcome:?}");
    // A file of before has neither.
    let text = r#"{"candor": "0.1.0", "model": "x", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#;
    fs::write(&saved, text).unwrap();
    let outcome = candor(args).stdin(format!("/load {}\nAgain\n", saved.display())).outcome();
    assert!(outcome.stderr.contains(r#"{"role": "assistant", "content": "b"}"#), "{outcome:?}");
}

#[test]
fn thinking_is_set_between_answers() {
    let (folder, path) = model(&thinker(), Some(QWEN));
    let saved = folder.path().join("saved.json");
    let chat =
        |lines: &[&str]| candor(["chat", path.to_str().unwrap(), "-t", "1"]).stdin(lines.join("\n") + "\n").outcome();
    let save = format!("/save {}", saved.display());
    let outcome = chat(&["Hi", "/set nothink", "Hi", &save, "/set think", "Hi", "/set hide-thinking true", "Hi"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let answer = "Hello there!\n";
    assert_eq!(outcome.stdout, format!("{THOUGHT}{answer}{answer}{THOUGHT}{answer}{answer}"), "{outcome:?}");
    for line in [
        "think                 false                  (/set)\n",
        "think                 true                   (/set)\n",
    ] {
        assert!(outcome.stderr.contains(line), "{outcome:?}");
    }
    // Saved with the conversation.
    let load = format!("/load {}", saved.display());
    assert_eq!(chat(&[&load, "Hi"]).stdout, answer);
    let outcome = chat(&["/set think low"]);
    assert!(outcome.stderr.contains("note: the chat template knows thinking, and no levels of it\n"), "{outcome:?}");
    let outcome = chat(&["/set think 1.5"]);
    assert!(outcome.code == 1 && outcome.stderr.contains("error: invalid value '1.5' for '--think"), "{outcome:?}");
}

#[test]
fn thoughts_come_piece_by_piece() {
    use std::io::Read;

    let (_folder, path) = model(&thinker(), Some(QWEN));
    // After the last piece of the thought the model goes on for ever: nothing waits for the end.
    let args = ["run", path.to_str().unwrap(), "-p", "Hi", "-t", "1", "--ignore-eos", "--context-shift"];
    let mut program = candor(args);
    let mut child = program.spawn();
    let mut first = vec![0; THOUGHT.len()];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(String::from_utf8(first).unwrap(), THOUGHT);
}
