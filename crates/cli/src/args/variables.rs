//! Variables of the environment that look like settings and are not: a mistyped name would pass in silence.

use std::env;

use super::flag::{names, variable};
use crate::near::nearest;

/// The variables that are no flag's. The last three are for the tests of this project.
const OTHERS: &[&str] =
    &["CANDOR_CONFIG", "CANDOR_ISA", "CANDOR_GPU_SOFTWARE", "CANDOR_FIXTURES", "CANDOR_MINILM", "CANDOR_TEST_GPU"];

/// A warning for every variable of the environment that sets nothing.
pub fn unknown(command: &clap::Command) -> Vec<String> {
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown_of(set, command)
}

fn unknown_of(set: impl Iterator<Item = String>, command: &clap::Command) -> Vec<String> {
    let mut set: Vec<String> = set.filter(|name| name.starts_with("CANDOR_")).collect();
    if set.is_empty() {
        return Vec::new();
    }
    set.sort();
    let args = command.get_subcommands().flat_map(clap::Command::get_arguments);
    let settings = args.filter_map(names).flatten().map(|long| variable(&long));
    let known: Vec<String> = settings.chain(OTHERS.iter().map(|&name| name.to_owned())).collect();
    set.retain(|name| !known.contains(name));
    let warning = |name: String| match nearest(&name, known.iter().map(String::as_str)) {
        Some(near) => format!("warning: {name} sets nothing; is {near} meant?"),
        None => format!("warning: {name} sets nothing"),
    };
    set.into_iter().map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse::command;

    #[test]
    fn mistyped_variables_are_found() {
        let set = ["CANDOR_TMEP", "CANDOR_TEMP", "CANDOR_ISA", "CANDOR_MAX_TOKENS", "CANDOR_ZZZZZZZZZZZZ", "HOME"];
        let warnings = unknown_of(set.map(str::to_owned).into_iter(), &command());
        let expected =
            ["warning: CANDOR_TMEP sets nothing; is CANDOR_TEMP meant?", "warning: CANDOR_ZZZZZZZZZZZZ sets nothing"];
        assert_eq!(warnings, expected);
    }
}
