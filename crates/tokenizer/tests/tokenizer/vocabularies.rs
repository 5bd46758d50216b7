//! The vocabularies of the fixtures, unpacked once per target folder.

use candor_gguf::{Gguf, Metadata};
use candor_tokenizer::Tokenizer;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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
        unpacked(fixtures).join(format!("ggml-vocab-{name}.gguf"))
    };
    let file = Gguf::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.metadata().clone()
}

/// The tokenizer of a vocabulary of the fixtures.
pub fn tokenizer(fixtures: &Path, name: &str) -> Tokenizer {
    Tokenizer::from_metadata(&metadata(fixtures, name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Unpacks beside the place and renames, so that test programs that run at once do not see each other's halves.
fn unpacked(fixtures: &Path) -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vocab");
        if !folder.is_dir() {
            let own = folder.with_extension(std::process::id().to_string());
            let status = Command::new(fixtures.join("unpack-vocab")).arg(&own).status();
            assert!(status.as_ref().is_ok_and(|status| status.success()), "unpack-vocab: {status:?}");
            if std::fs::rename(&own, &folder).is_err() {
                std::fs::remove_dir_all(&own).expect("the folder was made above");
            }
        }
        folder
    })
}
