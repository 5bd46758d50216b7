//! The check before a GPU's first token: a model's first layers and its head, a prompt at once and a token after it.

use std::collections::BTreeSet;

use candor_gguf::Gguf;
use candor_models::{Begin, Config, End, Error, Part};
use candor_ops::{KvFormat, Ops};

use crate::{Depth, Operations, Plan, operations, operations::awaited};

/// Tokens of the prompt: more than a tile of rows, so that there is a whole tile and a part of one.
const PROMPT: usize = 70;

/// Checks a model's first layers, as many as have all that any of them has, and its head, at [`Depth::Quick`]. `keys` and
/// `values` are the formats of the cache; `exact` says whether the backend promises to take the inputs of products as they are. Where the host can wait for a device, so does
/// this, and is ready at once; in a browser it awaits what it reads.
///
/// # Errors
/// If the model cannot be run, the backend cannot hold this part of it, or its device fails.
pub async fn quick<B: Ops + Clone>(
    gguf: &Gguf,
    ops: B,
    keys: KvFormat,
    values: KvFormat,
    exact: bool,
) -> Result<Operations, Error> {
    let config = Config::from_gguf(gguf)?;
    let room = config.context.saturating_sub(1);
    // Ids that have no order, each within the vocabulary.
    let prompt: Vec<u32> = (0..PROMPT.min(room).max(1)).map(|i| ((i * 7919 + 11) % config.vocab) as u32).collect();
    let part = Part { begin: Begin::Tokens, layers: 0..first_layers(gguf, &config), end: End::Logits };
    // An encoder reads the same.
    let text: &[u32] = if config.start.is_some() { &prompt } else { &[] };
    let depth = Depth::Quick;
    let plan = Plan { text, prompt: &prompt, decode: 1, after: &[], depth, keys, values, exact, part: Some(part) };
    // What waits reads everything as it comes, and need not keep it.
    if cfg!(target_arch = "wasm32") { awaited(gguf, ops, &plan).await } else { operations(gguf, ops, &plan) }
}

/// How many of the first layers have every kind of tensor in every format, and every mask, that is in any of them.
fn first_layers(gguf: &Gguf, config: &Config) -> usize {
    // A tensor's name within its layer, its format, and the layer.
    let tensors = gguf.tensors().iter().filter_map(|tensor| {
        let (layer, name) =
            tensor.name.strip_prefix("dec.").unwrap_or(&tensor.name).strip_prefix("blk.")?.split_once('.')?;
        Some(((name, tensor.format.name()), layer.parse::<usize>().ok()?))
    });
    let tensors: Vec<_> = tensors.collect();
    let kinds = |count: usize| {
        let tensors: BTreeSet<_> = tensors.iter().filter(|(_, layer)| *layer < count).map(|(kind, _)| kind).collect();
        let masks: BTreeSet<_> = config.masks.iter().take(count).map(|mask| format!("{mask:?}")).collect();
        (tensors, masks)
    };
    let all = kinds(usize::MAX);
    (1..config.layers).find(|&count| kinds(count) == all).unwrap_or(config.layers)
}
