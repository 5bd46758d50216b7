//! Texts made here: what is a call and what is not, what comes when, what is refused.

use candor_tokenizer::{ChatTemplate, Error, Part};
use serde_json::json;

use super::parts::{call, content, parse, reasoning, tools};

/// A template that writes calls as Qwen3's does, with reasoning.
const HERMES: &str = "{{ tools|tojson }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}\
    <tool_call>\n{{ {'name': c.function.name, 'arguments': c.function.arguments}|tojson }}\n</tool_call>{% endfor %}\
    {% endfor %}{% if '</think>' in x %}{% endif %}";

#[test]
fn what_is_no_call_is_content() {
    let format = ChatTemplate::new(HERMES).unwrap().answer_format();
    assert_eq!((format.tools().unwrap(), format.has_reasoning()), ("hermes", true));
    let tools = tools(None);
    let good = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let now = || call("now", json!({}), None);
    let inside = "<tool_call>{\"name\": \"now\", \"arguments\": {\"x\": \"</tool_call> <tool_call>\"}}</tool_call>";
    let cases = [
        (String::new(), vec![]),
        (" Hello <b> <tool <think>x</think> \n".to_owned(), vec![content(" Hello <b> <tool <think>x</think> \n")]),
        (format!("I look.\n\n{good}\n{good}\n"), vec![content("I look."), now(), now()]),
        (format!("{good}\n\nDone. "), vec![now(), content("\n\nDone. ")]),
        (
            format!("<think>\na <tool_call> b\n</think>\n\nc {good}"),
            vec![reasoning("a <tool_call> b"), content("c"), now()],
        ),
        ("\n<think></think>Hi".to_owned(), vec![content("Hi")]),
        ("<think>never ends ".to_owned(), vec![reasoning("never ends")]),
        (inside.to_owned(), vec![call("now", json!({"x": "</tool_call> <tool_call>"}), None)]),
        // Broken off, not JSON, no name, arguments that are no object: the text as it is.
        ("a <tool_call>{\"name\": \"n".to_owned(), vec![content("a <tool_call>{\"name\": \"n")]),
        ("<tool_call>now()</tool_call>".to_owned(), vec![content("<tool_call>now()</tool_call>")]),
        (
            "<tool_call>{\"arguments\": {}}</tool_call> x".to_owned(),
            vec![content("<tool_call>{\"arguments\": {}}</tool_call> x")],
        ),
        (
            "<tool_call>{\"name\": \"now\", \"arguments\": 3}".to_owned(),
            vec![content("<tool_call>{\"name\": \"now\", \"arguments\": 3}")],
        ),
        // The end of the answer ends a call that is whole.
        ("<tool_call>{\"name\": \"now\"}".to_owned(), vec![now()]),
    ];
    for (answer, expected) in cases {
        assert_eq!(parse(&format, "", Some(&tools), &answer), expected, "{answer:?}");
    }
    // Nothing was offered, so nothing is called.
    assert_eq!(parse(&format, "", None, good), [content(good)]);
    assert_eq!(parse(&format, "", Some(&json!([])), good), [content(good)]);
    // The prompt says whether the model is thinking.
    assert_eq!(parse(&format, "<|a|><think>\n", None, "\nx\n</think>\ny"), [reasoning("x"), content("y")]);
    assert_eq!(parse(&format, "<|a|><think>\n", None, "<think>\nx</think>y"), [reasoning("x"), content("y")]);
    assert_eq!(parse(&format, "<think>\n\n</think>\n\n", None, "x</think>y"), [content("x</think>y")]);
}

#[test]
fn pieces_come_as_soon_as_they_are_certain() {
    let format = ChatTemplate::new(HERMES).unwrap().answer_format();
    let mut parser = format.parser("", Some(&tools(None)));
    assert_eq!(parser.push("<thi"), []);
    assert_eq!(parser.push("nk>a"), [reasoning("a")]);
    assert_eq!(parser.push("b\n</"), [reasoning("b")]);
    assert_eq!(parser.push("think>\n\n"), []);
    assert_eq!(parser.push("Hello,"), [content("Hello,")]);
    assert_eq!(parser.push(" you \n<"), [content(" you")]);
    assert_eq!(parser.push("b>"), [content(" \n<b>")]);
    assert_eq!(parser.push("<tool_call>{\"name\": \"now\"}</tool_call"), []);
    assert_eq!(parser.push(">"), [call("now", json!({}), None)]);
    assert_eq!(parser.finish(), []);
}

#[test]
fn phi_4_s_template_has_a_place_for_tools() {
    let source = "{% for m in messages %}{% if m.role == 'system' and m.tools %}<|system|>{{ m.content }}<|tool|>{{ m.tools }}\
        <|/tool|><|end|>{% else %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}{% endfor %}";
    let format = ChatTemplate::new(source).unwrap().answer_format();
    assert_eq!(format.tools().unwrap(), "phi-4");
    let answer = "<|tool_call|>[{\"type\": \"function\", \"function\": {\"name\": \"now\", \"arguments\": {\"a\": 1}}}]<|/tool_call|>";
    assert_eq!(parse(&format, "", Some(&tools(None)), answer), [call("now", json!({"a": 1}), None)]);
}

#[test]
fn tools_that_cannot_be_offered_are_refused_in_a_line() {
    let unknown = "{{ tools|tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}\
        @@{{ c.function.name }}@@{{ c.function.arguments.city }}{% endfor %}{% endfor %}";
    let cases = [
        (
            unknown,
            "chat template: tools: it calls them in a way that is not known (\"<assistant>@@get_weather@@Bern\"; known are hermes, ",
        ),
        (
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            "chat template: tools: it does not tell the model of any",
        ),
        ("{{ tools|tojson }}", "chat template: tools: it does not show how the model calls them (known are hermes, "),
        (
            "{% if tools %}{{ raise_exception('no tools') }}{% endif %}",
            "chat template: tools: it fails where a tool is given (chat template line 1: no tools)",
        ),
    ];
    for (source, expected) in cases {
        let format = ChatTemplate::new(source).unwrap().answer_format();
        match format.tools() {
            Err(error @ Error::Tools { .. }) => {
                let message = error.to_string();
                assert!(message.starts_with(expected) && !message.contains('\n'), "{message}");
            }
            other => panic!("{source}: {other:?}"),
        }
        let answer = "<tool_call>{\"name\": \"now\"}</tool_call> <think>x</think>";
        assert_eq!(parse(&format, "", Some(&tools(None)), answer), [content(answer)]);
    }
}

proptest::proptest! {
    /// Whatever comes, nothing is lost or made up where nothing is marked, and nothing panics where everything is.
    #[test]
    fn any_text_is_split_alike(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "<think>", "</think>", "<tool_call>", "</tool_call>", "{\"name\": \"now\"", ", \"arguments\": {}", "}", "<", "</", "\n", " ", "a", "é",
            "[TOOL_CALLS]", "[ARGS]", "[", "]", "<|channel|>analysis", "<|message|>", "<|end|>", "<|start|>assistant", " to=functions.now", "<function=now>",
            "<parameter=a>", "</parameter>", "</function>", "<|tool_call>", "call:now{", "<|\"|>", "<tool_call|>", ":", ",", "now", "<arg_key>", "</arg_key>",
        ]), 0..24),
        source in proptest::sample::select(vec![
            HERMES,
            "{{ '<|channel|><|message|><|start|>functions.' }}",
            "{{ tools|tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}",
            "{{ tools|tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}{% for k in c.function.arguments %}<arg_key>{{ k }}</arg_key><arg_value>{{ c.function.arguments[k] }}</arg_value>{% endfor %}</tool_call>{% endfor %}{% endfor %}",
            "{{ tools|tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<|tool_call>call:{{ c.function.name }}{city:<|\"|>Bern<|\"|>,days:3}<tool_call|>{% endfor %}{% endfor %}",
        ]),
    ) {
        let format = ChatTemplate::new(source).unwrap().answer_format();
        proptest::prop_assert!(format.tools().is_ok());
        let text = pieces.concat();
        parse(&format, "", Some(&tools(None)), &text);
        let plain = ChatTemplate::new("{{ messages[0].content }}").unwrap().answer_format();
        let parts = parse(&plain, "", Some(&tools(None)), &text);
        let expected: Vec<Part> = Some(content(&text)).into_iter().filter(|_| !text.is_empty()).collect();
        proptest::prop_assert_eq!(parts, expected);
    }
}
