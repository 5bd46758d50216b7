//! Which chat template applies: one by name, as a text or in a file, the model's own, or one that its tokens make sure of.

use std::fs;

use candor_testing::{Parrot, Tiny};

use crate::{
    program::candor,
    thinking::{QWEN, model, thinker},
};

/// The prompt of `candor run`, and a note.
fn prompt(args: &[&str]) -> (String, String) {
    let fixed = ["run", "-n", "0", "-t", "1", "-p", "Hi", "--verbose-prompt"];
    let outcome = candor(fixed.iter().chain(args)).outcome();
    assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
    let line =
        |start: &str| outcome.stderr.lines().find(|line| line.starts_with(start)).map(|line| format!("{line}\n"));
    let prompt = line("prompt: ").unwrap();
    (prompt["prompt: ".len()..].trim_end().to_owned(), line("note: ").unwrap_or_default())
}

#[test]
fn a_template_has_a_name_or_is_a_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, Tiny::default().bytes()).unwrap();
    let path = path.to_str().unwrap();
    for (template, expected) in [
        ("chatml", r#""<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n""#),
        ("llama2", r#""[INST] Hi [/INST]""#),
        ("phi3", r#""<|user|>\nHi<|end|>\n<|assistant|>\n""#),
        ("{% for m in messages %}[{{ m.content }}]{% endfor %}", r#""[Hi]""#),
        ("{{ messages[0].role }}", r#""user""#),
    ] {
        assert_eq!(prompt(&[path, "--chat-template", template]), (expected.to_owned(), String::new()), "{template}");
    }
    // By a variable and in a conversation, too. It wins over the model's own.
    let outcome = candor(["run", path, "-n", "0", "-p", "Hi", "--verbose-prompt"]).env("CANDOR_CHAT_TEMPLATE", "orion");
    assert!(outcome.outcome().stderr.contains(r#"prompt: "Human: Hi\n\nAssistant: </s>""#));
    let outcome = candor(["chat", path, "-n", "1", "--chat-template", "chatml", "-t", "1"]).stdin("a\n").outcome();
    assert!(outcome.code == 0 && outcome.stderr.is_empty(), "{outcome:?}");
    let (_folder, own) = model(&thinker(), Some(QWEN));
    let own = own.to_str().unwrap();
    assert_eq!(prompt(&[own, "--chat-template", "llama2"]).0, r#""[INST] Hi [/INST]""#);

    let error = candor(["run", path, "-p", "Hi", "--chat-template", "chatlm"]).error();
    assert!(
        error.starts_with(
            "error: there is no chat template chatlm\nhint: is chatml meant? The names are bailing, bailing-"
        ),
        "{error}"
    );
    let error = candor(["run", path, "-p", "Hi", "--chat-template", "{% for %}"]).error();
    assert!(error.starts_with("error: chat template line 1: "), "{error}");
}

#[test]
fn a_missing_template_is_the_one_that_the_tokens_make_sure_of() {
    // One that ends its answers as the template does.
    let (_folder, path) = model(&thinker(), None);
    let path = path.to_str().unwrap();
    let (text, said) = prompt(&[path]);
    assert_eq!(text, r#""<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n""#);
    let note = "note: the model has no chat template; its tokens are those of chatml, which is used (--chat-template NAME chooses)\n";
    assert_eq!(said, note);
    let outcome = candor(["run", path, "-p", "Hi", "-t", "1"]).outcome();
    assert_eq!(outcome.stdout, "Thinking...\nI wonder.\n...done thinking.\n\nHello there!\n");
    let outcome = candor(["chat", path, "-t", "1"]).stdin("Hi\n").outcome();
    assert!(outcome.code == 0 && outcome.stderr == note, "{outcome:?}");
    assert_eq!(prompt(&[path, "--raw"]), (r#""Hi""#.to_owned(), String::new()));

    // One that has the tokens and ends its texts otherwise may be no chat model: `chat` takes it for one, `run` does not.
    let parrot = Parrot::says(&["Hello"]).control(&["<|im_start|>", "<|im_end|>"]);
    let (_folder, base) = model(&parrot, None);
    let base = base.to_str().unwrap();
    let note = |name: &str| {
        format!(
            "note: the model has no chat template, the text is continued as it is (--chat-template {name} answers it)\n"
        )
    };
    assert_eq!(prompt(&[base]), (r#""Hi""#.to_owned(), note("chatml")));
    let outcome = candor(["chat", base, "-t", "1"]).stdin("Hi\n").outcome();
    assert!(outcome.stderr.contains("its tokens are those of chatml"), "{outcome:?}");
    // Unless the file says which token ends a turn.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parrot.gguf");
    let mut writer = parrot.writer();
    writer.insert("tokenizer.ggml.eot_token_id", 261u32);
    writer.write_file(&path).unwrap();
    assert!(prompt(&[path.to_str().unwrap()]).0.starts_with("\"<|im_start|>user"));

    // Tokens that tell nothing.
    fs::write(&path, Tiny::default().bytes()).unwrap();
    let tiny = path.to_str().unwrap();
    assert_eq!(prompt(&[tiny]), (r#""Hi""#.to_owned(), note("NAME")));
    assert_eq!(prompt(&[tiny, "--raw"]).1, "");
    let error = candor(["chat", tiny]).stdin("Hi\n").error();
    assert!(error.starts_with("error: the model has no chat template\nhint: candor run --raw "), "{error}");
    assert!(error.contains("--chat-template NAME one of these: bailing, ") && error.ends_with(", zephyr"), "{error}");
}

#[test]
fn another_model_has_a_template_of_its_own() {
    let (_first, thinker) = model(&thinker(), Some(QWEN));
    let other = Parrot::says(&["<think>", "x", "</think>", "y"]).control(&["<think>"]);
    let (_second, other) = model(&other, Some("{% for m in messages %}{{ m.content }}{% endfor %}"));
    let lines = format!("Hi\n/model {}\nHi\n", other.display());
    let outcome = candor(["chat", thinker.to_str().unwrap(), "-t", "1"]).stdin(lines).outcome();
    // The second one's marks no reasoning.
    assert_eq!(
        outcome.stdout, "Thinking...\nI wonder.\n...done thinking.\n\nHello there!\nx</think>y\n",
        "{outcome:?}"
    );
}
