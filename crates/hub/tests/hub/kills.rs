//! Kills at any moment, full disks and several processes. The other process is this program with the test `child` alone.

use std::{
    env, fs,
    process::{Command, Stdio},
    thread,
};

use crate::*;

/// Says to `child` what to do.
const FOLDER: &str = "HUB_TEST_FOLDER";
const ENDPOINT: &str = "HUB_TEST_ENDPOINT";
/// How many kills the test makes, if not the usual number.
const KILLS: &str = "HUB_TEST_KILLS";

#[test]
#[ignore = "it is the other process of the tests beside it"]
fn child() {
    let folder = PathBuf::from(env::var_os(FOLDER).unwrap());
    let settings = settings(&folder, &env::var(ENDPOINT).unwrap());
    match pull(&settings, "hf:u/r") {
        Ok(pulled) => println!("fetched {}", pulled.fetched),
        Err(error) => panic!("{error}"),
    }
}

fn other_process(folder: &Path, fake: &Fake) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "kills::child", "--ignored", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env(FOLDER, folder).env(ENDPOINT, fake.hub.url());
    command
}

/// The bytes that a process says it fetched.
fn fetched(output: &std::process::Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split("fetched ").nth(1));
    line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr))).trim().parse().unwrap()
}

#[test]
fn a_kill_at_any_moment_costs_a_piece_for_each_connection_at_most() {
    let kills: u64 = env::var(KILLS).ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let count = 64 * PIECE + 99;
    let mut kept = 0;
    for round in 0..kills.div_ceil(4) {
        let folder = tempfile::tempdir().unwrap();
        let files_there = one(round + 1, count);
        let fake = Fake::broken(&files_there, |_, reply| reply.fault(Fault::Drip(PIECE / 8, 8)));
        let settings = fake.settings(folder.path());
        let hub = Hub::new(settings);
        let mut most_lost = 0;
        for kill in 0..4 {
            let mut process = other_process(folder.path(), &fake).spawn().unwrap();
            let wait = bytes(round * 4 + kill + 1000, 1)[0];
            thread::sleep(Duration::from_millis(40 + u64::from(wait)));
            process.kill().unwrap();
            process.wait().unwrap();
            // What has the name of a file is that file.
            for (path, there) in files(&folder.path().join("hub/models--u--r/blobs")) {
                assert!(path.contains('.') || sha256(&there) == path, "{path} is corrupt");
            }
            if let Some(found) = hub.find(&name("hf:u/r")) {
                assert_eq!(fs::read(found).unwrap()[..], files_there[0].1[..]);
            }
            most_lost += 4 * PIECE;
        }
        let there = hub.list().unwrap().first().map_or(0, |entry| entry.bytes);
        let output = other_process(folder.path(), &fake).output().unwrap();
        assert_eq!(fetched(&output), (count as u64) - there, "what was whole is not fetched again");
        kept += there;
        assert_eq!(fs::read(hub.find(&name("hf:u/r")).unwrap()).unwrap()[..], files_there[0].1[..]);
        let left = files(&folder.path().join("hub/models--u--r/blobs"));
        assert_eq!(left.len(), 1, "{:?}", left.keys());
        // What was sent to a process that was killed, and lies unread in the system, is counted too.
        let buffered = 4 * 4 * (PIECE * 4);
        assert!(fake.cdn.sent() <= count + most_lost + buffered, "{} of {count}", fake.cdn.sent());
    }
    assert!(kept > 0, "all kills came before the first piece, or after the last");
}

#[test]
fn processes_at_once_fetch_once() {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(1, 32 * PIECE);
    let fake = Fake::broken(&files_there, |_, reply| reply.fault(Fault::Drip(PIECE / 4, 3)));
    let processes: Vec<_> = (0..3).map(|_| other_process(folder.path(), &fake).spawn().unwrap()).collect();
    let outputs: Vec<_> = processes.into_iter().map(|process| process.wait_with_output().unwrap()).collect();
    assert_eq!(outputs.iter().map(fetched).sum::<u64>(), 32 * PIECE as u64);
    assert_eq!(fake.cdn.sent(), 32 * PIECE);
}

#[cfg(unix)]
#[test]
fn a_file_that_may_grow_no_more_is_an_error_and_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(1, 64 * PIECE);
    let fake = Fake::new(&files_there);
    // The shell counts in blocks of 512 bytes.
    let whole = other_process(folder.path(), &fake);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 6000; exec \"$0\" \"$@\""])
        .arg(whole.get_program())
        .args(whole.get_args());
    limited.envs(whole.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("File too large"), "{said}");
    let there = Hub::new(fake.settings(folder.path())).list().unwrap()[0].bytes;
    assert!(there > 0);
    let output = other_process(folder.path(), &fake).output().unwrap();
    assert_eq!(fetched(&output), 64 * PIECE as u64 - there);
    let found = Hub::new(fake.settings(folder.path())).find(&name("hf:u/r")).unwrap();
    assert_eq!(fs::read(found).unwrap()[..], files_there[0].1[..]);
}
