//! Whether a file opens, is as long as its directory says, and holds a model that fits together.

use std::path::PathBuf;

use candor::Gguf;
use candor_models::Decoder;
use candor_ops::Shapes;

use super::finding::Finding;

const AGAIN: &str = "download or copy the file again and compare its SHA-256";

/// Why a file was refused.
pub(super) fn refused(error: &candor_gguf::Error) -> Finding {
    let mut inner = error;
    while let candor_gguf::Error::In { error, .. } = inner {
        inner = error;
    }
    match inner {
        candor_gguf::Error::PastEnd { offset, expected, got, .. } => {
            let missing = expected.saturating_sub(*got);
            let message = format!("{inner}: at least {missing} bytes are missing after byte {}", offset + got);
            Finding::error("file", message, format!("the file was cut short: {AGAIN}"))
        }
        candor_gguf::Error::Truncated { .. } | candor_gguf::Error::Count { .. } => {
            Finding::error("file", inner.to_string(), format!("the file was cut short or damaged: {AGAIN}"))
        }
        candor_gguf::Error::ShardMissing { .. } => {
            Finding::error("file", inner.to_string(), "put all shards into the same folder")
        }
        candor_gguf::Error::Overlap { .. } | candor_gguf::Error::Unaligned { .. } => Finding::error(
            "file",
            inner.to_string(),
            "the directory is wrong: the program that wrote the file did not align its data",
        ),
        candor_gguf::Error::Format { .. } => {
            Finding::error("file", inner.to_string(), "a newer or an abandoned format: convert the model again")
        }
        _ => Finding::error("file", inner.to_string(), AGAIN),
    }
}

/// Bytes after the data, and weights that do not belong together.
pub(super) fn findings(gguf: &Gguf, files: &[PathBuf]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (shard, path) in files.iter().enumerate() {
        let tensors = gguf.tensors().iter().filter(|tensor| tensor.shard() == shard);
        let Some(end) = tensors.map(|tensor| tensor.offset() + tensor.bytes).max() else { continue };
        let length = path.metadata().map_or(0, |metadata| metadata.len());
        // Writers pad the last tensor.
        let rest = length.saturating_sub(end.next_multiple_of(gguf.alignment()));
        if rest > 0 {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let message = format!("{name}: {rest} bytes lie after the last tensor");
            findings.push(Finding::warning("file", message, "nothing reads them; two files may have been joined"));
        }
    }
    if let Err(error) = Decoder::<Shapes>::check(gguf, 1) {
        let hint = match &error {
            candor_models::Error::UnknownArchitecture { .. } => "Candor cannot run it; other engines may",
            candor_models::Error::MissingTensor(_) => "a shard or a part of the conversion is missing",
            _ => "the metadata and the tensors come from different models, or the conversion went wrong",
        };
        findings.push(Finding::error("model", error.to_string(), hint));
    }
    findings
}
