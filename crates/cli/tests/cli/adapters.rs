//! LoRA adapters: what they do, what is said of them, and files that are none.

use std::{fs, path::Path};

use candor::Gguf;
use candor_testing::Lora;

use crate::program::{candor, story};

/// The built-in model as a file.
fn builtin() -> String {
    format!("{}/../candor/assets/candor-tiny.gguf", env!("CARGO_MANIFEST_DIR"))
}

/// An adapter of the built-in model that changes some of its matrices.
fn adapter(folder: &Path, name: &str, lora: Lora, part: &str) -> String {
    let model = Gguf::open(builtin()).unwrap();
    let mut writer = lora.writer(&model, |tensor| tensor.contains(part));
    writer.insert("adapter.lora.task_name", "nonsense");
    let path = folder.join(name);
    writer.write_file(&path).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Flags of a text that is the same every time.
const FIXED: [&str; 6] = ["-n", "24", "--ignore-eos", "--temp", "0", "--device"];

#[test]
fn adapters_change_texts_by_their_scales() {
    let folder = tempfile::tempdir().unwrap();
    // Strong enough that no table's rounding hides them.
    let first = adapter(folder.path(), "first.gguf", Lora { rank: 4, alpha: 96.0, seed: 1 }, "attn_q");
    let second = adapter(folder.path(), "second.gguf", Lora { rank: 2, alpha: 80.0, seed: 2 }, "ffn_down");
    let text = |flags: &[&str]| {
        let outcome = story(&[&FIXED[..], &["cpu"], flags].concat()).outcome();
        assert_eq!(outcome.code, 0, "{flags:?}: {}", outcome.stderr);
        outcome.stdout
    };
    let plain = text(&[]);
    let (both, one) = (text(&["--lora", &first, "--lora", &second]), text(&["--lora", &first]));
    assert!(plain != one && one != both && plain != both, "{plain:?} {one:?} {both:?}");
    let list = format!("{first},{second}");
    let halves = format!("{first}:0.5,{second}:0.5");
    for (flags, expected) in [
        (&["--lora", &list][..], &both),
        (&["--lora-scaled", &format!("{first}:1"), "--lora", &second], &both),
        (&["--lora-scaled", &format!("{first}:0,{second}:0")], &plain),
        (&["--lora-scaled", &format!("{first}:1,{second}:0")], &one),
    ] {
        assert_eq!(&text(flags), expected, "{flags:?}");
    }
    assert_ne!(text(&["--lora-scaled", &halves]), both);
    let said = story(&["-n", "1", "-v", "--lora-scaled", &format!("{first}:0.5")]).outcome().stderr;
    assert!(said.contains(&format!("adapter: {first} by 0.5, ")), "{said}");
    let file = folder.path().join("text.txt");
    fs::write(&file, "Once upon a time there was a little girl who liked to play in the park. ".repeat(3)).unwrap();
    let perplexity =
        |flags: &[&str]| candor([&["perplexity", "-c", "16", "-f", file.to_str().unwrap()][..], flags].concat()).text();
    assert_ne!(perplexity(&[]), perplexity(&["--lora", &first]));
}

#[test]
fn a_prompt_cache_belongs_to_adapters_and_scales() {
    let folder = tempfile::tempdir().unwrap();
    let lora = adapter(folder.path(), "first.gguf", Lora { rank: 4, alpha: 96.0, seed: 1 }, "attn_q");
    let cache = folder.path().join("prompt.cache");
    let text = |flags: &[&str]| story(&[&FIXED[..], &["cpu", "-v"], flags].concat()).outcome();
    let (full, cached) = (format!("{lora}:1"), ["--prompt-cache", cache.to_str().unwrap()]);
    let plain = text(&cached);
    let adapted = text(&[&["--lora", &lora][..], &cached].concat());
    assert!(adapted.stderr.contains("starting afresh") && adapted.stdout != plain.stdout, "{adapted:?}");
    let again = text(&[&["--lora-scaled", &full][..], &cached].concat());
    assert!(again.stderr.contains("prompt: 0 tokens") && again.stdout == adapted.stdout, "{again:?}");
    let other = text(&[&["--lora-scaled", &format!("{lora}:0.9")][..], &cached].concat());
    assert!(other.stderr.contains("starting afresh"), "{other:?}");
}

#[test]
fn what_an_adapter_is_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let lora = adapter(folder.path(), "first.gguf", Lora { rank: 4, alpha: 8.0, seed: 1 }, "attn_q");
    let shown = candor(["show", &lora]).text();
    for line in [
        "adapter       LoRA for llama models",
        "ranks         4",
        "alpha         8: changes are multiplied by the scale and 8 / rank",
        "task          \"nonsense\" (not applied)",
        "weights: attn_q x ",
        "blk.0.attn_q.weight.lora_a",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("not runnable") && !shown.contains("tokenizer"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&candor(["show", "--json", &lora]).text()).unwrap();
    assert_eq!(json["adapter"]["targets"][0]["rank"], 4);
    assert_eq!(json["adapter"]["alpha"], 8.0);
}

#[test]
fn what_is_no_adapter_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let lora = adapter(folder.path(), "first.gguf", Lora { rank: 4, alpha: 8.0, seed: 1 }, "attn_q");
    let builtin = builtin();
    for (flags, error, hint) in [
        (
            &["--lora", &builtin][..],
            format!("error: adapter {builtin}: metadata key general.type: expected \"adapter\", got \"model\""),
            "hint: --lora takes a LoRA adapter; a model is the argument, or follows -m",
        ),
        (
            &["-m", &lora],
            "error: the file is an adapter for llama models: it is no model itself".to_owned(),
            "hint: --lora FILE applies it to a model: candor run MODEL --lora FILE",
        ),
        (&["--lora", "nowhere.gguf"], "error: nowhere.gguf: no such file".to_owned(), ""),
        (
            &["--lora-scaled", "a.gguf"],
            "expected a file and its scale, such as adapter.gguf:0.5, got \"a.gguf\"".to_owned(),
            "",
        ),
    ] {
        let outcome = story(flags).outcome();
        assert!(outcome.code != 0 && outcome.stderr.contains(&error) && outcome.stderr.contains(hint), "{outcome:?}");
    }
}
