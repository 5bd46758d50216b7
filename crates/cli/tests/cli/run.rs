//! `candor run`: where the prompt comes from, what is printed, when it ends.

use std::{fs, io::Read};

use crate::program::{STORY, candor, story};

#[test]
fn the_built_in_model_answers_and_is_named_once() {
    let outcome = candor(["run", "-p", "Hello, how are you?", "-s", "1", "-n", "60"]).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.trim().len() > 1 && outcome.stdout.ends_with('\n'), "{outcome:?}");
    assert_eq!(outcome.stderr, "using the built-in model (name another: candor run MODEL.gguf)\n");
}

#[test]
fn the_built_in_model_repeats_names_that_it_has_never_met() {
    let corpus = fs::read_to_string("../../tools/train/corpus/names.py").unwrap();
    let held_out = corpus.split_once("HELD_OUT = \"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
    let names: Vec<&str> = held_out.split(' ').collect();
    assert_eq!(names.len(), 20);
    let answer = |name: &&str| {
        let prompt = format!("My name is {name}.");
        (name.to_string(), candor(["run", "--temp", "0", "-n", "40", "-t", "1", "-p", &prompt]).text())
    };
    let repeats = |(name, text): &(String, String)| text.split(|c: char| !c.is_alphabetic()).any(|word| word == name);
    let (right, wrong): (Vec<_>, Vec<_>) = names.iter().map(answer).partition(repeats);
    assert!(right.len() >= 18 && right[0].0 == "Bob", "{wrong:?}");
}

#[test]
fn the_prompt_is_an_argument_a_file_or_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompt.txt");
    fs::write(&path, format!("{STORY}\n")).unwrap();
    let path = path.to_str().unwrap();
    let fixed = ["run", "--raw", "-t", "1", "--temp", "0", "-n", "12"];
    let expected = story(&["--temp", "0", "-n", "12"]).text();
    assert!(expected.len() > 5, "{expected:?}");
    assert_eq!(candor(fixed.iter().chain(&["-f", path])).text(), expected);
    assert_eq!(candor(fixed.iter().chain(&["--file", path])).text(), expected);
    assert_eq!(candor(fixed.iter().chain(&["--prompt", STORY])).text(), expected);
    assert_eq!(candor(fixed).stdin(STORY).text(), expected);
    assert_eq!(candor(fixed).stdin(format!("{STORY}\r\n")).text(), expected);
    assert_eq!(candor(fixed.iter().chain(&["-f", "-"])).stdin(STORY).text(), expected);
    // A second line break belongs to the prompt.
    let two = candor(fixed.iter().chain(&["--verbose-prompt"])).stdin("a\n\n").outcome();
    assert!(two.stderr.contains("prompt: \"a\\n\"\n"), "{two:?}");
}

#[test]
fn two_prompts_or_two_models_are_wrong_usage() {
    for (args, message) in [
        (vec!["run", "-p", "a", "-f", "b"], "cannot be used together"),
        (vec!["run", "a.gguf", "-m", "b.gguf", "-p", "x"], "cannot be used together"),
        (vec!["run", "-p", "a", "--system-prompt", "a", "--system-prompt-file", "b"], "cannot be used together"),
        (vec!["run", "-p", "a", "--raw", "--chat-template-file", "b"], "cannot be used together"),
        (vec!["run", "-p", "a", "--raw", "--chat-template", "chatml"], "cannot be used together"),
        (vec!["run", "-p", "a", "--chat-template", "chatml", "--chat-template-file", "b"], "cannot be used together"),
        (vec!["run", "-p", "a", "--raw", "--think"], "cannot be used together"),
        (vec!["run", "-p", "a", "--think=1.5"], "expected true, false, or a level"),
        (vec!["run", "-p", "a", "--raw", "--chat-template-kwargs", "{}"], "cannot be used together"),
        (vec!["run", "-p", "a", "--chat-template-kwargs", "[1]"], "expected a JSON object"),
        (vec!["run", "--temp"], "a value is required"),
        (vec!["run", "-n", "-3"], "invalid value '-3'"),
        (vec!["run", "-n", "many"], "invalid value 'many' for '--predict <N>': expected a whole number from -2 on\n"),
        (
            vec!["run", "-t", "1025"],
            "invalid value '1025' for '--threads <N>': expected a whole number from 0 to 1024\n",
        ),
        (vec!["run", "--min-p", "0,1"], "invalid value '0,1' for '--min-p <P>': expected a number such as 0.8\n"),
        (
            vec!["run", "-temp", "1"],
            "unexpected argument '-temp' found\n\n  tip: --temp has two dashes\n\nUsage: candor run",
        ),
        (vec!["chat", "-model=a.gguf"], "unexpected argument '-model' found\n\n  tip: --model has two dashes\n"),
        (vec!["rnu"], "tip: a similar subcommand exists: 'run'"),
        (
            vec!["run", "--tmep", "1"],
            "tip: a similar argument exists: '--temp'\n\nUsage: candor run [OPTIONS] [MODEL] [PROMPT]\n",
        ),
        (vec!["run", "-c", "-1"], "unexpected argument '-1'"),
        (vec!["run", "-ctk", "q4_1"], "invalid value 'q4_1'"),
        (vec!["run", "--mirostat", "3"], "invalid value '3'"),
        (vec!["run", "-l", "5"], "expected a token id, + or -, and a number"),
        (vec!["run", "--no-such-flag"], "unexpected argument '--no-such-flag'"),
        (vec!["run", "--tepm", "1"], "a similar argument exists: '--temp'"),
        (vec!["rum"], "a similar subcommand exists: 'run'"),
        (vec!["run", "-hft", "x", "-p", "hi"], "unexpected argument '-hft' found\n\n  tip: HF_TOKEN gives the token"),
        (vec!["run", "-sm", "row", "-p", "b"], "tip: several GPUs share a model by layers"),
        (vec!["run", "a", "b", "-p", "c"], "[PROMPT] cannot be used together with --prompt"),
        (vec!["embed", "--numa"], "(docs/performance.md)\n\nUsage: candor embed [OPTIONS] [MODEL]\n"),
        (vec!["run", "--override-kv", "a=1"], "expected KEY=TYPE:VALUE with a type of int, float, bool or str, got"),
        (vec!["run", "--rope-scale", "0"], "expected a number above 0, such as 4"),
        (vec!["run", "--rope-scaling", "ntk"], "invalid value 'ntk'"),
        (vec!["run", "--rope-scale", "4", "--rope-freq-scale", "0.25", "-p", "a"], "cannot be used together"),
        (vec!["chat", "--special"], "tip: candor run has it"),
        (vec!["run", "--reasoning-budget", "64"], "tip: --think=false"),
        (vec!["run", "-sm", "none"], "--device NAME computes on one of them"),
        (vec!["search", "llama"], "tip: candor run hf:USER/REPO fetches a model by its name"),
        (vec!["launch", "claude"], "tip: candor starts no other programs"),
        (vec!["chat", "m.gguf", "why?", "so"], "unexpected argument 'so' found"),
        (vec!["-m", "m.gguf"], "tip: a command comes first"),
        (vec!["m.gguf"], "tip: candor run m.gguf"),
        (vec!["server"], "tip: candor serve answers over HTTP"),
        (vec!["ls"], "tip: candor list lists the models on this machine"),
        (vec!["run", "-p", "a", "-f", "b"], "Usage: candor run"),
    ] {
        let outcome = candor(&args).outcome();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{args:?}: {outcome:?}");
        assert!(outcome.stderr.contains(message), "{args:?}: {outcome:?}");
        assert!(!outcome.stderr.contains("as a value"), "{args:?}: {outcome:?}");
    }
}

#[test]
fn flags_of_llama_cpp_that_change_nothing_are_taken_with_a_note() {
    let expected = story(&["--temp", "0", "-n", "12"]).text();
    let theirs =
        ["-fa", "on", "--mlock", "-no-cnv", "-st", "--jinja", "--color", "--no-warmup", "--no-perf", "-lv", "3"];
    let more =
        ["--no-display-prompt", "--simple-io", "--log-disable", "-sm", "layer", "--no-context-shift", "--no-escape"];
    let fixed = ["run", "-p", STORY, "-t", "1", "--temp", "0", "-n", "12", "-tb", "-1"];
    let outcome = candor(fixed.iter().chain(&theirs).chain(&more)).outcome();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, expected.as_str()), "{outcome:?}");
    let notes: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains(" changes nothing here: ")).collect();
    assert_eq!(notes.len(), 12, "{outcome:?}");
    assert!(notes.contains(&"note: -fa changes nothing here: attention is always computed in blocks"), "{outcome:?}");
}

#[test]
fn the_prompt_is_an_argument_after_the_model_and_a_pipe_follows_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, candor_testing::Tiny::default().bytes()).unwrap();
    let path = path.to_str().unwrap();
    let fixed = ["-n", "2", "--verbose-prompt"];
    let seen = |args: &[&str], stdin: Option<&str>| {
        let program = candor(args.iter().chain(&fixed));
        let outcome = stdin.into_iter().fold(program, |program, text| program.stdin(text)).outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        outcome.stderr.lines().find_map(|line| line.strip_prefix("prompt: ").map(str::to_owned)).expect("a prompt")
    };
    assert_eq!(seen(&["run", path, "a b"], None), r#""a b""#);
    assert_eq!(seen(&["run", path, "a b"], Some("c\nd\n")), r#""a b\nc\nd""#);
    assert_eq!(seen(&["run", path, "-p", "a"], Some("b")), r#""a\nb""#);
    assert_eq!(seen(&["run", path, "-p", "a"], Some("")), r#""a""#);
    assert_eq!(seen(&["run", path], Some("b")), r#""b""#);
}

#[test]
fn the_model_is_an_argument_or_a_flag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, candor_testing::Tiny::default().bytes()).unwrap();
    let path = path.to_str().unwrap();
    for args in [["run", path].as_slice(), &["run", "-m", path], &["run", "--model", path]] {
        let outcome = candor(args.iter().chain(&["-p", "a b", "-n", "4", "--temp", "0", "-v"])).outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(outcome.stderr.starts_with(&format!("model: {path}, llama, ")), "{outcome:?}");
    }
}

#[test]
fn n_0_prints_nothing_and_n_bounds_the_tokens() {
    for args in [["-n", "0"].as_slice(), &["--predict", "0"], &["--n-predict", "0"], &["--max-tokens", "0"]] {
        assert_eq!(story(args).text(), "", "{args:?}");
    }
    assert_eq!(candor(["run", "-p", "Hello", "-n", "0"]).text(), "");
    // Of a flag that is given twice the last one counts.
    let outcome = story(&["-n", "3", "--ignore-eos", "-v", "--predict", "7"]).outcome();
    assert!(outcome.stderr.contains("\ndecode: 7 tokens, "), "{outcome:?}");
    assert!(outcome.stderr.ends_with("stopped: -n tokens generated\n"), "{outcome:?}");
}

#[test]
fn text_comes_piece_by_piece() {
    let mut program = story(&["--ignore-eos", "--context-shift", "--temp", "0"]);
    let mut child = program.spawn();
    let mut first = [0; 16];
    // An endless answer: this returns only if pieces are not held back until the end.
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn without_a_template_or_with_raw_the_text_is_continued() {
    let prompt = |args: &[&str]| {
        let outcome = candor(["run", "-n", "0", "--verbose-prompt", "-p", "Hi"].iter().chain(args)).outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        outcome.stderr.lines().find(|line| line.starts_with("prompt: ")).unwrap().to_owned()
    };
    assert_eq!(prompt(&["--raw"]), "prompt: \"Hi\"");
    assert_eq!(prompt(&["--no-chat-template"]), "prompt: \"Hi\"");
    assert_eq!(prompt(&["--raw=true"]), "prompt: \"Hi\"");
    let put = prompt(&[]);
    assert!(put.contains("Hi") && put.len() > "prompt: \"Hi\"".len(), "{put}");
    assert_eq!(prompt(&["--raw=false"]), put);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, candor_testing::Tiny::default().bytes()).unwrap();
    assert_eq!(prompt(&["-m", path.to_str().unwrap()]), "prompt: \"Hi\"");
}

#[test]
fn a_system_prompt_and_a_template_shape_what_the_model_sees() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template.jinja");
    fs::write(&template, "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}").unwrap();
    let system = folder.path().join("system.txt");
    fs::write(&system, "be kind\n").unwrap();
    let (template, system) = (template.to_str().unwrap(), system.to_str().unwrap());
    for (args, expected) in [
        (["-p", "Hi", "-sys", "be short"].as_slice(), "[system:be short][user:Hi]"),
        (&["-p", "Hi", "--system-prompt", "be short"], "[system:be short][user:Hi]"),
        (&["-p", "Hi", "-sysf", system], "[system:be kind][user:Hi]"),
        (&["-p", "Hi", "--system-prompt-file", system], "[system:be kind][user:Hi]"),
        (&["-p", "-x -y"], "[user:-x -y]"),
        (&["-p", r"a\tb\x21"], r"[user:a\\tb\\x21]"),
        (&["-p", r"a\tb\x21", "-sys", r"\n", "-e"], r"[system:\n][user:a\tb!]"),
        (&["-p", r"a\tb\x21", "--escape"], r"[user:a\tb!]"),
    ] {
        let fixed = ["run", "-n", "0", "--verbose-prompt", "--chat-template-file", template];
        let outcome = candor(fixed.iter().chain(args)).outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(outcome.stderr.contains(&format!("prompt: \"{expected}\"\n")), "{args:?}: {outcome:?}");
    }
    assert_eq!(
        candor(["run", "--raw", "-sys", "x", "-p", "y"]).error(),
        "error: a system prompt needs a chat template, and --raw goes without\n\
         hint: --chat-template NAME or --chat-template-file FILE gives the model a template"
    );
}

#[test]
fn the_template_sees_variables() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template.jinja");
    let source = "[{{ 'off' if enable_thinking is false else 'on' }}]{{ colours|tojson }}{{ messages[-1].content }}";
    fs::write(&template, source).unwrap();
    let template = template.to_str().unwrap();
    let json = r#"{"enable_thinking": false, "colours": ["red", {"b": null}]}"#;
    let flags = ["-n", "1", "-t", "1", "--chat-template-file", template];
    let run = ["run", "-p", "Hi", "--verbose-prompt"];
    let expected = r#"prompt: "[off][\"red\", {\"b\": null}]Hi""#;
    let from_flag = candor(run.iter().chain(&flags).chain(&["--chat-template-kwargs", json])).outcome();
    assert!(from_flag.code == 0 && from_flag.stderr.contains(expected), "{from_flag:?}");
    let from_variable = candor(run.iter().chain(&flags)).env("CANDOR_CHAT_TEMPLATE_KWARGS", json).outcome();
    assert!(from_variable.stderr.contains(expected), "{from_variable:?}");
    let file = format!("chat-template-kwargs = '{json}'");
    assert!(candor(run.iter().chain(&flags)).config(&file).outcome().stderr.contains(expected));

    // In a conversation, too: a template that refuses without its variable.
    fs::write(template, "{{ messages[0].content if go else raise_exception('go is missing') }}").unwrap();
    let chat = |more: &[&str]| candor(["chat"].iter().chain(&flags).chain(more)).stdin("Hi\n").outcome();
    let outcome = chat(&[]);
    assert!(outcome.code == 1 && outcome.stderr.contains("go is missing"), "{outcome:?}");
    assert_eq!(chat(&["--chat-template-kwargs", "{\"go\": 1}"]).code, 0);
}

#[test]
fn verbose_prompt_lists_the_tokens() {
    let outcome = candor(["run", "--raw", "-p", "Hello", "-n", "0", "--verbose-prompt"]).outcome();
    let ids = candor(["tokenize", "-p", "Hello", "--ids"]).text();
    let listed: Vec<&str> = outcome.stderr.lines().skip_while(|line| !line.starts_with("prompt tokens: ")).collect();
    let expected: Vec<&str> = ids.trim_matches(['[', ']', '\n']).split(", ").collect();
    assert_eq!(listed[0], format!("prompt tokens: {}", expected.len()));
    let numbers: Vec<&str> = listed[1..].iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn an_empty_prompt_is_said_and_handled() {
    for program in [candor(["run", "-p", ""]), candor(["run"]).stdin(""), candor(["run"]).stdin(" \n")] {
        assert_eq!(
            program.error(),
            "error: the prompt is empty\nhint: give one with -p TEXT, or --raw to let the model begin a text of its own"
        );
    }
    let outcome = candor(["run", "--raw", "-p", "", "-n", "5", "--temp", "0", "--verbose-prompt"]).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stderr.contains("note: the prompt is empty, the model begins a text of its own\n"), "{outcome:?}");
    assert!(outcome.stderr.contains("prompt tokens: 1\n     1 \"<s>\"\n"), "{outcome:?}");
}

#[test]
fn invalid_utf8_and_unknown_escapes_are_one_line() {
    let error = candor(["run"]).stdin(b"abc\xff\xfe").error();
    assert_eq!(error, "error: stdin: expected UTF-8, got byte 0xff at offset 3");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latin1.txt");
    fs::write(&path, b"caf\xe9 au lait").unwrap();
    let error = candor(["run", "-f", path.to_str().unwrap()]).error();
    assert!(error.ends_with("latin1.txt: expected UTF-8, got byte 0xe9 at offset 3"), "{error}");
    let error = candor(["run", "-e", "-p", r"a\q"]).error();
    assert!(error.starts_with("error: escape \\q is unknown\nhint: "), "{error}");
    let error = candor(["run", "-f", "no-such-file.txt"]).error();
    assert!(error.starts_with("error: no-such-file.txt: "), "{error}");
}

#[test]
fn a_reverse_prompt_ends_the_text_before_it() {
    let whole = story(&["--temp", "0", "-n", "40", "--ignore-eos"]).text();
    let words: Vec<&str> = whole.split_whitespace().collect();
    let word = words.iter().rev().find(|word| word.is_ascii() && word.len() > 2).expect("a word");
    let expected = &whole[..whole.find(word).unwrap()];
    for args in [["-r", word], ["--reverse-prompt", word]] {
        let flags = ["--temp", "0", "-n", "40", "--ignore-eos", "-v"];
        let outcome = story(&[&flags[..], &args[..]].concat()).outcome();
        assert_eq!(outcome.stdout.trim_end_matches('\n'), expected.trim_end_matches('\n'), "{outcome:?}");
        assert!(outcome.stderr.ends_with("stopped: reverse prompt\n"), "{outcome:?}");
    }
    // Two of them: the first that comes ends it. Escapes are read on request.
    let two = story(&["--temp", "0", "-n", "40", "--ignore-eos", "-r", "\u{1f600}", "-r", word]).text();
    assert_eq!(two.trim_end_matches('\n'), expected.trim_end_matches('\n'));
    let escaped: String = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    let flags = ["--temp", "0", "-n", "40", "--ignore-eos", "-r", &escaped];
    assert_eq!(story(&flags).text(), whole);
    assert_eq!(story(&[&flags[..], &["-e"]].concat()).text().trim_end_matches('\n'), expected.trim_end_matches('\n'));
}

#[test]
fn ignore_eos_goes_on_where_the_model_would_end() {
    // A bias so large that the model ends at once, unless that is forbidden.
    let bias = ["-l", "2+1000", "-n", "5", "-v"];
    let ended = story(&bias).outcome();
    assert_eq!(ended.stdout, "", "{ended:?}");
    assert!(ended.stderr.ends_with("stopped: end of text\n"), "{ended:?}");
    let outcome = story(&[&bias[..], &["--ignore-eos"]].concat()).outcome();
    assert!(outcome.stderr.contains("decode: 5 tokens"), "{outcome:?}");
    assert!(outcome.stderr.ends_with("stopped: -n tokens generated\n"), "{outcome:?}");
}

#[test]
fn verbose_says_what_ran_and_how_fast() {
    let outcome = story(&["-n", "3", "--ignore-eos", "--verbose"]).outcome();
    let starts = [
        "using the built-in model",
        "model: built-in model, llama, ",
        "device: cpu, ",
        "context: ",
        "batch: 2048 tokens",
    ];
    let rest = ["sampling: temperature 0.8, ", "seed: ", "load: 0.", "prompt: ", "decode: 3 tokens, ", "stopped: "];
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), starts.len() + rest.len(), "{outcome:?}");
    for (line, start) in lines.iter().zip(starts.iter().chain(&rest)) {
        assert!(line.starts_with(start), "{line} {start}");
    }
    assert!(lines[8].ends_with(" tok/s") && lines[9].ends_with(" tok/s"), "{outcome:?}");
    assert!(story(&["-n", "3"]).outcome().stderr.lines().count() == 1);
}

#[test]
fn help_and_version() {
    let version = candor(["--version"]).text();
    assert_eq!(version, format!("candor {}\n", env!("CARGO_PKG_VERSION")));
    let alone = candor::<&str>([]).outcome();
    assert_eq!(alone.code, 2, "{alone:?}");
    assert!(alone.stderr.contains("Usage: candor <COMMAND>"), "{alone:?}");
    let help = candor(["run", "--help"]).text();
    for heading in ["Model:", "Prompt:", "Generation:", "Sampling:", "Context:", "Performance:", "Output:"] {
        assert!(help.contains(&format!("\n{heading}\n")), "{heading}");
    }
}

#[test]
fn special_tokens_are_printed_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, candor_testing::Tiny::default().bytes()).unwrap();
    // Two tokens of a letter, whose text is the same, and the one that ends a text.
    let run = |bias: &str, flags: &[&str]| {
        let fixed = ["run", path.to_str().unwrap(), "-p", "a b", "--temp", "0", "-n", "2", "-l", bias];
        candor(fixed.iter().chain(flags)).text()
    };
    assert_eq!(run("2+1000", &[]), "");
    assert_eq!(run("2+1000", &["--special"]), "</s>\n");
    assert_eq!(run("2+1000", &["-sp"]), "</s>\n");
    assert_eq!(run("1+1000", &[]), "");
    assert_eq!(run("1+1000", &["-sp"]), "<s><s>\n");
    assert_eq!(run("260+1000", &["-sp"]), run("260+1000", &[]));
}

#[test]
fn n_minus_2_ends_with_the_context_and_shifts_nothing() {
    let flags = ["-c", "32", "--ignore-eos", "--context-shift", "-s", "1"];
    let outcome = story(&[&flags[..], &["-n", "-2"]].concat()).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stderr.contains("stopped: the context of 32 tokens is full"), "{outcome:?}");
    let shifted = story(&[&flags[..], &["-n", "60"]].concat()).outcome();
    assert!(shifted.code == 0 && !shifted.stderr.contains("is full"), "{shifted:?}");
    assert!(shifted.stdout.len() > outcome.stdout.len(), "{shifted:?}");
}
