//! Reading numbers and byte runs from a slice, with bounds and byte order; it knows nothing of GGUF's structure.

use crate::Error;
use std::fmt;

/// The order of the bytes of every number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ByteOrder {
    /// Least significant byte first: nearly every file.
    #[default]
    Little,
    /// Most significant byte first: files made for s390x and the like.
    Big,
}

/// What can be wrong at an offset, before the caller has said what was being read there.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file ends before `expected` bytes.
    Short { offset: u64, expected: u64, got: u64 },
    /// A count that the rest of the file cannot hold, or that is over this crate's cap.
    Count { offset: u64, expected: u64, got: u64 },
    /// A string that is not UTF-8.
    Utf8 { offset: u64 },
    /// A bool that is neither 0 nor 1.
    Bool { offset: u64, got: u8 },
    /// A metadata type that GGUF does not have.
    Type { offset: u64, got: u32 },
    /// Arrays in arrays in arrays.
    Depth { offset: u64, expected: u32 },
}

impl Fault {
    /// The public error: this fault, met while reading `what`.
    pub(crate) fn reading(self, what: fmt::Arguments<'_>) -> Error {
        let reading = crate::error::one_line(&what.to_string());
        match self {
            Fault::Short { offset, expected, got } => Error::Truncated { reading, offset, expected, got },
            Fault::Count { offset, expected, got } => Error::Count { reading, offset, expected, got },
            Fault::Utf8 { offset } => Error::Utf8 { reading, offset },
            Fault::Bool { offset, got } => Error::Bool { reading, offset, got },
            Fault::Type { offset, got } => Error::MetadataType { reading, offset, got },
            Fault::Depth { offset, expected } => Error::Depth { reading, offset, expected },
        }
    }
}

/// A position in the first bytes of a file, which may be all. A failed read leaves it where it was.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Of the whole file.
    length: u64,
    at: usize,
    pub(crate) order: ByteOrder,
}

impl<'a> Cursor<'a> {
    /// Of a file of `length` bytes, which begins with `bytes`.
    pub(crate) fn new(bytes: &'a [u8], length: u64) -> Self {
        Cursor { bytes, length, at: 0, order: ByteOrder::Little }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    pub(crate) fn left(&self) -> u64 {
        self.length - self.at as u64
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8], Fault> {
        let short = Fault::Short { offset: self.offset(), expected: count, got: self.left() };
        let Ok(count) = usize::try_from(count) else { return Err(short) };
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..count) else { return Err(short) };
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let taken = self.take(N as u64)?;
        Ok(taken.try_into().expect("take returned N bytes"))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Fault> {
        let raw = self.array()?;
        Ok(match self.order {
            ByteOrder::Little => u32::from_le_bytes(raw),
            ByteOrder::Big => u32::from_be_bytes(raw),
        })
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Fault> {
        let raw = self.array()?;
        Ok(match self.order {
            ByteOrder::Little => u64::from_le_bytes(raw),
            ByteOrder::Big => u64::from_be_bytes(raw),
        })
    }

    /// A count of things that take at least `least` bytes each, refused if the rest of the file cannot hold them or if
    /// they would take more than `cap` bytes.
    pub(crate) fn count(&mut self, least: u64, cap: u64) -> Result<u64, Fault> {
        let offset = self.offset();
        let got = self.u64()?;
        let expected = self.left().min(cap) / least;
        if got > expected {
            self.at = usize::try_from(offset).expect("an offset into a slice");
            return Err(Fault::Count { offset, expected, got });
        }
        Ok(got)
    }

    /// A string: its length in bytes as a u64, then UTF-8.
    pub(crate) fn str(&mut self, cap: u64) -> Result<&'a str, Fault> {
        let offset = self.offset();
        let length = self.u64()?;
        if length > cap {
            return Err(Fault::Count { offset, expected: cap, got: length });
        }
        let raw = self.take(length)?;
        std::str::from_utf8(raw).map_err(|error| Fault::Utf8 { offset: offset + 8 + error.valid_up_to() as u64 })
    }
}
