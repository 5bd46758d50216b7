//! How things are said: notes go to stderr, sizes and durations are readable. What is said is decided elsewhere.

use std::{
    fmt,
    io::{self, Write as _},
    time::Duration,
};

use crate::wrap;

/// Prints a line to stderr, on a terminal broken between words. A stderr that is closed is no reason to stop.
macro_rules! say {
    ($($arg:tt)*) => { $crate::output::say_hanging(0, format_args!($($arg)*)) };
}
pub(crate) use say;

/// The same, with an indent of this many spaces on the lines after the first.
pub fn say_hanging(indent: usize, line: fmt::Arguments<'_>) {
    let text = wrap::hanging(&line.to_string(), indent, wrap::of_stderr());
    let _ = writeln!(io::stderr(), "{text}");
}

/// What the system says of a fault, as the middle of a sentence: `no such file or directory`.
pub fn system(error: &io::Error) -> String {
    let text = error.to_string();
    if error.kind() == io::ErrorKind::IsADirectory {
        return "expected a file, got a directory".to_owned();
    }
    match (error.raw_os_error(), text.rsplit_once(" (os error")) {
        (Some(_), Some((text, _))) if text.is_char_boundary(1) => text[..1].to_lowercase() + &text[1..],
        _ => text,
    }
}

/// A number of bytes: `1.19 MB`. Powers of ten, as disks and most tools count.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0, [" B", " kB", " MB", " GB", " TB"]))
    }
}

/// A count: `1.10 B`.
pub struct Count(pub u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0, ["", " K", " M", " B", " T"]))
    }
}

/// Three digits and a unit.
fn scaled(number: u64, units: [&str; 5]) -> String {
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", units[unit])
}

/// Digits in groups of three: `1,185,376`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of tokens and the time that they took: `12 tokens, 0.031 s, 387.10 tok/s`.
pub struct Speed(pub usize, pub Duration);

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.1.as_secs_f64();
        let rate = if self.0 > 0 && seconds > 0.0 { self.0 as f64 / seconds } else { 0.0 };
        let noun = if self.0 == 1 { "token" } else { "tokens" };
        write!(f, "{} {noun}, {seconds:.3} s, {rate:.2} tok/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_the_system_are_in_words() {
        assert_eq!(system(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(system(&io::Error::other("Ours (os error 2)")), "Ours (os error 2)");
    }

    #[test]
    fn numbers_are_short_and_readable() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (1_185_376, "1.19 MB"),
            (99_960, "100 kB"),
            (999_950, "1.00 MB"),
            (637_000_000, "637 MB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), expected);
        }
        assert_eq!(Count(1_100_048_384).to_string(), "1.10 B");
        assert_eq!(Count(512).to_string(), "512");
        assert_eq!([0, 12, 123, 1234, 1_185_376].map(grouped), ["0", "12", "123", "1,234", "1,185,376"]);
        assert_eq!(Speed(1, Duration::from_millis(500)).to_string(), "1 token, 0.500 s, 2.00 tok/s");
        assert_eq!(Speed(0, Duration::ZERO).to_string(), "0 tokens, 0.000 s, 0.00 tok/s");
    }
}
