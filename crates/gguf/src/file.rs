//! An opened model file, whole or split: what the rest of Candor reads weights and metadata from.

use crate::cursor::ByteOrder;
use crate::directory::{self, Directory};
use crate::map::{self, Mapping, Opened, Pages};
#[cfg(target_os = "linux")]
use crate::pages;
use crate::{Error, Metadata, TensorInfo, prefault, shards};
use bytes::Bytes;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A GGUF model: metadata, tensor directory, tensor bytes. Cloning is cheap; clones share the file.
#[derive(Clone)]
pub struct Gguf {
    file: Arc<Inner>,
    metadata: Arc<Metadata>,
}

struct Inner {
    version: u32,
    alignment: u64,
    tensors: Vec<TensorInfo>,
    places: HashMap<String, usize>,
    shards: Vec<Shard>,
}

struct Shard {
    file: Bytes,
    mapping: Option<Mapping>,
    order: ByteOrder,
}

/// One parsed file of a model.
struct Part {
    file: Bytes,
    mapping: Option<Mapping>,
    directory: Directory,
}

impl Gguf {
    /// Opens the file at `path` by mapping it into memory; of a split model (`NAME-00001-of-00003.gguf`) all files, given
    /// any of them.
    ///
    /// The file must not be changed while it is open: if another program rewrites it, the weights change under the
    /// model, and if it is cut short, reading beyond its new end stops the process (SIGBUS). Replacing it by renaming a
    /// new file over it is safe, and so is deleting it.
    ///
    /// # Errors
    /// Every [`Error`]; each names the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Gguf::open_by(path.as_ref(), map::map)
    }

    /// Reads the file at `path`, of a split model all files, into memory of this process. What happens to the files
    /// afterwards changes nothing. At no time is there more than one copy, apart from what the system keeps of files.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn read(path: impl AsRef<Path>, pages: Pages) -> Result<Gguf, Error> {
        Gguf::open_by(path.as_ref(), |path| map::read(path, pages))
    }

    fn open_by(path: &Path, open: impl Fn(&Path) -> Result<Opened, Error>) -> Result<Gguf, Error> {
        let open_one = |path: &Path| {
            let (file, mapping) = open(path)?;
            let directory = directory::parse(&file)?;
            Ok(Part { file, mapping, directory })
        };
        let part = open_one(path).map_err(|error: Error| error.at(path))?;
        let split = Split::of(&part.directory.metadata).map_err(|error| error.at(path))?;
        if split.count <= 1 {
            return assemble(vec![part]).map_err(|error| error.at(path));
        }
        let Split { number: given, count } = split;
        let Some(stem) = shards::stem(path, given, count) else {
            return Err(Error::ShardName { number: given, count }.at(path));
        };
        let mut parts = Vec::new();
        let mut opened = Some(part);
        for number in 1..=count {
            let path = shards::path(&stem, number, count);
            let part = match opened.take_if(|_| number == given) {
                Some(part) => part,
                None => open_one(&path).map_err(|error| shard_error(error, number, count).at(&path))?,
            };
            check_split(&part.directory.metadata, number, count).map_err(|error| error.at(&path))?;
            parts.push(part);
        }
        assemble(parts).map_err(|error| error.at(path))
    }

    /// A model that is in memory as one file.
    ///
    /// # Errors
    /// Every [`Error`] that is about content.
    pub fn from_bytes(bytes: Bytes) -> Result<Gguf, Error> {
        Gguf::from_shards(vec![bytes])
    }

    /// A model that is in memory as the files of a split, in order.
    ///
    /// # Errors
    /// Every [`Error`] that is about content.
    pub fn from_shards(files: Vec<Bytes>) -> Result<Gguf, Error> {
        let count = files.len() as u64;
        let mut parts = Vec::new();
        for (number, file) in (1..).zip(files) {
            let directory = directory::parse(&file)?;
            check_split(&directory.metadata, number, count)?;
            parts.push(Part { file, mapping: None, directory });
        }
        assemble(parts)
    }

    /// The version of the format: 2 or 3. Of a split model, as all that follows: of its first file.
    pub fn version(&self) -> u32 {
        self.file.version
    }

    /// The byte order of the file. [`Gguf::data`] is little-endian whatever this is.
    pub fn byte_order(&self) -> ByteOrder {
        self.file.shards[0].order
    }

    /// What the offset of each tensor is a multiple of, in bytes from the start of the data section.
    pub fn alignment(&self) -> u64 {
        self.file.alignment
    }

    /// Bytes of all files together.
    pub fn file_bytes(&self) -> u64 {
        self.file.shards.iter().map(|shard| shard.file.len() as u64).sum()
    }

    /// Number of files: 1 if the model is not split.
    pub fn shards(&self) -> usize {
        self.file.shards.len()
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The same file with other metadata: what reads it finds these keys and values instead of the file's.
    #[must_use]
    pub fn with_metadata(&self, metadata: Metadata) -> Gguf {
        Gguf { file: self.file.clone(), metadata: Arc::new(metadata) }
    }

    /// All tensors, in the order of the directory; of a split model, file by file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.file.tensors
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.file.places.get(name).map(|&place| &self.file.tensors[place])
    }

    /// Reads what of the mapped files is not in memory yet and makes every page ready, so that this happens now and in order.
    /// `progress` sees bytes done and in all, on this thread. Does nothing for files that were copied into memory anyway.
    pub fn prefault(&self, progress: impl FnMut(u64, u64)) {
        let mapped = |shard: &Shard| {
            shard.mapping.clone().filter(|mapping| mapping.is_of_file() && shard.order == ByteOrder::Little)
        };
        prefault::prefault(&self.file.shards.iter().filter_map(mapped).collect::<Vec<_>>(), progress);
    }

    /// Whether tensors lie in mappings of the files, whose pages the system may give up and read again; not so where they were
    /// read into memory, came as bytes, or are swapped into another byte order.
    pub fn is_mapped(&self) -> bool {
        let of_file = |shard: &Shard| shard.mapping.as_ref().is_some_and(Mapping::is_of_file);
        self.file.shards.iter().all(|shard| of_file(shard) && shard.order == ByteOrder::Little)
    }

    /// Counts the bytes of the files, of [`Self::file_bytes`], that lie in huge pages of this process's memory; what was not read yet
    /// lies nowhere. `None` where the system does not tell (all but Linux) and of files that were given as bytes.
    pub fn huge_bytes(&self) -> Option<u64> {
        #[cfg(target_os = "linux")]
        {
            let range = |shard: &Shard| {
                let bytes = shard.mapping.as_ref()?.as_ref();
                let start = bytes.as_ptr().addr() as u64;
                Some(start..start + bytes.len() as u64)
            };
            let ranges = self.file.shards.iter().map(range).collect::<Option<Vec<_>>>()?;
            Some(pages::huge_bytes(&std::fs::read_to_string("/proc/self/smaps").ok()?, &ranges))
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// The data of a tensor of this file, little-endian, `tensor.bytes` long. No copy is made of a little-endian file's
    /// data; a big-endian file's is swapped into a new buffer.
    ///
    /// # Panics
    /// If `tensor` was changed, or is from a file whose tensors lie beyond the end of this one.
    pub fn data(&self, tensor: &TensorInfo) -> Bytes {
        let shard = &self.file.shards[tensor.shard];
        let place = |offset: u64| usize::try_from(offset).expect("inside a file that is in memory");
        let data = shard.file.slice(place(tensor.start)..place(tensor.end()));
        match shard.order {
            ByteOrder::Little => data,
            ByteOrder::Big => {
                let mut swapped = data.to_vec();
                tensor.format.swap_endian(&mut swapped);
                swapped.into()
            }
        }
    }
}

impl std::fmt::Debug for Gguf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gguf")
            .field("version", &self.version())
            .field("keys", &self.metadata().len())
            .field("tensors", &self.tensors().len())
            .field("shards", &self.shards())
            .finish_non_exhaustive()
    }
}

/// A missing shard is a fault of the model, not of the path that was given.
fn shard_error(error: Error, number: u64, count: u64) -> Error {
    match error {
        Error::Io { error, .. } if error.kind() == io::ErrorKind::NotFound => Error::ShardMissing { number, count },
        other => other,
    }
}

/// What a file says of its place in a split model; gguf-split writes it into every shard.
struct Split {
    /// From 1; the file counts from 0.
    number: u64,
    count: u64,
}

impl Split {
    fn of(metadata: &Metadata) -> Result<Split, Error> {
        // Merged files keep the keys with a count of 0.
        let count = metadata.u32("split.count")?.map_or(1, |count| u64::from(count.max(1)));
        let number = metadata.u32("split.no")?.map_or(1, |no| u64::from(no) + 1);
        Ok(Split { number, count })
    }
}

fn check_split(metadata: &Metadata, number: u64, count: u64) -> Result<(), Error> {
    let split = Split::of(metadata)?;
    if split.count != count {
        return Err(Error::Shards { what: "metadata split.count", expected: count, got: split.count });
    }
    if count > 1 && split.number != number {
        let (expected, got) = (number - 1, split.number - 1);
        return Err(Error::Shards { what: "metadata split.no", expected, got });
    }
    Ok(())
}

/// Puts the files of a model together: the metadata of the first, the tensors of all.
fn assemble(parts: Vec<Part>) -> Result<Gguf, Error> {
    let mut parts = parts.into_iter();
    let Some(Part { file, mapping, directory }) = parts.next() else {
        return Err(Error::Empty);
    };
    let Directory { version, order, alignment, metadata, mut tensors } = directory;
    let mut shards = vec![Shard { file, mapping, order }];
    for Part { file, mapping, directory } in parts {
        let shard = shards.len();
        tensors.extend(directory.tensors.into_iter().map(|tensor| TensorInfo { shard, ..tensor }));
        shards.push(Shard { file, mapping, order: directory.order });
    }
    if let (Some(expected), true) = (metadata.u64("split.tensors.count")?, shards.len() > 1)
        && expected != tensors.len() as u64
    {
        return Err(Error::Shards { what: "tensors in all shards", expected, got: tensors.len() as u64 });
    }
    let mut places = HashMap::with_capacity(tensors.len());
    for (place, tensor) in tensors.iter().enumerate() {
        if places.insert(tensor.name.clone(), place).is_some() {
            return Err(Error::DuplicateTensor { tensor: tensor.name.clone() });
        }
    }
    let file = Arc::new(Inner { version, alignment, tensors, places, shards });
    Ok(Gguf { file, metadata: Arc::new(metadata) })
}
