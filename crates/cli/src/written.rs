//! Files that are made of others: where they may be written.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::errors::Error;

/// What the names of the files of a split model begin with.
pub fn stem(output: &Path) -> PathBuf {
    let name = output.to_string_lossy();
    name.strip_suffix(".gguf").map_or_else(|| output.to_owned(), PathBuf::from)
}

/// No file is made onto its input, by whatever name, nor onto one of the files of a split model.
pub fn refuse_input(input: &Path, output: &Path, split: bool) -> Result<(), Error> {
    let inputs: Vec<PathBuf> = parts(input).iter().filter_map(|part| fs::canonicalize(part).ok()).collect();
    let is_input = |path: &Path| fs::canonicalize(path).is_ok_and(|path| inputs.contains(&path));
    let (own, stem) = (place(input), stem(output));
    let of_split = || {
        parts(input).iter().any(|part| {
            let name = part.to_string_lossy();
            own.as_deref()
                .and_then(|own| name.strip_prefix(&*own.to_string_lossy()))
                .is_some_and(|number| is_input(Path::new(&format!("{}{number}", stem.display()))))
        })
    };
    match is_input(output) || split && of_split() {
        true => Err(Error::OntoInput { path: output.to_owned() }),
        false => Ok(()),
    }
}

/// Before the number in the name of a file of a split model.
fn place(path: &Path) -> Option<PathBuf> {
    let name = path.to_str()?.strip_suffix(".gguf")?;
    let (front, count) = name.rsplit_once("-of-")?;
    let (stem, number) = front.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(number) && is_number(count)).then(|| PathBuf::from(stem))
}

/// All files of a split model, or the file alone.
fn parts(path: &Path) -> Vec<PathBuf> {
    let (Some(stem), Some(name)) = (place(path), path.to_str()) else { return vec![path.to_owned()] };
    let count =
        name.strip_suffix(".gguf").and_then(|name| name.rsplit_once("-of-")).and_then(|(_, count)| count.parse().ok());
    (1..=count.unwrap_or(0u32))
        .map(|number| PathBuf::from(format!("{}-{number:05}-of-{:05}.gguf", stem.display(), count.unwrap_or(0))))
        .collect()
}
