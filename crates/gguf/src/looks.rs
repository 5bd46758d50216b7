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
    (b"24ka", LLAMA2C),
    (b"{", "JSON"),
    (b"[", "JSON"),
];

const LLAMA2C: &str = "a llama2.c checkpoint, of which llama.cpp's llama-convert-llama2c-to-ggml makes GGUF";

/// Whether a file is a checkpoint of llama2.c, by its first 28 bytes (seven sizes) and its length. The first version
/// has no magic: the sizes must account for every byte.
pub fn is_llama2c(head: &[u8], length: u64) -> bool {
    let Some((sizes, _)) = head.split_first_chunk::<28>() else { return false };
    let size = |at: usize| i64::from(i32::from_le_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]]));
    let [dim, hidden, layers, heads, kv_heads, vocab, context] = [0, 4, 8, 12, 16, 20, 24].map(size);
    let plausible = [dim, hidden, layers, heads, kv_heads, vocab.abs(), context].iter().all(|size| *size > 0);
    if !plausible || dim % heads != 0 || heads % kv_heads != 0 {
        return false;
    }
    // A vocabulary below zero has a head of its own.
    let tables = if vocab < 0 { 2 } else { 1 };
    let head_dim = dim / heads;
    let [dim, hidden, layers, vocab, context, kv] =
        [dim, hidden, layers, vocab.abs(), context, kv_heads * head_dim].map(i128::from);
    let layer = 2 * dim + 2 * dim * dim + 2 * dim * kv + 3 * dim * hidden;
    let values = tables * vocab * dim + layers * layer + dim + context * i128::from(head_dim);
    i128::from(length) == 28 + 4 * values
}

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
    if is_llama2c(head, file.len() as u64) {
        return Some(LLAMA2C);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_of_llama2_c_are_known_by_their_sizes() {
        let head = |sizes: [i32; 7]| sizes.map(i32::to_le_bytes).concat();
        let sizes = [64, 172, 5, 8, 4, 512, 512];
        let mut file = head(sizes);
        assert!(is_llama2c(&file, 1_056_540) && !is_llama2c(&file, 1_056_544) && !is_llama2c(&file[..27], 1_056_540));
        let mut apart = sizes;
        apart[5] = -512;
        assert!(is_llama2c(&head(apart), 1_056_540 + 4 * 512 * 64));
        for (at, size) in [(0, 0), (3, 7), (4, 3), (2, -5), (1, i32::MAX)] {
            let mut wrong = sizes;
            wrong[at] = size;
            assert!(!is_llama2c(&head(wrong), 1_056_540), "{wrong:?}");
        }
        file.resize(1_056_540, 1);
        assert_eq!(looks_like(&file), Some(LLAMA2C));
        assert_eq!(looks_like(b"24ka and more"), Some(LLAMA2C));
    }
}
