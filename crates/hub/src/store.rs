//! What is on this machine, by name; and removing it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    address::{Note, lock_path},
    disk::{self, at},
    error::Error,
    hf,
    name::{Name, Part},
    ollama,
    partial::{Found, unfinished},
    select,
    settings::Settings,
};

/// A model that is on this machine, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// What it is called here: what `run`, `pull` and `rm` take.
    pub name: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// When it came.
    pub changed: Option<SystemTime>,
    /// Whether it is whole.
    pub state: State,
    /// Its file, or the first one of a split model.
    pub path: PathBuf,
}

/// Whether a model is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// All of it is there.
    Whole,
    /// Of this many bytes some have come.
    Unfinished {
        /// Bytes of the file when it is whole.
        of: u64,
    },
}

/// An entry and what removing it would remove.
struct Item {
    entry: Entry,
    /// Links, notes and manifests.
    marks: Vec<PathBuf>,
    /// Files with bytes, which other names may need, too.
    blobs: Vec<PathBuf>,
}

/// What is on this machine.
pub fn list(settings: &Settings) -> Result<Vec<Entry>, Error> {
    Ok(items(settings)?.into_iter().map(|item| item.entry).collect())
}

/// The file of a whole model by its name, written with or without what says where it came from.
pub fn named(settings: &Settings, text: &str) -> Result<Option<PathBuf>, Error> {
    let items = items(settings)?;
    let whole = || items.iter().filter(|item| item.entry.state == State::Whole);
    let found = whole().find(|item| is_called(&item.entry.name, text));
    // Of a repository without a format the usual one.
    let usual = || {
        let name = Name::hf(text).ok()?;
        let Name::Hf { repo, revision, part: Part::Usual } = name else { return None };
        hf::find(&Settings { offline: true, ..settings.clone() }, &repo, &revision, &Part::Usual)
    };
    Ok(found.map(|item| item.entry.path.clone()).or_else(usual))
}

fn is_called(name: &str, text: &str) -> bool {
    let bare = name.strip_prefix("hf:").or_else(|| name.strip_prefix("ollama:"));
    let latest = |name: &str| name.strip_suffix(":latest").is_some_and(|name| name == text);
    name == text || bare == Some(text) || latest(name) || bare.is_some_and(latest)
}

/// Removes what has a name; gives the bytes that are free again.
pub fn remove(settings: &Settings, text: &str) -> Result<u64, Error> {
    let (gone, kept): (Vec<Item>, Vec<Item>) =
        items(settings)?.into_iter().partition(|item| is_called(&item.entry.name, text));
    if gone.is_empty() {
        return Err(Error::NotHere { name: text.to_owned() });
    }
    let needed: BTreeSet<&PathBuf> = kept.iter().flat_map(|item| &item.blobs).collect();
    let mut free = 0;
    for item in &gone {
        for mark in &item.marks {
            remove_file(mark)?;
        }
        for blob in item.blobs.iter().filter(|blob| !needed.contains(blob)) {
            let bytes = disk::length(blob).unwrap_or(0);
            remove_file(blob)?;
            free += bytes;
        }
        for path in item.marks.iter().chain(&item.blobs) {
            remove_empty(path, &roots(settings));
        }
    }
    if let Some(hub) = &settings.hub {
        remove_hollow(hub, gone.iter().flat_map(|item| &item.blobs))?;
    }
    Ok(free)
}

/// Removes repositories of the cache of which only the names of commits are left: `huggingface_hub` takes them for broken.
fn remove_hollow<'a>(hub: &Path, gone: impl Iterator<Item = &'a PathBuf>) -> Result<(), Error> {
    // Blobs are known by the paths that links lead to.
    let hub = fs::canonicalize(hub).unwrap_or_else(|_| hub.to_owned());
    let repositories: BTreeSet<PathBuf> =
        gone.filter_map(|path| Some(hub.join(path.strip_prefix(&hub).ok()?.components().next()?))).collect();
    for folder in repositories.into_iter().filter(|folder| folder.is_dir()) {
        let files = disk::files(&folder);
        if files.iter().all(|(path, _)| path.starts_with("refs/") || path.starts_with(".no_exist/")) {
            fs::remove_dir_all(&folder).map_err(at(&folder))?;
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

fn roots(settings: &Settings) -> Vec<PathBuf> {
    let roots = [&settings.hub, &settings.ollama, &settings.files];
    roots.into_iter().flatten().cloned().collect()
}

/// Removes the folders that a file has left empty, up to those that all files lie in.
fn remove_empty(path: &Path, roots: &[PathBuf]) {
    let inner = path
        .ancestors()
        .skip(1)
        .take_while(|folder| roots.iter().any(|root| folder.starts_with(root) && folder != root));
    for folder in inner {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

fn items(settings: &Settings) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    if let Some(hub) = &settings.hub {
        in_cache(hub, &mut items)?;
    }
    if let Some(store) = &settings.ollama {
        in_store(store, &mut items)?;
    }
    if let Some(files) = &settings.files {
        of_addresses(files, &mut items)?;
    }
    items.sort_by(|a, b| a.entry.name.cmp(&b.entry.name));
    Ok(items)
}

fn entry(name: String, files: &[PathBuf], state: State) -> Entry {
    let data: Vec<_> = files.iter().filter_map(|path| fs::metadata(path).ok()).collect();
    let bytes = data.iter().map(fs::Metadata::len).sum();
    let changed = data.iter().filter_map(|data| data.modified().ok()).max();
    Entry { name, bytes, changed, state, path: files.first().cloned().unwrap_or_default() }
}

/// What has begun to come, in a folder.
fn begun(folder: &Path, items: &mut Vec<Item>) {
    for Found { path, record_path, record } in unfinished(folder, "") {
        let mut entry = entry(record.frame.model.clone(), std::slice::from_ref(&path), State::Whole);
        entry.bytes = record.there();
        entry.state = State::Unfinished { of: record.frame.bytes };
        items.push(Item { entry, marks: vec![record_path], blobs: vec![path] });
    }
}

/// The cache that is shared with `huggingface_hub`.
fn in_cache(hub: &Path, items: &mut Vec<Item>) -> Result<(), Error> {
    for (name, folder) in disk::entries(hub)? {
        let Some(repo) = name.strip_prefix("models--").and_then(|repo| repo.split_once("--")) else { continue };
        let repo = format!("{}/{}", repo.0, repo.1);
        let snapshots = hf::snapshots(&folder, "main");
        let mut models: Vec<Item> = Vec::new();
        for snapshot in snapshots {
            let files = disk::files(&snapshot);
            let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
            let firsts = paths.iter().filter(|path| select::is_first(path));
            for first in firsts {
                let Some(model) = select::model(&paths, &Part::File((*first).to_owned())) else { continue };
                let quant = select::quant(first).map(Part::Quant);
                let by_quant =
                    quant.filter(|quant| select::model(&paths, quant).is_some_and(|files| files[0] == *first));
                let part = by_quant.unwrap_or_else(|| Part::File((*first).to_owned()));
                let name = Name::Hf { repo: repo.clone(), revision: String::new(), part }.to_string();
                let beside = select::projector(&paths, first);
                let all: Vec<PathBuf> = model.iter().map(|path| snapshot.join(path)).collect();
                let marks: Vec<PathBuf> = all.iter().cloned().chain(beside.map(|path| snapshot.join(path))).collect();
                let blobs = marks.iter().filter_map(|link| fs::canonicalize(link).ok()).collect();
                // The same name of an older commit is removed with it, and shown once.
                match models.iter_mut().find(|item| item.entry.name == name) {
                    Some(item) => {
                        item.marks.extend(marks);
                        item.blobs.extend(blobs);
                    }
                    None => models.push(Item { entry: entry(name, &all, State::Whole), marks, blobs }),
                }
            }
        }
        keep_shared_marks(&mut models);
        items.extend(models);
        begun(&folder.join("blobs"), items);
    }
    Ok(())
}

/// What reads images for several models goes with the last of them.
fn keep_shared_marks(models: &mut [Item]) {
    for i in 0..models.len() {
        let others: BTreeSet<PathBuf> =
            models.iter().enumerate().filter(|(j, _)| *j != i).flat_map(|(_, item)| item.marks.clone()).collect();
        models[i].marks.retain(|mark| !others.contains(mark));
    }
}

/// Ollama's store.
fn in_store(store: &Path, items: &mut Vec<Item>) -> Result<(), Error> {
    let manifests = store.join("manifests");
    disk::entries(&manifests)?;
    for (path, manifest) in disk::files(&manifests) {
        let Some(layers) = ollama::read(&manifest) else { continue };
        let Some(model) = ollama::model(&layers) else { continue };
        let mut parts = path.splitn(2, '/');
        let (Some(host), Some(rest)) = (parts.next(), parts.next()) else { continue };
        let Some((path, tag)) = rest.rsplit_once('/') else { continue };
        let (host, path, tag) = (host.to_owned(), path.to_owned(), tag.to_owned());
        let name = Name::Ollama { host, path, tag }.to_string();
        let blob = ollama::blob_path(store, &model.digest);
        let mut entry = entry(name, std::slice::from_ref(&blob), State::Whole);
        if entry.bytes != model.bytes {
            entry.state = State::Unfinished { of: model.bytes };
        }
        let blobs = layers.iter().map(|layer| ollama::blob_path(store, &layer.digest));
        items.push(Item { entry, marks: vec![manifest], blobs: blobs.collect() });
    }
    begun(&ollama::unfinished(store), items);
    Ok(())
}

/// Files that came from addresses.
fn of_addresses(files: &Path, items: &mut Vec<Item>) -> Result<(), Error> {
    disk::entries(files)?;
    let mut folders = BTreeSet::new();
    for (_, path) in disk::files(files) {
        folders.extend(path.parent().map(Path::to_owned));
        let Some(note) = Note::read(&path) else { continue };
        let entry = entry(note.url, std::slice::from_ref(&path), State::Whole);
        items.push(Item { entry, marks: vec![Note::path(&path), lock_path(&path)], blobs: vec![path] });
    }
    for folder in folders {
        begun(&folder, items);
    }
    Ok(())
}
