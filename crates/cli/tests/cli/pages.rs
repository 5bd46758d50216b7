//! Pages of docs/ whose commands print what the page says. `CANDOR_WRITE_EXPECTED=1` writes what they print into the page
//! instead: look at what changed.

use std::{fs, path::Path};

use crate::program::candor;

/// A part of a page.
enum Part<'a> {
    /// Words, with their line breaks.
    Words(&'a str),
    /// A command without its `$ `, and what it prints.
    Command(&'a str, &'a str),
}

/// A page in its parts: a command is the first line of a block of code.
fn parts(page: &str) -> Vec<Part<'_>> {
    const BEGIN: &str = "```\n$ ";
    const END: &str = "\n```\n";
    let mut parts = Vec::new();
    let mut rest = page;
    while let Some((words, block)) = rest.split_once(BEGIN) {
        let (block, after) = block.split_once(END).expect("a block ends");
        let (command, output) = block.split_once('\n').unwrap_or((block, ""));
        parts.extend([Part::Words(words), Part::Command(command, output)]);
        rest = after;
    }
    parts.push(Part::Words(rest));
    parts
}

/// What the page's variables stand for, as it exports them; `$T` is a folder of the test's.
fn variables(page: &str, folder: &str) -> Vec<(String, String)> {
    let exports = page.lines().filter_map(|line| line.strip_prefix("    export "));
    let one = |(name, value): (&str, &str)| (format!("${name}"), value.trim_matches('"').to_owned());
    let quoted = exports.clone().filter(|line| line.contains('"')).filter_map(|line| line.split_once('=')).map(one);
    let words = exports.filter(|line| !line.contains('"')).flat_map(str::split_whitespace);
    let all = quoted.chain(words.filter_map(|word| word.split_once('=')).map(one)).filter(|(name, _)| name != "$PATH");
    all.map(|(name, value)| if name == "$T" { (name, folder.to_owned()) } else { (name, value) }).collect()
}

/// Runs every command of a page, one after the other, and compares what stderr and stdout print; exit codes are at most `code`.
fn check(name: &str, code: i32) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs").join(name);
    let page = fs::read_to_string(&path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let variables = variables(&page, folder);
    let run = |command: &str| {
        let words = variables.iter().fold(command.to_owned(), |words, (name, value)| words.replace(name, value));
        let words = shlex::split(&words).expect("words of a shell");
        assert!(words[0] == "candor" && !words.iter().any(|word| word.contains('$')), "{words:?}");
        let outcome = candor(&words[1..]).within(&root).outcome();
        assert!(outcome.code <= code, "{command}: {outcome:?}");
        // A driver's own words are not ours.
        let ours = |line: &&str| !line.contains("XDG_RUNTIME_DIR");
        let lines: Vec<&str> = outcome.stderr.lines().filter(ours).chain(outcome.stdout.lines()).collect();
        lines.iter().map(|line| line.replace(folder, "/tmp").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    };
    let parts = parts(&page);
    let mut written = String::new();
    let mut commands = 0;
    let writes = std::env::var_os("CANDOR_WRITE_EXPECTED").is_some();
    for part in &parts {
        match *part {
            Part::Words(words) => written += words,
            Part::Command(command, expected) => {
                commands += 1;
                let printed = run(command);
                if !writes {
                    assert_eq!(printed.trim_end(), expected.trim_end(), "$ {command}");
                }
                let printed = if printed.is_empty() { printed } else { printed.trim_end().to_owned() + "\n" };
                written += &format!("```\n$ {command}\n{printed}```\n");
            }
        }
    }
    assert!(commands > 8, "{name} has commands");
    if writes {
        fs::write(&path, written).unwrap();
    }
}

#[test]
fn case_studies_print_what_the_page_says() {
    check("case-studies.md", 1);
}

#[test]
#[cfg(unix)]
fn the_first_day_is_as_the_page_says() {
    check("first-day.md", 2);
}
