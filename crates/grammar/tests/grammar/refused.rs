//! What is refused, and how it is called.

use candor::sampler::LogitsProcessor;
use candor_grammar::{Error, Grammar};
use serde_json::json;

use crate::reader::{bytes, tiny, vocabulary};

#[test]
fn keywords_that_are_not_served_are_named() {
    for (schema, name) in [
        (json!({ "not": { "type": "string" } }), "not"),
        (json!({ "if": {}, "then": {} }), "if"),
        (json!({ "type": "array", "uniqueItems": true }), "uniqueItems"),
        (json!({ "type": "array", "contains": {} }), "contains"),
        (json!({ "dependentRequired": {} }), "dependentRequired"),
        (json!({ "propertyNames": {} }), "propertyNames"),
        (json!({ "properties": { "a": { "unevaluatedProperties": false } } }), "unevaluatedProperties"),
        (json!({ "nullable": true }), "nullable"),
        (json!({ "properties": { "a": { "x-order": 1 } } }), "x-order"),
        (json!({ "items": { "contentEncoding": "base64" } }), "contentEncoding"),
        (json!({ "type": "string", "format": "hostname" }), "hostname"),
        (json!({ "items": { "anyOf": [{ "format": "hostname" }] } }), "hostname"),
        (json!({ "type": "string", "format": "color" }), "color"),
        (json!({ "$ref": "https://example.com/schema" }), "example.com"),
        (json!({ "x-guidance": { "lenient": true }, "not": {} }), "x-guidance"),
        (json!({ "oneOf": [{ "minimum": 1 }, { "maximum": 5 }] }), "oneOf"),
        (json!({ "type": "text" }), "text"),
        (json!(false), "false"),
        (json!(3), "object or boolean"),
    ] {
        match Grammar::json_schema(&schema) {
            Err(Error::Schema(what)) => assert!(what.contains(name) && !what.contains('\n'), "{schema}: {what}"),
            other => panic!("{schema}: {other:?}"),
        }
    }
}

#[test]
fn other_grammars_say_what_is_wrong() {
    assert!(matches!(Grammar::regex("a("), Err(Error::Regex(_))));
    assert!(matches!(Grammar::regex("(?=a)"), Err(Error::Regex(_))));
    assert!(matches!(Grammar::lark("start: b"), Err(Error::Lark(_))));
    assert!(matches!(Grammar::lark(""), Err(Error::Lark(_))));
    assert!(matches!(Grammar::gbnf(""), Err(Error::Gbnf { .. })));
    assert_eq!(
        Grammar::gbnf("root ::= \"a").unwrap_err().to_string(),
        "grammar: line 1: expected the end of the text, \", got the end"
    );
}

/// A sampler that does not heed the mask ends the answer with an error, and no text of another shape goes on.
#[test]
fn a_token_that_is_not_allowed_is_an_error() {
    let [a, b] = [bytes(b"a")[0], bytes(b"b")[0]];
    for grammar in [Grammar::gbnf("root ::= \"a\" \"a\"").unwrap(), Grammar::regex("aa").unwrap()] {
        let mut mask = grammar.mask(vocabulary()).unwrap();
        let mut logits = vec![0.0; tiny().tokenizer().vocab_size()];
        mask.process(&[a], &mut logits);
        assert!(mask.failure().is_none());
        mask.process(&[a, b], &mut logits);
        assert!(mask.failure().is_some_and(|failure| failure.to_string().contains("does not allow")));
    }
}
