//! Settings: a flag wins over its variable, a variable over the file; every flag has both.

use std::fs;

use crate::program::{candor, story};

/// A value that each flag of `candor run` takes, in the order of the help.
fn sample(flag: &str) -> &'static str {
    match flag {
        "lora-scaled" => "a.gguf:0.5",
        "model" | "prompt" | "file" | "system-prompt" | "system-prompt-file" | "chat-template"
        | "chat-template-file" | "hf-repo" | "hf-file" | "model-url" => "some text",
        "chat-template-kwargs" => "{}",
        "raw" | "escape" | "no-mmap" | "no-verify" | "huge-pages" | "fast" | "batch-invariant" | "ignore-eos"
        | "gpu-dequant" | "prompt-lookup" | "prompt-cache-all" | "prompt-cache-ro" | "context-shift" | "verbose"
        | "verbose-prompt" | "offline" | "skip-chat-parsing" | "hide-thinking" | "special" => "true",
        "think" => "low",
        "json-schema" | "json-schema-file" | "grammar" | "grammar-file" | "regex" => "some text",
        "reverse-prompt" | "dry-sequence-breaker" => "###",
        "override-kv" => "a.b=int:7",
        "rope-scaling" => "yarn",
        "samplers" => "top_k;temperature",
        "sampling-seq" => "kt",
        "logit-bias" => "3+1.5",
        "cache-type-k" | "cache-type-v" => "f32",
        "device" => "reference",
        "activations" => "f32",
        "cpu-range" => "0-0",
        "cpu-strict" => "1",
        "progress" => "never",
        "fit" | "truncate" => "off",
        "mirostat" => "2",
        "draft-p-min" => "0.5",
        _ => "7",
    }
}

/// The names of all flags of `candor run`, from `candor config`.
fn flags() -> Vec<String> {
    let shown = candor(["config"]).text();
    shown.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// The line of `candor config` for a flag, as its value and its source.
fn setting(shown: &str, flag: &str) -> (String, String) {
    let line = shown.lines().find(|line| line.split_whitespace().next() == Some(flag)).unwrap();
    let (value, source) = line[flag.len()..].rsplit_once(" (").unwrap();
    (value.trim().to_owned(), source.trim_end_matches(')').to_owned())
}

fn variable(flag: &str) -> String {
    format!("CANDOR_{}", flag.to_uppercase().replace('-', "_"))
}

#[test]
fn every_flag_has_a_variable_and_a_key_of_the_file() {
    let flags = flags();
    assert!(flags.len() > 45, "{flags:?}");
    // All keys at once, except those that only one of may be given.
    let file: String = flags.iter().map(|flag| format!("{flag} = \"{}\"\n", sample(flag))).collect();
    let from_file = candor(["config", "show"]).config(&file).text();
    let mut with_variables = candor(["config"]).config(&file);
    for flag in &flags {
        with_variables = with_variables.env(&variable(flag), sample(flag));
    }
    let from_variables = with_variables.text();
    let defaults = candor(["config"]).text();
    for flag in &flags {
        let value = sample(flag).to_owned();
        assert_eq!(setting(&defaults, flag).1, "default", "{flag}");
        assert_eq!(setting(&from_file, flag), (value.clone(), "file".to_owned()), "{flag}");
        assert_eq!(setting(&from_variables, flag), (value, format!("variable {}", variable(flag))), "{flag}");
    }
}

#[test]
fn a_flag_wins_over_a_variable_and_that_over_the_file() {
    let count = |program: crate::program::Program| {
        let outcome = program.outcome();
        let line =
            outcome.stderr.lines().find(|line| line.starts_with("decode: ")).unwrap_or_else(|| panic!("{outcome:?}"));
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let run = |args: &[&str]| story(&[&["-v", "--ignore-eos"], args].concat());
    assert_eq!(count(run(&[]).config("predict = 3")), "3");
    assert_eq!(count(run(&[]).config("predict = 3").env("CANDOR_PREDICT", "4")), "4");
    assert_eq!(count(run(&["-n", "5"]).config("predict = 3").env("CANDOR_PREDICT", "4")), "5");
    // Aliases count as the flag itself, in both.
    assert_eq!(count(run(&[]).config("max-tokens = 3")), "3");
    assert_eq!(count(run(&[]).config("n_predict = 3")), "3");
    assert_eq!(count(run(&[]).env("CANDOR_MAX_TOKENS", "4")), "4");
    // What is on can be switched off.
    let raw = |program: crate::program::Program| program.outcome().stderr.contains("prompt: \"Hi\"\n");
    let hi = |args: &[&str]| candor(["run", "-p", "Hi", "-n", "0", "--verbose-prompt"].iter().chain(args));
    assert!(!raw(hi(&[])));
    assert!(raw(hi(&[]).config("raw = true")));
    assert!(!raw(hi(&[]).config("raw = true").env("CANDOR_RAW", "0")));
    assert!(raw(hi(&["--raw"]).config("raw = true").env("CANDOR_RAW", "0")));
    assert!(!raw(hi(&["--raw=false"]).config("raw = true")));
}

#[test]
fn of_two_that_exclude_each_other_the_nearer_source_wins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, candor_testing::Tiny::default().bytes()).unwrap();
    let path = path.to_str().unwrap();
    let args = ["run", "-p", "a", "-n", "0", "-v"];
    for program in [
        candor(args).env("CANDOR_MODEL", path),
        candor(args).config(&format!("model = {path:?}")),
        candor(args.iter().chain(&[path])).env("CANDOR_MODEL", "no-such-model.gguf"),
        candor(args.iter().chain(&["-m", path])).config("model = \"no-such-model.gguf\""),
        candor(args).env("CANDOR_MODEL", path).config("model = \"no-such-model.gguf\""),
    ] {
        let outcome = program.outcome();
        assert!(outcome.stderr.starts_with(&format!("model: {path}, ")), "{outcome:?}");
    }
    let outcome =
        candor(["run", "--raw", "-p", "flag", "-n", "0", "--verbose-prompt"]).config("file = \"x\"").outcome();
    assert!(outcome.stderr.contains("prompt: \"flag\"\n"), "{outcome:?}");
    // A system prompt of the file is no reason to refuse --raw.
    let outcome = candor(["run", "--raw", "-p", "x", "-n", "0"]).config("system-prompt = \"be kind\"").outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn a_list_in_the_file_is_a_flag_given_several_times() {
    let shown = candor(["config"]).config("reverse-prompt = [\"a\", \"b c\"]").text();
    assert_eq!(setting(&shown, "reverse-prompt").0, "[\"a\", \"b c\"]");
}

#[test]
fn faults_of_file_and_variable_are_named() {
    let error = candor(["run", "-p", "x"]).config("tepm = 1").error();
    assert!(error.contains("config.toml: tepm is no setting\nhint: is temp meant?"), "{error}");
    let error = candor(["run", "-p", "x"]).config("temp = \"hot\"").error();
    assert!(
        error.contains("config.toml: invalid value 'hot' for '--temp <T>': expected a number such as 0.8"),
        "{error}"
    );
    let error = candor(["chat"]).config("temp = \n").error();
    assert!(error.contains("config.toml: line 1: "), "{error}");
    for (variable, value, expected) in [
        ("CANDOR_TOP_P", "0,9", "'--top-p <P>': expected a number such as 0.8"),
        ("CANDOR_MAX_TOKENS", "foo", "'--predict <N>': expected a whole number from -2 on"),
        ("CANDOR_THREADS", "1.5", "'--threads <N>': expected a whole number from 0 to 1024"),
        ("CANDOR_RAW", "maybe", "'--raw[=<BOOL>]': expected true or false"),
    ] {
        let error = candor(["run", "-p", "x"]).env(variable, value).error();
        assert_eq!(error, format!("error: variable {variable}: invalid value '{value}' for {expected}"));
    }
    let error = candor(["run", "-p", "x"]).env("CANDOR_TOP_K", "many").error();
    let expected = "error: variable CANDOR_TOP_K: invalid value 'many' for '--top-k <K>': expected a whole number";
    assert_eq!(error, expected);
    let error = candor(["run", "-p", "x"]).env("CANDOR_CONFIG", "no/such/file.toml").error();
    assert!(error.starts_with("error: no/such/file.toml: "), "{error}");
    // What has nothing to do with settings works whatever the file says.
    for args in [["config", "path"], ["completions", "bash"], ["man", "run"], ["run", "--help"]] {
        assert_eq!(candor(args).config("nonsense").outcome().code, 0, "{args:?}");
    }
}

#[test]
fn an_error_says_where_the_wrong_value_was_set() {
    let program = candor(["run", "-p", "x"]).config("model = \"none.gguf\"");
    let path = program.home().join("config.toml");
    let expected = format!("error: none.gguf: no such file (model in {})", path.display());
    assert_eq!(program.error().lines().next(), Some(expected.as_str()));
    for (variable, value, expected) in [
        ("CANDOR_MODEL", "none.gguf", "error: none.gguf: no such file (variable CANDOR_MODEL)"),
        ("CANDOR_FILE", "none.txt", "error: none.txt: no such file or directory (variable CANDOR_FILE)"),
        ("CANDOR_DEVICE", "no-such-card", "(variable CANDOR_DEVICE)"),
    ] {
        let error = candor(["run"]).env(variable, value).error();
        let line = error.lines().next().unwrap_or_default();
        assert!(line.starts_with(expected) || line.ends_with(expected), "{variable}: {error}");
    }
    // What is on the command line is seen there.
    let error = candor(["run", "none.gguf", "-p", "x"]).env("CANDOR_MODEL", "other.gguf").error();
    assert_eq!(error.lines().next(), Some("error: none.gguf: no such file"));
    // The exit code of a verdict that was not reached stays.
    assert_eq!(candor(["doctor"]).env("CANDOR_MODEL", "none.gguf").outcome().code, 2);
}

#[test]
fn variables_that_set_nothing_are_said() {
    let outcome = candor(["config"]).env("CANDOR_TMEP", "3").outcome();
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (0, "warning: CANDOR_TMEP sets nothing; is CANDOR_TEMP meant?\n")
    );
    let outcome = candor(["config"]).env("CANDOR_TEMP", "3").env("CANDOR_ISA", "").outcome();
    assert_eq!(outcome.stderr, "");
}

#[test]
fn the_file_is_found_in_the_platforms_folder() {
    let program = candor(["config", "path"]);
    let home = program.home();
    let path = program.text();
    let path = std::path::Path::new(path.trim_end());
    assert!(path.ends_with("config.toml"), "{path:?}");
    assert_eq!(candor(["config", "path"]).env("CANDOR_CONFIG", "/x/y.toml").text(), "/x/y.toml\n");
    assert!(
        candor(["config", "path"])
            .env("CANDOR_CONFIG", "")
            .error()
            .starts_with("error: there is no configuration file")
    );
    if cfg!(windows) {
        return;
    }
    let relative = path.strip_prefix(&home).expect("in the folder of the user");
    let program = candor(["config"]);
    let path = program.home().join(relative);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "top_k = 9\n").unwrap();
    assert_eq!(setting(&program.text(), "top-k"), ("9".to_owned(), "file".to_owned()));
}
