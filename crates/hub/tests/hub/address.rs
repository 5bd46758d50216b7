//! Files at plain addresses.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::*;

#[test]
fn a_file_comes_from_its_address_and_again_when_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let version = Arc::new(AtomicUsize::new(1));
    let now = version.clone();
    let server = Server::start(move |asked| {
        let version = now.load(Ordering::SeqCst);
        Reply::file(asked, &bytes(version as u64, 5 * PIECE + version), &format!("\"{version}\""))
    });
    let settings = settings(folder.path(), "http://127.0.0.1:1");
    let address = format!("{}/models/m.gguf", server.url());
    let pulled = pull(&settings, &address).unwrap();
    let place = server.host().replace(':', "+");
    assert_eq!(pulled.model, folder.path().join("files").join(place).join("models/m.gguf"));
    assert_eq!(fs::read(&pulled.model).unwrap()[..], bytes(1, 5 * PIECE + 1)[..]);
    assert_eq!(pull(&settings, &address).unwrap().fetched, 0);
    version.store(2, Ordering::SeqCst);
    assert_eq!(pull(&settings, &address).unwrap().fetched, 5 * PIECE as u64 + 2);
    assert_eq!(fs::read(&pulled.model).unwrap()[..], bytes(2, 5 * PIECE + 2)[..]);
    let hub = Hub::new(settings);
    assert_eq!(hub.find(&name(&address)), Some(pulled.model.clone()));
    let list = hub.list().unwrap();
    assert_eq!((list.len(), list[0].name.as_str(), list[0].bytes), (1, address.as_str(), 5 * PIECE as u64 + 2));
    assert_eq!(hub.remove(&address).unwrap(), 5 * PIECE as u64 + 2);
    assert_eq!(hub.find(&name(&address)), None);
    assert!(!folder.path().join("files").join(server.host().replace(':', "+")).exists(), "no empty folder is left");
}

#[test]
fn a_file_that_changes_while_it_comes_is_the_new_one_whole() {
    for changes in [1, 100] {
        let folder = tempfile::tempdir().unwrap();
        // After the first question and a few pieces it is another file, of the same length.
        let version = move |number: usize| (number / 6).min(changes) as u64;
        let server = Server::start(move |asked| {
            let version = version(asked.number);
            Reply::file(asked, &bytes(version, 60 * PIECE), &format!("\"{version}\""))
        });
        let pulled = pull(&settings(folder.path(), "http://127.0.0.1:1"), &format!("{}/m.gguf", server.url()));
        match pulled {
            Ok(pulled) => assert_eq!((changes, &fs::read(pulled.model).unwrap()[..]), (1, &bytes(1, 60 * PIECE)[..])),
            Err(error) => assert!(changes == 100 && matches!(error, Error::Changed { .. }), "{changes}: {error}"),
        }
    }
}

#[test]
fn what_is_unfinished_goes_on_only_with_the_same_file() {
    for same in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let broken = Arc::new(AtomicUsize::new(0));
        let state = broken.clone();
        let server = Server::start(move |asked| {
            let version = if same { 0 } else { state.load(Ordering::SeqCst) as u64 };
            let reply = Reply::file(asked, &bytes(version, 60 * PIECE), &format!("\"{version}\""));
            // At first what lies behind does not come at all.
            let hangs = state.load(Ordering::SeqCst) == 0 && asked.range().is_some_and(|(begin, _)| begin > 30 * PIECE);
            if hangs { reply.fault(Fault::Hang(0)) } else { reply }
        });
        let mut settings = settings(folder.path(), "http://127.0.0.1:1");
        (settings.stall, settings.tries) = (Duration::from_millis(500), 3);
        let address = format!("{}/m.gguf", server.url());
        let error = pull(&settings, &address).unwrap_err();
        assert!(matches!(error, Error::Stalled { .. }), "{error}");
        let there = Hub::new(settings.clone()).list().unwrap()[0].bytes;
        assert!(there > 0);
        broken.store(1, Ordering::SeqCst);
        let pulled = pull(&settings, &address).unwrap();
        assert_eq!(Hub::new(settings.clone()).list().unwrap().len(), 1, "nothing is left of the older one");
        assert_eq!(pulled.fetched, 60 * PIECE as u64 - if same { there } else { 0 });
        assert_eq!(fs::read(pulled.model).unwrap()[..], bytes(u64::from(!same), 60 * PIECE)[..]);
    }
}

#[test]
fn two_pulls_at_once_fetch_once() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        Server::start(|asked| Reply::file(asked, &bytes(1, 12 * PIECE), "\"e\"").fault(Fault::Drip(PIECE / 4, 5)));
    let settings = settings(folder.path(), "http://127.0.0.1:1");
    let address = format!("{}/m.gguf", server.url());
    let fetched: u64 = std::thread::scope(|scope| {
        let pulls: Vec<_> = (0..3).map(|_| scope.spawn(|| pull(&settings, &address).unwrap().fetched)).collect();
        pulls.into_iter().map(|pull| pull.join().unwrap()).sum()
    });
    assert_eq!(fetched, 12 * PIECE as u64);
    assert_eq!(fs::read(pull(&settings, &address).unwrap().model).unwrap()[..], bytes(1, 12 * PIECE)[..]);
}

#[test]
fn what_nothing_compares_is_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|asked| {
        let mut reply = Reply::file(asked, &bytes(1, 3 * PIECE), "\"e\"");
        reply.headers.retain(|(name, _)| name != "etag");
        reply
    });
    let settings = settings(folder.path(), "http://127.0.0.1:1");
    let address = format!("{}/m.gguf", server.url());
    for _ in 0..2 {
        assert_eq!(pull(&settings, &address).unwrap().fetched, 3 * PIECE as u64);
        assert!(Hub::new(settings.clone()).find(&name(&address)).is_some());
    }
}

#[test]
fn an_address_on_the_hub_is_fetched_as_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(&one(1, 9));
    let address = format!("{}/u/r/resolve/{COMMIT}/m-Q4_K_M.gguf", fake.hub.url());
    let settings = fake.settings(folder.path());
    // A commit stands for itself.
    let error = pull(&settings, &address).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    let pulled = pull(&settings, &address.replace(COMMIT, "main")).unwrap();
    assert!(pulled.model.starts_with(folder.path().join("hub/models--u--r")), "{pulled:?}");
}
