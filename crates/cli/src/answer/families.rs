//! What the terminal shows of the answers of every family that the answer parser knows: the templates of the fixtures write an
//! answer, which comes in any pieces, and is shown as its parts are.

use std::{collections::BTreeSet, fs, path::Path};

use candor::{AnswerFormat, AnswerPart, ChatContext, ChatTemplate, CivilTime, Message, ToolCall};
use serde_json::{Value, json};

use super::{
    Reader,
    printer::{self, Printer},
};
use crate::paint::Paint;

const QUESTION: &str = "What is the weather?";
const THOUGHT: &str = "Think\nof it.";
const SAID: &str = "It rains.";

/// The templates of the fixtures by name.
fn templates(fixtures: &Path) -> Vec<(String, ChatTemplate)> {
    let folders = ["", "mistralrs", "ollama"].map(|place| fixtures.join("templates").join(place));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let mut all: Vec<(String, ChatTemplate)> = files
        .filter(|path| path.is_file())
        .map(|path| {
            let source = match path.extension().is_some_and(|extension| extension == "json") {
                true => candor_testing::json(&path)["chat_template"].as_str().unwrap().to_owned(),
                false => fs::read_to_string(&path).unwrap(),
            };
            (path.file_name().unwrap().to_str().unwrap().to_owned(), ChatTemplate::new(&source).unwrap())
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn tools() -> Value {
    let properties = json!({"city": {"type": "string", "description": "The city"},
        "days": {"type": "integer", "description": "How many days"}});
    let parameters = json!({"type": "object", "properties": properties, "required": ["city"]});
    json!([{"type": "function", "function": {"name": "get_weather", "description": "It", "parameters": parameters}}])
}

fn call() -> AnswerPart {
    let arguments = json!({"city": "Bern", "days": 3}).as_object().unwrap().clone();
    AnswerPart::Call(ToolCall { name: "get_weather".into(), arguments, id: None })
}

fn context(add_generation_prompt: bool) -> ChatContext {
    let extra = json!({"enable_thinking": true, "thinking": true, "preserve_thinking": true});
    ChatContext {
        add_generation_prompt,
        tools: Some(tools()),
        now: CivilTime::new(2024, 7, 26, 12, 34, 56),
        extra: extra.as_object().unwrap().clone(),
        ..ChatContext::default()
    }
}

/// The prompt and the answer to it, as the template has both, without what ends the turn.
fn written(template: &ChatTemplate, format: &AnswerFormat, parts: &[AnswerPart]) -> Option<(String, String)> {
    let prompt = template.render(&[Message::user(QUESTION)], &context(true)).ok()?;
    let whole = template.render(&[Message::user(QUESTION), format.message(parts)], &context(false)).ok()?;
    let same = prompt.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
    let same = (0..=same).rev().find(|at| whole.is_char_boundary(*at))?;
    // Not within a mark.
    let mark = whole[..same].rfind(['<', '[']).filter(|at| !whole[*at..same].contains(['>', ']', '\n']));
    let answer = whole[mark.unwrap_or(same)..].to_owned();
    let answer = answer.split_once("[/INST]").map_or(answer.as_str(), |(_, answer)| answer).to_owned();
    let answer = answer.strip_prefix("<|CHATBOT_TOKEN|>").unwrap_or(&answer);
    let end = match (answer.find(SAID), format.tools()) {
        (Some(at), _) if parts.iter().any(|part| matches!(part, AnswerPart::Content(_))) => at + SAID.len(),
        (_, Ok("tool-calls")) if answer.contains("\n<|end|>") => answer.find("\n<|end|>").unwrap_or_default(),
        _ => ENDS.iter().filter_map(|end| answer.find(end)).min().unwrap_or(answer.len()),
    };
    Some((prompt, answer[..end].to_owned()))
}

/// Templates whose answers begin with a recipient, which the answer parser does not know: it is printed.
const UNKNOWN: [&str; 2] = ["glimmer", "functionary-medium-v3.2"];

/// What ends a turn.
const ENDS: [&str; 20] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|call|>",
    "<|calls|>",
    "<|return|>",
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

/// What is shown of an answer that comes in these pieces.
fn shown(format: &AnswerFormat, prompt: &str, pieces: &[&str]) -> String {
    let mut reader = Reader::new(Some(format.parser(prompt, Some(&tools()))), false, Paint::Colours);
    let mut out = Vec::new();
    pieces.iter().for_each(|piece| reader.push(piece, &mut out).unwrap());
    reader.finish(&mut out).unwrap();
    joined(out)
}

/// Text whose dim pieces are one where nothing is between them.
fn joined(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap().replace("\u{1b}[0m\u{1b}[2m", "")
}

/// What is shown of parts.
fn of_parts(parts: &[AnswerPart]) -> String {
    let mut printer = Printer::new(false);
    let mut out = Vec::new();
    parts.iter().for_each(|part| printer::write(&printer.push(part), Paint::Colours, &mut out).unwrap());
    printer::write(&printer.finish(), Paint::Colours, &mut out).unwrap();
    joined(out)
}

#[test]
fn every_family_s_answers_are_shown_as_their_parts_in_whatever_pieces_they_come() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let (thought, said) = (AnswerPart::Reasoning(THOUGHT.into()), AnswerPart::Content(SAID.into()));
    let answers = [vec![call()], vec![thought.clone(), call()], vec![thought.clone(), said.clone()], vec![said]];
    let (mut count, mut thoughts, mut ways, mut wrong) = (0, 0, BTreeSet::new(), Vec::new());
    for (name, template) in templates(&fixtures) {
        let format = template.answer_format();
        for parts in &answers {
            let calls = parts.contains(&call());
            if calls && format.tools().is_err() {
                continue;
            }
            let Some((prompt, answer)) = written(&template, &format, parts) else { continue };
            let has = |part: &AnswerPart| match part {
                AnswerPart::Reasoning(_) => answer.contains(THOUGHT),
                AnswerPart::Content(_) => answer.contains(SAID),
                AnswerPart::Call(_) => answer.contains("Bern"),
            };
            let written: Vec<AnswerPart> = parts.iter().filter(|part| has(part)).cloned().collect();
            // A template may leave out what was thought, though its prompt has begun it, or the whole answer.
            let opened =
                ["<think>", "[THINK]", "steps:", "<|think|>"].iter().any(|mark| prompt.trim_end().ends_with(mark));
            let thinks = written.contains(&thought);
            if written.is_empty() || written.len() < parts.len() - usize::from(parts.contains(&thought)) {
                continue;
            }
            if opened && !thinks || parts.contains(&thought) && !thinks && answer.contains("think") {
                continue;
            }
            let whole = shown(&format, &prompt, &[&answer]);
            // Some templates indent what is said.
            let expected = of_parts(&written);
            if whole.trim() != expected.trim() && !UNKNOWN.iter().any(|unknown| name.contains(unknown)) {
                wrong.push(format!("{name}: expected {expected:?}, got {whole:?} of {answer:?}"));
            }
            for (cut, _) in answer.char_indices() {
                let halves = shown(&format, &prompt, &[&answer[..cut], &answer[cut..]]);
                assert_eq!(halves, whole, "{name}: cut at {cut}: {answer:?}");
            }
            let letters: Vec<String> = answer.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(shown(&format, &prompt, &letters), whole, "{name}: {answer:?}");
            count += 1;
            thoughts += usize::from(thinks);
            if calls {
                ways.extend(format.tools());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 150 && thoughts >= 40 && ways.len() >= 20, "{count} answers, {thoughts} thoughts, {ways:?}");
}
