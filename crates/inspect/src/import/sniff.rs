//! What a file is, by its first bytes.

use std::{fs::File, io::Read, path::Path};

use candor_gguf::is_llama2c;

use super::{ImportError, eval_callback};

/// Formats there is a reader for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Folder,
    SafeTensors,
    Numpy,
    Archive,
    Debugger,
    EvalCallback,
    Lines,
    Raw,
}

/// Bytes looked at. An eval-callback log opens with the loader's messages, some 50 KiB of them.
const LOOK: u64 = 1 << 18;

/// Tells the format.
///
/// # Errors
/// If the path cannot be read or nothing fits.
pub(super) fn format(path: &Path) -> Result<Format, ImportError> {
    if path.is_dir() {
        return Ok(Format::Folder);
    }
    let mut head = Vec::new();
    let file = File::open(path).map_err(ImportError::io(path))?;
    let length = file.metadata().map_err(ImportError::io(path))?.len();
    file.take(LOOK).read_to_end(&mut head).map_err(ImportError::io(path))?;
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("").to_ascii_lowercase();
    let unrecognized = || ImportError::Unrecognized { path: path.to_owned() };
    let model = |what| ImportError::Model { path: path.to_owned(), what };
    if head.starts_with(b"GGUF") {
        return Err(model("a GGUF model"));
    }
    if head.starts_with(b"24ka") || is_llama2c(&head, length) {
        return Err(model("a llama2.c checkpoint"));
    }
    if head.starts_with(b"\x93NUMPY") {
        return Ok(Format::Numpy);
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return Ok(Format::Archive);
    }
    if head.get(8) == Some(&b'{') && head.get(4..8) == Some(&[0; 4]) || extension == "safetensors" {
        return Ok(Format::SafeTensors);
    }
    match extension.as_str() {
        "bin" | "raw" | "f32" => return Ok(Format::Raw),
        "npy" => return Ok(Format::Numpy),
        "npz" => return Ok(Format::Archive),
        _ => {}
    }
    let Some(text) = text(&head) else { return Err(unrecognized()) };
    if text.trim_start().starts_with('{') && text.contains("\"module_path\"") {
        return Ok(Format::Debugger);
    }
    if eval_callback::marks(&text) {
        return Ok(Format::EvalCallback);
    }
    if text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Ok(Format::Lines);
    }
    Err(unrecognized())
}

/// The bytes as text, unless they are no text: terminals' colours and broken characters are fine, zeros are not.
fn text(head: &[u8]) -> Option<String> {
    (!head.contains(&0)).then(|| String::from_utf8_lossy(head).into_owned())
}
