//! Writing a trace while the model runs: rows go to a spool file beside the output as they come, and are gathered by
//! value at the end. Memory holds an entry per push and one value's rows, not the trace.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::{error::WriteError, laid::Laid, layout};
use crate::{Key, Origin};

/// Takes the values of a pass, prompt first and then step by step, and makes a trace file of them.
///
/// The spool `OUT.partial` goes away with the writer, whether it finished or not.
pub struct TraceWriter {
    path: PathBuf,
    spool: Spool,
    chunks: BTreeMap<Key, Vec<Chunk>>,
}

/// The temporary file; removed when dropped.
struct Spool {
    path: PathBuf,
    file: BufWriter<File>,
    length: u64,
}

impl Drop for Spool {
    fn drop(&mut self) {
        // Nothing can be done about a spool that will not go away.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Rows that came together.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    first: usize,
    rows: usize,
    width: usize,
    offset: u64,
}

impl Chunk {
    fn end(&self) -> usize {
        self.first.saturating_add(self.rows)
    }
}

impl TraceWriter {
    /// The files that are there while `path` is written, and not after: the spool, and the file on its way to its name.
    pub fn drafts(path: &Path) -> [PathBuf; 2] {
        [".partial", layout::WRITING].map(|end| {
            let mut draft = path.as_os_str().to_owned();
            draft.push(end);
            draft.into()
        })
    }

    /// Opens the spool beside `path`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<TraceWriter, WriteError> {
        let [spool, _] = TraceWriter::drafts(path);
        let open = File::options().read(true).write(true).create(true).truncate(true).open(&spool);
        let file = BufWriter::with_capacity(1 << 20, open.map_err(WriteError::io(path))?);
        Ok(TraceWriter {
            path: path.to_owned(),
            spool: Spool { path: spool, file, length: 0 },
            chunks: BTreeMap::new(),
        })
    }

    /// Appends rows of a value: `values` are `[rows, width]`, the first of them token `first`'s.
    ///
    /// Attention scores are `[rows, heads * positions]`, with a position for every token up to the last of these rows.
    /// In the file, positions after that are 0.
    ///
    /// # Errors
    /// If the values are no rows of `width`, earlier rows had another width, or the spool cannot be written.
    pub fn push(&mut self, key: &Key, width: usize, first: usize, values: &[f32]) -> Result<(), WriteError> {
        let rows = values.len().checked_div(width).unwrap_or(0);
        let chunk = Chunk { first, rows, width, offset: self.spool.length };
        let ragged = || WriteError::Ragged { key: key.clone(), values: values.len(), width };
        if width == 0 || rows * width != values.len() {
            return Err(ragged());
        }
        let heads = heads_of(key, &chunk).ok_or_else(ragged)?;
        if let Some(before) = self.chunks.get(key).and_then(|chunks| chunks.first()) {
            let expected = heads_of(key, before);
            if expected != Some(heads) {
                let found = width;
                return Err(WriteError::Width { key: key.clone(), expected: before.width, found });
            }
        }
        layout::write_floats(values, &mut self.spool.file).map_err(WriteError::io(&self.spool.path))?;
        self.spool.length += size_of_val(values) as u64;
        match self.chunks.get_mut(key) {
            Some(chunks) => chunks.push(chunk),
            None => {
                self.chunks.insert(key.clone(), vec![chunk]);
            }
        }
        Ok(())
    }

    /// Gathers the rows of every value into the trace file.
    ///
    /// # Errors
    /// If a row came twice, or a file cannot be read or written.
    pub fn finish(mut self, origin: &Origin) -> Result<(), WriteError> {
        self.spool.file.flush().map_err(WriteError::io(&self.spool.path))?;
        let mut laid = Vec::with_capacity(self.chunks.len());
        for (key, chunks) in &mut self.chunks {
            chunks.sort_by_key(|chunk| chunk.first);
            if let Some(pair) = chunks.windows(2).find(|pair| pair[0].end() > pair[1].first) {
                return Err(WriteError::Twice { key: key.clone(), row: pair[1].first });
            }
            laid.push(lay(key, chunks));
        }
        let chunks: Vec<&Vec<Chunk>> = self.chunks.values().collect();
        let file = self.spool.file.get_mut();
        layout::save(&self.path, &laid, origin, |index, out| gather(file, &laid[index], chunks[index], out))
    }
}

/// What must stay the same from push to push: the heads of attention scores, else the width. `None` where scores do
/// not divide into heads.
fn heads_of(key: &Key, chunk: &Chunk) -> Option<usize> {
    if !layout::is_scores(&key.name) {
        return Some(chunk.width);
    }
    let positions = chunk.end();
    (positions > 0 && chunk.width.is_multiple_of(positions)).then(|| chunk.width / positions)
}

fn lay(key: &Key, chunks: &[Chunk]) -> Laid {
    let rows = chunks.iter().flat_map(|chunk| chunk.first..chunk.end()).collect();
    let scores = layout::is_scores(&key.name);
    let heads = chunks.first().filter(|_| scores).and_then(|chunk| heads_of(key, chunk));
    let width = chunks.iter().map(|chunk| chunk.width).max().unwrap_or(0);
    Laid { key: key.clone(), rows, width, heads }
}

/// Copies one value's chunks from the spool to the output, heads outermost where it has them.
fn gather(spool: &mut File, laid: &Laid, chunks: &[Chunk], out: &mut impl Write) -> io::Result<()> {
    let Some(heads) = laid.heads else {
        for chunk in chunks {
            spool.seek(SeekFrom::Start(chunk.offset))?;
            let bytes = (chunk.rows * chunk.width * size_of::<f32>()) as u64;
            let copied = io::copy(&mut Read::take(&mut *spool, bytes), out)?;
            if copied != bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        return Ok(());
    };
    let positions = laid.width.checked_div(heads).unwrap_or(0);
    let mut line = vec![0_u8; positions * size_of::<f32>()];
    for head in 0..heads {
        for chunk in chunks {
            let known = chunk.end() * size_of::<f32>();
            let row_bytes = (chunk.width * size_of::<f32>()) as u64;
            for row in 0..chunk.rows {
                let start = chunk.offset + row as u64 * row_bytes + (head * known) as u64;
                spool.seek(SeekFrom::Start(start))?;
                spool.read_exact(&mut line[..known])?;
                line[known..].fill(0);
                out.write_all(&line)?;
            }
        }
    }
    Ok(())
}
