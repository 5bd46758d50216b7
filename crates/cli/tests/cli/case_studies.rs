//! docs/case-studies.md: every command on the page prints what the page says. `CANDOR_WRITE_EXPECTED=1` writes what they
//! print into the page instead: look at what changed.

use std::{fs, path::Path, thread};

use crate::program::candor;

/// A part of the page.
enum Part<'a> {
    /// Words, with their line breaks.
    Words(&'a str),
    /// A command without its `$ `, and what it prints.
    Command(&'a str, &'a str),
}

/// The page in its parts: a command is the first line of a block of code.
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

/// What the page's variables stand for, as it exports them.
fn variables(page: &str) -> Vec<(String, String)> {
    let exports = page.lines().filter_map(|line| line.strip_prefix("    export "));
    let one = |(name, value): (&str, &str)| (format!("${name}"), value.trim_matches('"').to_owned());
    let quoted = exports.clone().filter(|line| line.contains('"')).filter_map(|line| line.split_once('=')).map(one);
    let words = exports.filter(|line| !line.contains('"')).flat_map(str::split_whitespace);
    quoted.chain(words.filter_map(|word| word.split_once('=')).map(one)).filter(|(name, _)| name != "$PATH").collect()
}

#[test]
fn every_command_on_the_page_prints_what_the_page_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/case-studies.md");
    let page = fs::read_to_string(&path).unwrap();
    let variables = variables(&page);
    let run = |command: &str| {
        let words = variables.iter().fold(command.to_owned(), |words, (name, value)| words.replace(name, value));
        let words: Vec<&str> = words.split_whitespace().collect();
        assert!(words[0] == "candor" && !words.iter().any(|word| word.contains('$')), "{words:?}");
        let outcome = candor(&words[1..]).within(&root).outcome();
        assert!(outcome.code < 2, "{command}: {outcome:?}");
        outcome.stdout.trim_end().to_owned()
    };
    let parts = parts(&page);
    let printed: Vec<Option<String>> = thread::scope(|scope| {
        let run = &run;
        let begin = |part: &Part<'_>| match *part {
            Part::Words(_) => None,
            Part::Command(command, _) => Some(command.to_owned()),
        };
        let running = parts.iter().map(|part| begin(part).map(|command| scope.spawn(move || run(&command))));
        running.collect::<Vec<_>>().into_iter().map(|thread| thread.map(|thread| thread.join().unwrap())).collect()
    });
    assert!(printed.iter().flatten().count() > 8, "the page has commands");
    if std::env::var_os("CANDOR_WRITE_EXPECTED").is_some() {
        let written = parts.iter().zip(&printed).map(|(part, printed)| match (part, printed) {
            (Part::Command(command, _), Some(printed)) => format!("```\n$ {command}\n{printed}\n```\n"),
            (Part::Words(words), _) | (Part::Command(words, _), None) => (*words).to_owned(),
        });
        fs::write(&path, written.collect::<String>()).unwrap();
        return;
    }
    for (part, printed) in parts.iter().zip(printed) {
        if let (Part::Command(command, expected), Some(printed)) = (part, printed) {
            assert_eq!(printed, expected.trim_end(), "$ {command}");
        }
    }
}
