//! Models by name: `candor pull`, `list` and `rm`, and names where a model file is taken.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use candor_hub::{Entry, Hub, Name, Pulled, Settings, State, Watch};
use serde_json::json;

use crate::{
    args::{ListArgs, PullArgs, RmArgs, When},
    bar::Bar,
    config::folders,
    errors::Error,
    inspect::{
        json,
        table::{Align, Table},
    },
    interrupt::Cleanup,
    output::{Bytes, say},
    paint::Paint,
    waiting::Waiting,
};

const BAR: &str = "fetching {wide_bar} {msg}";
/// The time that a speed is taken over.
const LATELY: Duration = Duration::from_secs(5);
/// The least time that says something of a speed.
const SOON: Duration = Duration::from_millis(500);

/// Where models are, as the environment says.
fn hub(offline: bool) -> Hub {
    let files = folders().map(|folders| folders.cache_dir().join("models"));
    let mut settings = Settings::of_environment(files);
    settings.offline |= offline;
    Hub::new(settings)
}

/// The file of a name: the one that is there, or one that is fetched now.
pub fn file_of(name: &Name, offline: bool, when: When) -> Result<PathBuf, Error> {
    let asks = hub(offline);
    if let Some(path) = asks.find(name) {
        return Ok(path);
    }
    match fetch(&asks, name, when) {
        Ok(pulled) => Ok(pulled.model),
        // Without a network another format than the usual one is better than none.
        Err(Error::Hub(error @ (candor_hub::Error::Connection { .. } | candor_hub::Error::Stalled { .. }))) => {
            let found = hub(true).find(name).ok_or_else(|| Error::Hub(error))?;
            say!("note: without a network it is not known which format {name} means: taking what is there");
            Ok(found)
        }
        Err(error) => Err(error),
    }
}

/// The file of a model that is there under a name without what says where it came from; `None` if it is not there.
pub fn there(text: &str) -> Option<PathBuf> {
    // A folder that cannot be read has no models for this user.
    hub(true).named(text).ok().flatten()
}

/// Fetches what is missing of a model, under a bar.
fn fetch(hub: &Hub, name: &Name, when: When) -> Result<Pulled, Error> {
    let started = Instant::now();
    let asking = RefCell::new(Some(Waiting::new(when, &format!("asking for {name}"))));
    let bar = RefCell::new(Bar::new(when, BAR, started));
    let pace = RefCell::new(Pace::default());
    let progress = |done, total| {
        asking.take();
        let text = pace.borrow_mut().text(Instant::now(), done, total);
        let mut bar = bar.borrow_mut();
        bar.set(done, total);
        bar.say(text);
    };
    let waits = |file: &str| say!("another process fetches {file}: waiting for it");
    // Ctrl-C ends the program at once: what came is noted piece by piece.
    let ended = Arc::new(AtomicBool::new(false));
    let _note = Cleanup::new({
        let ended = ended.clone();
        move || {
            if !ended.load(Ordering::Relaxed) {
                say!("stopped: the same command goes on where it stopped");
            }
        }
    });
    let pulled = hub.pull(name, Watch::new(&progress, &waits, &AtomicBool::new(false)));
    ended.store(true, Ordering::Relaxed);
    drop((asking, bar));
    let pulled = pulled?;
    if pulled.fetched > 0 {
        let seconds = started.elapsed().as_secs_f64();
        let speed = Bytes((pulled.fetched as f64 / seconds.max(1e-3)) as u64);
        say!("{name}: {} came in {seconds:.1} s, {speed}/s", Bytes(pulled.fetched));
    }
    Ok(pulled)
}

/// How fast it went lately. What was there already is read quickly and is soon forgotten.
#[derive(Default)]
struct Pace(VecDeque<(Instant, u64)>);

impl Pace {
    /// How much is there, the speed, and the time that is left.
    fn text(&mut self, now: Instant, done: u64, total: u64) -> String {
        let there = format!("{} of {}", Bytes(done), Bytes(total));
        self.0.push_back((now, done));
        while self.0.len() > 2 && now - self.0[1].0 >= LATELY {
            self.0.pop_front();
        }
        let (since, before) = self.0[0];
        let time = now - since;
        if time < SOON || done <= before {
            return there;
        }
        let speed = (done - before) as f64 / time.as_secs_f64();
        let left = ((total - done.min(total)) as f64 / speed).ceil() as u64;
        let left = match (left / 3600, left / 60 % 60, left % 60) {
            (0, 0, seconds) => format!("{seconds} s"),
            (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
            (hours, minutes, _) => format!("{hours} h {minutes} min"),
        };
        format!("{there}, {}/s, {left} left", Bytes(speed as u64))
    }
}

/// Runs `candor pull`.
pub fn pull(args: &PullArgs) -> Result<ExitCode, Error> {
    let names = args.names.iter().map(|text| text.parse()).collect::<Result<Vec<Name>, _>>()?;
    for name in &names {
        let pulled = fetch(&hub(args.offline), name, args.progress)?;
        writeln!(io::stdout(), "{}", pulled.model.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `candor list`.
pub fn list(args: &ListArgs) -> Result<ExitCode, Error> {
    let entries = hub(true).list()?;
    if args.json {
        json::print(&entries.iter().map(value).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if entries.is_empty() {
        say!("no models are on this machine but the built-in one; candor pull hf:USER/REPO fetches one");
        return Ok(ExitCode::SUCCESS);
    }
    let columns = [("name", Align::Left), ("size", Align::Right), ("changed", Align::Left), ("", Align::Left)];
    let mut table = Table::new(&columns);
    for entry in entries {
        let state = match entry.state {
            State::Unfinished { of } => format!("unfinished, of {}", Bytes(of)),
            _ => String::new(),
        };
        let changed =
            entry.changed.and_then(|time| SystemTime::now().duration_since(time).ok()).map_or("-".into(), ago);
        table.row(vec![entry.name.escape_debug().to_string(), Bytes(entry.bytes).to_string(), changed, state], None);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    table.print(Paint::of_stdout(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn value(entry: &Entry) -> serde_json::Value {
    let seconds = entry.changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs());
    let of = match entry.state {
        State::Unfinished { of } => of,
        _ => entry.bytes,
    };
    json!({
        "name": entry.name,
        "path": Path::display(&entry.path).to_string(),
        "bytes": entry.bytes,
        "of": of,
        "changed": seconds,
    })
}

/// How long ago something was: `5 minutes ago`.
fn ago(since: Duration) -> String {
    let seconds = since.as_secs();
    let units = [(86_400 * 7, "week"), (86_400, "day"), (3600, "hour"), (60, "minute")];
    match units.iter().find(|(length, _)| seconds >= *length) {
        Some((length, unit)) => {
            let count = seconds / length;
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {unit}{plural} ago")
        }
        None => "just now".to_owned(),
    }
}

/// Runs `candor rm`.
pub fn rm(args: &RmArgs) -> Result<ExitCode, Error> {
    let hub = hub(true);
    for name in &args.names {
        let bytes = hub.remove(name)?;
        say!("{name} is removed: {} are free again", Bytes(bytes));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_that_of_the_last_seconds() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let mut at =
            |seconds: u64, done: u64| pace.text(begin + Duration::from_secs(seconds), done * 1_000_000, 9_000_000_000);
        assert_eq!(at(0, 0), "0 B of 9.00 GB");
        // What was there is read at once.
        assert_eq!(at(1, 2000), "2.00 GB of 9.00 GB, 2.00 GB/s, 4 s left");
        let last = (2..20).map(|second| at(second, 2000 + 10 * (second - 1))).last();
        assert_eq!(last.unwrap(), "2.18 GB of 9.00 GB, 10.0 MB/s, 11 min 22 s left");
        assert_eq!(at(30, 2180), "2.18 GB of 9.00 GB");
    }

    #[test]
    fn times_are_rounded_down() {
        for (seconds, expected) in [
            (59, "just now"),
            (60, "1 minute ago"),
            (7199, "1 hour ago"),
            (2 * 86_400, "2 days ago"),
            (30 * 86_400, "4 weeks ago"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), expected);
        }
    }
}
