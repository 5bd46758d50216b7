//! A file that is not whole yet, and the record of its pieces that are.
//!
//! The record is a text beside the file: a line that says which file it is, then a line for each piece, with its number and the
//! beginning of its SHA-256. A line is written after its piece. What is on the disk is held to the record when it is taken up
//! again, so that neither a kill nor a loss of power makes a piece pass for whole.

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{
    disk::{self, at, entries, make_folder, rename, unique},
    error::Error,
};

/// What the names of unfinished files end with.
pub const ENDING: &str = ".candor-part";
const RECORD_ENDING: &str = ".candor-record";
/// Beyond any file: 128 TB of the usual pieces.
pub const MOST_PIECES: u64 = 1 << 24;
const MAGIC: &str = "candor-record-1";

/// The beginning of a piece's SHA-256.
pub type Mark = [u8; 8];

/// What a file is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The name of the model that it belongs to.
    pub model: String,
    /// Its own name.
    pub name: String,
    pub bytes: u64,
    /// Bytes of a piece.
    pub piece: u64,
    pub sha256: Option<String>,
}

/// A file that is not whole yet.
pub struct Partial {
    path: PathBuf,
    record_path: PathBuf,
    record: File,
}

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    pub frame: Frame,
    /// What the server compared it with.
    pub validator: Option<String>,
    /// The marks of the pieces that are whole.
    pub marks: Vec<Option<Mark>>,
    /// Bytes of the record that are whole lines.
    whole: u64,
}

/// A file that can be gone on with.
pub struct Found {
    pub path: PathBuf,
    pub record_path: PathBuf,
    pub record: Record,
}

impl Frame {
    /// How many pieces it has.
    pub fn pieces(&self) -> usize {
        self.bytes.div_ceil(self.piece) as usize
    }

    /// Where a piece begins and ends.
    pub fn range(&self, piece: usize) -> (u64, u64) {
        let begin = piece as u64 * self.piece;
        (begin, self.bytes.min(begin + self.piece))
    }
}

impl Record {
    /// Of a file of which nothing is there.
    pub fn new(frame: Frame, validator: Option<&str>) -> Record {
        Record { frame, validator: validator.map(str::to_owned), marks: Vec::new(), whole: 0 }
    }

    /// Reads a record; `None` if it cannot be read as one.
    pub fn read(path: &Path) -> Option<Record> {
        let text = fs::read(path).ok()?;
        // What follows the last line break was being written when the program was killed.
        let whole = text.iter().rposition(|byte| *byte == b'\n')? + 1;
        let text = std::str::from_utf8(&text[..whole]).ok()?;
        let mut lines = text.lines();
        let first: serde_json::Value = serde_json::from_str(lines.next()?).ok()?;
        if first["format"] != MAGIC {
            return None;
        }
        let text = |key: &str| first[key].as_str().map(str::to_owned);
        let number = |key: &str| first[key].as_u64();
        let frame = Frame {
            model: text("model")?,
            name: text("name")?,
            bytes: number("bytes")?,
            piece: number("piece").filter(|bytes| *bytes >= 1)?,
            sha256: text("sha256"),
        };
        // A line for each piece is there or not: the record's length bounds what it makes of memory.
        let (mut validator, mut noted) = (None, Vec::new());
        for line in lines {
            match line.split_once(' ')? {
                ("validator", value) => validator = Some(value.to_owned()),
                (index, mark) => noted.push((index.parse::<usize>().ok()?, mark_of(mark)?)),
            }
        }
        if frame.bytes / frame.piece > MOST_PIECES {
            return None;
        }
        let (pieces, last) = (frame.pieces(), noted.iter().map(|(index, _)| index + 1).max().unwrap_or(0));
        if last > pieces {
            return None;
        }
        let mut marks = vec![None; last];
        for (index, mark) in noted {
            marks[index] = Some(mark);
        }
        Some(Record { frame, validator, marks, whole: whole as u64 })
    }
}

impl Record {
    /// Bytes that are said to be whole.
    pub fn there(&self) -> u64 {
        let ranges = self.marks.iter().enumerate().filter(|(_, mark)| mark.is_some()).map(|(i, _)| self.frame.range(i));
        ranges.map(|(begin, end)| end - begin).sum()
    }
}

impl Found {
    /// Bytes of the disk that the file has already: whole pieces, and what came of others, which is written over.
    pub fn room(&self) -> u64 {
        self.record.there().max(disk::taken(&self.path).unwrap_or(0))
    }
}

/// Of the files in this folder that begin with `stem` and are of this frame, the one of which most is there. Without a hash what
/// compares it must be the same, too.
pub fn find(folder: &Path, stem: &str, frame: &Frame, validator: Option<&str>) -> Option<Found> {
    let fits = |record: &Record| {
        let same = frame.sha256.is_some() || (validator.is_some() && record.validator.as_deref() == validator);
        same && (record.frame.bytes, &record.frame.sha256) == (frame.bytes, &frame.sha256)
    };
    let found = unfinished(folder, stem).into_iter().filter(|found| fits(&found.record));
    found.max_by_key(|found| found.record.there())
}

impl Partial {
    /// Goes on with the file that [`find`] found.
    pub fn resume(found: Found) -> Result<(Partial, Record), Error> {
        let Found { path, record_path, record } = found;
        let file = OpenOptions::new().append(true).open(&record_path).map_err(at(&record_path))?;
        file.set_len(record.whole).map_err(at(&record_path))?;
        Ok((Partial { path, record_path, record: file }, record))
    }

    /// Begins a file in this folder, with a name that nobody else has.
    pub fn create(folder: &Path, stem: &str, frame: &Frame, validator: Option<&str>) -> Result<Partial, Error> {
        make_folder(folder)?;
        let unique = unique();
        let path = folder.join(format!("{stem}.{unique}{ENDING}"));
        let record_path = folder.join(format!("{stem}.{unique}{RECORD_ENDING}"));
        let new = |path: &Path| OpenOptions::new().append(true).create_new(true).open(path).map_err(at(path));
        let record = new(&record_path)?;
        new(&path)?;
        let partial = Partial { path, record_path, record };
        let first = serde_json::json!({
            "format": MAGIC, "model": frame.model, "name": frame.name, "bytes": frame.bytes, "piece": frame.piece,
            "sha256": frame.sha256,
        });
        partial.line(&first.to_string())?;
        if let Some(validator) = validator {
            partial.note_validator(validator)?;
        }
        Ok(partial)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A handle to write with.
    pub fn writer(&self) -> Result<File, Error> {
        OpenOptions::new().read(true).write(true).open(&self.path).map_err(at(&self.path))
    }

    /// Notes that a piece is whole.
    pub fn note(&self, piece: usize, mark: Mark) -> Result<(), Error> {
        self.line(&format!("{piece} {}", hex(&mark)))
    }

    /// Notes what the server compares the file with.
    pub fn note_validator(&self, validator: &str) -> Result<(), Error> {
        self.line(&format!("validator {validator}"))
    }

    fn line(&self, text: &str) -> Result<(), Error> {
        // One write: a line is there, or its end is missing.
        (&self.record).write_all(format!("{text}\n").as_bytes()).map_err(at(&self.record_path))
    }

    /// Whether a piece on the disk has this mark.
    pub fn holds(&self, frame: &Frame, piece: usize, mark: Mark) -> Result<bool, Error> {
        let (begin, end) = frame.range(piece);
        let mut file = self.writer()?;
        let mut hash = Sha256::new();
        let read = hash_range(&mut file, begin, end, &mut hash).map_err(at(&self.path))?;
        Ok(read == end - begin && mark_from(hash) == mark)
    }

    /// Gives the file its name, on the disk.
    pub fn finish(self, target: &Path) -> Result<(), Error> {
        self.writer()?.sync_all().map_err(at(&self.path))?;
        if let Some(folder) = target.parent() {
            make_folder(folder)?;
        }
        rename(&self.path, target)?;
        // Only now: a file without its record would be fetched from its beginning.
        let _ = fs::remove_file(&self.record_path);
        Ok(())
    }

    /// Removes it.
    pub fn discard(self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.record_path);
    }
}

/// Removes what is left of earlier attempts at a file that is whole now.
pub fn sweep(folder: &Path, stem: &str) {
    for (path, record) in of_stem(folder, stem) {
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(record);
    }
}

/// Files in this folder that begin with `stem` and are not whole yet; with an empty one all of them.
pub fn unfinished(folder: &Path, stem: &str) -> Vec<Found> {
    let found = of_stem(folder, stem).into_iter().filter(|(path, _)| path.is_file());
    found
        .filter_map(|(path, record_path)| Some(Found { record: Record::read(&record_path)?, path, record_path }))
        .collect()
}

/// The unfinished files in a folder that begin with `stem`, with their records.
fn of_stem(folder: &Path, stem: &str) -> Vec<(PathBuf, PathBuf)> {
    let entries = entries(folder).unwrap_or_default().into_iter();
    let found = entries.filter_map(|(name, path)| {
        let begin = name.strip_suffix(RECORD_ENDING)?;
        // What makes a name unique has no dot.
        let (of, _) = begin.rsplit_once('.')?;
        if !stem.is_empty() && of != stem {
            return None;
        }
        Some((folder.join(format!("{begin}{ENDING}")), path))
    });
    found.collect()
}

/// Adds a range of a file to a hash; gives how much of it was there.
pub fn hash_range(file: &mut File, begin: u64, end: u64, hash: &mut Sha256) -> io::Result<u64> {
    file.seek(SeekFrom::Start(begin))?;
    let mut buffer = vec![0; 1 << 18];
    let mut read = 0;
    while read < end - begin {
        let most = buffer.len().min(usize::try_from(end - begin - read).unwrap_or(usize::MAX));
        match file.read(&mut buffer[..most])? {
            0 => break,
            n => {
                hash.update(&buffer[..n]);
                read += n as u64;
            }
        }
    }
    Ok(read)
}

/// The mark of what a hash has seen.
pub fn mark_from(hash: Sha256) -> Mark {
    let mut mark = Mark::default();
    mark.copy_from_slice(&hash.finalize()[..8]);
    mark
}

/// Bytes as digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn mark_of(digits: &str) -> Option<Mark> {
    if digits.len() != 16 {
        return None;
    }
    Some(u64::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame { model: "hf:u/r".into(), name: "a.gguf".into(), bytes: 10, piece: 4, sha256: Some("ab".into()) }
    }

    #[test]
    fn a_record_that_ends_within_a_line_counts_up_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let partial = Partial::create(folder.path(), "x", &frame(), Some("\"e\"")).unwrap();
        partial.note(2, [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let text = fs::read(&partial.record_path).unwrap();
        let whole = Record::read(&partial.record_path).unwrap();
        assert_eq!((whole.frame.clone(), whole.marks.len()), (frame(), 3));
        assert_eq!(whole.validator.as_deref(), Some("\"e\""));
        for cut in 0..text.len() {
            fs::write(&partial.record_path, &text[..cut]).unwrap();
            let read = Record::read(&partial.record_path);
            assert!(read.is_none_or(|record| record.marks.is_empty()), "cut after {cut} bytes");
        }
        // The next line begins where the last whole one ends.
        fs::write(&partial.record_path, &text[..text.len() - 3]).unwrap();
        let found = find(folder.path(), "x", &frame(), None).unwrap();
        let (again, record) = Partial::resume(found).unwrap();
        assert!(record.marks.is_empty());
        again.note(0, [9; 8]).unwrap();
        assert_eq!(Record::read(&again.record_path).unwrap().marks, [Some([9; 8])]);
    }

    #[cfg(unix)]
    #[test]
    fn what_came_of_a_piece_has_its_room_already() {
        let folder = tempfile::tempdir().unwrap();
        let frame = Frame { bytes: 1 << 20, piece: 1 << 20, ..frame() };
        let partial = Partial::create(folder.path(), "x", &frame, None).unwrap();
        let found = || find(folder.path(), "x", &frame, None).unwrap();
        assert_eq!(found().room(), 0);
        let mut file = partial.writer().unwrap();
        file.write_all(&[7; 300_000]).unwrap();
        file.sync_all().unwrap();
        assert!(found().record.there() == 0 && (300_000..400_000).contains(&found().room()), "{}", found().room());
    }

    #[test]
    fn only_what_is_the_same_file_is_taken_up() {
        let folder = tempfile::tempdir().unwrap();
        drop(Partial::create(folder.path(), "x", &frame(), None).unwrap());
        let resumes = |frame: &Frame, validator: Option<&str>| find(folder.path(), "x", frame, validator).is_some();
        assert!(resumes(&frame(), None));
        assert!(!resumes(&Frame { bytes: 11, ..frame() }, None));
        assert!(!resumes(&Frame { sha256: Some("cd".into()), ..frame() }, None));
        let unhashed = Frame { sha256: None, ..frame() };
        drop(Partial::create(folder.path(), "y", &unhashed, Some("\"e\"")).unwrap());
        let resumes = |validator: Option<&str>| find(folder.path(), "y", &unhashed, validator).is_some();
        assert!(resumes(Some("\"e\"")) && !resumes(Some("\"f\"")) && !resumes(None));
    }
}
