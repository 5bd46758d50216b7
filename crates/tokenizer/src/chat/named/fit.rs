//! Which named template a vocabulary was made for: where the tokens that stand around its messages are there as such, and
//! nothing that another template would have.

use crate::chat::template::ChatTemplate;
use crate::kind::Kind;
use crate::tokenizer::Tokenizer;

/// A template that a vocabulary's tokens were made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemplateFit {
    /// Its name, for [`ChatTemplate::named`].
    pub name: &'static str,
    /// The token with which a model that was trained on it ends an answer.
    pub end: u32,
}

/// The marks of a template.
struct Marks {
    name: &'static str,
    /// The token that ends an answer, or those that may.
    ends: &'static [&'static str],
    /// What else must be there.
    with: &'static [&'static str],
    /// What must not: it belongs to another template.
    without: &'static [&'static str],
    /// `tokenizer.ggml.model`, where it makes a difference.
    model: Option<&'static str>,
}

const fn marks(name: &'static str, ends: &'static [&'static str], with: &'static [&'static str]) -> Marks {
    Marks { name, ends, with, without: &[], model: None }
}

/// The system prompt's marks, from Mistral's version 7 on.
const SYSTEM: &str = "[SYSTEM_PROMPT]";
const INST: &[&str] = &["[INST]", "[/INST]"];
const INST_SYSTEM: &[&str] = &["[INST]", "[/INST]", SYSTEM];
const NO_SYSTEM: &[&str] = &[SYSTEM];

const MARKS: &[Marks] = &[
    Marks {
        without: &["<|im_sep|>", "<|im_middle|>", "<end_of_utterance>"],
        ..marks("chatml", &["<|im_end|>"], &["<|im_start|>"])
    },
    marks("phi4", &["<|im_end|>"], &["<|im_start|>", "<|im_sep|>"]),
    marks("kimi-k2", &["<|im_end|>"], &["<|im_user|>", "<|im_assistant|>", "<|im_middle|>"]),
    marks("llama3", &["<|eot_id|>"], &["<|start_header_id|>", "<|end_header_id|>"]),
    marks("llama4", &["<|eot|>"], &["<|header_start|>", "<|header_end|>"]),
    marks("gemma", &["<end_of_turn>"], &["<start_of_turn>"]),
    Marks {
        without: &["<|im_start|>", "<|content|>", "<|channel|>"],
        ..marks("phi3", &["<|end|>"], &["<|user|>", "<|assistant|>"])
    },
    Marks { without: NO_SYSTEM, model: Some("llama"), ..marks("mistral-v3", &["</s>"], INST) },
    Marks { without: NO_SYSTEM, model: Some("gpt2"), ..marks("mistral-v3-tekken", &["</s>"], INST) },
    Marks { model: Some("llama"), ..marks("mistral-v7", &["</s>"], INST_SYSTEM) },
    Marks { model: Some("gpt2"), ..marks("mistral-v7-tekken", &["</s>"], INST_SYSTEM) },
    Marks {
        without: &["<|START_RESPONSE|>"],
        ..marks(
            "command-r",
            &["<|END_OF_TURN_TOKEN|>"],
            &["<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"],
        )
    },
    marks("deepseek3", &["<｜end▁of▁sentence｜>"], &["<｜User｜>", "<｜Assistant｜>"]),
    marks("granite", &["<|end_of_text|>"], &["<|start_of_role|>", "<|end_of_role|>"]),
    marks("gpt-oss", &["<|return|>"], &["<|start|>", "<|message|>", "<|channel|>", "<|end|>"]),
    marks("solar-open", &["<|end|>", "<|flush|>"], &["<|begin|>", "<|content|>"]),
    marks("seed_oss", &["<seed:eos>"], &["<seed:bos>"]),
    marks("megrez", &["<|turn_end|>"], &["<|role_start|>", "<|role_end|>"]),
    Marks {
        without: &["[|tool|]"],
        ..marks("exaone3", &["[|endofturn|]"], &["[|system|]", "[|user|]", "[|assistant|]"])
    },
    marks("exaone4", &["[|endofturn|]"], &["[|system|]", "[|user|]", "[|assistant|]", "[|tool|]"]),
];

impl ChatTemplate {
    /// The named template that the tokens of a vocabulary were made for: its marks are there as tokens of their own. `None`
    /// where no template's are, or those of several and the EOS token is not one template's.
    pub fn fitting(tokenizer: &Tokenizer) -> Option<TemplateFit> {
        let special = |text: &&str| {
            let id = tokenizer.id(text)?;
            tokenizer.vocab.kind(id).any(Kind::CONTROL.with(Kind::USER_DEFINED)).then_some(id)
        };
        let fits = MARKS.iter().filter_map(|marks| {
            let is_whole = marks.with.iter().all(|text| special(text).is_some());
            let is_other = marks.without.iter().any(|text| special(text).is_some());
            let is_kind = marks.model.is_none_or(|model| model == tokenizer.model_name());
            let end = marks.ends.iter().find_map(special)?;
            (is_whole && !is_other && is_kind).then_some(TemplateFit { name: marks.name, end })
        });
        let mut fits: Vec<TemplateFit> = fits.collect();
        if fits.len() > 1 {
            fits.retain(|fit| Some(fit.end) == tokenizer.eos());
        }
        <[TemplateFit; 1]>::try_from(fits).ok().map(|[fit]| fit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fit_has_a_template_whose_source_has_the_marks() {
        for marks in MARKS {
            let template = ChatTemplate::named(marks.name).unwrap_or_else(|| panic!("{}", marks.name));
            // Some write the role between two halves of a token.
            let source = template.source().replace("<|' ~ m.role ~ '|>", "<|user|><|assistant|>");
            let missing: Vec<_> = marks.with.iter().filter(|text| !source.contains(**text)).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", marks.name);
            assert!(marks.ends.iter().any(|end| source.contains(end)), "{}", marks.name);
        }
    }
}
