//! The files of llama-imatrix, written and read: for each matrix sums over what it was multiplied with. GGUF files, and the older
//! format before them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use candor_gguf::{Format, Gguf, Writer};

use crate::Error;

/// What matrices were multiplied with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imatrix {
    /// By the name of the tensor.
    pub entries: BTreeMap<String, Entry>,
    /// The texts that it was made of.
    pub datasets: Vec<String>,
    /// Windows of text that were read; 0 where the file does not say.
    pub chunks: u32,
    /// Tokens of a window; 0 where the file does not say.
    pub window: u32,
}

/// What one tensor was multiplied with: rows of as many numbers as it has columns. Of a stack of matrices one run of columns follows
/// the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Sums of squares, `[matrices, columns]`.
    pub squares: Vec<f32>,
    /// Sums, `[matrices, columns]`; empty where the file has none.
    pub sums: Vec<f32>,
    /// Rows: of each matrix, or of all of them.
    pub counts: Vec<u64>,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As a GGUF file.
    Gguf,
    /// In the format before, which has no sums and no counts of experts.
    Dat,
}

/// The window that llama.cpp takes for a file that does not say.
const WINDOW: u32 = 512;

impl Entry {
    /// Nothing yet, of `matrices` of `columns` columns, each of which counts its own rows where `apart`.
    pub fn new(matrices: usize, columns: usize, apart: bool) -> Entry {
        let zeros = vec![0.0; matrices * columns];
        Entry { squares: zeros.clone(), sums: zeros, counts: vec![0; if apart { matrices } else { 1 }] }
    }

    /// Adds a row that matrix `matrix` is multiplied with.
    ///
    /// # Panics
    /// If there is no such matrix, or it has another number of columns.
    pub fn add(&mut self, matrix: usize, row: &[f32]) {
        let at = matrix * row.len();
        for (sum, x) in self.squares[at..][..row.len()].iter_mut().zip(row) {
            *sum += x * x;
        }
        for (sum, x) in self.sums[at..][..row.len()].iter_mut().zip(row) {
            *sum += x;
        }
        if let Some(count) = self.counts.get_mut(matrix) {
            *count += 1;
        }
    }

    /// Mean squares, `[matrices, columns]`; 1 for a matrix that saw nothing.
    pub fn means(&self) -> Vec<f32> {
        let columns = self.columns();
        let mean = |(at, &sum): (usize, &f32)| match self.counts.get(at / columns) {
            Some(&count) if count > 0 => sum / count as f32,
            _ => 1.0,
        };
        self.squares.iter().enumerate().map(mean).collect()
    }

    /// Matrices that saw nothing, of those that count.
    pub fn unseen(&self) -> usize {
        self.counts.iter().filter(|&&count| count == 0).count()
    }

    /// Numbers for each count.
    fn columns(&self) -> usize {
        (self.squares.len() / self.counts.len().max(1)).max(1)
    }

    /// Adds what another run counted.
    fn merge(&mut self, other: &Entry) -> Result<(), String> {
        if other.squares.len() != self.squares.len() {
            return Err(format!("expected {} numbers, got {}", self.squares.len(), other.squares.len()));
        }
        if self.counts.len() == 1 {
            self.counts = vec![self.counts[0]; other.counts.len()];
        }
        if !matches!(other.counts.len(), length if length == 1 || length == self.counts.len()) {
            return Err(format!("expected {} counts, got {}", self.counts.len(), other.counts.len()));
        }
        self.squares.iter_mut().zip(&other.squares).for_each(|(sum, more)| *sum += more);
        match other.sums.is_empty() {
            true => self.sums.clear(),
            false => self.sums.iter_mut().zip(&other.sums).for_each(|(sum, more)| *sum += more),
        }
        for (at, count) in self.counts.iter_mut().enumerate() {
            *count += other.counts[at.min(other.counts.len() - 1)];
        }
        Ok(())
    }
}

impl Imatrix {
    /// Reads a file of either format.
    ///
    /// # Errors
    /// A file that can't be read, that is cut short, or holds what is no finite number.
    pub fn open(path: &Path) -> Result<Imatrix, Error> {
        let wrong = |problem: String| Error::Importance { entry: path.display().to_string(), problem };
        let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let read = if bytes.starts_with(b"GGUF") {
            of_gguf(&Gguf::from_bytes(bytes.into()).map_err(|error| wrong(error.to_string()))?)?
        } else {
            of_older(&bytes).ok_or_else(|| wrong("it is no GGUF file and no importance matrix of 2024".to_owned()))?
        };
        if read.entries.is_empty() {
            return Err(wrong("it holds no entries".to_owned()));
        }
        read.check()?;
        Ok(read)
    }

    /// Refuses what no model of finite numbers gives.
    ///
    /// # Errors
    /// A sum that is no finite number.
    pub fn check(&self) -> Result<(), Error> {
        for (name, entry) in &self.entries {
            if let Some(value) = entry.squares.iter().chain(&entry.sums).find(|value| !value.is_finite()) {
                let problem = format!("expected finite numbers, got {value}");
                return Err(Error::Importance { entry: name.clone(), problem });
            }
        }
        Ok(())
    }

    /// Adds what other runs counted.
    ///
    /// # Errors
    /// An entry of another size.
    pub fn merge(&mut self, other: Imatrix) -> Result<(), Error> {
        for (name, entry) in other.entries {
            match self.entries.get_mut(&name) {
                Some(own) => own.merge(&entry).map_err(|problem| Error::Importance { entry: name, problem })?,
                None => _ = self.entries.insert(name, entry),
            }
        }
        self.chunks += other.chunks;
        self.window = if self.window == 0 { other.window } else { self.window };
        self.datasets.extend(other.datasets);
        Ok(())
    }

    /// Writes a file; what has that name is replaced once all is written.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, path: &Path, layout: Layout) -> Result<(), Error> {
        match layout {
            Layout::Gguf => self.writer()?.write_file(path)?,
            Layout::Dat => candor_gguf::replace_file(path, |out| out.write_all(&self.older()))?,
        }
        Ok(())
    }

    fn writer(&self) -> Result<Writer, Error> {
        let mut writer = Writer::new();
        writer.insert("general.type", "imatrix");
        writer.insert("imatrix.datasets", self.datasets.iter().map(String::as_str).collect::<Vec<_>>());
        writer.insert("imatrix.chunk_count", self.chunks);
        writer.insert("imatrix.chunk_size", self.window());
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        for (name, entry) in &self.entries {
            let numbers: Vec<f32> = entry.counts.iter().map(|&count| count as f32).collect();
            let counts = entry.counts.len() as u64;
            // As ggml writes it: what is one has no dimension.
            let shape = |first: u64| if counts == 1 { vec![first] } else { vec![first, counts] };
            let wide = shape(entry.columns() as u64);
            writer.tensor(&format!("{name}.in_sum2"), Format::F32, &wide, bytes(&entry.squares))?;
            writer.tensor(&format!("{name}.counts"), Format::F32, &shape(1), bytes(&numbers))?;
            if !entry.sums.is_empty() {
                writer.tensor(&format!("{name}.in_sum"), Format::F32, &wide, bytes(&entry.sums))?;
            }
        }
        Ok(writer)
    }

    /// The bytes of the older format: as if each window had been a call.
    fn older(&self) -> Vec<u8> {
        let window = u64::from(self.window());
        let seen = |(_, entry): &(&String, &Entry)| entry.unseen() < entry.counts.len();
        let entries: Vec<_> = self.entries.iter().filter(seen).collect();
        let mut out = Vec::new();
        let number = |out: &mut Vec<u8>, value: usize| out.extend((value as u32).to_le_bytes());
        number(&mut out, entries.len());
        for (name, entry) in entries {
            let calls = entry.counts.iter().max().map_or(0, |most| most.div_ceil(window));
            number(&mut out, name.len());
            out.extend(name.as_bytes());
            number(&mut out, calls as usize);
            number(&mut out, entry.squares.len());
            out.extend(entry.means().iter().flat_map(|mean| (mean * calls as f32).to_le_bytes()));
        }
        number(&mut out, self.chunks as usize);
        let dataset = self.datasets.last().map_or("", String::as_str);
        number(&mut out, dataset.len());
        out.extend(dataset.as_bytes());
        out
    }

    fn window(&self) -> u32 {
        if self.window == 0 { WINDOW } else { self.window }
    }
}

/// Sums of squares, and how many rows they are of; for each expert its own number.
fn of_gguf(file: &Gguf) -> Result<Imatrix, Error> {
    let metadata = file.metadata();
    let mut read = Imatrix {
        datasets: metadata.strings("imatrix.datasets")?.unwrap_or_default().to_vec(),
        chunks: metadata.u32("imatrix.chunk_count")?.unwrap_or(0),
        window: metadata.u32("imatrix.chunk_size")?.unwrap_or(0),
        entries: BTreeMap::new(),
    };
    let floats = |name: &str| {
        let tensor = file.tensor(name).filter(|tensor| tensor.format == Format::F32)?;
        let mut values = vec![0.0; usize::try_from(tensor.elements()).ok()?];
        Format::F32.decode(&file.data(tensor), &mut values);
        Some(values)
    };
    for tensor in file.tensors() {
        let Some(name) = tensor.name.strip_suffix(".in_sum2") else { continue };
        let counts = floats(&format!("{name}.counts")).filter(|counts| !counts.is_empty());
        let (Some(squares), Some(counts)) = (floats(&tensor.name), counts) else {
            let problem = "expected sums and counts as F32".to_owned();
            return Err(Error::Importance { entry: name.to_owned(), problem });
        };
        let sums = floats(&format!("{name}.in_sum")).filter(|sums| sums.len() == squares.len()).unwrap_or_default();
        let counts = counts.iter().map(|count| count.round() as u64).collect();
        read.entries.insert(name.to_owned(), Entry { squares, sums, counts });
    }
    Ok(read)
}

/// Takes numbers and texts off the front of bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        self.0.split_off(..count)
    }

    fn number(&mut self) -> Option<i32> {
        Some(i32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        Some(String::from_utf8_lossy(self.take(length)?).into_owned())
    }
}

/// Names, calls and sums of means; behind them the number of chunks and the name of the text, in newer files. A call is a window.
fn of_older(bytes: &[u8]) -> Option<Imatrix> {
    let mut reader = Reader(bytes);
    let mut read = Imatrix::default();
    for _ in 0..reader.length().filter(|&count| count > 0)? {
        let name = reader.text()?;
        let calls = u64::try_from(reader.number()?).unwrap_or(0).max(1);
        let length = reader.length().filter(|&length| length > 0)?;
        let sums = reader.take(length.checked_mul(4)?)?.as_chunks::<4>().0;
        let squares = sums.iter().map(|&bytes| f32::from_le_bytes(bytes) * WINDOW as f32).collect();
        let counts = vec![calls * u64::from(WINDOW)];
        read.entries.insert(name, Entry { squares, sums: Vec::new(), counts });
    }
    if let Some(chunks) = reader.number() {
        read.chunks = u32::try_from(chunks).unwrap_or(0);
        read.datasets.extend(reader.text().filter(|text| !text.is_empty()));
    }
    Some(read)
}
