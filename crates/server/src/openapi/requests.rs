//! What the requests take, by field. A field that only has the value of what is done anyway is listed with that value.

use serde_json::{Value, json};

use super::schema::{Fields, all, any, fields, flag, kind, list, loose, named, number, object, request, text, whole};

/// The bodies of requests by the names of their schemas.
pub fn bodies() -> Fields {
    fields(json!({
        "Chat": request(chat(), &["messages"]),
        "Completion": request(completion(), &["prompt"]),
        "LlamaCompletion": request(llama_completion(), &["prompt"]),
        "Infill": request(infill(), &["input_prefix", "input_suffix"]),
        "Scales": scales(),
        "ModelName": request(fields(json!({ "model": text() })), &["model"]),
        "Template": request(all([conversation(), without_effect()]), &["messages"]),
        "Tokenize": either(request(tokenize(), &[]), ["content", "prompt"]),
        "Detokenize": request(all([fields(json!({ "tokens": list(token()) })), without_effect()]), &["tokens"]),
        "Response": request(response(), &["input"]),
        "Messages": request(messages(), &["max_tokens", "messages"]),
        "CountTokens": request(all([anthropic(), shared(), anthropic_without_effect()]), &["messages"]),
        "Embeddings": embedding(all([embeddings(), rows(), vectors_without_effect()])),
        "Rows": embedding(all([rows(), vectors_without_effect()])),
        "Rerank": rerank(),
        "OllamaGenerate": request(all([ollama_generate(), ollama()]), &[]),
        "OllamaChat": request(all([ollama_chat(), ollama()]), &[]),
        "OllamaEmbed": request(ollama_vectors("input"), &["input"]),
        "OllamaEmbeddings": request(ollama_vectors("prompt"), &["prompt"]),
        "OllamaShow": request(fields(json!({ "model": {}, "name": {}, "verbose": {} })), &[]),
    }))
}

/// What several bodies are made of.
pub fn parts() -> Fields {
    let text_block = || kind("text", &["text"], json!({ "text": text() }));
    let blocks = |block: Value| any([text(), list(block)]);
    let call =
        loose(&["function"], json!({ "function": loose(&["arguments"], json!({ "arguments": {}, "name": text() })) }));
    let calls = any([list(call), json!({ "type": "null" })]);
    let content = any([text(), json!({ "type": "null" }), list(text_block())]);
    let said = kind("message", &["role", "content"], {
        let part = loose(
            &["type", "text"],
            json!({ "type": { "enum": ["input_text", "output_text", "reasoning_text", "text"] }, "text": text() }),
        );
        let role = json!({ "enum": ["user", "assistant", "system", "developer"] });
        json!({ "role": role, "content": blocks(part) })
    });
    // A message need not say what it is.
    let mut said = said;
    said["required"] = json!(["role", "content"]);
    let output = said["properties"]["content"].clone();
    fields(json!({
        "Prompt": prompt(),
        "Schema": { "type": ["object", "boolean"], "description": "A JSON schema; docs/grammar.md has the keywords" },
        "Message": loose(&["role"], json!({ "role": text(), "content": content, "tool_calls": calls })),
        "Tool": kind("function", &["function"], json!({ "function": loose(&["name"], json!({ "name": text() })) })),
        "Format": any([
            closed(kind("text", &[], json!({}))),
            closed(kind("json_object", &[], json!({ "schema": named("Schema") }))),
            closed(kind("json_schema", &["json_schema"], json!({
                "json_schema": closed(loose(&["schema"], json!({
                    "schema": named("Schema"), "name": {}, "description": {}, "strict": {}
                })))
            }))),
        ]),
        "Item": any([
            said,
            kind("function_call", &["call_id", "name", "arguments"], json!({
                "call_id": text(), "name": text(), "arguments": text()
            })),
            kind("function_call_output", &["call_id", "output"], json!({ "call_id": text(), "output": output })),
            kind("reasoning", &[], json!({ "content": any([output.clone(), json!({ "type": "null" })]) })),
        ]),
        "ResponseTool": kind("function", &["name"], json!({ "name": text() })),
        "AnthropicMessage": object(json!({
            "role": { "enum": ["user", "assistant"] },
            "content": blocks(any([
                text_block(),
                kind("tool_result", &["tool_use_id"], json!({
                    "tool_use_id": text(), "content": any([text(), json!({ "type": "null" }), list(text_block())])
                })),
                kind("thinking", &["thinking"], json!({ "thinking": text() })),
                kind("redacted_thinking", &[], json!({})),
                kind("tool_use", &["id", "name", "input"], json!({
                    "id": text(), "name": text(), "input": { "type": "object" }
                })),
            ])),
        })),
        "AnthropicTool": loose(&["name", "input_schema"], json!({
            "name": text(), "input_schema": { "type": "object" }, "type": { "enum": ["custom", null] }
        })),
    }))
}

/// No other fields.
fn closed(mut object: Value) -> Value {
    object["additionalProperties"] = false.into();
    object
}

/// A token's number.
fn token() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
}

/// A text, or texts and tokens in a list.
fn mixed(least: usize) -> Value {
    let items = any([text(), token()]);
    any([text(), json!({ "type": "array", "minItems": least, "items": items })])
}

/// A prompt or several.
fn prompt() -> Value {
    let object = loose(
        &["prompt_string"],
        json!({ "prompt_string": text(), "multimodal_data": { "type": "array", "maxItems": 0 } }),
    );
    let several = json!({ "type": "array", "minItems": 1, "items": any([mixed(1), object.clone()]) });
    any([mixed(1), object, several])
}

/// How tokens are chosen, and when to stop.
fn sampling() -> Fields {
    let above = |least: f64| json!({ "type": "number", "exclusiveMinimum": least });
    fields(json!({
        "temperature": number(),
        "dynatemp_range": number(),
        "dynatemp_exp": number(),
        "dynatemp_exponent": number(),
        "top_k": { "type": "integer" },
        "top_p": number(),
        "min_p": number(),
        "typical_p": number(),
        "top_n_sigma": number(),
        "xtc_probability": number(),
        "xtc_threshold": number(),
        "repeat_penalty": above(0.0),
        "repeat_last_n": whole(-1),
        "presence_penalty": number(),
        "frequency_penalty": number(),
        "dry_multiplier": number(),
        "dry_base": number(),
        "dry_allowed_length": whole(0),
        "dry_penalty_last_n": whole(-1),
        "dry_sequence_breakers": list(text()),
        "mirostat": { "type": "integer", "minimum": 0, "maximum": 2 },
        "mirostat_tau": number(),
        "mirostat_eta": number(),
        "logit_bias": biases(),
        "samplers": list(text()),
        "min_keep": whole(0),
        "seed": { "type": "integer" },
        "adaptive_target": { "type": "number", "exclusiveMaximum": 0, "description": "This sampler is not served" },
        "stop": any([text(), list(text())]),
        "ignore_eos": flag(),
    }))
}

/// Biases by token or text; false excludes one.
fn biases() -> Value {
    let bias = any([number(), json!({ "const": false })]);
    let pair = json!({
        "type": "array", "prefixItems": [any([text(), token()]), bias], "items": false, "minItems": 2, "maxItems": 2
    });
    any([list(pair), json!({ "type": "object", "additionalProperties": bias })])
}

fn limits(names: &[&str]) -> Fields {
    names.iter().map(|name| ((*name).to_owned(), whole(-1))).collect()
}

/// What requests of OpenAI's and llama.cpp's say of their answers' form.
fn wanted() -> Fields {
    fields(json!({
        "stream": flag(),
        "n": { "type": "integer", "minimum": 1, "maximum": 64 },
        "timings_per_token": flag(),
        "return_progress": flag(),
        "verbose": flag(),
        "response_format": named("Format"),
        "json_schema": named("Schema"),
        "grammar": { "type": "string", "description": "In GBNF" },
    }))
}

fn usage() -> Fields {
    let options = json!({ "include_usage": { "type": ["boolean", "null"] }, "include_obfuscation": {} });
    fields(json!({ "stream_options": closed(loose(&[], options)) }))
}

/// Whether the prompt may share memory with others of the same key, and by how much adapters change the model.
fn shared() -> Fields {
    fields(json!({ "cache_prompt": flag(), "lora": scales() }))
}

/// By how much each adapter changes the model; those that are not listed do not.
fn scales() -> Value {
    list(closed(object(json!({ "id": whole(0), "scale": number() }))))
}

/// Which tools are offered, and have to be called.
fn tool_choice(named: Value) -> Value {
    any([json!({ "enum": ["auto", "none", "required"] }), named])
}

/// Fields of any value, which change no answer.
fn without(names: &[&str]) -> Fields {
    names.iter().map(|name| ((*name).to_owned(), json!({ "description": "Without effect" }))).collect()
}

fn without_effect() -> Fields {
    without(&crate::ask::WITHOUT_EFFECT)
}

fn conversation() -> Fields {
    let keyword = json!({ "type": "object", "properties": { "messages": false, "tools": false } });
    fields(json!({
        "messages": { "type": "array", "minItems": 1, "items": named("Message") },
        "add_generation_prompt": flag(),
        "continue_final_message": flag(),
        "chat_template_kwargs": keyword,
        "reasoning_effort": { "type": "string", "description": "Where the template reads it" },
        "tools": list(named("Tool")),
        "tool_choice": tool_choice(kind("function", &["function"], json!({ "function": object(json!({ "name": text() })) }))),
        "parallel_tool_calls": { "enum": [true] },
    }))
}

fn chat() -> Fields {
    let own = fields(json!({
        "logprobs": flag(),
        "top_logprobs": { "type": "integer", "minimum": 0, "maximum": 20 },
        "store": { "enum": [false] },
    }));
    let limits = limits(&["n_predict", "max_tokens", "max_completion_tokens"]);
    all([conversation(), own, limits, sampling(), wanted(), usage(), shared(), without_effect()])
}

fn completion() -> Fields {
    let own = fields(json!({
        "prompt": named("Prompt"),
        "logprobs": { "type": "integer", "minimum": 0, "maximum": 20 },
        "echo": flag(),
        "suffix": { "enum": [""] },
        "best_of": { "type": "integer", "minimum": 1, "maximum": 64, "description": "n" },
    }));
    let limits = limits(&["n_predict", "max_tokens"]);
    all([own, limits, sampling(), wanted(), usage(), shared(), without_effect()])
}

/// What comes before the middle and after it.
fn infill() -> Fields {
    let file = loose(&["text"], json!({ "text": text(), "filename": { "type": ["string", "null"] } }));
    let own = fields(json!({
        "prompt": text(), "input_prefix": text(), "input_suffix": text(), "input_extra": list(file)
    }));
    all([llama(), own])
}

fn llama_completion() -> Fields {
    all([llama(), fields(json!({ "prompt": named("Prompt") }))])
}

fn llama() -> Fields {
    let own = fields(json!({
        "n_cmpl": { "type": "integer", "minimum": 1, "maximum": 64, "description": "n" },
        "n_probs": { "type": "integer", "minimum": 0, "maximum": 20 },
        "post_sampling_probs": flag(),
        "return_tokens": flag(),
        "response_fields": any([text(), list(text())]),
    }));
    all([own, limits(&["n_predict", "max_tokens"]), sampling(), wanted(), shared(), without_effect()])
}

fn tokenize() -> Fields {
    let own = fields(json!({
        "content": mixed(0),
        "prompt": mixed(0),
        "add_special": flag(),
        "add_special_tokens": flag(),
        "parse_special": flag(),
        "with_pieces": flag(),
    }));
    all([own, without_effect()])
}

fn response() -> Fields {
    let stored = || json!({ "enum": [null], "description": "Nothing is stored here" });
    let format = any([
        json!({ "type": "null" }),
        closed(kind("text", &[], json!({}))),
        closed(kind("json_object", &[], json!({ "schema": named("Schema") }))),
        closed(kind(
            "json_schema",
            &["schema"],
            json!({
                "schema": named("Schema"), "name": {}, "description": {}, "strict": {}
            }),
        )),
    ]);
    let own = fields(json!({
        "input": any([text(), json!({ "type": "array", "minItems": 1, "items": named("Item") })]),
        "instructions": text(),
        "tools": list(named("ResponseTool")),
        "tool_choice": tool_choice(kind("function", &["name"], json!({ "name": text() }))),
        "parallel_tool_calls": { "enum": [true] },
        "reasoning": {
            "type": "object",
            "properties": { "effort": { "type": ["string", "null"] } },
            "additionalProperties": { "enum": ["auto", null] },
        },
        "stream": flag(),
        "store": { "enum": [false] },
        "background": { "enum": [false] },
        "previous_response_id": stored(),
        "conversation": stored(),
        "prompt": stored(),
        "include": list(json!({ "const": "reasoning.encrypted_content" })),
        "truncation": { "enum": ["disabled"] },
        "text": closed(loose(&[], json!({ "format": format }))),
        "top_logprobs": { "enum": [0] },
        "max_tool_calls": whole(0),
    }));
    let limits = limits(&["max_output_tokens"]);
    all([own, limits, sampling(), shared(), without(&crate::responses::WITHOUT_EFFECT)])
}

fn anthropic() -> Fields {
    let choice = loose(
        &["type"],
        json!({
            "type": { "enum": ["auto", "none", "any", "tool"] }, "name": text(), "disable_parallel_tool_use": flag()
        }),
    );
    let thinking = loose(&["type"], json!({ "type": { "enum": ["adaptive", "disabled"] } }));
    fields(json!({
        "system": any([text(), list(kind("text", &["text"], json!({ "text": text() })))]),
        "messages": { "type": "array", "minItems": 1, "items": named("AnthropicMessage") },
        "tools": list(named("AnthropicTool")),
        "tool_choice": choice,
        "thinking": thinking,
    }))
}

fn anthropic_without_effect() -> Fields {
    without(&crate::messages::WITHOUT_EFFECT)
}

fn messages() -> Fields {
    let own = fields(json!({ "stop_sequences": any([text(), list(text())]), "stream": flag() }));
    let limits = limits(&["max_tokens"]);
    all([anthropic(), own, limits, sampling(), shared(), anthropic_without_effect()])
}

fn rows() -> Fields {
    let norm = json!({ "type": "integer", "minimum": -1, "maximum": u32::MAX });
    let texts = || named("Prompt");
    fields(json!({ "input": texts(), "content": texts(), "embd_normalize": norm }))
}

fn embeddings() -> Fields {
    let width = json!({ "type": "integer", "minimum": 1, "description": "Only the model's own" });
    fields(json!({ "encoding_format": { "enum": ["float", "base64"] }, "dimensions": width }))
}

fn vectors_without_effect() -> Fields {
    without(&crate::vectors::WITHOUT_EFFECT)
}

/// With one of two fields.
fn either(mut body: Value, names: [&str; 2]) -> Value {
    body["anyOf"] = names.map(|name| json!({ "required": [name] })).to_vec().into();
    body
}

/// Texts have one of two names.
fn embedding(fields: Fields) -> Value {
    let mut body = request(fields, &[]);
    body["properties"]["content"] = named("Prompt");
    either(body, ["input", "content"])
}

/// Jina's form, and that of Text Embeddings Inference.
fn rerank() -> Value {
    let document = any([text(), loose(&["text"], json!({ "text": text() }))]);
    let documents = json!({ "type": "array", "minItems": 1, "items": document });
    let common = || fields(json!({ "query": text(), "top_n": whole(1) }));
    let jina = fields(json!({ "documents": documents, "return_documents": flag() }));
    let tei = fields(json!({
        "texts": documents,
        "return_text": flag(),
        "truncate": { "enum": [false] },
        "raw_scores": { "enum": [true] },
    }));
    any([
        request(all([common(), jina, vectors_without_effect()]), &["query", "documents"]),
        request(all([common(), tei, vectors_without_effect()]), &["query", "texts"]),
    ])
}

fn ollama() -> Fields {
    let own = fields(json!({ "num_ctx": { "type": "integer" }, "num_predict": whole(-2) }));
    let options = all([own, sampling(), without(&crate::ollama::OPTIONS_WITHOUT_EFFECT)]);
    let own = fields(json!({
        "think": any([flag(), text()]),
        "stream": flag(),
        "format": any([json!({ "enum": ["", "json"] }), json!({ "type": "object" })]),
        "options": request(options, &[]),
    }));
    all([own, keep_alive(), shared(), without(&crate::ollama::WITHOUT_EFFECT)])
}

fn keep_alive() -> Fields {
    let text = json!({ "type": "string", "description": "A duration, such as 5m" });
    fields(json!({ "keep_alive": any([number(), text]) }))
}

fn ollama_generate() -> Fields {
    let no_items = || json!({ "type": "array", "maxItems": 0 });
    fields(json!({
        "prompt": text(),
        "raw": flag(),
        "system": text(),
        "suffix": { "enum": [""] },
        "images": no_items(),
        "context": no_items(),
        "template": { "enum": [""] },
    }))
}

fn ollama_chat() -> Fields {
    fields(json!({ "messages": list(named("Message")), "tools": list(json!({})) }))
}

fn ollama_vectors(name: &str) -> Fields {
    let width = json!({ "type": "integer", "minimum": 1, "description": "Only the model's own" });
    let options = request(without(&crate::ollama::OPTIONS_WITHOUT_EFFECT), &[]);
    let mut own = fields(json!({ "truncate": { "enum": [false] }, "dimensions": width, "options": options }));
    own.insert(name.to_owned(), named("Prompt"));
    all([own, keep_alive(), without(&crate::ollama::WITHOUT_EFFECT)])
}
