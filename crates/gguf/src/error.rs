//! What can be wrong with a file: one error per fault, each with its place. Reading never guesses past one.

use std::io;
use std::path::PathBuf;

/// Why a GGUF file was refused. Every message is one line; lengths and offsets are in bytes from the start of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error in the file at `path`.
    #[error("{}: {error}", path.display())]
    In {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// The operating system refused.
    #[error("cannot {action}: {error}")]
    Io {
        /// What was tried: `open`, `map into memory`, `read`, `write`.
        action: &'static str,
        /// The system's answer.
        error: io::Error,
    },
    /// The path names a folder, a pipe or a device.
    #[error("expected a file, got {got}")]
    NotAFile {
        /// `a directory`, `a special file`.
        got: &'static str,
    },
    /// A file without a byte.
    #[error("not a GGUF file: it is empty")]
    Empty,
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: expected \"GGUF\" at the start, got \"{got}\"{}", looks(.looks_like))]
    NotGguf {
        /// The first four bytes, escaped.
        got: String,
        /// What the file seems to be.
        looks_like: Option<&'static str>,
    },
    /// A version other than 2 and 3.
    #[error("GGUF version: expected 2 or 3, got {got}{}", version_hint(*got))]
    Version {
        /// The version that the file says.
        got: u32,
    },
    /// The file ends too early.
    #[error("{reading}: expected {expected} bytes at offset {offset}, got {got} before the end of the file")]
    Truncated {
        /// What was being read.
        reading: String,
        /// Where.
        offset: u64,
        /// Bytes it takes.
        expected: u64,
        /// Bytes that are left.
        got: u64,
    },
    /// A count or length that the rest of the file cannot hold, or that is beyond any sense.
    #[error("{reading}: expected a count of at most {expected} at offset {offset}, got {got}")]
    Count {
        /// What was being read.
        reading: String,
        /// Where the count is.
        offset: u64,
        /// The most that can be.
        expected: u64,
        /// The count.
        got: u64,
    },
    /// A string that is not UTF-8.
    #[error("{reading}: expected UTF-8 at offset {offset}")]
    Utf8 {
        /// What was being read.
        reading: String,
        /// The first byte that is wrong.
        offset: u64,
    },
    /// A bool that is neither 0 nor 1.
    #[error("{reading}: expected a bool of 0 or 1 at offset {offset}, got {got}")]
    Bool {
        /// What was being read.
        reading: String,
        /// Where.
        offset: u64,
        /// The byte.
        got: u8,
    },
    /// A metadata type that GGUF does not have.
    #[error("{reading}: expected a metadata type of 0 to 12 at offset {offset}, got {got}")]
    MetadataType {
        /// What was being read.
        reading: String,
        /// Where.
        offset: u64,
        /// The id.
        got: u32,
    },
    /// Arrays nested too deep.
    #[error("{reading}: expected arrays nested at most {expected} deep, got more at offset {offset}")]
    Depth {
        /// What was being read.
        reading: String,
        /// Where.
        offset: u64,
        /// The cap.
        expected: u32,
    },
    /// A key of no characters.
    #[error("metadata key {index}: expected a name, got an empty string")]
    EmptyKey {
        /// Which, from 0.
        index: u64,
    },
    /// A key that is there twice.
    #[error("metadata {}: is there twice", one_line(.key))]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A value that is not of the type that its reader needs, or out of its range.
    #[error("metadata {}: expected {expected}, got {got}", one_line(.key))]
    WrongType {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// The type that is there; of an integer also the value.
        got: String,
    },
    /// `general.alignment` is no power of two.
    #[error("metadata general.alignment: expected a power of two, got {got}")]
    Alignment {
        /// The value.
        got: u64,
    },
    /// A tensor name that is there twice.
    #[error("tensor {}: is there twice", one_line(.tensor))]
    DuplicateTensor {
        /// The name.
        tensor: String,
    },
    /// A tensor type that cannot be decoded.
    #[error("tensor {}: expected a known type, got {got}{}", one_line(.tensor), in_brackets(.name))]
    Format {
        /// The tensor.
        tensor: String,
        /// ggml's id of the type.
        got: u32,
        /// ggml's name of it, if it has one.
        name: Option<&'static str>,
    },
    /// More than four dimensions.
    #[error("tensor {}: expected at most 4 dimensions, got {got}", one_line(.tensor))]
    Dimensions {
        /// The tensor.
        tensor: String,
        /// How many it has.
        got: u64,
    },
    /// A shape whose size does not fit a signed 64-bit number.
    #[error("tensor {}: expected at most {} bytes, got {format} of shape {shape:?}", one_line(.tensor), i64::MAX)]
    Size {
        /// The tensor.
        tensor: String,
        /// Its format's name.
        format: &'static str,
        /// Its shape.
        shape: Vec<u64>,
    },
    /// Rows that are no whole number of blocks.
    #[error("tensor {}: expected rows of a multiple of {expected} for {format}, got {got}", one_line(.tensor))]
    Row {
        /// The tensor.
        tensor: String,
        /// Its format's name.
        format: &'static str,
        /// Elements of a block.
        expected: u64,
        /// Elements of a row.
        got: u64,
    },
    /// Data at an offset that is not aligned.
    #[error("tensor {}: expected an offset that is a multiple of {expected}, got {got}", one_line(.tensor))]
    Unaligned {
        /// The tensor.
        tensor: String,
        /// The file's alignment.
        expected: u64,
        /// The offset in the data section.
        got: u64,
    },
    /// Data beyond the end of the file.
    #[error(
        "tensor {}: expected {expected} bytes at offset {offset}, got {got} before the end of the file",
        one_line(.tensor)
    )]
    PastEnd {
        /// The tensor.
        tensor: String,
        /// Where its data would begin.
        offset: u64,
        /// How long it is.
        expected: u64,
        /// Bytes that the file has from there.
        got: u64,
    },
    /// Two tensors that share bytes.
    #[error(
        "tensors {} and {}: expected separate bytes, got {first_bytes:?} and {second_bytes:?}",
        one_line(.first),
        one_line(.second)
    )]
    Overlap {
        /// The one that begins first.
        first: String,
        /// Its place in the file.
        first_bytes: std::ops::Range<u64>,
        /// The other.
        second: String,
        /// Its place in the file.
        second_bytes: std::ops::Range<u64>,
    },
    /// A tensor's data is not as long as its shape says (only when writing).
    #[error("tensor {}: expected {expected} bytes of data, got {got}", one_line(.tensor))]
    Data {
        /// The tensor.
        tensor: String,
        /// Bytes by format and shape.
        expected: u64,
        /// Bytes given.
        got: u64,
    },
    /// A file of a split model is not there.
    #[error("shard {number} of {count}: file is missing")]
    ShardMissing {
        /// Which, from 1.
        number: u64,
        /// Of how many.
        count: u64,
    },
    /// A shard whose name does not lead to the others.
    #[error("shard {number} of {count}: expected a file name that ends in {}", crate::shards::ending(*number, *count))]
    ShardName {
        /// Which it is, from 1.
        number: u64,
        /// Of how many.
        count: u64,
    },
    /// Shards that do not belong together.
    #[error("{what}: expected {expected}, got {got}")]
    Shards {
        /// What does not fit: `metadata split.count`, `tensors in all shards`.
        what: &'static str,
        /// As it should be.
        expected: u64,
        /// As it is.
        got: u64,
    },
}

impl Error {
    /// This error, with the file that it is in.
    pub(crate) fn at(self, path: &std::path::Path) -> Error {
        Error::In { path: path.to_owned(), error: Box::new(self) }
    }
}

/// A name for a message: control characters escaped, cut after 200 characters. Names come from the file.
pub(crate) fn one_line(name: &str) -> String {
    const SHOWN: usize = 200;
    let mut shown = String::new();
    for c in name.chars().take(SHOWN) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if name.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

fn looks(like: &Option<&'static str>) -> String {
    like.map(|like| format!(" (looks like {like})")).unwrap_or_default()
}

fn version_hint(version: u32) -> &'static str {
    match version {
        1 => " (files of 2023 must be converted again)",
        _ => "",
    }
}

fn in_brackets(name: &Option<&'static str>) -> String {
    name.map(|name| format!(" ({name})")).unwrap_or_default()
}
