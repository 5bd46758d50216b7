//! Encoding and decoding with vocabularies made here, so that these tests need no fixtures.

use crate::small::{bpe, load, spm, texts};
use candor_gguf::{Array, Metadata, Value};
use candor_tokenizer::{Encode, Show, StreamDecoder, Tokenizer};
use std::sync::Arc;

const TEXT: Encode = Encode::text();
const PROMPT: Encode = Encode::prompt();

struct Case {
    text: &'static str,
    options: Encode,
    tokens: &'static [&'static str],
}

fn check(tokenizer: &Tokenizer, cases: &[Case]) {
    for Case { text, options, tokens } in cases {
        let ids = tokenizer.encode(text, *options);
        assert_eq!(texts(tokenizer, &ids), *tokens, "{text:?} {options:?}");
    }
}

#[test]
fn tokenizers_and_templates_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Tokenizer>();
    shared::<StreamDecoder<Arc<Tokenizer>>>();
    shared::<candor_tokenizer::ChatTemplate>();
}

#[test]
fn spm_joins_by_score_and_falls_back_to_bytes() {
    check(
        &load(&spm()),
        &[
            Case { text: "", options: TEXT, tokens: &[] },
            Case { text: "", options: PROMPT, tokens: &["<s>"] },
            // Scores fall in the order of the word list: "ab" is joined before "bc", and "_a" after both.
            Case { text: "abc", options: TEXT, tokens: &["\u{2581}", "abc"] },
            Case { text: "ab ab", options: PROMPT, tokens: &["<s>", "\u{2581}ab", "\u{2581}ab"] },
            Case { text: "a  bc", options: TEXT, tokens: &["\u{2581}a", "\u{2581}\u{2581}", "bc"] },
            Case {
                text: "\u{4e2d}\u{e9}\n",
                options: TEXT,
                tokens: &["\u{2581}", "\u{4e2d}", "<0xC3>", "<0xA9>", "<0x0A>"],
            },
            // A user's text cannot become a control or byte token, even where its letters join to it.
            Case { text: "<s>", options: TEXT, tokens: &["\u{2581}", "<s", ">"] },
            Case { text: "a</s>a", options: PROMPT, tokens: &["<s>", "\u{2581}a", "</s>", "\u{2581}a"] },
            Case { text: "<s>a", options: PROMPT, tokens: &["<s>", "\u{2581}a"] },
            Case { text: "<s><s>a", options: PROMPT, tokens: &["<s>", "<s>", "\u{2581}a"] },
            Case { text: "a<tool> b", options: TEXT, tokens: &["\u{2581}a", "<tool>", "\u{2581}\u{2581}", "b"] },
        ],
    );
}

#[test]
fn spm_without_space_prefix_and_with_eos() {
    let mut metadata = spm();
    metadata.insert("tokenizer.ggml.add_space_prefix", Value::Bool(false));
    metadata.insert("tokenizer.ggml.add_eos_token", Value::Bool(true));
    metadata.insert("tokenizer.ggml.add_bos_token", Value::Bool(false));
    let tokenizer = load(&metadata);
    check(
        &tokenizer,
        &[
            Case { text: "abc", options: TEXT, tokens: &["abc"] },
            Case { text: " ab", options: PROMPT, tokens: &["\u{2581}ab", "</s>"] },
            Case { text: "ab</s>", options: PROMPT, tokens: &["ab", "</s>"] },
        ],
    );
    assert_eq!(tokenizer.decode(&tokenizer.encode(" ab", PROMPT)), " ab");
    assert!(!tokenizer.add_bos() && tokenizer.add_eos());
}

#[test]
fn bpe_joins_by_rank_within_words() {
    let tokenizer = load(&bpe());
    check(
        &tokenizer,
        &[
            Case { text: "", options: TEXT, tokens: &[] },
            Case { text: "abc bc", options: TEXT, tokens: &["abc", "\u{120}", "bc"] },
            Case { text: "abc a", options: PROMPT, tokens: &["<|bos|>", "abc", "\u{120}a"] },
            Case { text: " ab", options: TEXT, tokens: &["\u{120}", "ab"] },
            Case { text: "a\u{e9}", options: TEXT, tokens: &["a", "\u{c3}", "\u{a9}"] },
            Case { text: "<|bos|>", options: TEXT, tokens: &["<", "|", "b", "o", "s", "|", ">"] },
            Case { text: "<|bos|>ab", options: PROMPT, tokens: &["<|bos|>", "ab"] },
            Case { text: "ab<tool>c", options: TEXT, tokens: &["ab", "<tool>", "c"] },
        ],
    );
    assert_eq!((tokenizer.model_name(), tokenizer.pre_name()), ("gpt2", "gpt-2"));
}

#[test]
fn a_piece_that_is_a_token_stays_whole_where_the_rules_say_so() {
    let mut metadata = bpe();
    let Some(Value::Array(Array::String(merges))) = metadata.get("tokenizer.ggml.merges").cloned() else { panic!() };
    // Without "ab c" no merge reaches "abc", which is still a token.
    let merges: Vec<String> = merges.into_iter().filter(|merge| merge != "ab c").collect();
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(merges)));
    check(&load(&metadata), &[Case { text: "abc", options: TEXT, tokens: &["ab", "c"] }]);
    metadata.insert("tokenizer.ggml.pre", Value::String("llama-v3".to_owned()));
    let tokenizer = load(&metadata);
    check(&tokenizer, &[Case { text: "abc", options: TEXT, tokens: &["abc"] }]);
    assert_eq!(tokenizer.pre_name(), "llama-bpe");
}

#[test]
fn merges_may_pass_through_symbols_that_are_no_tokens() {
    let mut metadata = bpe();
    let merges = ["x y", "xy z", "q r"].map(String::from);
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(merges.into())));
    let Some(Value::Array(Array::String(mut tokens))) = metadata.get("tokenizer.ggml.tokens").cloned() else {
        panic!()
    };
    let abc = tokens.iter().position(|token| token == "abc").unwrap();
    tokens[abc] = "xyz".to_owned();
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(tokens)));
    check(
        &load(&metadata),
        &[
            Case { text: "xyz", options: TEXT, tokens: &["xyz"] },
            Case { text: "xy", options: TEXT, tokens: &["x", "y"] },
            Case { text: "qrx", options: TEXT, tokens: &["q", "r", "x"] },
        ],
    );
}

#[test]
fn decoding_hides_what_is_no_text() {
    let spm = load(&spm());
    let ids = spm.encode("<s>ab \u{e9}</s>", PROMPT);
    assert_eq!(spm.decode(&ids), "ab \u{e9}");
    let mut shown = spm.stream().show(Show::Specials);
    let all: String = ids.iter().map(|&id| shown.push(id)).collect();
    assert_eq!(all, "<s>ab \u{e9}</s>");
    for (id, hidden, visible) in
        [(1, "", "<s>"), (0, "", "<unk>"), (259, "<tool>", "<tool>"), (260, "", ""), (13, "\n", "\n")]
    {
        assert_eq!(spm.piece(id, Show::Text), hidden.as_bytes(), "{id}");
        assert_eq!(spm.piece(id, Show::Specials), visible.as_bytes(), "{id}");
    }
    for id in [spm.vocab_size() as u32, u32::MAX] {
        assert!(spm.piece(id, Show::Specials).is_empty() && spm.token(id).is_none() && !spm.is_control(id));
        assert_eq!(spm.decode(&[id]), "");
    }
}

#[test]
fn a_stream_holds_back_parts_of_characters() {
    let bpe = Arc::new(load(&bpe()));
    let mut stream = StreamDecoder::new(Arc::clone(&bpe));
    let pushed: Vec<String> = b"a\xe4\xb8\xadb\xf0\x9f\x92".iter().map(|&byte| stream.push(u32::from(byte))).collect();
    assert_eq!(pushed, ["a", "", "", "\u{4e2d}", "b", "", "", ""]);
    assert_eq!((stream.finish(), stream.finish()), ("\u{fffd}".to_owned(), String::new()));
    // Bytes that are not UTF-8 come out as soon as that is certain.
    let pushed: Vec<String> = b"\xff\xe4a\xc3\xe9\x80".iter().map(|&byte| stream.push(u32::from(byte))).collect();
    assert_eq!(pushed, ["\u{fffd}", "", "\u{fffd}a", "", "\u{fffd}", ""]);
}

#[test]
fn a_stream_knows_which_space_encoding_added() {
    let spm = load(&spm());
    let ab = spm.id("\u{2581}ab").unwrap();
    let tool = spm.id("<tool>").unwrap();
    assert_eq!(spm.stream().push(ab), "ab");
    assert_eq!(StreamDecoder::continuing(&spm).push(ab), " ab");
    assert_eq!(spm.decode(&[1, ab, ab, tool, ab, 1]), "ab ab<tool>ab");
}

#[test]
fn specials_by_key_and_by_text() {
    let tokenizer = load(&spm());
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.unk()), (Some(1), Some(2), Some(0)));
    assert_eq!((tokenizer.eot(), tokenizer.eom(), tokenizer.pad()), (None, None, None));
    assert_eq!(tokenizer.stop_ids(), [2]);
    assert_eq!(tokenizer.warnings(), [] as [String; 0]);
    assert!(tokenizer.add_bos() && !tokenizer.add_eos());

    let tokenizer = load(&bpe());
    let id = |text: &str| tokenizer.id(text).unwrap();
    assert_eq!(tokenizer.eos(), None);
    assert_eq!(tokenizer.eot(), Some(id("<|im_end|>")));
    assert_eq!(tokenizer.stop_ids(), [id("<|im_end|>"), id("<|end|>")]);
    // The file calls <|end|> user-defined; its text says more.
    assert!(tokenizer.is_control(id("<|end|>")) && !tokenizer.is_control(id("<tool>")));
    assert!(tokenizer.warnings().iter().any(|line| line.contains("\"<|end|>\"")), "{:?}", tokenizer.warnings());

    let mut metadata = bpe();
    metadata.insert("tokenizer.ggml.eos_token_id", Value::U32(7));
    metadata.insert("tokenizer.ggml.eot_token_id", Value::I32(9));
    metadata.insert("tokenizer.ggml.eom_token_id", Value::U64(8));
    metadata.insert("tokenizer.ggml.padding_token_id", Value::I32(-1));
    metadata.insert("tokenizer.ggml.unknown_token_id", Value::U32(u32::MAX));
    let tokenizer = load(&metadata);
    assert_eq!((tokenizer.eos(), tokenizer.eot(), tokenizer.eom()), (Some(7), Some(9), Some(8)));
    assert_eq!((tokenizer.pad(), tokenizer.unk()), (None, None));
    assert_eq!(tokenizer.stop_ids()[..3], [7, 8, 9]);
}

#[test]
fn odd_files_are_loaded_with_a_warning() {
    let warned = |metadata: &Metadata, words: &str| {
        let tokenizer = load(metadata);
        assert!(tokenizer.warnings().iter().any(|line| line.contains(words)), "{words}: {:?}", tokenizer.warnings());
        tokenizer
    };
    let without = |metadata: &Metadata, key: &str| {
        let mut rest = Metadata::default();
        metadata.iter().filter(|(name, _)| *name != key).for_each(|(name, value)| rest.insert(name, value.clone()));
        rest
    };
    let default = warned(&without(&bpe(), "tokenizer.ggml.pre"), "tokenizer.ggml.pre is missing");
    assert_eq!(default.pre_name(), "default");
    warned(&without(&spm(), "tokenizer.ggml.token_type"), "tokenizer.ggml.token_type is missing");
    // llama-bpe asks for BOS, and the file has none.
    let mut llama = without(&without(&bpe(), "tokenizer.ggml.bos_token_id"), "tokenizer.ggml.add_bos_token");
    llama.insert("tokenizer.ggml.pre", Value::String("llama-bpe".to_owned()));
    assert!(!warned(&llama, "tokenizer.ggml.bos_token_id is missing").add_bos());

    // Without byte tokens, what cannot be spelled is the unknown token.
    let mut metadata = spm();
    let Some(Value::Array(Array::String(mut tokens))) = metadata.get("tokenizer.ggml.tokens").cloned() else {
        panic!()
    };
    tokens[3..259].iter_mut().enumerate().for_each(|(n, token)| *token = format!("unused{n}"));
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(tokens)));
    let tokenizer = warned(&metadata, "some bytes have no token");
    check(&tokenizer, &[Case { text: "a\u{e9}\nb", options: TEXT, tokens: &["\u{2581}a", "<unk>", "<unk>", "b"] }]);

    let mut metadata = bpe();
    let Some(Value::Array(Array::String(mut tokens))) = metadata.get("tokenizer.ggml.tokens").cloned() else {
        panic!()
    };
    tokens[usize::from(b'q')] = "(q)".to_owned();
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(tokens)));
    let tokenizer = warned(&metadata, "[71]");
    check(&tokenizer, &[Case { text: "aqb", options: TEXT, tokens: &["a", "b"] }]);
}

#[test]
fn phi3_specials_take_white_space_along() {
    let mut metadata = spm();
    check(
        &load(&metadata),
        &[Case {
            text: "a<tool>\n a",
            options: TEXT,
            tokens: &["\u{2581}a", "<tool>", "\u{2581}", "<0x0A>", "\u{2581}a"],
        }],
    );
    metadata.insert("general.name", Value::String("Phi3 Mini".to_owned()));
    check(
        &load(&metadata),
        &[
            Case { text: "a<tool>\n a", options: TEXT, tokens: &["\u{2581}a", "<tool>", "\u{2581}a"] },
            Case { text: "<s>\na", options: PROMPT, tokens: &["<s>", "\u{2581}", "<0x0A>", "a"] },
        ],
    );
}
