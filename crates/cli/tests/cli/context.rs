//! The context: its size, what happens when it is full, the cache, the batches, the device.

use crate::program::{STORY, candor, story};

fn long_prompt() -> String {
    "one two three four five ".repeat(8)
}

#[test]
fn a_prompt_longer_than_the_context_is_an_error_with_the_numbers() {
    let prompt = long_prompt();
    let ids = candor(["tokenize", "--ids", "-p", &prompt]).text();
    let tokens = ids.split(',').count();
    for flag in ["-c", "--ctx-size"] {
        let error = candor(["run", "--raw", flag, "16", "-p", &prompt]).error();
        let expected = format!("error: the prompt has {tokens} tokens, the context holds 16\nhint: -c N ");
        assert!(error.starts_with(&expected), "{error}");
        assert!(error.contains("--context-shift"), "{error}");
    }
    let fits = tokens.to_string();
    let outcome = candor(["run", "--raw", "-c", &fits, "-p", &prompt, "-n", "1", "--ignore-eos"]).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn a_full_context_ends_the_text_unless_it_may_shift() {
    let full = story(&["-c", "16", "--ignore-eos", "-v"]).outcome();
    assert_eq!(full.code, 0, "{full:?}");
    assert!(full.stderr.contains("stopped: the context of 16 tokens is full (-c N makes it longer"), "{full:?}");
    assert!(full.stderr.ends_with("stopped: context full\n"), "{full:?}");
    let shifted = story(&["-c", "16", "--ignore-eos", "-v", "-n", "40", "--context-shift"]).outcome();
    assert!(shifted.stderr.contains("decode: 40 tokens"), "{shifted:?}");
    // A prompt that is too long is shortened.
    let long = candor(["run", "--raw", "-c", "16", "--context-shift", "-n", "4", "--ignore-eos", "-p", &long_prompt()]);
    assert_eq!(long.outcome().code, 0);
}

#[test]
fn keep_changes_what_is_remembered() {
    let text = |args: &[&str]| {
        story(&[&["-c", "24", "--ignore-eos", "-n", "80", "--temp", "0", "--context-shift"], args].concat()).text()
    };
    let (none, some, all) = (text(&[]), text(&["--keep", "4"]), text(&["--keep", "-1"]));
    assert_eq!(none, text(&["--keep", "0"]));
    assert!(none != some || none != all, "{none:?}");
}

#[test]
fn the_context_and_its_cache_are_what_was_asked_for() {
    for (args, expected) in [
        (["-c", "32"].as_slice(), "context: 32 tokens, cache of "),
        (&["--ctx-size", "48"], "context: 48 tokens, cache of "),
        (&["-ctk", "f32", "-ctv", "f16"], " (keys f32, values f16)\n"),
        (&["--cache-type-k", "f16", "--cache-type-v", "f32"], " (keys f16, values f32)\n"),
        (&["-ctk", "q8_0", "-ctv", "q8_0"], " (keys q8_0, values q8_0)\n"),
        (&["-b", "8", "-ub", "4"], "batch: 8 tokens, computed 4 at once\n"),
        (&["--batch-size", "8", "--ubatch-size", "16"], "batch: 8 tokens, computed 8 at once\n"),
        (&["--device", "reference"], "device: reference\n"),
        (&["--backend", "reference"], "device: reference\n"),
        (&["--device", "cpu"], "device: cpu, "),
        (&["-t", "3"], " 3 threads\n"),
        (&["--threads", "1"], " 1 threads\n"),
        (&["-t", "1", "-tb", "2"], " 1 threads (2 for prompts)\n"),
        (&["-t", "3", "--threads-batch", "1"], " 3 threads (1 for prompts)\n"),
        (&["-t", "2", "--threads-batch", "0"], " 2 threads\n"),
        (&["--no-mmap"], "device: cpu, "),
    ] {
        for (command, text) in [("run", STORY.to_owned()), ("chat", STORY.to_owned()), ("perplexity", STORY.repeat(30))]
        {
            let length: &[&str] = if command == "perplexity" { &[] } else { &["-n", "2"] };
            let words = [&[command, "-v", "-c", "64"], length, args].concat();
            let outcome = candor(words).stdin(text).outcome();
            assert_eq!(outcome.code, 0, "{outcome:?}");
            assert!(outcome.stderr.contains(expected), "{command:?} {args:?}: {outcome:?}");
        }
    }
    let own = candor(["show", "--json"]).text();
    let own: serde_json::Value = serde_json::from_str(&own).unwrap();
    let outcome = story(&["-c", "0", "-n", "0", "-v"]).outcome();
    assert!(outcome.stderr.contains(&format!("context: {} tokens", own["dimensions"]["context"])), "{outcome:?}");
    let bytes = |args: &[&str]| {
        let outcome = candor(["run", "--raw", "-p", "a", "-n", "0", "-v"].iter().chain(args)).outcome();
        let line = outcome.stderr.lines().find(|line| line.starts_with("context: ")).unwrap().to_owned();
        line.split("cache of ").nth(1).unwrap().split(" (").next().unwrap().to_owned()
    };
    assert_ne!(bytes(&["-ctk", "f32"]), bytes(&[]));
    assert_ne!(bytes(&["-c", "64"]), bytes(&["-c", "128"]));
    // 6 layers of 3 heads: 2 * 34 bytes for each of 512 positions, half precision 2 * 64.
    assert_eq!((bytes(&["-ctk", "q8_0", "-ctv", "q8_0"]), bytes(&[])), ("627 kB".to_owned(), "1.18 MB".to_owned()));
}

#[test]
fn an_8_bit_cache_answers_much_the_same_and_needs_heads_of_whole_blocks() {
    let text = |cache: &str| {
        let line = format!("run --raw --temp 0 -n 24 --ignore-eos -ctk {cache} -ctv {cache}");
        candor(line.split(' ')).stdin(long_prompt()).text()
    };
    assert_eq!(text("q8_0").split_whitespace().next(), text("f32").split_whitespace().next());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, candor_testing::Tiny::default().bytes()).unwrap();
    let path = path.to_str().unwrap();
    for (flag, what) in [("-ctk", "keys"), ("-ctv", "values")] {
        for device in ["cpu", "reference"] {
            let error = candor(["run", path, "-p", "a", flag, "q8_0", "--device", device]).error();
            let expected = format!("error: cache of {what} in q8_0: expected heads of a multiple of 32, got ");
            assert!(error.starts_with(&expected) && error.contains("\nhint: -ctk f16"), "{error}");
        }
    }
}

#[test]
fn batches_threads_and_devices_give_the_same_text() {
    let text = |args: &[&str]| {
        let fixed = "run --raw --temp 0 -n 16 --ignore-eos -ctk f32 -ctv f32".split(' ');
        candor(fixed.chain(args.iter().copied())).stdin(long_prompt()).text()
    };
    let expected = text(&["-t", "1"]);
    assert_eq!(text(&["-t", "2"]), expected);
    assert_eq!(text(&["-t", "1", "-b", "7", "-ub", "3"]), expected);
    assert_eq!(text(&["-t", "1", "-ub", "1"]), expected);
    assert_eq!(text(&["-t", "1", "-tb", "3"]), expected);
    assert_eq!(text(&["-t", "3", "-tb", "1", "-ub", "4"]), expected);
}

/// The first processor that this process may use.
#[cfg(target_os = "linux")]
fn processor() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split(['-', ',']).next().unwrap().to_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn threads_keep_to_the_processors_that_are_named() {
    let one = processor();
    for args in [["-Cr", &one].as_slice(), &["--cpu-range", &one, "--cpu-strict", "1"]] {
        let outcome = story(&[&["-v", "-n", "1"], args].concat()).outcome();
        assert!(outcome.stderr.contains(" 1 threads\n"), "a thread per core of those: {outcome:?}");
    }
    for (list, problem) in
        [("two", "expected numbers and ranges"), ("8000", "this process may not use 8000, but these: ")]
    {
        let error = story(&["--cpu-range", list]).error();
        assert!(error.starts_with(&format!("error: processors {list}: {problem}")), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn huge_pages_are_taken_or_refused_by_name() {
    let choices = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let command = story(&["--huge-pages", "-n", "1"]);
    if choices.is_ok_and(|choices| !choices.contains("[never]")) {
        assert_eq!(command.outcome().code, 0);
    } else {
        assert!(command.error().starts_with("error: huge pages: the system "));
    }
}

#[test]
fn weights_that_are_read_give_the_same_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, candor_testing::Tiny::default().bytes()).unwrap();
    let path = path.to_str().unwrap();
    let text = |args: &[&str]| candor(["run", path, "-p", "a b", "-n", "8", "--temp", "0"].iter().chain(args)).text();
    assert_eq!(text(&["--no-mmap"]), text(&[]));
    let error = candor(["run", "no-such-folder", "-p", "a", "--no-mmap"]).error();
    assert!(error.starts_with("error: no-such-folder: no such file"), "{error}");
}

#[test]
fn verbose_tells_how_much_of_the_weights_lies_in_huge_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, candor_testing::Tiny::default().bytes()).unwrap();
    let path = path.to_str().unwrap();
    for (args, how) in [(&[][..], "mapped"), (&["--no-mmap"], "read into memory")] {
        let outcome = candor(["run", path, "-p", "a b", "-n", "1", "-v"].iter().chain(args)).outcome();
        let line = outcome.stderr.lines().find(|line| line.starts_with("weights: "));
        // A file of less than 2 MB has no room for a huge page.
        let expected = cfg!(target_os = "linux").then(|| format!("weights: {how}, 0 % in huge pages"));
        assert_eq!(line, expected.as_deref(), "{outcome:?}");
    }
}

/// Without it the same holds but on processors with AMX, where text may differ once two tokens are nearly as likely.
#[test]
fn a_batch_invariant_run_prints_the_same_numbers_for_any_batch() {
    let numbers = |args: &[&str]| {
        let fixed = "perplexity --batch-invariant -t 2 -c 16".split(' ');
        candor(fixed.chain(args.iter().copied())).stdin(long_prompt()).text()
    };
    let expected = numbers(&[]);
    assert!(expected.contains(|c: char| c.is_ascii_digit()), "{expected:?}");
    assert_eq!(numbers(&["-ub", "1"]), expected);
    assert_eq!(numbers(&["-ub", "37"]), expected);
    let text = |args: &[&str]| story(&[&["--temp", "0", "-n", "12"], args].concat()).text();
    assert_eq!(text(&["--batch-invariant"]), text(&["--batch-invariant", "-ub", "1"]));
    for command in ["run", "chat", "perplexity", "trace", "verify"] {
        let help = candor([command, "--help"]).text();
        assert!(help.contains("--batch-invariant"), "{command}: {help}");
        let wrong = candor([command, "--batch-invariant=perhaps"]).outcome();
        assert_eq!(wrong.code, 2, "{command}: {wrong:?}");
        assert!(wrong.stderr.contains("perhaps"), "{command}: {wrong:?}");
    }
}

#[test]
fn the_instruction_set_can_be_capped() {
    let capped = |isa: &str| story(&["-n", "1", "--ignore-eos", "-v"]).env("CANDOR_ISA", isa);
    let outcome = capped("scalar").outcome();
    assert!(outcome.stderr.contains("device: cpu, scalar kernels, "), "{outcome:?}");
    let error = capped("abacus").error();
    assert!(error.contains("abacus") && error.contains("\nhint: unset CANDOR_ISA"), "{error}");
}

#[test]
fn a_context_beyond_the_models_own_is_remarked() {
    let stderr = |context: &str| story(&["-c", context, "-n", "1"]).outcome().stderr;
    let trained: usize = candor::Model::builtin(&candor::LoadOptions::default()).unwrap().config().context;
    let note = format!("note: the model was made for {trained} tokens of context");
    assert!(stderr(&(trained + 1).to_string()).contains(&note));
    assert!(!stderr(&trained.to_string()).contains(&note));
}

#[test]
fn a_context_beyond_all_memory_is_refused() {
    let error = story(&["-c", "4294967295"]).error();
    assert!(
        error.starts_with("error: a context of 4294967295 tokens takes 9895.6 GB (keys and values 9895.6 GB, "),
        "{error}"
    );
    assert!(error.contains(" GB free (") && error.contains("\nhint: -c 512 fits; "), "{error}");
}

#[test]
fn the_reference_answers_too() {
    let outcome = candor(["run", "--device", "reference", "-p", "Hello", "-n", "8", "-s", "1"]).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
}
