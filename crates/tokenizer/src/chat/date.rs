//! The date and time that a template may print with `strftime_now`. Time zones and locales are the caller's: the names of
//! days and months are English, as in the C locale.

use std::fmt::Write;

/// A date and time of day on someone's wall, without a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CivilTime {
    year: i32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl CivilTime {
    /// `None` where there is no such day or time: years 1 to 9999, months and days from 1, seconds to 59.
    pub fn new(year: i32, month: u32, day: u32, hour: u32, minute: u32, second: u32) -> Option<CivilTime> {
        let time = CivilTime { year, month, day, hour, minute, second };
        let valid = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        valid.then_some(time)
    }

    /// The time in UTC, `seconds` after 1970 began. `None` outside the years 1 to 9999.
    pub fn from_unix(seconds: i64) -> Option<CivilTime> {
        // Days since 0000-03-01, so that leap days end their year (Hinnant, chrono-compatible date algorithms).
        let days = seconds.div_euclid(86_400).checked_add(719_468)?;
        let second = seconds.rem_euclid(86_400) as u32;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u32;
        let year = era.checked_mul(400)? + year_of_era + i64::from(month <= 2);
        CivilTime::new(i32::try_from(year).ok()?, month, day, second / 3600, second / 60 % 60, second % 60)
    }

    /// The system's clock in UTC; `None` where the standard library can read no clock (wasm32 in a browser).
    pub fn utc_now() -> Option<CivilTime> {
        if cfg!(all(target_family = "wasm", target_os = "unknown")) {
            return None;
        }
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
        CivilTime::from_unix(i64::try_from(since.as_secs()).ok()?)
    }

    /// Day of the year, from 1.
    fn day_of_year(self) -> u32 {
        (1..self.month).map(|month| days_in_month(self.year, month)).sum::<u32>() + self.day
    }

    /// Day of the week, Monday being 0.
    fn weekday(self) -> u32 {
        let year = self.year as u32 - 1;
        (year * 365 + year / 4 - year / 100 + year / 400 + self.day_of_year() + 6) % 7
    }

    /// As `strftime` does, for the directives of C that need no time zone, and with glibc's flags `-`, `_` and `0`.
    ///
    /// # Errors
    ///
    /// The directive that it does not know.
    pub fn format(self, format: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut directive = String::from("%");
            let mut next = || chars.next().inspect(|&c| directive.push(c));
            let mut letter = next();
            let flag = letter.filter(|c| matches!(c, '-' | '_' | '0'));
            if flag.is_some() {
                letter = next();
            }
            if !letter.is_some_and(|letter| self.directive(letter, flag, &mut out)) {
                return Err(directive);
            }
        }
        Ok(out)
    }

    /// Appends what `%` and `letter` stand for, unless that is nothing.
    fn directive(self, letter: char, flag: Option<char>, out: &mut String) -> bool {
        let hour12 = (self.hour + 11) % 12 + 1;
        let mut number = |value: u32, width: usize, fill: char| {
            let _ = match flag.unwrap_or(fill) {
                '-' => write!(out, "{value}"),
                '_' => write!(out, "{value:width$}"),
                _ => write!(out, "{value:0width$}"),
            };
        };
        let weekday = self.weekday();
        let day_name = DAYS[weekday as usize];
        let month_name = MONTHS[self.month as usize - 1];
        match letter {
            'Y' => number(self.year as u32, 1, '0'),
            'C' => number(self.year as u32 / 100, 2, '0'),
            'y' => number(self.year as u32 % 100, 2, '0'),
            'm' => number(self.month, 2, '0'),
            'd' => number(self.day, 2, '0'),
            'e' => number(self.day, 2, '_'),
            'H' => number(self.hour, 2, '0'),
            'k' => number(self.hour, 2, '_'),
            'I' => number(hour12, 2, '0'),
            'l' => number(hour12, 2, '_'),
            'M' => number(self.minute, 2, '0'),
            'S' => number(self.second, 2, '0'),
            'j' => number(self.day_of_year(), 3, '0'),
            'u' => number(weekday + 1, 1, '0'),
            'w' => number((weekday + 1) % 7, 1, '0'),
            'U' => number((self.day_of_year() + 6 - (weekday + 1) % 7) / 7, 2, '0'),
            'W' => number((self.day_of_year() + 6 - weekday) / 7, 2, '0'),
            'f' => number(0, 6, '0'),
            'A' => out.push_str(day_name),
            'a' => out.push_str(&day_name[..3]),
            'B' => out.push_str(month_name),
            'b' | 'h' => out.push_str(&month_name[..3]),
            'p' => out.push_str(if self.hour < 12 { "AM" } else { "PM" }),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            '%' => out.push('%'),
            // Zones of a time without one are empty, as in Python.
            'z' | 'Z' => {}
            _ => return self.compound(letter, out),
        }
        true
    }

    /// Directives that stand for several others.
    fn compound(self, letter: char, out: &mut String) -> bool {
        let format = match letter {
            'D' | 'x' => "%m/%d/%y",
            'F' => "%Y-%m-%d",
            'R' => "%H:%M",
            'T' | 'X' => "%H:%M:%S",
            'r' => "%I:%M:%S %p",
            'c' => "%a %b %e %H:%M:%S %Y",
            _ => return false,
        };
        match self.format(format) {
            Ok(text) => {
                out.push_str(&text);
                true
            }
            Err(_) => false,
        }
    }
}

fn days_in_month(year: i32, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expectations: Python's `datetime.strftime` (glibc).
    #[test]
    fn formats() {
        let time = CivilTime::new(2024, 7, 6, 0, 5, 9).unwrap();
        let cases = [
            ("%Y-%m-%d %H:%M:%S", "2024-07-06 00:05:09"),
            ("%d %b %Y, %-d %B %y", "06 Jul 2024, 6 July 24"),
            ("%A %a %j %U %W %u %w", "Saturday Sat 188 26 27 6 6"),
            ("%I:%M %p|%e|%k|%l|%_m|%-H", "12:05 AM| 6| 0|12| 7|0"),
            ("%F %T %D %R %c 100%%", "2024-07-06 00:05:09 07/06/24 00:05 Sat Jul  6 00:05:09 2024 100%"),
        ];
        for (format, expected) in cases {
            assert_eq!(time.format(format).as_deref(), Ok(expected), "{format}");
        }
        assert_eq!(time.format("%Y %Q"), Err("%Q".to_owned()));
        assert_eq!(time.format("%"), Err("%".to_owned()));
        assert_eq!(time.format("%-"), Err("%-".to_owned()));
    }

    #[test]
    fn from_unix() {
        let cases = [
            (0, (1970, 1, 1, 0, 0, 0)),
            (951_782_399, (2000, 2, 28, 23, 59, 59)),
            (951_782_400, (2000, 2, 29, 0, 0, 0)),
            (1_721_997_296, (2024, 7, 26, 12, 34, 56)),
            (-1, (1969, 12, 31, 23, 59, 59)),
            (4_107_542_400, (2100, 3, 1, 0, 0, 0)),
        ];
        for (seconds, (year, month, day, hour, minute, second)) in cases {
            assert_eq!(CivilTime::from_unix(seconds), CivilTime::new(year, month, day, hour, minute, second));
        }
        assert_eq!(CivilTime::from_unix(i64::MAX), None);
        assert_eq!(CivilTime::from_unix(i64::MIN), None);
        for (year, month, day) in [(2023, 2, 29), (1900, 2, 29), (2024, 13, 1), (2024, 4, 31), (0, 1, 1), (2024, 1, 0)]
        {
            assert_eq!(CivilTime::new(year, month, day, 0, 0, 0), None, "{year}-{month}-{day}");
        }
    }
}
