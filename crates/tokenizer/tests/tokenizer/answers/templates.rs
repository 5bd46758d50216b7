//! Every template of the fixtures: its own rendering of reasoning and calls is read back.

use candor_tokenizer::{CallPart, ChatTemplate, Part, ToolCall};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};

use super::parts::{call, content, odd_tools, parse, reasoning, tools};
use super::scene::{Scene, templates, turn};

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

/// A call that is put together of a template's parts is one, and nothing is beside it.
#[test]
fn parts_of_calls_make_calls() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let (arguments, mut ways) = (json!({ "note": "</tool_call> {\"x\"}", "deep": { "a": [1] } }), BTreeMap::new());
    for (name, template) in templates(&fixtures) {
        let format = template.answer_format();
        let Some(parts) = format.call_parts() else { continue };
        let way = format.tools().unwrap();
        let put = |part: &CallPart| match part {
            CallPart::Text(text) => text.clone(),
            CallPart::Name => "get_note".to_owned(),
            CallPart::Arguments => arguments.to_string(),
            CallPart::Id(length) => "aZ9".chars().cycle().take(*length).collect(),
        };
        let text: String = parts.iter().map(put).collect();
        let got = parse(&format, "", Some(&odd_tools()), &text);
        let [Part::Call(ToolCall { name: tool, arguments: read, .. })] = &got[..] else {
            panic!("{name}: {text}: {got:?}")
        };
        assert_eq!(
            (tool.as_str(), Value::from(read.clone())),
            ("get_note", arguments.clone()),
            "{name} ({way}): {text}"
        );
        ways.entry(way.to_owned()).or_insert(text);
    }
    println!("{ways:#?}");
    for way in ["hermes", "llama3", "mistral", "mistral-v11", "deepseek-r1", "deepseek-v3.1", "command-r7b"] {
        assert!(ways.contains_key(way), "{way}");
    }
    for way in ["gpt-oss", "qwen3-coder", "glm", "gemma4", "phi-4"] {
        assert!(!ways.contains_key(way), "{way}");
    }
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
        // Each message is a paragraph of what it belongs to.
        (
            "openai-gpt-oss-120b.jinja",
            "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>analysis<|message|>Hm!<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>Hello",
            vec![reasoning("Hm\n\nHm!"), content("I look.\n\nHello")],
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

#[test]
fn what_a_text_needs_to_be_taken_apart_is_known() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let templates = templates(&fixtures);
    let specials =
        ["<|im_end|>", "<think>", "</think>", "<tool_call>", "[TOOL_CALLS]", "<|message|>", "<|call|>", "<|channel>"];
    let tokenizer = crate::named::with("llama", &specials);
    let marks = |name: &str| {
        let ids = templates[name].answer_format().marks(&tokenizer);
        ids.into_iter().map(|id| tokenizer.token(id).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(marks("Qwen-Qwen3-0.6B.jinja"), ["<think>", "</think>", "<tool_call>"]);
    assert_eq!(marks("mistralai-Mistral-Nemo-Instruct-2407.jinja"), ["[TOOL_CALLS]"]);
    // The others of gpt-oss are shown in any case.
    assert_eq!(marks("openai-gpt-oss-120b.jinja"), ["<|call|>"]);
    assert_eq!(marks("google-gemma-4-31B-it.jinja"), ["<|channel>"]);
    assert_eq!(marks("google-gemma-2-2b-it.jinja"), [""; 0]);
}

#[test]
fn the_variables_that_templates_read() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let templates = templates(&fixtures);
    for (name, variable) in [
        ("Qwen-Qwen3-0.6B.jinja", "enable_thinking"),
        ("deepseek-ai-DeepSeek-V3.1.jinja", "thinking"),
        ("openai-gpt-oss-120b.jinja", "reasoning_effort"),
        ("upstage-Solar-Open-100B.jinja", "reasoning_effort"),
        ("ByteDance-Seed-OSS.jinja", "thinking_budget"),
        ("muse-glimmer.jinja", "reasoning_strength"),
    ] {
        let variables = templates[name].variables();
        assert!(variables.contains("messages") && variables.contains(variable), "{name}: {variables:?}");
    }
    // Those of messages are none of them.
    let variables = templates["openai-gpt-oss-120b.jinja"].variables();
    assert!(!variables.contains("thinking") && !variables.contains("enable_thinking"), "{variables:?}");
}
