//! Completions, manual pages, help and docs/cli.md: they say the same.

use std::{collections::BTreeSet, fs, path::Path};

use crate::program::candor;

const COMMANDS: [&str; 27] = [
    "run",
    "chat",
    "serve",
    "batch",
    "pull",
    "list",
    "rm",
    "show",
    "tokenize",
    "perplexity",
    "imatrix",
    "quantize",
    "compare",
    "gguf",
    "embed",
    "rerank",
    "bench",
    "trace",
    "logits",
    "diagnose",
    "verify",
    "doctor",
    "devices",
    "config",
    "completions",
    "man",
    "version",
];

/// The flags of a command's help, long and short.
fn flags(command: &str) -> BTreeSet<String> {
    let help = candor([command, "--help"]).text();
    // Deeper lines are continued from the one above.
    let lines = help.lines().filter(|line| line.len() - line.trim_start().len() <= 6).map(str::trim_start);
    let lines = lines.filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split("  ").next().unwrap_or_default().split(", "));
    let flags = words.map(|word| word.split([' ', '[', '=']).next().unwrap_or_default().to_owned());
    flags.filter(|flag| !matches!(flag.as_str(), "-h" | "--help")).collect()
}

fn reference() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    fs::read_to_string(path).expect("docs/cli.md")
}

/// The flags that a section of the reference names, each between backquotes of its own.
fn named(section: &str) -> BTreeSet<String> {
    let codes = section.split('`').skip(1).step_by(2).filter(|code| code.starts_with('-') && !code.contains(' '));
    let flags: BTreeSet<String> =
        codes.map(|code| code.split(['=', '[']).next().unwrap_or_default().to_owned()).collect();
    // llama.cpp's flags of one dash that stand for long ones, and stdin.
    let others = [
        "-sys", "-sysf", "-ctk", "-ctv", "-jf", "-md", "-ub", "-pg", "-tb", "-Cr", "-dev", "-ngl", "-np", "-ts", "-sp",
        "-hf", "-hff", "-mu", "-",
    ]
    .map(str::to_owned)
    .into();
    flags.difference(&others).cloned().collect()
}

#[test]
fn the_reference_has_every_flag_and_no_other() {
    let text = reference().replace("```", "");
    let mut described = BTreeSet::new();
    for section in text.split("\n## candor ").skip(1) {
        let command = section.split_whitespace().next().expect("a name");
        let help = candor([command, "--help"]).text();
        let (flags, named) = (flags(command), named(section));
        let expected = match command {
            // Described by what it has not.
            "chat" => self::flags("run").difference(&flags).cloned().collect(),
            _ => flags,
        };
        let missing: Vec<_> = expected.difference(&named).collect();
        assert!(missing.is_empty(), "candor {command}: missing {missing:?}");
        // Aliases may be named, too.
        let unknown: Vec<_> = named.difference(&expected).filter(|flag| !help.contains(flag.as_str())).collect();
        assert!(unknown.is_empty(), "candor {command}: unknown {unknown:?}");
        described.insert(command.to_owned());
    }
    assert_eq!(described, COMMANDS.map(str::to_owned).into());
}

#[test]
fn the_reference_has_every_command_of_a_conversation() {
    let help = candor(["chat"]).stdin("/help\n").outcome().stderr;
    let text = reference();
    let names = help.split_whitespace().filter(|word| word.starts_with('/') && word.len() > 1);
    let missing: Vec<_> = names.filter(|name| !text.contains(&format!("`{name}"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_example_of_a_configuration_file_is_valid() {
    let text = reference();
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let shown = candor(["config"]).config(example).text();
    let keys = example.lines().filter_map(|line| line.split_once(" = ")).filter(|(key, _)| !key.starts_with('#'));
    let mut count = 0;
    for (key, _) in keys {
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(key));
        assert!(line.is_some_and(|line| line.ends_with("(file)")), "{key}: {line:?}");
        count += 1;
    }
    assert!(count > 3);
}

#[test]
fn completions_know_commands_and_flags() {
    for (shell, mark) in [
        ("bash", "complete -F _candor"),
        ("zsh", "#compdef candor"),
        ("fish", "complete -c candor"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion:arg-completer[candor]"),
    ] {
        let script = candor(["completions", shell]).text();
        assert!(script.contains(mark), "{shell}: {script}");
        for word in ["perplexity", "top-nsigma", "chat-template-file"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(candor(["completions", "tcsh"]).outcome().code, 2);
}

#[cfg(unix)]
#[test]
fn bash_completes_with_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("candor.bash");
    fs::write(&script, candor(["completions", "bash"]).text()).unwrap();
    let ask = format!(
        "source {}; COMP_WORDS=(candor run --top-n); COMP_CWORD=2; COMP_LINE='candor run --top-n'; \
         _candor candor --top-n run; echo \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let Ok(output) = std::process::Command::new("bash").args(["-c", &ask]).output() else {
        eprintln!("skipped: there is no bash");
        return;
    };
    let reply = String::from_utf8(output.stdout).unwrap();
    assert!(reply.contains("--top-nsigma"), "{reply:?} {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn help_is_short_by_letter_and_long_by_name() {
    let [short, long, help] = [["run", "-h"], ["run", "--help"], ["help", "run"]].map(|args| candor(args).text());
    assert_eq!(long, help);
    assert!(short.lines().count() < 60, "{short}");
    assert!(short.contains("--temp <T>") && !short.contains("--top-nsigma"), "{short}");
    assert!(short.contains("  cat report.txt | candor run model.gguf -p \"Summarise:\"\n"), "{short}");
    assert!(short.contains("All flags: candor help run"), "{short}");
    assert!(long.contains("--top-nsigma") && long.contains("CANDOR_TOP_K"), "{long}");
    let top = candor(["help"]).text();
    assert!(top.contains("candor chat model.gguf") && top.contains("candor help run"), "{top}");
    assert_eq!(candor(["-h"]).text(), top);
    let wrong = candor(["help", "rum"]).outcome();
    assert!(wrong.code == 2 && wrong.stderr.contains("rum"), "{wrong:?}");
}

#[test]
fn the_version_is_a_command() {
    let version = candor(["version"]).text();
    assert_eq!(version, format!("candor {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(candor(["--version"]).text(), version);
}

#[test]
fn manual_pages_are_roff() {
    let page = candor(["man"]).text();
    assert!(page.contains(".TH candor 1"), "{page}");
    for command in COMMANDS {
        assert!(page.contains(command), "{command}");
    }
    let page = candor(["man", "run"]).text();
    assert!(page.contains(".TH candor-run 1") && page.contains("top\\-nsigma"), "{page}");
    for (command, example, code) in [
        ("run", "candor run model.gguf \"Why is the sky blue?\"", "The command line is wrong."),
        ("verify", "candor verify model.gguf", "An error keeps it from a verdict."),
    ] {
        let page = candor(["man", command]).text();
        for section in ["EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES"] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{command}: no {section}: {page}");
        }
        assert!(page.contains(&example.replace('-', "\\-")) && page.contains(code), "{command}: {page}");
    }
    let error = candor(["man", "rum"]).error();
    assert_eq!(error, "error: rum is no command of candor\nhint: is run meant?");
}
