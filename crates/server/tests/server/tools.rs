//! Reasoning and tool calls come apart from what is said, in the shape that clients of OpenAI's server know.

use candor::{BatchOptions, Engine, Gguf, LoadOptions, Model};
use candor_server::{Config, Loaded, Ready, Work};
use candor_testing::Parrot;
use serde_json::{Value, json};

use crate::{
    client::post,
    serving::{Server, listen, wait},
};

/// Calls tools as Qwen3 does, and shows all messages of a second turn as an error.
const TEMPLATE: &str = "{% if messages|length > 2 %}{{ raise_exception(messages|tojson) }}{% endif %}{% if tools %}{{ tools|tojson }}{% endif %}\
    {% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}\
    <tool_call>\n{{ {'name': c.function.name, 'arguments': c.function.arguments}|tojson }}\n</tool_call>{% endfor %}\
    {% endfor %}{% if '</think>' in x %}{% endif %}\n";

/// A model that thinks, says something, and calls a tool.
pub fn serve() -> Server {
    says(&["<think>", "Well.", "</think>", "I look.\n\n", "<tool_call>", CALL, "</tool_call>"])
}

const CALL: &str = "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}";

/// A model that says this.
fn says(pieces: &'static [&str]) -> Server {
    let server = listen(Config::default(), || {
        let parrot = Parrot::says(pieces);
        let mut writer = parrot.control(&["<tool_call>", "</tool_call>"]).writer();
        writer.insert("tokenizer.chat_template", TEMPLATE);
        let gguf = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
        let model = Model::from_gguf(gguf, &LoadOptions::default().threads(1)).unwrap();
        let batch = model.batch(&BatchOptions::default().sequences(2).context(2048)).unwrap();
        let work = Work::Answers(Engine::new(batch, 16));
        Ok(Loaded::Ready(Box::new(Ready { work, template: None, diagnose: None })))
    });
    wait(&server);
    server
}

fn tools() -> Value {
    json!([{ "type": "function", "function": { "name": "get_weather", "parameters": {} } }])
}

#[test]
fn calls_come_apart() {
    let server = serve();
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    let mut body = json!({ "messages": messages, "tools": tools(), "temperature": 0 });
    let reply = post(server.address, "/v1/chat/completions", &body).json();
    let choice = &reply["choices"][0];
    assert_eq!(choice["message"]["reasoning_content"], "Well.");
    assert_eq!(choice["message"]["content"].as_str().unwrap().trim(), "I look.");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!((&call["type"], &call["function"]["name"]), (&"function".into(), &"get_weather".into()));
    let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({ "city": "Paris" }));
    assert_eq!(choice["finish_reason"], "tool_calls");
    body["stream"] = true.into();
    let events = post(server.address, "/v1/chat/completions", &body).events();
    let deltas: Vec<&Value> = events.iter().map(|event| &event["choices"][0]["delta"]).collect();
    let text = |name: &str| deltas.iter().filter_map(|delta| delta[name].as_str()).collect::<String>();
    assert_eq!((text("reasoning_content").as_str(), text("content").trim()), ("Well.", "I look."));
    let calls: Vec<&Value> =
        deltas.iter().map(|delta| &delta["tool_calls"][0]).filter(|call| !call.is_null()).collect();
    assert_eq!((calls.len(), &calls[0]["index"], &calls[0]["function"]), (1, &0.into(), &call["function"]));
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    // Where none are offered, nothing is a call.
    for choice in [json!("none"), Value::Null] {
        let tools = if choice.is_null() { json!([]) } else { tools() };
        let body = json!({ "messages": messages, "tools": tools, "tool_choice": choice, "temperature": 0 });
        let reply = post(server.address, "/v1/chat/completions", &body).json();
        let message = &reply["choices"][0]["message"];
        assert!(message["content"].as_str().unwrap().contains("<tool_call>"), "{message}");
        assert!(message["tool_calls"].is_null(), "{message}");
    }
    server.end().unwrap();
}

/// The tools of a call that has to be made: each in a shape of its own.
fn forced() -> Value {
    let city = json!({ "enum": ["Bern", "Rome"] });
    let weather = json!({ "type": "object", "properties": { "city": city }, "required": ["city"], "additionalProperties": false });
    let add = json!({
        "properties": { "x": { "type": "integer", "minimum": 0, "maximum": 9 } },
        "required": ["x"],
        "additionalProperties": false,
    });
    let tool = |name: &str, parameters: Value| json!({ "type": "function", "function": { "name": name, "parameters": parameters } });
    json!([tool("get_weather", weather), tool("add", add)])
}

fn is_call(name: &str, arguments: &Value) -> bool {
    match name {
        "get_weather" => [json!({ "city": "Bern" }), json!({ "city": "Rome" })].contains(arguments),
        "add" => {
            arguments["x"].as_u64().is_some_and(|x| x < 10) && arguments.as_object().is_some_and(|all| all.len() == 1)
        }
        _ => false,
    }
}

/// The model would say something else first, and calls another tool with other arguments.
#[test]
fn a_tool_is_called_where_one_has_to_be() {
    let server = serve();
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    let add = json!({ "type": "function", "function": { "name": "add" } });
    let mut names = std::collections::BTreeSet::new();
    for seed in 0..12 {
        for (choice, only) in [(json!("required"), None), (add.clone(), Some("add"))] {
            let body = json!({
                "messages": messages, "tools": forced(), "tool_choice": choice, "parallel_tool_calls": false,
                "seed": seed, "temperature": 1, "top_k": 0, "min_p": 0, "top_p": 1, "max_tokens": 1000,
            });
            let reply = post(server.address, "/v1/chat/completions", &body).json();
            let choice = &reply["choices"][0];
            // Reasoning may go on for long, which no grammar binds.
            if choice["finish_reason"] == "length" {
                continue;
            }
            assert_eq!(
                (&choice["finish_reason"], &choice["message"]["content"]),
                (&"tool_calls".into(), &"".into()),
                "{reply}"
            );
            let calls = choice["message"]["tool_calls"].as_array().unwrap();
            let (name, arguments) =
                (&calls[0]["function"]["name"], calls[0]["function"]["arguments"].as_str().unwrap());
            let name = name.as_str().unwrap();
            assert!(calls.len() == 1 && is_call(name, &serde_json::from_str(arguments).unwrap()), "{reply}");
            assert!(only.is_none_or(|only| only == name), "{reply}");
            names.insert(name.to_owned());
        }
    }
    assert_eq!(names.len(), 2, "{names:?}");
    // The same by the other endpoints; greedy, so that the model reasons as it does otherwise.
    let flat = |tool: &Value| {
        let mut flat = tool["function"].clone();
        flat["type"] = "function".into();
        flat
    };
    let tools: Vec<Value> = forced().as_array().unwrap().iter().map(flat).collect();
    for (choice, only) in [(json!("required"), None), (json!({ "type": "function", "name": "add" }), Some("add"))] {
        let body =
            json!({ "input": "Hi", "tools": tools, "tool_choice": choice, "temperature": 0, "max_output_tokens": 900 });
        let reply = post(server.address, "/v1/responses", &body).json();
        let [thought, call] = &reply["output"].as_array().unwrap()[..] else { panic!("{reply}") };
        assert_eq!((&thought["content"][0]["text"], &call["type"]), (&"Well.".into(), &"function_call".into()));
        let arguments = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert!(is_call(call["name"].as_str().unwrap(), &arguments), "{reply}");
        assert!(only.is_none_or(|only| call["name"] == only), "{reply}");
    }
    let claude = |tool: &Value| json!({ "name": tool["name"], "input_schema": tool["parameters"] });
    let tools: Vec<Value> = tools.iter().map(claude).collect();
    for (choice, only) in [(json!({ "type": "any" }), None), (json!({ "type": "tool", "name": "add" }), Some("add"))] {
        let body =
            json!({ "messages": messages, "tools": tools, "tool_choice": choice, "temperature": 0, "max_tokens": 900 });
        let reply = post(server.address, "/v1/messages", &body).json();
        let [thought, call] = &reply["content"].as_array().unwrap()[..] else { panic!("{reply}") };
        assert_eq!((&thought["thinking"], &call["type"]), (&"Well.".into(), &"tool_use".into()));
        assert!(is_call(call["name"].as_str().unwrap(), &call["input"]), "{reply}");
        assert!(only.is_none_or(|only| call["name"] == only), "{reply}");
        assert_eq!(reply["stop_reason"], "tool_use");
    }
    // What is not offered cannot be asked for; a schema that is not served is named, with its tool.
    let mut wrong = forced();
    wrong[1]["function"]["parameters"] = json!({ "not": {} });
    for (tools, choice, param) in [
        (forced(), json!({ "type": "function", "function": { "name": "sub" } }), "tool_choice"),
        (forced(), json!({ "type": "allowed_tools" }), "tool_choice"),
        (json!([]), json!("required"), "tool_choice"),
        (wrong, json!("required"), "tools[1].function.parameters"),
    ] {
        let body = json!({ "messages": messages, "tools": tools, "tool_choice": choice });
        let reply = post(server.address, "/v1/chat/completions", &body);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &param.into()), "{reply:?}");
    }
    server.end().unwrap();
}

/// What the model would say anyway comes as it says it: the marks are tokens of their own.
#[test]
fn a_call_that_comes_anyway_stays_as_it_is() {
    let pieces = &[
        "<think>",
        "Well.",
        "</think>",
        "<tool_call>",
        "\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n",
        "</tool_call>",
    ];
    let server = says(pieces);
    let body = json!({
        "messages": [{ "role": "user", "content": "Hi" }], "tools": tools(), "tool_choice": "required",
        "temperature": 0, "logprobs": true, "max_tokens": 40,
    });
    let choice = post(server.address, "/v1/chat/completions", &body).json()["choices"][0].clone();
    let said: Vec<&str> = choice["logprobs"]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| token["token"].as_str().unwrap())
        .collect();
    assert_eq!((&said[..], &choice["finish_reason"]), (&pieces[..], &"tool_calls".into()));
    server.end().unwrap();
}

/// The template sees the arguments of an earlier call as an object, and says so by an error of its own.
#[test]
fn earlier_calls_are_read() {
    let server = serve();
    let call = json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": "{\"x\": [1]}" } });
    let messages = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "a", "content": "sunny" },
    ]);
    let reply = post(server.address, "/v1/chat/completions", &json!({ "messages": messages }));
    assert_eq!(reply.status, 400, "{reply:?}");
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("\"arguments\": {\"x\": [1]}"), "{message}");
    server.end().unwrap();
}
