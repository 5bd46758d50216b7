//! What a user can tell of a foreign engine's run. All of it is optional.

use std::collections::BTreeMap;

use candor::{Message, sampler::Sampling};
use serde::{Deserialize, Serialize};

use crate::{Key, Trace};

/// How the engine was to read the prompt's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The spelling of control tokens stands for them, as in a rendered template.
    #[default]
    Prompt,
    /// The spelling of control tokens is only text, as in a user's words.
    Plain,
}

/// Which tokens the engine's repetition penalties were to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Penalised {
    /// The last tokens, prompt included, as in llama.cpp and Hugging Face's Transformers.
    #[default]
    Context,
    /// The last tokens of the continuation only.
    Continuation,
}

/// What is known of a run. What is missing is not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Said {
    /// The prompt as typed, for a run that was no conversation.
    pub prompt: Option<String>,
    /// How the prompt was to be read.
    pub reading: Reading,
    /// The conversation, where it was one.
    pub messages: Vec<Message>,
    /// Further variables of the template: `tools`, `enable_thinking`...
    pub variables: serde_json::Map<String, serde_json::Value>,
    /// What the engine made of the conversation.
    pub rendered: Option<String>,
    /// Token ids that the engine made of the prompt, `[P]`.
    pub prompt_ids: Option<Vec<u32>>,
    /// Token ids that the engine generated, `[G]`, with the one that stopped it where it is known.
    pub generated_ids: Option<Vec<u32>>,
    /// What the engine printed for them.
    pub generated_text: Option<String>,
    /// The settings that the engine was given; what the user does not know has llama.cpp's default.
    pub sampling: Option<Sampling>,
    /// Which tokens the penalties were to look at.
    pub penalised: Penalised,
    /// Tokens that the engine had room for.
    pub context: Option<usize>,
    /// Logits by the place of the token that they follow, counted from the first of the prompt: row `P - 1` chose the
    /// first generated token. Each `[vocabulary]`.
    pub logits: BTreeMap<usize, Vec<f32>>,
}

impl Said {
    /// What a trace tells: prompt, ids, and `result_output` where it is complete and exact. Of a model that answers texts the
    /// prompt is the text; what the answer begins with is no part of what was generated, nor is the text of what penalties see.
    pub fn of(trace: &Trace) -> Said {
        let mut said = Said { prompt: trace.origin.prompt.clone(), ..Said::default() };
        let mut moved = 0;
        if let Some(ids) = &trace.origin.tokens {
            let (prompt, generated) = ids.split_at(trace.origin.prompt_tokens.unwrap_or(ids.len()).min(ids.len()));
            said.prompt_ids = Some(trace.origin.text.as_deref().unwrap_or(prompt).to_vec());
            // The last of the prompt chose the first generated token, whichever prompt that is.
            moved = said.prompt_ids.as_ref().map_or(0, Vec::len) as isize - prompt.len() as isize;
            if trace.origin.text.is_some() {
                said.penalised = Penalised::Continuation;
            }
            said.generated_ids = Some(generated.to_vec()).filter(|ids| !ids.is_empty());
        }
        if let Some(evidence) = trace.values.get(&Key::new("result_output", None))
            && let (crate::Known::All(values), Some(rows)) = (&evidence.known, &evidence.rows)
            && evidence.width > 0
            && evidence.precision == 0.0
        {
            let logits = values.chunks_exact(evidence.width).map(<[f32]>::to_vec);
            said.logits = rows.iter().map(|row| row.saturating_add_signed(moved)).zip(logits).collect();
        }
        said
    }

    pub(super) fn is_empty(&self) -> bool {
        let Said { prompt, messages, rendered, prompt_ids, generated_ids, generated_text, logits, .. } = self;
        let texts = prompt.is_none() && rendered.is_none() && generated_text.is_none();
        texts && messages.is_empty() && prompt_ids.is_none() && generated_ids.is_none() && logits.is_empty()
    }
}
