//! Properties over arbitrary Unicode: what is encoded decodes to itself, at once and token by token.

use crate::{small, vocabularies};
use candor_tokenizer::{Encode, Tokenizer};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Arbitrary characters, and the ones at which pre-tokenizers and SPM change their ways, mixed.
fn text(spm: bool) -> impl Strategy<Value = String> {
    let edges =
        "[ \t\r\n'a-dstmrevl0-9A-C.,!<>|_/\u{a0}\u{e9}\u{301}\u{3000}\u{4e2d}\u{ff01}\u{1f600}\u{200d}\u{663}]{0,24}";
    let parts = prop_oneof![edges.prop_map(String::from), any::<String>(), "[ \n]{0,9}".prop_map(String::from)];
    proptest::collection::vec(parts, 0..4).prop_map(move |parts| {
        let text = parts.concat();
        // SPM spells a space so; the two cannot be distinguished afterwards.
        if spm { text.replace('\u{2581}', "") } else { text }
    })
}

/// Runs the properties with a seed that is printed and can be set with `CANDOR_SEED`.
fn hold(name: &str, tokenizer: &Tokenizer, cases: u32) {
    let seed = std::env::var("CANDOR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_240_726u64);
    println!("{name}: seed {seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = proptest::test_runner::TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let spm = matches!(tokenizer.model_name(), "llama" | "gemma4");
    let outcome = TestRunner::new_with_rng(config, random).run(&text(spm), |text| {
        for options in [Encode::text(), Encode { bos: true, specials: false }] {
            let ids = tokenizer.encode(&text, options);
            prop_assert_eq!(&tokenizer.decode(&ids), &text);
            let mut stream = tokenizer.stream();
            let mut whole = String::new();
            for &id in &ids {
                let part = stream.push(id);
                whole.push_str(&part);
                prop_assert!(text.starts_with(&whole), "{part:?} is not the text's");
            }
            prop_assert_eq!(stream.finish(), "");
            prop_assert_eq!(&whole, &text);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{name}, seed {seed}: {error}"));
}

/// Any ids at all decode the same at once and token by token.
fn any_ids(name: &str, tokenizer: &Tokenizer) {
    let some = proptest::collection::vec(0..tokenizer.vocab_size() as u32 + 3, 0..40);
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&some, |ids| {
        let pieces: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.piece(id, Default::default()).into_owned()).collect();
        let decoded = tokenizer.decode(&ids);
        if tokenizer.model_name() == "gpt2" {
            prop_assert_eq!(&decoded, &String::from_utf8_lossy(&pieces));
        }
        let mut stream = tokenizer.stream();
        let mut whole: String = ids.iter().map(|&id| stream.push(id)).collect();
        whole.push_str(&stream.finish());
        prop_assert_eq!(whole, decoded);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn small_vocabularies() {
    for (name, metadata) in [("spm", small::spm()), ("bpe", small::bpe()), ("plamo2", small::plamo2())] {
        let tokenizer = small::load(&metadata);
        hold(name, &tokenizer, 1000);
        any_ids(name, &tokenizer);
    }
    let lossy = [small::bert(), small::unigram(), small::rwkv(), small::gemma4()];
    lossy.iter().for_each(|metadata| any_ids("lossy", &small::load(metadata)));
}

#[test]
fn fixture_vocabularies() {
    let Some(fixtures) = vocabularies::fixtures() else { return };
    for name in vocabularies::OTHERS {
        any_ids(name, &vocabularies::tokenizer(&fixtures, name));
    }
    for name in vocabularies::BPE.iter().chain(&vocabularies::SPM).chain(&["gemma-4"]) {
        let tokenizer = vocabularies::tokenizer(&fixtures, name);
        hold(name, &tokenizer, 300);
        any_ids(name, &tokenizer);
    }
}
