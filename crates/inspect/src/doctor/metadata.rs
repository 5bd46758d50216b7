//! Metadata that is known to go wrong: special tokens, rotary bases, windows, templates, sizes.

use candor::{ChatTemplate, Gguf, Metadata, Tokenizer};

use super::finding::Finding;

const EOS: &str = "tokenizer.ggml.eos_token_id";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const TEMPLATE: &str = "tokenizer.chat_template";
const PRE: &str = "tokenizer.ggml.pre";

/// The rotary base of files that do not say one.
const DEFAULT_BASE: f32 = 10_000.0;
/// The vocabulary of the Llama 3 family, and its rotary base.
const LLAMA_3_VOCAB: u64 = 128_256;
const LLAMA_3_BASE: f32 = 500_000.0;
/// From this context on, Llama 3 files scale their frequencies (3.1 and later).
const LLAMA_31_CONTEXT: u64 = 131_072;
/// Mistral 7B v0.1: a window of 4096 tokens, the base of Llama 2.
const MISTRAL_V1: Shape = Shape { dim: 4096, layers: 32, kv_heads: 8, ffn: 14_336, vocab: 32_000 };
/// Code Llama 7B to 34B: their vocabulary and rotary base.
const CODE_LLAMA_VOCAB: u64 = 32_016;

/// The numbers by which a model is recognised.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    dim: u64,
    layers: u64,
    kv_heads: u64,
    ffn: u64,
    vocab: u64,
}

/// What is odd about the metadata.
pub(super) fn findings(gguf: &Gguf) -> Vec<Finding> {
    let metadata = gguf.metadata();
    let vocab = metadata.strings("tokenizer.ggml.tokens").ok().flatten().map(<[String]>::len);
    let mut findings = special_tokens(metadata, vocab);
    findings.extend(tokenizer(metadata));
    findings.extend(template(metadata));
    findings.extend(rows(gguf, vocab));
    findings.extend(positions(gguf));
    findings
}

fn special_tokens(metadata: &Metadata, vocab: Option<usize>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut id = |key: &str| match metadata.u32(key) {
        Ok(id) => id,
        Err(error) => {
            findings.push(Finding::error(key, error.to_string(), "the id of a token belongs here"));
            None
        }
    };
    let (eos, bos) = (id(EOS), id(BOS));
    for (key, id) in [(EOS, eos), (BOS, bos)] {
        if let (Some(id), Some(vocab)) = (id, vocab)
            && id as usize >= vocab
        {
            let message = format!("token {id} is outside of the vocabulary of {vocab}");
            findings.push(Finding::error(
                key,
                message,
                "the vocabulary and the special tokens come from different models",
            ));
        }
    }
    if metadata.get(EOS).is_none() {
        let hint = "set the key to the id of the token that ends an answer, or answers may run on";
        findings.push(Finding::warning(EOS, "is missing", hint));
    }
    if let (Some(eos), true) = (eos, eos == bos) {
        let adds = metadata.bool("tokenizer.ggml.add_bos_token").ok().flatten().unwrap_or(true);
        let message = format!("EOS and BOS are the same token, {eos}");
        findings.push(if adds {
            Finding::warning(
                EOS,
                message,
                "every prompt begins with the token that ends answers: set one of them right",
            )
        } else {
            Finding::fine(EOS, message, "no BOS is added, so nothing begins with it: Qwen's files are so")
        });
    }
    findings
}

fn tokenizer(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    let model = metadata.str("tokenizer.ggml.model").ok().flatten();
    if model == Some("gpt2") && metadata.str(PRE).ok().flatten().is_none_or(str::is_empty) {
        let hint = "digits and contractions may split otherwise than in training: convert again, or set the key";
        findings.push(Finding::warning(PRE, "is missing", hint));
    }
    match Tokenizer::from_metadata(metadata) {
        Err(error) => {
            findings.push(Finding::error("tokenizer", error.to_string(), "the file cannot turn text into ids"));
        }
        Ok(tokenizer) => {
            if tokenizer.stop_ids().is_empty() {
                let hint = "set tokenizer.ggml.eos_token_id";
                findings.push(Finding::error("tokenizer", "no token ends an answer", hint));
            }
            let others = tokenizer.warnings().iter().filter(|warning| !warning.contains(PRE));
            findings.extend(others.map(|warning| Finding::warning("tokenizer", warning, "")));
        }
    }
    findings
}

fn template(metadata: &Metadata) -> Option<Finding> {
    match metadata.str(TEMPLATE) {
        Err(error) => Some(Finding::error(TEMPLATE, error.to_string(), "a Jinja template belongs here")),
        Ok(None) => {
            let hint = "right for a base model; a chat model needs its own, or its answers degrade";
            Some(Finding::warning(TEMPLATE, "is missing", hint))
        }
        Ok(Some(source)) => {
            let error = ChatTemplate::new(source).err()?;
            Some(Finding::error(TEMPLATE, error.to_string(), "chat is not possible with this template"))
        }
    }
}

/// Tokens against rows of the embedding.
fn rows(gguf: &Gguf, vocab: Option<usize>) -> Option<Finding> {
    const NAME: &str = "token_embd.weight";
    let rows = gguf.tensor(NAME)?.shape.get(1).copied().unwrap_or(1);
    let tokens = vocab? as u64;
    let message = format!("{tokens} tokens, {rows} rows");
    match tokens.cmp(&rows) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => {
            let hint = "tokens were added to the vocabulary and not to the weights, or they come from different models";
            Some(Finding::error(NAME, message, hint))
        }
        std::cmp::Ordering::Less => {
            let hint = "the embedding is padded to a round number of rows; no token reaches the rest";
            Some(Finding::fine(NAME, message, hint))
        }
    }
}

/// Context, rotary base, sliding window.
fn positions(gguf: &Gguf) -> Vec<Finding> {
    let mut findings = Vec::new();
    let metadata = gguf.metadata();
    let Ok(Some(arch)) = metadata.str("general.architecture") else { return findings };
    let name = |key: &str| format!("{arch}.{key}");
    let number = |key: &str| metadata.u64(&name(key)).ok().flatten();
    let context = number("context_length");
    if context.unwrap_or(0) == 0 {
        let message = if context.is_none() { "is missing" } else { "is 0" };
        findings.push(Finding::error(
            name("context_length"),
            message,
            "set it to the length that the model was trained on",
        ));
    }
    if arch != "llama" {
        return findings;
    }
    let context = context.unwrap_or(0);
    let rows = gguf.tensor("token_embd.weight").and_then(|tensor| tensor.shape.get(1).copied()).unwrap_or(0);
    let base_key = name("rope.freq_base");
    let base = metadata.f32(&base_key).ok().flatten().unwrap_or(DEFAULT_BASE);
    let shape = Shape {
        dim: number("embedding_length").unwrap_or(0),
        layers: number("block_count").unwrap_or(0),
        kv_heads: number("attention.head_count_kv").unwrap_or(0),
        ffn: number("feed_forward_length").unwrap_or(0),
        vocab: rows,
    };
    if rows == LLAMA_3_VOCAB && base == DEFAULT_BASE {
        let message = format!("is {base}, in a file with the vocabulary of Llama 3");
        findings.push(Finding::error(&base_key, message, format!("Llama 3 turns with a base of {LLAMA_3_BASE}")));
    }
    if rows == LLAMA_3_VOCAB && context >= LLAMA_31_CONTEXT && gguf.tensor("rope_freqs.weight").is_none() {
        let hint =
            "Llama 3.1 and later scale their frequencies: without it, text degrades with its length; convert again";
        findings.push(Finding::warning("rope_freqs.weight", format!("is missing, with a context of {context}"), hint));
    }
    if rows == CODE_LLAMA_VOCAB && context >= 16_384 && base == DEFAULT_BASE {
        let message = format!("is {base}, in a file of the shape of Code Llama");
        findings.push(Finding::warning(&base_key, message, "Code Llama turns with a base of 1000000"));
    }
    let window_key = name("attention.sliding_window");
    let windowed = shape == MISTRAL_V1 && base == DEFAULT_BASE && context > 4096;
    if windowed && metadata.get(&window_key).is_none() {
        let hint = "Mistral 7B v0.1 sees 4096 tokens back: keep the context to that, or set the key";
        findings.push(Finding::warning(&window_key, "is missing, in a file of the shape of Mistral 7B v0.1", hint));
    }
    findings
}
