//! Files built byte by byte, so that they can be wrong where the writer cannot.

use bytes::Bytes;

/// A little-endian file under construction.
#[derive(Clone)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    /// Magic, version 3 and the two counts.
    pub fn new(tensors: u64, keys: u64) -> Raw {
        Raw(b"GGUF".to_vec()).u32(3).u64(tensors).u64(keys)
    }

    pub fn u8(mut self, x: u8) -> Raw {
        self.0.push(x);
        self
    }

    pub fn u32(mut self, x: u32) -> Raw {
        self.0.extend(x.to_le_bytes());
        self
    }

    pub fn u64(mut self, x: u64) -> Raw {
        self.0.extend(x.to_le_bytes());
        self
    }

    pub fn str(self, text: impl AsRef<[u8]>) -> Raw {
        let mut raw = self.u64(text.as_ref().len() as u64);
        raw.0.extend(text.as_ref());
        raw
    }

    /// A tensor record: name, shape, type id, offset.
    pub fn record(self, name: &str, shape: &[u64], format: u32, offset: u64) -> Raw {
        let raw = self.str(name).u32(shape.len() as u32);
        shape.iter().fold(raw, |raw, &n| raw.u64(n)).u32(format).u64(offset)
    }

    /// Zeros up to the next multiple of 32, then `bytes` more.
    pub fn data(mut self, bytes: usize) -> Raw {
        let length = self.0.len().next_multiple_of(32) + bytes;
        self.0.resize(length, 0);
        self
    }

    pub fn bytes(self) -> Bytes {
        self.0.into()
    }
}
