//! A model that answers texts, through the binary: what works, and what is refused in one line.

use std::fs;

use candor_testing::TinyT5;
use serde_json::Value;

use crate::program::candor;

/// A tiny T5 in a folder of its own.
fn model() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t5.gguf");
    fs::write(&path, TinyT5::default().bytes()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn a_prompt_is_answered() {
    let (_folder, model) = model();
    let answer = |prompt: &str| {
        let args =
            ["run", &model, "-p", prompt, "-n", "12", "--temp", "0", "--ignore-eos", "-ctk", "f32", "-ctv", "f32"];
        candor(args).text()
    };
    assert_eq!(answer("a b c"), answer("a b c"));
    assert_ne!(answer("a b c"), answer("x y z"));
    let outcome = candor(["run", &model, "-p", "a b", "-n", "1", "-v"]).outcome();
    // Two letters, EOS, and what the answer begins with.
    assert!(outcome.stderr.contains("\nprompt: 4 tokens, "), "{outcome:?}");
    let shown = candor(["show", &model]).text();
    assert!(shown.contains("3, and 2 of the encoder that reads texts\n"), "{shown}");
    let vector = candor(["embed", &model, "--pooling", "mean", "-p", "a b"]).text();
    let vector: Value = serde_json::from_str(&vector).unwrap();
    assert_eq!(vector["data"][0]["embedding"].as_array().unwrap().len(), 32);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let (folder, model) = model();
    let cache = folder.path().join("cache");
    let cache = cache.to_str().unwrap();
    let goes = "the model (t5) answers a text that it has read, which goes without";
    for (args, what) in [
        (&["chat", &model][..], "candor chat"),
        (&["bench", &model, "-p", "1", "-n", "1"], "candor bench"),
        (&["run", &model, "-p", "a", "--context-shift"], "sliding over a full context"),
        (&["run", &model, "-p", "a", "--prompt-lookup"], "speculative decoding"),
        (&["run", &model, "-p", "a", "--prompt-cache", cache], "--prompt-cache"),
    ] {
        let error = candor(args).stdin("").error();
        assert!(error.contains(&format!("error: {what}: {goes}\n")), "{args:?}: {error}");
    }
    for args in [&["perplexity", &model, "-c", "8"][..], &["logits", &model]] {
        let error = candor(args).stdin("a b c d e f g h i j k l m n o p q r s t u v w x y z").error();
        assert!(
            error.contains("error: the model (t5) answers a text that it has read: it continues none\n"),
            "{error}"
        );
    }
}

#[test]
fn its_runs_are_verified_recorded_and_diagnosed() {
    let (folder, model) = model();
    let verified = candor(["verify", &model, "-p", "a b c"]).text();
    assert!(verified.contains("\n3 tokens that answer a text of 4, 1 of them together\n"), "{verified}");
    assert!(verified.contains("\nverified: everything is within its bound"), "{verified}");
    for (plant, told) in [
        (None, "healthy: every value follows from its inputs\n"),
        (Some("cross-attention-masked"), "\ncross-attention-masked ("),
        (Some("encoder-looks-back-alone"), "\nencoder-looks-back-alone ("),
    ] {
        let trace = folder.path().join(format!("{plant:?}.safetensors"));
        let trace = trace.to_str().unwrap();
        let args = ["trace", &model, "-p", "a b c d", "-n", "3", "-o", trace];
        let plant: Vec<&str> = plant.into_iter().flat_map(|name| ["--plant", name]).collect();
        candor(args.iter().chain(&plant)).outcome();
        let outcome = candor(["diagnose", &model, "--trace", trace]).outcome();
        assert!(outcome.stdout.contains(told) && !outcome.stdout.contains("other-vocabulary"), "{outcome:?}");
    }
}
