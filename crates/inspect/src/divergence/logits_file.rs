//! llama-perplexity's file of a model's probabilities: 16 bits for each token of the vocabulary, after each token that is scored.
//!
//! `_logits_`, then as 32-bit integers the tokens of a window, of the vocabulary, the windows, and the text. Each row is a scale and a
//! least logarithm (32-bit floats) and a 16-bit step for each token, padded to 32 bits. What is 16 nats below the greatest or more
//! is stored as if it were exactly that. All is little-endian.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use candor::Windows;

use super::error::Error;

const MAGIC: &[u8; 8] = b"_logits_";
/// Bytes before the text.
const HEAD: u64 = 20;
/// Nats below the greatest that are distinguished.
const RANGE: f32 = 16.0;

/// Reads such a file row by row.
#[derive(Debug)]
pub struct LogitsReader {
    path: PathBuf,
    file: BufReader<File>,
    window: usize,
    vocabulary: usize,
    tokens: Vec<u32>,
    bytes: Vec<u8>,
    row: Vec<f64>,
}

/// Writes such a file beside its name, which it gets once it is whole.
#[derive(Debug)]
pub struct LogitsWriter {
    path: PathBuf,
    draft: PathBuf,
    file: BufWriter<File>,
    vocabulary: usize,
    bytes: Vec<u8>,
}

impl LogitsReader {
    /// Logarithms of probabilities that count as impossible: up to here llama-perplexity leaves them out.
    pub const FLOOR: f64 = -16.0;

    /// Whether a file begins as one of these.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_one(path: &Path) -> Result<bool, Error> {
        let mut start = Vec::new();
        let file = File::open(path).map_err(io(path))?;
        file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(io(path))?;
        Ok(start == MAGIC)
    }

    /// Opens a file, and reads all before the first row.
    ///
    /// # Errors
    /// If it cannot be read, or its length is not what it says.
    pub fn open(path: &Path) -> Result<LogitsReader, Error> {
        let wrong = |problem: String| Error::File { path: path.to_owned(), problem };
        let file = File::open(path).map_err(io(path))?;
        let got = file.metadata().map_err(io(path))?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut head = [0; HEAD as usize];
        if got < HEAD {
            return Err(wrong(format!("expected the {HEAD} bytes of a head, got {got}")));
        }
        file.read_exact(&mut head).map_err(io(path))?;
        if !head.starts_with(MAGIC) {
            return Err(wrong(
                "it is no file of llama-perplexity's logits: it does not begin with _logits_".to_owned(),
            ));
        }
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let [window, vocabulary, count] = [8, 12, 16].map(|at| u64::from(number(at)));
        let text = 4 * u128::from(window) * u128::from(count);
        let rows = u128::from(scored(window)) * u128::from(count);
        let expected = u128::from(HEAD) + text + rows * u128::from(row_bytes(vocabulary));
        if window < 4 || vocabulary == 0 || u128::from(got) != expected {
            let what = format!("{count} windows of {window} tokens, {vocabulary} in the vocabulary");
            return Err(wrong(format!("expected {expected} bytes for {what}, got {got}")));
        }
        let mut bytes = vec![0; text as usize];
        file.read_exact(&mut bytes).map_err(io(path))?;
        let tokens: Vec<u32> = bytes.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
        if let Some(token) = tokens.iter().find(|&&token| u64::from(token) >= vocabulary) {
            return Err(wrong(format!("token {token} of its text is outside of its vocabulary of {vocabulary}")));
        }
        let (bytes, row) = (vec![0; row_bytes(vocabulary) as usize], Vec::new());
        let (path, window, vocabulary) = (path.to_owned(), window as usize, vocabulary as usize);
        Ok(LogitsReader { path, file, window, vocabulary, tokens, bytes, row })
    }

    /// Tokens of a window.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Tokens of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The text, in whole windows.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The next row: logarithms of probabilities, `[V]`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(&mut self) -> Result<&[f64], Error> {
        self.file.read_exact(&mut self.bytes).map_err(io(&self.path))?;
        let (head, steps) = self.bytes.split_at(8);
        let [scale, least] = [0, 4].map(|at| f32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        let steps = &steps.as_chunks().0[..self.vocabulary];
        self.row.clear();
        self.row.extend(steps.iter().map(|&step| f64::from(scale * f32::from(u16::from_le_bytes(step)) + least)));
        Ok(&self.row)
    }
}

impl LogitsWriter {
    /// Begins a file of what a model says of these windows.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path, windows: &Windows<'_>, vocabulary: usize) -> Result<LogitsWriter, Error> {
        let draft = LogitsWriter::draft(path);
        let file = BufWriter::with_capacity(1 << 20, File::create(&draft).map_err(io(path))?);
        let bytes = [windows.window(), vocabulary, windows.count()].map(|number| (number as u32).to_le_bytes());
        let mut head = [MAGIC.as_slice(), bytes.as_flattened()].concat();
        head.extend(windows.tokens().iter().flat_map(|token| token.to_le_bytes()));
        let mut writer = LogitsWriter { path: path.to_owned(), draft, file, vocabulary, bytes: head };
        writer.put()?;
        Ok(writer)
    }

    /// The file that is there while `path` is written.
    pub fn draft(path: &Path) -> PathBuf {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".partial");
        draft.into()
    }

    /// Writes a row; `logits` is `[V]`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, logits: &[f32]) -> Result<(), Error> {
        let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let least = logits.iter().copied().fold(f32::INFINITY, f32::min).max(greatest - RANGE);
        let sum: f64 = logits.iter().map(|&logit| f64::from((logit - greatest).exp())).sum();
        let scale = (greatest - least) / 65535.0;
        let step = |logit: f32| match scale > 0.0 && logit > least {
            true => (1.0 / scale * (logit - least)).round_ties_even() as u16,
            false => 0,
        };
        self.bytes.clear();
        self.bytes.extend([scale, least - greatest - sum.ln() as f32].map(f32::to_le_bytes).as_flattened());
        self.bytes.extend(logits.iter().flat_map(|&logit| step(logit).to_le_bytes()));
        self.bytes.resize(row_bytes(self.vocabulary as u64) as usize, 0);
        self.put()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        self.file.flush().and_then(|()| self.file.get_ref().sync_all()).map_err(io(&self.path))?;
        std::fs::rename(&self.draft, &self.path).map_err(io(&self.path))
    }

    fn put(&mut self) -> Result<(), Error> {
        self.file.write_all(&self.bytes).map_err(io(&self.path))
    }
}

impl Drop for LogitsWriter {
    fn drop(&mut self) {
        // It is not there any more once the file has its name.
        let _ = std::fs::remove_file(&self.draft);
    }
}

/// Rows of a window.
fn scored(window: u64) -> u64 {
    window.saturating_sub(1 + window / 2)
}

fn row_bytes(vocabulary: u64) -> u64 {
    8 + 4 * vocabulary.div_ceil(2)
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}
