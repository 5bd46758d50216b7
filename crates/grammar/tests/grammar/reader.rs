//! Reads texts under a mask, token by token.

use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use candor::{Gguf, LoadOptions, Model, Show, Tokenizer, sampler::LogitsProcessor};
use candor_grammar::{Grammar, Mask, Vocabulary};
use candor_testing::Tiny;

/// The model of random weights, whose vocabulary has all bytes and small letters.
pub fn tiny() -> &'static Model {
    static TINY: OnceLock<Model> = OnceLock::new();
    TINY.get_or_init(|| {
        let load = LoadOptions::default().threads(1);
        Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), &load).unwrap()
    })
}

/// Its vocabulary.
pub fn vocabulary() -> &'static Arc<Vocabulary> {
    static VOCABULARY: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    VOCABULARY.get_or_init(|| Arc::new(Vocabulary::new(tiny().tokenizer()).unwrap()))
}

/// The tokens of a text's bytes.
pub fn bytes(text: &[u8]) -> Vec<u32> {
    text.iter().map(|&byte| 3 + u32::from(byte)).collect()
}

/// How many of the tokens a mask lets through, and whether the text may end then.
pub fn read(mask: &mut Mask, tokenizer: &Tokenizer, text: &[u32]) -> (usize, bool) {
    // A prompt that the text goes on with.
    let letter = tokenizer.encode("a", candor::Encode::text());
    let mut tokens = letter.clone();
    for (taken, &token) in text.iter().enumerate() {
        let logits = logits(mask, tokenizer, &tokens);
        if logits[token as usize] == f32::NEG_INFINITY {
            return (taken, false);
        }
        tokens.push(token);
    }
    let logits = logits(mask, tokenizer, &tokens);
    (text.len(), tokenizer.stop_ids().iter().all(|&id| logits[id as usize] == 0.0))
}

/// What a mask leaves of logits that are all 0.
pub fn logits(mask: &mut Mask, tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<f32> {
    let mut logits = vec![0.0; tokenizer.vocab_size()];
    mask.process(tokens, &mut logits);
    if let Some(failure) = mask.failure() {
        panic!("{failure}");
    }
    for id in (0..tokenizer.vocab_size() as u32).filter(|id| !tokenizer.stop_ids().contains(id)) {
        let is_text = !tokenizer.piece(id, Show::Text).is_empty();
        assert!(is_text || logits[id as usize] == f32::NEG_INFINITY, "token {id} is no text");
    }
    logits
}

/// Whether a grammar allows a text, byte by byte.
pub fn allows(grammar: &Grammar, text: &str) -> bool {
    let mut mask = grammar.mask(vocabulary()).unwrap();
    read(&mut mask, tiny().tokenizer(), &bytes(text.as_bytes())) == (text.len(), true)
}

/// A folder of the fixtures. Prints a reason and returns `None` where it is missing.
pub fn folder(name: &str) -> Option<PathBuf> {
    let folder = candor_testing::fixtures()?.join(name);
    if !folder.is_dir() {
        let _ = writeln!(std::io::stderr(), "skipped: the fixtures have no {name}");
        return None;
    }
    Some(folder)
}
