//! What every flag has: its names, the variable that sets it, and a value where it is on or off.

use std::env;

use clap::{Arg, ArgAction};

use super::number;

/// The name of the variable that sets a flag: `--top-k` is set by `CANDOR_TOP_K`.
pub fn variable(long: &str) -> String {
    format!("CANDOR_{}", long.to_uppercase().replace('-', "_"))
}

/// What holds for every flag: its variable (the one of an alias, if only that is set), and a value for those that are
/// on or off, so that `--raw=false` takes back what a variable or the file says.
pub fn settable(mut arg: Arg) -> Arg {
    let Some(names) = names(&arg) else { return arg };
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        arg = on_or_off(arg);
    }
    let mut variables = names.iter().map(|name| variable(name));
    let set = variables.clone().find(|name| env::var_os(name).is_some());
    match set.or_else(|| variables.next()) {
        Some(variable) => arg.env(variable).hide_env(true),
        None => arg,
    }
}

/// Lets a flag that is on or off have a value.
pub fn on_or_off(arg: Arg) -> Arg {
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .value_name("BOOL")
        .value_parser(number::switch)
        .default_missing_value("true")
        .default_value("false")
        .hide_default_value(true)
        .hide_possible_values(true)
}

/// The long names of a flag, its own first; `None` for what has none, and for `--help` and `--version`.
pub fn names(arg: &Arg) -> Option<Vec<String>> {
    let long = arg.get_long()?;
    if matches!(arg.get_id().as_str(), "help" | "version") {
        return None;
    }
    let aliases = arg.get_all_aliases().unwrap_or_default();
    Some(std::iter::once(long).chain(aliases).map(str::to_owned).collect())
}
