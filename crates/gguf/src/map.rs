//! Mapping a file into memory: the only unsafe code of this crate.

use crate::Error;
use bytes::Bytes;
use memmap2::{Mmap, MmapMut};
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The smallest page of any system that runs this.
const PAGE_BYTES: usize = 4096;

/// Bytes that are read at a time: some milliseconds.
const READ_BYTES: usize = 8 << 20;

/// Memory that holds a file: mapped from it, or of this process. It ends with the last of its owners, which the `Bytes` made of it are too.
#[derive(Clone)]
pub(crate) struct Mapping {
    memory: Arc<Mmap>,
    of_file: bool,
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Mapping {
    fn new(memory: Mmap, of_file: bool) -> Mapping {
        Mapping { memory: Arc::new(memory), of_file }
    }

    /// Says whether it is mapped from a file, so that pages may still have to be read.
    pub(crate) fn is_of_file(&self) -> bool {
        self.of_file
    }

    /// Puts these pages into the page table, reading from disk what is not in memory. One call of Linux 5.14 or later does
    /// it in three quarters of the time that touching every page takes.
    pub(crate) fn populate(&self, bytes: Range<usize>) {
        #[cfg(target_os = "linux")]
        match self.memory.advise_range(memmap2::Advice::PopulateRead, bytes.start, bytes.len()) {
            // The system does not know the call. Other refusals come up, if they matter, where the bytes are used.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            _ => return,
        }
        let touched = self.memory[bytes].iter().step_by(PAGE_BYTES).fold(0u8, |sum, &byte| sum ^ byte);
        std::hint::black_box(touched);
    }
}

/// A file's bytes, and the memory that holds them where there is any.
pub(crate) type Opened = (Bytes, Option<Mapping>);

/// What pages memory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Those that the system gives.
    Usual,
    /// Huge ones where the system can (Linux): asked for, not insisted on.
    Huge,
}

/// The bytes of the file at `path`, read into memory; an empty file takes none.
pub(crate) fn read(path: &Path, pages: Pages) -> Result<Opened, Error> {
    let Some((mut file, bytes)) = open(path)? else { return Ok((Bytes::new(), None)) };
    let error = |error: io::Error| Error::Io { action: "read into memory", error };
    let bytes = usize::try_from(bytes).map_err(|_| error(io::ErrorKind::OutOfMemory.into()))?;
    let mut memory = MmapMut::map_anon(bytes).map_err(error)?;
    if pages == Pages::Huge {
        // Advice only: a refusal costs speed and nothing else.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
    // In pieces: one call for all of it could not be cancelled.
    for piece in memory.chunks_mut(READ_BYTES) {
        file.read_exact(piece).map_err(error)?;
    }
    Ok(opened(Mapping::new(memory.make_read_only().map_err(error)?, false)))
}

/// The file at `path` and its length; `None` if it is empty.
pub(crate) fn open(path: &Path) -> Result<Option<(File, u64)>, Error> {
    let open = |error: io::Error| Error::Io { action: "open", error };
    let about = fs::metadata(path).map_err(open)?;
    if about.is_dir() {
        return Err(Error::NotAFile { got: "a directory" });
    }
    if !about.is_file() {
        return Err(Error::NotAFile { got: "a special file" });
    }
    let file = File::open(path).map_err(open)?;
    Ok((about.len() > 0).then_some((file, about.len())))
}

/// The bytes of the file at `path`, mapped read-only; an empty file has no mapping.
pub(crate) fn map(path: &Path) -> Result<Opened, Error> {
    let Some((file, _)) = open(path)? else { return Ok((Bytes::new(), None)) };
    // SAFETY: the mapping is read-only, and it outlives every slice of it, since each shares its ownership.
    // That nobody truncates or rewrites the file meanwhile cannot be enforced by any system call; `Gguf::open` says so,
    // and no invariant of this crate rests on the bytes staying as they were when they were checked.
    let mapping = unsafe { Mmap::map(&file) }.map_err(|error| Error::Io { action: "map into memory", error })?;
    // What is not in memory yet is then read in huge pages, where the file system has such (ext4 since Linux 6.16, XFS, Btrfs): loading
    // took two thirds of the time, and decoding is quicker. Advice only: a refusal costs speed and nothing else.
    #[cfg(target_os = "linux")]
    let _ = mapping.advise(memmap2::Advice::HugePage);
    Ok(opened(Mapping::new(mapping, true)))
}

fn opened(mapping: Mapping) -> Opened {
    (Bytes::from_owner(mapping.clone()), Some(mapping))
}
