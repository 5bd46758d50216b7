//! Files at plain addresses, kept in a folder of our own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{
    Pulled, disk,
    error::Error,
    fetch::{self, Wanted, Watch, content_range},
    hf,
    http::{Http, Request},
    name::{Name, is_inner},
    partial::hex,
    settings::Settings,
    url::{host, unescape},
};

/// What the names of notes about files end with.
const NOTE_ENDING: &str = ".candor-source";
/// How often a file may change while it comes.
const CHANGES: usize = 3;

/// What is known of a file that came from an address.
pub struct Note {
    pub url: String,
}

impl Note {
    /// The note about a file.
    pub fn read(file: &Path) -> Option<Note> {
        let text = fs::read_to_string(Note::path(file)).ok()?;
        let value: serde_json::Value = serde_json::from_str(text.lines().next()?).ok()?;
        Some(Note { url: value["url"].as_str()?.to_owned() })
    }

    /// Where the note about a file lies.
    pub fn path(file: &Path) -> PathBuf {
        with_ending(file, NOTE_ENDING)
    }
}

/// What says that a process works on a file.
pub fn lock_path(file: &Path) -> PathBuf {
    with_ending(file, ".candor-lock")
}

/// The file of an address, if it is there.
pub fn find(settings: &Settings, url: &str) -> Option<PathBuf> {
    match Name::Address(url.to_owned()).on_hub(&settings.endpoint) {
        Name::Hf { repo, revision, part } => hf::find(settings, &repo, &revision, &part),
        _ => target(settings.files.as_deref()?, url).filter(|path| path.is_file() && Note::read(path).is_some()),
    }
}

/// Fetches the file of an address.
pub fn pull(settings: &Settings, url: &str, watch: Watch<'_>) -> Result<Pulled, Error> {
    if let Name::Hf { repo, revision, part } = Name::Address(url.to_owned()).on_hub(&settings.endpoint) {
        return hf::pull(settings, &repo, &revision, &part, watch);
    }
    let files = settings.files.as_deref().ok_or(Error::NoHome)?;
    let no_file = || Error::Name { text: url.to_owned(), problem: "expected the address of a file" };
    let target = target(files, url).ok_or_else(no_file)?;
    let http = Http::new(settings);
    for _ in 0..CHANGES {
        let (bytes, validator) = http.persist(&|| watch.is_over(), || ask(&http, url))?;
        let stem = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let note = serde_json::json!({ "url": url, "validator": validator }).to_string();
        // What nothing compares may have changed.
        let seal = if validator.is_some() { note.clone() } else { format!("{note}\n{}", disk::unique()) };
        let wanted = Wanted {
            model: url.to_owned(),
            name: stem.clone(),
            url: url.to_owned(),
            token: None,
            bytes,
            sha256: None,
            validator,
            target: target.clone(),
            seal: Some((Note::path(&target), seal)),
            partials: target.parent().unwrap_or(files).to_owned(),
            lock: lock_path(&target),
            stem,
        };
        match fetch::all(&http, settings, &[wanted], watch) {
            Ok(fetched) => return Ok(Pulled { model: target.clone(), files: vec![target], fetched }),
            Err(Error::Changed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Changed { name: url.to_owned() })
}

/// How long a file is, and what compares it: by its first byte, since not all servers answer HEAD.
fn ask(http: &Http, url: &str) -> Result<(u64, Option<String>), Error> {
    let request = Request { headers: &[("range", "bytes=0-0")], ..Request::get(url, url) };
    let answer = http.send(&request)?;
    let bytes = match answer.status {
        206 => answer.header("content-range").and_then(content_range).and_then(|(_, total)| total),
        _ => answer.number("content-length"),
    };
    let unknown =
        || Error::Answer { host: host(&answer.url), problem: "it does not say how long the file is".to_owned() };
    Ok((bytes.ok_or_else(unknown)?, answer.validator()))
}

/// Where the file of an address is kept: below its host, by its path.
fn target(files: &Path, url: &str) -> Option<PathBuf> {
    let rest = url.split_once("://")?.1;
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (path, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next()?.replace(':', "+");
    let path = unescape(path.trim_start_matches('/'))?;
    if !is_inner(&host) || !is_inner(&path) || host.contains('/') {
        return None;
    }
    let path = files.join(host).join(path);
    if query.is_empty() {
        return Some(path);
    }
    // Another question may have another answer.
    let hash = hex(&Sha256::digest(query.as_bytes())[..4]);
    let stem = path.file_stem()?.to_str()?;
    let ending =
        path.extension().and_then(|ending| ending.to_str()).map_or(String::new(), |ending| format!(".{ending}"));
    Some(path.with_file_name(format!("{stem}-{hash}{ending}")))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_places_of_their_own() {
        let at = |url: &str| target(Path::new("/f"), url).map(|path| path.to_string_lossy().into_owned());
        assert_eq!(at("https://h.example/a/b%20c.gguf").as_deref(), Some("/f/h.example/a/b c.gguf"));
        assert_eq!(at("http://u:p@h.example:8080/m.gguf").as_deref(), Some("/f/h.example+8080/m.gguf"));
        let (one, other) = (at("https://h.example/m.gguf?a=1"), at("https://h.example/m.gguf?a=2"));
        assert!(one != other && one.unwrap().starts_with("/f/h.example/m-"));
        for outside in [
            "https://h.example",
            "https://h.example/",
            "https://h.example/../x",
            "https://h.example/%2e%2e/x",
            "https://../x",
        ] {
            assert_eq!(at(outside), None, "{outside}");
        }
    }
}
