//! JSON itself, by the suite of parsers: what is JSON is allowed, what is not is not.

use std::{fs, io::Write};

use candor_grammar::Grammar;
use serde_json::{Value, json};

use crate::reader::{allows, bytes, folder, read, tiny, vocabulary};

/// JSON that is not allowed, however it is written: the letter U+007F.
const NARROWER: [&str; 2] = ["y_string_unescaped_char_delete.json", "y_string_with_del_character.json"];

#[test]
fn what_is_no_json_is_never_allowed() {
    let Some(folder) = folder("jsontestsuite/test_parsing") else { return };
    let any = Grammar::json_schema(&json!({})).unwrap();
    let (mut right, mut escaped, mut wrong) = (0, 0, 0);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().collect();
    files.sort_by_key(|file| file.as_ref().unwrap().path());
    for file in files {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let text = fs::read(file.path()).unwrap();
        if text.len() > 10_000 {
            continue;
        }
        let mut mask = any.mask(vocabulary()).unwrap();
        let allowed = read(&mut mask, tiny().tokenizer(), &bytes(&text)) == (text.len(), true);
        match name.as_bytes()[0] {
            b'n' => {
                assert!(!allowed, "{name}");
                wrong += 1;
            }
            b'y' if NARROWER.contains(&name.as_str()) => assert!(!allowed, "{name}"),
            b'y' => {
                // As a program writes it: nothing escaped that need not be.
                let value: Value = serde_json::from_slice(&text).unwrap();
                let written = value.to_string();
                assert!(allows(&any, &written), "{name}: {written}");
                right += 1;
                escaped += usize::from(!allowed);
            }
            _ => {}
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "JSONTestSuite: {right} values allowed as serde_json writes them, {escaped} of them not in the file's own words; {wrong} refused"
    );
    assert!(right > 90 && wrong > 180, "{right}, {wrong}");
}

#[test]
fn an_object_is_an_object() {
    let object = Grammar::json().unwrap();
    for text in ["{}", "{\"a\": [1, {\"b\": null}]}", "{\n  \"a\": 1\n}"] {
        assert!(allows(&object, text), "{text}");
    }
    for text in ["", "[]", "1", "{} ", "{\"a\":1,}"] {
        assert!(!allows(&object, text), "{text}");
    }
}
