//! Flags that replace what a file says: metadata, and how positions are rotated. What they do is compared with files that say so
//! themselves, whose values other tests hold against llama.cpp's.

use std::{f64::consts::PI, path::Path};

use candor::Gguf;
use candor_gguf::{Format, Value, Writer};
use candor_testing::{Tiny, fixtures, ids, json};

use crate::program::{Outcome, candor};

/// A file in a folder of its own.
struct File {
    path: String,
    _folder: tempfile::TempDir,
}

fn written(writer: &Writer) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    writer.write_file(&path).unwrap();
    File { path: path.to_str().unwrap().to_owned(), _folder: folder }
}

/// A copy of a file without the keys that `drops` says, and with others.
fn changed(path: &Path, drops: impl Fn(&str) -> bool, with: &[(&str, Value)]) -> File {
    let gguf = Gguf::open(path).unwrap();
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| !drops(key)) {
        writer.insert(key, value.clone());
    }
    for (key, value) in with {
        writer.insert(*key, value.clone());
    }
    for info in gguf.tensors() {
        writer.tensor(&info.name, info.format, &info.shape, gguf.data(info)).unwrap();
    }
    written(&writer)
}

fn tiny(with: &[(&str, Value)]) -> File {
    let mut writer = Tiny::default().writer();
    with.iter().for_each(|(key, value)| writer.insert(*key, value.clone()));
    written(&writer)
}

const TOKENS: &str = "1,70,80,90,100,110,120,130,140,150,160,170,180,190,200,210,220,230,240,250";

fn run(path: &str, tokens: &str, flags: &[&str]) -> Outcome {
    let fixed = ["logits", path, "--ids", tokens, "--all", "--top", "0", "--device", "cpu", "-t", "1", "-ctk", "f32"];
    candor(fixed.iter().chain(&["-ctv", "f32"]).chain(flags)).outcome()
}

/// All logits after each token, as they are printed.
fn logits(path: &str, tokens: &str, flags: &[&str]) -> String {
    let outcome = run(path, tokens, flags);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    outcome.stdout
}

/// The numbers of [`logits`], by position and token.
fn numbers(text: &str) -> Vec<f64> {
    let mut rows: Vec<(usize, u32, f64)> = Vec::new();
    let mut position = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "after" => position += 1,
            id => rows.push((position, id.parse().unwrap(), words[1].parse().unwrap())),
        }
    }
    rows.sort_by_key(|&(position, id, _)| (position, id));
    rows.into_iter().map(|(.., logit)| logit).collect()
}

/// The tokens that the fixtures of architectures are run on.
fn fixture_tokens(folder: &Path) -> String {
    let all = ids(&json(&folder.join("tokens.json"))["tokens"]);
    all.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[test]
fn flags_of_the_rotation_compute_what_files_say_that_llama_cpp_ran() {
    let Some(fixtures) = fixtures() else { return };
    let scaling = |key: &str| key.contains(".rope.scaling.");
    let all = |key: &str| key.contains(".rope.scaling.") || key.ends_with(".rope.freq_base");
    for (name, drops, flags) in [
        ("llama-rope-linear", &scaling as &dyn Fn(&str) -> bool, "--rope-scale 4"),
        ("llama-rope-linear", &scaling, "--rope-scaling linear --rope-freq-scale 0.25"),
        ("llama-rope-yarn", &scaling, "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 64"),
        (
            "llama-rope-yarn",
            &scaling,
            "--rope-scaling yarn --rope-freq-scale 0.25 --yarn-orig-ctx 64 --yarn-beta-fast 32",
        ),
        ("qwen3-yarn", &all, "--rope-freq-base 1000000 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 64"),
        ("gemma3", &all, "--rope-freq-base 1000000 --rope-scaling linear --rope-scale 8"),
        ("gemma3", &scaling, "--override-kv gemma3.rope.scaling.factor=float:8"),
    ] {
        let folder = fixtures.join("arch").join(name);
        let (original, tokens) = (folder.join("model.gguf"), fixture_tokens(&folder));
        let flags: Vec<&str> = flags.split(' ').collect();
        let stripped = changed(&original, drops, &[]);
        let expected = logits(original.to_str().unwrap(), &tokens, &[]);
        assert_eq!(logits(&stripped.path, &tokens, &flags), expected, "{name} {flags:?}");
        assert_ne!(logits(&stripped.path, &tokens, &[]), expected, "{name} without flags");
    }
    // The best tokens themselves, by llama.cpp.
    let folder = fixtures.join("arch/llama-rope-yarn");
    let stripped = changed(&folder.join("model.gguf"), scaling, &[]);
    let flags = ["--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "64", "--top", "1"];
    let text = logits(&stripped.path, &fixture_tokens(&folder), &flags);
    let best =
        text.lines().filter(|line| !line.starts_with("after")).map(|line| line.split_whitespace().next().unwrap());
    let expected = ids(&json(&folder.join("tokens.json"))["argmax_llamacpp"]);
    assert_eq!(best.map(|id| id.parse().unwrap()).collect::<Vec<u32>>(), expected);
}

/// YaRN's divisors of frequencies by Peng et al. 2023, with the share that fast pairs keep.
fn divisors(dims: usize, context: f64, (fast, slow): (f64, f64), factor: f64, kept: f64) -> Vec<f32> {
    let pair_of = |turns: f64| dims as f64 * (context / (turns * 2.0 * PI)).ln() / (2.0 * 10_000f64.ln());
    let (low, high) = (pair_of(fast).floor().max(0.0), pair_of(slow).ceil().min(dims as f64 - 1.0));
    let own = |pair: usize| kept * (1.0 - ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0));
    (0..dims / 2).map(|pair| (1.0 / (own(pair) + (1.0 - own(pair)) / factor)) as f32).collect()
}

#[test]
fn the_numbers_of_yarn_are_those_of_its_formula() {
    let plain = tiny(&[]);
    for (flags, context, betas, kept) in [
        ("", 64.0, (32.0, 1.0), 1.0),
        ("--yarn-ext-factor 0.5", 64.0, (32.0, 1.0), 0.5),
        ("--yarn-beta-fast 0.5 --yarn-beta-slow 0.1", 64.0, (0.5, 0.1), 1.0),
        ("--yarn-orig-ctx 2000", 2000.0, (32.0, 1.0), 1.0),
        ("--yarn-orig-ctx 2000 --yarn-beta-fast 4 --yarn-ext-factor 0.7 --yarn-beta-slow -1", 2000.0, (4.0, 1.0), 0.7),
    ] {
        let mut writer = Tiny::default().writer();
        let bytes: Vec<u8> = divisors(8, context, betas, 4.0, kept).iter().flat_map(|x| x.to_le_bytes()).collect();
        writer.tensor("rope_freqs.weight", Format::F32, &[4], bytes).unwrap();
        writer.insert("llama.rope.scaling.attn_factor", (1.0 + 0.1 * 4f64.ln()) as f32);
        let expected = numbers(&logits(&written(&writer).path, TOKENS, &[]));
        let flags: Vec<&str> =
            "--rope-scaling yarn --rope-scale 4".split(' ').chain(flags.split_whitespace()).collect();
        let got = numbers(&logits(&plain.path, TOKENS, &flags));
        let worst = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(got.len() == expected.len() && worst < 5e-5, "{flags:?}: {worst}");
        let without = numbers(&logits(&plain.path, TOKENS, &[]));
        let moved = got.iter().zip(&without).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(moved > 1e-2, "{flags:?}: {moved}");
    }
}

#[test]
fn the_magnitude_counts_without_yarn_and_the_ramp_with_it() {
    let plain = tiny(&[]);
    let scaled = tiny(&[("llama.rope.scaling.factor", 4f32.into()), ("llama.rope.scaling.attn_factor", 1.5f32.into())]);
    let expected = logits(&scaled.path, TOKENS, &[]);
    for flags in [
        "--rope-scaling linear --rope-scale 4 --yarn-attn-factor 1.5",
        "--rope-scaling yarn --rope-scale 4 --yarn-ext-factor 0 --yarn-attn-factor 1.5",
        "--rope-freq-scale 0.25 --yarn-attn-factor 1.5 --rope-freq-base 0 --yarn-orig-ctx 0 --yarn-ext-factor -1",
    ] {
        let outcome = run(&plain.path, TOKENS, &flags.split(' ').collect::<Vec<_>>());
        assert_eq!(outcome.stdout, expected, "{flags}");
        assert!(!outcome.stderr.contains("changes nothing"), "{outcome:?}");
    }
    let none = logits(&scaled.path, TOKENS, &["--rope-scaling", "none"]);
    let only = tiny(&[("llama.rope.scaling.attn_factor", 1.5f32.into())]);
    assert_eq!(none, logits(&only.path, TOKENS, &[]));
    // What does not count is said.
    let notes = |flags: &str| {
        let outcome = run(&plain.path, TOKENS, &flags.split(' ').collect::<Vec<_>>());
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let lines = outcome.stderr.lines().filter_map(|line| line.strip_prefix("note: "));
        lines.map(|line| line.split(" changes nothing").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(notes("--rope-scaling yarn --rope-scale 4 --yarn-attn-factor 2"), ["--yarn-attn-factor"]);
    assert_eq!(notes("--rope-scaling none --rope-scale 4"), ["--rope-scale"]);
    let expected = ["--yarn-orig-ctx", "--yarn-beta-slow", "--yarn-beta-fast"];
    assert_eq!(notes("--rope-scale 4 --yarn-orig-ctx 32 --yarn-beta-slow 2 --yarn-beta-fast 8"), expected);
}

#[test]
fn the_context_grows_with_yarn() {
    let plain = tiny(&[]);
    let context = |flags: &[&str]| {
        let text = candor(["show", &plain.path].iter().chain(flags)).text();
        let line = text.lines().find(|line| line.starts_with("context ")).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(context(&[]), "64");
    assert_eq!(context(&["--rope-scaling", "yarn", "--rope-scale", "4"]), "256");
    assert_eq!(context(&["--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "32"]), "128");
    assert_eq!(context(&["--rope-scale", "4"]), "64");
}

#[test]
fn layers_with_a_window_keep_their_rotation() {
    let Some(fixtures) = fixtures() else { return };
    // Unscaled windows with the base of the others: the flag leaves it to them.
    let folder = fixtures.join("arch/olmo3-swa8");
    let (original, tokens) = (folder.join("model.gguf"), fixture_tokens(&folder));
    let base = Gguf::open(&original).unwrap().metadata().f32("olmo2.rope.freq_base").unwrap().unwrap();
    let with = [("olmo2.rope.freq_base", 1000f32.into()), ("olmo2.rope.freq_base_swa", base.into())];
    let edited = changed(&original, |key| key.contains(".rope.scaling."), &with);
    let stripped = changed(&original, |key| key.contains(".rope.scaling."), &[]);
    let got = logits(&stripped.path, &tokens, &["--rope-freq-base", "1000"]);
    assert_eq!(got, logits(&edited.path, &tokens, &[]));
    // Alike in the file: llama.cpp's flag would change one sort alone.
    let folder = fixtures.join("arch/gpt-oss");
    let (original, tokens) = (folder.join("model.gguf"), fixture_tokens(&folder));
    let path = original.to_str().unwrap();
    for flags in [["--rope-scale", "8"], ["--rope-freq-base", "1000"], ["--rope-scaling", "none"]] {
        let outcome = run(path, &tokens, &flags);
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.stderr.contains("layers with a window of gpt-oss models keep their rotation"), "{outcome:?}");
        assert!(
            outcome.stderr.contains("\nhint: --override-kv ARCHITECTURE.rope.scaling.factor=float:N"),
            "{outcome:?}"
        );
    }
    let edited = changed(&original, |_| false, &[("gpt-oss.rope.scaling.factor", 8f32.into())]);
    let got = logits(path, &tokens, &["--override-kv", "gpt-oss.rope.scaling.factor=float:8"]);
    assert_eq!(got, logits(&edited.path, &tokens, &[]));
    assert_ne!(got, logits(path, &tokens, &[]));
}

#[test]
fn every_command_that_reads_a_model_sees_the_replaced_metadata() {
    let plain = tiny(&[]);
    let text = "a b c d e f g h i j k l m n o p q r s t u v w x y z ".repeat(3);
    let eps = "llama.attention.layer_norm_rms_epsilon=float:0.5";
    let edited = tiny(&[("llama.attention.layer_norm_rms_epsilon", 0.5f32.into())]);
    for args in [
        &["run", "-p", "a b", "--temp", "0", "-n", "20"][..],
        &["run", "-p", "a b", "--raw", "--temp", "0", "-n", "20", "--no-mmap"],
        &["perplexity", "-c", "16"],
        &["logits", "--ids", "1,70,80"],
        &["embed", "-p", "a b", "--pooling", "mean"],
        &["trace", "--ids", "1,70,80", "--stats"],
    ] {
        let of = |path: &str, more: &[&str]| {
            let fixed = ["-t", "1", "--device", "cpu"];
            let stdin = if args[0] == "perplexity" { text.as_str() } else { "" };
            candor(args.iter().chain(&["-m", path]).chain(&fixed).chain(more)).stdin(stdin).text()
        };
        let got = of(&plain.path, &["--override-kv", eps]);
        // The page of a trace names its file.
        assert_eq!(got.replace(&plain.path, ""), of(&edited.path, &[]).replace(&edited.path, ""), "{args:?}");
        assert_ne!(got, of(&plain.path, &[]), "{args:?}");
    }
    let verified =
        candor(["verify", &plain.path, "--quick", "--override-kv", eps, "-t", "1", "--device", "cpu"]).outcome();
    assert!(verified.code == 0 && verified.stdout.contains("verified: "), "{verified:?}");
    let bench = ["bench", &plain.path, "-p", "4", "-n", "0", "-r", "1", "-t", "1", "--no-warmup"];
    let error = candor(bench.iter().chain(&["--override-kv", "llama.block_count=int:3"])).error();
    assert!(error.contains("blk.2.attn_norm.weight"), "{error}");
    // The dimensions, the vocabulary and the template come from it, too.
    let shown =
        candor(["show", &plain.path, "--metadata", "--override-kv", "general.name=str:another,a.b=int:7"]).text();
    assert!(shown.contains("general.name  ") && shown.contains("\"another\"") && shown.contains("a.b "), "{shown}");
    let ids = |flags: &[&str]| candor(["tokenize", &plain.path, "--ids", "-p", "a"].iter().chain(flags)).text();
    assert!(ids(&[]).starts_with("[1, "), "{}", ids(&[]));
    let none = ids(&["--override-kv", "tokenizer.ggml.add_bos_token=bool:false"]);
    assert!(!none.starts_with("[1"), "{none}");
    let template = "\"tokenizer.chat_template=str:[{{ messages[0]['content'] }}, you]\"";
    let asked = ["run", &plain.path, "-p", "hi", "-n", "0", "--verbose-prompt", "--override-kv", template];
    assert!(candor(asked).outcome().stderr.contains("prompt: \"[hi, you]\"\n"));
    let chat = candor(["chat", &plain.path, "-n", "1", "--override-kv", template]).stdin("hi\n").outcome();
    assert_eq!(chat.code, 0, "{chat:?}");
    // Given twice, and by the configuration file: the last value of a key counts.
    let words = ["--override-kv", "a.b=int:1", "--override-kv", "a.b=int:2,c.d=float:0.5"];
    let shown = candor(["show", &plain.path, "--metadata"].iter().chain(&words)).text();
    let row = |key: &str| shown.lines().find(|line| line.trim_start().starts_with(key)).unwrap().to_owned();
    assert!(row("a.b ").ends_with(" 2") && row("c.d ").ends_with(" 0.5"), "{shown}");
    let config = "override-kv = [\"general.name=str:filed\"]";
    assert!(candor(["show", &plain.path, "--metadata"]).config(config).text().contains("\"filed\""));
}

#[test]
fn what_nothing_reads_is_said_and_a_wrong_type_is_refused() {
    let plain = tiny(&[]);
    let said = |flags: &[&str]| candor(["run", &plain.path, "-p", "a", "-n", "1"].iter().chain(flags)).outcome();
    let outcome = said(&["--override-kv", "llama.no_such_key=int:1,llama.rope.freq_base=float:500000"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let notes: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("changes nothing")).collect();
    let note = "note: --override-kv llama.no_such_key changes nothing: nothing in this model reads it";
    assert_eq!(notes, [note], "{outcome:?}");
    for (word, message, hint) in [
        (
            "llama.block_count=float:2",
            "metadata key llama.block_count: expected u32 as in the file, got float",
            "hint: `candor show --metadata` prints the keys",
        ),
        ("llama.block_count=int:-1", "metadata key llama.block_count: expected u32 as in the file, got -1", "hint: "),
        ("tokenizer.ggml.tokens=str:a", "the file has an array of string, which cannot be replaced", "hint: "),
        ("llama.rope.freq_base=int:5", "llama.rope.freq_base: expected f32, got i64", ""),
        ("general.architecture=str:lama", "lama", ""),
    ] {
        let outcome = said(&["--override-kv", word]);
        assert!(outcome.code == 1 && outcome.stderr.contains(message), "{outcome:?}");
        assert!(outcome.stderr.contains(hint), "{outcome:?}");
    }
    for (flags, message) in [
        ("--rope-freq-base=0.5", "error: --rope-freq-base: expected a number above 1, got 0.5"),
        ("--rope-freq-scale=-1", "error: --rope-scale: expected a positive number, got -1"),
        ("--rope-freq-base=inf", "error: --rope-freq-base: expected a number above 1, got inf"),
        ("--yarn-beta-fast=inf", "error: --yarn-beta-fast: expected a number, got inf"),
    ] {
        let outcome = said(&[flags]);
        assert!(outcome.code == 1 && outcome.stderr.contains(message), "{outcome:?}");
    }
    // A model without rotation.
    let Some(fixtures) = fixtures() else { return };
    let mamba = fixtures.join("arch/mamba/model.gguf");
    let outcome = run(mamba.to_str().unwrap(), "1,2,3", &["--rope-freq-base", "5000", "--yarn-orig-ctx", "64"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stderr.contains("note: --rope-freq-base changes nothing"), "{outcome:?}");
    assert!(outcome.stderr.contains("note: --yarn-orig-ctx changes nothing"), "{outcome:?}");
}

#[test]
fn a_saved_prompt_belongs_to_the_metadata() {
    let plain = tiny(&[]);
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let run = |flags: &[&str]| {
        let fixed = ["run", &plain.path, "-p", "a b c", "-n", "1", "--prompt-cache", cache.to_str().unwrap()];
        candor(fixed.iter().chain(flags)).outcome()
    };
    assert_eq!(run(&[]).code, 0);
    let outcome = run(&["--rope-freq-base", "500"]);
    assert!(outcome.code == 0 && outcome.stderr.contains("another model"), "{outcome:?}");
}
