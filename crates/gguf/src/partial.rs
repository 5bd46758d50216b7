//! Files that appear when they are complete and on disk, or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::Error;

/// A file that is complete under a name of its own, beside the one that it is to have. Removed unless it gets that.
pub(crate) struct Partial {
    path: PathBuf,
    target: PathBuf,
}

impl Partial {
    pub(crate) fn write(
        target: &Path,
        write: impl FnOnce(&mut BufWriter<Steady>) -> Result<(), Error>,
    ) -> Result<Partial, Error> {
        // Two writers of one file, in one process or several, do not meet.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // WebAssembly has one process, which has no number.
        let process = if cfg!(target_family = "wasm") { 0 } else { process::id() };
        let (path, file) = loop {
            let mut name = target.as_os_str().to_owned();
            name.push(format!(".{process}-{}.part", NUMBER.fetch_add(1, Ordering::Relaxed)));
            let path = PathBuf::from(name);
            match File::create_new(&path) {
                // What a killed process of the same number left behind.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => break (path, file.map_err(failed)?),
            }
        };
        let partial = Partial { path, target: target.to_owned() };
        let mut out = BufWriter::with_capacity(1 << 20, Steady { file, ahead: 0, disk: None });
        write(&mut out)?;
        let out = out.into_inner().map_err(|error| failed(error.into_error()))?;
        out.sync().map_err(failed)?;
        Ok(partial)
    }

    /// Gives it its name, for good.
    pub(crate) fn finish(self) -> Result<(), Error> {
        fs::rename(&self.path, &self.target).map_err(failed)?;
        // Where folders are files, the new name is on disk after this.
        #[cfg(unix)]
        {
            let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Nothing is there after it was renamed. The error to report is the one that came before.
        let _ = fs::remove_file(&self.path);
    }
}

/// A file of which each stretch goes to the disk while the next one is written: at the end little is left to wait for.
pub(crate) struct Steady {
    file: File,
    /// Bytes since the disk was last asked.
    ahead: usize,
    disk: Option<Disk>,
}

/// Who asks the disk.
struct Disk {
    ask: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Steady {
    /// Bytes of a stretch: smaller files have no such thread.
    const STRETCH: usize = 64 << 20;

    /// Waits until all of it is on disk.
    fn sync(self) -> io::Result<()> {
        if let Some(Disk { ask, thread }) = self.disk {
            drop(ask);
            thread.join().map_err(|_| io::Error::other("the thread that syncs the file died"))??;
        }
        self.file.sync_all()
    }

    /// Has what was written go to the disk. Where there is no thread for it, all of it goes at the end.
    fn ask(&mut self) {
        if self.disk.is_none() {
            self.disk = Disk::of(&self.file).ok();
        }
        if let Some(disk) = &self.disk {
            // A disk that is behind is not asked twice, and why a thread gave up is said at the end.
            let _ = disk.ask.try_send(());
        }
    }
}

impl Disk {
    fn of(file: &File) -> io::Result<Disk> {
        let (ask, asked) = sync_channel(1);
        let file = file.try_clone()?;
        // The system reports an error of the disk once, for both handles: to this thread, perhaps.
        let sync = move || asked.iter().try_for_each(|()| file.sync_data());
        let thread = thread::Builder::new().name("candor-sync".to_owned()).spawn(sync)?;
        Ok(Disk { ask, thread })
    }
}

impl Write for Steady {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.ahead += written;
        if self.ahead >= Steady::STRETCH {
            self.ahead = 0;
            self.ask();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a file of any kind as [`crate::Writer::write_file`] does: beside `path`, and renamed when it is complete and on disk.
///
/// # Errors
/// What `write` says, with the path.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let written = Partial::write(path, |out| write(out).map_err(failed));
    written.and_then(Partial::finish).map_err(|error| error.at(path))
}

pub(crate) fn failed(error: io::Error) -> Error {
    Error::Io { action: "write", error }
}

#[cfg(all(test, not(target_family = "wasm")))] // which has neither threads nor a temporary folder
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_to_the_disk_while_it_is_written() {
        let path = std::env::temp_dir().join(format!("candor-steady-{}", process::id()));
        let mut out = Steady { file: File::create(&path).unwrap(), ahead: Steady::STRETCH - 6, disk: None };
        out.write_all(b"four").unwrap();
        assert!(out.disk.is_none(), "a short file needs no thread");
        out.write_all(b"more").unwrap();
        assert!(out.disk.is_some() && out.ahead == 0);
        out.write_all(b", and a rest").unwrap();
        out.sync().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"fourmore, and a rest");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_disk_that_fails_in_between_fails_the_file() {
        let path = std::env::temp_dir().join(format!("candor-unsteady-{}", process::id()));
        let (ask, _) = sync_channel(1);
        let thread = thread::spawn(|| Err(io::Error::other("the disk is gone")));
        let out = Steady { file: File::create(&path).unwrap(), ahead: 0, disk: Some(Disk { ask, thread }) };
        assert_eq!(out.sync().unwrap_err().to_string(), "the disk is gone");
        fs::remove_file(&path).unwrap();
    }
}
