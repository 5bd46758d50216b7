//! How long a model stays loaded after a request: `keep_alive`.

use std::time::Duration;

use serde_json::Value;

use crate::{
    app::Served,
    fields::{Fields, expected},
    refusal::Refusal,
};

/// What a request says of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keep {
    /// Nothing: as it was.
    Same,
    /// As long as the server.
    Always,
    /// So long.
    For(Duration),
}

/// Units of a duration, in seconds.
const UNITS: [(&str, f64); 7] =
    [("ns", 1e-9), ("us", 1e-6), ("\u{b5}s", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// The field `keep_alive`: seconds, or a text such as `5m` and `1h30m`. What is below zero is for ever.
///
/// # Errors
/// If it is neither.
pub fn read(fields: &mut Fields) -> Result<Keep, Refusal> {
    let Some(value) = fields.take("keep_alive") else { return Ok(Keep::Same) };
    let seconds = match &value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => seconds(text),
        _ => None,
    };
    match seconds {
        Some(seconds) if seconds < 0.0 => Ok(Keep::Always),
        // What is too long to be counted is for ever.
        Some(seconds) => Ok(Duration::try_from_secs_f64(seconds).map_or(Keep::Always, Keep::For)),
        None => Err(expected("keep_alive", "seconds, or a duration such as \"5m\"", &value)),
    }
}

/// The seconds of a duration; without units the number of them.
fn seconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    if rest.is_empty() {
        return None;
    }
    if let Ok(seconds) = rest.parse::<u32>() {
        return Some(sign * f64::from(seconds));
    }
    let mut sum = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let unit = rest[number..].find(|letter: char| letter.is_ascii_digit() || letter == '.');
        let end = unit.map_or(rest.len(), |unit| number + unit);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == &rest[number..end])?;
        sum += rest[..number].parse::<f64>().ok()? * factor;
        rest = &rest[end..];
    }
    Some(sign * sum)
}

impl Keep {
    /// Has a model stay so long.
    pub fn heed(self, served: &Served) {
        match self {
            Keep::Same => {}
            Keep::Always => served.stay(None),
            Keep::For(time) => served.stay(Some(time)),
        }
    }

    /// Whether it goes at once.
    pub fn is_not(self) -> bool {
        self == Keep::For(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_ollama() {
        for (text, expected) in [
            ("5m", Some(300.0)),
            ("1h30m", Some(5400.0)),
            ("1.5s", Some(1.5)),
            ("300ms", Some(0.3)),
            ("-1m", Some(-60.0)),
            ("0", Some(0.0)),
            ("90", Some(90.0)),
            ("", None),
            ("-", None),
            ("m", None),
            ("5x", None),
            ("5 m", None),
            ("1.2.3s", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
