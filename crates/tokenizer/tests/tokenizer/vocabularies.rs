//! The vocabularies of the fixtures.

use candor_gguf::{Gguf, Metadata};
use candor_testing::vocabularies;
use candor_tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

/// The vocabularies that must be tokenized exactly. `aquila` and `gpt-neox` name no pre-tokenizer and get the default.
pub const BPE: [&str; 10] =
    ["llama-bpe", "gpt-2", "qwen2", "qwen35", "deepseek-llm", "falcon", "mpt", "starcoder", "aquila", "gpt-neox"];
pub const SPM: [&str; 4] = ["llama-spm", "phi-3", "baichuan", "stories260K-f32"];
/// Gemma 4's BPE, WordPiece and unigram. These two normalize, so that a text need not come back as it was.
pub const OTHERS: [&str; 3] = ["gemma-4", "bert-bge", "nomic-bert-moe"];

/// The fixtures' folder, or `None` with the reason printed.
pub fn fixtures() -> Option<PathBuf> {
    candor_testing::fixtures()
}

/// The metadata of a vocabulary of the fixtures.
pub fn metadata(fixtures: &Path, name: &str) -> Metadata {
    let path = if name.starts_with("stories") {
        fixtures.join(format!("models/{name}.gguf"))
    } else {
        vocabularies(fixtures, Path::new(env!("CARGO_TARGET_TMPDIR"))).join(format!("ggml-vocab-{name}.gguf"))
    };
    let file = Gguf::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.metadata().clone()
}

/// The tokenizer of a vocabulary of the fixtures.
pub fn tokenizer(fixtures: &Path, name: &str) -> Tokenizer {
    Tokenizer::from_metadata(&metadata(fixtures, name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
