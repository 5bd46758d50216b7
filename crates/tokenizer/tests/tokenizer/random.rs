//! Ids of random Unicode against llama.cpp's, held as digests that tools/goldens/tokenizers.py made: the fixtures'
//! vocabularies, changed ones, and every name of a pre-tokenizer. `CANDOR_TEST_STRINGS=all` tries all strings, and not a third of
//! them. With `CANDOR_TOKENIZER_DUMP=FOLDER` the ids are written there, and that script finds the strings that differ.

mod made;
mod strings;

use crate::vocabularies;
use candor_gguf::{Metadata, Value};
use candor_tokenizer::{Encode, Tokenizer};
use serde_json::Value as Json;
use strings::Mode;
use unicode_general_category::{GeneralCategory, get_general_category};

/// The metadata of a vocabulary of the goldens, or `None` where the fixtures are missing.
fn metadata(name: &str, entry: &Json) -> Option<Metadata> {
    if let Some(pre) = name.strip_prefix("pairs ") {
        return Some(made::pairs(pre));
    }
    if name == "rwkv" {
        return Some(made::rwkv());
    }
    let fixtures = vocabularies::fixtures()?;
    let mut metadata = vocabularies::metadata(&fixtures, entry["of"].as_str().unwrap_or(name));
    for (key, value) in entry["changes"].as_object().into_iter().flatten() {
        let value = match value {
            Json::Bool(value) => Value::Bool(*value),
            Json::String(value) => Value::String(value.clone()),
            other => Value::U32(other.as_u64().and_then(|id| u32::try_from(id).ok()).expect("an id")),
        };
        metadata.insert(key, value);
    }
    Some(metadata)
}

/// Whether a WordPiece vocabulary strips accents, in which llama.cpp and Hugging Face differ: see the script.
fn strips_accents(metadata: &Metadata) -> bool {
    let flag = |key: &str| metadata.bool(&format!("tokenizer.ggml.normalizer.{key}")).unwrap();
    let lowercase = flag("lowercase").unwrap_or(true);
    metadata.str("tokenizer.ggml.model").unwrap() == Some("bert") && flag("strip_accents").unwrap_or(lowercase)
}

fn is_wide_mark(c: char) -> bool {
    matches!(get_general_category(c), GeneralCategory::SpacingMark | GeneralCategory::EnclosingMark)
}

/// The names of the blocks of strings that differ.
fn differences(name: &str, entry: &Json, block: usize) -> Option<Vec<String>> {
    let metadata = metadata(name, entry)?;
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap_or_else(|error| panic!("{name}: {error}"));
    let all = std::env::var_os("CANDOR_TEST_STRINGS").is_some();
    let mut wrong = Vec::new();
    let mut compare = |lists: &[Vec<u32>], expected: &[Json], label: &str| {
        if let Some(folder) = std::env::var_os("CANDOR_TOKENIZER_DUMP") {
            let line = |ids: &Vec<u32>| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
            let lines = lists.iter().map(line).collect::<Vec<_>>().join("\n");
            std::fs::write(std::path::Path::new(&folder).join(format!("{name} {label}")), lines).unwrap();
        }
        for (at, (lists, expected)) in lists.chunks(block).zip(expected).enumerate() {
            if strings::digest(lists) != expected.as_str().expect("a digest") {
                wrong.push(format!("{name}: {label} strings {} to {}", at * block, (at + 1) * block - 1));
            }
        }
    };
    for (mode, label, options) in [(Mode::Text, "text", Encode::text()), (Mode::Prompt, "prompt", Encode::prompt())] {
        let expected = &entry[label].as_array().expect("digests")[..];
        // The first third of each list: all of them take a minute of an unoptimised program.
        let expected = if all { expected } else { &expected[..expected.len().div_ceil(3)] };
        let mut strings = strings::strings(name, mode, expected.len() * block);
        if strips_accents(&metadata) {
            strings.iter_mut().for_each(|string| string.retain(|c| !is_wide_mark(c)));
        }
        let ids: Vec<Vec<u32>> = strings.iter().map(|string| tokenizer.encode(string, options)).collect();
        compare(&ids, expected, label);
        if mode == Mode::Text
            && let Some(expected) = entry["decoded"].as_array()
        {
            let bytes = |ids: &Vec<u32>| tokenizer.decode(ids).bytes().map(u32::from).collect();
            compare(&ids.iter().map(bytes).collect::<Vec<_>>(), expected, "decoded");
        }
    }
    Some(wrong)
}

fn check(wanted: impl Fn(&str) -> bool, least: usize) {
    let goldens: Json = serde_json::from_str(include_str!("../goldens/random.json")).unwrap();
    let block = goldens["block"].as_u64().unwrap() as usize;
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for (name, entry) in goldens["vocabularies"].as_object().unwrap().iter().filter(|(name, _)| wanted(name)) {
        // The reason has been printed.
        let Some(differences) = differences(name, entry, block) else { return };
        wrong.extend(differences);
        checked += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= least, "only {checked} vocabularies");
}

/// No fixtures needed: the vocabularies are made here.
#[test]
fn pre_tokenizers_cut_where_llama_cpp_cuts() {
    check(|name| name.starts_with("pairs ") || name == "rwkv", 80);
}

#[test]
fn fixture_vocabularies_give_llama_cpps_ids() {
    check(|name| !name.starts_with("pairs ") && name != "rwkv", 28);
}
