//! What chat templates can count on, with templates made here. Expectations: Jinja2 3.1.6, set up as Hugging Face does.

use candor_tokenizer::{ChatContext, ChatTemplate, CivilTime, Error, Message};
use serde_json::json;

fn context() -> ChatContext {
    let extra = json!({
        "list": [3, 1, 2], "none_value": null, "i": 7, "yes": true, "word": "h\u{e9}\u{65e5} <b>'\"",
        "map": {"b": 1, "a": [true, null, 1.5, "x'y"]},
    });
    ChatContext {
        add_generation_prompt: true,
        bos_token: "<s>".to_owned(),
        eos_token: "</s>".to_owned(),
        tools: Some(json!([{"name": "f", "parameters": {}}])),
        extra: extra.as_object().unwrap().clone(),
        now: CivilTime::new(2024, 7, 26, 12, 34, 56),
    }
}

fn render(source: &str) -> Result<String, Error> {
    let messages = [Message::system("Be brief."), Message::user("Hi"), Message::assistant(" Hello ")];
    ChatTemplate::new(source)?.render(&messages, &context())
}

#[test]
fn renders_as_jinja2_does() {
    let cases = [
        (
            "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m['content'] }}{% endfor %}{{ eos_token }}",
            "<s>[system]Be brief.[user]Hi[assistant] Hello </s>",
        ),
        ("{% if add_generation_prompt %}\n  yes\n{% endif %}\nno\n", "  yes\nno"),
        ("   {% if yes %}\na\n   {% endif %}   \nb", "a\n   \nb"),
        ("{{ map }}|{{ none_value }}|{{ yes }}|{{ 4 / 2 }}", "{'b': 1, 'a': [True, None, 1.5, \"x'y\"]}|None|True|2.0"),
        ("{{ map|tojson }}", "{\"b\": 1, \"a\": [true, null, 1.5, \"x'y\"]}"),
        ("{{ list|tojson(indent=2) }}{{ []|tojson(indent=2) }}", "[\n  3,\n  1,\n  2\n][]"),
        ("{{ map|tojson(separators=(',', ':'), sort_keys=true) }}", "{\"a\":[true,null,1.5,\"x'y\"],\"b\":1}"),
        (
            "{{ word|tojson }}{{ word|tojson(ensure_ascii=true) }}",
            "\"h\u{e9}\u{65e5} <b>'\\\"\"\"h\\u00e9\\u65e5 <b>'\\\"\"",
        ),
        ("{{ word }}", "h\u{e9}\u{65e5} <b>'\""),
        ("{{ nothing }}{{ nothing|length }}{{ nothing|default('x') }}{{ map.zzz }}", "0x"),
        (
            "{{ nothing is defined }}{{ none_value is none }}{{ yes is sameas true }}{{ 'a' is sequence }}",
            "FalseTrueTrueTrue",
        ),
        ("{{ list[1:] }}{{ list[::-1] }}{{ word[1:3] }}", "[1, 2][2, 1, 3]\u{e9}\u{65e5}"),
        (
            "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}",
            "32",
        ),
        ("{% set ns = namespace(n=0) %}{% for x in list %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}", "6"),
        (
            "{{ 'a b c'.split()|join('-') }}{{ ' x '.strip() }}{{ 'abc'.startswith('a') }}{{ 'ab'.replace('b', 'c') }}",
            "a-b-cxTrueac",
        ),
        (
            "{{ 'xab'.removeprefix('x') }}{{ 'abx'.removesuffix('x') }}{{ 'a b c'.rsplit(' ', 1) }}{{ 'h\u{e9}l'.index('l') }}",
            "abab['a b', 'c']2",
        ),
        ("{{ 'a=b=c'.partition('=') }}{{ 'abc'.rpartition('=') }}", "('a', '=', 'b=c')('', '', 'abc')"),
        ("{{ strftime_now('%d %b %Y') }}", "26 Jul 2024"),
        ("a{% generation %}b{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}", "ab1"),
        ("{{ tools[0].name }}{{ tools|length }}", "f1"),
        (
            "{{ tools|map(attribute='name') is iterable }}{% if [] | map('upper') %}y{% endif %}{% set g = list|select %}{{ g|list }}{{ g|list }}",
            "Truey[3, 1, 2][]",
        ),
        ("{% for x in list|map('string') %}{{ loop.length }}{{ loop.last }}{% endfor %}", "3False3False3True"),
        (
            "{{ none_value is iterable }}{{ list[1:] is sequence }}{{ list[1:]|tojson }}{{ (list + [4])|tojson }}",
            "FalseTrue[1, 2][3, 1, 2, 4]",
        ),
        ("{{ [][::-1] }}{{ ''[::-1] }}{{ list[::-2] }}{{ word[2:0:-1] }}", "[][2, 3]\u{65e5}\u{e9}"),
        ("{{ 1e22 }}{{ {'x': [1.5e-7, 2.0]} }}{{ 1e-5|string }}", "1e+22{'x': [1.5e-07, 2.0]}1e-05"),
        ("{{ 'a\nb\n'|indent }}|{{ 'a\r\n\u{85}b'|indent('> ', true, true) }}", "a\n    b\n|> a\n> \n> b"),
        (
            "{{ '\x1f a\u{3000}'.strip() }}{{ 'a\x0cb'.splitlines() }}{{ 'a\r\nb\n'.splitlines(true) }}",
            "a['a', 'b']['a\\n', 'b\\n']",
        ),
        (
            "{{ '<b>'|safe + '<i>' ~ 1 + '\"' }}{{ '<' + '&'|e }}{{ ('<'|e ~ '<') + '<' }}",
            "<b>&lt;i&gt;1&#34;&lt;&amp;&lt;<<",
        ),
        ("{% macro m(x, y=2) %}{{ x }}{{ y }}{{ i }}{% endmacro %}{{ m(1) }}", "127"),
    ];
    for (source, expected) in cases {
        assert_eq!(render(source).unwrap_or_else(|error| panic!("{source}: {error}")), expected, "{source}");
    }
}

#[test]
fn refuses_as_jinja2_does() {
    let cases = [
        ("\n\n{{ raise_exception('Roles must alternate') }}", "chat template line 3: Roles must alternate"),
        ("{{ nothing.x }}", "line 1"),
        ("{{ 'a' + 1 }}", "line 1"),
        ("{{ 'a' + none_value }}", "line 1"),
        ("{{ nothing|tojson }}", "tojson"),
        ("{{ 'a'.explode() }}", "explode"),
        ("{{ 'a'|explode }}", "chat template line 1: filter explode is unknown"),
        ("{{ 'a' is explosive }}", "chat template line 1: test explosive is unknown"),
        ("{{ raise_exception('Two\\nlines') }}", "chat template line 1: Two lines"),
        ("{{ 'a'.partition('') }}", "empty separator"),
        ("{% for x in none_value %}{% endfor %}", "none is not iterable"),
        ("{{ list|map('string')|tojson }}", "tojson"),
        ("{{ list|select|length }}", "length"),
        ("{{ list[::0] }}", "zero"),
        ("{{ none_value[::-1] }}", "sliced"),
        ("{{ strftime_now('%Q') }}", "%Q"),
    ];
    for (source, words) in cases {
        let error = render(source).expect_err(source).to_string();
        assert!(error.contains(words), "{source}: {error}");
    }
}

#[test]
fn a_template_s_work_has_a_limit() {
    let source = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    let error = render(source).expect_err(source).to_string();
    assert!(error.starts_with("chat template line 1: engine ran out of fuel"), "{error}");
}

proptest::proptest! {
    /// Pieces of Jinja in any order are refused or rendered.
    #[test]
    fn odd_templates_do_not_panic(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "{% for x in list %}", "{% for x in", " list if x recursive %}", "{% endfor %}", "{{ ", " }}", "{%- ", " -%}", "list", "[::-1]", "[9:", "0:-2]", "(", ")", "[", "]",
            "{", "}", "'a\\'", "\"", " + ", "|safe", "|e", "|indent", "|trim", "|map('x')", ".strip()", ".splitlines()", "none", "word", "map", " if ", " else ", " is ", " not ", " in ",
            "{% raw %}", "{% endraw %}", "{% generation %}", "{% endgeneration %}", "{#", "#}", "\n", ":", ",", "-", "1", "é", "{% set x = ", "|tojson(indent=", "~",
        ]), 0..24),
    ) {
        let _ = render(&pieces.concat());
    }
}

#[test]
fn a_template_that_cannot_be_parsed_has_a_line() {
    let cases = [
        ("a\n{% if x %}\nb\n", 4),
        ("a\nb{{ x", 2),
        ("{% generation %}\n\n{% endfor %}", 3),
        ("\n{{ 1 + }}", 2),
        ("{% frobnicate %}", 1),
    ];
    for (source, expected) in cases {
        match ChatTemplate::new(source) {
            Err(Error::TemplateSyntax { line, message }) => {
                assert!(!message.is_empty());
                assert!(line.abs_diff(expected) <= 1, "{source:?}: line {line}, not {expected}: {message}");
            }
            other => panic!("{source:?}: {other:?}"),
        }
    }
}

#[test]
fn variables_are_optional_and_messages_hold_anything() {
    let template = ChatTemplate::new("{{ tools is defined }}{{ messages[0].tool_calls[0].id }}{{ thinking }}").unwrap();
    let message: Message =
        serde_json::from_value(json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1"}]})).unwrap();
    assert_eq!((message.role(), message.text()), ("assistant", None));
    assert_eq!(template.render(&[message], &ChatContext::default()).unwrap(), "Falsec1");
    assert_eq!(template.source(), "{{ tools is defined }}{{ messages[0].tool_calls[0].id }}{{ thinking }}");
    let now = ChatTemplate::new("{{ strftime_now('%Y') }}").unwrap().render(&[], &ChatContext::default()).unwrap();
    assert!(now.parse::<u32>().unwrap() >= 2024, "{now}");
}
