//! What comes back, by the names of the schemas. An answer may have more fields than are listed.

use serde_json::{Value, json};

use super::schema::{Fields, any, fields, flag, list, loose, named, number, object, text, whole};

/// All of them.
pub fn answers() -> Fields {
    let nothing = || json!({ "type": "null" });
    let or_null = |schema: Value| any([schema, nothing()]);
    let count = || whole(0);
    let likely = |one: &str, top: &str| {
        let token = |more: &str| {
            let mut token = json!({ "id": count(), "token": text(), "bytes": list(count()) });
            token[more] = number();
            token
        };
        let mut token_with_top = token(one);
        token_with_top[top] = list(object(token(one)));
        object(token_with_top)
    };
    let usage = object(json!({
        "prompt_tokens": count(),
        "completion_tokens": count(),
        "total_tokens": count(),
        "prompt_tokens_details": object(json!({ "cached_tokens": count() })),
    }));
    let read = object(json!({ "prompt_tokens": count(), "total_tokens": count() }));
    let timings = object(json!({
        "cache_n": count(), "prompt_n": count(), "prompt_ms": number(), "predicted_n": count(), "predicted_ms": number()
    }));
    let reason = || json!({ "enum": ["stop", "length", "tool_calls", "cancelled"] });
    let whole = |kind: &str, choice: Value| {
        object(json!({
            "id": text(),
            "object": { "const": kind },
            "created": count(),
            "model": text(),
            "system_fingerprint": text(),
            "choices": list(choice),
            "usage": usage,
            "timings": timings,
        }))
    };
    let call = object(json!({
        "id": text(),
        "type": { "const": "function" },
        "function": object(json!({ "name": text(), "arguments": text() })),
    }));
    let said = loose(
        &["role", "content"],
        json!({
            "role": { "const": "assistant" }, "content": text(), "reasoning_content": text(), "tool_calls": list(call)
        }),
    );
    let logprobs = object(json!({ "content": list(likely("logprob", "top_logprobs")) }));
    let lists = object(json!({
        "tokens": list(text()),
        "token_logprobs": list(or_null(number())),
        "top_logprobs": list(json!({ "type": ["object", "null"], "additionalProperties": number() })),
        "text_offset": list(count()),
    }));
    let llama = loose(
        &[],
        json!({
            "index": count(),
            "content": text(),
            "tokens": list(count()),
            "stop": flag(),
            "model": text(),
            "tokens_predicted": count(),
            "tokens_evaluated": count(),
            "tokens_cached": count(),
            "generation_settings": { "type": "object" },
            "prompt": text(),
            "truncated": flag(),
            "stop_type": { "enum": ["eos", "word", "limit", "none"] },
            "stopping_word": text(),
            "timings": timings,
            "completion_probabilities": list(any([likely("logprob", "top_logprobs"), likely("prob", "top_probs")])),
        }),
    );
    let piece = any([text(), list(count())]);
    let token = any([count(), object(json!({ "id": count(), "piece": piece }))]);
    let vector = || list(number());
    let score = |name: &str| {
        let mut score = json!({ "index": count() });
        score[name] = number();
        object(score)
    };
    let entry = object(json!({
        "name": text(), "model": text(), "modified_at": text(), "size": count(), "digest": text(), "details": details()
    }));
    let ended = || json!({ "model": text(), "created_at": text(), "done": flag(), "done_reason": text() });
    let ollama = |name: &str, schema: Value| {
        let mut answer = ended();
        answer[name] = schema;
        object(answer)
    };
    fields(json!({
        "Health": object(json!({ "status": { "const": "ok" } })),
        "Models": object(json!({
            "object": { "const": "list" },
            "data": list(loose(&["id", "object", "created", "owned_by", "status"], json!({
                "id": text(),
                "object": { "const": "model" },
                "created": count(),
                "owned_by": text(),
                "status": loose(&["value"], json!({
                    "value": { "enum": ["unloaded", "loading", "loaded", "unloading"] }, "failed": { "const": true }
                })),
                "meta": object(json!({
                    "n_ctx": count(),
                    "n_ctx_train": count(),
                    "n_vocab": count(),
                    "n_embd": count(),
                    "n_params": count(),
                    "size": count(),
                })),
            }))),
        })),
        "ChatAnswer": whole("chat.completion", object(json!({
            "index": count(), "message": said, "logprobs": or_null(logprobs), "finish_reason": reason()
        }))),
        "CompletionAnswer": whole("text_completion", object(json!({
            "index": count(), "text": text(), "logprobs": or_null(lists), "finish_reason": reason()
        }))),
        "LlamaAnswer": any([llama.clone(), list(llama)]),
        "InputTokens": object(json!({
            "object": { "const": "response.input_tokens" }, "input_tokens": count()
        })),
        "ResponseAnswer": object(json!({
            "id": text(),
            "object": { "const": "response" },
            "created_at": count(),
            "completed_at": or_null(count()),
            "status": { "enum": ["completed", "incomplete"] },
            "error": nothing(),
            "incomplete_details": or_null(object(json!({ "reason": text() }))),
            "model": text(),
            "output": list(object(json!({ "type": { "enum": ["message", "reasoning", "function_call"] } }))),
            "store": { "const": false },
            "usage": object(json!({ "input_tokens": count(), "output_tokens": count(), "total_tokens": count() })),
        })),
        "MessagesAnswer": object(json!({
            "id": text(),
            "type": { "const": "message" },
            "role": { "const": "assistant" },
            "model": text(),
            "content": list(object(json!({ "type": { "enum": ["text", "thinking", "tool_use"] } }))),
            "stop_reason": {
                "enum": ["stop_sequence", "max_tokens", "model_context_window_exceeded", "tool_use", "end_turn"]
            },
            "stop_sequence": { "type": ["string", "null"] },
            "usage": object(json!({ "input_tokens": count(), "output_tokens": count() })),
        })),
        "CountTokensAnswer": object(json!({ "input_tokens": count() })),
        "TokenizeAnswer": object(json!({ "tokens": list(token) })),
        "DetokenizeAnswer": object(json!({ "content": text(), "prompt": text() })),
        "TemplateAnswer": object(json!({ "prompt": text() })),
        "Props": any([object(json!({
            "role": { "const": "router" }, "max_instances": count(), "models_autoload": flag(), "build_info": text()
        })), object(json!({
            "default_generation_settings": object(json!({ "n_ctx": count(), "params": { "type": "object" } })),
            "total_slots": count(),
            "model_alias": text(),
            "model_path": { "type": ["string", "null"] },
            "chat_template": { "type": ["string", "null"] },
            "bos_token": text(),
            "eos_token": text(),
            "device": text(),
            "exact": flag(),
            "is_sleeping": flag(),
            "build_info": text(),
        }))]),
        "TokenizerInfo": object(json!({
            "bos_token": { "type": ["string", "null"] },
            "eos_token": { "type": ["string", "null"] },
            "add_bos_token": flag(),
            "model_max_length": count(),
            "chat_template": { "type": ["string", "null"] },
        })),
        "Adapters": list(object(json!({ "id": count(), "path": text(), "scale": number() }))),
        "Done": object(json!({ "success": { "const": true } })),
        "Trace": object(json!({
            "object": { "const": "trace" },
            "trace_id": text(),
            "created": count(),
            "model": text(),
            "answers": list(object(json!({
                "index": count(),
                "prompt": object(json!({ "tokens": list(count()), "text": text() })),
                "reused": or_null(count()),
                "settings": { "type": "object" },
                "seed": or_null(count()),
                "tokens": list(count()),
                "text": text(),
                "probabilities": list(likely("logprob", "top_logprobs")),
                "finish_reason": or_null(reason()),
            }))),
        })),
        "Diagnosis": object(json!({
            "object": { "const": "diagnosis" },
            "trace_id": text(),
            "stands": flag(),
            "answers": list(object(json!({
                "stands": flag(),
                "reason": { "type": ["string", "null"] },
                "alone": object(json!({
                    "tokens": count(),
                    "expected": text(),
                    "first_difference": or_null(count()),
                    "largest_difference": number(),
                })),
                "operations": object(json!({
                    "prompt_tokens": count(), "written_tokens": count(), "classes": list(json!({ "type": "object" }))
                })),
            }))),
        })),
        "Slots": list(object(json!({ "id": count(), "n_ctx": count(), "is_processing": flag() }))),
        "EmbeddingsAnswer": any([
            object(json!({
                "object": { "const": "list" },
                "data": list(object(json!({
                    "object": { "const": "embedding" }, "index": count(), "embedding": any([vector(), text()])
                }))),
                "model": text(),
                "usage": read,
            })),
            named("RowsAnswer"),
        ]),
        "RowsAnswer": list(object(json!({ "index": count(), "embedding": list(vector()) }))),
        "RerankAnswer": any([
            object(json!({
                "model": text(),
                "object": { "const": "list" },
                "usage": read,
                "results": list(score("relevance_score")),
            })),
            list(score("score")),
        ]),
        "OllamaGenerateAnswer": ollama("response", text()),
        "OllamaChatAnswer": ollama("message", object(json!({ "role": { "const": "assistant" }, "content": text() }))),
        "OllamaEmbedAnswer": object(json!({
            "model": text(), "embeddings": list(vector()), "total_duration": count(), "prompt_eval_count": count()
        })),
        "OllamaEmbeddingsAnswer": object(json!({ "embedding": vector() })),
        "OllamaModels": object(json!({ "models": list(entry) })),
        "OllamaModel": object(json!({
            "template": text(),
            "details": details(),
            "model_info": { "type": "object" },
            "capabilities": list(text()),
            "modified_at": text(),
        })),
        "OllamaVersion": object(json!({ "version": text() })),
        "Error": object(json!({
            "error": object(json!({
                "message": text(),
                "type": text(),
                "param": { "type": ["string", "null"] },
                "code": { "type": ["string", "null"] },
            })),
        })),
        "AnthropicError": object(json!({
            "type": { "const": "error" },
            "error": object(json!({ "type": text(), "message": text() })),
        })),
        "OllamaError": object(json!({ "error": text() })),
    }))
}

fn details() -> Value {
    object(json!({
        "format": { "const": "gguf" }, "family": text(), "parameter_size": text(), "quantization_level": text()
    }))
}
