//! The names of the files of a split model, as gguf-split gives them: `NAME-00002-of-00005.gguf`.

use std::path::{Path, PathBuf};

/// What a name of shard `number` (from 1) of `count` ends in.
pub(crate) fn ending(number: u64, count: u64) -> String {
    format!("-{number:05}-of-{count:05}.gguf")
}

/// The path of shard `number` (from 1) of `count`; `stem` is a path without the ending.
pub(crate) fn path(stem: &Path, number: u64, count: u64) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(ending(number, count));
    PathBuf::from(name)
}

/// The stem of the path of shard `number` of `count`, if the path ends so.
pub(crate) fn stem(path: &Path, number: u64, count: u64) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(&ending(number, count))?;
    Some(path.with_file_name(stem))
}
