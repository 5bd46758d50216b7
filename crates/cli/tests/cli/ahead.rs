//! What is done ahead of time, guessed tokens and kept prompts, changes no text.

use std::{fs, path::Path};

use crate::program::{STORY, candor, story};

/// The built-in model as a file, which is a good guesser for itself.
fn builtin() -> String {
    format!("{}/../candor/assets/candor-tiny.gguf", env!("CARGO_MANIFEST_DIR"))
}

/// Flags of a text that is the same every time.
const FIXED: [&str; 7] = ["-n", "30", "--ignore-eos", "-s", "5", "--batch-invariant", "-v"];

#[test]
fn guesses_change_no_text() {
    let builtin = builtin();
    for temp in ["0", "0.9"] {
        let plain = story(&[&FIXED[..], &["--temp", temp]].concat()).outcome();
        assert!(!plain.stderr.contains("draft"), "{plain:?}");
        for (flags, most) in [
            (&["-md", &builtin, "--draft-p-min", "0"][..], 16),
            (&["--model-draft", &builtin, "--draft", "3"], 3),
            (&["--prompt-lookup", "--draft-max", "4", "--draft-min", "1"], 4),
            (&["--prompt-lookup=false", "-md", &builtin], 16),
        ] {
            let guessed = story(&[&FIXED[..], &["--temp", temp], flags].concat()).outcome();
            assert_eq!((&guessed.stdout, guessed.code), (&plain.stdout, 0), "{flags:?}: {}", guessed.stderr);
            // A short text may repeat nothing.
            if flags[0] != "--prompt-lookup" {
                let line = guessed.stderr.lines().find(|line| line.starts_with("draft: ")).expect("a line on guesses");
                assert!(line.contains(" tokens accepted ("), "{line}");
                if temp == "0" {
                    assert!(line.ends_with("(100.0 %)"), "{line}: a model guesses itself, {most} at most");
                }
            }
        }
    }
    let lines = ["tell me a story", "/stats"].join("\n");
    let chat =
        candor(["chat", "-md", &builtin, "-n", "20", "--temp", "0", "--draft-p-min", "0"]).stdin(lines).outcome();
    assert!(chat.stderr.contains("\ndraft: "), "{chat:?}");
}

#[test]
fn guesses_that_cannot_be_are_refused() {
    let builtin = builtin();
    for (flags, expected) in [
        (&["-md", &builtin, "--prompt-lookup"][..], "--model-draft cannot be used together with --prompt-lookup"),
        (&["--draft-p-min", "2"], "invalid value '2' for '--draft-p-min <P>': expected a number from 0 to 1"),
        (&["--model-draft", "nowhere.gguf"], "error: nowhere.gguf: no such file"),
    ] {
        let error = story(flags).outcome();
        assert!(error.code != 0 && error.stderr.contains(expected), "{flags:?}: {error:?}");
    }
}

/// Tokens of the prompt that were computed.
fn computed(stderr: &str) -> &str {
    let line = stderr.lines().find_map(|line| line.strip_prefix("prompt: ")).expect("a line on the prompt");
    line.split(' ').next().unwrap_or_default()
}

#[test]
fn a_kept_prompt_is_not_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompt.cache");
    let file = path.to_str().unwrap();
    let fixed = ["--device", "cpu"];
    let with = |flags: &[&str]| story(&[&FIXED[..], &fixed, flags].concat()).outcome();
    let plain = with(&[]);
    let all = computed(&plain.stderr).to_owned();

    let first = with(&["--prompt-cache", file]);
    assert_eq!((&first.stdout, computed(&first.stderr)), (&plain.stdout, &all[..]));
    let written = fs::read(&path).unwrap();
    let second = with(&["--prompt-cache", file]);
    assert_eq!((&second.stdout, computed(&second.stderr)), (&plain.stdout, "0"), "{second:?}");

    // Other settings: said, and written again unless the file is only to be read.
    let other = ["--prompt-cache", file, "-ctk", "f32"];
    let expected = format!("prompt cache {file}: expected keys F32, values F16, ");
    let only_read = with(&[&other[..], &["--prompt-cache-ro"]].concat());
    assert!(only_read.stderr.contains(&expected) && only_read.stderr.contains("; starting afresh\n"), "{only_read:?}");
    assert!(fs::read(&path).unwrap() == written, "only read");
    assert!(with(&other).stderr.contains(&expected));
    assert_eq!(computed(&with(&other).stderr), "0");

    // Damaged, or cut.
    for damaged in [&written[..written.len() / 2], &[&written[..500], &[1; 40], &written[540..]].concat()] {
        fs::write(&path, damaged).unwrap();
        let outcome = with(&["--prompt-cache", file]);
        assert!(outcome.stderr.contains("the file is damaged"), "{outcome:?}");
        assert_eq!(outcome.stdout, plain.stdout);
    }

    // With the answer: a prompt that goes on with it is computed only for its last tokens.
    with(&["--prompt-cache", file, "--prompt-cache-all"]);
    assert!(fs::read(&path).unwrap().len() > written.len());
    let longer = format!("{STORY}{}", plain.stdout.trim_end());
    let again =
        candor([&["run", "--raw", "-p", &longer, "-t", "1", "--prompt-cache", file][..], &FIXED, &fixed].concat());
    let again = again.outcome();
    let computed: usize = computed(&again.stderr).parse().unwrap();
    assert!(computed < 30, "{again:?}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["prompt.cache"], "nothing is left beside it");
}

#[test]
fn a_file_that_is_no_prompt_cache_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "dear diary").unwrap();
    let error = story(&["--device", "cpu", "--prompt-cache", path.to_str().unwrap()]).error();
    assert!(error.contains("notes.txt: expected a prompt cache, got something else\nhint: "), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"dear diary");
    // An empty file, as mktemp makes it, is a beginning.
    fs::write(&path, "").unwrap();
    assert_eq!(story(&["-n", "1", "--device", "cpu", "--prompt-cache", path.to_str().unwrap()]).outcome().code, 0);
    assert!(fs::read(&path).unwrap().starts_with(b"candorpc"));
    let nowhere = Path::new("/nowhere/at/all");
    let error = story(&["-n", "1", "--device", "cpu", "--prompt-cache", nowhere.to_str().unwrap()]).error();
    assert!(error.starts_with("error: /nowhere/at/all: "), "{error}");
}
