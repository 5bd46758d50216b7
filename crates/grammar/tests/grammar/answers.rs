//! Answers of a model of random weights, at temperature 1 and with nothing else cut off: each that ends has the shape.

use candor::{GenerateOptions, Sampling, SessionOptions, StopReason};
use candor_grammar::Grammar;
use serde_json::{Value, json};

use crate::reader::{tiny, vocabulary};

/// An answer, and why it ended.
fn answer(grammar: &Grammar, prompt: &str, seed: u32) -> (String, StopReason) {
    let model = tiny();
    let sampling = Sampling::default().temperature(1.0).top_k(0).top_p(1.0).min_p(0.0).seed(Some(seed));
    let mask = grammar.mask(vocabulary()).unwrap();
    let options = GenerateOptions::default().sampling(sampling).max_tokens(2000).processor(mask);
    let mut session = model.session(&SessionOptions::default().context(2048)).unwrap();
    let mut generation = session.generate(&model.encode_prompt(prompt), options).unwrap();
    let text = generation.by_ref().map(|piece| piece.unwrap().text).collect();
    (text, generation.stop_reason().unwrap())
}

fn all(grammar: &Grammar, has_shape: impl Fn(&str) -> bool) {
    // After a control token, where a space at the beginning is dropped, and after a letter.
    for (prompt, seed) in [("", 0), ("a", 10), ("a", 20), ("", 30), ("b", 40), ("b", 50)] {
        for seed in seed..seed + 3 {
            let (text, reason) = answer(grammar, prompt, seed);
            assert_eq!(reason, StopReason::EndOfText, "{text:?}");
            assert!(has_shape(&text), "{text:?}");
        }
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

fn letters(value: &Value, most: usize) -> bool {
    value.as_str().is_some_and(|text| text.chars().count() <= most)
}

#[test]
fn objects_have_their_properties() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 5 },
            "age": { "type": "integer", "minimum": 3, "maximum": 120 },
            "tags": { "type": "array", "items": { "enum": ["a", "b", 3] }, "minItems": 1, "maxItems": 3 },
            "more": { "anyOf": [{ "type": "null" }, { "type": "boolean" }, { "$ref": "#/$defs/point" }] },
        },
        "required": ["name", "age", "more"],
        "additionalProperties": false,
        "$defs": {
            "point": {
                "type": "object",
                "properties": { "x": { "type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.25 } },
                "required": ["x"],
                "additionalProperties": false,
            },
        },
    });
    all(&Grammar::json_schema(&schema).unwrap(), |text| {
        let value = value(text);
        let fields = value.as_object().unwrap();
        let known = fields.keys().all(|name| ["name", "age", "tags", "more"].contains(&name.as_str()));
        let tag = |tag: &Value| [json!("a"), json!("b"), json!(3)].contains(tag);
        let tags =
            |tags: &Value| tags.as_array().is_some_and(|all| (1..=3).contains(&all.len()) && all.iter().all(tag));
        let more = &value["more"];
        let point = |point: &serde_json::Map<String, Value>| {
            point.len() == 1
                && point["x"].as_f64().is_some_and(|x| (0.0..=1.0).contains(&x) && (x * 4.0).fract() == 0.0)
        };
        known
            && letters(&value["name"], 5)
            && value["age"].as_i64().is_some_and(|age| (3..=120).contains(&age))
            && fields.get("tags").is_none_or(tags)
            && fields.contains_key("more")
            && (more.is_null() || more.is_boolean() || more.as_object().is_some_and(point))
    });
}

#[test]
fn dates_are_days_and_patterns_hold() {
    let schema = json!({
        "type": "array",
        "prefixItems": [{ "type": "string", "format": "date" }, { "type": "string", "pattern": "^[a-c]{2,4}$" }],
        "items": false,
        "minItems": 2,
    });
    all(&Grammar::json_schema(&schema).unwrap(), |text| {
        let value = value(text);
        let date: Vec<u32> = value[0].as_str().unwrap().split('-').map(|part| part.parse().unwrap()).collect();
        let [year, month, day] = date[..] else { return false };
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let word = value[1].as_str().unwrap();
        (1..=days[month as usize - 1]).contains(&day)
            && (2..=4).contains(&word.len())
            && word.chars().all(|c| ('a'..='c').contains(&c))
    });
}

#[test]
fn texts_follow_regular_expressions() {
    let shape = |text: &str| {
        let Some((word, rest)) = text.strip_suffix('.').and_then(|text| text.split_once(", because")) else {
            return false;
        };
        let words: Vec<&str> = rest.split(' ').skip(1).collect();
        let is_word = |word: &&str| (2..=5).contains(&word.len()) && word.chars().all(|c| c.is_ascii_lowercase());
        ["yes", "no"].contains(&word) && (1..=3).contains(&words.len()) && words.iter().all(is_word)
    };
    all(&Grammar::regex(r"(yes|no), because( [a-z]{2,5}){1,3}\.").unwrap(), shape);
    all(&Grammar::gbnf("root ::= (\"yes\" | \"no\") \", because\" (\" \" [a-z]{2,5}){1,3} \".\"").unwrap(), shape);
    all(
        &Grammar::lark("start: (\"yes\" | \"no\") \", because\" word{1,3} \".\"\nword: \" \" /[a-z]{2,5}/").unwrap(),
        shape,
    );
    // A space at the beginning is part of the text, and where one is dropped another has to come.
    for grammar in [Grammar::regex(" [ab]{3}").unwrap(), Grammar::gbnf("root ::= \" \" [ab]{3}").unwrap()] {
        all(&grammar, |text| text.len() == 4 && text.starts_with(' ') && text[1..].chars().all(|c| "ab".contains(c)));
    }
}

#[test]
fn letters_of_several_bytes_come_whole() {
    let shape =
        |text: &str| (2..=4).contains(&text.chars().count()) && text.chars().all(|c| ('ぁ'..='ゟ').contains(&c));
    all(&Grammar::gbnf("root ::= [ぁ-ゟ]{2,4}").unwrap(), shape);
    all(&Grammar::regex("[ぁ-ゟ]{2,4}").unwrap(), shape);
}

#[test]
fn brackets_are_closed() {
    let grammar = Grammar::gbnf("root ::= \"(\" (root | \"x\"){0,2} \")\"").unwrap();
    let mut deepest = 0;
    for seed in 0..20 {
        let (text, reason) = answer(&grammar, "a", seed);
        if reason != StopReason::EndOfText {
            continue;
        }
        let mut depth = 0i32;
        for (at, c) in text.char_indices() {
            depth += match c {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            deepest = deepest.max(depth);
            assert!(depth > 0 || at + 1 == text.len(), "{text:?}");
        }
        assert_eq!(depth, 0, "{text:?}");
    }
    assert!(deepest > 1);
}
