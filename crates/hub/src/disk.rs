//! Files that are there whole or not at all, and locks between processes.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::error::Error;

/// The error of a file.
pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    |error| Error::File { path: path.to_owned(), error }
}

/// Makes a folder and those above it.
pub fn make_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(at(path))
}

/// A word that no other process and no other call has.
pub fn unique() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{time:x}-{:x}-{:x}", process::id(), CALLS.fetch_add(1, Ordering::Relaxed))
}

/// Has a folder's entries written to the disk, where the system does that.
pub fn sync_folder(path: &Path) {
    // Windows opens no folder as a file, and has no need to.
    if let Ok(folder) = File::open(path) {
        let _ = folder.sync_all();
    }
}

/// Renames a file that is on the disk, so that its new name is there too.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(at(to))?;
    if let Some(folder) = to.parent() {
        sync_folder(folder);
    }
    Ok(())
}

/// Writes a small file in one step: a reader sees the old one or the new one.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let beside = path.with_file_name(format!(".{}", unique()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    let done = write().map_err(at(path)).and_then(|()| rename(&beside, path));
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done
}

/// Whether one process works on a file.
pub enum Lock {
    /// This one, while the file is open.
    Ours(#[allow(dead_code, reason = "it is unlocked where it is closed")] File),
    /// Another one.
    Others,
    /// The file system has no locks, as some over a network.
    Unknown,
}

/// Tries to be the one that works on what this file stands for.
pub fn lock(path: &Path) -> Result<Lock, Error> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(at(path))?;
    Ok(match file.try_lock() {
        Ok(()) => Lock::Ours(file),
        Err(TryLockError::WouldBlock) => Lock::Others,
        Err(TryLockError::Error(_)) => Lock::Unknown,
    })
}

/// The bytes that are free where a folder is, or will be; `None` if the system does not say.
pub fn free(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|folder| folder.is_dir())?;
    fs4::available_space(there).ok()
}

/// The bytes of a file, through links; `None` if it is not there.
pub fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.len())
}

/// The bytes of the disk that a file takes, without its holes; `None` where the system is not asked, or the file is not there.
pub fn taken(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    let taken = fs::metadata(path).ok().map(|file| 512 * std::os::unix::fs::MetadataExt::blocks(&file));
    #[cfg(not(unix))]
    let taken = {
        let _ = path;
        None
    };
    taken
}

/// All files below a folder, with their paths in it, written with `/`.
pub fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut left = vec![(String::new(), folder.to_owned())];
    while let Some((prefix, folder)) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let (name, path) = (format!("{prefix}{name}"), entry.path());
            // A link to a folder is not followed: it may lead in a circle.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push((format!("{name}/"), path));
            } else if path.is_file() {
                found.push((name, path));
            }
        }
    }
    found.sort();
    found
}

/// The entries of a folder; none if it is not there.
pub fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let read = match fs::read_dir(folder) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(folder)(error)),
    };
    let entries = read.flatten().filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    Ok(entries)
}
