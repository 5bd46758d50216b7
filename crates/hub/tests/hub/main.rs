//! The hub against servers on this machine that misbehave.

mod address;
mod broken;
mod cache;
mod kills;
mod ollama;
mod refused;
mod server;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use candor_hub::{Error, Hub, Name, Pulled, Settings, Watch};
use server::{Asked, Fault, Reply, Server};
use sha2::{Digest, Sha256};

/// Bytes of a piece in these tests.
const PIECE: usize = 1 << 16;
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Settings for a folder and a server.
fn settings(folder: &Path, endpoint: &str) -> Settings {
    let mut settings = Settings::of_environment(Some(folder.join("files")));
    settings.endpoint = endpoint.to_owned();
    settings.token = None;
    settings.hub = Some(folder.join("hub"));
    settings.ollama = Some(folder.join("ollama"));
    settings.offline = false;
    settings.piece = PIECE as u64;
    // Not what a busy machine takes for a stall.
    settings.stall = Duration::from_secs(8);
    settings.wait = Duration::from_millis(5);
    settings
}

fn pull(settings: &Settings, name: &str) -> Result<Pulled, Error> {
    let cancel = AtomicBool::new(false);
    let watch = Watch::new(&|_, _| {}, &|_| {}, &cancel);
    Hub::new(settings.clone()).pull(&name.parse()?, watch)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Bytes by chance, others for each seed.
fn bytes(seed: u64, count: usize) -> Arc<[u8]> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All files of a folder with their bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path: PathBuf = entry.path();
            if entry.file_type().unwrap().is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Hugging Face in small: a repository `u/r`, whose large files lie on another server.
struct Fake {
    hub: Server,
    cdn: Arc<Server>,
}

type Change = dyn Fn(&Asked, Reply) -> Reply + Send + Sync;

impl Fake {
    fn new(files: &[(&str, Arc<[u8]>)]) -> Fake {
        Fake::with(files, |_, reply| reply, |_, reply| reply)
    }

    /// With changed answers of the server with the large files.
    fn broken(files: &[(&str, Arc<[u8]>)], change: impl Fn(&Asked, Reply) -> Reply + Send + Sync + 'static) -> Fake {
        Fake::with(files, |_, reply| reply, change)
    }

    fn with(
        files: &[(&str, Arc<[u8]>)],
        of_hub: impl Fn(&Asked, Reply) -> Reply + Send + Sync + 'static,
        of_cdn: impl Fn(&Asked, Reply) -> Reply + Send + Sync + 'static,
    ) -> Fake {
        let (of_hub, of_cdn): (Box<Change>, Box<Change>) = (Box::new(of_hub), Box::new(of_cdn));
        let blobs: BTreeMap<String, Arc<[u8]>> =
            files.iter().map(|(_, bytes)| (format!("/blobs/{}", sha256(bytes)), bytes.clone())).collect();
        let cdn = Arc::new(Server::start(move |asked| {
            let path = asked.path.split('?').next().unwrap();
            let reply = match blobs.get(path) {
                Some(bytes) => Reply::file(asked, bytes, "\"cdn\""),
                None => Reply::status(404),
            };
            of_cdn(asked, reply)
        }));
        let files: BTreeMap<String, Arc<[u8]>> =
            files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())).collect();
        let place = cdn.url();
        let hub = Server::start(move |asked| {
            let reply = of_repository(&files, &place, asked);
            of_hub(asked, reply)
        });
        Fake { hub, cdn }
    }

    fn settings(&self, folder: &Path) -> Settings {
        settings(folder, &self.hub.url())
    }
}

fn of_repository(files: &BTreeMap<String, Arc<[u8]>>, cdn: &str, asked: &Asked) -> Reply {
    if asked.path == "/api/models/u/r/revision/main" {
        let list: Vec<String> = files.keys().map(|path| format!("{{\"rfilename\": \"{path}\"}}")).collect();
        return Reply::text(&format!("{{\"sha\": \"{COMMIT}\", \"siblings\": [{}]}}", list.join(",")));
    }
    let path = asked.path.strip_prefix(&format!("/u/r/resolve/{COMMIT}/"));
    match path.and_then(|path| Some((path, files.get(path)?))) {
        // As there, small files come from the hub itself, and large ones do not.
        Some((path, bytes)) if path.ends_with(".txt") => {
            Reply::file(asked, bytes, &format!("\"{}\"", &sha256(bytes)[..40])).with("x-repo-commit", COMMIT)
        }
        Some((_, bytes)) => {
            let hash = sha256(bytes);
            Reply::status(302)
                // Signed addresses: another one at each question.
                .with("location", format!("{cdn}/blobs/{hash}?signed={}", asked.number))
                .with("x-repo-commit", COMMIT)
                .with("x-linked-etag", format!("\"{hash}\""))
                .with("x-linked-size", bytes.len())
                .with("etag", "\"of the redirect\"")
        }
        None => Reply::status(404).with("x-error-code", "RepoNotFound"),
    }
}

/// A model of one file, and what it is called.
fn one(seed: u64, count: usize) -> [(&'static str, Arc<[u8]>); 1] {
    [("m-Q4_K_M.gguf", bytes(seed, count))]
}

/// Something that happens once.
fn once() -> impl Fn() -> bool + Send + Sync {
    let left = Mutex::new(true);
    move || std::mem::take(&mut *left.lock().unwrap())
}
