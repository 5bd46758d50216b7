//! The models of a folder, by the names under which `candor serve` knows them.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use crate::{errors::Error, siblings::names};

/// The models of a folder and of the folders in it, by name: a file's name without `.gguf`, or that of its folder where it is the only
/// model there. Of a split model the first file is meant. Projectors of images (`mmproj...`) are no models.
///
/// # Errors
/// If it is no folder, or has none.
pub fn models(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Error> {
    let fault = |problem, hint: &str| Error::NoModel { path: folder.to_owned(), problem, hint: Some(hint.to_owned()) };
    if !fs::metadata(folder).map_err(|error| Error::File { path: folder.to_owned(), error })?.is_dir() {
        return Err(fault("expected a folder, got a file", "candor serve FILE serves one model"));
    }
    let mut all = of(folder);
    for inner in names(folder) {
        let mut found = of(&folder.join(&inner));
        if let (1, Some((_, path))) = (found.len(), found.first_key_value())
            && !all.contains_key(&inner)
        {
            all.insert(inner, path.clone());
            continue;
        }
        while let Some((name, path)) = found.pop_first() {
            all.insert(format!("{inner}/{name}"), path);
        }
    }
    if all.is_empty() {
        return Err(fault("there is no model in it", "models are files whose names end in .gguf"));
    }
    Ok(all)
}

/// The models that lie in a folder itself; none where it is no folder.
fn of(folder: &Path) -> BTreeMap<String, PathBuf> {
    let model = |name: String| Some((stem(&name)?.to_owned(), folder.join(&name)));
    names(folder).into_iter().filter_map(model).filter(|(_, path)| path.is_file()).collect()
}

/// The name of the model in this file; `None` where the file is no model, or a later part of a split one.
fn stem(name: &str) -> Option<&str> {
    let path = Path::new(name);
    let is_model = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    let stem = path.file_stem().and_then(OsStr::to_str).filter(|stem| is_model && !stem.starts_with("mmproj"))?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|digit| digit.is_ascii_digit());
    let parts = stem.rsplit_once("-of-").filter(|(_, count)| is_number(count));
    match parts.and_then(|(rest, _)| rest.rsplit_once('-')).filter(|(_, number)| is_number(number)) {
        None => Some(stem),
        Some((whole, number)) => (number == "00001").then_some(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_the_names_of_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "a.gguf",
            "B.Q4_K_M.GGUF",
            "notes.txt",
            "mmproj-a.gguf",
            "split-00001-of-00002.gguf",
            "split-00002-of-00002.gguf",
            "big/big-00001-of-00002.gguf",
            "big/big-00002-of-00002.gguf",
            "sees/sees.gguf",
            "sees/mmproj-F16.gguf",
            "two/x.gguf",
            "two/y-00001.gguf",
            "a/other.gguf",
            "none/readme.md",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = models(folder.path()).unwrap();
        let shown: Vec<(&str, &Path)> =
            found.iter().map(|(name, path)| (&**name, path.strip_prefix(folder.path()).unwrap())).collect();
        let expected = [
            ("B.Q4_K_M", "B.Q4_K_M.GGUF"),
            ("a", "a.gguf"),
            ("a/other", "a/other.gguf"),
            ("big", "big/big-00001-of-00002.gguf"),
            ("sees", "sees/sees.gguf"),
            ("split", "split-00001-of-00002.gguf"),
            ("two/x", "two/x.gguf"),
            ("two/y-00001", "two/y-00001.gguf"),
        ];
        assert_eq!(shown, expected.map(|(name, path)| (name, Path::new(path))));
        let none = models(&folder.path().join("none")).unwrap_err();
        assert!(none.to_string().ends_with("none: there is no model in it"), "{none}");
        assert!(models(&folder.path().join("nowhere")).is_err());
        assert!(models(&folder.path().join("a.gguf")).unwrap_err().to_string().contains("expected a folder"));
    }
}
