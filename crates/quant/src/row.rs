//! Whole rows: the public operations on bytes, with their length checks. The blocks themselves live in `formats/`.

use std::fmt;

use crate::Format;

impl Format {
    /// Decodes a row of little-endian blocks to `out.len()` floats.
    ///
    /// Bit-exact with the `gguf` Python package, whose order of float operations is followed. Integers and
    /// 64-bit floats are rounded to the nearest `f32`. This serves every format that has no kernel of its own.
    ///
    /// # Panics
    /// When `bytes.len()` is not [`row_bytes`](Format::row_bytes) of `out.len()`.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) {
        self.check_lengths(bytes.len(), out.len());
        (self.decoder())(bytes, out);
    }

    /// Encodes a row of floats to little-endian blocks, or says that this format has no encoder here.
    ///
    /// For finite values the bytes are those of ggml's `ggml_quantize_chunk` on x86-64, compiled without fused
    /// multiply-add. A NaN makes its whole block decode to NaN in Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 (F32, F16 and BF16: its
    /// own element). What other formats make of NaN and infinity means nothing.
    ///
    /// IQ1, IQ2 and IQ3 have bytes of their own: their weighted squared error is at most that of ggml's on the rows of the tests.
    ///
    /// # Errors
    /// [`Unsupported`] for integers, F64, Q8_1 and Q8_K.
    ///
    /// # Panics
    /// When `bytes.len()` is not [`row_bytes`](Format::row_bytes) of `values.len()`.
    pub fn encode(self, values: &[f32], bytes: &mut [u8]) -> Result<(), Unsupported> {
        self.encode_by(values, None, bytes)
    }

    /// The same of one row whose columns have an importance: the mean square of what they are multiplied with. Formats whose
    /// encoder has nothing to choose ignore it.
    ///
    /// # Errors
    /// As [`encode`](Format::encode).
    ///
    /// # Panics
    /// As [`encode`](Format::encode), and when `importance` has another length than `values`.
    pub fn encode_by(self, values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) -> Result<(), Unsupported> {
        self.check_lengths(bytes.len(), values.len());
        assert!(
            importance.is_none_or(|all| all.len() == values.len()),
            "{self}: importance of another number of columns"
        );
        let encode = self.encoder().ok_or(Unsupported(self))?;
        encode(values, importance, bytes);
        Ok(())
    }

    /// What [`encode`](Format::encode) does, for F32, F16, BF16, Q4_0 and Q8_0 alone: what caches and inputs are rounded to. A program
    /// that encodes nothing else, such as a browser's module, is smaller without the encoders that search.
    ///
    /// # Errors
    /// [`Unsupported`] for every other format.
    ///
    /// # Panics
    /// As [`encode`](Format::encode).
    pub fn encode_direct(self, values: &[f32], bytes: &mut [u8]) -> Result<(), Unsupported> {
        self.check_lengths(bytes.len(), values.len());
        let encode = match self {
            Format::F32 => const { Format::F32.encoder() },
            Format::F16 => const { Format::F16.encoder() },
            Format::Bf16 => const { Format::Bf16.encoder() },
            Format::Q4_0 => const { Format::Q4_0.encoder() },
            Format::Q8_0 => const { Format::Q8_0.encoder() },
            _ => None,
        };
        encode.ok_or(Unsupported(self))?(values, None, bytes);
        Ok(())
    }

    /// Whether [`encode`](Format::encode) works for this format.
    pub const fn can_encode(self) -> bool {
        self.encoder().is_some()
    }

    /// Turns a little-endian row into a big-endian one, in place, or back.
    ///
    /// Reversed is each field that ggml reads as a number of more than one byte: scales, packed words, the high bits
    /// of Q5_0 and Q5_1. Grids, nibbles and 6-bit scales are bytes in either order.
    ///
    /// # Panics
    /// When `bytes` is not a whole number of blocks.
    pub fn swap_endian(self, bytes: &mut [u8]) {
        let size = self.block_bytes();
        assert!(bytes.len().is_multiple_of(size), "{self}: expected blocks of {size} bytes, got {}", bytes.len());
        for words in self.words() {
            if words.width == size {
                words.reverse(bytes); // plain numbers: the row is one run of words
            } else {
                bytes.chunks_exact_mut(size).for_each(|block| words.reverse_in(block));
            }
        }
    }

    fn check_lengths(self, bytes: usize, elements: usize) {
        let length = self.block_len();
        match self.row_bytes(elements) {
            None => panic!("{self}: expected rows of whole blocks of {length} elements, got {elements} elements"),
            Some(expected) if expected != bytes => {
                panic!("{self}: expected {expected} bytes for {elements} elements, got {bytes}")
            }
            Some(_) => {}
        }
    }
}

/// Writes ggml's name.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error of [`Format::encode`]: this format can be decoded only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported(pub Format);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no encoder for this format", self.0)
    }
}

impl std::error::Error for Unsupported {}
