//! Fetching a file: pieces over several connections at once, each noted when it is whole, and the whole checked while it comes.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    path::PathBuf,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use sha2::{Digest, Sha256};

use crate::{
    disk::{self, Lock, at},
    error::Error,
    http::{Answer, Http, Request, Token},
    partial::{self, Frame, MOST_PIECES, Mark, Partial, Record, hash_range, hex, mark_from},
    settings::Settings,
    url::host,
};

/// Pieces that one request asks for at most; fewer towards the end, so that no connection is left alone with much.
const RUN: usize = 8;
const BUFFER_BYTES: usize = 1 << 17;
/// How often the caller hears how far it is.
const BEAT: Duration = Duration::from_millis(50);
/// How often to look whether another process is done.
const LOOK: Duration = Duration::from_millis(100);

/// Who watches a download, and may end it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Watch<'a> {
    /// Is called with the bytes that are there and those of all files, some 20 times a second.
    pub progress: &'a dyn Fn(u64, u64),
    /// Is called with the name of a file that another process fetches at the moment, and is waited for.
    pub waits: &'a dyn Fn(&str),
    /// Ends the download when it is set; the next one goes on with it.
    pub cancel: &'a AtomicBool,
}

impl<'a> Watch<'a> {
    /// With all that is to be known.
    pub fn new(progress: &'a dyn Fn(u64, u64), waits: &'a dyn Fn(&str), cancel: &'a AtomicBool) -> Watch<'a> {
        Watch { progress, waits, cancel }
    }

    /// Whether no more is wanted.
    pub(crate) fn is_over(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// A file to fetch.
pub struct Wanted {
    /// The name of the model that it belongs to.
    pub model: String,
    /// Its own name.
    pub name: String,
    pub url: String,
    pub token: Option<Token>,
    pub bytes: u64,
    /// What the server says it is; without, `validator` holds its pieces together.
    pub sha256: Option<String>,
    /// What the server compares it with; with a hash what the first piece comes with.
    pub validator: Option<String>,
    /// Where it is to be.
    pub target: PathBuf,
    /// A small file that says which file that is, and what it says; none where the name of a file does.
    pub seal: Option<(PathBuf, String)>,
    /// Where it lies until then.
    pub partials: PathBuf,
    /// What its name begins with there.
    pub stem: String,
    pub lock: PathBuf,
}

impl Wanted {
    fn is_there(&self) -> bool {
        let is_this = |(path, text): &(PathBuf, String)| fs::read_to_string(path).is_ok_and(|there| there == *text);
        disk::length(&self.target) == Some(self.bytes) && self.seal.as_ref().is_none_or(is_this)
    }

    fn frame(&self, piece: u64) -> Frame {
        let Wanted { model, name, bytes, sha256, .. } = self;
        Frame { model: model.clone(), name: name.clone(), bytes: *bytes, piece, sha256: sha256.clone() }
    }
}

/// Fetches what is missing of these files; gives the bytes that came.
pub fn all(http: &Http, settings: &Settings, wanted: &[Wanted], watch: Watch<'_>) -> Result<u64, Error> {
    let missing: Vec<&Wanted> = wanted.iter().filter(|wanted| !wanted.is_there()).collect();
    for wanted in &missing {
        if wanted.bytes / settings.piece > MOST_PIECES {
            let problem = format!("it says that {} has {} bytes", wanted.name, wanted.bytes);
            return Err(Error::Answer { host: host(&wanted.url), problem });
        }
    }
    ask_for_room(settings, &missing)?;
    let total: u64 = wanted.iter().map(|wanted| wanted.bytes).sum();
    let mut before = total - missing.iter().map(|wanted| wanted.bytes).sum::<u64>();
    let mut fetched = 0;
    for wanted in missing {
        fetched += one(
            http,
            settings,
            wanted,
            Watch { progress: &|done, _| (watch.progress)(before + done, total), ..watch },
        )?;
        before += wanted.bytes;
    }
    (watch.progress)(total, total);
    Ok(fetched)
}

/// Whether the disk has room for what is still to come.
fn ask_for_room(settings: &Settings, missing: &[&Wanted]) -> Result<(), Error> {
    let Some(first) = missing.first() else { return Ok(()) };
    let to_come = |wanted: &&Wanted| {
        let frame = wanted.frame(settings.piece);
        let found = partial::find(&wanted.partials, &wanted.stem, &frame, wanted.validator.as_deref());
        wanted.bytes.saturating_sub(found.map_or(0, |found| found.room()))
    };
    let needed = missing.iter().map(to_come).fold(0, u64::saturating_add);
    match disk::free(&first.partials) {
        Some(free) if free < needed => Err(Error::Space { folder: first.partials.clone(), needed, free }),
        _ => Ok(()),
    }
}

/// Fetches a file; gives the bytes that came.
fn one(http: &Http, settings: &Settings, wanted: &Wanted, watch: Watch<'_>) -> Result<u64, Error> {
    let lock = wait_for(wanted, watch)?;
    // Without locks another process may be at it.
    let is_ours = matches!(lock, Lock::Ours(_));
    let sweep = || {
        if is_ours {
            partial::sweep(&wanted.partials, &wanted.stem);
        }
    };
    if wanted.is_there() {
        sweep();
        return Ok(0);
    }
    let frame = wanted.frame(settings.piece);
    let validator = wanted.validator.as_deref();
    let found = if is_ours { partial::find(&wanted.partials, &wanted.stem, &frame, validator) } else { None };
    let new = || -> Result<_, Error> {
        let partial = Partial::create(&wanted.partials, &wanted.stem, &frame, validator)?;
        let record = Record::new(frame.clone(), validator);
        Ok((partial, record))
    };
    let (mut partial, mut record) = found.map_or_else(new, Partial::resume)?;
    let mut fetched = 0;
    // What came wrong may come right, once.
    for last in [false, true] {
        let job = Job::new(http, wanted, &record, &partial, settings.connections.max(1), watch.cancel);
        let done = job.run(watch);
        fetched += job.fetched.load(Ordering::Relaxed);
        match done {
            Ok(()) => {
                if let Some((path, _)) = &wanted.seal {
                    // Of the old file: with it the new one would pass for that.
                    let _ = fs::remove_file(path);
                }
                partial.finish(&wanted.target)?;
                if let Some((path, text)) = &wanted.seal {
                    disk::write_whole(path, text)?;
                }
                sweep();
                return Ok(fetched);
            }
            Err(error @ Error::Hash { .. }) => {
                partial.discard();
                if last {
                    return Err(error);
                }
                (partial, record) = new()?;
            }
            Err(error @ Error::Changed { .. }) => {
                partial.discard();
                return Err(error);
            }
            Err(error) => return Err(error),
        }
    }
    unreachable!("the second round returns")
}

/// Waits until no other process fetches a file.
fn wait_for(wanted: &Wanted, watch: Watch<'_>) -> Result<Lock, Error> {
    let mut said = false;
    loop {
        match disk::lock(&wanted.lock)? {
            Lock::Others => {}
            lock => return Ok(lock),
        }
        if !said {
            (watch.waits)(&wanted.name);
            said = true;
        }
        if watch.is_over() {
            return Err(Error::Cancelled);
        }
        thread::sleep(LOOK);
    }
}

/// How it stands with a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// The record says that it is whole.
    Noted(Mark),
    Missing,
    Taken,
    Whole,
}

/// What a connection does next.
enum Task {
    Check(usize, Mark),
    Fetch(usize, usize),
}

/// Why pieces do not come.
enum Failure {
    Error(Error),
    /// The server sends files from their beginning alone.
    NoRanges,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

struct State {
    pieces: Vec<Piece>,
    failure: Option<Failure>,
}

/// A file that comes.
struct Job<'a> {
    http: &'a Http,
    wanted: &'a Wanted,
    frame: &'a Frame,
    partial: &'a Partial,
    connections: usize,
    cancel: &'a AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
    /// Bytes that are there, and those of them that came now.
    there: AtomicU64,
    fetched: AtomicU64,
    /// Where redirects led.
    place: Mutex<Option<String>>,
    validator: Mutex<Option<String>>,
}

/// Where a connection is in the file.
struct Cursor {
    file: File,
    at: u64,
    piece: usize,
    hash: Sha256,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Job<'a> {
    fn new(
        http: &'a Http,
        wanted: &'a Wanted,
        record: &'a Record,
        partial: &'a Partial,
        connections: usize,
        cancel: &'a AtomicBool,
    ) -> Job<'a> {
        let mut pieces = vec![Piece::Missing; record.frame.pieces()];
        for (piece, mark) in pieces.iter_mut().zip(&record.marks) {
            *piece = mark.map_or(Piece::Missing, Piece::Noted);
        }
        Job {
            http,
            wanted,
            frame: &record.frame,
            partial,
            connections,
            cancel,
            state: Mutex::new(State { pieces, failure: None }),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            there: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
            place: Mutex::new(None),
            validator: Mutex::new(record.validator.clone()),
        }
    }

    /// Fetches what is missing, and checks all of it.
    fn run(&self, watch: Watch<'_>) -> Result<(), Error> {
        let got = match self.with_workers(self.connections, Job::work, watch) {
            Err(Failure::NoRanges) => self.with_workers(1, Job::work_from_begin, watch),
            done => done,
        };
        let hash = got.map_err(|failure| match failure {
            Failure::Error(error) => error,
            Failure::NoRanges => Error::Changed { name: self.wanted.name.clone() },
        })?;
        let got = hex(&hash.finalize());
        match &self.wanted.sha256 {
            Some(expected) if *expected != got => {
                Err(Error::Hash { name: self.wanted.name.clone(), expected: expected.clone(), got })
            }
            _ => Ok(()),
        }
    }

    /// Has threads work, and meanwhile hashes what is whole in its order.
    fn with_workers(
        &self,
        count: usize,
        work: fn(&Job<'a>) -> Result<(), Failure>,
        watch: Watch<'_>,
    ) -> Result<Sha256, Failure> {
        let count = count.min(self.frame.pieces().max(1));
        {
            let mut state = held(&self.state);
            state.failure = None;
        }
        self.stop.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(|| {
                    let done = work(self);
                    let mut state = held(&self.state);
                    if let Err(failure) = done {
                        state.failure.get_or_insert(failure);
                        self.stop.store(true, Ordering::Relaxed);
                    }
                    self.changed.notify_all();
                });
            }
            let hashed = self.follow(watch);
            if let Err(Failure::Error(error)) = &hashed
                && !matches!(error, Error::Changed { .. })
            {
                // Nobody waits for what is still on its way.
                self.http.shutdown();
            }
            self.stop.store(true, Ordering::Relaxed);
            hashed
        })
    }

    /// Hashes pieces as they become whole, until all are.
    fn follow(&self, watch: Watch<'_>) -> Result<Sha256, Failure> {
        let mut file = self.partial.writer()?;
        let mut hash = Sha256::new();
        let say = || (watch.progress)(self.there.load(Ordering::Relaxed), self.frame.bytes);
        for piece in 0..self.frame.pieces() {
            // What was there already is only read, which may take long as well.
            say();
            if watch.is_over() {
                return Err(Error::Cancelled.into());
            }
            let mut state = held(&self.state);
            while state.pieces[piece] != Piece::Whole {
                if watch.is_over() {
                    return Err(Error::Cancelled.into());
                }
                if let Some(failure) = state.failure.take() {
                    return Err(failure);
                }
                state = self.changed.wait_timeout(state, BEAT).unwrap_or_else(PoisonError::into_inner).0;
                drop(state);
                say();
                state = held(&self.state);
            }
            drop(state);
            if self.frame.sha256.is_some() {
                let (begin, end) = self.frame.range(piece);
                hash_range(&mut file, begin, end, &mut hash).map_err(at(self.partial.path()))?;
            }
        }
        say();
        Ok(hash)
    }

    /// One of several connections.
    fn work(&self) -> Result<(), Failure> {
        while let Some(task) = self.claim() {
            match task {
                Task::Check(piece, mark) => self.check(piece, mark)?,
                Task::Fetch(begin, end) => self.fetch(begin, end)?,
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed)
    }

    /// Takes what is to be done next: first what is only to be read.
    fn claim(&self) -> Option<Task> {
        if self.is_over() {
            return None;
        }
        let pieces = &mut held(&self.state).pieces;
        let noted = pieces.iter().enumerate().find_map(|(i, piece)| match piece {
            Piece::Noted(mark) => Some((i, *mark)),
            _ => None,
        });
        if let Some((piece, mark)) = noted {
            pieces[piece] = Piece::Taken;
            return Some(Task::Check(piece, mark));
        }
        let begin = pieces.iter().position(|piece| *piece == Piece::Missing)?;
        let missing = pieces.iter().filter(|piece| **piece == Piece::Missing).count();
        let most = (missing / (2 * self.connections)).clamp(1, RUN);
        let run = pieces[begin..].iter().take(most).take_while(|piece| **piece == Piece::Missing).count();
        pieces[begin..begin + run].fill(Piece::Taken);
        Some(Task::Fetch(begin, begin + run))
    }

    fn set(&self, piece: usize, to: Piece) {
        held(&self.state).pieces[piece] = to;
        self.changed.notify_all();
    }

    /// Holds a piece to the record.
    fn check(&self, piece: usize, mark: Mark) -> Result<(), Failure> {
        let holds = self.partial.holds(self.frame, piece, mark)?;
        if holds {
            let (begin, end) = self.frame.range(piece);
            self.there.fetch_add(end - begin, Ordering::Relaxed);
        }
        self.set(piece, if holds { Piece::Whole } else { Piece::Missing });
        Ok(())
    }

    /// Fetches pieces that follow each other, over as many connections as it takes.
    fn fetch(&self, begin: usize, end: usize) -> Result<(), Failure> {
        let mut cursor = self.cursor(begin)?;
        let mut failed = 0;
        while cursor.piece < end && !self.is_over() {
            let before = cursor.at;
            match self.stream(&mut cursor, end) {
                Err(Failure::Error(error)) if error.passes() && !self.is_over() => {
                    failed = if cursor.at > before { 1 } else { failed + 1 };
                    self.http.pause(failed, self.http.tries(), error, &|| self.is_over())?;
                }
                done => done?,
            }
        }
        Ok(())
    }

    fn cursor(&self, piece: usize) -> Result<Cursor, Error> {
        Ok(Cursor { file: self.partial.writer()?, at: self.frame.range(piece).0, piece, hash: Sha256::new() })
    }

    /// Reads from one connection.
    fn stream(&self, cursor: &mut Cursor, end: usize) -> Result<(), Failure> {
        let last = self.frame.range(end - 1).1;
        let answer = self.open(cursor.at, last)?;
        let host = host(&answer.url);
        let ends = answer.number("content-length") == Some(last - cursor.at);
        let mut reader = answer.reader();
        let mut buffer = vec![0; BUFFER_BYTES];
        cursor.file.seek(SeekFrom::Start(cursor.at)).map_err(at(self.partial.path()))?;
        while cursor.at < last {
            if self.is_over() {
                return Ok(());
            }
            let piece_end = self.frame.range(cursor.piece).1;
            let most = BUFFER_BYTES.min(usize::try_from(piece_end - cursor.at).unwrap_or(BUFFER_BYTES));
            let read = reader.read(&mut buffer[..most]).map_err(|error| self.http.broken(&host, error))?;
            if read == 0 {
                let problem = "the connection ended before the file did".to_owned();
                return Err(Error::Connection { host, problem }.into());
            }
            cursor.file.write_all(&buffer[..read]).map_err(at(self.partial.path()))?;
            cursor.hash.update(&buffer[..read]);
            cursor.at += read as u64;
            self.there.fetch_add(read as u64, Ordering::Relaxed);
            self.fetched.fetch_add(read as u64, Ordering::Relaxed);
            if cursor.at == piece_end {
                self.partial.note(cursor.piece, mark_from(std::mem::take(&mut cursor.hash)))?;
                self.set(cursor.piece, Piece::Whole);
                cursor.piece += 1;
            }
        }
        if ends {
            // Only a connection whose end was seen is used again.
            let _ = reader.read(&mut buffer);
        }
        Ok(())
    }

    /// Asks for a range.
    fn open(&self, begin: u64, end: u64) -> Result<Answer, Failure> {
        let range = format!("bytes={begin}-{}", end - 1);
        let validator = held(&self.validator).clone();
        let mut headers = vec![("range", range.as_str())];
        if let Some(validator) = &validator {
            headers.push(("if-range", validator));
        }
        let answer = self.ask(&headers)?;
        let theirs = answer.validator();
        let is_other = validator.is_some() && theirs != validator;
        match answer.status {
            206 if answer.header("content-range").and_then(content_range) != Some((begin, Some(self.frame.bytes))) => {
                let got = answer.header("content-range").unwrap_or("none").to_owned();
                let problem = format!("asked for {range} of {} bytes, got {got}", self.frame.bytes);
                Err(self.other(Error::Answer { host: host(&answer.url), problem }))
            }
            206 if is_other && self.frame.sha256.is_none() => Err(self.other(Error::Cancelled)),
            206 => {
                if theirs != validator
                    && let Some(theirs) = theirs
                {
                    self.take_up(theirs)?;
                }
                *held(&self.place) = Some(answer.url.clone());
                Ok(answer)
            }
            // The answer to If-Range where the file is another one, or its server only calls it so.
            200 if is_other && self.frame.sha256.is_some() => {
                let host = host(&answer.url);
                *held(&self.validator) = None;
                Err(Error::Connection { host, problem: "it has another mark for the file at each question".into() }
                    .into())
            }
            200 if is_other || answer.number("content-length") != Some(self.frame.bytes) => {
                Err(self.other(Error::Cancelled))
            }
            200 => Err(Failure::NoRanges),
            status => {
                let problem = format!("it answers with status {status}");
                Err(Error::Answer { host: host(&answer.url), problem }.into())
            }
        }
    }

    /// The error where a file is another one: with a hash the server's fault is named.
    fn other(&self, fault: Error) -> Failure {
        match (&self.frame.sha256, fault) {
            (Some(_), fault @ Error::Answer { .. }) => fault.into(),
            _ => Error::Changed { name: self.wanted.name.clone() }.into(),
        }
    }

    /// Compares with this from now on.
    fn take_up(&self, validator: String) -> Result<(), Error> {
        self.partial.note_validator(&validator)?;
        *held(&self.validator) = Some(validator);
        Ok(())
    }

    /// Sends a request to where the file was last, and to where it should be if it is there no more.
    fn ask(&self, headers: &[(&str, &str)]) -> Result<Answer, Error> {
        let send = |url: &str| {
            let token = self.wanted.token.as_ref();
            self.http.send(&Request { headers, token, ..Request::get(url, &self.wanted.name) })
        };
        let place = held(&self.place).clone();
        if let Some(place) = place {
            match send(&place) {
                Err(
                    Error::Unauthorized { .. }
                    | Error::Forbidden { .. }
                    | Error::NotFound { .. }
                    | Error::Answer { .. },
                ) => *held(&self.place) = None,
                done => return done,
            }
        }
        send(&self.wanted.url)
    }

    /// The only connection to a server that sends files from their beginning alone.
    fn work_from_begin(&self) -> Result<(), Failure> {
        for piece in 0..self.frame.pieces() {
            let noted = held(&self.state).pieces[piece];
            match noted {
                Piece::Noted(mark) => self.check(piece, mark)?,
                Piece::Taken => self.set(piece, Piece::Missing),
                Piece::Missing | Piece::Whole => {}
            }
        }
        let count = || held(&self.state).pieces.iter().filter(|piece| **piece == Piece::Whole).count();
        let (mut whole, mut failed) = (count(), 0);
        while !self.is_over() && whole < self.frame.pieces() {
            // Of a piece that was not finished nothing counts.
            self.there.store(self.whole_bytes(), Ordering::Relaxed);
            match self.stream_from_begin() {
                Err(Failure::Error(error)) if error.passes() && !self.is_over() => {
                    let now = count();
                    failed = if now > whole { 1 } else { failed + 1 };
                    whole = now;
                    self.http.pause(failed, self.http.tries(), error, &|| self.is_over())?;
                }
                done => {
                    done?;
                    whole = count();
                }
            }
        }
        Ok(())
    }

    fn whole_bytes(&self) -> u64 {
        let state = held(&self.state);
        let whole = state.pieces.iter().enumerate().filter(|(_, piece)| **piece == Piece::Whole);
        whole.map(|(piece, _)| self.frame.range(piece)).map(|(begin, end)| end - begin).sum()
    }

    fn stream_from_begin(&self) -> Result<(), Failure> {
        let answer = self.http.send(&Request {
            token: self.wanted.token.as_ref(),
            ..Request::get(&self.wanted.url, &self.wanted.name)
        })?;
        let is_other = self.wanted.validator.is_some() && answer.validator() != self.wanted.validator;
        if answer.number("content-length") != Some(self.frame.bytes) || (is_other && self.frame.sha256.is_none()) {
            return Err(Error::Changed { name: self.wanted.name.clone() }.into());
        }
        let host = host(&answer.url);
        let mut reader = answer.reader();
        let mut buffer = vec![0; BUFFER_BYTES];
        for piece in 0..self.frame.pieces() {
            let is_whole = held(&self.state).pieces[piece] == Piece::Whole;
            let mut cursor = self.cursor(piece)?;
            cursor.file.seek(SeekFrom::Start(cursor.at)).map_err(at(self.partial.path()))?;
            let end = self.frame.range(piece).1;
            while cursor.at < end {
                if self.is_over() {
                    return Ok(());
                }
                let most = BUFFER_BYTES.min(usize::try_from(end - cursor.at).unwrap_or(BUFFER_BYTES));
                let read = reader.read(&mut buffer[..most]).map_err(|error| self.http.broken(&host, error))?;
                if read == 0 {
                    let problem = "the connection ended before the file did".to_owned();
                    return Err(Error::Connection { host, problem }.into());
                }
                cursor.at += read as u64;
                self.fetched.fetch_add(read as u64, Ordering::Relaxed);
                if !is_whole {
                    cursor.file.write_all(&buffer[..read]).map_err(at(self.partial.path()))?;
                    cursor.hash.update(&buffer[..read]);
                    self.there.fetch_add(read as u64, Ordering::Relaxed);
                }
            }
            if !is_whole {
                self.partial.note(piece, mark_from(cursor.hash))?;
                self.set(piece, Piece::Whole);
            }
        }
        Ok(())
    }
}

/// The beginning and the whole length of `bytes 0-9/100`.
pub fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let begin = range.split_once('-')?.0.parse().ok()?;
    Some((begin, total.parse().ok()))
}
