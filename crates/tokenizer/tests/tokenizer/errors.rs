//! Metadata that is no tokenizer: each fault is an error that names it, none a panic.

use crate::small::{bert, bpe, spm, unigram};
use candor_gguf::{Array, Metadata, Value};
use candor_tokenizer::Tokenizer;

fn strings(items: &[&str]) -> Value {
    Value::Array(Array::String(items.iter().map(|item| item.to_string()).collect()))
}

/// `metadata` with `key` set, or without it.
fn with(metadata: &Metadata, key: &str, value: Option<Value>) -> Metadata {
    let mut changed = Metadata::default();
    metadata.iter().filter(|(name, _)| *name != key).for_each(|(name, value)| changed.insert(name, value.clone()));
    value.into_iter().for_each(|value| changed.insert(key, value));
    changed
}

#[test]
fn faults_are_named() {
    let text = |text: &str| Some(Value::String(text.to_owned()));
    let (bpe, spm, bert, unigram) = (bpe(), spm(), bert(), unigram());
    let cases: Vec<(&Metadata, &str, Option<Value>, &str)> = vec![
        (&spm, "tokenizer.ggml.model", None, "tokenizer.ggml.model: missing"),
        (&spm, "tokenizer.ggml.model", text("hybriddna"), "unknown tokenizer \"hybriddna\", it would need"),
        (&spm, "tokenizer.ggml.model", text("none"), "unknown tokenizer \"none\", it would need a vocabulary"),
        (&spm, "tokenizer.ggml.model", text("gpt5"), "unknown tokenizer \"gpt5\", it would need an algorithm"),
        (&spm, "tokenizer.ggml.model", Some(Value::U32(1)), "tokenizer.ggml.model"),
        (&bpe, "tokenizer.ggml.pre", text("gpt-5"), "unknown pre-tokenizer \"gpt-5\", it would need"),
        (&bpe, "tokenizer.ggml.pre", Some(Value::Bool(true)), "tokenizer.ggml.pre"),
        (&spm, "tokenizer.ggml.tokens", None, "tokenizer.ggml.tokens: missing"),
        (&spm, "tokenizer.ggml.tokens", Some(Value::Array(Array::I32(vec![1]))), "tokenizer.ggml.tokens"),
        (&spm, "tokenizer.ggml.tokens", Some(strings(&["a", "b", "a"])), "token 2 repeats the text of token 0: \"a\""),
        (&spm, "tokenizer.ggml.scores", None, "tokenizer.ggml.scores: missing"),
        (&spm, "tokenizer.ggml.scores", Some(strings(&[])), "tokenizer.ggml.scores"),
        (&spm, "tokenizer.ggml.scores", Some(Value::Array(Array::F32(vec![0.0; 9]))), "one for each token, got 9"),
        (&spm, "tokenizer.ggml.token_type", Some(Value::Array(Array::I32(vec![1; 9]))), "one for each token, got 9"),
        (&spm, "tokenizer.ggml.token_type", text("x"), "tokenizer.ggml.token_type"),
        (&bpe, "tokenizer.ggml.merges", None, "tokenizer.ggml.merges: missing"),
        (&bpe, "tokenizer.ggml.merges", Some(Value::U8(1)), "tokenizer.ggml.merges"),
        (&bpe, "tokenizer.ggml.merges", Some(strings(&["a b", "ab"])), "tokenizer.ggml.merges: item 1"),
        (&bpe, "tokenizer.ggml.merges", Some(strings(&[""])), "tokenizer.ggml.merges: item 0"),
        (&bpe, "tokenizer.ggml.merges", Some(strings(&[" "])), "tokenizer.ggml.merges: item 0"),
        (&bpe, "tokenizer.ggml.bos_token_id", None, "add_bos_token: true, but tokenizer.ggml.bos_token_id is missing"),
        (&bpe, "tokenizer.ggml.bos_token_id", Some(Value::U32(5000)), "expected an id below 265, got 5000"),
        (&bpe, "tokenizer.ggml.bos_token_id", Some(Value::I32(-5)), "tokenizer.ggml.bos_token_id"),
        (&bpe, "tokenizer.ggml.eos_token_id", Some(Value::F32(1.0)), "tokenizer.ggml.eos_token_id"),
        (&bpe, "tokenizer.ggml.add_eos_token", Some(Value::Bool(true)), "tokenizer.ggml.eos_token_id is missing"),
        (&bpe, "tokenizer.ggml.add_bos_token", Some(Value::U32(1)), "tokenizer.ggml.add_bos_token"),
        (&spm, "tokenizer.ggml.add_space_prefix", text("yes"), "tokenizer.ggml.add_space_prefix"),
        (&spm, "general.name", Some(Value::U8(1)), "general.name"),
        (&bert, "tokenizer.ggml.normalizer.lowercase", text("no"), "tokenizer.ggml.normalizer.lowercase"),
        (&bert, "tokenizer.ggml.seperator_token_id", Some(Value::U32(5000)), "expected an id below"),
        (&unigram, "tokenizer.ggml.scores", None, "tokenizer.ggml.scores: missing"),
        (&unigram, "tokenizer.ggml.remove_extra_whitespaces", Some(Value::U8(1)), "remove_extra_whitespaces"),
        (&unigram, "tokenizer.ggml.precompiled_charsmap", Some(strings(&["a"])), "tokenizer.ggml.precompiled_charsmap"),
        (&unigram, "tokenizer.ggml.precompiled_charsmap", text("x"), "tokenizer.ggml.precompiled_charsmap"),
        (
            &unigram,
            "tokenizer.ggml.precompiled_charsmap",
            Some(Value::Array(Array::U8(vec![255; 9]))),
            "tokenizer.ggml.precompiled_charsmap: expected a length, a trie and replacements, got 9 bytes",
        ),
        (&unigram, "tokenizer.ggml.add_bos_token", Some(Value::Bool(true)), "tokenizer.ggml.bos_token_id is missing"),
    ];
    for (metadata, key, value, message) in cases {
        let shown = format!("{key} = {value:?}");
        let error = match Tokenizer::from_metadata(&with(metadata, key, value)) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{shown}: accepted"),
        };
        assert!(error.contains(message), "{shown}: {error}");
    }
}

#[test]
fn degenerate_vocabularies_do_not_panic() {
    let empty = [
        ("tokenizer.ggml.tokens", strings(&[])),
        ("tokenizer.ggml.token_type", Value::Array(Array::I32(vec![]))),
        ("tokenizer.ggml.scores", Value::Array(Array::F32(vec![]))),
        ("tokenizer.ggml.merges", strings(&[])),
    ];
    let models = ["llama", "bert", "t5", "rwkv", "plamo2", "gemma4", "whitespace"].map(|model| (model, "default"));
    let pres = ["llama-bpe", "deepseek-llm", "afmoe", "sarvam-moe", "whitespace"].map(|pre| ("gpt2", pre));
    for (model, pre) in models.into_iter().chain(pres) {
        let mut metadata = Metadata::default();
        empty.iter().for_each(|(key, value)| metadata.insert(*key, value.clone()));
        metadata.insert("tokenizer.ggml.model", Value::String(model.to_owned()));
        metadata.insert("tokenizer.ggml.pre", Value::String(pre.to_owned()));
        let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
        assert_eq!(tokenizer.encode("Hello\n\u{4e2d} 123", candor_tokenizer::Encode::prompt()), [] as [u32; 0]);
        assert_eq!(tokenizer.decode(&[0, 1, u32::MAX]), "");

        // An empty token must not match everywhere, odd byte tokens not be taken for bytes.
        metadata.insert("tokenizer.ggml.tokens", strings(&["", "<0xZZ>", "<0x>", "<0x+1>", "\u{2581}", "\u{120}"]));
        metadata.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(vec![4, 6, 6, 6, 1, 99])));
        metadata.insert("tokenizer.ggml.scores", Value::Array(Array::F32(vec![f32::NAN; 6])));
        let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
        assert_eq!(tokenizer.token(0), Some("[EMPTY_0]"));
        tokenizer.encode(" a [EMPTY_0] b ", candor_tokenizer::Encode::prompt());
        tokenizer.decode(&(0..9).collect::<Vec<_>>());
    }
}
