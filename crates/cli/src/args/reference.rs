//! docs/cli.md has the help texts and the defaults of the flags; that it has every flag a test of the program sees.

use std::{fs, path::Path};

use clap::Arg;

use super::parse;

/// A help text as the reference has it: without what stands in another column, and without marks of code.
fn plain(text: &str) -> String {
    let mut text = text.replace('`', "").replace("\\|", "|");
    while let Some(at) = text.find("also -") {
        let end = at + text[at..].find(')').expect("a parenthesis around the flag of one dash");
        let cut =
            if text[..at].ends_with("; ") { at - 2..end } else { text[..at].rfind(" (").expect("the same")..end + 1 };
        text.replace_range(cut, "");
    }
    text
}

/// A default as the reference has it.
fn default(arg: &Arg) -> String {
    let values = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
    match arg.is_hide_default_value_set() && arg.get_num_args().is_none_or(|count| count.min_values() > 0) {
        true => String::new(),
        false => values.collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn the_reference_says_what_help_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let text = fs::read_to_string(path).expect("docs/cli.md");
    let command = parse::command();
    let (mut checked, mut wrong) = (0, Vec::new());
    for section in text.split("\n## candor ").skip(1) {
        let name = section.split_whitespace().next().expect("a name");
        let sub = command.find_subcommand(name).expect("a command");
        for row in section.lines().filter(|line| line.starts_with("| `-")) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let long = cells[0].split('`').find_map(|flag| flag.strip_prefix("--")).expect("a long flag");
            let arg = sub.get_arguments().find(|arg| arg.get_long() == Some(long));
            let arg = arg.unwrap_or_else(|| panic!("candor {name}: {row}"));
            let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
            let expected = (default(arg), plain(&help));
            let got = (plain(cells[cells.len() - 2]), plain(cells[cells.len() - 1]));
            if got != expected {
                wrong.push(format!("candor {name} --{long}\n  help: {expected:?}\n  docs: {got:?}"));
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
