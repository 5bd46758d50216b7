//! Hugging Face's cache: what is fetched, where it lies, and what is there already.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use candor_hub::State;

use crate::*;

#[test]
fn a_model_comes_whole_into_the_shared_cache() {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(1, 20 * PIECE + 7);
    let fake = Fake::broken(&files_there, |_, reply| reply.fault(Fault::Drip(PIECE / 2, 20)));
    let settings = fake.settings(folder.path());
    let hub = Hub::new(settings.clone());
    assert_eq!(hub.find(&name("hf:u/r")), None);
    let pulled = pull(&settings, "hf:u/r").unwrap();
    let hash = sha256(&files_there[0].1);
    let repo = folder.path().join("hub/models--u--r");
    assert_eq!(pulled.model, repo.join(format!("snapshots/{COMMIT}/m-Q4_K_M.gguf")));
    assert_eq!(fs::read(&pulled.model).unwrap()[..], files_there[0].1[..]);
    #[cfg(unix)]
    assert_eq!(fs::read_link(&pulled.model).unwrap(), Path::new("../../blobs").join(&hash));
    assert_eq!(fs::read_to_string(repo.join("refs/main")).unwrap(), COMMIT);
    let names: Vec<String> = files(&repo).into_keys().collect();
    assert_eq!(names, [format!("blobs/{hash}"), "refs/main".into(), format!("snapshots/{COMMIT}/m-Q4_K_M.gguf")]);
    assert_eq!(pulled.fetched, 20 * PIECE as u64 + 7);
    assert_eq!(fake.cdn.sent(), 20 * PIECE + 7);
    let seen = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    assert!(seen(&fake.cdn.seen.most_at_once) > 2, "ranges come at the same time");
    assert!(seen(&fake.cdn.seen.connections) <= 4, "connections are used again");
    let asked = fake.cdn.seen.asked.lock().unwrap().clone();
    // The first of each connection have nothing to compare with yet.
    assert!(
        asked.len() > 8 && asked.iter().skip(4).all(|asked| asked.header("if-range") == Some("\"cdn\"")),
        "{asked:?}"
    );
    // It is there now: nobody is asked to find it, and nothing comes again.
    let asked = fake.hub.count("/");
    assert_eq!(hub.find(&name("hf:u/r")), Some(pulled.model.clone()));
    assert_eq!(fake.hub.count("/"), asked);
    assert_eq!(pull(&settings, "hf:u/r").unwrap().fetched, 0);
    assert_eq!(fake.cdn.sent(), 20 * PIECE + 7);
}

#[test]
fn a_split_model_comes_with_all_its_parts_and_its_projector() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(&[
        ("a-Q8_0.gguf", bytes(1, 10)),
        ("big/b-BF16-00001-of-00002.gguf", bytes(2, 3 * PIECE)),
        ("big/b-BF16-00002-of-00002.gguf", bytes(3, PIECE)),
        ("mmproj-F16.gguf", bytes(4, 100)),
        ("README.txt", bytes(5, 100)),
    ]);
    let settings = fake.settings(folder.path());
    let pulled = pull(&settings, "hf:u/r:bf16").unwrap();
    let names: Vec<&str> = pulled.files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["b-BF16-00001-of-00002.gguf", "b-BF16-00002-of-00002.gguf", "mmproj-F16.gguf"]);
    let hub = Hub::new(settings.clone());
    let list = hub.list().unwrap();
    assert_eq!(
        list.iter().map(|entry| (entry.name.as_str(), entry.bytes)).collect::<Vec<_>>(),
        [("hf:u/r:BF16", 4 * PIECE as u64)]
    );
    assert_eq!(hub.named("u/r:BF16").unwrap(), Some(pulled.model));
    assert_eq!(hub.remove("hf:u/r:BF16").unwrap(), 4 * PIECE as u64 + 100);
    assert!(files(&folder.path().join("hub")).keys().all(|name| name.starts_with(".locks")));
    let error = pull(&settings, "hf:u/r:Q2_K").unwrap_err();
    assert_eq!(error.to_string(), "hf:u/r:Q2_K: there is no whole model in Q2_K");
    assert_eq!(error.hint().unwrap(), "it has a-Q8_0.gguf, big/b-BF16-00001-of-00002.gguf");
}

#[test]
fn a_small_file_is_held_together_by_its_mark() {
    let folder = tempfile::tempdir().unwrap();
    let file = bytes(1, 5 * PIECE);
    let fake = Fake::new(&[("notes.txt", file.clone())]);
    let pulled = pull(&fake.settings(folder.path()), "hf:u/r/notes.txt").unwrap();
    assert_eq!(fs::read(pulled.model).unwrap()[..], file[..]);
    let gets =
        fake.hub.seen.asked.lock().unwrap().iter().filter(|asked| asked.range().is_some()).cloned().collect::<Vec<_>>();
    let mark = format!("\"{}\"", &sha256(&file)[..40]);
    assert!(!gets.is_empty() && gets.iter().all(|asked| asked.header("if-range") == Some(&mark)));
}

#[test]
fn what_another_program_put_there_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(1, 3 * PIECE);
    let fake = Fake::new(&files_there);
    let settings = fake.settings(folder.path());
    let repo = folder.path().join("hub/models--u--r");
    for sub in ["blobs", "refs", "snapshots"] {
        fs::create_dir_all(repo.join(sub)).unwrap();
    }
    fs::write(repo.join("blobs").join(sha256(&files_there[0].1)), &files_there[0].1).unwrap();
    assert_eq!(pull(&settings, "hf:u/r").unwrap().fetched, 0);
    assert_eq!(fake.cdn.count("/"), 0);
}

#[test]
fn offline_nobody_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(&[("m-Q8_0.gguf", bytes(1, 9))]);
    let mut settings = fake.settings(folder.path());
    settings.offline = true;
    let error = pull(&settings, "hf:u/r").unwrap_err();
    assert!(matches!(error, Error::Offline { .. }), "{error}");
    assert_eq!(fake.hub.count("/"), 0);
    settings.offline = false;
    let pulled = pull(&settings, "hf:u/r").unwrap();
    let asked = fake.hub.count("/");
    // Whether the hub has the usual format by now is not known; offline what is there is meant.
    assert_eq!(Hub::new(settings.clone()).find(&name("hf:u/r")), None);
    settings.offline = true;
    assert_eq!(Hub::new(settings.clone()).find(&name("hf:u/r")), Some(pulled.model.clone()));
    assert_eq!(pull(&settings, "hf:u/r").unwrap().model, pulled.model);
    assert_eq!(fake.hub.count("/"), asked);
}

#[test]
fn two_pulls_at_once_fetch_once() {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(1, 12 * PIECE);
    let fake = Fake::broken(&files_there, |_, reply| reply.fault(Fault::Drip(PIECE / 4, 5)));
    let settings = fake.settings(folder.path());
    let results: Vec<u64> = thread::scope(|scope| {
        let pulls: Vec<_> = (0..3).map(|_| scope.spawn(|| pull(&settings, "hf:u/r").unwrap().fetched)).collect();
        pulls.into_iter().map(|pull| pull.join().unwrap()).collect()
    });
    assert_eq!(results.iter().sum::<u64>(), 12 * PIECE as u64);
    assert_eq!(fake.cdn.sent(), 12 * PIECE);
    assert_eq!(fs::read(Hub::new(settings).find(&name("hf:u/r")).unwrap()).unwrap()[..], files_there[0].1[..]);
}

#[test]
fn a_pull_can_be_stopped_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(1, 32 * PIECE);
    let fake = Fake::broken(&files_there, |_, reply| reply.fault(Fault::Drip(PIECE / 4, 10)));
    let settings = fake.settings(folder.path());
    let cancel = AtomicBool::new(false);
    let progress = |done: u64, total: u64| {
        assert_eq!(total, 32 * PIECE as u64);
        if done > 8 * PIECE as u64 {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let hub = Hub::new(settings.clone());
    let error = hub.pull(&name("hf:u/r"), Watch::new(&progress, &|_| {}, &cancel)).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    let list = hub.list().unwrap();
    assert_eq!((list[0].name.as_str(), list[0].state), ("hf:u/r", State::Unfinished { of: 32 * PIECE as u64 }));
    let there = list[0].bytes;
    assert!(there > 0);
    // All that was whole is kept.
    assert_eq!(pull(&settings, "hf:u/r").unwrap().fetched, 32 * PIECE as u64 - there);
    assert_eq!(hub.list().unwrap()[0].state, State::Whole);
}

#[test]
fn what_a_disk_has_lost_is_fetched_again_alone() {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(1, 32 * PIECE);
    let fake = Fake::broken(&files_there, |_, reply| reply.fault(Fault::Drip(PIECE / 4, 10)));
    let settings = fake.settings(folder.path());
    let cancel = AtomicBool::new(false);
    let progress = |done: u64, _| cancel.store(done > 16 * PIECE as u64, Ordering::Relaxed);
    let hub = Hub::new(settings.clone());
    hub.pull(&name("hf:u/r"), Watch::new(&progress, &|_| {}, &cancel)).unwrap_err();
    let entry = hub.list().unwrap().remove(0);
    // As after a loss of power: the record was written, and of the file a piece was not.
    let mut partial = fs::read(&entry.path).unwrap();
    let lost =
        files_there[0].1.chunks(PIECE).zip(partial.chunks_mut(PIECE)).find(|(right, there)| right == there).unwrap();
    lost.1.fill(0);
    fs::write(&entry.path, partial).unwrap();
    let pulled = pull(&settings, "hf:u/r").unwrap();
    assert_eq!(pulled.fetched, 32 * PIECE as u64 - entry.bytes + PIECE as u64);
    assert_eq!(fs::read(pulled.model).unwrap()[..], files_there[0].1[..]);
}

#[test]
fn room_is_asked_for_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = one(1, 9);
    let fake = Fake::with(&file, |_, reply| reply.with("x-linked-size", 100_000_000_000_000_u64), |_, reply| reply);
    let error = pull(&fake.settings(folder.path()), "hf:u/r").unwrap_err();
    // Pieces of this size are too many for a file of that.
    assert!(matches!(error, Error::Answer { .. }), "{error}");
    let mut settings = fake.settings(folder.path());
    settings.piece = 8 << 20;
    let error = pull(&settings, "hf:u/r").unwrap_err();
    assert!(matches!(error, Error::Space { needed: 100_000_000_000_000, .. }), "{error}");
    assert_eq!(fake.cdn.count("/"), 0);
}

#[test]
fn names_that_leave_their_folder_are_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let fake =
        Fake::new(&[("../../x-Q4_K_M.gguf", bytes(1, 9)), ("/abs-Q4_K_M.gguf", bytes(2, 9)), ("z.gguf", bytes(3, 9))]);
    let pulled = pull(&fake.settings(folder.path()), "hf:u/r").unwrap();
    assert!(pulled.model.ends_with("z.gguf"), "{pulled:?}");
    for (header, value) in
        [("x-linked-etag", "\"../../../x\""), ("x-linked-etag", "\"\""), ("x-repo-commit", "another")]
    {
        let fake = Fake::with(&one(1, 9), move |_, reply| reply.with(header, value), |_, reply| reply);
        let error = pull(&fake.settings(folder.path()), "hf:u/r").unwrap_err();
        assert!(matches!(error, Error::Answer { .. }), "{value}: {error}");
    }
}
