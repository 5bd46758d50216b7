//! Numbers and switches as flags take them: what was expected is said in words, with the range where there is one.

use std::ops::RangeInclusive;

/// Bounds beyond these belong to the type and not to the flag.
const USEFUL: RangeInclusive<i128> = -1_000_000..=1_000_000;

/// Reads whole numbers of a range, for the `value_parser` of a flag.
pub fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: Copy + TryFrom<i128> + TryInto<i128> + Send + Sync + 'static,
{
    let bound = |bound: T, beyond| bound.try_into().unwrap_or(beyond);
    let (least, most) = (bound(*range.start(), i128::MIN), bound(*range.end(), i128::MAX));
    move |text| {
        let number = text.trim().parse::<i128>();
        let is_whole = number.is_ok();
        let inside = number.ok().filter(|number| (least..=most).contains(number));
        inside.and_then(|number| T::try_from(number).ok()).ok_or_else(|| expected(least, most, is_whole))
    }
}

/// The range in words; all of it where a number was outside of it.
fn expected(least: i128, most: i128, outside: bool) -> String {
    match (outside || USEFUL.contains(&least), outside || USEFUL.contains(&most)) {
        (true, true) => format!("expected a whole number from {least} to {most}"),
        (true, false) => format!("expected a whole number from {least} on"),
        (false, true) => format!("expected a whole number up to {most}"),
        (false, false) => "expected a whole number".to_owned(),
    }
}

/// Reads any number, for the `value_parser` of a flag. What a setting may be is the library's to say.
pub fn real(text: &str) -> Result<f32, String> {
    text.trim().parse().map_err(|_| "expected a number such as 0.8".to_owned())
}

/// Reads a number from 0 to 1, for the `value_parser` of a flag.
pub fn probability(text: &str) -> Result<f32, String> {
    let number = text.trim().parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// Reads what is on or off, for the `value_parser` of a flag.
pub fn switch(text: &str) -> Result<bool, String> {
    match text.trim().to_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// The same where the flag's other value is not its opposite by name.
pub fn on_or_off(text: &str) -> Result<bool, String> {
    switch(text).map_err(|_| "expected on or off".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{Arg, error::ErrorKind};

    use super::*;
    use crate::{args::parse::command, errors::first_line};

    #[test]
    fn ranges_are_said_where_they_help() {
        for (text, expected) in [
            ("1024", Ok(1024)),
            (" 7", Ok(7)),
            ("foo", Err("expected a whole number from 0 to 1024")),
            ("1.5", Err("expected a whole number from 0 to 1024")),
            ("", Err("expected a whole number from 0 to 1024")),
            ("1025", Err("expected a whole number from 0 to 1024")),
            ("-1", Err("expected a whole number from 0 to 1024")),
        ] {
            assert_eq!(whole::<u32>(0..=1024)(text), expected.map_err(str::to_owned), "{text}");
        }
        let error = |result: Result<i64, String>| result.unwrap_err();
        assert_eq!(error(whole(-1..=i64::MAX)("foo")), "expected a whole number from -1 on");
        assert_eq!(error(whole(-1..=i64::MAX)("-2")), "expected a whole number from -1 to 9223372036854775807");
        assert_eq!(error(whole(i64::MIN..=i64::MAX)("foo")), "expected a whole number");
        assert_eq!(error(whole(i64::MIN..=7)("foo")), "expected a whole number up to 7");
        assert_eq!(whole(0..=usize::MAX)("18446744073709551615"), Ok(usize::MAX));
        assert_eq!(real("0,8"), Err("expected a number such as 0.8".to_owned()));
        assert_eq!(probability("1.5"), Err("expected a number from 0 to 1".to_owned()));
        assert!(probability("nan").is_err());
    }

    /// What a command's flag says of a word that is no value of any.
    fn complaint(command: &clap::Command, arg: &Arg) -> Option<String> {
        let flag = format!("--{}=foo", arg.get_long()?);
        let error = command.clone().no_binary_name(true).try_get_matches_from([flag]).err()?;
        (error.kind() == ErrorKind::ValueValidation).then(|| first_line(&error))
    }

    #[test]
    fn every_flag_says_in_our_words_what_it_expects() {
        let command = command();
        let of = |sub| clap::Command::get_arguments(sub).filter_map(|arg| complaint(sub, arg));
        let complaints: Vec<String> = command.get_subcommands().flat_map(of).collect();
        assert!(complaints.len() > 100, "{}", complaints.len());
        for line in complaints {
            assert!(line.contains(": expected "), "{line}");
        }
    }
}
