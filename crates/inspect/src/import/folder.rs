//! A folder of dumps, one value or many to a file.

use std::{fs, path::Path, path::PathBuf};

use super::{ImportError, caps, dump::Dump, formats, options::ReadOptions, sniff, sniff::Format};

/// Files that are looked at; others are left out.
const EXTENSIONS: [&str; 7] = ["safetensors", "npy", "npz", "bin", "txt", "log", "json"];

/// Reads every dump directly in a folder, in the order of the names.
pub(super) fn read(path: &Path, options: &ReadOptions) -> Result<Dump, ImportError> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).map_err(ImportError::io(path))? {
        let file = entry.map_err(ImportError::io(path))?.path();
        let extension = file.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        let known = extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()));
        if known && file.is_file() {
            files.push(file);
        }
        if files.len() > caps::MAX_MEMBERS {
            let (what, most) = ("the number of files", caps::MAX_MEMBERS as u64);
            return Err(ImportError::TooLarge { path: path.to_owned(), what, found: files.len() as u64, most });
        }
    }
    files.sort();
    // Transformers' debugger writes its tensors beside the tree that names them: the tree reads them.
    if let Some(tree) = files.iter().find(|file| name_ends(file, "_FULL_TENSORS.json")) {
        return formats::read(tree, sniff::format(tree)?, options);
    }
    let mut dump = Dump::of("folder");
    let mut read = 0;
    for file in files {
        // llama-debug's text beside its binary says the same with fewer digits.
        if name_ends(&file, ".txt") && file.with_extension("bin").is_file() {
            continue;
        }
        if name_ends(&file, "_SUMMARY.json") || name_ends(&file, "-prompt.txt") {
            continue;
        }
        // Settings and notes lie beside dumps: only text that holds values counts.
        let is_json = name_ends(&file, ".json");
        let is_text = is_json || name_ends(&file, ".txt") || name_ends(&file, ".log");
        let format = sniff::format(&file);
        if is_json && !matches!(format, Ok(Format::Debugger)) {
            continue;
        }
        match format.and_then(|format| formats::read(&file, format, options)) {
            Err(ImportError::Unrecognized { .. }) if is_text => continue,
            found => dump.append(found?),
        }
        read += 1;
    }
    if read == 0 {
        return Err(ImportError::Empty { path: path.to_owned() });
    }
    Ok(dump)
}

fn name_ends(path: &Path, end: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end))
}
