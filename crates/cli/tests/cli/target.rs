//! `candor quantize --target-size`: the file fits, beats the mixes, can be repeated; what can't be is refused.

use std::fs;
use std::path::Path;

use crate::program::candor;

/// A model of F32 weights, and a text.
fn given() -> Option<(String, String)> {
    let fixtures = candor_testing::fixtures()?;
    let place = |name: &str| fixtures.join(name).to_str().expect("an ASCII path").to_owned();
    Some((place("models/stories260K-f32.gguf"), place("text/cs336-tinystories_sample.txt")))
}

/// Where it is measured: three windows, one thread.
const PLACE: [&str; 8] = ["-c", "128", "--chunks", "3", "-t", "1", "--device", "cpu"];

fn bytes(path: &str) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// Mean divergence of a file from the model.
fn divergence(model: &str, path: &str, text: &str) -> f64 {
    let words = ["perplexity", path, "--kl-divergence", "--kl-divergence-base", model, "-f", text, "--json"];
    let found = candor(words.iter().chain(&PLACE)).outcome().stdout;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    found["divergence"]["mean"]["value"].as_f64().unwrap()
}

/// Two sizes of standard files: no file of theirs is as near to the model, and none is smaller.
#[test]
fn what_is_chosen_is_nearer_than_every_mix_that_fits() {
    let Some((model, text)) = given() else { return };
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mixes: Vec<(u64, f64)> = ["Q4_0", "Q4_1", "IQ4_NL", "Q4_K_M", "Q5_0", "Q5_1"]
        .into_iter()
        .map(|kind| {
            let path = place(kind);
            candor(["quantize", &model, &path, kind, "1"]).text();
            (bytes(&path), divergence(&model, &path, &text))
        })
        .collect();
    for kind in ["Q4_0", "Q5_0"] {
        let (output, pairs) = (place("chosen.gguf"), place("chosen.txt"));
        let size = bytes(&place(kind));
        let asked = size.to_string();
        let words =
            ["quantize", "--target-size", &asked, "-f", &text, "--tensor-type-output", &pairs, &model, &output, "1"];
        let printed = candor(words.iter().chain(&PLACE)).text();
        assert!(bytes(&output) <= size, "{kind}: {} of {size}", bytes(&output));
        let own = divergence(&model, &output, &text);
        for &(bytes, other) in mixes.iter().filter(|(bytes, _)| *bytes <= size) {
            assert!(own < other, "{kind}: {own}, {other} of a file of {bytes}\n{printed}");
        }
        // What is printed is what was measured, and the file is made again of what was written.
        let said = printed.lines().find_map(|line| line.strip_prefix("divergence: ")).expect("the divergence");
        let said: f64 = said.split(' ').next().unwrap().parse().unwrap();
        assert!((said - own).abs() < 2e-6, "{said} {own}");
        let kind = printed.lines().find_map(|line| line.strip_prefix("type of file: ")).expect("the type");
        let again = place("again.gguf");
        candor(["quantize", "--tensor-type-file", &pairs, &model, &again, kind, "2"]).text();
        assert!(fs::read(&output).unwrap() == fs::read(&again).unwrap());
    }
}

#[test]
fn bits_are_counted_as_the_summary_counts_them() {
    let Some((model, text)) = given() else { return };
    let words = [
        "quantize",
        "--dry-run",
        "--target-bpw",
        "8.3",
        "-f",
        &text,
        "--runs",
        "37",
        "--tensor-type",
        "attn_k=q8_0",
        &model,
    ];
    let printed = candor(words.iter().chain(&PLACE)).text();
    let last = printed.lines().last().unwrap();
    let bits: f64 = last.split_once('(').unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert!((8.1..=8.3).contains(&bits), "{printed}");
    // What is given stays.
    let given = |line: &&str| line.starts_with("blk.") && line.contains("attn_k.weight ");
    let given: Vec<&str> = printed.lines().filter(given).collect();
    assert!(
        given.len() == 5 && given.iter().all(|line| line.contains(" Q8_0 ") && line.ends_with("given")),
        "{printed}"
    );
}

#[test]
fn targets_out_of_reach_and_flags_that_do_not_go_together_are_refused() {
    let Some((model, text)) = given() else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.gguf");
    let output = output.to_str().unwrap();
    for (words, expected) in [
        (&["--target-size", "100k", "-f", &text, &model, output][..], "the smallest that can be made is 2"),
        (&["--target-bpw", "1.5", "-f", &text, &model, output], "the smallest that can be made is 6.8"),
        (&["--target-size", "260k", "-f", &text, "--runs", "3", &model, output], "3 runs are too few"),
        (
            &["--target-size", "260k", "-f", &text, &model, output, "Q4_0"],
            "Q4_0 and a target: one of them chooses the formats",
        ),
        (&["--target-size", "260k", "-f", &text, &model], "expected the file to write"),
        (&["--target-size", "260k", &model, output], "--file <FILE>"),
        (&["--target-size", "many", "-f", &text, &model, output], "expected bytes such as 512M"),
        (&["--target-bpw", "0", "-f", &text, &model, output], "expected bits for each weight, such as 4.5"),
        (&["--target-bpw", "8", "--target-size", "260k", "-f", &text, &model, output], "cannot be used with"),
        (&["--target-bpw", "8", "--pure", "-f", &text, &model, output], "cannot be used with"),
        (&["--target-bpw", "8", "-f", &model, &model, output], "expected UTF-8"),
        (&["-f", &text, &model, output, "Q4_0"], "--target-size"),
    ] {
        let refused = candor(["quantize"].iter().chain(words).chain(&PLACE)).outcome();
        assert!(refused.code != 0 && refused.stderr.contains(expected), "{words:?}: {refused:?}");
        assert!(!Path::new(output).exists(), "{words:?}");
    }
    let short = folder.path().join("short.txt");
    fs::write(&short, "Once upon a time").unwrap();
    let short = short.to_str().unwrap();
    let refused = candor(["quantize", "--target-bpw", "8", "-f", short, &model, output]).outcome();
    assert!(refused.code != 0 && refused.stderr.contains("tokens"), "{refused:?}");
}
