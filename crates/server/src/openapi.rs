//! `/openapi.json`: the paths that are served, what their requests take and what comes back, as OpenAPI describes it.

mod answers;
mod requests;
mod schema;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use self::{
    answers::answers,
    requests::{bodies, parts},
    schema::{Fields, fields, named},
};
use crate::{guard::OPEN, refusal::Style};

/// Statuses of refusals, and where they come from.
const REFUSALS: [(u16, &str); 10] = [
    (400, "A wrong or unserved field, or a prompt that is longer than the context"),
    (401, "There are keys, and the request has none of them"),
    (403, "The Host or the Origin header is not one of this server's names"),
    (404, "There are several models, and none of this name"),
    (405, "The path has no such method"),
    (408, "The body did not arrive in time"),
    (413, "The body is too large"),
    (429, "Too many answers wait already"),
    (501, "The model does other things, or the path is switched off"),
    (503, "The model is being loaded or cannot be, is computed wrongly on this machine, or the server is ending"),
];

/// Paths without a body that are about a model.
const OF_A_MODEL: [&str; 5] = ["/lora-adapters", "/metrics", "/props", "/slots", "/tokenizer_info"];

/// How an answer is sent in pieces.
#[derive(Clone, Copy)]
enum Stream {
    /// It is not.
    No,
    Events,
    Lines,
}

/// A path that is asked with a body.
struct Post {
    paths: &'static [&'static str],
    is: &'static str,
    body: &'static str,
    answer: &'static str,
    stream: Stream,
    /// Bodies that are taken, as JSON.
    examples: &'static [&'static str],
}

/// A path that is asked without one.
struct Bare {
    method: &'static str,
    paths: &'static [&'static str],
    is: &'static str,
    /// The schema of JSON; other answers are text.
    answer: Option<&'static str>,
}

const CHAT: &str = r#"{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}"#;
const INPUT: &str = r#"{"input": "Hello", "max_output_tokens": 4}"#;
const PROMPT: &str = r#"{"prompt": "Once upon a time", "max_tokens": 4}"#;

const BARE: &[Bare] = &[
    Bare {
        method: "get",
        paths: &["/health", "/v1/health"],
        is: "Whether requests are answered",
        answer: Some("Health"),
    },
    Bare {
        method: "get",
        paths: &["/models", "/v1/models"],
        is: "The models, their sizes, and whether they are loaded",
        answer: Some("Models"),
    },
    Bare { method: "get", paths: &["/props"], is: "The model, and how it is served", answer: Some("Props") },
    Bare { method: "get", paths: &["/slots"], is: "How many answers are being written", answer: Some("Slots") },
    Bare { method: "get", paths: &["/metrics"], is: "What was read and written, for Prometheus", answer: None },
    Bare { method: "get", paths: &["/api/tags"], is: "The models that there are", answer: Some("OllamaModels") },
    Bare { method: "get", paths: &["/api/ps"], is: "The models that are loaded", answer: Some("OllamaModels") },
    Bare { method: "get", paths: &["/api/version"], is: "This program's version", answer: Some("OllamaVersion") },
    Bare {
        method: "get",
        paths: &["/tokenizer_info"],
        is: "What texts begin and end with, as vLLM has it",
        answer: Some("TokenizerInfo"),
    },
    Bare { method: "get", paths: &["/lora-adapters"], is: "The adapters that there are", answer: Some("Adapters") },
    Bare { method: "get", paths: &["/trace/{id}"], is: "How an answer came to be", answer: Some("Trace") },
    Bare { method: "post", paths: &["/diagnose/{id}"], is: "Whether an answer stands", answer: Some("Diagnosis") },
    Bare { method: "get", paths: &["/openapi.json"], is: "This description", answer: Some("OpenApi") },
];

const POSTS: &[Post] = &[
    Post {
        paths: &["/models/load"],
        is: "Loads one of several models",
        body: "ModelName",
        answer: "Done",
        stream: Stream::No,
        examples: &[r#"{"model": "model"}"#],
    },
    Post {
        paths: &["/models/unload"],
        is: "Has one of several models go once it answers nothing",
        body: "ModelName",
        answer: "Done",
        stream: Stream::No,
        examples: &[r#"{"model": "model"}"#],
    },
    Post {
        paths: &["/chat/completions", "/v1/chat/completions"],
        is: "Answers a conversation, as OpenAI has it",
        body: "Chat",
        answer: "ChatAnswer",
        stream: Stream::Events,
        examples: &[CHAT],
    },
    Post {
        paths: &["/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"],
        is: "How many tokens a conversation has",
        body: "Chat",
        answer: "InputTokens",
        stream: Stream::No,
        examples: &[CHAT],
    },
    Post {
        paths: &["/v1/completions"],
        is: "Continues a text, as OpenAI has it",
        body: "Completion",
        answer: "CompletionAnswer",
        stream: Stream::Events,
        examples: &[PROMPT],
    },
    Post {
        paths: &["/responses", "/v1/responses"],
        is: "Answers a conversation, as OpenAI's responses have it, without memory",
        body: "Response",
        answer: "ResponseAnswer",
        stream: Stream::Events,
        examples: &[INPUT],
    },
    Post {
        paths: &["/responses/input_tokens", "/v1/responses/input_tokens"],
        is: "How many tokens a conversation has",
        body: "Response",
        answer: "InputTokens",
        stream: Stream::No,
        examples: &[INPUT],
    },
    Post {
        paths: &["/v1/messages"],
        is: "Answers a conversation, as Anthropic has it",
        body: "Messages",
        answer: "MessagesAnswer",
        stream: Stream::Events,
        examples: &[CHAT],
    },
    Post {
        paths: &["/v1/messages/count_tokens"],
        is: "How many tokens a conversation has, as Anthropic has it",
        body: "CountTokens",
        answer: "CountTokensAnswer",
        stream: Stream::No,
        examples: &[r#"{"messages": [{"role": "user", "content": "Hello"}]}"#],
    },
    Post {
        paths: &["/completion", "/completions"],
        is: "Continues a text, as llama.cpp's server has it",
        body: "LlamaCompletion",
        answer: "LlamaAnswer",
        stream: Stream::Events,
        examples: &[PROMPT],
    },
    Post {
        paths: &["/infill"],
        is: "The middle of a text, as llama.cpp's server has it",
        body: "Infill",
        answer: "LlamaAnswer",
        stream: Stream::Events,
        examples: &[r#"{"input_prefix": "a", "input_suffix": "c", "n_predict": 4}"#],
    },
    Post {
        paths: &["/lora-adapters"],
        is: "By how much adapters change the model where a request does not say",
        body: "Scales",
        answer: "Done",
        stream: Stream::No,
        examples: &["[]"],
    },
    Post {
        paths: &["/tokenize"],
        is: "The tokens of a text",
        body: "Tokenize",
        answer: "TokenizeAnswer",
        stream: Stream::No,
        examples: &[r#"{"content": "Hello"}"#],
    },
    Post {
        paths: &["/detokenize"],
        is: "The text of tokens",
        body: "Detokenize",
        answer: "DetokenizeAnswer",
        stream: Stream::No,
        examples: &[r#"{"tokens": [1, 2]}"#],
    },
    Post {
        paths: &["/apply-template"],
        is: "A conversation as the model sees it",
        body: "Template",
        answer: "TemplateAnswer",
        stream: Stream::No,
        examples: &[r#"{"messages": [{"role": "user", "content": "Hello"}]}"#],
    },
    Post {
        paths: &["/v1/embeddings"],
        is: "Vectors of texts, as OpenAI has it",
        body: "Embeddings",
        answer: "EmbeddingsAnswer",
        stream: Stream::No,
        examples: &[r#"{"input": "cats"}"#, r#"{"content": "cats"}"#],
    },
    Post {
        paths: &["/embedding", "/embeddings"],
        is: "Vectors of texts, as llama.cpp's server has it",
        body: "Rows",
        answer: "RowsAnswer",
        stream: Stream::No,
        examples: &[r#"{"input": "cats"}"#, r#"{"content": "cats"}"#],
    },
    Post {
        paths: &["/rerank", "/reranking", "/v1/rerank", "/v1/reranking"],
        is: "Documents by how well they answer a query",
        body: "Rerank",
        answer: "RerankAnswer",
        stream: Stream::No,
        examples: &[
            r#"{"query": "where", "documents": ["here", "there"]}"#,
            r#"{"query": "where", "texts": ["here", "there"]}"#,
        ],
    },
    Post {
        paths: &["/api/generate"],
        is: "Continues a text, as Ollama has it",
        body: "OllamaGenerate",
        answer: "OllamaGenerateAnswer",
        stream: Stream::Lines,
        examples: &[r#"{"prompt": "Hello", "options": {"num_predict": 4}}"#],
    },
    Post {
        paths: &["/api/chat"],
        is: "Answers a conversation, as Ollama has it",
        body: "OllamaChat",
        answer: "OllamaChatAnswer",
        stream: Stream::Lines,
        examples: &[r#"{"messages": [{"role": "user", "content": "Hello"}], "options": {"num_predict": 4}}"#],
    },
    Post {
        paths: &["/api/embed"],
        is: "Vectors of texts, as Ollama has it",
        body: "OllamaEmbed",
        answer: "OllamaEmbedAnswer",
        stream: Stream::No,
        examples: &[r#"{"input": ["cats", "paris"]}"#],
    },
    Post {
        paths: &["/api/embeddings"],
        is: "The vector of one text, as Ollama had it",
        body: "OllamaEmbeddings",
        answer: "OllamaEmbeddingsAnswer",
        stream: Stream::No,
        examples: &[r#"{"prompt": "cats"}"#],
    },
    Post {
        paths: &["/api/show"],
        is: "What is known of the model",
        body: "OllamaShow",
        answer: "OllamaModel",
        stream: Stream::No,
        examples: &[r#"{"model": "any"}"#],
    },
];

/// The description.
pub fn description() -> Value {
    let mut paths = json!({});
    let mut add = |method: &str, path: &str, operation| paths[path][method] = operation;
    for Bare { method, paths: names, is, answer } in BARE {
        let content = match answer {
            Some(name) => json!({ "application/json": { "schema": named(name) } }),
            None => json!({ "text/plain": { "schema": { "type": "string" } } }),
        };
        for path in *names {
            let responses = responses(path, &content);
            let mut operation = json!({ "summary": is, "operationId": id(method, path), "responses": responses });
            if OF_A_MODEL.contains(path) {
                operation["parameters"] = of_a_model();
            }
            if path.ends_with("{id}") {
                let number = json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } });
                operation["parameters"] = json!([number]);
                operation["responses"]["404"] = json!({
                    "description": "There is no such trace", "content": { "application/json": { "schema": named("Error") } }
                });
            }
            add(method, path, operation);
        }
    }
    for Post { paths: names, is, body, answer, stream, examples } in POSTS {
        let mut content = json!({ "application/json": { "schema": named(answer) } });
        match stream {
            Stream::No => {}
            Stream::Events => content["text/event-stream"] = json!({}),
            Stream::Lines => content["application/x-ndjson"] = json!({}),
        }
        let example = |(n, text): (usize, &&str)| {
            let value: Value = serde_json::from_str(text).unwrap_or_default();
            (n.to_string(), json!({ "value": value }))
        };
        let examples: Fields = examples.iter().enumerate().map(example).collect();
        let taken = json!({ "application/json": { "schema": named(body), "examples": examples } });
        for path in *names {
            let mut operation = json!({
                "summary": is,
                "operationId": id("post", path),
                "requestBody": { "required": true, "content": taken },
                "responses": responses(path, &content),
            });
            if *body != "ModelName" {
                operation["parameters"] = of_a_model();
            }
            add("post", path, operation);
        }
    }
    for path in OPEN {
        paths[path]["get"]["security"] = json!([]);
    }
    let own = fields(json!({ "OpenApi": { "type": "object", "required": ["openapi", "info", "paths"] } }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "candor serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "docs/server.md says more of each path. A field that is not listed is refused with 400.",
        },
        "security": [{ "bearer": [] }, { "header": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "Where the server has keys" },
                "header": { "type": "apiKey", "in": "header", "name": "X-Api-Key" },
            },
            "schemas": schema::all([own, bodies(), parts(), answers()]),
        },
    })
}

/// A name without anything that a programming language would not take.
fn id(method: &str, path: &str) -> String {
    let parts = path.split(|letter: char| !letter.is_alphanumeric()).filter(|part| !part.is_empty());
    std::iter::once(method).chain(parts).collect::<Vec<_>>().join("_")
}

/// What an address says of the model, where there are several.
fn of_a_model() -> Value {
    let one = |name: &str, is: &str, schema: Value| json!({ "name": name, "in": "query", "description": is, "schema": schema });
    json!([
        one("model", "Which of several models; a body's field model says so, too", json!({ "type": "string" })),
        one("autoload", "Whether it is loaded where it is not", json!({ "type": "boolean" })),
    ])
}

fn responses(path: &str, content: &Value) -> Fields {
    let shape = match Style::of(path) {
        Style::OpenAi => "Error",
        Style::Anthropic => "AnthropicError",
        Style::Ollama => "OllamaError",
    };
    let refusal = |(status, why): (u16, &str)| {
        let mut response = json!({
            "description": why, "content": { "application/json": { "schema": named(shape) } }
        });
        if status == 429 {
            response["headers"] = json!({ "Retry-After": { "schema": { "type": "integer" } } });
        }
        (status.to_string(), response)
    };
    let answered = ("200".to_owned(), json!({ "description": "Answered", "content": content }));
    std::iter::once(answered).chain(REFUSALS.map(refusal)).collect()
}
