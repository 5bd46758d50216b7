//! Writing GGUF files: one, or the shards of a split model. The layout is ggml's; the data is the caller's.

use crate::cursor::ByteOrder;
use crate::directory::{MAX_NAME_BYTES, alignment};
use crate::element::Element;
use crate::partial::{Partial, failed};
use crate::tensor::checked_bytes;
use crate::{Error, Gguf, Metadata, Value, shards};
use bytes::Bytes;
use candor_quant::Format;
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Collects metadata and tensors, then writes them.
///
/// Data is streamed: a tensor given by [`Writer::tensor_from`] exists only while it is being written, of one given by
/// [`Writer::tensor_in_pieces`] only a piece at a time. The alignment is that of the key `general.alignment`, or 32.
pub struct Writer {
    version: u32,
    order: ByteOrder,
    metadata: Metadata,
    tensors: Vec<Pending>,
    names: HashSet<String>,
}

/// A tensor to be written.
struct Pending {
    name: String,
    format: Format,
    shape: Vec<u64>,
    bytes: u64,
    data: Source,
}

type Make = dyn Fn() -> io::Result<Bytes> + Send + Sync;
type Pieces = dyn Fn(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> + Send + Sync;

/// Where a tensor's little-endian data comes from.
enum Source {
    Ready(Bytes),
    Made(Box<Make>),
    Pieces(Box<Pieces>),
}

/// When to begin the next file of a split model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Split {
    /// After this many tensors (at least 1).
    Tensors(usize),
    /// Before the data of a file exceeds this many bytes; a larger tensor gets a file of its own.
    Bytes(u64),
    /// After these numbers of tensors, one for each file; one more file has what is left.
    Counts(Vec<usize>),
}

/// The keys that say a file's place in a split model.
const SPLIT_KEYS: [&str; 3] = ["split.no", "split.count", "split.tensors.count"];

impl Default for Writer {
    fn default() -> Self {
        Writer::new()
    }
}

impl Writer {
    /// Nothing yet; version 3, little-endian.
    pub fn new() -> Self {
        let (version, order) = (3, ByteOrder::Little);
        Writer { version, order, metadata: Metadata::new(), tensors: Vec::new(), names: HashSet::new() }
    }

    /// Everything that is in `file`, split or not; the data is shared, not copied.
    ///
    /// # Errors
    /// None for a file that was read by this crate.
    pub fn copy_of(file: &Gguf) -> Result<Self, Error> {
        let mut writer = Writer::new().version(file.version()).byte_order(file.byte_order());
        writer.metadata = file.metadata().clone();
        for tensor in file.tensors() {
            let (file, source) = (file.clone(), tensor.clone());
            writer.tensor_from(&tensor.name, tensor.format, &tensor.shape, move || {
                file.read_data(&source).map_err(io::Error::other)
            })?;
        }
        Ok(writer)
    }

    /// Sets the version: 2 or 3 (the layout is the same).
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Sets the byte order of the file. Data is given little-endian whatever this is.
    pub fn byte_order(mut self, order: ByteOrder) -> Self {
        self.order = order;
        self
    }

    /// The metadata so far.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Sets a key of the metadata.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.metadata.insert(key, value);
    }

    /// Adds a tensor. `shape` is in ggml's order, the row length first; `data` is little-endian.
    ///
    /// # Errors
    /// A name that is there, a shape that the format cannot have, data of another length than format and shape make.
    pub fn tensor(&mut self, name: &str, format: Format, shape: &[u64], data: impl Into<Bytes>) -> Result<(), Error> {
        let data = data.into();
        let expected = checked_bytes(name, format, shape)?;
        check_length(name, expected, data.len() as u64)?;
        self.push(name, format, shape, Source::Ready(data))
    }

    /// Adds a tensor whose data is made when it is written (by each writing).
    ///
    /// # Errors
    /// As [`Writer::tensor`]; the length of the data is checked when writing.
    pub fn tensor_from(
        &mut self,
        name: &str,
        format: Format,
        shape: &[u64],
        make: impl Fn() -> io::Result<Bytes> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.push(name, format, shape, Source::Made(Box::new(make)))
    }

    /// Adds a tensor whose data comes piece by piece when it is written: `make` hands whole blocks to its argument, in order, and
    /// ends with the error that it gives.
    ///
    /// # Errors
    /// As [`Writer::tensor`]; the length of the data is checked when writing.
    pub fn tensor_in_pieces(
        &mut self,
        name: &str,
        format: Format,
        shape: &[u64],
        make: impl Fn(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.push(name, format, shape, Source::Pieces(Box::new(make)))
    }

    fn push(&mut self, name: &str, format: Format, shape: &[u64], data: Source) -> Result<(), Error> {
        let bytes = checked_bytes(name, format, shape)?;
        check_name("name of a tensor", name)?;
        if !self.names.insert(name.to_owned()) {
            return Err(Error::DuplicateTensor { tensor: name.to_owned() });
        }
        self.tensors.push(Pending { name: name.to_owned(), format, shape: shape.to_vec(), bytes, data });
        Ok(())
    }

    /// Writes one file to `out`, without the `split.*` keys.
    ///
    /// # Errors
    /// What `out` or the maker of a tensor says; a key or an alignment that a reader would refuse.
    pub fn write(&self, out: &mut impl Write) -> Result<(), Error> {
        self.write_part(&self.entries(), &self.tensors, out)
    }

    /// Counts the bytes that [`Writer::write`] writes; no tensor is made.
    ///
    /// # Errors
    /// A key or an alignment that a reader would refuse.
    pub fn file_bytes(&self) -> Result<u64, Error> {
        let alignment = alignment(&self.metadata)?;
        let head = self.head(&self.entries(), &self.tensors, alignment)?.len() as u64;
        let padded = |tensor: &Pending| tensor.bytes.saturating_add(padding(tensor.bytes, alignment));
        Ok(self.tensors.iter().map(padded).fold(head, u64::saturating_add))
    }

    /// The metadata of one file.
    fn entries(&self) -> Vec<(&str, &Value)> {
        self.metadata.iter().filter(|(key, _)| !SPLIT_KEYS.contains(key)).collect()
    }

    /// One file as bytes.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn to_bytes(&self) -> Result<Bytes, Error> {
        let mut out = Vec::new();
        self.write(&mut out)?;
        Ok(out.into())
    }

    /// Writes one file. It is written beside `path`, under a name of its own, and renamed when it is complete and on disk. So
    /// a file that is open under that name (even the source of the tensors) stays whole, and a failure leaves nothing behind.
    ///
    /// # Errors
    /// As [`Writer::write`], with the path.
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        Partial::write(path, |out| self.write(out)).and_then(Partial::finish).map_err(|error| error.at(path))
    }

    /// Writes a split model as `STEM-00001-of-00003.gguf` and so on, as gguf-split does: the first file has all metadata,
    /// each has `split.no`, `split.count`, `split.tensors.count`. Files get their names when all are complete. Returns the
    /// paths.
    ///
    /// # Errors
    /// As [`Writer::write_file`]; more than 65535 files.
    pub fn write_shards(&self, stem: impl AsRef<Path>, split: Split) -> Result<Vec<PathBuf>, Error> {
        let stem = stem.as_ref();
        let parts = parts(&self.tensors, &split, alignment(&self.metadata)?);
        let what = "number of shards";
        let too_many = |_| Error::Shards { what, expected: u64::from(u16::MAX), got: parts.len() as u64 };
        let count = u16::try_from(parts.len()).map_err(too_many)?;
        let tensor_count = i32::try_from(self.tensors.len()).map_err(|_| Error::Shards {
            what: "number of tensors",
            expected: i32::MAX as u64,
            got: self.tensors.len() as u64,
        })?;
        let mut written = Vec::new();
        for (no, tensors) in (0u16..).zip(parts) {
            // Offsets in a file are multiples of its own alignment, so that key goes into each.
            let belongs = |key: &str| !SPLIT_KEYS.contains(&key) && (no == 0 || key == "general.alignment");
            let mut entries: Vec<_> = self.metadata.iter().filter(|(key, _)| belongs(key)).collect();
            let place = [Value::U16(no), Value::U16(count), Value::I32(tensor_count)];
            entries.extend(SPLIT_KEYS.into_iter().zip(&place));
            let path = shards::path(stem, u64::from(no) + 1, u64::from(count));
            let partial = Partial::write(&path, |out| self.write_part(&entries, tensors, out));
            written.push((partial.map_err(|error| error.at(&path))?, path));
        }
        written
            .into_iter()
            .map(|(partial, path)| partial.finish().map_err(|error| error.at(&path)).map(|()| path))
            .collect()
    }

    fn write_part(&self, entries: &[(&str, &Value)], tensors: &[Pending], out: &mut impl Write) -> Result<(), Error> {
        let alignment = alignment(&self.metadata)?;
        let head = self.head(entries, tensors, alignment)?;
        out.write_all(&head).map_err(failed)?;
        for tensor in tensors {
            let mut put = |data: &[u8]| match self.order {
                ByteOrder::Little => out.write_all(data),
                ByteOrder::Big => {
                    let mut swapped = data.to_vec();
                    tensor.format.swap_endian(&mut swapped);
                    out.write_all(&swapped)
                }
            };
            let mut whole = |data: &Bytes| {
                check_length(&tensor.name, tensor.bytes, data.len() as u64)?;
                put(data).map_err(failed)
            };
            match &tensor.data {
                Source::Ready(data) => whole(data)?,
                Source::Made(make) => whole(&make().map_err(failed)?)?,
                Source::Pieces(make) => {
                    let mut length = 0;
                    make(&mut |piece| {
                        length += piece.len() as u64;
                        put(piece)
                    })
                    .map_err(failed)?;
                    check_length(&tensor.name, tensor.bytes, length)?;
                }
            }
            pad(tensor.bytes, alignment, out).map_err(failed)?;
        }
        out.flush().map_err(failed)
    }

    /// All before the data section, padded.
    fn head(&self, entries: &[(&str, &Value)], tensors: &[Pending], alignment: u64) -> Result<Vec<u8>, Error> {
        let order = self.order;
        if !matches!(self.version, 2 | 3) {
            return Err(Error::Version { got: self.version });
        }
        let mut head = b"GGUF".to_vec();
        self.version.write(order, &mut head);
        (tensors.len() as u64).write(order, &mut head);
        (entries.len() as u64).write(order, &mut head);
        for (index, (key, value)) in entries.iter().enumerate() {
            if key.is_empty() {
                return Err(Error::EmptyKey { index: index as u64 });
            }
            check_name("metadata key", key)?;
            write_str(key, order, &mut head);
            value.write(order, &mut head);
        }
        let mut offset = 0u64;
        for tensor in tensors {
            write_str(&tensor.name, order, &mut head);
            (tensor.shape.len() as u32).write(order, &mut head);
            tensor.shape.iter().for_each(|n| n.write(order, &mut head));
            tensor.format.ggml_id().write(order, &mut head);
            offset.write(order, &mut head);
            offset = offset.saturating_add(tensor.bytes).saturating_add(padding(tensor.bytes, alignment));
        }
        let length = head.len() as u64;
        pad(length, alignment, &mut head).expect("a Vec takes every byte");
        Ok(head)
    }
}

fn write_str(text: &str, order: ByteOrder, out: &mut Vec<u8>) {
    (text.len() as u64).write(order, out);
    out.extend_from_slice(text.as_bytes());
}

fn check_name(what: &'static str, name: &str) -> Result<(), Error> {
    match name.len() as u64 {
        got if got > MAX_NAME_BYTES => {
            Err(Error::Count { reading: what.to_owned(), offset: 0, expected: MAX_NAME_BYTES, got })
        }
        _ => Ok(()),
    }
}

fn check_length(tensor: &str, expected: u64, got: u64) -> Result<(), Error> {
    match got {
        got if got != expected => Err(Error::Data { tensor: tensor.to_owned(), expected, got }),
        _ => Ok(()),
    }
}

fn padding(length: u64, alignment: u64) -> u64 {
    (alignment - length % alignment) % alignment
}

fn pad(length: u64, alignment: u64, out: &mut impl Write) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), padding(length, alignment)), out).map(|_| ())
}

/// Cuts the tensors into runs, one per file; at least one run.
fn parts<'t>(tensors: &'t [Pending], split: &Split, alignment: u64) -> Vec<&'t [Pending]> {
    let mut parts = Vec::new();
    let (mut first, mut bytes) = (0, 0u64);
    for (i, tensor) in tensors.iter().enumerate() {
        let next = bytes.saturating_add(tensor.bytes).saturating_add(padding(tensor.bytes, alignment));
        let full = match split {
            Split::Tensors(most) => i - first >= (*most).max(1),
            Split::Bytes(most) => i > first && next > *most,
            Split::Counts(counts) => counts.get(parts.len()).is_some_and(|count| i - first >= (*count).max(1)),
        };
        if full {
            parts.push(&tensors[first..i]);
            (first, bytes) = (i, next - bytes);
        } else {
            bytes = next;
        }
    }
    parts.push(&tensors[first..]);
    parts
}
