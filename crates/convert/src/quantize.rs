//! A file whose matrices have other formats. Threads read, decode and encode rows while others are written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, thread};

use crate::encode::{Encoder, PIECE, columns, of_tensor};
use crate::mix::EMBEDDINGS;
use crate::pieces::Pieces;
use crate::{Choice, Error, Importance, Mix, Model, Tensor};
use candor_gguf::{Format, Gguf, Metadata, Split, TensorInfo, Value, Writer};

/// Pieces that may wait to be written, for each thread.
const AHEAD: usize = 8;

/// What a file is to become.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which format each tensor gets; none where all stay as they are.
    pub mix: Option<Mix>,
    /// How much columns count.
    pub importance: Option<Importance>,
    /// The name of the file of the importance matrix, which the new file carries.
    pub importance_file: String,
    /// Matrices that are quantized already may be quantized again.
    pub requantize: bool,
    /// Layers that are left out, from 0.
    pub prune: Vec<u32>,
    /// Metadata that is replaced.
    pub overrides: Vec<(String, Value)>,
}

/// A tensor of the new file.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its name in the new file.
    pub name: String,
    /// What it was.
    pub source: TensorInfo,
    /// What it becomes.
    pub choice: Choice,
    /// Its bytes in the new file.
    pub bytes: u64,
}

/// What is to be done, before anything is.
pub struct Plan {
    file: Gguf,
    metadata: Metadata,
    tensors: Vec<Planned>,
    importance: Option<Importance>,
    needs_importance: Option<(String, Format)>,
}

/// Hears how many bytes of data are written, and of how many; says whether to go on.
pub type Done = dyn Fn(u64, u64) -> bool + Send + Sync;

impl Plan {
    /// Decides what becomes of each tensor. Opened by [`Gguf::open_unmapped`], a file takes little memory.
    ///
    /// # Errors
    /// A matrix that is quantized already and may not be again; a format that can't be made or does not fit; importance of another
    /// number of columns; a layer to prune that is not there.
    pub fn new(file: &Gguf, options: Options) -> Result<Plan, Error> {
        let mut metadata = file.metadata().clone();
        for (key, value) in options.overrides.iter().cloned() {
            metadata.insert(key, value);
        }
        let model = Model::of(&metadata)?;
        let kept = renamed(file, &options.prune, model.layers)?;
        let tensors: Vec<Tensor<'_>> =
            kept.iter().map(|(name, source)| Tensor { name, format: source.format, shape: &source.shape }).collect();
        let choices = match &options.mix {
            Some(mix) => mix.choices(&model, &tensors)?,
            None => tensors.iter().map(|tensor| Choice { format: tensor.format, instead_of: None }).collect(),
        };
        let mut planned = Vec::new();
        for ((name, source), choice) in kept.into_iter().zip(choices) {
            let rows = source.elements() / source.shape[0].max(1);
            let wrong = || Error::Rows { tensor: name.clone(), format: choice.format, cols: source.shape[0] };
            let cols = usize::try_from(source.shape[0]).map_err(|_| wrong())?;
            let bytes = choice.format.row_bytes(cols).ok_or_else(wrong)? as u64 * rows;
            planned.push(Planned { name, source, choice, bytes });
        }
        let changed = || planned.iter().filter(|tensor| tensor.choice.format != tensor.source.format);
        if let Some(tensor) = changed().find(|tensor| !tensor.choice.format.can_encode()) {
            return Err(Error::Unmade { tensor: tensor.name.clone(), format: tensor.choice.format });
        }
        let again = changed().find(|tensor| tensor.source.format.block_len() > 1);
        if let Some(tensor) = again.filter(|_| !options.requantize) {
            return Err(Error::Requantized { tensor: tensor.name.clone(), format: tensor.source.format });
        }
        if let Some(importance) = &options.importance {
            changed().try_for_each(|tensor| check(importance, tensor))?;
        }
        let needs = |tensor: &&Planned| {
            let known = of_tensor(options.importance.as_ref(), &tensor.source).is_some();
            let mix = options.mix.as_ref();
            !known && mix.is_some_and(|mix| mix.needs_importance(&tensor.name, tensor.choice.format))
        };
        let needs_importance = changed().find(needs).map(|tensor| (tensor.name.clone(), tensor.choice.format));
        describe(&mut metadata, &options.mix, options.importance.as_ref(), &options.importance_file);
        if !options.prune.is_empty() {
            let layers = model.layers - options.prune.len() as u32;
            metadata.insert(format!("{}.block_count", model.architecture), layers);
        }
        for (key, value) in options.overrides {
            metadata.insert(key, value);
        }
        Ok(Plan { file: file.clone(), metadata, tensors: planned, importance: options.importance, needs_importance })
    }

    /// The tensors of the new file, in its order.
    pub fn tensors(&self) -> &[Planned] {
        &self.tensors
    }

    /// The first tensor that is worthless without an importance matrix, and there is no importance of it.
    pub fn needs_importance(&self) -> Option<(&str, Format)> {
        self.needs_importance.as_ref().map(|(name, format)| (name.as_str(), *format))
    }

    /// What the data of each tensor is a multiple of in the new file, in bytes.
    ///
    /// # Errors
    /// A key of another type.
    pub fn alignment(&self) -> Result<u64, Error> {
        Ok(self.metadata.u32("general.alignment")?.map_or(32, |alignment| u64::from(alignment.max(1))))
    }

    /// Counts the bytes of the new file, where it is one.
    ///
    /// # Errors
    /// Metadata that no file can have.
    pub fn file_bytes(&self) -> Result<u64, Error> {
        let nothing = Arc::new(Pieces::new(0, 1));
        Ok(self.writer(&nothing, Arc::new(|_, _| true))?.file_bytes()?)
    }

    /// Writes one file; `threads` compute. It appears when it is complete.
    ///
    /// # Errors
    /// What reading and writing say; weights that are no finite numbers; a format that needs importance; [`Error::Cancelled`].
    pub fn write_file(&self, path: &Path, threads: usize, done: Arc<Done>) -> Result<(), Error> {
        self.run(threads, done, |writer| writer.write_file(path))
    }

    /// Writes as many files as the source has, each with the tensors of one: `STEM-00001-of-00002.gguf`. Returns the paths.
    ///
    /// # Errors
    /// As [`Plan::write_file`].
    pub fn write_shards(&self, stem: &Path, threads: usize, done: Arc<Done>) -> Result<Vec<PathBuf>, Error> {
        let mut counts = vec![0; self.file.shards()];
        self.tensors.iter().for_each(|tensor| counts[tensor.source.shard()] += 1);
        counts.retain(|&count| count > 0);
        counts.pop();
        self.run(threads, done, |writer| writer.write_shards(stem, Split::Counts(counts)))
    }

    fn run<T>(
        &self,
        threads: usize,
        done: Arc<Done>,
        write: impl FnOnce(&Writer) -> Result<T, candor_gguf::Error>,
    ) -> Result<T, Error> {
        if let Some((tensor, format)) = self.needs_importance.clone() {
            return Err(Error::NeedsImportance { tensor, format });
        }
        let work: Vec<(usize, u64, u64)> = (0..self.tensors.len()).flat_map(|i| self.pieces(i)).collect();
        let threads = threads.max(1);
        let encoder = Encoder::new(&self.file, self.importance.as_ref())?;
        let pieces = Arc::new(Pieces::new(work.len(), threads * AHEAD));
        let writer = self.writer(&pieces, done)?;
        let written = thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut values = Vec::new();
                    pieces.work(|number| {
                        let (tensor, first, rows) = work[number];
                        let Planned { source, choice, .. } = &self.tensors[tensor];
                        encoder.rows(source, choice.format, (first, rows), &mut values)
                    });
                });
            }
            let written = write(&writer);
            pieces.end(None);
            written
        });
        written.map_err(|error| pieces.failure().unwrap_or(error.into()))
    }

    /// The pieces of a tensor: its number, the first row, how many.
    fn pieces(&self, number: usize) -> impl Iterator<Item = (usize, u64, u64)> {
        let (rows, step) = self.piece_rows(number);
        (0..rows).step_by(step).map(move |first| (number, first as u64, (rows - first).min(step) as u64))
    }

    /// Rows of a tensor, and of a piece.
    fn piece_rows(&self, number: usize) -> (usize, usize) {
        let source = &self.tensors[number].source;
        let cols = source.shape[0].max(1);
        ((source.elements() / cols) as usize, (PIECE / cols).max(1) as usize)
    }

    fn writer(&self, pieces: &Arc<Pieces>, done: Arc<Done>) -> Result<Writer, Error> {
        let total: u64 = self.tensors.iter().map(|tensor| tensor.bytes).sum();
        let mut writer = Writer::new();
        for (key, value) in self.metadata.iter() {
            writer.insert(key, value.clone());
        }
        let mut before = 0;
        for (number, tensor) in self.tensors.iter().enumerate() {
            let (pieces, done) = (pieces.clone(), done.clone());
            let (rows, step) = self.piece_rows(number);
            let make = move |put: &mut dyn FnMut(&[u8]) -> io::Result<()>| {
                let mut written = before;
                for _ in 0..rows.div_ceil(step) {
                    if !done(written, total) {
                        pieces.end(Some(Error::Cancelled));
                    }
                    let piece = pieces.take().ok_or_else(|| io::Error::other("a thread failed"))?;
                    put(&piece)?;
                    written += piece.len() as u64;
                }
                Ok(())
            };
            writer.tensor_in_pieces(&tensor.name, tensor.choice.format, &tensor.source.shape, make)?;
            before += tensor.bytes;
        }
        Ok(writer)
    }
}

/// The tensors that stay, with their names when layers are left out.
fn renamed(file: &Gguf, prune: &[u32], layers: u32) -> Result<Vec<(String, TensorInfo)>, Error> {
    if let Some(&layer) = prune.iter().find(|&&layer| layer >= layers) {
        return Err(Error::Prune { layer, layers });
    }
    let numbers: BTreeMap<u32, u32> = (0..layers).filter(|layer| !prune.contains(layer)).zip(0..).collect();
    let name = |tensor: &TensorInfo| {
        let rest = tensor.name.strip_prefix("blk.").filter(|_| !prune.is_empty());
        let Some((layer, rest)) = rest.and_then(|rest| rest.split_once('.')) else {
            return Some(tensor.name.clone());
        };
        match layer.parse() {
            Ok(layer) if layer < layers => numbers.get(&layer).map(|number| format!("blk.{number}.{rest}")),
            _ => Some(tensor.name.clone()),
        }
    };
    Ok(file.tensors().iter().filter_map(|tensor| Some((name(tensor)?, tensor.clone()))).collect())
}

/// Importance has a number for each column, of each expert. Embeddings are looked up, and what is said of them is ignored where it
/// does not fit.
fn check(importance: &Importance, tensor: &Planned) -> Result<(), Error> {
    let source = &tensor.source;
    let Some(values) = importance.entries.get(&source.name) else { return Ok(()) };
    let expected = columns(source);
    if values.len() as u64 == expected || EMBEDDINGS.contains(&source.name.as_str()) {
        return Ok(());
    }
    let problem = format!("expected {expected} numbers, got {}", values.len());
    Err(Error::Importance { entry: source.name.clone(), problem })
}

/// What a file says of how it was made.
fn describe(metadata: &mut Metadata, mix: &Option<Mix>, importance: Option<&Importance>, file: &str) {
    metadata.insert("general.quantization_version", 2u32);
    if let Some(mix) = mix {
        metadata.insert("general.file_type", mix.kind.id());
    }
    let Some(importance) = importance else { return };
    metadata.insert("quantize.imatrix.file", file);
    if let Some(dataset) = importance.datasets.first() {
        metadata.insert("quantize.imatrix.dataset", dataset.as_str());
    }
    metadata.insert("quantize.imatrix.entries_count", importance.entries.len() as u32);
    if importance.chunks > 0 {
        metadata.insert("quantize.imatrix.chunks_count", importance.chunks);
    }
}
