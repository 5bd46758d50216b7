//! SHA-256 of a model's files.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// Digits of the numbers in the name of a shard: `-00001-of-00003.gguf`.
const SHARD_DIGITS: usize = 5;
/// Most files that a model can be split into: `split.count` is 16 bits.
const MAX_SHARDS: u32 = 65_535;

/// One file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHash {
    /// Its name, without the folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 in hexadecimal; `None` where it was not asked for.
    pub sha256: Option<String>,
}

/// SHA-256 of a file in hexadecimal.
///
/// # Errors
/// If the file cannot be read.
pub fn sha256(path: impl AsRef<Path>) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut state = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => state.update(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(state.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// All files of the model that `path` belongs to, in order: `path` alone unless it is named as a shard is.
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    let shards = || {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (name, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| text.len() == SHARD_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
        let total: u32 = count.parse().ok().filter(|total| digits(count) && digits(number) && *total <= MAX_SHARDS)?;
        let shard = |number| path.with_file_name(format!("{name}-{number:05}-of-{count}.gguf"));
        Some((1..=total).map(shard).collect::<Vec<_>>())
    };
    shards().filter(|files| !files.is_empty()).unwrap_or_else(|| vec![path.to_owned()])
}

/// Whether to read all of a file for its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hashing {
    /// Yes.
    Whole,
    /// No: name and length only.
    Skip,
}

/// Names, lengths and hashes.
pub(crate) fn hashes(files: &[PathBuf], hashing: Hashing) -> io::Result<Vec<FileHash>> {
    let hash = |path: &PathBuf| {
        let sha256 = match hashing {
            Hashing::Whole => Some(sha256(path)?),
            Hashing::Skip => None,
        };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(FileHash { name, bytes: path.metadata()?.len(), sha256 })
    };
    files.iter().map(hash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_lead_to_each_other() {
        let names = |path: &str| -> Vec<String> {
            files_of(Path::new(path)).iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(names("a/m-00002-of-00002.gguf"), ["a/m-00001-of-00002.gguf", "a/m-00002-of-00002.gguf"]);
        for alone in ["m.gguf", "m-1-of-2.gguf", "m-00001-of-00002.bin", "m-00001-of-00000.gguf"] {
            assert_eq!(names(alone), [alone]);
        }
    }
}
