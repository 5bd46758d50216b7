//! Where the content of an answer begins: after reasoning, whether the prompt opened it or the answer does or does not.

use std::sync::Arc;

use candor::{AnswerStart, GenerateOptions, Gguf, LoadOptions, Model, Sampling, SessionOptions, StopReason};
use candor_grammar::{Grammar, Vocabulary};
use candor_testing::Parrot;

use crate::reader::logits;

const THINKS: AnswerStart = AnswerStart::Reasoning { open: Some("<think>"), close: "</think>" };
const OPENED: AnswerStart = AnswerStart::Reasoning { open: None, close: "</think>" };

fn model(parrot: Parrot) -> Model {
    let gguf = Gguf::from_bytes(parrot.writer().to_bytes().unwrap()).unwrap();
    Model::from_gguf(gguf, &LoadOptions::default().threads(1)).unwrap()
}

/// What a model says whose content is to be three letters.
fn says(pieces: &[&str], control: &[&str], start: AnswerStart) -> (String, StopReason) {
    let model = model(Parrot::says(pieces).control(control));
    let vocabulary = Arc::new(Vocabulary::new(model.tokenizer()).unwrap());
    let marks: Vec<u32> = control.iter().map(|mark| model.tokenizer().id(mark).unwrap()).collect();
    let mask = Grammar::regex("[ab]{3}").unwrap().mask(&vocabulary).unwrap().after(start, &marks);
    let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(40).marks(marks).processor(mask);
    let mut session = model.session(&SessionOptions::default().context(64)).unwrap();
    let mut generation = session.generate(&model.encode_prompt("x"), options).unwrap();
    let text = generation.by_ref().map(|piece| piece.unwrap().text).collect();
    (text, generation.stop_reason().unwrap())
}

#[test]
fn reasoning_is_free_and_content_is_not() {
    for control in [&[][..], &["<think>", "</think>"]] {
        for (pieces, start, said) in [
            (&["<think>", "Well.", "</think>", "\n\n", "aba"][..], THINKS, "<think>Well.</think>\n\naba"),
            (&["<think>", "Well.", "</think>", "aba"], THINKS, "<think>Well.</think>aba"),
            (&["Well.", "</think>", "\n", "aba"], OPENED, "Well.</think>\naba"),
            (&["aba"], THINKS, "aba"),
        ] {
            assert_eq!(says(pieces, control, start), (said.to_owned(), StopReason::EndOfText), "{pieces:?}");
        }
    }
}

#[test]
fn content_of_another_shape_does_not_come() {
    let (text, reason) = says(&["<think>", "Well.", "</think>", "Hello"], &[], THINKS);
    let content = text.strip_prefix("<think>Well.</think>").unwrap().trim_start();
    assert!(reason == StopReason::EndOfText && content.len() == 3, "{text:?}");
    assert!(content.chars().all(|c| "ab".contains(c)), "{text:?}");
    // Where the vocabulary has no mark, nothing can open reasoning.
    let (text, reason) = says(&["Hello"], &[], THINKS);
    assert!(reason == StopReason::EndOfText && text.len() == 3, "{text:?}");
}

#[test]
fn reasoning_does_not_end_the_answer() {
    // The model would end here.
    let (text, reason) = says(&["<think>", "Well."], &[], THINKS);
    assert!(reason == StopReason::MaxTokens && text.starts_with("<think>Well."), "{text:?}");
}

#[test]
fn no_token_closes_reasoning_and_says_more() {
    let model = model(Parrot::says(&["</think", ">aba", ">\n", "x</think>y", "Well"]));
    let tokenizer = model.tokenizer();
    let vocabulary = Arc::new(Vocabulary::new(tokenizer).unwrap());
    let mut mask = Grammar::regex("[ab]{3}").unwrap().mask(&vocabulary).unwrap().after(OPENED, &[]);
    let id = |token: &str| tokenizer.id(token).unwrap();
    let mut tokens = vec![id("Well")];
    let mut process = |tokens: &[u32], token: &str| {
        let mut logits = vec![0.0; tokenizer.vocab_size()];
        candor::sampler::LogitsProcessor::process(&mut mask, tokens, &mut logits);
        logits[id(token) as usize] == 0.0
    };
    assert!(process(&tokens, ">aba"), "nothing is there of the mark");
    assert!(!process(&tokens, "x</think>y"));
    tokens.push(id("</think"));
    assert!(!process(&tokens, ">aba"));
    assert!(process(&tokens, ">\n"));
}

#[test]
fn messages_come_before_the_one_that_is_content() {
    let control = ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"];
    let parrot = Parrot::says(&["analysis", "final", "Hm.", "aba"]).control(&control).control(&["<|call|>"]);
    let model = model(parrot.eos("<|return|>"));
    let tokenizer = model.tokenizer();
    let vocabulary = Arc::new(Vocabulary::new(tokenizer).unwrap());
    let id = |token: &str| tokenizer.id(token).unwrap();
    let marks: Vec<u32> = control.iter().map(|mark| id(mark)).collect();
    let start = AnswerStart::Messages { channel: "<|channel|>", name: "final", message: "<|message|>" };
    let mut mask = Grammar::regex("[ab]{3}").unwrap().mask(&vocabulary).unwrap().after(start, &marks);
    let mut tokens = vec![id("Hm.")];
    let words = ["<|channel|>", "analysis", "<|message|>", "Hm.", "<|end|>", "<|start|>", "<|channel|>", "final"];
    for word in words.into_iter().chain(["<|message|>"]) {
        let mut left = vec![0.0; tokenizer.vocab_size()];
        candor::sampler::LogitsProcessor::process(&mut mask, &tokens, &mut left);
        assert!(left[id(word) as usize] == 0.0 && left[id("<|return|>") as usize] == f32::NEG_INFINITY, "{word}");
        tokens.push(id(word));
    }
    let left = logits(&mut mask, tokenizer, &tokens);
    assert!(left[id("Hm.") as usize] == f32::NEG_INFINITY && left[id("aba") as usize] == 0.0);
    tokens.push(id("aba"));
    let left = logits(&mut mask, tokenizer, &tokens);
    assert!(left[id("<|return|>") as usize] == 0.0 && left[id("aba") as usize] == f32::NEG_INFINITY);
}
