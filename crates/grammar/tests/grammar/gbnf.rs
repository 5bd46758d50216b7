//! llama.cpp's own grammars with texts of theirs and others, and the mask against a look at each token alone.

use std::{fs, sync::Arc};

use candor::{Encode, Gguf, Show, Tokenizer};
use candor_grammar::{Grammar, Vocabulary};

use crate::reader::{allows, folder, logits, read, tiny, vocabulary};

#[test]
fn the_grammars_of_llama_cpp_allow_their_texts() {
    let Some(folder) = folder("grammars") else { return };
    for (name, right, wrong) in [
        ("arithmetic", &["1=2\n", "x +(y*2)=z\n", "a=1\nb=2\n"][..], &["", "1=", "1=2", "=\n", "(1=2\n"][..]),
        ("c", &["int main(){return 1;}", "float f(int a){int b = 1;b = a+2*c;}"], &["int main()", "main(){}"]),
        (
            "chess",
            &["1. e4 e5\n2. Nf3 Nc6\n", "1. O-O exd5\n10. Qxe8 a1=Q+\n"],
            &["1. e4 e5\n", "1. e9 e5\n2. a1 a1\n"],
        ),
        ("english", &["It rains. Does it?", "3 men"], &["", "é", "\u{3042}"]),
        ("japanese", &["ひらがな、カタカナ漢字"], &["abc", ""]),
        (
            "json",
            &["{}", "{\"a\": [1, -2.5e+3, true, null]}", "{\"é\": \"\\u00e9\\n\"}"],
            &["[1]", "{\"a\"}", "{'a': 1}"],
        ),
        ("json_arr", &["[\n]", "[\n1]", "[\n{\"a\": 1},\n2]"], &["{}", "[1]", "[\n1]x"]),
        ("list", &["- a\n", "- a\n- b c\n"], &["a\n", "- \n", "- a"]),
    ] {
        let grammar = Grammar::gbnf(&fs::read_to_string(folder.join(format!("{name}.gbnf"))).unwrap()).unwrap();
        for text in right {
            assert!(allows(&grammar, text), "{name}: {text:?}");
        }
        for text in wrong {
            assert!(!allows(&grammar, text), "{name}: {text:?}");
        }
    }
}

/// A text is allowed in whatever tokens it comes, and a mask has exactly the tokens whose bytes are allowed one by one.
#[test]
fn masks_have_the_tokens_whose_bytes_are_allowed() {
    let (Some(fixtures), Some(grammars)) = (candor_testing::fixtures(), folder("grammars")) else { return };
    let folder = candor_testing::vocabularies(&fixtures, &std::env::temp_dir());
    for name in ["llama-bpe", "llama-spm"] {
        let gguf = Gguf::open(folder.join(format!("ggml-vocab-{name}.gguf"))).unwrap();
        let tokenizer = Arc::new(Tokenizer::from_metadata(gguf.metadata()).unwrap());
        let vocabulary = Arc::new(Vocabulary::new(&tokenizer).unwrap());
        let grammar = fs::read_to_string(grammars.join("json.gbnf")).unwrap();
        let grammar = Grammar::gbnf(&grammar).unwrap();
        let text = "{\"name\": \"J\u{fc}rg \\u00e9\u{65e5}\", \"list\": [1, 2.5, {\"x\": null}]}";
        // Not at the beginning, where some vocabularies put a space.
        let tokens = tokenizer.encode(&format!("\n{text}"), Encode::text());
        let is_before = |id: &u32| !tokenizer.piece(*id, Show::Text).starts_with(b"{");
        let tokens: Vec<u32> = tokens.into_iter().skip_while(is_before).collect();
        let mut mask = grammar.mask(&vocabulary).unwrap();
        assert_eq!(read(&mut mask, &tokenizer, &tokens), (tokens.len(), true), "{name}");
        // After a bracket, and in the middle of a string.
        let mut seen = tokenizer.encode("a", Encode::text());
        let mut mask = grammar.mask(&vocabulary).unwrap();
        logits(&mut mask, &tokenizer, &seen);
        let (mut said, mut checked) = (Vec::new(), [0; 2]);
        for tokens in [&tokens[..1], &tokens[1..4]] {
            seen.extend(tokens);
            said.extend(tokens.iter().flat_map(|&id| tokenizer.piece(id, Show::Text).into_owned()));
            let left = logits(&mut mask, &tokenizer, &seen);
            for id in (0..tokenizer.vocab_size() as u32).step_by(83) {
                let piece = tokenizer.piece(id, Show::Text);
                if piece.is_empty() {
                    continue;
                }
                // By a vocabulary of bytes, in which each token has to be said byte by byte.
                let bytes = crate::reader::bytes(&[&said[..], &piece].concat());
                let mut alone = grammar.mask(crate::reader::vocabulary()).unwrap();
                let allowed = read(&mut alone, tiny().tokenizer(), &bytes).0 == bytes.len();
                let shown = String::from_utf8_lossy(&piece);
                assert_eq!(left[id as usize] == 0.0, allowed, "{name}: {said:?} and {shown:?}");
                checked[usize::from(allowed)] += 1;
            }
        }
        assert!(checked.iter().all(|&count| count > 5), "{checked:?}");
    }
}

#[test]
fn a_text_may_end_where_the_grammar_does_and_must_where_nothing_follows() {
    let grammar = Grammar::gbnf("root ::= \"a\" \"b\"?").unwrap();
    let mut mask = grammar.mask(vocabulary()).unwrap();
    let tokenizer = tiny().tokenizer();
    let id = |letter: &str| tokenizer.id(letter).unwrap();
    let left = |mask: &mut _, tokens: &[u32]| -> Vec<u32> {
        let left = logits(mask, tokenizer, tokens);
        (0..).zip(&left).filter(|(_, logit)| **logit == 0.0).map(|(id, _)| id).collect()
    };
    let (a, b, end) = (id("a"), id("b"), tokenizer.eos().unwrap());
    let byte = |letter: u8| 3 + u32::from(letter);
    let sorted = |mut ids: Vec<u32>| {
        ids.sort_unstable();
        ids
    };
    assert_eq!(left(&mut mask, &[a]), sorted(vec![a, byte(b'a')]));
    assert_eq!(left(&mut mask, &[a, a]), sorted(vec![end, b, byte(b'b')]));
    assert_eq!(left(&mut mask, &[a, a, b]), [end]);
}
