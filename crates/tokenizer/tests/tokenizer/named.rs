//! Templates by name against llama.cpp's own (`tools/goldens/named_templates.py`), and which one fits a vocabulary.

use std::path::Path;

use candor_gguf::{Array, Metadata, Value};
use candor_tokenizer::{ChatContext, ChatTemplate, Message, Tokenizer};

#[test]
fn every_name_gives_llama_cpp_s_prompts() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/chat_named.json");
    let golden = candor_testing::json(&path);
    let conversations: Vec<Vec<Message>> = golden["conversations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turns| {
            let turns = turns.as_array().unwrap().iter();
            turns.map(|turn| Message::new(turn[0].as_str().unwrap(), turn[1].as_str().unwrap())).collect()
        })
        .collect();
    let prompts = golden["prompts"].as_object().unwrap();
    let mut names: Vec<&str> = prompts.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(ChatTemplate::names(), names);
    let mut wrong = Vec::new();
    for (name, expected) in prompts {
        let template = ChatTemplate::named(name).unwrap();
        for (messages, expected) in conversations.iter().zip(expected.as_array().unwrap()) {
            for (add_generation_prompt, expected) in [true, false].into_iter().zip(expected.as_array().unwrap()) {
                let context = ChatContext { add_generation_prompt, ..ChatContext::default() };
                let got = template.render(messages, &context);
                if got.as_deref().ok() != expected.as_str() {
                    wrong.push(format!("{name}: expected {expected}, got {got:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A vocabulary with these control tokens besides `<s>` and `</s>`, whose EOS token is the last of them.
pub fn with(model: &str, specials: &[&str]) -> Tokenizer {
    let mut tokens: Vec<(String, i32)> = ["<unk>", "<s>", "</s>"].map(|text| (text.to_owned(), 3)).into();
    tokens[0].1 = 2;
    tokens.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), 6)));
    tokens.extend(specials.iter().filter(|text| **text != "</s>").map(|text| ((*text).to_owned(), 3)));
    let eos = specials.last().map_or(2, |last| tokens.iter().position(|(text, _)| text == last).unwrap());
    let scores = vec![0.0f32; tokens.len()];
    let (texts, types): (Vec<String>, Vec<i32>) = tokens.into_iter().unzip();
    let mut metadata = Metadata::default();
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(texts)));
    metadata.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));
    metadata.insert("tokenizer.ggml.model", Value::String(model.to_owned()));
    metadata.insert("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(Vec::new())));
    metadata.insert("tokenizer.ggml.pre", Value::String("gpt-2".to_owned()));
    metadata.insert("tokenizer.ggml.eos_token_id", Value::U32(eos as u32));
    Tokenizer::from_metadata(&metadata).unwrap()
}

#[test]
fn a_vocabulary_s_marks_tell_its_template() {
    let cases: &[(&str, &[&str], Option<&str>)] = &[
        ("llama", &[], None),
        ("llama", &["<|im_start|>"], None),
        ("llama", &["<|im_start|>", "<|im_end|>"], Some("chatml")),
        ("llama", &["<|im_start|>", "<|im_end|>", "<|im_sep|>"], Some("phi4")),
        ("llama", &["<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>"], Some("kimi-k2")),
        ("llama", &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], Some("llama3")),
        ("llama", &["<start_of_turn>", "<end_of_turn>"], Some("gemma")),
        ("llama", &["<|user|>", "<|assistant|>", "<|end|>"], Some("phi3")),
        ("llama", &["[INST]", "[/INST]", "</s>"], Some("mistral-v3")),
        ("gpt2", &["[INST]", "[/INST]", "</s>"], Some("mistral-v3-tekken")),
        ("llama", &["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "</s>"], Some("mistral-v7")),
        ("gpt2", &["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "</s>"], Some("mistral-v7-tekken")),
        ("llama", &["<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"], Some("gpt-oss")),
        ("llama", &["<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"], Some("deepseek3")),
        // Two templates' marks: EOS decides, where it can.
        (
            "llama",
            &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>"],
            Some("chatml"),
        ),
        (
            "llama",
            &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "</s>"],
            None,
        ),
    ];
    for (model, specials, expected) in cases {
        let tokenizer = with(model, specials);
        let fit = ChatTemplate::fitting(&tokenizer);
        assert_eq!(fit.map(|fit| fit.name), *expected, "{model} {specials:?}");
        if let Some(fit) = fit {
            assert!(specials.contains(&tokenizer.token(fit.end).unwrap()), "{model} {specials:?}");
        }
    }
}

#[test]
fn real_vocabularies_fit_their_own_or_none() {
    // As text, and not as a token of its own.
    let tokenizer = with("llama", &["<|im_end|>"]);
    assert_eq!(ChatTemplate::fitting(&tokenizer), None);
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let vocabularies = candor_testing::vocabularies(&fixtures, folder);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&vocabularies).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|extension| extension == "gguf") {
            let gguf = candor_gguf::Gguf::open(&path).unwrap();
            let Ok(tokenizer) = Tokenizer::from_metadata(gguf.metadata()) else { continue };
            if let Some(fit) = ChatTemplate::fitting(&tokenizer) {
                found.push(format!("{} {}", name.trim_start_matches("ggml-vocab-"), fit.name));
            }
        }
    }
    found.sort();
    assert_eq!(found, ["llama-bpe llama3", "phi-3 phi3", "qwen2 chatml", "qwen35 chatml"]);
}
