//! The elements of a cache.

use candor_ops::KvFormat;

/// Elements of a cache that shaders know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KvKind {
    F32,
    F16,
    Q8_0,
    Q4_0,
}

impl KvKind {
    pub(crate) fn of(format: KvFormat) -> KvKind {
        match format {
            KvFormat::F32 => KvKind::F32,
            KvFormat::F16 => KvKind::F16,
            KvFormat::Q8_0 => KvKind::Q8_0,
            KvFormat::Q4_0 => KvKind::Q4_0,
        }
    }

    /// Elements in a word.
    pub(crate) fn per_word(self) -> usize {
        match self {
            KvKind::F32 => 1,
            KvKind::F16 => 2,
            KvKind::Q8_0 => 4,
            KvKind::Q4_0 => 8,
        }
    }

    /// Bytes of the quants of a block of 32, of which each has a scale; `None` where elements are numbers.
    pub(crate) fn block(self) -> Option<usize> {
        match self {
            KvKind::F32 | KvKind::F16 => None,
            KvKind::Q8_0 => Some(32),
            KvKind::Q4_0 => Some(16),
        }
    }

    /// What invocations share the values of a head out by, in a word: words, or bytes where a word has eight elements.
    pub(crate) fn shares(self) -> usize {
        if self == KvKind::Q4_0 { 4 } else { 1 }
    }

    /// Words of scales behind a head of `dim` elements.
    pub(crate) fn scales(self, dim: usize) -> usize {
        self.block().map_or(0, |_| dim / 32)
    }
}
