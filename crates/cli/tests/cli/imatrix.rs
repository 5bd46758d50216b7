//! `candor imatrix`: what it writes is used, added up and gone on from.

use std::{fs, path::Path};

use candor_convert::Imatrix;

use crate::program::candor;

#[test]
fn a_matrix_is_measured_in_parts_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let text = place("text");
    fs::write(&text, "The little cat sat in the sun and was happy. ".repeat(30)).unwrap();
    let run = |more: &[&str]| {
        let common = ["imatrix", "-f", &text, "-c", "64", "-t", "1"];
        candor(common.iter().chain(more)).outcome()
    };
    let [all, first, second, both, dat] = ["all", "first", "second", "both", "dat"].map(place);
    let whole = run(&["--chunks", "4", "-ofreq", "3", "-o", &all]);
    assert!(whole.code == 0 && whole.stdout.contains("4 windows of 64 tokens"), "{whole:?}");
    assert!(
        whole.stderr.contains(&format!("wrote {all}: --in-file {all} --from-chunk 3 goes on from here")),
        "{whole:?}"
    );
    assert_eq!(run(&["--chunks", "2", "-o", &first]).code, 0);
    // Goes on where that ended.
    assert_eq!(run(&["--chunks", "2", "--from-chunk", "2", "--in-file", &first, "-o", &both]).code, 0);
    assert_eq!(run(&["--chunks", "2", "--chunk", "2", "-o", &second]).code, 0);
    let added =
        candor(["imatrix", "--in-file", &first, "--in-file", &second, "-o", &dat, "--output-format", "dat"]).outcome();
    assert!(added.code == 0 && added.stderr.is_empty(), "{added:?}");
    let open = |path: &str| Imatrix::open(Path::new(path)).unwrap();
    let (all, both, dat) = (open(&all), open(&both), open(&dat));
    assert_eq!((both.chunks, dat.chunks, both.window), (4, 4, 64));
    for (name, all) in &all.entries {
        for other in [&both.entries[name], &dat.entries[name]] {
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs();
            assert!(all.means().iter().zip(&other.means()).all(close), "{name}");
        }
    }
    assert!(!all.entries.contains_key("output.weight") && !all.entries.contains_key("token_embd.weight"));
    // Nothing else is left behind.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6);
    for (flags, expected) in [
        (&["--from-chunk", "900", "-o", &place("x")][..], "--from-chunk 900: the text has "),
        (&["--in-file", &text, "-o", &place("x")], "it is no GGUF file and no importance matrix"),
        (&["-o", &place("no/x")], "no/x"),
        (&["-o", &text], "hint: give the new file another name"),
    ] {
        let refused = run(flags);
        assert!(refused.code != 0 && refused.stderr.contains(expected), "{refused:?}");
    }
}
