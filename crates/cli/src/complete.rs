//! `candor completions` and `candor man`: what shells and `man` want to know of the command line.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap_complete::Shell;
use clap_mangen::Man;

use crate::{args::parse::command, errors::Error, near::nearest};

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
    if let Some(name) = name {
        let near = || nearest(name, page.get_subcommands().map(clap::Command::get_name)).map(str::to_owned);
        let sub = page.find_subcommand(name);
        let sub = sub.ok_or_else(|| Error::NoSuchPage { name: name.to_owned(), near: near() })?;
        page = sub.clone().name(format!("candor-{name}"));
    }
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    print(&text)
}

fn print(bytes: &[u8]) -> Result<ExitCode, Error> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
