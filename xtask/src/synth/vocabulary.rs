//! A SentencePiece vocabulary of any size: Llama 2's special and byte tokens, then made-up pieces.

use candor_gguf::Writer;

/// Token types of GGUF.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const BYTE: i32 = 6;

/// Writes the keys of a vocabulary of `size` tokens (1024 to about 10 million).
pub fn describe(writer: &mut Writer, size: u32) {
    let mut tokens: Vec<(String, f32, i32)> =
        vec![("<unk>".into(), 0.0, UNKNOWN), ("<s>".into(), 0.0, CONTROL), ("</s>".into(), 0.0, CONTROL)];
    tokens.extend((0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), 0.0, BYTE)));
    let room = size as usize - tokens.len();
    tokens.extend(pieces().take(room).zip(1..).map(|(piece, rank)| (piece, -(rank as f32), NORMAL)));

    writer.insert("tokenizer.ggml.model", "llama");
    writer.insert("tokenizer.ggml.pre", "default");
    writer.insert("tokenizer.ggml.tokens", tokens.iter().map(|token| token.0.clone()).collect::<Vec<String>>());
    writer.insert("tokenizer.ggml.scores", tokens.iter().map(|token| token.1).collect::<Vec<f32>>());
    writer.insert("tokenizer.ggml.token_type", tokens.iter().map(|token| token.2).collect::<Vec<i32>>());
    writer.insert("tokenizer.ggml.bos_token_id", 1u32);
    writer.insert("tokenizer.ggml.eos_token_id", 2u32);
    writer.insert("tokenizer.ggml.unknown_token_id", 0u32);
    writer.insert("tokenizer.ggml.add_bos_token", true);
    writer.insert("tokenizer.ggml.add_eos_token", false);
}

/// The space and the characters of ASCII, then words of growing length, with and without a space before. Each beginning
/// of a piece comes earlier, so that merging reaches every one.
fn pieces() -> impl Iterator<Item = String> {
    const SPACE: &str = "\u{2581}";
    let singles = std::iter::once(SPACE.to_owned()).chain(('!'..='~').map(String::from));
    let words = (1..=5u32).flat_map(|length| {
        let spaced = (0..26u32.pow(length)).map(move |n| SPACE.to_owned() + &word(n, length));
        let plain = (0..26u32.pow(length + 1)).map(move |n| word(n, length + 1));
        spaced.chain(plain)
    });
    singles.chain(words)
}

/// Word `n` of the words of `length` small letters.
fn word(mut n: u32, length: u32) -> String {
    let letter = |_| {
        let letter = char::from(b'a' + (n % 26) as u8);
        n /= 26;
        letter
    };
    (0..length).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pieces_are_distinct_and_their_beginnings_come_first() {
        let mut seen = HashSet::new();
        for piece in pieces().take(130_000) {
            let mut beginning = piece.clone();
            beginning.pop();
            assert!(beginning.is_empty() || seen.contains(&beginning), "{piece}");
            assert!(seen.insert(piece.clone()), "{piece} is there twice");
        }
    }
}
