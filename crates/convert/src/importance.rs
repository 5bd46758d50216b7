//! Importance matrices, as llama-imatrix writes them: GGUF files, and the older format before them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use candor_gguf::{Format, Gguf};

use crate::Error;

/// How much each column of each matrix counts: the mean square of what it was multiplied with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Importance {
    /// By the name of the tensor; of a stack of experts one run of columns after the other.
    pub entries: BTreeMap<String, Vec<f32>>,
    /// The texts that it was made of.
    pub datasets: Vec<String>,
    /// Pieces of text that were read; 0 where the file does not say.
    pub chunks: u32,
}

impl Importance {
    /// Reads a file of either format.
    ///
    /// # Errors
    /// A file that can't be read, that is cut short, or holds what is no finite number.
    pub fn open(path: &Path) -> Result<Importance, Error> {
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
        for (entry, values) in &read.entries {
            if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                let problem = format!("expected finite numbers, got {value}");
                return Err(Error::Importance { entry: entry.clone(), problem });
            }
        }
        Ok(read)
    }

    /// Keeps the entries whose name holds one of `included`, where any are given, and none of `excluded`.
    pub fn restrict(&mut self, included: &[String], excluded: &[String]) {
        let has = |name: &str, parts: &[String]| parts.iter().any(|part| name.contains(part.as_str()));
        self.entries.retain(|name, _| (included.is_empty() || has(name, included)) && !has(name, excluded));
    }
}

/// Sums of squares, and how many rows they are of; for each expert its own number. Experts that saw nothing count evenly.
fn of_gguf(file: &Gguf) -> Result<Importance, Error> {
    let metadata = file.metadata();
    let mut read = Importance {
        datasets: metadata.strings("imatrix.datasets")?.unwrap_or_default().to_vec(),
        chunks: metadata.u32("imatrix.chunk_count")?.unwrap_or(0),
        ..Importance::default()
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
        let (Some(mut sums), Some(counts)) = (floats(&tensor.name), counts) else {
            let problem = "expected sums and counts as F32".to_owned();
            return Err(Error::Importance { entry: name.to_owned(), problem });
        };
        let columns = (sums.len() / counts.len()).max(1);
        for (sums, count) in sums.chunks_mut(columns).zip(counts) {
            let count = count.round();
            sums.iter_mut().for_each(|sum| *sum = if count > 0.0 { *sum / count } else { 1.0 });
        }
        read.entries.insert(name.to_owned(), sums);
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

/// Names, calls and sums of means; behind them the number of chunks and the name of the text, in newer files.
fn of_older(bytes: &[u8]) -> Option<Importance> {
    let mut reader = Reader(bytes);
    let mut read = Importance::default();
    for _ in 0..reader.length().filter(|&count| count > 0)? {
        let name = reader.text()?;
        let calls = reader.number()?;
        let length = reader.length().filter(|&length| length > 0)?;
        let sums = reader.take(length.checked_mul(4)?)?.as_chunks::<4>().0;
        let divisor = if calls > 0 { calls as f32 } else { 1.0 };
        read.entries.insert(name, sums.iter().map(|&bytes| f32::from_le_bytes(bytes) / divisor).collect());
    }
    if let Some(chunks) = reader.number() {
        read.chunks = u32::try_from(chunks).unwrap_or(0);
        read.datasets.extend(reader.text().filter(|text| !text.is_empty()));
    }
    Some(read)
}
