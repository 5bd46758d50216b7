//! An opened model file, whole or split: what the rest of Candor reads weights and metadata from.

use crate::cursor::ByteOrder;
use crate::directory::{self, Directory};
use crate::map::{self, Mapping, Opened, Pages};
#[cfg(target_os = "linux")]
use crate::pages;
use crate::source::{self, OfFile, Pieces};
use crate::{Error, Metadata, Source, TensorInfo, prefault, shards};
use bytes::Bytes;
use candor_quant::Format;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

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
    shards: Vec<Arc<Shard>>,
}

struct Shard {
    file: Content,
    order: ByteOrder,
}

impl Shard {
    /// Data of a tensor in the order that everything computes in.
    fn little_endian(&self, format: Format, data: Bytes) -> Bytes {
        match self.order {
            ByteOrder::Little => data,
            ByteOrder::Big => {
                let mut swapped = data.to_vec();
                format.swap_endian(&mut swapped);
                swapped.into()
            }
        }
    }
}

/// One parsed file of a model.
struct Part {
    file: Content,
    directory: Directory,
}

/// A file's bytes.
enum Content {
    /// In memory as a whole, which may be a mapping.
    Memory(Bytes, Option<Mapping>),
    /// Read where they are asked for.
    Source(Pieces),
}

impl Content {
    fn bytes(&self) -> u64 {
        match self {
            Content::Memory(file, _) => file.len() as u64,
            Content::Source(pieces) => pieces.bytes(),
        }
    }

    fn mapping(&self) -> Option<&Mapping> {
        match self {
            Content::Memory(_, mapping) => mapping.as_ref(),
            Content::Source(_) => None,
        }
    }

    fn read(&self, start: u64, end: u64) -> Result<Bytes, Error> {
        match self {
            Content::Memory(file, _) => {
                let place = |offset: u64| usize::try_from(offset).expect("inside a file that is in memory");
                Ok(file.slice(place(start)..place(end)))
            }
            Content::Source(pieces) => pieces.read(start, end),
        }
    }
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

    /// Opens the file at `path`, of a split model all files, and reads what is asked for when it is: little memory, for
    /// those who look at each tensor once.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn open_unmapped(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Gguf::open_parts(path.as_ref(), |path| {
            let source: Arc<dyn Source> = match map::open(path)? {
                Some((file, bytes)) => Arc::new(OfFile::new(file, bytes)),
                None => return Err(Error::Empty),
            };
            let directory = source::directory(&*source)?;
            Ok(Part { file: Content::Source(Pieces::new(source)), directory })
        })
    }

    fn open_by(path: &Path, open: impl Fn(&Path) -> Result<Opened, Error>) -> Result<Gguf, Error> {
        Gguf::open_parts(path, |path| {
            let (file, mapping) = open(path)?;
            let directory = directory::parse(&file, file.len() as u64)?;
            Ok(Part { file: Content::Memory(file, mapping), directory })
        })
    }

    fn open_parts(path: &Path, open_one: impl Fn(&Path) -> Result<Part, Error>) -> Result<Gguf, Error> {
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
        let parse = |file: Bytes| {
            let directory = directory::parse(&file, file.len() as u64)?;
            Ok(Part { file: Content::Memory(file, None), directory })
        };
        assemble_split(files.into_iter().map(parse).collect::<Result<_, Error>>()?)
    }

    /// A model of one file, of which a tensor is read when [`Gguf::read_data`] is asked for it, and given up when nobody has it any more.
    ///
    /// # Errors
    /// Every [`Error`] that is about content, or [`Error::Io`] with the source's.
    pub fn from_source(source: Arc<dyn Source>) -> Result<Gguf, Error> {
        Gguf::from_sources(vec![source])
    }

    /// The same of the files of a split, in order.
    ///
    /// # Errors
    /// As [`Gguf::from_source`].
    pub fn from_sources(sources: Vec<Arc<dyn Source>>) -> Result<Gguf, Error> {
        let parse = |source: Arc<dyn Source>| {
            let directory = source::directory(&*source)?;
            Ok(Part { file: Content::Source(Pieces::new(source)), directory })
        };
        assemble_split(sources.into_iter().map(parse).collect::<Result<_, Error>>()?)
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
        self.file.shards.iter().map(|shard| shard.file.bytes()).sum()
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

    /// The same file with tensors of another: those that `take` chooses, where the other has one of that name and shape.
    #[must_use]
    pub fn with_tensors_of(&self, other: &Gguf, take: impl Fn(&str) -> bool) -> Gguf {
        let (own, shift) = (&self.file, self.shards());
        let taken = |tensor: &TensorInfo| {
            let found = other.tensor(&tensor.name).filter(|found| take(&tensor.name) && found.shape == tensor.shape);
            found.map(|found| TensorInfo { shard: found.shard + shift, ..found.clone() })
        };
        let file = Inner {
            version: own.version,
            alignment: own.alignment,
            tensors: own.tensors.iter().map(|tensor| taken(tensor).unwrap_or_else(|| tensor.clone())).collect(),
            places: own.places.clone(),
            shards: own.shards.iter().chain(&other.file.shards).cloned().collect(),
        };
        Gguf { file: Arc::new(file), metadata: self.metadata.clone() }
    }

    /// The same file with every tensor of another: in the place of its own of that name, whatever its shape, or behind all of them.
    #[must_use]
    pub fn with_every_tensor_of(&self, other: &Gguf) -> Gguf {
        let (own, shift) = (&self.file, self.shards());
        let (mut tensors, mut places) = (own.tensors.clone(), own.places.clone());
        for found in other.tensors() {
            let found = TensorInfo { shard: found.shard + shift, ..found.clone() };
            match places.get(&found.name) {
                Some(&place) => tensors[place] = found,
                None => {
                    places.insert(found.name.clone(), tensors.len());
                    tensors.push(found);
                }
            }
        }
        let shards = own.shards.iter().chain(&other.file.shards).cloned().collect();
        let file = Inner { version: own.version, alignment: own.alignment, tensors, places, shards };
        Gguf { file: Arc::new(file), metadata: self.metadata.clone() }
    }

    /// The same file with its tensors under the names that `name` gives them; where it gives none, the tensor is left out. No data is
    /// copied.
    ///
    /// # Errors
    /// Two tensors of one name.
    pub fn renamed(&self, name: impl Fn(&str) -> Option<String>) -> Result<Gguf, Error> {
        let own = &self.file;
        let (mut tensors, mut places) = (Vec::with_capacity(own.tensors.len()), HashMap::new());
        for tensor in &own.tensors {
            let Some(name) = name(&tensor.name) else { continue };
            if places.insert(name.clone(), tensors.len()).is_some() {
                return Err(Error::DuplicateTensor { tensor: name });
            }
            tensors.push(TensorInfo { name, ..tensor.clone() });
        }
        let Inner { version, alignment, ref shards, .. } = **own;
        let file = Inner { version, alignment, tensors, places, shards: shards.clone() };
        Ok(Gguf { file: Arc::new(file), metadata: self.metadata.clone() })
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
        let mapped = |shard: &Arc<Shard>| {
            shard.file.mapping().cloned().filter(|mapping| mapping.is_of_file() && shard.order == ByteOrder::Little)
        };
        prefault::prefault(&self.file.shards.iter().filter_map(mapped).collect::<Vec<_>>(), progress);
    }

    /// Whether tensors lie in mappings of the files, whose pages the system may give up and read again; not so where they were
    /// read into memory, came as bytes, or are swapped into another byte order.
    pub fn is_mapped(&self) -> bool {
        let of_file = |shard: &Arc<Shard>| shard.file.mapping().is_some_and(Mapping::is_of_file);
        self.file.shards.iter().all(|shard| of_file(shard) && shard.order == ByteOrder::Little)
    }

    /// Whether the files are in memory, mapped or not, and not read piece by piece from a [`Source`].
    pub fn is_in_memory(&self) -> bool {
        self.file.shards.iter().all(|shard| matches!(shard.file, Content::Memory(..)))
    }

    /// Counts the bytes of the files, of [`Self::file_bytes`], that lie in huge pages of this process's memory; what was not read yet
    /// lies nowhere. `None` where the system does not tell (all but Linux) and of files that were given as bytes.
    pub fn huge_bytes(&self) -> Option<u64> {
        #[cfg(target_os = "linux")]
        {
            let range = |shard: &Arc<Shard>| {
                let bytes = shard.file.mapping()?.as_ref();
                let start = bytes.as_ptr().addr() as u64;
                Some(start..start + bytes.len() as u64)
            };
            let ranges = self.file.shards.iter().map(range).collect::<Option<Vec<_>>>()?;
            Some(pages::huge_bytes(&std::fs::read_to_string("/proc/self/smaps").ok()?, &ranges))
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// The data of a tensor of this file, which is in memory, little-endian, `tensor.bytes` long. No copy is made of a little-endian
    /// file's data; a big-endian file's is swapped into a new buffer.
    ///
    /// # Panics
    /// If `tensor` was changed, or is from a file whose tensors lie beyond the end of this one. If the file comes from a
    /// [`Source`] that fails: [`Gguf::read_data`] is for those.
    pub fn data(&self, tensor: &TensorInfo) -> Bytes {
        self.read_data(tensor).expect("the data of a file in memory")
    }

    /// Says that the data of these tensors is read soon: of files from a [`Source`] it may come meanwhile. Neighbours are asked for
    /// together.
    pub fn expect<'a>(&self, tensors: impl IntoIterator<Item = &'a TensorInfo>) {
        let mut ranges: Vec<_> = tensors.into_iter().map(|tensor| (tensor.shard, tensor.start, tensor.end())).collect();
        ranges.sort_unstable();
        // What lies between two neighbours fills up to the alignment.
        let filled = |end: &u64| end.next_multiple_of(self.file.alignment);
        let near = |(a, _, end): &(usize, u64, u64), (b, start, _): &(usize, u64, u64)| a == b && *start <= filled(end);
        for run in ranges.chunk_by(near) {
            let ((shard, start, _), (.., end)) = (run[0], run[run.len() - 1]);
            if let Content::Source(pieces) = &self.file.shards[shard].file {
                pieces.source().expect(start, end - start);
            }
        }
    }

    /// Ready when what is expected of every file has come.
    pub fn poll_expected(&self, cx: &mut Context<'_>) -> Poll<()> {
        let pending = self.file.shards.iter().filter(|shard| match &shard.file {
            Content::Source(pieces) => pieces.source().poll_expected(cx).is_pending(),
            Content::Memory(..) => false,
        });
        if pending.count() == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// What [`Gguf::data`] gives, of every file: where it comes from a [`Source`], the data is read now.
    ///
    /// # Errors
    /// [`Error::Io`] where the source has one, or memory is short for what it reads.
    ///
    /// # Panics
    /// If `tensor` was changed, or is from a file whose tensors lie beyond the end of this one.
    pub fn read_data(&self, tensor: &TensorInfo) -> Result<Bytes, Error> {
        let shard = &self.file.shards[tensor.shard];
        let data = shard.file.read(tensor.start, tensor.end())?;
        Ok(shard.little_endian(tensor.format, data))
    }

    /// Some whole blocks of a tensor's data, little-endian: `bytes` are offsets from its beginning. Nobody shares them.
    ///
    /// # Errors
    /// As [`Gguf::read_data`].
    ///
    /// # Panics
    /// As [`Gguf::read_data`], and where `bytes` are no whole blocks of the tensor.
    pub fn read_blocks(&self, tensor: &TensorInfo, bytes: Range<u64>) -> Result<Bytes, Error> {
        assert!(bytes.end <= tensor.bytes, "{}: {bytes:?} of {} bytes", tensor.name, tensor.bytes);
        let shard = &self.file.shards[tensor.shard];
        let (start, end) = (tensor.start + bytes.start, tensor.start + bytes.end);
        let data = match &shard.file {
            Content::Memory(..) => shard.file.read(start, end)?,
            Content::Source(pieces) => pieces.read_once(start, end)?.into(),
        };
        Ok(shard.little_endian(tensor.format, data))
    }

    /// The first `count` bytes of a tensor, or all if it has fewer, as they lie in the file.
    ///
    /// # Errors
    /// As [`Gguf::read_data`].
    ///
    /// # Panics
    /// As [`Gguf::read_data`].
    pub fn read_head(&self, tensor: &TensorInfo, count: u64) -> Result<Bytes, Error> {
        self.file.shards[tensor.shard].file.read(tensor.start, tensor.start + tensor.bytes.min(count))
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

/// Puts files together that were given in order, after checking that order.
fn assemble_split(parts: Vec<Part>) -> Result<Gguf, Error> {
    let count = parts.len() as u64;
    for (number, part) in (1..).zip(&parts) {
        check_split(&part.directory.metadata, number, count)?;
    }
    assemble(parts)
}

/// Puts the files of a model together: the metadata of the first, the tensors of all.
fn assemble(parts: Vec<Part>) -> Result<Gguf, Error> {
    let mut parts = parts.into_iter();
    let Some(Part { file, directory }) = parts.next() else {
        return Err(Error::Empty);
    };
    let Directory { version, order, alignment, metadata, mut tensors } = directory;
    let mut shards = vec![Arc::new(Shard { file, order })];
    for Part { file, directory } in parts {
        let shard = shards.len();
        tensors.extend(directory.tensors.into_iter().map(|tensor| TensorInfo { shard, ..tensor }));
        shards.push(Arc::new(Shard { file, order: directory.order }));
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
