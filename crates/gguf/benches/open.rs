//! How long opening takes: `cargo bench -p candor-gguf` prints the best and the median of 20 runs for vocabularies of
//! several sizes, beside a tensor directory of the size of a 1.1B model's, or for the files that are given.

use candor_gguf::{Format, Gguf, Writer};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn main() {
    let given: Vec<PathBuf> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).map(PathBuf::from).collect();
    if !given.is_empty() {
        given.iter().for_each(|path| report(&path.display().to_string(), path));
        return;
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("open.gguf");
    for tokens in [32_000, 128_000, 256_000] {
        synthetic(tokens).write_file(&path).expect("the build folder is writable");
        report(&format!("{tokens} tokens, as many merges, 201 tensors"), &path);
    }
    std::fs::remove_file(&path).expect("written above");
}

/// Tokens, scores, types and merges of a vocabulary, and 201 small tensors.
fn synthetic(tokens: usize) -> Writer {
    let mut writer = Writer::new();
    let token = |i: usize| format!("\u{2581}{:x}", i * 2_654_435_761 % 0xffff_ffff);
    writer.insert("tokenizer.ggml.tokens", (0..tokens).map(token).collect::<Vec<_>>());
    writer.insert("tokenizer.ggml.scores", (0..tokens).map(|i| -(i as f32)).collect::<Vec<_>>());
    writer.insert("tokenizer.ggml.token_type", vec![1i32; tokens]);
    writer.insert("tokenizer.ggml.merges", (0..tokens).map(|i| format!("{} {}", token(i), i % 97)).collect::<Vec<_>>());
    for i in 0..201 {
        writer.tensor(&format!("blk.{i}.ffn_up.weight"), Format::Q4K, &[256, 4], vec![0; 576]).expect("a good tensor");
    }
    writer
}

fn report(what: &str, path: &Path) {
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            let file = Gguf::open(path).unwrap_or_else(|error| panic!("{error}"));
            let took = start.elapsed();
            drop(file);
            took
        })
        .collect();
    times.sort();
    println!("{what}: best {:.2?}, median {:.2?}", times[0], times[times.len() / 2]);
}
