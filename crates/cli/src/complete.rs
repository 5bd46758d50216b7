//! `candor completions`, `candor man` and `candor version`: what shells, `man` and people want to know of the program.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap_complete::Shell;
use clap_mangen::Man;

use crate::{
    args::{daily, parse::command},
    errors::Error,
    near::nearest,
};

/// What manual pages say of exit codes.
const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "It is done."),
    ("1", "An error: one line on stderr, with a hint where there is one."),
    ("2", "The command line is wrong."),
    ("130", "Ctrl-C ended it."),
];

/// The same of commands that give a verdict.
const VERDICTS: &[(&str, &str)] = &[
    ("0", "Nothing is wrong."),
    ("1", "Something is wrong."),
    ("2", "An error keeps it from a verdict."),
    ("130", "Ctrl-C ended it."),
];

/// The commands whose exit code is a verdict.
const JUDGES: &[&str] = &["diagnose", "verify", "doctor"];

/// Prints the completion script of a shell.
pub fn completions(shell: Shell) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "candor", &mut script);
    print(&script)
}

/// Prints the manual page of a command, or of the program.
pub fn man(name: Option<&str>) -> Result<ExitCode, Error> {
    let mut page = command();
    page.build();
    let (mut examples, mut codes) = (daily::FIRST_STEPS, EXIT_CODES);
    if let Some(name) = name {
        let near = || nearest(name, page.get_subcommands().map(clap::Command::get_name)).map(str::to_owned);
        let sub = page.find_subcommand(name);
        let sub = sub.ok_or_else(|| Error::NoSuchPage { name: name.to_owned(), near: near() })?;
        page = sub.clone().name(format!("candor-{name}"));
        examples = daily::of(name).map_or(&[], |daily| daily.examples);
        codes = if JUDGES.contains(&name) { VERDICTS } else { EXIT_CODES };
    }
    let mut text = Vec::new();
    render(page, examples, codes, &mut text)?;
    print(&text)
}

/// Prints the version.
pub fn version() -> Result<ExitCode, Error> {
    print(command().render_version().as_bytes())
}

/// A manual page: what clap knows, then the sections that it does not have.
fn render(page: clap::Command, examples: &[(&str, &str)], codes: &[(&str, &str)], out: &mut Vec<u8>) -> io::Result<()> {
    let commands = page.has_subcommands();
    // clap's own section of what follows the help has the examples without their form.
    let page = Man::new(page);
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    if commands {
        page.render_subcommands_section(out)?;
    }
    let mut section = |title: &str, rows: &[(&str, &str)]| {
        if !rows.is_empty() {
            writeln!(out, ".SH {title}")?;
        }
        rows.iter().try_for_each(|(term, text)| writeln!(out, ".TP\n\\fB{}\\fR\n{}", literal(term), literal(text)))
    };
    section("EXAMPLES", examples)?;
    section("EXIT STATUS", codes)?;
    section(
        "ENVIRONMENT",
        &[
            ("CANDOR_*", "Each flag can be set by a variable: --top-k by CANDOR_TOP_K. A flag wins over it."),
            ("NO_COLOR", "Takes the colours away."),
        ],
    )?;
    section(
        "FILES",
        &[(
            "config.toml",
            "Settings by the long names of flags; candor config path prints where it is looked for. A variable wins over it.",
        )],
    )
}

/// A text in which nothing is taken for a request of roff.
fn literal(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

fn print(bytes: &[u8]) -> Result<ExitCode, Error> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
