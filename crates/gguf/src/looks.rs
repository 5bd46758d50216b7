//! Telling what a file that is not GGUF seems to be, from its first bytes. A guess for the message, nothing more.

use crate::Error;

/// Refuses a file that does not begin with `GGUF`.
pub(crate) fn check_magic(file: &[u8]) -> Result<(), Error> {
    if file.starts_with(b"GGUF") {
        return Ok(());
    }
    if file.is_empty() {
        return Err(Error::Empty);
    }
    let got = file[..file.len().min(4)].escape_ascii().to_string();
    Err(Error::NotGguf { got, looks_like: looks_like(file) })
}

/// First bytes and what has them. The ggml magics are little-endian words, hence spelled backwards.
const STARTS: &[(&[u8], &str)] = &[
    (b"version https://git-lfs", "a git-lfs pointer, `git lfs pull` fetches the model"),
    (b"lmgg", "a GGML file from before GGUF, which must be converted again"),
    (b"fmgg", "a GGMF file from before GGUF, which must be converted again"),
    (b"tjgg", "a GGJT file from before GGUF, which must be converted again"),
    (b"PK\x03\x04", "a zip archive such as a PyTorch checkpoint"),
    (b"\x80\x02", "a Python pickle such as a PyTorch checkpoint"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x89HDF", "HDF5"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"BZh", "a bzip2 archive"),
    (b"{", "JSON"),
    (b"[", "JSON"),
];

/// How much of the file is looked at.
const LOOKED_AT: usize = 512;

fn looks_like(file: &[u8]) -> Option<&'static str> {
    let head = &file[..file.len().min(LOOKED_AT)];
    let text = head.trim_ascii_start();
    if text.first() == Some(&b'<')
        && [&b"<!doctype"[..], b"<html", b"<?xml"].iter().any(|tag| starts_any_case(text, tag))
    {
        return Some("an HTML page, the download went wrong");
    }
    if let Some((_, name)) = STARTS.iter().find(|(start, _)| head.starts_with(start)) {
        return Some(name);
    }
    // safetensors: the length of a JSON header as a u64, then the header.
    if head.len() > 8 && head[8] == b'{' && head[4..8] == [0; 4] {
        return Some("safetensors, which must be converted to GGUF");
    }
    if head.iter().all(|&byte| byte == 0) {
        return Some("an unfinished download, it begins with zeros");
    }
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..);
    head.iter().all(is_text).then_some("a text file")
}

fn starts_any_case(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}
