//! Small templates in what Jinja2 has to offer, most of which no template of the fixtures uses: each gives what it gives in
//! Jinja2, is refused in both, or stands in a table here. Expectations: tools/goldens/chat.py.

use candor_tokenizer::{ChatContext, ChatTemplate, CivilTime};
use std::{collections::BTreeSet, path::Path};

/// What is refused here with a line that names it, though Jinja2 has it.
const REFUSED: &[&str] = &[
    "{{ '%s is %d' % ('x', 3) }}",
    "{{ '%s' % 'x' }}",
    "{{ '%c' % 65 }}",
    "{{ +5 }}",
    "{{ 'aBc'.swapcase() }}",
    "{{ 'abc'.startswith('b', 1) }}",
    "{{ 'a\\tb'.expandtabs(4) }}",
    "{{ 'abc'.isidentifier() }}",
    "{{ 'abc'.casefold() }}",
    "{{ 'abc'.translate({}) }}",
    "{{ word.encode('utf-8') }}",
    "{{ map|attr('a') }}",
    "{{ 'a b c'|wordcount }}",
    "{{ 'hello world foo'|truncate(9) }}",
    "{{ 'abc'|center(9) }}",
    "{{ '<b>'|striptags }}",
    "{{ 'a b&c'|urlencode }}",
    "{{ 1000000|filesizeformat }}",
    "{{ word|wordwrap(3) }}",
    "{{ none_value|map('x')|list }}",
    "{{ cycler('a','b').next() }}|{% set j = joiner(',') %}{{ j() }}{{ j() }}",
    "{{ 'a' is in 'abc' }}{{ 1 is eq 1 }}{{ 1 is ne 2 }}{{ 2 is gt 1 }}{{ 'ABC' is upper }}{{ 'abc' is lower }}{{ f is callable }}{{ 'x' is filter }}{{ 'upper' is filter }}",
];

/// What gives something else, and why that is left so.
const DIFFERENT: &[(&str, &str)] = &[
    ("{{ map.items() }}", "Python names the kind of its views; a prompt with that in it is a mistake"),
    ("{{ map.keys() }}", "the same"),
    ("{{ range(3) }}", "the same"),
    ("{{ [{'a':1},{'b':2}]|map(attribute='a')|list }}", "Undefined in a list that is printed: the same"),
    ("{{ 1 in 'abc' }}", "Python refuses; the engine's operators cannot be changed"),
    ("{{ 1 < 'a' }}", "the same"),
    ("{{ [none,1]|sort }}", "the same"),
    ("{{ 1e20 ~ '' }}", "the same: floats from 1e16 or below 1e-4 after ~, and nowhere else"),
    (
        "{% macro f(a, b='x', c=none) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}|{{ f(1, c=2) }}",
        "macros know no varargs and kwargs; a call with more than is named is refused",
    ),
    ("{{ {1:2, none:3, true:4}|tojson }}", "1 and true are one key in Python; JSON has text keys alone"),
    ("{{ '\u{1c6}'.title() }}", "four letters of Unicode have a title case of their own"),
    ("{{ '\u{df}'|capitalize }}", "the same"),
    (r#"{{ "\u00e9\x41\101\N{BULLET}" }}"#, "names of characters in a template's text"),
    ("{{ 'a\\\nb' }}", "a line break after a backslash in a template's text"),
];

#[test]
fn small_templates_give_what_jinja2_gives() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/chat_expressions.json");
    let golden = candor_testing::json(&path);
    let context = ChatContext {
        extra: golden["variables"].as_object().unwrap().clone(),
        now: CivilTime::new(2024, 7, 26, 12, 34, 56),
        ..ChatContext::default()
    };
    let (mut refused, mut different) = (BTreeSet::new(), BTreeSet::new());
    for case in golden["templates"].as_array().unwrap() {
        let source = case[0].as_str().unwrap();
        let got = ChatTemplate::new(source).and_then(|template| template.render(&[], &context));
        match (got, case[1].as_str()) {
            (Ok(got), Some(expected)) if got == expected => {}
            (Err(_), None) => {}
            (Err(error), Some(_)) => {
                println!("{source:?}: {error}");
                refused.insert(source);
            }
            (Ok(got), expected) => {
                println!("{source:?}: expected {expected:?}, got {got:?}");
                different.insert(source);
            }
        }
    }
    assert_eq!(refused, REFUSED.iter().copied().collect());
    assert_eq!(different, DIFFERENT.iter().map(|(source, _)| *source).collect());
}
