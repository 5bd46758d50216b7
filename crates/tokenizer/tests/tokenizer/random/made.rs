//! The vocabularies that tools/goldens/tokenizers.py makes, made again.

use super::strings::WORDS;
use candor_gguf::{Array, Metadata, Value};
use std::collections::HashSet;

fn metadata(model: &str, tokens: Vec<String>, types: Vec<i32>) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.insert("tokenizer.ggml.model", Value::String(model.to_owned()));
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(tokens)));
    metadata.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));
    for key in ["bos", "eos", "seperator", "unknown"] {
        metadata.insert(format!("tokenizer.ggml.{key}_token_id"), Value::U32(0));
    }
    metadata
}

/// GPT-2's printable character of a byte.
fn byte_char(byte: u8) -> char {
    let prints = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if prints(&byte) {
        return char::from(byte);
    }
    char::from_u32(256 + (0..byte).filter(|byte| !prints(byte)).count() as u32).unwrap()
}

/// All bytes, all pairs of bytes with a merge for each, and the words without one.
pub fn pairs(pre: &str) -> Metadata {
    let chars: Vec<char> = (0..=255).map(byte_char).collect();
    let both = || chars.iter().flat_map(|a| chars.iter().map(move |b| (a, b)));
    let mut tokens: Vec<String> = chars.iter().map(char::to_string).collect();
    tokens.extend(both().map(|(a, b)| format!("{a}{b}")));
    let mut known: HashSet<String> = tokens.iter().cloned().collect();
    let spelled = WORDS.iter().map(|word| word.bytes().map(byte_char).collect::<String>());
    tokens.extend(spelled.filter(|word| known.insert(word.clone())));
    let types = vec![1; tokens.len()];
    let mut metadata = metadata("gpt2", tokens, types);
    metadata.insert("tokenizer.ggml.pre", Value::String(pre.to_owned()));
    let merges = both().map(|(a, b)| format!("{a} {b}")).collect();
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(merges)));
    metadata
}

/// `<s>`, all bytes, and the words with their prefixes, escaped as RWKV's converter does.
pub fn rwkv() -> Metadata {
    let escape = |bytes: &[u8]| -> String {
        let byte = |&byte: &u8| match byte {
            b'\t' => "\\t".to_owned(),
            b'\n' => "\\n".to_owned(),
            b'\r' => "\\r".to_owned(),
            b'\\' | b'\'' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        };
        bytes.iter().map(byte).collect()
    };
    let mut tokens = vec!["<s>".to_owned()];
    let mut known = HashSet::new();
    let words = WORDS.iter().flat_map(|word| (2..9).map(|n| word.as_bytes()[..n.min(word.len())].to_vec()));
    for bytes in (0..=255).map(|byte| vec![byte]).chain(words) {
        if known.insert(bytes.clone()) {
            tokens.push(escape(&bytes));
        }
    }
    let mut types = vec![1; tokens.len()];
    types[0] = 3;
    metadata("rwkv", tokens, types)
}
