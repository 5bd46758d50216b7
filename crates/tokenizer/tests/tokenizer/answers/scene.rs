//! Conversations in which a model thinks and calls tools, as the templates of the fixtures write them.

use candor_tokenizer::{AnswerFormat, ChatContext, ChatTemplate, CivilTime, Message, Part};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};

use super::parts::{call, reasoning};

pub const QUESTION: &str = "What is the weather?";

pub fn source(path: &Path) -> String {
    if path.extension().is_some_and(|extension| extension == "json") {
        return candor_testing::json(path)["chat_template"].as_str().unwrap().to_owned();
    }
    std::fs::read_to_string(path).unwrap()
}

/// All templates by name.
pub fn templates(fixtures: &Path) -> BTreeMap<String, ChatTemplate> {
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
pub struct Scene {
    pub tools: Value,
    pub arguments: Vec<Value>,
    pub reasoning: Option<&'static str>,
}

impl Scene {
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        ["get_weather", "now"].into_iter().zip(&self.arguments)
    }

    pub fn context(&self, add_generation_prompt: bool) -> ChatContext {
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
    pub fn render(&self, template: &ChatTemplate, format: &AnswerFormat) -> Option<(String, String)> {
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
pub fn same_start(prompt: &str, whole: &str) -> usize {
    let same = prompt.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
    let same = (0..=same).rev().find(|at| whole.is_char_boundary(*at)).unwrap();
    let mark = whole[..same].rfind(['<', '[']).filter(|at| !whole[*at..same].contains(['>', ']', '\n']));
    mark.unwrap_or(same)
}

/// An answer without what ends the model's turn.
pub fn turn<'t>(way: &str, answer: &'t str) -> &'t str {
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
