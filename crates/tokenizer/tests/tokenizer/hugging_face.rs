//! BERT's ids by Hugging Face's tokenizers: an oracle that shares nothing with llama.cpp.

use candor_gguf::{Array, Metadata, Value};
use candor_testing::{fixtures, ids, json};
use candor_tokenizer::{Encode, Tokenizer};

/// A vocabulary as GGUF spells it: the beginning of a word is marked, its continuation is not.
fn metadata(list: &str, cased: bool) -> Metadata {
    let special = |token: &str| token.starts_with('[') && token.ends_with(']') && token.len() > 2;
    let spelled = |token: &str| match token.strip_prefix("##") {
        Some(rest) => rest.to_owned(),
        None if special(token) => token.to_owned(),
        None => format!("\u{2581}{token}"),
    };
    let types = list.lines().map(|token| if special(token) { 3 } else { 1 }).collect();
    let mut metadata = Metadata::default();
    metadata.insert("tokenizer.ggml.model", Value::String("bert".to_owned()));
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(list.lines().map(spelled).collect())));
    metadata.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));
    metadata.insert("tokenizer.ggml.normalizer.lowercase", Value::Bool(!cased));
    metadata
}

#[test]
fn bert() {
    let Some(fixtures) = fixtures() else { return };
    let folder = fixtures.join("tokenizer/rten-reftests");
    let texts = ["Metal_umlaut", "Rust_(programming_language)", "monty-python-credits"];
    let mut compared = 0;
    for model in ["bert-base-uncased", "bert-base-cased"] {
        let list = std::fs::read_to_string(folder.join(format!("models/{model}/vocab.txt"))).unwrap();
        let tokenizer = Tokenizer::from_metadata(&metadata(&list, model.ends_with("-cased"))).unwrap();
        for text in texts {
            let expected = folder.join(format!("{text}-{model}.json"));
            if expected.exists() {
                let text = std::fs::read_to_string(folder.join(format!("{text}.txt"))).unwrap();
                let expected = ids(&json(&expected)["token_ids"]);
                assert_eq!(tokenizer.encode(&text, Encode::prompt()), expected, "{model}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 4);
}
