//! A file that is read piece by piece, where it can neither be mapped nor be in memory as a whole: in a browser, over a network.

use crate::Error;
use crate::directory::{self, Directory};
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

/// Where the bytes of a file come from, at any offset and at once.
pub trait Source: Send + Sync {
    /// Length of the file in bytes.
    fn bytes(&self) -> u64;

    /// Fills `into` with the bytes from `offset` on. They lie in the file.
    ///
    /// # Errors
    /// If they can't be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Says that these bytes are read soon: they may come meanwhile. What is expected is read once.
    fn expect(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Ready when what is expected has come, or could not: then reading it says why.
    fn poll_expected(&self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        Poll::Ready(())
    }
}

/// Bytes that are read first. Vocabularies of 150,000 tokens take some megabytes: then it is twice as many, and twice again.
const HEAD_BYTES: u64 = 1 << 20;

/// Reads as much of the beginning as the directory takes.
pub(crate) fn directory(source: &dyn Source) -> Result<Directory, Error> {
    let length = source.bytes();
    let (mut head, mut size) = (Vec::new(), HEAD_BYTES);
    loop {
        let known = head.len();
        grow(&mut head, size.min(length))?;
        source.read_at(known as u64, &mut head[known..]).map_err(failed)?;
        match directory::parse(&head, length) {
            // What is missing lies in the file.
            Err(Error::Truncated { offset, expected, got, .. }) if expected <= got => {
                size = offset.saturating_add(expected).max(size.saturating_mul(2));
            }
            parsed => return parsed,
        }
    }
}

/// By where they begin and end: for as long as somebody has them.
type Held = HashMap<(u64, u64), Weak<Vec<u8>>>;

/// A source, and what of it is in memory.
pub(crate) struct Pieces {
    source: Arc<dyn Source>,
    held: Mutex<Held>,
}

impl Pieces {
    pub(crate) fn new(source: Arc<dyn Source>) -> Pieces {
        Pieces { source, held: Mutex::default() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.source.bytes()
    }

    pub(crate) fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// The bytes from `start` to `end`, for one alone.
    pub(crate) fn read_once(&self, start: u64, end: u64) -> Result<Vec<u8>, Error> {
        let mut piece = Vec::new();
        grow(&mut piece, end - start)?;
        self.source.read_at(start, &mut piece).map_err(failed)?;
        Ok(piece)
    }

    /// The bytes from `start` to `end`. While somebody has them, others share them.
    pub(crate) fn read(&self, start: u64, end: u64) -> Result<Bytes, Error> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(piece) = held.get(&(start, end)).and_then(Weak::upgrade) {
            return Ok(Bytes::from_owner(Piece(piece)));
        }
        let piece = Arc::new(self.read_once(start, end)?);
        held.insert((start, end), Arc::downgrade(&piece));
        Ok(Bytes::from_owner(Piece(piece)))
    }
}

/// An open file. One reads it at a time.
pub(crate) struct OfFile {
    file: Mutex<File>,
    bytes: u64,
}

impl OfFile {
    pub(crate) fn new(file: File, bytes: u64) -> OfFile {
        OfFile { file: Mutex::new(file), bytes }
    }
}

impl Source for OfFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(into)
    }
}

struct Piece(Arc<Vec<u8>>);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Lengthens to `size` bytes, or says that memory is short.
fn grow(bytes: &mut Vec<u8>, size: u64) -> Result<(), Error> {
    let full = || failed(io::ErrorKind::OutOfMemory.into());
    let size = usize::try_from(size).map_err(|_| full())?;
    bytes.try_reserve_exact(size - bytes.len()).map_err(|_| full())?;
    bytes.resize(size, 0);
    Ok(())
}

fn failed(error: io::Error) -> Error {
    Error::Io { action: "read", error }
}
