//! Names of models: what a user writes, taken apart.

use std::{fmt, str::FromStr};

use crate::{error::Error, url};

/// Where Ollama's own models are.
pub(crate) const OLLAMA_HOST: &str = "registry.ollama.ai";
/// Whose models a name of Ollama without a user means.
pub(crate) const LIBRARY: &str = "library";
const MAIN: &str = "main";

/// The name of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Name {
    /// `hf:USER/REPO[:QUANT]` or `hf:USER/REPO/FILE`: a repository of Hugging Face.
    Hf {
        /// `USER/REPO`.
        repo: String,
        /// The branch, tag or commit.
        revision: String,
        /// Which of its files.
        part: Part,
    },
    /// `ollama:[HOST/][USER/]NAME[:TAG]`: a model of a registry that serves as Ollama's does.
    Ollama {
        /// The registry.
        host: String,
        /// `USER/NAME`.
        path: String,
        /// The tag.
        tag: String,
    },
    /// `https://...`: a file.
    Address(String),
}

/// Which file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The one of 4 bits, else of 8, else the first.
    Usual,
    /// The one of these formats, such as `Q5_K_M`.
    Quant(String),
    /// The one at this path.
    File(String),
}

impl Name {
    /// A repository of Hugging Face: `USER/REPO[:QUANT]` or `USER/REPO/FILE`, as llama.cpp's `--hf-repo` takes it.
    ///
    /// # Errors
    /// If it is another text.
    pub fn hf(text: &str) -> Result<Name, Error> {
        let wrong = |problem| Error::Name { text: text.to_owned(), problem };
        let bare = text.strip_prefix("hf:").unwrap_or(text);
        let mut parts = bare.splitn(3, '/');
        let (Some(user), Some(rest)) = (parts.next(), parts.next()) else {
            return Err(wrong("expected USER/REPO, got no /"));
        };
        let (name, part) = match parts.next() {
            Some(file) => (rest, Part::File(file.to_owned())),
            None => match rest.split_once(':') {
                Some((name, quant)) if is_word(quant) => (name, Part::Quant(quant.to_uppercase())),
                Some(_) => return Err(wrong("expected a format as Q4_K_M after the colon")),
                None => (rest, Part::Usual),
            },
        };
        if !is_word(user) || !is_word(name) {
            return Err(wrong("expected USER/REPO of letters, digits and . _ -"));
        }
        if let Part::File(file) = &part
            && !is_inner(file)
        {
            return Err(wrong("expected the path of a file within the repository"));
        }
        Ok(Name::Hf { repo: format!("{user}/{name}"), revision: MAIN.to_owned(), part })
    }

    /// The same repository with this file of it.
    ///
    /// # Errors
    /// If the path leads out of it, or the name is no repository's.
    pub fn with_file(self, file: &str) -> Result<Name, Error> {
        let problem = "expected the path of a file within the repository";
        match self {
            Name::Hf { repo, revision, .. } if is_inner(file) => {
                Ok(Name::Hf { repo, revision, part: Part::File(file.to_owned()) })
            }
            _ => Err(Error::Name { text: file.to_owned(), problem }),
        }
    }

    fn ollama(text: &str) -> Result<Name, Error> {
        let wrong = |problem| Error::Name { text: text.to_owned(), problem };
        let (path, tag) = match text.rsplit_once(':') {
            // The colon of a port is followed by a path.
            Some((path, tag)) if !tag.contains('/') => (path, tag),
            _ => (text, "latest"),
        };
        let parts: Vec<&str> = path.split('/').collect();
        let (host, user, name) = match parts[..] {
            [name] => (OLLAMA_HOST, LIBRARY, name),
            [user, name] => (OLLAMA_HOST, user, name),
            [host, user, name] => (host, user, name),
            _ => return Err(wrong("expected [HOST/][USER/]NAME[:TAG]")),
        };
        let is_host = host
            .split_once(':')
            .map_or_else(|| is_word(host), |(name, port)| is_word(name) && port.parse::<u16>().is_ok());
        if !is_host || ![user, name, tag].into_iter().all(is_word) {
            return Err(wrong("expected [USER/]NAME[:TAG] of letters, digits and . _ -"));
        }
        Ok(Name::Ollama { host: host.to_owned(), path: format!("{user}/{name}"), tag: tag.to_owned() })
    }

    /// Whether a text is meant as such a name, and not as the path of a file.
    pub fn is_meant(text: &str) -> bool {
        ["hf:", "ollama:", "https://", "http://"].iter().any(|begin| text.starts_with(begin))
    }

    /// An address of a file on Hugging Face as the name that it has there.
    pub(crate) fn on_hub(self, endpoint: &str) -> Name {
        let Name::Address(address) = &self else { return self };
        let inner = || {
            let path = address.strip_prefix(endpoint)?.strip_prefix('/')?;
            let path = url::unescape(path.split(['?', '#']).next()?)?;
            let parts: Vec<&str> = path.splitn(5, '/').collect();
            let [user, name, "resolve" | "blob", revision, file] = parts[..] else { return None };
            let fits = is_word(user) && is_word(name) && is_word(revision) && is_inner(file);
            fits.then(|| Name::Hf {
                repo: format!("{user}/{name}"),
                revision: revision.to_owned(),
                part: Part::File(file.to_owned()),
            })
        };
        inner().unwrap_or(self)
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Name, Error> {
        if let Some(rest) = text.strip_prefix("hf:") {
            return Name::hf(rest).map_err(|error| renamed(error, text));
        }
        if let Some(rest) = text.strip_prefix("ollama:") {
            return Name::ollama(rest).map_err(|error| renamed(error, text));
        }
        let wrong = |problem| Error::Name { text: text.to_owned(), problem };
        if !Name::is_meant(text) {
            return Err(wrong("expected hf:, ollama: or https:// at the beginning"));
        }
        if url::origin(text).is_none() || text.bytes().any(|byte| byte <= b' ' || byte == 127) {
            return Err(wrong("expected an address"));
        }
        Ok(Name::Address(text.to_owned()))
    }
}

fn renamed(error: Error, full: &str) -> Error {
    match error {
        Error::Name { problem, .. } => Error::Name { text: full.to_owned(), problem },
        error => error,
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Hf { repo, part: Part::Usual, .. } => write!(f, "hf:{repo}"),
            Name::Hf { repo, part: Part::Quant(quant), .. } => write!(f, "hf:{repo}:{quant}"),
            Name::Hf { repo, part: Part::File(file), .. } => write!(f, "hf:{repo}/{file}"),
            Name::Ollama { host, path, tag } => {
                let path = match host.as_str() {
                    OLLAMA_HOST => path.strip_prefix("library/").unwrap_or(path).to_owned(),
                    host => format!("{host}/{path}"),
                };
                write!(f, "ollama:{path}:{tag}")
            }
            Name::Address(url) => f.write_str(url),
        }
    }
}

/// A part of a name that is one folder on every system, and nothing else in an address.
pub(crate) fn is_word(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.len() <= 200 && !text.starts_with('.') && !text.ends_with('.') && text.bytes().all(plain)
}

/// Whether a path stays within its folder, on every system.
pub(crate) fn is_inner(path: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !matches!(part, "." | "..")
            && !part.ends_with(['.', ' '])
            && !part.chars().any(|letter| letter.is_control() || "\\:*?\"<>|".contains(letter))
    };
    path.len() <= 1000 && path.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (text, written) in [
            ("hf:u/r", "hf:u/r"),
            ("hf:u/r:q5_k_m", "hf:u/r:Q5_K_M"),
            ("hf:u/r/a/b.gguf", "hf:u/r/a/b.gguf"),
            ("ollama:llama3.2", "ollama:llama3.2:latest"),
            ("ollama:llama3.2:1b", "ollama:llama3.2:1b"),
            ("ollama:u/m:1b", "ollama:u/m:1b"),
            ("ollama:h.example:8080/u/m", "ollama:h.example:8080/u/m:latest"),
            ("https://h.example/a.gguf?x=1", "https://h.example/a.gguf?x=1"),
        ] {
            assert_eq!(text.parse::<Name>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn what_would_leave_its_folder_is_no_name() {
        for text in [
            "hf:u",
            "hf:../r",
            "hf:u/..",
            "hf:u/r/../x",
            "hf:u/r//x",
            "hf:u/r/a\\b",
            "hf:u/r/c:x",
            "hf:u/r:a/b",
            "hf:u/r:",
            "hf:u r/x",
            "ollama:",
            "ollama:../a",
            "ollama:a:b:c",
            "ollama:a/b/c/d",
            "https://",
            "https://a b",
            "x",
            "ftp://a/b",
        ] {
            assert!(matches!(text.parse::<Name>(), Err(Error::Name { text: named, .. }) if named == text), "{text}");
        }
    }

    #[test]
    fn an_address_on_the_hub_is_a_name_there() {
        let on_hub = |text: &str| text.parse::<Name>().unwrap().on_hub("https://hub.example").to_string();
        assert_eq!(on_hub("https://hub.example/u/r/resolve/main/a%20b.gguf?download=true"), "hf:u/r/a b.gguf");
        assert_eq!(on_hub("https://hub.example/u/r/blob/main/x/a.gguf"), "hf:u/r/x/a.gguf");
        for other in
            ["https://hub.example.evil/u/r/resolve/main/a.gguf", "https://hub.example/u/r/resolve/main/%2e%2e/a"]
        {
            assert_eq!(on_hub(other), other);
        }
    }
}
