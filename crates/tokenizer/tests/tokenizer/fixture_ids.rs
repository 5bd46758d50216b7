//! Ids that llama.cpp gives, for every vocabulary whose rules are built in.

use crate::vocabularies::{BPE, OTHERS, SPM, fixtures, tokenizer};
use candor_tokenizer::Encode;
use serde_json::Value;

/// Where two lists of ids part, with the pieces around.
fn difference(tokenizer: &candor_tokenizer::Tokenizer, got: &[u32], expected: &[u32]) -> String {
    let at = got.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let show = |ids: &[u32]| {
        let from = at.saturating_sub(2).min(ids.len());
        let some = &ids[from..ids.len().min(at + 4)];
        let pieces: Vec<_> = some.iter().map(|&id| tokenizer.token(id).unwrap_or("?")).collect();
        format!("{some:?} {pieces:?}")
    };
    format!("at {at}: expected {}, got {}", show(expected), show(got))
}

/// The `.inp` and `.out` pairs: no BOS, the text of special tokens is text.
#[test]
fn records() {
    let Some(fixtures) = fixtures() else { return };
    let mut records = 0;
    for name in BPE.iter().chain(&SPM).chain(&OTHERS) {
        let path = fixtures.join(format!("vocab/ggml-vocab-{name}.gguf.inp"));
        let Ok(inputs) = std::fs::read_to_string(&path) else { continue };
        let outputs = std::fs::read_to_string(path.with_extension("out")).unwrap();
        let tokenizer = tokenizer(&fixtures, name);
        let inputs: Vec<_> = inputs.split("\n__ggml_vocab_test__\n").collect();
        let outputs: Vec<_> = outputs.lines().collect();
        assert!(inputs.len() == outputs.len() || inputs.len() == outputs.len() + 1, "{name}");
        for (input, output) in inputs.iter().zip(&outputs) {
            let expected: Vec<u32> = output.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let got = tokenizer.encode(input, Encode::text());
            assert!(got == expected, "{name} {input:?} {}", difference(&tokenizer, &got, &expected));
            records += 1;
        }
        println!("{name}: {} records", outputs.len());
    }
    assert_eq!(records, 556, "twelve vocabularies have some");
}

/// Where a WordPiece vocabulary strips accents llama.cpp strips more than Hugging Face's BERT, which is followed here: all
/// but the first letter of a Korean syllable, and the vowels of Hindi. Where these are not there, both must agree.
fn bare(c: char) -> Option<char> {
    match u32::from(c).checked_sub(0xac00) {
        Some(index) if index < 11172 => char::from_u32(0x1100 + index / 588),
        _ => Some(c).filter(|c| !('\u{93e}'..='\u{94c}').contains(c)),
    }
}

/// Whole texts, once as plain text and once as a prompt.
#[test]
fn texts() {
    let Some(fixtures) = fixtures() else { return };
    let (mut failures, mut doubled) = (Vec::new(), 0);
    for name in BPE.iter().chain(&SPM).chain(&OTHERS) {
        let path = fixtures.join(format!("expected/tokenizer/{name}.json"));
        let expected: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let tokenizer = tokenizer(&fixtures, name);
        let mut texts = 0;
        for (mode, options) in [("raw", Encode::text()), ("special", Encode::prompt())] {
            for (file, ids) in expected[mode].as_object().unwrap() {
                let mut text = std::fs::read_to_string(fixtures.join("tokenizer/texts").join(file)).unwrap();
                if *name == "bert-bge" {
                    text = text.chars().filter_map(bare).collect();
                }
                let mut ids: Vec<u32> = ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
                // llama.cpp warns of the second BOS of a text that begins with one; here it gets only one.
                if let [first, second, ..] = ids[..]
                    && mode == "special"
                    && tokenizer.bos() == Some(first)
                    && first == second
                {
                    doubled += 1;
                    ids.remove(0);
                }
                let got = tokenizer.encode(&text, options);
                texts += 1;
                if got != ids {
                    failures.push(format!("{name} {mode} {file} {}", difference(&tokenizer, &got, &ids)));
                }
            }
        }
        println!("{name}: {texts} texts");
        assert_eq!(texts, 22, "{name}");
    }
    assert_eq!(doubled, 5, "the SPM vocabularies and nomic-bert-moe, whose <s> begins specials.txt");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
