//! Vocabularies small enough to read, made here, of most kinds.

use candor_gguf::{Array, Metadata, Value};
use candor_tokenizer::Tokenizer;

pub const NORMAL: i32 = 1;
pub const UNKNOWN: i32 = 2;
pub const CONTROL: i32 = 3;
pub const USER_DEFINED: i32 = 4;
pub const UNUSED: i32 = 5;
pub const BYTE: i32 = 6;

fn put(metadata: &mut Metadata, tokens: Vec<(String, i32)>) {
    let (texts, types): (Vec<String>, Vec<i32>) = tokens.into_iter().unzip();
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(texts)));
    metadata.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));
}

/// SPM: `<unk> <s> </s>`, the 256 byte tokens from id 3, `<tool>` (user-defined, 259), `[x]` (unused, 260), then words.
pub fn spm() -> Metadata {
    let special = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)];
    let mut tokens: Vec<(String, i32)> = special.map(|(text, kind)| (text.to_owned(), kind)).into();
    tokens.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), BYTE)));
    tokens.extend([("<tool>".to_owned(), USER_DEFINED), ("[x]".to_owned(), UNUSED)]);
    let words = [
        "\u{2581}",
        "a",
        "b",
        "c",
        "s",
        "<",
        ">",
        "ab",
        "bc",
        "abc",
        "\u{2581}a",
        "\u{2581}ab",
        "\u{2581}\u{2581}",
        "<s",
        "\u{4e2d}",
    ];
    let scores: Vec<f32> = (0..tokens.len()).map(|_| 0.0).chain((0..words.len()).map(|n| -(n as f32))).collect();
    tokens.extend(words.map(|word| (word.to_owned(), NORMAL)));
    let mut metadata = Metadata::default();
    put(&mut metadata, tokens);
    metadata.insert("tokenizer.ggml.model", Value::String("llama".to_owned()));
    metadata.insert("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    metadata
}

/// The character that stands for a byte in BPE vocabularies, computed as GPT-2's code does.
fn character(byte: u8) -> char {
    let prints = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if prints(&byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|byte| !prints(byte)).count() as u32;
    char::from_u32(256 + before).unwrap()
}

/// BPE with the rules of `gpt-2`: the 256 bytes (id = byte), merges of `abc` words, `<|end|>` and `<|im_end|>`, BOS
/// `<|bos|>`, and `<tool>` (user-defined).
pub fn bpe() -> Metadata {
    let merges = ["a b", "ab c", "\u{120} a", "\u{120}a b", "b c"];
    let mut tokens: Vec<(String, i32)> = (0..=255).map(|byte| (character(byte).to_string(), NORMAL)).collect();
    tokens.extend(merges.iter().map(|merge| (merge.replace(' ', ""), NORMAL)));
    let special = [("<|bos|>", CONTROL), ("<|im_end|>", CONTROL), ("<|end|>", USER_DEFINED), ("<tool>", USER_DEFINED)];
    tokens.extend(special.map(|(text, kind)| (text.to_owned(), kind)));
    let bos = tokens.iter().position(|(text, _)| text == "<|bos|>").unwrap() as u32;
    let mut metadata = Metadata::default();
    put(&mut metadata, tokens);
    metadata.insert("tokenizer.ggml.model", Value::String("gpt2".to_owned()));
    metadata.insert("tokenizer.ggml.pre", Value::String("gpt-2".to_owned()));
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(merges.map(String::from).into())));
    metadata.insert("tokenizer.ggml.bos_token_id", Value::U32(bos));
    metadata.insert("tokenizer.ggml.add_bos_token", Value::Bool(true));
    metadata
}

/// A vocabulary of the given kind, with its special tokens by key.
fn of(model: &str, tokens: &[(&str, i32)], keys: &[(&str, u32)]) -> Metadata {
    let mut metadata = Metadata::default();
    put(&mut metadata, tokens.iter().map(|&(text, kind)| (text.to_owned(), kind)).collect());
    metadata.insert("tokenizer.ggml.model", Value::String(model.to_owned()));
    for (key, id) in keys {
        metadata.insert(format!("tokenizer.ggml.{key}_token_id"), Value::U32(*id));
    }
    metadata
}

/// WordPiece: `[PAD] [UNK] [CLS] [SEP] [MASK]`, then words and their parts.
pub fn bert() -> Metadata {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(|text| (text, CONTROL));
    let words = [
        "\u{2581}it",
        "\u{2581}'",
        "\u{2581}s",
        "\u{2581}cafe",
        "\u{2581}caf",
        "e",
        "s",
        "\u{2581}.",
        "\u{2581}\u{4e2d}",
        "\u{2581}Caf\u{e9}",
        "\u{2581}1",
        "23",
        "2",
        "\u{2581}[",
        "\u{2581}\u{1112}",
        "\u{1161}",
        "\u{11ab}",
    ];
    let tokens: Vec<_> = special.into_iter().chain(words.map(|text| (text, NORMAL))).collect();
    let keys = [("bos", 2), ("unknown", 1), ("seperator", 3), ("padding", 0), ("mask", 4)];
    of("bert", &tokens, &keys)
}

/// Unigram: `<pad> </s> <unk> <x>` (user-defined) `<b>` (unused), then words, each a point dearer than the one before.
pub fn unigram() -> Metadata {
    let special = [("<pad>", CONTROL), ("</s>", CONTROL), ("<unk>", UNKNOWN), ("<x>", USER_DEFINED), ("<b>", UNUSED)];
    let words = ["\u{2581}a", "ab", "\u{2581}", "b", "a", "\u{2581}ab\u{2581}b", "\u{e9}"];
    let tokens: Vec<_> = special.into_iter().chain(words.map(|text| (text, NORMAL))).collect();
    let mut metadata = of("t5", &tokens, &[("padding", 0), ("eos", 1), ("unknown", 2)]);
    let scores = (0..tokens.len()).map(|n| 4.0 - n as f32).collect();
    metadata.insert("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    metadata.insert("tokenizer.ggml.add_space_prefix", Value::Bool(true));
    metadata.insert("tokenizer.ggml.remove_extra_whitespaces", Value::Bool(true));
    metadata
}

/// RWKV: `<s>`, then byte strings; not all bytes.
pub fn rwkv() -> Metadata {
    let words = ["a", "ab", "abcd", "\\n", "\\xe4\\xb8", "\\xad", "c", " "].map(|text| (text, NORMAL));
    let tokens: Vec<_> = [("<s>", CONTROL)].into_iter().chain(words).collect();
    of("rwkv", &tokens, &[("bos", 0), ("eos", 0)])
}

/// PLaMo 2: `<unk> <s> </s> <pad>`, the byte tokens from id 4, then words, each a point dearer than the one before.
pub fn plamo2() -> Metadata {
    let bytes: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
    let special = ["<unk>", "<s>", "</s>", "<pad>"].map(|text| (text, CONTROL));
    let words = ["a", "ab", "bc", "b", "c", "abc", " a"].map(|text| (text, NORMAL));
    let bytes = bytes.iter().map(|text| (text.as_str(), BYTE));
    let tokens: Vec<_> = special.into_iter().chain(bytes).chain(words).collect();
    let mut metadata = of("plamo2", &tokens, &[]);
    let scores = (0..tokens.len()).map(|n| 259.0 - n as f32).collect();
    metadata.insert("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    metadata
}

/// Gemma 4's BPE: `<pad> <eos> <bos>`, some byte tokens, characters, and merges over them.
pub fn gemma4() -> Metadata {
    let special = [("<pad>", CONTROL), ("<eos>", CONTROL), ("<bos>", CONTROL)];
    let bytes = [("<0xC3>", BYTE), ("<0xA9>", BYTE)];
    let words = ["\u{2581}", "a", "b", "ab", "\u{2581}ab", "\n", "\n\n\n", "a\u{2581}b"].map(|text| (text, NORMAL));
    let tokens: Vec<_> = special.into_iter().chain(bytes).chain(words).collect();
    let mut metadata = of("gemma4", &tokens, &[("padding", 0), ("eos", 1), ("bos", 2)]);
    let merges = ["a b", "\u{2581} ab", "a \u{2581}", "a\u{2581} b"].map(String::from);
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(merges.into())));
    metadata
}

pub fn load(metadata: &Metadata) -> Tokenizer {
    Tokenizer::from_metadata(metadata).expect("a vocabulary made here")
}

/// The texts of some ids, as the vocabulary spells them.
pub fn texts<'a>(tokenizer: &'a Tokenizer, ids: &[u32]) -> Vec<&'a str> {
    ids.iter().map(|&id| tokenizer.token(id).unwrap_or("(none)")).collect()
}
