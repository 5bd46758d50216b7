//! WordPiece, unigram, RWKV, PLaMo 2 and Gemma 4 with vocabularies made here: ids, text from ids, pairs, special tokens.

use crate::small::{self, bert, gemma4, load, plamo2, rwkv, texts, unigram};
use candor_gguf::{Array, Metadata, Value};
use candor_tokenizer::{Encode, Show, Tokenizer};

fn encoded<'a>(tokenizer: &'a Tokenizer, text: &str, options: Encode) -> Vec<&'a str> {
    texts(tokenizer, &tokenizer.encode(text, options))
}

fn plain<'a>(tokenizer: &'a Tokenizer, text: &str) -> Vec<&'a str> {
    encoded(tokenizer, text, Encode::text())
}

fn set(mut metadata: Metadata, key: &str, value: Value) -> Metadata {
    metadata.insert(format!("tokenizer.ggml.{key}"), value);
    metadata
}

#[test]
fn wordpiece_takes_the_longest_from_the_left() {
    let tokenizer = load(&bert());
    for (text, expected) in [
        ("", &[] as &[&str]),
        ("It's  CAF\u{c9}s.", &["\u{2581}it", "\u{2581}'", "\u{2581}s", "\u{2581}cafe", "s", "\u{2581}."]),
        ("cafe\u{301}", &["\u{2581}cafe"]),
        ("\u{4e2d}it\u{ad}\u{0}", &["\u{2581}\u{4e2d}", "\u{2581}it"]),
        ("123 122", &["\u{2581}1", "23", "\u{2581}1", "2", "2"]),
        // Where any part has no token, the whole word is unknown.
        ("itx it", &["[UNK]", "\u{2581}it"]),
        // A vowel of Hindi is a mark, and no accent.
        ("it\u{301}\u{940}", &["[UNK]"]),
        ("\u{d55c}", &["\u{2581}\u{1112}", "\u{1161}", "\u{11ab}"]),
        // A control token is out of reach of a user's words.
        ("[CLS]", &["\u{2581}[", "[UNK]", "[UNK]"]),
    ] {
        assert_eq!(plain(&tokenizer, text), *expected, "{text:?}");
    }
    assert_eq!(encoded(&tokenizer, "it", Encode::prompt()), ["[CLS]", "\u{2581}it", "[SEP]"]);
    assert_eq!(encoded(&tokenizer, "[CLS] it[SEP]", Encode::prompt()), ["[CLS]", "\u{2581}it", "[SEP]"]);
    assert_eq!((tokenizer.bos(), tokenizer.sep(), tokenizer.mask()), (Some(2), Some(3), Some(4)));
    assert_eq!((tokenizer.model_name(), tokenizer.pre_name()), ("bert", "default"));

    let mut metadata = Metadata::default();
    bert().iter().filter(|(key, _)| !key.contains("bos")).for_each(|(key, value)| metadata.insert(key, value.clone()));
    assert_eq!(load(&set(metadata, "cls_token_id", Value::U32(4))).bos(), Some(4));

    let cased = load(&set(bert(), "normalizer.lowercase", Value::Bool(false)));
    assert_eq!(plain(&cased, "Caf\u{e9} caf\u{e9}"), ["\u{2581}Caf\u{e9}", "[UNK]"]);
}

#[test]
fn wordpiece_decodes_to_text() {
    let tokenizer = load(&bert());
    let ids = tokenizer.encode("it's cafes. it", Encode::prompt());
    assert_eq!(tokenizer.decode(&ids), "it's cafes. it");
    let mut stream = tokenizer.stream();
    let pieces: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    assert_eq!(pieces, ["", "it", "", "'s", " cafe", "s", ".", " it", ""]);
    assert_eq!(stream.finish(), "");
    let mut shown = tokenizer.stream().show(Show::Specials);
    let text: String = ids.iter().map(|&id| shown.push(id)).collect();
    assert_eq!(text, "[CLS] it's cafes. it[SEP]");
}

#[test]
fn unigram_finds_the_best_sum() {
    let tokenizer = load(&unigram());
    for (text, expected) in [
        ("", &[] as &[&str]),
        ("   ", &[]),
        // "_a" and "b" cost 4 together, "_" and "ab" 4: of equals the one whose last token is found first.
        ("a", &["\u{2581}a"]),
        ("  a  b ", &["\u{2581}a", "\u{2581}", "b"]),
        ("ab b", &["\u{2581}ab\u{2581}b"]),
        ("\u{e9}", &["\u{2581}", "\u{e9}"]),
        // What has no token is unknown, once for all in a row.
        ("axyz", &["\u{2581}a", "<unk>"]),
        ("x y", &["\u{2581}", "<unk>", "\u{2581}", "<unk>"]),
        ("a<x> b", &["\u{2581}a", "<x>", "\u{2581}", "b"]),
        ("</s>", &["\u{2581}", "<unk>"]),
        ("<b>", &["\u{2581}", "<b>"]),
    ] {
        assert_eq!(plain(&tokenizer, text), *expected, "{text:?}");
    }
    let ids = tokenizer.encode("a  b", Encode::prompt());
    assert_eq!(texts(&tokenizer, &ids), ["\u{2581}a", "\u{2581}", "b", "</s>"]);
    assert_eq!(tokenizer.decode(&ids), "a b");

    let flags = |prefix, merge| {
        let metadata = set(unigram(), "add_space_prefix", Value::Bool(prefix));
        load(&set(metadata, "remove_extra_whitespaces", Value::Bool(merge)))
    };
    let all = flags(true, false);
    assert_eq!(plain(&all, "  a"), ["\u{2581}", "\u{2581}", "\u{2581}a"]);
    assert_eq!(plain(&flags(false, false), "a b "), ["a", "\u{2581}", "b", "\u{2581}"]);
    // Merging puts a space before every word, the first one too.
    assert_eq!(plain(&flags(false, true), "a"), ["\u{2581}a"]);
}

#[test]
fn unigram_normalizes_by_the_files_map() {
    // "A" becomes "a b", by the same map as in charsmap's tests.
    let mut units = vec![0u32; 256];
    units[0] = 0x80 << 10;
    units[0x80 ^ 0x41] = 0x41 | 1 << 8 | 0x21 << 10;
    units[0x80 ^ 0x41 ^ 0x21] = 1 << 31;
    let mut bytes = 1024u32.to_le_bytes().to_vec();
    bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    bytes.extend(b"a b\0");
    let signed = bytes.iter().map(|&byte| byte as i8).collect();
    for array in [Array::U8(bytes), Array::I8(signed)] {
        let tokenizer = load(&set(unigram(), "precompiled_charsmap", Value::Array(array)));
        assert_eq!(plain(&tokenizer, "bA"), ["\u{2581}", "b", "a", "\u{2581}", "b"]);
    }
}

#[test]
fn rwkv_takes_the_longest_bytes() {
    let tokenizer = load(&rwkv());
    let expected = ["ab", "c", "\\n", "\\xe4\\xb8", "\\xad", "a"];
    // "abc" is no token, though it begins one; neither is "x", and there is no unknown token.
    assert_eq!(plain(&tokenizer, "abc\n\u{4e2d}xa"), expected);
    assert_eq!(encoded(&tokenizer, "abcd<s>", Encode::prompt()), ["abcd", "<s>"]);
    assert_eq!(tokenizer.decode(&tokenizer.encode("abc\n\u{4e2d}a", Encode::prompt())), "abc\n\u{4e2d}a");
}

#[test]
fn plamo2_finds_the_best_sum_from_the_end() {
    let tokenizer = load(&plamo2());
    // "a" and "bc" cost 1 + 3, "ab" and "c" 2 + 5, "abc" 6.
    assert_eq!(plain(&tokenizer, "abc"), ["a", "bc"]);
    assert_eq!(plain(&tokenizer, "\u{feff}ab\u{e9} a"), ["ab", "<0xC3>", "<0xA9>", " a"]);
    assert_eq!(encoded(&tokenizer, "<s>a", Encode::prompt()), ["<s>", "a"]);
}

#[test]
fn gemma4_merges_characters_across_spaces() {
    let tokenizer = load(&gemma4());
    assert_eq!(plain(&tokenizer, "ab ab"), ["ab", "\u{2581}ab"]);
    // Some merge reaches from "a" over a space, none from "b".
    assert_eq!(plain(&tokenizer, "a b"), ["a\u{2581}b"]);
    assert_eq!(plain(&tokenizer, "b\n\n\nb\n\n"), ["b", "\n\n\n", "b", "\n", "\n"]);
    assert_eq!(plain(&tokenizer, "\u{e9}\u{4e2d}a"), ["<0xC3>", "<0xA9>", "a"]);
    let file_says_no = load(&set(gemma4(), "add_bos_token", Value::Bool(false)));
    assert_eq!(encoded(&file_says_no, "ab", Encode::prompt()), ["<bos>", "ab"]);
    assert_eq!(tokenizer.decode(&tokenizer.encode(" ab a\n", Encode::prompt())), " ab a\n");
}

#[test]
fn pairs_by_the_files_flags() {
    let pair = |metadata: Metadata| {
        let tokenizer = load(&metadata);
        texts(&tokenizer, &tokenizer.encode_pair("it", "s")).join(" ")
    };
    let yes = || Value::Bool(true);
    assert_eq!(pair(bert()), "[CLS] \u{2581}it [SEP] \u{2581}s");
    // Without an EOS, SEP stands for it.
    let no_sep = || set(bert(), "add_sep_token", Value::Bool(false));
    assert_eq!(pair(set(no_sep(), "add_eos_token", yes())), "[CLS] \u{2581}it [SEP] \u{2581}s [SEP]");
    assert_eq!(
        pair(set(set(bert(), "add_eos_token", yes()), "eos_token_id", Value::U32(0))),
        "[CLS] \u{2581}it [PAD] [SEP] \u{2581}s [PAD]"
    );
    assert_eq!(pair(unigram()), "\u{2581} <unk> </s> \u{2581} <unk> </s>");

    let mut roberta = small::bpe();
    roberta.insert("tokenizer.ggml.pre", Value::String("roberta-bpe".to_owned()));
    roberta.insert("tokenizer.ggml.eos_token_id", Value::U32(b'!'.into()));
    roberta.insert("tokenizer.ggml.seperator_token_id", Value::U32(b'|'.into()));
    roberta.insert("tokenizer.ggml.add_eos_token", yes());
    assert_eq!(pair(roberta), "<|bos|> i t ! | s !");
}

/// A byte-level vocabulary with these control tokens at its end.
fn with_controls(tokens: &[&str]) -> Tokenizer {
    let mut metadata = small::bpe();
    let Some(Value::Array(Array::String(mut texts))) = metadata.get("tokenizer.ggml.tokens").cloned() else { panic!() };
    let Some(Value::Array(Array::I32(mut types))) = metadata.get("tokenizer.ggml.token_type").cloned() else {
        panic!()
    };
    for token in tokens {
        texts.push(token.to_string());
        types.push(small::CONTROL);
    }
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(texts)));
    metadata.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));
    load(&metadata)
}

#[test]
fn some_stops_are_none_in_the_company_of_others() {
    let stops = |tokenizer: &Tokenizer| texts(tokenizer, tokenizer.stop_ids()).join(" ");
    assert_eq!(stops(&with_controls(&["<|call|>"])), "<|im_end|> <|end|> <|call|>");
    let harmony = with_controls(&["<|return|>", "<|call|>", "<|channel|>"]);
    assert_eq!(stops(&harmony), "<|im_end|> <|return|> <|call|>");
    assert!(!harmony.is_control(harmony.id("<|end|>").unwrap()));
    assert!(!harmony.is_control(harmony.id("<|channel|>").unwrap()));
    assert_eq!(stops(&with_controls(&["<|flush|>", "<|calls|>"])), "<|im_end|> <|flush|> <|calls|>");
    let gemma = with_controls(&["</s>", "<|tool_response>"]);
    assert_eq!(stops(&gemma), "<|im_end|> <|end|> <|tool_response>");
    assert!(!gemma.is_control(gemma.id("</s>").unwrap()));
}

#[test]
fn mask_takes_the_white_space_before_it_along() {
    let tokens = |name: &str, mask: &str| {
        let mut metadata = small::bpe();
        let Some(Value::Array(Array::String(mut texts))) = metadata.get("tokenizer.ggml.tokens").cloned() else {
            panic!()
        };
        let place = texts.iter().position(|text| text == "<tool>").unwrap();
        texts[place] = mask.to_owned();
        metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(texts)));
        metadata.insert("general.name", Value::String(name.to_owned()));
        let tokenizer = load(&metadata);
        self::texts(&tokenizer, &tokenizer.encode(&format!("a {mask} b"), Encode::text())).join("|")
    };
    assert_eq!(tokens("x", "[MASK]"), "a|\u{120}|[MASK]|\u{120}|b");
    assert_eq!(tokens("A Modern-BERT", "[MASK]"), "a|[MASK]|\u{120}|b");
    assert_eq!(tokens("A Modern-BERT", "<mask>"), "a|\u{120}|<mask>|\u{120}|b");
}
