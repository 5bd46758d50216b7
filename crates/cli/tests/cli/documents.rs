//! Completions, manual pages, help and docs/cli.md: they say the same.

use std::{collections::BTreeSet, fs, path::Path};

use crate::program::candor;

const COMMANDS: [&str; 8] = ["run", "chat", "show", "tokenize", "perplexity", "config", "completions", "man"];

/// The flags of a command's help, long and short.
fn flags(command: &str) -> BTreeSet<String> {
    let help = candor([command, "--help"]).text();
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split("  ").next().unwrap_or_default().split(", "));
    words.map(|word| word.split([' ', '[', '=']).next().unwrap_or_default().to_owned()).collect()
}

fn reference() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    fs::read_to_string(path).expect("docs/cli.md")
}

#[test]
fn the_reference_has_every_flag_and_no_other() {
    let text = reference();
    let mut sections = text.split("\n## candor ");
    sections.next();
    let mut described = BTreeSet::new();
    for section in sections {
        let command = section.split_whitespace().next().expect("a name").to_owned();
        let section = section.split("\n## ").next().expect("a section");
        let quoted = section.split('`').skip(1).step_by(2).filter(|code| code.starts_with('-') && !code.contains(' '));
        let mut named: BTreeSet<String> = quoted.map(|code| code.split(['=', '[']).next().unwrap().to_owned()).collect();
        // Flags of llama.cpp with one dash that stand for long ones, and what every command has.
        for extra in ["-sys", "-sysf", "-ctk", "-ctv", "-ub", "-h", "--help", "-V", "--version", "-"] {
            named.remove(extra);
        }
        let mut expected = flags(&command);
        expected.retain(|flag| !matches!(flag.as_str(), "-h" | "--help"));
        // Aliases may be named, too.
        let help = candor([command.as_str(), "--help"]).text();
        let aliases: BTreeSet<String> =
            named.difference(&expected).filter(|flag| help.contains(flag.as_str())).cloned().collect();
        let unknown: Vec<_> = named.difference(&expected).filter(|flag| !aliases.contains(*flag)).collect();
        let missing: Vec<_> = expected.difference(&named).collect();
        assert!(unknown.is_empty() && missing.is_empty(), "candor {command}: unknown {unknown:?}, missing {missing:?}");
        described.insert(command);
    }
    assert_eq!(described, COMMANDS.map(str::to_owned).into());
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
fn manual_pages_are_roff() {
    let page = candor(["man"]).text();
    assert!(page.contains(".TH candor 1"), "{page}");
    for command in COMMANDS {
        assert!(page.contains(command), "{command}");
    }
    let page = candor(["man", "run"]).text();
    assert!(page.contains(".TH candor-run 1") && page.contains("top\\-nsigma"), "{page}");
    let error = candor(["man", "rum"]).error();
    assert_eq!(error, "error: rum is no command of candor\nhint: is run meant?");
}
