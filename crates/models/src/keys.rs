//! Numbers of a file's metadata, under the keys of its architecture.

use candor_gguf::{Array, Gguf, Value};

use crate::Error;

const GRANITES: [&str; 3] = ["granite", "granitemoe", "granitehybrid"];

/// Those whose files say how experts are weighed.
const WEIGHING: [&str; 6] = ["afmoe", "deepseek2", "dots1", "exaone-moe", "glm4moe", "nemotron_h_moe"];

/// Keys that mean something to these architectures alone, as llama.cpp has it: in files of others they are not there.
const READ_BY: &[(&str, &[&str])] = &[
    ("attention.scale", &GRANITES),
    ("attention.clamp_kqv", &["dbrx", "mpt", "olmo"]),
    ("attention.max_alibi_bias", &["mpt"]),
    ("attention.temperature_scale", &["deepseek2", "mistral3"]),
    ("attn_logit_softcapping", &["gemma2"]),
    ("final_logit_softcapping", &["gemma2", "gemma3", "gemma4"]),
    ("logit_scale", &[GRANITES[0], GRANITES[1], GRANITES[2], "cohere2", "command-r", "minicpm", "t5"]),
    ("embedding_scale", &[GRANITES[0], GRANITES[1], GRANITES[2], "minicpm"]),
    ("residual_scale", &[GRANITES[0], GRANITES[1], GRANITES[2], "minicpm"]),
    ("use_parallel_residual", &["gptneox"]),
    ("rescale_every_n_layers", &["rwkv6"]),
    ("rope.scaling.yarn_beta_fast", &["mistral3"]),
    ("rope.scaling.yarn_beta_slow", &["mistral3"]),
    ("rope.scaling.yarn_log_multiplier", &["deepseek2", "mistral3"]),
    ("rope.scaling.yarn_truncate", &["gpt-oss"]),
    ("expert_weights_norm", &WEIGHING),
    ("expert_weights_scale", &WEIGHING),
    ("expert_gating_func", &["afmoe", "deepseek2", "dots1", "exaone-moe", "glm4moe", "lfm2moe", "minimax-m2"]),
];

/// The metadata of an architecture.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) gguf: &'a Gguf,
    pub(crate) arch: &'static str,
}

impl<'a> Keys<'a> {
    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.arch)
    }

    pub(crate) fn missing(&self, key: &str) -> Error {
        Error::MissingKey(self.name(key))
    }

    pub(crate) fn bad(&self, key: &str, expected: &str, got: impl ToString) -> Error {
        Error::BadValue { key: self.name(key), expected: expected.into(), got: got.to_string() }
    }

    /// Whether the architecture gives a key a meaning.
    pub(crate) fn reads(&self, key: &str) -> bool {
        READ_BY.iter().all(|(limited, by)| *limited != key || by.contains(&self.arch))
    }

    /// A number that need not be there.
    pub(crate) fn number(&self, key: &str) -> Result<Option<usize>, Error> {
        if !self.reads(key) {
            return Ok(None);
        }
        Ok(self.gguf.metadata().u32(&self.name(key))?.map(|value| value as usize))
    }

    /// A number above zero that must be there.
    pub(crate) fn positive(&self, key: &str) -> Result<usize, Error> {
        match self.number(key)? {
            None => Err(self.missing(key)),
            Some(0) => Err(self.bad(key, "a positive number", 0)),
            Some(value) => Ok(value),
        }
    }

    /// A float that need not be there.
    pub(crate) fn float(&self, key: &str) -> Result<Option<f32>, Error> {
        if !self.reads(key) {
            return Ok(None);
        }
        Ok(self.gguf.metadata().f32(&self.name(key))?)
    }

    /// A yes or no that need not be there.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        if !self.reads(key) {
            return Ok(None);
        }
        Ok(self.gguf.metadata().bool(&self.name(key))?)
    }

    /// A number for each layer: an array, or one number for all. Yes counts as 1.
    pub(crate) fn per_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<usize>>, Error> {
        if !self.reads(key) {
            return Ok(None);
        }
        let (metadata, name) = (self.gguf.metadata(), self.name(key));
        let numbers: Vec<usize> = match metadata.get(&name) {
            None => return Ok(None),
            Some(Value::Array(Array::Bool(flags))) => flags.iter().map(|&flag| usize::from(flag)).collect(),
            Some(Value::Array(_)) => {
                let numbers = metadata.i32s(&name)?.unwrap_or_default();
                let positive = numbers.iter().map(|&number| usize::try_from(number));
                positive.collect::<Result<_, _>>().map_err(|_| self.bad(key, "no negative numbers", "one"))?
            }
            Some(_) => return Ok(self.number(key)?.map(|value| vec![value; layers])),
        };
        if numbers.len() < layers {
            return Err(self.bad(key, &format!("a number for each of {layers} layers"), numbers.len()));
        }
        Ok(Some(numbers[..layers].to_vec()))
    }
}
