//! The files beside a path, and which of them is meant where the path is wrong.

use std::{ffi::OsStr, fs, path::Path};

use crate::near::nearest;

/// The file beside a path that may be meant by it.
pub fn sibling(path: &Path) -> Option<String> {
    let folder = folder(path);
    if !folder.is_dir() {
        return Some(format!("there is no folder {} either", folder.display()));
    }
    let typed = path.file_name().and_then(OsStr::to_str)?;
    if typed.contains(' ') && path.extension().is_none() {
        return Some("a prompt is given with -p".to_owned());
    }
    let near = near_file(typed, &names(folder))?;
    Some(format!("is {} meant?", path.with_file_name(near).display()))
}

/// The file that may be meant. An extension that two names share makes them no nearer: the stems are compared.
fn near_file(typed: &str, names: &[String]) -> Option<String> {
    let parts = |name: &str| name.rsplit_once('.').map(|(stem, ending)| (stem.to_owned(), ending.to_lowercase()));
    let Some((stem, ending)) = parts(typed) else {
        return nearest(typed, names.iter().map(String::as_str)).map(str::to_owned);
    };
    let alike = |name: &&String| parts(name).is_some_and(|(_, other)| other == ending);
    let (alike, others): (Vec<&String>, Vec<&String>) = names.iter().partition(alike);
    let stems: Vec<String> = alike.iter().filter_map(|name| Some(parts(name)?.0)).collect();
    match nearest(&stem, stems.iter().map(String::as_str)) {
        Some(near) => alike.into_iter().find(|name| parts(name).is_some_and(|(stem, _)| stem == near)).cloned(),
        None => nearest(typed, others.into_iter().map(String::as_str)).map(str::to_owned),
    }
}

/// Where a file is, or would be.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Names of the files of a folder; none if it cannot be read.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
