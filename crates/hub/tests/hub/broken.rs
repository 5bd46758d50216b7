//! Servers and lines that misbehave.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use crate::*;

const COUNT: usize = 40 * PIECE + 1234;

/// Pulls from a broken server; the file is right, and nothing is left beside it.
fn comes(change: impl Fn(&Asked, Reply) -> Reply + Send + Sync + 'static) -> Fake {
    comes_with(Duration::from_secs(8), change).0
}

/// The same with the time after which a line stalls; gives the bytes that came, too.
fn comes_with(stall: Duration, change: impl Fn(&Asked, Reply) -> Reply + Send + Sync + 'static) -> (Fake, usize) {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(7, COUNT);
    let fake = Fake::broken(&files_there, change);
    let mut settings = fake.settings(folder.path());
    settings.stall = stall;
    let pulled = pull(&settings, "hf:u/r").unwrap();
    assert_eq!(fs::read(pulled.model).unwrap()[..], files_there[0].1[..]);
    assert_eq!(files(&folder.path().join("hub/models--u--r/blobs")).len(), 1);
    (fake, pulled.fetched as usize)
}

/// Pulls from a broken server; it does not come, and no file has its name.
fn fails(change: impl Fn(&Asked, Reply) -> Reply + Send + Sync + 'static) -> (Error, usize) {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(7, COUNT);
    let fake = Fake::broken(&files_there, change);
    let mut settings = fake.settings(folder.path());
    (settings.stall, settings.tries) = (Duration::from_millis(500), 3);
    let error = pull(&settings, "hf:u/r").unwrap_err();
    let there = files(&folder.path().join("hub/models--u--r"));
    assert!(!there.contains_key(&format!("blobs/{}", sha256(&files_there[0].1))), "{:?}", there.keys());
    assert!(Hub::new(fake.settings(folder.path())).find(&name("hf:u/r")).is_none());
    (error, there.len())
}

#[test]
fn connections_that_end_early_go_on_where_they_ended() {
    let fake = comes(|asked, reply| reply.fault(Fault::Cut(PIECE + 1000 * (asked.number % 7))));
    // Nothing came twice.
    assert_eq!(fake.cdn.sent(), COUNT);
}

#[test]
fn connections_that_are_reset_are_made_again() {
    let fake = comes(|asked, reply| reply.fault(Fault::Reset(PIECE * 2 + 1000 * (asked.number % 7))));
    assert!(fake.cdn.count("/") > 10);
}

#[test]
fn a_body_that_says_it_is_shorter_is_asked_for_again() {
    comes(|asked, mut reply| {
        if asked.number % 3 == 0 && reply.status == 206 {
            reply.part.1 -= (reply.part.1 - reply.part.0) / 2;
        }
        reply
    });
}

#[test]
fn a_line_that_stalls_is_left() {
    let began = Instant::now();
    let stall = Duration::from_secs(1);
    let (fake, fetched) =
        comes_with(stall, |asked, reply| if asked.number < 4 { reply.fault(Fault::Hang(PIECE / 2)) } else { reply });
    assert!(began.elapsed() >= stall);
    assert_eq!((fetched, fake.cdn.sent()), (COUNT, COUNT));
    let (error, left) = fails(|_, reply| reply.fault(Fault::Hang(0)));
    assert!(matches!(error, Error::Stalled { .. }), "{error}");
    assert_eq!(left, 2, "what came stays");
}

#[test]
fn a_slow_line_is_no_stall() {
    // Each read waits for less than a stall, all of them for more.
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::broken(&one(7, 6000), |_, reply| reply.fault(Fault::Drip(1000, 500)));
    let mut settings = fake.settings(folder.path());
    settings.stall = Duration::from_secs(2);
    pull(&settings, "hf:u/r").unwrap();
    assert_eq!(fake.cdn.count("/"), 1);
}

#[test]
fn a_file_that_is_not_what_its_hash_says_is_refused() {
    let wrong = |asked: &Asked, mut reply: Reply| {
        if asked.range().is_some_and(|(begin, _)| begin == 0) {
            let mut body = reply.body.to_vec();
            body[10] ^= 1;
            reply.body = body.into();
        }
        reply
    };
    let (error, left) = fails(wrong);
    assert!(matches!(error, Error::Hash { .. }), "{error}");
    assert_eq!(left, 0, "nothing of it is kept");
    // Once is forgiven.
    let first = once();
    comes(
        move |asked, reply| {
            if asked.range().is_some_and(|(begin, _)| begin == 0) && first() { wrong(asked, reply) } else { reply }
        },
    );
}

#[test]
fn a_file_of_another_length_is_refused() {
    for (length, change) in [(COUNT - 1, "shorter"), (COUNT + 1, "longer")] {
        let (error, _) = fails(move |asked, _| Reply::file(asked, &bytes(7, length), "\"cdn\""));
        assert!(matches!(error, Error::Answer { .. } | Error::Changed { .. }), "{change}: {error}");
    }
}

#[test]
fn another_mark_of_the_same_file_costs_nothing() {
    let (_, fetched) = comes_with(Duration::from_secs(8), |asked, reply| {
        let mark = if asked.number < 5 { "\"one\"" } else { "\"two\"" };
        let file = reply.body.clone();
        Reply::file(asked, &file, mark)
    });
    assert_eq!(fetched, COUNT);
    // One at each question is no reason to fail, either.
    comes(|asked, reply| {
        Reply::file(
            &Asked {
                headers: asked
                    .headers
                    .iter()
                    .filter(|(name, _)| *name != "if-range")
                    .map(|(a, b)| (a.clone(), b.clone()))
                    .collect(),
                ..asked.clone()
            },
            &reply.body.clone(),
            &format!("\"{}\"", asked.number),
        )
    });
}

#[test]
fn a_server_without_ranges_is_read_from_the_beginning() {
    let fake = comes(|asked, reply| {
        let whole = Asked { headers: BTreeMap::new(), ..asked.clone() };
        let file = reply.body.clone();
        // Breaks once, behind some whole pieces.
        let fault = if asked.number == 5 { Fault::Cut(10 * PIECE) } else { Fault::Nothing };
        Reply::file(&whole, &file, "\"cdn\"").fault(fault)
    });
    assert!(fake.cdn.count("/") >= 2);
}

#[test]
fn too_many_requests_are_fewer_after_the_time_that_is_asked_for() {
    let busy = AtomicUsize::new(0);
    let began = Instant::now();
    comes(move |_, reply| match busy.fetch_add(1, Ordering::SeqCst) {
        0..2 => Reply::status(429).with("retry-after", 1),
        2..4 => Reply::status(503),
        _ => reply,
    });
    assert!(began.elapsed() >= Duration::from_secs(1));
    let (error, _) = fails(|_, _| Reply::status(429).with("retry-after", 100_000));
    assert!(matches!(error, Error::Busy { status: 429, after: Some(_), .. }), "{error}");
}

#[test]
fn compressed_files_are_refused() {
    let (error, _) = fails(|_, reply| reply.with("content-encoding", "gzip"));
    assert!(error.to_string().ends_with("it sends the file compressed (gzip), which nobody asked for"), "{error}");
    let fake = comes(|_, reply| reply);
    let asked = fake.cdn.seen.asked.lock().unwrap();
    assert!(asked.iter().all(|asked| asked.header("accept-encoding") == Some("identity")));
}

#[test]
fn an_address_that_has_run_out_is_asked_for_again() {
    // Signed addresses hold for some minutes; these for three requests.
    let uses = Mutex::new(BTreeMap::new());
    let fake = comes(move |asked, reply| {
        let mut uses = uses.lock().unwrap();
        let uses = uses.entry(asked.path.clone()).or_insert(0);
        *uses += 1;
        if *uses <= 3 { reply } else { Reply::status(403) }
    });
    let resolved = fake.hub.seen.asked.lock().unwrap().iter().filter(|asked| asked.range().is_some()).count();
    assert!(resolved > 1, "the hub says where it is now");
    let (error, _) = fails(|_, _| Reply::status(403));
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
}

#[test]
fn a_server_that_goes_away_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let gone = Server::start(|_| Reply::status(200)).url();
    let error = pull(&settings(folder.path(), &gone), "hf:u/r").unwrap_err();
    assert!(matches!(error, Error::Connection { .. }), "{error}");
    assert!(gone.ends_with(error.to_string().split(": ").next().unwrap()));
}
