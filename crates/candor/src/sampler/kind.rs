//! The samplers that a chain may hold, by llama.cpp's names and letters. Not their settings.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::Error;

/// One sampler of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SamplerKind {
    /// Repeat, presence and frequency penalties.
    Penalties,
    /// "Don't repeat yourself": a penalty that grows with the length of what a token would repeat.
    Dry,
    /// Keeps what is within `top_n_sigma` standard deviations of the best logit.
    TopNSigma,
    /// Keeps the `k` most likely.
    TopK,
    /// Keeps what is about as surprising as the distribution on the whole.
    TypicalP,
    /// Keeps the most likely ones that have `p` together.
    TopP,
    /// Keeps what is at least `p` times as likely as the best.
    MinP,
    /// "Exclude top choices": drops all likely tokens but the least likely of them.
    Xtc,
    /// Temperature, static or dynamic.
    Temperature,
}

/// Every sampler with its letter, its name and what else llama.cpp calls it, in the order of the default chain.
const TABLE: [(SamplerKind, char, &str, &[&str]); 9] = [
    (SamplerKind::Penalties, 'e', "penalties", &[]),
    (SamplerKind::Dry, 'd', "dry", &[]),
    (SamplerKind::TopNSigma, 's', "top_n_sigma", &["topnsigma"]),
    (SamplerKind::TopK, 'k', "top_k", &["topk"]),
    (SamplerKind::TypicalP, 'y', "typ_p", &["typp", "typ"]),
    (SamplerKind::TopP, 'p', "top_p", &["topp", "nucleus"]),
    (SamplerKind::MinP, 'm', "min_p", &["minp"]),
    (SamplerKind::Xtc, 'x', "xtc", &[]),
    (SamplerKind::Temperature, 't', "temperature", &["temp"]),
];

impl SamplerKind {
    /// The order of llama.cpp's default chain.
    pub const DEFAULT_ORDER: [SamplerKind; 9] = {
        let mut order = [SamplerKind::Penalties; 9];
        let mut i = 0;
        while i < order.len() {
            order[i] = TABLE[i].0;
            i += 1;
        }
        order
    };

    /// llama.cpp's name of it.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// llama.cpp's letter for it, as in `--sampler-seq`.
    pub fn letter(self) -> char {
        self.row().1
    }

    /// The sampler of a letter.
    ///
    /// # Errors
    /// [`Error::UnknownLetter`].
    pub fn from_letter(letter: char) -> Result<Self, Error> {
        let row = TABLE.iter().find(|row| row.1 == letter);
        row.map(|row| row.0).ok_or(Error::UnknownLetter { letter })
    }

    pub(super) fn names() -> String {
        TABLE.map(|row| row.2).join(", ")
    }

    pub(super) fn letters() -> String {
        TABLE.iter().map(|row| row.1).collect()
    }

    fn row(self) -> &'static (SamplerKind, char, &'static str, &'static [&'static str]) {
        TABLE.iter().find(|row| row.0 == self).expect("every sampler is in the table")
    }
}

impl fmt::Display for SamplerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SamplerKind {
    type Err = Error;

    /// As llama.cpp does, takes capitals for small letters and hyphens for underscores, and knows the short names.
    fn from_str(name: &str) -> Result<Self, Error> {
        let plain = name.trim().to_lowercase().replace('-', "_");
        let row = TABLE.iter().find(|row| row.2 == plain || row.3.contains(&plain.as_str()));
        row.map(|row| row.0).ok_or_else(|| Error::UnknownSampler { name: name.to_owned() })
    }
}

impl TryFrom<String> for SamplerKind {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        name.parse()
    }
}

impl From<SamplerKind> for String {
    fn from(kind: SamplerKind) -> String {
        kind.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_letters_come_back() {
        for kind in SamplerKind::DEFAULT_ORDER {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(SamplerKind::from_letter(kind.letter()), Ok(kind));
        }
        for (name, kind) in [
            ("Top-K", SamplerKind::TopK),
            ("nucleus", SamplerKind::TopP),
            ("temp", SamplerKind::Temperature),
            ("typ", SamplerKind::TypicalP),
            ("top-n-sigma", SamplerKind::TopNSigma),
            ("minp", SamplerKind::MinP),
        ] {
            assert_eq!(name.parse(), Ok(kind), "{name}");
        }
    }

    #[test]
    fn what_is_unknown_lists_what_is_known() {
        let error = "infill".parse::<SamplerKind>().unwrap_err().to_string();
        assert_eq!(
            error,
            "sampler `infill` is unknown; the samplers are penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, \
             xtc, temperature"
        );
        let error = SamplerKind::from_letter('z').unwrap_err().to_string();
        assert_eq!(error, "sampler letter `z` is unknown; the letters are edskypmxt");
    }
}
