//! `candor gguf`: what it writes is what was there, with the changes that were asked for.

use std::fs;

use candor_gguf::{Gguf, Value};
use candor_testing::Tiny;

use crate::program::candor;

#[test]
fn files_are_edited_split_and_merged() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let input = place("in.gguf");
    fs::write(&input, Tiny::default().bytes()).unwrap();
    let before = Gguf::open(&input).unwrap();
    let run = |action: &str, output: &str, words: &[&str]| {
        candor(["gguf", action, &input, output].iter().chain(words)).outcome()
    };
    let same_data = |file: &Gguf| {
        file.tensors().iter().all(|tensor| file.data(tensor) == before.data(before.tensor(&tensor.name).unwrap()))
    };
    let [set, renamed, extracted] = ["set.gguf", "renamed.gguf", "extracted.gguf"].map(place);
    let keys = ["general.name=str:Tom = cat", "llama.context_length=77", "tokenizer.ggml.add_bos_token=bool:false"];
    let outcome = run("set", &set, &keys);
    assert!(outcome.code == 0 && outcome.stdout.starts_with(&format!("wrote {set}: ")), "{outcome:?}");
    let file = Gguf::open(&set).unwrap();
    assert_eq!(file.metadata().get("general.name"), Some(&Value::String("Tom = cat".to_owned())));
    assert_eq!(file.metadata().u32("llama.context_length").unwrap(), Some(77));
    assert_eq!(file.metadata().get("tokenizer.ggml.add_bos_token"), Some(&Value::Bool(false)));
    assert!(same_data(&file) && file.tensors().len() == before.tensors().len());
    let unset = place("unset.gguf");
    let outcome = candor(["gguf", "unset", &set, &unset, "general.name"]).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(Gguf::open(&unset).unwrap().metadata().get("general.name"), None);
    assert_eq!(run("rename", &renamed, &["output.weight=head.weight"]).code, 0);
    let file = Gguf::open(&renamed).unwrap();
    assert!(file.tensor("output.weight").is_none());
    assert_eq!(file.data(file.tensor("head.weight").unwrap()), before.data(before.tensor("output.weight").unwrap()));
    assert_eq!(run("extract", &extracted, &["blk.1.", "output_norm"]).code, 0);
    let file = Gguf::open(&extracted).unwrap();
    assert!(same_data(&file) && file.tensors().iter().all(|tensor| !tensor.name.starts_with("blk.0")));
    assert_eq!(file.tensors().len(), before.tensors().iter().filter(|t| t.name.starts_with("blk.1.")).count() + 1);
    // Split in parts of five, split again in parts of nine, and merged: the bytes of the beginning.
    let outcome = run("split", &place("five"), &["--split-max-tensors", "5"]);
    assert_eq!((outcome.code, outcome.stdout.lines().count()), (0, before.tensors().len().div_ceil(5)), "{outcome:?}");
    let first =
        outcome.stdout.lines().next().unwrap().split_once(' ').unwrap().1.rsplit_once(": ").unwrap().0.to_owned();
    let outcome = candor(["gguf", "reshard", &first, &place("nine.gguf"), "--split-max-tensors", "9"]).outcome();
    assert_eq!((outcome.code, outcome.stdout.lines().count()), (0, before.tensors().len().div_ceil(9)), "{outcome:?}");
    // Beside itself: no part has its name.
    let outcome = candor(["gguf", "split", &input, &input, "--split-max-tensors", "9"]).outcome();
    assert_eq!((outcome.code, outcome.stdout.lines().count()), (0, before.tensors().len().div_ceil(9)), "{outcome:?}");
    let merged = place("merged.gguf");
    assert_eq!(candor(["gguf", "merge", &first, &merged]).outcome().code, 0);
    assert_eq!(fs::read(&merged).unwrap(), fs::read(&input).unwrap());
    for (args, code, expected) in [
        (&["set", &input, &input, "general.name=str:a"][..], 1, "hint: give the new file another name"),
        (&["merge", &first, &first.replace("00001-of", "00002-of")], 1, "hint: give the new file another name"),
        (&["split", &first, &place("five"), "--split-max-tensors", "5"], 1, "hint: give the new file another name"),
        (&["set", &input, &set, "llama.context_lenght=7"], 1, "needs a type: one of u8"),
        (&["set", &input, &set, "llama.context_lenght=7"], 1, "is llama.context_length meant?"),
        (&["set", &input, &set, "llama.context_length=many"], 1, "expected a value of the type u32, got many"),
        (&["unset", &input, &set, "general.nmae"], 1, "general.nmae: the file has no such key"),
        (&["rename", &input, &set, "outputs.weight=a"], 1, "is output.weight meant?"),
        (&["rename", &input, &set, "output.weight"], 1, "output.weight: expected NAME=..."),
        (&["rename", &input, &set, "output.weight=token_embd.weight"], 1, "token_embd.weight"),
        (&["extract", &input, &set, "nothing"], 1, "nothing: no tensor has this in its name"),
        (&["set", &input, &set], 2, "expected words after OUTPUT"),
        (&["merge", &input, &set, "word"], 2, "expected no words after OUTPUT"),
        (&["merge", &input, &set, "--split-max-size", "2G"], 2, "--split-max-size is for split"),
        (&["split", &input, &set, "--split-max-size", "2T"], 2, "expected a size such as 500M or 2G, got 2T"),
    ] {
        let refused = candor(["gguf"].iter().chain(args)).outcome();
        assert!(refused.code == code && refused.stderr.contains(expected), "{args:?}: {refused:?}");
    }
    assert_eq!(fs::read(&input).unwrap(), Tiny::default().bytes());
}

/// Killed at any moment, what writes a file leaves the old one or the new one. `CANDOR_TEST_KILLS` says how often each is killed.
#[cfg(unix)]
#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    use std::{thread, time::Duration, time::Instant};
    let kills = std::env::var("CANDOR_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8);
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [input, output] = ["in.gguf", "out.gguf"].map(place);
    let model = Tiny { dim: 256, heads: 8, kv_heads: 8, head_dim: 32, ffn: 1024, layers: 4, ..Tiny::default() };
    fs::write(&input, model.bytes()).unwrap();
    assert_eq!(candor(["gguf", "split", &input, &place("part"), "--split-max-tensors", "9"]).outcome().code, 0);
    let count = Gguf::open(&input).unwrap().tensors().len().div_ceil(9);
    let part = place(&format!("part-00001-of-{count:05}.gguf"));
    let mut random = candor_testing::Random(5);
    for args in [
        &["quantize", &input, &output, "Q8_0", "2"][..],
        &["gguf", "merge", &part, &output],
        &["gguf", "set", &input, &output, "general.name=str:new"],
    ] {
        let begun = Instant::now();
        assert_eq!(candor(args).outcome().code, 0);
        let (whole, new) = (begun.elapsed(), fs::read(&output).unwrap());
        let mut left = [0, 0];
        for _ in 0..kills {
            fs::write(&output, "old").unwrap();
            let mut program = candor(args);
            let mut child = program.spawn();
            // The last tenth is where the file gets its name.
            let share = if random.below(2) == 0 { 0.0 } else { 0.9 };
            thread::sleep(
                whole.mul_f64(share + 0.2 * random.below(1000) as f64 / 1000.0).max(Duration::from_millis(1)),
            );
            child.kill().unwrap();
            child.wait().unwrap();
            let got = fs::read(&output).unwrap();
            assert!(got == b"old" || got == new, "{args:?}: {} bytes of neither", got.len());
            left[usize::from(got == new)] += 1;
        }
        println!("{args:?}: {} old, {} new", left[0], left[1]);
    }
}
