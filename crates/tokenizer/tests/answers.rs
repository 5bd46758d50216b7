//! Answers taken apart: for every template of the fixtures, its own rendering of reasoning and tool calls is read back, at
//! once and split at every character.

use candor_tokenizer::{AnswerFormat, ChatContext, ChatTemplate, CivilTime, Error, Message, Part, ToolCall};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};

const QUESTION: &str = "What is the weather?";

/// Adjacent texts of one kind joined.
fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    for part in parts {
        match (all.last_mut(), part) {
            (Some(Part::Content(said)), Part::Content(more)) => said.push_str(&more),
            (Some(Part::Reasoning(said)), Part::Reasoning(more)) => said.push_str(&more),
            (_, part) => all.push(part),
        }
    }
    all
}

/// The parts of an answer, the same however it is split.
fn parse(format: &AnswerFormat, prompt: &str, tools: Option<&Value>, answer: &str) -> Vec<Part> {
    let read = |pieces: &[&str]| {
        let mut parser = format.parser(prompt, tools);
        let mut parts: Vec<Part> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        parts.extend(parser.finish());
        joined(parts)
    };
    let whole = read(&[answer]);
    for (cut, _) in answer.char_indices() {
        assert_eq!(read(&[&answer[..cut], &answer[cut..]]), whole, "cut at {cut}: {answer:?}");
    }
    let single: Vec<String> = answer.chars().map(String::from).collect();
    assert_eq!(read(&single.iter().map(String::as_str).collect::<Vec<_>>()), whole, "{answer:?}");
    whole
}

/// Tools with a plain parameter or two, and with more besides.
fn tools(more: Option<Value>) -> Value {
    let mut properties = json!({"city": {"type": "string", "description": "The city"},
        "days": {"type": "integer", "description": "How many days"}});
    properties.as_object_mut().unwrap().extend(more.and_then(|more| more.as_object().cloned()).unwrap_or_default());
    let tool = |name: &str| {
        let parameters = json!({"type": "object", "properties": properties, "required": ["city"]});
        json!({"type": "function", "function": {"name": name, "description": "It", "parameters": parameters}})
    };
    json!([tool("get_weather"), tool("now")])
}

fn odd_tools() -> Value {
    let text = json!({"type": "string", "description": "A text"});
    tools(Some(json!({"note": text, "deep": {"type": "object", "description": "More"},
        "list": {"type": "array", "description": "Some"}})))
}

fn source(path: &Path) -> String {
    if path.extension().is_some_and(|extension| extension == "json") {
        return candor_testing::json(path)["chat_template"].as_str().unwrap().to_owned();
    }
    std::fs::read_to_string(path).unwrap()
}

/// All templates by name.
fn templates(fixtures: &Path) -> BTreeMap<String, ChatTemplate> {
    let folder = fixtures.join("templates");
    let mut all = BTreeMap::new();
    for place in ["", "mistralrs", "ollama"] {
        for entry in std::fs::read_dir(folder.join(place)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
                all.insert(name, ChatTemplate::new(&source(&path)).unwrap());
            }
        }
    }
    all
}

/// A conversation in which the model thinks and calls tools.
struct Scene {
    tools: Value,
    arguments: Vec<Value>,
    reasoning: Option<&'static str>,
}

impl Scene {
    fn calls(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        ["get_weather", "now"].into_iter().zip(&self.arguments)
    }

    fn context(&self, add_generation_prompt: bool) -> ChatContext {
        let extra = json!({"enable_thinking": true, "thinking": true, "preserve_thinking": true});
        ChatContext {
            add_generation_prompt,
            tools: Some(self.tools.clone()),
            now: CivilTime::new(2024, 7, 26, 12, 34, 56),
            extra: extra.as_object().unwrap().clone(),
            ..ChatContext::default()
        }
    }

    /// The prompt, and what the model answers to it, as the template has both. `None` where it does not write such calls.
    fn render(&self, template: &ChatTemplate, format: &AnswerFormat) -> Option<(String, String)> {
        let call = |(name, arguments): (&str, &Value)| call(name, arguments.clone(), None);
        let parts: Vec<Part> = self.reasoning.map(reasoning).into_iter().chain(self.calls().map(call)).collect();
        let prompt = template.render(&[Message::user(QUESTION)], &self.context(true)).ok()?;
        let whole = [Message::user(QUESTION), format.message(&parts)];
        let whole = template.render(&whole, &self.context(false)).ok()?;
        let answer = whole[same_start(&prompt, &whole)..].to_owned();
        answer.contains("Bern").then_some((prompt, answer))
    }
}

/// Where two texts part, not within a mark.
fn same_start(prompt: &str, whole: &str) -> usize {
    let same = prompt.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
    let same = (0..=same).rev().find(|at| whole.is_char_boundary(*at)).unwrap();
    let mark = whole[..same].rfind(['<', '[']).filter(|at| !whole[*at..same].contains(['>', ']', '\n']));
    mark.unwrap_or(same)
}

/// An answer without what ends the model's turn.
fn turn<'t>(way: &str, answer: &'t str) -> &'t str {
    const ENDS: [&str; 19] = [
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|call|>",
        "<|calls|>",
        "<seed:eos>",
        "<|message_sep|>",
        "[e~[",
        "<|end_of_text|>",
        "<end_of_sentence>",
        "<turn|>",
        "<|tool_response>",
        "<SPECIAL_12>",
        "<sep>",
        "<｜end▁of▁sentence｜>",
        "<|role_end|>",
        "</assistant>",
        "<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|>",
    ];
    // One template repeats the question.
    let answer = answer.split_once("[/INST]").map_or(answer, |(_, answer)| answer);
    let answer = answer.strip_prefix("<|CHATBOT_TOKEN|>").unwrap_or(answer);
    let end = ENDS.iter().filter_map(|end| answer.find(end)).min().unwrap_or(answer.len());
    let end = if way == "tool-calls" { answer.find("\n<|end|>").unwrap_or(end) } else { end };
    &answer[..end]
}

/// What a template does about tools: its way, or how the refusal begins.
fn way(template: &ChatTemplate) -> String {
    match template.answer_format().tools() {
        Ok(way) => way.to_owned(),
        Err(error) => error.to_string().split(['(', ';']).next().unwrap().trim().to_owned(),
    }
}

#[test]
fn every_template_s_way_is_found() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let found: BTreeMap<String, String> =
        templates(&fixtures).iter().map(|(name, template)| (name.clone(), way(template))).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/chat_ways.json");
    let expected: BTreeMap<String, String> = serde_json::from_value(candor_testing::json(&path)).unwrap();
    for (name, way) in &found {
        assert_eq!(Some(way), expected.get(name), "{name}");
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn what_templates_write_is_read_back() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let plain = json!({"city": "Bern", "days": 3});
    let odd = json!({"city": "Bern, Z\u{fc}rich <b> \"x\" 'y' \\ {}[], </param", "days": 3, "note": "two\nlines: 42",
        "deep": {"a": [1, 2.5, null, true, "x\"y"], "b": {}}, "list": []});
    let mut shallow = odd.clone();
    shallow["deep"] = json!({});
    let scene = |tools: Value, arguments: &[&Value], reasoning: Option<&'static str>| Scene {
        tools,
        arguments: arguments.iter().map(|arguments| (*arguments).clone()).collect(),
        reasoning,
    };
    let scenes = [
        scene(tools(None), &[&plain], None),
        scene(odd_tools(), &[&odd], None),
        scene(odd_tools(), &[&shallow], None),
        scene(tools(None), &[&plain, &json!({})], None),
        scene(tools(None), &[&plain], Some("Think\nof it.")),
        scene(odd_tools(), &[&shallow, &plain], Some("Think <b> of {it}.")),
    ];
    let (mut read, mut thought, mut ways) = (0, 0, BTreeMap::<String, usize>::new());
    for (name, template) in templates(&fixtures) {
        let format = template.answer_format();
        let Ok(way) = format.tools() else { continue };
        for scene in &scenes {
            let Some((prompt, answer)) = scene.render(&template, &format) else { continue };
            let mut answer = turn(way, &answer).to_owned();
            // Some templates print nested values as Python does, which is no way to write them.
            if answer.contains("'a': [1, 2.5, None") {
                continue;
            }
            // Some leave out what the model thought, which a model cannot if the prompt has begun it.
            let rendered = scene.reasoning.filter(|reasoning| answer.contains(reasoning));
            for mark in ["<think>", "[THINK]", "Here are my reasoning steps:"] {
                let ends = ["</think>", "[/THINK]", "[BEGIN FINAL RESPONSE]"];
                if prompt.trim_end().ends_with(mark) && !ends.iter().any(|end| answer.contains(end)) {
                    let end = ends[["<think>", "[THINK]"].iter().position(|m| *m == mark).unwrap_or(2)];
                    answer = format!("{end}\n\n{}", answer.trim_start());
                }
            }
            let parts = parse(&format, &prompt, Some(&scene.tools), &answer);
            // Some write the first call only.
            let calls = scene.calls().filter(|(tool, _)| *tool == "get_weather" || answer.contains(tool));
            let expected: Vec<(&str, &Value)> = calls.collect();
            let got = parts.iter().filter_map(|part| match part {
                Part::Call(ToolCall { name, arguments, .. }) => Some((name.clone(), Value::Object(arguments.clone()))),
                _ => None,
            });
            let got: Vec<(String, Value)> = got.collect();
            let got: Vec<(&str, &Value)> = got.iter().map(|(name, value)| (name.as_str(), value)).collect();
            assert_eq!(got, expected, "{name} ({way}): {answer:?} after {prompt:?}");
            let texts: Vec<&Part> = parts.iter().filter(|part| !matches!(part, Part::Call(_))).collect();
            let reasoning = rendered.map(|reasoning| Part::Reasoning(reasoning.to_owned()));
            assert_eq!(texts, reasoning.iter().collect::<Vec<_>>(), "{name} ({way}): {answer:?} after {prompt:?}");
            read += 1;
            thought += usize::from(rendered.is_some());
            *ways.entry(way.to_owned()).or_default() += 1;
        }
    }
    println!("{read} answers read back, {thought} with reasoning: {ways:?}");
    assert!(read >= 250 && thought >= 50 && ways.len() >= 20, "{read} {thought} {ways:?}");
}

fn content(text: &str) -> Part {
    Part::Content(text.to_owned())
}

fn reasoning(text: &str) -> Part {
    Part::Reasoning(text.to_owned())
}

fn call(name: &str, arguments: Value, id: Option<&str>) -> Part {
    let arguments = arguments.as_object().unwrap().clone();
    Part::Call(ToolCall { name: name.to_owned(), arguments, id: id.map(str::to_owned) })
}

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
fn ids_and_types_are_the_model_s() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let templates = templates(&fixtures);
    let tools = odd_tools();
    let read = |name: &str, answer: &str| parse(&templates[name].answer_format(), "", Some(&tools), answer);
    let weather = |arguments: Value, id: Option<&str>| vec![call("get_weather", arguments, id)];
    let cases = [
        (
            "moonshotai-Kimi-K2.jinja",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\":\"Bern\"}<|tool_call_end|><|tool_calls_section_end|>",
            weather(json!({"city": "Bern"}), Some("functions.get_weather:0")),
        ),
        (
            "Mistral-Small-3.2-24B-Instruct-2506.jinja",
            "[TOOL_CALLS]get_weather[CALL_ID]abcDEF123[ARGS]{\"city\": \"Bern\"}",
            weather(json!({"city": "Bern"}), Some("abcDEF123")),
        ),
        (
            "mistralai-Mistral-Nemo-Instruct-2407.jinja",
            "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"days\": 1}, \"id\": \"abcDEF123\"}]",
            weather(json!({"days": 1}), Some("abcDEF123")),
        ),
        (
            "meta-llama-Llama-3.1-8B-Instruct.jinja",
            " {\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {\"city\": \"Bern\"}} ",
            weather(json!({"city": "Bern"}), None),
        ),
        (
            "meta-llama-Llama-3.1-8B-Instruct.jinja",
            "{\"city\": \"Bern\"} is {\"JSON\"}",
            vec![content("{\"city\": \"Bern\"} is {\"JSON\"}")],
        ),
        ("meta-llama-Llama-3.1-8B-Instruct.jinja", "Use {\"a\": 1}", vec![content("Use {\"a\": 1}")]),
        // 42 is text where the schema says text, and where it says nothing.
        (
            "Qwen3-Coder.jinja",
            "<tool_call>\n<function=get_weather>\n<parameter=city>\n42\n</parameter>\n<parameter=days>\n42\n</parameter>\n<parameter=other>\n42\n</parameter>\n<parameter=note>\n\n</parameter>\n\n</parameter>\n</function>\n</tool_call>",
            weather(json!({"city": "42", "days": 42, "other": "42", "note": "\n</parameter>\n"}), None),
        ),
        (
            "deepseek-ai-DeepSeek-V4.jinja",
            "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"false\">42</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
            weather(json!({"city": 42}), None),
        ),
        (
            "google-gemma-4-31B-it.jinja",
            "Well <|tool_call>call:get_weather{deep:{a:[1,<|\"|>x,}<|\"|>,[]],b:None},city:<|\"|><|\"|>}<tool_call|>",
            vec![
                content("Well"),
                call("get_weather", json!({"deep": {"a": [1, "x,}", []], "b": null}, "city": ""}), None),
            ],
        ),
        (
            "openai-gpt-oss-120b.jinja",
            "<|channel|>analysis<|message|>Hm <b>.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Bern\"}<|call|>",
            vec![reasoning("Hm <b>."), content("I look."), call("get_weather", json!({"city": "Bern"}), None)],
        ),
        (
            "openai-gpt-oss-120b.jinja",
            "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Hello <|",
            vec![reasoning("Hm"), content("Hello <|")],
        ),
        ("openai-gpt-oss-120b.jinja", "No header <|end|> at all", vec![content("No header <|end|> at all")]),
        (
            "CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja",
            "<|START_THINKING|>Hm<|END_THINKING|><|START_RESPONSE|>Hello<|END_RESPONSE|>",
            vec![reasoning("Hm"), content("Hello")],
        ),
        (
            "upstage-Solar-Open-100B.jinja",
            "<|think|>Hm<|end|><|begin|>assistant<|content|>Hello<|end|>",
            vec![reasoning("Hm"), content("Hello")],
        ),
        (
            "google-gemma-2-2b-it.jinja",
            "<tool_call>{\"name\": \"now\"}</tool_call>",
            vec![content("<tool_call>{\"name\": \"now\"}</tool_call>")],
        ),
    ];
    for (name, answer, expected) in cases {
        assert_eq!(read(name, answer), expected, "{name}: {answer:?}");
    }
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

#[test]
fn messages_take_the_shape_that_a_template_wants() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let templates = templates(&fixtures);
    let parts = [
        content("a"),
        reasoning("b"),
        content("c"),
        call("now", json!({"x": 1}), Some("id1")),
        call("now", json!({}), None),
    ];
    let message =
        |name: &str, parts: &[Part]| serde_json::to_value(templates[name].answer_format().message(parts)).unwrap();
    let usual = message("Qwen-Qwen3-0.6B.jinja", &parts);
    assert_eq!(
        (&usual["role"], &usual["content"], &usual["reasoning_content"]),
        (&json!("assistant"), &json!("ac"), &json!("b"))
    );
    assert_eq!(
        usual["tool_calls"][0],
        json!({"id": "id1", "type": "function", "function": {"name": "now", "arguments": {"x": 1}}})
    );
    assert_eq!(usual["tool_calls"][1]["id"], "call00001");
    let distilled = message("deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja", &parts[3..]);
    assert_eq!(
        (&distilled["content"], &distilled["tool_calls"][0]["function"]["arguments"]),
        (&Value::Null, &json!("{\"x\":1}"))
    );
    assert_eq!(message("google-gemma-2-2b-it.jinja", &[content("a")]), json!({"role": "assistant", "content": "a"}));
    for (name, tells) in [
        ("Qwen-Qwen3-0.6B.jinja", true),
        ("deepseek-ai-DeepSeek-V3.1.jinja", false),
        ("openai-gpt-oss-120b.jinja", true),
    ] {
        assert_eq!(templates[name].answer_format().tells_of_tools(), tells, "{name}");
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
